"""The contract of a data set: a card, and a pure function from raw files to ``Windows``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Protocol

from tsimpute.core.limits import Limits
from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import ConfigError, SourceError


@dataclass(frozen=True)
class Source:
    """One raw file: its name under the root, where it can be had, and its checksum.

    ``sha256`` is "" where the publisher's file is not fixed.
    """

    name: str
    url: str = ""
    sha256: str = ""


@dataclass(frozen=True)
class OtherUnit:
    """A unit that a feature often has in other data, and how to recognise its values.

    Attributes:
        unit: its name.
        low, high: the median of values in it lies between them, and that of values in the data set's own unit hardly
            ever does.
        whole: whether most values are whole numbers; None = either.
    """

    unit: str
    low: float = -inf
    high: float = inf
    whole: bool | None = None


@dataclass(frozen=True)
class TableRules:
    """How to convert tables from elsewhere to the form of the data set.

    Attributes:
        features: names and units.
        step: in hours; of several values of a feature within one step the latest stands.
        descriptors: names of what describes a record and is no series of values.
        same_units: by unit, other ways to write it.
        other_units: by feature.
    """

    features: tuple[Feature, ...]
    step: float
    descriptors: tuple[str, ...] = ()
    same_units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    other_units: Mapping[str, tuple[OtherUnit, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Card:
    """What a user must know of a data set before using it; the long form is ``datasets/<name>.md``.

    ``limits`` gives the lowest and highest value of a feature that can be true ("*": of all features that it does not
    name); what lies outside is kept, and named by ``describe``. ``tables`` says how tables of other people are brought
    into the form of the data set; None = as they are.
    """

    title: str
    licence: str
    citation: str
    sources: tuple[Source, ...]
    synthetic: bool = False
    limits: Mapping[str, Limits] = field(default_factory=dict)
    tables: TableRules | None = None


class DatasetAdapter(Protocol):
    """A data set. Options are constructor arguments; loading draws no split, fits no scaler, downloads nothing."""

    name: str
    card: Card

    def load(self, root: Path | None) -> Windows:
        """The records under ``root``; a pure function of the files there.

        Args:
            root: folder that holds the data set's files; None for data sets that are generated.

        Raises:
            SourceError: files are missing; the message lists what was looked for and how to get it.
            DataError: a file is damaged; the message names file and line.
        """
        ...


def given_root(name: str, root: Path | None) -> Path:
    """The folder of a data set of files; None is refused."""
    if root is None:
        raise SourceError(f"{name}: expected the folder of its files, came None. Name it with --root or TSIMPUTE_DATA.")
    return Path(root)


def check_whole(adapter: DatasetAdapter, **least: int) -> None:
    """Refuses settings of a data set that are not whole numbers from these on."""
    for name, smallest in least.items():
        value = getattr(adapter, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
            raise ConfigError(f"{name}: expected a whole number from {smallest} on, came {value!r}.")

"""The contract of a data set: a card, and a pure function from raw files to ``Windows``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tsimpute.containers import Windows
from tsimpute.limits import Limits


@dataclass(frozen=True)
class Source:
    """One raw file: its name under the root, where it can be had, and its checksum.

    ``sha256`` is "" where the publisher's file is not fixed.
    """

    name: str
    url: str = ""
    sha256: str = ""


@dataclass(frozen=True)
class Card:
    """What a user must know of a data set before using it; the long form is ``datasets/<name>.md``.

    ``limits`` gives the lowest and highest value of a feature that can be true ("*": of all features that it does not
    name); what lies outside is kept, and named by ``describe``.
    """

    title: str
    licence: str
    citation: str
    sources: tuple[Source, ...]
    synthetic: bool = False
    limits: Mapping[str, Limits] = field(default_factory=dict)


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

"""The contract of an imputer. ``evaluate`` knows nothing else of a method; what fills tables wants a little more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.scaling.standardizer import Standardizer


class Imputer(Protocol):
    """Fills the missing cells of records with draws.

    The constructor stores settings and does nothing else; learnt state ends in ``_``.
    """

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    def fit(self, train: Windows, valid: Windows | None = None) -> Self:
        """Learns from the shown cells of ``train``; held-out cells of either set are never looked at as input."""
        ...

    def impute(self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None) -> Samples:
        """S completed versions of each record, in the data's own units.

        Args:
            windows: records to complete; held-out cells count as missing.
            n_samples: draws per record; deterministic methods repeat one answer.
            seed: with a record's own id it fixes that record's draws, whatever its batch, order or neighbours.
            fill: (N, K, L) bool, the cells to fill; None = every missing cell. Other missing cells stay NaN.

        Raises:
            NotFittedError: before ``fit`` or ``load``.
            DataError: other features, units or steps than those learnt.
        """
        ...

    def save(self, path: Path) -> None:
        """Writes all that ``load`` needs to ``path``, whole or not at all."""
        ...

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads what ``save`` wrote; runs no code from the file.

        Raises:
            CheckpointError: the file is foreign, damaged or of another layout.
        """
        ...


class TableModel(Protocol):
    """What the filling of tables needs of a fitted model.

    Attributes:
        whole_series: True: a record is a whole series, whose times count from one origin for all series. False: records
            are windows of ``n_steps_`` steps, whose times count from their first.
        features_: names and units, in the model's order.
        scaler_: of the scale in which quantiles are calibrated; its limits hold for all draws.
        time_unit_: of the times: see ``panel.Clock``; None = not known.
        time_step_: the usual distance between two steps; 0 where there is none.
        regular_: whether all training records keep to it; where not, records of any steps are taken.
        n_steps_: steps of a training record; 0 = they have no common length.
        no_data_: names of the features without a training cell.
        name, method, sampler: what tables call it; the method, and how it samples, in a few words.
    """

    features_: tuple[Feature, ...]
    scaler_: Standardizer
    time_unit_: str | None
    time_step_: float
    regular_: bool
    n_steps_: int

    @property
    def whole_series(self) -> bool: ...

    @property
    def name(self) -> str: ...

    @property
    def method(self) -> str: ...

    @property
    def sampler(self) -> str: ...

    @property
    def no_data_(self) -> tuple[str, ...]: ...

    def impute_records(
        self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None
    ) -> Iterator[Samples]:
        """The result of ``Imputer.impute``, one record after another."""
        ...

    def impute_long(
        self,
        record: Windows,
        n_samples: int,
        seed: int = 0,
        fill: np.ndarray | None = None,
        *,
        progress: Callable[[float], None] = lambda share: None,
    ) -> Iterator[tuple[slice, Samples]]:
        """Steps of one record of any length and their draws, from the first step to the last.

        Each draw is one path over all steps. Steps without a queried cell are left out.

        Args:
            progress: called from time to time with the share of the record that is done.
        """
        ...

    def save(self, path: Path, also: Mapping[str, Any] | None = None) -> None:
        """See ``Imputer``; ``also`` holds more plain values, by names that models do not use."""
        ...

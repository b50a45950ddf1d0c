"""The contract of an imputer. ``evaluate`` knows nothing else of a method."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, Self

import numpy as np

from tsimpute.containers import Samples, Windows


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

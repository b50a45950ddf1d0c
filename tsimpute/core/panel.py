"""What a table was understood to be: series of the same features, one per group, and what filling their gaps gave.

Letters: K features, T times of one series, Q quantiles, S samples. Arrays are (K, T), quantiles and samples first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tsimpute.core.shapes import ShortRepr, check_distinct, check_numbers, check_shape
from tsimpute.core.windows import Feature
from tsimpute.errors import DataError

OBSERVED, IMPUTED, NO_INFORMATION, LEFT_EMPTY, INVALID, RULE = range(6)
PROVENANCE = ("observed", "imputed", "no information", "left empty", "declared invalid", "by rule")
"""What a cell of a filled table is, by its code. "no information": filled although the series shows no value of that
feature. "declared invalid": a value stood there, was declared invalid, and has been filled as a gap is. "left empty":
missing and not filled, as asked or since its column is no measurement. "by rule": filled without a model, as a constant
or a counter is; see ``filling.preparing.series``."""

FILLED = (IMPUTED, NO_INFORMATION, INVALID, RULE)
"""Codes of cells that hold a filled value and not an observation."""


@dataclass(frozen=True)
class Clock:
    """How the times of a panel count.

    Attributes:
        unit: "hours" for time stamps; "" for numbers whose unit is their own; "steps" where there is no time; "rows"
            where the order of rows means nothing: each is a record by itself.
        step: distance between two times of a regular clock, in ``unit``; None = irregular, the true times are used.
    """

    unit: Literal["hours", "steps", "rows", ""]
    step: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Series(ShortRepr):
    """One group's record.

    Attributes:
        name: of the group; "" where there is but one.
        times: (T,) float64, strictly increasing, counted from the first in the clock's unit.
        values: (K, T) float64, NaN where nothing was observed.
        labels: (T,) the times as people read them: datetime64 (local wall time) or the numbers of the table.
    """

    name: str
    times: np.ndarray
    values: np.ndarray
    labels: np.ndarray

    def __post_init__(self) -> None:
        check_numbers("values", self.values, "f")
        check_numbers("times", self.times, "f")
        if self.values.ndim != 2:
            raise DataError(f"values: expected shape (features, times), came {self.values.shape}.")
        check_shape("times", self.times, (self.values.shape[1],))
        check_shape("labels", self.labels, (self.values.shape[1],))
        if not np.isfinite(self.times).all() or (np.diff(self.times) <= 0).any():
            raise DataError(f"times of {self.name!r}: expected finite, strictly increasing times.")
        if np.isinf(self.values).any():
            k, t = (int(axis[0]) for axis in np.nonzero(np.isinf(self.values)))
            raise DataError(
                f"values of {self.name!r}: expected numbers or NaN, feature {k} at {self.labels[t]} is infinite."
            )

    @property
    def observed(self) -> np.ndarray:
        """(K, T) bool."""
        return ~np.isnan(self.values)


@dataclass(frozen=True, eq=False, repr=False)
class Panel(ShortRepr):
    """Series of the same K features.

    Attributes:
        features: names and units.
        series: one or more, of distinct names and any lengths.
        clock: of all of them.
    """

    features: tuple[Feature, ...]
    series: tuple[Series, ...]
    clock: Clock

    def __post_init__(self) -> None:
        if not self.features or not self.series:
            raise DataError(
                f"table: expected at least one feature and one series, came {len(self.features)} features and "
                f"{len(self.series)} series."
            )
        check_distinct("features", [f.name for f in self.features])
        check_distinct("groups", [s.name for s in self.series])
        for series in self.series:
            check_shape(f"values of {series.name!r}", series.values, (len(self.features), len(series.times)))

    @property
    def independent_rows(self) -> bool:
        """Whether the steps of a series are records of their own, in no order."""
        return self.clock.unit == "rows"

    @property
    def n_cells(self) -> int:
        return sum(series.values.size for series in self.series)

    @property
    def n_missing(self) -> int:
        return sum(int(np.isnan(series.values).sum()) for series in self.series)


@dataclass(frozen=True, eq=False, repr=False)
class Filling(ShortRepr):
    """What filling the gaps of one series gave.

    Attributes:
        point: (K, T) float64: observed values, the median of the draws at filled cells, NaN at cells left empty.
        levels: Q levels of ``quantiles``, in (0, 1), increasing.
        quantiles: (Q, K, T) float64; at observed cells the value, NaN at cells left empty.
        provenance: (K, T) uint8, codes of ``PROVENANCE``.
        samples: (S, K, T) float32 draws, NaN outside of filled cells, or None where they were not asked for.
    """

    point: np.ndarray
    levels: tuple[float, ...]
    quantiles: np.ndarray
    provenance: np.ndarray
    samples: np.ndarray | None = None

    def __post_init__(self) -> None:
        shape = self.point.shape
        check_shape("quantiles", self.quantiles, (len(self.levels), *shape))
        check_shape("provenance", self.provenance, shape)
        if self.samples is not None:
            check_shape("samples", self.samples, (len(self.samples), *shape))

    def features(self, order: np.ndarray) -> Filling:
        """The same with its features in another order."""
        samples = None if self.samples is None else self.samples[:, order]
        return Filling(self.point[order], self.levels, self.quantiles[:, order], self.provenance[order], samples)

    @property
    def filled(self) -> np.ndarray:
        """(K, T) bool: cells that hold a filled value and not an observation."""
        return np.isin(self.provenance, FILLED)

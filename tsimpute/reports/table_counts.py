"""The counts of a report: what each cell is, and the range of each feature before and after filling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsimpute.core.panel import LEFT_EMPTY, OBSERVED, PROVENANCE, Filling, Panel
from tsimpute.core.shapes import check_shape
from tsimpute.errors import DataError

Range = tuple[float, float, float]
"""Smallest value, median and largest value; NaN where there is none."""


@dataclass(frozen=True)
class FeatureCounts:
    """One feature over all series.

    Attributes:
        unit: "" where the name says it.
        cells: how many cells are what, in the order of ``PROVENANCE``.
        observed, filled: of the values, in the feature's unit.
        width: mean over filled cells of the distance between the outermost two quantiles; NaN where there are none.
    """

    name: str
    unit: str
    cells: tuple[int, ...]
    observed: Range
    filled: Range
    width: float

    @property
    def n_cells(self) -> int:
        return sum(self.cells)

    @property
    def n_observed(self) -> int:
        return self.cells[OBSERVED]


def count_features(panel: Panel, fillings: Sequence[Filling]) -> tuple[FeatureCounts, ...]:
    """One per feature, in the panel's order."""
    return tuple(_count(panel, fillings, k) for k in range(len(panel.features)))


def _count(panel: Panel, fillings: Sequence[Filling], k: int) -> FeatureCounts:
    feature = panel.features[k]
    codes = np.concatenate([filling.provenance[k] for filling in fillings])
    is_filled = (codes != OBSERVED) & (codes != LEFT_EMPTY)
    values = np.concatenate([series.values[k] for series in panel.series])[codes == OBSERVED]
    filled = np.concatenate([filling.point[k] for filling in fillings])[is_filled]
    widths = np.empty(0)
    if len(fillings[0].levels) > 1:
        low, high = (np.concatenate([filling.quantiles[i, k] for filling in fillings]) for i in (0, -1))
        widths = (high - low)[is_filled]
    cells = tuple(np.bincount(codes, minlength=len(PROVENANCE)).tolist())
    width = float(widths.mean()) if len(widths) else float("nan")
    return FeatureCounts(feature.name, feature.unit_beside, cells, _range(values), _range(filled), width)


def _range(values: np.ndarray) -> Range:
    if not len(values):
        return float("nan"), float("nan"), float("nan")
    return float(values.min()), float(np.median(values)), float(values.max())


def check_fillings(panel: Panel, fillings: Sequence[Filling]) -> None:
    """Refuses fillings that are not those of this panel, about which a report would be wrong.

    Raises:
        DataError: their number, shapes or levels disagree, a code is unknown, or an observed value was changed.
    """
    if len(fillings) != len(panel.series):
        raise DataError(f"fillings: expected one for each of {len(panel.series)} series, came {len(fillings)}.")
    for series, filling in zip(panel.series, fillings, strict=True):
        check_shape(f"filling of {series.name!r}", filling.point, series.values.shape)
        if filling.levels != fillings[0].levels:
            raise DataError(
                f"filling of {series.name!r}: expected the quantile levels {fillings[0].levels} of the first series, "
                f"came {filling.levels}."
            )
        if (filling.provenance >= len(PROVENANCE)).any():
            raise DataError(
                f"provenance of {series.name!r}: expected codes 0 to {len(PROVENANCE) - 1}, "
                f"came {filling.provenance.max()}."
            )
        changed = (filling.provenance == OBSERVED) & (filling.point != series.values)
        if changed.any():
            k, t = (int(axis[0]) for axis in np.nonzero(changed))
            raise DataError(
                f"filling of {series.name!r}: expected observed values unchanged, {panel.features[k].name} at "
                f"{series.labels[t]} is {series.values[k, t]} in the table and {filling.point[k, t]} in the filling."
            )

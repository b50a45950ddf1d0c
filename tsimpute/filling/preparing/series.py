"""Which cells of a series are filled, and their filling by a model or by a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tsimpute.core.panel import (
    FILLED,
    IMPUTED,
    INVALID,
    LEFT_EMPTY,
    NO_INFORMATION,
    OBSERVED,
    RULE,
    Filling,
    Panel,
    Series,
)
from tsimpute.core.windows import Windows
from tsimpute.filling.measuring.calibration import Calibration, summarised
from tsimpute.filling.panels.windows import clock_times, gap_lengths
from tsimpute.imputers.base import TableModel
from tsimpute.screening.column_kinds import ColumnKind
from tsimpute.tables.frames.table import Table


def rule_bands(kind: ColumnKind, series: Series, k: int, decimals: int | None) -> np.ndarray:
    """(3, T) lowest possible value, value, and highest possible value of a feature by its rule; NaN where it has none.

    A constant is the one value of its series. A counter lies between its neighbours in time; its value is interpolated
    linearly in time, as a whole number where its neighbours are. Before the first and after the last value nothing
    bounds it on both sides, and where it falls from one value to the next it started anew somewhere between: there it
    has none.

    Args:
        kind: of the k-th feature; one that is not ``by_rule`` has no rule.
        series: with what may be seen of it.
        decimals: that values are rounded to; None = they are not.
    """
    row = series.values[k]
    known = np.flatnonzero(~np.isnan(row))
    out = np.full((3, len(row)), np.nan)
    if not kind.by_rule or not len(known):
        return out
    if kind.kind != "counter":
        if (row[known] == row[known[0]]).all():
            out[:] = row[known[0]]
        return out
    after = np.searchsorted(known, np.arange(len(row)))
    inside = (after > 0) & (after < len(known))
    at = np.flatnonzero(inside)
    before, later = known[after[at] - 1], known[after[at]]
    low, high, times = row[before], row[later], series.times
    share = (times[at] - times[before]) / (times[later] - times[before])
    middle = np.clip(low + share * (high - low), low, np.maximum(low, high))
    whole = (row[known] == np.rint(row[known])).all() or decimals == 0
    middle = np.rint(middle) if whole else middle
    out[:, at] = np.where(low <= high, np.stack([low, middle, high]), np.nan)
    return out


def blank_filling(series: Series, provenance: np.ndarray, levels: Sequence[float], n_samples: int | None) -> Filling:
    """A filling of a series that holds observed values alone; without ``n_samples`` it has no draws."""
    point = np.where(series.observed, series.values, np.nan)
    samples = None if n_samples is None else np.full((n_samples, *point.shape), np.nan, np.float32)
    return Filling(point, tuple(levels), np.repeat(point[None], len(levels), 0), provenance, samples)


@dataclass(frozen=True)
class Policy:
    """What is filled.

    Attributes:
        max_gap: longest run of missing cells of a feature, in steps, that is filled; longer ones stay wholly empty.
        fill_unseen: whether features are filled of which a series shows no value.
    """

    max_gap: int | None = None
    fill_unseen: bool = True


def provenance_of(series: Series, policy: Policy, invalid: np.ndarray, absent: np.ndarray) -> np.ndarray:
    """(K, T) uint8: what each cell is to be; see ``panel.PROVENANCE``.

    Args:
        series: with invalid values made missing.
        invalid: (K, T) bool, cells whose value was declared invalid.
        absent: (K, T) bool, cells that are no gap: the table has no place for them.
    """
    codes = np.where(series.observed, OBSERVED, IMPUTED).astype(np.uint8)
    missing = ~series.observed
    codes[missing & invalid] = INVALID
    unseen = missing.all(1)
    codes[unseen] = np.where(missing[unseen], NO_INFORMATION if policy.fill_unseen else LEFT_EMPTY, codes[unseen])
    if policy.max_gap is not None:
        codes[gap_lengths(missing) > policy.max_gap] = LEFT_EMPTY
    codes[absent] = np.where(missing[absent], LEFT_EMPTY, codes[absent])
    return codes


def provenance_of_table(
    table: Table,
    panel: Panel,
    visible: Panel,
    kinds: Sequence[ColumnKind],
    invalid: Sequence[np.ndarray] | None,
    policy: Policy,
) -> list[np.ndarray]:
    """Per series (K, T) uint8: what each cell of a table becomes.

    Args:
        panel: what is given back; visible: what a model may see.
        kinds: of the features; a rule fills those that no model predicts, as far as it does.
        invalid: per series (K, T) bool, cells whose value is dropped; None = no value is.
    """
    provenance = []
    for n, (series, absent) in enumerate(zip(panel.series, table.absent, strict=True)):
        dropped = np.zeros_like(absent) if invalid is None else invalid[n]
        codes = provenance_of(series, policy, dropped, absent)
        for k, kind in enumerate(kinds):
            if not kind.predicted:
                known = ~np.isnan(rule_bands(kind, visible.series[n], k, table.decimals[k])[1])
                by_rule = np.where(known, np.where(codes[k] == INVALID, INVALID, RULE), LEFT_EMPTY)
                codes[k] = np.where(np.isin(codes[k], FILLED), by_rule, codes[k])
        provenance.append(codes)
    return provenance


def fill_series(
    imputer: TableModel,
    panel: Panel,
    series: Series,
    record_values: np.ndarray,
    provenance: np.ndarray,
    *,
    levels: Sequence[float],
    n_samples: int,
    seed: int,
    calibration: Calibration,
    keep_samples: bool = False,
    progress: Callable[[float], None] = lambda share: None,
) -> Filling:
    """Fills the gaps of one series.

    Args:
        panel: whose series it is; gives the K' features.
        series: as it is given back: all observed values.
        record_values: (K', T) what the model sees: the K features, then the known covariates; hidden values are NaN.
        provenance: (K, T) uint8, see ``provenance_of``.
        levels: of the quantiles, in (0, 1), increasing.
        n_samples, seed: see ``Imputer.impute``.
        calibration: of the quantiles.
        keep_samples: whether the filling holds the draws.
        progress: called now and then with the share that is done.
    """
    out = blank_filling(series, provenance, levels, n_samples if keep_samples else None)
    fill = out.filled
    times = clock_times(series, panel.clock) if imputer.whole_series else series.times
    record = Windows(record_values[None], times[None], panel.features, (series.name or "series",))
    query_mask = np.pad(fill, ((0, len(record_values) - len(fill)), (0, 0)))
    drawing = imputer.impute_long(record, n_samples, seed, query_mask[None], progress=progress) if fill.any() else ()
    for steps, drawn in drawing:
        draws, here = drawn.values[:, 0, : len(fill)], fill[:, steps]
        cells = draws[:, here], np.nonzero(here)[0]
        median, point_quantiles = summarised(imputer.scaler_, calibration, levels, *cells)
        out.point[:, steps][here] = median
        out.quantiles[:, :, steps][:, here] = point_quantiles
        if out.samples is not None:
            out.samples[:, :, steps][:, here] = draws[:, here]
    return out

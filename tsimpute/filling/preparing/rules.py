"""What is filled by a rule instead of a model: constants, descriptors of a series, counters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsimpute.core.panel import FILLED, INVALID, LEFT_EMPTY, RULE, Filling, Series
from tsimpute.screening.column_kinds import ColumnKind


def rule_bands(kind: ColumnKind, series: Series, k: int, decimals: int | None) -> np.ndarray:
    """(3, T) lowest possible value, value, and highest possible value of a feature by its rule; NaN where it has none.

    A constant is the one value of its series. A counter lies between its neighbours in time; its value is interpolated
    linearly in time, as a whole number where its neighbours are. Before the first and after the last value nothing
    bounds it on both sides, and where it falls from one value to the next it started anew somewhere between: there it
    has none.

    Args:
        kind: of the k-th feature; one that is ``by_rule``.
        series: with what may be seen of it.
        decimals: that values are rounded to; None = they are not.
    """
    row = series.values[k]
    known = np.flatnonzero(~np.isnan(row))
    out = np.full((3, len(row)), np.nan)
    if not len(known):
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


def by_rule(provenance: np.ndarray, bands: np.ndarray) -> np.ndarray:
    """(T,) uint8 what the cells of a feature are to be that a rule fills, as far as it does.

    Args:
        provenance: (T,) as if it were predicted. bands: (3, T), see ``rule_bands``.
    """
    filled, known = np.isin(provenance, FILLED), ~np.isnan(bands[1])
    filled_as = np.where(provenance == INVALID, INVALID, RULE)
    return np.where(filled, np.where(known, filled_as, LEFT_EMPTY), provenance).astype(np.uint8)


def with_rules(
    series: Series,
    provenance: np.ndarray,
    levels: Sequence[float],
    predicted: tuple[np.ndarray, Filling] | None,
    bands: dict[int, np.ndarray],
    n_samples: int | None,
) -> Filling:
    """The filling of a series from what a model and what rules say.

    Args:
        series: as it is given back. provenance: (K, T).
        levels: of the quantiles. Below 0.5 they are the lowest possible value, above 0.5 the highest.
        predicted: places of the features that a model has filled, and their filling.
        bands: by place, see ``rule_bands``.
        n_samples: of the draws; each holds the value of the rule. None = no draws are kept.
    """
    point = np.where(series.observed, series.values, np.nan)
    quantiles = np.repeat(point[None], len(levels), 0)
    samples = None if n_samples is None else np.full((n_samples, *point.shape), np.nan, np.float32)
    if predicted is not None:
        at, filling = predicted
        point[at], quantiles[:, at] = filling.point, filling.quantiles
        if samples is not None and filling.samples is not None:
            samples[:, at] = filling.samples
    for k, (low, middle, high) in bands.items():
        cells = np.isin(provenance[k], FILLED)
        point[k, cells] = middle[cells]
        for q, level in enumerate(levels):
            quantiles[q, k, cells] = (low if level < 0.5 else high if level > 0.5 else middle)[cells]
        if samples is not None:
            samples[:, k, cells] = middle[cells]
    return Filling(point, tuple(levels), quantiles, provenance, samples)

"""A table's own gaps, moved to other times and features: how good methods are in gaps of its kind.

Hidden cells that a process was not fitted to are few, and of long gaps they are one or two. Which method fits gaps of
a kind best is told more surely by many gaps of that kind, at which the methods were fitted but do not see the values:
nothing is known there when the cells are filled. The parameters have seen these values, so that errors there are
somewhat too small, those of straight lines least of all. So only the weights of methods come from them. How wide
intervals are, and what is reported, comes from the hidden cells, which are not looked at here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from tsimpute.core.panel import Panel, Series
from tsimpute.core.seeding import derive_seed
from tsimpute.filling.blending.blending import Evidence
from tsimpute.filling.blending.mixture import FittedMethods
from tsimpute.filling.methods.components import AT_KNOWN
from tsimpute.filling.panels.gaps import gap_classes, gap_numbers
from tsimpute.filling.panels.windows import clock_times, window_steps, without
from tsimpute.imputers.gaussian import GaussianImputer

_TIMES, _ENOUGH = (3, 8), 10_000
"""Gaps are moved so many times, fewer where that gives so many cells."""
_MOST_CELLS, _FEWEST_CELLS = 250_000, 100
"""Of the table, all moves together; and those below which there is no evidence."""
_QUANTILES = ndtri((np.arange(6) + 0.5) / 12)
"""Below the median; those above mirror them."""


def evidence_of(panel: Panel, learnt: FittedMethods, gaps: Sequence[np.ndarray], seed: int) -> Evidence | None:
    """What methods say of known cells under gaps like these; None where there are too few, or the table is large.

    Args:
        panel: that the methods were fitted to.
        gaps: per series (K, T) bool, the cells that are filled in use.
        seed: of where gaps are moved to.
    """
    n_gaps = max(1, sum(int(cells.sum()) for cells in gaps))
    n_times = min(int(np.clip(-(-_ENOUGH // n_gaps), *_TIMES)), _MOST_CELLS // max(1, panel.n_cells))
    parts = []
    for number in range(n_times):
        hidden = moved(panel, gaps, (number, n_times), seed)
        if any(cells.any() for cells in hidden):
            parts.append(_compared(panel, learnt, hidden))
    if sum(len(part.truth) for part in parts) < _FEWEST_CELLS:
        return None
    return Evidence.joined(parts)


def moved(panel: Panel, gaps: Sequence[np.ndarray], turn: tuple[int, int], seed: int) -> list[np.ndarray]:
    """Per series (K, T) bool: known cells under gaps that are moved along the series, and on to other features.

    A feature of which that would leave less than half keeps all.

    Args:
        turn: number of the move, and how many there are: all times have their turn.
    """
    number, n_times = turn
    found = []
    for series, cells in zip(panel.series, gaps, strict=True):
        n_features, n_steps = cells.shape
        rng = np.random.default_rng(derive_seed(seed, "moved gaps", series.name, number))
        reach = n_steps // (4 * n_times + 4)
        by = n_steps * (number + 1) // (n_times + 1) + int(rng.integers(-reach, reach + 1))
        known = series.observed
        hidden = known & np.roll(np.roll(cells, by, axis=1), number % n_features, axis=0)
        hidden[2 * hidden.sum(1) > known.sum(1)] = False
        found.append(hidden)
    return found


def _compared(panel: Panel, learnt: FittedMethods, hidden: Sequence[np.ndarray]) -> Evidence:
    """What the process and the other methods say of hidden cells of a panel that they were fitted to."""
    blind = without(panel, hidden)
    parts = [
        _of_series(learnt, series, whole, cells, window_steps(panel), clock_times(series, panel.clock))
        for series, whole, cells in zip(blind.series, panel.series, hidden, strict=True)
        if cells.any()
    ]
    return Evidence.joined(parts)


def _of_series(
    learnt: FittedMethods, series: Series, whole: Series, cells: np.ndarray, length: int, times: np.ndarray
) -> Evidence:
    base, components = learnt.base, [one for one in learnt.components if isinstance(one, AT_KNOWN)]
    known, missing, n_features = base.scaler_.transform(series.values), ~series.observed, len(base.features_)
    feature, step = np.nonzero(cells)
    return Evidence(
        _quantiles(base, known, times, cells), [one.at(known, times, cells)[cells] for one in components],
        base.scaler_.transform(whole.values)[cells], feature, gap_classes(missing)[cells], gap_numbers(missing)[cells],
        step // max(1, length // 2) * n_features + feature, n_features, tuple(one.local for one in components),
    )  # fmt: skip


def _quantiles(base: GaussianImputer, known: np.ndarray, times: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """(S, M) of the process at some of the cells of a record, in its scale: draws that need no luck."""
    mean, spread = base.model_.marginals(known, times, None if base.curves_ is not None else cells)
    if base.curves_ is not None:
        move, factor = base.curves_.moves(mean, spread, times)
        mean, spread = mean + move, spread * factor
    nodes = np.concatenate([_QUANTILES, -_QUANTILES[::-1]])
    return np.stack([base.model_.values(mean + node * spread, times)[cells] for node in nodes.tolist()])

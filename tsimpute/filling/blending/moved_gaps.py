"""The gaps of a table, moved to other times and features: how good methods are in gaps of its kind.

Cells that a process was not fitted to are few, and of long gaps there are one or two. Many gaps of the table's kind
show more surely which method fits them best: cells that the methods were fitted to, but whose values they do not see
when they fill them. The parameters have seen these values, so errors are somewhat too small there, those of straight
lines least of all. So only the weights of methods come from these cells; the width of intervals and the scores that
are reported come from the hidden cells, which are not used here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from tsimpute.core.panel import Panel, Series
from tsimpute.core.seeding import derive_seed
from tsimpute.filling.blending.blend import Comparison
from tsimpute.filling.blending.mixture import FittedMethods
from tsimpute.filling.methods.components import AT_KNOWN
from tsimpute.filling.panels.gaps import gap_classes, gap_numbers
from tsimpute.filling.panels.windows import clock_times, window_steps, without

_TIMES, _ENOUGH = (3, 8), 10_000
"""Gaps are moved so many times, fewer where that gives so many cells."""
_MOST_CELLS, _FEWEST_CELLS = 250_000, 100
"""Of the table, all moves together; and of the gaps, below which nothing is compared."""
_NODES = ndtri((np.arange(12) + 0.5) / 12)
"""Of the quantiles that stand for draws."""


def compared_under_moved_gaps(
    panel: Panel, fitted: FittedMethods, gaps: Sequence[np.ndarray], seed: int
) -> Comparison | None:
    """Methods compared at observed cells under gaps like these; None where there are too few, or the table is large.

    Args:
        panel: that the methods were fitted to.
        gaps: per series (K, T) bool, the cells that are filled in use.
        seed: of where gaps are moved to.
    """
    n_gaps = max(1, sum(int(cells.sum()) for cells in gaps))
    n_times = min(int(np.clip(-(-_ENOUGH // n_gaps), *_TIMES)), _MOST_CELLS // max(1, panel.n_cells))
    parts = []
    for number in range(n_times):
        hidden = moved_gaps(panel, gaps, (number, n_times), seed)
        blind, length = without(panel, hidden), window_steps(panel)
        parts += [
            _compared(fitted, series, whole, cells, length, clock_times(series, panel.clock))
            for series, whole, cells in zip(blind.series, panel.series, hidden, strict=True)
            if cells.any()
        ]
    return Comparison.joined(parts) if sum(len(part.truth) for part in parts) >= _FEWEST_CELLS else None


def moved_gaps(panel: Panel, gaps: Sequence[np.ndarray], turn: tuple[int, int], seed: int) -> list[np.ndarray]:
    """Per series (K, T) bool: observed cells under gaps that are moved along the series, and on to other features.

    A feature of which that would leave less than half keeps all.

    Args:
        turn: number of the move, and how many there are: all times have their turn.
    """
    number, n_times = turn
    masks = []
    for series, cells in zip(panel.series, gaps, strict=True):
        n_features, n_steps = cells.shape
        rng = np.random.default_rng(derive_seed(seed, "moved gaps", series.name, number))
        reach = n_steps // (4 * n_times + 4)
        by = n_steps * (number + 1) // (n_times + 1) + int(rng.integers(-reach, reach + 1))
        hidden = series.observed & np.roll(np.roll(cells, by, axis=1), number % n_features, axis=0)
        hidden[2 * hidden.sum(1) > series.observed.sum(1)] = False
        masks.append(hidden)
    return masks


def _compared(
    fitted: FittedMethods, series: Series, whole: Series, cells: np.ndarray, length: int, times: np.ndarray
) -> Comparison:
    """The process, by quantiles as draws that need no luck, and the other methods at cells hidden from a series."""
    base, components = fitted.base, [component for component in fitted.components if isinstance(component, AT_KNOWN)]
    known, missing, n_features = base.scaler_.transform(series.values), ~series.observed, len(base.features_)
    mean, spread = base.model_.marginals(known, times, None if base.curves_ is not None else cells)
    if base.curves_ is not None:
        move, factor = base.curves_.moves(mean, spread, times)
        mean, spread = mean + move, spread * factor
    quantiles = np.stack([base.model_.values(mean + node * spread, times)[cells] for node in _NODES.tolist()])
    feature, step = np.nonzero(cells)
    return Comparison(
        quantiles, [component.at(known, times, cells)[cells] for component in components],
        base.scaler_.transform(whole.values)[cells], feature,
        gap_classes(missing, fitted.independent)[cells], gap_numbers(missing, fitted.independent)[cells],
        step // max(1, length // 2) * n_features + feature, n_features, tuple(c.local for c in components),
    )  # fmt: skip

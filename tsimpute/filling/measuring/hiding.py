"""Which observed cells are hidden to measure on: in gaps like those of the panel itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsimpute.batches.masking import LikeGaps
from tsimpute.core.panel import Panel
from tsimpute.core.seeding import derive_seed
from tsimpute.filling.panels.windows import window_steps

_ENOUGH = 400
"""Hidden cells, in all, from which no series has to give more than its share."""


def hidden_cells(panel: Panel, share: float, seed: int) -> list[np.ndarray]:
    """Per series (K, T) bool: observed cells hidden as the gaps of the panel lie, about a share of each feature's.

    The share is that of all series together; see ``_quotas``. The gaps of a series are moved along it by a random time,
    all features together, and stretches of a window's length are taken at random, of each feature until its share is
    reached. In series of more than one window runs are taken whole, also those that are longer than a stretch or a
    share, up to half of a feature's values: errors in long gaps have to come from gaps as long. Where that gives
    too few cells, runs as long as the gaps are hidden, too; see ``LikeGaps``.
    """
    length = window_steps(panel)
    runs = LikeGaps.of([series.observed for series in panel.series])
    hidden, quotas = [], _quotas(np.array([series.observed.sum(1) for series in panel.series]), share, seed)
    for series, quota in zip(panel.series, quotas, strict=True):
        rng = np.random.default_rng(derive_seed(seed, "hidden", series.name))
        observed, n_steps = series.observed, len(series.times)
        moved = observed & np.roll(~observed, int(rng.integers(n_steps // 4, 1 + 3 * n_steps // 4)), axis=1)
        most = observed.sum(1) // 2 if n_steps > length else quota
        cells = _whole_runs(moved, quota, most, length, rng)
        needy = observed & ~cells & (2 * cells.sum(1) < quota)[:, None]
        if needy.any():
            more = needy & ~runs.hide(needy, min(1.0, 4 * share), rng)
            cells |= _first(more, quota - cells.sum(1), int(rng.integers(n_steps)))
        hidden.append(cells)
    return hidden


def hidden_together(panel: Panel, hidden: Sequence[np.ndarray], groups: Sequence[Sequence[str]]) -> list[np.ndarray]:
    """The hidden cells, and with each one of a group of features the others: one category tells what the others are."""
    names, out = [feature.name for feature in panel.features], []
    for series, of_series in zip(panel.series, hidden, strict=True):
        cells = of_series.copy()
        for group in groups:
            of_group = [names.index(name) for name in group]
            cells[of_group] = cells[of_group].any(0) & series.observed[of_group]
        out.append(cells)
    return out


def _quotas(counts: np.ndarray, share: float, seed: int) -> np.ndarray:
    """(N, K) how many cells of each feature are hidden in each series, for (N, K) observed ones; half of them at most.

    A share of each feature's cells in all series, rounded up. Were it rounded up in each series, features with few
    values in each of many series would be hidden most of all: a laboratory value of ICU stays five times as often as a
    heart rate. Only where cells are few does each series give one of each feature.
    """
    able = np.where(counts >= 2, counts, 0)
    most = np.minimum(np.ceil(share * able), able // 2).astype(int)
    wanted = np.maximum(np.ceil(share * able.sum(0)), _ENOUGH // counts.shape[1])
    upto = np.cumsum(able, 0) * (wanted / np.maximum(able.sum(0), 1))
    offset = np.random.default_rng(derive_seed(seed, "hidden", "shares")).random(counts.shape[1])
    spread = np.diff(np.floor(upto + offset), axis=0, prepend=0).astype(int)
    return np.where(most.sum(0) <= wanted, most, np.minimum(spread, most))


def _whole_runs(
    moved: np.ndarray, quota: np.ndarray, most: np.ndarray, length: int, rng: np.random.Generator
) -> np.ndarray:
    """(K, T) bool: runs of cells of each feature until its quota (K,) is reached, cut at the most (K,) that may be.

    Stretches of ``length`` steps come in random order, the same for all features, so that runs of one time are hidden
    together; in each, runs count from a random one on.
    """
    cells, n_steps = np.zeros(moved.shape, bool), moved.shape[1]
    begins = np.diff(np.pad(moved, ((0, 0), (1, 0))).astype(np.int8), axis=1) == 1
    number, counts = np.cumsum(begins, axis=1), np.zeros(len(moved), int)
    ends = n_steps - np.argmax(moved[:, ::-1], axis=1)
    for start in rng.permutation(np.arange(0, n_steps, length)).tolist():
        turn = int(rng.integers(length))
        for k in np.flatnonzero((counts < quota) & (start < ends)).tolist():
            part = slice(start, start + length)
            runs = np.unique(number[k, part][moved[k, part] & ~cells[k, part]])
            for run in np.roll(runs, -(turn % max(1, len(runs)))).tolist():
                if counts[k] >= quota[k]:
                    break
                first, last = np.searchsorted(number[k], [run, run + 1])
                steps = first + np.flatnonzero(moved[k, first:last])[: most[k] - counts[k]]
                cells[k, steps] = True
                counts[k] += len(steps)
    return cells


def _first(cells: np.ndarray, most: np.ndarray, start: int) -> np.ndarray:
    """(K, T) bool: of each feature so many (K,) cells, the first ones from step ``start`` on and round to it.

    From a random step on, so that a series of one window is not hidden at its beginning alone.
    """
    turned = np.roll(cells, -start, axis=1)
    return np.roll(turned & (np.cumsum(turned, axis=1) <= most[:, None]), start, axis=1)

"""Cells to choose an imputer's settings on: hidden as the record's own gaps lie, moved in time."""

from __future__ import annotations

import numpy as np

_LEAST, _RATE, _MOST = 20, 0.1, 0.3


def moved_gaps(known: np.ndarray, seed: int) -> np.ndarray:
    """(N, K, L) bool, cells of ``known`` under its own gaps, moved along the record by the same time in all features.

    Settings that suit such cells suit the gaps that are to be filled: single cells, long runs or all features at once.
    Where gaps cover more than 30 % of the known cells, they are thinned out; where they cover less than 20 cells,
    10 % of the cells are drawn.

    Args:
        known: (N, K, L), NaN where nothing is known.
    """
    rng = np.random.default_rng(seed)
    there = ~np.isnan(known)
    length = known.shape[2]
    hidden = np.zeros_like(there)
    for n, of_one in enumerate(there):
        by = int(rng.integers(length // 4, max(length // 4 + 1, 3 * length // 4)))
        hidden[n] = of_one & np.roll(~of_one, by, axis=1)
    if hidden.sum() < _LEAST:
        return there & (rng.random(there.shape) < _RATE)
    return hidden & (rng.random(there.shape) < _MOST * there.sum() / hidden.sum())

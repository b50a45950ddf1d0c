"""Gaps, which are runs of missing steps: their lengths, and classes of lengths within which methods are compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BOUNDS = (1, 4, 16, 64, 256)
"""The longest gap of each class, in steps; longer gaps are the last class."""
N_CLASSES = len(BOUNDS) + 1


def gap_lengths(missing: np.ndarray, independent: bool = False) -> np.ndarray:
    """(K, T) int: the length of the run of missing steps that each cell lies in; 0 where nothing is missing.

    Args:
        independent: whether steps are records of their own, so that each missing cell is a gap.
    """
    if independent:
        return missing.astype(np.int64)
    edges = np.diff(np.pad(missing, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = np.nonzero(edges == 1)
    _, ends = np.nonzero(edges == -1)
    lengths = np.zeros((len(missing), missing.shape[1] + 1), np.int64)
    np.add.at(lengths, (rows, starts), ends - starts)
    np.add.at(lengths, (rows, ends), starts - ends)
    return np.cumsum(lengths, axis=1)[:, :-1]


def gap_classes(missing: np.ndarray, independent: bool = False) -> np.ndarray:
    """(K, T) int: the class of the length of each cell's gap; see ``gap_lengths``."""
    return np.searchsorted(BOUNDS, gap_lengths(missing, independent))


def gap_numbers(missing: np.ndarray, independent: bool = False) -> np.ndarray:
    """(K, T) int: a number for each gap of each feature, the same for all its cells; see ``gap_lengths``."""
    if independent:
        return np.arange(missing.size).reshape(missing.shape)
    begins = np.diff(np.pad(missing, ((0, 0), (1, 0))).astype(np.int8), axis=1) == 1
    return np.cumsum(begins, axis=1) + missing.shape[1] * np.arange(len(missing))[:, None]


def apart(numbers: Sequence[np.ndarray]) -> np.ndarray:
    """Joins arrays of numbers from 0 on, shifted so that no number occurs in two of them."""
    step = 1 + max(int(array.max(initial=0)) for array in numbers)
    return np.concatenate([n * step + array for n, array in enumerate(numbers)])

"""Puts rows of different lengths side by side into bins of one length, so that attention over them is dense."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

_SMALLEST, _MULTIPLE = 32, 16  # attention kernels are fastest, per token, at multiples of 16 from 32 on


@dataclass(frozen=True, eq=False)
class Packing:
    """Where the tokens of rows stand.

    Attributes:
        position: (T,) position of each token; tokens of a row stand side by side, in their order.
        groups: of the bins of each length, which row stands at a position, (bins, length), -1 where none does; the
            positions of all groups follow one another.
    """

    position: np.ndarray
    groups: tuple[np.ndarray, ...]

    @property
    def n_positions(self) -> int:
        return sum(row_of.size for row_of in self.groups)


def pack(row_of_token: np.ndarray) -> Packing:
    """Packs the rows that ``row_of_token`` (T,) names, by any integers.

    Rows share a bin only with rows of similar length: a bin is at most 16 longer than its longest row, or 32 long.
    """
    order = np.argsort(row_of_token, kind="stable")
    row = row_of_token[order]
    _, length = np.unique(row, return_counts=True)
    size = np.maximum(-(-length // _MULTIPLE) * _MULTIPLE, _SMALLEST)
    first, groups = np.empty(len(length), np.int64), []
    base = 0
    for bin_size in np.unique(size):
        chosen = np.flatnonzero(size == bin_size)
        bin_of, offset = _into_bins(length[chosen], int(bin_size))
        used = int((offset + length[chosen]).max())
        first[chosen] = base + bin_of * used + offset
        row_of = np.full((int(bin_of.max()) + 1, used), -1)
        row_of.reshape(-1)[_ranges(first[chosen] - base, length[chosen])] = np.repeat(chosen, length[chosen])
        groups.append(row_of)
        base += row_of.size
    position = np.empty(len(row), np.int64)
    position[order] = _ranges(first, length)
    return Packing(position, tuple(groups))


def _ranges(first: np.ndarray, length: np.ndarray) -> np.ndarray:
    """``first[i], first[i] + 1, ...`` of each length, one after another."""
    before = np.cumsum(length) - length
    return np.repeat(first - before, length) + np.arange(length.sum())


def _into_bins(length: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The bin of each row and its offset there: longest rows first, each bin filled up with the longest that fit."""
    by_length, counts = np.argsort(length, kind="stable"), np.bincount(length, minlength=size + 1)
    taken = np.cumsum(counts) - counts
    bin_of, offset = np.empty(len(length), np.int64), np.empty(len(length), np.int64)
    n_bins = 0
    for pattern, repeats in _patterns(counts, size):
        at = 0
        for n, count in pattern:
            rows = by_length[taken[n] : taken[n] + count * repeats].reshape(repeats, count)
            bin_of[rows] = (n_bins + np.arange(repeats))[:, None]
            offset[rows] = at + n * np.arange(count)
            taken[n] += count * repeats
            at += n * count
        n_bins += repeats
    return bin_of, offset


def _patterns(counts: np.ndarray, size: int) -> Iterator[tuple[list[tuple[int, int]], int]]:
    """Fillings of a bin, as (length, how many), and how many bins are filled so."""
    counts = counts.copy()
    while counts.any():
        pattern, room = [], size
        for n in np.flatnonzero(counts)[::-1]:
            count = min(int(counts[n]), room // int(n))
            if count:
                pattern.append((int(n), count))
                room -= int(n) * count
        repeats = min(int(counts[n]) // count for n, count in pattern)
        for n, count in pattern:
            counts[n] -= count * repeats
        yield pattern, repeats

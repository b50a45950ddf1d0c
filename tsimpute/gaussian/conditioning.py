"""Missing cells given the known ones: posterior mean and spread, and draws that are coherent paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tsimpute.gaussian.conditionals import BLOCK, NEIGHBOURS, Block, Prior, is_wide
from tsimpute.system.blas import one_blas_thread

MOST_CELLS, MOST_CELLS_WIDE = 1300, 640
"""Cells of a window, about: the cost of one grows with their cube. With many features each block has its windows."""
MOST_STEPS, FEW_CELLS = 96, 384
"""Steps of a window, or more where that makes few cells."""
WHOLE_RECORD = 1800
"""Records with up to so many cells, of a few steps more than a window has, are one window."""
CHUNK = 32
"""Windows that are drawn together: with many features, block after block."""


@dataclass(frozen=True)
class Window:
    """Steps ``start`` to ``stop`` are conditioned on to fill those from ``first`` to ``last``."""

    start: int
    stop: int
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class Piece:
    """Some of a record's steps, with K features.

    Attributes:
        steps: which.
        mean: (K, steps); known cells hold their value.
        deviations: (H, K, steps) of H draws from the mean, 0 at known cells. ``mean - deviations`` are draws as well.
    """

    steps: slice
    mean: np.ndarray
    deviations: np.ndarray


def window_length(n_features: int, n_lags: int | None = None) -> int:
    """Steps of a window of long records; 1 where steps are independent of each other, which is one lag."""
    if n_lags == 1:
        return 1
    if is_wide(n_features):
        return max(8, MOST_CELLS_WIDE // (BLOCK + NEIGHBOURS))
    return int(np.clip(MOST_CELLS // n_features, 8, _most_steps(n_features)))


def _most_steps(n_features: int) -> int:
    return max(MOST_STEPS, FEW_CELLS // n_features)


def largest_lag(n_steps: int, n_features: int) -> int:
    """How many lags a process of records with so many steps at most has."""
    return min(n_steps, _most_steps(n_features) if _is_one_window(n_steps, n_features) else window_length(n_features))


def _is_one_window(n_steps: int, n_features: int) -> bool:
    few = n_steps <= 1.5 * _most_steps(n_features) and n_steps * n_features <= WHOLE_RECORD
    return few or n_steps <= window_length(n_features)


def windows(n_steps: int, n_features: int, n_lags: int | None = None) -> Iterator[Window]:
    """Windows whose middle thirds, and the ends of the record, cover all steps once, in order."""
    length = window_length(n_features, n_lags)
    if n_lags != 1 and _is_one_window(n_steps, n_features):
        yield Window(0, n_steps, 0, n_steps)
        return
    stride = max(1, length // 3)
    edge, first = (length - stride) // 2, 0
    while first < n_steps:
        start = min(max(0, first - edge), n_steps - length)
        last = n_steps if start + length == n_steps else first + stride + (edge if first == 0 else 0)
        yield Window(start, start + length, first, last)
        first = last


@one_blas_thread()
def marginals(
    prior: Prior, record: np.ndarray, positions: np.ndarray, cells: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(K, T) posterior means and standard deviations, each cell given what is known in its window.

    Args:
        prior: shared by all records of one process.
        record: (K, T) standardised, NaN where nothing is known.
        positions: (T,) times in steps.
        cells: (K, T) bool, missing ones that are wanted; all of them by default. Others keep mean and spread 0.
    """
    gaps = np.isnan(record)
    mean, spread = np.where(gaps, 0.0, record), np.zeros(record.shape)
    queries = gaps if cells is None else cells & gaps
    every = list(windows(record.shape[1], len(record), len(prior.covariance)))
    for block in prior.blocks:
        wanted = [_wanted(queries[:, w.start : w.stop].T, w, block) for w in every]
        with_queries = [n for n, of_window in enumerate(wanted) if of_window.any()]
        for some in (with_queries[n : n + CHUNK] for n in range(0, len(with_queries), CHUNK)):
            of_block = [record[block.features, every[n].start : every[n].stop].T.ravel() for n in some]
            values = np.nan_to_num(np.stack(of_block))
            for place, n in enumerate(some):
                steps, known = slice(every[n].start, every[n].stop), ~np.isnan(of_block[place])
                conditional = prior.conditional(block.features, positions[steps], known, wanted[n].ravel())
                step, feature = np.nonzero(wanted[n])
                at = block.features[feature], steps.start + step
                mean[at], spread[at] = conditional.mean(values, place), conditional.spread
    return mean, spread


def condition(prior: Prior, record: np.ndarray, positions: np.ndarray, n_draws: int, rng: np.random.Generator) -> Piece:
    """All of a record at once, see ``conditioned_pieces``."""
    return joined(list(conditioned_pieces(prior, record, positions, n_draws, rng)))


def joined(pieces: Sequence[Piece]) -> Piece:
    """Pieces that follow each other, in one."""
    mean, deviations = (np.concatenate([getattr(p, name) for p in pieces], -1) for name in ("mean", "deviations"))
    return Piece(slice(pieces[0].steps.start, pieces[-1].steps.stop), mean, deviations)


def conditioned_pieces(
    prior: Prior, record: np.ndarray, positions: np.ndarray, n_draws: int, rng: np.random.Generator
) -> Iterator[Piece]:
    """Draws of a record, piece by piece in the order of time; memory does not grow with the record.

    A window's cells are drawn given all that is known in it and what was drawn before, so that a draw is one path over
    windows and blocks of features. The mean follows the same way, which is exact, since it is linear. Arguments: see
    ``marginals``.
    """
    n_features, n_steps = record.shape
    paths, known, start = np.zeros((1 + n_draws, 0, n_features)), np.zeros((0, n_features), bool), 0
    every = list(windows(n_steps, n_features, len(prior.covariance)))
    for chunk in (every[n : n + CHUNK] for n in range(0, len(every), CHUNK)):
        fresh = record[:, start + len(known) : chunk[-1].stop].T
        drawn = np.zeros((1 + n_draws, *fresh.shape))
        drawn[0] = np.nan_to_num(fresh)
        passed = chunk[0].start - start
        paths = np.concatenate([paths[:, passed:], drawn], 1)
        known = np.concatenate([known[passed:], ~np.isnan(fresh)])
        start = chunk[0].start
        for block in prior.blocks:
            for window in chunk:
                _draw(prior, block, window, start, positions, paths, known, rng)
        steps = slice(chunk[0].first, chunk[-1].last)
        inner = paths[:, steps.start - start : steps.stop - start].transpose(0, 2, 1)
        yield Piece(steps, inner[0], inner[1:])


@one_blas_thread()
def _draw(
    prior: Prior, block: Block, window: Window, start: int, positions: np.ndarray, paths: np.ndarray,
    known: np.ndarray, rng: np.random.Generator,
) -> None:  # fmt: skip
    """Fills what is wanted of one window and block in ``paths`` and ``known``, whose first step is ``start``."""
    steps = slice(window.start - start, window.stop - start)
    wanted = _wanted(~known[steps], window, block)
    if wanted.any():
        of_block = known[steps, block.features].ravel()
        conditional = prior.conditional(block.features, positions[window.start : window.stop], of_block, wanted.ravel())
        step, feature = np.nonzero(wanted)
        at = step + steps.start, block.features[feature]
        paths[:, at[0], at[1]] = conditional.paths(paths[:, steps, block.features].reshape(len(paths), -1), rng)
        known[at] = True


def _wanted(queries: np.ndarray, window: Window, block: Block) -> np.ndarray:
    """(n, M) which cells of the window and the block's features are filled in this window.

    Args:
        queries: (n, K) bool.
    """
    wanted = np.zeros((len(queries), len(block.features)), bool)
    inner, targets = slice(window.first - window.start, window.last - window.start), block.features[: block.n_targets]
    wanted[inner, : block.n_targets] = queries[inner][:, targets]
    return wanted

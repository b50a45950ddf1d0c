"""Missing cells given the known ones: posterior mean and spread, and draws that are coherent paths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from tsimpute.gaussian.covariance import at_positions

MOST_CELLS = 1300
"""Cells of a window, about: the cost of one grows with their cube."""
WHOLE_RECORD = 1800
"""Records with up to so many cells are one window."""
BLOCK, NEIGHBOURS = 16, 16
"""Features that are filled together where there are many, and the features beside them that are looked at."""
_JITTER = 1e-9
_MOST_MATRICES = 8


@dataclass(frozen=True)
class Window:
    """Steps ``start`` to ``stop`` are looked at to fill those from ``first`` to ``last``."""

    start: int
    stop: int
    first: int
    last: int


class Prior:
    """A process, with the covariance matrices of the windows that were looked at last.

    Args:
        covariance: (W, K, K), see ``covariance.regularised``.

    Attributes:
        covariance: as given.
        blocks: features to fill together, and others to look at, see ``_blocks``.
    """

    def __init__(self, covariance: np.ndarray) -> None:
        self.covariance = covariance
        self.blocks = tuple(_blocks(covariance[0]))
        self._matrices: dict[bytes, np.ndarray] = {}

    def matrix(self, features: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """(n M, n M) covariance of M features at n positions; one matrix for all windows with the same distances."""
        relative = positions - positions[0]
        key = features.tobytes() + relative.tobytes()
        if key not in self._matrices:
            if len(self._matrices) >= _MOST_MATRICES:
                self._matrices.pop(next(iter(self._matrices)))
            self._matrices[key] = at_positions(self.covariance[:, features][:, :, features], relative)
        return self._matrices[key]


@dataclass(frozen=True, eq=False)
class Posterior:
    """Of one record of K features and T steps.

    Attributes:
        mean: (K, T); known cells hold their value.
        spread: (K, T) standard deviations; 0 at known cells.
        deviations: (H, K, T) of H draws from the mean, 0 at known cells. ``mean - deviations`` are draws as well.
    """

    mean: np.ndarray
    spread: np.ndarray
    deviations: np.ndarray


def window_length(n_features: int) -> int:
    """Steps of a window of long records."""
    return int(
        np.clip(MOST_CELLS // min(n_features, BLOCK + NEIGHBOURS if _is_wide(n_features) else n_features), 8, 96)
    )


def windows(n_steps: int, n_features: int) -> Iterator[Window]:
    """Windows whose middle thirds, and the ends of the record, cover all steps once, in order."""
    length = window_length(n_features)
    if n_steps <= length or n_steps * n_features <= WHOLE_RECORD:
        yield Window(0, n_steps, 0, n_steps)
        return
    hop = max(1, length // 3)
    edge, first = (length - hop) // 2, 0
    while first < n_steps:
        start = min(max(0, first - edge), n_steps - length)
        last = n_steps if start + length == n_steps else first + hop + (edge if first == 0 else 0)
        yield Window(start, start + length, first, last)
        first = last


def condition(
    prior: Prior, record: np.ndarray, positions: np.ndarray, n_draws: int = 0, rng: np.random.Generator | None = None
) -> Posterior:
    """The posterior of a record's missing cells.

    A window's cells are drawn given all that is known in it and what was drawn before, so that a draw is one path over
    windows and blocks of features. The mean follows the same way, which is exact, since it is linear.

    Args:
        prior: shared by all records of one process, so that its matrices are made once.
        record: (K, T) standardised, NaN where nothing is known.
        positions: (T,) times in steps.
        n_draws: H; 0 needs no generator.
    """
    n_features, n_steps = record.shape
    missing = np.isnan(record).T
    paths = np.zeros((1 + n_draws, n_steps, n_features))
    paths[0] = np.where(missing, 0.0, record.T)
    spread = np.zeros((n_steps, n_features))
    done = ~missing
    for targets, neighbours in prior.blocks:
        features = np.concatenate([targets, neighbours])
        for window in windows(n_steps, len(features)):
            steps = slice(window.start, window.stop)
            wanted = np.zeros((window.stop - window.start, len(features)), bool)
            inner = slice(window.first - window.start, window.last - window.start)
            wanted[inner, : len(targets)] = ~done[window.first : window.last, targets]
            if wanted.any():
                known = done[steps, features]
                matrix = prior.matrix(features, positions[steps])
                here = paths[:, steps, features].reshape(len(paths), -1)
                cells = np.flatnonzero(wanted)
                drawn, deviation = _given(matrix, here, np.flatnonzero(known), cells, n_draws, rng)
                step, feature = window.start + cells // len(features), features[cells % len(features)]
                paths[:, step, feature] = drawn
                spread[step, feature] = deviation
                if n_draws:
                    done[step, feature] = True
    return Posterior(paths[0].T, spread.T, paths[1:].transpose(0, 2, 1))


def _given(
    matrix: np.ndarray, paths: np.ndarray, known: np.ndarray, cells: np.ndarray, n_draws: int,
    rng: np.random.Generator | None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(1 + H, M) means and paths at M cells given those known, and (M,) standard deviations."""
    prior = matrix[np.ix_(cells, cells)]
    if len(known):
        root = _cholesky(matrix[np.ix_(known, known)])
        cross = scipy.linalg.solve_triangular(root, matrix[np.ix_(known, cells)], lower=True, check_finite=False)
        white = scipy.linalg.solve_triangular(root, paths[:, known].T, lower=True, check_finite=False)
        mean, left = white.T @ cross, prior - cross.T @ cross
    else:
        mean, left = np.zeros((len(paths), len(cells))), prior
    if n_draws and rng is not None:
        mean[1:] += rng.standard_normal((n_draws, len(cells))) @ _cholesky(left).T
    return mean, np.sqrt(np.maximum(np.diagonal(left), 0.0))


def _cholesky(matrix: np.ndarray) -> np.ndarray:
    """The lower root of a positive matrix, with as much on its diagonal as rounding needs."""
    jitter = 0.0
    while True:
        try:
            added = matrix + jitter * np.eye(len(matrix)) if jitter else matrix
            return scipy.linalg.cholesky(added, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            jitter = max(_JITTER, 10 * jitter)


def _is_wide(n_features: int) -> bool:
    return n_features > 3 * BLOCK


def _blocks(correlation: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Features to fill together, and others to look at; together those that correlate most.

    Args:
        correlation: (K, K).
    """
    n_features = len(correlation)
    if not _is_wide(n_features):
        yield np.arange(n_features), np.arange(0)
        return
    strength = np.abs(correlation)
    left = np.ones(n_features, bool)
    while left.any():
        first = int(np.flatnonzero(left)[0])
        order = np.argsort(-strength[first], kind="stable")
        block = np.sort(order[left[order]][:BLOCK])
        left[block] = False
        others = np.setdiff1d(np.arange(n_features), block)
        near = np.argsort(-strength[np.ix_(block, others)].max(0), kind="stable")[:NEIGHBOURS]
        yield block, others[near]

"""Some cells of one window given others, in the way that costs least; windows of one layout share factors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from tsimpute.gaussian.covariance import at_positions

BLOCK, NEIGHBOURS = 16, 16
"""Features that are filled together where there are many, and others that are conditioned on with them."""
_JITTER = 1e-9
_MOST_BYTES, _MOST_CONDITIONALS = 400_000_000, 8
"""Of the matrices of windows in memory, three for each; and ways of conditioning."""

_POTRF, _TRTRS = get_lapack_funcs(("potrf", "trtrs"))  # many windows: no wrappers


class Conditional:
    """M wanted cells of a window of C cells, given those that are known."""

    @cached_property
    def spread(self) -> np.ndarray:
        """(M,) standard deviations."""
        raise NotImplementedError

    def paths(self, cells: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        """(1 + H, M) the mean, and H draws of a process around 0.

        Args:
            cells: (1 + H, C); only the known ones count.
            rng: not needed where H is 0.
        """
        raise NotImplementedError

    def mean(self, cells: np.ndarray, n: int) -> np.ndarray:
        """(M,) the mean for the n-th of (N, C) values of windows, most of them of this layout; 0 where not known."""
        return self.paths(cells[n : n + 1], None)[0]


@dataclass(frozen=True, eq=False)
class Block:
    """Features that are filled together, first, and others that are conditioned on."""

    features: np.ndarray
    n_targets: int


class Prior:
    """A process, with what was computed for the windows that came last.

    Args:
        covariance: (W, K, K), see ``covariance.Estimated.regularised``.

    Attributes:
        covariance: as given.
        blocks: of features, all in one where there are few; see ``_blocks``.
    """

    def __init__(self, covariance: np.ndarray) -> None:
        self.covariance = covariance
        self.blocks = tuple(_blocks(covariance[0]))
        self._layouts: dict[bytes, _Layout] = {}
        self._conditionals: dict[bytes, Conditional] = {}

    def conditional(
        self, features: np.ndarray, positions: np.ndarray, known: np.ndarray, wanted: np.ndarray
    ) -> Conditional:
        """How cells of a window go with those that are known.

        Which way is taken depends on the masks and positions alone, not on what was computed before.

        Args:
            features: (M,) that the window has.
            positions: (n,) times in steps.
            known, wanted: (n M,) masks of its cells, times first; no cell is both.
        """
        relative = positions - positions[0]
        layout_key = features.tobytes() + relative.tobytes()
        key = layout_key + known.tobytes() + wanted.tobytes()
        if key not in self._conditionals:
            if layout_key not in self._layouts:
                _forget_first(self._layouts, max(2, _MOST_BYTES // (24 * len(known) ** 2)))
                matrix = at_positions(self.covariance[:, features][:, :, features], relative)
                self._layouts[layout_key] = _Layout(matrix, len(features), bool((np.diff(relative) == 1).all()))
            _forget_first(self._conditionals, _MOST_CONDITIONALS)
            layout, others = self._layouts[layout_key], np.flatnonzero(~(known | wanted))
            known_cells, cells = np.flatnonzero(known), np.flatnonzero(wanted)
            n, m, gaps = len(known_cells), len(cells), len(others) + len(cells)
            if layout.regular and gaps**3 + m**3 <= n**3 + 3 * n**2 * m:  # multiplications of both ways, times 3
                self._conditionals[key] = _FromPrecision(layout, known_cells, np.concatenate([others, cells]), m)
            else:
                self._conditionals[key] = _FromCovariance(layout, known_cells, cells)
        return self._conditionals[key]


@dataclass(eq=False)
class _Layout:
    """The cells of a window, times first, and their (C, C) covariance.

    Attributes:
        n_features: of the window.
        regular: steps follow each other: many windows share this layout, and the covariance is block Toeplitz.
    """

    matrix: np.ndarray
    n_features: int
    regular: bool
    _last: tuple[np.ndarray, np.ndarray] | None = field(default=None, init=False)

    @cached_property
    def root(self) -> np.ndarray:
        return cholesky(self.matrix)

    @cached_property
    def precision(self) -> np.ndarray:
        """The inverse of the covariance, of a regular window, from its first and last block columns alone.

        Block (i + 1, j + 1) is block (i, j) and a product of two blocks of these columns; see Gohberg and Heinig
        (1974).
        """
        n, size = self.n_features, len(self.matrix)
        if size == n:
            return np.linalg.inv(self.matrix)
        ends = np.zeros((size, 2 * n))
        ends[:n, :n] = ends[-n:, n:] = np.eye(n)
        first, last = np.hsplit(_solved(self.root, _solved(self.root, ends), transposed=True), 2)
        of_first, of_last = first @ np.linalg.solve(first[:n], first.T), last @ np.linalg.solve(last[-n:], last.T)
        inverse = of_first
        inverse[n:, n:] -= of_last[:-n, :-n]
        for i in range(n, size, n):
            inverse[i : i + n, n:] += inverse[i - n : i, :-n]
        return inverse

    def weighed(self, cells: np.ndarray) -> np.ndarray:
        """(N, C) values of windows times the precision: of all at once, which costs little more than of one."""
        if self._last is None or self._last[0] is not cells:
            self._last = cells, cells @ self.precision
        return self._last[1]


@dataclass(frozen=True, eq=False)
class _FromCovariance(Conditional):
    """By the root of the covariance of the known cells: cheap where these are few."""

    layout: _Layout
    known_cells: np.ndarray
    cells: np.ndarray

    @cached_property
    def _root(self) -> np.ndarray:
        return _root_of_part(self.layout.matrix, self.known_cells)

    @cached_property
    def _white(self) -> np.ndarray:
        """(n, M) covariances of the known cells, made independent, with the wanted ones."""
        return _solved(self._root, self.layout.matrix[np.ix_(self.known_cells, self.cells)])

    @cached_property
    def _root_of_rest(self) -> np.ndarray:
        return cholesky(self.layout.matrix[np.ix_(self.cells, self.cells)] - self._white.T @ self._white)

    @cached_property
    def spread(self) -> np.ndarray:
        explained = (self._white**2).sum(0)
        return np.sqrt(np.maximum(np.diagonal(self.layout.matrix)[self.cells] - explained, 0.0))

    def paths(self, cells: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        known, n_draws = cells[:, self.known_cells].T, len(cells) - 1
        if not n_draws or len(self.cells) <= len(self.known_cells):
            out = self._white.T @ _solved(self._root, known)
            if n_draws:
                out[:, 1:] += self._root_of_rest @ _noise(rng, len(out), n_draws)
            return out.T
        # Draws of the whole window, moved by what its known cells lack (Matheron's rule): one root for all windows.
        prior = np.zeros((cells.shape[1], len(cells)))
        prior[:, 1:] = self.layout.root @ _noise(rng, len(prior), n_draws)
        weights = _solved(self._root, _solved(self._root, known - prior[self.known_cells]), transposed=True)
        return (prior[self.cells] + self.layout.matrix[np.ix_(self.cells, self.known_cells)] @ weights).T


@dataclass(frozen=True, eq=False)
class _FromPrecision(Conditional):
    """By the root of the precision of all cells that are not known, wanted ones last: cheap where few are not known.

    See Rue and Held (2005), section 2.3.

    Attributes:
        gaps: the cells that are not known.
    """

    layout: _Layout
    known_cells: np.ndarray
    gaps: np.ndarray
    n_wanted: int

    @cached_property
    def root(self) -> np.ndarray:
        """Of the precision between the gaps."""
        return _root_of_part(self.layout.precision, self.gaps)

    @cached_property
    def _rows(self) -> np.ndarray:
        return self.layout.precision[self.gaps]

    @property
    def _root_of_wanted(self) -> np.ndarray:
        return self.root[-self.n_wanted :, -self.n_wanted :]

    @cached_property
    def spread(self) -> np.ndarray:
        return np.sqrt((_solved(self._root_of_wanted, np.eye(self.n_wanted)) ** 2).sum(0))

    def paths(self, cells: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        known = np.zeros_like(cells)
        known[:, self.known_cells] = cells[:, self.known_cells]
        return self._moved(self._rows @ known.T, _noise(rng, self.n_wanted, len(cells) - 1))

    def mean(self, cells: np.ndarray, n: int) -> np.ndarray:
        """See ``Conditional``."""
        return self._moved(self.layout.weighed(cells)[n, self.gaps][:, None], np.empty((self.n_wanted, 0)))[0]

    def _moved(self, weighed: np.ndarray, noise: np.ndarray) -> np.ndarray:
        white = -_solved(self.root, weighed)[-self.n_wanted :]
        white[:, 1:] += noise
        return _solved(self._root_of_wanted, white, transposed=True).T


def cholesky(matrix: np.ndarray) -> np.ndarray:
    """The lower root of a positive matrix, with as much on its diagonal as rounding needs."""
    jitter = 0.0
    while True:
        root, failed = _POTRF(matrix.T + jitter * np.eye(len(matrix)) if jitter else matrix.T, lower=1)
        if not failed:
            return root
        jitter = max(_JITTER, 10 * jitter)


def _root_of_part(matrix: np.ndarray, cells: np.ndarray) -> np.ndarray:
    root, failed = _POTRF(matrix[np.ix_(cells, cells)].T, lower=1, overwrite_a=1)
    return cholesky(matrix[np.ix_(cells, cells)]) if failed else root


def _solved(root: np.ndarray, right: np.ndarray, transposed: bool = False) -> np.ndarray:
    return _TRTRS(root, right, lower=1, trans=int(transposed))[0] if right.size else right


def _noise(rng: np.random.Generator | None, n_cells: int, n_draws: int) -> np.ndarray:
    return rng.standard_normal((n_cells, n_draws)) if rng is not None and n_draws else np.zeros((n_cells, n_draws))


def _forget_first(cache: dict[bytes, Any], most: int) -> None:
    if len(cache) >= most:
        cache.pop(next(iter(cache)))


def is_wide(n_features: int) -> bool:
    return n_features > 3 * BLOCK


def _blocks(correlation: np.ndarray) -> Iterator[Block]:
    """Features that correlate most are targets of one block; others that correlate most with them complete it.

    Args:
        correlation: (K, K).
    """
    n_features = len(correlation)
    if not is_wide(n_features):
        yield Block(np.arange(n_features), n_features)
        return
    strength = np.abs(correlation)
    remaining = np.ones(n_features, bool)
    while remaining.any():
        first = int(np.flatnonzero(remaining)[0])
        order = np.argsort(-strength[first], kind="stable")
        targets = np.sort(order[remaining[order]][:BLOCK])
        remaining[targets] = False
        others = np.setdiff1d(np.arange(n_features), targets)
        near = np.argsort(-strength[np.ix_(targets, others)].max(0), kind="stable")[:NEIGHBOURS]
        yield Block(np.concatenate([targets, others[near]]), len(targets))

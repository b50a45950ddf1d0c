"""Straight lines between neighbours and how far the truth lies from them: delivered where nothing is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tsimpute.imputers.linear import interpolated
from tsimpute.quantiles import quantiles
from tsimpute.windows import Windows

BOUNDS = (1, 4, 16)
"""Gaps of up to so many steps make one class; longer ones make the last."""
N_CLASSES = len(BOUNDS) + 1
_LEVELS = np.linspace(0.01, 0.99, 50)
_LEAST_CELLS = 50
"""Of a class, for a shape of its own."""
_PRIOR_CELLS = 5
_LEAST_RATIO = 0.05


def gap_classes(missing: np.ndarray) -> np.ndarray:
    """(K, T) int: the class of the run of missing steps that each cell lies in; 0 where nothing is missing."""
    edges = np.diff(np.pad(missing, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = np.nonzero(edges == 1)
    _, ends = np.nonzero(edges == -1)
    lengths = np.zeros((len(missing), missing.shape[1] + 1), np.int64)
    np.add.at(lengths, (rows, starts), ends - starts)
    np.add.at(lengths, (rows, ends), starts - ends)
    return np.searchsorted(BOUNDS, np.cumsum(lengths, axis=1)[:, :-1])


@dataclass(frozen=True, eq=False)
class Lines:
    """Linear interpolation and the distribution of what is left, in the scale of a model.

    Attributes:
        spread: (K, C) mean absolute residual of each feature in each class of gaps.
        quantiles: (C, Q) of the residuals of each class of gaps, in units of ``spread``.
    """

    spread: np.ndarray
    quantiles: np.ndarray

    @classmethod
    def fit(cls, residual: np.ndarray, feature: np.ndarray, gap: np.ndarray, n_features: int) -> Self:
        """From (M,) residuals at hidden cells, their features and the classes of their gaps."""
        size = np.abs(residual)
        overall = max(float(size.mean()), 1e-9)
        of_feature = _sizes(size, feature, np.full(n_features, overall))
        of_class = _sizes(size / of_feature[feature], gap, np.ones(N_CLASSES))
        both = (of_feature[:, None] * of_class).ravel()
        # Air pressure leaves its line the more the longer the gap is, the period of waves at once: no product of two.
        spread = _sizes(size, feature * N_CLASSES + gap, both).reshape(n_features, N_CLASSES)
        unit = residual / spread[feature, gap]
        of_gaps = [unit[gap == c] if (gap == c).sum() >= _LEAST_CELLS else unit for c in range(N_CLASSES)]
        return cls(spread, np.stack([quantiles(of_one, _LEVELS) for of_one in of_gaps]))

    def draws(self, known: np.ndarray, times: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """(S, K, T) of a record of standardised values; within a gap a draw keeps to one side of the line.

        Args:
            known: (K, T), NaN where nothing is known.
            times: (T,).
        """
        missing = np.isnan(known)
        line = interpolated(known[None], times[None], np.zeros(len(known)))[0]
        gap = gap_classes(missing)
        run = np.cumsum(np.diff(np.pad(missing, ((0, 0), (1, 0))).astype(np.int8), axis=1) == 1, axis=1)
        run += np.concatenate([[0], np.cumsum(run[:-1, -1] + 1)])[:, None]
        k, t = np.nonzero(missing)
        out = np.repeat(line[None], n_draws, 0)
        levels = (np.argsort(rng.random((int(run.max(initial=0)) + 1, n_draws)), axis=1) + 0.5) / n_draws
        of_cells = levels[run[k, t]]
        for c in range(N_CLASSES):
            here = gap[k, t] == c
            residual = np.interp(of_cells[here], _LEVELS, self.quantiles[c]) * self.spread[k[here], c][:, None]
            out[:, k[here], t[here]] += residual.T
        return out

    def at_cells(
        self, line: np.ndarray, feature: np.ndarray, gap: np.ndarray, n_draws: int, rng: np.random.Generator
    ) -> np.ndarray:
        """(S, M) draws at single cells, of which straight lines, features and classes of gaps (M,) are given."""
        levels = (np.argsort(rng.random((len(line), n_draws)), axis=1) + 0.5) / n_draws
        unit = np.empty((len(line), n_draws))
        for c in range(N_CLASSES):
            unit[gap == c] = np.interp(levels[gap == c], _LEVELS, self.quantiles[c])
        return line + unit.T * self.spread[feature, gap]

    def to_dict(self) -> dict[str, Any]:
        """Plain lists for JSON."""
        return {"spread": self.spread.tolist(), "quantiles": self.quantiles.tolist()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Sequence[Any]]) -> Self:
        """What ``to_dict`` gave."""
        quantiles = np.array(stored["quantiles"])
        spread = np.array(stored["spread"])
        by_class = spread if spread.ndim == 2 else np.repeat(spread[:, None], len(quantiles), 1)  # of older files
        return cls(by_class, quantiles)


def _sizes(size: np.ndarray, part: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Mean sizes of each part, drawn towards ``prior`` as a ratio: those of two features may differ by 20 times."""
    counts = np.bincount(part, minlength=len(prior))
    own = np.bincount(part, size, len(prior)) / np.maximum(counts, 1)
    few = _PRIOR_CELLS / (counts + _PRIOR_CELLS)
    return np.maximum(own, _LEAST_RATIO * prior) ** (1 - few) * prior**few


def record_of(windows: Windows, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Values (K, T) of one record's own features, NaN where they are not shown, and its times (T,)."""
    known = np.where(windows.shown[0], windows.values[0], np.nan).astype(np.float64)
    return known[:n_features], windows.times[0].astype(np.float64)

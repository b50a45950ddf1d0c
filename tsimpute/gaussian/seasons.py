"""Seasonal profiles: a few harmonics of the day, the week and the year, of the features that they predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

N_HARMONICS = 4
MOST_PERIODS = 4
"""A season is looked for where records span at least so many of it."""
_GAIN = 0.02
"""Share of the variance that a profile must explain on periods that it was not fitted to."""
_BEGINNINGS = (0.0, 0.25, 0.5, 0.75)
"""Of these periods, in turns."""


@dataclass(frozen=True, eq=False)
class Seasons:
    """Sums of sines and cosines of time, by feature.

    Attributes:
        periods: in the unit of the times.
        weights: (K, periods x 2 N_HARMONICS); 0 for features without a season.
    """

    periods: tuple[float, ...]
    weights: np.ndarray

    @classmethod
    def fit(cls, records: Sequence[np.ndarray], times: Sequence[np.ndarray], periods: Sequence[float]) -> Seasons:
        """Profiles of standardised records.

        Args:
            records: (K, T) each, NaN where nothing is known.
            times: (T,) each, in one unit from one origin.
            periods: that may be there; those with less than ``MOST_PERIODS`` in the longest record are left out.
        """
        span = max(float(t[-1] - t[0]) for t in times)
        fitting = tuple(p for p in periods if span >= MOST_PERIODS * p and _step(times) <= p / 4)
        weights = np.zeros((len(records[0]), 2 * N_HARMONICS * len(fitting)))
        if not fitting:
            return cls((), weights)
        clock = np.concatenate(list(times))
        waves = _waves(clock, fitting)
        # Odd and even stretches of the longest period: what is fitted to one half must hold on the other, wherever
        # stretches begin. Slow changes of a series without a season often pass with one beginning, and not with all.
        turns = clock / max(fitting) + np.array(_BEGINNINGS)[:, None]
        halves = np.floor(turns).astype(np.int64) % 2 == 0
        values = np.concatenate(list(records), axis=1)
        known = ~np.isnan(values)
        gains = np.array(
            [
                min(_gain(waves[cells], row[cells], half[cells]) for half in halves)
                for row, cells in zip(values, known, strict=True)
            ]
        )
        alike = _alike(values)
        for k in np.flatnonzero(alike @ gains / alike.sum(1) > _GAIN):
            weights[k] = _ridge(waves[known[k]], values[k, known[k]])
        return cls(fitting, weights)

    def at(self, times: np.ndarray) -> np.ndarray:
        """(K, T) profiles at (T,) times."""
        if not self.periods:
            return np.zeros((len(self.weights), len(times)))
        return self.weights @ _waves(times, self.periods).T


def _step(times: Sequence[np.ndarray]) -> float:
    steps = np.concatenate([np.diff(t) for t in times])
    return float(np.median(steps)) if len(steps) else np.inf


def _waves(times: np.ndarray, periods: Sequence[float]) -> np.ndarray:
    phases = [2 * np.pi * order * times / period for period in periods for order in range(1, N_HARMONICS + 1)]
    return np.stack([wave(phase) for phase in phases for wave in (np.sin, np.cos)], 1)


def _ridge(waves: np.ndarray, values: np.ndarray) -> np.ndarray:
    penalty = 0.01 * len(waves) + 5
    gram = waves.T @ waves + penalty / 2 * np.eye(waves.shape[1])
    return np.linalg.solve(gram, waves.T @ (values - values.mean()))


def _alike(values: np.ndarray) -> np.ndarray:
    """(K, K) squared correlations of (K, T) values at steps where both are known, lower where these are few."""
    known = (~np.isnan(values)).astype(np.float64)
    centred = np.nan_to_num(values - (np.nansum(values, 1) / np.maximum(known.sum(1), 1))[:, None])
    products, squares, counts = centred @ centred.T, centred**2 @ known.T, known @ known.T
    sizes = np.sqrt(squares * squares.T)
    return np.where(np.eye(len(values)) > 0, 1.0, (products / np.maximum(sizes, 1e-12)) ** 2 * counts / (counts + 30))


def _gain(waves: np.ndarray, values: np.ndarray, half: np.ndarray) -> float:
    """Share of the variance that is explained on the other half, the lower one of both."""
    if min(half.sum(), (~half).sum()) <= 2 * waves.shape[1]:
        return 0.0
    gains = []
    for fitted in (half, ~half):
        rest = values[~fitted] - values[fitted].mean()
        residual = rest - waves[~fitted] @ _ridge(waves[fitted], values[fitted])
        gains.append(1 - float((residual**2).sum() / max((rest**2).sum(), 1e-12)))
    return min(gains)

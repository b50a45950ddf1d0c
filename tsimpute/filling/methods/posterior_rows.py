"""The posterior of a process around missing cells, as rows of numbers that a regression learns from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsimpute.gaussian.curves import Curves
from tsimpute.gaussian.process import GaussianModel
from tsimpute.imputers.shared.interpolation import interpolated

MOST_OTHERS = 10
"""Other features in a row: those with the largest covariances."""
_NEAR = (-3, -2, -1, 1, 2, 3)
_FAR = 500
_DAY, _WEEK = 24.0, 7.0


@dataclass(frozen=True, eq=False)
class Seen:
    """One record given some of its cells, in scores without their season.

    Attributes:
        mean: (K, T) posterior means; known cells themselves.
        spread: (K, T) posterior standard deviations; 0 where a cell is known.
        move: (K, T) how far curves move the mean.
        way: (K, T) from there to the mean of the process without seasons; 0 where there is none.
        other_spread: (K, T) of that process.
        lines: (K, T) straight lines between known cells.
        last, following: (K, T) step of the nearest known cell before and after each; outside the record if there is
            none.
        times: (T,).
    """

    mean: np.ndarray
    spread: np.ndarray
    move: np.ndarray
    way: np.ndarray
    other_spread: np.ndarray
    lines: np.ndarray
    last: np.ndarray
    following: np.ndarray
    times: np.ndarray

    @classmethod
    def of(
        cls, scores: np.ndarray, mean: np.ndarray, spread: np.ndarray, times: np.ndarray, curves: Curves | None,
        other: tuple[np.ndarray, np.ndarray] | None,
    ) -> Seen:  # fmt: skip
        """Args:
        scores: (K, T), NaN where nothing is known.
        mean, spread: of the missing cells, others do not count.
        other: means, in the same scores, and spreads of the process without seasons.
        """
        known, steps = ~np.isnan(scores), np.arange(len(times))
        mean, spread = np.where(known, scores, mean), np.where(known, 0.0, spread)
        move = np.zeros(mean.shape) if curves is None else curves.moves(mean, spread, times)[0]
        way, other_spread = np.zeros(mean.shape), np.zeros(mean.shape)
        if other is not None:
            way = np.where(known, 0.0, other[0] - mean - move)
            other_spread = np.where(known, 0.0, other[1])
        lines = interpolated(scores[None], times[None], np.zeros(len(scores)))[0]
        last = np.maximum.accumulate(np.where(known, steps, -_FAR), 1)
        following = np.minimum.accumulate(np.where(known, steps, len(times) + _FAR)[:, ::-1], 1)[:, ::-1]
        return cls(mean, spread, move, way, other_spread, lines, last, following, times)

    def rows(self, k: int, steps: np.ndarray, others: Sequence[int]) -> np.ndarray:
        """(M, D) single precision: the posterior around some steps of a feature.

        Args:
            others: the other features in the rows.
        """
        mean = self.mean[k, steps]
        columns = [mean, self.spread[k, steps], self.lines[k, steps] - mean, self.move[k, steps]]
        columns += [self.way[k, steps], self.other_spread[k, steps]]
        columns += [self._at(k, steps + lag) - mean for lag in _NEAR]
        columns += [np.minimum(np.abs(end[k, steps] - steps), _FAR) for end in (self.last, self.following)]
        for end in (self.last, self.following):
            at = end[k, steps]
            columns.append(np.where((at >= 0) & (at < len(self.times)), self._at(k, at) - mean, 0.0))
        for j in others:
            other = self.mean[j, steps]
            columns += [other, self._at(j, steps - 1) - other, self._at(j, steps + 1) - other, self.spread[j, steps]]
        days = self.times[steps] / _DAY
        columns += [np.sin(2 * np.pi * days), np.cos(2 * np.pi * days), np.floor(days) % _WEEK]
        return np.stack(columns, 1).astype(np.float32)

    def _at(self, k: int, steps: np.ndarray) -> np.ndarray:
        return self.mean[k, np.clip(steps, 0, len(self.times) - 1)]


def others_of(model: GaussianModel) -> list[list[int]]:
    """Of each feature the others in its rows."""
    order = np.argsort(-np.abs(model.covariance[0]), axis=1, kind="stable").tolist()
    return [[j for j in others if j != k][:MOST_OTHERS] for k, others in enumerate(order)]

"""A monotone map of each feature's values towards the standard normal distribution, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

N_KNOTS = 200
_EDGE, _END = 0.5, 0.5
"""Beyond the known values the slope is that of the last so many scores, and at least such a share of the mean slope."""
_SLIP = 40.0
"""Such a multiple of the other values' usual distance from the median is a slip of the pen."""


@dataclass(frozen=True, eq=False)
class MonotoneMap:
    """Piecewise linear between knots.

    Attributes:
        values: (n,) increasing, in the data's units.
        scores: (n,) increasing, standard normal where the map is a full one.
        slopes: value per score below the first knot and beyond the last one.
    """

    values: np.ndarray
    scores: np.ndarray
    slopes: tuple[float, float]

    @classmethod
    def fit(cls, known: np.ndarray, normality: float) -> MonotoneMap:
        """A map of standardised values a part of the way to their normal scores.

        Args:
            known: (M,) finite values, also none.
            normality: 0 only standardises, 1 gives normal scores, in between their weighted mean.
        """
        known = _without_slips(known)
        distinct, counts = np.unique(known, return_counts=True)
        if len(distinct) < 2:  # a constant stays one; without any value around 0
            value, slope = (float(distinct[0]), 0.0) if len(distinct) else (0.0, 1.0)
            return cls(np.array([value - slope, value + slope]), np.array([-1.0, 1.0]), (slope, slope))
        mean, span = float(known.mean()), float(np.ptp(known))
        scale = span * float(((known - mean) / span).std())  # squares of tiny values would be 0
        first = np.cumsum(counts) - counts
        if normality == 0 or len(distinct) < 3:
            return cls(np.array([mean - scale, mean + scale]), np.array([-1.0, 1.0]), (scale, scale))
        share = (first + counts / 2) / len(known)  # of several equal values the middle rank
        normal = ndtri(share)
        if len(distinct) > N_KNOTS:  # evenly spaced by score: tails need knots as close as the middle
            at = np.searchsorted(normal, np.linspace(normal[0], normal[-1], N_KNOTS))
            at = np.unique(np.append(at, len(distinct) - 1))
            distinct, normal = distinct[at], normal[at]
        scores = (1 - normality) * (distinct - mean) / scale + normality * normal
        mean_slope = float((distinct[-1] - distinct[0]) / (scores[-1] - scores[0]))
        ends = (
            _slope(distinct, scores, scores <= scores[0] + _END),
            _slope(distinct, scores, scores >= scores[-1] - _END),
        )
        slopes = tuple(max(_EDGE * mean_slope, end) for end in ends)
        return cls(distinct, scores, (slopes[0], slopes[1]))

    def forward(self, values: np.ndarray) -> np.ndarray:
        """Scores of values, 0 for any value of a feature that was constant; NaN stays."""
        if self.values[0] == self.values[-1]:
            return 0.0 * (values - self.values[0])
        return _piecewise(values, self.values, self.scores, (1 / self.slopes[0], 1 / self.slopes[1]))

    def inverse(self, scores: np.ndarray) -> np.ndarray:
        """Values of scores; NaN stays."""
        return _piecewise(scores, self.scores, self.values, self.slopes)


def _without_slips(known: np.ndarray) -> np.ndarray:
    """Values but for at most one in 500 that lie out of all proportion: they would set the scale of all others."""
    n_extreme = -(-len(known) // 500)
    if len(known) <= 2 * n_extreme:
        return known
    distance = np.abs(known - np.median(known))
    usual = np.sort(distance)[:-n_extreme]
    top = float(usual[-1])
    scale = top * float(np.sqrt(((usual / top) ** 2).mean())) if top > 0 else 0.0
    slips = distance > _SLIP * scale
    return known[~slips] if scale > 0 and slips.any() else known


def to_arrays(maps: Sequence[MonotoneMap]) -> dict[str, np.ndarray]:
    """All of several maps in a few arrays, one after the other."""
    return {
        "map_knots": np.array([len(mapping.values) for mapping in maps], np.int64),
        "map_values": np.concatenate([mapping.values for mapping in maps]),
        "map_scores": np.concatenate([mapping.scores for mapping in maps]),
        "map_slopes": np.array([mapping.slopes for mapping in maps]),
    }


def from_arrays(arrays: Mapping[str, np.ndarray]) -> tuple[MonotoneMap, ...]:
    """The maps whose ``to_arrays`` these are."""
    ends = np.cumsum(arrays["map_knots"])[:-1]
    values, scores = (np.split(arrays[name], ends) for name in ("map_values", "map_scores"))
    return tuple(
        MonotoneMap(v, s, (low, high))
        for v, s, (low, high) in zip(values, scores, arrays["map_slopes"].tolist(), strict=True)
    )


def _slope(values: np.ndarray, scores: np.ndarray, end: np.ndarray) -> float:
    """Value per score over the knots at one end; 0 where there is one knot."""
    spans = np.ptp(values[end]), np.ptp(scores[end])
    return float(spans[0] / spans[1]) if spans[1] > 0 else 0.0


def _piecewise(x: np.ndarray, knots: np.ndarray, at_knots: np.ndarray, slopes: tuple[float, float]) -> np.ndarray:
    inside = np.interp(x, knots, at_knots)
    below, beyond = np.minimum(x - knots[0], 0), np.maximum(x - knots[-1], 0)
    return inside + slopes[0] * below + slopes[1] * beyond

"""Heavier or lighter tails than a normal law's: a draw's deviation from the mean is multiplied by a random factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtr, ndtri

FACTORS = 2.0 ** np.arange(-2.5, 1.75, 0.5)
"""That a deviation may be multiplied by. Larger ones carry draws so far that their mean suffers in skewed units."""
PRIOR_CELLS = 50
"""The hidden cells of all features count as so many of each feature."""
NORMAL_SHARE = 0.5
"""Of the weights, that of the factor 1: gaps to fill are not quite those that were hidden."""
_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class Tails:
    """A scale mixture of normal laws for each feature; see Andrews and Mallows (1974).

    Attributes:
        weights: (K, J) of ``FACTORS``; each row sums to 1.
    """

    weights: np.ndarray

    @classmethod
    def normal(cls, n_features: int) -> Self:
        """The factor 1 for all features."""
        return cls(np.repeat((FACTORS == 1.0).astype(np.float64)[None], n_features, 0))

    @classmethod
    def fit(cls, residuals: np.ndarray, feature: np.ndarray, n_features: int) -> Self:
        """Half of the way from a normal law to the most likely mixture, by EM.

        That of features with few cells is drawn towards that of all.

        Args:
            residuals: (M,) standardised ones, at cells whose values were not known to the process.
            feature: (M,) index of each cell's feature.
        """
        if len(residuals) < PRIOR_CELLS:
            return cls.normal(n_features)
        density = np.exp(-0.5 * np.minimum((residuals[:, None] / FACTORS) ** 2, 1_000.0)) / FACTORS
        even = np.full(len(FACTORS), 1 / len(FACTORS))
        pooled = _weights(density, np.zeros(len(residuals), np.int64), even[None], 1.0)
        weights = _weights(density, feature, np.repeat(pooled, n_features, 0), float(PRIOR_CELLS))
        return cls((1 - NORMAL_SHARE) * weights + NORMAL_SHARE * cls.normal(n_features).weights)

    def factors(self, levels: np.ndarray) -> np.ndarray:
        """(..., K) quantiles of each feature's factor at levels in (0, 1)."""
        ends = np.cumsum(self.weights, 1)[:, :-1]
        return FACTORS[np.stack([np.searchsorted(edge, levels) for edge in ends], -1)]

    def of_draws(self, n_draws: int, n_steps: int, period: int, rng: np.random.Generator) -> Factors:
        """Factors of draws that vary slowly over time, from one level for all features of a draw.

        At every so many steps the draws share the levels evenly, and are shuffled.

        Args:
            period: steps between two such places; the factors of shorter records stay the same over time.
        """
        n_places = 1 if n_steps <= period else 2 + (n_steps - 1) // period
        order = np.argsort(rng.random((n_places, n_draws)), 1)
        return Factors(self, ndtri((order + rng.random(order.shape)) / n_draws), period)


@dataclass(frozen=True, eq=False)
class Factors:
    """Of the draws of one record; only those of the steps that are wanted are in memory.

    Attributes:
        tails: of the features.
        places: (P, H) normal scores of levels at places that are ``period`` steps apart; with one it is all steps.
    """

    tails: Tails
    places: np.ndarray
    period: int

    def at(self, steps: slice) -> np.ndarray:
        """(H, n, K) at n steps."""
        place = np.arange(steps.start, steps.stop) / self.period * (len(self.places) > 1)
        before = place.astype(np.int64)
        part = (place - before)[:, None]
        after = np.minimum(before + 1, len(self.places) - 1)
        mixed = (1 - part) * self.places[before] + part * self.places[after]
        return self.tails.factors(ndtr(mixed / np.sqrt((1 - part) ** 2 + part**2)).T)


def _weights(density: np.ndarray, part: np.ndarray, prior: np.ndarray, n_prior: float) -> np.ndarray:
    """(P, J) weights of components with (M, J) densities in each part (M,), by EM with a Dirichlet prior (P, J)."""
    n_parts, counts = len(prior), np.bincount(part, minlength=len(prior))
    weights = prior
    members = np.zeros((n_parts, len(part)))
    members[part, np.arange(len(part))] = 1.0
    for _ in range(_ROUNDS):
        share = weights[part] * density + 1e-300
        share /= share.sum(1, keepdims=True)
        weights = (members @ share + n_prior * prior) / (counts[:, None] + n_prior)
    return weights

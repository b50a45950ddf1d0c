"""The fitted process: values to scores and back, posteriors of records, tails of draws, estimates for networks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import ndtr, ndtri

from tsimpute.batches.base_estimates import BaseEstimate, Known
from tsimpute.gaussian import maps
from tsimpute.gaussian.conditionals import Prior
from tsimpute.gaussian.conditioning import Piece, conditioned_pieces, marginals, window_length
from tsimpute.gaussian.maps import MonotoneMap, Seasons, positions
from tsimpute.scaling.standardizer import Scale

FACTORS = 2.0 ** np.arange(-2.5, 1.75, 0.5)
"""That a deviation may be multiplied by. Larger ones carry draws so far that their mean suffers in skewed units."""
PRIOR_CELLS = 50
"""The hidden cells of all features count as so many of each feature."""
NORMAL_SHARE = 0.5
"""Of the weights, that of the factor 1: gaps to fill are not quite those that were hidden."""
_ROUNDS = 100
FARTHEST = 8.0
"""Scores beyond it count as that far: one slip of the keyboard does not move its neighbours by more."""
_MOST_REMEMBERED = 500_000
"""Cells of the records whose posteriors are remembered, about."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
LEAST_SPREAD = 0.01
"""In standard deviations of a feature's scores: what is less counts as that much."""
CHUNK = 960
"""Steps of long records that are estimated together."""


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


@dataclass(frozen=True, eq=False)
class GaussianModel:
    """A fitted process.

    Attributes:
        maps: one per feature.
        seasons: in scores.
        centre: (K,) mean of the scores without their season.
        scale: (K,) standard deviation of the same.
        covariance: (W, K, K), see ``covariance.Estimated.regularised``.
        step: see ``Records``.
        tails: of draws.
    """

    maps: tuple[MonotoneMap, ...]
    seasons: Seasons
    centre: np.ndarray
    scale: np.ndarray
    covariance: np.ndarray
    step: float
    tails: Tails

    def scores(self, values: np.ndarray, times: np.ndarray) -> np.ndarray:
        """(K, T) standardised scores without season of (K, T) values."""
        mapped = np.stack([mapping.forward(row) for mapping, row in zip(self.maps, values, strict=True)])
        rest = (mapped - self.seasons.at(times) - self.centre[:, None]) / self.scale[:, None]
        return np.clip(rest, -FARTHEST, FARTHEST)

    def values(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """(..., K, T) values in the data's units of scores."""
        mapped = scores * self.scale[:, None] + self.centre[:, None] + self.seasons.at(times)
        return np.stack([mapping.inverse(mapped[..., k, :]) for k, mapping in enumerate(self.maps)], -2)

    @cached_property
    def prior(self) -> Prior:
        """The process of the scores; all records share what is computed for it."""
        return Prior(self.covariance)

    def posterior_pieces(
        self, values: np.ndarray, times: np.ndarray, n_draws: int, rng: np.random.Generator
    ) -> Iterator[Piece]:
        """Draws of one record, in scores, piece by piece in the order of time; see ``conditioned_pieces``."""
        at, n_features = positions(times, self.step), len(self.maps)
        factors = self.tails.of_draws(n_draws, len(times), window_length(n_features, len(self.covariance)), rng)
        for piece in conditioned_pieces(self.prior, self.scores(values, times), at, n_draws, rng):
            piece.deviations[:] *= factors.at(piece.steps).transpose(0, 2, 1)
            yield piece

    def marginals(
        self, values: np.ndarray, times: np.ndarray, cells: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(K, T) posterior means and standard deviations of one record, in scores; see ``conditioning.marginals``.

        Those of the records that came last are remembered: several methods look at the same ones.
        """
        key = b"".join(
            np.ascontiguousarray(part).tobytes() for part in (values, times) + (() if cells is None else (cells,))
        )
        digest = hashlib.blake2b(key, digest_size=16).digest()
        if digest not in self._remembered:
            result = marginals(self.prior, self.scores(values, times), positions(times, self.step), cells)
            for array in result:
                array.flags.writeable = False
            while sum(mean.size for mean, _ in self._remembered.values()) > _MOST_REMEMBERED:
                self._remembered.pop(next(iter(self._remembered)))
            self._remembered[digest] = result
        return self._remembered[digest]

    @cached_property
    def _remembered(self) -> dict[bytes, tuple[np.ndarray, np.ndarray]]:
        return {}

    def moments(self, values: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and spread of one record in the data's units, without draws.

        The spread is half of the distance between the 16 and 84 % quantiles: the standard deviation where maps are
        linear. Records whose times lie alike share what was computed for their windows.

        Returns:
            (K, T) means, known values themselves where there are some, and (K, T) spreads, 0 there.
        """
        mean, spread = self.marginals(values, times)
        mapped = [self.values(mean + node * spread, times) for node in _NODES.tolist()]
        shares = (_WEIGHTS / _WEIGHTS.sum()).tolist()
        middle = sum(share * of_node for share, of_node in zip(shares, mapped, strict=True))
        low, high = (self.values(mean + sign * spread, times) for sign in (-1, 1))
        gaps = np.isnan(values)
        return np.where(gaps, np.clip(middle, mapped[0], mapped[-1]), values), np.where(gaps, (high - low) / 2, 0.0)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All that makes the model, for any file."""
        return {
            **maps.to_arrays(self.maps), "season_periods": np.array(self.seasons.periods),
            "season_weights": self.seasons.weights, "centre": self.centre, "scale": self.scale,
            "covariance": self.covariance, "step": np.array(self.step), "tails": self.tails.weights,
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The model whose ``to_arrays`` these are, to the bit; covariances may be in single precision."""
        seasons = Seasons(tuple(arrays["season_periods"].tolist()), arrays["season_weights"])
        # Files of before have none.
        tails = Tails(arrays["tails"]) if "tails" in arrays else Tails.normal(len(arrays["scale"]))
        return cls(
            maps.from_arrays(arrays), seasons, arrays["centre"], arrays["scale"],
            arrays["covariance"].astype(np.float64), float(arrays["step"]), tails,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Scores:
    """Values as the process's scores: where it is right, their posterior is normal.

    Attributes:
        scaler: to the values that the process was fitted on.
        model: the process; its seasons stay in the scores.
    """

    scaler: Scale
    model: GaussianModel

    def transform(self, values: np.ndarray) -> np.ndarray:
        values, model = self.scaler.transform(values), self.model
        mapped = np.stack([mapping.forward(values[..., k, :]) for k, mapping in enumerate(model.maps)], -2)
        return (mapped - model.centre[:, None]) / model.scale[:, None]

    def inverse(self, values: np.ndarray) -> np.ndarray:
        model = self.model
        mapped = values.astype(np.float64) * model.scale[:, None] + model.centre[:, None]
        return self.scaler.inverse(np.stack([m.inverse(mapped[..., k, :]) for k, m in enumerate(model.maps)], -2))


@dataclass(frozen=True, eq=False)
class GaussianBase:
    """Posterior mean and spread of scores, see ``Scores``, given the shown cells; see ``BaseMethod``.

    Attributes:
        model: the process.
        apart: a process of its scores, fitted to other records than those to estimate; None = ``model`` alone.
    """

    model: GaussianModel
    apart: GaussianModel | None = None
    has_spread = True

    def of(self, values: np.ndarray, shown: np.ndarray, times: np.ndarray, wanted: np.ndarray) -> BaseEstimate:
        in_memory = lambda steps: values[..., steps]
        return _joined([self._of_chunk(in_memory, shown, times, c, wanted) for c in _chunks(shown.shape[2])])

    def of_parts(self, known: Known, parts: Sequence[slice], wanted: np.ndarray) -> Iterator[BaseEstimate]:
        # By chunks of the whole, so that parts that overlap agree.
        cache: dict[int, BaseEstimate] = {}
        for part in parts:
            chunks = [c for c in _chunks(known.visible.shape[2]) if c.start < part.stop and part.start < c.stop]
            source = known.values, known.visible, known.times
            cache = {c.start: cache.get(c.start) or self._of_chunk(*source, c, wanted) for c in chunks}
            first = chunks[0].start
            yield _joined(list(cache.values())).steps(slice(part.start - first, part.stop - first))

    def _of_chunk(
        self, values_at: Callable[[slice], np.ndarray], visible: np.ndarray, times: np.ndarray, chunk: slice,
        wanted: np.ndarray,
    ) -> BaseEstimate:  # fmt: skip
        margin = window_length(len(self.model.maps))
        around = slice(max(0, chunk.start - margin), chunk.stop + margin)
        inner = slice(chunk.start - around.start, chunk.stop - around.start)
        queries = wanted[..., chunk]
        mean, spread = np.zeros(queries.shape, np.float32), np.ones(queries.shape, np.float32)
        values = np.where(visible[..., around], values_at(around), np.nan).astype(np.float64)
        for n in np.flatnonzero(queries.any((1, 2))):
            cells = np.zeros(values[n].shape, bool)
            cells[:, inner] = queries[n]
            moments = self._posterior(values[n], times[n, around].astype(np.float64), cells)
            mean[n][queries[n]], spread[n][queries[n]] = (moment[cells] for moment in moments)
        return BaseEstimate(mean, np.maximum(spread, np.float32(LEAST_SPREAD)))

    def _posterior(self, scores: np.ndarray, times: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(K, T) means and standard deviations at ``cells`` of (K, T) scores, NaN where nothing is known."""
        season, at = self.model.seasons.at(times) / self.model.scale[:, None], positions(times, self.model.step)
        rest = np.clip(scores - season, -FARTHEST, FARTHEST)
        if self.apart is None:
            mean, spread = marginals(self.model.prior, rest, at, cells)
        else:
            mean, spread = marginals(self.apart.prior, self.apart.scores(rest, times), at, cells)
            mean, above = (self.apart.values(x, times) for x in (mean, mean + spread))
            spread = above - mean
        return mean + season, spread


def _joined(chunks: Sequence[BaseEstimate]) -> BaseEstimate:
    if len(chunks) == 1:
        return chunks[0]
    return BaseEstimate(*(np.concatenate([getattr(c, name) for c in chunks], -1) for name in ("mean", "spread")))


def _chunks(n_steps: int) -> list[slice]:
    """Steps side by side; the last of them are not short, but more."""
    starts = [*range(0, max(1, n_steps - CHUNK + 1), CHUNK)]
    return [slice(a, b) for a, b in zip(starts, [*starts[1:], n_steps], strict=True)]

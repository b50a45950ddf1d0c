"""The fit of a Gaussian process to incomplete records: stochastic EM, regularised as hidden cells say is best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.stats import norm

from tsimpute.gaussian import maps
from tsimpute.gaussian.conditioning import Posterior, Prior, condition, window_length
from tsimpute.gaussian.covariance import from_pairs, lagged_products, regularised
from tsimpute.gaussian.maps import MonotoneMap
from tsimpute.gaussian.seasons import Seasons
from tsimpute.seeding import derive_seed

FARTHEST = 8.0
"""Scores beyond it count as that far: one slip of the keyboard does not move its neighbours by more."""
CHOICE_CELLS, EM_CELLS = 40_000, 400_000
"""At most so many cells to choose settings on, and to learn the covariances from by EM."""
PIECE = 1_000
"""Steps of the pieces of long records that are drawn for it."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantile levels of the score by which settings are chosen."""


@dataclass(frozen=True)
class Regularisation:
    """Attributes:
    normality: how far each feature's map goes towards normal scores; see ``MonotoneMap.fit``.
    component_share, noise: see ``covariance.regularised``.
    n_rounds: of EM.
    """

    normality: float = 0.5
    component_share: float = 0.9
    noise: float = 0.002
    n_rounds: int = 2


CANDIDATES: tuple[dict[str, float], ...] = (
    {"normality": 0.0}, {"normality": 1.0}, {"component_share": 0.5}, {"noise": 0.02},
)  # fmt: skip
"""Changes that are tried one after the other; one that lowers the score is kept."""


@dataclass(frozen=True, eq=False)
class Records:
    """Incomplete records.

    Attributes:
        values: (K, T) each, in the data's units, NaN where nothing is known.
        times: (T,) each, increasing.
        step: usual distance between two times.
    """

    values: tuple[np.ndarray, ...]
    times: tuple[np.ndarray, ...]
    step: float

    def positions(self, n: int) -> np.ndarray:
        """(T,) times of a record in steps, see ``positions``."""
        return positions(self.times[n], self.step)

    def without(self, hidden: Sequence[np.ndarray]) -> Records:
        masked = (np.where(cells, np.nan, values) for values, cells in zip(self.values, hidden, strict=True))
        return replace(self, values=tuple(masked))


@dataclass(frozen=True, eq=False)
class GaussianModel:
    """What is learnt.

    Attributes:
        maps: one per feature.
        seasons: in scores.
        scale: (K,) standard deviation of the scores without their season.
        centre: (K,) mean of the same.
        covariance: (W, K, K), see ``covariance.regularised``.
        step: see ``Records``.
    """

    maps: tuple[MonotoneMap, ...]
    seasons: Seasons
    centre: np.ndarray
    scale: np.ndarray
    covariance: np.ndarray
    step: float

    def scores(self, values: np.ndarray, times: np.ndarray) -> np.ndarray:
        """(K, T) standardised scores without season of (K, T) values."""
        mapped = np.stack([of_one.forward(row) for of_one, row in zip(self.maps, values, strict=True)])
        rest = (mapped - self.seasons.at(times) - self.centre[:, None]) / self.scale[:, None]
        return np.clip(rest, -FARTHEST, FARTHEST)

    def values(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """(..., K, T) values in the data's units of scores."""
        mapped = scores * self.scale[:, None] + self.centre[:, None] + self.seasons.at(times)
        return np.stack([of_one.inverse(mapped[..., k, :]) for k, of_one in enumerate(self.maps)], -2)

    @cached_property
    def prior(self) -> Prior:
        """The process of the scores; its matrices are shared by all records."""
        return Prior(self.covariance)

    def posterior(
        self, values: np.ndarray, times: np.ndarray, n_draws: int = 0, rng: np.random.Generator | None = None
    ) -> Posterior:
        """Of one record, in scores; see ``conditioning.condition``."""
        return condition(self.prior, self.scores(values, times), positions(times, self.step), n_draws, rng)

    def moments(self, values: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and spread of one record in the data's units, without draws.

        The spread is half of the distance between the 16 and 84 % quantiles: the standard deviation where maps are
        linear. Records whose times lie alike share the window's matrix.

        Args:
            values: (K, T), NaN where nothing is known.
            times: (T,).

        Returns:
            (K, T) means, known values themselves where there are some, and (K, T) spreads, 0 there.
        """
        found = self.posterior(values, times)
        mean = sum(
            weight * self.values(found.mean + node * found.spread, times)
            for node, weight in zip(_NODES, _WEIGHTS / _WEIGHTS.sum(), strict=True)
        )
        low, high = (self.values(found.mean + sign * found.spread, times) for sign in (-1, 1))
        gaps = np.isnan(values)
        return np.where(gaps, mean, values), np.where(gaps, (high - low) / 2, 0.0)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All that makes the model, to be kept in any file."""
        return {
            **maps.to_arrays(self.maps), "season_periods": np.array(self.seasons.periods),
            "season_weights": self.seasons.weights, "centre": self.centre, "scale": self.scale,
            "covariance": self.covariance, "step": np.array(self.step),
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The model whose ``to_arrays`` these are, to the bit."""
        seasons = Seasons(tuple(arrays["season_periods"].tolist()), arrays["season_weights"])
        return cls(
            maps.from_arrays(arrays), seasons, arrays["centre"], arrays["scale"], arrays["covariance"],
            float(arrays["step"]),
        )  # fmt: skip


def positions(times: np.ndarray, step: float) -> np.ndarray:
    """(T,) times in steps from the first one; whole numbers where they nearly are."""
    steps = (times - times[0]) / (step or 1.0)
    whole = np.rint(steps)
    return whole if (np.abs(steps - whole) < 0.05).all() and (np.diff(whole) > 0).all() else steps


def fit(
    records: Records,
    periods: Sequence[float] = (),
    settings: Regularisation | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> GaussianModel:
    """A model of incomplete records.

    Args:
        periods: of seasons that may be there, in the unit of the times.
        settings: None = chosen on cells of these records that are hidden for it.
        seed: of what is drawn in EM and of the cells that are hidden.
        progress: called with rounds done and their number.
    """
    n_tries = 0 if settings else 1 + len(CANDIDATES)
    if settings is None:
        settings = choose(records, periods, seed, lambda done: progress(done, n_tries + 1))
    model = _fitted(records, periods, settings, seed)
    progress(n_tries + 1, n_tries + 1)
    return model


def choose(
    records: Records, periods: Sequence[float], seed: int, progress: Callable[[int], None] = lambda done: None
) -> Regularisation:
    """The settings with the lowest quantile score on hidden cells of some of the records."""
    some = _some(records, CHOICE_CELLS, seed)
    hidden = _hidden(some, seed)
    best = Regularisation(n_rounds=1)
    lowest = _score(some, hidden, periods, best, seed)
    progress(1)
    for n, change in enumerate(CANDIDATES):
        other = replace(best, **change)
        score = _score(some, hidden, periods, other, seed)
        if score < lowest:
            best, lowest = other, score
        progress(n + 2)
    return replace(best, n_rounds=Regularisation.n_rounds)


def _fitted(records: Records, periods: Sequence[float], settings: Regularisation, seed: int) -> GaussianModel:
    n_features = len(records.values[0])
    known = [np.concatenate([v[k][~np.isnan(v[k])] for v in records.values]) for k in range(n_features)]
    fitted = tuple(MonotoneMap.fit(of_one, settings.normality) for of_one in known)
    mapped = [np.stack([m.forward(row) for m, row in zip(fitted, v, strict=True)]) for v in records.values]
    seasons = Seasons.fit(mapped, records.times, periods)
    rest = [v - seasons.at(t) for v, t in zip(mapped, records.times, strict=True)]
    pooled = np.concatenate(rest, 1)
    centre, scale = _moments(pooled)
    n_lags = min(window_length(n_features), max(len(t) for t in records.times))
    empty = GaussianModel(fitted, seasons, centre, scale, np.zeros((n_lags, n_features, n_features)), records.step)
    first = from_pairs(*lagged_products(_gridded(empty, records), n_lags))
    covariance = regularised(first, max(settings.component_share, 0.5), max(settings.noise, 0.02))
    some = _gridded(empty, _some(records, EM_CELLS, seed))
    for n in range(settings.n_rounds):
        rng = np.random.default_rng(derive_seed(seed, "em", str(n)))
        prior = Prior(covariance)
        drawn = [condition(prior, s, np.arange(float(s.shape[1])), 1, rng) for s in some]
        sums, counts = lagged_products([d.mean + d.deviations[0] for d in drawn], n_lags)
        covariance = regularised(sums / np.maximum(counts, 1), settings.component_share, settings.noise)
    return replace(empty, covariance=covariance)


def _moments(pooled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each row's known values; 0 and 1 where there are none or one value."""
    known = ~np.isnan(pooled)
    count = np.maximum(known.sum(1), 1)
    centre = np.where(known, pooled, 0).sum(1) / count
    scale = np.sqrt(np.where(known, (pooled - centre[:, None]) ** 2, 0).sum(1) / count)
    return centre, np.where(scale > 1e-9, scale, 1.0)


def _gridded(model: GaussianModel, records: Records) -> list[np.ndarray]:
    """Per record (K, T') its scores at whole steps, NaN where it has none; of several at one step the last."""
    n_lags, out = len(model.covariance), []
    for n, (values, times) in enumerate(zip(records.values, records.times, strict=True)):
        positions = np.rint(records.positions(n))
        steps = np.minimum(np.diff(positions), n_lags).astype(np.int64)  # what is farther apart is independent
        at = np.concatenate([[0], np.cumsum(steps)])
        gridded = np.full((len(values), int(at[-1]) + 1), np.nan)
        gridded[:, at] = model.scores(values, times)
        out.append(gridded)
    return out


def _some(records: Records, n_cells: int, seed: int) -> Records:
    """Records, or pieces of long ones, drawn until they have about so many cells; all of them where they have less."""
    pieces = [
        (n, start) for n, values in enumerate(records.values) for start in range(0, max(1, values.shape[1] - 1), PIECE)
    ]
    chosen, left = [], n_cells
    for at in np.random.default_rng(derive_seed(seed, "some")).permutation(len(pieces)).tolist():
        n, start = pieces[at]
        chosen.append(at)
        left -= records.values[n][:, start : start + PIECE].size
        if left <= 0:
            break
    if len(chosen) == len(pieces):
        return records
    cut = [(n, slice(start, start + PIECE)) for n, start in (pieces[at] for at in sorted(chosen))]
    return Records(
        tuple(records.values[n][:, part] for n, part in cut), tuple(records.times[n][part] for n, part in cut),
        records.step,
    )  # fmt: skip


def _hidden(records: Records, seed: int) -> list[np.ndarray]:
    """Per record (K, T) bool: a tenth of the known cells, half of them one by one and half as other gaps lie."""
    rng = np.random.default_rng(derive_seed(seed, "hidden"))
    out = []
    for values in records.values:
        known = ~np.isnan(values)
        single = known & (rng.random(values.shape) < 0.05)
        n_steps = values.shape[1]
        moved = known & np.roll(~known, int(rng.integers(n_steps)), axis=1)
        share = 0.05 * known.sum() / max(moved.sum(), 1)
        if share < 1:  # whole steps, so that runs stay runs
            moved &= (rng.random(-(-n_steps // 12)) < share).repeat(12)[:n_steps]
        runs = np.zeros_like(known)
        if share > 2 and n_steps >= 24:
            for k in np.flatnonzero(rng.random(len(values)) < 0.5):
                length = int(rng.integers(3, max(4, n_steps // 8)))
                start = int(rng.integers(0, n_steps - length))
                runs[k, start : start + length] = known[k, start : start + length]
        hidden = single | moved | runs
        hidden &= ~(hidden.sum(1) * 2 > known.sum(1))[:, None]  # a feature keeps half of its values
        out.append(hidden)
    return out


def _score(
    records: Records, hidden: Sequence[np.ndarray], periods: Sequence[float], settings: Regularisation, seed: int
) -> float:
    """Mean quantile loss at hidden cells, in standard deviations of each feature."""
    seen = records.without(hidden)
    model = _fitted(seen, periods, settings, seed)
    _, spread = _moments(np.concatenate(records.values, 1))
    losses = []
    for n, (values, times, cells) in enumerate(zip(seen.values, seen.times, hidden, strict=True)):
        if not cells.any():
            continue
        found = model.posterior(values, times)
        truth = records.values[n]
        for level in LEVELS:
            quantile = model.values(found.mean + norm.ppf(level) * found.spread, times)
            miss = (truth - quantile) / spread[:, None]
            losses.append(np.maximum(level * miss, (level - 1) * miss)[cells])
    return float(np.concatenate(losses).mean()) if losses else np.inf

"""The fit of a Gaussian process to incomplete records: stochastic EM, regularised by the errors at hidden cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from tsimpute.core.seeding import derive_seed
from tsimpute.errors import DataError
from tsimpute.gaussian.conditionals import Prior
from tsimpute.gaussian.conditioning import condition, largest_lag
from tsimpute.gaussian.covariance import PRIOR_PAIRS, Estimated, edge_effects, from_pairs, lagged_pairs, lagged_products
from tsimpute.gaussian.maps import MonotoneMap, Records, Seasons, gridded, hidden_cells, positions
from tsimpute.gaussian.process import FARTHEST, GaussianModel, Tails
from tsimpute.system.blas import one_blas_thread

CHOICE_CELLS, EM_CELLS = 40_000, 400_000
"""At most so many known cells to choose settings on, and to learn the covariances from by EM."""
ROUNDS_ALONE = 8
"""Of EM, where steps know nothing of each other: the gaps of a row are filled by the few features that it shows."""
EARLY, BEHIND = 0.3, 0.003
"""Share of the hidden cells from which on settings are given up that are behind by more than a share of the score."""
LARGEST = 1e100
"""Values beyond it cannot be squared and summed."""
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantile levels of the score by which settings are chosen."""
NORMALITIES = (0.5, 0.0, 1.0)
CHANGES: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("kernel_share", (0.5,)), ("level_share", (0.0,)), ("component_share", (0.5, 0.2)), ("noise", (0.01,)),
    ("noise", (0.0005, 0.0001)),
)  # fmt: skip
"""Tried one after the other, farther from the default each time, as long as the score falls."""


@dataclass(frozen=True)
class Regularisation:
    """Attributes:
    normality: how far each feature's map goes towards normal scores; see ``MonotoneMap.fit``.
    component_share, noise, kernel_share, level_share: see ``covariance.Estimated``.
    n_rounds: of EM.
    """

    normality: float = 0.5
    component_share: float = 0.9
    noise: float = 0.002
    n_rounds: int = 2
    kernel_share: float = 0.0
    level_share: float = 1.0

    def of(self, estimated: Estimated) -> np.ndarray:
        return estimated.regularised(self.component_share, self.noise, self.kernel_share, self.level_share)

    def of_pairs(self, scores: Sequence[np.ndarray], n_lags: int) -> np.ndarray:
        """A first guess, from pairs of known values; regularised more, since few may be known."""
        first = Estimated(from_pairs(*lagged_pairs(scores, n_lags)))
        return first.regularised(max(self.component_share, 0.5), max(self.noise, 0.02))


@dataclass
class Work:
    """How far a fit is; ``progress`` is called with the work done and all of it, after each stretch of a record."""

    progress: Callable[[int, int], None] = lambda done, total: None
    should_stop: Callable[[], bool] = lambda: False
    total: int = 0
    done: int = field(default=0, init=False)
    stopped: bool = field(default=False, init=False)

    def step(self) -> bool:
        """False where it should stop."""
        self.skip(1)
        self.progress(self.done, self.total)
        self.stopped = self.stopped or self.should_stop()
        return not self.stopped

    def skip(self, n: int) -> None:
        """So much need not be done."""
        self.done = min(self.done + n, self.total)


@one_blas_thread()
def fit(
    records: Records,
    periods: Sequence[float] = (),
    settings: Regularisation | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
    should_stop: Callable[[], bool] = lambda: False,
    for_others: bool = False,
    tell_settings: Callable[[Regularisation], None] = lambda settings: None,
) -> GaussianModel:
    """A model of incomplete records.

    Args:
        periods: of seasons that may be there, in the unit of the times.
        settings: None = chosen on cells of these records that are hidden for it.
        for_others: whether it is for other records than these: settings are then chosen on cells of one half of the
            records, after learning from the other half, where there are several. More is regularised so.
        seed: of what is drawn in EM and of the cells that are hidden.
        progress: called about every second with the work done and all of it.
        should_stop: called as often; True ends with the model as it is then.
        tell_settings: called with the settings that are used.

    Raises:
        DataError: a value is too large to be squared.
    """
    for k in range(len(records.values[0])):
        top = max((float(np.abs(v[k][~np.isnan(v[k])]).max(initial=0.0)) for v in records.values), default=0.0)
        if top > LARGEST:
            raise DataError(
                f"feature {k}: expected values below {LARGEST:g} in size, came {top:g}. Divide the feature by a power "
                "of ten, or mark such values as missing."
            )
    em_parts = records.sample(EM_CELLS, seed)
    covariance, tails = None, Tails.normal(len(records.values[0]))
    for_others = for_others and len(records.values) > 1
    usual = ROUNDS_ALONE if _n_lags(records) == 1 else Regularisation.n_rounds
    n_rounds = settings.n_rounds if settings else usual - (not for_others)
    work = Work(progress, should_stop, n_rounds * len(em_parts))
    if settings is None:
        settings, covariance, tails = _chosen(records, periods, seed, work, for_others)
    tell_settings(settings)
    empty = _empty(records, periods, settings.normality)
    if covariance is None:
        covariance = settings.of_pairs(_scores(empty, records), len(empty.covariance))
    some = _scores(empty, records.parts(em_parts))
    for n in range(n_rounds):
        if not work.stopped:
            covariance = settings.of(_completed(Prior(covariance), some, derive_seed(seed, "em", str(n)), work))
    work.progress(work.total, work.total)
    return replace(empty, covariance=covariance, tails=tails)


def _chosen(
    records: Records, periods: Sequence[float], seed: int, work: Work, for_others: bool
) -> tuple[Regularisation, np.ndarray | None, Tails]:
    """The settings with the lowest score at hidden cells, covariances after EM without these cells, and tails.

    Of half of the records there are no covariances.

    How far maps go is chosen after a round of EM on the sample alone, all else after one more on as much as EM sees: a
    first round leaves spreads that are too wide.
    """
    learning, scoring = records.halves() if for_others else (records, records)
    at = scoring.sample(CHOICE_CELLS, seed)
    truth = scoring.parts(at)
    hidden = hidden_cells(truth, seed)
    visible = learning if for_others else records.without(at, hidden)
    contest = _Contest(scoring.without(at, hidden).parts(at), truth, hidden, work)
    parts, em_parts = visible.sample(CHOICE_CELLS, seed) if for_others else at, learning.sample(EM_CELLS, seed)
    n_scores, n_rounds = len(NORMALITIES) + 1 + sum(len(values) for _, values in CHANGES), len(NORMALITIES)
    work.total += n_scores * len(at) + n_rounds * len(parts) + len(em_parts)
    best: _Scored | None = None
    for normality in NORMALITIES:
        settings = Regularisation(normality)
        empty = _empty(visible, periods, normality)
        first = settings.of_pairs(_scores(empty, visible), len(empty.covariance))
        raw = _completed(Prior(first), _scores(empty, visible.parts(parts)), derive_seed(seed, "em"), work)
        best = contest.better(best, settings, replace(empty, covariance=settings.of(raw)))
        if work.stopped or best.settings.normality == 0:  # values that are better as they are gain nothing by the rest
            break
    assert best is not None
    if not work.stopped:
        model = best.model
        raw = _completed(
            Prior(model.covariance), _scores(model, visible.parts(em_parts)), derive_seed(seed, "em"), work
        )
        best = contest.better(None, best.settings, replace(model, covariance=best.settings.of(raw)))
        for name, values in CHANGES:
            for value in values:
                settings = replace(best.settings, **{name: value})
                if not work.stopped:
                    best = contest.better(best, settings, replace(model, covariance=settings.of(raw)))
                if best.settings is not settings:
                    break
    return best.settings, None if for_others else best.model.covariance, contest.tails(best)


def _empty(records: Records, periods: Sequence[float], normality: float) -> GaussianModel:
    """Maps, seasons and moments, with covariances of 0."""
    n_features = len(records.values[0])
    known = [np.concatenate([v[k][~np.isnan(v[k])] for v in records.values]) for k in range(n_features)]
    fitted = tuple(MonotoneMap.fit(row, normality) for row in known)
    mapped = [
        np.clip(np.stack([m.forward(row) for m, row in zip(fitted, v, strict=True)]), -FARTHEST, FARTHEST)
        for v in records.values
    ]
    seasons = Seasons.fit(mapped, records.times, periods)
    pooled = np.concatenate([v - seasons.at(t) for v, t in zip(mapped, records.times, strict=True)], 1)
    centre, scale = _moments(pooled)
    covariance, tails = np.zeros((_n_lags(records), n_features, n_features)), Tails.normal(n_features)
    return GaussianModel(fitted, seasons, centre, scale, covariance, records.step, tails)


def _n_lags(records: Records) -> int:
    """One where steps know nothing of each other, or records have one step."""
    return 1 if records.independent else largest_lag(max(map(len, records.times)), len(records.values[0]))


def _scores(model: GaussianModel, records: Records) -> list[np.ndarray]:
    """Per record its scores on a grid of steps."""
    pairs, n_lags = zip(records.values, records.times, strict=True), len(model.covariance)
    return [gridded(model.scores(v, t), positions(t, records.step), n_lags) for v, t in pairs]


def _completed(prior: Prior, scores: Sequence[np.ndarray], seed: int, work: Work) -> Estimated:
    """Covariances of records whose gaps are drawn from their posterior, in pairs about its mean.

    Those between features of which little is known are shrunk; what was drawn for them is no evidence.
    """
    n_lags = len(prior.covariance)
    means, deviations = [], []
    for n, record in enumerate(scores):
        rng = np.random.default_rng(derive_seed(seed, n))
        drawn = condition(prior, record, np.arange(float(record.shape[1])), 1, rng)
        means.append(drawn.mean)
        deviations.append(drawn.deviations[0])
        if not work.step():
            break
    counts = sum(np.maximum(mean.shape[1] - np.arange(n_lags), 0) for mean in means)
    products = sum(lagged_products(x, n_lags) for x in (means, deviations)) / np.maximum(counts, 1)[:, None, None]
    products += sum(edge_effects(x, n_lags) for x in (means, deviations))
    n_known = sum((~np.isnan(record)).sum(1) for record in scores)
    trust = 1 - np.exp(-n_known / PRIOR_PAIRS)
    shrinking = np.where(np.eye(len(trust)), 1.0, np.outer(trust, trust))
    return Estimated(shrinking * products)


def _moments(pooled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each row's known values; 0 and 1 where there are none or one value."""
    known = ~np.isnan(pooled)
    count = np.maximum(known.sum(1), 1)
    centre = np.where(known, pooled, 0).sum(1) / count
    scale = np.sqrt(np.where(known, (pooled - centre[:, None]) ** 2, 0).sum(1) / count)
    return centre, np.where(scale > 0, scale, 1.0)


@dataclass(frozen=True, eq=False)
class _Scored:
    """Settings, and the errors of their model at the M hidden cells of each stretch.

    Attributes:
        losses: (levels, M) quantile losses in standard deviations of each feature. residuals: (M,), standardised.
    """

    settings: Regularisation
    model: GaussianModel
    losses: list[np.ndarray]
    residuals: list[np.ndarray]

    def score(self, n_stretches: int) -> float:
        """Mean loss in the first ones."""
        losses = self.losses[:n_stretches]
        return float(np.concatenate(losses, 1).mean()) if losses else np.inf


@dataclass(frozen=True, eq=False)
class _Contest:
    """Stretches of records with hidden cells at which settings are compared."""

    visible: Records
    truth: Records
    hidden: Sequence[np.ndarray]
    work: Work

    def better(self, best: _Scored | None, settings: Regularisation, model: GaussianModel) -> _Scored:
        """The better one of two; scoring ends early where the new one is behind at a share of the cells."""
        scored = _Scored(settings, replace(model), [], [])  # without the matrices that ``model`` has computed
        places = [n for n, cells in enumerate(self.hidden) if cells.any()]
        counts, shares = np.cumsum([self.hidden[n].sum() for n in places]), np.array(LEVELS)[:, None]
        for done, n in enumerate(places, 1):
            if not self.work.step():
                break
            whole, times, cells = self.truth.values[n], self.truth.times[n], self.hidden[n]
            mean, spread = model.marginals(self.visible.values[n], times, cells)
            levels = [model.values(mean + ndtri(level) * spread, times)[cells] for level in LEVELS]
            miss = (whole[cells] - np.stack(levels)) / self._scale[np.nonzero(cells)[0]]
            scored.losses.append(np.maximum(shares * miss, (shares - 1) * miss))
            scored.residuals.append((model.scores(whole, times) - mean)[cells] / np.maximum(spread[cells], 1e-9))
            behind = best is not None and scored.score(done) > (1 + BEHIND) * best.score(done)
            if behind and counts[done - 1] >= EARLY * counts[-1]:
                self.work.skip(len(places) - done)
                break
        n_done = len(scored.losses)
        return scored if best is None or scored.score(n_done) < best.score(n_done) else best

    @cached_property
    def _scale(self) -> np.ndarray:
        return _moments(np.concatenate(self.truth.values, 1))[1]

    def tails(self, of: _Scored) -> Tails:
        """Of the standardised residuals at hidden cells."""
        features = [np.nonzero(cells)[0] for cells in self.hidden if cells.any()][: len(of.residuals)]
        nothing = [np.empty(0)], [np.empty(0, np.int64)]
        residuals, feature = (np.concatenate(a + b) for a, b in zip(nothing, (of.residuals, features), strict=True))
        return Tails.fit(residuals, feature, len(of.model.maps))

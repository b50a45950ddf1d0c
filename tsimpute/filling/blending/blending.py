"""How far draws of a process are moved towards what other methods say, and how wide they are, from hidden cells.

Per feature and class of gaps. What counts is evidence at that length of gap: independent runs of hidden cells, not
cells. A class of which nothing was hidden keeps the process's draws as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tsimpute.filling.panels.gaps import N_CLASSES, apart

WEIGHTS = np.arange(11) / 10
SPREADS = np.array([0.1, 0.18, 0.25, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4, 1.7, 2.0, 2.5])
_AS_DRAWN = int(np.flatnonzero(SPREADS == 1)[0])
_CAUTION = 1.0
"""A change has to lower the score by so many standard errors of its mean over runs."""
_PRIOR_RUNS, _PRIOR_LOSS, _PRIOR_LOG_SPREAD = 3.0, 0.2, 0.1
"""Before anything is seen, as if so many runs had said that another method, or another spread, loses that much."""
_FEWEST_RUNS = 8
"""Of a class, for any evidence at all."""
_PRIOR_OF_ALL = 8.0
"""What runs of all features say of a class counts as that many runs of a feature; what all classes say, of a class."""
_OF_THE_WAY = 0.5
"""See ``Evidence.after``."""
_LEAST_GAIN = 0.005
"""Share of the score that another method has to gain for its whole weight."""


@dataclass(frozen=True, eq=False)
class Blend:
    """Attributes:
    weights: (J, K, C) by method, feature and class of gaps: 0 = what was before it, 1 = what the method says.
    spread: (K, C) factor on distances of draws from their median.
    """

    weights: np.ndarray
    spread: np.ndarray

    @classmethod
    def nothing(cls, n_methods: int, n_features: int) -> Blend:
        """The process's draws as they are."""
        return cls(np.zeros((n_methods, n_features, N_CLASSES)), np.ones((n_features, N_CLASSES)))

    @property
    def changes(self) -> bool:
        """Whether any draw is changed."""
        return bool(self.weights.any() or (self.spread != 1).any())

    def moved(
        self, draws: np.ndarray, median: np.ndarray, points: Sequence[np.ndarray], feature: np.ndarray, gap: np.ndarray
    ) -> np.ndarray:
        """(S, ...) draws moved and stretched about their median (...).

        Args:
            points: J times (...), what the methods say.
            feature, gap: (...) of each cell.
        """
        return centre_of(median, points, self.weights[:, feature, gap]) + self.spread[feature, gap] * (draws - median)


def centre_of(median: np.ndarray, points: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """Each method in turn moves what the ones before it have left."""
    for weight, point in zip(weights, points, strict=True):
        median = median + weight * (point - median)
    return median


@dataclass(frozen=True, eq=False)
class Evidence:
    """Draws of a process at M hidden cells, and what other methods say there, in the scale of the process.

    Attributes:
        draws: (S, M). points: J times (M,).
        truth, feature, gap: (M,).
        run: (M,) number of the gap of each cell; cells of one are not independent.
        stretch: (M,) number of the stretch of time of each cell and its feature.
        local: of each method, see ``components.Component``.
    """

    draws: np.ndarray
    points: Sequence[np.ndarray]
    truth: np.ndarray
    feature: np.ndarray
    gap: np.ndarray
    run: np.ndarray
    stretch: np.ndarray
    n_features: int
    local: tuple[bool, ...]

    def at(self, cells: np.ndarray) -> Evidence:
        """Some of the cells, of a bool mask (M,)."""
        points = [of_one[cells] for of_one in self.points]
        return replace(
            self, draws=self.draws[:, cells], points=points, truth=self.truth[cells], feature=self.feature[cells],
            gap=self.gap[cells], run=self.run[cells], stretch=self.stretch[cells],
        )  # fmt: skip

    @classmethod
    def joined(cls, parts: Sequence[Evidence]) -> Evidence:
        """Evidence at other cells, of the same methods; draws are as many as the first has."""
        row = lambda name: np.concatenate([getattr(part, name) for part in parts], -1)
        points = [np.concatenate(of_one) for of_one in zip(*(part.points for part in parts), strict=True)]
        return replace(
            parts[0], draws=row("draws"), points=points, truth=row("truth"), feature=row("feature"), gap=row("gap"),
            run=apart([part.run for part in parts]), stretch=apart([part.stretch for part in parts]),
        )  # fmt: skip

    def best(self) -> Blend:
        """The blend that these cells say is best: one method after another, and the spread with the last."""
        centre = np.median(self.draws, 0)
        deviations, weights, spread = self.draws - centre, [], np.ones((self.n_features, N_CLASSES))
        for point, local in zip(self.points, self.local, strict=True):
            weight = self._choice(_losses(deviations, centre - self.truth, point - centre), spread, local)
            weights.append(weight)
            centre = centre + weight[self.feature, self.gap] * (point - centre)
        return Blend(np.stack(weights), spread)

    def after(self, weights: np.ndarray) -> Blend:
        """The blend of given weights (J', K, C) of the first methods, and what these cells say of the others.

        The others go half of the way. The process was fitted without these cells; the one that fills tables knows them
        and is better, which a method that looks single values up is by less.
        """
        median = np.median(self.draws, 0)
        deviations, spread = self.draws - median, np.ones((self.n_features, N_CLASSES))
        found, n = [*weights], len(weights)
        centre = centre_of(median, self.points[:n], weights[:, self.feature, self.gap])
        for point, local in zip(self.points[n:], self.local[n:], strict=True):
            losses = _losses(deviations, centre - self.truth, point - centre)
            found.append(_OF_THE_WAY * self._choice(losses, spread.copy(), local))
            centre = centre + found[-1][self.feature, self.gap] * (point - centre)
        losses = _losses(deviations, centre - self.truth, np.zeros(len(centre)), WEIGHTS[:1])
        self._choice(losses, spread, True)
        return Blend(np.stack(found), spread)

    def _choice(self, losses: np.ndarray, spread: np.ndarray, local: bool) -> np.ndarray:
        """(K, C) weights of one method with the lowest losses (W, P, M) as far as can be told; sets the spreads, too.

        A spread is set only where enough runs of that length say so.
        """
        as_drawn = losses[0, _AS_DRAWN]
        usual = _means(as_drawn, self.feature, self.n_features)[self.feature]  # features count alike
        as_drawn, gains = as_drawn / usual, (losses - as_drawn) / usual
        weight, place = np.zeros((self.n_features, N_CLASSES)), self.run if local else self.stretch
        if len(np.unique(place)) < _FEWEST_RUNS:
            return weight
        of_all = _cautious(gains / as_drawn.mean(), place)
        for c in range(N_CLASSES):
            here = self.gap == c
            free = len(np.unique(self.run[here])) >= _FEWEST_RUNS
            if local and not free:
                continue
            of_class = gains[..., here], as_drawn[here], place[here]
            prior = _cautious(of_class[0] / of_class[1].mean(), of_class[2]) if local else _towards(of_all, *of_class)
            found = self._of_features(prior, *of_class, self.feature[here])
            found = found if free else found[:, :, [_AS_DRAWN]]
            w, s = np.divmod(found.reshape(self.n_features, -1).argmin(1), found.shape[-1])
            weight[:, c] = WEIGHTS[w]
            if free:
                spread[:, c] = SPREADS[s]
        return weight

    def _of_features(
        self, prior: np.ndarray, gains: np.ndarray, as_drawn: np.ndarray, place: np.ndarray, feature: np.ndarray
    ) -> np.ndarray:
        """(K, W, P) what each weight and spread loses in each feature, in units of the loss as drawn."""
        own = [feature == k for k in range(self.n_features)]
        losses = [_towards(prior, gains[..., cells], as_drawn[cells], place[cells]) for cells in own]
        return np.stack(losses) + _LEAST_GAIN * WEIGHTS[: len(prior), None]


def _towards(prior: np.ndarray, gains: np.ndarray, as_drawn: np.ndarray, place: np.ndarray) -> np.ndarray:
    """(W, P) mean of gains (W, P, n) in units of the mean loss as drawn, towards a prior where there are few places."""
    if not len(place):
        return prior
    n_places, mean = len(np.unique(place)), gains.mean(-1) / max(float(as_drawn.mean()), 1e-12)
    return (n_places * mean + _PRIOR_OF_ALL * prior) / (n_places + _PRIOR_OF_ALL)


def _losses(deviations: np.ndarray, error: np.ndarray, way: np.ndarray, weights: np.ndarray = WEIGHTS) -> np.ndarray:
    """(W, P, M) continuous ranked probability scores with each weight and spread.

    Args:
        deviations: (S, M) of draws from their median.
        error: (M,) of the median. way: (M,) from the median to what a method says.
    """
    n = len(deviations)
    between = (2 * np.arange(n) - n + 1) @ np.sort(deviations, axis=0) / n**2
    wide = [(spread * deviations, spread * between) for spread in SPREADS.tolist()]
    errors = [error + weight * way for weight in weights.tolist()]
    return np.stack([[np.abs(of_one + draws).mean(0) - apart for draws, apart in wide] for of_one in errors])


def _cautious(gains: np.ndarray, run: np.ndarray) -> np.ndarray:
    """(W, P) mean of gains (W, P, n), as high as it may be by chance, drawn towards a loss where there are few runs."""
    order = np.argsort(run, kind="stable")
    numbers, starts = np.unique(run[order], return_index=True)
    n_runs, mean = len(numbers), gains.mean(-1)
    doubt = _PRIOR_LOSS * WEIGHTS[: len(gains), None] + _PRIOR_LOG_SPREAD * np.abs(np.log(SPREADS))
    sums = np.add.reduceat((gains - mean[..., None])[..., order], starts, axis=-1)
    error = np.sqrt((sums**2).sum(-1) * n_runs / (n_runs - 1)) / gains.shape[-1]
    return (n_runs * mean + _PRIOR_RUNS * doubt) / (n_runs + _PRIOR_RUNS) + _CAUTION * error


def _means(values: np.ndarray, part: np.ndarray, n_parts: int) -> np.ndarray:
    """Mean of the values of each part; 1 where there are none, or where it is 0."""
    found = np.bincount(part, values, n_parts) / np.maximum(np.bincount(part, minlength=n_parts), 1)
    return np.where(found > 0, found, 1.0)

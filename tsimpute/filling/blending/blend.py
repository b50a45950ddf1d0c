"""How far draws of a process move towards the values of other methods, and how wide they are.

Weights and widths are chosen per feature and class of gap lengths, at cells whose truth is known. Independent runs of
such cells count, not cells. Draws stay as they are in classes without such cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tsimpute.filling.panels.windows import N_CLASSES, apart

WEIGHTS = np.arange(11) / 10
SPREADS = np.array([0.1, 0.18, 0.25, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4, 1.7, 2.0, 2.5])
_AS_DRAWN = int(np.flatnonzero(SPREADS == 1)[0])
_CAUTION = 1.0
"""A change has to lower the score by so many standard errors of its mean over runs."""
_PRIOR_RUNS, _PRIOR_LOSS, _PRIOR_LOG_SPREAD = 3.0, 0.2, 0.1
"""The prior counts as so many runs in which another method, or another spread, loses that much."""
_FEWEST_RUNS = 8
"""Of a class, for any change at all."""
_PRIOR_OF_ALL = 8.0
"""The mean of all features counts as that many runs of one feature, that of all classes as that many of one class."""
_OF_THE_WAY = 0.5
"""See ``Comparison.blend``."""
_LEAST_GAIN = 0.005
"""Share of the score that another method has to gain for its whole weight."""


@dataclass(frozen=True, eq=False)
class Blend:
    """Attributes:
    weights: (J, K, C) by method, feature and class of gaps: 0 = what was before it, 1 = the method's value.
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
        self, draws: np.ndarray, values: Sequence[np.ndarray], feature: np.ndarray, gap_class: np.ndarray
    ) -> np.ndarray:
        """(S, ...) draws moved and stretched about their median.

        Args:
            values: J times (...), of the methods.
            feature, gap_class: (...) of each cell.
        """
        median = np.median(draws, 0)
        centre = centre_of(median, values, self.weights[:, feature, gap_class])
        return centre + self.spread[feature, gap_class] * (draws - median)


def centre_of(median: np.ndarray, values: Sequence[np.ndarray], weights: Iterable[np.ndarray]) -> np.ndarray:
    """The median moved by each method in turn, by its weight."""
    for weight, value in zip(weights, values, strict=True):
        median = median + weight * (value - median)
    return median


@dataclass(frozen=True, eq=False)
class Comparison:
    """A process's draws and other methods' values at M cells whose truth is known, in the scale of the process.

    Attributes:
        draws: (S, M). values: J times (M,).
        truth, feature, gap_class: (M,).
        run: (M,) number of the gap of each cell; cells of one are not independent.
        stretch: (M,) number of the stretch of time of each cell and its feature.
        local: of each method, see ``components.Component``.
    """

    draws: np.ndarray
    values: Sequence[np.ndarray]
    truth: np.ndarray
    feature: np.ndarray
    gap_class: np.ndarray
    run: np.ndarray
    stretch: np.ndarray
    n_features: int
    local: tuple[bool, ...]

    def at(self, cells: np.ndarray) -> Comparison:
        """Some of the cells, of a bool mask (M,)."""
        rows = {name: getattr(self, name)[cells] for name in ("truth", "feature", "gap_class", "run", "stretch")}
        return replace(self, draws=self.draws[:, cells], values=[value[cells] for value in self.values], **rows)

    @classmethod
    def joined(cls, parts: Sequence[Comparison]) -> Comparison:
        """The same methods at the cells of all parts."""
        row = lambda name: np.concatenate([getattr(part, name) for part in parts], -1)
        values = [np.concatenate(of_method) for of_method in zip(*(part.values for part in parts), strict=True)]
        return replace(
            parts[0], draws=row("draws"), values=values, truth=row("truth"), feature=row("feature"),
            gap_class=row("gap_class"), run=apart([part.run for part in parts]),
            stretch=apart([part.stretch for part in parts]),
        )  # fmt: skip

    def blend(self, weights: np.ndarray | None = None) -> Blend:
        """The blend with the lowest score at these cells: weights of one method after another, then spreads.

        Args:
            weights: (J', K, C) of the first methods, where they come from other cells; the other methods then go half
                of the way. They were fitted without these cells; the process that fills tables knows them and is
                better, which a method that looks single values up is by less.
        """
        chosen, share = ([], 1.0) if weights is None else ([*weights], _OF_THE_WAY)
        median, n = np.median(self.draws, 0), len(chosen)
        deviations = self.draws - median
        cell_weights = [of_method[self.feature, self.gap_class] for of_method in chosen]
        centre = centre_of(median, self.values[:n], cell_weights)
        for value, local in zip(self.values[n:], self.local[n:], strict=True):
            weight, _ = self._choice(_losses(deviations, centre - self.truth, value - centre), local)
            chosen.append(share * weight)
            centre = centre + chosen[-1][self.feature, self.gap_class] * (value - centre)
        _, spread = self._choice(_losses(deviations, centre - self.truth, np.zeros(len(centre)), WEIGHTS[:1]), True)
        return Blend(np.reshape(chosen, (-1, *spread.shape)), spread)

    def _choice(self, losses: np.ndarray, local: bool) -> tuple[np.ndarray, np.ndarray]:
        """(K, C) weights of one method, and spreads, with the lowest losses (W, P, M), with caution.

        A spread is set only where there are enough runs of that length.
        """
        as_drawn = losses[0, _AS_DRAWN]
        counts = np.bincount(self.feature, minlength=self.n_features)
        means = np.bincount(self.feature, as_drawn, self.n_features) / np.maximum(counts, 1)
        usual = np.where(means > 0, means, 1.0)[self.feature]  # features count alike
        as_drawn, gains = as_drawn / usual, (losses - as_drawn) / usual
        shape, place = (self.n_features, N_CLASSES), self.run if local else self.stretch
        weight, spread = np.zeros(shape), np.ones(shape)
        if len(np.unique(place)) < _FEWEST_RUNS:
            return weight, spread
        of_all = _cautious(gains / as_drawn.mean(), place)
        for c in range(N_CLASSES):
            cells = self.gap_class == c
            enough = len(np.unique(self.run[cells])) >= _FEWEST_RUNS
            if local and not enough:
                continue
            of_class = gains[..., cells], as_drawn[cells], place[cells]
            prior = _cautious(of_class[0] / of_class[1].mean(), of_class[2]) if local else _towards(of_all, *of_class)
            of_feature = [self.feature[cells] == k for k in range(self.n_features)]
            scores = np.stack([_towards(prior, *(x[..., at] for x in of_class)) for at in of_feature])
            scores = scores + _LEAST_GAIN * WEIGHTS[: len(prior), None]
            scores = scores if enough else scores[:, :, [_AS_DRAWN]]
            w, s = np.divmod(scores.reshape(self.n_features, -1).argmin(1), scores.shape[-1])
            weight[:, c] = WEIGHTS[w]
            if enough:
                spread[:, c] = SPREADS[s]
        return weight, spread


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
        error: (M,) of the median. way: (M,) from the median to a method's value.
    """
    n = len(deviations)
    between = (2 * np.arange(n) - n + 1) @ np.sort(deviations, axis=0) / n**2
    wide = [(spread * deviations, spread * between) for spread in SPREADS.tolist()]
    errors = [error + weight * way for weight in weights.tolist()]
    return np.stack([[np.abs(moved + draws).mean(0) - distance for draws, distance in wide] for moved in errors])


def _cautious(gains: np.ndarray, run: np.ndarray) -> np.ndarray:
    """(W, P) mean of gains (W, P, n), as high as it may be by chance, drawn towards a loss where there are few runs."""
    order = np.argsort(run, kind="stable")
    numbers, starts = np.unique(run[order], return_index=True)
    n_runs, mean = len(numbers), gains.mean(-1)
    doubt = _PRIOR_LOSS * WEIGHTS[: len(gains), None] + _PRIOR_LOG_SPREAD * np.abs(np.log(SPREADS))
    sums = np.add.reduceat((gains - mean[..., None])[..., order], starts, axis=-1)
    error = np.sqrt((sums**2).sum(-1) * n_runs / (n_runs - 1)) / gains.shape[-1]
    return (n_runs * mean + _PRIOR_RUNS * doubt) / (n_runs + _PRIOR_RUNS) + _CAUTION * error

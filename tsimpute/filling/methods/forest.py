"""Extremely randomised trees on the posterior of a process: they learn the errors that the process leaves.

The gaps of the table hide its known cells again and again. Processes fitted to other stretches of the table fill these
cells, and a forest for each feature learns their errors, in posterior standard deviations (stacking, Wolpert 1992;
trees of Geurts et al. 2006).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from tsimpute.core.gaps import interpolated, nearest_known
from tsimpute.core.panel import Panel
from tsimpute.core.seeding import derive_seed
from tsimpute.core.shapes import joined
from tsimpute.filling.learning.posterior_masks import PosteriorMasks
from tsimpute.filling.methods.components import Component, Unseasonal
from tsimpute.filling.panels.windows import clock_times
from tsimpute.gaussian.curves import Curves
from tsimpute.gaussian.process import GaussianModel
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.models.checkpoints import part_of

_AT_ONCE = 20_000
"""Rows that are looked up together."""
_ROWS, _FEWEST = 4_000, 100
"""Hidden cells of a feature that its trees are fitted to at most, and below which it has none."""
_HIDDEN = 0.2
"""Share of the cells that a mask hides, about."""
_MASKS = (4, 24)
_TREES, _LEAF, _COLUMNS = 60, 5, 0.4
_FOLDS, _FOLDS_OF_LARGE, _LARGE = 4, 2, 150_000
"""Processes of cross-fitting, and those of tables with more cells than that."""
_FARTHEST, _LEAST_SPREAD = 4.0, 0.05
_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
MOST_OTHERS = 10
"""Other features in a row: those with the largest covariances."""
_NEAR = (-3, -2, -1, 1, 2, 3)
_FAR = 500
_DAY, _WEEK = 24.0, 7.0


@dataclass(frozen=True, eq=False)
class Trees:
    """The mean of binary trees.

    Attributes:
        roots: (J,) number of the first node of each tree.
        children: (N, 2) the nodes that follow where a column is at most the threshold, and where it is more; leaves
            follow themselves.
        column: (N,) that is compared. threshold, value: (N,) single precision.
        depth: of the deepest tree.
    """

    roots: np.ndarray
    children: np.ndarray
    column: np.ndarray
    threshold: np.ndarray
    value: np.ndarray
    depth: int

    @classmethod
    def of(cls, forest: Any) -> Self:
        """Those of a fitted ensemble of scikit-learn."""
        grown = [tree.tree_ for tree in forest.estimators_]
        roots = np.cumsum([0, *(tree.node_count for tree in grown[:-1])])
        pairs = [np.stack([tree.children_left, tree.children_right], 1) for tree in grown]
        pairs = [np.where(pair < 0, np.arange(len(pair))[:, None], pair) for pair in pairs]
        return cls(
            roots.astype(np.int32),
            np.concatenate([pair + root for pair, root in zip(pairs, roots, strict=True)]).astype(np.int32),
            np.concatenate([np.maximum(tree.feature, 0) for tree in grown]).astype(np.int16),
            np.concatenate([tree.threshold for tree in grown]).astype(np.float32),
            np.concatenate([tree.value[:, 0, 0] for tree in grown]).astype(np.float32),
            max(tree.max_depth for tree in grown),
        )  # fmt: skip

    def at(self, rows: np.ndarray) -> np.ndarray:
        """(M,) for rows (M, D) in single precision."""
        out = np.zeros(len(rows))
        for first in range(0, len(rows), _AT_ONCE):
            part = rows[first : first + _AT_ONCE]
            number = np.arange(len(part))
            for root in self.roots.tolist():
                node = np.full(len(part), root)
                for _ in range(self.depth):
                    above = part[number, self.column[node]] > self.threshold[node]
                    node = self.children[node, above.astype(np.int8)]
                out[first : first + _AT_ONCE] += self.value[node]
        return out / len(self.roots)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All of it, for any file."""
        names = ("roots", "children", "column", "threshold", "value")
        return {name: getattr(self, name) for name in names} | {"depth": np.array(self.depth)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """What ``to_arrays`` gave, to the bit."""
        return cls(**{**arrays, "depth": int(arrays["depth"])})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Watch:
    """Observes the growth of a forest.

    Attributes:
        tell: called with what is done and how much there is.
        late: True ends with the masks that are there; at least one is made.
        should_stop: True ends without a forest.
    """

    tell: Callable[[int, int], None] = lambda done, total: None
    late: Callable[[], bool] = lambda: False
    should_stop: Callable[[], bool] = lambda: False


@dataclass(frozen=True, eq=False)
class Correction:
    """Of one feature.

    Attributes:
        weight: of the process without seasons.
        trees: predict the rest of the error, in posterior standard deviations.
    """

    weight: float
    trees: Trees


class Forest(Component):
    """The posterior mean, corrected; see ``components.Component``."""

    name = "randomised trees"

    def __init__(
        self, base: GaussianImputer, unseasonal: Unseasonal | None, corrections: Mapping[int, Correction]
    ) -> None:
        self.base, self.unseasonal, self.corrections = base, unseasonal, dict(corrections)
        self.others = others_of(base.model_)

    @classmethod
    def fit(
        cls, panel: Panel, base: GaussianImputer, seed: int, unseasonal: Unseasonal | None = None,
        watch: Watch | None = None,
    ) -> Self | None:  # fmt: skip
        """See ``Component``; None where no feature has enough known cells, or where it was stopped.

        Args:
            unseasonal: fitted to the panel.
        """
        from sklearn.ensemble import ExtraTreesRegressor  # takes a second to load

        watch = watch or Watch()
        n_features = len(panel.features)
        rows_by_feature = _rows_of(panel, base, unseasonal, seed, watch)
        if watch.should_stop():
            return None
        corrections = {}
        for k, parts in enumerate(rows_by_feature):
            rows, of_trees = joined(parts) if parts else None, derive_seed(seed, "trees", str(k))
            if rows is not None and len(rows.errors) >= _FEWEST:
                weight = min(_WEIGHTS, key=lambda share, r=rows: float(np.abs(r.errors - share * r.way).sum()))
                rest = np.clip((rows.errors - weight * rows.way) / rows.spread, -_FARTHEST, _FARTHEST)
                some = np.random.default_rng(of_trees).permutation(len(rest))[:_ROWS]
                forest = ExtraTreesRegressor(
                    _TREES, min_samples_leaf=_LEAF, max_features=_COLUMNS, random_state=of_trees % 2**31, n_jobs=1
                )
                forest.fit(rows.inputs[some], rest[some], sample_weight=rows.spread[some])
                corrections[k] = Correction(weight, Trees.of(forest))
            watch.tell(n_features + k + 1, 2 * n_features)
            if watch.should_stop():
                return None
        return cls(base, unseasonal, corrections) if corrections else None

    def at(self, known: np.ndarray, times: np.ndarray, cells: np.ndarray | None = None) -> np.ndarray:
        model = self.base.model_
        scores, other = model.scores(known, times), None
        if self.unseasonal is not None:
            mean, spread = self.unseasonal.model.marginals(known, times)
            other = _in_scores_of(model, self.unseasonal, mean, spread, times)
        posterior = Posterior(
            scores, *model.marginals(known, times), times, self.base.curves_, other, len(model.covariance) == 1
        )
        guess = posterior.mean + posterior.move
        for k, correction in self.corrections.items():
            steps = np.flatnonzero(np.isnan(scores[k]))
            if len(steps):
                error = correction.trees.at(posterior.rows(k, steps, self.others[k]))
                guess[k, steps] += correction.weight * posterior.way[k, steps]
                guess[k, steps] += error * np.maximum(posterior.spread[k, steps], _LEAST_SPREAD)
        return model.values(guess, times)

    def parts(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {
            f"{k}.{name}": array
            for k, correction in self.corrections.items()
            for name, array in correction.trees.to_arrays().items()
        }
        other = {} if self.unseasonal is None else self.unseasonal.parts()[0]
        weights = {str(k): correction.weight for k, correction in self.corrections.items()}
        return arrays | {f"unseasonal.{name}": array for name, array in other.items()}, {"weights": weights}

    @classmethod
    def from_parts(
        cls, arrays: Mapping[str, np.ndarray], description: Mapping[str, Any], base: GaussianImputer
    ) -> Self:
        other = part_of(arrays, "unseasonal")
        unseasonal = Unseasonal.from_parts(other, {}, base) if other else None
        weights = {int(k): float(weight) for k, weight in description["weights"].items()}
        trees = {k: Trees.from_arrays(part_of(arrays, str(k))) for k in weights}
        return cls(base, unseasonal, {k: Correction(weight, trees[k]) for k, weight in weights.items()})


@dataclass(frozen=True, eq=False)
class _Rows:
    """Of M hidden cells of a feature.

    Attributes:
        inputs: (M, D).
        errors: (M,) of the posterior mean, moved by curves, in scores. way: see ``Posterior``.
        spread: (M,) in whose units errors are predicted.
    """

    inputs: np.ndarray
    errors: np.ndarray
    way: np.ndarray
    spread: np.ndarray


def _in_scores_of(
    model: GaussianModel, unseasonal: Unseasonal, mean: np.ndarray, spread: np.ndarray, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means, moved by curves, and spreads of the process without seasons, in scores of the one with them.

    Both have the same maps; see ``learning.unseasonal``.
    """
    other = unseasonal.model
    if unseasonal.curves is not None:
        mean = mean + unseasonal.curves.moves(mean, spread, times)[0]
    mapped = mean * other.scale[:, None] + other.centre[:, None] - model.seasons.at(times) - model.centre[:, None]
    return mapped / model.scale[:, None], spread * (other.scale / model.scale)[:, None]


def _rows_of(
    panel: Panel, base: GaussianImputer, unseasonal: Unseasonal | None, seed: int, watch: Watch
) -> list[list[_Rows]]:
    """Of each feature the rows of hidden cells under one mask after another."""
    n_features, n_steps = len(panel.features), sum(len(series.times) for series in panel.series)
    n_masks = int(np.clip(np.ceil(_ROWS / max(1.0, _HIDDEN * n_steps)), *_MASKS))
    n_folds = _FOLDS if n_features * n_steps <= _LARGE else _FOLDS_OF_LARGE
    settings, mask_seed = replace(base.chosen_, n_rounds=2), derive_seed(seed, "forest")
    processes = [base]
    if unseasonal is not None:
        processes.append(copy(base))
        processes[1].model_ = unseasonal.model
    pools = [
        PosteriorMasks(panel, process, mask_seed, n_folds, n_masks, watch.should_stop, settings=settings)
        for process in processes
    ]
    others = others_of(base.model_)
    by_feature: list[list[_Rows]] = [[] for _ in range(n_features)]
    for number in range(pools[0].size):
        for pool in pools:
            pool.make_all(number)
        if watch.should_stop():
            break
        for s in range(len(panel.series)):
            for k, rows in enumerate(_of_mask(pools, unseasonal, s, number, others)):
                by_feature[k].append(rows)
        watch.tell(n_features * (number + 1) // pools[0].size, 2 * n_features)
        if watch.late():
            break
    return by_feature


def _of_mask(
    pools: Sequence[PosteriorMasks], unseasonal: Unseasonal | None, s: int, number: int, others: Sequence[Sequence[int]]
) -> list[_Rows]:
    """The rows of the hidden cells of one series under one mask, by feature."""
    pool = pools[0]
    series, model = pool.panel.series[s], pool.base.model_
    times = clock_times(series, pool.panel.clock)
    season, other = model.seasons.at(times) / model.scale[:, None], None
    hidden, mean, spread = pool.posterior(s, number)
    if unseasonal is not None:
        other = _in_scores_of(model, unseasonal, *pools[1].posterior(s, number)[1:], times)
    truth = pool.scores.transform(series.values) - season
    visible = np.where(hidden, np.nan, truth)
    posterior = Posterior(visible, mean - season, spread, times, pool.base.curves_, other, pool.panel.independent_rows)
    rng, by_feature = np.random.default_rng(derive_seed(pool.seed, "cells", series.name, number)), []
    for k, of_feature in enumerate(hidden):
        steps = np.flatnonzero(of_feature)
        steps = np.sort(rng.permutation(steps)[:_ROWS])
        errors = truth[k, steps] - posterior.mean[k, steps] - posterior.move[k, steps]
        weights = np.maximum(posterior.spread[k, steps], _LEAST_SPREAD)
        by_feature.append(_Rows(posterior.rows(k, steps, others[k]), errors, posterior.way[k, steps], weights))
    return by_feature


class Posterior:
    """One record given some of its cells, in scores without their season.

    Args:
        scores: (K, T), NaN where nothing is known.
        mean, spread: of the missing cells, others do not count.
        other: means, in the same scores, and spreads of the process without seasons.
        independent: whether steps are records of their own: then the rows of trees hold nothing of other steps.

    Attributes:
        mean: (K, T) posterior means; known cells themselves.
        spread: (K, T) posterior standard deviations; 0 where a cell is known.
        move: (K, T) how far curves move the mean.
        way: (K, T) from there to the mean of the process without seasons; 0 where there is none.
        other_spread: (K, T) of that process.
        lines: (K, T) straight lines between known cells.
        last, following: (K, T) step of the nearest known cell before and after each; outside the record if there is
            none.
    """

    def __init__(
        self, scores: np.ndarray, mean: np.ndarray, spread: np.ndarray, times: np.ndarray, curves: Curves | None,
        other: tuple[np.ndarray, np.ndarray] | None, independent: bool,
    ) -> None:  # fmt: skip
        self.times, self.independent = times, independent
        known, nothing = ~np.isnan(scores), np.zeros(scores.shape)
        self.mean, self.spread = np.where(known, scores, mean), np.where(known, 0.0, spread)
        self.move = nothing if curves is None else curves.moves(self.mean, self.spread, times)[0]
        self.way = self.other_spread = nothing
        if other is not None:
            self.way = np.where(known, 0.0, other[0] - self.mean - self.move)
            self.other_spread = np.where(known, 0.0, other[1])
        self.lines = interpolated(scores[None], times[None], np.zeros(len(scores)))[0]
        last, following = nearest_known(known)
        self.last = np.where(last < 0, -_FAR, last)
        self.following = np.where(following == len(times), len(times) + _FAR, following)

    def rows(self, k: int, steps: np.ndarray, others: Sequence[int]) -> np.ndarray:
        """(M, D) single precision: the posterior around some steps of a feature.

        Args:
            others: the other features in the rows.
        """
        mean = self.mean[k, steps]
        if self.independent:
            columns = [mean, self.spread[k, steps], self.move[k, steps]]
            columns += [of_all[j, steps] for j in others for of_all in (self.mean, self.spread)]
            return np.stack(columns, 1).astype(np.float32)
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

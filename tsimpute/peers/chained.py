"""Chained regressions over time: each feature on the other features and on steps before and after, round by round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from tsimpute.core.gaps import interpolated
from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError
from tsimpute.imputers.shared.standardised import StandardisedImputer, check_counts, optional_module, rows_of

_CHANGE = 1e-3
_NODES = ("feature", "threshold", "left", "right", "value")


class ChainedImputer(StandardisedImputer):
    """Begins from linear interpolation in time; each round predicts every feature's gaps from what the last one gave.

    Lagged columns are made anew from the filled values before each regression, so that two columns never disagree on
    the same cell. Beyond the ends of a record its first and last step are repeated. Predictions stay within the range
    of the standardised training values, wider by a half: a chain cannot run away.

    Args:
        lags: steps before (negative) and after that are columns, too.
        max_iter: rounds, in ``fit`` and for each record; they end where predictions change little.
        max_rows: training steps of one regression; more are drawn from.
        seed: of that draw, and of what is random in a regression.
    """

    n_nearest_features: int = 30
    """The other features that a regression looks at, those that go with it most."""

    def __init__(self, lags: Sequence[int], max_iter: int, max_rows: int, seed: int) -> None:
        if not all(isinstance(lag, int) and lag for lag in lags) or len(set(lags)) < len(lags):
            raise ConfigError(f"lags: expected whole numbers of steps, each once and none of them 0; came {lags!r}.")
        check_counts(max_iter=max_iter, max_rows=max_rows)
        self.lags, self.max_iter, self.max_rows, self.seed = tuple(lags), max_iter, max_rows, seed

    def _learn(self, known: np.ndarray, train: Windows) -> dict[str, np.ndarray]:
        observed = ~np.isnan(known)
        rows = rows_of(known)
        weights, filled = (~np.isnan(rows)).astype(float), np.nan_to_num(rows)
        products, counts = filled.T @ filled, weights.T @ weights
        likeness = np.abs(products) / np.maximum(counts, 1) * (counts / (counts + 10))
        np.fill_diagonal(likeness, -1.0)
        most = min(self.n_nearest_features, len(likeness) - 1)
        neighbours = np.argsort(-likeness, axis=1, kind="stable")[:, :most]
        wide = 0.5 * (np.nanmax(known, initial=0.0) - np.nanmin(known, initial=0.0)) + 1e-9
        bounds = np.array([np.nanmin(known, initial=0.0) - wide, np.nanmax(known, initial=0.0) + wide])
        filled = interpolated(known, train.times, np.zeros(known.shape[1]))
        order = [k for k in np.argsort(-observed.sum((0, 2)), kind="stable").tolist() if observed[:, k].any()]
        rng = np.random.default_rng(self.seed)
        learnt: dict[int, Any] = {}
        for _ in range(self.max_iter if neighbours.shape[1] or self.lags else 0):
            before = filled.copy()
            for k in order:
                columns, at = _columns(filled, k, neighbours[k], self.lags), observed[:, k].reshape(-1)
                rows = np.flatnonzero(at)
                if len(rows) > self.max_rows:
                    rows = np.sort(rng.choice(rows, self.max_rows, replace=False))
                learnt[k] = self._regression(columns[rows], known[:, k].reshape(-1)[rows], k)
                if not at.all():
                    filled[:, k].reshape(-1)[~at] = np.clip(self._predicted(learnt[k], columns[~at]), *bounds)
            if np.abs(filled - before).mean(where=~observed) < _CHANGE if not observed.all() else True:
                break
        return {"neighbours": neighbours, "bounds": bounds, **self._as_arrays(learnt)}

    def _filled(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        return self._all_filled(known[None], times[None])[0]

    def _all_filled(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        """(N, K, L) without gaps; the rounds of a record end where its own predictions change little."""
        gaps, learnt = np.isnan(known), self._from_arrays(self.learnt_)
        filled = interpolated(known, times, np.zeros(known.shape[1]))
        active = np.flatnonzero(gaps.any((1, 2)))
        for _ in range(self.max_iter):
            before, now, at = filled[active], filled[active], gaps[active]
            for k, regression in learnt.items():
                if at[:, k].any():
                    columns = _columns(now, k, self.learnt_["neighbours"][k], self.lags)[at[:, k].reshape(-1)]
                    now[:, k][at[:, k]] = np.clip(self._predicted(regression, columns), *self.learnt_["bounds"])
            filled[active] = now
            changes = [np.abs(new - old)[cells].mean() for new, old, cells in zip(now, before, at, strict=True)]
            active = active[np.array(changes) >= _CHANGE] if len(active) else active
            if not len(active):
                break
        return filled

    def _regression(self, columns: np.ndarray, target: np.ndarray, feature: int) -> Any:
        """What is learnt of one feature (M,) from columns (M, C)."""
        raise NotImplementedError

    def _predicted(self, regression: Any, columns: np.ndarray) -> np.ndarray:
        """(M,) of columns (M, C)."""
        raise NotImplementedError

    def _as_arrays(self, learnt: dict[int, Any]) -> dict[str, np.ndarray]:
        """The regressions by feature, in their order, as named arrays."""
        raise NotImplementedError

    def _from_arrays(self, arrays: dict[str, np.ndarray]) -> dict[int, Any]:
        raise NotImplementedError


def _columns(filled: np.ndarray, k: int, neighbours: np.ndarray, lags: Sequence[int]) -> np.ndarray:
    """(N * L, C): the neighbours at the step itself, then they and the feature ``k`` at each lag."""
    n, _, length = filled.shape
    features = filled[:, [k, *neighbours]]
    parts = [features[:, 1:]] + [features[:, :, np.clip(np.arange(length) + lag, 0, length - 1)] for lag in lags]
    return np.concatenate(parts, 1).transpose(0, 2, 1).reshape(n * length, -1)


class ChainedLagsImputer(ChainedImputer):
    """scikit-learn's ``BayesianRidge``, feature by feature, over rounds; see ``ChainedImputer``.

    It gives means alone and is for long records; ``iterative`` draws, over single steps or whole windows.

    Args:
        lags, max_iter, max_rows, seed: see ``ChainedImputer``.
    """

    name = "chained_lags"
    _LEARNT: ClassVar = ("neighbours", "bounds", "order", "weights", "intercept")

    def __init__(
        self, lags: Sequence[int] = (-1, 1, -2, 2), max_iter: int = 6, max_rows: int = 5_000, seed: int = 0
    ) -> None:
        super().__init__(lags, max_iter, max_rows, seed)

    def _regression(self, columns: np.ndarray, target: np.ndarray, feature: int) -> Any:
        linear_model = optional_module(self.name, "scikit-learn", "sklearn.linear_model")
        if len(target) < 2:
            return np.zeros(columns.shape[1]), float(target[0])
        fitted = linear_model.BayesianRidge().fit(columns, target)
        return fitted.coef_, float(fitted.intercept_)

    def _predicted(self, regression: Any, columns: np.ndarray) -> np.ndarray:
        weights, intercept = regression
        return columns @ weights + intercept

    def _as_arrays(self, learnt: dict[int, Any]) -> dict[str, np.ndarray]:
        return {
            "order": np.array(list(learnt), int),
            "weights": np.array([weights for weights, _ in learnt.values()]),
            "intercept": np.array([intercept for _, intercept in learnt.values()]),
        }

    def _from_arrays(self, arrays: dict[str, np.ndarray]) -> dict[int, Any]:
        pairs = zip(arrays["weights"], arrays["intercept"], strict=True)
        return dict(zip(arrays["order"].tolist(), pairs, strict=True))


class MissForestImputer(ChainedImputer):
    """Small forests of scikit-learn, each feature predicted from the others at the same step; see ``ChainedImputer``.

    A saved model holds the nodes of the trees as numbers, and no pickle. The last round's forests fill all records, of
    the training table or not. The defaults are for long records. ``n_trees=100, max_depth=None, min_samples_leaf=1,
    max_features=1.0`` are the defaults of scikit-learn's forest. Such forests go on changing their predictions by more
    than a thousandth of a standard deviation, so that ``max_iter`` ends them.

    Args:
        n_trees: of a forest.
        max_depth: of a tree; None = any.
        lags: none by default, as in missForest; see ``ChainedImputer`` for all others.
        min_samples_leaf: training steps of a leaf; None = 5, or a tenth of the training steps where that is less.
        max_features: share of the columns that a split chooses from.
        n_nearest_features: the other features that a forest looks at, those that go with it most.
    """

    name = "miss_forest"
    _LEARNT: ClassVar = ("neighbours", "bounds", "order", "roots", *_NODES)

    def __init__(
        self,
        n_trees: int = 30,
        max_depth: int | None = 12,
        lags: Sequence[int] = (),
        max_iter: int = 3,
        max_rows: int = 5_000,
        seed: int = 0,
        min_samples_leaf: int | None = None,
        max_features: float = 1 / 3,
        n_nearest_features: int = 30,
    ) -> None:
        counts = {"max_depth": max_depth, "min_samples_leaf": min_samples_leaf}
        check_counts(n_trees=n_trees, n_nearest_features=n_nearest_features, **counts)
        if not 0 < max_features <= 1:
            raise ConfigError(f"max_features: expected a share above 0 and up to 1, came {max_features!r}.")
        super().__init__(lags, max_iter, max_rows, seed)
        self.n_trees, self.max_depth, self.min_samples_leaf = n_trees, max_depth, min_samples_leaf
        self.max_features, self.n_nearest_features = float(max_features), n_nearest_features

    def _draws(self, known: np.ndarray, windows: Windows, n_samples: int, seed: int) -> Iterator[np.ndarray]:
        """All records at once: no prediction of a tree depends on the other rows, not even by rounding."""
        for record in self._all_filled(known, windows.times):
            yield np.repeat(record[None], n_samples, 0)

    def _regression(self, columns: np.ndarray, target: np.ndarray, feature: int) -> Any:
        ensemble = optional_module(self.name, "scikit-learn", "sklearn.ensemble")
        forest = ensemble.RandomForestRegressor(
            self.n_trees, max_depth=self.max_depth, max_features=self.max_features,
            min_samples_leaf=self.min_samples_leaf or min(5, -(-len(target) // 10)),
            random_state=(self.seed + feature) % 2**32,
        )  # fmt: skip
        return [nodes(tree.tree_) for tree in forest.fit(columns, target).estimators_]

    def _predicted(self, regression: Any, columns: np.ndarray) -> np.ndarray:
        return sum((predicted(tree, columns) for tree in regression), np.zeros(len(columns))) / len(regression)

    def _as_arrays(self, learnt: dict[int, Any]) -> dict[str, np.ndarray]:
        trees = [tree for forest in learnt.values() for tree in forest]
        nodes = {
            name: np.concatenate([tree[i] for tree in trees] or [np.zeros(0, int)]) for i, name in enumerate(_NODES)
        }
        roots = np.cumsum([0, *(len(tree[0]) for tree in trees)])
        return {"order": np.array(list(learnt), int), "roots": roots, **nodes}

    def _from_arrays(self, arrays: dict[str, np.ndarray]) -> dict[int, Any]:
        roots = arrays["roots"].tolist()
        cuts = [slice(first, last) for first, last in pairwise(roots)]
        trees = [tuple(arrays[name][cut] for name in _NODES) for cut in cuts]
        order, n = arrays["order"].tolist(), self.n_trees
        return {k: trees[i * n : (i + 1) * n] for i, k in enumerate(order)}


def nodes(tree: Any) -> tuple[np.ndarray, ...]:
    """The arrays of scikit-learn's tree that ``predicted`` needs."""
    return tree.feature, tree.threshold, tree.children_left, tree.children_right, tree.value[:, 0, 0]


def predicted(tree: tuple[np.ndarray, ...], columns: np.ndarray) -> np.ndarray:
    """(M,) values of the leaves that rows (M, C) fall into, compared in single precision as scikit-learn does."""
    feature, threshold, left, right, value = tree
    rows, at = columns.astype(np.float32), np.zeros(len(columns), int)
    inner = np.arange(len(columns)) if left[0] >= 0 else np.zeros(0, int)
    while len(inner):
        here = at[inner]
        lower = rows[inner, feature[here]] <= threshold[here]
        at[inner] = np.where(lower, left[here], right[here])
        inner = inner[left[at[inner]] >= 0]
    return value[at]


PLUGINS = {cls.name: cls for cls in (ChainedLagsImputer, MissForestImputer)}

"""missForest: random forests, feature by feature, over rounds (Stekhoven and Buehlmann 2012)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError
from tsimpute.imputers.shared.standardised import check_counts, optional_module
from tsimpute.peers._chain import ChainedImputer

_NODES = ("feature", "threshold", "left", "right", "value")


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
        for record in self._filled(known, windows.times):
            yield np.repeat(record[None], n_samples, 0)

    def _regression(self, columns: np.ndarray, target: np.ndarray, feature: int) -> Any:
        ensemble = optional_module(self.name, "scikit-learn", "sklearn.ensemble")
        forest = ensemble.RandomForestRegressor(
            self.n_trees, max_depth=self.max_depth, max_features=self.max_features,
            min_samples_leaf=self.min_samples_leaf or min(5, -(-len(target) // 10)),
            random_state=(self.seed + feature) % 2**32,
        )  # fmt: skip
        return [_nodes(tree.tree_) for tree in forest.fit(columns, target).estimators_]

    def _predicted(self, regression: Any, columns: np.ndarray) -> np.ndarray:
        return sum((predicted(tree, columns) for tree in regression), np.zeros(len(columns))) / len(regression)

    def _as_arrays(self, learnt: dict[int, Any], n_features: int) -> dict[str, np.ndarray]:
        trees = [tree for forest in learnt.values() for tree in forest]
        nodes = {
            name: np.concatenate([tree[i] for tree in trees] or [np.zeros(0, int)]) for i, name in enumerate(_NODES)
        }
        roots = np.cumsum([0, *(len(tree[0]) for tree in trees)])
        return {"order": np.array(list(learnt), int), "roots": roots, **nodes}

    def _from_arrays(self, arrays: dict[str, np.ndarray], n_features: int) -> dict[int, Any]:
        roots = arrays["roots"].tolist()
        cuts = [slice(first, last) for first, last in pairwise(roots)]
        trees = [tuple(arrays[name][cut] for name in _NODES) for cut in cuts]
        order, n = arrays["order"].tolist(), self.n_trees
        return {k: trees[i * n : (i + 1) * n] for i, k in enumerate(order)}


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


def _nodes(tree: Any) -> tuple[np.ndarray, ...]:
    left, right = tree.children_left, tree.children_right
    return tree.feature, tree.threshold, left, right, tree.value[:, 0, 0]


PLUGIN = MissForestImputer

"""missForest: random forests, feature by feature, over rounds (Stekhoven and Buehlmann 2012)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from tsimpute.imputers.shared.standardised import check_counts, optional_module
from tsimpute.peers._chain import ChainedImputer

_NODES = ("feature", "threshold", "left", "right", "value")


class MissForestImputer(ChainedImputer):
    """Small forests of scikit-learn, each feature predicted from the others at the same step; see ``ChainedImputer``.

    A saved model holds the nodes of the trees as numbers, and no pickle.

    Args:
        n_trees: of a forest.
        max_depth: of a tree.
        lags: none by default, as in missForest; see ``ChainedImputer`` for all others.
    """

    name = "miss_forest"
    _LEARNT: ClassVar = ("neighbours", "bounds", "order", "roots", *_NODES)

    def __init__(
        self,
        n_trees: int = 30,
        max_depth: int = 12,
        lags: Sequence[int] = (),
        max_iter: int = 3,
        max_rows: int = 5_000,
        seed: int = 0,
    ) -> None:
        check_counts(n_trees=n_trees, max_depth=max_depth)
        super().__init__(lags, max_iter, max_rows, seed)
        self.n_trees, self.max_depth = n_trees, max_depth

    def _regression(self, columns: np.ndarray, target: np.ndarray, feature: int) -> Any:
        ensemble = optional_module(self.name, "scikit-learn", "sklearn.ensemble")
        forest = ensemble.RandomForestRegressor(
            self.n_trees, max_depth=self.max_depth, min_samples_leaf=min(5, -(-len(target) // 10)), max_features=1 / 3,
            random_state=(self.seed + feature) % 2**32,
        )  # fmt: skip
        return [_nodes(tree.tree_) for tree in forest.fit(columns, target).estimators_]

    def _predicted(self, regression: Any, columns: np.ndarray) -> np.ndarray:
        return np.mean([predicted(tree, columns) for tree in regression], 0)

    def _as_arrays(self, learnt: dict[int, Any], n_features: int) -> dict[str, np.ndarray]:
        trees = [tree for forest in learnt.values() for tree in forest]
        made = {
            name: np.concatenate([tree[i] for tree in trees] or [np.zeros(0, int)]) for i, name in enumerate(_NODES)
        }
        roots = np.cumsum([0, *(len(tree[0]) for tree in trees)])
        return {"order": np.array(list(learnt), int), "roots": roots, **made}

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

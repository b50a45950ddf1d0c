"""Trees of a forest as arrays: stored in any file, evaluated without the library that grew them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

_AT_ONCE = 20_000
"""Rows that are looked up together."""


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
        sizes = [tree.node_count for tree in grown]
        roots = np.cumsum([0, *sizes[:-1]])
        children = np.concatenate(
            [
                np.where(pair < 0, np.arange(len(pair))[:, None], pair) + root
                for root, tree in zip(roots, grown, strict=True)
                for pair in [np.stack([tree.children_left, tree.children_right], 1)]
            ]
        )
        return cls(
            roots.astype(np.int32), children.astype(np.int32),
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

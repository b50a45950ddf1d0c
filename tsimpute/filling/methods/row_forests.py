"""Random forests for rows that are records: each feature from the others, round by round, as missForest does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from tsimpute.core.panel import Panel
from tsimpute.core.windows import Feature, Windows
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.peers.chained import MissForestImputer
from tsimpute.scaling.standardizer import Standardizer

_FOREST: dict[str, Any] = {
    "n_trees": 40,
    "max_depth": None,
    "min_samples_leaf": 3,
    "max_features": 1 / 2,
    "max_iter": 4,
}
_FEWEST_ROWS, _MOST_FEATURES, _MOST_CELLS = 50, 16, 30_000
"""Larger tables take long; with many features the Gaussian is better anyway."""


class RowForests:
    """Each row by itself; see ``components.Component``."""

    name = "random forests"
    local = False

    def __init__(self, imputer: MissForestImputer) -> None:
        self.imputer = imputer

    @classmethod
    def fit(cls, panel: Panel, base: GaussianImputer, seed: int) -> Self | None:
        """See ``Component``; None for series in time, a single feature or many, few rows, or a large table."""
        n_rows = sum(len(series.times) for series in panel.series)
        is_small = 2 <= len(panel.features) <= _MOST_FEATURES and panel.n_cells <= _MOST_CELLS
        if not (panel.independent_rows and is_small and n_rows >= _FEWEST_ROWS):
            return None
        known = np.concatenate([base.scaler_.transform(series.values) for series in panel.series], 1)
        return cls(MissForestImputer(**_FOREST, seed=seed % 2**31).fit(_rows(known)))

    def at(self, known: np.ndarray, times: np.ndarray, cells: np.ndarray | None = None) -> np.ndarray:
        """See ``Component``."""
        return self.imputer.impute(_rows(known), 1).values[0, :, :, 0].T.astype(np.float64)

    def parts(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """See ``Component``."""
        return dict(self.imputer.learnt_), {"scaler": self.imputer.scaler_.to_dict()}

    @classmethod
    def from_parts(
        cls, arrays: Mapping[str, np.ndarray], description: Mapping[str, Any], base: GaussianImputer
    ) -> Self:
        """See ``Component``."""
        imputer = MissForestImputer(**_FOREST)
        imputer.features_, imputer.learnt_ = _features(len(base.features_)), dict(arrays)
        imputer.scaler_ = Standardizer.from_dict(description["scaler"])
        return cls(imputer)


def _rows(known: np.ndarray) -> Windows:
    """(K, T) values as T records of one step."""
    n_features, n_rows = known.shape
    names = tuple(map(str, range(n_rows)))
    return Windows(known.T[:, :, None].copy(), np.zeros((n_rows, 1)), _features(n_features), names)


def _features(n: int) -> tuple[Feature, ...]:
    return tuple(Feature(str(k), "") for k in range(n))

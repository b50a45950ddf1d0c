"""Chained equations that know of time: linear regressions on the other features and on neighbouring steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from tsimpute.imputers.shared.standardised import optional_module
from tsimpute.peers._chain import ChainedImputer


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

    def _as_arrays(self, learnt: dict[int, Any], n_features: int) -> dict[str, np.ndarray]:
        return {
            "order": np.array(list(learnt), int),
            "weights": np.array([weights for weights, _ in learnt.values()]),
            "intercept": np.array([intercept for _, intercept in learnt.values()]),
        }

    def _from_arrays(self, arrays: dict[str, np.ndarray], n_features: int) -> dict[int, Any]:
        pairs = zip(arrays["weights"], arrays["intercept"], strict=True)
        return dict(zip(arrays["order"].tolist(), pairs, strict=True))


PLUGIN = ChainedLagsImputer

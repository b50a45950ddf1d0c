"""The most similar steps: scikit-learn's KNNImputer over the steps of records."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tsimpute.core.gaps import interpolated
from tsimpute.core.windows import Windows
from tsimpute.imputers.shared.standardised import StandardisedImputer, check_counts, optional_module, rows_of


class KnnImputer(StandardisedImputer):
    """The mean of the nearest steps by the other features, weighted by distance, on standardised values.

    scikit-learn's ``KNNImputer``, whose rows are the steps of the training records. Nothing is known of the steps
    before and after one, but where a step shows no value at all: it gets linear interpolation in time.

    Args:
        n_neighbors: steps that a mean is over.
        max_rows: training steps that are looked among; more are drawn from.
        seed: of that draw.
    """

    name = "knn"
    _LEARNT: ClassVar = ("rows",)

    def __init__(self, n_neighbors: int = 10, max_rows: int = 10_000, seed: int = 0) -> None:
        check_counts(n_neighbors=n_neighbors, max_rows=max_rows)
        self.n_neighbors, self.max_rows, self.seed = n_neighbors, max_rows, seed

    def _learn(self, known: np.ndarray, train: Windows) -> dict[str, np.ndarray]:
        optional_module(self.name, "scikit-learn", "sklearn.impute")  # refused before long work
        rows = rows_of(known)
        rows = rows[~np.isnan(rows).all(1)]
        if len(rows) > self.max_rows:
            rows = rows[np.sort(np.random.default_rng(self.seed).permutation(len(rows))[: self.max_rows])]
        return {"rows": rows}

    def _filled(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        filled = interpolated(known[None], times[None], np.zeros(len(known)))[0]
        some = np.isnan(known).any(0) & ~np.isnan(known).all(0)
        if some.any():
            sklearn_impute = optional_module(self.name, "scikit-learn", "sklearn.impute")
            imputer = sklearn_impute.KNNImputer(
                n_neighbors=self.n_neighbors, weights="distance", keep_empty_features=True
            )
            filled[:, some] = imputer.fit(self.learnt_["rows"]).transform(known[:, some].T).T
        return filled


PLUGIN = KnnImputer

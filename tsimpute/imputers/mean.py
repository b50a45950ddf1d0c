"""Each missing cell gets the training mean of its feature."""

from __future__ import annotations

import numpy as np

from tsimpute.imputers.shared.simple import SimpleImputer


class MeanImputer(SimpleImputer):
    """The mean of a feature's shown training cells, at every missing cell.

    Example:
        >>> import tsimpute as ti
        >>> times, a = np.arange(4.0)[None], ti.Feature("a")
        >>> record = ti.Windows(np.array([[[1.0, np.nan, np.nan, 7.0]]]), times, (a,), ("x",))
        >>> MeanImputer().fit(record).impute(record, n_samples=1).values[0, 0, 0].tolist()
        [1.0, 4.0, 4.0, 7.0]
    """

    name = "mean"

    def _centre(self, known: np.ndarray) -> float:
        return float(known.mean())

    def _fill(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        return np.broadcast_to(self.centre_[:, None], known.shape)


PLUGIN = MeanImputer

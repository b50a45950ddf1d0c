"""Each missing cell gets the training median of its feature."""

from __future__ import annotations

import numpy as np

from tsimpute.imputers.shared.simple import SimpleImputer


class MedianImputer(SimpleImputer):
    """The median of a feature's shown training cells, at every missing cell.

    Example:
        >>> import tsimpute as ti
        >>> times, a = np.arange(4.0)[None], ti.Feature("a")
        >>> record = ti.Windows(np.array([[[1.0, np.nan, np.nan, 7.0]]]), times, (a,), ("x",))
        >>> MedianImputer().fit(record).impute(record, n_samples=1).values[0, 0, 0].tolist()
        [1.0, 4.0, 4.0, 7.0]
    """

    name = "median"

    def _fill(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        return np.broadcast_to(self.centre_[:, None], known.shape)


PLUGIN = MedianImputer

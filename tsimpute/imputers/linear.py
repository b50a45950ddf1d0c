"""Each missing cell gets the straight line between its neighbours in time."""

from __future__ import annotations

import numpy as np

from tsimpute.imputers.shared.interpolation import interpolated
from tsimpute.imputers.shared.simple import SimpleImputer


class LinearImputer(SimpleImputer):
    """Linear interpolation in ``times`` between a record's values of the same feature.

    Before the first and after the last value it stays constant; a record without a value of the feature gets the
    feature's training median.

    Example:
        >>> import tsimpute as ti
        >>> times, a = np.arange(4.0)[None], ti.Feature("a")
        >>> record = ti.Windows(np.array([[[1.0, np.nan, np.nan, 7.0]]]), times, (a,), ("x",))
        >>> LinearImputer().fit(record).impute(record, n_samples=1).values[0, 0, 0].tolist()
        [1.0, 3.0, 5.0, 7.0]
    """

    name = "linear"

    def _fill(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        return interpolated(known, times, self.centre_)


PLUGIN = LinearImputer

"""Each missing cell gets the straight line between its neighbours in time."""

from __future__ import annotations

import numpy as np

from tsimpute.imputers._simple import SimpleImputer, through_known


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


def interpolated(known: np.ndarray, times: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Straight lines in time between the known values of each record and feature, constant before and after them.

    Args:
        known: (N, K, L), NaN where nothing is known.
        times: (N, L), increasing.
        otherwise: (K,) for a record in which nothing of the feature is known.

    Returns:
        (N, K, L) float64.
    """
    return through_known(np.interp, known, times, otherwise)


PLUGIN = LinearImputer

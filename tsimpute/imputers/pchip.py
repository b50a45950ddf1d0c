"""Each missing cell lies on a monotone cubic curve through the values around it in time."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import PchipInterpolator

from tsimpute.imputers._simple import SimpleImputer


class PchipImputer(SimpleImputer):
    """SciPy's ``PchipInterpolator`` in ``times`` through a record's values of the same feature; it does not overshoot.

    Before the first and after the last value it stays constant; a record without a value of the feature gets the
    feature's training median.
    """

    name = "pchip"

    def _fill(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        return curved(known, times, self.centre_)


def curved(known: np.ndarray, times: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Monotone cubic curves through the known values of each record and feature, constant before and after them.

    Args:
        known: (N, K, L), NaN where nothing is known.
        times: (N, L), increasing.
        otherwise: (K,) for a record in which nothing of the feature is known.

    Returns:
        (N, K, L) float64.
    """
    out = np.broadcast_to(otherwise[:, None], known.shape).astype(np.float64)
    for n, k in zip(*np.nonzero(~np.isnan(known).all(2)), strict=True):
        at = np.flatnonzero(~np.isnan(known[n, k]))
        values = known[n, k, at].astype(np.float64)
        out[n, k, : at[0]], out[n, k, at[-1] :] = values[0], values[-1]
        if len(at) > 1:
            between = slice(at[0], at[-1])
            out[n, k, between] = PchipInterpolator(times[n, at], values)(times[n, between])
    return out


PLUGIN = PchipImputer

"""Each missing cell lies on a monotone cubic curve through the values around it in time."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import PchipInterpolator

from tsimpute.imputers._simple import SimpleImputer, through_known


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
    return through_known(_monotone, known, times, otherwise)


def _monotone(times: np.ndarray, knots: np.ndarray, values: np.ndarray) -> np.ndarray:
    if len(knots) == 1:
        return np.full(times.shape, values[0])
    inside = PchipInterpolator(knots, values)(np.clip(times, knots[0], knots[-1]))
    return np.where(times < knots[-1], inside, values[-1])  # to the bit, which the end of a polynomial is not


PLUGIN = PchipImputer

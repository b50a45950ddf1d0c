"""Autocovariances smoothed by sums of kernels: long lags are known from the shape of short ones."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

_SCALES = 2.0 ** np.arange(-1, 13)
_PERIODS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 144)
_DECAYS = (0.5, 2.0, 8.0)
"""Of waves, in periods."""
_MOST_LAGS = 40
_LEAST, _VARIANCE_WEIGHT = 1e-4, 30.0


def smoothed(autocovariance: np.ndarray) -> np.ndarray:
    """The sum of kernels with positive weights whose variogram is nearest, by relative errors; see Cressie (1985).

    Kernels are exponential ones, Matern ones (3/2 and 5/2), fading waves, noise and a constant. Relative errors make
    what happens within a few steps count, however smooth a series is; lags count alike per octave.

    Args:
        autocovariance: (W,) at lags 0 to W - 1.
    """
    variance = float(autocovariance[0])
    if variance <= 0 or len(autocovariance) < 3:
        return autocovariance
    lags = np.unique(np.rint(np.geomspace(1, len(autocovariance) - 1, _MOST_LAGS)).astype(np.int64))
    kernels = _kernels(np.arange(len(autocovariance)))
    variogram = 1 - autocovariance[lags] / variance
    octaves = np.gradient(np.log(lags)) if len(lags) > 1 else np.ones(1)
    weight = np.sqrt(octaves) / (np.maximum(variogram, 0) + _LEAST)
    rows = np.concatenate([weight[:, None] * (1 - kernels[:, lags]).T, np.full((1, len(kernels)), _VARIANCE_WEIGHT)])
    found, _ = nnls(rows, np.append(weight * variogram, _VARIANCE_WEIGHT), maxiter=50 * len(kernels))
    return variance * (found @ kernels)


def _kernels(lags: np.ndarray) -> np.ndarray:
    """(J, W), each 1 at lag 0."""
    exponential = [np.exp(-lags / scale) for scale in _SCALES]
    near, nearer = (np.sqrt(n) * lags / _SCALES[:, None] for n in (3, 5))
    waves = [np.exp(-lags / (d * p)) * np.cos(2 * np.pi * lags / p) for p in _PERIODS for d in _DECAYS]
    matern = [(1 + near) * np.exp(-near), (1 + nearer + nearer**2 / 3) * np.exp(-nearer)]
    return np.concatenate([[lags == 0, np.ones(len(lags))], exponential, *matern, waves])

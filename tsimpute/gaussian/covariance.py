"""Covariances of K features at lags: estimated, regularised, made positive, laid out for the steps of a window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

PRIOR_PAIRS = 30
"""A covariance from n pairs of observed values is shrunk by n / (n + PRIOR_PAIRS)."""
LOWEST_POWER = 1e-4
"""Smallest eigenvalue of the spectrum at any frequency, where features have variance 1."""


def lagged_products(records: Sequence[np.ndarray], n_lags: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums of ``z_i(t) z_j(t + lag)`` over records and times, and how many pairs each has.

    Args:
        records: (K, T) each, NaN where nothing is known; T may differ.
        n_lags: lags 0 to ``n_lags`` - 1.

    Returns:
        (n_lags, K, K) sums and (n_lags, K, K) counts.
    """
    n_features = len(records[0])
    sums, counts = np.zeros((2, n_lags, n_features, n_features))
    for record in records:
        known = ~np.isnan(record)
        values, ones, n_steps = np.where(known, record, 0.0), known.astype(np.float64), record.shape[1]
        for lag in range(min(n_lags, n_steps)):
            sums[lag] += values[:, : n_steps - lag] @ values[:, lag:].T
            counts[lag] += ones[:, : n_steps - lag] @ ones[:, lag:].T
    return sums, counts


def from_pairs(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(W, K, K) covariances from pairs of observed values, shrunk to 0 where pairs are few; variances are not."""
    out = sums / (counts + PRIOR_PAIRS)
    variances = np.diagonal(sums[0]) / np.maximum(np.diagonal(counts[0]), 1)
    out[0][np.diag_indices(len(variances))] = np.where(variances > 0, variances, 1.0)
    return out


def regularised(covariance: np.ndarray, component_share: float, noise: float) -> np.ndarray:
    """Covariances that belong to a process, with unit variances.

    Far lags are tapered by ``1 - (lag / W)^2``. A share of each covariance is replaced by that of independent principal
    components with the same lag-0 covariance, which leaves K numbers per lag to estimate instead of K^2. The spectrum
    is clipped from below, and a share of the variance becomes noise that is independent in time.

    Args:
        covariance: (W, K, K); entry [lag, i, j] is that of feature i and feature j ``lag`` steps later.
        component_share: in [0, 1].
        noise: in (0, 1).
    """
    n_lags = len(covariance)
    tapered = covariance * (1 - (np.arange(n_lags) / n_lags) ** 2)[:, None, None]
    if component_share:
        tapered = (1 - component_share) * tapered + component_share * _components(tapered)
    positive = _clipped_spectrum(tapered)
    scale = np.sqrt(np.diagonal(positive[0]))
    unit = (1 - noise) * positive / np.outer(scale, scale)
    unit[0] += noise * np.eye(len(scale))
    return unit


def _components(covariance: np.ndarray) -> np.ndarray:
    """The part in which principal components of lag 0 do not covary at other lags."""
    _, basis = np.linalg.eigh(covariance[0])
    of_component = np.einsum("ic,lij,jc->lc", basis, covariance, basis, optimize=True)
    return np.einsum("ic,lc,jc->lij", basis, of_component, basis, optimize=True)


def _clipped_spectrum(covariance: np.ndarray) -> np.ndarray:
    """The nearest covariances whose spectral density matrices have no eigenvalue below ``LOWEST_POWER``.

    The sequence is extended to a period of 2 W, symmetric in time, so that its Fourier transform is Hermitian. A block
    circulant matrix with positive spectrum is positive, and so is each block Toeplitz matrix within it.
    """
    n_lags = len(covariance)
    periodic = np.concatenate([covariance, np.zeros_like(covariance[:1]), covariance[:0:-1].transpose(0, 2, 1)])
    spectrum = np.fft.fft(periodic, axis=0)[: n_lags + 1]
    power, basis = np.linalg.eigh((spectrum + spectrum.conj().transpose(0, 2, 1)) / 2)
    power = np.maximum(power, LOWEST_POWER)
    half = np.einsum("fic,fc,fjc->fij", basis, power, basis.conj(), optimize=True)
    return np.fft.irfft(half, n=2 * n_lags, axis=0)[:n_lags].copy()


def at_positions(covariance: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """(n K, n K) covariance of all features at n times, times first.

    Args:
        covariance: (W, K, K) at whole lags; 0 from lag W on, linear in between.
        positions: (n,) increasing times, in steps.
    """
    n_lags, n_features, _ = covariance.shape
    padded = np.concatenate([covariance, np.zeros_like(covariance[:1])])
    lag = np.minimum(positions[None, :] - positions[:, None], n_lags)
    later = np.maximum(lag, 0)
    below = np.minimum(later.astype(np.int64), n_lags - 1)
    part = (later - below)[:, :, None, None]
    upper = padded[below] if not part.any() else (1 - part) * padded[below] + part * padded[below + 1]
    out = np.where((lag >= 0)[:, :, None, None], upper, upper.transpose(1, 0, 3, 2))
    n_cells = len(positions) * n_features
    return out.transpose(0, 2, 1, 3).reshape(n_cells, n_cells)

"""Covariances of K features at lags: estimated, regularised, made positive, laid out for the steps of a window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.fft import next_fast_len
from scipy.optimize import nnls

PRIOR_PAIRS = 30
"""A covariance from n pairs of observed values is shrunk by n / (n + PRIOR_PAIRS)."""
STRETCH, CELLS_AT_ONCE = 1_024, 2_000_000
"""Steps of a record, and cells, that are transformed together."""
SPECTRUM_NUMBERS = 12_000_000
"""Of the spectrum of all pairs of features that is summed up, about."""
LOWEST_POWER = 1e-4
"""Smallest eigenvalue of the spectrum at any frequency, where features have variance 1; less where noise is small."""

_SCALES = 2.0 ** np.arange(-1, 13)
_PERIODS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 144)
_DECAYS = (0.5, 2.0, 8.0)
"""Of waves, in periods."""
_MOST_LAGS = 40
_LEAST, _VARIANCE_WEIGHT = 1e-4, 30.0


def lagged_products(records: Sequence[np.ndarray], n_lags: int) -> np.ndarray:
    """(n_lags, K, K) sums of ``x_i(t) x_j(t + lag)`` over records and times, by Fourier transforms of stretches.

    Args:
        records: (K, T) each, finite; T may differ.
        n_lags: lags 0 to ``n_lags`` - 1.
    """
    n_features = len(records[0])
    fitting = max(4 * n_lags, SPECTRUM_NUMBERS // n_features**2)  # of many features the spectrum is what takes memory
    stretch = min(STRETCH, fitting, max(record.shape[1] for record in records))
    size = cast(int, next_fast_len(stretch + n_lags - 1, real=True))
    spectrum = np.zeros((size // 2 + 1, n_features, n_features), complex)
    at_once = max(1, CELLS_AT_ONCE // (n_features * size))
    stretches = [  # cover each record once; and the same ones with what follows up to the largest lag
        (record[:, start : start + stretch], record[:, start : start + stretch + n_lags - 1])
        for record in records
        for start in range(0, record.shape[1], stretch)
    ]
    for first in range(0, len(stretches), at_once):
        batch = stretches[first : first + at_once]
        parts, ahead = np.zeros((2, len(batch), n_features, size))
        for n, (part, longer) in enumerate(batch):
            parts[n, :, : part.shape[1]], ahead[n, :, : longer.shape[1]] = part, longer
        of_parts, of_ahead = np.fft.rfft(parts, axis=2), np.fft.rfft(ahead, axis=2)
        spectrum += of_parts.transpose(2, 1, 0).conj() @ of_ahead.transpose(2, 0, 1)
    products = np.empty((n_lags, n_features, n_features))
    for k in range(n_features):
        products[:, k] = np.fft.irfft(spectrum[:, k], n=size, axis=0)[:n_lags]
    return products


def lagged_pairs(records: Sequence[np.ndarray], n_lags: int) -> tuple[np.ndarray, np.ndarray]:
    """(n_lags, K, K) sums of products over the pairs of which both values are known, and how many pairs there are.

    Args:
        records: (K, T) each, NaN where nothing is known.
    """
    sums = lagged_products([np.nan_to_num(record) for record in records], n_lags)
    return sums, np.rint(lagged_products([(~np.isnan(record)).astype(np.float64) for record in records], n_lags))


def edge_effects(records: Sequence[np.ndarray], n_lags: int) -> np.ndarray:
    """(n_lags, K, K) what to add to mean products so that they have the semivariogram of the records.

    The mean product at a lag is over all steps but some of the first or last ones. Their part in the variance is
    small compared with the variance, but large compared with the changes of a smooth series in a step.
    """
    n_features = len(records[0])
    products, counts = np.zeros((n_lags, n_features, n_features)), np.zeros(n_lags)
    for record in records:
        n_steps = record.shape[1]
        most = min(n_steps, n_lags)
        ends = record[:, : most - 1].T, record[:, ::-1][:, : most - 1].T
        left_out = sum(np.cumsum(end[:, :, None] * end[:, None, :], 0) for end in ends)
        whole = record @ record.T
        products[0] += whole
        products[1:most] += whole - left_out / 2
        counts[:most] += n_steps - np.arange(most)
    means = products / np.maximum(counts, 1)[:, None, None]
    return np.where((counts > 0)[:, None, None], means[0] - means, 0.0)


def from_pairs(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(W, K, K) covariances from pairs of observed values, shrunk to 0 where pairs are few; variances are not."""
    out = sums / (counts + PRIOR_PAIRS)
    variances = np.diagonal(sums[0]) / np.maximum(np.diagonal(counts[0]), 1)
    out[0][np.diag_indices(len(variances))] = np.where(variances > 0, variances, 1.0)
    return out


@dataclass(frozen=True, eq=False)
class Estimated:
    """Covariances as estimated, and what is computed from them once for all settings.

    Attributes:
        raw: (W, K, K); entry [lag, i, j] is that of feature i and feature j ``lag`` steps later.
    """

    raw: np.ndarray

    def regularised(
        self, component_share: float, noise: float, kernel_share: float = 0.0, level_share: float = 0.0
    ) -> np.ndarray:
        """(W, K, K) covariances of a process with unit variances.

        Far lags are tapered by ``1 - (lag / W)^2``, but for a level that stays. A share of each covariance is replaced
        by that of independent principal components with the same lag-0 covariance, which leaves K numbers per lag to
        estimate instead of K^2. The spectrum is clipped from below, and a share of the variance becomes noise that is
        independent in time.

        Args:
            component_share: in [0, 1].
            noise: in (0, 1).
            kernel_share: of the components' covariances, the part that is smoothed, see ``smoothed``; in [0, 1].
            level_share: the part of what features still covary at far lags that is taken for a level; in [0, 1].
        """
        n_lags, of_kernels = len(self.raw), component_share * kernel_share
        level = level_share * self._level
        tapered = (self.raw - level) * (1 - (np.arange(n_lags) / n_lags) ** 2)[:, None, None]
        rest = (1 - component_share) * tapered
        if component_share > of_kernels:
            rest += (component_share - of_kernels) * _independent(tapered, tapered[0])
        positive = _clipped_spectrum(rest, min(LOWEST_POWER, noise / 20)) + (1 - of_kernels) * level
        if of_kernels:
            positive += of_kernels * self._smoothed
        scale = np.sqrt(np.diagonal(positive[0]))
        unit = (1 - noise) * positive / np.outer(scale, scale)
        unit[0] += noise * np.eye(len(scale))
        return unit

    @cached_property
    def _level(self) -> np.ndarray:
        """(K, K) mean of the farther half of lags, its positive part."""
        return _positive_part(self.raw[len(self.raw) // 2 :].mean(0))

    @cached_property
    def _smoothed(self) -> np.ndarray:
        return _independent(self.raw, self.raw[0], smoothed)


def _independent(
    covariance: np.ndarray, at_once: np.ndarray, change: Callable[[np.ndarray], np.ndarray] = lambda x: x
) -> np.ndarray:
    """The part in which principal components of ``at_once`` do not covary at other lags.

    Args:
        change: of each component's autocovariance (W,).
    """
    _, basis = np.linalg.eigh(at_once)
    of_component = np.einsum("ic,lij,jc->lc", basis, covariance, basis, optimize=True)
    changed = np.stack([change(column) for column in of_component.T], 1)
    return np.einsum("ic,lc,jc->lij", basis, changed, basis, optimize=True)


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
    weights, _ = nnls(rows, np.append(weight * variogram, _VARIANCE_WEIGHT), maxiter=50 * len(kernels))
    return variance * (weights @ kernels)


def _kernels(lags: np.ndarray) -> np.ndarray:
    """(J, W), each 1 at lag 0."""
    exponential = [np.exp(-lags / scale) for scale in _SCALES]
    near, nearer = (np.sqrt(n) * lags / _SCALES[:, None] for n in (3, 5))
    waves = [np.exp(-lags / (d * p)) * np.cos(2 * np.pi * lags / p) for p in _PERIODS for d in _DECAYS]
    matern = [(1 + near) * np.exp(-near), (1 + nearer + nearer**2 / 3) * np.exp(-nearer)]
    return np.concatenate([[lags == 0, np.ones(len(lags))], exponential, *matern, waves])


def _positive_part(matrix: np.ndarray) -> np.ndarray:
    power, basis = np.linalg.eigh((matrix + matrix.T) / 2)
    return (basis * np.maximum(power, 0)) @ basis.T


def _clipped_spectrum(covariance: np.ndarray, lowest: float) -> np.ndarray:
    """The nearest covariances whose spectral density matrices have no eigenvalue below ``lowest``.

    The sequence is extended to a period of 2 W, symmetric in time, so that its Fourier transform is Hermitian. A block
    circulant matrix with positive spectrum is positive, and so is each block Toeplitz matrix within it.
    """
    n_lags = len(covariance)
    periodic = np.concatenate([covariance, np.zeros_like(covariance[:1]), covariance[:0:-1].transpose(0, 2, 1)])
    spectrum = np.fft.fft(periodic, axis=0)[: n_lags + 1]
    power, basis = np.linalg.eigh((spectrum + spectrum.conj().transpose(0, 2, 1)) / 2)
    power = np.maximum(power, lowest)
    half = np.einsum("fic,fc,fjc->fij", basis, power, basis.conj(), optimize=True)
    return np.fft.irfft(half, n=2 * n_lags, axis=0)[:n_lags].copy()


def at_positions(covariance: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """(n K, n K) covariance of all features at n times, times first.

    Args:
        covariance: (W, K, K) at whole lags, linear in between. From lag W on it stays as at W - 1, but for what is not
            positive.
        positions: (n,) increasing times, in steps.
    """
    n_lags, n_features, _ = covariance.shape
    n_cells = len(positions) * n_features
    if len(positions) <= n_lags and (np.diff(positions) == 1).all():
        within = covariance[: len(positions)]  # a block Toeplitz matrix
        strip = np.concatenate([within[:0:-1].transpose(0, 2, 1), within])
        blocks = sliding_window_view(strip, len(within), 0)[::-1]  # earlier step, its feature, later one's, later step
        return blocks.transpose(0, 1, 3, 2).reshape(n_cells, n_cells)
    padded = np.concatenate([covariance, _positive_part(covariance[-1])[None]])
    lag = np.minimum(positions[None, :] - positions[:, None], n_lags)
    later = np.maximum(lag, 0)
    below = np.minimum(later.astype(np.int64), n_lags - 1)
    part = (later - below)[:, :, None, None]
    upper = padded[below] if not part.any() else (1 - part) * padded[below] + part * padded[below + 1]
    out = np.where((lag >= 0)[:, :, None, None], upper, upper.transpose(1, 0, 3, 2))
    return out.transpose(0, 2, 1, 3).reshape(n_cells, n_cells)

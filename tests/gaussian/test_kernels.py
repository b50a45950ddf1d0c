"""Smoothed autocovariances: sums of kernels are found again, and noise of far lags goes."""

from __future__ import annotations

import numpy as np
import pytest

from tsimpute.gaussian.covariance import smoothed

LAGS = np.arange(96)


@pytest.mark.parametrize(
    "exact",
    [
        0.95**LAGS,
        0.3 + 0.7 * np.exp(-((LAGS / 20) ** 2)),
        2.0 * (LAGS == 0),
        np.ones(96),
        np.exp(-LAGS / 48) * np.cos(2 * np.pi * LAGS / 24),
    ],
)
def test_an_autocovariance_keeps_its_shape(exact: np.ndarray) -> None:
    np.testing.assert_allclose(smoothed(exact), exact, atol=0.06 * exact[0])


def test_noise_of_far_lags_goes_and_the_result_is_positive() -> None:
    exact = 0.9**LAGS
    noisy = exact + 0.05 * np.random.default_rng(0).normal(size=96) * (LAGS > 0)
    found = smoothed(noisy)
    assert np.abs(found - exact)[40:].mean() < 0.6 * np.abs(noisy - exact)[40:].mean()
    matrix = found[np.abs(LAGS[:, None] - LAGS)]
    assert np.linalg.eigvalsh(matrix).min() > -1e-9


@pytest.mark.parametrize("odd", [np.zeros(10), np.array([1.0]), np.array([1.0, 0.5]), np.r_[1.0, -np.ones(9)]])
def test_odd_ones_have_a_value(odd: np.ndarray) -> None:
    found = smoothed(odd)
    assert found.shape == odd.shape
    assert np.isfinite(found).all()

"""Covariances at lags: against plain loops, and the laws that make them those of a process."""

from __future__ import annotations

import numpy as np
import pytest

from tsimpute.gaussian.covariance import (
    Estimated,
    at_positions,
    edge_effects,
    from_pairs,
    lagged_pairs,
    lagged_products,
)


def noisy(n_lags: int = 6, n_features: int = 3, seed: int = 0) -> np.ndarray:
    """Covariances as few data give them: of no process."""
    rng = np.random.default_rng(seed)
    records = [np.where(rng.random((n_features, 20)) < 0.5, np.nan, rng.normal(size=(n_features, 20)))]
    return from_pairs(*lagged_pairs(records, n_lags))


def test_products_are_sums_over_pairs_that_are_known() -> None:
    rng = np.random.default_rng(1)
    records = [rng.normal(size=(2, 7)), rng.normal(size=(2, 4))]
    records[0][0, 2] = records[1][1, 3] = np.nan
    sums, counts = lagged_pairs(records, 5)
    for lag in range(5):
        for i in range(2):
            for j in range(2):
                pairs = [r[i, t] * r[j, t + lag] for r in records for t in range(r.shape[1] - lag)]
                known = [pair for pair in pairs if not np.isnan(pair)]
                assert counts[lag, i, j] == len(known)
                assert sums[lag, i, j] == pytest.approx(sum(known), abs=1e-12)


@pytest.mark.parametrize("kernels_and_level", [(0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (0.0, 1.0), (0.5, 1.0)])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_regularised_covariances_are_those_of_a_process_with_unit_variances(
    share: float, kernels_and_level: tuple[float, float]
) -> None:
    for seed in range(5):
        covariance = Estimated(noisy(seed=seed)).regularised(share, 0.01, *kernels_and_level)
        np.testing.assert_allclose(np.diagonal(covariance[0]), 1)
        np.testing.assert_allclose(covariance[0], covariance[0].T, atol=1e-12)
        # Any stretch of the process has a positive covariance, also one longer than the lags.
        assert np.linalg.eigvalsh(at_positions(covariance, np.arange(15.0))).min() > 0.005


def test_independent_components_keep_the_covariance_at_lag_0() -> None:
    rng = np.random.default_rng(3)
    mixing = rng.normal(size=(3, 3))
    lag_0 = mixing @ mixing.T
    ar = np.stack([0.8**lag * lag_0 for lag in range(8)])  # one time scale: nothing but components
    one, other = (Estimated(ar).regularised(share, 0.01) for share in (0.0, 1.0))
    np.testing.assert_allclose(one, other, atol=1e-10)


def test_positions_lay_out_lags_and_are_linear_between_them() -> None:
    covariance = Estimated(noisy()).regularised(0.5, 0.01)
    positions = np.array([0.0, 1.0, 2.5, 9.0])
    matrix = at_positions(covariance, positions).reshape(4, 3, 4, 3)
    np.testing.assert_allclose(matrix[0, :, 1, :], covariance[1])
    np.testing.assert_allclose(matrix[1, :, 0, :], covariance[1].T)
    np.testing.assert_allclose(matrix[0, :, 2, :], (covariance[2] + covariance[3]) / 2)
    np.testing.assert_allclose(matrix[1, :, 2, :], (covariance[1] + covariance[2]) / 2)
    far = matrix[0, :, 3, :]
    np.testing.assert_allclose(far, far.T, atol=1e-12)
    assert np.abs(far).max() < 0.4 * np.abs(covariance[3]).max()
    np.testing.assert_allclose(matrix.reshape(12, 12), matrix.reshape(12, 12).T)


def test_steps_that_follow_each_other_are_laid_out_like_any_others() -> None:
    covariance = noisy()
    for n_steps in (1, 2, 6):
        steps = np.arange(float(n_steps))
        apart = np.append(steps, steps[-1] + 20.0)  # which takes the general way
        n_cells = n_steps * 3
        np.testing.assert_array_equal(
            at_positions(covariance, steps), at_positions(covariance, apart)[:n_cells, :n_cells]
        )


def test_edge_effects_make_mean_products_those_of_the_semivariogram() -> None:
    rng = np.random.default_rng(4)
    records = [rng.normal(size=(2, 30)).cumsum(1), rng.normal(size=(2, 3)).cumsum(1)]
    n_lags = 6
    counts = np.array([sum(max(r.shape[1] - lag, 0) for r in records) for lag in range(n_lags)])
    means = lagged_products(records, n_lags) / counts[:, None, None] + edge_effects(records, n_lags)
    for lag in range(1, n_lags):
        squares = sum(((r[:, lag:] - r[:, : max(r.shape[1] - lag, 0)]) ** 2).sum(1) for r in records)
        np.testing.assert_allclose(np.diagonal(means[0] - means[lag]), squares / counts[lag] / 2)

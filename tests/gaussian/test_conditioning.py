"""Posteriors against the closed form of a small Gaussian, and paths that are coherent over windows."""

from __future__ import annotations

import numpy as np
import pytest

from tsimpute.gaussian.conditioning import Prior, condition, window_length, windows
from tsimpute.gaussian.covariance import at_positions


def ar(coefficient: float, n_lags: int, mixing: np.ndarray) -> np.ndarray:
    """Covariances of first-order processes with one coefficient, mixed to unit variances."""
    lag_0 = mixing @ mixing.T
    scale = np.sqrt(np.diag(lag_0))
    return np.stack([coefficient**lag * lag_0 / np.outer(scale, scale) for lag in range(n_lags)])


def test_mean_and_spread_are_those_of_the_closed_form() -> None:
    rng = np.random.default_rng(0)
    covariance = ar(0.7, 12, np.array([[1.0, 0.2], [0.5, 1.0]]))
    record = rng.normal(size=(2, 12))
    record[rng.random(record.shape) < 0.4] = np.nan
    found = condition(Prior(covariance), record, np.arange(12.0), 0, None)
    matrix = at_positions(covariance, np.arange(12.0))
    flat = record.T.ravel()
    known, gaps = np.flatnonzero(~np.isnan(flat)), np.flatnonzero(np.isnan(flat))
    gain = matrix[np.ix_(gaps, known)] @ np.linalg.inv(matrix[np.ix_(known, known)])
    np.testing.assert_allclose(found.mean.T.ravel()[gaps], gain @ flat[known], atol=1e-9)
    variance = np.diag(matrix)[gaps] - (gain * matrix[np.ix_(gaps, known)]).sum(1)
    np.testing.assert_allclose(found.spread.T.ravel()[gaps] ** 2, variance, atol=1e-9)
    assert found.mean.T.ravel()[known].tobytes() == flat[known].tobytes()
    assert (found.spread.T.ravel()[known] == 0).all()


def test_draws_have_the_posterior_covariance() -> None:
    covariance = ar(0.9, 8, np.eye(1))
    record = np.array([[0.5, np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, -1.0]])
    found = condition(Prior(covariance), record, np.arange(8.0), 40_000, np.random.default_rng(1))
    matrix = at_positions(covariance, np.arange(8.0))
    ends, gap = [0, 7], list(range(1, 7))
    cross = matrix[np.ix_(gap, ends)]
    expected = matrix[np.ix_(gap, gap)] - cross @ np.linalg.inv(matrix[np.ix_(ends, ends)]) @ cross.T
    np.testing.assert_allclose(np.cov(found.deviations[:, 0, gap].T), expected, atol=0.02)


def test_windows_cover_every_step_once_and_see_beyond_it() -> None:
    for n_steps in (1, 95, 97, 300, 1001):
        for n_features in (1, 10, 36, 200):
            found = list(windows(n_steps, n_features))
            covered = [step for window in found for step in range(window.first, window.last)]
            assert covered == list(range(n_steps))
            for window in found:
                assert 0 <= window.start <= window.first < window.last <= window.stop <= n_steps
                inner = window.first > 0 and window.last < n_steps
                margin = min(window.first - window.start, window.stop - window.last)
                assert not inner or margin >= window_length(n_features) // 3 - 1


def test_a_draw_of_a_gap_longer_than_a_window_is_one_path() -> None:
    """Steps of a path keep the process's correlation over the borders of windows, and its variance."""
    n_steps = 400
    covariance = ar(0.8, window_length(1), np.eye(1))
    record = np.full((1, n_steps), np.nan)
    record[0, [0, -1]] = 0.0
    found = condition(Prior(covariance), record, np.arange(float(n_steps)), 4_000, np.random.default_rng(2))
    paths = found.deviations[:, 0]
    middle = slice(60, 340)
    np.testing.assert_allclose(paths[:, middle].std(0), 1, atol=0.06)
    lag_1 = (paths[:, 60:340] * paths[:, 61:341]).mean(0)
    np.testing.assert_allclose(lag_1, 0.8, atol=0.07)


def test_many_features_are_filled_in_blocks_with_the_neighbours_that_tell_most() -> None:
    rng = np.random.default_rng(4)
    n_features, n_steps = 120, 40
    mixing = np.kron(np.eye(60), np.array([[1.0, 0.05], [1.0, -0.05]]))  # pairs that are nearly equal
    order = rng.permutation(n_features)
    covariance = ar(0.5, 6, mixing[order] + 1e-3 * rng.normal(size=(n_features, n_features)))
    matrix = np.linalg.cholesky(at_positions(covariance, np.arange(float(n_steps))) + 1e-9 * np.eye(4800))
    truth = (matrix @ rng.normal(size=4800)).reshape(n_steps, n_features).T
    record = truth.copy()
    record[order.argsort()[::2]] = np.nan  # one of each pair is out for good
    found = condition(Prior(covariance), record, np.arange(float(n_steps)), 0, None)
    gaps = np.isnan(record)
    assert np.corrcoef(found.mean[gaps], truth[gaps])[0, 1] > 0.95


@pytest.mark.parametrize("n_draws", [0, 3])
def test_a_record_without_any_value_has_the_prior(n_draws: int) -> None:
    covariance = ar(0.6, 5, np.eye(2))
    found = condition(Prior(covariance), np.full((2, 5), np.nan), np.arange(5.0), n_draws, np.random.default_rng(0))
    assert (found.mean == 0).all()
    assert found.deviations.shape == (n_draws, 2, 5)
    np.testing.assert_allclose(found.spread, 1)

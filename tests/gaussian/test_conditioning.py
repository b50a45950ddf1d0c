"""Posteriors against the closed form of a small Gaussian, and paths that are coherent over windows."""

from __future__ import annotations

import numpy as np
import pytest

from tsimpute.gaussian import conditioning
from tsimpute.gaussian.conditionals import Prior
from tsimpute.gaussian.conditioning import condition, conditioned_pieces, marginals, window_length, windows
from tsimpute.gaussian.covariance import at_positions


def ar(coefficient: float, n_lags: int, mixing: np.ndarray) -> np.ndarray:
    """Covariances of first-order processes with one coefficient, mixed to unit variances."""
    lag_0 = mixing @ mixing.T
    scale = np.sqrt(np.diag(lag_0))
    return np.stack([coefficient**lag * lag_0 / np.outer(scale, scale) for lag in range(n_lags)])


def closed_form(matrix: np.ndarray, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and covariance of the missing entries of a vector."""
    known, gaps = np.flatnonzero(~np.isnan(flat)), np.flatnonzero(np.isnan(flat))
    gain = matrix[np.ix_(gaps, known)] @ np.linalg.inv(matrix[np.ix_(known, known)])
    return gain @ flat[known], matrix[np.ix_(gaps, gaps)] - gain @ matrix[np.ix_(known, gaps)]


MANY_FEW_NONE = [0.1, 0.45, 0.9, 1.0]
"""Shares of cells that are missing; each way of conditioning has its own."""


@pytest.mark.parametrize("missing", MANY_FEW_NONE)
@pytest.mark.parametrize("regular", [True, False])
def test_mean_and_spread_are_those_of_the_closed_form(missing: float, regular: bool) -> None:
    rng = np.random.default_rng(0)
    covariance = ar(0.7, 12, np.array([[1.0, 0.2], [0.5, 1.0]]))
    record = rng.normal(size=(2, 12))
    record[rng.random(record.shape) < missing] = np.nan
    positions = np.arange(12.0) if regular else np.cumsum(rng.integers(1, 3, 12)).astype(float)
    mean, spread = marginals(Prior(covariance), record, positions)
    flat = record.T.ravel()
    expected, left = closed_form(at_positions(covariance, positions), flat)
    gaps = np.isnan(flat)
    np.testing.assert_allclose(mean.T.ravel()[gaps], expected, atol=1e-9)
    np.testing.assert_allclose(spread.T.ravel()[gaps] ** 2, np.diag(left), atol=1e-9)
    assert mean.T.ravel()[~gaps].tobytes() == flat[~gaps].tobytes()
    assert (spread.T.ravel()[~gaps] == 0).all()


@pytest.mark.parametrize("missing", MANY_FEW_NONE)
@pytest.mark.parametrize("regular", [True, False])
def test_draws_have_the_posterior_covariance(missing: float, regular: bool) -> None:
    rng = np.random.default_rng(1)
    covariance = ar(0.9, 20, np.array([[1.0, 0.2], [0.5, 1.0]]))
    record = rng.normal(size=(2, 8))
    record[rng.random(record.shape) < missing] = np.nan
    positions = np.arange(8.0) if regular else np.array([0.0, 1.5, 2, 3, 4, 6, 7, 9])
    found = condition(Prior(covariance), record, positions, 40_000, np.random.default_rng(2))
    flat = record.T.ravel()
    expected, left = closed_form(at_positions(covariance, positions), flat)
    np.testing.assert_allclose(found.mean.T.ravel()[np.isnan(flat)], expected, atol=1e-9)
    paths = found.deviations.transpose(0, 2, 1).reshape(40_000, -1)
    np.testing.assert_allclose(np.cov(paths[:, np.isnan(flat)].T), left, atol=0.025)
    assert (paths[:, ~np.isnan(flat)] == 0).all()


@pytest.mark.parametrize(("n_features", "n_steps"), [(5, 400), (50, 100)])
def test_pieces_are_those_of_the_whole_record(n_features: int, n_steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditioning, "CHUNK", 3)
    rng = np.random.default_rng(3)
    covariance = ar(0.9, 20, np.eye(n_features) + 0.3)
    record = rng.normal(size=(n_features, n_steps))
    record[rng.random(record.shape) < 0.3] = np.nan
    record[:, n_steps // 3 : n_steps // 2] = np.nan
    prior, positions = Prior(covariance), np.arange(float(n_steps))
    whole = condition(prior, record, positions, 3, np.random.default_rng(4))
    pieces = list(conditioned_pieces(prior, record, positions, 3, np.random.default_rng(4)))
    assert len(pieces) > 2
    assert [step for piece in pieces for step in range(n_steps)[piece.steps]] == list(range(n_steps))
    assert np.concatenate([piece.mean for piece in pieces], 1).tobytes() == whole.mean.tobytes()
    assert np.concatenate([piece.deviations for piece in pieces], 2).tobytes() == whole.deviations.tobytes()


def test_what_was_looked_at_before_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    covariance, positions = ar(0.8, 30, np.eye(2) + 0.2), np.arange(30.0)
    records = rng.normal(size=(12, 2, 30))
    records[rng.random(records.shape) < rng.random((12, 1, 1))] = np.nan
    shared = Prior(covariance)
    for n in [*range(12), *range(11, -1, -1)]:
        one, other = (
            condition(p, records[n], positions, 2, np.random.default_rng(n)) for p in (shared, Prior(covariance))
        )
        assert one.mean.tobytes() == other.mean.tobytes()
        assert one.deviations.tobytes() == other.deviations.tobytes()


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
    n_features, n_steps = 60, 40
    mixing = np.kron(np.eye(30), np.array([[1.0, 0.05], [1.0, -0.05]]))  # pairs that are nearly equal
    order = rng.permutation(n_features)
    covariance = ar(0.5, 6, mixing[order] + 1e-3 * rng.normal(size=(n_features, n_features)))
    matrix = np.linalg.cholesky(at_positions(covariance, np.arange(float(n_steps))) + 1e-9 * np.eye(2400))
    truth = (matrix @ rng.normal(size=2400)).reshape(n_steps, n_features).T
    record = truth.copy()
    record[order.argsort()[::2]] = np.nan  # one of each pair is out for good
    mean, _ = marginals(Prior(covariance), record, np.arange(float(n_steps)))
    gaps = np.isnan(record)
    assert np.corrcoef(mean[gaps], truth[gaps])[0, 1] > 0.95


def test_a_record_without_any_value_has_the_prior() -> None:
    prior = Prior(ar(0.6, 5, np.eye(2)))
    mean, spread = marginals(prior, np.full((2, 5), np.nan), np.arange(5.0))
    assert (mean == 0).all()
    np.testing.assert_allclose(spread, 1)

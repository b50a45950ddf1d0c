"""Maps, seasons and the fit: what is known of a generated process is found again from incomplete records."""

from __future__ import annotations

import numpy as np
import pytest

from tsimpute.gaussian import model as fitting
from tsimpute.gaussian.conditioning import joined
from tsimpute.gaussian.maps import MonotoneMap, Records, Seasons
from tsimpute.gaussian.model import Regularisation, fit
from tsimpute.gaussian.process import GaussianModel


@pytest.mark.parametrize("normality", [0.0, 0.5, 1.0])
def test_a_map_is_undone_by_its_inverse_also_beyond_the_known_values(normality: float) -> None:
    known = np.random.default_rng(0).lognormal(size=500)
    of_one = MonotoneMap.fit(known, normality)
    values = np.concatenate([known, [-5.0, 200.0, np.nan]])
    np.testing.assert_allclose(of_one.inverse(of_one.forward(values)), values, rtol=1e-9)
    assert (np.diff(of_one.forward(np.sort(values[:-1]))) >= 0).all()


def test_a_full_map_gives_normal_scores() -> None:
    scores = MonotoneMap.fit(np.random.default_rng(0).lognormal(size=5000), 1.0)
    known = scores.forward(np.random.default_rng(1).lognormal(size=5000))
    assert abs(known.mean()) < 0.05
    assert abs(known.std() - 1) < 0.05
    assert abs((known**3).mean()) < 0.2


@pytest.mark.parametrize("known", [np.empty(0), np.array([3.0]), np.full(50, 7.5), np.array([0.0, 1.0] * 20)])
def test_few_or_equal_values_have_a_map(known: np.ndarray) -> None:
    of_one = MonotoneMap.fit(known, 1.0)
    assert np.isfinite(of_one.forward(np.append(known, 2.0))).all()
    np.testing.assert_allclose(of_one.inverse(of_one.forward(known)), known, atol=1e-9)


def test_a_season_is_kept_where_it_predicts_and_only_there() -> None:
    rng = np.random.default_rng(0)
    times = np.arange(24.0 * 30)
    daily = np.sin(2 * np.pi * times / 24) + 0.3 * np.cos(4 * np.pi * times / 24)
    record = np.stack([daily + 0.5 * rng.normal(size=len(times)), rng.normal(size=len(times)).cumsum() / 10])
    record[0, rng.random(len(times)) < 0.3] = np.nan
    found = Seasons.fit([record], [times], (24.0, 168.0, 8766.0))
    assert found.periods == (24.0, 168.0)
    profile = found.at(times)
    assert np.abs(profile[0] - daily).mean() < 0.1
    assert (profile[1] == 0).all()


def autoregressive(n_steps: int, coefficient: float, seed: int) -> np.ndarray:
    """Two correlated first-order processes with unit variances."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(np.array([[1.0, 0.6], [0.6, 1.0]]))
    out = np.empty((2, n_steps))
    out[:, 0] = root @ rng.normal(size=2)
    for t in range(1, n_steps):
        out[:, t] = coefficient * out[:, t - 1] + np.sqrt(1 - coefficient**2) * root @ rng.normal(size=2)
    return out


def test_the_covariances_of_a_process_are_found_from_half_of_its_cells() -> None:
    values = autoregressive(6000, 0.8, 0)
    values[np.random.default_rng(1).random(values.shape) < 0.5] = np.nan
    records = Records((values,), (np.arange(6000.0),), 1.0)
    model = fit(records, settings=Regularisation(normality=0.0, component_share=0.5, noise=0.002))
    for lag in range(4):
        expected = 0.8**lag * np.array([[1.0, 0.6], [0.6, 1.0]])
        np.testing.assert_allclose(model.covariance[lag], expected, atol=0.07)


def test_intervals_of_a_fitted_process_hold() -> None:
    values = autoregressive(3000, 0.9, 3)
    hidden = np.random.default_rng(4).random(values.shape) < 0.3
    seen = np.where(hidden, np.nan, values)
    times = np.arange(3000.0)
    model = fit(Records((seen,), (times,), 1.0))
    found = joined(list(model.posterior_pieces(seen, times, 50, np.random.default_rng(5))))
    draws = model.values(np.concatenate([found.mean + found.deviations, found.mean - found.deviations]), times)
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    held = ((low <= values) & (values <= high))[hidden].mean()
    assert 0.86 < held < 0.94


def test_skewed_values_are_mapped() -> None:
    values = np.exp(2 * autoregressive(1500, 0.9, 6))
    values[:, 700:720] = np.nan
    records = Records((values,), (np.arange(1500.0),), 1.0)
    chosen: list[Regularisation] = []
    fit(records, tell_settings=chosen.append)
    assert chosen[0].normality > 0


def test_records_with_uneven_times_are_fitted() -> None:
    whole = autoregressive(4000, 0.95, 8)
    kept = np.sort(np.random.default_rng(9).permutation(4000)[:2400])
    times = kept + np.random.default_rng(10).uniform(-0.3, 0.3, len(kept))
    model = fit(Records((whole[:, kept],), (times,), 1.0), settings=Regularisation(0.0))
    assert model.covariance[1, 0, 0] == pytest.approx(0.95, abs=0.06)
    assert model.covariance[5, 0, 0] == pytest.approx(0.95**5, abs=0.1)


def skewed_model() -> tuple[GaussianModel, np.ndarray, np.ndarray]:
    values, times = np.exp(autoregressive(600, 0.9, 11)), np.arange(600.0)
    values[np.random.default_rng(12).random(values.shape) < 0.2] = np.nan
    settings = Regularisation(normality=1.0)
    return fit(Records((values,), (times,), 1.0), (24.0,), settings), values, times


def test_a_model_comes_back_from_its_arrays_to_the_bit() -> None:
    model, values, times = skewed_model()
    arrays = model.to_arrays()
    again = GaussianModel.from_arrays(arrays)
    assert {name: kept.tobytes() for name, kept in again.to_arrays().items()} == {
        name: kept.tobytes() for name, kept in arrays.items()
    }
    assert all(isinstance(kept, np.ndarray) for kept in arrays.values())
    for one, other in zip(model.moments(values, times), again.moments(values, times), strict=True):
        assert one.tobytes() == other.tobytes()


def test_moments_are_those_of_many_draws_in_the_data_s_units() -> None:
    model, values, times = skewed_model()
    mean, spread = model.moments(values, times)
    found = joined(list(model.posterior_pieces(values, times, 4_000, np.random.default_rng(0))))
    draws = model.values(found.mean + found.deviations, times)
    gaps = np.isnan(values)
    assert (np.abs(draws.mean(0) - mean)[gaps] < 0.25 * draws.std(0)[gaps]).all()
    low, high = np.quantile(draws, [0.1587, 0.8413], axis=0)
    np.testing.assert_allclose(spread[gaps], ((high - low) / 2)[gaps], rtol=0.2)
    assert mean[~gaps].tobytes() == values[~gaps].tobytes()
    assert (spread[~gaps] == 0).all()


def test_a_fit_tells_how_far_it_is_and_ends_early_with_a_model() -> None:
    values, times = autoregressive(1200, 0.9, 13), np.arange(1200.0)
    values[np.random.default_rng(14).random(values.shape) < 0.2] = np.nan
    records = Records((values,), (times,), 1.0)
    seen: list[tuple[int, int]] = []
    fit(records, progress=lambda done, total: seen.append((done, total)))
    assert len(seen) > 10
    assert seen == sorted(seen)
    assert len({total for _, total in seen}) == 1
    assert seen[-1][0] == seen[-1][1]
    for n_steps in (1, 4, 20):
        asked = iter(range(n_steps))
        model = fit(records, should_stop=lambda asked=asked: next(asked, None) is None)
        mean, spread = model.moments(values, times)
        assert np.isfinite(mean).all()
        assert (spread[np.isnan(values)] > 0).all()


def test_the_order_of_records_does_not_matter() -> None:
    values = autoregressive(2000, 0.9, 15).reshape(2, 50, 40).transpose(1, 0, 2).copy()
    values[np.random.default_rng(16).random(values.shape) < 0.3] = np.nan
    times = tuple([np.arange(40.0)] * 50)
    settings = Regularisation(normality=0.0, n_rounds=4)
    one, other = (fit(Records(tuple(v), times, 1.0), settings=settings) for v in (values, values[::-1]))
    np.testing.assert_allclose(one.covariance, other.covariance, atol=0.06)
    np.testing.assert_allclose(one.centre, other.centre, atol=1e-12)


def test_giving_up_early_what_is_behind_costs_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    truth, rng = autoregressive(3_000, 0.95, 0), np.random.default_rng(1)
    values = np.where(rng.random(truth.shape) < 0.2, np.nan, truth)
    records, gaps = Records((values,), (np.arange(3_000.0),), 1.0), np.isnan(values)
    errors, asked = [], []
    marginals = GaussianModel.marginals
    monkeypatch.setattr(GaussianModel, "marginals", lambda *given: asked.append(early) or marginals(*given))
    for early in (0.3, 2.0):  # 2 = none is given up
        monkeypatch.setattr(fitting, "EARLY", early)
        mean, _ = marginals(fit(records), values, records.times[0])
        errors.append(np.abs(mean - truth / truth.std(1, keepdims=True))[gaps].mean())
    assert errors[0] == pytest.approx(errors[1], rel=0.01)
    assert asked.count(0.3) < asked.count(2.0)

"""State space: statsmodels' own likelihood and smoother, variances found again, and true joint draws."""

import sys

import numpy as np
import pytest
from statsmodels.tsa.statespace.structural import UnobservedComponents

from tsimpute.config import registry
from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import ConfigError, DataError, MissingExtraError
from tsimpute.peers.kalman import covariances, log_likelihood, posterior


def make_windows(values: np.ndarray, step: float = 1.0) -> Windows:
    n, k, length = values.shape
    times = np.tile(step * np.arange(float(length)), (n, 1))
    return Windows(values, times, tuple(Feature(f"f{i}") for i in range(k)), tuple(map(str, range(n))))


def walks(n: int, length: int = 30, missing: float = 0.4) -> np.ndarray:
    """(n, length) local levels: first state 1, changes 0.05, noise 0.2, as variances."""
    rng = np.random.default_rng(0)
    change = rng.normal(size=(n, length)) * 0.05**0.5
    change[:, 0] = rng.normal(size=n)
    values = change.cumsum(1) + rng.normal(size=(n, length)) * 0.2**0.5
    values[rng.random(values.shape) < missing] = np.nan
    return values


@pytest.mark.parametrize(("trend", "season"), [("level", 0), ("linear", 0), ("level", 6), ("linear", 4)])
def test_likelihood_and_smoothed_cells_are_those_of_statsmodels(trend: str, season: int):
    record = walks(1)[0]
    parts = covariances(trend, season, len(record))
    n_states = 1 + (trend == "linear") + (2 * min(2, season // 2) if season else 0)
    n_components = (len(parts) - 1) // 2
    variances = np.linspace(0.1, 0.9, len(parts))
    theirs = UnobservedComponents(
        record,
        level={"level": "local level", "linear": "local linear trend"}[trend],
        freq_seasonal=[{"period": season, "harmonics": 2}] if season else None,
    )
    first = variances[1 : 1 + n_components]
    trends = 1 + (trend == "linear")
    theirs.initialize_known(np.zeros(n_states), np.diag([*first[:trends], *([first[-1]] * (n_states - trends))]))
    theirs.loglikelihood_burn = 0
    params = np.concatenate([variances[:1], variances[1 + n_components :]])
    ours, _ = log_likelihood(variances, parts, [record])
    assert ours == pytest.approx(theirs.loglike(params))
    smoothed = theirs.smooth(params)
    look = theirs.ssm["design"][0]
    mean, cov = posterior(np.tensordot(variances, parts, 1), record)
    gaps = np.isnan(record)
    np.testing.assert_allclose(mean, (look @ smoothed.smoothed_state)[gaps], atol=1e-8)
    spread = np.einsum("i,ijt,j->t", look, smoothed.smoothed_state_cov, look) + variances[0]
    np.testing.assert_allclose(np.diag(cov), spread[gaps], atol=1e-8)


def test_the_gradient_is_that_of_the_likelihood():
    records, parts = list(walks(3)), covariances("linear", 6, 30)
    variances = np.linspace(0.2, 0.8, len(parts))
    _, gradient = log_likelihood(variances, parts, records)
    for p in range(len(parts)):
        more, less = (log_likelihood(variances + d * np.eye(len(parts))[p], parts, records)[0] for d in (1e-5, -1e-5))
        assert gradient[p] == pytest.approx((more - less) / 2e-5, rel=1e-4)


def test_variances_are_found_again_from_many_records():
    values = walks(300)
    peer = registry.make("peers", "kalman").fit(make_windows(values[:, None] * 50 + 7))
    np.testing.assert_allclose(peer.learnt_["variances"][0] * np.nanvar(values), [0.2, 1, 0.05], rtol=0.25)
    assert int(peer.learnt_["season_steps"]) == 0  # 30 hours hold no two days


def test_draws_have_the_mean_and_the_covariance_of_the_posterior():
    values = walks(40)[:, None]
    peer = registry.make("peers", "kalman").fit(make_windows(values))
    record = make_windows(values[:1])
    gaps = np.isnan(values[0, 0])
    draws = peer.scaler_.transform(peer.impute(record, 4000).values[:, 0])[:, 0, gaps]
    cov = np.tensordot(peer.learnt_["variances"][0], covariances("level", 0, 30), 1)
    mean, cov = posterior(cov, peer.scaler_.transform(values[0])[0])
    np.testing.assert_allclose(draws.mean(0), mean, atol=5 * cov.max() ** 0.5 / 4000**0.5)
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=6 * cov.max() / 4000**0.5)


def test_a_day_is_learnt_where_records_hold_two_and_the_step_allows():
    rng = np.random.default_rng(0)
    phase = rng.uniform(0, 6.28, size=(60, 1))
    values = np.sin(np.arange(48.0) * 2 * np.pi / 24 + phase)[:, None] + rng.normal(size=(60, 1, 48)) * 0.1
    hidden = values.copy()
    hidden[:, :, 30:36] = np.nan
    errors = {}
    for season in (24.0, None):
        peer = registry.make("peers", "kalman", season=season).fit(make_windows(hidden))
        assert int(peer.learnt_["season_steps"]) == (24 if season else 0)
        draws = peer.impute(make_windows(hidden), 20).values.mean(0)
        errors[season] = np.abs(draws - values)[:, :, 30:36].mean()
    assert errors[24.0] < 0.5 * errors[None]
    # Steps of 3 hours have 8 to a day; steps of 7 hours none, records of 36 hours not two.
    for step, length, expected in ((3.0, 48, 8), (7.0, 48, 0), (1.0, 36, 0)):
        made = registry.make("peers", "kalman", fit_records=3).fit(make_windows(hidden[:, :, :length], step))
        assert int(made.learnt_["season_steps"]) == expected


def test_other_steps_than_those_learnt_are_refused():
    peer = registry.make("peers", "kalman").fit(make_windows(walks(5)[:, None]))
    with pytest.raises(DataError, match="steps of 1, as learnt in fit; came 2"):
        peer.impute(make_windows(walks(5)[:, None], 2.0), 1)
    with pytest.raises(DataError, match="2000 at most, came 2001"):
        peer.impute(make_windows(np.zeros((1, 1, 2001))), 1)
    for settings in ({"trend": "cubic"}, {"season": -1}, {"fit_records": 0}):
        with pytest.raises(ConfigError, match=next(iter(settings))):
            registry.make("peers", "kalman", **settings)


@pytest.mark.parametrize(("name", "package"), [("kalman", "statsmodels"), ("iterative", "sklearn")])
def test_without_its_package_the_message_names_the_extra(name: str, package: str, monkeypatch: pytest.MonkeyPatch):
    covariances.cache_clear()
    for module in [m for m in sys.modules if m.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match="extra `peers`"):
        registry.make("peers", name).fit(make_windows(np.random.default_rng(0).normal(size=(4, 2, 5))))

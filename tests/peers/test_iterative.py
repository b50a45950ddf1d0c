"""Chained equations: scikit-learn's own numbers, and time where rows are windows."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer as OfScikitLearn

from tsimpute.config import registry
from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import ConfigError, DataError
from tsimpute.peers.iterative import run_chain


def make_windows(values: np.ndarray) -> Windows:
    n, k, length = values.shape
    times = np.tile(np.arange(float(length)), (n, 1))
    return Windows(values, times, tuple(Feature(f"f{i}") for i in range(k)), tuple(map(str, range(n))))


def correlated(n: int, missing: float = 0.3) -> Windows:
    """Two features that are nearly one, and a third by itself; constant over the 4 steps of a record but for noise."""
    rng = np.random.default_rng(0)
    level = rng.normal(size=(n, 1, 1))
    values = np.concatenate([level, 100 + 20 * level, rng.normal(size=(n, 1, 1))], 1) + np.zeros((n, 3, 4))
    values = values + rng.normal(size=values.shape) * np.array([0.1, 2, 0.1])[:, None]
    values[rng.random(values.shape) < missing] = np.nan
    return make_windows(values)


class NoNoise:
    def standard_normal(self, n: int) -> np.ndarray:
        return np.zeros(n)


def test_the_chain_gives_what_scikit_learn_gives():
    rows = np.random.default_rng(1).multivariate_normal(np.zeros(4), 0.5 * np.eye(4) + 0.5, 200)
    rows[np.random.default_rng(2).random(rows.shape) < 0.3] = np.nan
    windows = make_windows(rows[:, :, None])
    peer = registry.make("peers", "iterative", over="steps", max_iter=3, seed=5).fit(windows)
    standardised = peer.scaler_.transform(windows.values)[:, :, 0]
    told = standardised[~np.isnan(standardised).all(1)]
    theirs = OfScikitLearn(sample_posterior=True, max_iter=3, random_state=5, keep_empty_features=True).fit(told)
    theirs.sample_posterior = False
    ours = run_chain(peer.learnt_, standardised, NoNoise())  # type: ignore[arg-type]
    np.testing.assert_allclose(ours, theirs.transform(standardised), atol=1e-9)


def test_draws_spread_as_scikit_learns_draws_do():
    windows = correlated(150)
    peer = registry.make("peers", "iterative", over="steps", max_iter=3).fit(windows)
    gap = np.full((1, 3, 4), np.nan)
    gap[0, 0] = 1.0
    draws = peer.impute(make_windows(gap), 400).values[:, 0, 1]
    assert draws.mean() == pytest.approx(120, abs=1)
    assert draws.std() == pytest.approx(np.hypot(2, 2), rel=0.15)  # noise of both features, 2 in units of the second


def test_windows_know_of_time_and_steps_do_not():
    windows = correlated(150)
    alone = np.full((1, 3, 4), np.nan)
    alone[0, 2, 0] = 2.0
    spread = {}
    for over in ("windows", "steps"):
        peer = registry.make("peers", "iterative", over=over, max_iter=3).fit(windows)
        spread[over] = peer.impute(make_windows(alone), 200).values[:, 0, 2, 3].std()
    assert spread["windows"] < 0.4 < 0.7 < spread["steps"]


def test_many_columns_are_taken_step_by_step_and_windows_of_another_length_are_refused(tmp_path: Path):
    many = make_windows(np.random.default_rng(0).normal(size=(20, 5, 41)))
    assert str(registry.make("peers", "iterative", max_iter=1).fit(many).learnt_["over"]) == "steps"
    few = registry.make("peers", "iterative", max_iter=1, n_nearest_features=3).fit(correlated(50))
    assert few.learnt_["weights"].shape == (12, 3)
    with pytest.raises(DataError, match="expected 4, as learnt over whole windows, came 2"):
        few.impute(correlated(5).steps(slice(2)), 1)
    by_step = registry.make("peers", "iterative", max_iter=1, over="steps").fit(correlated(50))
    assert np.isfinite(by_step.impute(correlated(5).steps(slice(2)), 1).values).all()


@pytest.mark.parametrize("settings", [{"over": "records"}, {"max_iter": 0}, {"n_nearest_features": -1}])
def test_senseless_settings_are_refused(settings: dict):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        registry.make("peers", "iterative", **settings)

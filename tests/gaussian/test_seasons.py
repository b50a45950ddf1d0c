"""A profile is kept where it predicts, wherever time is counted from, and by features that go together alike."""

from __future__ import annotations

import numpy as np
from scipy.signal import lfilter

from tsimpute.gaussian.maps import Seasons

HOURS = np.arange(1000.0)
PERIODS = (24.0, 168.0)


def slow(seed: int, n_features: int = 1) -> np.ndarray:
    """Series that change over days and have no season."""
    noise = np.random.default_rng(seed).normal(size=(n_features, len(HOURS) + 500))
    values = np.asarray(lfilter([1.0], [1.0, -0.98], noise))[:, 500:]
    return (values - values.mean(1, keepdims=True)) / values.std(1, keepdims=True)


def has_season(values: np.ndarray, origin: float = 0.0) -> np.ndarray:
    return Seasons.fit([values], [HOURS + origin], PERIODS).weights.any(1)


def test_slow_changes_are_no_season() -> None:
    found = [bool(has_season(slow(seed))[0]) for seed in range(60)]
    assert np.mean(found) < 0.1


def test_the_origin_of_time_does_not_decide() -> None:
    wave, found = np.sin(2 * np.pi * HOURS / 24), []
    for values in [slow(seed) + size * wave for seed in range(30) for size in (0.0, 0.7)]:
        first = has_season(values)
        found.append(bool(first[0]))
        for origin in (42.0, 84.0, 168.0, 2604 * 168.0):
            np.testing.assert_array_equal(has_season(values, origin), first)
    assert 5 < sum(found) < 25


def test_a_true_season_is_found_with_its_profile() -> None:
    wave = np.sin(2 * np.pi * HOURS / 24)
    values = 0.8 * wave + 0.6 * slow(1)
    values[:, 300:500] = np.nan
    seasons = Seasons.fit([values], [HOURS], PERIODS)
    assert seasons.weights.any()
    assert np.corrcoef(seasons.at(HOURS)[0], wave)[0, 1] > 0.95


def test_features_that_go_together_have_seasons_together() -> None:
    wave, rest = np.sin(2 * np.pi * HOURS / 24), slow(2)[0]
    twins, seasons = np.stack([wave + rest, wave + rest]), []
    twins += 0.02 * np.random.default_rng(0).normal(size=twins.shape)
    for seed in range(10):
        hidden = twins.copy()
        start = int(np.random.default_rng(seed).integers(0, 660))
        hidden[0, start : start + 340] = np.nan
        found = has_season(np.concatenate([hidden, slow(3)]))
        assert found[0] == found[1]
        seasons.append(bool(found[0]))
    assert {*seasons} == {False, True}


def test_a_feature_without_any_value_has_none() -> None:
    values = np.concatenate([np.sin(2 * np.pi * HOURS / 24)[None], np.full((1, len(HOURS)), np.nan)])
    assert has_season(values).tolist() == [True, False]

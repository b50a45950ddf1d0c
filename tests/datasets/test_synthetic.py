"""The generated data keep what their docstring promises."""

from __future__ import annotations

import numpy as np
import pytest

from tsimpute.datasets.synthetic import DEAD_SENSOR, FEATURES, MAX_GAP, SyntheticAirQuality
from tsimpute.errors import ConfigError

CENTRE, SUBURB = (
    next(i for i, f in enumerate(FEATURES) if f.name == f"PM2.5 {where}") for where in ("centre", "suburb")
)
SEEDS = (0, 1, 2, 3)


@pytest.fixture(scope="module", params=SEEDS)
def adapter(request: pytest.FixtureRequest) -> SyntheticAirQuality:
    return SyntheticAirQuality(seed=request.param)


@pytest.fixture(scope="module")
def missing(adapter: SyntheticAirQuality) -> np.ndarray:
    """(8, T) bool over the whole time."""
    return np.isnan(adapter.load().values).swapaxes(0, 1).reshape(8, -1)


def runs(flags: np.ndarray) -> np.ndarray:
    edges = np.flatnonzero(np.diff(np.r_[0, flags.astype(int), 0]))
    return edges[1::2] - edges[::2]


def autocorrelation(series: np.ndarray, lag: int) -> float:
    centred = (series - series.mean()) / series.std()
    return float(np.mean(centred[lag:] * centred[:-lag]))


def test_share_and_length_of_gaps(missing: np.ndarray) -> None:
    assert 0.11 <= missing.mean() <= 0.14
    assert 0.01 <= missing.all(0).mean() <= 0.04
    lengths = np.concatenate([runs(row) for k, row in enumerate(missing) if k != DEAD_SENSOR])
    assert np.median(lengths) == 1
    assert 2 <= lengths.mean() <= 4
    assert 24 <= lengths.max() <= 2 * MAX_GAP  # gaps can touch


def test_one_sensor_is_dead_for_a_twentieth_of_the_time(missing: np.ndarray) -> None:
    longest = [runs(row).max() for row in missing]
    assert np.argmax(longest) == DEAD_SENSOR
    assert missing.shape[1] / 20 <= longest[DEAD_SENSOR] <= missing.shape[1] / 20 + 2 * MAX_GAP


def test_pm25_is_positive_skewed_and_slow(adapter: SyntheticAirQuality) -> None:
    series = adapter.complete()[[CENTRE, SUBURB]]
    assert series.min() > 0
    for row in series:
        skewness = ((row - row.mean()) ** 3).mean() / row.std() ** 3
        assert 1 <= skewness <= 4
        log = np.log(row)
        assert autocorrelation(log, 1) > 0.8
        assert autocorrelation(log, 6) > 0.5
        assert autocorrelation(log, 24) < 0.5
    assert 0.85 <= np.corrcoef(np.log(series))[0, 1] <= 0.98


def test_traffic_rests_on_sundays_and_ozone_follows_the_sun(adapter: SyntheticAirQuality) -> None:
    series = adapter.complete()
    hour = np.arange(series.shape[1])
    no2, ozone = (series[[f.name.split()[0] for f in FEATURES].index(name)] for name in ("NO2", "O3"))
    workday = hour // 24 % 7 < 5
    assert no2[workday].mean() > 1.05 * no2[~workday].mean()
    assert ozone[hour % 24 == 13].mean() > 2 * ozone[hour % 24 == 2].mean()


def test_other_features_say_more_than_neighbours_in_time(adapter: SyntheticAirQuality) -> None:
    """Error of a linear regression on the other features at the hour and the feature's own neighbouring hours, against
    that of the middle of these neighbours, which is linear interpolation."""
    series = adapter.complete()
    z = (series - series.mean(1, keepdims=True)) / series.std(1, keepdims=True)
    train = np.arange(1, z.shape[1] - 1) < z.shape[1] * 0.7
    errors = []
    for k in range(len(z)):
        middle, truth = (z[k, :-2] + z[k, 2:]) / 2, z[k, 1:-1]
        inputs = np.stack([*np.delete(z, k, axis=0)[:, 1:-1], middle, np.ones_like(middle)], axis=1)
        weights = np.linalg.lstsq(inputs[train], truth[train], rcond=None)[0]
        errors.append([np.abs(p - truth)[~train].mean() for p in (inputs @ weights, middle)])
    regression, interpolation = np.mean(errors, axis=0)
    assert regression <= interpolation * 2 / 3


def test_records_are_consecutive_cuts_of_one_series() -> None:
    adapter = SyntheticAirQuality(n_records=10, n_steps=30, seed=5)
    windows = adapter.load()
    assert windows.values.shape == (10, 8, 30)
    complete = adapter.complete()
    for i in range(10):
        piece = complete[:, 30 * i : 30 * (i + 1)]
        np.testing.assert_array_equal(windows.values[i][windows.observed[i]], piece[windows.observed[i]])
    assert windows.held_out is None
    assert windows.split is None


def test_seed_decides() -> None:
    first, again, other = (SyntheticAirQuality(20, seed=seed).load().values for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(np.nan_to_num(first), np.nan_to_num(other))


def test_numbers_stay_the_same_across_versions() -> None:
    """Frozen: results on the demo data are comparable between releases."""
    series = SyntheticAirQuality(n_records=4).complete()
    frozen = [4.34106347, 1.80216116, 33.56001996, 24.86324845, 48.32443286, 18.22329708, 0.71260016, 13.2338957]
    np.testing.assert_allclose(series[:, 50], frozen, rtol=1e-6)


@pytest.mark.parametrize(("n_records", "n_steps"), [(1, 24), (3, 1), (1, 1)])
def test_small_sizes(n_records: int, n_steps: int) -> None:
    assert SyntheticAirQuality(n_records, n_steps).load().values.shape == (n_records, 8, n_steps)


@pytest.mark.parametrize("options", [{"n_records": 0}, {"n_steps": 2.5}, {"seed": -1}, {"n_records": True}])
def test_settings_out_of_range(options: dict) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(options))}: expected a whole number from"):
        SyntheticAirQuality(**options)

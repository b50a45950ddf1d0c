"""Windows of a panel: every value where it belongs, short series padded, hidden cells hidden."""

from __future__ import annotations

import numpy as np
import pytest

from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Feature
from tsimpute.errors import DataError
from tsimpute.filling.measuring.hidden_draws import hidden_cells, simple_baselines
from tsimpute.filling.panels.windows import training_windows, window_steps, windows_of, without


def panel(*lengths: int, n_features: int = 2, missing: float = 0.2, seed: int = 0) -> Panel:
    rng = np.random.default_rng(seed)
    made = []
    for n, length in enumerate(lengths):
        values = rng.normal(size=(n_features, length))
        values[rng.random(values.shape) < missing] = np.nan
        times = 0.5 * np.arange(length)
        made.append(Series(f"s{n}", times, values, times))
    return Panel(tuple(Feature(f"f{k}", "m") for k in range(n_features)), tuple(made), Clock("hours", 0.5))


def test_windows_hold_what_their_names_say_at_times_from_zero() -> None:
    whole = panel(30, 7, 12)
    windows = windows_of(whole, 12, 5)
    of_name = {s.name: s for s in whole.series}
    assert [n.rpartition("@")[0] for n in windows.record_ids] == ["s0"] * 5 + ["s1", "s2"]
    for values, times, name in zip(windows.values, windows.times, windows.record_ids, strict=True):
        group, _, start = name.rpartition("@")
        part = of_name[group].values[:, int(start) : int(start) + 12]
        np.testing.assert_array_equal(values[:, : part.shape[1]], part)
        assert np.isnan(values[:, part.shape[1] :]).all()
        np.testing.assert_allclose(times, 0.5 * np.arange(12))


def test_every_value_is_in_a_window_and_blank_stretches_make_none() -> None:
    whole = panel(40, missing=0.0)
    whole = without(whole, [np.arange(40)[None].repeat(2, 0) // 10 == 2])
    windows = windows_of(whole, 10, 10)
    assert windows.record_ids == ("s0@0", "s0@10", "s0@30")
    with pytest.raises(DataError, match="all cells are missing"):
        windows_of(without(whole, [np.ones((2, 40), bool)]), 10, 10)


def test_windows_to_learn_from_overlap_and_their_number_is_bounded() -> None:
    assert len(training_windows(panel(160), 40)) == 13
    assert len(training_windows(panel(40_000, n_features=1), 16)) <= 4000
    assert len(training_windows(panel(100_000, n_features=1), 16)) == 6250, "each step once"


@pytest.mark.parametrize(("n_features", "expected"), [(1, 64), (36, 42), (370, 16)])
def test_windows_are_shorter_where_there_are_more_features(n_features: int, expected: int) -> None:
    assert window_steps(panel(1000, n_features=n_features)) == expected
    assert window_steps(panel(9, 4, n_features=n_features)) == 9


def test_hidden_cells_are_observed_ones_of_about_the_asked_share_and_depend_on_the_pattern_only() -> None:
    whole = panel(400, 300, n_features=5)
    hidden = hidden_cells(whole, 0.1, seed=3)
    for series, cells in zip(whole.series, hidden, strict=True):
        assert not (cells & ~series.observed).any()
        assert 0.09 < cells.sum() / series.observed.sum() < 0.2
    series = [Series(s.name, s.times, s.values * 7 - 1, s.labels) for s in whole.series]
    other = Panel(whole.features, tuple(series), whole.clock)
    assert all((a == b).all() for a, b in zip(hidden, hidden_cells(other, 0.1, seed=3), strict=True))
    assert any((a != b).any() for a, b in zip(hidden, hidden_cells(whole, 0.1, seed=4), strict=True))


def test_no_feature_gives_up_more_than_its_share_however_rarely_it_is_measured() -> None:
    dense_and_daily = panel(2000, missing=0.0)
    daily = np.zeros((2, 2000), bool)
    daily[1] = np.arange(2000) % 24 != 0
    for seed in range(3):
        (hidden,) = hidden_cells(without(dense_and_daily, [daily]), 0.05, seed)
        assert 50 <= hidden[0].sum() <= 100
        assert 2 <= hidden[1].sum() <= 5


def test_short_and_nearly_empty_records_keep_at_least_half_of_each_feature() -> None:
    stays = panel(*[48] * 60, n_features=5, missing=0.8)
    hidden = hidden_cells(stays, 0.05, seed=0)
    for series, cells in zip(stays.series, hidden, strict=True):
        assert (2 * cells.sum(1) <= series.observed.sum(1)).all()
        assert (cells.sum(1) <= np.ceil(0.05 * series.observed.sum(1))).all()
    assert sum(c.sum() for c in hidden) > 0.05 * sum(s.observed.sum() for s in stays.series)


def test_a_record_without_any_value_hides_nothing() -> None:
    empty = without(panel(30), [np.ones((2, 30), bool)])
    assert not hidden_cells(empty, 0.1, 0)[0].any()


def test_simple_baselines_are_interpolation_and_the_last_value() -> None:
    times = np.array([0.0, 1.0, 3.0, 4.0, 8.0])
    guesses = simple_baselines(Series("s", times, np.array([[np.nan, 1.0, np.nan, 4.0, np.nan]]), times))
    locf, linear = guesses.values()
    np.testing.assert_allclose(linear, [[1.0, 1.0, 3.0, 4.0, 4.0]])
    np.testing.assert_allclose(locf, [[1.0, 1.0, 1.0, 4.0, 4.0]])

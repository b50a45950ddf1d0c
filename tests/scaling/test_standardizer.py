"""The standardizer: closed forms, the standard library's exact statistics, and what it must not look at."""

import json
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsimpute.core.limits import Limits
from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import ConfigError, DataError
from tsimpute.scaling.standardizer import Standardizer


def one_record(*series: list[float]) -> Windows:
    values = np.array([series], float)
    names = tuple(Feature(f"f{k}") for k in range(len(series)))
    return Windows(values, np.arange(float(values.shape[2]))[None], names, ("r",))


def test_closed_form_and_population_deviation():
    scaler = Standardizer.fit(one_record([1, 2, 3, np.nan], [10, np.nan, np.nan, 30]))
    np.testing.assert_array_equal(scaler.mean, [2, 20])
    np.testing.assert_allclose(scaler.std, [(2 / 3) ** 0.5, 10], rtol=1e-15)
    np.testing.assert_array_equal(scaler.n_cells, [3, 2])
    np.testing.assert_array_equal(scaler.transform(np.array([[5.0], [0.0]])), [[3 / (2 / 3) ** 0.5], [-2]])


@given(st.lists(st.floats(-1e12, 1e12), min_size=2, max_size=20), st.sampled_from([0.0, 1e9, -1e15]))
def test_equals_exact_rational_statistics(numbers: list[float], offset: float):
    numbers = [x + offset for x in numbers]
    scaler = Standardizer.fit(one_record(numbers))
    largest = max(map(abs, numbers))
    assert abs(scaler.mean[0] - statistics.mean(numbers)) <= 1e-15 * 4 * largest
    if len(set(numbers)) > 1:
        assert scaler.std[0] == pytest.approx(statistics.pstdev(numbers), rel=1e-9)


def test_one_bit_of_spread_on_a_large_offset_is_not_lost():
    scaler = Standardizer.fit(one_record([1e15, 1e15 + 1, 1e15, 1e15 + 1]))
    assert (scaler.mean[0], scaler.std[0]) == (1e15 + 0.5, 0.5)


def test_numbers_near_the_end_of_the_range_do_not_overflow():
    scaler = Standardizer.fit(one_record([1.5e308, -1.5e308]))
    assert (scaler.mean[0], scaler.std[0]) == (0, 1.5e308)


def test_the_smallest_spread_there_is_stays_positive():
    scaler = Standardizer.fit(one_record([0.0, 5e-324]))
    np.testing.assert_array_equal(scaler.transform(np.array([[0.0, 5e-324]])), [[0, 1]])


def test_constant_feature_becomes_zero_and_comes_back():
    values = np.full((1, 1, 7), 0.1)  # the mean of seven 0.1 is not 0.1 in floating point
    scaler = Standardizer.fit(one_record([0.1] * 7))
    assert scaler.std[0] == 1
    np.testing.assert_array_equal(scaler.transform(values), np.zeros((1, 1, 7)))
    np.testing.assert_array_equal(scaler.inverse(np.zeros((1, 1, 7))), values)


def test_feature_never_shown_is_flagged_and_left_as_it_is(small_windows: Windows):
    held_out = small_windows.observed & (np.arange(3) == 1)[:, None]  # all that was observed of feature 1
    scaler = Standardizer.fit(replace(small_windows, held_out=held_out))
    np.testing.assert_array_equal(scaler.never_shown, [False, True, False])
    assert (scaler.mean[1], scaler.std[1], scaler.n_cells[1]) == (0, 1, 0)
    np.testing.assert_array_equal(scaler.transform(small_windows.values)[:, 1], small_windows.values[:, 1])


def test_held_out_cells_are_not_looked_at(small_windows: Windows):
    held_out = small_windows.observed & (np.random.default_rng(1).random(small_windows.values.shape) < 0.3)
    left = np.where(held_out, np.nan, small_windows.values)
    extreme = replace(small_windows, values=np.where(held_out, 1e9, small_windows.values), held_out=held_out)
    there, gone = Standardizer.fit(extreme), Standardizer.fit(replace(small_windows, values=left))
    for name in ("mean", "std", "n_cells"):
        np.testing.assert_array_equal(getattr(there, name), getattr(gone, name))
    np.testing.assert_allclose(there.mean, np.nanmean(left, axis=(0, 2)))
    np.testing.assert_allclose(there.std, np.nanstd(left, axis=(0, 2)))


def test_inverse_undoes_transform_for_any_leading_axes_and_leaves_its_input(small_windows: Windows):
    scaler = Standardizer.fit(small_windows)
    samples = np.random.default_rng(2).normal(50, 100, size=(4, 6, 3, 8)).astype(np.float32)
    before = samples.copy()
    back = scaler.inverse(scaler.transform(samples))
    assert back.dtype == np.float64
    np.testing.assert_allclose(back, samples, rtol=1e-12)
    np.testing.assert_array_equal(samples, before)
    np.testing.assert_array_equal(np.isnan(scaler.transform(small_windows.values)), ~small_windows.observed)


def test_json_gives_back_every_bit(small_windows: Windows):
    scaler = Standardizer.fit(small_windows)
    again = Standardizer.from_dict(json.loads(json.dumps(scaler.to_dict())))
    for name in ("mean", "std", "n_cells"):
        np.testing.assert_array_equal(getattr(again, name), getattr(scaler, name))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"std": [1.0, 0.0]}, "positive finite"),
        ({"std": [1.0, float("nan")]}, "positive finite"),
        ({"mean": [0.0]}, "one shape"),
        ({"variance": [1.0, 1.0]}, "variance"),
    ],
)
def test_stored_numbers_that_are_no_scaler_are_refused(change: dict[str, list[float]], says: str):
    with pytest.raises(DataError, match=says):
        Standardizer.from_dict({"mean": [0.0, 0.0], "std": [1.0, 1.0], "n_cells": [5, 5]} | change)


@pytest.mark.parametrize("shape", [(8,), (2, 8), (5, 4, 3)])
def test_values_of_other_features_are_refused(small_windows: Windows, shape: tuple[int, ...]):
    scaler = Standardizer.fit(small_windows)
    with pytest.raises(DataError, match="3 features"):
        scaler.transform(np.zeros(shape))
    with pytest.raises(DataError, match="3 features"):
        scaler.inverse(np.zeros(shape))


def test_marked_cells_must_hold_numbers(small_windows: Windows):
    with pytest.raises(DataError, match="NaN"):
        Standardizer.fit_cells(small_windows.values, np.ones(small_windows.values.shape, bool))
    with pytest.raises(DataError, match="bool mask"):
        Standardizer.fit_cells(small_windows.values, small_windows.observed[:3])


def positive(windows: Windows) -> Windows:
    return replace(windows, values=np.abs(windows.values))


def test_warped_features_come_back_within_limits_and_others_bit_for_bit_as_without(small_windows: Windows):
    windows = positive(small_windows)
    plain, scaler = Standardizer.fit(windows), Standardizer.fit(windows, {"*": Limits(0.0), "Temp": Limits()})
    assert [warp is None for warp in scaler.warps or ()] == [False, True, False]
    np.testing.assert_array_equal(scaler.transform(windows.values)[:, 1], plain.transform(windows.values)[:, 1])
    np.testing.assert_allclose(scaler.inverse(scaler.transform(windows.values)), windows.values, rtol=1e-9)
    standard = scaler.transform(windows.values)
    np.testing.assert_allclose(np.nanmean(standard, axis=(0, 2)), 0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(standard, axis=(0, 2)), 1, rtol=1e-12)
    draws = np.random.default_rng(0).normal(-2, 5, (4, 6, 3, 8)).astype(np.float32)
    assert (scaler.inverse(draws)[..., [0, 2], :] > 0).all()
    np.testing.assert_array_equal(scaler.inverse(draws)[..., 1, :], plain.inverse(draws)[..., 1, :])


@pytest.mark.parametrize("limits", [None, {}, {"HR": Limits()}, {"*": Limits()}])
def test_no_limits_change_nothing(small_windows: Windows, limits: dict[str, Limits] | None):
    plain, scaler = Standardizer.fit(small_windows), Standardizer.fit(small_windows, limits)
    assert scaler.warps is None
    assert scaler.to_dict() == plain.to_dict()
    assert set(plain.to_dict()) == {"mean", "std", "n_cells"}


def test_hidden_cells_never_reach_the_warps(small_windows: Windows):
    windows, limits = positive(small_windows), {"*": Limits(0.0, 1e5)}
    held_out = windows.observed & (np.random.default_rng(1).random(windows.values.shape) < 0.3)
    extreme = replace(windows, values=np.where(held_out, 1e9, windows.values), held_out=held_out)
    there, gone = (Standardizer.fit(w, limits).to_dict() for w in (extreme, extreme.without_held_out()))
    assert there == gone


def test_shown_values_outside_the_limits_are_refused_by_name(small_windows: Windows):
    n_below = int((small_windows.values[:, 2] < 0).sum())
    with pytest.raises(DataError, match=rf"feature 'Urine'.*{n_below} lie outside, such as -.*missing"):
        Standardizer.fit(small_windows, {"Urine": Limits(0.0)})
    scaler = Standardizer.fit(positive(small_windows), {"Urine": Limits(0.0)})
    with pytest.raises(DataError, match=rf"feature 'Urine'.*{n_below} lie outside"):
        scaler.transform(small_windows.values)
    with pytest.raises(ConfigError, match=r"'HR', 'Temp', 'Urine'.*'pH'"):
        Standardizer.fit(small_windows, {"pH": Limits(6.0, 8.5)})


def test_feature_with_limits_that_was_never_shown_stays_within_them(small_windows: Windows):
    held_out = small_windows.observed & (np.arange(3) == 1)[:, None]
    scaler = Standardizer.fit(replace(small_windows, held_out=held_out), {"Temp": Limits(10.0, 90.0)})
    assert scaler.never_shown[1]
    drawn = scaler.inverse(np.full((3, 4), [-1e6, -1.0, 1.0, 1e6]))[1]
    assert (np.diff(drawn) > 0).all()
    assert drawn[0] > 10
    assert drawn[-1] < 90


def test_json_gives_back_every_bit_of_the_warps_and_old_files_load(small_windows: Windows):
    windows = positive(small_windows)
    scaler = Standardizer.fit(windows, {"HR": Limits(0.0), "Urine": Limits(0, 5000)})
    again = Standardizer.from_dict(json.loads(json.dumps(scaler.to_dict())))
    np.testing.assert_array_equal(again.transform(windows.values), scaler.transform(windows.values))
    np.testing.assert_array_equal(again.inverse(windows.values), scaler.inverse(windows.values))
    old = {"mean": [1.0], "std": [2.0], "n_cells": [3]}
    assert Standardizer.from_dict(old).warps is None
    with pytest.raises(DataError, match="warps"):
        Standardizer.from_dict(old | {"warps": [None, None]})

"""Arrays, dictionaries and xarray objects come back as they were, with values only where nothing was."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tsimpute.core.panel import IMPUTED, OBSERVED
from tsimpute.errors import ConfigError, DataError, ImputationWarning
from tsimpute.filling.imputer.table_imputer import TableImputer
from tsimpute.tables.frames.frames import TimeOptions
from tsimpute.tables.frames.table import Edits, Table
from tsimpute.tables.roles.columns import ColumnSpec
from tsimpute.tables.sources.files import read_table

FLOATS = ("<f8", ">f8", "<f4", "<f2")
INTS = ("<i8", "<i4", "u1", ">i2")


def missing(table: Table) -> list[np.ndarray]:
    return [~series.observed for series in table.panel.series]


def drawn(table: Table, seed: int = 0) -> list[np.ndarray]:
    """Small values at all cells, which float16 holds to the bit."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-99, 99, series.values.shape) / 4 for series in table.panel.series]


def filled(table: Table, seed: int = 0) -> Any:
    return table.apply(Edits(missing(table), drawn(table, seed)))


def bits(array: Any) -> str:
    array = np.asarray(array)
    return hashlib.sha256(array.tobytes() + str((array.dtype, array.shape)).encode()).hexdigest()


def same_bits(one: np.ndarray, two: np.ndarray) -> bool:
    return one.dtype == two.dtype and np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(two).tobytes()


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    kind = np.dtype(draw(st.sampled_from(FLOATS + INTS)))
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    if kind.kind in "iu":
        return draw(hnp.arrays(kind, shape))
    array = draw(hnp.arrays(kind, shape, elements=st.floats(allow_infinity=False, width=8 * kind.itemsize)))
    array[draw(hnp.arrays(bool, shape))] = np.nan
    return np.asfortranarray(array) if draw(st.booleans()) else array


@settings(max_examples=60, deadline=None)
@given(array=arrays(), masked=st.booleans(), seed=st.integers(0, 9))
def test_an_array_comes_back_to_the_bit_where_observed_and_holds_the_values_elsewhere(
    array: np.ndarray, masked: bool, seed: int
):
    mask = np.random.default_rng(seed).random(array.shape) < 0.3 if masked else np.zeros(array.shape, bool)
    table = np.ma.MaskedArray(array, mask, fill_value=7) if masked else array
    before = bits(array), bits(mask)
    read = read_table(table)
    out = filled(read, seed)
    gaps = mask | np.isnan(array)
    cube = {1: lambda a: a[None, :, None], 2: lambda a: a[None], 3: lambda a: a}[array.ndim]
    expected = np.stack([values.T for values in drawn(read, seed)])[cube(gaps)]
    if array.dtype.kind in "iu":
        expected = np.rint(expected)
    data = np.ma.getdata(out)
    widened = array.dtype == np.uint8 and (expected < 0).any()
    assert type(out) is type(table)
    assert out.dtype == (np.float64 if widened else array.dtype)
    assert same_bits(data[~gaps], array[~gaps].astype(data.dtype))
    np.testing.assert_array_equal(cube(data)[cube(gaps)], expected)
    assert not np.ma.getmaskarray(out).any()
    assert (bits(array), bits(mask)) == before
    assert not np.shares_memory(data, array)


def test_marks_have_the_shape_of_the_array():
    array = np.array([[[1.0, np.nan], [3.0, 4.0], [np.nan, 6.0]]])
    read = read_table(array)
    codes = [np.where(gaps, IMPUTED, OBSERVED).astype(np.uint8) for gaps in missing(read)]
    marked = read.apply(Edits.of_provenance(missing(read), codes))
    assert marked.dtype == object
    np.testing.assert_array_equal(marked, np.where(np.isnan(array), "imputed", "observed"))


def test_negative_zero_stays_negative():
    out = filled(read_table(np.array([-0.0, np.nan, 1.0])))
    assert np.signbit(out[0])


def test_features_of_arrays_are_numbered_and_records_too():
    read = read_table(np.zeros((3, 5, 2)))
    assert [feature.name for feature in read.panel.features] == ["0", "1"]
    assert [series.name for series in read.panel.series] == ["0", "1", "2"]
    assert read.panel.series[0].values.shape == (2, 5)
    named = read_table(np.zeros((5, 2)), ColumnSpec(features=["HR [bpm]", "pH"]), units={"pH": "1"})
    assert [(f.name, f.unit) for f in named.panel.features] == [("HR [bpm]", "bpm"), ("pH", "1")]
    assert [series.name for series in named.panel.series] == [""]
    assert dict(read.understood)["groups"] == "records: 3 series"


def test_a_record_and_a_feature_without_any_value_keep_their_places():
    array = np.arange(24.0).reshape(2, 4, 3)
    array[1] = np.nan
    array[:, :, 1] = np.nan
    read = read_table(array)
    out = filled(read)
    assert out.shape == array.shape
    np.testing.assert_array_equal(out[1], drawn(read)[1].T)
    np.testing.assert_array_equal(out[0, :, [0, 2]], array[0, :, [0, 2]])
    assert read_table(np.full((1, 2, 3), np.nan)).panel.n_missing == 6
    assert filled(read_table(np.array([[np.nan, 2.0]])))[0, 1] == 2.0


def test_a_cell_left_empty_is_nan_or_a_mask_and_whole_numbers_become_floats_only_then():
    array = np.array([5, -999, 7], np.int16)
    change, nothing = [np.array([[False, True, False]])], [np.array([[0.0, np.nan, 0.0]])]
    out = read_table(array).apply(Edits(change, nothing))
    np.testing.assert_array_equal(out, [5.0, np.nan, 7.0])
    masked = read_table(np.ma.MaskedArray(array)).apply(Edits(change, nothing))
    assert masked.dtype == np.int16
    assert masked.tolist() == [5, None, 7]
    with pytest.raises(DataError, match=r"beyond 2\*\*53"):
        read_table(np.array([2**53 + 1, -999, 7])).apply(Edits(change, nothing))


def test_a_hard_mask_is_lifted_and_the_fill_value_stays():
    array = np.ma.MaskedArray([1.0, 2.0, np.inf], [False, True, True], hard_mask=True, fill_value=-5)
    out = filled(read_table(array))
    assert not np.ma.getmaskarray(out).any()
    assert (out.hardmask, out.fill_value) == (True, -5)
    assert array.mask.tolist() == [False, True, True]


def test_a_masked_array_of_half_floats_comes_back_without_a_warning():
    array = np.ma.MaskedArray(np.array([1.5, 2.0, 3.0], np.float16), [False, True, False])
    out = filled(read_table(array))
    assert (out.dtype, out[0], out[2]) == (np.float16, 1.5, 3.0)


def test_a_dictionary_keeps_its_keys_and_the_objects_behind_the_other_ones():
    labels, array = ["a", "b"], np.array([[[1.0, np.nan]], [[np.nan, 4.0]]], np.float32)
    given_ = OrderedDict(y=labels, X=array, X_ori=None)
    before = bits(array)
    read = read_table(given_)
    out = filled(read)
    assert list(out) == ["y", "X", "X_ori"]
    assert type(out) is OrderedDict
    assert out["y"] is labels
    assert given_["X"] is array
    assert bits(array) == before
    np.testing.assert_array_equal(out["X"][~np.isnan(array)], [1.0, 4.0])
    assert not np.isnan(out["X"]).any()
    assert dict(read.understood)["passed through"] == "y, X_ori"
    assert read.apply(Edits.of_provenance(missing(read), [np.zeros((2, 1), np.uint8)] * 2)).shape == array.shape


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([1.0, 2.0], "NumPy array of shape .* came list"),
        ({"x": np.zeros((2, 3, 4))}, r"shape \(records, steps, features\).* came the keys 'x'"),
        ({"X": np.zeros((3, 4))}, r"expected shape \(records, steps, features\), came \(3, 4\)"),
        ({"X": [[[1.0]]]}, "came list"),
        (np.zeros((2, 2, 2, 2)), r"came \(2, 2, 2, 2\)"),
        (np.array(1.0), r"came \(\)"),
        (np.zeros((0, 3, 2)), r"came shape \(0, 3, 2\)"),
        (np.zeros((3, 0)), r"came shape \(3, 0\)"),
        (np.array([1.0, None]), "came dtype object"),
        (np.array([True, False]), "came dtype bool"),
        (np.array([1j]), "came dtype complex128"),
        (np.array(["1.5"]), "came dtype <U3"),
        (np.array(["2020-01-01"], "M8[D]"), r"came dtype datetime64\[D\]"),
        (np.array([[[0.0, 1.0], [2.0, -np.inf]]]), r"record 0, step 1, feature '1' is -inf \(1 such\)"),
        ({1.0, 2.0}, "came set"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused_with_what_came(table: Any, words: str):
    with pytest.raises(DataError, match=words):
        read_table(table)


def test_settings_that_an_array_cannot_follow_are_refused():
    with pytest.raises(ConfigError, match="group: expected None"):
        read_table(np.zeros((3, 2)), ColumnSpec(group=["id"]))
    with pytest.raises(ConfigError, match="timezone: expected None"):
        read_table(np.zeros((3, 2)), time_options=TimeOptions(timezone="Europe/Rome"))
    with pytest.raises(ConfigError, match="expected 2 names, came 1"):
        read_table(np.zeros((3, 2)), ColumnSpec(features=["a"]))
    with pytest.raises(ConfigError, match="came 'c'"):
        read_table(np.zeros((3, 2)), units={"c": "m"})


HOURS = pd.date_range("2024-03-01", periods=6, freq="h")


def with_labels(dims: tuple[str, ...], kind: str = "<f4", seed: int = 0) -> xr.DataArray:
    """Records, features and six hours in any order, with all that xarray carries."""
    rng = np.random.default_rng(seed)
    sizes = {"record": 2, "variable": 3, "time": 6}
    values = rng.normal(size=[sizes[dim] for dim in dims]).astype(kind)
    values[rng.random(values.shape) < 0.4] = np.nan
    coords = {
        "record": ["a", "b"],
        "variable": ["PM2.5", "NO2", "O3"],
        "time": HOURS,
        "unit": ("variable", ["ug/m3", "ppb", "ppb"]),
        "weekday": ("time", HOURS.day_of_week),
        "lat": ("record", [48.5, 49.5]),
        "height": 2.0,
    }
    on = {name: c for name, c in coords.items() if name == "height" or (c[0] if isinstance(c, tuple) else name) in dims}
    array = xr.DataArray(values, on, dims, name="air", attrs={"title": "air", "list": [1, 2]})
    array.encoding = {"_FillValue": -999.0, "dtype": "float32"}
    array["time"].encoding = {"units": "hours since 2000-01-01"}
    array["time"].attrs = {"axis": "T"}
    return array


@settings(max_examples=20, deadline=None)
@given(
    dims=st.sampled_from(
        [p for n in (1, 2, 3) for p in permutations(("record", "variable", "time"), n) if "time" in p]
    ),
    kind=st.sampled_from(["<f8", "<f4", "<f2", ">f4"]),
    seed=st.integers(0, 99),
)
def test_a_data_array_comes_back_as_it_was_but_for_its_gaps(dims: tuple[str, ...], kind: str, seed: int):
    array = with_labels(dims, kind, seed)
    before, known = bits(array.values), array.notnull()
    read = read_table(array)
    out = filled(read, seed)
    xr.testing.assert_identical(out.where(known), array)
    assert same_bits(out.values[known.values], array.values[known.values])
    assert out.encoding == array.encoding
    assert out["time"].encoding == array["time"].encoding
    assert list(out.coords) == list(array.coords)
    names = [f.name for f in read.panel.features]
    for series, values in zip(read.panel.series, drawn(read, seed), strict=True):
        at = ({"record": series.name} if "record" in dims else {}) | ({"variable": names} if "variable" in dims else {})
        one = xr.DataArray(values, dims=("variable", "time"), coords={"variable": names, "time": HOURS})
        one = one if "variable" in dims else one.isel(variable=0, drop=True)
        chosen = out.sel(at)
        there = ~known.sel(at)
        assert (chosen == one).where(there, True).all()
    marked = read.apply(Edits.of_provenance(missing(read), [m.astype(np.uint8) for m in missing(read)]))
    assert marked.dims == dims
    assert marked.name == "air"
    assert ((marked == "imputed") == ~known).all()
    assert bits(array.values) == before
    assert not np.shares_memory(out.values, array.values)


def test_a_data_array_gives_features_units_and_groups_by_name():
    panel = read_table(with_labels(("time", "record", "variable"))).panel
    assert [(f.name, f.unit) for f in panel.features] == [("PM2.5", "ug/m3"), ("NO2", "ppb"), ("O3", "ppb")]
    assert [series.name for series in panel.series] == ["a", "b"]
    assert (panel.clock.unit, panel.clock.step) == ("hours", 1.0)
    assert panel.series[1].labels[2] == np.datetime64("2024-03-01T02:00")


@pytest.mark.parametrize(
    ("dims", "spec", "n_series", "n_features"),
    [
        (("time", "station"), ColumnSpec(), 1, 2),
        (("station", "t"), ColumnSpec(), 1, 2),
        (("patient", "time"), ColumnSpec(), 2, 1),
        (("patient", "time"), ColumnSpec(feature="patient"), 1, 2),
        (("time", "station"), ColumnSpec(group=["station"]), 2, 1),
        (("time", "lat", "lon"), ColumnSpec(), 4, 1),
        (("time", "station", "parameter"), ColumnSpec(), 2, 2),
        (("hour", "sample", "sensors"), ColumnSpec(), 2, 2),
        (("step", "time", "station"), ColumnSpec(), 2, 2),
        (("a", "b"), ColumnSpec(time=["b"]), 1, 2),
        (("a",), ColumnSpec(), 1, 1),
    ],
)
def test_dimensions_are_told_by_their_names(dims: tuple[str, ...], spec: ColumnSpec, n_series: int, n_features: int):
    read = read_table(xr.DataArray(np.arange(2.0 ** len(dims)).reshape([2] * len(dims)), dims=dims), spec)
    assert (len(read.panel.series), len(read.panel.features)) == (n_series, n_features)
    assert "no times were found" in " ".join(read.notes)


@pytest.mark.parametrize(
    ("table", "spec", "error", "words"),
    [
        (xr.DataArray(np.zeros((2, 2)), dims=("a", "b")), ColumnSpec(), DataError, "one dimension of times among a, b"),
        (xr.DataArray(np.zeros((2, 2)), dims=("a", "b")), ColumnSpec(time=["c"]), ConfigError, "one of a, b, came 'c'"),
        (xr.DataArray(np.zeros((2, 0)), dims=("a", "time")), ColumnSpec(), DataError, "time has none"),
        (xr.DataArray(1.0), ColumnSpec(), DataError, "without dimensions"),
        (xr.DataArray([True], dims="time"), ColumnSpec(), DataError, "came dtype bool"),
        (with_labels(("time", "variable")), ColumnSpec(features=["x"]), ConfigError, "names the features"),
        (with_labels(("time", "variable")), ColumnSpec(value="x"), ConfigError, "value: expected None"),
        (
            with_labels(("time", "record", "variable")).stack(z=("record", "time")),
            ColumnSpec(time=["z"]),
            DataError,
            "unstack",
        ),
        (xr.Dataset({"a": ("time", ["x", "y"])}), ColumnSpec(), DataError, "at least one variable of numbers"),
        (xr.Dataset({"a": ("time", [1.0, 2.0])}), ColumnSpec(features=["b"]), ConfigError, "one of a, came 'b'"),
        (
            xr.Dataset({"a": ("time", [1.0]), "b": ("lat", [1.0])}),
            ColumnSpec(features=["b"]),
            DataError,
            "numbers along",
        ),
        (xr.Dataset({"a": ("time", [1.0]), "b": (("time", "lat"), [[1.0]])}), ColumnSpec(), DataError, "b has lat"),
        (xr.Dataset({"a": ("time", [1.0])}), ColumnSpec(features=["a", "a"]), DataError, "distinct names"),
    ],
)
def test_what_cannot_be_told_of_an_xarray_object_is_refused(table: Any, spec: ColumnSpec, error: type, words: str):
    with pytest.raises(error, match=words):
        read_table(table, spec)


def test_an_infinite_cell_is_named_by_its_labels():
    array = with_labels(("record", "time", "variable"))
    array.loc[{"record": "b", "time": HOURS[3], "variable": "NO2"}] = np.inf
    with pytest.raises(DataError, match="NO2 at 2024-03-01 03:00 of 'b' is inf"):
        read_table(array)


def data_set() -> xr.Dataset:
    rng = np.random.default_rng(3)
    heat = rng.normal(size=(6, 2)).astype(np.float32)
    heat[2, 1] = heat[4, 0] = np.nan
    rain = rng.normal(size=(2, 6))
    rain[0, 3] = np.nan
    found = xr.Dataset(
        {
            "heat": (("time", "station"), heat, {"units": "K", "long_name": "air"}),
            "rain": (("station", "time"), rain),
            "count": (("station", "time"), np.arange(12, dtype=np.int16).reshape(2, 6)),
            "remark": ("time", np.array(["a", "b", "", "c", "d", "e"])),
            "good": ("time", np.ones(6, bool)),
            "height": ("station", [3.0, 4.0], {"units": "m"}),
            "version": ((), 7),
            "time_bnds": (("time", "nv"), np.stack([HOURS, HOURS + pd.Timedelta("1h")], 1)),
        },
        {"time": HOURS, "station": [10, 20], "local": ("time", HOURS + pd.Timedelta("9h")), "run": 5},
        {"source": "here"},
    )
    found.encoding = {"unlimited_dims": {"time"}}
    found["heat"].encoding = {"zlib": True}
    found["time"].encoding = {"dtype": "int64"}
    return found


def test_a_data_set_comes_back_as_it_was_but_for_its_gaps():
    table = data_set()
    before = {name: bits(table[name].values) for name in table.variables}
    read = read_table(table)
    out = filled(read)
    known = {name: table[name].notnull() for name in ("heat", "rain")}
    xr.testing.assert_identical(out.assign({name: out[name].where(k) for name, k in known.items()}), table)
    assert not any(out[name].isnull().any() for name in known)
    assert out["heat"].values[2, 1] == drawn(read)[1][0, 2]
    assert out["rain"].values[0, 3] == drawn(read)[0][1, 3]
    assert out.encoding == table.encoding
    assert {n: out[n].encoding for n in out.variables} == {n: table[n].encoding for n in table.variables}
    assert list(out.variables) == list(table.variables)
    assert [(f.name, f.unit) for f in read.panel.features] == [("heat", "K"), ("rain", ""), ("count", "")]
    assert [series.name for series in read.panel.series] == ["10", "20"]
    marked = read.apply(Edits.of_provenance(missing(read), [m.astype(np.uint8) for m in missing(read)]))
    assert list(marked.data_vars) == ["heat", "rain", "count"]
    assert ((marked["heat"] == "imputed") == table["heat"].isnull()).all()
    assert {name: bits(table[name].values) for name in table.variables} == before


@pytest.mark.parametrize("order", [[0, 1, 3, 5], [5, 3, 1, 0], [3, 5, 0, 1]])
def test_missing_times_are_inserted_in_the_order_that_the_table_has(order: list[int]):
    table = data_set().isel(time=order)
    read = read_table(table)
    out = filled(read)
    assert out.sizes["time"] == 6
    old = out.sel(time=table["time"].values)
    known = table["heat"].notnull()
    xr.testing.assert_identical(old["heat"].where(known), table["heat"])
    np.testing.assert_array_equal(old["remark"], table["remark"])
    assert out["heat"].dtype == np.float32
    assert out["count"].dtype == np.int16
    new = out.sel(time=HOURS[[2, 4]])
    assert new["remark"].values.tolist() == ["", ""]
    assert new["good"].isnull().all()
    assert new["local"].isnull().all()
    assert new["time_bnds"].isnull().all()
    assert (new["height"] == table["height"]).all()
    np.testing.assert_array_equal(new["heat"].values[0], [values[0, 2] for values in drawn(read)])
    places = {hour: place for place, hour in enumerate(out["time"].dt.hour.values)}
    assert [hour for hour in places if hour in order] == order
    if order != [3, 5, 0, 1]:
        assert list(places) == sorted(places, reverse=order[0] == 5)
    assert "good: has nothing at the inserted times (2) and becomes float64" in read.notes
    assert out["time"].encoding == table["time"].encoding
    marked = read.apply(Edits.of_provenance(missing(read), [m.astype(np.uint8) for m in missing(read)]))
    assert (marked.sel(time=HOURS[[2, 4]])["count"] == "imputed").all()
    assert read_table(table, time_options=TimeOptions(missing_times="keep")).panel.series[0].values.shape == (3, 4)


def test_a_whole_number_left_empty_at_an_inserted_time_makes_floats():
    table = xr.Dataset({"n": ("time", [1, 2, 3, 5])}, {"time": HOURS[[0, 1, 2, 4]]})
    read = read_table(table)
    out = read.apply(Edits([np.zeros((1, 5), bool)], drawn(read)))
    np.testing.assert_array_equal(out["n"], [1, 2, 3, np.nan, 5])


def test_doubled_times_are_refused_or_resolved_and_each_keeps_its_value():
    table = xr.DataArray([1.0, np.nan, 3.0, 5.0], {"time": HOURS[[0, 1, 1, 2]]}, name="x")
    with pytest.raises(DataError, match="expected each time once"):
        read_table(table)
    for policy, expected in {
        "first": [1.0, 0.5, 3.0, 5.0],
        "last": [1.0, 0.5, 3.0, 5.0],
        "mean": [1.0, 0.5, 3, 5],
    }.items():
        read = read_table(table, time_options=TimeOptions(duplicates=policy))  # type: ignore[arg-type]
        gaps = missing(read) if policy != "last" else [np.array([[False, True, False]])]
        out = read.apply(Edits(gaps, [np.full((1, 3), 0.5)]))
        np.testing.assert_array_equal(out, expected if policy != "last" else [1.0, 0.5, 0.5, 5.0])
        assert read.n_beside == (policy != "first")
    even = read_table(table.fillna(2.0), time_options=TimeOptions(duplicates="mean"))
    np.testing.assert_array_equal(even.panel.series[0].values, [[1.0, 2.5, 5.0]])


def test_times_may_be_a_coordinate_that_is_no_dimension_or_numbers_or_texts():
    by_place = xr.Dataset({"x": ("obs", [1.0, np.nan, 3.0])}, {"stamp": ("obs", HOURS[[0, 1, 3]])})
    out = filled(read_table(by_place))
    assert (out["stamp"].values == HOURS[:4]).all()
    assert "obs" not in out.coords
    numbers = xr.DataArray([1.0, 2.0, 3.0, np.nan], {"time": [0.0, 0.5, 1.0, 2.0]}, name="x")
    out = filled(read_table(numbers))
    assert out["time"].values.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    texts = xr.DataArray([1.0, 2.0, 3.0, np.nan], {"day": ["1.9.2014", "8.9.2014", "15.9.2014", "29.9.2014"]}, name="x")
    out = filled(read_table(texts))
    assert out["day"].values.tolist() == ["1.9.2014", "8.9.2014", "15.9.2014", "22.9.2014", "29.9.2014"]


def test_indexes_stay_and_none_comes_to_be_where_times_are_inserted():
    table = xr.Dataset({"x": ("obs", [1.0, np.nan, 3.0])}, {"stamp": ("obs", HOURS[[0, 1, 3]])})
    assert list(filled(read_table(table.set_xindex("stamp"))).xindexes) == ["stamp"]
    assert list(filled(read_table(table)).xindexes) == []
    zoned = table.rename(obs="time").drop_vars("stamp").assign_coords(time=HOURS.tz_localize("Europe/Rome")[[0, 1, 3]])
    assert filled(read_table(zoned)).indexes["time"].equals(HOURS.tz_localize("Europe/Rome")[:4])
    by_time = xr.Dataset({"x": ("time", [1.0, np.nan, 3.0])}, {"time": HOURS[[0, 1, 3]]})
    assert list(filled(read_table(by_time)).xindexes) == ["time"]
    assert list(filled(read_table(by_time.drop_indexes("time"))).xindexes) == []
    groups = xr.DataArray(np.full((3, 2, 2), np.nan), {"time": HOURS[[0, 1, 3]], "a": [1, 2], "b": ["x", "y"]})
    stacked = groups.stack(z=("a", "b"))
    out = filled(read_table(stacked, ColumnSpec(group=["z"])))
    assert out.indexes["z"].equals(stacked.indexes["z"])


def test_labels_that_inserted_times_would_not_have_are_named():
    table = xr.Dataset({"x": ("obs", [1.0, 2.0, 3.0])}, {"stamp": ("obs", HOURS[[0, 1, 3]]), "obs": [7, 8, 9]})
    with pytest.raises(DataError, match=r"drop_vars\('obs'\)"):
        read_table(table)


def test_a_real_station_comes_back_from_its_data_set(data_root: Path):
    frame = pd.read_csv(data_root / "air_quality" / "us_embassy_beijing_2015.csv", skiprows=3)
    stamps = pd.to_datetime(frame["Date (LST)"], format="mixed")
    values = frame["Value"].astype(np.float32).where(frame["Value"] != -999)
    table = xr.Dataset({"pm25": ("time", values, {"units": "ug/m3"})}, {"time": stamps.to_numpy()})
    table = table.isel(time=slice(0, 1500))
    read = read_table(table)
    out = filled(read)
    known = table["pm25"].notnull()
    back = out["pm25"].sel(time=table["time"])
    assert same_bits(back.values[known.values], table["pm25"].values[known.values])
    assert not out["pm25"].isnull().any()


def test_an_array_is_filled_by_a_model_learnt_from_itself():
    rng = np.random.default_rng(0)
    array = np.sin(np.arange(40) / 5)[:, None] * [1.0, 30.0] + rng.normal(0, 0.05, (40, 2)) + [0.0, 100.0]
    array = array.astype(np.float32)
    holes = rng.random(array.shape) < 0.2
    array[holes] = np.nan
    done = TableImputer(effort="trial", n_samples=5, calibrate=False).fit(array).draw(array)
    assert same_bits(done.table[~holes], array[~holes])
    assert done.table.dtype == np.float32
    assert np.isfinite(done.table).all()
    np.testing.assert_array_equal(done.provenance == "imputed", holes)
    assert len(done.cells) == holes.sum()


def test_a_data_set_is_filled_by_a_model_learnt_from_itself():
    table = data_set()[["heat", "rain"]].isel(time=[0, 1, 2, 3, 5])
    imputer = TableImputer(effort="trial", n_samples=5, calibrate=False)
    with pytest.warns(ImputationWarning, match="1 row is added"):
        done = imputer.fit_draw(table)
    assert done.table.sizes["time"] == 6
    assert not any(done.table[name].isnull().any() for name in ("heat", "rain"))
    old = done.table.sel(time=table["time"])
    for name in ("heat", "rain"):
        xr.testing.assert_identical(old[name].where(table[name].notnull()), table[name])
    assert done.counts()["imputed"] == 2 + 4

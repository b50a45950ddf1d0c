"""A frame comes back filled: observed cells to the bit, the same index, order, columns, dtypes and attributes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tsimpute.core.panel import OBSERVED, PROVENANCE
from tsimpute.errors import DataError
from tsimpute.tables.frames.filled_frames import put
from tsimpute.tables.frames.frames import TimeOptions
from tsimpute.tables.frames.table import Edits, FrameTable, Table
from tsimpute.tables.roles.columns import ColumnSpec
from tsimpute.tables.sources.files import read_table

START = pd.Timestamp("2024-03-21 00:00")
DTYPES = ("float64", "float32", "float16", "Float64", "Float32", "Int64", "double[pyarrow]", "int64[pyarrow]", "object")
NUMBERS = st.sampled_from([-0.0, 0.0, 0.1, 1.0, -3.0, 7.25, 250.0, np.nan, np.nan, np.nan])


def read(frame: pd.DataFrame, spec: ColumnSpec | None = None, **time_options: Any) -> FrameTable:
    table = read_table(frame, spec, TimeOptions(**time_options))
    assert isinstance(table, FrameTable)
    return table


def gaps(table: Table) -> list[np.ndarray]:
    return [np.isnan(s.values) & ~a for s, a in zip(table.panel.series, table.absent, strict=True)]


def drawn(table: Table) -> list[np.ndarray]:
    """Whole numbers that every dtype holds exactly, another one for each cell."""
    sizes = [s.values.shape for s in table.panel.series]
    return [1000.0 * i + np.arange(np.prod(shape)).reshape(shape) for i, shape in enumerate(sizes)]


def filled(table: FrameTable) -> pd.DataFrame:
    return table.apply(Edits(gaps(table), drawn(table)))


def marked(table: FrameTable) -> pd.DataFrame:
    return table.apply(Edits.of_provenance(gaps(table), [cells.astype(np.uint8) for cells in gaps(table)]))


def bits(column: pd.Series) -> np.ndarray:
    return column.to_numpy(np.float64, na_value=np.nan).view(np.int64)


def column_of(values: np.ndarray, dtype: str) -> pd.Series:
    listed = [None if np.isnan(v) else float(v) for v in values]
    if dtype == "object":
        return pd.Series(listed, dtype=object)
    if "int" in dtype.lower():
        listed = [None if v is None else round(v) for v in listed]
    return pd.Series(listed, dtype=dtype)


@st.composite
def wide(draw: st.DrawFn) -> pd.DataFrame:
    """Hourly groups that lack a time or two, in one of the orders and places in which people have them."""
    n_groups = draw(st.integers(1, 3))
    hours = [
        sorted(set(range(s, s + 14)) - draw(st.sets(st.integers(s + 4, s + 9), max_size=2)))
        for s in (draw(st.integers(0, 5)) for _ in range(n_groups))
    ]
    rows = pd.DataFrame([(f"s{g}", h) for g, own in enumerate(hours) for h in own], columns=["station", "hour"])
    order = draw(st.sampled_from(["stacked", "interleaved", "newest first", "stacked newest first", "shuffled"]))
    if order == "interleaved":
        rows = rows.sort_values(["hour", "station"])
    elif order == "newest first":
        rows = rows.sort_values(["hour", "station"], ascending=[False, True])
    elif order == "stacked newest first":
        rows = rows.sort_values(["station", "hour"], ascending=[True, False])
    elif order == "shuffled":
        rows = rows.sample(frac=1, random_state=draw(st.integers(0, 99)))
    n = len(rows)
    hour = rows["hour"].to_numpy()
    frame = pd.DataFrame({"time": START + pd.to_timedelta(hour, unit="h"), "station": rows["station"].to_numpy()})
    form = draw(st.sampled_from(["stamps", "zone", "texts", "numbers", "pyarrow"]))
    if form == "zone":
        frame["time"] = frame["time"].dt.tz_localize("UTC").dt.tz_convert("Europe/Rome")
    elif form == "texts":
        frame["time"] = frame["time"].dt.strftime("%d/%m/%Y %H:%M")
    elif form == "numbers":
        frame["time"] = hour * 0.5
    elif form == "pyarrow":
        frame["time"] = frame["time"].astype("timestamp[us][pyarrow]")
    for k, dtype in enumerate(draw(st.lists(st.sampled_from(DTYPES), min_size=1, max_size=2))):
        values = np.array(draw(st.lists(NUMBERS, min_size=n, max_size=n)))
        frame[draw(st.sampled_from([f"f{k}", k]))] = column_of(values, dtype)
    frame["tag"] = [f"row {i}" for i in range(n)]
    frame["kind"] = pd.Categorical([f"kind of {s}" for s in frame["station"]])
    frame["rural"] = frame["station"].eq("s0")
    frame["hour"] = START.hour + hour % 24
    frame["since"] = pd.Timestamp("2001-05-05")
    if n_groups == 1 and draw(st.booleans()):
        frame = frame.drop(columns=["station"])
    index = draw(st.sampled_from(["rows", "time", "both", "both turned", "left over"]))
    levels = {"time": ["time"], "both": ["station", "time"], "both turned": ["time", "station"]}.get(index, [])
    if levels := [level for level in levels if level in frame]:
        frame = frame.set_index(levels)
    elif index == "left over":
        frame.index = pd.Index(np.arange(n) * 3 + 5)
    frame.columns.name = draw(st.sampled_from([None, "sensor"]))
    frame.attrs = {"source": {"town": "Rome"}}
    return frame


def told_of(frame: pd.DataFrame) -> ColumnSpec:
    names = [*frame.index.names, *frame.columns]
    return ColumnSpec(time=["time"], group=["station"] if "station" in names else [])


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(wide())
def test_a_wide_frame_comes_back_the_same_where_it_was_observed(frame: pd.DataFrame) -> None:
    before, attrs = frame.copy(), {"source": {"town": "Rome"}}
    table = read(frame, told_of(frame))
    out = filled(table)
    out.attrs["source"]["town"] = "Oslo"
    pd.testing.assert_frame_equal(frame, before, check_exact=True)
    assert frame.attrs == attrs

    old = out[out["tag"].notna().to_numpy()]
    features = [frame.columns[at - table.columns.n_levels] for at in table.roles.features]
    rest = frame.columns.drop(features)
    changes = ["hour"] if len(old) < len(out) else []  # whole numbers need not stay so beside new rows
    pd.testing.assert_index_equal(out.columns, frame.columns)
    if not isinstance(frame.index, pd.RangeIndex):
        pd.testing.assert_index_equal(old.index, frame.index, exact="equiv" if len(old) < len(out) else True)
    left, right = (f[rest].drop(columns=changes).reset_index(drop=True) for f in (old, frame))
    if len(old) < len(out):
        left["rural"] = left["rural"].astype(bool)
    pd.testing.assert_frame_equal(left, right, check_exact=True)
    for name in features:
        there = frame[name].notna().to_numpy()
        assert (bits(old[name])[there] == bits(frame[name])[there]).all()
        assert out[name].dtype == frame[name].dtype
        assert out[name].notna().all()


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(wide())
def test_the_filled_frame_reads_as_the_same_panel_with_the_values_in_it(frame: pd.DataFrame) -> None:
    table = read(frame, told_of(frame))
    again = read(filled(table), told_of(frame))
    values = {s.name: (v, g) for s, v, g in zip(table.panel.series, drawn(table), gaps(table), strict=True)}
    found = {s.name: s for s in again.panel.series}
    assert set(found) == set(values)
    assert not any(new.any() for new in again.alignment.inserted)
    for series in table.panel.series:
        expected = np.where(values[series.name][1], values[series.name][0], series.values)
        assert (found[series.name].labels == series.labels).all()
        np.testing.assert_array_equal(found[series.name].values, expected)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(wide())
def test_new_rows_stand_in_order_and_have_what_is_constant_in_their_group(frame: pd.DataFrame) -> None:
    table = read(frame, told_of(frame))
    out = filled(table)
    plain = out.reset_index() if out.index.names != [None] else out
    group = plain["station"] if "station" in plain else pd.Series("s0", index=plain.index)
    assert (plain["kind"].astype(object) == [f"kind of {name}" for name in group]).all()
    assert (plain["rural"].astype(bool) == group.eq("s0")).all()
    assert (plain["since"] == pd.Timestamp("2001-05-05")).all()
    new = plain["tag"].isna().to_numpy()
    stamps = table.stamps
    assert stamps is not None
    if stamps.kind == "dates" and (pd.DatetimeIndex(stamps.labels).hour == frame["hour"]).all():
        labels = np.concatenate([s.labels for s in table.panel.series])
        hours = pd.DatetimeIndex(labels[np.concatenate(table.alignment.inserted)]).hour
        assert plain["hour"].dtype == np.int64
        assert sorted(plain.loc[new, "hour"]) == sorted(hours)
    own = pd.Series(read(out, told_of(frame)).stamps.moments)  # type: ignore[union-attr]
    mine = pd.Series(table.stamps.moments)  # type: ignore[union-attr]
    keys = np.asarray(group, object)
    old_keys = keys[~new]
    for name in set(keys):
        if mine[old_keys == name].is_monotonic_increasing:
            assert own[keys == name].is_monotonic_increasing
        if mine[old_keys == name].is_monotonic_decreasing:
            assert own[keys == name].is_monotonic_decreasing
    if mine.is_monotonic_increasing:
        assert own.is_monotonic_increasing


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(wide())
def test_marks_stand_where_the_values_stand(frame: pd.DataFrame) -> None:
    table = read(frame, told_of(frame))
    out, words = filled(table), marked(table)
    pd.testing.assert_index_equal(words.index, out.index)
    old = out["tag"].notna().to_numpy()
    for name in words.columns:
        assert (words.loc[~old, name] == PROVENANCE[1]).all() if (~old).any() else True
        observed = frame[name].notna().to_numpy()
        assert ((words[name].to_numpy()[old] == PROVENANCE[OBSERVED]) == observed).all()
    assert words.columns.name == frame.columns.name


@st.composite
def long(draw: st.DrawFn) -> pd.DataFrame:
    rows = []
    for g in range(draw(st.integers(1, 2))):
        for name in ("CO", "NO2", "O3")[: draw(st.integers(1, 3))]:
            rows += [(f"s{g}", name, h) for h in range(14) if h not in draw(st.sets(st.integers(0, 13), max_size=3))]
    frame = pd.DataFrame(rows, columns=["location", "parameter", "hour"])
    frame["value"] = draw(st.lists(NUMBERS, min_size=len(rows), max_size=len(rows)))
    frame["value"] = frame["value"].astype(draw(st.sampled_from(["float64", "float32", "Float64"])))
    frame["date"] = START + pd.to_timedelta(frame.pop("hour"), unit="h")
    frame["unit"] = "unit of " + frame["parameter"]
    frame["tag"] = [f"row {i}" for i in range(len(frame))]
    order = draw(st.sampled_from(["as made", "by time", "newest first", "shuffled"]))
    if order == "by time":
        frame = frame.sort_values(["date", "location"])
    elif order == "newest first":
        frame = frame.sort_values(["location", "date"], ascending=[True, False])
    elif order == "shuffled":
        frame = frame.sample(frac=1, random_state=0)
    return frame.reset_index(drop=True)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(long())
def test_a_long_frame_comes_back_with_rows_for_what_was_missing(frame: pd.DataFrame) -> None:
    before = frame.copy()
    table = read(frame)
    out, words = filled(table), marked(table)
    pd.testing.assert_frame_equal(frame, before, check_exact=True)
    old = out["tag"].notna().to_numpy()
    kept, there = out[old].reset_index(drop=True), frame["value"].notna().to_numpy()
    pd.testing.assert_frame_equal(kept.drop(columns="value"), frame.drop(columns="value"), check_exact=True)
    assert (bits(kept["value"])[there] == bits(frame["value"])[there]).all()
    assert out["value"].notna().all()
    assert (out["unit"] == "unit of " + out["parameter"]).all()
    assert not out.duplicated(["location", "parameter", "date"]).any()
    pairs = {*zip(frame["location"], frame["parameter"], strict=True)}
    assert {*zip(out["location"], out["parameter"], strict=True)} == pairs
    assert (
        words["value"].eq(PROVENANCE[OBSERVED]).to_numpy() == np.isin(np.arange(len(out)), np.flatnonzero(old)[there])
    ).all()
    steps = out.groupby(["location", "parameter"], sort=False)["date"]
    for key, own in frame.groupby(["location", "parameter"], sort=False)["date"]:
        assert not own.is_monotonic_increasing or steps.get_group(key).is_monotonic_increasing
        assert not own.is_monotonic_decreasing or steps.get_group(key).is_monotonic_decreasing


def test_rows_before_and_after_a_block_of_a_long_table_stand_with_their_own_block() -> None:
    hours = pd.to_timedelta([*range(4), *range(2, 6), *range(6)], unit="h")
    frame = pd.DataFrame({"date": START + hours, "parameter": ["a"] * 4 + ["b"] * 4 + ["c"] * 6, "value": 1.0})
    out = filled(read(frame))
    assert out["parameter"].tolist() == ["a"] * 6 + ["b"] * 6 + ["c"] * 6
    assert (out["date"].to_numpy().reshape(3, 6) == out["date"].to_numpy()[:6]).all()


def test_the_frequency_of_an_index_stays_where_no_row_is_added() -> None:
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0] * 4}, index=pd.date_range("2024-01-01", periods=12, freq="h"))
    out = filled(read(frame))
    assert out.index.freq == frame.index.freq is not None
    assert marked(read(frame)).index.freq == frame.index.freq


def test_what_the_caller_does_to_the_frame_after_reading_does_not_reach_the_result() -> None:
    frame = pd.DataFrame({"time": pd.date_range("2024", periods=6, freq="h"), "x": [1.0, np.nan, 3.0, 4.0, 5.0, 6.0]})
    table = read(frame)
    frame.loc[0, "x"] = 99.0
    frame["time"] = frame["time"] + pd.Timedelta("1D")
    out = filled(table)
    assert out["x"].tolist() == [1.0, 1.0, 3.0, 4.0, 5.0, 6.0]
    assert out["time"].iloc[0] == pd.Timestamp("2024-01-01")
    out.loc[0, "x"] = -1.0
    assert filled(table)["x"].iloc[0] == 1.0


def test_whole_numbers_stay_so_and_codes_in_them_are_written_over() -> None:
    frame = pd.DataFrame({"time": pd.date_range("2024", periods=4, freq="h"), "x": [3, -200, 2**53 + 1, 5]})
    table = read(frame)
    coded = [np.array([[False, True, False, False]])]
    out = table.apply(Edits(coded, [np.array([[0, 6.6, 0, 0]])]))
    assert out["x"].dtype == np.int64
    assert out["x"].tolist() == [3, 7, 2**53 + 1, 5]
    empty = table.apply(Edits(coded, [np.full((1, 4), np.nan)]))
    assert empty["x"].dtype == "Int64"
    assert empty["x"].isna().tolist() == [False, True, False, False]
    assert empty["x"].iloc[2] == 2**53 + 1


@pytest.mark.parametrize(
    ("dtype", "value", "wide"),
    [
        ("uint8", -3.0, "int64"),
        ("uint8", 255.4, "uint8"),
        ("int8", 300.0, "int64"),
        ("UInt8", 300.0, "Int64"),
        ("uint8[pyarrow]", -1.0, "int64[pyarrow]"),
        ("float16", 1e5, "float64"),
        ("float32", 1e5, "float32"),
    ],
)
def test_a_column_that_cannot_hold_a_value_gets_the_widest_dtype_of_its_kind(
    dtype: str, value: float, wide: str
) -> None:
    out = put(pd.Series([1, 2, 3], dtype=dtype), np.array([1]), np.array([value]))
    assert out.dtype == wide
    assert out.tolist() == [1, round(value), 3]


def test_a_value_beyond_64_bits_in_a_column_of_whole_numbers_is_refused() -> None:
    with pytest.raises(DataError, match=r"column 'x': expected values within whole numbers of 64 bits, came 1e.19"):
        put(pd.Series([1, 2], name="x"), np.array([0]), np.array([1e19]))


def test_decimals_and_sparse_columns_keep_their_kind() -> None:
    exact = put(pd.Series([Decimal("1.10"), None], name="x", dtype=object), np.array([1]), np.array([0.25]))
    assert exact.tolist() == [Decimal("1.10"), Decimal("0.25")]
    money = pd.Series([Decimal("1.10"), None], dtype=pd.ArrowDtype(pa.decimal128(8, 2)))
    assert put(money, np.array([1]), np.array([0.256])).tolist() == [Decimal("1.10"), Decimal("0.26")]
    sparse = pd.Series([1.5, np.nan, -0.0], dtype=pd.SparseDtype("float64"))
    out = put(sparse, np.array([1]), np.array([2.0]))
    assert out.dtype == sparse.dtype
    assert out.tolist() == [1.5, 2.0, -0.0]


def test_extra_columns_of_lists_are_carried_along_beside_new_rows() -> None:
    when = pd.to_datetime(["2024-01-01 00:00", "2024-01-01 01:00", "2024-01-01 03:00", "2024-01-01 04:00"])
    frame = pd.DataFrame({"time": when, "x": [1.0, 2, 3, 4], "note": [[1], [2], {"a": 1}, None]})
    out = filled(read(frame))
    assert out["note"].tolist()[:2] == [[1], [2]]
    assert pd.isna(out["note"].iloc[2])


def test_an_extra_column_of_intervals_is_empty_in_new_rows_and_keeps_its_own() -> None:
    when = pd.to_datetime(["2024-01-01 00:00", "2024-01-01 01:00", "2024-01-01 03:00", "2024-01-01 04:00"])
    frame = pd.DataFrame({"time": when, "x": [1.0, 2, 3, 4], "bin": pd.interval_range(0, 4)})
    out = filled(read(frame))["bin"]
    assert out.tolist()[:2] == frame["bin"].tolist()[:2]
    assert out.isna().tolist() == [False, False, True, False, False]


def test_row_numbers_go_on_in_their_own_steps_and_left_over_ones_count_on() -> None:
    when = pd.to_datetime(["2024-01-01 00:00", "2024-01-01 01:00", "2024-01-01 03:00", "2024-01-01 04:00"])
    frame = pd.DataFrame({"time": when, "x": 1.0}, index=pd.RangeIndex(10, 18, 2))
    assert filled(read(frame)).index.equals(pd.RangeIndex(10, 20, 2))
    frame.index = pd.Index([4, 8, 15, 16])
    table = read(frame)
    assert filled(table).index.tolist() == [4, 8, 17, 15, 16]
    assert "index: labels of new rows count on from 16" in table.notes


def test_an_index_that_can_give_new_rows_no_label_is_refused_while_reading() -> None:
    when = pd.to_datetime(["2024-01-01 00:00", "2024-01-01 01:00", "2024-01-01 03:00", "2024-01-01 04:00"])
    frame = pd.DataFrame({"time": when, "x": 1.0}, index=pd.Index(list("abcd"), name="code"))
    with pytest.raises(
        DataError, match=r"index 'code', whose first label is 'a'.*reset_index\(\).*missing_times='keep'"
    ):
        read(frame)
    out = filled(read(frame, missing_times="keep"))
    pd.testing.assert_frame_equal(out, frame)


@pytest.mark.parametrize("values", [[2015] * 5, ["2015"] * 5, [2015.0] * 5])
def test_a_year_is_filled_and_an_hour_that_disagrees_once_is_left_empty(values: list[Any]) -> None:
    when = pd.Timestamp("2015-01-31 22:00") + pd.to_timedelta([0, 1, 3, 4, 5], unit="h")
    frame = pd.DataFrame(
        {"time": when, "x": 1.0, "Year": values, "hour": [22, 23, 1, 2, 2], "day": when.strftime("%d")}
    )
    frame["day of week"], frame["date"] = when.day_of_week + 1, when.normalize()
    out = filled(read(frame, ColumnSpec(time=["time"])))
    assert out["Year"].tolist() == [values[0]] * 6
    assert out["Year"].dtype == frame["Year"].dtype
    assert out["hour"].dtype == "Int64"
    assert out["hour"].isna().tolist() == [False, False, True, False, False, False]
    assert out["day"].tolist() == ["31", "31", "01", "01", "01", "01"]
    assert out["date"].iloc[2] == pd.Timestamp("2015-02-01")


def test_rows_of_one_time_are_marked_by_what_each_holds() -> None:
    when = START + pd.to_timedelta([0, 1, 1, 2, 3, 3, 4], unit="h")
    frame = pd.DataFrame({"time": when, "x": [0, np.nan, 7, 2, 3, np.nan, np.nan]})
    table = read(frame, duplicates="first")
    out, words = filled(table), marked(table)
    assert out["x"].tolist() == [0, 1, 7, 2, 3, 3, 4]
    assert words["x"].tolist() == [
        "observed", "imputed", "observed", "observed", "observed", "by rule", "imputed",
    ]  # fmt: skip
    assert table.n_beside == 1


def test_the_three_air_quality_files_come_back_with_their_rows_and_bits(data_root: Any) -> None:
    folder = data_root / "air_quality"
    files = [
        (pd.read_csv(folder / "us_embassy_beijing_2015.csv", skiprows=3, encoding="utf8"), {"duplicates": "last"}, 1),
        (pd.read_csv(folder / "openaq_no2_long.csv"), {}, 984),
        (pd.read_csv(folder / "AirQualityUCI.csv", sep=";", decimal=",").dropna(how="all"), {}, 0),
    ]
    for frame, time_options, n_new in files:
        frame["tag"] = np.arange(len(frame)).astype(str)
        before = frame.copy()
        out = filled(read(frame, **time_options))
        pd.testing.assert_frame_equal(frame, before)
        old = out[out["tag"].notna()].reset_index(drop=True)
        assert (len(old), len(out)) == (len(frame), len(frame) + n_new)
        for name in frame.select_dtypes("number"):
            assert (bits(old[name]) == bits(frame[name])).all(), name
        pd.testing.assert_frame_equal(old.select_dtypes("str"), frame.select_dtypes("str"))

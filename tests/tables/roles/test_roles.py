"""Which column is what: found by name and content, or refused with what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsimpute.errors import ConfigError, DataError, TsimputeError
from tsimpute.tables.columns.number_texts import has_fractions
from tsimpute.tables.columns.time_names import plain
from tsimpute.tables.frames.frames import TimeOptions, read_frame
from tsimpute.tables.frames.table import FrameTable
from tsimpute.tables.roles.columns import Columns, ColumnSpec
from tsimpute.tables.roles.roles import find_roles

N = 12
HOURS = pd.date_range("2024-01-01", periods=N, freq="h")


def table(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"time": HOURS, "x": np.linspace(0.5, 6, N)} | columns)


def names(reading: FrameTable, role: str) -> list[Any]:
    return [reading.columns.names[at] for at in getattr(reading.roles, role)]


def found(frame: pd.DataFrame, role: str, **spec: Any) -> list[Any]:
    columns = Columns(frame)
    return [columns.names[at] for at in getattr(find_roles(columns, ColumnSpec(**spec)), role)]


def said(reading: FrameTable, words: str) -> bool:
    return any(words in note for note in reading.notes)


@pytest.mark.parametrize("name", ["Station ID", "patient_id", "ICUSTAY_ID", "Site", "stay-id", "Unique ID"])
def test_a_telling_name_is_found_as_the_group_however_it_is_written(name: str) -> None:
    frame = pd.concat([table(**{name: 1}), table(**{name: 2})])
    reading = read_frame(frame.reset_index(drop=True))
    assert names(reading, "group") == [name]
    assert [s.name for s in reading.panel.series] == ["1", "2"]
    assert names(reading, "features") == ["x"]


def test_names_are_compared_without_case_blanks_and_signs() -> None:
    assert plain(" Station-ID (no.) ") == "stationidno"
    assert plain(("PM2.5", 1)) == "pm251"


@pytest.mark.parametrize("dtype", ["str", "object", "category", "int64", "Int64"])
def test_the_one_column_with_which_times_do_not_repeat_is_the_group(dtype: str) -> None:
    labels = ["1", "2"] if "nt" in dtype else ["Rome", "Oslo"]
    frame = pd.concat([table(), table()], ignore_index=True)
    frame["town"] = pd.Series(np.repeat(labels, N)).astype(int if "nt" in dtype else "str").astype(dtype)
    frame["remark"] = "as measured"
    for rows in (frame, frame.sort_values(["time", "town"]), frame.sample(frac=1, random_state=1)):
        reading = read_frame(rows.reset_index(drop=True), ColumnSpec(time=["time"]))
        assert names(reading, "group") == ["town"]
        assert sorted(s.name for s in reading.panel.series) == sorted(labels)
        assert said(reading, "town: taken for the groups")


def test_two_columns_that_name_the_same_groups_are_as_good_as_one_and_two_ways_to_group_are_not() -> None:
    frame = pd.concat([table(town="Rome", code="I1"), table(town="Oslo", code="N1")], ignore_index=True)
    assert found(frame, "group") == ["town"]
    frame = frame.rename(columns={"town": "batch"})
    frame["half"] = np.tile(["a", "b"], N)
    frame["half"] = np.where(np.arange(2 * N) < N, frame["half"], frame["half"].map({"a": "b", "b": "a"}))
    frame["half"] = frame["half"].where(frame.index != 3, "b").where(frame.index != N + 3, "a")
    with pytest.raises(DataError, match=r"expected each time once per series, 12 rows repeat one"):
        read_frame(frame.drop(columns="code"))


def test_a_count_that_parts_doubled_times_by_chance_is_no_group() -> None:
    frame = pd.concat([table(count=np.arange(N)), table(count=np.arange(N) + 1)], ignore_index=True)
    with pytest.raises(DataError, match=r"expected each time once per series"):
        read_frame(frame)


def test_a_stay_within_a_patient_is_a_group_of_its_own() -> None:
    parts = [table(patient_id=p, stay=f"{p}{s}") for p, s in ((7, "a"), (7, "b"), (8, "a"))]
    reading = read_frame(pd.concat(parts, ignore_index=True))
    assert names(reading, "group") == ["patient_id", "stay"]
    assert [s.name for s in reading.panel.series] == ["7 / 7a", "7 / 7b", "8 / 8a"]


def test_an_unnamed_index_of_texts_may_be_the_group() -> None:
    frame = pd.concat([table(), table()])
    frame.index = pd.Index(np.repeat(["Rome", "Oslo"], N))
    assert [s.name for s in read_frame(frame).panel.series] == ["Rome", "Oslo"]


@pytest.mark.parametrize("name", ["id", "row_id", "ID", "recordId", "measurement id"])
def test_an_id_of_its_own_in_each_row_is_carried_along_and_never_filled(name: str) -> None:
    for ids in (np.arange(N), np.where(np.arange(N) == 3, np.nan, np.arange(N, dtype=float))):
        reading = read_frame(table(**{name: ids}), ColumnSpec(group=()))
        assert names(reading, "features") == ["x"]
        assert names(reading, "extra") == [name]
    reading = read_frame(table(**{name: np.arange(N)}))
    assert (names(reading, "group"), names(reading, "extra")) == ([], [name])
    assert said(reading, f"{name}: ")


@pytest.mark.parametrize("name", ["Unnamed: 0", "No", "index"])
def test_the_number_of_a_row_is_no_feature(name: str) -> None:
    reading = read_frame(table(**{name: np.arange(N)}))
    assert names(reading, "extra") == [name]
    assert said(reading, f"{name}: numbers the rows")
    assert "index" in names(read_frame(table(index=np.linspace(1, 0, N))), "features")


def test_a_column_without_values_is_a_feature_unless_it_is_a_blank_one_of_a_file() -> None:
    frame = table(**{"lead": np.full(N, np.nan), "Unnamed: 3": np.full(N, np.nan), "note": np.full(N, None)})
    reading = read_frame(frame)
    assert names(reading, "features") == ["x", "lead"]
    assert reading.panel.n_missing == N
    assert names(reading, "extra") == ["Unnamed: 3", "note"]
    assert said(reading, "Unnamed: 3: holds nothing")


def test_booleans_texts_categories_and_parts_of_the_time_are_carried_along() -> None:
    frame = table(
        wave=np.ones(N) + 1j, wet=True, dry=pd.array([True, None] * (N // 2), dtype="boolean"), word="a",
        Hour=HOURS.hour, year=2024, kind=pd.Categorical([1, 2] * (N // 2)),
    )  # fmt: skip
    reading = read_frame(frame)
    assert names(reading, "features") == ["x"]
    assert names(reading, "extra") == ["wave", "wet", "dry", "word", "Hour", "year", "kind"]
    assert said(reading, "wave: complex numbers (complex128); passed through unchanged. To fill it, give its real")


def test_a_feature_whose_name_speaks_of_time_stays_a_feature() -> None:
    frame = table(time_since_rain=np.arange(N) / 2, T=20.0 + np.arange(N) % 3)
    assert found(frame, "time") == ["time"]
    assert found(frame, "features") == ["x", "time_since_rain", "T"]
    assert found(frame.drop(columns="time"), "time") == []


@pytest.mark.parametrize("name", ["t", "Time [h]", "hours", "step", "minutes", "timestamp"])
def test_numbers_are_the_time_where_their_name_says_so(name: str) -> None:
    frame = pd.DataFrame({"x": np.arange(N) / 4, name: np.arange(N)})
    reading = read_frame(frame)
    assert names(reading, "time") == [name]
    assert reading.panel.clock.step == 1.0


def test_an_index_of_floats_is_the_time_and_one_of_whole_numbers_is_not() -> None:
    frame = pd.DataFrame({"x": np.arange(N) / 4}, index=np.arange(N) / 2)
    assert read_frame(frame).panel.clock.step == 0.5
    frame.index = pd.Index(np.arange(N) * 2)
    reading = read_frame(frame)
    assert reading.panel.clock.unit == "steps"
    assert said(
        reading, "each row counts as one step; if the rows are records in no order, as people, set records='rows'"
    )


def test_the_parts_of_a_time_are_the_time_together_and_without_a_year_they_are_refused() -> None:
    frame = pd.DataFrame({"year": 2013, "month": 3, "day": 1, "hour": np.arange(N), "x": 0.5})
    assert found(frame, "time") == ["year", "month", "day", "hour"]
    with pytest.raises(DataError, match=r"whole parts of it from the year on .* found month, day.*set time=\(\)"):
        read_frame(frame.drop(columns=["year", "hour"]))


def test_of_two_columns_of_stamps_the_one_called_time_wins_and_otherwise_one_must_be_named() -> None:
    assert found(table(admission_date=pd.Timestamp("2023-12-31")), "time") == ["time"]
    frame = table(**{"date.local": HOURS}).rename(columns={"time": "date.utc"})
    with pytest.raises(DataError, match=r"found date.utc, date.local. Name it \(time\)"):
        read_frame(frame)
    assert found(frame, "time", time=["date.utc"]) == ["date.utc"]


def test_texts_among_numbers_are_refused_with_the_first_one() -> None:
    values = [str(v) for v in range(N)]
    values[5], values[8] = "err", "NR"
    frame = table(pm=values).set_index("time")
    with pytest.raises(
        DataError,
        match=r"column 'pm': expected numbers or nothing, came 'err' in row 5 \(2024-01-01 05:00:00\); 10 of 12 .*"
        r"errors='coerce'.*\(features\)",
    ):
        read_frame(frame)
    mixed = table(pm=pd.Series([1.5, "NR", *range(N - 2)], dtype=object))
    with pytest.raises(DataError, match=r"came 'NR' in row 1, one of the texts that mean 'missing'; 11 of 12"):
        read_frame(mixed)
    assert names(read_frame(frame, ColumnSpec(features=["x"])), "extra") == ["pm"]


def test_texts_that_are_all_numbers_are_refused_unless_they_may_be_codes() -> None:
    with pytest.raises(DataError, match=r"came texts of numbers, the first is '2,6' in row 0.*decimal=','"):
        read_frame(table(pm=["2,6"] * N))
    with pytest.raises(DataError, match=r"one decimal mark, came '2\.5' in row 1 and '2,6' in row 0\.") as refused:
        read_frame(table(pm=["2,6", "2.5"] * (N // 2)))
    assert "decimal=" not in str(refused.value)
    with pytest.raises(DataError, match=r"the first is '7' in row 1. .*pandas.to_numeric"):
        read_frame(table(pm=[None, *["7"] * (N - 1)]))
    assert names(read_frame(table(zip=["00184"] * N)), "extra") == ["zip"]
    assert names(read_frame(table(zip=["00184"] * (N - 1) + [None])), "extra") == ["zip"]
    assert names(read_frame(table(lot_id=["7.5", *["8"] * (N - 1)])), "extra") == ["lot_id"]
    assert names(read_frame(table(word=["1", *["dry"] * (N - 1)])), "extra") == ["word"]


def test_texts_in_the_values_of_a_long_table_are_refused() -> None:
    frame = pd.DataFrame({"date": HOURS, "parameter": "CO", "value": ["1.5", "n/a?"] * (N // 2)})
    with pytest.raises(DataError, match=r"long table: column 'value': .* came 'n/a\?' in row 1; 6 of 12"):
        read_frame(frame)
    with pytest.raises(DataError, match=r"column 'value': .* came 'n/a\?' in row 1"):
        read_frame(frame, ColumnSpec(feature="parameter", value="value"))


@pytest.mark.parametrize("items", [["CO", "NO2", "O3"], [211, 618, 220045]])
def test_a_long_table_names_its_features_by_text_or_by_number(items: list[Any]) -> None:
    frame = pd.DataFrame({"charttime": np.repeat(HOURS, 3), "itemid": items * N, "valuenum": np.arange(3.0 * N)})
    reading = read_frame(frame)
    assert reading.roles.layout == "long"
    assert [f.name for f in reading.panel.features] == [str(item) for item in items]
    assert reading.panel.series[0].values[1, 2] == 7.0


def test_features_of_one_name_are_refused_with_their_places_and_extra_ones_are_not() -> None:
    frame = table(y=1.0)
    frame.columns = ["time", "x", "x"]
    with pytest.raises(DataError, match=r"'x' stands 2 times \(columns 1, 2, counted from 0\). Rename"):
        read_frame(frame)
    frame.columns = ["time", 1, "1"]
    with pytest.raises(DataError, match=r"expected distinct names"):
        read_frame(frame)
    twice = table(a="u", b="v").set_axis(["time", "x", "note", "note"], axis=1)
    assert names(read_frame(twice), "extra") == ["note", "note"]


def test_columns_of_two_levels_are_features_by_their_whole_names() -> None:
    frame = pd.DataFrame(
        np.arange(2.0 * N).reshape(N, 2), HOURS, pd.MultiIndex.from_product([["PM2.5"], ["north", "south"]])
    )
    assert [f.name for f in read_frame(frame).panel.features] == ["('PM2.5', 'north')", "('PM2.5', 'south')"]


def test_what_is_told_is_taken_or_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"group: expected one column 'town', found 0; the table has time, x"):
        read_frame(table(), ColumnSpec(group=["town"]))
    with pytest.raises(ConfigError, match=r"features: column 'time' has another role already"):
        read_frame(table(), ColumnSpec(time=["time"], features=["time"]))
    with pytest.raises(ConfigError, match=r"expected both the column of feature names and that of values"):
        read_frame(table(), ColumnSpec(value="x"))
    with pytest.raises(DataError, match=r"expected at least one column of numbers to fill, found none in time, word"):
        read_frame(table(word="a").drop(columns="x"))
    with pytest.raises(DataError, match=r"column 'word': expected numbers or nothing, came 'a' in row 0; 0 of 12"):
        read_frame(table(word="a"), ColumnSpec(features=["word"]))


def test_a_gap_in_the_column_of_groups_is_refused_with_its_row() -> None:
    frame = table(station=["a"] * 4 + [None] + ["a"] * (N - 5))
    with pytest.raises(DataError, match=r"column 'station': expected a name in every row, row 4 has none.*group=\(\)"):
        read_frame(frame)
    frame["station"] = [1.0] * 6 + [2.0] * 6
    assert [s.name for s in read_frame(frame, ColumnSpec(), TimeOptions()).panel.series] == ["1", "2"]


@pytest.mark.parametrize("name", ["sensor", "Site", "station"])
def test_readings_named_as_groups_are_none_and_it_is_said(name: str) -> None:
    readings = read_frame(table(**{name: np.linspace(0.1, 1, N)}))
    assert names(readings, "features") == ["x", name]
    whole = read_frame(table(**{name: [1, 2, 3, 2] * 3}))
    assert (names(whole, "group"), names(whole, "extra")) == ([], [name])
    assert said(whole, f"{name}: named as groups are, but holds numbers and no time repeats: no groups")
    asked = read_frame(table(**{name: [1, 2, 3, 2] * 3}), ColumnSpec(features=["x", name]))
    assert names(asked, "features") == ["x", name]
    stretches = read_frame(table(**{name: [1] * 6 + [2] * 6}))
    assert (names(stretches, "group"), said(stretches, "one stretch of rows")) == ([name], True)
    twice = pd.concat([table(place="a"), table(place="b")]).assign(**{name: 5}).reset_index(drop=True)
    assert names(read_frame(twice), "group") == ["place"]


def test_parts_of_the_time_and_booleans_are_said_to_be_carried_along_and_how_to_fill_them() -> None:
    frame = table(hour=HOURS.hour, weekday=0, open=[True, False] * (N // 2))
    reading = read_frame(frame)
    assert names(reading, "features") == ["x"]
    assert said(
        reading, "hour: numbers that are named as a part of the time; passed through unchanged. To fill it, name all"
    )
    assert said(reading, "open: true and false; passed through unchanged. To fill it, write 1 and 0")
    assert names(read_frame(frame, ColumnSpec(features=["x", "hour"])), "features") == ["x", "hour"]


ODD = st.sampled_from([[1], {"a": 1}, {1}, "2024-01-01", "a", 1, 1.5, None, True, np.arange(2), pd.NaT, 1j, ([],)])
NAMES = ["time", "date", "station", "parameter", "value", "unit", "hour", "x", "id"]


def test_whatever_a_column_holds_it_is_read_or_refused_in_words() -> None:
    accepted: list[bool] = []

    @settings(max_examples=150, deadline=None)
    @given(
        data=st.dictionaries(st.sampled_from(NAMES), st.lists(ODD, min_size=4, max_size=4), min_size=1, max_size=3),
        named=st.sampled_from([{}, {"group": ["station"]}, {"time": ["time"]}, {"features": ["x"]}, {"unit": "unit"}]),
    )
    def tried(data: dict[str, list[Any]], named: dict[str, Any]) -> None:
        columns = {name: pd.Series(items, dtype=object) for name, items in data.items()}
        for base in ({}, {"time": HOURS[:4], "x": np.arange(4.0)}, {"time": HOURS[:4], "value": 1.0}):
            try:
                reading = read_frame(pd.DataFrame(base | columns), ColumnSpec(**named))
            except TsimputeError as error:
                ending = str(error)[-1:]
            else:
                ending = ""
                assert reading.panel.series
            assert ending in {"", ".", "?", ")"}
            accepted.append(not ending)

    tried()
    assert np.mean(accepted) >= 0.1


@pytest.mark.parametrize("name", ["station", "parameter", "unit", "other"])
def test_a_column_of_lists_is_carried_along_whatever_its_name_and_refused_where_it_is_told(name: str) -> None:
    frame = table(**{name: [[1], [2]] * (N // 2), "value": 1.5})
    assert name in found(frame, "extra")
    for role in ("time", "group"):
        with pytest.raises(DataError, match=f"column '{name}': expected times or names, came "):
            find_roles(Columns(frame), ColumnSpec(**{role: [name]}))


def test_whole_numbers_beside_an_infinite_one_have_no_fractions_and_no_warning() -> None:
    assert not has_fractions(pd.Series([np.inf, 1.0, np.nan]))
    assert has_fractions(pd.Series([np.inf, 1.5]))


@pytest.mark.parametrize("values", [[np.inf] * N, [1e308, -1e308] * (N // 2), [2.0**60] * N])
def test_numbers_without_end_number_no_rows_and_give_no_warning(values: list[float]) -> None:
    assert "index" not in found(table(index=values), "extra")
    assert "index" in found(table(index=np.arange(3.0, N + 3)), "extra")

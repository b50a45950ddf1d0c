"""Frames as panels, made ready for a model, and what is told of their cells afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tsimpute.core.limits import Limits
from tsimpute.core.panel import PROVENANCE, Filling
from tsimpute.core.windows import Feature
from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.imputer.imputation import Imputation, imputation_of
from tsimpute.filling.preparing.model_rules import matched
from tsimpute.filling.preparing.prepare import prepare
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.filling.preparing.series import Policy
from tsimpute.filling.preparing.table_settings import limits_by_name
from tsimpute.tables.frames.frames import TimeOptions, read_frame
from tsimpute.tables.frames.rows import numbers
from tsimpute.tables.frames.table import FrameTable, time_text
from tsimpute.tables.roles.columns import ColumnSpec
from tsimpute.tables.sources.files import read_table

N = 12
HOURS = pd.date_range("2024-01-01", periods=N, freq="h")


def table(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"time": HOURS, "x": np.linspace(0.5, 6, N)} | columns)


def prepared(
    frame: pd.DataFrame,
    limits: dict[str, Any] | None = None,
    codes: Any = "certain",
    drop: bool = False,
    time_options: TimeOptions | None = None,
    policy: Policy | None = None,
) -> Prepared:
    table = read_table(frame, None, time_options)
    return prepare(
        table, limits=limits_by_name(limits or {}), missing_codes=codes, drop_invalid=drop, policy=policy or Policy()
    )


def imputed(ready: Prepared) -> Imputation:
    """Filled with -1, and quantiles half a unit apart; no model is needed to see where what goes."""
    fillings = []
    for series, code in zip(ready.panel.series, ready.provenance, strict=True):
        fill = np.isin(code, (1, 2, 4))
        point = np.where(series.observed, series.values, np.where(fill, -1.0, np.nan))
        spread = np.where(fill, 0.5, 0.0)
        fillings.append(Filling(point, (0.05, 0.95), np.stack([point - spread, point + spread]), code))
    return imputation_of(ready, fillings)


def test_a_wide_frame_is_one_panel_in_the_order_of_time_whatever_that_of_its_rows() -> None:
    frame = pd.concat([table(station="b"), table(station="a").iloc[:5]], ignore_index=True)
    frame.loc[2, "x"] = np.nan
    shuffled = frame.sample(frac=1, random_state=3)
    for rows in (frame, shuffled, shuffled.set_index(["time", "station"])):
        panel = read_frame(rows).panel
        by_name = {s.name: s for s in panel.series}
        assert sorted(by_name) == ["a", "b"]
        assert by_name["a"].times.tolist() == [0, 1, 2, 3, 4]
        np.testing.assert_array_equal(by_name["b"].values[0], frame["x"][:N])
        assert (by_name["b"].labels == HOURS.to_numpy()).all()


@pytest.mark.parametrize("dtype", ["float32", "Float64", "double[pyarrow]", "object", "Sparse[float64]", "Int64"])
def test_numbers_of_every_dtype_are_read_exactly(dtype: str) -> None:
    values = [3, None, -7, 0] if "Int" in dtype else [0.1, None, -7.25, -0.0]
    column = pd.Series(np.array(values, float) if "Sparse" in dtype else values, dtype=dtype)
    expected = np.array([np.nan if v is None else (np.float32(v) if dtype == "float32" else v) for v in values], float)
    np.testing.assert_array_equal(numbers(column, "x"), expected)


def test_a_number_that_is_infinite_is_refused_with_its_row_and_label() -> None:
    frame = table(x=[1.0, np.inf, *[2.0] * (N - 2)]).set_index("time")
    with pytest.raises(DataError, match=r"column 'x': expected finite numbers or nothing, came inf in row 1 \(2024-01"):
        read_frame(frame)
    with pytest.raises(DataError, match=r"came -inf in row 0. Correct or remove it"):
        numbers(pd.Series([-np.inf]), "x")


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(DataError, match=r"expected at least one row, came none"):
        read_frame(table().iloc[:0])


def test_units_come_from_the_name_or_the_caller_and_the_name_stays_whole() -> None:
    frame = table(**{"Temp [degC]": 1.0, "RH": 2.0})
    features = read_frame(frame, units={"RH": "%"}).panel.features
    assert features == (Feature("x", ""), Feature("Temp [degC]", "degC"), Feature("RH", "%"))


def test_a_feature_of_two_units_in_a_long_table_is_refused() -> None:
    frame = pd.DataFrame({"date": HOURS, "parameter": "CO", "value": 1.0, "unit": ["ppm", "mg/m³"] * (N // 2)})
    with pytest.raises(DataError, match=r"expected one unit for 'CO', found ppm, mg/m³. Convert"):
        read_frame(frame)


def test_a_long_table_needs_a_time() -> None:
    frame = pd.DataFrame({"parameter": ["a", "b"] * 3, "value": 1.0})
    with pytest.raises(DataError, match=r"long table: expected a column of times, found none. Name it \(time\)"):
        read_frame(frame)


def test_equal_rows_are_averaged_where_that_was_asked_for() -> None:
    frame = table(x=np.arange(float(N))).iloc[[0, 1, 1, 2, 3, 4, 4, 4]].reset_index(drop=True)
    frame.loc[[2, 5, 6], "x"] = [9.0, np.nan, 1.0]
    panel = read_frame(frame, time_options=TimeOptions(duplicates="mean")).panel
    assert panel.series[0].values.tolist() == [[0, 5, 2, 3, 2.5]]


def test_the_span_and_the_step_are_told_in_words() -> None:
    assert time_text(read_frame(table()).panel) == "every hour, 2024-01-01 00:00 to 2024-01-01 11:00"
    spec = ColumnSpec(time=())
    assert time_text(read_frame(table().drop(columns="time"), spec).panel) == "every row, 0 to 11"


def test_what_a_frame_was_taken_for_is_said() -> None:
    frame = pd.concat([table(station=s, word="w") for s in "ab"], ignore_index=True)
    frame.loc[0, "x"] = np.nan
    assert read_table(frame).understood == [
        ("layout", "wide, 24 rows"),
        ("time", "time: every hour, 2024-01-01 00:00 to 2024-01-01 11:00"),
        ("groups", "station: 2 series"),
        ("features", "1: x 4.2% missing"),
        ("passed through", "word"),
    ]


def test_a_code_in_a_column_of_whole_numbers_is_filled_and_the_column_stays_whole() -> None:
    frame = table(co=[5, 6, -200, 7, -200, 6, 5, 6, 7, 5, 6, 7])
    ready = prepared(frame)
    assert [int(c.sum()) for c in ready.coded] == [2]
    assert [w for w in ready.warnings if "code" in w] == [
        "-200: 2 cells of 1 feature hold a code for missing and are filled as gaps; if these are true values, set "
        "missing_codes='none'"
    ]
    done = imputed(ready)
    assert done.table["co"].dtype == np.int64
    assert done.table["co"].tolist() == [5, 6, -1, 7, -1, 6, 5, 6, 7, 5, 6, 7]
    assert done.provenance["co"].eq("imputed").tolist() == (frame["co"] == -200).tolist()
    assert frame["co"].iloc[2] == -200


def test_codes_are_taken_as_told() -> None:
    frame = table(x=[1.0, 99.0, *np.linspace(0, 1, N - 2)])
    assert not prepared(frame).coded[0].any()
    assert np.argwhere(prepared(frame, codes=[99]).coded[0]).tolist() == [[0, 1]]
    assert not prepared(table(x=[5.0, -200, -200, *[6.0] * (N - 3)]), codes=[]).coded[0].any()
    for wrong in ("-200", ["-200"]):
        with pytest.raises(ConfigError, match=r"missing_codes: expected 'certain', 'none', a number"):
            prepared(frame, codes=wrong)


def test_values_outside_the_limits_are_hidden_from_the_model_and_kept_unless_they_are_to_be_dropped() -> None:
    frame = table(x=[735.0, *[7.0, 7.5] * 5, 7.2])
    kept = prepared(frame, {"x": (0, 14)})
    assert np.isnan(kept.visible.series[0].values[0, 0])
    assert kept.panel.series[0].values[0, 0] == 735.0
    assert kept.warnings == (
        "1 value outside the limits is kept unchanged and hidden from the model; to fill such values, "
        "set drop_invalid=True (x: 1 value lies above the limit 14 (735))",
    )
    assert imputed(kept).table["x"].tolist() == frame["x"].tolist()

    dropped = imputed(prepared(frame, {"x": Limits(0, 14)}, drop=True))
    assert dropped.table["x"].tolist() == [-1.0, *frame["x"].tolist()[1:]]
    assert dropped.provenance["x"].tolist() == ["declared invalid"] + ["observed"] * (N - 1)
    assert dropped.counts() == {"observed": N - 1, "imputed": 0, "no information": 0, "left empty": 0} | {
        "declared invalid": 1, "by rule": 0
    }  # fmt: skip


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'pH'"):
        prepared(table(), {"pH": (0, 14)})
    with pytest.raises(ConfigError, match=r"drop_invalid: expected limits"):
        prepared(table(), drop=True)
    for wrong in ((0,), 14, "0:14"):
        with pytest.raises(ConfigError, match=r"limits of 'x': expected a lowest and a highest value"):
            prepared(table(), {"x": wrong})


def test_every_warning_is_given_once() -> None:
    frame = table(co=[5, 6, -200, 7, -200, 6, 5, 6, 7, 5, 6, 700], dead=np.nan)
    warnings = prepared(frame, {"co": (0, 100)}).warnings
    assert len(warnings) == len(set(warnings))
    assert [warning for warning in warnings if "dead" in warning] == [
        "dead (no series shows a value): nobody measured it, so it stays empty"
    ]


def test_features_are_matched_by_name_in_any_order() -> None:
    panel = read_frame(table(y=np.arange(N) + 0.5), units={"y": "ppm"}).panel
    found, order = matched(panel, [Feature("y", "ppm"), Feature("x", "m")])
    assert order.place.tolist() == [1, 0]
    assert found.features == (Feature("y", "ppm"), Feature("x", "m"))
    assert (found.series[0].values == panel.series[0].values[[1, 0]]).all()


def test_features_that_differ_are_refused_with_all_their_names() -> None:
    panel = read_frame(table(y=0.5), units={"y": "ppm"}).panel
    with pytest.raises(DataError, match=r"the model's 2; absent from the table: z; not known to the model: x. Rename"):
        matched(panel, [Feature("y", "ppm"), Feature("z", "")])
    with pytest.raises(DataError, match=r"expected y in 'mg/m³', came 'ppm'. Convert the values.*\(units\)"):
        matched(panel, [Feature("y", "mg/m³"), Feature("x", "")])


def cells_agree(done: Imputation, frame: pd.DataFrame, keys: Sequence[str]) -> None:
    """The list of cells, the marks and the counts say the same."""
    counts, cells = done.counts(), done.cells
    words = done.provenance.to_numpy().ravel()
    for word in PROVENANCE:
        assert (words == word).sum() == counts[word], word
        assert (cells["provenance"] == word).sum() == (counts[word] if word != "observed" else 0), word
    assert not cells.duplicated(list(keys)).any()
    empty = cells["provenance"].eq("left empty")
    assert (cells["value"].isna() == empty).all()
    assert (cells["q0.05"] < cells["value"])[~empty].all()


def test_cells_marks_and_counts_agree_on_a_wide_table_with_every_kind_of_cell() -> None:
    parts = [table(station=s, y=np.sin(np.arange(N))) for s in "ab"]
    frame = pd.concat(parts, ignore_index=True).drop(index=[4])
    frame.loc[[0, 6, 7, 8], "y"] = np.nan
    frame.loc[frame["station"] == "b", "x"] = np.nan
    frame.loc[2, "y"] = 99.5
    done = imputed(prepared(frame, {"y": (-2, 2)}, drop=True, policy=Policy(max_gap=2, fill_unseen=False)))
    assert done.counts() == {"observed": 29, "imputed": 3, "no information": 0, "left empty": 15} | {
        "declared invalid": 1, "by rule": 0
    }  # fmt: skip
    cells_agree(done, frame, ["group", "time", "feature"])
    one = done.cells[done.cells["provenance"] == "declared invalid"].iloc[0]
    assert (one["group"], one["feature"], one["time"]) == ("a", "y", pd.Timestamp("2024-01-01 02:00"))
    assert one["value"] == -1.0


def autumn(station: str) -> pd.DataFrame:
    """Two days in Berlin: the hour from 02:00 on 27 October comes twice."""
    hours = pd.date_range("2024-10-26", periods=48, freq="h", tz="Europe/Berlin").tz_localize(None)
    x = np.where(hours.hour.isin([2, 5]), np.nan, np.sin(np.arange(48)))
    return pd.DataFrame({"station": station, "time": hours.strftime("%Y-%m-%d %H:%M"), "x": x, "y": np.cos(x)})


def night(station: str) -> pd.DataFrame:
    """A night without a date, every ten minutes."""
    times = pd.date_range("2024-01-01 21:00", periods=48, freq="10min")
    x = np.where(np.arange(48) % 5 == 2, np.nan, np.sin(np.arange(48)))
    return pd.DataFrame({"station": station, "time": times.strftime("%H:%M"), "x": x, "y": np.cos(x)})


@pytest.mark.parametrize("made", [autumn, night])
@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("stations", ["a", "ab"])
def test_group_step_and_feature_name_one_cell(made: Any, is_long: bool, stations: str) -> None:
    frame = pd.concat([made(station) for station in stations], ignore_index=True)
    rows = frame.melt(["station", "time"], ["x", "y"]) if is_long else frame
    zone = "Europe/Berlin" if made is autumn else None
    done = imputed(prepared(rows, time_options=TimeOptions(timezone=zone)))
    cells_agree(done, rows, ["group", "step", "feature"])
    for name, of_station in done.cells[done.cells["feature"] == "x"].groupby("group"):
        expected = np.flatnonzero(made(name)["x"].isna())  # rows are in the order of time
        assert of_station["step"].tolist() == expected.tolist()
    twice = done.cells.duplicated(["group", "time", "feature"])
    assert twice.sum() == (2 * len(stations) if made is autumn else 0)


def test_a_feature_that_a_group_of_a_long_table_lacks_has_no_cells_there() -> None:
    rows = (
        [("a", "CO", h) for h in range(6)] + [("a", "O3", h) for h in (0, 1, 3, 5)] + [("b", "CO", h) for h in range(6)]
    )
    frame = pd.DataFrame(rows, columns=["location", "parameter", "date"])
    frame["date"], frame["value"] = HOURS[frame["date"]], 1.5 + np.arange(len(frame)) % 3
    frame.loc[3, "value"] = np.nan
    done = imputed(prepared(frame))
    assert [a.all(1).tolist() for a in done.prepared.table.absent] == [[False, False], [False, True]]
    assert done.counts()["imputed"] == 3
    assert done.counts()["left empty"] == 0
    assert len(done.table) == len(frame) + 2
    cells_agree(done, frame, ["group", "time", "feature"])
    assert done.cells["feature"].tolist() == ["O3", "CO", "O3"]


def test_a_table_without_gaps_comes_back_as_it_is_with_no_cells_listed() -> None:
    frame = table()
    done = imputed(prepared(frame))
    pd.testing.assert_frame_equal(done.table, frame)
    assert len(done.cells) == 0
    assert {"group", "time", "step", "feature", "unit", "provenance", "value", "q0.05", "q0.95"} == set(done.cells)


def test_air_quality_codes_are_found_and_filled_and_nothing_else_changes(data_root: Path) -> None:
    frame = pd.read_csv(data_root / "air_quality/AirQualityUCI.csv", sep=";", decimal=",").dropna(how="all")
    done = imputed(prepared(frame))
    coded = frame.eq(-200)
    features = [f.name for f in done.prepared.panel.features]
    assert features == frame.columns[2:15].tolist()
    assert done.counts()["imputed"] == int(coded.to_numpy().sum()) == 16701
    pd.testing.assert_frame_equal(done.table.mask(coded), frame.mask(coded), check_exact=True)
    assert (done.table[features].to_numpy()[coded[features].to_numpy()] == -1).all()


def test_the_long_file_of_two_stations_is_one_feature_and_two_hourly_series(data_root: Path) -> None:
    read = read_table(pd.read_csv(data_root / "air_quality/openaq_no2_long.csv"))
    assert isinstance(read, FrameTable)
    assert [s.name for s in read.panel.series] == ["BETR801", "London Westminster"]
    assert read.panel.features == (Feature("pm25", "µg/m³"),)
    assert [int(s.observed.sum()) for s in read.panel.series] == [101, 1009]


def repeated(*values: float) -> pd.DataFrame:
    """The third hour stands in several rows, with these values; the fourth is a gap."""
    frame = table().iloc[[0, 1, *[2] * len(values), *range(3, N)]].reset_index(drop=True)
    frame["x"] = frame["x"].mask(frame["time"] == HOURS[3])
    frame.loc[2 : 1 + len(values), "x"] = values
    return frame


MEAN = TimeOptions(duplicates="mean")


@pytest.mark.parametrize("long", [False, True])
def test_codes_and_impossible_values_are_never_averaged_in(long: bool) -> None:
    frame = repeated(5.0, -200.0, 735.0, 7.0)
    if long:
        frame = frame.rename(columns={"x": "value"}).assign(parameter="x")
    column = "value" if long else "x"
    for drop in (False, True):
        ready = prepared(frame, {"x": (0, 14)}, codes=[-200], drop=drop, time_options=MEAN)
        assert ready.panel.series[0].values[0, :4].tolist()[2] == 6.0
        assert ready.visible.series[0].values[0, 2] == 6.0
        assert any("2 of the codes and values outside the limits stand beside others" in w for w in ready.warnings)
        done = imputed(ready)
        assert done.table[column].tolist()[2:7] == [5.0, 6.0, 6.0 if drop else 735, 7, -1]
        outside = "by rule" if drop else "observed"
        assert done.provenance[column].tolist()[2:7] == ["observed", "by rule", outside, "observed", "imputed"]


def test_a_code_in_a_column_that_is_passed_through_stays_as_it_is() -> None:
    frame = table(co=[5, 6, -999, 7, 6, 5, 6, 7, 5, 6, 7, 6], status=[0, 1, 0, 1, -999, 1, 0, 1, 0, 0, 1, 1])
    ready = prepared(frame)
    assert any("2 features hold a code for missing; 1 is filled, 1 is passed through unchanged; if" in text
               for text in ready.warnings), ready.warnings  # fmt: skip
    done = imputed(ready)
    assert done.table["co"].tolist()[2] == -1
    pd.testing.assert_series_equal(done.table["status"], frame["status"])


def test_a_code_in_a_gap_that_is_left_empty_is_written_as_an_empty_cell() -> None:
    frame = table(co=[5, 6, -200, -200, -200, 7, -200, 6, 5, 6, 7, 5])
    ready = prepared(frame, policy=Policy(max_gap=2))
    done = imputed(ready)
    assert any(
        "-200: 4 cells of 1 feature hold a code for missing; 1 is filled, 3 are written as empty; if" in text
        for text in ready.warnings
    )
    assert done.table["co"].tolist() == [5, 6, pd.NA, pd.NA, pd.NA, 7, -1, 6, 5, 6, 7, 5]
    assert done.provenance["co"].tolist()[2:7] == [*["left empty"] * 3, "observed", "imputed"]
    array = read_table(frame[["co"]].to_numpy())
    policy = Policy(max_gap=2)
    done = imputed(prepare(array, limits={}, missing_codes="certain", drop_invalid=False, policy=policy))
    np.testing.assert_array_equal(done.table[:, 0], [5, 6, *[np.nan] * 3, 7, -1, 6, 5, 6, 7, 5])


def test_a_time_of_whose_rows_none_holds_a_value_is_filled_in_all_of_them() -> None:
    ready = prepared(repeated(-200.0, -200.0, np.nan), codes="certain", time_options=MEAN)
    assert dict(ready.codes) == {"x": (-200.0,)}
    assert [int(cells.sum()) for cells in ready.coded] == [1]
    assert imputed(ready).table["x"].tolist()[2:6] == [-1, -1, -1, -1]
    lies = {"x": (0, 14)}
    ready = prepared(repeated(-5.0, 25.0), lies, codes=(), time_options=MEAN)  # their mean would be a possible value
    assert ready.panel.series[0].values[0, 2] == -5
    assert np.isnan(ready.visible.series[0].values[0, 2])
    assert imputed(ready).table["x"].tolist()[2:4] == [-5, 25]
    assert imputed(prepared(repeated(-5.0, 25.0), lies, codes=(), drop=True, time_options=MEAN)).table["x"].tolist()[
        2:4
    ] == [-1, -1]


def test_of_rows_whose_mean_counts_none_with_a_value_of_its_own_is_written_over() -> None:
    ready = prepared(repeated(50.0, -999.0), {"x": (0, None)}, codes=(), drop=True, time_options=MEAN)
    assert imputed(ready).table["x"].tolist()[2] == 50.0
    assert imputed(ready).table["x"].tolist()[3] == 50.0


def test_series_have_their_names_in_what_is_said_of_them() -> None:
    frame = pd.concat([table(station=s) for s in ("Rome", "Oslo")], ignore_index=True)
    notes = read_frame(frame.drop(index=15)).notes
    assert any(
        "in 1 of 2 series, beside 23 that are there (first: series 'Oslo' 2024-01-01 03:00)" in note for note in notes
    )
    with pytest.raises(DataError, match="The first: series 'Oslo', 2024-01-01 02:00, rows 14 and 15"):
        read_frame(frame.assign(time=[*HOURS, *HOURS[:3], HOURS[2], *HOURS[4:]]), ColumnSpec(group=["station"]))


def test_a_unit_that_a_name_tells_is_said_once() -> None:
    read = read_table(table().rename(columns={"x": "PM10 [ug/m3]"}))
    assert read.panel.features[0].unit == "ug/m3"
    assert dict(read.understood)["features"] == "1: PM10 [ug/m3] 0.0% missing"
    assert dict(read_table(table(), units={"x": "m"}).understood)["features"] == "1: x [m] 0.0% missing"

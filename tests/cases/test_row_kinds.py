"""Rows of another kind, in which a feature is never measured, are named before they are filled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tsimpute as ti
from tsimpute.screening.row_kinds import row_kind_warnings
from tsimpute.tables.roles.columns import ColumnSpec
from tsimpute.tables.sources.files import read_file, read_table

RNG = np.random.default_rng(0)
NEVER = "never measured where"


def lines(table: Any, **settings: Any) -> list[str]:
    prepared = ti.TableImputer(**settings).prepared(table)
    return [warning for warning in prepared.warnings if NEVER in warning]


def hours(n: int) -> pd.DatetimeIndex:
    return pd.date_range("2024-03-01", periods=n, freq="h")


def libre(n: int = 200) -> pd.DataFrame:
    """A history every 15 minutes, and a scan in place of every tenth."""
    kind = np.where(RNG.random(n) < 0.1, 1, 0)
    glucose = (120 + 30 * np.sin(np.arange(n) / 9) + RNG.normal(0, 5, n)).round(1)
    times = pd.date_range("2024-03-01", periods=n, freq="15min")
    return pd.DataFrame({
        "Device Timestamp": times, "Record Type": kind, "Historic Glucose mg/dL": np.where(kind == 0, glucose, np.nan),
        "Scan Glucose mg/dL": np.where(kind == 1, glucose, np.nan),
    })  # fmt: skip


def dexcom(n: int = 200) -> pd.DataFrame:
    event = RNG.choice(["EGV", "Insulin", "Carbs"], n, p=[0.8, 0.1, 0.1])
    glucose = np.where(event == "EGV", (120 + RNG.normal(0, 20, n)).round(1), np.nan)
    glucose[RNG.random(n) < 0.1] = np.nan
    return pd.DataFrame({"Timestamp": hours(n), "Event Type": event, "Glucose Value (mg/dL)": glucose})


@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_history_and_scans_of_one_sensor(tmp_path: Path, as_file: bool, delimiter: str) -> None:
    frame = libre()
    history, scans = ((frame["Record Type"].to_numpy() == kind).sum() for kind in (0, 1))
    table: Any = frame
    if as_file:
        frame.to_csv(path := tmp_path / "libre.csv", index=False, sep=delimiter)
        table = read_file(path)
    scan, historic = lines(table)
    assert scan.startswith(f"Scan Glucose mg/dL: {NEVER} 'Record Type' is 0 ({history} rows), and filled there. ")
    assert historic.startswith(f"Historic Glucose mg/dL: {NEVER} 'Record Type' is 1 ({scans} rows), and filled there. ")


def test_the_advice_silences_the_line() -> None:
    frame = libre()
    assert lines(frame[frame["Record Type"] == 0]) == []
    assert all("Scan" not in line for line in lines(frame, features=["Historic Glucose mg/dL"]))


@pytest.mark.parametrize("as_file", [False, True])
def test_events_between_the_values_of_a_sensor(tmp_path: Path, as_file: bool) -> None:
    frame: Any = dexcom()
    n_rows = int((frame["Event Type"] != "EGV").sum())
    if as_file:
        frame.to_csv(path := tmp_path / "dexcom.csv", index=False)
        frame = read_file(path)
    (line,) = lines(frame)
    either = ("'Insulin' or 'Carbs'", "'Carbs' or 'Insulin'")
    assert any(f"'Event Type' is {events} ({n_rows} rows)" in line for events in either)


def test_event_rows_of_a_logger_are_told_once_for_all_its_sensors() -> None:
    n = 120
    event = RNG.random(n) < 0.1
    values = pd.DataFrame(RNG.normal(20, 3, (n, 2)).round(2), columns=["Temp, °C", "RH, %"])
    values.loc[event] = np.nan
    logged = ["Logged" if one else None for one in event]
    frame = pd.DataFrame({"Date Time": hours(n), **values, "Host Connected": pd.Series(logged, dtype=object)})
    (line,) = lines(frame)
    assert line.startswith(f"Temp, °C, RH, %: {NEVER} 'Host Connected' is 'Logged' ({int(event.sum())} rows)")
    assert line.endswith("before it is filled")


@pytest.mark.parametrize("name", ["Operator", "Quality Flag", "Record Type"])
def test_a_column_that_has_no_say_is_not_named(name: str) -> None:
    n = 200
    values = RNG.normal(20, 3, n).round(2)
    values[RNG.random(n) < 0.3] = np.nan
    frame = pd.DataFrame({"time": hours(n), "a": values, name: RNG.choice(["A", "B", "C"], n)})
    assert lines(frame) == []


def test_flags_that_say_why_a_value_is_missing_are_not_named() -> None:
    n = 200
    values = RNG.normal(20, 3, n).round(2)
    values[RNG.random(n) < 0.3] = np.nan
    frame = pd.DataFrame({"time": hours(n), "a": values, "a_flag": np.where(np.isnan(values), "M", "V")})
    assert lines(frame) == []


def test_stations_and_what_describes_them_are_not_named() -> None:
    n = 60
    parts = []
    for station, kind in (("S1", "traffic"), ("S2", "rural"), ("S3", "traffic")):
        values = RNG.normal(20, 3, (2, n)).round(2)
        values[:, RNG.random(n) < 0.2] = np.nan
        if station == "S2":
            values[1] = np.nan
        parts.append(pd.DataFrame({"station": station, "kind": kind, "time": hours(n), "a": values[0], "b": values[1]}))
    assert lines(pd.concat(parts, ignore_index=True), group="station") == []


@pytest.mark.parametrize(
    ("name", "of"),
    [("Hour", lambda t: t.hour), ("Weekday", lambda t: t.day_name()), ("Light", lambda t: t.hour.map(day_or_night))],
)
def test_parts_of_the_time_are_not_named(name: str, of: Any) -> None:
    n = 240
    times = hours(n)
    values = pd.Series(RNG.normal(200, 30, n).round(2))
    values[times.hour < 6] = np.nan
    frame = pd.DataFrame({"time": times, "radiation": values, "b": RNG.normal(0, 1, n), name: of(times)})
    assert lines(frame, time="time") == []


def day_or_night(hour: int) -> str:
    return "night" if hour < 6 else "day"


def test_few_rows_and_rows_with_other_names_each_are_not_named() -> None:
    n = 100
    values = RNG.normal(20, 3, n).round(2)
    values[[3, 30, 60, 90]] = np.nan
    kind = np.where(np.isnan(values), "service", "log")
    texts = [f"row {i}" for i in range(n)]
    assert lines(pd.DataFrame({"time": hours(n), "a": values, "kind": kind, "what": texts})) == []


KINDS: dict[str, tuple[Any, str]] = {
    "texts": (lambda event: [f"meal {i}" if one else "" for i, one in enumerate(event)], "holds a text"),
    "bool": (lambda event: event, "is 'True'"),
    "category": (lambda event: pd.Categorical(np.where(event, "cal", "log")), "is 'cal'"),
    "nullable": (lambda event: pd.array(np.where(event, 3, 1), dtype="Int64"), "is 3"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_any_type_and_codes_for_missing(kind: str) -> None:
    column, said = KINDS[kind]
    n = 200
    event = np.random.default_rng(1).random(n) < 0.15
    values = np.where(event, -999, RNG.normal(100, 9, n).round(1))
    (line,) = lines(pd.DataFrame({"time": hours(n), "a": values, "mode": column(event)}))
    assert f"where 'mode' {said} ({int(event.sum())} rows)" in line


def test_lists_and_complex_numbers_tell_no_rows_apart() -> None:
    frame = pd.DataFrame({"time": pd.date_range("2024-03-01", periods=40, freq="D"), "x": [1.5, 2.5] * 20})
    for column in ([["a"], ["b"]] * 20, [1j, 2.0] * 20):
        odd = frame.assign(**{"hour": pd.Series(column, dtype=object), "kind": pd.Series(column, dtype=object)})
        read = read_table(odd, ColumnSpec(features=["x"]))
        assert [feature.name for feature in read.panel.features] == ["x"]
        assert list(row_kind_warnings(read, [read.panel.series[0].observed], [0])) == []

"""Exports of loggers, networks and services: times in several columns, several tables in one file, times in columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsimpute.errors import DataError
from tsimpute.screening.kind_names import named_code
from tsimpute.tables.frames.table import Table
from tsimpute.tables.roles.columns import ColumnSpec
from tsimpute.tables.roles.wide_times import check_wide_times
from tsimpute.tables.sources.files import read_file, read_table
from tsimpute.tables.time.texts import advice_on

HOURS = pd.date_range("2024-02-20", periods=20 * 24, freq="h")
WAVE = [f"{10 + 5 * np.sin(k / 4):.1f}" for k in range(len(HOURS))]


def read(path: Path, lines: list[str], spec: ColumnSpec | None = None) -> Table:
    (path / "table.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_file(path / "table.csv", spec)


def labels(table: Table) -> np.ndarray:
    return np.concatenate([np.asarray(series.labels) for series in table.panel.series]).astype("M8[m]")


def hourly(path: Path, names: str, write, without: int = 100) -> None:
    """A table of one series: its times are those written, and the missing one is added in the form of the others."""
    rows = [f"{write(stamp)},{value}" for stamp, value in zip(HOURS, WAVE, strict=True)]
    table = read(path, [f"{names},temp", *rows[:without], *rows[without + 1 :]])
    assert len(table.panel.series) == 1
    assert (labels(table) == HOURS.to_numpy().astype("M8[m]")).all()
    assert table.panel.series[0].values.shape == (1, len(HOURS))
    assert "1 missing time inserted" in "".join(map(str, table.notes))


@pytest.mark.parametrize(
    ("names", "form"),
    [
        ("Date(dd:mm:yyyy),Time(hh:mm:ss)", "%d:%m:%Y,%H:%M:%S"),
        ("FECHA (YYMMDD),HORA (HHMM)", "%y%m%d,%H%M"),
        ("Date,Time", "%y%m%d,%H%M%S"),
        ("YYDDD,HHMM", "%y%j,%H%M"),
        ("Date,HHMM", "%Y%j,%H%M"),
        ("stamp", "%Y:%m:%d %H:%M:%S"),
    ],
)
def test_dates_of_digits_and_colons_beside_a_time_of_day_are_one_time(tmp_path: Path, names: str, form: str) -> None:
    hourly(tmp_path, names, lambda stamp: stamp.strftime(form))


def test_twelve_hours_with_a_letter_are_a_time_of_day(tmp_path: Path) -> None:
    hourly(tmp_path, "Date,Time", lambda stamp: f"{stamp:%Y-%m-%d},{stamp:%I:%M}{'a' if stamp.hour < 12 else 'p'}")


def test_hours_as_whole_numbers_of_six_digits_without_zeros(tmp_path: Path) -> None:
    rows = [f"{stamp:%y%m%d},{stamp.hour * 10000},{value}" for stamp, value in zip(HOURS, WAVE, strict=True)]
    table = read(tmp_path, ["Date,Time,temp", *rows])
    assert (labels(table) == HOURS.to_numpy().astype("M8[m]")).all()


@pytest.mark.parametrize("names", ["JD", "jd", "Julian date"])
def test_julian_dates_are_times(tmp_path: Path, names: str) -> None:
    hourly(tmp_path, names, lambda stamp: f"{stamp.to_julian_date():.5f}")


def test_nanoseconds_since_1970_are_times_and_are_written_in_full(tmp_path: Path) -> None:
    write = lambda stamp: str(int(stamp.timestamp()) * 10**9)
    hourly(tmp_path, "time", write)


@pytest.mark.parametrize("clock", ["{:%H}h{:%M}m", "{:%H}:{:%M} o'clock", "T{:%H}{:%M}"])
def test_a_time_of_day_in_another_form_is_never_the_name_of_series(tmp_path: Path, clock: str) -> None:
    rows = [f"{stamp:%Y-%m-%d},{clock.format(stamp, stamp)},{value}" for stamp, value in zip(HOURS, WAVE, strict=True)]
    with pytest.raises(DataError, match="Time"):
        read(tmp_path, ["Day,Local Time,temp", *rows])


def test_a_table_below_another_one_is_refused_with_the_line_of_its_names(tmp_path: Path) -> None:
    rows = [f"{stamp:%Y-%m-%d %H:%M},{value}" for stamp, value in zip(HOURS[:60], WAVE, strict=False)]
    wider = [f"{row},55" for row in rows[30:]]
    first = ["time,temp,hum", *(f"{row},55" for row in rows[:30])]
    with pytest.raises(DataError, match=r"line 32: .*several tables"):
        read(tmp_path, [*first, "time,temp,hum,wind", *(f"{row},3" for row in wider)])
    later = [*first, "time,hum,temp", *wider]
    with pytest.raises(DataError, match=r"line 32: .*another order"):
        read(tmp_path, later)
    with pytest.raises(DataError, match=r"line 33: .*names of columns"):
        read(tmp_path, [*later[:31], "", "date,tmin,tmax", "2024-02-20,1.0,9.0", "2024-02-21,1.2,9.1"])


def test_the_same_names_again_and_texts_between_rows_stay_as_they_are(tmp_path: Path) -> None:
    rows = [f"{stamp:%Y-%m-%d %H:%M},{value},ok" for stamp, value in zip(HOURS[:60], WAVE, strict=False)]
    table = read(tmp_path, ["time,temp,state", *rows[:30], "time,temp,state", "# remark of two", *rows[30:]])
    assert table.panel.series[0].values.shape == (1, 60)


def test_a_preamble_with_dates_is_no_table(tmp_path: Path) -> None:
    rows = [f"{stamp:%Y-%m-%d %H:%M},{value}" for stamp, value in zip(HOURS[:60], WAVE, strict=False)]
    table = read(tmp_path, ["Created,2024-05-01", "2024-02-20,first day", "2024-03-10,last day", "time,temp", *rows])
    assert table.panel.series[0].values.shape == (1, 60)


def days_in_columns(prefix: str = "", flags: bool = False) -> pd.DataFrame:
    months = pd.date_range("2023-01-01", periods=15, freq="MS")
    frame = pd.DataFrame({"STN": "A", "YEAR": months.year, "MON": months.month})
    for day in range(1, 32):
        frame[f"{prefix}{day}"] = np.where(day <= months.days_in_month, months.month * 100.0 + day, np.nan)
        if flags:
            frame[f"FLAG{day}"] = ""
    return frame


@pytest.mark.parametrize(("prefix", "flags"), [("", False), ("D", False), ("FLOW", True), ("Day ", False)])
def test_days_in_columns_are_refused_with_a_recipe_that_works(prefix: str, flags: bool) -> None:
    frame = days_in_columns(prefix, flags)
    with pytest.raises(DataError, match="days of a month in 31 columns") as error:
        read_table(frame)
    known: dict[str, object] = {"frame": frame, "pandas": pd}
    recipe = [line.strip() for line in str(error.value).splitlines() if line.startswith("  ")]
    exec("\n".join(recipe), known)
    long = known["long"]
    assert isinstance(long, pd.DataFrame)
    assert len(long) == 365 + 31 + 29 + 31  # no 30 February
    assert (long["value"] == long["time"].dt.month * 100 + long["time"].dt.day).all()
    found = read_table(long, ColumnSpec(time=["time"], features=["value"]))
    assert found.panel.series[0].values.shape == (1, len(long))


def test_columns_with_the_numbers_of_sensors_are_no_days() -> None:
    frame = days_in_columns().drop(columns=["YEAR", "MON", "STN"])
    check_wide_times(frame.assign(time=HOURS[: len(frame)]))
    check_wide_times(days_in_columns().drop(columns=["31"]))


@pytest.mark.parametrize("as_text", [True, False])
def test_times_in_columns_are_refused_with_a_recipe_that_works(as_text: bool) -> None:
    days = pd.date_range("2024-01-01", periods=40)
    frame = pd.DataFrame(np.arange(120.0).reshape(3, 40), columns=days.strftime("%d/%m/%Y") if as_text else days)
    frame.insert(0, "Station", ["a", "b", "c"])
    with pytest.raises(DataError, match="times in the names of 40 columns") as error:
        read_table(frame)
    known: dict[str, object] = {"frame": frame}
    exec(next(line.strip() for line in str(error.value).splitlines() if line.startswith("  ")), known)
    long = known["long"]
    assert isinstance(long, pd.DataFrame)
    assert len(read_table(long, ColumnSpec(time=["time"], group=["Station"])).panel.series) == 3


def test_years_in_columns_are_refused_and_months_are_not() -> None:
    years = pd.DataFrame({"Country": ["x", "y"], "Code": ["X", "Y"], **{str(y): [1.0, 2.0] for y in range(1960, 2000)}})
    with pytest.raises(DataError, match="'1960' to '1999'"):
        check_wide_times(years)
    months = pd.DataFrame({"Year": [2000, 2001], "Jan": [1.0, 2.0], "Feb": [1.0, 2.0], "Annual": [1.0, 2.0]})
    check_wide_times(months)


def test_quantities_in_rows_and_places_in_columns_are_refused() -> None:
    rows = [
        {"date": f"{stamp:%Y%m%d}", "hour": stamp.hour, "type": name, "1001A": size, "1002A": size + 1.0}
        for stamp in HOURS[:48] for name, size in (("AQI", 80.0), ("PM2.5", 50.0), ("PM2.5_24h", 51.0), ("CO", 0.5))
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    with pytest.raises(DataError, match="names of quantities") as error:
        read_table(frame)
    known: dict[str, object] = {"frame": frame}
    exec(next(line.strip() for line in str(error.value).splitlines() if line.startswith("  ")), known)
    long = known["long"]
    assert isinstance(long, pd.DataFrame)
    found = read_table(long, ColumnSpec(feature="type", value="value", group=["place"]))
    assert [feature.name for feature in found.panel.features] == ["AQI", "PM2.5", "PM2.5_24h", "CO"]
    assert len(read_table(frame, ColumnSpec(group=["type"])).panel.series) == 4


@pytest.mark.parametrize("first", ["1402/07/01", "1445-01-01"])
def test_dates_of_another_calendar_are_refused(tmp_path: Path, first: str) -> None:
    year, month = int(first[:4]), int(first[5:7])
    rows = [f"{year}{first[4]}{month + k // 28:02d}{first[4]}{1 + k % 28:02d},{WAVE[k]}" for k in range(100)]
    with pytest.raises(DataError, match="Gregorian"):
        read(tmp_path, ["date,level", *rows])
    assert len(read(tmp_path, ["date,level", *rows], ColumnSpec(time=())).panel.series) == 1


def test_a_zone_behind_am_and_pm_is_named_as_such() -> None:
    assert "name of the zone" in advice_on("05-Jan-24 12:00:00 AM EST")
    assert "write the date" in advice_on("12:00 AM")


def test_tests_of_eddy_covariance_are_codes() -> None:
    assert named_code("FC_SSITC_TEST")
    assert named_code("LE_SSITC_TEST_1_1_1")
    assert not named_code("TEST")


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        (",Temp,Wind,Wind,,,In", ["Temp Out", "Wind Speed", "Wind Run", "Bar", "Rain", "In Rain"]),
        (",Temp,Wind,,,,In", ["Temp Out", "Wind Speed", "Wind Run", "Wind Bar", "Wind Rain", "In Rain"]),
    ],
)
def test_a_name_that_stands_twice_side_by_side_carries_on_to_no_column(
    tmp_path: Path, above: str, expected: list[str]
) -> None:
    """WeatherLink writes a word above each name that has one; merged cells of a sheet stand over several names."""
    rows = [f"{stamp:%Y-%m-%d %H:%M},{value}{',1.5' * 5}" for stamp, value in zip(HOURS, WAVE, strict=True)]
    table = read(tmp_path, [above, "Date,Out,Speed,Run,Bar,Rain,Rain", *rows])
    assert [feature.name for feature in table.panel.features] == expected

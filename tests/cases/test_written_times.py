"""Times as people write them, in files: each is read, and written in added rows in its own form, or refused by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.frames.table import Edits, FrameTable
from tsimpute.tables.roles.columns import ColumnSpec
from tsimpute.tables.sources.files import read_file, read_table

HOURS = pd.date_range("2024-02-28 00:00", periods=60, freq="h")
HOUR, DAY, DAY_ZERO = pd.Timedelta(hours=1), pd.Timedelta(days=1), pd.Timestamp("1899-12-30")
GAP = slice(30, 33)
"""Rows that are left out of every file: their times are to be found and written again."""


def rows_of(write: Callable[[pd.Timestamp], Sequence[object]], times: pd.DatetimeIndex = HOURS) -> list[list[str]]:
    return [[str(item) for item in write(time)] for time in times]


def text_of(names: str, rows: Sequence[Sequence[str]], sep: str = ",") -> str:
    values = [f"{20 + 5 * np.sin(k / 4):.1f}" if k % 7 else "" for k in range(len(rows))]
    lines = [sep.join([*row, value]) for row, value in zip(rows, values, strict=True)]
    return "\n".join([sep.join([*names.split(","), "load"]), *lines]) + "\n"


def read(folder: Path, text: str, **spec: Any) -> FrameTable:
    path = folder / "in.csv"
    path.write_text(text, encoding="utf-8")
    table = read_file(path, ColumnSpec(**spec))
    assert isinstance(table, FrameTable)
    return table


def added(table: FrameTable) -> list[tuple[str, ...]]:
    """The fields of the rows that are added, without the value."""
    panel = table.panel
    filled = table.apply(
        Edits([np.isnan(s.values) for s in panel.series], [np.zeros_like(s.values) for s in panel.series])
    )
    return [row.fields[:-1] for row in filled.insertions]


def check(folder: Path, names: str, rows: list[list[str]], times: pd.DatetimeIndex = HOURS, sep: str = ",") -> None:
    """The times are these, the load is the only feature, and rows that are left out are added as they stood."""
    table = read(folder, text_of(names, rows[: GAP.start] + rows[GAP.stop :], sep))
    assert [feature.name for feature in table.panel.features] == ["load"]
    labels = np.concatenate([series.labels for series in table.panel.series])
    assert labels.astype("M8[us]").tolist() == times.to_numpy().astype("M8[us]").tolist()
    assert added(table) == [tuple(row) for row in rows[GAP]]


def before(time: pd.Timestamp) -> Any:
    """A time whose date is that of the hour before: midnight belongs to the day that ends."""
    return time - HOUR


PARTED = {
    "date and hour": ("date,hour", lambda t: (f"{t:%Y-%m-%d}", t.hour)),
    "hour with zeros": ("Date,Hour", lambda t: (f"{t:%d.%m.%Y}", f"{t:%H}")),
    "hours 1 to 24": ("DATE,HE", lambda t: (f"{before(t):%m/%d/%Y}", before(t).hour + 1)),
    "HHMM as a number": ("date,time", lambda t: (f"{t:%Y%m%d}", t.hour * 100)),
    "HHMM with zeros": ("datum,hhmm", lambda t: (f"{t:%Y-%m-%d}", f"{t:%H%M}")),
    "HHMM up to 2400": ("Date,Time", lambda t: (f"{before(t):%Y-%m-%d}", (t.hour or 24) * 100)),
    "HHMMSS": ("date,time", lambda t: (f"{t:%Y%m%d}", f"{t:%H%M%S}")),
    "12 hours with seconds": ("Date,Time", lambda t: (f"{t:%m/%d/%Y}", f"{t:%I:%M:%S %p}")),
    "12 hours": ("Day,Hour", lambda t: (f"{t:%Y-%m-%d}", f"{t:%I %p}".lstrip("0"))),
    "AM and PM in a column": ("Date,Hour,AM/PM", lambda t: (f"{t:%Y-%m-%d}", (t.hour - 1) % 12 + 1, f"{t:%p}")),
    "halves of the day": ("date,time,half", lambda t: (f"{t:%Y-%m-%d}", f"{t:%I:%M}", ("a.m.", "p.m.")[t.hour // 12])),
    "parts and halves": (
        "Year,Month,Day,Hour,ap", lambda t: (t.year, t.month, t.day, (t.hour - 1) % 12 + 1, ("am", "pm")[t.hour // 12])
    ),
    "names of another language": ("Fecha,Hora", lambda t: (f"{t:%d/%m/%Y}", f"{t:%H:%M}")),
    "parts in French": ("Année,Mois,Jour,Heure", lambda t: (t.year, t.month, t.day, t.hour)),
    "parts in Japanese": ("年,月,日,時", lambda t: (t.year, t.month, t.day, t.hour)),
    "parts in Korean": ("년,월,일,시", lambda t: (t.year, t.month, t.day, t.hour)),
    "HHMM with its zone": ("Data,Hora UTC", lambda t: (f"{t:%Y/%m/%d}", f"{t:%H%M UTC}")),
    "a date with midnight": ("date,hour", lambda t: (f"{t:%Y-%m-%d} 00:00:00", t.hour)),
    "an hour before its date": ("hour,date", lambda t: (t.hour, f"{t:%Y-%m-%d}")),
    "date, hour and minute": ("Date,Hour,Minute", lambda t: (f"{t:%Y-%m-%d}", t.hour, 0)),
    "zone in the names": ("Date (UTC),Hour (UTC)", lambda t: (f"{t:%Y-%m-%d}", t.hour)),
    "year to hour": ("year,month,day,hour", lambda t: (t.year, t.month, t.day, t.hour)),
    "short names": ("YEAR,MO,DY,HR", lambda t: (t.year, t.month, t.day, t.hour)),
    "year to hour 24": ("Year,Month,Day,Hour", lambda t: (*before(t).timetuple()[:3], t.hour or 24)),
    "MM and mm": ("YY,MM,DD,hh,mm", lambda t: (f"{t:%y}", f"{t:%m}", f"{t:%d}", f"{t:%H}", "00")),
    "a data logger": ("Year_RTM,Day_RTM,Hour_Minute_RTM", lambda t: (t.year, t.day_of_year, t.hour * 100)),
    "a data logger up to 2400": (
        "YEAR,Julian Day,Time", lambda t: (before(t).year, before(t).day_of_year, (t.hour or 24) * 100)
    ),
    "day of the year with decimals": ("Year,DOY", lambda t: (t.year, f"{t.day_of_year + t.hour / 24:.4f}")),
    "a minute that is always 0": ("Year,Month,Day,Hour,Min", lambda t: (t.year, t.month, t.day, t.hour, 0)),
    "parts in another order": ("Month,Day,Year,Time", lambda t: (t.month, t.day, t.year, f"{t:%H:%M}")),
    "names of months": ("Year,Month,Day,Hour", lambda t: (t.year, f"{t:%b}", t.day, t.hour)),
}  # fmt: skip


@pytest.mark.parametrize("kind", PARTED)
@pytest.mark.parametrize("sep", [",", ";"])
def test_a_time_in_several_columns_is_read_and_written_again(kind: str, sep: str, tmp_path: Path) -> None:
    names, write = PARTED[kind]
    check(tmp_path, names, rows_of(write), sep=sep)


ALONE = {
    "seconds since 1970": ("timestamp", lambda t: (int(t.timestamp()),)),
    "seconds with decimals": ("epoch", lambda t: (f"{t.timestamp():.1f}",)),
    "milliseconds since 1970": ("ts", lambda t: (int(t.timestamp() * 1000),)),
    "serial days of a workbook": ("Date Time", lambda t: (f"{(t - DAY_ZERO) / DAY:.4f}",)),
    "yyyymmddHH": ("MESS_DATUM", lambda t: (f"{t:%Y%m%d%H}",)),
    "yyyymmddHHMM": ("TIMESTAMP", lambda t: (f"{t:%Y%m%d%H%M}",)),
    "UTC": ("time", lambda t: (f"{t:%Y-%m-%dT%H:%M:%SZ}",)),
    "day, month, year": ("Zeit", lambda t: (f"{t:%d.%m.%Y %H:%M}",)),
    "day of the week": ("time", lambda t: (f"{t:%a %Y-%m-%d %H:%M}",)),
    "as C writes it": ("time", lambda t: (f"{t:%a %b %d %H:%M:%S %Y}",)),
    "day of the year": ("when", lambda t: (f"{t:%Y-%jT%H:%M}",)),
    "stamps and parts": ("time,yr,mo,dy,hr", lambda t: (f"{t:%Y-%m-%d %H:%M}", t.year, t.month, t.day, t.hour)),
    "start, end": ("TIMESTAMP_START,TIMESTAMP_END", lambda t: (f"{t:%Y%m%d%H%M}", f"{t + HOUR:%Y%m%d%H%M}")),
    "milliseconds of open and close": (
        "Open time,Close time", lambda t: (int(t.timestamp() * 1000), int(t.timestamp() * 1000) + 3_599_999)
    ),
    "date and its end": ("start_date,end_date,hour", lambda t: (f"{t:%Y-%m-%d}", f"{t + DAY:%Y-%m-%d}", t.hour)),
    "end before start": ("bis,von", lambda t: (f"{t + HOUR:%d.%m.%Y %H:%M}", f"{t:%d.%m.%Y %H:%M}")),
}  # fmt: skip


@pytest.mark.parametrize("kind", ALONE)
def test_a_column_of_stamps_is_read_and_every_other_one_is_written_too(kind: str, tmp_path: Path) -> None:
    names, write = ALONE[kind]
    check(tmp_path, names, rows_of(write))


def test_stamps_in_quotes_with_commas_are_read(tmp_path: Path) -> None:
    check_rows = rows_of(lambda t: (f"{t:%b %d, %Y %I:%M %p}",))
    table = read(tmp_path, text_of("when", [[f'"{row[0]}"'] for row in check_rows]))
    assert table.panel.series[0].labels.tolist() == HOURS.to_numpy().astype("M8[us]").tolist()


DATED = {
    "year and month": ("Year,Month", "MS", lambda t: (t.year, t.month)),
    "month as a name": ("Year,Month", "MS", lambda t: (t.year, f"{t:%B}")),
    "yyyymm": ("date", "MS", lambda t: (f"{t:%Y%m}",)),
    "yyyymm, whatever its name": ("obs", "MS", lambda t: (f"{t:%Y%m}",)),
    "year-month": ("month", "MS", lambda t: (f"{t:%Y-%m}",)),
    "month/year": ("Month", "MS", lambda t: (f"{t.month}/{t.year}",)),
    "month.year": ("time", "MS", lambda t: (f"{t:%m.%Y}",)),
    "month.year without zeros": ("time", "MS", lambda t: (f"{t.month}.{t.year}",)),
    "month.year of a Monat": ("Monat", "MS", lambda t: (f"{t.month}.{t.year}",)),
    "month.year, whatever its name": ("obs", "MS", lambda t: (f"{t:%m.%Y}",)),
    "month-year": ("time", "MS", lambda t: (f"{t:%m-%Y}",)),
    "year.month of a time": ("time", "MS", lambda t: (f"{t:%Y.%m}",)),
    "year.month": ("date", "MS", lambda t: (f"{t:%Y.%m}",)),
    "decimal years": ("decimal_date", "MS", lambda t: (f"{t.year + (t.month - 1) / 12:.4f}",)),
    "middles of months": ("Year", "MS", lambda t: (f"{t.year + (t.month - 0.5) / 12:.3f}",)),
    "first and last day": ("start,end", "MS", lambda t: (f"{t:%Y-%m-%d}", f"{t + pd.offsets.MonthEnd():%Y-%m-%d}")),
    "year and quarter": ("year,quarter", "QS", lambda t: (t.year, t.quarter)),
    "quarter": ("quarter", "QS", lambda t: (f"{t.year}Q{t.quarter}",)),
    "quarter with a sign": ("period", "QS", lambda t: (f"{t.year}-Q{t.quarter}",)),
    "quarter first": ("period", "QS", lambda t: (f"Q{t.quarter} {t.year}",)),
    "year": ("Year", "YS", lambda t: (t.year,)),
    "year as a date": ("Date", "YS", lambda t: (t.year,)),
    "ISO week": ("week", "W-MON", lambda t: (f"{t:%G-W%V}",)),
    "ISO day of the week": ("date", "D", lambda t: (f"{t:%G-W%V-%u}",)),
    "year and week": ("Year,Week", "W-MON", lambda t: (int(f"{t:%G}"), int(f"{t:%V}"))),
    "yyyyww": ("epiweek", "W-MON", lambda t: (f"{t:%G%V}",)),
    "yyyyjjj": ("date", "D", lambda t: (f"{t:%Y%j}",)),
    "yyyymmdd, whatever its name": ("YEARMODA", "D", lambda t: (f"{t:%Y%m%d}",)),
    "serial days of a workbook": ("Date", "D", lambda t: ((t - DAY_ZERO).days,)),
}


@pytest.mark.parametrize("kind", DATED)
def test_days_weeks_months_quarters_and_years_are_read_and_written_again(kind: str, tmp_path: Path) -> None:
    names, freq, write = DATED[kind]
    times = pd.date_range("1999-11-01", periods=60, freq=freq)
    check(tmp_path, names, rows_of(write, times), times)


def test_months_with_a_point_are_read_beside_decimal_commas_and_in_groups(tmp_path: Path) -> None:
    times = pd.date_range("1999-11-01", periods=60, freq="MS")
    rows = [[f"{t:%m.%Y}", f"{k},5" if k % 5 else ""] for k, t in enumerate(times)]
    table = read(tmp_path, "\n".join(["Monat;Wert", *map(";".join, rows)]))
    assert table.panel.series[0].labels.astype("M8[us]").tolist() == times.to_numpy().astype("M8[us]").tolist()
    grouped = [[s, f"{t.month}.{t.year}", f"{t.year / 100}"] for s in "AB" for t in times]
    table = read(tmp_path, "\n".join(["station,time,load", *map(",".join, grouped)]))
    assert [len(series.times) for series in table.panel.series] == [60, 60]
    assert [feature.name for feature in table.panel.features] == ["load"]


@pytest.mark.parametrize("name", ["time", "Monat"])
def test_one_month_that_cannot_be_is_named_with_its_line(name: str, tmp_path: Path) -> None:
    rows = rows_of(lambda t: (f"{t:%m.%Y}",), pd.date_range("1999-11-01", periods=60, freq="MS"))
    rows[7] = ["13.2000"]
    with pytest.raises(DataError, match=r"line 9: expected a date .* such as '11\.1999', came '13\.2000'"):
        read(tmp_path, text_of(name, rows))


@pytest.mark.parametrize("name", ["time", "month", "date"])
def test_months_that_were_read_as_numbers_are_months(name: str) -> None:
    times = pd.date_range("1999-11-01", periods=60, freq="MS")
    frame = pd.DataFrame({name: [t.month + t.year / 10_000 for t in times], "load": np.sin(np.arange(60.0))})
    table = read_table(frame.drop(index=30).round(4))
    assert table.panel.series[0].labels.astype("M8[us]").tolist() == times.to_numpy().astype("M8[us]").tolist()
    assert table.n_added == 1


@pytest.mark.parametrize(
    "numbers",
    [
        [f"{1.1990 + k / 10_000:.4f}" for k in range(60)],  # seconds to four decimals
        [f"{k + 0.2020:.4f}" for k in range(60)],
        [f"{1 + k / 5:.4f}" for k in range(60)],
        [f"{2000 + k / 100:.2f}" for k in range(60)],
    ],
)
def test_a_time_in_decimal_numbers_stays_one(numbers: list[str], tmp_path: Path) -> None:
    table = read(tmp_path, text_of("time", [[number] for number in numbers]))
    assert "times are numbers" in table.notes
    assert table.panel.series[0].labels.tolist() == pytest.approx([float(number) for number in numbers])


def test_values_that_look_like_months_stay_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = [f"{rng.integers(1, 13)}.{rng.integers(1950, 2040)}" for _ in HOURS]
    table = read(tmp_path, text_of("time,pH", [[f"{t:%Y-%m-%d %H:%M}", v] for t, v in zip(HOURS, values, strict=True)]))
    assert [feature.name for feature in table.panel.features] == ["pH", "load"]
    assert table.panel.series[0].values[0].tolist() == list(map(float, values))


def test_hours_of_several_stations_are_series_of_their_own(tmp_path: Path) -> None:
    rows = [[s, *row] for s in ("A", "B") for row in rows_of(lambda t: (f"{t:%Y-%m-%d}", t.hour))]
    table = read(tmp_path, text_of("station,date,hour", rows))
    assert [series.name for series in table.panel.series] == ["A", "B"]
    assert [len(series.times) for series in table.panel.series] == [60, 60]


def test_years_of_several_countries_are_series_of_their_own(tmp_path: Path) -> None:
    rows = [[country, str(year)] for country in ("FR", "DE") for year in range(1950, 2000)]
    table = read(tmp_path, text_of("country,year", rows))
    assert [series.name for series in table.panel.series] == ["FR", "DE"]


def test_a_daily_table_with_columns_named_as_short_parts_keeps_them_as_features(tmp_path: Path) -> None:
    days = pd.date_range("2024-01-01", periods=60)
    rows = [[str(d.year), str(d.month), str(d.day), str(60 + k % 30), str(k % 9)] for k, d in enumerate(days)]
    table = read(tmp_path, text_of("year,month,day,hr,min", rows))
    assert [feature.name for feature in table.panel.features] == ["hr", "min", "load"]
    assert len(table.panel.series[0].times) == 60


def test_the_date_of_a_life_is_not_the_time(tmp_path: Path) -> None:
    rows = [[str(p), f"1950-03-0{p}", str(h)] for p in (1, 2, 3) for h in range(20)]
    table = read(tmp_path, text_of("patient,dob,time", rows))
    assert [len(series.times) for series in table.panel.series] == [20, 20, 20]
    assert table.panel.series[0].times.tolist() == list(range(20))


STAMPS = rows_of(lambda t: (f"{t:%Y-%m-%d %H:%M}",))


@pytest.mark.parametrize(
    ("odd", "advice"),
    [
        ("2024-02-2910:00", "such as '2024-02-28 00:00', came '2024-02-2910:00'; correct it, or take the row out"),
        ("Mean", "this looks like a summary of the table .* take the row out"),
        ("NA", "came 'NA'; correct it, or take the row out"),
        ("2024-02-29 02:00 A", r"the hour that comes twice in autumn.*name the time zone \(timezone\)"),
        ("2024-02-30 02:00", "came '2024-02-30 02:00'"),
    ],
)
def test_one_stamp_that_cannot_be_read_is_named_with_its_line(odd: str, advice: str, tmp_path: Path) -> None:
    rows = [*STAMPS[:40], [odd], *STAMPS[41:]]
    with pytest.raises(DataError, match=f"in.csv: time column 'time', line 42: expected a date or time.*{advice}"):
        read(tmp_path, text_of("time", rows))


@pytest.mark.parametrize("name", ["date", "TIMESTAMP_START"])
def test_one_stamp_amid_numbers_is_named_as_a_stamp(name: str, tmp_path: Path) -> None:
    rows = rows_of(lambda t: (f"{t:%Y%m%d%H%M}",))
    with pytest.raises(DataError, match=f"time column '{name}', line 42: .* such as '202402280000', came '29.2.24'"):
        read(tmp_path, text_of(name, [*rows[:40], ["29.2.24"], *rows[41:]]))


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("Zeit", lambda t: (f"T+{t.hour}",), "column 'Zeit' looks like a time .* came 'T\\+0' in line 2"),
        ("Datum", lambda t: (f"{t.day}. März {t.year}",), "'März' is no English name of a month"),
        ("quand", lambda t: (f"{t.day} février {t.year}",), "'février' is no English name of a month"),
        ("FY", lambda t: (f"FY{2000 + t.hour}",), "looks like a fiscal year"),
        ("season", lambda t: (f"{1990 + t.hour}/{(1991 + t.hour) % 100:02d}",), "looks like a fiscal year"),
        ("month", lambda t: (t.hour % 12 + 1,), "whole parts of it from the year on .* found month"),
        ("time", lambda t: (f"{t:%Y-%m-%d %H:%M} CEST",), r"take the name of the zone off .* \(timezone\)"),
        ("Sample Date", lambda t: ("some day",), "column 'Sample Date' looks like a time"),
    ],
)
def test_what_looks_like_a_time_and_cannot_be_read_is_refused_and_may_be_no_time(
    name: str, write: Callable[[pd.Timestamp], Sequence[object]], message: str, tmp_path: Path
) -> None:
    text = text_of(name, rows_of(write))
    with pytest.raises(DataError, match=rf"{message}.*time=\(\)"):
        read(tmp_path, text)
    table = read(tmp_path, text, time=())
    assert len(table.panel.series[0].times) == 60
    assert [feature.name for feature in table.panel.features] == ["load"]


@pytest.mark.parametrize(
    ("names", "write", "message"),
    [
        ("Date,Time", lambda t: (f"{t:%Y-%m-%d}", f"{t:%H}:00-{t + HOUR:%H}:00"), "'Time': expected hours such"),
        ("Date,Hour", lambda t: (f"{t:%Y-%m-%d}", f"H{t.hour + 1}"), "'Hour': expected hours .* came 'H1' in line 2"),
        ("Date,Hour", lambda t: (f"{t:%Y-%m-%d}", f"{t:%H}-{t.hour + 1:02d}"), "hours with their ends such as '00-01'"),
        ("Date,Interval", lambda t: (f"{t:%Y-%m-%d}", t.hour + 1), "'Interval': counts from 1 up within each date"),
        ("local,utc", lambda t: (f"{t:%Y-%m-%d %H:%M}",) * 2, r"found local, utc. Name it \(time\)"),
    ],
)  # fmt: skip
def test_hours_that_cannot_be_read_are_no_names_of_series(
    names: str, write: Callable[[pd.Timestamp], Sequence[object]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, text_of(names, rows_of(write)))


def test_a_repeated_time_names_the_column_that_tells_the_rows_apart_and_throws_none_away(tmp_path: Path) -> None:
    hourly = text_of("date,hour", rows_of(lambda t: (f"{t:%Y-%m-%d}", t.hour)))
    with pytest.raises(
        DataError, match=r"57 rows repeat one.*'hour' tells these rows apart.*\(--time date,hour\)"
    ) as e:
        read(tmp_path, hourly, time=["date"])
    assert "duplicates" not in str(e.value)
    twice = text_of("time,instrument", [[*row, i] for row in STAMPS for i in ("CAPS", "chemiluminescence")])
    with pytest.raises(DataError, match=r"60 rows repeat one.*'instrument' tells .*\(--group instrument\)") as e:
        read(tmp_path, twice, group=())
    assert "duplicates" not in str(e.value)
    with pytest.raises(DataError, match=r"Name the columns that tell these rows apart.* would leave 3 of 60 rows"):
        read(tmp_path, text_of("date", rows_of(lambda t: (f"{t:%Y-%m-%d}",))))


def test_one_hour_doubled_beside_a_missing_one_is_no_session_of_its_own(tmp_path: Path) -> None:
    """Two rows of March 2015 as the US embassy in Beijing wrote them: labels of 03:00 twice, hours of 2 and 3."""
    rows = rows_of(lambda t: (f"{t:%Y-%m-%d %H:%M}", t.year, t.month, t.day, t.hour))
    rows[26][0], rows[50][4] = rows[27][0], "3"
    with pytest.raises(DataError, match=r"1 row repeats one.*duplicates='first'") as e:
        read(tmp_path, text_of("Date (LST),Year,Month,Day,Hour", rows))
    assert "session" not in str(e.value)


@pytest.mark.parametrize(
    ("missing", "zone"),
    [
        ("2024-03-31 02:00", "Europe/Berlin"), ("2024-03-31 01:00", "Europe/London"),
        ("2015-03-09 02:00", "America/New_York"),  # a day late: the clock of an instrument in Beijing
        ("2024-01-17 02:00", None), ("2024-07-10 02:00", None), ("2024-03-31 14:00", None), ("2024-11-20 03:00", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("n_series", [1, 2])
def test_daylight_saving_is_named_only_where_the_calendar_has_a_change(
    missing: str, zone: str | None, n_series: int, tmp_path: Path
) -> None:
    absent = pd.Timestamp(missing)
    times = pd.date_range(absent - 20 * HOUR, periods=60, freq="h")
    written = [time + HOUR * int(time == absent) for time in times]
    rows = [[f"{time:%Y-%m-%d %H:%M}", str(n)] for n in range(n_series) for time in written]
    expected = (
        "one of the two rows may be meant for it" if zone is None else f"as in {zone}, .*change of daylight saving time"
    )
    with pytest.raises(DataError, match=rf"The time beside it, {missing}, is missing: .*{expected}\. Correct") as e:
        read(tmp_path, text_of("time,station", rows), group=("station",))
    assert ("daylight" in str(e.value)) == (zone is not None)


def test_offsets_from_utc_leave_no_change_of_clocks(tmp_path: Path) -> None:
    times = [
        time + HOUR * int(n == 20) for n, time in enumerate(pd.date_range("2024-03-30 06:00", periods=60, freq="h"))
    ]
    with pytest.raises(DataError, match=r"2024-03-31 02:00, is missing: one of the two rows") as e:
        read(tmp_path, text_of("time", [[f"{time:%Y-%m-%dT%H:%M}+00:00"] for time in times]))
    assert "daylight" not in str(e.value)


def test_times_that_are_written_in_two_ways_are_said_to_be(tmp_path: Path) -> None:
    rows = rows_of(lambda t: (f"{t:%Y-%m-%d %H:%M}" if t.hour else f"{t:%Y-%m-%d}",))
    notes = read(tmp_path, text_of("time", rows[: GAP.start] + rows[GAP.stop :])).notes
    assert any("more than one way: '2024-02-28' would be '2024-02-28 00:00' in an added row" in note for note in notes)
    notes = read(tmp_path, text_of("time", STAMPS[: GAP.start] + STAMPS[GAP.stop :])).notes
    assert not any("more than one way" in note for note in notes)


@pytest.mark.parametrize(
    ("names", "write", "message"),
    [
        ("year,month,day,hour", lambda t, odd: (t.year, 13 if odd else t.month, t.day, t.hour), "'month', .* came 13"),
        ("date,hour", lambda t, odd: (f"{t:%Y-%m-%d}", 25 if odd else t.hour), "'hour', .* from 0 to 24, came 25"),
        ("date,hour", lambda t, odd: (f"{t:%Y-%m-%d}", "x" if odd else t.hour), "'hour', .* came 'x'"),
        ("Year,Month,Day,Hour", lambda t, odd: (t.year, t.month, "" if odd else t.day, t.hour), "'Day', .* nothing"),
        ("year,month,day,hour", lambda t, odd: (t.year, t.month, 30 if odd else t.day, t.hour), ".* month 2, day 30"),
    ],
)  # fmt: skip
def test_one_part_that_cannot_be_is_named_with_its_line(
    names: str, write: Callable[[pd.Timestamp, bool], Sequence[object]], message: str, tmp_path: Path
) -> None:
    rows = [[str(item) for item in write(time, k == 40)] for k, time in enumerate(HOURS)]
    with pytest.raises(DataError, match=message.replace(".*", "line 42: .*")):
        read(tmp_path, text_of(names, rows))


def test_notes_say_how_numbers_are_read(tmp_path: Path) -> None:
    for kind, words in (("seconds since 1970", "seconds since 1970-01-01 UTC"), ("serial days of a workbook", "Excel")):
        names, write = ALONE[kind]
        assert any(words in note for note in read(tmp_path, text_of(names, rows_of(write))).notes)
    names, write = ALONE["start, end"]
    notes = read(tmp_path, text_of(names, rows_of(write))).notes
    assert "TIMESTAMP_START: the start of each interval is its time; TIMESTAMP_END: its end" in notes


def test_digits_that_are_written_in_two_ways_are_refused(tmp_path: Path) -> None:
    rows = rows_of(lambda t: (f"{t:%Y-%m-%d}", f"{t:%H}" if t.day == 28 else t.hour))
    with pytest.raises(DataError, match="expected 2 digits as in '00', came '0'; write all rows in one form"):
        read(tmp_path, text_of("date,hour", rows))


def test_a_frame_gets_rows_whose_parts_have_the_dtypes_of_their_columns() -> None:
    frame = pd.DataFrame(
        {
            "date": HOURS.normalize(),
            "hour": HOURS.hour.astype("int8"),
            "end": HOURS + HOUR,
            "year": pd.array(HOURS.year, dtype="Int64"),
            "load": np.arange(60.0),
        }
    )
    table = read_table(frame.drop(index=[30, 31]).reset_index(drop=True))
    panel = table.panel
    filled = table.apply(
        Edits([np.isnan(s.values) for s in panel.series], [np.full_like(s.values, 0) for s in panel.series])
    )
    frame.loc[[30, 31], "load"] = 0.0
    pd.testing.assert_frame_equal(filled, frame)


@pytest.mark.parametrize(
    ("names", "write"),
    [
        ("时间", lambda time: [f"{time:%Y}年{time:%m}月{time:%d}日 {time:%H}时"]),
        ("时间", lambda time: [f"{time:%Y}年{time.month}月{time.day}日{time.hour}时{time:%M}分"]),
        ("日期,时间", lambda time: [f"{time:%Y}年{time:%m}月{time:%d}日", f"{time.hour}时"]),
        ("日期,时间", lambda time: [f"{time:%Y}年{time:%m}月{time:%d}日", f"{time:%H:%M}"]),
    ],
)
def test_dates_and_hours_in_chinese(tmp_path: Path, names: str, write: Callable[[pd.Timestamp], list[str]]) -> None:
    check(tmp_path, names, rows_of(write))


def test_a_column_of_dates_in_two_forms_is_refused_by_name(tmp_path: Path) -> None:
    rows = rows_of(lambda time: [f"{time:%d.%m.%Y %H:%M}" if time.hour % 2 else f"{time:%Y-%m-%d %H:%M}"])
    words = "mixes two forms: .* came '2024-02-28 00:00' in line 2 and '28.02.2024 01:00' in line 3. Write all of them"
    with pytest.raises(DataError, match=words):
        read(tmp_path, text_of("time", rows))


def test_a_column_of_times_among_the_features_is_called_so(tmp_path: Path) -> None:
    text = text_of("time", rows_of(lambda time: [f"{time:%Y-%m-%d %H:%M}"]))
    with pytest.raises(ConfigError, match="features: expected columns of numbers, 'time' holds times"):
        read(tmp_path, text, features=["load", "time"])

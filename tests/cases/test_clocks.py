"""Clocks of files as people write them: which missing times become rows, which do not, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsimpute.errors import DataError
from tsimpute.filling.files.fill_file import fill_file
from tsimpute.tables.frames.frames import TimeOptions
from tsimpute.tables.frames.table import FrameTable
from tsimpute.tables.sources.files import read_file

DAYS = pd.date_range("2024-01-01", "2024-03-31", freq="D")
WORKING = DAYS[DAYS.day_of_week < 5]
HOURS = pd.date_range("2024-01-01", "2024-02-11 23:00", freq="h")


@pytest.fixture
def reading_of(tmp_path: Path) -> Callable[..., FrameTable]:
    """What a file of one or more times, in one form, was understood to be."""

    def read(when: pd.DatetimeIndex, form: str = "%Y-%m-%d %H:%M", sep: str = ",", **clock: object) -> FrameTable:
        path = tmp_path / "in.csv"
        values = 10 + np.sin(np.arange(len(when)) / 7).round(2)
        frame = pd.DataFrame({"date": when.strftime(form), "a": values, "b": 2 * values})
        frame.to_csv(path, index=False, sep=sep)
        table = read_file(path, None, TimeOptions(**clock))  # type: ignore[arg-type]
        assert isinstance(table, FrameTable)
        return table

    return read


def added(reading: FrameTable) -> list[str]:
    alignment = reading.alignment
    return [
        str(label.astype("M8[m]")).replace("T", " ")
        for labels, inserted in zip(alignment.labels, alignment.inserted, strict=True)
        for label in labels[inserted]
    ]


def said(reading: FrameTable) -> str:
    return "\n".join((*reading.alignment.notes, *reading.alignment.warnings))


@pytest.mark.parametrize(("form", "sep"), [("%Y-%m-%d", ","), ("%d.%m.%Y", ";"), ("%m/%d/%Y", ","), ("%Y%m%d", "\t")])
def test_a_table_of_working_days_gets_no_weekend(reading_of, form: str, sep: str) -> None:
    gone = [pd.Timestamp("2024-01-17"), pd.Timestamp("2024-02-09")]
    reading = reading_of(WORKING.drop(gone), form, sep)
    assert added(reading) == ["2024-01-17 00:00", "2024-02-09 00:00"]
    assert reading.alignment.step_text == "1 working day"
    assert "no row on Saturday or Sunday" in said(reading)
    assert added(reading_of(WORKING, form, sep)) == []


def test_a_filled_file_of_working_days_has_the_rows_that_it_had(tmp_path: Path) -> None:
    values = [f"{10 + k % 5 / 4:.2f}" if k % 9 else "" for k in range(len(WORKING))]
    lines = [f"{day:%d.%m.%Y};{value}" for day, value in zip(WORKING, values, strict=True)]
    (tmp_path / "in.csv").write_text("\n".join(["Datum;Kurs", *lines]) + "\n")
    settings = {"effort": "trial", "n_samples": 3, "calibrate": False}
    assert fill_file(tmp_path / "in.csv", tmp_path / "out.csv", settings) is not None
    filled = (tmp_path / "out.csv").read_text().splitlines()[1:]
    assert [line.split(";")[0] for line in filled] == [line.split(";")[0] for line in lines]
    assert [new for new, old in zip(filled, lines, strict=True) if not old.endswith(";")] == [
        old for old in lines if not old.endswith(";")
    ]
    assert not any(line.endswith(";") for line in filled)


def test_rows_of_weekends_are_added_where_they_are_asked_for(reading_of) -> None:
    reading = reading_of(WORKING, "%Y-%m-%d", missing_times="insert")
    assert len(added(reading)) == len(DAYS) - len(WORKING) - 2  # the last Saturday and Sunday end no series


def test_newest_first_is_no_matter(reading_of) -> None:
    assert added(reading_of(WORKING[::-1], "%Y-%m-%d")) == []


@pytest.mark.parametrize(
    ("closed", "name"), [([4, 5], "Friday or Saturday"), ([6], "Sunday"), ([5, 6], "Saturday or Sunday")]
)
def test_other_weekends_are_closed_too(reading_of, closed: list[int], name: str) -> None:
    reading = reading_of(DAYS[~DAYS.day_of_week.isin(closed)], "%Y-%m-%d")
    assert added(reading) == []
    assert f"no row on {name}" in said(reading)


def test_some_saturdays_among_working_days_stay_and_no_other_is_added(reading_of) -> None:
    days = WORKING.union(pd.DatetimeIndex(["2024-01-20", "2024-03-02"]))
    assert added(reading_of(days, "%Y-%m-%d")) == []


def test_public_holidays_of_working_days_are_named_and_not_added(reading_of) -> None:
    closed = pd.DatetimeIndex(["2024-01-15", "2024-02-19", "2024-03-29", "2024-03-13"])
    reading = reading_of(WORKING.difference(closed), "%Y-%m-%d")
    assert "public holidays" in said(reading)
    assert added(reading) == ["2024-03-13 00:00"]


def test_a_holiday_among_many_missing_days_is_one_of_them(reading_of) -> None:
    days = pd.bdate_range("2023-01-02", "2023-12-29")
    kept = np.random.default_rng(0).random(len(days)) > 0.4
    kept[[0, -1]] = True
    assert len(added(reading_of(days[kept], "%Y-%m-%d"))) == (~kept).sum()


def test_two_weeks_of_working_days_are_enough(reading_of) -> None:
    assert added(reading_of(WORKING[2:9], "%Y-%m-%d")) == []


def test_a_day_missing_once_in_a_daily_table_is_added(reading_of) -> None:
    assert added(reading_of(DAYS.difference(pd.DatetimeIndex(["2024-02-10"])), "%Y-%m-%d")) == ["2024-02-10 00:00"]


def test_hours_of_offices_and_sessions_stay_theirs(reading_of) -> None:
    office = HOURS[(HOURS.hour >= 8) & (HOURS.hour <= 17) & (HOURS.day_of_week < 5)]
    gone = [pd.Timestamp("2024-01-10 11:00"), pd.Timestamp("2024-02-01 16:00")]
    reading = reading_of(office.drop(gone))
    assert added(reading) == ["2024-01-10 11:00", "2024-02-01 16:00"]
    assert "no row at 18:00 to 07:00" in said(reading)


@pytest.mark.parametrize("freq", ["10min", "h"])
def test_two_nights_are_enough_where_nothing_else_is_missing(reading_of, freq: str) -> None:
    times = pd.date_range("2024-01-01", "2024-01-03 23:50", freq=freq)
    reading = reading_of(times[(times.hour >= 8) & (times.hour < 18)])
    assert added(reading) == []
    assert "no row at 18:00 to 07:" in said(reading)


def test_five_minutes_of_an_exchange_get_no_night(reading_of) -> None:
    minutes = pd.date_range("2024-01-08", "2024-02-02", freq="5min")
    of_day = minutes.hour * 60 + minutes.minute
    session = minutes[(of_day >= 570) & (of_day < 960) & (minutes.day_of_week < 5)]
    reading = reading_of(session.delete([5]))
    assert added(reading) == ["2024-01-08 09:55"]


def test_sessions_of_a_zone_in_utc_begin_an_hour_earlier_in_summer_and_get_no_empty_hour(reading_of) -> None:
    local = pd.date_range("2024-02-19", "2024-04-05", freq="15min", tz="America/New_York")
    of_day = local.hour * 60 + local.minute
    session = local[(of_day >= 570) & (of_day < 960) & (local.day_of_week < 5)].tz_convert("UTC")
    reading = reading_of(session.delete([30, 31]), "%Y-%m-%dT%H:%M:%SZ")
    assert added(reading) == [f"{time:%Y-%m-%d %H:%M}" for time in session[[30, 31]]]


def test_rows_of_daylight_alone_get_no_nights_that_grow_with_the_season(reading_of) -> None:
    times = pd.date_range("2024-01-01", "2024-06-30", freq="30min")
    half = 6 + 2.5 * np.sin((times.day_of_year - 80) / 365 * 2 * np.pi)
    light = times[np.abs(times.hour + times.minute / 60 - 12) < half]
    found = added(reading_of(light.difference(pd.DatetimeIndex(["2024-03-03 12:00"]))))
    assert "2024-03-03 12:00" in found
    assert len(found) <= 0.002 * len(light)


def test_hours_of_observers_are_a_clock_with_pauses(reading_of) -> None:
    when = HOURS[HOURS.hour.isin([7, 14, 21])]
    reading = reading_of(when.delete([7, 50]))
    assert added(reading) == [f"{time:%Y-%m-%d %H:%M}" for time in when[[7, 50]]]
    assert reading.alignment.step == 1.0
    assert "no row at 08:00 to 13:00, 15:00 to 20:00, 22:00 to 06:00" in said(reading)


def test_some_days_of_the_week_are_a_clock_with_pauses(reading_of) -> None:
    days = DAYS[DAYS.day_of_week.isin([0, 2, 4])]
    reading = reading_of(days.delete(5), "%Y-%m-%d")
    assert added(reading) == [f"{days[5]:%Y-%m-%d} 00:00"]
    assert "no row on Tuesday, Thursday, Saturday or Sunday" in said(reading)
    assert reading.alignment.step_text == "1 day"


def test_days_at_random_are_irregular(reading_of) -> None:
    for seed in range(5):
        gaps = np.random.default_rng(seed).permutation(np.arange(120) % 11 + 1)
        days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.cumsum(gaps), unit="D")
        reading = reading_of(days, "%Y-%m-%d")
        assert (reading.alignment.step, added(reading)) == (None, [])


def test_series_keep_calendars_of_their_own(tmp_path: Path) -> None:
    frame = pd.concat([
        pd.DataFrame({"site": "A", "date": DAYS.delete(40), "x": 1.5}),
        pd.DataFrame({"site": "B", "date": WORKING.delete(20), "x": 2.5}),
    ])  # fmt: skip
    frame.to_csv(tmp_path / "in.csv", index=False)
    table = read_file(tmp_path / "in.csv")
    assert isinstance(table, FrameTable)
    assert added(table) == [f"{DAYS[40]:%Y-%m-%d} 00:00", f"{WORKING[20]:%Y-%m-%d} 00:00"]
    assert "no row on Saturday or Sunday in 1 of 2 series" in said(table)


@pytest.mark.parametrize("share", [0.2, 0.45])
def test_hours_missing_at_random_are_all_added(reading_of, share: float) -> None:
    for seed in range(5):
        kept = np.random.default_rng(seed).random(len(HOURS)) >= share
        kept[[0, -1]] = True
        assert len(added(reading_of(HOURS[kept]))) == (~kept).sum()


@pytest.mark.parametrize(
    ("freq", "form", "text"),
    [
        ("MS", "%Y-%m", "1 month"), ("MS", "%Y-%m-%d", "1 month"), ("ME", "%d/%m/%Y", "1 month"),
        ("QS", "%Y-%m-%d", "3 months"), ("QE", "%Y-%m-%d", "3 months"), ("YS", "%Y-%m-%d", "1 year"),
        ("W-SUN", "%Y-%m-%d", "7 days"), ("BME", "%Y-%m-%d", "1 month"), ("BMS", "%d.%m.%Y", "1 month"),
    ],
)  # fmt: skip
def test_missing_months_quarters_years_and_weeks_are_seen_and_added(
    reading_of, freq: str, form: str, text: str
) -> None:
    dates = pd.date_range("1990-01-01", periods=48, freq=freq)
    reading = reading_of(dates.delete([13, 14, 30]), form)
    assert added(reading) == [f"{date:%Y-%m-%d} 00:00" for date in dates[[13, 14, 30]]]
    assert reading.alignment.step_text == text


@pytest.mark.parametrize("day", [15, 28, 29, 30, 31])
def test_the_same_day_of_each_month_or_the_last_one_of_shorter_months(reading_of, day: int) -> None:
    months = pd.date_range("2015-01-01", periods=60, freq="MS")
    dates = months + pd.to_timedelta(np.minimum(day, months.days_in_month) - 1, unit="D")
    reading = reading_of(dates.delete([1, 20]), "%Y-%m-%d")
    assert added(reading) == [f"{date:%Y-%m-%d} 00:00" for date in dates[[1, 20]]]


def test_the_last_trading_days_of_months_may_lie_before_a_holiday(reading_of) -> None:
    dates = pd.date_range("2018-01-01", periods=80, freq="BME")
    dates = dates.where(~dates.isin(pd.DatetimeIndex(["2018-03-30", "2024-03-29"])), dates - pd.Timedelta("1D"))
    assert added(reading_of(dates.delete(40), "%Y-%m-%d")) == [f"{dates[40]:%Y-%m-%d} 00:00"]


def test_months_outside_of_a_season_are_not_missing(reading_of) -> None:
    months = pd.date_range("2010-01-01", periods=96, freq="MS")
    season = months[months.month.isin([5, 6, 7, 8, 9])].difference(pd.DatetimeIndex(["2013-07-01"]))
    reading = reading_of(season, "%Y-%m-%d")
    assert added(reading) == ["2013-07-01 00:00"]
    assert "no row in January to April, October to December" in said(reading)


SKIPPED = [
    ("2024-03-31 02:00", "1h", "Europe/Berlin"), ("2024-03-31 01:00", "1h", "Europe/London"),
    ("2024-03-31 03:00", "1h", "Europe/Helsinki"), ("2024-03-10 02:00", "1h", "America/New_York"),
    ("2023-10-01 02:00", "1h", "Australia/Sydney"), ("2023-10-01 02:00", "30min", "Australia/Lord_Howe"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "length", "zone"), SKIPPED)
@pytest.mark.parametrize("freq", ["h", "30min", "15min", "10min"])
def test_the_hour_that_clocks_skip_is_not_added_and_its_zone_is_named(
    reading_of, first: str, length: str, zone: str, freq: str
) -> None:
    if pd.Timedelta(length) < pd.Timedelta("1h") and freq == "h":
        return
    start = pd.Timestamp(first)
    when = pd.date_range(start - pd.Timedelta("26h"), start + pd.Timedelta("30h"), freq=freq)
    gone = (when >= start) & (when < start + pd.Timedelta(length))
    reading = reading_of(when[~gone])
    assert added(reading) == []
    (warning,) = reading.alignment.warnings
    assert f"timezone='{zone}' (--timezone {zone})" in warning
    assert len(added(reading_of(when[~gone], missing_times="insert"))) == np.count_nonzero(gone)
    assert added(reading_of(when[~gone], timezone=zone)) == []


def test_the_skipped_hour_within_a_longer_gap_is_not_added_either(reading_of) -> None:
    when = pd.date_range("2024-03-29", "2024-04-02", freq="30min")
    gone = (when >= pd.Timestamp("2024-03-31 02:00")) & (when < pd.Timestamp("2024-03-31 05:00"))
    reading = reading_of(when[~gone])
    assert added(reading) == [f"2024-03-31 {hour}" for hour in ("03:00", "03:30", "04:00", "04:30")]
    assert "2 times (first: 2024-03-31 02:00): clocks go forward" in reading.alignment.warnings[0]
    long = (when >= pd.Timestamp("2024-03-30 02:00")) & (when < pd.Timestamp("2024-03-31 05:00"))
    assert len(added(reading_of(when[~long]))) == np.count_nonzero(long)


@pytest.mark.parametrize("form", ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+0000"])
def test_an_hour_missing_in_utc_is_added(reading_of, form: str) -> None:
    when = pd.date_range("2024-03-30", "2024-04-01", freq="h")
    assert added(reading_of(when.difference(pd.DatetimeIndex(["2024-03-31 02:00"])), form)) == ["2024-03-31 02:00"]


def test_an_hour_missing_where_the_spring_of_another_year_has_it_is_added(reading_of) -> None:
    when = pd.date_range("2023-03-20", "2024-04-05", freq="h")
    gone = pd.DatetimeIndex(["2024-03-31 02:00"])
    assert added(reading_of(when.difference(gone))) == ["2024-03-31 02:00"]


def test_years_of_8760_hours_have_no_leap_day(reading_of) -> None:
    hours = pd.date_range("2023-12-01", "2024-04-05", freq="h")
    leap = (hours.month == 2) & (hours.day == 29)
    reading = reading_of(hours[~leap])
    assert added(reading) == []
    assert "every 29 February is absent" in said(reading)


@pytest.mark.parametrize("other", ["20min", "1min", "45min"])
def test_instruments_that_take_turns_get_no_fine_grid(reading_of, other: str) -> None:
    one = pd.date_range("2024-01-01", periods=120, freq="h")
    both = one.union(one + pd.Timedelta(other))
    reading = reading_of(both)
    assert added(reading) == []
    assert "name the column that tells them apart (group, --group)" in said(reading)


def test_two_instruments_of_different_steps_in_one_column_get_no_common_grid(reading_of) -> None:
    one, other = (
        pd.date_range(f"2024-01-01 00:0{at}", periods=n, freq=f) for at, n, f in ((0, 144, "10min"), (5, 96, "15min"))
    )
    reading = reading_of(one.union(other))
    assert added(reading) == []
    assert "no row at minute 15, 25, 45, 55 of an hour" in said(reading)
    assert "if several instruments take turns" in said(reading)


def test_times_of_change_are_not_put_on_a_grid_of_empty_rows(reading_of) -> None:
    steps = np.random.default_rng(0).choice([1, 2, 3, 5, 8, 13], 300, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.cumsum(steps), unit="min")
    with pytest.raises(DataError, match=r"expected no more missing times than .*irregular=True .*'insert'"):
        reading_of(when)
    assert added(reading_of(when, irregular=True)) == added(reading_of(when, missing_times="keep")) == []


def test_a_clock_that_was_reset_is_refused_with_its_longest_gap(reading_of) -> None:
    reset = pd.date_range("2000-01-01", periods=12, freq="5min")
    when = reset.append(pd.date_range("2024-05-01", periods=300, freq="5min"))
    with pytest.raises(DataError, match=r"its longest gap is 2000-01-01 00:55 to 2024-05-01"):
        reading_of(when)


AUTUMN = [("Europe/Brussels", "2023-10-28"), ("America/New_York", "2024-11-02"), ("Australia/Sydney", "2024-04-06")]


@pytest.mark.parametrize(("zone", "start"), AUTUMN)
@pytest.mark.parametrize("freq", ["h", "30min", "15min"])
@pytest.mark.parametrize("order", ["by time", "by label"])
def test_the_doubled_hour_is_read_in_the_order_of_time_or_of_labels(
    reading_of, zone: str, start: str, freq: str, order: str
) -> None:
    instants = pd.date_range(start, periods=48 * {"h": 1, "30min": 2, "15min": 4}[freq], freq=freq, tz=zone)
    wall = instants.tz_localize(None)
    by_label = np.argsort(wall.to_numpy(), kind="stable") if order == "by label" else np.arange(len(wall))
    reading = reading_of(wall[by_label], timezone=zone)
    assert reading.stamps is not None
    assert (reading.stamps.moments == instants.tz_convert("UTC").as_unit("us").asi8[by_label]).all()
    assert added(reading) == []
    with pytest.raises(DataError, match=r"Clocks go back at that time, as in .*timezone='\w+/\w+' \(--timezone"):
        reading_of(wall[by_label])


def test_one_of_a_pair_that_is_missing_counts_as_summer_time_and_the_other_is_added(reading_of) -> None:
    wall = pd.date_range("2023-10-29", periods=48, freq="15min", tz="Europe/Brussels").tz_localize(None).sort_values()
    lone = int(np.flatnonzero(wall == pd.Timestamp("2023-10-29 02:15"))[1])
    reading = reading_of(wall.delete(lone), timezone="Europe/Brussels")
    assert added(reading) == ["2023-10-29 02:15"]
    assert reading.stamps is not None
    assert "times in the hour that autumn doubles, of which the table has but one, count as the first: 1" in (
        "\n".join(reading.stamps.notes)
    )

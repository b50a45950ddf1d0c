"""Time columns of every kind are read as true instants, and new times are written in the form of the column."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.time.columns import looks_like_time
from tsimpute.tables.time.numbers import decimals_of
from tsimpute.tables.time.stamps import Stamps, label_text, read_stamps

HOUR = 3_600_000_000


def read(*columns: object, **settings: object) -> Stamps:
    """Stamps of columns given as lists, series or indexes."""
    return read_stamps([c if isinstance(c, pd.Series | pd.Index) else pd.Series(c) for c in columns], **settings)


def instants(*texts: str) -> list[int]:
    return [pd.Timestamp(text).tz_convert("UTC").tz_localize(None).as_unit("us")._value for text in texts]


FORMS = [
    ["2014-05-01 23:00", "2014-05-02 01:00"],
    ["2014-05-01T23:00:00", "2014-05-02T01:00:00"],
    ["2014/05/01 23:00:00", "2014/05/02 01:00:00"],
    ["20140501T230000", "20140502T010000"],
    ["2014-05-01 23h00", "2014-05-02 01h00"],
    ["01.05.2014 23:00", "13.05.2014 01:00"],
    ["1/5/2014 23:00", "13/5/2014 1:00"],
    ["5/1/2014 11:00 PM", "5/13/2014 1:00 AM"],
    ["05/01/2014 11.00 p.m.", "05/13/2014 01.00 a.m."],
    ["01/05/99 23:00", "31/05/99 01:00"],
    ["99-05-01 23:00", "99-05-31 01:00"],
    ["01-May-2014 23:00", "02-May-2014 01:00"],
    ["01-MAY-14 23:00", "02-MAY-14 01:00"],
    ["May 1, 2014 11:00 PM", "May 2, 2014 1:00 AM"],
    ["January 1, 2014", "February 12, 2014"],
    ["01/May/2014:23:00:00 +0200", "02/May/2014:01:00:00 +0200"],
    ["2014-05-01T23:00:00Z", "2014-05-02T01:00:00Z"],
    ["2014-05-01 23:00:00+00:00", "2014-05-02 01:00:00+00:00"],
    ["2014-05-01T23:00:00.250+02", "2014-05-02T01:00:00.500-03"],
    ["2014-05-01 23:00 UTC", "2014-05-02 01:00 UTC"],
    ["2014-05-01", "2014-05-02"],
    ["2014-05", "2014-06"],
    ["5/2014", "12/2014"],
    ["2014Q2", "2014Q4"],
    ["Q2-2014", "Q1-2015"],
    ["2014-W18", "2015-W53"],
    ["2014W181", "2014W527"],
    ["2014-121T23:00", "2016-366T01:00"],
    ["Thu, 01 May 2014 23:00:00 +0000", "Fri, 02 May 2014 01:00:00 +0000"],
    ["Thu May 01 23:00:00 2014", "Fri May 02 01:00:00 2014"],
    ["May 2014", "June 2014"],
    ["Apr 2014", "Jun 2014"],
    ["1/5/2014 24:00", "13/5/2014 1:00"],
    ["1 may 2014 9:05", "12 may 2014 23:00"],
    ["2014-05-01 23:00:00,123456", "2014-05-02 01:00:00,000001"],
    ["00:07", "47:37"],
    ["0:07:30", "47:37:00"],
]


@pytest.mark.parametrize("texts", FORMS, ids=lambda texts: texts[1])
def test_texts_come_back_as_they_were_written(texts: list[str]) -> None:
    stamps = read(texts)
    assert stamps.texts(stamps.moments) == [(text,) for text in texts]
    assert stamps.values(stamps.moments)[0].tolist() == texts


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2014-05-01T23:00:00Z", "2014-05-01 23:00Z"),
        ("2014-05-01T23:00+02", "2014-05-01 21:00Z"),
        ("2014-05-01 23:00-0330", "2014-05-02 02:30Z"),
        ("2014-05-01 24:00", "2014-05-02 00:00Z"),
        ("31/12/2014 12:30 AM", "2014-12-31 00:30Z"),
        ("31/12/2014 12:30 PM", "2014-12-31 12:30Z"),
        ("2014-05-01 23:00:00.123456", "2014-05-01 23:00:00.123456Z"),
        ("31-12-68", "2068-12-31 00:00Z"),
        ("31-12-69", "1969-12-31 00:00Z"),
        ("2014-12", "2014-12-01 00:00Z"),
        ("2014Q4", "2014-10-01 00:00Z"),
        ("2015-W01-1", "2014-12-29 00:00Z"),
        ("2016-060", "2016-02-29 00:00Z"),
    ],
)
def test_a_text_means_this_instant(text: str, instant: str) -> None:
    stamps = read([text])
    assert stamps.moments.tolist() == instants(instant)
    assert stamps.ticks[0] == pytest.approx(stamps.moments[0] / HOUR, abs=1e-9)
    assert stamps.unit == "hours"


def test_each_text_is_read_in_its_own_format_and_new_ones_have_the_fullest() -> None:
    texts = ["2014-05-01", "2014-05-01T12:00", "2014-05-01 12:00:30.5", "2014-05-01 12:00:30.25", "1 PM"]
    stamps = read(texts[:4])
    assert np.diff(stamps.moments).tolist() == [12 * HOUR, 30_500_000, -250_000]
    assert stamps.texts(stamps.moments[:1]) == [("2014-05-01 00:00:00.00",)]
    with pytest.raises(DataError, match=r"row 4: .*came '1 PM'"):
        read(texts)


def test_padded_and_unpadded_numbers_are_the_same_dates() -> None:
    stamps = read(["01/02/2014", "1/2/2014 3:00", "13/2/2014 14:00"])
    assert [label_text(label) for label in stamps.labels] == [
        "2014-02-01 00:00", "2014-02-01 03:00", "2014-02-13 14:00"
    ]  # fmt: skip
    assert stamps.texts(stamps.moments[1:]) == [("1/2/2014 3:00",), ("13/2/2014 14:00",)]


def test_labels_are_the_wall_clock_and_moments_the_instant() -> None:
    stamps = read(["2014-05-01 02:00+02:00", "2014-05-01 01:00+00:00"])
    assert (np.diff(stamps.moments) == HOUR).all()
    assert [str(label) for label in stamps.labels] == ["2014-05-01T02:00:00.000000", "2014-05-01T01:00:00.000000"]


def test_new_rows_of_mixed_offsets_take_that_of_the_row_before_them() -> None:
    stamps = read(["2014-05-01T02:00+02", "2014-05-01T04:00+01"])
    assert stamps.texts(stamps.moments + HOUR) == [("2014-05-01T03:00+02",), ("2014-05-01T05:00+01",)]


@pytest.mark.parametrize(
    ("dates", "clocks", "wall"),
    [
        (["10/03/2004", "31/03/2004"], ["18.00.00", "19.00.00"], "2004-03-31 19:00"),
        (["2004-03-10", "2004-03-31"], ["06:00 PM", "07:30 PM"], "2004-03-31 19:30"),
        ([20040310, 20040331], [1800, 130], "2004-03-31 01:30"),
        (["20040310", "20040331"], [1, 24], "2004-04-01 00:00"),
        ([dt.date(2004, 3, 10), dt.date(2004, 3, 31)], [dt.time(18), dt.time(19)], "2004-03-31 19:00"),
    ],
)
def test_a_date_and_a_time_of_day_make_one_time_in_either_order(dates: list, clocks: list, wall: str) -> None:
    forward, backward = read(dates, clocks), read(clocks, dates)
    assert label_text(forward.labels[1]) == wall
    assert (forward.moments == backward.moments).all()
    assert [v.tolist() for v in forward.values(forward.moments)] == [dates, clocks]
    assert [v.tolist() for v in backward.values(backward.moments)] == [clocks, dates]


def test_air_quality_dates_are_day_first_and_come_back_letter_for_letter(data_root: Path) -> None:
    table = pd.read_csv(data_root / "air_quality" / "AirQualityUCI.csv", sep=";", decimal=",").dropna(how="all")
    stamps = read(table["Date"], table["Time"])
    assert (label_text(stamps.labels[0]), label_text(stamps.labels[-1])) == ("2004-03-10 18:00", "2005-04-04 14:00")
    assert (np.diff(stamps.moments) == HOUR).all()
    assert stamps.texts(stamps.moments) == list(zip(table["Date"], table["Time"], strict=True))
    times = [name for name in table if looks_like_time(table[name])]
    assert times == ["Date", "Time"]


def test_a_day_above_twelve_anywhere_decides_the_order() -> None:
    assert label_text(read(["01/02/2014", "13/02/2014"]).labels[0]) == "2014-02-01 00:00"
    assert label_text(read(["01/02/2014", "01/13/2014"]).labels[0]) == "2014-01-02 00:00"


def test_the_regular_order_of_rows_decides_where_no_day_is_above_twelve() -> None:
    hours = pd.date_range("2014-03-10", periods=72, freq="h")
    assert (read(hours.strftime("%d/%m/%Y %H:%M")).labels == hours.to_numpy().astype("M8[us]")).all()
    assert (read(hours.strftime("%m/%d/%Y %H:%M")).labels == hours.to_numpy().astype("M8[us]")).all()


def test_dates_that_fit_both_orders_are_refused_and_the_option_is_named() -> None:
    texts = [f"03/04/2014 {hour:02d}:00" for hour in range(5)]
    with pytest.raises(DataError, match=r"'03/04/2014 00:00' .*day/month/year and month/day/year.*dayfirst=True"):
        read(texts)
    assert label_text(read(texts, dayfirst=True).labels[0]) == "2014-04-03 00:00"
    assert label_text(read(texts, dayfirst=False).labels[0]) == "2014-03-04 00:00"


def test_a_year_of_months_written_day_first_is_not_taken_for_twelve_days_in_january() -> None:
    with pytest.raises(DataError, match="both fit"):
        read([f"01/{month:02d}/2014" for month in range(1, 13)])


def test_an_order_that_some_row_contradicts_is_refused() -> None:
    with pytest.raises(ConfigError, match="dayfirst=False"):
        read(["13/02/2014", "14/02/2014"], dayfirst=False)
    with pytest.raises(DataError, match=r"'02/13/2014' \(row 1\) is no day/month/year"):
        read(["13/02/2014", "02/13/2014"])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["2014-05-01", ""], "1 have none, the first is row 1"),
        (["2014-05-01", None], "1 have none, the first is row 1"),
        (["2014-05-01", "  ", None], "2 have none, the first is row 1"),
        (["2014-05-01", "2014-05-02", "yesterday"], "row 2: .*such as '2014-05-01', came 'yesterday'"),
        (["2014-05-01", "2014-02-30"], "row 1: .*came '2014-02-30'"),
        (["2014-05-01 01:00", "2014-05-01 25:00"], "row 1: .*came '2014-05-01 25:00'"),
        (["2014-05-01 01:00", "2014-05-01 24:30"], "row 1: .*24:30"),
        (["2014-05-01 13:00 PM"], "row 0: .*13:00 PM"),
        (["2014Q1", "2014Q5"], "row 1: .*2014Q5"),
        (["2014-W52", "2014-W53"], "row 1: .*2014-W53"),
        (["2014-365", "2014-366"], "row 1: .*2014-366"),
        (["Fri 2014-05-02", "Fri 2014-05-03"], "row 1: .*Fri 2014-05-03"),
        (["2009/10", "2010/11", "2011/12"], "'2009/10', '2010/11', which look like fiscal years"),
        (["2014-05-01 01:00Z", "2014-05-01 02:00"], "UTC offset in every row or in none.*row 1"),
        ([1.0, np.inf], "row 1: expected a finite number, came inf"),
        (["1.5", "1e999"], "row 1: expected a finite number"),
        ([1.0, np.nan], "1 have none, the first is row 1"),
        ([True, False], "true and false"),
        (["2014-05-01", 7], "row 1: .*came 7 of type int"),
        ([], "at least one row"),
    ],
)
def test_a_stamp_that_cannot_be_read_is_refused_with_its_row(texts: list, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(pd.Series(texts, dtype=None if texts and not isinstance(texts[-1], str) else object))


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2014-05-01", periods=5, freq="h"),
        pd.date_range("2014-05-01", periods=5, freq="h", unit="s", tz="Asia/Kathmandu"),
        pd.date_range("2015-10-25", periods=5, freq="h", unit="ns", tz="Europe/Rome"),
        pd.period_range("2014-05", periods=5, freq="M"),
        pd.timedelta_range("1h", periods=5, freq="30min"),
        pd.Index([dt.date(2014, 5, day) for day in range(1, 6)]),
        pd.Index([20140501, 20140502, 20140630]),
        pd.Index([1, 2, 5], dtype="int32"),
        pd.Index([0.25, 0.5, 7.0]),
        pd.Index(["0,25", "0,50", "7,00"]),
        pd.Index([1_398_898_800_000_000_001, 1_398_898_800_000_000_002]),
    ],
    ids=lambda index: f"{index.dtype} {index[0]}",
)
def test_values_come_back_equal_in_the_dtype_and_zone_of_the_column(index: pd.Index) -> None:
    stamps = read(index.rename("when"))
    pd.testing.assert_series_equal(stamps.values(stamps.moments)[0], pd.Series(index, name="when"))


def test_numbers_stay_numbers() -> None:
    stamps = read([1_398_898_800, 1_398_902_400])
    assert stamps.unit == ""
    assert stamps.ticks.tolist() == stamps.labels.tolist() == [1_398_898_800, 1_398_902_400]


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["0.", "1.", "3."], [0.0, 1.0, 3.0]),
        ([".5", "1.", "2"], [0.5, 1.0, 2.0]),
        (["1e1", "20"], [10.0, 20.0]),
        (["9" * 18, "1" + "0" * 18], [float(10**18), float(10**18)]),
        (["1" + "0" * 30], [1e30]),
        (["+7", "-8"], [7, -8]),
    ],
)
def test_texts_of_numbers_are_read_as_the_numbers_they_are(texts: list[str], numbers: list[float]) -> None:
    assert read(texts).labels.tolist() == numbers


def test_a_duration_counts_in_hours_from_the_start() -> None:
    stamps = read(["00:00", "47:30"])
    assert (stamps.unit, stamps.ticks.tolist(), stamps.labels.tolist()) == ("hours", [0.0, 47.5], [0.0, 47.5])


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("minutes", [60, 10])
def test_the_doubled_autumn_hour_is_told_by_the_order_of_rows(backward: bool, minutes: int) -> None:
    zoned = pd.date_range("2015-10-24 12:00", "2015-10-26", freq=f"{minutes}min", tz="Europe/Rome")
    zoned = zoned[::-1] if backward else zoned
    stamps = read(zoned.tz_localize(None), timezone="Europe/Rome")
    assert (stamps.moments == read(zoned).moments).all()


def test_each_series_tells_its_own_autumn_hours_apart() -> None:
    zoned = pd.date_range("2015-10-25", periods=6, freq="h", tz="Europe/Rome")
    both = zoned.repeat(2)  # two series, their rows in turns
    stamps = read(both.tz_localize(None), timezone="Europe/Rome", series_of_row=np.tile([0, 1], 6))
    assert (stamps.moments == read(both).moments).all()


def test_an_autumn_hour_that_comes_once_counts_as_the_first_and_is_said() -> None:
    stamps = read(["2015-10-25 01:00", "2015-10-25 02:00", "2015-10-25 03:00"], timezone="Europe/Rome")
    assert np.diff(stamps.moments).tolist() == [HOUR, 2 * HOUR]
    assert any("count as the first: 1" in note for note in stamps.notes)


def test_unordered_rows_cannot_tell_the_autumn_hours_apart() -> None:
    wall = pd.date_range("2015-10-25", periods=9, freq="h", tz="Europe/Rome").tz_localize(None)
    with pytest.raises(DataError, match="2015-10-25 02:00:00 comes twice"):
        read(wall[[7, 0, 2, 4, 3, 1, 5, 6, 8]], timezone="Europe/Rome")


def test_an_hour_that_spring_leaves_out_is_refused() -> None:
    with pytest.raises(DataError, match="row 1: 2015-03-29 02:00:00 does not exist in Europe/Rome"):
        read(["2015-03-29 01:00", "2015-03-29 02:00"], timezone="Europe/Rome")


def test_a_zone_that_does_not_exist_or_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="Europe/Rmoe"):
        read(["2015-03-29 01:00"], timezone="Europe/Rmoe")
    with pytest.raises(ConfigError, match="UTC offsets of their own"):
        read(["2015-03-29 01:00Z"], timezone="Europe/Rome")
    with pytest.raises(ConfigError, match="numbers"):
        read([1, 2], timezone="Europe/Rome")
    assert read(["2015-07-01 01:00+02:00"], timezone="Europe/Rome").moments.tolist() == instants("2015-06-30 23:00Z")


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (["2014-05-01", ""], True),
        (["01/02/2014", None], True),
        (["18.00.00", "19.00.00"], True),
        (["00:07", "47:37"], True),
        (pd.Series(pd.to_datetime(["2014-05-01", None])), True),
        (pd.Series(pd.period_range("2014", periods=2, freq="Y")), True),
        ([dt.date(2014, 5, 1)], True),
        (["1360", "2015"], False),
        (["20140501"], False),
        ([20140501], False),
        (["2,6", "1,5"], False),
        (["12.30"], False),
        (["2014-05-01", "BETR801"], False),
        (["2014-02-30"], False),
        (["12-34-5", "1-2"], False),
        ([None, ""], False),
        ([], False),
    ],
)
def test_what_looks_like_a_time(column: object, expected: bool) -> None:
    assert looks_like_time(column if isinstance(column, pd.Series) else pd.Series(column, dtype=object)) is expected


WALL = st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2068, 12, 31)).map(lambda at: at.replace(microsecond=0))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(WALL, min_size=1, max_size=8),
    st.sampled_from(
        [
            "%Y-%m-%d %H:%M:%S",
            "%Y-%jT%H:%M:%S",
            "%a %d %b %Y %H:%M:%S",
            "%Y%m%dT%H%M%S",
            "%d.%m.%y %H.%M.%S",
            "%m/%d/%Y %I:%M:%S %p",
            "%d %b %Y %H-%M-%S",
        ]
    ),
)
def test_what_a_format_writes_is_read_back(walls: list[dt.datetime], form: str) -> None:
    texts = [wall.strftime(form) for wall in walls]
    first = {"%d.": True, "%m/": False}.get(form[:3])
    stamps = read(texts, dayfirst=first)
    assert stamps.labels.tolist() == walls
    assert stamps.texts(stamps.moments) == [(text,) for text in texts]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(alphabet="0123456789-/:. TZapm", max_size=14), min_size=1, max_size=4))
def test_any_text_is_read_or_refused(texts: list[str]) -> None:
    looks_like_time(pd.Series(texts, dtype=object))
    try:
        stamps = read(pd.Series(texts, dtype=object))
    except DataError:
        return
    assert len(stamps.texts(stamps.moments)) == len(texts)


def test_numbers_too_large_for_times_are_looked_at_without_a_warning() -> None:
    numbers = pd.Series([1e308, 0.5, 1.25, -1e300])
    decimals = decimals_of(numbers)
    assert decimals is not None
    assert decimals.decimals == 2
    assert not looks_like_time(numbers)


@pytest.mark.parametrize("hour", ["{t.hour}:00", "{t.hour:02d}:00", "{half} AM", "{half:02d}:00:00 AM"])
@pytest.mark.parametrize("date", ["{t.day:02d}.{t.month}.{t.year}", "{t.day}.{t.month:02d}.{t.year}",
                                  "{t.year}/{t.month}/{t.day:02d}", "{t.day:02d}/{t.month:02d}/{t.year}"])  # fmt: skip
def test_each_number_of_a_time_is_padded_or_not_as_it_likes(date: str, hour: str) -> None:
    times = [t for t in pd.date_range("2024-09-28", periods=24 * 8, freq="h") if t.hour < 12 or "AM" not in hour]
    texts = [f"{date} {hour}".format(t=t, half=t.hour or 12) for t in times]
    stamps = read(texts)
    assert [pd.Timestamp(label) for label in stamps.labels] == times

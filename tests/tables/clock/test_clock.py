"""Every row finds its place in its series, and what a regular clock lacks is inserted, counted and marked."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.clock.clock import RowAlignment, align_rows
from tsimpute.tables.clock.steps import step_text
from tsimpute.tables.time.stamps import Stamps, label_text, read_stamps

HOUR = 3_600_000_000


def placed(when: object, series: list[int] | np.ndarray | None = None, **settings: object) -> RowAlignment:
    """The rows of one time column; series 0 unless told."""
    stamps = read_stamps([when if isinstance(when, pd.Series | pd.Index) else pd.Series(when)])
    return at(stamps, series, **settings)


def at(stamps: Stamps, series: list[int] | np.ndarray | None = None, **settings: object) -> RowAlignment:
    owner = np.zeros(len(stamps.moments), np.int64) if series is None else np.asarray(series)
    return align_rows(stamps, owner, int(owner.max()) + 1, **settings)


def hours(*counts: float) -> pd.DatetimeIndex:
    return pd.Timestamp("2015-01-01") + pd.to_timedelta(np.array(counts) * 3600.0, unit="s")


def labels(alignment: RowAlignment, series: int = 0) -> list[str]:
    return [label_text(label) for label in alignment.labels[series]]


def said(alignment: RowAlignment, words: str) -> bool:
    return any(words in note for note in alignment.notes)


def air_quality(data_root: Path, name: str, **settings: object) -> pd.DataFrame:
    return pd.read_csv(data_root / "air_quality" / name, **settings).dropna(how="all")  # type: ignore[call-overload]


def test_air_quality_is_hourly_without_a_missing_hour(data_root: Path) -> None:
    table = air_quality(data_root, "AirQualityUCI.csv", sep=";", decimal=",")
    alignment = at(read_stamps([table["Date"], table["Time"]]))
    assert alignment.step == 1.0
    assert (alignment.times[0] == np.arange(9357)).all()
    assert (alignment.step_of_row == np.arange(9357)).all()
    assert not alignment.inserted[0].any()


def test_the_spring_night_of_the_embassy_file_is_refused_by_name_and_resolved_by_policy(data_root: Path) -> None:
    when = air_quality(data_root, "us_embassy_beijing_2015.csv", skiprows=3)["Date (LST)"]
    with pytest.raises(DataError, match=r"2015-03-09 03:00, rows 1610 and 1611\. .*daylight saving time.*'first'"):
        placed(when)
    alignment = placed(when, duplicates="last")
    assert np.flatnonzero(~alignment.used).tolist() == [1610]
    assert [label_text(label) for label in alignment.labels[0][alignment.inserted[0]]] == ["2015-03-09 02:00"]
    assert alignment.step_of_row[1610] == alignment.step_of_row[1611]
    assert said(alignment, "1 row repeats")


def test_the_long_table_of_two_stations_is_hourly_though_one_is_daily_for_weeks(data_root: Path) -> None:
    table = air_quality(data_root, "openaq_no2_long.csv")
    series, names = pd.factorize(table["location"])
    alignment = at(read_stamps([table["date.utc"]]), series, feature_of_row=pd.factorize(table["parameter"])[0])
    assert (names.tolist(), alignment.step) == (["BETR801", "London Westminster"], 1.0)
    assert [int((~new).sum()) for new in alignment.inserted] == [101, 1009]
    assert [len(times) for times in alignment.times] == [1014, 1080]
    assert said(alignment, "newest first")


def test_missing_hours_are_inserted_marked_and_counted() -> None:
    alignment = placed(hours(0, 1, 4, 5))
    assert alignment.times[0].tolist() == [0, 1, 2, 3, 4, 5]
    assert alignment.inserted[0].tolist() == [False, False, True, True, False, False]
    assert alignment.step_of_row.tolist() == [0, 1, 4, 5]
    assert labels(alignment)[2] == "2015-01-01 02:00"
    assert said(
        alignment, "2 missing times inserted, beside 4 that are there (first: 2015-01-01 02:00, 2015-01-01 03:00)"
    )


def test_keeping_the_times_inserts_none_and_keeps_the_gap() -> None:
    alignment = placed(hours(0, 1, 4, 5), missing_times="keep")
    assert alignment.times[0].tolist() == [0, 1, 4, 5]
    assert (alignment.step, alignment.inserted[0].any()) == (1.0, False)


def test_series_begin_and_end_where_their_own_rows_do() -> None:
    alignment = placed(hours(5, 0, 2, 8, 1, 9), [1, 0, 0, 1, 0, 1])
    assert [times.tolist() for times in alignment.times] == [[0, 1, 2], [0, 1, 2, 3, 4]]
    assert alignment.step_of_row.tolist() == [0, 0, 2, 3, 1, 4]
    assert [labels(alignment, i)[0] for i in (0, 1)] == ["2015-01-01 00:00", "2015-01-01 05:00"]


def test_features_of_one_time_share_a_step_and_repeat_nothing() -> None:
    alignment = placed(hours(0, 0, 1, 1, 2), feature_of_row=np.array([0, 1, 0, 1, 1]))
    assert alignment.step_of_row.tolist() == [0, 0, 1, 1, 2]
    with pytest.raises(DataError, match="rows 1 and 2"):
        placed(hours(0, 1, 1), feature_of_row=np.array([0, 1, 1]))


@pytest.mark.parametrize(
    ("policy", "kept"),
    [("first", [1, 1, 0, 0, 1]), ("last", [1, 0, 0, 1, 1]), ("mean", [1, 1, 1, 1, 1])],
)
def test_a_policy_says_which_of_equal_rows_count(policy: str, kept: list[int]) -> None:
    alignment = placed(hours(0, 1, 1, 1, 2), duplicates=policy)
    assert alignment.used.tolist() == [bool(k) for k in kept]
    assert alignment.step_of_row.tolist() == [0, 1, 1, 1, 2]
    assert said(alignment, "2 rows repeat a time")


def test_the_label_is_that_of_the_row_that_counts() -> None:
    texts = ["2015-01-01T00:00+00", "2015-01-01T01:00+00", "2015-01-01T02:00+01", "2015-01-01T02:00+00"]
    assert labels(placed(texts, duplicates="first"))[1] == "2015-01-01 01:00"
    assert labels(placed(texts, duplicates="last"))[1] == "2015-01-01 02:00"
    with pytest.raises(DataError, match="rows 1 and 2"):
        placed(texts)


def test_equal_times_of_two_series_are_no_duplicates() -> None:
    assert placed(hours(0, 0, 1, 1), [0, 1, 0, 1]).used.all()


def test_the_doubled_autumn_hour_of_a_naive_table_points_to_the_time_zone() -> None:
    wall = pd.date_range("2015-10-24", periods=48, freq="h", tz="Europe/Rome").tz_localize(None)
    with pytest.raises(DataError, match="name the time zone"):
        placed(wall)
    stamps = read_stamps([wall], timezone="Europe/Rome")
    assert (at(stamps).times[0] == np.arange(48)).all()


def test_hours_across_both_clock_changes_are_one_hour_apart_and_keep_wall_labels() -> None:
    year = pd.date_range("2015-01-01", "2015-12-31", freq="h", tz="Europe/Rome")
    gone = year.get_indexer(pd.DatetimeIndex(["2015-03-29 01:00Z", "2015-10-25 00:00Z", "2015-10-25 01:00Z"]))
    alignment = placed(year.delete(gone))
    assert (alignment.times[0] == np.arange(len(year))).all()
    assert (alignment.labels[0] == year.tz_localize(None).to_numpy().astype("M8[us]")).all()


@pytest.mark.parametrize("freq", ["D", "12h"])
def test_days_of_a_zone_count_by_the_calendar_though_two_have_23_and_25_hours(freq: str) -> None:
    days = pd.date_range("2015-03-01", "2015-12-01", freq=freq).tz_localize("Europe/Rome")
    alignment = placed(days.delete([5, 60, 100]))
    assert alignment.step == {"D": 24.0, "12h": 12.0}[freq]
    assert (alignment.times[0] == np.arange(len(days)) * alignment.step).all()
    assert (alignment.labels[0] == days.tz_localize(None).to_numpy().astype("M8[us]")).all()
    assert not said(alignment, "off the grid")


@pytest.mark.parametrize("freq", ["MS", "ME", "QS", "YS", "YE"])
def test_months_quarters_and_years_are_regular_and_missing_ones_are_inserted(freq: str) -> None:
    dates = pd.date_range("1950-01-01", periods=40, freq=freq)
    alignment = placed(dates.delete([3, 11]))
    assert alignment.labels[0].astype("M8[D]").tolist() == [date.date() for date in dates]
    assert np.flatnonzero(alignment.inserted[0]).tolist() == [3, 11]
    months = {"M": 1, "Q": 3, "Y": 12}[freq[0]]
    assert alignment.step == pytest.approx(months * 730.485)
    assert np.diff(alignment.times[0]) == pytest.approx(alignment.step)


def test_jitter_is_put_on_the_grid_counted_and_keeps_its_labels() -> None:
    rng = np.random.default_rng(0)
    jittered = hours(*range(500)) + pd.to_timedelta(np.r_[0, rng.integers(-4, 5, 499)], unit="s")
    alignment = placed(jittered.delete([7, 8]))
    assert (alignment.times[0] == np.arange(500)).all()
    own = alignment.labels[0][~alignment.inserted[0]]
    assert (own == jittered.delete([7, 8]).to_numpy().astype("M8[us]")).all()
    assert labels(alignment)[7] == "2015-01-01 07:00"
    assert said(alignment, "off the grid, by up to 4 seconds")


def test_a_step_that_nobody_would_round_stays_exact() -> None:
    alignment = placed(pd.Timestamp("2015-01-01") + pd.to_timedelta(np.arange(1000) * 3601, unit="s"))
    assert alignment.step == pytest.approx(3601 / 3600, rel=1e-12)
    assert not said(alignment, "off the grid")


def test_times_without_a_step_are_used_as_they_are() -> None:
    ticks = np.sort(np.random.default_rng(1).uniform(0, 100, 60)).round(4)
    alignment = placed(hours(*ticks))
    assert alignment.step is None
    assert alignment.times[0] == pytest.approx(ticks - ticks[0], abs=1e-9)
    assert said(alignment, "irregular")
    with pytest.raises(DataError, match="expected a regular clock"):
        placed(hours(*ticks), irregular=False)


def test_asking_for_true_times_inserts_nothing() -> None:
    alignment = placed(hours(0, 1, 4), irregular=True)
    assert (alignment.step, alignment.times[0].tolist()) == (None, [0, 1, 4])


def test_a_row_between_two_times_of_the_grid_makes_the_clock_irregular() -> None:
    alignment = placed(hours(*range(40), 20.5))
    assert alignment.step is None
    assert 20.5 in alignment.times[0]


@pytest.mark.parametrize(
    ("first", "second", "at"),
    [
        (np.arange(10), 10 + np.arange(10) / 6, "2015-01-01 10:00"),
        (np.arange(10) / 6, 10 + np.arange(10), "2015-01-01 10:00"),
        (np.arange(95), 95 + np.arange(7) / 6, "2015-01-04 23:00"),
        (np.arange(48), 48 + 24 * np.arange(12), "2015-01-03 00:00"),
    ],
)
def test_a_step_that_changes_midway_is_refused_with_the_place(first: np.ndarray, second: np.ndarray, at: str) -> None:
    when = hours(*first, *second)
    with pytest.raises(DataError, match=rf"series 0 goes from steps of .* at {at}\. Resample"):
        placed(when)
    assert placed(when, irregular=True).times[0] == pytest.approx(np.r_[first, second], abs=1e-6)


def test_groups_of_different_steps_are_refused() -> None:
    when = hours(*range(30), *(24 * np.arange(10)))
    with pytest.raises(DataError, match=r"series 1 has steps of 1 day .*other series of 1 hour"):
        placed(when, [0] * 30 + [1] * 10)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_rows_missing_at_random_are_no_change_of_step(share: float) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        kept = np.flatnonzero(rng.random(2000) > share)
        alignment = placed(hours(*kept), np.sort(rng.integers(0, 20, len(kept))), missing_times="insert")
        assert alignment.step == 1.0, seed


def test_gaps_that_would_blow_up_the_table_are_refused() -> None:
    when = hours(0, 1, 2, 3, 20_000)
    with pytest.raises(DataError, match=r"at a step of 1 hour the table has 5 times and lacks 19,996.*times='keep'"):
        placed(when)
    with pytest.raises(DataError, match=r"expected at most 100 times as many times in a series, .* lacks 19,996"):
        placed(when, missing_times="insert")
    assert placed(when, missing_times="keep").times[0].tolist() == [0, 1, 2, 3, 20_000]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([3, 1, 2, 6], [1, 2, 3, 4, 5, 6]),
        ([0.1, 0.2, 0.4, 0.5, 0.3 + 0.3, 0.7], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]),
        (["0,5", "1,0", "2,0", "2,5"], [0.5, 1.0, 1.5, 2.0, 2.5]),
        ([10**18, 10**18 + 3600, 10**18 + 10800], [10**18, 10**18 + 3600, 10**18 + 7200, 10**18 + 10800]),
    ],
)
def test_numbers_have_a_step_of_their_own(numbers: list, expected: list) -> None:
    alignment = placed(numbers)
    assert [int(v) if isinstance(v, int) else round(v, 12) for v in alignment.labels[0].tolist()] == expected
    assert alignment.times[0] == pytest.approx(np.array(expected) - expected[0])


@pytest.mark.parametrize("when", [["2015-01-01"], ["2015-01-01", "2015-03-01"], [5]])
def test_series_of_a_single_time_are_placed(when: list) -> None:
    alignment = placed(when, list(range(len(when))))
    assert [times.tolist() for times in alignment.times] == [[0.0]] * len(when)
    assert alignment.step is None


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="missing_times"):
        placed(hours(0, 1), missing_times="drop")
    with pytest.raises(ConfigError, match="duplicates"):
        placed(hours(0, 1), duplicates="median")
    with pytest.raises(DataError, match="series_of_row"):
        align_rows(read_stamps([hours(0, 1)]), np.array([0, 2]), 2)


def test_the_rows_of_the_caller_are_not_changed() -> None:
    when, series = pd.Series(hours(3, 1, 2)), np.array([0, 0, 0])
    before = when.copy()
    placed(when, series, duplicates="first")
    pd.testing.assert_series_equal(when, before)
    assert series.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("step", "text"),
    [(1.0, "1 hour"), (24.0, "1 day"), (1 / 6, "10 minutes"), (36.0, "36 hours"), (1 / 36000, "0.1 seconds")],
)
def test_a_step_in_words(step: float, text: str) -> None:
    assert step_text(step) == text


def test_a_million_rows_are_placed_within_seconds() -> None:
    n_series, n_times = 100, 5000
    when = pd.Series(np.tile(np.repeat(hours(*range(n_times)).to_numpy(), 2), n_series))
    series = np.repeat(np.arange(n_series), 2 * n_times)
    stamps = read_stamps([when])
    begin = time.process_time()
    alignment = align_rows(stamps, series, n_series, feature_of_row=np.tile([0, 1], n_series * n_times))
    assert time.process_time() - begin < 6
    assert (alignment.step_of_row.reshape(n_series, -1) == np.repeat(np.arange(n_times), 2)).all()


ZONES = ["UTC", "Europe/Rome", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", None]
STEPS = [1, 10, 60, 180]


@settings(max_examples=60, deadline=None)
@given(
    st.sets(st.integers(0, 80), min_size=1),
    st.sampled_from(ZONES),
    st.sampled_from(STEPS),
    st.integers(0, 60 * 24 * 700),
    st.randoms(use_true_random=False),
    st.integers(1, 3),
)
def test_rows_of_a_regular_grid_in_any_order_keep_their_times(
    chosen: set[int], zone: str | None, minutes: int, begin: int, random: object, n_series: int
) -> None:
    steps = sorted({0, 1, 2, 3, *(range(40, 80)), *chosen})  # most differences are one step
    rows = [(series, k) for series in range(n_series) for k in steps]
    random.shuffle(rows)  # type: ignore[attr-defined]
    grid = pd.Timestamp("2014-12-31") + pd.to_timedelta((begin + np.arange(81) * minutes) * 60, unit="s")
    grid = grid if zone is None else grid.tz_localize("UTC").tz_convert(zone)
    stamps = read_stamps([grid[[k for _, k in rows]]])
    owner = np.array([series for series, _ in rows])
    alignment = at(stamps, owner, missing_times="insert")  # days without a row may look like a weekend
    assert alignment.step == pytest.approx(minutes / 60)
    for row, (series, k) in enumerate(rows):
        step = alignment.step_of_row[row]
        assert alignment.labels[series][step] == stamps.labels[row]
        assert alignment.times[series][step] == pytest.approx(k * minutes / 60)
        assert alignment.moments[series][step] == stamps.moments[row]
    for series in range(n_series):
        assert np.flatnonzero(~alignment.inserted[series]).tolist() == steps
        assert (np.diff(alignment.times[series]) > 0).all()
        values = stamps.values(alignment.moments[series])[0]
        assert values.tolist() == grid[: steps[-1] + 1].tolist()


@pytest.mark.parametrize(
    ("micros", "text"), [(250_000, "0.25 seconds"), (1_000, "0.001 seconds"), (1_000_000, "1 second")]
)
def test_times_off_the_grid_by_a_second_or_less_are_told_in_words(micros: int, text: str) -> None:
    when = pd.date_range("2024-07-01", periods=200, freq="min").to_series(index=range(200))
    when[10] += pd.Timedelta(micros, "us")
    alignment = placed(when)
    assert alignment.step == pytest.approx(1 / 60)
    assert said(alignment, f"off the grid, by up to {text}: 1 (")


def test_steps_of_months_are_told_as_months() -> None:
    assert [step_text(n * 730.485) for n in (1, 3, 12)] == ["1 month", "3 months", "1 year"]

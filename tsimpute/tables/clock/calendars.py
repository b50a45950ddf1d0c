"""What a calendar explains: the skipped hour of spring, 29 February, public holidays; dekads and composites."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pandas.tseries.holiday import MO, AbstractHolidayCalendar, Holiday, USFederalHolidayCalendar, next_monday
from pandas.tseries.offsets import DateOffset, Day, Easter

from tsimpute.tables.clock.closed_times import Slots
from tsimpute.tables.time.stamps import label_text
from tsimpute.tables.time.wall_times import DAY, HOUR, ZONES, is_skipped

MOSTLY = 0.9  # Share of the other working days that must be there for absent ones to count as holidays
_FIXED = ((1, 1), (1, 2), (1, 6), (5, 1), (8, 15), (10, 3), (11, 1), (12, 24), (12, 25), (12, 26), (12, 31))
_MOVED = ((1, 1), (12, 25), (12, 26))
_FROM_EASTER = (-2, 1, 39, 50, 60)
FEWEST = 6  # Dates of one series from which a pattern of the calendar is detected
COMPOSITES = (16, 8)  # Days of the composites of satellites
_SHOWN = 3


class _Holidays(AbstractHolidayCalendar):
    """Days on which offices and exchanges of Europe or the United States are closed."""

    rules = [  # noqa: RUF012
        *USFederalHolidayCalendar.rules,
        *(Holiday("fixed", month=month, day=day) for month, day in _FIXED),
        *(Holiday("moved", month=month, day=day, observance=next_monday) for month, day in _MOVED),
        *(Holiday("Easter", month=1, day=1, offset=[Easter(), Day(days)]) for days in _FROM_EASTER),
        Holiday("early May", month=5, day=1, offset=DateOffset(weekday=MO(1))),
        Holiday("late August", month=8, day=31, offset=DateOffset(weekday=MO(-1))),
    ]


@dataclass(frozen=True, eq=False)
class ExcludedTimes:
    """Absent times that a calendar leaves out."""

    slots: np.ndarray  # (S,) bool
    text: str  # what they are, and the first of them
    advice: str = ""  # what to do where they are left out for another reason


def left_out_times(slots: Slots, weekend: np.ndarray, *, naive: bool) -> Iterator[ExcludedTimes]:
    """What of the absent times of dates a calendar leaves out.

    Args:
        weekend: (S,) bool: the series has no row on weekends.
        naive: the table has no time zone, and no offset from UTC.
    """
    if slots.wall is None or slots.step > DAY or slots.present.all():
        return
    wall = slots.wall
    if naive and slots.step <= HOUR:
        yield from _spring(slots, wall)
    # 29 February, where it is always absent: in two years, or where nothing else is absent.
    dates = pd.DatetimeIndex(wall.astype("M8[us]"))
    leap = np.asarray((dates.month == 2) & (dates.day == 29))
    if leap.any() and not (leap & slots.present).any():
        first, last = _runs(slots)
        whole = leap[first] & leap[last] & ~leap[first - 1] & ~leap[last + 1]
        excluded = _filled(len(wall), first[whole], last[whole])
        years = dates[excluded].year.nunique()
        if years and (years >= 2 or whole.all()):
            yield ExcludedTimes(excluded, f"{_counted(wall[excluded], slots.step)}: every 29 February is absent")
    if not weekend.any():
        return
    # Whole working days that are public holidays, where hardly any other working day is absent.
    days, day = np.unique(wall // DAY, return_inverse=True)
    dates = pd.DatetimeIndex(days.astype("M8[D]").astype("M8[us]"))
    holiday = dates.isin(_Holidays().holidays(dates[0], dates[-1] + Day(1)))[day]
    cell = slots.series * len(days) + day
    is_open = np.bincount(cell, weights=slots.present)[cell] > 0
    excluded = ~slots.present & weekend & holiday & ~is_open
    others = slots.present[weekend & ~holiday]
    if excluded.any() and others.mean() >= MOSTLY:  # where many days are missing, a holiday is one of them
        what = "public holidays in Europe or the United States"
        yield ExcludedTimes(excluded, f"{_counted(wall[excluded], slots.step)}: {what}")


def _runs(slots: Slots) -> tuple[np.ndarray, np.ndarray]:
    """First and last slot of each run of absent ones; a present one precedes and follows each."""
    absent = np.r_[False, ~slots.present, False]
    edges = np.flatnonzero(np.diff(absent))
    return edges[::2], edges[1::2] - 1


def _spring(slots: Slots, wall: np.ndarray) -> Iterator[ExcludedTimes]:
    """Absent times in the hour that the clocks of a zone skip, where no row of the table is in such an hour.

    First the runs of absent times that are just this hour, then those up to a day long that hold it.
    """
    first, last = _runs(slots)
    brief = (last - first + 1) * slots.step <= DAY
    first, last, taken = first[brief], last[brief], np.zeros(len(wall), bool)
    present = np.unique(wall[slots.present]) if len(first) else wall[:0]
    absent = np.flatnonzero(_filled(len(wall), first, last))
    run = np.repeat(np.arange(len(first)), last - first + 1)
    night = wall[absent] % DAY < 4 * HOUR
    absent, run = absent[night], run[night]
    times, codes = np.unique(wall[absent], return_inverse=True)
    skipped = {zone: is_skipped(times, zone)[codes] for zone in ZONES}
    possible = [zone for zone in ZONES if skipped[zone].any() and not is_skipped(present, zone).any()]
    for exact in (True, False):
        for zone in possible:
            hit = skipped[zone] & ~taken[first[run]]
            if exact:
                hit &= (np.bincount(run[hit], minlength=len(first)) == last - first + 1)[run]
            if not hit.any():
                continue
            excluded = np.zeros(len(wall), bool)
            excluded[absent[hit]] = True
            taken |= _filled(len(wall), first[run[hit]], last[run[hit]])
            yield ExcludedTimes(
                excluded,
                f"{_counted(wall[excluded], slots.step)}: clocks go forward over this hour, as in {zone}",
                f"If the table is on such a clock, name its time zone with timezone='{zone}' (--timezone {zone})",
            )


def _filled(n: int, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """(n,) bool: from each first to each last."""
    edges = np.zeros(n + 1, np.int64)
    np.add.at(edges, first, 1)
    np.add.at(edges, last + 1, -1)
    return np.cumsum(edges[:-1]) > 0


def _counted(wall: np.ndarray, step: float) -> str:
    label = label_text(wall.min().astype("M8[us]"))
    first = label.removesuffix(" 00:00") if step == DAY else label
    return first if len(wall) == 1 else f"{len(wall):,} times (first: {first})"


def calendar_pattern(labels: np.ndarray, series: np.ndarray) -> str:
    """What dates are that no single step gives, and which of them are absent; "" where they follow no such pattern.

    ``labels`` (D,) are times, rising within each series; ``series`` (D,) never falls.
    """
    if labels.dtype.kind != "M" or len(labels) < FEWEST or (labels != labels.astype("M8[D]")).any():
        return ""
    dates = pd.DatetimeIndex(labels)
    days_of_month, gaps = set(dates.day), np.diff(labels).astype("m8[D]").astype(int)[np.diff(series) == 0]
    patterns: list[tuple[str, Callable[[pd.DatetimeIndex], np.ndarray]]] = []
    if days_of_month == {1, 11, 21}:
        patterns.append(("dekads, the 1st, 11th and 21st of each month", lambda dates: dates.day.isin((1, 11, 21))))
    if days_of_month in ({1, 15}, {1, 16}):
        second = max(days_of_month)
        text = f"half months, the 1st and {second}th of each month"
        patterns.append((text, lambda dates: dates.day.isin((1, second))))
    for step in COMPOSITES:
        if (gaps % step).any() and (gaps == step).any():
            text = f"composites of {step} days that begin anew each 1 January"
            patterns.append((text, lambda dates, step=step: np.asarray((dates.day_of_year - 1) % step == 0)))
    for text, pattern in patterns:
        if pattern(dates).all():
            absent: list[str] = []  # between the first and the last of each series
            for number in np.unique(series):
                of_series = dates[series == number]
                span = pd.date_range(of_series[0], of_series[-1], freq="D")
                absent += [f"{date:%Y-%m-%d}" for date in span[pattern(span)].difference(of_series)]
            if not absent:
                return f"{text}; none is absent"
            are, shown = "1 is" if len(absent) == 1 else f"{len(absent):,} are", ", ".join(absent[:_SHOWN])
            return f"{text}; {are} absent (first: {shown}): add rows for them to have them filled"
    return ""

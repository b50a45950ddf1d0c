"""A time in several columns: a date and a time of day, or year, month, day and hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.columns.time_names import part_of
from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.columns import Numbers, read_column
from tsimpute.tables.time.numbers import digits_of, read_digits
from tsimpute.tables.time.part_columns import half_form, in_halves, is_half, read_clock, read_part, with_halves
from tsimpute.tables.time.wall_times import HOUR, MINUTE, SECOND, Column, Form, WallTimes

_SIZES = {"hour": HOUR, "minute": MINUTE, "second": SECOND}
CHAINS = (
    ("year", "month", "day", "hour", "minute", "second"),
    ("year", "doy", "hour", "minute", "second"),
    ("year", "week"),
    ("year", "quarter"),
)
"""Parts that make a time, each chain as far as there are columns; the first two columns at least, or only the year."""
Forms = dict[str, tuple[Form, ...]]
"""How each column writes, under each order of day, month and year."""


def read_together(columns: Sequence[pd.Series | pd.Index]) -> tuple[Column, Forms]:
    """Several columns as one time, in any order.

    They are parts by their names, such as year, month, day and hour; or a date and a time of day, the latter in one
    column, or as hour, minute and second.

    Raises:
        DataError: they make no time, or a row holds no part of one.
    """
    halves = [i for i, column in enumerate(columns) if is_half(column)]
    if len(halves) == 1 and len(columns) > 2:
        return _with_half(columns, halves[0])
    names = parts_by_name([column.name for column in columns])
    if names is not None and "year" in names:
        return _from_parts(columns, names)
    if len(columns) == 2:
        try:
            return _date_and_clock(columns, 0)
        except DataError as error:
            try:
                return _date_and_clock(columns, 1)
            except DataError:
                raise error from None
    dates = [i for i, column in enumerate(columns) if part_of(column.name) is None]
    dates = dates or [i for i, column in enumerate(columns) if part_of(column.name) == ("day", True)]
    if len(dates) != 1:
        listed = ", ".join(repr(column.name) for column in columns)
        raise DataError(
            "time columns: expected a date and a time of day, or parts named as year, month, day, hour and minute, "
            f"came {listed}. Rename them so, or name one column of times (time)."
        )
    return _date_and_clock(columns, dates[0])


def _with_half(columns: Sequence[pd.Series | pd.Index], at: int) -> tuple[Column, Forms]:
    """As ``read_together``, AM or PM at that place."""
    column, forms = read_together([other for i, other in enumerate(columns) if i != at])
    what = f"times of day beside {columns[at].name!r}"
    times = {name: with_halves(of_name, columns[at], what) for name, of_name in column.times.items()}
    half = half_form(columns[at])
    whole: Forms = {}
    for name, of_name in forms.items():
        others = tuple(form.of(in_halves) for form in of_name)
        whole[name] = (*others[:at], half, *others[at:])
    return replace(column, times=times), whole


def parts_by_name(names: Sequence[Any]) -> list[str] | None:
    """The part that each column represents by its name, or None where one has none or two have the same."""
    named = [part_of(name) for name in names]
    if not all(named):
        return None
    parts = [part for one in named if one for part in one[:1]]
    minutes = [i for i, name in enumerate(names) if str(name).lstrip("#") == "mm"]
    if parts.count("month") == 2 and len(minutes) == 1:
        parts[minutes[0]] = "minute"
    parts = ["doy" if part == "day" and not {"month"} & set(parts) else part for part in parts]
    return parts if len(set(parts)) == len(parts) else None


def _from_parts(columns: Sequence[pd.Series | pd.Index], names: Sequence[str]) -> tuple[Column, Forms]:
    parts = [read_part(column, name) for column, name in zip(columns, names, strict=True)]
    by_part = {part.part: part.numbers for part in parts}
    listed = ", ".join(str(column.name) for column in columns)
    if not any(set(names) == set(chain[: len(names)]) for chain in CHAINS):
        raise DataError(
            f"time columns: expected year, month, day, hour, minute and second without one left out between, or year "
            f"and day of the year, came {listed}. Name the columns that make the time (time)."
        )
    clock = sum((part.clock for part in parts if part.clock is not None), by_part.get("clock", 0))
    clock = clock + sum(by_part[name] * size for name, size in _SIZES.items() if name in by_part)
    days = _days(by_part, listed)
    times = WallTimes(days, np.zeros_like(days) + clock)
    forms = [part.form for part in parts]
    notes = (f"the time is read from {listed}",)
    if "week" in by_part:
        notes += ("weeks are read as ISO weeks, from Monday on",)
        year = list(names).index("year")
        digits = digits_of(columns[year])
        assert digits is not None
        forms[year] = digits.part_form("isoyear")
    return Column({"": times}, {}, has_clock=bool(times.clock.any()), notes=notes), {"": tuple(forms)}


def _days(parts: Mapping[str, np.ndarray], listed: str) -> np.ndarray:
    """Days since 1970 of whole parts, each row's first day where there is no day among them."""
    year = parts["year"]
    if "week" in parts:
        times, exists = read_digits(year * 100 + parts["week"], ("isoyear", "week"))
    elif "doy" in parts:
        times, exists = read_digits(year * 1000 + parts["doy"], ("year", "doy"))
    else:
        month = 3 * parts["quarter"] - 2 if "quarter" in parts else parts.get("month", 1)
        times, exists = read_digits((year * 100 + month) * 100 + parts.get("day", 1), ("year", "month", "day"))
    if not exists.all():
        row = int(np.argmin(exists))
        came = ", ".join(f"{name} {numbers[row]}" for name, numbers in parts.items() if name not in ("clock", *_SIZES))
        raise RowError(f"time columns {listed}, ", row, f": expected a day that exists, came {came}; correct it.")
    return times.days


def _date_and_clock(columns: Sequence[pd.Series | pd.Index], date: int) -> tuple[Column, Forms]:
    """A date at that place, and a time of day in the other columns."""
    day, others = _date_of(columns, date), [i for i in range(len(columns)) if i != date]
    clock, forms, notes = np.zeros(len(day.clock), np.int64), {}, day.notes
    names = ["hour"] if len(others) == 1 else parts_by_name([columns[i].name for i in others])
    if names is None or set(names) != set(("hour", "minute", "second")[: len(names)]):
        raise DataError(
            f"time columns: expected a date {columns[date].name!r} beside hour, minute and second, came "
            f"{', '.join(repr(columns[i].name) for i in others)}. Rename them so, or name other columns (time)."
        )
    for i, name in zip(others, names, strict=True):
        if name == "hour":
            micros, forms[i], more = read_clock(columns[i])
            clock, notes = clock + micros, (*notes, *more)
        else:
            part = read_part(columns[i], name)
            clock, forms[i] = clock + part.numbers * _SIZES[name], part.form
    times = {name: WallTimes(of_name.days, clock) for name, of_name in day.times.items()}
    # A date may be written with a midnight of its own.
    at_midnight = lambda times: replace(times, clock=np.zeros_like(times.clock))
    ordered = lambda form: tuple(form.of(at_midnight) if i == date else forms[i] for i in range(len(columns)))
    return Column(times, day.forms, notes=notes), {name: ordered(form) for name, form in day.forms.items()}


def _date_of(columns: Sequence[pd.Series | pd.Index], at: int) -> Column:
    """The column of dates; where the time of day was read as time stamps, their dates mean nothing."""
    date = columns[at]
    day = read_column(date, part="date")
    names = " and ".join(repr(column.name) for column in columns)
    if isinstance(day, Numbers) or not day.dated:
        raise DataError(
            f"time columns: expected a date and a time of day, came {names}; name the column of times alone."
        )
    if day.clock.any():
        raise DataError(
            f"time columns: expected a date and a time of day, but {date.name!r} has times of day of its own; name it "
            "alone."
        )
    if day.offset is not None:
        raise DataError(
            f"time columns: expected dates without a time zone in {date.name!r}; take the zone off, and give it as "
            "timezone."
        )
    return day

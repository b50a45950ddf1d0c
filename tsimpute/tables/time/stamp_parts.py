"""A time in several columns: a date and a time of day, or year, month, day and hour; and how these write new times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.columns.time_names import part_of
from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.half_days import TwelveForm, half_form, is_half, with_halves
from tsimpute.tables.time.part_columns import (
    DateForm,
    NamedMonthForm,
    PartForm,
    check_range,
    joined_clock,
    joined_micros,
    read_clock,
)
from tsimpute.tables.time.stamp_advice import MONTH_OF
from tsimpute.tables.time.stamp_columns import Column, Numbers, read_column
from tsimpute.tables.time.stamp_digits import digits_of
from tsimpute.tables.time.stamp_forms import DAY, HOUR, MINUTE, SECOND, Form, TextForm, first_mondays, part_numbers
from tsimpute.tables.time.stamp_numbers import fractions_as_dates, fractions_of

_SIZES = {"hour": HOUR, "minute": MINUTE, "second": SECOND}
CHAINS = (
    ("year", "month", "day", "hour", "minute", "second"),
    ("year", "doy", "hour", "minute", "second"),
    ("year", "week"),
    ("year", "quarter"),
)
"""Parts that make a time, each chain as far as there are columns; the first two columns at least, or the year alone."""
FIRST_OF_1900 = 69
"""Of years with two digits, those from here on are of the 20th century."""


@dataclass(frozen=True, eq=False)
class _Part:
    """One column: its part, its numbers (R,), how it writes, and the time of day that its decimals say."""

    part: str
    numbers: np.ndarray
    form: Form
    clock: np.ndarray | None = None


def read_together(columns: Sequence[pd.Series | pd.Index]) -> tuple[Column, dict[str, tuple[Form, ...]]]:
    """Several columns as one time, in whatever order they stand.

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


def _with_half(columns: Sequence[pd.Series | pd.Index], at: int) -> tuple[Column, dict[str, tuple[Form, ...]]]:
    """As ``read_together``, AM or PM at that place."""
    column, forms = read_together([other for i, other in enumerate(columns) if i != at])
    clock = with_halves(column.clock, columns[at], f"times of day beside {columns[at].name!r}")
    half = half_form(columns[at])
    whole: dict[str, tuple[Form, ...]] = {
        name: (*(TwelveForm(form) for form in of_name[:at]), half, *(TwelveForm(form) for form in of_name[at:]))
        for name, of_name in forms.items()
    }
    return replace(column, clock=clock), whole


def parts_by_name(names: Sequence[Any]) -> list[str] | None:
    """The part that each column stands for by its name, or None where one has none or two have the same."""
    said = [part_of(name) for name in names]
    if not all(said):
        return None
    parts = [part for one in said if one for part in one[:1]]
    minutes = [i for i, name in enumerate(names) if str(name).lstrip("#") == "mm"]
    if parts.count("month") == 2 and len(minutes) == 1:
        parts[minutes[0]] = "minute"
    parts = ["doy" if part == "day" and not {"month"} & set(parts) else part for part in parts]
    return parts if len(set(parts)) == len(parts) else None


def _from_parts(
    columns: Sequence[pd.Series | pd.Index], names: Sequence[str]
) -> tuple[Column, dict[str, tuple[Form, ...]]]:
    parts = [_part(column, name) for column, name in zip(columns, names, strict=True)]
    by_part = {part.part: part.numbers for part in parts}
    for part in parts:
        if part.clock is not None:
            by_part["clock"] = part.clock
    listed = ", ".join(str(column.name) for column in columns)
    chain = next((c for c in CHAINS if set(names) == set(c[: len(names)])), None)
    if chain is None:
        raise DataError(
            f"time columns: expected year, month, day, hour, minute and second without one left out between, or year "
            f"and day of the year, came {listed}. Name the columns that make the time (time)."
        )
    days = _days(by_part, listed)
    clock = _clock_of(by_part, len(days))
    forms = tuple(_iso(part) if "week" in by_part else part.form for part in parts)
    notes = (f"the time is read from {listed}",)
    if "week" in by_part:
        notes += ("weeks are read as ISO weeks, from Monday on",)
    column = Column({"": days}, clock, None, {}, None, bool(clock.any()), notes)
    return column, {"": forms}


def _iso(part: _Part) -> Form:
    if part.part == "year":
        assert isinstance(part.form, PartForm)
        return PartForm("isoyear", part.form.digits)
    return part.form


def _part(column: pd.Series | pd.Index, part: str) -> _Part:
    digits = digits_of(column)
    if digits is None and part == "month" and (named := named_months(column)):
        return named
    if digits is None and part == "doy" and (fraction := _fraction_of_year(column)):
        return fraction
    if digits is None and part == "hour":
        numbers, form, _ = read_clock(column)
        return _Part("clock", numbers, form)
    what = f"time column {column.name!r}"
    if digits is None:
        row = next(row for row, item in enumerate(column.tolist()) if not _is_whole(item))
        came = "nothing" if pd.isna(column.tolist()[row]) or column.tolist()[row] == "" else repr(column.tolist()[row])
        raise RowError(
            f"{what}, ", row, f": expected a {part} as a whole number, came {came}; correct it, or "
            "take the row out.",
        )  # fmt: skip
    numbers = digits.numbers
    if part == "year" and numbers.max() < 100:
        return _Part("year", numbers + np.where(numbers >= FIRST_OF_1900, 1900, 2000), PartForm("year2", digits))
    if part == "hour" and (joined := joined_clock(digits)):
        return _Part("clock", joined_micros(digits, joined), PartForm(joined, digits))
    check_range(numbers, part, what)
    return _Part(part, numbers, PartForm(part, digits))


def _fraction_of_year(column: pd.Series | pd.Index) -> _Part | None:
    """A day of the year with decimals, 1.5 for noon of the first of January."""
    found = fractions_of(column)
    if found is None or found.numbers.min() < 1 or found.numbers.max() >= 367:
        return None
    number = lambda days, clock, offset: part_numbers("doy", days, clock) + clock / DAY
    # 1972 is a leap year, so that all days of a year can be written there.
    first = int(np.datetime64("1972-01-01").astype(np.int64))
    made = fractions_as_dates(found, (found.numbers - 1) * DAY, number, first * DAY)
    return None if made is None else _Part("doy", made[0] - first + 1, made[2], made[1])


def is_fraction_of_year(column: pd.Series | pd.Index) -> bool:
    """Whether a column holds days of the year with decimals."""
    return _fraction_of_year(column) is not None


def _is_whole(item: Any) -> bool:
    try:
        return float(item) % 1 == 0 and float(item) >= 0
    except (TypeError, ValueError):
        return False


def named_months(column: pd.Series | pd.Index) -> _Part | None:
    """A column of English names of months, or None."""
    texts = column.tolist()
    if not all(isinstance(text, str) for text in texts):
        return None
    months = [MONTH_OF.get(text.strip().lower(), 0) for text in texts]
    if not all(months):
        return None
    dtype = object if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype
    form = TextForm((("name", max((text.strip() for text in texts), key=len)),), frozenset())
    return _Part("month", np.array(months, np.int64), NamedMonthForm(form, column.name, dtype))


def _days(parts: Mapping[str, np.ndarray], listed: str) -> np.ndarray:
    """Days since 1970 of whole parts, each row's first day where the chain ends before the day."""
    year = parts["year"]
    if "week" in parts:
        days = first_mondays(year) + 7 * (parts["week"] - 1)
        _check_day(part_numbers("isoyear", days, days) == year, parts, listed)
        return days
    if "doy" in parts:
        days = _date(year, np.ones_like(year)) + parts["doy"] - 1
        _check_day(part_numbers("year", days, days) == year, parts, listed)
        return days
    month = 3 * parts["quarter"] - 2 if "quarter" in parts else parts.get("month", np.ones_like(year))
    days = _date(year, month) + parts.get("day", np.ones_like(year)) - 1
    _check_day(part_numbers("month", days, days) == month, parts, listed)
    return days


def _date(year: np.ndarray, month: np.ndarray) -> np.ndarray:
    return ((year - 1970) * 12 + month - 1).astype("M8[M]").astype("M8[D]").astype(np.int64)


def _check_day(exists: np.ndarray, parts: Mapping[str, np.ndarray], listed: str) -> None:
    if not exists.all():
        row = int(np.argmin(exists))
        came = ", ".join(f"{name} {numbers[row]}" for name, numbers in parts.items() if name not in ("clock", *_SIZES))
        raise RowError(f"time columns {listed}, ", row, f": expected a day that exists, came {came}; correct it.")


def _clock_of(parts: Mapping[str, np.ndarray], n_rows: int) -> np.ndarray:
    clock = parts.get("clock", np.zeros(n_rows, np.int64)).copy()
    for name in ("hour", "minute", "second"):
        clock += parts.get(name, 0) * _SIZES[name]
    return clock


def _date_and_clock(columns: Sequence[pd.Series | pd.Index], date: int) -> tuple[Column, dict[str, tuple[Form, ...]]]:
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
            micros, forms[i], said = read_clock(columns[i])
            clock, notes = clock + micros, (*notes, *said)
        else:
            part = _part(columns[i], name)
            clock, forms[i] = clock + part.numbers * _SIZES[name], part.form
    both = Column(day.days, clock, None, day.forms, None, True, notes)
    ordered = lambda form: tuple(DateForm(form) if i == date else forms[i] for i in range(len(columns)))
    return both, {reading: ordered(form) for reading, form in day.forms.items()}


def _date_of(columns: Sequence[pd.Series | pd.Index], at: int) -> Column:
    """The column of dates; where the time of day was read as time stamps, their dates mean nothing."""
    date = columns[at]
    day = read_column(date, part="date")
    names = " and ".join(repr(column.name) for column in columns)
    if isinstance(day, Numbers) or day.days is None:
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

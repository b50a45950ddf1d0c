"""A time in several columns: a date and a time of day, or year, month, day and hour; and how these write new times."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.half_days import TwelveForm, half_form, is_half, with_halves
from tsimpute.tables.row_errors import RowError
from tsimpute.tables.stamp_columns import Column, Numbers, read_column
from tsimpute.tables.stamp_digits import Digits, digits_of
from tsimpute.tables.stamp_forms import DAY, HOUR, MINUTE, SECOND, Form, TextForm, first_mondays, part_numbers
from tsimpute.tables.stamp_names import is_clock_name, part_of
from tsimpute.tables.stamp_numbers import fractions_as_dates, fractions_of
from tsimpute.tables.stamp_texts import MONTH_OF

_SIZES = {"hour": HOUR, "minute": MINUTE, "second": SECOND}
HIGHEST = {
    "year": 2999,
    "quarter": 4,
    "month": 12,
    "week": 53,
    "day": 31,
    "doy": 366,
    "hour": 24,
    "minute": 59,
    "second": 59,
}
LOWEST = {"year": 1000, "quarter": 1, "month": 1, "week": 1, "day": 1, "doy": 1}
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
class PartForm:
    """How a column of one part of the time writes new ones."""

    part: str
    digits: Digits

    def _numbers(self, days: np.ndarray, clock: np.ndarray) -> np.ndarray:
        return part_numbers(self.part, days, clock)

    def texts(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> list[str]:
        return self.digits.texts(self._numbers(days, clock))

    def values(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> pd.Series:
        return self.digits.values(self._numbers(days, clock))


@dataclass(frozen=True, eq=False)
class NamedMonthForm:
    """A column of month names."""

    text: TextForm
    name: Any
    dtype: Any

    def texts(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> list[str]:
        return self.text.texts(days, clock, offset)

    def values(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> pd.Series:
        return pd.Series(self.texts(days, clock, offset), name=self.name, dtype=self.dtype)


@dataclass(frozen=True, eq=False)
class DateForm:
    """The date of a time whose time of day stands in another column; it may be written with a midnight of its own."""

    form: Form

    def texts(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> list[str]:
        return self.form.texts(days, np.zeros_like(clock), offset)

    def values(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> pd.Series:
        return self.form.values(days, np.zeros_like(clock), offset)


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
        numbers, form, _ = _clock(column)
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
    _check_range(numbers, part, what)
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


def _check_range(numbers: np.ndarray, part: str, what: str) -> None:
    low, high = LOWEST.get(part, 0), HIGHEST[part]
    wrong = (numbers < low) | (numbers > high)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise RowError(
            f"{what}, ", row, f": expected {'an' if part == 'hour' else 'a'} {part} from {low} to {high}, came "
            f"{numbers[row]} (rows like it: {int(wrong.sum())}); correct it, or name other columns of times (time).",
        )  # fmt: skip


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


def joined_clock(digits: Digits) -> str:
    """ "hhmm" or "hhmmss" where whole numbers are times of day written without a sign between, "" where not."""
    numbers, high = digits.numbers, int(digits.numbers.max())
    if (numbers % 100 > 59).any() or (high <= 24 and digits.width < 4 and not _says_minutes(digits.name)):
        return ""
    if high <= 2400 and digits.width in (0, 3, 4):
        return "hhmm" if high >= 100 or digits.width == 4 or _says_minutes(digits.name) else ""
    return "hhmmss" if high <= 240_000 and digits.width in (0, 6) and not (numbers // 100 % 100 > 59).any() else ""


def _says_minutes(name: Any) -> bool:
    return is_clock_name(name) and "m" in str(name).lower() and "time" not in str(name).lower()


def joined_micros(digits: Digits, form: str) -> np.ndarray:
    """Microseconds since midnight of numbers such as 1330."""
    numbers = digits.numbers if form == "hhmmss" else digits.numbers * 100
    return numbers // 10_000 * HOUR + numbers // 100 % 100 * MINUTE + numbers % 100 * SECOND


def _clock(column: pd.Series | pd.Index) -> tuple[np.ndarray, Form, tuple[str, ...]]:
    """Microseconds since midnight of a column of times of day, and how it writes."""
    digits = digits_of(column)
    if digits is not None:
        if joined := joined_clock(digits):
            return joined_micros(digits, joined), PartForm(joined, digits), ()
        _check_range(digits.numbers, "hour", f"time column {column.name!r}")
        return digits.numbers * HOUR, PartForm("hour", digits), ()
    _check_ranges(column)
    hour = read_column(column, part="clock")
    if isinstance(hour, Numbers):
        raise DataError(f"time column {column.name!r}: expected times of day, came numbers that are not whole.")
    return hour.clock, next(iter(hour.forms.values())), hour.notes


def _check_ranges(column: pd.Series | pd.Index) -> None:
    """Refuses 00-01, 01-02: from one hour to the next, and not minutes."""
    ranges = [re.fullmatch(r"\s*(\d\d?)\s*[-\u2013]\s*(\d\d?)\s*", str(item)) for item in column]
    if all(found and (int(found[2]) - int(found[1])) % 24 == 1 for found in ranges) and len(ranges) > 2:
        raise DataError(
            f"time column {column.name!r}: expected times of day, came hours with their ends such as "
            f"{column.tolist()[0]!r}; write the hour alone at which each begins, as 0 to 23."
        )


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
            micros, forms[i], said = _clock(columns[i])
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

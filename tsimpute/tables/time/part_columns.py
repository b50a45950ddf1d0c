"""Columns of one part of a time: a year, a month by name, an hour, a time of day, AM and PM."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.columns.time_names import is_clock_name
from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.columns import Numbers, read_column
from tsimpute.tables.time.numbers import Digits, decimals_of, digits_of
from tsimpute.tables.time.text_formats import MONTH_OF, Format, name_piece
from tsimpute.tables.time.wall_times import DAY, HOUR, MINUTE, SECOND, Form, WallTimes, text_form

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
FIRST_OF_1900 = 69
"""Of years with two digits, those from here on are of the 20th century."""
_HALF = re.compile(r"\s*[ap]\.?\s?m\.?\s*", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Part:
    """One column: its part, its numbers (R,), how it writes, and the time of day that its decimals give."""

    part: str
    numbers: np.ndarray
    form: Form
    clock: np.ndarray | None = None


def read_part(column: pd.Series | pd.Index, part: str) -> Part:
    """A column of one part of a time.

    Raises:
        RowError: a row holds no such part.
    """
    digits = digits_of(column)
    if digits is None and part == "month" and (named := named_months(column)):
        return named
    if digits is None and part == "doy" and (fraction := fraction_of_year(column)):
        return fraction
    if digits is None and part == "hour":
        numbers, form, _ = read_clock(column)
        return Part("clock", numbers, form)
    what = f"time column {column.name!r}"
    if digits is None:
        items = column.tolist()
        row = next(row for row, item in enumerate(items) if not _is_whole(item))
        came = "nothing" if pd.isna(items[row]) or items[row] == "" else repr(items[row])
        raise RowError(
            f"{what}, ", row, f": expected a {part} as a whole number, came {came}; correct it, or take the row out."
        )
    numbers = digits.numbers
    if part == "year" and numbers.max() < 100:
        return Part(part, numbers + np.where(numbers >= FIRST_OF_1900, 1900, 2000), digits.part_form("year2"))
    if part == "hour" and (joined := joined_clock(digits)):
        return Part("clock", _joined_micros(digits, joined), digits.part_form(joined))
    _check_range(numbers, part, what)
    return Part(part, numbers, digits.part_form(part))


def _is_whole(item: Any) -> bool:
    try:
        return float(item) % 1 == 0 and float(item) >= 0
    except (TypeError, ValueError):
        return False


def named_months(column: pd.Series | pd.Index) -> Part | None:
    """A column of English names of months, or None."""
    items = column.tolist()
    if not all(isinstance(item, str) for item in items):
        return None
    texts = [item.strip() for item in items]
    months = [MONTH_OF.get(text.lower(), 0) for text in texts]
    if not all(months):
        return None
    write = Format((name_piece("name", max(texts, key=len)),)).write
    return Part("month", np.array(months, np.int64), text_form(write, column))


def fraction_of_year(column: pd.Series | pd.Index) -> Part | None:
    """A day of the year with decimals, 1.5 for noon of the first of January; None where the column holds no such."""
    decimals = decimals_of(column)
    if decimals is None or decimals.numbers.min() < 1 or decimals.numbers.max() >= 367:
        return None
    # 1972 is a leap year, so that all days of a year can be written there.
    first = int(np.datetime64("1972-01-01").astype(np.int64))
    dates = decimals.dates(
        (decimals.numbers - 1) * DAY, lambda times: times.part("doy") + times.clock / DAY, first * DAY
    )
    return None if dates is None else Part("doy", dates[0].days - first + 1, dates[1], dates[0].clock)


def _check_range(numbers: np.ndarray, part: str, what: str) -> None:
    low, high = LOWEST.get(part, 0), HIGHEST[part]
    wrong = (numbers < low) | (numbers > high)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise RowError(
            f"{what}, ", row, f": expected {'an' if part == 'hour' else 'a'} {part} from {low} to {high}, came "
            f"{numbers[row]} (rows like it: {int(wrong.sum())}); correct it, or name other columns of times (time).",
        )  # fmt: skip


def joined_clock(digits: Digits) -> str:
    """ "hhmm" or "hhmmss" where whole numbers are times of day written without a sign between, "" where not."""
    numbers, high, name = digits.numbers, int(digits.numbers.max()), digits.column.name
    has_minutes = is_clock_name(name) and "m" in str(name).lower() and "time" not in str(name).lower()
    if (numbers % 100 > 59).any() or (high <= 24 and digits.width < 4 and not has_minutes):
        return ""
    if high <= 2400 and digits.width in (0, 3, 4):
        return "hhmm" if high >= 100 or digits.width == 4 or has_minutes else ""
    return "hhmmss" if high <= 240_000 and digits.width in (0, 6) and not (numbers // 100 % 100 > 59).any() else ""


def _joined_micros(digits: Digits, form: str) -> np.ndarray:
    """Microseconds since midnight of numbers such as 1330."""
    numbers = digits.numbers if form == "hhmmss" else digits.numbers * 100
    return numbers // 10_000 * HOUR + numbers // 100 % 100 * MINUTE + numbers % 100 * SECOND


def read_clock(column: pd.Series | pd.Index) -> tuple[np.ndarray, Form, tuple[str, ...]]:
    """Microseconds since midnight of a column of times of day, how it writes, and notes."""
    digits = digits_of(column)
    if digits is not None:
        if joined := joined_clock(digits):
            return _joined_micros(digits, joined), digits.part_form(joined), ()
        _check_range(digits.numbers, "hour", f"time column {column.name!r}")
        return digits.numbers * HOUR, digits.part_form("hour"), ()
    _check_no_ranges(column)
    hour = read_column(column, part="clock")
    if isinstance(hour, Numbers):
        raise DataError(f"time column {column.name!r}: expected times of day, came numbers that are not whole.")
    return hour.clock, next(iter(hour.forms.values())), hour.notes


def _check_no_ranges(column: pd.Series | pd.Index) -> None:
    """Refuses 00-01, 01-02: from one hour to the next, and not minutes."""
    ranges = [re.fullmatch(r"\s*(\d\d?)\s*[-\u2013]\s*(\d\d?)\s*", str(item)) for item in column]
    if all(ends and (int(ends[2]) - int(ends[1])) % 24 == 1 for ends in ranges) and len(ranges) > 2:
        raise DataError(
            f"time column {column.name!r}: expected times of day, came hours with their ends such as "
            f"{column.tolist()[0]!r}; write the hour alone at which each begins, as 0 to 23."
        )


def is_half(column: pd.Series | pd.Index) -> bool:
    """Whether all rows of a column are AM or PM."""
    if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        return False
    words = pd.unique(np.asarray(column, object))
    return 0 < len(words) <= 6 and all(isinstance(word, str) and _HALF.fullmatch(word) for word in words)


def half_form(column: pd.Series | pd.Index) -> Form:
    """How a column of AM and PM writes."""
    words = [str(word).strip() for word in pd.unique(np.asarray(column, object))]
    word_of = {word[0].lower(): word for word in reversed(words)}
    sample = words[0]
    other = {letter: (letter.upper() if sample[0].isupper() else letter) + sample[1:] for letter in "ap"}
    both = [word_of.get(letter, other[letter]) for letter in "ap"]
    return text_form(lambda times: [both[half] for half in times.part("half").tolist()], column)


def with_halves(times: WallTimes, column: pd.Series | pd.Index, what: str) -> WallTimes:
    """Times whose hours count within the halves of the day that a column gives.

    Raises:
        RowError: an hour is not one of 1 to 12.
    """
    hour = times.part("hour")
    wrong = (hour < 1) | (hour > 12)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise RowError(f"{what}, ", row, f": expected an hour from 1 to 12 beside {column.name!r}, came {hour[row]}.")
    after_noon = np.array([str(item).strip()[0].lower() == "p" for item in column], bool)
    return replace(times, clock=times.clock + (hour % 12 + 12 * after_noon - hour) * HOUR)


def in_halves(times: WallTimes) -> WallTimes:
    """The same with hours from 1 to 12."""
    return replace(times, clock=times.clock + (times.part("hour12") - times.part("hour")) * HOUR)

"""Columns of one part of a time: what they may hold, and how they write; an hour or a time of day among them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.columns.time_names import is_clock_name
from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.stamp_columns import Numbers, read_column
from tsimpute.tables.time.stamp_digits import Digits, digits_of
from tsimpute.tables.time.stamp_forms import HOUR, MINUTE, SECOND, Form, TextForm, part_numbers

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


def check_range(numbers: np.ndarray, part: str, what: str) -> None:
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


def read_clock(column: pd.Series | pd.Index) -> tuple[np.ndarray, Form, tuple[str, ...]]:
    """Microseconds since midnight of a column of times of day, and how it writes."""
    digits = digits_of(column)
    if digits is not None:
        if joined := joined_clock(digits):
            return joined_micros(digits, joined), PartForm(joined, digits), ()
        check_range(digits.numbers, "hour", f"time column {column.name!r}")
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

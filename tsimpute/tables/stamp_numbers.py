"""One column of numbers that are dates: 2024091, 202403, epoch seconds, serial days; told by the column's name too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.tables.stamp_digits import Digits, digits_of
from tsimpute.tables.stamp_forms import DAY, MINUTE, SECOND, part_numbers
from tsimpute.tables.stamp_names import is_time_name, part_of, words_of

_FIRST, _LAST = 631_152_000, 4_102_444_800
"""Seconds since 1970 of the years 1990 and 2100, within which an epoch is believed."""
_EPOCHS = (("seconds", 1), ("milliseconds", 10**3), ("microseconds", 10**6), ("nanoseconds", 10**9))
_SERIALS = (
    ("Excel's serial days", 25_569, 20_000.0, 80_000.0, ()),
    ("MATLAB's datenum", 719_529, 700_000.0, 800_000.0, ()),
    ("Julian dates", 2_440_587.5, 2_430_000.0, 2_500_000.0, ("jd", "julian")),
    ("modified Julian dates", 40_587, 40_000.0, 80_000.0, ("mjd",)),
)
"""Of days: what they are called, their number on 1970-01-01, their range, and words that the name must have."""


@dataclass(frozen=True, eq=False)
class NumberDateForm:
    """How a column of numbers writes new dates: ``number`` makes them of days, time of day and offset."""

    number: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    digits: Digits

    def texts(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> list[str]:
        return self.digits.texts(self.number(days, clock, offset))

    def values(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> pd.Series:
        return self.digits.values(self.number(days, clock, offset))


@dataclass(frozen=True, eq=False)
class SerialForm:
    """How a column of days since some day writes new ones, with so many decimals; None = in full."""

    zero: float
    decimals: int | None
    comma: bool
    name: Any
    dtype: Any

    def numbers(self, days: np.ndarray, clock: np.ndarray) -> np.ndarray:
        return days + self.zero + clock / DAY

    def texts(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> list[str]:
        numbers = self.numbers(days, clock).tolist()
        texts = [repr(number) if self.decimals is None else f"{number:.{self.decimals}f}" for number in numbers]
        return [text.replace(".", ",") for text in texts] if self.comma else texts

    def values(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> pd.Series:
        if pd.api.types.is_numeric_dtype(self.dtype):
            numbers = self.numbers(days, clock)
            rounded = numbers if self.decimals is None else np.round(numbers, self.decimals)
            return pd.Series(rounded, name=self.name).astype(self.dtype)
        return pd.Series(self.texts(days, clock, offset), name=self.name, dtype=self.dtype)


@dataclass(frozen=True, eq=False)
class NumberDates:
    """What such a column says: days since 1970 and microseconds since midnight, and whether they are UTC."""

    days: np.ndarray
    clock: np.ndarray
    form: NumberDateForm | SerialForm
    note: str
    utc: bool = False


def dates_of_numbers(column: pd.Series | pd.Index) -> NumberDates | None:
    """The dates that a column of numbers holds, or None where its name and numbers do not say so.

    Raises:
        RowError: digits are written with zeros before them in some rows and without in others.
    """
    name = column.name
    if name is None or not is_time_name(name):
        return None
    digits = digits_of(column)
    if digits is None:
        return _serial(column, None)
    found = _year_and_day(digits) or _year_and_month(digits) or _years(digits) or _epoch(digits)
    return found or _serial(column, digits)


def is_epoch(column: pd.Series | pd.Index) -> bool:
    """Whether a column is named as stamps are and holds seconds since 1970, or parts of them."""
    found = dates_of_numbers(column)
    return found is not None and found.utc


def _checked(digits: Digits, days: np.ndarray, number: Callable[..., np.ndarray], note: str) -> NumberDates | None:
    """Dates that give the same numbers again, or else None."""
    clock = np.zeros(len(days), np.int64)
    form = NumberDateForm(number, digits)
    right = (number(days, clock, clock) == digits.numbers).all()
    return NumberDates(days, clock, form, note) if right else None


def _within(digits: Digits, low: int, high: int) -> bool:
    return bool(digits.numbers.min() >= low and digits.numbers.max() <= high)


def _first_day(years: np.ndarray) -> np.ndarray:
    return (years - 1970).astype("M8[Y]").astype("M8[D]").astype(np.int64)


def _year_and_day(digits: Digits) -> NumberDates | None:
    if not _within(digits, 1_000_001, 2_999_366):
        return None
    number = lambda days, clock, offset: part_numbers("year", days, clock) * 1000 + part_numbers("doy", days, clock)
    days = _first_day(digits.numbers // 1000) + digits.numbers % 1000 - 1
    return _checked(digits, days, number, "dates are read as year and day of the year")


def _year_and_month(digits: Digits) -> NumberDates | None:
    if not _within(digits, 100_001, 299_912) or (digits.numbers % 100 > 12).any():
        return None
    number = lambda days, clock, offset: part_numbers("year", days, clock) * 100 + part_numbers("month", days, clock)
    months = (digits.numbers // 100 - 1970) * 12 + digits.numbers % 100 - 1
    return _checked(digits, months.astype("M8[M]").astype("M8[D]").astype(np.int64), number, "dates are months")


def _years(digits: Digits) -> NumberDates | None:
    named = part_of(digits.name)
    dated = any(word in ("date", "datum", "fecha") for word in words_of(digits.name))
    if not _within(digits, 1000, 2999) or not (dated or (named and named[0] == "year")):
        return None
    number = lambda days, clock, offset: part_numbers("year", days, clock)
    return _checked(digits, _first_day(digits.numbers), number, "dates are years")


def _epoch(digits: Digits) -> NumberDates | None:
    found = next((one for one in _EPOCHS if _within(digits, _FIRST * one[1], _LAST * one[1])), None)
    if found is None:
        return None
    name, size = found

    def number(days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> np.ndarray:
        micros = days * DAY + clock - offset
        return micros * (size // SECOND) if size >= SECOND else micros // (SECOND // size)

    if size > SECOND and (digits.numbers % (size // SECOND)).any():
        return None
    micros = digits.numbers // (size // SECOND) if size >= SECOND else digits.numbers * (SECOND // size)
    days = micros // DAY
    note = f"numbers are read as {name} since 1970-01-01 UTC"
    return NumberDates(days, micros - days * DAY, NumberDateForm(number, digits), note, utc=True)


def _serial(column: pd.Series | pd.Index, digits: Digits | None) -> NumberDates | None:
    texts = None if pd.api.types.is_numeric_dtype(column.dtype) else [str(item).strip() for item in column]
    comma = texts is not None and any("," in text for text in texts)
    try:
        values = np.array([float(t.replace(",", ".")) for t in texts] if texts else column, np.float64)
    except (TypeError, ValueError):
        return None
    words = set(words_of(column.name))
    dated = bool(words & {"date", "datetime", "datum", "fecha", "excel", "serial", "datenum", "matlab"})
    for what, zero, low, high, needed in _SERIALS:
        inside = np.isfinite(values).all() and low <= values.min() and values.max() <= high
        named = words & set(needed) if needed else dated and not words & {"mjd", "jd", "julian"}
        if inside and named:
            return _serial_dates(column, values, texts, (what, zero), comma)
    return None


def _serial_dates(
    column: pd.Series | pd.Index,
    values: np.ndarray,
    texts: Sequence[str] | None,
    kind: tuple[str, float],
    comma: bool,
) -> NumberDates | None:
    what, zero = kind
    decimals = max(len(t.replace(",", ".").partition(".")[2]) for t in texts) if texts else _decimals(values)
    for unit in (DAY, 60 * MINUTE, MINUTE, SECOND):
        micros = np.rint((values - zero) * (DAY / unit)).astype(np.int64) * unit
        days = micros // DAY
        whole = decimals == 0
        form = SerialForm(int(zero) if whole else zero, decimals, comma, column.name, column.dtype)
        clock = micros - days * DAY
        if _comes_back(form, days, clock, values, texts):
            return NumberDates(days, clock, form, f"numbers are read as {what}")
    return None


def _comes_back(
    form: SerialForm, days: np.ndarray, clock: np.ndarray, values: np.ndarray, texts: Sequence[str] | None
) -> bool:
    zeros = np.zeros_like(clock)
    if texts is not None:
        return form.texts(days, clock, zeros) == list(texts)
    return bool((form.values(days, clock, zeros).to_numpy(np.float64) == values).all())


def _decimals(values: np.ndarray) -> int | None:
    """The fewest decimals, up to 10, that write the numbers as they are; None where there are more."""
    return next((n for n in range(11) if (np.round(values, n) == values).all()), None)

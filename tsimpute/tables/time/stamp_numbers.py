"""One column of numbers that are dates: 2024091, 202403, epoch seconds, serial days; told by the column's name too."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.tables.columns.time_names import is_time_name, part_of, speaks_of_time, words_of
from tsimpute.tables.time.stamp_digits import Digits, digits_of
from tsimpute.tables.time.stamp_forms import DAY, MINUTE, SECOND, first_mondays, part_numbers

_FIRST, _LAST = 631_152_000, 4_102_444_800
"""Seconds since 1970 of the years 1990 and 2100, within which an epoch is believed."""
_DECIMAL = re.compile(r"\d{1,18}(?:[.,]\d*)?", re.ASCII)
_DATED = frozenset(("date", "datum", "fecha", "data", "yymmdd", "aammjj", "aammdd"))
"""Words of names of columns that may hold dates such as 240301."""
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
class FractionForm:
    """How a column of numbers with decimals writes new dates: so many decimals, None = in full."""

    number: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    decimals: int | None
    comma: bool
    name: Any
    dtype: Any

    def texts(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> list[str]:
        numbers = self.number(days, clock, offset).tolist()
        texts = [repr(number) if self.decimals is None else f"{number:.{self.decimals}f}" for number in numbers]
        return [text.replace(".", ",") for text in texts] if self.comma else texts

    def values(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> pd.Series:
        if pd.api.types.is_numeric_dtype(self.dtype):
            numbers = self.number(days, clock, offset)
            rounded = numbers if self.decimals is None else np.round(numbers, self.decimals)
            return pd.Series(rounded, name=self.name).astype(self.dtype)
        return pd.Series(self.texts(days, clock, offset), name=self.name, dtype=self.dtype)


@dataclass(frozen=True, eq=False)
class NumberDates:
    """What such a column says: days since 1970 and microseconds since midnight, and whether they are UTC."""

    days: np.ndarray
    clock: np.ndarray
    form: NumberDateForm | FractionForm
    note: str
    utc: bool = False


def dates_of_numbers(column: pd.Series | pd.Index) -> NumberDates | None:
    """The dates that a column of numbers holds, or None where its name and numbers do not say so.

    Raises:
        RowError: digits are written with zeros before them in some rows and without in others.
    """
    named = column.name is not None and is_time_name(column.name)
    digits = digits_of(column)
    if is_decimal_year(column):
        return _months_of_years(column)
    if digits is not None and (named or _turns_years(digits.numbers)):
        found = _year_and_week(digits) or _year_and_day(digits) or _year_and_month(digits)
        found = found or (_years(digits) or _short_dates(digits) or _epoch(digits) if named else None)
        if found:
            return found
    if digits is not None and column.name is not None and speaks_of_time(column.name):
        return _epoch(digits) or (_serial(column) if named else None)
    return _serial(column) if named or (column.name is not None and "jd" in words_of(column.name)) else None


def _turns_years(numbers: np.ndarray) -> bool:
    """Whether numbers such as 200011, 200012, 200101 go from the end of a year to the next one, and never back."""
    size = 100 if numbers.max() < 10**6 else 1000
    if len(numbers) < 12 or numbers.min() < 1800 * size or numbers.max() >= 2200 * size:
        return False
    steps = np.diff(numbers // size)
    once = np.abs(steps) == 1
    ends = np.maximum(numbers[1:], numbers[:-1])[once] % size, np.minimum(numbers[1:], numbers[:-1])[once] % size
    last = 12 if size == 100 else 365
    in_order = (np.diff(numbers) >= 0).all() or (np.diff(numbers) <= 0).all()
    return bool(in_order and once.any() and (np.abs(steps) <= 1).all() and ((ends[0] == 1) & (ends[1] >= last)).all())


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


def _year_and_week(digits: Digits) -> NumberDates | None:
    weekly = digits.name is not None and "week" in str(digits.name).lower()
    if not weekly or not _within(digits, 100_001, 299_953) or (digits.numbers % 100 < 1).any():
        return None
    number = lambda days, clock, offset: part_numbers("isoyear", days, clock) * 100 + part_numbers("week", days, clock)
    days = first_mondays(digits.numbers // 100) + 7 * (digits.numbers % 100 - 1)
    return _checked(digits, days, number, "dates are read as ISO years and weeks")


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


def _short_dates(digits: Digits) -> NumberDates | None:
    """240301 for 2024-03-01, and 24061 for the 61st day of 2024 where the name says so, in a column named as dates."""
    words = set(words_of(digits.name))
    year = lambda days, clock: part_numbers("year", days, clock) % 100
    if words & {"yyddd", "yyjjj"}:
        number = lambda days, clock, offset: year(days, clock) * 1000 + part_numbers("doy", days, clock)
        days = _first_day(_long_years(digits.numbers // 1000)) + digits.numbers % 1000 - 1
        inside = _within(digits, 1, 99_366)
    else:
        number = lambda days, clock, offset: (
            year(days, clock) * 10_000 + part_numbers("month", days, clock) * 100 + part_numbers("day", days, clock)
        )
        months = (_long_years(digits.numbers // 10_000) - 1970) * 12 + digits.numbers // 100 % 100 - 1
        days = months.astype("M8[M]").astype("M8[D]").astype(np.int64) + digits.numbers % 100 - 1
        inside = bool(words & _DATED) and _within(digits, 101, 991_231)
    found = _checked(digits, days, number, "dates are read as years of two digits, months and days") if inside else None
    return found if len(np.unique(digits.numbers)) > 2 else None


def _long_years(short: np.ndarray) -> np.ndarray:
    """Years of two digits in full: 69 is 1969, and 68 is 2068."""
    return short + np.where(short >= 69, 1900, 2000)


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


def is_decimal_year(column: pd.Series | pd.Index) -> bool:
    """Whether a column is named as years or dates are and holds years with decimals, as 2024.2486."""
    words = set(words_of(column.name)) if column.name is not None else set()
    if not words & {"year", "decyear", "date", "yr", "jahr"}:
        return False
    values = fractions_of(column)
    return values is not None and bool(
        (values.numbers % 1 != 0).any() and values.numbers.min() >= 1000 and values.numbers.max() < 3000
    )


def _months_of_years(column: pd.Series | pd.Index) -> NumberDates | None:
    """Years with decimals that are whole months, counted from their first day or from their middle."""
    found = fractions_of(column)
    if found is None:
        return None
    if written := _months_after_point(found):
        return written
    for middle in (0.0, 0.5):
        months = np.rint(found.numbers * 12 - middle).astype(np.int64)
        form = found.form(lambda days, clock, offset, middle=middle: (_month_number(days) + middle) / 12)
        days = (months - 12 * 1970).astype("M8[M]").astype("M8[D]").astype(np.int64)
        clock = np.zeros_like(days)
        if found.are(form, days, clock):
            return NumberDates(days, clock, form, "years with decimals are read as months")
    return None


def _months_after_point(found: Fractions) -> NumberDates | None:
    """2024.01 to 2024.12: the month stands after the point."""
    hundreds = np.rint(found.numbers * 100).astype(np.int64)
    if (hundreds % 100 < 1).any() or (hundreds % 100 > 12).any() or len(np.unique(hundreds % 100)) < 6:
        return None
    months = (hundreds // 100 - 1970) * 12 + hundreds % 100 - 1
    days = months.astype("M8[M]").astype("M8[D]").astype(np.int64)
    form = found.form(
        lambda days, clock, offset: (100 * part_numbers("year", days, clock) + part_numbers("month", days, clock)) / 100
    )
    right = found.are(form, days, np.zeros_like(days))
    return NumberDates(days, np.zeros_like(days), form, "dates are read as year.month") if right else None


def _month_number(days: np.ndarray) -> np.ndarray:
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64) + 12 * 1970


@dataclass(frozen=True, eq=False)
class Fractions:
    """The numbers of a column that may have decimals.

    Attributes:
        numbers: (R,) finite.
        texts: as they are written; None = they are numbers.
        decimals: as many as are written; None = more than 10.
        comma: is the decimal mark.
        name, dtype: of the column.
    """

    numbers: np.ndarray
    texts: list[str] | None
    decimals: int | None
    comma: bool
    name: Any
    dtype: Any

    def form(self, number: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> FractionForm:
        return FractionForm(number, self.decimals, self.comma, self.name, self.dtype)

    def are(self, form: FractionForm, days: np.ndarray, clock: np.ndarray) -> bool:
        """Whether a form writes these numbers for these times."""
        zeros = np.zeros_like(clock)
        if self.texts is not None:
            return form.texts(days, clock, zeros) == self.texts
        return bool((form.values(days, clock, zeros).to_numpy(np.float64) == self.numbers).all())


def fractions_of(column: pd.Series | pd.Index) -> Fractions | None:
    """A column as numbers, or None where a row holds none."""
    if pd.api.types.is_complex_dtype(column.dtype):
        return None
    if pd.api.types.is_numeric_dtype(column.dtype):
        texts = None
        numbers = pd.Series(column).astype("Float64").to_numpy(np.float64, na_value=np.nan)
    else:
        if not all(isinstance(item, str) and _DECIMAL.fullmatch(item.strip()) for item in column):
            return None
        texts = [item.strip() for item in column]
        numbers = np.array([float(text.replace(",", ".")) for text in texts], np.float64)
    if not len(numbers) or not np.isfinite(numbers).all():
        return None
    comma = texts is not None and any("," in text for text in texts)
    decimals = max(len(t.replace(",", ".").partition(".")[2]) for t in texts) if texts else _decimals(numbers)
    return Fractions(numbers, texts, decimals, comma, column.name, column.dtype)


def fractions_as_dates(
    found: Fractions, micros: np.ndarray, number: Callable[..., np.ndarray], shift: np.ndarray | int = 0
) -> tuple[np.ndarray, np.ndarray, FractionForm] | None:
    """Days, time of day and form of numbers, rounded as far as the same numbers are written again; else None.

    Args:
        micros: (R,) float64, what the numbers mean in microseconds, up to ``shift``, which is exact.
    """
    form = found.form(number)
    for unit in (DAY, 60 * MINUTE, MINUTE, SECOND, SECOND // 1000, 1):
        exact = np.rint(micros / unit).astype(np.int64) * unit + shift
        days = exact // DAY
        if found.are(form, days, exact - days * DAY):
            return days, exact - days * DAY, form
    return None


def _serial(column: pd.Series | pd.Index) -> NumberDates | None:
    found = fractions_of(column)
    if found is None:
        return None
    low, high = float(found.numbers.min()), float(found.numbers.max())
    for what, size in _EPOCHS[:2]:
        if _FIRST * size <= low and high <= _LAST * size:
            tick = SECOND // size
            number = lambda days, clock, offset, tick=tick: (days * DAY + clock - offset) / tick
            made = fractions_as_dates(found, found.numbers * tick, number)
            note = f"numbers are read as {what} since 1970-01-01 UTC"
            return None if made is None else NumberDates(*made, note, utc=True)
    words = set(words_of(column.name))
    dated = bool(words & {"date", "datetime", "datum", "fecha", "excel", "serial", "datenum", "matlab"})
    for what, zero, least, most, needed in _SERIALS:
        named = words & set(needed) if needed else dated and not words & {"mjd", "jd", "julian"}
        if named and least <= low and high <= most:
            number = lambda days, clock, offset, zero=zero: days + zero + clock / DAY
            made = fractions_as_dates(found, (found.numbers - zero) * DAY, number)
            return None if made is None else NumberDates(*made, f"numbers are read as {what}")
    return None


def _decimals(values: np.ndarray) -> int | None:
    """The fewest decimals, up to 10, that write the numbers as they are; None where there are more."""
    return next((n for n in range(11) if (np.round(values, n) == values).all()), None)

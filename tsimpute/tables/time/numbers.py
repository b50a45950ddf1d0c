"""Columns of numbers that are dates: 2024091, 202403, 03.2024, epoch seconds, serial days; the name decides, too."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tsimpute.tables.columns.time_names import is_time_name, part_of, speaks_of_time, words_of
from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.text_formats import Format, Piece
from tsimpute.tables.time.wall_times import DAY, MINUTE, SECOND, Column, Form, WallTimes, like, text_form

_FIRST, _LAST = 631_152_000, 4_102_444_800
"""Seconds since 1970 of the years 1990 and 2100, within which an epoch is believed."""
_DIGITS = re.compile(r"\d{1,18}|[1-8]\d{18}", re.ASCII)
_DECIMAL = re.compile(r"\d{1,18}(?:[.,]\d*)?", re.ASCII)
_COMPACT = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])(?:\d\d){0,3}", re.ASCII)
_MONTH = re.compile(r"(?P<month>0?[1-9]|1[0-2])\.(?P<year>(?:19|20)\d\d)", re.ASCII)
_YEAR_FIRST = re.compile(r"(?P<year>(?:19|20)\d\d)\.(?P<month>0[1-9]|1[0-2])", re.ASCII)
_MOST = 0.9  # Share of the texts of a column that are months before those that are not are errors
_DATED = frozenset(("date", "datum", "fecha", "data", "yymmdd", "aammjj", "aammdd"))
"""Words of names of columns that may hold dates such as 240301."""
_SINCE_1970 = "numbers are read as {} since 1970-01-01 UTC"
_EPOCHS = (("seconds", 1), ("milliseconds", 10**3), ("microseconds", 10**6), ("nanoseconds", 10**9))
_SERIALS = (
    ("Excel's serial days", 25_569, 20_000.0, 80_000.0, ()),
    ("MATLAB's datenum", 719_529, 700_000.0, 800_000.0, ()),
    ("Julian dates", 2_440_587.5, 2_430_000.0, 2_500_000.0, ("jd", "julian")),
    ("modified Julian dates", 40_587, 40_000.0, 80_000.0, ("mjd",)),
)
"""Of days: what they are called, their number on 1970-01-01, their range, and words that the name must have."""
_STYLES = {"year": "%04d", "isoyear": "%04d", "doy": "%03d"}
_PARTS = ("year", "month", "day", "hour", "minute", "second")
Number = Callable[[WallTimes], np.ndarray]  # The number that represents each time


@dataclass(frozen=True, eq=False)
class Digits:
    """Whole numbers that are 0 or more."""

    numbers: np.ndarray  # (R,) int64
    width: int  # they are written with zeros before them up to so many digits; 0 = without
    column: pd.Series | pd.Index  # of the numbers, or of texts of them
    as_text: bool = False  # its values are texts

    def form(self, number: Number) -> Form:
        """How the column writes the number of a time."""
        texts = lambda times: [str(n).zfill(self.width) for n in number(times).tolist()]
        if self.as_text:
            return text_form(texts, self.column)
        return Form(texts, lambda times: like(self.column, number(times).tolist()))

    def part_form(self, part: str) -> Form:
        return self.form(lambda times: times.part(part))


def digits_of(column: pd.Series | pd.Index) -> Digits | None:
    """A column as whole numbers, or None where some row holds something else or nothing.

    Texts with zeros before them in some rows and without in others are refused.
    """
    kind = column.dtype
    if not len(column) or pd.api.types.is_bool_dtype(kind) or pd.isna(column).any():
        return None
    if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind):
        values = pd.Series(column).to_numpy(np.float64)
        if not (np.isfinite(values).all() and (values == np.rint(values)).all() and values.min() >= 0):
            return None
        whole = pd.api.types.is_integer_dtype(kind)
        return Digits(pd.Series(column).to_numpy(np.int64), 0, column) if whole or values.max() < 2**53 else None
    items = column.tolist()
    if all(isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 2**62 for item in items):
        return Digits(np.array(items, np.int64), 0, pd.Series(column, dtype=object))
    if not all(isinstance(item, str) and _DIGITS.fullmatch(item.strip()) for item in items):
        return None
    texts = [item.strip() for item in items]
    width = next((len(text) for text in texts if text[0] == "0" and len(text) > 1), 0)
    odd = next((row for row, text in enumerate(texts) if str(int(text)).zfill(width) != text), None)
    if odd is not None:
        like_this = next(text for text in texts if text[0] == "0" and len(text) == width)
        raise RowError(
            f"time column {column.name!r}, ", odd, f": expected {width} digits as in {like_this!r}, came "
            f"{texts[odd]!r}; write all rows in one form.",
        )  # fmt: skip
    return Digits(np.array(texts, np.int64), width, column, as_text=True)


def is_compact(numbers: np.ndarray) -> bool:
    """Whether whole numbers are dates such as 20140501 or 201405012330, all with as many digits."""
    low, high = str(numbers.min()), str(numbers.max())
    if len(low) != len(high) or not _COMPACT.fullmatch(low) or not _COMPACT.fullmatch(high):
        return False
    return bool(read_digits(numbers, _PARTS[: len(low) // 2 - 1])[1].all())


def are_compact(texts: list[str]) -> bool:
    """Whether all texts have the shape of dates such as 20140501 or 201405012330."""
    return all(map(_COMPACT.fullmatch, texts))


def are_months(column: pd.Series | pd.Index, texts: Sequence[str] | None = None) -> bool:
    """Whether numbers are months written with a point, as 03.2024 or 2024.03, and not numbers with decimals.

    In a column with a name of times, a zero before the month decides (then one row in ten may be wrong, which the
    reading of dates refuses by its line), or a name such as Monat, or months without many gaps over a change of years.
    In another column, months do that follow each other over a change of years; see ``is_decimal_year`` for 2024.2486.
    """
    texts = [str(item).strip() for item in column] if texts is None else texts
    form = max((_MONTH, _YEAR_FIRST), key=lambda form: sum(map(bool, map(form.fullmatch, texts[:20]))))
    if not any(map(form.fullmatch, texts[:20])):
        return False
    matches = [match for match in map(form.fullmatch, texts) if match]
    if len(matches) < max(1, _MOST * len(texts)) or is_decimal_year(column):
        return False
    named, whole = is_time_name(column.name), len(matches) == len(texts)
    if named and form is _MONTH and any(match[0][0] == "0" for match in matches):
        return True
    numbers = np.array([int(match["year"]) * 100 + int(match["month"]) for match in matches])
    if not named or not whole:
        return whole and _turns_years(numbers)
    if set(words_of(column.name)) & _DATED or (part_of(column.name) or ("", False))[0] == "month":
        return True
    months = np.unique(numbers // 100 * 12 + numbers % 100)
    varied = len(np.unique(numbers // 100)) > 1 and len(np.unique(numbers % 100)) > 2
    return varied and 2 * len(months) > months[-1] - months[0]


def dates_of_numbers(column: pd.Series | pd.Index) -> Column | None:
    """The dates that a column of numbers holds, or None where its name and numbers are not those of dates."""
    named = is_time_name(column.name)
    digits = digits_of(column)
    is_years = is_decimal_year(column)
    months = _months(column) if is_years or digits is None else None
    if is_years or months:
        return months
    if digits is not None and (named or _turns_years(digits.numbers)):
        dates = _joined_parts(digits, named) or (_epoch(digits) if named else None)
        if dates:
            return dates
    if digits is not None and speaks_of_time(column.name):
        return _epoch(digits) or (_serial(column) if named else None)
    return _serial(column) if named or "jd" in words_of(column.name) else None


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


def _joined_parts(digits: Digits, named: bool) -> Column | None:
    """Numbers such as 202403: parts of a date written without a sign between."""
    numbers, name = digits.numbers, digits.column.name
    words = set(words_of(name))
    options: list[tuple[tuple[str, ...], int, int, str]] = [
        (("year", "doy"), 1_000_000, 3_000_000, "dates are read as year and day of the year"),
        (("year", "month"), 100_000, 300_000, "dates are months"),
    ]
    if "week" in str(name).lower():
        options.insert(0, (("isoyear", "week"), 100_000, 300_000, "dates are read as ISO years and weeks"))
    if named and (words & {"date", "datum", "fecha"} or (part_of(name) or ("", False))[0] == "year"):
        options.append((("year",), 1000, 3000, "dates are years"))
    short = "dates are read as years of two digits, months and days"
    if named and len(np.unique(numbers)) > 2:
        if words & {"yyddd", "yyjjj"}:
            options.append((("year2", "doy"), 1, 100_000, short))
        elif words & _DATED:
            options.append((("year2", "month", "day"), 101, 1_000_000, short))
    for parts, low, high, note in options:
        if numbers.min() < low or numbers.max() >= high:
            continue
        times, known = read_digits(numbers, parts)
        if known.all():
            number = lambda times, parts=parts: np.array(_format(parts).write(times), np.int64)
            return Column.of(times, digits.form(number), note)
    return None


def _format(parts: tuple[str, ...]) -> Format:
    return Format(tuple(Piece(part, _STYLES.get(part, "%02d")) for part in parts))


def read_digits(numbers: np.ndarray, parts: tuple[str, ...]) -> tuple[WallTimes, np.ndarray]:
    """The times of numbers (R,) that join these parts, and (R,) bool: the numbers that are such times."""
    format = _format(parts)
    width = sum(piece.width for piece in format.pieces)
    distinct, codes = np.unique(numbers, return_inverse=True)
    times, known = format.read([str(number).zfill(width) for number in distinct.tolist()])
    return times.at(codes), known[codes]


def _epoch(digits: Digits) -> Column | None:
    ends = digits.numbers.min(), digits.numbers.max()
    name, size = next((e for e in _EPOCHS if _FIRST * e[1] <= ends[0] and ends[1] <= _LAST * e[1]), ("", 0))
    if not size or (size > SECOND and (digits.numbers % (size // SECOND)).any()):
        return None
    micros = digits.numbers // (size // SECOND) if size >= SECOND else digits.numbers * (SECOND // size)
    number = lambda times: times.utc * (size // SECOND) if size >= SECOND else times.utc // (SECOND // size)
    return Column.of(WallTimes.of(micros, np.zeros_like(micros)), digits.form(number), _SINCE_1970.format(name))


def is_decimal_year(column: pd.Series | pd.Index) -> bool:
    """Whether a column is named as years or dates are and holds years with decimals, as 2024.2486."""
    words = set(words_of(column.name))
    if not words & {"year", "decyear", "date", "yr", "jahr"}:
        return False
    decimals = decimals_of(column)
    return decimals is not None and bool(
        (decimals.numbers % 1 != 0).any() and decimals.numbers.min() >= 1000 and decimals.numbers.max() < 3000
    )


def _months(column: pd.Series | pd.Index) -> Column | None:
    """Numbers that are whole months.

    They are years with decimals (2024.01 to 2024.12, or twelfths of the year, or their middles), or have the month
    first and the year as four decimals (3.2024); see ``are_months``.
    """
    decimals = decimals_of(column)
    if decimals is None:
        return None
    numbers, options = decimals.numbers, []
    if not is_decimal_year(column):
        if pd.api.types.is_float_dtype(column.dtype) and are_months(column, decimal_texts(numbers, 4, comma=False)):
            months = np.rint(numbers % 1 * 10_000).astype(np.int64) * 12 + numbers.astype(np.int64) - 1
            number = lambda times: np.round(times.part("month") + times.part("year") / 10_000, 4)
            options.append((months, number, "dates are read as month.year"))
    else:
        hundreds = np.rint(numbers * 100).astype(np.int64)
        month = hundreds % 100
        if (month >= 1).all() and (month <= 12).all() and len(np.unique(month)) >= 6:
            number = lambda times: (100 * times.part("year") + times.part("month")) / 100
            options.append((hundreds // 100 * 12 + month - 1, number, "dates are read as year.month"))
        for middle in (0.0, 0.5):
            number = lambda times, middle=middle: (12 * times.part("year") + times.part("month") - 1 + middle) / 12
            months = np.rint(numbers * 12 - middle).astype(np.int64)
            options.append((months, number, "years with decimals are read as months"))
    dates = ((decimals.months(months, number), note) for months, number, note in options)
    return next((Column.of(*of_option, note) for of_option, note in dates if of_option), None)


@dataclass(frozen=True, eq=False)
class Decimals:
    """The numbers of a column that may have decimals."""

    numbers: np.ndarray  # (R,) finite
    texts: list[str] | None  # as they are written; None = they are numbers
    decimals: int | None  # as many as are written; None = more than 10
    comma: bool  # is the decimal mark
    column: pd.Series | pd.Index  # of the numbers

    def form(self, number: Number) -> Form:
        """How the column writes the number of a time."""
        write = lambda times: decimal_texts(number(times), self.decimals, self.comma)
        if self.texts is not None:
            return text_form(write, self.column)
        rounded = lambda numbers: numbers if self.decimals is None else np.round(numbers, self.decimals)
        return Form(
            write, lambda times: pd.Series(rounded(number(times)), name=self.column.name).astype(self.column.dtype)
        )

    def dates(self, micros: np.ndarray, number: Number, shift: int = 0) -> tuple[WallTimes, Form] | None:
        """Times and form of the numbers, rounded as far as the same numbers are written again; else None.

        ``micros`` (R,) float64 are what the numbers mean in microseconds, up to ``shift``, which is exact.
        """
        for unit in (DAY, 60 * MINUTE, MINUTE, SECOND, SECOND // 1000, 1):
            times = WallTimes.of(np.rint(micros / unit).astype(np.int64) * unit + shift)
            if self._are(times, number):
                return times, self.form(number)
        return None

    def months(self, months: np.ndarray, number: Number) -> tuple[WallTimes, Form] | None:
        """Times and form of numbers that are months since the year 0; None where others are written again."""
        days = (months - 12 * 1970).astype("M8[M]").astype("M8[D]").astype(np.int64)
        times = WallTimes(days, np.zeros_like(days))
        return (times, self.form(number)) if self._are(times, number) else None

    def _are(self, times: WallTimes, number: Number) -> bool:
        form = self.form(number)
        if self.texts is not None:
            return form.texts(times) == self.texts
        return bool((form.values(times).to_numpy(np.float64) == self.numbers).all())


def decimal_texts(numbers: np.ndarray, decimals: int | None, comma: bool) -> list[str]:
    """Numbers with so many decimals; None = in full."""
    if numbers.dtype.kind == "i" and not decimals:
        return list(map(str, numbers.tolist()))
    if decimals is None:
        return [repr(number) for number in numbers.tolist()]
    texts = [f"{number:.{decimals}f}" for number in numbers.tolist()]
    return [text.replace(".", ",") for text in texts] if comma else texts


def decimals_of(column: pd.Series | pd.Index) -> Decimals | None:
    """A column as numbers, or None where a row holds none."""
    if pd.api.types.is_complex_dtype(column.dtype):
        return None
    if pd.api.types.is_numeric_dtype(column.dtype):
        numbers = pd.Series(column).astype("Float64").to_numpy(np.float64, na_value=np.nan)
        fractions = numbers[~(np.abs(numbers) >= 2.0**53)]  # larger numbers are whole
        texts, n_decimals = None, next((n for n in range(11) if (np.round(fractions, n) == fractions).all()), None)
    else:
        if not all(isinstance(item, str) and _DECIMAL.fullmatch(item.strip()) for item in column):
            return None
        texts = [item.strip() for item in column]
        numbers = np.array([float(text.replace(",", ".")) for text in texts], np.float64)
        n_decimals = max((len(text.replace(",", ".").partition(".")[2]) for text in texts), default=0)
    if not len(numbers) or not np.isfinite(numbers).all():
        return None
    return Decimals(numbers, texts, n_decimals, any("," in text for text in texts or ()), column)


def _serial(column: pd.Series | pd.Index) -> Column | None:
    decimals = decimals_of(column)
    if decimals is None:
        return None
    low, high = float(decimals.numbers.min()), float(decimals.numbers.max())
    for what, size in _EPOCHS[:2]:
        if _FIRST * size <= low and high <= _LAST * size:
            tick = SECOND // size
            dates = decimals.dates(decimals.numbers * tick, lambda times, tick=tick: times.utc / tick)
            since = _SINCE_1970.format(what)
            return dates and Column.of(replace(dates[0], offset=np.zeros_like(dates[0].days)), dates[1], since)
    words = set(words_of(column.name))
    dated = bool(words & {"date", "datetime", "datum", "fecha", "excel", "serial", "datenum", "matlab"})
    for what, zero, least, most, needed in _SERIALS:
        named = words & set(needed) if needed else dated and not words & {"mjd", "jd", "julian"}
        if named and least <= low and high <= most:
            number = lambda times, zero=zero: times.days + zero + times.clock / DAY
            dates = decimals.dates((decimals.numbers - zero) * DAY, number)
            return dates and Column.of(*dates, f"numbers are read as {what}")
    return None

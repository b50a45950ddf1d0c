"""One time column of a table, of whatever dtype: what it looks like, its times, and how it writes new ones."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.columns.number_texts import is_hashable
from tsimpute.tables.columns.time_names import is_time_name, part_of, speaks_of_time
from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.numbers import (
    are_compact,
    are_months,
    dates_of_numbers,
    decimal_texts,
    digits_of,
    is_compact,
    is_decimal_year,
)
from tsimpute.tables.time.text_formats import CLOCKS, DATES, ELAPSED, MARKED_CLOCKS
from tsimpute.tables.time.texts import SAMPLE, fits, parse, read_texts, spread
from tsimpute.tables.time.wall_times import Column, Form, WallTimes, like, text_form

NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?")
_FINER = "times are read to the microsecond"
MOST = 0.9  # Share of the texts of a column that must read as times before those that do not are errors
FEW = 3  # So many must do so at least
_LIKE_A_DATE = re.compile(
    r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}|\d{1,2}[-/. ]+[^\W\d_]{3,}[-/. ,]+\d{2,4}|^\d{4}[-/]\d\d$|\bFY\s*'?\d\d|\d\d:\d\d"
)


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of plain numbers, (R,) int64 or float64, and how it writes new ones."""

    numbers: np.ndarray
    form: Form


def read_column(column: pd.Series | pd.Index, *, part: str = "whole") -> Column | Numbers:
    """Reads one column (R,); ``part``: "whole" for the only time column, "date" or "clock" for one of two.

    A row without a stamp, or with one that cannot be read, is refused; the message names it, counted from 0.
    """
    series = pd.Series(np.asarray(column, object) if isinstance(column.dtype, pd.CategoricalDtype) else column)
    what = "time" if column.name is None else f"time column {column.name!r}"
    blank = series.isna().to_numpy()
    if series.dtype == object or pd.api.types.is_string_dtype(series.dtype):
        blank = blank | series.map(lambda item: isinstance(item, str) and not item.strip()).to_numpy(bool)
    if blank.any():
        raise RowError(
            f"{what}: expected a time in every row, {int(blank.sum())} have none, the first is ",
            int(np.argmax(blank)), "; fill it in, or take these rows out.",
        )  # fmt: skip
    if pd.api.types.is_bool_dtype(series.dtype):
        raise DataError(f"{what}: expected times, came true and false; name the column of times.")
    if isinstance(series.dtype, pd.PeriodDtype) or pd.api.types.is_datetime64_any_dtype(series.dtype):
        return _typed(series)
    if pd.api.types.is_timedelta64_dtype(series.dtype):
        micros = series.astype("m8[us]").to_numpy().astype(np.int64)
        times = WallTimes(np.zeros_like(micros), micros)
        restore = lambda times: pd.Series(times.micros.astype("m8[us]"), name=series.name).astype(series.dtype)
        return Column({"": times}, {"": _typed_form(restore)}, dated=False, typed=True)
    if pd.api.types.is_numeric_dtype(series.dtype):
        return _numeric(series, part, what)
    return _objects(series.rename(column.name), part, what)


def _typed_form(restore: Callable[[WallTimes], pd.Series]) -> Form:
    return Form(lambda times: restore(times).astype(str).tolist(), restore)


def _typed(series: pd.Series) -> Column:
    dtype = series.dtype
    if isinstance(dtype, pd.PeriodDtype):
        wall = series.dt.start_time.to_numpy().astype("M8[us]").astype(np.int64)
        periods = lambda times: pd.Series(_index(times.micros).to_period(dtype.freq), name=series.name)
        return Column.of(WallTimes.of(wall), _typed_form(periods))
    index = pd.DatetimeIndex(series)
    notes = (_FINER,) if (index.nanosecond != 0).any() else ()
    wall = index.tz_localize(None).as_unit("us").asi8
    if index.tz is None:
        stamps = lambda times: pd.Series(_index(times.micros), name=series.name).astype(dtype)
        return Column.of(WallTimes.of(wall), _typed_form(stamps), *notes)
    offset = wall - index.as_unit("us").asi8
    zoned = lambda times: pd.Series(_index(times.utc, "UTC").tz_convert(index.tz), name=series.name).astype(dtype)
    return Column.of(WallTimes.of(wall, offset), _typed_form(zoned), *notes, f"time zone {index.tz}", zone=index.tz)


def _index(micros: np.ndarray, zone: str | None = None) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(micros.astype("M8[us]"), tz=zone)


def _numeric(series: pd.Series, part: str, what: str) -> Column | Numbers:
    whole = pd.api.types.is_integer_dtype(series.dtype)
    numbers = series.to_numpy(np.int64 if whole else np.float64)
    _check_finite(numbers, numbers, what)
    if part == "date" and (dates := _dates_of_digits(series)):
        return dates
    if (numbers == np.rint(numbers)).all():
        texts = [str(int(number)) for number in numbers.tolist()]
        if part != "whole" or are_compact(texts):
            return _texts(
                texts, lambda new: pd.Series(new, name=series.name).astype(np.int64).astype(series.dtype), part, what
            )
    if part == "whole" and (dates := dates_of_numbers(series)):
        return dates
    values = lambda new: like(series, np.rint(new) if whole and new.dtype.kind == "f" else new)
    return Numbers(numbers, Form(lambda new: decimal_texts(new, 0 if whole else None, comma=False), values))


def _check_finite(numbers: np.ndarray, items: Sequence[object] | np.ndarray, what: str) -> None:
    if not np.isfinite(numbers).all():
        row = int(np.argmax(~np.isfinite(numbers)))
        came = repr(items[row]) if isinstance(items[row], str) else items[row]
        raise RowError(f"{what}, ", row, f": expected a finite number, came {came}; correct it.")


def _objects(series: pd.Series, part: str, what: str) -> Column | Numbers:
    items = series.to_numpy(object)
    kind = next((k for k in (str, dt.datetime, dt.date, dt.time, pd.Period) if isinstance(items[0], k)), None)
    if kind is None and all(isinstance(item, (int, float, np.number)) for item in items):
        return _numeric(pd.Series(items.tolist(), name=series.name), part, what)
    odd = 0 if kind is None else next((i for i, item in enumerate(items) if not isinstance(item, kind)), None)
    if kind is None or odd is not None:
        raise RowError(
            f"{what}, ", odd or 0, f": expected a date or time like the other rows, came {items[odd or 0]!r} of type "
            f"{type(items[odd or 0]).__name__}; convert the column with pandas.to_datetime first.",
        )  # fmt: skip
    if kind is pd.Period:
        return _typed(pd.Series(pd.PeriodIndex(items), name=series.name))
    if kind is not str:
        make = {dt.datetime: pd.Timestamp, dt.date: dt.date.fromisoformat, dt.time: dt.time.fromisoformat}[kind]
        plain = lambda item: item.to_pydatetime() if isinstance(item, pd.Timestamp) else item
        restore = lambda new: pd.Series([plain(make(text)) for text in new], name=series.name, dtype=object)
        return _texts(list(map(str, items)), restore, part, what)
    if part != "clock" and all(NUMBER.fullmatch(text.strip()) for text in items):
        if part == "date" and (dates := _dates_of_digits(series)):
            return dates
        if part == "whole" and not are_compact([text.strip() for text in items]) and not are_months(series):
            if dates := dates_of_numbers(series):
                return dates
            stripped = series.map(str.strip)
            comma = bool(stripped.str.contains(",").any()) and not stripped.str.contains(".", regex=False).any()
            plain = stripped.str.replace(",", ".") if comma else stripped
            if (odd := plain.str.contains(",")).any():
                row = int(np.argmax(odd))
                came = repr(stripped.iloc[row])
                raise RowError(f"{what}, ", row, f": expected one decimal mark, came {came}; write it plainly.")
            exponent = bool(plain.str.contains("[eE]").any())
            decimals = None if exponent else int(plain.str.partition(".")[2].str.len().max())
            whole = plain.str.fullmatch(r"[+-]?\d{1,18}").all()
            numbers = plain.astype(np.int64 if whole else np.float64).to_numpy()
            _check_finite(numbers, stripped.tolist(), what)
            return Numbers(numbers, text_form(lambda new: decimal_texts(new, decimals, comma), series))
    return _texts(items, lambda new: like(series, new), part, what)


def _dates_of_digits(series: pd.Series) -> Column | None:
    """Dates in digits, next to a column of times of day, that are not written as 20240301: 240301, or 2024061."""
    digits = digits_of(series)
    if digits is None or is_compact(digits.numbers):
        return None
    dates = dates_of_numbers(series)
    return None if dates is None or dates.has_clock else dates


def _texts(
    texts: Sequence[str] | np.ndarray, restore: Callable[[list[str]], pd.Series], part: str, what: str
) -> Column:
    """Texts, and the texts of values that ``restore`` makes values of the column again."""
    patterns = CLOCKS
    if part != "clock":
        first = str(texts[0]).strip()
        is_elapsed = part == "whole" and any(pattern.fullmatch(first) for pattern in ELAPSED)
        patterns = ELAPSED if is_elapsed and not fits([first], DATES) and fits([first], ELAPSED) else DATES
    readings = parse(texts, patterns, what=what)
    first = next(iter(readings.values()))
    forms = {
        name: Form(reading.formats[0].write, lambda times, write=reading.formats[0].write: restore(write(times)))
        for name, reading in readings.items()
    }
    return Column(
        {name: reading.times for name, reading in readings.items()},
        forms,
        dated=patterns is DATES,
        has_clock=first.has("hour", "hour12", "hours"),
        notes=(_FINER,) if first.finer else (),
    )


@dataclass(frozen=True)
class Look:
    """What a column looks like."""

    # "full" for dates with times of day, "date" for dates without, "clock" for times of day or elapsed times, "years"
    # for years with decimals, "" for none of these.
    kind: Literal["full", "date", "clock", "years", ""] = ""
    n_bad: int = 0  # how many of its distinct texts cannot be read as the others are
    by_name: bool = False  # only the name indicates that the numbers are dates


def look_of(column: pd.Series | pd.Index) -> Look:
    """What a column of any dtype looks like; blank rows do not count."""
    series = pd.Series(column).dropna()
    kind = series.dtype
    if not len(series) or pd.api.types.is_bool_dtype(kind):
        return Look()
    if isinstance(kind, pd.PeriodDtype):
        series = series.dt.start_time
    if pd.api.types.is_datetime64_any_dtype(series.dtype):
        return Look("full" if (series.dt.normalize() != series).any() else "date")
    if pd.api.types.is_timedelta64_dtype(kind):
        return Look("clock")
    if pd.api.types.is_numeric_dtype(kind):
        return _of_numbers(series)
    items = series.unique().tolist() if all(map(is_hashable, series)) else []
    items = [item for item in items if not (isinstance(item, str) and not item.strip())]
    if items and all(isinstance(item, str) for item in items):
        return _of_texts(series, [item.strip() for item in items])
    if not items or not all(isinstance(item, (dt.date, dt.time, np.datetime64)) for item in items):
        return Look()
    if all(isinstance(item, dt.time) for item in items):
        return Look("clock")
    if all(isinstance(item, dt.date) and not isinstance(item, dt.datetime) for item in items):
        return Look("date")
    clocks = (getattr(item, "time", lambda: dt.time())() for item in items)
    return Look("full" if any(clock != dt.time() for clock in clocks) else "date")


def is_stamp(column: pd.Series | pd.Index) -> bool:
    """Whether a column holds dates in every row, also as numbers: such a column is never predicted."""
    look = look_of(column)
    return look.kind in ("full", "date", "years") and not look.n_bad


def looks_like_time(column: pd.Series | pd.Index) -> bool:
    """Whether a column holds dates or times: time stamps, or texts all of which but blank ones read as such.

    Plain numbers, such as 1360 or 2015, do not look like times although they may count as such.
    """
    series = pd.Series(column)
    if pd.api.types.is_numeric_dtype(series.dtype):
        return False
    typed = pd.api.types.is_datetime64_any_dtype(series.dtype)
    if not typed and any(isinstance(item, str) and NUMBER.fullmatch(item.strip()) for item in series):
        return False
    look = look_of(series)
    return bool(look.kind) and not look.n_bad


def resembles_time(column: pd.Series | pd.Index, name: object) -> bool:
    """Whether a column of texts is named as times are, or most of its texts have the shape of a date."""
    series = pd.Series(column).dropna()
    is_numeric = pd.api.types.is_numeric_dtype(series.dtype)  # also true and false
    texts = [] if is_numeric else [item for item in series.unique() if isinstance(item, str) and item.strip()]
    if not texts:
        return False
    texts = spread(texts, SAMPLE)
    shaped = sum(bool(_LIKE_A_DATE.search(text)) for text in texts)
    return speaks_of_time(name) or 2 * shaped > len(texts)


def _of_numbers(series: pd.Series) -> Look:
    try:
        digits = digits_of(series)
    except DataError:
        return Look()
    named = is_time_name(series.name)
    if digits is not None and is_compact(digits.numbers):
        if not named and len(np.unique(digits.numbers)) < FEW:
            return Look()
        return Look("date" if digits.numbers.max() < 10**8 else "full", by_name=not named)
    if is_decimal_year(series):
        return Look("years" if dates_of_numbers(series) is None else "date", by_name=True)
    if named and (part := part_of(series.name)) and part[0] == "year":
        return Look()
    dates = dates_of_numbers(series)
    return Look() if dates is None else Look("full" if dates.has_clock else "date", by_name=True)


def _of_texts(series: pd.Series, texts: list[str]) -> Look:
    sample = spread(texts, SAMPLE)
    if all(map(NUMBER.fullmatch, sample)) and not are_months(series):
        return _of_numbers(series) if all(map(NUMBER.fullmatch, texts)) else Look()
    for patterns in (DATES, ELAPSED, MARKED_CLOCKS):
        readable = max(reading.valid.sum() for reading in read_texts(sample, patterns).values())
        if readable < max(1, MOST * len(sample) - 1):
            continue
        reading = max(read_texts(texts, patterns).values(), key=lambda reading: reading.valid.sum())
        n_bad = int((~reading.valid).sum())
        if n_bad and (n_bad > (1 - MOST) * len(texts) or len(texts) - n_bad < FEW):
            continue
        if patterns is not DATES:
            return Look("clock", n_bad)
        return Look("full" if reading.times.clock[reading.valid].any() else "date", n_bad)
    return Look()

"""What the contents of a column look like: dates with or without a time of day, times of day, or nothing of time."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.columns.number_texts import is_hashable
from tsimpute.tables.columns.time_names import is_time_name, part_of, speaks_of_time
from tsimpute.tables.time.columns import NUMBER
from tsimpute.tables.time.numbers import are_months, dates_of_numbers, digits_of, is_compact, is_decimal_year
from tsimpute.tables.time.text_formats import DATES, ELAPSED, MARKED_CLOCKS
from tsimpute.tables.time.texts import SAMPLE, read_texts, spread

MOST = 0.9
"""Share of the texts of a column that must read as times before those that do not are errors."""
FEW = 3
"""So many must do so at least."""
_LIKE_A_DATE = re.compile(
    r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}|\d{1,2}[-/. ]+[^\W\d_]{3,}[-/. ,]+\d{2,4}|^\d{4}[-/]\d\d$|\bFY\s*'?\d\d|\d\d:\d\d"
)


@dataclass(frozen=True)
class Look:
    """What a column looks like.

    Attributes:
        kind: "full" for dates with times of day, "date" for dates without, "clock" for times of day or elapsed times,
            "years" for years with decimals, "" for none of these.
        n_bad: how many of its distinct texts cannot be read as the others are.
        by_name: only the name indicates that the numbers are dates.
    """

    kind: Literal["full", "date", "clock", "years", ""] = ""
    n_bad: int = 0
    by_name: bool = False


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
    return _of_objects(items)


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
    if not pd.api.types.is_datetime64_any_dtype(series.dtype) and any(
        isinstance(item, str) and NUMBER.fullmatch(item.strip()) for item in series
    ):
        return False
    look = look_of(series)
    return bool(look.kind) and not look.n_bad


def resembles_time(column: pd.Series | pd.Index, name: object) -> bool:
    """Whether a column of texts is named as times are, or most of its texts have the shape of a date."""
    series = pd.Series(column).dropna()
    if pd.api.types.is_numeric_dtype(series.dtype) or pd.api.types.is_bool_dtype(series.dtype):
        return False
    texts = [item for item in series.unique().tolist() if isinstance(item, str) and item.strip()]
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
    named = series.name is not None and is_time_name(series.name)
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


def _of_objects(items: Sequence[object]) -> Look:
    """Dates and times of Python, NumPy and pandas."""
    if not items or not all(isinstance(item, (dt.date, dt.time, np.datetime64)) for item in items):
        return Look()
    if all(isinstance(item, dt.time) for item in items):
        return Look("clock")
    if all(isinstance(item, dt.date) and not isinstance(item, dt.datetime) for item in items):
        return Look("date")
    clocks = (getattr(item, "time", lambda: dt.time())() for item in items)
    return Look("full" if any(clock != dt.time() for clock in clocks) else "date")

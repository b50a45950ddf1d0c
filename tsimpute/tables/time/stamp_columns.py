"""One time column of a table, of whatever kind: what its rows say, and how it writes new ones."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.stamp_digits import digits_of
from tsimpute.tables.time.stamp_forms import DAY, Form, NumberForm, RestoredForm, TypedForm
from tsimpute.tables.time.stamp_numbers import NumberDates, dates_of_numbers
from tsimpute.tables.time.stamp_texts import CLOCKS, DATES, ELAPSED, fits, parse

_NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?")
_COMPACT = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])(?:\d\d){0,3}")
_TIMELIKE = (dt.date, dt.time, np.datetime64)


@dataclass(frozen=True, eq=False)
class Column:
    """What the rows of one column say.

    Attributes:
        days: (R,) days since 1970 by the wall clock, under each reading that fits; None where there is no date.
        clock: (R,) microseconds since midnight, or since the start.
        offset: (R,) microseconds that the wall clock is ahead of UTC, or None where it is not said.
        forms: how to write, under each reading.
        zone: of a column of zoned time stamps.
        has_clock: there is a time of day.
        notes: what is worth saying.
        typed: of time differences, which are no times of day.
    """

    days: Mapping[str, np.ndarray] | None
    clock: np.ndarray
    offset: np.ndarray | None
    forms: Mapping[str, Form]
    zone: dt.tzinfo | None = None
    has_clock: bool = True
    notes: tuple[str, ...] = ()
    typed: bool = False


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of plain numbers, (R,) int64 or float64, and how it writes new ones."""

    numbers: np.ndarray
    form: NumberForm


def read_column(column: pd.Series | pd.Index, *, part: str = "whole") -> Column | Numbers:
    """Understands one column.

    Args:
        column: (R,) without missing stamps.
        part: "whole" for the only time column; "date" or "clock" for one of two.

    Raises:
        DataError: a row has no stamp or one that cannot be read; the message names it, counted from 0.
    """
    series = pd.Series(np.asarray(column, object) if isinstance(column.dtype, pd.CategoricalDtype) else column)
    what = _named(column)
    _check_present(series, what)
    if pd.api.types.is_bool_dtype(series.dtype):
        raise DataError(f"{what}: expected times, came true and false; name the column of times.")
    if isinstance(series.dtype, pd.PeriodDtype) or pd.api.types.is_datetime64_any_dtype(series.dtype):
        return _typed(series)
    if pd.api.types.is_timedelta64_dtype(series.dtype):
        micros = series.astype("m8[us]").to_numpy().astype(np.int64)
        return Column(None, micros, None, {"": TypedForm(series.name, series.dtype, elapsed=True)}, typed=True)
    if pd.api.types.is_numeric_dtype(series.dtype):
        return _numeric(series, part, what)
    return _objects(series, part, what)


def is_time(column: pd.Series | pd.Index) -> bool:
    """Whether all rows that are not blank are dates or times; plain numbers are none."""
    series = pd.Series(column)
    if pd.api.types.is_datetime64_any_dtype(series.dtype) or pd.api.types.is_timedelta64_dtype(series.dtype):
        return True
    if isinstance(series.dtype, pd.PeriodDtype):
        return True
    if pd.api.types.is_numeric_dtype(series.dtype):
        return False
    known = series.dropna()
    if not all(isinstance(item, (str, *_TIMELIKE)) for item in known):
        return False
    items = [item for item in known.unique() if not (isinstance(item, str) and not item.strip())]
    if not items:
        return False
    texts = [str(item).strip() for item in items]
    first = texts[0]
    if _NUMBER.fullmatch(first) or not (fits([first], DATES) or fits([first], ELAPSED)):
        return False
    return not any(map(_NUMBER.fullmatch, texts)) and (fits(texts, DATES) or fits(texts, ELAPSED))


def is_compact(numbers: np.ndarray) -> bool:
    """Whether whole numbers are dates such as 20140501 or 201405012330, all with as many digits."""
    low, high = str(numbers.min()), str(numbers.max())
    if len(low) != len(high) or not _COMPACT.fullmatch(low) or not _COMPACT.fullmatch(high):
        return False
    texts = [str(number) for number in np.unique(numbers).tolist()]
    return all(map(_COMPACT.fullmatch, texts)) and fits(texts, DATES)


def _named(column: pd.Series | pd.Index) -> str:
    return "time" if column.name is None else f"time column {column.name!r}"


def _check_present(series: pd.Series, what: str) -> None:
    blank = series.isna().to_numpy()
    if series.dtype == object or pd.api.types.is_string_dtype(series.dtype):
        blank = blank | series.map(lambda item: isinstance(item, str) and not item.strip()).to_numpy(bool)
    if blank.any():
        raise RowError(
            f"{what}: expected a time in every row, {int(blank.sum())} have none, the first is ",
            int(np.argmax(blank)),
            "; fill it in, or take these rows out.",
        )


def _typed(series: pd.Series) -> Column:
    form = TypedForm(series.name, series.dtype)
    if isinstance(series.dtype, pd.PeriodDtype):
        wall = series.dt.start_time.to_numpy().astype("M8[us]").astype(np.int64)
        return _from_wall(wall, None, form, None, ())
    index = pd.DatetimeIndex(series)
    finer = bool((index.nanosecond != 0).any())
    notes = ("times are read to the microsecond",) if finer else ()
    wall = index.tz_localize(None).as_unit("us").to_numpy().astype(np.int64)
    if index.tz is None:
        return _from_wall(wall, None, form, None, notes)
    instants = index.tz_convert("UTC").tz_localize(None).as_unit("us").to_numpy().astype(np.int64)
    return _from_wall(wall, wall - instants, form, index.tz, (*notes, f"time zone {index.tz}"))


def _from_wall(
    wall: np.ndarray, offset: np.ndarray | None, form: Form, zone: dt.tzinfo | None, notes: tuple[str, ...]
) -> Column:
    days = wall // DAY
    clock = wall - days * DAY
    return Column({"": days}, clock, offset, {"": form}, zone, bool(clock.any()), notes)


def _numeric(series: pd.Series, part: str, what: str) -> Column | Numbers:
    numbers = series.to_numpy(np.int64 if pd.api.types.is_integer_dtype(series.dtype) else np.float64)
    if not np.isfinite(numbers).all():
        row = int(np.argmax(~np.isfinite(numbers)))
        raise RowError(f"{what}, ", row, f": expected a finite number, came {numbers[row]}; correct it.")
    if part == "date" and (found := _digits_as_dates(series)):
        return _of_numbers(found)
    whole = bool((numbers == np.rint(numbers)).all())
    texts = [str(int(number)) for number in numbers.tolist()] if whole else []
    if whole and (part != "whole" or all(map(_COMPACT.fullmatch, texts))):
        if part == "clock" and numbers.max() > 24:
            texts = [text.zfill(4) for text in texts]
        restore = lambda new: pd.Series(new).astype(np.int64).astype(series.dtype)
        return _texts(texts, series.name, restore, part, what)
    if part == "whole" and (found := dates_of_numbers(series)):
        return _of_numbers(found)
    return Numbers(numbers, NumberForm(series.name, series.dtype, 0 if numbers.dtype.kind == "i" else None))


def _objects(series: pd.Series, part: str, what: str) -> Column | Numbers:
    items = series.to_numpy(object)
    kind = next((k for k in (str, dt.datetime, dt.date, dt.time, pd.Period) if isinstance(items[0], k)), None)
    if kind is None and all(isinstance(item, (int, float, np.number)) for item in items):
        return _numeric(pd.Series(items.tolist(), name=series.name), part, what)
    odd = 0 if kind is None else next((i for i, item in enumerate(items) if not isinstance(item, kind)), None)
    if odd is not None:
        raise RowError(
            f"{what}, ", odd, f": expected a date or time like the other rows, came {items[odd]!r} of type "
            f"{type(items[odd]).__name__}; convert the column with pandas.to_datetime first.",
        )  # fmt: skip
    assert kind is not None
    if kind is pd.Period:
        return _typed(pd.Series(pd.PeriodIndex(items), name=series.name))
    stripped = list(map(str.strip, items)) if kind is str else [""]
    if part == "date" and all(map(_NUMBER.fullmatch, stripped)) and (found := _digits_as_dates(series)):
        return _of_numbers(found)
    if part == "whole" and all(map(_NUMBER.fullmatch, stripped)) and not all(map(_COMPACT.fullmatch, stripped)):
        found = dates_of_numbers(series)
        return _of_numbers(found) if found else _number_texts(series, what)
    return _texts(list(map(str, items)), series.name, _restorer(kind, series), part, what)


def _digits_as_dates(series: pd.Series) -> NumberDates | None:
    """The dates of digits beside a time of day that are not written as 20240301: 240301, or 2024061."""
    digits = digits_of(series)
    if digits is None or is_compact(digits.numbers):
        return None
    found = dates_of_numbers(series)
    return None if found is None or found.clock.any() else found


def _of_numbers(found: NumberDates) -> Column:
    offset = np.zeros(len(found.days), np.int64) if found.utc else None
    return Column(
        {"": found.days}, found.clock, offset, {"": found.form}, None, bool(found.clock.any()), (found.note,)
    )  # fmt: skip


def _restorer(kind: type, series: pd.Series) -> Callable[[list[str]], pd.Series]:
    if kind is str:
        dtype = object if isinstance(series.dtype, pd.CategoricalDtype) else series.dtype
        return lambda texts: pd.Series(texts, dtype=dtype)
    make = {
        dt.datetime: lambda text: pd.Timestamp(text).to_pydatetime(),
        dt.date: dt.date.fromisoformat,
        dt.time: dt.time.fromisoformat,
    }[kind]
    return lambda texts: pd.Series([make(text) for text in texts], dtype=object)


def _number_texts(series: pd.Series, what: str) -> Numbers:
    texts = series.map(str.strip)
    comma = bool(texts.str.contains(",").any()) and not texts.str.contains(".", regex=False).any()
    plain = texts.str.replace(",", ".") if comma else texts
    if plain.str.contains(",").any():
        row = int(np.argmax(plain.str.contains(",")))
        raise RowError(f"{what}, ", row, f": expected one decimal mark, came {texts.iloc[row]!r}; write it plainly.")
    decimals = int(plain.str.partition(".")[2].str.len().max())
    exponent = bool(plain.str.contains("[eE]").any())
    whole = plain.str.fullmatch(r"[+-]?\d{1,18}").all()
    numbers = plain.astype(np.int64 if whole else np.float64).to_numpy()
    if not np.isfinite(numbers).all():
        row = int(np.argmax(~np.isfinite(numbers)))
        raise RowError(f"{what}, ", row, f": expected a finite number, came {texts.iloc[row]!r}; correct it.")
    return Numbers(numbers, NumberForm(series.name, series.dtype, None if exponent else decimals, comma))


def _texts(texts: Sequence[str], name: Any, restore: Callable[[list[str]], pd.Series], part: str, what: str) -> Column:
    if part == "clock":
        patterns = CLOCKS
    else:
        elapsed = part == "whole" and not fits(texts[:1], DATES) and fits(texts[:1], ELAPSED)
        patterns = ELAPSED if elapsed else DATES
    times = parse(texts, patterns, what=what)
    forms = {reading: RestoredForm(form, name, restore) for reading, form in times.forms.items()}
    notes = ("times are read to the microsecond",) if times.finer else ()
    return Column(times.days, times.clock, times.offset, forms, has_clock=times.has_clock, notes=notes)

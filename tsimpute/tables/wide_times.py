"""Tables whose days of the month, or whose times, stand in columns: refused with a recipe that makes them long."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.stamp_names import part_of
from tsimpute.tables.stamp_texts import DATES, readable

_DAY = re.compile(r"(.*?)[ _.]?0?(\d{1,2})")
_MONTH = re.compile(r"\d{4}[-/.]\d{1,2}(?:[-/.]0?1)?(?: 00:00(?::00)?)?")
_YEAR = re.compile(r"(?:19|20)\d\d")
_SAMPLE = 1000
FEWEST = 5
MOSTLY = 0.8
"""Share of the columns that are named by times where each row is a series."""
NO_TIMES = "name the columns to fill (features)"


def check_wide_times(frame: pd.DataFrame, read: str = "frame") -> None:
    """Refuses a table whose days of the month stand in columns beside a year and a month, or whose names are times.

    Args:
        frame: columns of any dtype.
        read: an expression of Python that gives it, for the recipe.

    Raises:
        DataError: they do.
    """
    names = list(frame.columns)
    days = _days(names)
    if days:
        _refuse_days(frame.iloc[:_SAMPLE], [names[at] for at in days], read)
    times = _times(names)
    if len(times) < max(FEWEST, MOSTLY * len(names)) or isinstance(frame.index, pd.DatetimeIndex | pd.PeriodIndex):
        return
    others = [name for name in names if name not in times]
    group = others[:1] if len(others) == 1 else others
    recipe = f"{read}.melt({others}, var_name='time', value_name='value')" if others else f"{read}.T"
    then = f"time='time', group={group}, features='value'" if others else "the index holds the time"
    raise DataError(
        f"table: expected one row for each time, found {len(times)} columns that are named by times, from "
        f"{str(times[0])!r} to {str(times[-1])!r}, so each row is a series. Put the times below one another with "
        f"pandas, then fill the new table:\n  long = {recipe}\nThen name its columns: {then}. If these columns are no "
        f"times, {NO_TIMES}."
    )


def _days(names: Sequence[Hashable]) -> list[int]:
    """Places of the columns named after the days of a month, in the order of the days."""
    by_prefix: dict[str, dict[int, int]] = {}
    for at, name in enumerate(names):
        found = _DAY.fullmatch(str(name).strip())
        if found is not None:
            by_prefix.setdefault(found[1].casefold(), {}).setdefault(int(found[2]), at)
    whole = [places for places in by_prefix.values() if sorted(places) == list(range(1, 32))]
    return [whole[0][day] for day in range(1, 32)] if whole else []


def _refuse_days(frame: pd.DataFrame, days: Sequence[Hashable], read: str) -> None:
    others = [name for name in frame.columns if name not in days]
    parts = [next((n for n in others if (said := part_of(n)) and said[0] == part), None) for part in ("year", "month")]
    months = [n for n in others if _holds_months(frame[n])] if None in parts else []
    if None in parts and not months:
        return
    keys = [n for n in others if n not in _days_of_other(others)]
    first = (
        f"pandas.to_datetime(dict(year=long[{parts[0]!r}], month=long[{parts[1]!r}], day=1))"
        if None not in parts
        else f"pandas.to_datetime(long[{months[0]!r}].astype(str))"
    )
    raise DataError(
        f"table: expected one row for each time, found the days of a month in 31 columns, from {days[0]!r} to "
        f"{days[-1]!r}; days such as 30 February are none and stay out. Put them below one another with pandas, then "
        f"fill the new table:\n"
        f"  long = {read}.melt({keys}, {list(days)}, var_name='day', value_name='value')\n"
        f"  first = {first}\n"
        f"  day = long['day'].astype(str).str.extract(r'(\\d{{1,2}})$')[0].astype(int)\n"
        f"  long['time'] = first + pandas.to_timedelta(day - 1, unit='D')\n"
        f"  long = long[long['time'].dt.month == first.dt.month]\n"
        f"Then name its columns: time='time', features='value', and group where there are several places. If these "
        f"columns are no days, {NO_TIMES}."
    )


def _days_of_other(names: Sequence[Hashable]) -> list[Hashable]:
    """Columns of the days of another quantity, such as flags beside values."""
    return [name for name in names if (found := _DAY.fullmatch(str(name).strip())) and found[1]]


def _holds_months(column: pd.Series) -> bool:
    """Whether a column holds months, or first days of months, in every row."""
    known = column.dropna()
    if pd.api.types.is_datetime64_any_dtype(known.dtype):
        return bool(len(known)) and bool((known.dt.day == 1).all())
    texts = [str(item).strip() for item in known]
    return bool(texts) and all(map(_MONTH.fullmatch, texts))


def _times(names: Sequence[Hashable]) -> list[Hashable]:
    """The names that are dates, or years that follow one another."""
    typed = [name for name in names if isinstance(name, pd.Timestamp | pd.Period | np.datetime64)]
    if len(typed) >= FEWEST:
        return typed
    texts = [str(name).strip() for name in names]
    years = [name for name, text in zip(names, texts, strict=True) if _YEAR.fullmatch(text)]
    numbers = [int(str(name)) for name in years]
    if len(years) >= FEWEST and (np.abs(np.diff(numbers)) == numbers[1] - numbers[0]).all():
        return years
    if len(names) < FEWEST:
        return []
    dates = readable(texts, DATES)
    return [name for name, is_date in zip(names, dates, strict=True) if is_date]

"""Columns that repeat a part of the time, such as Year or Hour: what they hold at new times."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable

import numpy as np
import pandas as pd

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.columns.time_names import part_of, plain
from tsimpute.tables.time.columns import is_stamp
from tsimpute.tables.time.stamps import read_stamps
from tsimpute.tables.time.wall_times import DAY

_WEEKDAYS: tuple[Callable[[pd.DatetimeIndex], pd.Index], ...] = (
    lambda when: when.day_of_week,
    lambda when: when.day_of_week + 1,
    lambda when: (when.day_of_week + 1) % 7,
    lambda when: (when.day_of_week + 1) % 7 + 1,
)
_PARTS: dict[str, tuple[Callable[[pd.DatetimeIndex], pd.Index], ...]] = {
    "year": (lambda when: when.year,),
    "month": (lambda when: when.month, lambda when: when.month - 1),
    "day": (lambda when: when.day, lambda when: when.day_of_year, *_WEEKDAYS),
    "hour": (lambda when: when.hour, lambda when: when.hour + 1, lambda when: (when.hour - 1) % 24 + 1),
    "minute": (lambda when: when.minute, lambda when: when.hour * 60 + when.minute),
    "second": (lambda when: when.second,),
    "weekday": _WEEKDAYS,
    "doy": (lambda when: when.day_of_year,),
    "week": (lambda when: pd.Index(when.isocalendar().week),),
    "quarter": (lambda when: when.quarter,),
}
"""What a column of each name may hold."""
_SYNONYMS = {"dayofweek": "weekday", "dow": "weekday", "dayofyear": "doy", "weekofyear": "week"}
CALENDAR_NAMES = (*_PARTS, *_SYNONYMS)


def at_new_times(column: pd.Series, name: Hashable, labels: np.ndarray, new: np.ndarray) -> pd.Series | None:
    """What a column holds at new times, in its own dtype, or None where it is no part of the time.

    It is one where it is named so and agrees with the time of every row that has a value, where it is the time itself
    or its date, or where it holds stamps at one distance from the time in all rows, as ends of intervals are.
    ``labels`` (R,) and ``new`` (M,) are datetime64 of the wall clock.
    """
    known = column.notna().to_numpy()
    when, later = pd.DatetimeIndex(labels), pd.DatetimeIndex(new)
    if not known.any():
        return None
    if pd.api.types.is_datetime64_any_dtype(column.dtype) and getattr(column.dtype, "tz", None) is None:
        stamps = pd.DatetimeIndex(column.to_numpy("M8[us]", na_value=np.datetime64("NaT")))
        for part in (lambda times: times, lambda times: times.normalize()):
            if (part(when)[known] == stamps[known]).all():
                return pd.Series(part(later)).astype(column.dtype)
    part = part_of(name)
    key = plain(name) if plain(name) in CALENDAR_NAMES else part[0] if part else ""
    numbers = _whole(column, known) if key in CALENDAR_NAMES else None
    for part_at in _PARTS[_SYNONYMS.get(key, key)] if numbers is not None else ():
        if (part_at(when).to_numpy(np.float64)[known] != numbers).any():
            continue
        new_numbers = part_at(later).to_numpy(np.int64)
        if pd.api.types.is_numeric_dtype(column.dtype):
            return pd.Series(new_numbers).astype(column.dtype)
        texts = column.loc[known].tolist()
        padded = any(text.startswith("0") and len(text) > 1 for text in texts)
        width = max(map(len, texts)) if padded else 0
        return pd.Series([str(number).zfill(width) for number in new_numbers.tolist()]).astype(column.dtype)
    return _shifted(column.rename(name), labels, new) if known.all() else None


def _shifted(column: pd.Series, labels: np.ndarray, new: np.ndarray) -> pd.Series | None:
    """Stamps that are as far from the time in all rows, by the wall clock or in months; else None."""
    if not is_stamp(column):
        return None
    for dayfirst in (None, True, False):
        with contextlib.suppress(DataError, ConfigError):
            stamps = read_stamps([column], dayfirst=dayfirst)
            if stamps.kind != "dates" or stamps.offsets is None:
                return None
            known, wall, later = (at.astype("M8[us]").astype(np.int64) for at in (labels, stamps.labels, new))
            moved = _moved(known, wall, later)
            if moved is not None:
                return stamps.values(stamps.offsets.instants(moved))[0].reset_index(drop=True)
    return None


def _moved(known: np.ndarray, wall: np.ndarray, later: np.ndarray) -> np.ndarray | None:
    """``later`` moved as ``wall`` is from ``known``: by one distance, by whole months, or to the date; else None."""
    if len(distance := np.unique(wall - known)) == 1:
        return later + distance[0]
    months, rest = _months(known)
    for before in (0, DAY):  # the last day of a month is one before a first one
        other, other_rest = _months(wall + before)
        whole = (rest == other_rest).all() and (not before or (rest < DAY).all())
        if len(distance := np.unique(other - months)) == 1 and whole:
            into = _months(later)
            return (into[0] + distance[0]).astype("M8[M]").astype("M8[us]").astype(np.int64) + into[1] - before
    if len(distance := np.unique(wall - known // DAY * DAY)) == 1:
        return later // DAY * DAY + distance[0]
    return None


def _months(wall: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Months since 1970, and microseconds into the month."""
    months = wall.astype("M8[us]").astype("M8[M]")
    return months.astype(np.int64), wall - months.astype("M8[us]").astype(np.int64)


def _whole(column: pd.Series, known: np.ndarray) -> np.ndarray | None:
    """The whole numbers of the known rows; None where they are something else."""
    kind = column.dtype
    if pd.api.types.is_bool_dtype(kind) or pd.api.types.is_complex_dtype(kind) or isinstance(kind, pd.CategoricalDtype):
        return None
    if pd.api.types.is_numeric_dtype(kind):
        return column.loc[known].to_numpy(np.float64)
    texts = column.loc[known].tolist()
    if not all(isinstance(text, str) and text.isascii() and text.isdigit() for text in texts):
        return None
    return np.array(texts, np.float64)

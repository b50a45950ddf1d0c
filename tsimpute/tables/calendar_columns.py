"""Columns that repeat a part of the time, such as Year or Hour: what they hold at new times."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable

import numpy as np
import pandas as pd

CALENDAR_NAMES = (
    "year", "month", "day", "hour", "minute", "second", "weekday", "dayofweek", "dow", "dayofyear", "doy", "week",
    "weekofyear", "quarter",
)  # fmt: skip

_WEEKDAY: tuple[Callable[[pd.DatetimeIndex], pd.Index], ...] = (
    lambda when: when.day_of_week,
    lambda when: when.day_of_week + 1,
    lambda when: (when.day_of_week + 1) % 7,
    lambda when: (when.day_of_week + 1) % 7 + 1,
)
_WEEK = (lambda when: pd.Index(when.isocalendar().week),)
_PARTS: dict[str, tuple[Callable[[pd.DatetimeIndex], pd.Index], ...]] = {
    "year": (lambda when: when.year,),
    "month": (lambda when: when.month, lambda when: when.month - 1),
    "day": (lambda when: when.day, lambda when: when.day_of_year, *_WEEKDAY),
    "hour": (lambda when: when.hour, lambda when: when.hour + 1, lambda when: (when.hour - 1) % 24 + 1),
    "minute": (lambda when: when.minute, lambda when: when.hour * 60 + when.minute),
    "second": (lambda when: when.second,),
    "weekday": _WEEKDAY,
    "dayofweek": _WEEKDAY,
    "dow": _WEEKDAY,
    "dayofyear": (lambda when: when.day_of_year,),
    "doy": (lambda when: when.day_of_year,),
    "week": _WEEK,
    "weekofyear": _WEEK,
    "quarter": (lambda when: when.quarter,),
}


def plain(name: Hashable) -> str:
    """A name without case, blanks and signs."""
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


def at_new_times(column: pd.Series, name: Hashable, labels: np.ndarray, new: np.ndarray) -> pd.Series | None:
    """What a column holds at new times, in its own dtype, or None where it is no part of the time.

    It is one where it is named so and agrees with the time of every row that has a value, or where it is the time
    itself or its date.

    Args:
        column: (R,) whole numbers, also as texts; or time stamps.
        labels: (R,) datetime64, the wall clock of its rows.
        new: (M,) datetime64, that of the new rows.
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
        return None
    read = _whole(column, known) if plain(name) in _PARTS else None
    if read is None:
        return None
    numbers, width = read
    for part in _PARTS[plain(name)]:
        if (part(when).to_numpy(np.float64)[known] == numbers).all():
            found = part(later).to_numpy(np.int64)
            written = pd.Series(found) if width is None else pd.Series([str(v).zfill(width) for v in found.tolist()])
            return written.astype(column.dtype)
    return None


def _whole(column: pd.Series, known: np.ndarray) -> tuple[np.ndarray, int | None] | None:
    """The whole numbers of the known rows, and the width of texts of them; None where they are something else."""
    if pd.api.types.is_bool_dtype(column.dtype) or isinstance(column.dtype, pd.CategoricalDtype):
        return None
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column.loc[known].to_numpy(np.float64), None
    texts = column.loc[known].tolist()
    if not all(isinstance(text, str) and text.isascii() and text.isdigit() for text in texts):
        return None
    padded = any(text.startswith("0") and len(text) > 1 for text in texts)
    return np.array(texts, np.float64), max(map(len, texts)) if padded else 0

"""AM and PM in a column of their own, beside one of the twelve hours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.stamp_forms import HOUR, Form

_HALF = re.compile(r"\s*[ap]\.?\s?m\.?\s*", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class HalfForm:
    """How a column writes the half of the day, as its rows do."""

    words: tuple[str, str]
    name: Any
    dtype: Any

    def texts(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> list[str]:
        return [self.words[half] for half in (clock // HOUR % 24 // 12).tolist()]

    def values(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> pd.Series:
        dtype = object if isinstance(self.dtype, pd.CategoricalDtype) else self.dtype
        return pd.Series(self.texts(days, clock, offset), name=self.name, dtype=dtype)


@dataclass(frozen=True, eq=False)
class TwelveForm:
    """A column that writes the time of day within its half: 12, 1, ..., 11."""

    form: Form

    def texts(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> list[str]:
        return self.form.texts(days, _twelve(clock), offset)

    def values(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> pd.Series:
        return self.form.values(days, _twelve(clock), offset)


def is_half(column: pd.Series | pd.Index) -> bool:
    """Whether all rows of a column say AM or PM."""
    if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        return False
    found = pd.unique(np.asarray(column, object))
    return 0 < len(found) <= 6 and all(isinstance(item, str) and _HALF.fullmatch(item) for item in found)


def half_form(column: pd.Series | pd.Index) -> HalfForm:
    """How such a column writes."""
    words = [str(item).strip() for item in pd.unique(np.asarray(column, object))]
    found = [next((word for word in words if word[0].lower() == letter), None) for letter in "ap"]
    am = found[0] or _other(found[1] or "PM", "a")
    pm = found[1] or _other(am, "p")
    return HalfForm((am, pm), column.name, column.dtype)


def with_halves(clock: np.ndarray, column: pd.Series | pd.Index, what: str) -> np.ndarray:
    """(R,) microseconds since midnight of times within halves of the day.

    Raises:
        RowError: an hour is not one of 1 to 12.
    """
    hour = clock // HOUR
    wrong = (hour < 1) | (hour > 12)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise RowError(f"{what}, ", row, f": expected an hour from 1 to 12 beside {column.name!r}, came {hour[row]}.")
    after_noon = np.array([str(item).strip()[0].lower() == "p" for item in column], bool)
    return clock - hour * HOUR + (hour % 12 + 12 * after_noon) * HOUR


def _twelve(clock: np.ndarray) -> np.ndarray:
    hour = clock // HOUR
    return clock + ((hour - 1) % 12 + 1 - hour) * HOUR


def _other(word: str, letter: str) -> str:
    return (letter.upper() if word[0].isupper() else letter) + word[1:]

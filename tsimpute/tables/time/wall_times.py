"""Times on the wall clock, their parts, and how a column writes them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
"""In microseconds, the unit of all times."""


@dataclass(frozen=True, eq=False)
class WallTimes:
    """Times on the wall clock.

    Attributes:
        days: (R,) days since 1970-01-01.
        clock: (R,) microseconds since midnight; 24:00 of a day is one whole day.
        offset: (R,) microseconds that the wall clock is ahead of UTC; None = unknown.
    """

    days: np.ndarray
    clock: np.ndarray
    offset: np.ndarray | None = None

    @classmethod
    def of(cls, micros: np.ndarray, offset: np.ndarray | None = None) -> WallTimes:
        """Times from microseconds since 1970-01-01."""
        days = micros // DAY
        return cls(days, micros - days * DAY, offset)

    def at(self, rows: np.ndarray) -> WallTimes:
        """Those of some rows, as a mask or as numbers."""
        return WallTimes(self.days[rows], self.clock[rows], None if self.offset is None else self.offset[rows])

    @property
    def micros(self) -> np.ndarray:
        """(R,) microseconds since 1970-01-01 by the wall clock."""
        return self.days * DAY + self.clock

    @property
    def utc(self) -> np.ndarray:
        """(R,) microseconds since 1970-01-01 UTC."""
        return self.micros if self.offset is None else self.micros - self.offset

    @cached_property
    def date(self) -> pd.DatetimeIndex:
        return pd.DatetimeIndex(self.days.astype("M8[D]").astype("M8[s]"))

    def part(self, name: str) -> np.ndarray:
        """(R,) int64: a part of the times, such as the month."""
        return np.asarray(_PARTS[name](self), np.int64)


_PARTS: dict[str, Callable[[WallTimes], Any]] = {
    "year": lambda times: times.date.year,
    "year2": lambda times: times.date.year % 100,
    "quarter": lambda times: times.date.quarter,
    "month": lambda times: times.date.month,
    "day": lambda times: times.date.day,
    "doy": lambda times: times.date.day_of_year,
    "isoyear": lambda times: times.date.isocalendar()["year"],
    "week": lambda times: times.date.isocalendar()["week"],
    "weekday": lambda times: times.date.day_of_week + 1,
    "hour": lambda times: times.clock // HOUR,
    "hour12": lambda times: (times.clock // HOUR - 1) % 12 + 1,
    "half": lambda times: times.clock // HOUR % 24 // 12,
    "minute": lambda times: times.clock // MINUTE % 60,
    "second": lambda times: times.clock // SECOND % 60,
    "fraction": lambda times: times.clock % SECOND,
    "hhmm": lambda times: times.clock // HOUR * 100 + times.clock // MINUTE % 60,
    "hhmmss": lambda times: times.part("hhmm") * 100 + times.clock // SECOND % 60,
    "offset": lambda times: (np.zeros_like(times.clock) if times.offset is None else times.offset) // MINUTE,
}


@dataclass(frozen=True, eq=False)
class Form:
    """How a column writes times: as texts, and as values in its own dtype.

    Both functions take ``WallTimes``, or (R,) numbers where the times of a table are numbers.
    """

    texts: Callable[[Any], list[str]]
    values: Callable[[Any], pd.Series]

    def of(self, change: Callable[[WallTimes], WallTimes]) -> Form:
        """The same for changed times, such as those of the date only."""
        return Form(lambda times: self.texts(change(times)), lambda times: self.values(change(times)))


def text_form(write: Callable[[Any], list[str]], column: pd.Series | pd.Index) -> Form:
    """The form of a column of texts."""
    return Form(write, lambda times: like(column, write(times)))


def like(column: pd.Series | pd.Index, values: Any) -> pd.Series:
    """New values with the name and dtype of a column; objects in place of categories."""
    dtype = object if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype
    return pd.Series(values, name=column.name, dtype=dtype)


@dataclass(frozen=True, eq=False)
class Column:
    """The times in the rows of a column, and how it writes new ones.

    Attributes:
        times: (R,) under each order of day, month and year that fits all rows; "" where there is one way to read them.
        forms: how the column writes, under each order.
        dated: there are dates; else the clock counts from midnight or from the start.
        zone: of a column of zoned time stamps.
        has_clock: there is a time of day.
        notes: how the column is read.
        typed: the times are time differences, which are no times of day.
    """

    times: Mapping[str, WallTimes]
    forms: Mapping[str, Form]
    dated: bool = True
    zone: dt.tzinfo | None = None
    has_clock: bool = True
    notes: tuple[str, ...] = ()
    typed: bool = False

    @classmethod
    def of(cls, times: WallTimes, form: Form, *notes: str, zone: dt.tzinfo | None = None) -> Column:
        """Dates that can be read in one way."""
        return cls({"": times}, {"": form}, zone=zone, has_clock=bool(times.clock.any()), notes=notes)

    @property
    def clock(self) -> np.ndarray:
        """(R,) microseconds since midnight, or since the start."""
        return next(iter(self.times.values())).clock

    @property
    def offset(self) -> np.ndarray | None:
        """(R,) microseconds that the wall clock is ahead of UTC; None = unknown."""
        return next(iter(self.times.values())).offset

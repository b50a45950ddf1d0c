"""Times on the wall clock, their parts, how a column writes them; the wall clocks of zones and true instants."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal
from zoneinfo import ZoneInfoNotFoundError

import numpy as np
import pandas as pd

from tsimpute.errors import ConfigError
from tsimpute.tables.text.row_errors import RowError

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND  # In microseconds, the unit of all times
ZONES = (
    "Europe/Berlin", "Europe/London", "Europe/Helsinki", "America/New_York", "Australia/Sydney", "Pacific/Auckland",
    "Australia/Lord_Howe", "America/Santiago", "America/Havana", "America/Mexico_City", "America/Sao_Paulo",
    "America/Asuncion", "Asia/Jerusalem", "Asia/Beirut", "Asia/Tehran", "Africa/Cairo",
)  # fmt: skip
"""One zone for each rule by which clocks go forward and back."""


@dataclass(frozen=True, eq=False)
class WallTimes:
    """Times on the wall clock."""

    days: np.ndarray  # (R,) days since 1970-01-01
    clock: np.ndarray  # (R,) microseconds since midnight; 24:00 of a day is one whole day
    offset: np.ndarray | None = None  # (R,) microseconds that the wall clock is ahead of UTC; None = unknown

    @classmethod
    def of(cls, micros: np.ndarray, offset: np.ndarray | None = None) -> WallTimes:
        """Times from microseconds since 1970-01-01."""
        days = micros // DAY
        return cls(days, micros - days * DAY, offset)

    def at(self, rows: np.ndarray) -> WallTimes:
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
    return Form(write, lambda times: like(column, write(times)))


def like(column: pd.Series | pd.Index, values: Any) -> pd.Series:
    """New values with the name and dtype of a column; objects in place of categories."""
    dtype = object if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype
    return pd.Series(values, name=column.name, dtype=dtype)


@dataclass(frozen=True, eq=False)
class Column:
    """The times in the rows of a column, and how it writes new ones."""

    # (R,) under each order of day, month and year that fits all rows; "" where there is one way to read them.
    times: Mapping[str, WallTimes]
    forms: Mapping[str, Form]  # how the column writes, under each order
    dated: bool = True  # there are dates; else the clock counts from midnight or from the start
    zone: dt.tzinfo | None = None  # of a column of zoned time stamps
    has_clock: bool = True  # there is a time of day
    notes: tuple[str, ...] = ()  # how the column is read
    typed: bool = False  # the times are time differences, which are no times of day

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


@dataclass(frozen=True, eq=False)
class Offsets:
    """How far the wall clock of a table is ahead of UTC, in microseconds."""

    moments: np.ndarray  # (D,) distinct instants of the table, increasing
    offsets: np.ndarray  # (D,) at these; new instants have that of the last one before them, unless there is a zone
    zone: dt.tzinfo | str | None = None  # where the rules are known
    naive: bool = False  # neither the table nor the caller gives an offset or a zone: the offsets are 0

    @property
    def change(self) -> bool:
        return bool((self.offsets != self.offsets[0]).any()) if len(self.offsets) else False

    def at(self, moments: np.ndarray) -> np.ndarray:
        """(R,) offsets at instants."""
        if self.zone is not None:
            return wall_clock(moments, self.zone) - moments
        return self._last_before(self.moments, moments)

    def instants(self, wall: np.ndarray) -> np.ndarray:
        """(R,) instants of new wall times: the earlier one where clocks go back, moved on where they jump."""
        if self.zone is not None:
            return localise(wall, self.zone, ambiguous="first", nonexistent="shift")
        return wall - self._last_before(self.moments + self.offsets, wall)

    def _last_before(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        return self.offsets[np.maximum(np.searchsorted(known, times, side="right") - 1, 0)]


def wall_clock(moments: np.ndarray, zone: dt.tzinfo | str) -> np.ndarray:
    """(R,) int64 microseconds that the wall clock of a zone shows at instants, microseconds since 1970 UTC."""
    instants = pd.DatetimeIndex(moments.astype("M8[us]"), tz="UTC")
    try:
        wall = instants.tz_convert(zone)
    except (ZoneInfoNotFoundError, ValueError, TypeError, KeyError, OSError) as error:
        raise _unknown(zone) from error
    return wall.tz_localize(None).as_unit("us").asi8


def is_skipped(wall: np.ndarray, zone: str) -> np.ndarray:
    """(R,) bool: wall times that the clocks of a zone skip when they go forward."""
    index = pd.DatetimeIndex(wall.astype("M8[us]"))
    return np.asarray(index.tz_localize(zone, ambiguous=np.ones(len(wall), bool), nonexistent="NaT").isna())


def zone_of_doubled(wall: int) -> str | None:
    """A zone whose clocks show this wall time twice, since they go back; None = there is none."""
    index = pd.DatetimeIndex(np.array([wall]).astype("M8[us]"))
    return next((zone for zone in ZONES if _is_doubled(index, zone).all()), None)


def zone_of_skipped(wall: int) -> str | None:
    """A zone whose clocks skip this wall time on its day, the day before or after, as clocks of others; or None."""
    days = np.array([wall, wall - DAY, wall + DAY])
    return next((zone for zone in ZONES if is_skipped(days, zone).any()), None)


def _is_doubled(index: pd.DatetimeIndex, zone: dt.tzinfo | str) -> np.ndarray:
    return np.asarray(index.tz_localize(zone, ambiguous="NaT", nonexistent="shift_forward").isna())


def localise(
    wall: np.ndarray,
    zone: dt.tzinfo | str,
    *,
    ambiguous: Literal["order", "first"] = "order",
    nonexistent: Literal["refuse", "shift"] = "refuse",
    sequence: np.ndarray | None = None,
    notes: list[str] | None = None,
) -> np.ndarray:
    """Instants of wall times.

    Args:
        wall: (R,) int64 microseconds since 1970 by the wall clock.
        zone: its name or rules.
        ambiguous: "first": of two instants the earlier. "order": decided by the order of rows in each sequence.
        nonexistent: what becomes of the hour that spring leaves out: refused, or moved to its end.
        sequence: (R,) number of each row's sequence; None = one sequence.
        notes: gets a line for what had to be guessed.

    Raises:
        DataError: an hour does not exist, or rows are too unordered to distinguish the two hours of autumn.
        ConfigError: there is no such zone.
    """
    index = pd.DatetimeIndex(wall.astype("M8[us]"))
    earlier = np.ones(len(wall), bool)
    try:
        first = index.tz_localize(zone, ambiguous=earlier, nonexistent="NaT")
    except (ZoneInfoNotFoundError, ValueError, TypeError, KeyError, OSError) as error:
        raise _unknown(zone) from error
    absent = np.asarray(first.isna())
    if absent.any() and nonexistent == "refuse":
        row = int(np.argmax(absent))
        raise RowError(
            "times, ", row, f": {index[row]} does not exist in {zone}, where clocks jump over it ({int(absent.sum())} "
            "such rows). If the table is on a clock without daylight saving, leave out the time zone; else correct it.",
        )  # fmt: skip
    if ambiguous == "order":
        twofold = np.flatnonzero(_is_doubled(index, zone))
        if len(twofold):
            lines = np.zeros(len(wall), np.int64) if sequence is None else sequence
            earlier[twofold] = ~_second_pass(wall, lines, twofold, notes)
    placed = index.tz_localize(zone, ambiguous=earlier, nonexistent="shift_forward")
    return placed.as_unit("us").asi8


def _second_pass(wall: np.ndarray, sequence: np.ndarray, twofold: np.ndarray, notes: list[str] | None) -> np.ndarray:
    """For rows whose wall time comes twice, whether the clocks had gone back.

    ``tz_localize(ambiguous="infer")`` needs the doubled hour whole, and rows in the order of time.
    In the order of time, every row of a night after the first that does not go on belongs to the second hour.
    """
    frame = pd.DataFrame({"sequence": sequence, "wall": wall, "twofold": False})
    frame.loc[twofold, "twofold"] = True
    frame["step"] = frame.groupby("sequence")["wall"].diff()
    night = frame.loc[twofold].copy()
    plain = frame[~frame["twofold"] & ~frame.groupby("sequence")["twofold"].shift(fill_value=False)]
    signs = pd.DataFrame({"sequence": plain["sequence"], "up": plain["step"] > 0, "down": plain["step"] < 0})
    counts = signs.groupby("sequence")
    ups, downs = (night["sequence"].map(counts[way].sum()).fillna(0) for way in ("up", "down"))
    newest_first, mixed = (downs > ups).to_numpy(bool), ((downs > 0) & (ups > 0)).to_numpy(bool)
    if (mixed & night.duplicated(["sequence", "wall"], keep=False).to_numpy(bool)).any():
        row = int(twofold[np.argmax(mixed)])
        raise RowError(
            "times, ", row, f": {pd.Timestamp(wall[row], unit='us')} comes twice where clocks go back, and the rows "
            "are not in the order of time, which would tell the two apart. Sort them, or write UTC offsets; if several "
            "series stand below one another, name the column that tells them apart (group, --group).",
        )  # fmt: skip
    night["at"] = np.where(newest_first, -twofold, twofold)
    night["day"] = night["wall"] // (12 * 3_600_000_000)
    night = night.sort_values(["sequence", "day", "at"], kind="stable")
    keys = [night["sequence"], night["day"]]
    step = night.groupby(keys, sort=False)["wall"].diff()
    blocks = (step < 0).groupby(keys, sort=False).transform("any")  # else by label: 02:00, 02:00, 02:15, 02:15
    pairs = night.duplicated(["sequence", "wall"], keep=False)
    in_block = (step <= 0).groupby(keys, sort=False).cummax()
    second = in_block.where(blocks, night.duplicated(["sequence", "wall"], keep="first"))
    sorted_pairs = int((pairs & second & ~blocks).sum())
    lone = int((~pairs & (~blocks | ~second.groupby(keys, sort=False).transform("any"))).sum())
    if notes is not None:
        if sorted_pairs > 1:
            summer = "second" if newest_first.all() else "first"
            notes.append(
                f"times that autumn doubles stand in pairs, of which the {summer} counts as summer time: {sorted_pairs}"
            )
        if lone:
            notes.append(
                f"times in the hour that autumn doubles, of which the table has but one, count as the first: {lone}"
            )
    return second.reindex(twofold).to_numpy(bool)


def _unknown(zone: dt.tzinfo | str) -> ConfigError:
    return ConfigError(f"timezone: expected the name of a time zone such as 'Europe/Rome', came {str(zone)!r}.")

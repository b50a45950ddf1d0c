"""Wall clocks of time zones and true instants; the order of rows distinguishes the two hours of autumn."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Literal
from zoneinfo import ZoneInfoNotFoundError

import numpy as np
import pandas as pd

from tsimpute.errors import ConfigError
from tsimpute.tables.text.row_errors import RowError

ZONES = (
    "Europe/Berlin", "Europe/London", "Europe/Helsinki", "America/New_York", "Australia/Sydney", "Pacific/Auckland",
    "Australia/Lord_Howe", "America/Santiago", "America/Havana", "America/Mexico_City", "America/Sao_Paulo",
    "America/Asuncion", "Asia/Jerusalem", "Asia/Beirut", "Asia/Tehran", "Africa/Cairo",
)  # fmt: skip
"""One zone for each rule by which clocks go forward and back."""


@dataclass(frozen=True, eq=False)
class Offsets:
    """How far the wall clock of a table is ahead of UTC, in microseconds.

    Attributes:
        moments: (D,) distinct instants of the table, increasing.
        offsets: (D,) at these; new instants have that of the last one before them, unless there is a zone.
        zone: where the rules are known.
        naive: neither the table nor the caller gives an offset or a zone: the offsets are 0.
    """

    moments: np.ndarray
    offsets: np.ndarray
    zone: dt.tzinfo | str | None = None
    naive: bool = False

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
    """(R,) int64 microseconds that the wall clock of a zone shows at instants, microseconds since 1970 UTC.

    Raises:
        ConfigError: there is no such zone.
    """
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

"""Rows of one series that have the same time: counted, and refused or resolved by a named policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import pandas as pd

from tsimpute.errors import ConfigError
from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.stamps import Stamps, label_text
from tsimpute.tables.time.wall_times import zone_of_doubled, zone_of_skipped

Duplicates = Literal["refuse", "first", "last", "mean"]
MANY = 0.1  # More repeated rows than this share are a column of the time or of groups that was overlooked
_STANDS = {"first": "the first stands", "last": "the last stands", "mean": "their mean stands"}


class RepeatedTimes(RowError):
    """Rows of one series have the same time."""

    def with_columns(self, how: str) -> RepeatedTimes:
        return RepeatedTimes(*self.parts[:-1], f".{how}")


def resolve(
    stamps: Stamps, series: np.ndarray, group: np.ndarray, duplicates: Duplicates, names: Sequence[str] = ()
) -> tuple[np.ndarray, list[str]]:
    """Which rows count, (R,) bool, and a note of how many had to be resolved.

    Args:
        series: (R,) number of each row's series; ``names`` of these for messages, () = their numbers.
        group: (R,) rows of one number must have distinct times.
        duplicates: "mean" keeps all rows, for the caller to average.

    Raises:
        DataError: there are some and the policy is "refuse".
        ConfigError: the policy is unknown.
    """
    if duplicates not in get_args(Duplicates):
        raise ConfigError(f"duplicates: expected one of {get_args(Duplicates)}, came {duplicates!r}.")
    rows = pd.DataFrame({"group": group, "moment": stamps.moments})
    repeated = rows.duplicated().to_numpy(bool)
    count = int(repeated.sum())
    if not count:
        return ~repeated, []
    if duplicates == "refuse":
        raise _refusal(stamps, series, group, repeated, names)
    used = np.ones(len(rows), bool) if duplicates == "mean" else ~rows.duplicated(keep=duplicates).to_numpy(bool)
    return used, [f"{_repeat(count)} a time of the same series; of rows of one time {_STANDS[duplicates]}"]


def series_text(names: Sequence[str], number: int) -> str:
    """A series for people: by its name where it has one, else by its number, from 0."""
    return f"series {names[number]!r}" if len(names) and names[number] else f"series {number}"


def _repeat(count: int) -> str:
    return "1 row repeats" if count == 1 else f"{count} rows repeat"


def _refusal(
    stamps: Stamps, series: np.ndarray, group: np.ndarray, repeated: np.ndarray, names: Sequence[str]
) -> RepeatedTimes:
    count, n_rows = int(repeated.sum()), len(repeated)
    two = int(repeated.argmax())
    same = group == group[two]
    one = int(np.argmax(same & (stamps.moments == stamps.moments[two])))
    few = count <= MANY * n_rows
    zone = _of_clocks_back(stamps, one)
    hint = zone or (_of_neighbour(stamps, same, two) if few and stamps.unit else "")
    which, label = series_text(names, int(series[one])), label_text(stamps.labels[one])
    policies = "duplicates='first' (or 'last', 'mean')"
    if not few:
        advice = (
            f"Name the columns that tell these rows apart, as the rest of the time (time) or as groups (group); "
            f"{policies} would leave {n_rows - count} of {n_rows} rows."
        )
    else:
        advice = f"{'Else correct' if zone else 'Correct'} them, or choose {policies}."
    return RepeatedTimes(
        f"times: expected each time once per series, {_repeat(count)} one. The first: {which}, {label}, ",
        (one, two),
        f".{hint} {advice}",
    )


def _of_clocks_back(stamps: Stamps, row: int) -> str:
    """A hint where a clock of no known zone shows the time of a row twice."""
    zone = zone_of_doubled(int(stamps.moments[row])) if _is_naive(stamps) else None
    return "" if zone is None else (
        f" Clocks go back at that time, as in {zone}: if the table is on such a clock, name the time zone, as "
        f"timezone='{zone}' (--timezone {zone}); the order of the rows then tells the two hours apart."
    )  # fmt: skip


def _of_neighbour(stamps: Stamps, same: np.ndarray, row: int) -> str:
    """A hint where the time before or after that of a row is missing in its series."""
    absent = _missing_neighbour(stamps.moments[same], stamps.moments[row])
    if absent is None:
        return ""
    zone = zone_of_skipped(absent) if _is_naive(stamps) else None
    reason = "one of the two rows may be meant for it" if zone is None else (
        f"clocks go forward over it, as in {zone}, on that day or within a day of it, so this looks like a change of "
        "daylight saving time"
    )  # fmt: skip
    return f" The time beside it, {label_text(stamps.labels_at(np.array([absent]))[0])}, is missing: {reason}."


def _is_naive(stamps: Stamps) -> bool:
    return stamps.offsets is not None and stamps.offsets.naive


def _missing_neighbour(moments: np.ndarray, doubled: int) -> int | None:
    """The time before or after a doubled one of a series, if it is missing by itself: one common step was left out."""
    times = np.unique(moments)
    steps = np.diff(times)
    if not len(steps):
        return None
    sizes, counts = np.unique(steps, return_counts=True)
    usual, place = sizes[counts.argmax()], int(np.searchsorted(times, doubled))
    gaps = np.arange(max(place - 1, 0), min(place + 1, len(steps)))
    gaps = gaps[steps[gaps] == 2 * usual]
    return int(times[gaps[0]] + usual) if len(gaps) else None

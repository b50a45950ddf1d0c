"""Rows of one series that have the same time: found, refused or resolved by a named policy, and counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from tsimpute.errors import ConfigError
from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.stamps import Stamps, label_text
from tsimpute.tables.time.zones import zone_of_doubled

Duplicates = Literal["refuse", "first", "last", "mean"]
MANY = 0.1
"""More repeated rows than this share are a column of the time or of groups that was overlooked."""
_STANDS = {"first": "the first stands", "last": "the last stands", "mean": "their mean stands"}


class RepeatedTimes(RowError):
    """Rows of one series have the same time."""

    def told_apart(self, how: str) -> RepeatedTimes:
        """The error with the columns that tell the rows apart in place of what throws rows away."""
        return RepeatedTimes(*self.parts[:-1], f".{how}")


def resolve(
    stamps: Stamps, series: np.ndarray, group: np.ndarray, duplicates: Duplicates, names: Sequence[str] = ()
) -> tuple[np.ndarray, list[str]]:
    """Which rows count, (R,) bool, and a note of how many had to be resolved.

    Args:
        stamps: R rows.
        series: (R,) number of each row's series, for messages.
        group: (R,) rows of one number must have distinct times.
        names: of the series, for messages; () = their numbers.
        duplicates: "mean" keeps all rows, for the caller to average.

    Raises:
        DataError: there are some and the policy is "refuse".
        ConfigError: the policy is unknown.
    """
    if duplicates not in get_args(Duplicates):
        raise ConfigError(f"duplicates: expected one of {get_args(Duplicates)}, came {duplicates!r}.")
    order = np.lexsort((stamps.moments, group))  # stable: rows of one time stay in the order of the table
    same = (np.diff(stamps.moments[order]) == 0) & (np.diff(group[order]) == 0)
    kept = np.ones(len(order), bool)
    count = int(same.sum())
    if not count:
        return kept, []
    if duplicates == "refuse":
        raise _refusal(stamps, series, order, same, count, names)
    if duplicates == "first":
        kept[order[1:][same]] = False
    elif duplicates == "last":
        kept[order[:-1][same]] = False
    return kept, [f"{_repeat(count)} a time of the same series; of rows of one time {_STANDS[duplicates]}"]


def series_text(names: Sequence[str], number: int) -> str:
    """A series for people: by its name where it has one, else by its number, from 0."""
    return f"series {names[number]!r}" if len(names) and names[number] else f"series {number}"


def _repeat(count: int) -> str:
    return "1 row repeats" if count == 1 else f"{count} rows repeat"


def _refusal(
    stamps: Stamps, series: np.ndarray, order: np.ndarray, same: np.ndarray, count: int, names: Sequence[str]
) -> RepeatedTimes:
    """Names the duplicate that stands first in the table."""
    pairs = np.flatnonzero(same)
    pair = int(pairs[order[pairs + 1].argmin()])
    one, two = int(order[pair]), int(order[pair + 1])
    hint = ""
    if count == 1 and stamps.unit and _beside_gap(stamps.moments[order], pair, np.diff(series[order]) != 0):
        hint = " A neighbouring time is missing: this looks like a change of daylight saving time."
    elif (zone := _zone_of_doubled(stamps, one)) is not None:
        hint = (
            f" Clocks go back at that time, as in {zone}: if the table is on such a clock, name the time zone, as "
            f"timezone='{zone}' (--timezone {zone}); the order of the rows then tells the two hours apart."
        )
    which, label = series_text(names, int(series[one])), label_text(stamps.labels[one])
    policies = "duplicates='first' (or 'last', 'mean')"
    if count > MANY * len(order):
        advice = (
            f"Name the columns that tell these rows apart, as the rest of the time (time) or as groups (group); "
            f"{policies} would leave {len(order) - count} of {len(order)} rows."
        )
    else:
        advice = f"{'Else correct' if hint else 'Correct'} them, or choose {policies}."
    return RepeatedTimes(
        f"times: expected each time once per series, {_repeat(count)} one. The first: {which}, {label}, ",
        (one, two),
        f".{hint} {advice}",
    )


def _zone_of_doubled(stamps: Stamps, row: int) -> str | None:
    """A zone that doubles this time, where the table has neither offsets nor a zone."""
    if stamps.offsets is None or not stamps.offsets.naive:
        return None
    return zone_of_doubled(int(stamps.moments[row]))


def _beside_gap(moments: np.ndarray, pair: int, edges: np.ndarray) -> bool:
    """Whether the time before or after a doubled one is one common step too far away."""
    steps = np.diff(moments)
    usual = steps[~edges & (steps > 0)]
    if not len(usual):
        return False
    sizes, counts = np.unique(usual, return_counts=True)
    double = 2 * sizes[counts.argmax()]
    beside = [i for i in (pair - 1, pair + 1) if 0 <= i < len(steps) and not edges[i]]
    return any(steps[i] == double for i in beside)

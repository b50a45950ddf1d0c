"""Times that a regular clock lacks: which of them are inserted, which are not, and where there are too many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tsimpute.errors import DataError
from tsimpute.tables.clock.axes import Axis
from tsimpute.tables.clock.calendars import left_out_times
from tsimpute.tables.clock.closed_times import Slots, closed_times
from tsimpute.tables.clock.duplicates import series_text
from tsimpute.tables.clock.steps import Grid
from tsimpute.tables.time.stamps import Stamps, label_text
from tsimpute.tables.time.wall_times import DAY, HOUR

MissingTimes = Literal["auto", "insert", "keep"]
MAX_STRETCH = 100
"""A series may become at most so many times longer than its rows by what is inserted with missing_times='insert'."""
MAX_INSERTED = 5_000_000
MISSING_AMONG_PAUSES = 0.1  # Share of times that may be missing where unequal differences count as a clock with pauses
MOST_VISITS = 20  # A schedule of visits that several series share has at most so many times
FEWEST_SERIES, FEWEST_DATED = 5, 10
"""Series that share a schedule in numbers, as months since entry, and in dates, as years of a survey."""
_SHOWN = 3
_INSERT = "missing_times='insert' (--missing_times insert)"
_ADDS = f"{_INSERT} adds them"
_KEEP = "missing_times='keep' (--missing_times keep)"


@dataclass(frozen=True, eq=False)
class Times:
    """The D times of a table on a regular clock."""

    stamps: Stamps  # of the table's rows
    series: np.ndarray  # (D,) number of the series of each time, never falling
    moments: np.ndarray  # (D,) of ``Stamps``
    labels: np.ndarray  # (D,) of ``Stamps``
    axis: Axis  # of the D times
    grid: Grid  # of the D times
    names: Sequence[str]  # of the series, for messages; () = their numbers
    n_series: int  # number of series


@dataclass(frozen=True, eq=False)
class Lengthened:
    """The same with inserted times, S in all."""

    at: np.ndarray  # (D,) position of each of the D times
    series: np.ndarray  # (S,)
    index: np.ndarray  # (S,) steps from the first time of the series
    moments: np.ndarray  # (S,)
    labels: np.ndarray  # (S,)
    inserted: np.ndarray  # (S,) bool
    notes: tuple[str, ...] = ()  # what was done
    warnings: tuple[str, ...] = ()  # what a reader should look at
    step_text: str = ""  # a step in words

    @classmethod
    def unchanged(
        cls, series: np.ndarray, index: np.ndarray, moments: np.ndarray, labels: np.ndarray, step_text: str = ""
    ) -> Lengthened:
        """Without any inserted time."""
        n = len(series)
        return cls(np.arange(n), series, index, moments, labels, np.zeros(n, bool), step_text=step_text)


def lengthened(times: Times, policy: MissingTimes) -> Lengthened:
    """The times with those that are missing between the first and the last one of each series.

    "auto" inserts none at which the table hardly ever has a row or which a calendar leaves out, and never more than
    there are; "insert" inserts all; "keep" none. Too many are refused with a ``DataError``.
    """
    unchanged = Lengthened.unchanged(
        times.series, times.grid.index, times.moments, times.labels, times.axis.text(times.grid.step)
    )
    if policy == "keep":
        return unchanged
    counts = np.bincount(times.series, minlength=times.n_series)
    length = _lengths(times)
    if (length == counts).all():
        return unchanged
    if (length - counts).sum() > MAX_INSERTED:
        raise _too_many(times, length - counts, policy)
    if policy == "insert" and (length > MAX_STRETCH * counts).any():
        raise _too_many(times, np.where(length > MAX_STRETCH * counts, length - counts, 0), policy)
    return _with_inserted(times, _all_slots(times, length), policy)


def with_pauses(times: Times) -> Lengthened | None:
    """Unequal differences that are a clock with pauses, as 7:00, 14:00 and 21:00 or Monday, Wednesday and Friday.

    ``times`` are on the finest grid that holds all of them; None where much more is missing than the pauses.
    """
    length = _lengths(times)
    if times.stamps.offsets is None or length.sum() > MAX_INSERTED:
        return None
    slots = _all_slots(times, length)
    closed = closed_times(slots, lambda n: times.axis.text(n * times.grid.step))
    n_missing = int((~slots.present & ~closed.slots).sum())
    if not closed.texts or n_missing > MISSING_AMONG_PAUSES * slots.present.sum():
        return None
    return _with_inserted(times, slots, "auto")


def _lengths(times: Times) -> np.ndarray:
    """Steps from the first to the last time of each series."""
    length = np.zeros(times.n_series, np.int64)
    np.maximum.at(length, times.series, times.grid.index + 1)
    return length


def _all_slots(times: Times, length: np.ndarray) -> Slots:
    axis, grid, offsets = times.axis, times.grid, times.stamps.offsets
    start = np.cumsum(length) - length
    series = np.repeat(np.arange(times.n_series), length)
    index = np.arange(len(series)) - np.repeat(start, length)
    present = np.zeros(len(series), bool)
    present[start[times.series] + grid.index] = True
    origin = np.zeros(times.n_series, grid.origin.dtype)
    origin[times.series] = grid.origin
    moments = axis.moments(origin[series] + index * grid.step)
    wall = None if offsets is None else moments + offsets.at(moments)
    return Slots(series, index, moments, present, wall, grid.step / axis.unit * HOUR)


def _with_inserted(times: Times, slots: Slots, policy: MissingTimes) -> Lengthened:
    expected, notes, warnings, text = _expected(times, slots, policy)
    inserted = expected & ~slots.present
    if policy == "auto" and inserted.sum() > slots.present.sum():
        raise _too_many(times, np.bincount(slots.series[inserted], minlength=times.n_series), policy)
    keep = slots.present | inserted
    at = np.cumsum(keep)[slots.present] - 1
    new = np.flatnonzero(inserted[keep])
    moments = slots.moments[keep]
    labels = np.empty(len(moments), np.result_type(times.labels, times.stamps.labels_at(times.moments[:1])))
    labels[at], labels[new] = times.labels, times.stamps.labels_at(moments[new])
    moments = moments.astype(np.result_type(moments, times.moments))
    moments[at] = times.moments
    series = slots.series[keep]
    if n := len(new):
        several, n_longer = times.n_series > 1, len(np.unique(series[new]))
        names = [f"{series_text(times.names, int(number))} " if several else "" for number in series[new[:_SHOWN]]]
        some = ", ".join(f"{name}{_label(times, labels[at])}" for name, at in zip(names, new, strict=False))
        where = f" in {n_longer:,} of {times.n_series:,} series" if several else ""
        word = "time" if n == 1 else "times"
        notes.append(
            f"{n:,} missing {word} inserted{where}, beside {len(times.series):,} that are there (first: {some})"
        )
    return Lengthened(
        at, series, slots.index[keep], moments, labels, inserted[keep], tuple(notes), tuple(warnings), text
    )


def _expected(times: Times, slots: Slots, policy: MissingTimes) -> tuple[np.ndarray, list[str], list[str], str]:
    """(S,) bool: times at which a row is expected; notes, warnings, and what a step is called."""
    naive = times.stamps.offsets is not None and times.stamps.offsets.naive
    notes, warnings, expected = [], [], np.ones(len(slots.series), bool)
    text = times.axis.text(times.grid.step)
    if policy == "insert":
        excluded = left_out_times(slots, np.zeros(len(expected), bool), naive=naive)
        warnings = [f"rows are added, as asked, at {part.text}. {part.advice}" for part in excluded if part.advice]
        return expected, notes, warnings, text
    closed = closed_times(slots, lambda n: times.axis.text(n * times.grid.step))
    expected = ~closed.slots
    # Times of a schedule of few visits that all series share, at which no series has a row.
    planned, rows = np.unique(times.moments, return_counts=True)
    is_dated = times.stamps.offsets is not None
    fewest = FEWEST_DATED if is_dated else FEWEST_SERIES
    shared = 2 < len(planned) <= MOST_VISITS and rows.mean() >= times.n_series / 2 and times.n_series >= fewest
    unplanned = ~slots.present & ~np.isin(slots.moments, planned)
    if shared and (not is_dated or _are_dates(times)) and unplanned.any():
        expected &= ~unplanned
        labels = times.stamps.labels_at(np.unique(slots.moments[unplanned]))
        shown = ", ".join(_label(times, label) for label in labels[:_SHOWN]) + ", ..." * (len(labels) > _SHOWN)
        notes.append(f"no series has a row at {shown}: no visit was planned there, no row is added; {_ADDS}")
    if closed.texts:
        turns = (
            "; if several instruments take turns, name the column that tells them apart (group, --group)" * closed.turns
        )
        notes.append(f"{', '.join(closed.texts)}: these times are not missing, no row is added; {_ADDS}{turns}")
    if closed.weekend.all() and round(slots.step) == DAY:
        text = "1 working day"
    open_ = np.flatnonzero(expected)
    for part in left_out_times(slots.at(open_), closed.weekend[open_], naive=naive):
        expected[open_[part.slots]] = False
        advice = f". {part.advice}" if part.advice else ""
        (warnings if advice else notes).append(f"no row is added at {part.text}{advice}; {_ADDS}")
    return expected, notes, warnings, text


def _label(times: Times, label: object) -> str:
    """A label for people: only the date where all times are at midnight."""
    text = label_text(label)
    return text.removesuffix(" 00:00") if _are_dates(times) else text


def _are_dates(times: Times) -> bool:
    return bool(times.labels.dtype.kind == "M" and (times.labels == times.labels.astype("M8[D]")).all())


def _too_many(times: Times, added: np.ndarray, policy: MissingTimes) -> DataError:
    worst = int(added.argmax())
    of_series = np.flatnonzero(times.series == worst)
    count, total = len(of_series), int(added.sum())
    gap = int(np.diff(times.grid.index[of_series]).argmax()) if count > 1 else 0
    ends = " to ".join(_label(times, label) for label in times.labels[of_series[gap : gap + 2]])
    step = times.axis.text(times.grid.step)
    which = series_text(times.names, worst) if times.n_series > 1 else "the table"
    of_all = f" ({total:,} in the whole table of {len(times.series):,} times)" if times.n_series > 1 else ""
    most = "no more missing times than there are times" if policy == "auto" else (
        f"at most {MAX_STRETCH} times as many times in a series, and {MAX_INSERTED:,} new ones in all"
    )  # fmt: skip
    insert = f", or insert them all with {_INSERT}" if policy == "auto" and total <= MAX_INSERTED else ""
    return DataError(
        f"times: expected {most}, but at a step of {step} {which} has {count:,} times and "
        f"lacks {int(added[worst]):,}{of_all}; its longest gap is {ends}. Correct the times if they are wrong; else "
        f"insert none with {_KEEP}, take the true times with irregular=True (--irregular true){insert}."
    )

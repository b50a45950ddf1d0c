"""Times of any kind put into the steps of a model, such as the hours of a stay; see ``align_rows_in_steps``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tsimpute.errors import DataError
from tsimpute.tables.clock.clock import RowAlignment, by_series
from tsimpute.tables.clock.duplicates import MANY, Duplicates, resolve, series_text
from tsimpute.tables.clock.missing_times import MAX_INSERTED, MissingTimes
from tsimpute.tables.clock.steps import step_text
from tsimpute.tables.columns.column_names import is_offset_name
from tsimpute.tables.time.stamps import Stamps, label_text
from tsimpute.tables.time.wall_times import DAY, HOUR

LONGEST_GAP = 14 * 24.0  # Hours without a row within a series, beyond which it rather is several
NEAR = 1 / 12  # Distance from a step, as a share of it, of stamps that still count as written step by step
_WORDS = (
    (1 / 3600, r"s|sec|secs|second|seconds", "seconds"),
    (1 / 60, r"m|min|mins|minute|minutes", "minutes"),
    (1.0, r"h|hr|hrs|hour|hours|iculos", "hours"),
    (24.0, r"d|day|days", "days"),
)


@dataclass(frozen=True, eq=False)
class Steps:
    """The step of each row."""

    index: np.ndarray  # (R,) int64, counted from the origin of the row's series
    back: Callable[[np.ndarray, np.ndarray], np.ndarray]  # from series and steps to moments
    notes: tuple[str, ...]  # what was done


def hours_per_unit(name: object, units: Mapping[str, str]) -> tuple[float, str]:
    """How many hours one unit of a column of numbers is, from ``units`` or its name, and a note of it.

    A ``DataError`` is raised where neither tells the unit.
    """
    unit, parted = units.get(str(name)), re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(name))
    words = [unit.strip().lower()] if unit else re.findall(r"[a-z]+", parted.lower())
    for hours, pattern, text in _WORDS:
        if any(re.fullmatch(pattern, word) for word in words if unit or len(word) > 1 or len(words) > 1):
            return hours, f"{name}: numbers of {text}"
    if unit is None and is_offset_name(name):
        return 1 / 60, f"{name}: taken as minutes, as offsets are in the eICU data base; if not: --units {name}=h"
    came = f"came the unit {unit!r}" if unit else "came numbers that may be hours or minutes"
    raise DataError(
        f'column {name!r}: expected times of which the unit is known, {came}. Say it: --units "{name}=h" or '
        f'"{name}=min" (units), or name the column of times (--time).'
    )


def align_rows_in_steps(
    stamps: Stamps,
    series_of_row: np.ndarray,
    n_series: int,
    *,
    step: float,
    counts: np.ndarray,
    feature_of_row: np.ndarray | None,
    unit: tuple[float, str] | None,
    duplicates: Duplicates,
    missing_times: MissingTimes,
    names: Sequence[str],
) -> RowAlignment:
    """Puts the rows of a table into steps such as hours: the step of a row is the one that contains its time.

    Steps count from the start that the times themselves have (hours and minutes since admission, numbers), or from the
    first row of each series (stamps). Stamps that were written step by step may be a little off.

    Args:
        stamps: R rows.
        step: in hours.
        counts: (R,) bool, rows that determine when a series begins and ends; all others are passed through.
        feature_of_row: (R,) of a long table, of rows that count.
        unit: of numbers, see ``hours_per_unit``.
        missing_times: "keep" adds no step; otherwise each series has all from its first to its last.
        names: of the series, for messages.

    Raises:
        DataError: times repeat as if series were mixed, are days, or are as far apart as those of several series.
    """
    group = series_of_row
    if feature_of_row is not None:
        group = series_of_row * (1 + int(feature_of_row.max())) + feature_of_row
    if duplicates == "refuse" and counts.any():  # where times of many rows repeat exactly, series were mixed
        rows = np.flatnonzero(counts)
        order = np.lexsort((stamps.moments[rows], group[rows]))
        same = (np.diff(stamps.moments[rows][order]) == 0) & (np.diff(group[rows][order]) == 0)
        if same.sum() > MANY * len(rows):  # few are as in the data set itself
            others = group.max() + 1 + np.arange(len(group))
            resolve(stamps, series_of_row, np.where(counts, group, others), "refuse", names)
    has = np.zeros(n_series, bool)
    has[series_of_row[counts]] = True
    counts = counts | ~has[series_of_row]
    steps = _steps(stamps, series_of_row, n_series, step, unit, counts)
    low, high = np.full(n_series, steps.index.max()), np.full(n_series, steps.index.min())
    np.minimum.at(low, series_of_row[counts], steps.index[counts])
    np.maximum.at(high, series_of_row[counts], steps.index[counts])
    index = np.clip(steps.index, low[series_of_row], high[series_of_row])
    lengths = high - low + 1
    _check_gaps(stamps, series_of_row, np.where(counts, index, low[series_of_row]), step, missing_times, names)
    if (lengths.sum() - len(index)) > MAX_INSERTED:
        raise DataError(
            f"times: expected at most {MAX_INSERTED:,} steps without a row, came {lengths.sum():,} steps in all. Name "
            "the column that tells records apart (--group), or correct the times."
        )
    start = np.concatenate([[0], np.cumsum(lengths)])
    at = start[series_of_row] + index - low[series_of_row]
    present = np.zeros(start[-1], bool)
    present[at[counts]] = True
    keep = present if missing_times == "keep" else np.ones(start[-1], bool)
    series = np.repeat(np.arange(n_series), lengths)[keep]
    numbers = (np.arange(start[-1]) - np.repeat(start[:-1] - low, lengths))[keep]
    moments = steps.back(series, numbers)
    times = (numbers - numbers[np.searchsorted(series, series)]) * step
    return by_series(
        (np.cumsum(keep) - 1)[at], series, n_series, (times, stamps.labels_at(moments), moments, ~present[keep]),
        used=np.ones(len(index), bool), step=step, notes=steps.notes, step_text=step_text(step), in_hours=True,
    )  # fmt: skip


def _steps(
    stamps: Stamps, series: np.ndarray, n_series: int, step: float, unit: tuple[float, str] | None, counts: np.ndarray
) -> Steps:
    moments = stamps.moments
    if stamps.kind == "numbers":
        assert unit is not None
        size = step / unit[0]
        index = np.floor(moments / size + 1e-6).astype(np.int64)
        back = lambda _, steps: (
            np.rint(steps * size).astype(np.int64) if moments.dtype.kind == "i" else np.round(steps * size, 9)
        )
        return Steps(index, back, (unit[1],))
    size = round(step * HOUR)
    if stamps.kind == "elapsed":
        return Steps(moments // size, lambda _, steps: steps * size, ())
    first = np.full(n_series, np.iinfo(np.int64).max)
    np.minimum.at(first, series[counts], moments[counts])
    since = moments - first[series]
    if (since != 0).any() and (since % DAY == 0).all():
        raise DataError(
            f"times: expected times of a day, since the model has learnt steps of {step_text(step)}; came days alone. "
            "Name the column of times (--time), or fit on the table itself (no model)."
        )
    back = lambda of, steps: first[of] + steps * size
    off = np.minimum(since % size, size - since % size)
    if (off <= NEAR * size).all():
        return Steps((since + size // 2) // size, back, ("hours count from the first row of each series",))
    return Steps(since // size, back, ("hours count from the first row of each series, each from its minute",))


def _check_gaps(
    stamps: Stamps,
    series: np.ndarray,
    index: np.ndarray,
    step: float,
    missing_times: MissingTimes,
    names: Sequence[str],
) -> None:
    """Refuses a series with a gap in which no stay in intensive care goes on."""
    if missing_times != "auto":
        return
    order = np.lexsort((index, series))
    gaps = np.where(np.diff(series[order]) == 0, np.diff(index[order]), 0) * step
    if not len(gaps) or gaps.max() <= LONGEST_GAP:
        return
    worst = int(gaps.argmax())
    ends = " to ".join(label_text(stamps.labels[row]) for row in order[worst : worst + 2])
    raise DataError(
        f"times: expected one stay in each series, but {series_text(names, int(series[order[worst]]))} has no row for "
        f"{gaps[worst] / 24:.0f} days ({ends}). Name the column that tells stays apart (--group, group); add all hours "
        "all the same with --missing_times insert (missing_times='insert'), or none with --missing_times keep."
    )

"""The position of each row of a table in its series: strictly increasing times, regular clocks without missing ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.clock.axes import Axis, axes
from tsimpute.tables.clock.calendars import calendar_pattern
from tsimpute.tables.clock.duplicates import Duplicates, resolve, series_text
from tsimpute.tables.clock.missing_times import Lengthened, MissingTimes, Times, lengthened, with_pauses
from tsimpute.tables.clock.steps import Change, Grid, Irregular, find_grid, finest_grid
from tsimpute.tables.time.stamps import Stamps, label_text


@dataclass(frozen=True, eq=False)
class RowAlignment:
    """The position of each row of a table in its series. Per series there are T times.

    Attributes:
        step_of_row: (R,) position in the times of the row's series.
        times: per series (T,) float64, from 0, in the unit of the stamps, strictly increasing.
        labels: per series (T,) what people read, also of inserted times.
        moments: per series (T,) as ``Stamps.moments``, for ``Stamps.texts`` and ``Stamps.values``.
        inserted: per series (T,) bool: no row of the table has this time.
        used: (R,) bool: False for a row in whose place another one of the same time is used. The policy "mean" uses
            all: the caller averages rows of one step.
        step: of a regular clock, in the unit of the stamps; None = irregular. A month counts as 730.485 hours.
        notes: what was detected and done, with counts.
        warnings: of it, what a reader should look at.
        step_text: a step in words; "" where there is none.
        in_hours: times and step are in hours, whatever the unit of the stamps.
    """

    step_of_row: np.ndarray
    times: tuple[np.ndarray, ...]
    labels: tuple[np.ndarray, ...]
    moments: tuple[np.ndarray, ...]
    inserted: tuple[np.ndarray, ...]
    used: np.ndarray
    step: float | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    step_text: str = ""
    in_hours: bool = False

    @property
    def n_inserted(self) -> int:
        """Times that no row of the table has, in all series."""
        return sum(int(of_series.sum()) for of_series in self.inserted)


@dataclass(frozen=True, eq=False)
class _Steps:
    """All distinct times, by series and time: the row that represents each, its series; and the time of each row."""

    row: np.ndarray
    series: np.ndarray
    of_row: np.ndarray


def align_rows(
    stamps: Stamps,
    series_of_row: np.ndarray,
    n_series: int,
    *,
    feature_of_row: np.ndarray | None = None,
    duplicates: Duplicates = "refuse",
    missing_times: MissingTimes = "auto",
    irregular: bool | None = None,
    names: Sequence[str] = (),
) -> RowAlignment:
    """Puts the rows of a table in the order of time, series by series.

    A clock is regular where at least 90 % of the differences are within 2 % of a whole number of steps and no time
    is farther than a quarter of a step from the grid; times near the grid are placed on it and keep their labels.

    Args:
        stamps: R rows.
        series_of_row: (R,) whole numbers in [0, n_series).
        n_series: number of series.
        feature_of_row: (R,) whole numbers for long tables, where rows of one time and different features belong
            together.
        duplicates: rows of one series, time and feature: refused, or the first or last is used, or the caller
            takes their mean.
        missing_times: "auto" gives a regular series the times that are missing between its first and last, but none at
            which the table hardly ever has a row (weekends, nights), none that a calendar leaves out, and no more than
            there are; "insert" gives it all of them; "keep" none.
        names: of the series, for messages; () = their numbers.
        irregular: True: the true times are used. False: what is not regular is refused. None: decided from the times.

    Raises:
        DataError: duplicates that are not resolved, a step that changes, an irregular clock where a regular one was
            asked for, or too many missing times. Rows, and series without names, are counted from 0.
        ConfigError: a setting is unknown.
    """
    _check_settings(missing_times, series_of_row, len(stamps.moments), n_series)
    group = series_of_row
    if feature_of_row is not None:
        group = series_of_row.astype(np.int64) * (int(feature_of_row.max(initial=0)) + 1) + feature_of_row
    used, repeat_notes = resolve(stamps, series_of_row, group, duplicates, names)
    notes = [*_order_notes(stamps.moments, group), *repeat_notes]
    steps = _distinct(stamps.moments, series_of_row, used)
    moments = stamps.moments[steps.row]
    labels = stamps.labels[steps.row]
    pattern = calendar_pattern(labels, steps.series) if irregular is None else ""
    if pattern:  # a grid of one step would put new times next to those of the calendar
        axis, clock = axes(stamps, moments, steps.series)[0], Irregular(pattern)
    else:
        axis, clock = _regular(stamps, moments, steps.series, irregular, names)
    on = lambda grid: Times(stamps, steps.series, moments, labels, axis, grid, names, n_series)
    grid = longer = None
    if isinstance(clock, Grid):
        grid, longer = clock, lengthened(on(clock), missing_times)
    elif clock.unequal and irregular is None and missing_times == "auto":
        grid = finest_grid(axis.positions, steps.series)
        longer = None if grid is None else with_pauses(on(grid))
    if grid is None or longer is None:
        if irregular:
            notes.append("the true times are used, as asked")
        elif isinstance(clock, Irregular) and clock.reason:
            notes.append(f"times are irregular ({clock.reason}): the true times are used and none is inserted")
        first = np.searchsorted(steps.series, steps.series)
        longer = Lengthened.unchanged(steps.series, steps.series, moments, labels)
        return _by_series(steps, longer, (moments - moments[first]) / axis.unit, n_series, used, notes)
    notes += [f"regular clock, a step of {longer.step_text}", *_grid_notes(stamps, moments, axis, grid), *longer.notes]
    step = grid.step / axis.unit
    return _by_series(steps, longer, longer.index * step, n_series, used, notes, step)


def _check_settings(missing_times: str, series_of_row: np.ndarray, n_rows: int, n_series: int) -> None:
    if missing_times not in get_args(MissingTimes):
        raise ConfigError(f"missing_times: expected one of {get_args(MissingTimes)}, came {missing_times!r}.")
    if series_of_row.shape != (n_rows,):
        raise DataError(f"series_of_row: expected shape ({n_rows},), came {series_of_row.shape}.")
    if n_rows and (series_of_row.min() < 0 or series_of_row.max() >= n_series):
        raise DataError(
            f"series_of_row: expected numbers from 0 to {n_series - 1}, came {series_of_row.min()} to "
            f"{series_of_row.max()}."
        )


def _order_notes(moments: np.ndarray, group: np.ndarray) -> list[str]:
    order = np.argsort(group, kind="stable")
    steps = np.diff(moments[order])[np.diff(group[order]) == 0]
    back = int((steps < 0).sum())
    if not back:
        return []
    if not (steps > 0).any():
        return ["rows are not in the order of time (newest first); they keep their places"]
    return [f"rows are not in the order of time ({back} go back); they keep their places"]


def _distinct(moments: np.ndarray, series: np.ndarray, used: np.ndarray) -> _Steps:
    order = np.lexsort((~used, moments, series))
    new = np.r_[True, (np.diff(moments[order]) != 0) | (np.diff(series[order]) != 0)][: len(order)]
    of_row = np.empty(len(order), np.int64)
    of_row[order] = np.cumsum(new) - 1
    row = order[new]
    return _Steps(row, series[row], of_row)


def _regular(
    stamps: Stamps, moments: np.ndarray, series: np.ndarray, irregular: bool | None, names: Sequence[str]
) -> tuple[Axis, Grid | Irregular]:
    """The axis on which the times are regular, with its grid; or the true one, and why there is none."""
    true, *others = axes(stamps, moments, series)
    if irregular:
        return true, Irregular("")
    reason = Irregular("")
    for axis in (*others, true):
        grid = find_grid(axis.positions, series, axis.roundings)
        if isinstance(grid, Change):
            raise DataError(_change_message(stamps, moments, series, axis, grid, names))
        if isinstance(grid, Grid):
            return axis, grid
        reason = grid
    if not (np.diff(series) == 0).any():
        return true, Irregular("")
    if irregular is False:
        raise DataError(
            f"times: expected a regular clock, but {reason.reason}; resample the table, or leave irregular=False out."
        )
    return true, reason


def _grid_notes(stamps: Stamps, moments: np.ndarray, axis: Axis, grid: Grid) -> list[str]:
    off = grid.off > 0
    if not off.any():
        return []
    worst = int(grid.off.argmax())
    label = label_text(stamps.labels_at(moments[worst : worst + 1])[0])
    return [
        f"times that lie off the grid, by up to {axis.text(grid.off[worst])}: {int(off.sum())} (the farthest: "
        f"{label}); they count as the nearest time of the grid and keep their labels"
    ]


def _change_message(
    stamps: Stamps, moments: np.ndarray, series: np.ndarray, axis: Axis, change: Change, names: Sequence[str]
) -> str:
    label = label_text(stamps.labels_at(moments[change.at : change.at + 1])[0])
    before, after = axis.text(change.before), axis.text(change.after)
    which = series_text(names, int(series[change.at]))
    where = f"{which} goes from steps of {before} to steps of {after} at {label}"
    if not change.within:
        where = f"{which} has steps of {after} (from {label} on), other series of {before}"
    return (
        f"times: expected one step in the whole table, but {where}. Resample to one step, split the table there, or "
        "take the true times with irregular=True (--irregular true)."
    )


def _by_series(
    steps: _Steps,
    longer: Lengthened,
    times: np.ndarray,
    n_series: int,
    used: np.ndarray,
    notes: Sequence[str],
    step: float | None = None,
) -> RowAlignment:
    """Cuts what is listed by series and time into one piece per series."""
    cuts = np.searchsorted(longer.series, np.arange(1, n_series))
    starts = np.r_[0, cuts]
    split = lambda whole: tuple(np.split(whole, cuts))
    at = longer.at[steps.of_row]
    return RowAlignment(
        at - starts[longer.series[at]], split(times.astype(np.float64)), split(longer.labels), split(longer.moments),
        split(longer.inserted), used, step, tuple(notes), longer.warnings, longer.step_text,
    )  # fmt: skip

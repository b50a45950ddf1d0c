"""The position of each row of a table in its series: strictly increasing times, regular clocks without missing ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pandas as pd

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.clock.axes import Axis, axes
from tsimpute.tables.clock.calendars import calendar_pattern
from tsimpute.tables.clock.duplicates import Duplicates, resolve, series_text
from tsimpute.tables.clock.missing_times import Lengthened, MissingTimes, Times, lengthened, with_pauses
from tsimpute.tables.clock.steps import Change, Grid, Irregular, find_grid, finest_grid
from tsimpute.tables.time.stamps import Stamps, label_text


@dataclass(frozen=True, eq=False)
class RowAlignment:
    """The position of each row of a table in its series. Per series there are T times."""

    step_of_row: np.ndarray  # (R,) position in the times of the row's series
    times: tuple[np.ndarray, ...]  # per series (T,) float64, from 0, in the unit of the stamps, strictly increasing
    labels: tuple[np.ndarray, ...]  # per series (T,) what people read, also of inserted times
    # per series (T,) as ``Stamps.moments``, for ``Stamps.texts`` and ``Stamps.values``.
    moments: tuple[np.ndarray, ...]
    inserted: tuple[np.ndarray, ...]  # per series (T,) bool: no row of the table has this time
    # (R,) bool: False for a row in whose place another one of the same time is used. The policy "mean" uses all: the
    # caller averages rows of one step.
    used: np.ndarray
    # of a regular clock, in the unit of the stamps; None = irregular. A month counts as 730.485 hours.
    step: float | None
    notes: tuple[str, ...]  # what was detected and done, with counts
    warnings: tuple[str, ...] = ()  # of it, what a reader should look at
    step_text: str = ""  # a step in words; "" where there is none
    in_hours: bool = False  # times and step are in hours, whatever the unit of the stamps

    def place_of(self, series_of_row: np.ndarray) -> np.ndarray:
        """(R,) where rows of series (R,) stand in the times of all series, one series after the other."""
        return np.cumsum([0, *map(len, self.times)])[series_of_row] + self.step_of_row


def rows_as_steps(series_of_row: np.ndarray, n_series: int, *notes: str) -> RowAlignment:
    """The rows of each series one step apart, in their order."""
    step_of_row = pd.Series(series_of_row).groupby(series_of_row).cumcount().to_numpy()
    steps = [np.arange(n) for n in np.bincount(series_of_row, minlength=n_series)]
    inserted = tuple(np.zeros(len(of_series), bool) for of_series in steps)
    times = tuple(of_series.astype(np.float64) for of_series in steps)
    used = np.ones(len(step_of_row), bool)
    return RowAlignment(step_of_row, times, tuple(steps), tuple(steps), inserted, used, 1.0, notes)


def by_series(
    at: np.ndarray, series: np.ndarray, n_series: int, listed: Sequence[np.ndarray], **others: Any
) -> RowAlignment:
    """Cuts what is listed by series and time into one piece per series.

    Args:
        at: (R,) place of each row in the list.
        series: (S,) of each time, never falling.
        listed: (S,) times, labels, moments, inserted of ``RowAlignment``.
    """
    cuts = np.searchsorted(series, np.arange(1, n_series))
    times, labels, moments, inserted = (tuple(np.split(whole, cuts)) for whole in listed)
    return RowAlignment(at - np.r_[0, cuts][series[at]], times, labels, moments, inserted, **others)


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
    order = np.lexsort((~used, stamps.moments, series_of_row))
    is_new = (np.diff(stamps.moments[order]) != 0) | (np.diff(series_of_row[order]) != 0)
    is_new = np.r_[True, is_new][: len(order)]
    time_of_row = np.empty(len(order), np.int64)
    time_of_row[order] = np.cumsum(is_new) - 1
    row = order[is_new]  # that represents each of the distinct times, which are by series and time
    series, moments, labels = series_of_row[row], stamps.moments[row], stamps.labels[row]
    pattern = calendar_pattern(labels, series) if irregular is None else ""
    if pattern:  # a grid of one step would put new times next to those of the calendar
        axis, clock = axes(stamps, moments, series)[0], Irregular(pattern)
    else:
        axis, clock = _regular(stamps, moments, series, irregular, names)
    on = lambda grid: Times(stamps, series, moments, labels, axis, grid, names, n_series)
    grid = longer = None
    if isinstance(clock, Grid):
        grid, longer = clock, lengthened(on(clock), missing_times)
    elif clock.unequal and irregular is None and missing_times == "auto":
        grid = finest_grid(axis.positions, series)
        longer = None if grid is None else with_pauses(on(grid))
    if grid is None or longer is None:
        if irregular:
            notes.append("the true times are used, as asked")
        elif isinstance(clock, Irregular) and clock.reason:
            notes.append(f"times are irregular ({clock.reason}): the true times are used and none is inserted")
        first = np.searchsorted(series, series)
        longer, step = Lengthened.unchanged(series, series, moments, labels), None
        times = (moments - moments[first]) / axis.unit
    else:
        notes += [f"regular clock, a step of {longer.step_text}", *_grid_notes(stamps, moments, axis, grid)]
        notes += longer.notes
        step = grid.step / axis.unit
        times = longer.index * step
    listed = times.astype(np.float64), longer.labels, longer.moments, longer.inserted
    return by_series(
        longer.at[time_of_row], longer.series, n_series, listed, used=used, step=step, notes=tuple(notes),
        warnings=longer.warnings, step_text=longer.step_text,
    )  # fmt: skip


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
    how = f"{back} go back" if (steps > 0).any() else "newest first"
    return [f"rows are not in the order of time ({how}); they keep their places"] * bool(back)


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
            label = label_text(stamps.labels_at(moments[grid.at : grid.at + 1])[0])
            before, after = axis.text(grid.before), axis.text(grid.after)
            which = series_text(names, int(series[grid.at]))
            where = f"{which} goes from steps of {before} to steps of {after} at {label}"
            if not grid.within:
                where = f"{which} has steps of {after} (from {label} on), other series of {before}"
            raise DataError(
                f"times: expected one step in the whole table, but {where}. Resample to one step, split the table "
                "there, or take the true times with irregular=True (--irregular true)."
            )
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

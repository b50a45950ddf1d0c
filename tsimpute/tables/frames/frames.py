"""Data frames, wide or long, as panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Feature
from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.clock.clock import RowAlignment, align_rows
from tsimpute.tables.clock.duplicates import Duplicates, RepeatedTimes
from tsimpute.tables.clock.hours import align_rows_in_steps, hours_per_unit
from tsimpute.tables.clock.missing_times import MissingTimes
from tsimpute.tables.columns.number_texts import floats, is_number, row_label, text_problem
from tsimpute.tables.columns.units import unit_of
from tsimpute.tables.frames.added_rows import check_rows_to_add, index_notes, labels_note, rows_to_add, sources
from tsimpute.tables.frames.filled_frames import FrameWriter
from tsimpute.tables.frames.frame_table import FrameTable, entries_of
from tsimpute.tables.frames.long_rows import features_of, features_of_rows, nameless_note, places_of, results_in_words
from tsimpute.tables.frames.model_rows import Rows, of_one_step
from tsimpute.tables.roles.columns import Columns, ColumnSpec
from tsimpute.tables.roles.repeated_times import what_tells_apart
from tsimpute.tables.roles.roles import Roles, find_roles
from tsimpute.tables.roles.wide_times import check_wide_hours, check_wide_times
from tsimpute.tables.text.numbers import split_unit
from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.stamps import Stamps, read_stamps


@dataclass(frozen=True)
class TimeOptions:
    """How times are read.

    Attributes:
        timezone, dayfirst: see ``read_stamps``.
        duplicates, irregular: see ``place``.
        missing_times: "insert" adds rows for times that are missing, and to a long table for features at times where
            they have none; "keep" adds no row; None inserts as long as these are no more than a long table's rows.
        step: of a model, in hours, into which times are put, see ``hours.align_rows_in_steps``; None = times stay as
            they are.
    """

    timezone: str | None = None
    dayfirst: bool | None = None
    duplicates: Duplicates = "refuse"
    missing_times: MissingTimes = "auto"
    irregular: bool | None = None
    step: float | None = None

    def check_without_times(self) -> None:
        """Refuses what says how times are read, of a table that has none: it would be ignored.

        Raises:
            ConfigError: something does.
        """
        options = {
            "timezone": self.timezone, "dayfirst": self.dayfirst,
            "duplicates": None if self.duplicates == "refuse" else self.duplicates,
            "missing_times": self.missing_times if self.missing_times == "insert" else None,
            "irregular": self.irregular or None,
        }  # fmt: skip
        for name, value in options.items():
            if value is not None:
                raise ConfigError(
                    f"{name}: expected a table with times, came {name}={value!r} for one whose rows count as steps. "
                    f"Name the column of times (time), or leave {name} out."
                )


def read_frame(
    frame: pd.DataFrame,
    spec: ColumnSpec | None = None,
    time_options: TimeOptions | None = None,
    units: Mapping[str, str] | None = None,
) -> FrameTable:
    """Understands a frame; it is not changed.

    Args:
        spec: what is known of its columns.
        units: of features by name, "*" = all others, where the table does not tell them.

    Raises:
        ConfigError: a column that ``spec`` names is not there.
        DataError: no rows, no time that can be told, no feature, a value that is infinite or no number, times that are
            refused (see ``place``), or far more rows to add than there are.
    """
    spec, time_options = spec or ColumnSpec(), time_options or TimeOptions()
    if not len(frame):
        raise DataError("table: expected at least one row, came none.")
    frame = frame.copy(deep=False)
    named_features = spec.features
    if spec.known is not None:
        spec = spec.with_known(list(frame.columns), [column for _, column in frame.items()])
    if spec.features is None and spec.value is None:
        check_wide_hours(frame)
        check_wide_times(frame)
    columns = Columns(frame)
    spec = spec.with_learnt(columns.names)
    roles = find_roles(columns, spec)
    series_of_row, groups = _groups(columns, roles)
    rows = (_long if roles.layout == "long" else _wide)(columns, roles, units or {})
    nameless = rows.nameless
    if spec.known is not None:
        named = None if named_features is None else [str(name) for name in named_features]
        rows = rows.known(spec.known, named, [str(columns.names[at]) for at in roles.extra if at >= columns.n_levels])
    stamps, alignment = _times(columns, roles, time_options, units or {}, series_of_row, groups, rows)
    if rows.nameless is not None:
        alignment = replace(alignment, kept=alignment.kept & ~rows.nameless)
    notes = (*roles.notes, *(stamps.notes if stamps else ()), *alignment.notes, *rows.notes)
    superseded, values = None, rows.values
    if time_options.step is not None and stamps is not None and time_options.duplicates != "mean":
        superseded, step_notes = of_one_step(stamps, series_of_row, rows, alignment, time_options.duplicates)
        notes, values = notes + step_notes, np.where(superseded, np.nan, values)
    cells = entries_of(values, series_of_row, rows.feature_of_row, alignment, len(rows.features)).means()
    panel = _panel(rows.features, groups, stamps, alignment, cells)
    places = None
    if rows.feature_of_row is not None and rows.nameless is not None and nameless is not None:
        notes += nameless_note(columns.names[roles.feature or 0], nameless)
        places = places_of(
            rows.features, alignment, series_of_row, rows.feature_of_row, rows.values[:, 0], rows.nameless,
            time_options.missing_times == "keep", described=spec.known is None,
        )  # fmt: skip
        notes += places.notes
        in_words, word_notes = results_in_words(columns, roles.value or 0, roles.extra, rows.values[:, 0])
        places = places.without(in_words, series_of_row, rows.feature_of_row, alignment.step_of_row, cells)
        notes += word_notes
    count = rows_to_add(alignment, None if places is None else places.added)
    if time_options.step is None:
        check_rows_to_add(columns, roles, count, len(frame), time_options.missing_times == "insert")
    lent = sources(columns, roles, series_of_row, rows.feature_of_row) if count else {}
    if count:
        notes += (*index_notes(columns, roles, series_of_row), *labels_note(columns, roles, stamps, lent))
    return FrameTable(
        frame, columns, roles, stamps, alignment, series_of_row, rows.feature_of_row, panel, notes,
        rows.values, FrameWriter(),
        warnings=alignment.warnings, unfillable=tuple((name, str(reason)) for name, reason in roles.unfillable),
        nameless=rows.nameless, fixed=None if places is None else places.fixed, n_added=count, sources=lent,
        superseded=superseded,
    )  # fmt: skip


def _groups(columns: Columns, roles: Roles) -> tuple[np.ndarray, list[str]]:
    """(R,) series of each row, and the series' names in the order in which they first come."""
    n_rows = len(columns[0]) if len(columns) else 0
    if not roles.group:
        return np.zeros(n_rows, np.int64), [""]
    coded = [_codes_of(columns, at) for at in roles.group]
    series_of_row, keys = pd.MultiIndex.from_arrays([codes for codes, _ in coded]).factorize()
    names = [" / ".join(coded[i][1][code] for i, code in enumerate(key)) for key in keys]
    return np.asarray(series_of_row, np.int64), names


def _codes_of(columns: Columns, at: int) -> tuple[np.ndarray, list[str]]:
    codes = columns.codes(at)
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0])
        raise RowError(
            f"column {columns.names[at]!r}: expected a name in every row, ", row, row_label(columns[at], row), " has "
            "none. Fill it in, take the row out, or name the column of groups (group=() = there is none)."
        )  # fmt: skip
    first = np.unique(codes, return_index=True)[1]
    return codes, [_name_text(name) for name in np.asarray(columns[at], object)[first]]


def _name_text(name: object) -> str:
    """A name for people: whole numbers without decimals, as a column with gaps may hold them."""
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)


def _wide(columns: Columns, roles: Roles, units: Mapping[str, str]) -> Rows:
    names = [str(columns.names[at]) for at in roles.features]
    features = [Feature(name, unit_of(units, name, split_unit(name)[1])) for name in names]
    return Rows(None, features, np.stack([numbers(columns[at], columns.names[at]) for at in roles.features], 1), None)


def _long(columns: Columns, roles: Roles, units: Mapping[str, str]) -> Rows:
    """Features in the order in which they first come."""
    assert roles.feature is not None
    assert roles.value is not None
    feature_of_row, items, nameless = features_of_rows(columns, roles.feature)
    names = [_name_text(name) for name in items]
    unit_of_row = None if roles.unit is None else columns[roles.unit]
    features = features_of(names, np.where(nameless, -1, feature_of_row), unit_of_row, units)
    values = numbers(columns[roles.value], columns.names[roles.value])[:, None]
    return Rows(feature_of_row, features, values, nameless)


def numbers(column: pd.Series | pd.Index, name: object) -> np.ndarray:
    """(R,) float64, NaN where nothing is; a copy.

    Raises:
        DataError: a value is infinite or no number.
    """
    if not is_number(column):
        problem = text_problem(column, name, asked=True)
        assert problem is not None
        raise problem
    out = floats(column)
    if np.isinf(out).any():
        row = int(np.flatnonzero(np.isinf(out))[0])
        raise RowError(
            f"column {name!r}: expected finite numbers or nothing, came {out[row]} in ", row, row_label(column, row),
            ". Correct or remove it.",
        )  # fmt: skip
    return out


def _times(
    columns: Columns,
    roles: Roles,
    time_options: TimeOptions,
    units: Mapping[str, str],
    series_of_row: np.ndarray,
    groups: Sequence[str],
    rows: Rows,
) -> tuple[Stamps | None, RowAlignment]:
    feature_of_row = rows.apart
    if not roles.time:
        if feature_of_row is not None:
            raise DataError("long table: expected a column of times, found none. Name it (time).")
        time_options.check_without_times()
        return None, _rows_as_steps(series_of_row, len(groups))
    sequence = series_of_row if feature_of_row is None else series_of_row * (1 + feature_of_row.max()) + feature_of_row
    stamps = read_stamps(
        [columns[at] for at in roles.time],
        timezone=time_options.timezone,
        dayfirst=time_options.dayfirst,
        series_of_row=sequence,
        series=series_of_row,
    )
    about: Any = {
        "feature_of_row": feature_of_row, "names": groups, "duplicates": time_options.duplicates,
        "missing_times": time_options.missing_times,
    }  # fmt: skip
    try:
        if time_options.step is None:
            alignment = align_rows(stamps, series_of_row, len(groups), irregular=time_options.irregular, **about)
        else:
            counts = np.ones(len(series_of_row), bool) if rows.counts is None else rows.counts
            unit = hours_per_unit(columns.names[roles.time[0]], units) if stamps.kind == "numbers" else None
            alignment = align_rows_in_steps(
                stamps, series_of_row, len(groups), step=time_options.step, counts=counts, unit=unit, **about
            )
    except RepeatedTimes as error:
        key = pd.MultiIndex.from_arrays([sequence, stamps.moments]).factorize()[0]
        how = what_tells_apart(columns, roles, key)
        raise (error.told_apart(how) if how else error) from None
    return stamps, alignment


def _rows_as_steps(series_of_row: np.ndarray, n_series: int) -> RowAlignment:
    step_of_row = pd.Series(series_of_row).groupby(series_of_row).cumcount().to_numpy()
    lengths = np.bincount(series_of_row, minlength=n_series)
    steps = [np.arange(n) for n in lengths]
    return RowAlignment(
        step_of_row=step_of_row,
        times=tuple(s.astype(np.float64) for s in steps),
        labels=tuple(steps),
        moments=tuple(steps),
        inserted=tuple(np.zeros(n, bool) for n in lengths),
        kept=np.ones(len(series_of_row), bool),
        step=1.0,
        notes=("no column of times was found: each row counts as one step",),
    )


def _panel(
    features: Sequence[Feature],
    groups: Sequence[str],
    stamps: Stamps | None,
    alignment: RowAlignment,
    cells: Sequence[np.ndarray],
) -> Panel:
    series = [
        Series(name, times, values, labels)
        for name, times, values, labels in zip(groups, alignment.times, cells, alignment.labels, strict=True)
    ]
    unit = "steps" if stamps is None else "hours" if alignment.in_hours else stamps.unit
    return Panel(tuple(features), tuple(series), Clock(unit, alignment.step))

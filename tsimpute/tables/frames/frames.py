"""Reads a data frame, wide or long, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Feature
from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.clock.clock import RowAlignment, align_rows, rows_as_steps
from tsimpute.tables.clock.duplicates import Duplicates, RepeatedTimes
from tsimpute.tables.clock.hours import align_rows_in_steps, hours_per_unit
from tsimpute.tables.clock.missing_times import MissingTimes
from tsimpute.tables.frames.added_rows import check_rows_to_add, index_notes, labels_note, long_cells, sources
from tsimpute.tables.frames.filled_frames import FrameWriter
from tsimpute.tables.frames.rows import Rows, categories_of, of_one_step, rows_of, unfilled_texts
from tsimpute.tables.frames.table import FrameTable, entries_of
from tsimpute.tables.roles.columns import Columns, ColumnSpec
from tsimpute.tables.roles.hidden_series import what_tells_apart
from tsimpute.tables.roles.roles import find_roles
from tsimpute.tables.roles.wide_times import check_wide_hours, check_wide_times
from tsimpute.tables.time.stamps import Stamps, read_stamps

Records = Literal["series", "rows"]
"""What a record of a table is: a series of rows in the order of time, or a row by itself."""


@dataclass(frozen=True)
class TimeOptions:
    """How times are read.

    Attributes:
        timezone, dayfirst: see ``read_stamps``.
        duplicates, irregular: see ``align_rows``.
        missing_times: "insert" adds rows for times that are missing, and to a long table for features at times where
            they have none; "keep" adds no row; None inserts as long as these are no more than a long table's rows.
        records: "rows" where each row is a record by itself, in no order; it has no time.
        step: of a model, in hours, into which times are put, see ``hours.align_rows_in_steps``; None = times stay as
            they are.
    """

    timezone: str | None = None
    dayfirst: bool | None = None
    duplicates: Duplicates = "refuse"
    missing_times: MissingTimes = "auto"
    irregular: bool | None = None
    records: Records = "series"
    step: float | None = None

    @property
    def unit_without_times(self) -> Literal["rows", "steps"]:
        """Of the clock of a table that has no times."""
        return "rows" if self.records == "rows" else "steps"

    def check_without_times(self) -> None:
        """Refuses options of times for a table without times, which would be ignored."""
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
    """Reads a frame; it is not changed.

    Args:
        spec: what is known of its columns.
        units: of features by name, "*" = all others, where the table does not tell them.

    Raises:
        ConfigError: ``spec`` names a column that the frame lacks.
        DataError: no rows, no clear time, no feature, a value that is infinite or no number, refused times (see
            ``align_rows``), or far more rows to add than the frame has.
    """
    spec, time_options = spec or ColumnSpec(), time_options or TimeOptions()
    if not len(frame):
        raise DataError("table: expected at least one row, came none.")
    frame = frame.copy(deep=False)
    named_features = spec.features
    if spec.known is not None:
        spec = spec.with_known(list(frame.columns), [column for _, column in frame.items()])
    if spec.features is None and spec.value is None and time_options.records == "series":
        check_wide_hours(frame)
        check_wide_times(frame)
    columns = Columns(frame)
    spec = spec.with_learnt(columns.names)
    rows = rows_of(columns, find_roles(columns, spec), units or {})
    if spec.known is not None:
        rows = rows.known(spec.known, None if named_features is None else [str(name) for name in named_features])
    categories = categories_of(columns, spec.categories, len(rows.features))
    if categories:
        indicators = [Feature(name, "") for category in categories for name in category.features]
        values = np.concatenate([rows.values, *(category.indicators for category in categories)], 1)
        rows = replace(rows, features=(*rows.features, *indicators), values=values)
    stamps, alignment = _times(rows, time_options, units or {})
    if rows.nameless is not None:
        alignment = replace(alignment, used=alignment.used & ~rows.nameless)
    roles, warnings = rows.roles, alignment.warnings
    if time_options.records == "rows":
        warnings += unfilled_texts(columns, roles.extra, (*spec.categories, *(spec.text or ())))
    notes = (*roles.notes, *(stamps.notes if stamps else ()), *alignment.notes, *rows.notes)
    superseded, values = None, rows.values
    if time_options.step is not None and stamps is not None and time_options.duplicates != "mean":
        superseded, step_notes = of_one_step(stamps, rows, alignment, time_options.duplicates)
        notes, values = notes + step_notes, np.where(superseded, np.nan, values)
    entries = entries_of(values, rows.series_of_row, rows.feature_of_row, alignment, len(rows.features))
    series = map(Series, rows.series, alignment.times, entries.means(), alignment.labels)
    unit = time_options.unit_without_times if stamps is None else "hours" if alignment.in_hours else stamps.unit
    panel = Panel(tuple(rows.features), tuple(series), Clock(unit, alignment.step))
    cells = None
    if rows.feature_of_row is not None:
        keep = time_options.missing_times == "keep"
        values_of_series = [series.values for series in panel.series]
        cells = long_cells(rows, alignment, values_of_series, keep=keep, described=spec.known is None)
        notes += cells.notes
    count = sum(int(new.sum()) for new in (alignment.inserted if cells is None else cells.added))
    if time_options.step is None:
        check_rows_to_add(columns, roles, count, len(frame), time_options.missing_times == "insert")
    lent = sources(columns, roles, rows.series_of_row, rows.feature_of_row) if count else {}
    if count:
        notes += (*index_notes(columns, roles, rows.series_of_row), *labels_note(columns, roles, stamps, lent))
    return FrameTable(
        frame, columns, roles, stamps, alignment, rows.series_of_row, rows.feature_of_row, panel, notes,
        rows.values, FrameWriter(),
        warnings=warnings, unfillable=tuple((name, str(reason)) for name, reason in roles.unfillable),
        nameless=rows.nameless, fixed=None if cells is None else cells.fixed, n_added=count, sources=lent,
        superseded=superseded, categories=categories,
    )  # fmt: skip


def _times(rows: Rows, time_options: TimeOptions, units: Mapping[str, str]) -> tuple[Stamps | None, RowAlignment]:
    columns, roles = rows.columns, rows.roles
    if not roles.time:
        if rows.feature_of_row is not None and time_options.records == "rows":
            names = [columns.names[at] for at in (roles.feature, roles.value) if at is not None]
            raise DataError(
                f"records: expected a wide table, a row for each record; came a long one, with names of quantities in "
                f"{names[0]!r} and their values in {names[-1]!r}. Leave records='rows' out if the rows belong to "
                "series in time, else give each quantity a column of its own."
            )
        if rows.feature_of_row is not None:
            raise DataError("long table: expected a column of times, found none. Name it (time).")
        time_options.check_without_times()
        note = "no column of times was found: each row counts as one step; if the rows are records in no order, as "
        note += "people, set records='rows'"
        notes = () if time_options.unit_without_times == "rows" else (note,)
        return None, rows_as_steps(rows.series_of_row, len(rows.series), *notes)
    stamps = read_stamps(
        [columns[at] for at in roles.time],
        timezone=time_options.timezone,
        dayfirst=time_options.dayfirst,
        series_of_row=rows.sequence,
        series=rows.series_of_row,
    )
    options: Any = {
        "feature_of_row": rows.apart, "names": rows.series, "duplicates": time_options.duplicates,
        "missing_times": time_options.missing_times,
    }  # fmt: skip
    n_series = len(rows.series)
    try:
        if time_options.step is None:
            irregular = time_options.irregular
            alignment = align_rows(stamps, rows.series_of_row, n_series, irregular=irregular, **options)
        else:
            counts = np.ones(len(stamps.moments), bool) if rows.counts is None else rows.counts
            unit = hours_per_unit(columns.names[roles.time[0]], units) if stamps.kind == "numbers" else None
            alignment = align_rows_in_steps(
                stamps, rows.series_of_row, n_series, step=time_options.step, counts=counts, unit=unit, **options
            )
    except RepeatedTimes as error:
        key = pd.MultiIndex.from_arrays([rows.sequence, stamps.moments]).factorize()[0]
        how = what_tells_apart(columns, roles, key)
        raise (error.with_columns(how) if how else error) from None
    return stamps, alignment

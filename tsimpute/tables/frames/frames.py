"""Data frames, wide or long, as panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Feature
from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.clock.axes import step_text
from tsimpute.tables.clock.clock import Placement, place
from tsimpute.tables.clock.duplicates import Duplicates, RepeatedTimes
from tsimpute.tables.clock.hours import hours_per_unit, place_in_steps
from tsimpute.tables.clock.missing_times import MissingTimes
from tsimpute.tables.columns.number_texts import floats, is_number, row_label, text_problem
from tsimpute.tables.columns.units import unit_of
from tsimpute.tables.frames.added_rows import Source, check_rows_to_add, index_notes, labels_note, rows_to_add, sources
from tsimpute.tables.frames.long_rows import features_of, features_of_rows, nameless_note, places_of, results_in_words
from tsimpute.tables.frames.model_rows import Rows, of_one_step
from tsimpute.tables.roles.columns import Columns, Told
from tsimpute.tables.roles.learnt_columns import as_learnt
from tsimpute.tables.roles.repeated_times import what_tells_apart
from tsimpute.tables.roles.roles import Roles, find_roles
from tsimpute.tables.roles.wide_hours import check_wide_hours
from tsimpute.tables.roles.wide_times import check_wide_times
from tsimpute.tables.text.numbers import split_unit
from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.stamps import Stamps, label_text, read_stamps


@dataclass(frozen=True)
class Clockwork:
    """How times are read.

    Attributes:
        timezone, dayfirst: see ``read_stamps``.
        duplicates, irregular: see ``place``.
        missing_times: "insert" adds rows for times that are missing, and to a long table for features at times where
            they have none; "keep" adds no row; None inserts as long as these are no more than a long table's rows.
        step: of a model, in hours, into which times are put, see ``hours.place_in_steps``; None = times are as they
            are.
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
        given = {
            "timezone": self.timezone, "dayfirst": self.dayfirst,
            "duplicates": None if self.duplicates == "refuse" else self.duplicates,
            "missing_times": self.missing_times if self.missing_times == "insert" else None,
            "irregular": self.irregular or None,
        }  # fmt: skip
        for name, value in given.items():
            if value is not None:
                raise ConfigError(
                    f"{name}: expected a table with times, came {name}={value!r} for one whose rows count as steps. "
                    f"Name the column of times (time), or leave {name} out."
                )


@dataclass(frozen=True, eq=False)
class FrameReading:
    """A frame of R rows, and what it was understood to be.

    Attributes:
        frame: as given; what the caller does to the given one later on does not reach it.
        roles: what its columns are.
        stamps: the time of each row; None = rows are steps.
        placement: where each row stands in its series.
        series_of_row: (R,).
        feature_of_row: (R,) of a long table, 0 where there is no name; else None.
        panel: its series.
        notes: what was found and done.
        blank: (R, columns that are filled) bool, values that count as nothing; None = none does.
        dropped: of these, those to be made missing.
        fixed: per series (K, T) bool, cells of a long table that have no row and get none.
        nameless: (R,) bool, rows of a long table without the name of a quantity; they are passed through unchanged.
        n_added: how many rows are added where every gap is filled.
        superseded: (R, columns that are filled) bool, values for which a later one of their step stands; None = none.
        sources: by place, columns that are passed through and copied to added rows, with what they are a property of.
        start: per series, its first place where all series' times stand in one row.
    """

    frame: pd.DataFrame
    columns: Columns
    roles: Roles
    stamps: Stamps | None
    placement: Placement
    series_of_row: np.ndarray
    feature_of_row: np.ndarray | None
    panel: Panel
    notes: tuple[str, ...]
    blank: np.ndarray | None = None
    dropped: np.ndarray | None = None
    fixed: Sequence[np.ndarray] | None = None
    nameless: np.ndarray | None = None
    n_added: int = 0
    superseded: np.ndarray | None = None
    sources: Mapping[int, Source] = field(default_factory=dict)
    start: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        lengths = [len(series.times) for series in self.panel.series]
        object.__setattr__(self, "start", np.concatenate([[0], np.cumsum(lengths)[:-1]]))

    def feature_at(self, rows: np.ndarray) -> np.ndarray | None:
        """The feature of some rows of a long table; None of a wide one."""
        return None if self.feature_of_row is None else self.feature_of_row[rows]

    def stands(self, n: int) -> np.ndarray:
        """(R,) bool: rows whose value in the n-th column that is filled stands for its cell, alone or with others."""
        kept = self.placement.kept
        return kept if self.superseded is None else kept & ~self.superseded[:, n]

    @property
    def place_of_row(self) -> np.ndarray:
        """(R,) where each row stands in the times of all series, one series after the other."""
        return self.start[self.series_of_row] + self.placement.step_of_row


def read_frame(
    frame: pd.DataFrame,
    told: Told | None = None,
    clockwork: Clockwork | None = None,
    units: Mapping[str, str] | None = None,
) -> FrameReading:
    """Understands a frame; it is not changed.

    Args:
        told: what is known of its columns.
        units: of features by name, "*" = all others, where the table does not tell them.

    Raises:
        ConfigError: a column that was told is not there.
        DataError: no rows, no time that can be told, no feature, a value that is infinite or no number, times that are
            refused (see ``place``), or far more rows to add than there are.
    """
    told, clockwork = told or Told(), clockwork or Clockwork()
    if not len(frame):
        raise DataError("table: expected at least one row, came none.")
    frame = frame.copy(deep=False)
    given = told.features
    if told.known is not None:
        told = told.with_known(list(frame.columns), [column for _, column in frame.items()])
    if told.features is None and told.value is None:
        check_wide_hours(frame)
        check_wide_times(frame)
    columns = Columns(frame)
    told = as_learnt(told, columns.names)
    roles = find_roles(columns, told)
    series_of_row, groups = _groups(columns, roles)
    rows = (_long if roles.layout == "long" else _wide)(columns, roles, units or {})
    nameless = rows.nameless
    if told.known is not None:
        named = None if given is None else [str(name) for name in given]
        rows = rows.known(told.known, named, [str(columns.names[at]) for at in roles.extra if at >= columns.n_levels])
    stamps, placement = _times(columns, roles, clockwork, units or {}, series_of_row, groups, rows)
    if rows.nameless is not None:
        placement = replace(placement, kept=placement.kept & ~rows.nameless)
    notes = (*roles.notes, *(stamps.notes if stamps else ()), *placement.notes, *rows.notes)
    superseded, values = None, rows.values
    if clockwork.step is not None and stamps is not None and clockwork.duplicates != "mean":
        superseded, found = of_one_step(stamps, series_of_row, rows, placement, clockwork.duplicates)
        notes, values = notes + found, np.where(superseded, np.nan, values)
    cells = cells_of(values, series_of_row, rows.feature_of_row, placement)
    panel = _panel(rows.features, groups, stamps, placement, cells)
    places = None
    if rows.feature_of_row is not None and rows.nameless is not None and nameless is not None:
        notes += nameless_note(columns.names[roles.feature or 0], nameless)
        places = places_of(
            rows.features, placement, series_of_row, rows.feature_of_row, rows.values[:, 0], rows.nameless,
            clockwork.missing_times == "keep", described=told.known is None,
        )  # fmt: skip
        notes += places.notes
        in_words, said = results_in_words(columns, roles.value or 0, roles.extra, rows.values[:, 0])
        places = places.without(in_words, series_of_row, rows.feature_of_row, placement.step_of_row, cells)
        notes += said
    count = rows_to_add(placement, None if places is None else places.added)
    if clockwork.step is None:
        check_rows_to_add(columns, roles, count, len(frame), clockwork.missing_times == "insert")
    lent = sources(columns, roles, series_of_row, rows.feature_of_row) if count else {}
    if count:
        notes += (*index_notes(columns, roles, series_of_row), *labels_note(columns, roles, stamps, lent))
    return FrameReading(
        frame, columns, roles, stamps, placement, series_of_row, rows.feature_of_row, panel, notes,
        nameless=rows.nameless, fixed=None if places is None else places.fixed, n_added=count, sources=lent,
        superseded=superseded,
    )  # fmt: skip


def _groups(columns: Columns, roles: Roles) -> tuple[np.ndarray, list[str]]:
    """(R,) series of each row, and the series' names in the order in which they first come."""
    n_rows = len(columns[0]) if len(columns) else 0
    if not roles.group:
        return np.zeros(n_rows, np.int64), [""]
    keys = [_codes_of(columns, at) for at in roles.group]
    together = pd.MultiIndex.from_arrays([k for k, _ in keys]) if len(keys) > 1 else pd.Index(keys[0][0])
    series_of_row, found = pd.factorize(together)
    names = [key if isinstance(key, tuple) else (key,) for key in found]
    return series_of_row, [" / ".join(str(keys[i][1][code]) for i, code in enumerate(name)) for name in names]


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
    feature_of_row, found, nameless = features_of_rows(columns, roles.feature)
    names = [_name_text(name) for name in found]
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
    clockwork: Clockwork,
    units: Mapping[str, str],
    series_of_row: np.ndarray,
    groups: Sequence[str],
    rows: Rows,
) -> tuple[Stamps | None, Placement]:
    feature_of_row = rows.apart
    if not roles.time:
        if feature_of_row is not None:
            raise DataError("long table: expected a column of times, found none. Name it (time).")
        clockwork.check_without_times()
        return None, _rows_as_steps(series_of_row, len(groups))
    sequence = series_of_row if feature_of_row is None else series_of_row * (1 + feature_of_row.max()) + feature_of_row
    stamps = read_stamps(
        [columns[at] for at in roles.time],
        timezone=clockwork.timezone,
        dayfirst=clockwork.dayfirst,
        series_of_row=sequence,
        series=series_of_row,
    )
    about: Any = {
        "feature_of_row": feature_of_row, "names": groups, "duplicates": clockwork.duplicates,
        "missing_times": clockwork.missing_times,
    }  # fmt: skip
    try:
        if clockwork.step is None:
            placement = place(stamps, series_of_row, len(groups), irregular=clockwork.irregular, **about)
        else:
            counts = np.ones(len(series_of_row), bool) if rows.counts is None else rows.counts
            unit = hours_per_unit(columns.names[roles.time[0]], units) if stamps.kind == "numbers" else None
            placement = place_in_steps(
                stamps, series_of_row, len(groups), step=clockwork.step, counts=counts, unit=unit, **about
            )
    except RepeatedTimes as error:
        key = pd.MultiIndex.from_arrays([sequence, stamps.moments]).factorize()[0]
        how = what_tells_apart(columns, roles, key)
        raise (error.told_apart(how) if how else error) from None
    return stamps, placement


def _rows_as_steps(series_of_row: np.ndarray, n_series: int) -> Placement:
    step_of_row = pd.Series(series_of_row).groupby(series_of_row).cumcount().to_numpy()
    lengths = np.bincount(series_of_row, minlength=n_series)
    steps = [np.arange(n) for n in lengths]
    return Placement(
        step_of_row=step_of_row,
        times=tuple(s.astype(np.float64) for s in steps),
        labels=tuple(steps),
        moments=tuple(steps),
        inserted=tuple(np.zeros(n, bool) for n in lengths),
        kept=np.ones(len(series_of_row), bool),
        step=1.0,
        notes=("no column of times was found: each row counts as one step",),
    )


def cells_of(
    values: np.ndarray, series_of_row: np.ndarray, feature_of_row: np.ndarray | None, placement: Placement
) -> list[np.ndarray]:
    """Per series (K, T): the mean of the values that stand for a cell, NaN where there is none."""
    n_features = values.shape[1] if feature_of_row is None else int(feature_of_row.max()) + 1
    lengths = [len(times) for times in placement.times]
    start = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    at = start[series_of_row] + placement.step_of_row
    total, count = np.zeros((n_features, sum(lengths))), np.zeros((n_features, sum(lengths)), np.int64)
    for k, column in enumerate(values.T):
        there = placement.kept & ~np.isnan(column)
        which = np.full(len(at), k) if feature_of_row is None else feature_of_row
        np.add.at(total, (which[there], at[there]), column[there])
        np.add.at(count, (which[there], at[there]), 1)
    # -0.0 + 0.0 is 0.0; nothing is lost, since observed cells come back from the table itself.
    cells = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return np.split(cells, start[1:], axis=1)


def _panel(
    features: Sequence[Feature],
    groups: Sequence[str],
    stamps: Stamps | None,
    placement: Placement,
    cells: Sequence[np.ndarray],
) -> Panel:
    series = [
        Series(name, times, values, labels)
        for name, times, values, labels in zip(groups, placement.times, cells, placement.labels, strict=True)
    ]
    unit = "steps" if stamps is None else "hours" if placement.in_hours else stamps.unit
    return Panel(tuple(features), tuple(series), Clock(unit, placement.step))


def time_text(panel: Panel, step: str = "") -> str:
    """The clock and the span of a panel in words; ``step``: what a step is called, where that is known."""
    clock = panel.clock
    if clock.step is None:
        every = "irregular"
    elif step or clock.unit == "hours":
        every = f"every {(step or step_text(clock.step)).removeprefix('1 ')}"
    else:
        every = "every row" if clock.unit == "steps" else f"every {clock.step:g}"
    ends = [label_text(label) for label in (
        min(series.labels[0] for series in panel.series), max(series.labels[-1] for series in panel.series),
    )]  # fmt: skip
    if clock.unit == "hours" and clock.step is not None and clock.step >= 24:
        ends = [end.removesuffix(" 00:00") for end in ends]
    return f"{every}, {ends[0]} to {ends[1]}"

"""A data frame as a table: where each of its rows stands, and what its columns are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd

from tsimpute.core.panel import Panel
from tsimpute.tables.clock.clock import RowAlignment
from tsimpute.tables.clock.clock_texts import step_text
from tsimpute.tables.frames.added_rows import Source
from tsimpute.tables.frames.categories import Category
from tsimpute.tables.frames.table import Edits, Entries, Table, features_text
from tsimpute.tables.roles.columns import Columns, ColumnSpec
from tsimpute.tables.roles.roles import Roles
from tsimpute.tables.time.stamps import Stamps, label_text


class Writer(Protocol):
    """Writes a table back in the kind in which it came."""

    def decimals(self, table: FrameTable) -> list[int | None]:
        """See ``Table.decimals``."""
        ...

    def apply(self, table: FrameTable, edits: Edits) -> Any:
        """See ``Table.apply``."""
        ...


@dataclass(frozen=True, eq=False)
class FrameTable(Table):
    """A frame of R rows, and what it was understood to be.

    Attributes:
        frame: as given; what the caller does to the given one later on does not reach it.
        roles: what its columns are.
        stamps: the time of each row; None = rows are steps.
        alignment: where each row stands in its series.
        series_of_row: (R,).
        feature_of_row: (R,) of a long table, 0 where there is no name; else None.
        panel, notes, warnings, unfillable: see ``Table``.
        values: (R, columns that are filled) the numbers of the rows, NaN = nothing.
        writer: writes it back.
        emptied: (R, columns that are filled) bool, numbers that are written as empty where they are not filled.
        fixed: per series (K, T) bool, cells of a long table that have no row and get none.
        nameless: (R,) bool, rows of a long table without the name of a quantity; they are passed through unchanged.
        n_added: how many rows are added where every gap is filled.
        superseded: (R, columns that are filled) bool, values for which a later one of their step stands; None = none.
        sources: by place, columns that are passed through and copied to added rows, with what they are a property of.
        categories: columns that are filled with categories; their features come after those of numbers.
        start: per series, its first place where all series' times stand in one row.
    """

    frame: pd.DataFrame
    columns: Columns
    roles: Roles
    stamps: Stamps | None
    alignment: RowAlignment
    series_of_row: np.ndarray
    feature_of_row: np.ndarray | None
    panel: Panel
    notes: tuple[str, ...]
    values: np.ndarray
    writer: Writer
    warnings: tuple[str, ...] = ()
    unfillable: tuple[tuple[str, str], ...] = ()
    emptied: np.ndarray | None = None
    fixed: Sequence[np.ndarray] | None = None
    nameless: np.ndarray | None = None
    n_added: int = 0
    superseded: np.ndarray | None = None
    sources: Mapping[int, Source] = field(default_factory=dict)
    categories: tuple[Category, ...] = ()
    start: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        lengths = [len(series.times) for series in self.panel.series]
        object.__setattr__(self, "start", np.concatenate([[0], np.cumsum(lengths)[:-1]]))

    @property
    def understood(self) -> list[tuple[str, str]]:
        names, roles = self.columns.names, self.roles

        def listed(columns: Sequence[int]) -> str:
            return " + ".join("index" if names[at] is None else str(names[at]) for at in columns)

        more = f", {self.n_added:,} to be added" if self.n_added else ""
        texts = [("layout", f"{roles.layout}, {len(self.frame):,} rows{more}")]
        if self.panel.independent_rows:
            texts.append(("records", "each row by itself, in no order"))
        else:
            time = time_text(self.panel, self.alignment.step_text)
            groups = f"{listed(roles.group)}: {len(self.panel.series)} series" if roles.group else "none, one series"
            texts += [("time", f"{listed(roles.time) or 'none'}: {time}"), ("groups", groups)]
        texts.append(("features", features_text(self.panel)))
        if self.categories:
            counts = (f"{category.name}: {len(category.levels)}" for category in self.categories)
            texts.append(("categories", ", ".join(counts)))
        if self.passed_through:
            texts.append(("passed through", ", ".join(self.passed_through)))
        return texts

    @property
    def absent(self) -> list[np.ndarray]:
        return super().absent if self.fixed is None else list(self.fixed)

    @property
    def is_long(self) -> bool:
        return self.roles.layout == "long"

    @property
    def roles_by_name(self) -> ColumnSpec | None:
        levels = {category.name: category.levels for category in self.categories}
        return replace(self.roles.spec(self.columns), categories=levels)

    @property
    def passed_through(self) -> tuple[str, ...]:
        filled = {category.at for category in self.categories}
        names = [self.columns.names[at] for at in self.roles.extra if at not in filled]
        return tuple(str(name) for name in names if name is not None)

    @property
    def time_columns(self) -> tuple[str, ...]:
        return tuple(str(self.columns.names[at]) for at in self.roles.time)

    @property
    def decimals(self) -> list[int | None]:
        n_indicators = sum(map(len, self.category_features))
        return self.writer.decimals(self) + [None] * n_indicators

    @property
    def category_features(self) -> tuple[tuple[str, ...], ...]:
        return tuple(category.features for category in self.categories)

    @property
    def entries(self) -> Entries:
        values = self.values if self.superseded is None else np.where(self.superseded, np.nan, self.values)
        n_features = len(self.panel.features)
        return entries_of(values, self.series_of_row, self.feature_of_row, self.alignment, n_features)

    def with_emptied(self, emptied: np.ndarray) -> FrameTable:
        return replace(self, emptied=emptied.reshape(self.values.T.shape).T)

    def apply(self, edits: Edits) -> Any:
        return self.writer.apply(self, edits)

    def feature_at(self, rows: np.ndarray) -> np.ndarray | None:
        """The feature of some rows of a long table; None of a wide one."""
        return None if self.feature_of_row is None else self.feature_of_row[rows]

    def stands(self, n: int) -> np.ndarray:
        """(R,) bool: rows whose value in the n-th column that is filled stands for its cell, alone or with others."""
        stands = self.alignment.used
        return stands if self.superseded is None else stands & ~self.superseded[:, n]

    @property
    def place_of_row(self) -> np.ndarray:
        """(R,) where each row stands in the times of all series, one series after the other."""
        return self.start[self.series_of_row] + self.alignment.step_of_row


def entries_of(
    values: np.ndarray,
    series_of_row: np.ndarray,
    feature_of_row: np.ndarray | None,
    alignment: RowAlignment,
    n_features: int,
) -> Entries:
    """The numbers of rows, of those that stand for their time.

    Args:
        values: (R, columns that are filled); series_of_row, feature_of_row: (R,).
    """
    lengths = [len(times) for times in alignment.times]
    place = np.cumsum([0, *lengths])[series_of_row] + alignment.step_of_row
    feature = np.arange(n_features) if feature_of_row is None else feature_of_row[:, None]
    values = np.where(alignment.used[:, None], values, np.nan)
    return Entries(values.T.ravel(), (feature * sum(lengths) + place[:, None]).T.ravel(), n_features, tuple(lengths))


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

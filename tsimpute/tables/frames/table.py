"""What tables of all kinds share: a panel, what is known of rows and columns, and one way back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self, cast

import numpy as np
import pandas as pd

from tsimpute.core.panel import PROVENANCE, Panel
from tsimpute.tables.clock.clock import RowAlignment
from tsimpute.tables.clock.steps import step_text
from tsimpute.tables.frames.added_rows import Source
from tsimpute.tables.frames.rows import Category
from tsimpute.tables.roles.columns import Columns, ColumnSpec, Roles
from tsimpute.tables.time.stamps import Stamps, label_text


@dataclass(frozen=True, eq=False)
class Edits:
    """What to write into the cells of a table."""

    # per series (K, T) bool: the cells that get a value. Those without a row get a new row.
    cells: Sequence[np.ndarray]
    # per series (K, T): numbers, NaN = empty; or texts, which replace the numbers of all other cells, too.
    contents: Sequence[np.ndarray]

    @classmethod
    def of_provenance(cls, cells: Sequence[np.ndarray], codes: Sequence[np.ndarray]) -> Edits:
        """Edits that write what each cell is; ``codes`` (per series (K, T)) are places in ``PROVENANCE``."""
        return cls(cells, [np.array(PROVENANCE, dtype=object)[of_series] for of_series in codes])

    @property
    def are_texts(self) -> bool:
        return self.contents[0].dtype == object


@dataclass(frozen=True, eq=False)
class Entries:
    """The E numbers of a table before they are placed on the clock: column by column, in the order of the rows."""

    values: np.ndarray  # (E,) float64, NaN = nothing, also where another row of the same time stands
    cell: np.ndarray  # (E,) the cell of the panel to which each belongs, counted by feature, then series, then step
    n_features: int  # K
    lengths: tuple[int, ...]  # per series, its number of steps T

    @cached_property
    def feature(self) -> np.ndarray:
        """(E,) the number of the feature of each."""
        return self.cell // sum(self.lengths)

    @property
    def n_cells(self) -> int:
        return self.n_features * sum(self.lengths)

    def by_series(self, cells: np.ndarray) -> list[np.ndarray]:
        """Cells of the panel, counted as ``cell``, as (K, T) per series."""
        grid = cells.reshape(self.n_features, -1)
        return [np.ascontiguousarray(part) for part in np.split(grid, np.cumsum(self.lengths)[:-1], axis=1)]

    def flat(self, of_series: Sequence[np.ndarray]) -> np.ndarray:
        """(E,) what stands for the cell of each entry; ``of_series``: (K, T) per series."""
        return np.concatenate(of_series, 1).ravel()[self.cell]

    def holding(self, entries: np.ndarray) -> list[np.ndarray]:
        """Per series (K, T) bool: cells with any of some entries, (E,) bool."""
        return self.by_series(np.bincount(self.cell[entries], minlength=self.n_cells) > 0)

    def means(self, without: np.ndarray | None = None) -> list[np.ndarray]:
        """Per series (K, T): the mean of the numbers of each cell, NaN = there is none; but for those ``without``."""
        known = ~np.isnan(self.values) if without is None else ~np.isnan(self.values) & ~without
        # -0.0 + 0.0 is 0.0; nothing is lost, since observed cells come back from the table itself.
        total = np.bincount(self.cell[known], self.values[known], self.n_cells)
        count = np.bincount(self.cell[known], minlength=self.n_cells)
        return self.by_series(np.divide(total, count, out=np.full(self.n_cells, np.nan), where=count > 0))

    def n_beside(self, nothing: np.ndarray) -> int:
        """How many entries hold nothing, (E,) bool, where another row of the same time has a number."""
        return int((nothing & ~np.isnan(self.flat(self.means()))).sum())


class Table(ABC):
    """A table of any kind that has been read.

    Attributes:
        panel: its series.
        notes: what was detected and done while reading, a sentence each.
        warnings: what a reader should look at, a sentence each.
        unfillable: columns with gaps that look like numbers and cannot be filled, each with the reason and the remedy.
        n_added: how many rows are added where every gap is filled.
        emptied: numbers that are written as empty where they are not filled; None = there are none.
        is_long: it has a row for each value, and no place for others.
        roles_by_name: what the columns are, as a caller would name them; None of a table without columns.
        category_features: of each column of categories, the names of the features that stand for one of them each.
        time_columns: names of the columns of times.
        passed_through: names of columns that are given back unchanged and are no time, group or feature; the index is
            none.
    """

    panel: Panel
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    unfillable: tuple[tuple[str, str], ...] = ()
    n_added: int = 0
    emptied: np.ndarray | None = None
    is_long: bool = False
    roles_by_name: ColumnSpec | None = None
    category_features: tuple[tuple[str, ...], ...] = ()
    time_columns: tuple[str, ...] = ()
    passed_through: tuple[str, ...] = ()

    @property
    @abstractmethod
    def understood(self) -> list[tuple[str, str]]:
        """What the table was taken to be, in words: layout, time, groups, features."""

    @property
    def n_beside(self) -> int:
        """How many cells are empty, and get the value of another row of the same time."""
        return 0

    @property
    def absent(self) -> list[np.ndarray]:
        """Per series (K, T) bool: cells that have no place in the table, as where a long table gets no row for them."""
        return [np.zeros(series.values.shape, bool) for series in self.panel.series]

    @property
    @abstractmethod
    def decimals(self) -> list[int | None]:
        """Per feature, the decimals that filled values are rounded to; None = they are not rounded."""

    @property
    @abstractmethod
    def entries(self) -> Entries:
        """Its numbers before they are placed on the clock."""

    def with_values(self, values: Sequence[np.ndarray]) -> Self:
        """The same table with other values in its panel, per series (K, T)."""
        series = (replace(one, values=new) for one, new in zip(self.panel.series, values, strict=True))
        return replace(cast(Any, self), panel=replace(self.panel, series=tuple(series)))

    @abstractmethod
    def with_emptied(self, emptied: np.ndarray) -> Self:
        """The same table, some of whose ``entries`` (E,) bool are written as empty where they are not filled."""

    @abstractmethod
    def apply(self, edits: Edits) -> Any:
        """An object of the same kind with the edits; the given one is not changed."""


def features_text(panel: Panel) -> str:
    """Names and units of the features, and how much of each is missing."""
    n_cells = sum(len(series.times) for series in panel.series)
    missing = sum(np.isnan(series.values).sum(1) for series in panel.series)
    texts = [
        f"{feature.name}{f' [{unit}]' if (unit := feature.unit_beside) else ''} {count / n_cells:.1%} missing"
        for feature, count in zip(panel.features, np.asarray(missing).tolist(), strict=True)
    ]
    more = f", and {len(texts) - 20} more" if len(texts) > 20 else ""
    return f"{len(texts)}: {', '.join(texts[:20])}{more}"


class Writer(Protocol):
    """Writes a table back in the kind in which it came."""

    def decimals(self, table: FrameTable) -> list[int | None]: ...

    def apply(self, table: FrameTable, edits: Edits) -> Any: ...


@dataclass(frozen=True, eq=False)
class FrameTable(Table):
    """A frame of R rows, and what it was understood to be."""

    frame: pd.DataFrame  # as given; what the caller does to the given one later on does not reach it
    columns: Columns
    roles: Roles  # what its columns are
    stamps: Stamps | None  # the time of each row; None = rows are steps
    alignment: RowAlignment  # where each row stands in its series
    series_of_row: np.ndarray  # (R,)
    feature_of_row: np.ndarray | None  # (R,) of a long table, 0 where there is no name; else None
    panel: Panel  # see ``Table``
    notes: tuple[str, ...]  # see ``Table``
    values: np.ndarray  # (R, columns that are filled) the numbers of the rows, NaN = nothing
    writer: Writer  # writes it back
    warnings: tuple[str, ...] = ()  # see ``Table``
    unfillable: tuple[tuple[str, str], ...] = ()  # see ``Table``
    # (R, columns that are filled) bool, numbers that are written as empty where they are not filled.
    emptied: np.ndarray | None = None
    # per series (K, T) bool, cells of a long table that have no row and get none.
    fixed: Sequence[np.ndarray] | None = None
    # (R,) bool, rows of a long table without the name of a quantity; they are passed through unchanged.
    nameless: np.ndarray | None = None
    n_added: int = 0  # see ``Table``
    # (R, columns that are filled) bool, values for which a later one of their step stands; None = none.
    superseded: np.ndarray | None = None
    # by place, columns that are passed through and copied to added rows, with what they are a property of.
    sources: Mapping[int, Source] = field(default_factory=dict)
    # columns that are filled with categories; their features come after those of numbers.
    categories: tuple[Category, ...] = ()

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
        extra = [at for at in self.roles.extra if at >= self.columns.n_levels and at not in filled]
        return tuple(str(self.columns.names[at]) for at in extra)

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

    @cached_property
    def n_beside(self) -> int:
        nothing = np.isnan(self.values)
        if self.nameless is not None:
            nothing &= ~self.nameless[:, None]
        return self.entries.n_beside(nothing.T.ravel())

    def with_emptied(self, emptied: np.ndarray) -> FrameTable:
        return replace(self, emptied=emptied.reshape(self.values.T.shape).T)

    def apply(self, edits: Edits) -> Any:
        return self.writer.apply(self, edits)

    def stands(self, n: int) -> np.ndarray:
        """(R,) bool: rows whose value in the n-th column that is filled stands for its cell, alone or with others."""
        stands = self.alignment.used
        return stands if self.superseded is None else stands & ~self.superseded[:, n]

    @cached_property
    def place_of_row(self) -> np.ndarray:
        """(R,) where each row stands in the times of all series, one series after the other."""
        return self.alignment.place_of(self.series_of_row)


def entries_of(
    values: np.ndarray,
    series_of_row: np.ndarray,
    feature_of_row: np.ndarray | None,
    alignment: RowAlignment,
    n_features: int,
) -> Entries:
    """The numbers of rows (R, columns that are filled), of those that stand for their time."""
    lengths, place = tuple(map(len, alignment.times)), alignment.place_of(series_of_row)
    feature = np.arange(n_features) if feature_of_row is None else feature_of_row[:, None]
    values = np.where(alignment.used[:, None], values, np.nan)
    return Entries(values.T.ravel(), (feature * sum(lengths) + place[:, None]).T.ravel(), n_features, lengths)


def time_text(panel: Panel, step: str = "") -> str:
    """The clock and the span of a panel in words; ``step``: what a step is called, where that is known."""
    clock = panel.clock
    if clock.step is None:
        every = "irregular"
    elif step or clock.unit == "hours":
        every = f"every {(step or step_text(clock.step)).removeprefix('1 ')}"
    else:
        every = "every row" if clock.unit == "steps" else f"every {clock.step:g}"
    first, last = min(one.labels[0] for one in panel.series), max(one.labels[-1] for one in panel.series)
    ends = [label_text(first), label_text(last)]
    if clock.unit == "hours" and clock.step is not None and clock.step >= 24:
        ends = [end.removesuffix(" 00:00") for end in ends]
    return f"{every}, {ends[0]} to {ends[1]}"

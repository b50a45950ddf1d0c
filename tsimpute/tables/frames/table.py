"""What tables of all kinds share: a panel, what is known of rows and columns, and one way back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, cast

import numpy as np

from tsimpute.core.panel import PROVENANCE, Panel
from tsimpute.tables.roles.columns import ColumnSpec


@dataclass(frozen=True, eq=False)
class Edits:
    """What to write into the cells of a table.

    Attributes:
        cells: per series (K, T) bool: the cells that get a value. Those without a row get a new row.
        contents: per series (K, T): numbers, NaN = empty; or texts, which replace the numbers of all other cells, too.
    """

    cells: Sequence[np.ndarray]
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
    """The E numbers of a table before they are placed on the clock: column by column, in the order of the rows.

    Attributes:
        values: (E,) float64, NaN = nothing, also where another row of the same time stands.
        cell: (E,) the cell of the panel to which each belongs, counted by feature, then series, then step.
        n_features: K.
        lengths: per series, its number of steps T.
    """

    values: np.ndarray
    cell: np.ndarray
    n_features: int
    lengths: tuple[int, ...]

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
        """Per series (K, T): the mean of the numbers of each cell, NaN where there is none.

        Args:
            without: (E,) bool, numbers that do not count.
        """
        known = ~np.isnan(self.values) if without is None else ~np.isnan(self.values) & ~without
        # -0.0 + 0.0 is 0.0; nothing is lost, since observed cells come back from the table itself.
        total = np.bincount(self.cell[known], self.values[known], self.n_cells)
        count = np.bincount(self.cell[known], minlength=self.n_cells)
        return self.by_series(np.divide(total, count, out=np.full(self.n_cells, np.nan), where=count > 0))


class Table(ABC):
    """A table of any kind that has been read.

    Attributes:
        panel: its series.
        notes: what was detected and done while reading, a sentence each.
        warnings: what a reader should look at, a sentence each.
        unfillable: columns with gaps that look like numbers and cannot be filled, each with the reason and the remedy.
        n_added: how many rows are added where every gap is filled.
        emptied: numbers that are written as empty where they are not filled; None = there are none.
    """

    panel: Panel
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    unfillable: tuple[tuple[str, str], ...] = ()
    n_added: int = 0
    emptied: np.ndarray | None = None

    @property
    @abstractmethod
    def understood(self) -> list[tuple[str, str]]:
        """What the table was taken to be, in words: layout, time, groups, features."""

    @property
    def absent(self) -> list[np.ndarray]:
        """Per series (K, T) bool: cells that have no place in the table, as where a long table gets no row for them."""
        return [np.zeros(series.values.shape, bool) for series in self.panel.series]

    @property
    def is_long(self) -> bool:
        """Whether it has a row for each value, and no place for others."""
        return False

    @property
    def roles_by_name(self) -> ColumnSpec | None:
        """What the columns are, as a caller would name them; None of a table without columns."""
        return None

    @property
    def category_features(self) -> tuple[tuple[str, ...], ...]:
        """Of each column of categories, the names of the features that stand for one of them each."""
        return ()

    @property
    def time_columns(self) -> tuple[str, ...]:
        """Names of the columns of times."""
        return ()

    @property
    def passed_through(self) -> tuple[str, ...]:
        """Names of what is given back unchanged and is no time, group or feature; an index without a name is none."""
        return ()

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

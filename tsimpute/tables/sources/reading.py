"""Whatever a table comes in, understood as a panel, and given back filled in kind."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from tsimpute.core.panel import Panel
from tsimpute.errors import DataError
from tsimpute.tables.frames.averaging import LeftOut, averaged, layers_of
from tsimpute.tables.frames.edits import edits_of, new_rows, words_of
from tsimpute.tables.frames.filled_frames import completed_frame, decimals_of, marked_frame
from tsimpute.tables.frames.frames import Clockwork, FrameReading, read_frame, time_text
from tsimpute.tables.frames.panel_texts import features_text, words
from tsimpute.tables.frames.row_kinds import row_kind_warnings
from tsimpute.tables.roles.columns import Told
from tsimpute.tables.roles.learnt_columns import told_by


class Table(Protocol):
    """A table of any kind that has been understood."""

    @property
    def panel(self) -> Panel: ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found and done while reading."""
        ...

    @property
    def understood(self) -> list[tuple[str, str]]:
        """What it was taken to be, in words: time, groups, features."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """Of it, what a reader should look at, a sentence each."""
        ...

    @property
    def unfillable(self) -> tuple[tuple[str, str], ...]:
        """Columns with gaps that look like numbers and cannot be filled, each with the reason and what to do."""
        ...

    @property
    def absent(self) -> list[np.ndarray]:
        """Per series (K, T) bool: cells that have no place in it, as where a long table gets no row for them."""
        ...

    @property
    def n_rows(self) -> int:
        """How many rows it has; 0 where it has none, as an array."""
        ...

    @property
    def n_added(self) -> int:
        """How many rows are added where every gap is filled."""
        ...

    @property
    def roles_by_name(self) -> Told | None:
        """What its columns are, as a caller would say it; None of a table without columns."""
        ...

    @property
    def passed_through(self) -> tuple[str, ...]:
        """Names of what is given back unchanged and is no time, group or feature.

        An index without a name is no column.
        """
        ...

    def silent_rows(self, observed: np.ndarray, filled: Collection[int]) -> tuple[str, ...]:
        """Sentences on rows of another kind, in which features are never measured; see ``row_kind_warnings``."""
        ...

    @property
    def layers(self) -> tuple[Panel, ...]:
        """Where the mean of rows of one time counts: a panel of the first row of every time, one of the second ...

        Otherwise the panel alone.
        """
        ...

    def averaged(self, out: LeftOut) -> Table:
        """The same table with the mean of what is not left out, where it has several layers."""
        ...

    @property
    def decimals(self) -> list[int | None]:
        """Per feature, the decimals that filled values are rounded to; None = they are not."""
        ...

    def completed(self, changed: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> Any:
        """The same kind of object with ``values`` (per series (K, T), NaN = empty) where ``changed`` says."""
        ...

    def marked(self, changed: Sequence[np.ndarray], codes: Sequence[np.ndarray]) -> Any:
        """What each cell is, in words, in the shape of the completed object; ``codes`` as of ``Filling.provenance``."""
        ...


@dataclass(frozen=True, eq=False)
class FrameTable:
    """A pandas data frame."""

    reading: FrameReading

    @property
    def panel(self) -> Panel:
        return self.reading.panel

    @property
    def notes(self) -> tuple[str, ...]:
        return self.reading.notes

    @property
    def understood(self) -> list[tuple[str, str]]:
        reading = self.reading
        names, roles = reading.columns.names, reading.roles

        def listed(columns: Sequence[int]) -> str:
            return " + ".join("index" if names[at] is None else str(names[at]) for at in columns)

        more = f", {self.n_added:,} to be added" if self.n_added else ""
        said = [("layout", f"{roles.layout}, {len(reading.frame):,} rows{more}")]
        said.append(("time", f"{listed(roles.time) or 'none'}: {time_text(self.panel, reading.placement.step_text)}"))
        groups = f"{listed(roles.group)}: {len(self.panel.series)} series" if roles.group else "none, one series"
        said.append(("groups", groups))
        said.append(("features", features_text(self.panel)))
        if roles.extra:
            said.append(("carried along", ", ".join(str(names[at]) for at in roles.extra)))
        return said

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.reading.placement.warnings

    @property
    def unfillable(self) -> tuple[tuple[str, str], ...]:
        return tuple((name, str(reason)) for name, reason in self.reading.roles.unfillable)

    @property
    def absent(self) -> list[np.ndarray]:
        if self.reading.fixed is None:
            return [np.zeros(series.values.shape, bool) for series in self.panel.series]
        return list(self.reading.fixed)

    @property
    def n_rows(self) -> int:
        return len(self.reading.frame)

    @property
    def n_added(self) -> int:
        return self.reading.n_added

    @property
    def roles_by_name(self) -> Told | None:
        return told_by(self.reading.columns, self.reading.roles)

    @property
    def passed_through(self) -> tuple[str, ...]:
        names, extra = self.reading.columns.names, self.reading.roles.extra
        return tuple(str(names[at]) for at in extra if names[at] is not None)

    @property
    def time_columns(self) -> tuple[str, ...]:
        """Names of the columns of times."""
        return tuple(str(self.reading.columns.names[at]) for at in self.reading.roles.time)

    def silent_rows(self, observed: np.ndarray, filled: Collection[int]) -> tuple[str, ...]:
        return tuple(row_kind_warnings(self.reading, observed, filled))

    @property
    def layers(self) -> tuple[Panel, ...]:
        return layers_of(self.reading)

    def averaged(self, out: LeftOut) -> FrameTable:
        return FrameTable(averaged(self.reading, out))

    @property
    def decimals(self) -> list[int | None]:
        reading, roles = self.reading, self.reading.roles
        columns = roles.features if roles.value is None else [roles.value] * len(self.panel.features)
        return [decimals_of(reading.columns[at].dtype) for at in columns]

    def completed(self, changed: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> pd.DataFrame:
        return completed_frame(self.reading, edits_of(self.reading, changed, values))

    def marked(self, changed: Sequence[np.ndarray], codes: Sequence[np.ndarray]) -> pd.DataFrame:
        new = new_rows(self.reading, changed)
        return marked_frame(self.reading, words_of(self.reading, new, words(codes)), new)


def read_table(
    table: Any,
    told: Told | None = None,
    clockwork: Clockwork | None = None,
    units: Mapping[str, str] | None = None,
) -> Table:
    """Understands a table; it is not changed.

    Args:
        table: a pandas data frame, an xarray DataArray or Dataset, a NumPy array or masked array, or a dictionary with
            an array "X".
        told: what is known of its columns.
        clockwork: how its times are read.
        units: of features, where the table does not tell them.

    Raises:
        DataError, ConfigError: see ``read_frame``, ``read_array``, ``read_labelled``; or it is no known kind of table.
    """
    if isinstance(table, pd.DataFrame):
        return FrameTable(read_frame(table, told, clockwork, units))
    if isinstance(table, np.ndarray | dict | list | tuple):
        from tsimpute.tables.arrays.arrays import read_array

        return read_array(table, told, clockwork, units)
    import xarray as xr

    if isinstance(table, xr.DataArray | xr.Dataset):
        from tsimpute.tables.arrays.labelled import read_labelled

        return read_labelled(table, told, clockwork, units)
    way = ""
    if isinstance(table, pd.Series):
        way = " Make a frame of it: series.to_frame()."
    elif isinstance(table, str | Path):
        way = " Fill a file with tsimpute.fill_file, or read it first, as with pandas.read_csv."
    raise DataError(
        "table: expected a pandas data frame, an xarray DataArray or Dataset, a NumPy array or a dictionary with an "
        f'array "X", came {type(table).__name__}.{way}'
    )

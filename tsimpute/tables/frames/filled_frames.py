"""A frame with its gaps filled: the same index, order, columns and dtypes, and every observed value to the bit."""

from __future__ import annotations

from copy import deepcopy
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.columns.number_texts import can_name
from tsimpute.tables.frames.edits import NewRows, RowEdits, row_edits
from tsimpute.tables.frames.table import Edits, FrameTable
from tsimpute.tables.time.calendar_columns import at_new_times

_MOST = 2.0**63


class FrameWriter:
    """Writes a table back as a data frame."""

    def decimals(self, table: FrameTable) -> list[int | None]:
        roles = table.roles
        columns = roles.features if roles.value is None else [roles.value] * len(table.panel.features)
        return [decimals_of(table.columns[at].dtype) for at in columns]

    def apply(self, table: FrameTable, edits: Edits) -> pd.DataFrame:
        """The frame with its edits; texts give a frame of the columns that are filled, with the same index.

        New rows have the time, the names of their series and feature, the feature's unit, values, and of other columns:
        parts of the time such as Year or Hour where the column agrees with the time of all rows; what is a property of
        their series or feature, see ``added_rows.sources``; otherwise nothing.

        A dtype changes only where it must: a column of whole numbers, or of true and false, that is to hold nothing
        somewhere becomes pandas' nullable one; one that is to hold a number beyond its range, the widest of its kind.
        """
        rows, n_rows = row_edits(table, edits), len(table.frame)
        # Old rows (0 to R - 1) and new ones (R to R + M - 1) in the order in which they come to stand.
        order = np.argsort(np.concatenate([2 * np.arange(n_rows), 2 * rows.new.after + 1]), kind="stable")
        if edits.are_texts:
            columns = list(rows.cells)
            texts = [np.concatenate([rows.cells[at][1], rows.new_contents[at]])[order] for at in columns]
            return pd.DataFrame(
                np.stack(texts, 1).astype(object), index=_index(table, rows.new, order),
                columns=table.frame.columns.take(columns), dtype=object,
            )  # fmt: skip
        out = table.frame.copy()
        out.attrs = deepcopy(table.frame.attrs)
        for column, (at, values) in rows.cells.items():
            if len(at):
                out.isetitem(column, put(out.iloc[:, column], at, values))
        if not len(rows.new):
            return out
        whole = pd.concat([_with_rows(table, rows, i, out.iloc[:, i], order) for i in range(out.shape[1])], axis=1)
        whole.columns, whole.index, whole.attrs = out.columns, _index(table, rows.new, order), out.attrs
        return whole


def put(column: pd.Series, rows: np.ndarray, values: np.ndarray) -> pd.Series:
    """The column with ``values`` at ``rows``, in its own dtype; NaN = nothing; whole numbers where its dtype has them.

    Objects are categories of the column. A number beyond 64 bits in a column of whole numbers is refused.
    """
    if values.dtype == object:
        if isinstance(column.dtype, pd.CategoricalDtype):
            known = column.cat.categories
            column = column.cat.add_categories([v for v in dict.fromkeys(values) if v is not None and v not in known])
        out = column.copy()
        out.iloc[rows] = values if column.dtype == object else pd.array(values.tolist(), dtype=column.dtype)
        return out
    if isinstance(column.dtype, pd.SparseDtype):
        return put(column.sparse.to_dense(), rows, values).astype(column.dtype)
    column = _wide_enough(column, values)
    kind = column.dtype
    if np.isnan(values).any():
        column, kind = (roomy := _with_room(column)), roomy.dtype
    if isinstance(kind, np.dtype) and kind.kind in "fiu":
        array = column.to_numpy(copy=True)
        array[rows] = values if kind.kind == "f" else np.rint(values).astype(kind)
        return pd.Series(array, index=column.index, name=column.name)
    out = column.copy()
    out.iloc[rows] = _cells_of(column, values)
    return out


def decimals_of(kind: Any) -> int | None:
    """How many decimals a dtype holds; None where it has no fixed number of them."""
    if pd.api.types.is_integer_dtype(kind):
        return 0
    return getattr(getattr(kind, "pyarrow_dtype", None), "scale", None)


def _wide_enough(column: pd.Series, values: np.ndarray) -> pd.Series:
    """The column in a dtype of its kind that can hold the values."""
    kind, known = column.dtype, values[~np.isnan(values)]
    plain: Any = kind if isinstance(kind, np.dtype) else getattr(kind, "numpy_dtype", np.dtype(object))
    if not len(known) or plain.kind not in "fiu":
        return column
    if plain.kind == "f":
        fits = plain.itemsize >= 8 or np.abs(known).max() <= np.finfo(plain).max
        return column if fits else column.astype(_sibling(kind, "float64"))
    low, high = np.rint(known).min(), np.rint(known).max()
    if low >= np.iinfo(plain).min and high <= np.iinfo(plain).max:
        return column
    observed = column.dropna()
    if low < -_MOST or high >= _MOST or (len(observed) and observed.max() > np.iinfo(np.int64).max):
        raise DataError(
            f"column {column.name!r}: expected values within whole numbers of 64 bits, came {low:g} to {high:g}. "
            "Convert the column to float64, or give limits."
        )
    return column.astype(_sibling(kind, "int64"))


def _sibling(kind: Any, name: str) -> str:
    """The dtype of that name of the same family: NumPy's, pandas' nullable ones, or pyarrow's."""
    if isinstance(kind, np.dtype):
        return name
    return f"{name}[pyarrow]" if isinstance(kind, pd.ArrowDtype) else name.capitalize()


def _with_room(column: pd.Series) -> pd.Series:
    """The column in a dtype that can hold nothing somewhere: its own, or the nullable one of its kind."""
    kind = column.dtype
    if isinstance(kind, pd.IntervalDtype):
        is_whole = getattr(kind.subtype, "kind", "") in tuple("iu")
        return column.astype(pd.IntervalDtype("float64", kind.closed)) if is_whole else column
    if not isinstance(kind, np.dtype) or kind.kind not in "iub":
        return column
    name = {"b": "boolean"}.get(kind.kind) or {"i": "Int", "u": "UInt"}[kind.kind] + str(8 * kind.itemsize)
    return column.astype(name)


def _cells_of(column: pd.Series, values: np.ndarray) -> Any:
    """Values as an extension array, or objects, for a column."""
    kind = column.dtype
    if isinstance(kind, np.dtype):
        decimals = all(isinstance(item, Decimal) for item in column.dropna())
        one = (lambda v: Decimal(repr(v))) if decimals else float
        array = np.empty(len(values), object)
        array[:] = [None if np.isnan(v) else one(v) for v in values.tolist()]
        return array
    decimals = decimals_of(kind)
    if decimals is None:
        one = float
    elif pd.api.types.is_integer_dtype(kind):
        one = round
    else:
        one = lambda v: Decimal(repr(v)).quantize(Decimal(1).scaleb(-decimals))
    return pd.array([pd.NA if np.isnan(v) else one(v) for v in values.tolist()], dtype=kind)


def _with_rows(table: FrameTable, edits: RowEdits, column: int, old: pd.Series, order: np.ndarray) -> pd.Series:
    old, n_rows = old.reset_index(drop=True), len(old)
    if column in edits.new_contents:
        stretched = old.take(np.where(order < n_rows, order, 0)).reset_index(drop=True)
        return put(stretched, np.flatnonzero(order >= n_rows), edits.new_contents[column])
    new = new_labels(table, edits.new, column + table.columns.n_levels, old)
    if new.isna().any():
        old = _with_room(old)
    both = pd.concat([old, new.astype(old.dtype)], ignore_index=True)
    return both.take(order).reset_index(drop=True)


def new_labels(table: FrameTable, new: NewRows, at: int, like: pd.Series | pd.Index) -> pd.Series:
    """What new rows hold in a column that is not filled, at place ``at``; ``like`` (R,) is what it has.

    It is their time, or a part of it, their series, feature or unit, or a property of one of these.
    """
    roles, stamps = table.roles, table.stamps
    if at in roles.time and stamps is not None:
        return stamps.values(new.moment)[roles.time.index(at)].reset_index(drop=True)
    column = pd.Series(like.array)
    if at in (roles.feature, roles.unit):
        assert table.feature_of_row is not None
        assert new.feature is not None
        named = slice(None) if table.nameless is None else ~table.nameless
        return _of_first(pd.Series(column[named]), table.feature_of_row[named], new.feature)
    if at in roles.extra and stamps is not None and stamps.kind == "dates":
        stands = table.alignment.used
        name = table.columns.names[at]
        labels = at_new_times(column.loc[stands], name, stamps.labels[stands], stamps.labels_at(new.moment))
        if labels is not None:
            return labels
    if at in roles.group or table.sources.get(at) == "series":
        return _of_first(column, table.series_of_row, new.series)
    if at < table.columns.n_levels:
        # What it has in all rows of the series; nothing where rows differ.
        codes = pd.factorize(column)[0] if can_name(column) else np.arange(len(column))
        key, n_rows = table.series_of_row, len(column)
        row = np.full(len(table.panel.series), -1)
        row[key[::-1]] = np.arange(n_rows)[::-1]
        differs = np.zeros(len(row), bool)
        np.logical_or.at(differs, key, codes != codes[row[key]])
        return _taken(column, np.where(differs, -1, row)[new.series])
    if table.sources.get(at) == "feature" and table.feature_of_row is not None and new.feature is not None:
        return _of_first(column, table.feature_of_row, new.feature)
    if table.sources.get(at) == "table":
        return _taken(column, np.zeros(len(new), np.int64))
    return _taken(column, np.full(len(new), -1))


def _taken(column: pd.Series, rows: np.ndarray) -> pd.Series:
    """(M,) what a column has in some rows, -1 = nothing."""
    if (rows < 0).any():
        column = _with_room(column)
    return pd.Series(column.array.take(rows, allow_fill=True))


def _of_first(column: pd.Series, key: np.ndarray, wanted: np.ndarray) -> pd.Series:
    """(M,) what the first row of a key (R,) that is not empty holds in a column (R,), for wanted keys (M,)."""
    n_keys = int(max(key.max(), wanted.max(initial=0))) + 1
    empty = [blank or (isinstance(x, str) and not x.strip()) for x, blank in zip(column, pd.isna(column), strict=True)]
    row = np.full(n_keys, -1)
    filled = np.flatnonzero(~np.array(empty, bool))[::-1]
    row[key[filled]] = filled
    return _taken(column, row[wanted])


def _index(table: FrameTable, new: NewRows, order: np.ndarray) -> pd.Index:
    """The table's own index, with the labels of new rows; a plain count of rows is made longer."""
    index = table.frame.index
    if not len(new):
        return index
    if not table.columns.n_levels:
        assert isinstance(index, pd.RangeIndex)
        return pd.RangeIndex(index.start, index.start + index.step * len(order), index.step)
    levels = []
    for at in range(table.columns.n_levels):
        old = index.get_level_values(at)
        if at in table.roles.extra and pd.api.types.is_integer_dtype(old.dtype) and table.columns.n_levels == 1:
            added = pd.Index(int(old.to_numpy(np.int64).max()) + 1 + np.arange(len(new)))
        else:
            added = pd.Index(new_labels(table, new, at, old))
        levels.append(old.append(added.astype(old.dtype)).take(order).rename(old.name))
    return levels[0] if len(levels) == 1 else pd.MultiIndex.from_arrays(levels, names=list(index.names))

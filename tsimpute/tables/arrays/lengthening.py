"""xarray data sets made longer along time by the times that they lack."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from tsimpute.errors import DataError
from tsimpute.tables.arrays.arrays import written
from tsimpute.tables.arrays.dimensions import Dimensions, column_of
from tsimpute.tables.clock.clock import RowAlignment
from tsimpute.tables.time.stamps import Stamps


def rows_with_inserted(alignment: RowAlignment) -> tuple[np.ndarray, np.ndarray]:
    """For each row of the result: the row of the table, -1 = new; and where it stands in the times.

    The table's rows keep their order; a new one stands behind the row of the time before it, or after it where the
    table has the newest first.
    """
    step, added = alignment.step_of_row, np.flatnonzero(alignment.inserted[0])
    falls = len(step) > 1 and step[-1] < step[0]
    ahead, new = (-step, -added) if falls else (step, added)
    order = np.argsort(ahead, kind="stable")
    before = order[np.searchsorted(ahead[order], new) - 1]  # an inserted time is never the first or the last
    key = np.r_[2 * np.arange(len(step)), 2 * before + 1]
    sort = np.lexsort((np.r_[ahead, new], key))
    return np.r_[np.arange(len(step)), np.full(len(added), -1)][sort], np.r_[step, added][sort]


def lengthened(
    dataset: xr.Dataset,
    dims: Dimensions,
    variables: Sequence[Hashable],
    stamps: Stamps | None,
    alignment: RowAlignment,
) -> xr.Dataset:
    """A deep copy, with new places along time; they hold nothing but the time, and in ``variables`` anything."""
    row, step = rows_with_inserted(alignment)
    fresh, time = row < 0, dims.time
    if stamps is None or not fresh.any():
        return dataset.copy(deep=True)
    out = dataset.isel({time: np.maximum(row, 0)}).copy(deep=True)
    changed = _new_stamps(dataset, dims, stamps.values(alignment.moments[0][step[fresh]]), row)
    for name in _others(dataset, dims, variables):
        variable = out[name].variable
        along = [slice(None)] * variable.dims.index(time)
        cells = _emptied(np.asarray(variable.values), (*along, fresh))
        changed[name] = xr.Variable(variable.dims, cells, variable.attrs, variable.encoding)
    coords = {name: variable for name, variable in changed.items() if name in dataset.coords}
    out = out.assign_coords(coords).assign({n: v for n, v in changed.items() if n not in coords})
    if time in out.xindexes and time not in dataset.xindexes:
        out = out.drop_indexes(time)
    for name in dims.stamps:
        if name in dataset.xindexes and name not in out.xindexes:
            out = out.set_xindex([name])
    return out


def _others(dataset: xr.Dataset, dims: Dimensions, variables: Sequence[Hashable]) -> list[Hashable]:
    """What lies along time beside the times and the features."""
    along_time = [name for name, variable in dataset.variables.items() if dims.time in variable.dims]
    return [name for name in along_time if name not in (*dims.stamps, *variables)]


def _new_stamps(
    dataset: xr.Dataset, dims: Dimensions, added: Sequence[Any], row: np.ndarray
) -> dict[Hashable, xr.Variable]:
    fresh, stamps = row < 0, {}
    order = np.where(fresh, np.cumsum(fresh) - 1 + len(row) - fresh.sum(), row)  # of the old and then the new ones
    for name, new in zip(dims.stamps, added, strict=True):
        variable, old = dataset[name].variable, column_of(dataset, name)
        if isinstance(old.dtype, pd.DatetimeTZDtype):  # NumPy would lose the zone
            whole = pd.Index(pd.concat([old, new.astype(old.dtype)]).iloc[order])
            stamps[name] = xr.IndexVariable(variable.dims, whole, variable.attrs, variable.encoding)
            continue
        values, more = np.asarray(variable.values), np.asarray(new)
        more = more.astype(str) if values.dtype.kind == "U" else more.astype(values.dtype)
        cells = np.concatenate([values, more])[order]
        stamps[name] = xr.Variable(variable.dims, cells, variable.attrs, variable.encoding)
    return stamps


def length_notes(
    dataset: xr.Dataset, dims: Dimensions, variables: Sequence[Hashable], alignment: RowAlignment
) -> list[str]:
    """What becomes of others along time where times are inserted."""
    n_new = int(alignment.inserted[0].sum())
    notes = []
    for name in _others(dataset, dims, variables) if n_new else ():
        if name in dataset.xindexes:
            raise DataError(
                f"{name}: {n_new} places are to be added along {dims.time!r} for missing times, and it has no label "
                f"for them. Use drop_vars({name!r}) before, or missing_times='keep'."
            )
        old, new = dataset[name].dtype, _emptied(np.asarray(dataset[name].values).ravel()[:1], slice(0)).dtype
        becomes = f" and becomes {new}" if new != old else ""
        notes.append(f"{name}: has nothing at the inserted times ({n_new}){becomes}")
    return notes


def _emptied(array: np.ndarray, where: Any) -> np.ndarray:
    """An array with nothing at some places: NaN, NaT, an empty text; whole numbers and bools become float64."""
    kind = array.dtype.kind
    if kind in "iub":
        mask = np.zeros(array.shape, bool)
        mask[where] = True
        return written(array.astype(np.float64) if kind == "b" else array, mask, np.full(array.shape, np.nan))
    out = array.copy() if kind in "fcMmUST" else array.astype(object)
    if kind in "Mm":
        out[where] = np.array("NaT", out.dtype)
    else:
        out[where] = "" if kind in "UST" else np.nan
    return out

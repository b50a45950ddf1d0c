"""Data arrays and data sets of xarray as tables: read, and written back, longer by the times that they lack."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from einops import rearrange

from tsimpute.core.panel import OBSERVED, PROVENANCE, RULE, Panel
from tsimpute.core.windows import Feature
from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.arrays.arrays import check_finite, entries_of, features_of, numbers_of, panel_of, rows_of, written
from tsimpute.tables.arrays.dimensions import Dimensions, array_dimensions, column_of, dataset_dimensions
from tsimpute.tables.clock.clock import RowAlignment, align_rows, rows_as_steps
from tsimpute.tables.columns.column_names import UNIT_NAMES
from tsimpute.tables.columns.time_names import plain
from tsimpute.tables.frames.frames import TimeOptions
from tsimpute.tables.frames.table import Edits, Entries, Table, features_text, time_text
from tsimpute.tables.roles.columns import ColumnSpec
from tsimpute.tables.time.stamps import Stamps, label_text, read_stamps

_VALUES = "values of the data array"


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


@dataclass(frozen=True, eq=False)
class LabelledTable(Table):
    """A data array or a data set."""

    source: xr.DataArray | xr.Dataset  # as given
    dataset: xr.Dataset  # in memory; the numbers of a data array are one variable of it
    dims: Dimensions  # what its dimensions are
    variables: tuple[Hashable, ...]  # that hold the features, one each in a data set
    stamps: Stamps | None  # the time of each of R rows; None = rows are steps
    alignment: RowAlignment  # where each row stands; the same for all series
    panel: Panel  # one series for each place along the dimensions of groups
    notes: tuple[str, ...]  # see ``Table``
    warnings: tuple[str, ...] = ()  # see ``Table``
    n_added: int = 0  # see ``Table``
    emptied: np.ndarray | None = None  # (n, R, K) bool, numbers that are written as empty where they are not filled

    @property
    def understood(self) -> list[tuple[str, str]]:
        dims, sizes = self.dims, self.dataset.sizes
        listed = ", ".join(f"{dim}: {size:,}" for dim, size in sizes.items())
        stamps = " + ".join(map(str, dims.stamps)) or f"{dims.time}, without times"
        groups = " x ".join(map(str, dims.groups))
        texts = [
            ("layout", f"xarray {type(self.source).__name__}, {listed}"),
            ("time", f"{stamps}: {time_text(self.panel, self.alignment.step_text)}"),
            ("groups", f"{groups}: {len(self.panel.series):,} series" if groups else "none, one series"),
            ("features", features_text(self.panel)),
        ]
        others = self.passed_through
        return [*texts, ("passed through", ", ".join(others))] if others else texts

    @property
    def passed_through(self) -> tuple[str, ...]:
        return tuple(str(name) for name in self.dataset.data_vars if name not in self.variables)

    @property
    def entries(self) -> Entries:
        return entries_of(self.cube, self.alignment)

    @cached_property
    def n_beside(self) -> int:
        return self.entries.n_beside(rearrange(np.isnan(self.cube), "n r k -> (k n r)"))

    @property
    def cube(self) -> np.ndarray:
        """(n, R, K) its numbers."""
        return np.concatenate([_cube(self.dataset[name].variable, self.dims) for name in self.variables], 2)

    def with_emptied(self, emptied: np.ndarray) -> LabelledTable:
        cube = (len(self.panel.series), len(self.alignment.step_of_row), len(self.panel.features))
        return replace(self, emptied=rows_of(emptied, cube))

    @property
    def decimals(self) -> list[int | None]:
        kinds = [0 if self.dataset[name].dtype.kind in "iu" else None for name in self.variables]
        return kinds * len(self.panel.features) if self.dims.feature is not None else kinds

    def apply(self, edits: Edits) -> xr.DataArray | xr.Dataset:
        """See ``Table``. A variable of whole numbers becomes float64 where a cell is left empty."""
        row, step = rows_with_inserted(self.alignment)
        out, fresh = self._lengthened(row, step), row < 0
        contents = self._cubes(edits.contents, step)
        if edits.are_texts:
            texts = {name: (self.dataset[name].dims, self._in_kind(name, contents[name])) for name in self.variables}
            for name, (_, words) in texts.items():  # an empty cell of which another place of its time has a number
                words[np.isnan(out[name].values) & (words == PROVENANCE[OBSERVED])] = PROVENANCE[RULE]
            marks = xr.Dataset(texts, out.coords)
            marks.encoding = {key: value for key, value in out.encoding.items() if key == "format"}
            return self._as_given(marks)
        stands = fresh | self.alignment.used[np.maximum(row, 0)]
        where = self._cubes(edits.cells, step)
        nothing = np.zeros((len(self.panel.series), 1, len(self.panel.features)), bool)
        empty = fresh[:, None] | (nothing if self.emptied is None else self.emptied[:, np.maximum(row, 0)])
        emptied = self._parts(empty)
        filled = {}
        for name in self.variables:
            variable = out[name].variable
            raw, hit = np.asarray(variable.values), self._in_kind(name, where[name])
            is_empty = self._in_kind(name, np.broadcast_to(emptied[name], where[name].shape))
            hit &= self._in_kind(name, np.broadcast_to(stands[:, None], where[name].shape)) | np.isnan(raw)
            new = self._in_kind(name, contents[name])
            hit |= np.isnan(raw) & ~np.isnan(new)  # what another place of the time holds
            cells = written(raw, hit | is_empty, np.where(hit, new, np.nan))
            filled[name] = xr.Variable(variable.dims, cells, variable.attrs, variable.encoding)
        return self._as_given(out.assign(filled))

    def _as_given(self, dataset: xr.Dataset) -> xr.DataArray | xr.Dataset:
        return dataset[_VALUES].rename(self.source.name) if isinstance(self.source, xr.DataArray) else dataset

    def _lengthened(self, row: np.ndarray, step: np.ndarray) -> xr.Dataset:
        """A deep copy, with new places along time; they hold nothing but the time, and as features anything."""
        dataset, dims, fresh, time = self.dataset, self.dims, row < 0, self.dims.time
        if self.stamps is None or not fresh.any():
            return dataset.copy(deep=True)
        out = dataset.isel({time: np.maximum(row, 0)}).copy(deep=True)
        changed = _new_stamps(dataset, dims, self.stamps.values(self.alignment.moments[0][step[fresh]]), row)
        for name in _others(dataset, dims, self.variables):
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

    def _cubes(self, of_series: Sequence[np.ndarray], step: np.ndarray) -> dict[Hashable, np.ndarray]:
        """Per variable (n, rows, its features): what stands for each row of the result."""
        return self._parts(np.stack(of_series)[:, :, step].transpose(0, 2, 1))

    def _parts(self, whole: np.ndarray) -> dict[Hashable, np.ndarray]:
        """(n, rows, K) as one per variable."""
        if self.dims.feature is not None:
            return {self.variables[0]: whole}
        return {name: whole[:, :, k : k + 1] for k, name in enumerate(self.variables)}

    def _in_kind(self, name: Hashable, cube: np.ndarray) -> np.ndarray:
        """(n, rows, features) in the dimensions of a variable."""
        order, sizes = _order(self.dims), self.dataset.sizes
        shape = [cube.shape[1] if dim == self.dims.time else sizes[dim] for dim in order]
        return xr.Variable(order, cube.reshape(shape)).transpose(*self.dataset[name].dims).values


def read_labelled(
    table: xr.DataArray | xr.Dataset,
    spec: ColumnSpec | None = None,
    time_options: TimeOptions | None = None,
    units: Mapping[str, str] | None = None,
) -> LabelledTable:
    """Reads a data array or a data set; it is not changed, and what is not in memory is loaded into a copy.

    Args:
        table: numbers along a dimension of time. In a data array one other dimension may be that of the features; in a
            data set every variable of numbers along time is one. All other dimensions are groups.
        spec: ``time`` names a dimension or coordinates; ``group`` dimensions; ``feature`` that of a data array;
            ``features`` the variables of a data set, or the names of features of a data array that has none.
        units: of features, where the attribute "units" or a coordinate "unit" along the features does not tell them.

    Raises:
        ConfigError: a name of ``spec`` is absent, or has no meaning for xarray objects.
        DataError: no numbers, an unclear dimension, an infinite value, or times that are refused.
    """
    spec, time_options = spec or ColumnSpec(), time_options or TimeOptions()
    for role, given in (("value", spec.value), ("unit", spec.unit), ("text", spec.text)):
        if given is not None:
            raise ConfigError(f"{role}: expected None for an xarray object, came {given!r}. Leave it out.")
    if spec.categories:
        raise ConfigError(
            f"categories: expected none for an xarray object, came {tuple(spec.categories)}. Leave it out, or give a "
            "pandas data frame."
        )
    if time_options.records == "rows" and isinstance(table, xr.DataArray):
        raise ConfigError(
            "records: expected a frame, a 2-D array or a Dataset of variables along one dimension with records='rows', "
            "came a DataArray. Give array.to_pandas() or array.to_dataset(dim)."
        )
    _check_size(table)
    if isinstance(table, xr.DataArray):
        dataset = table.to_dataset(name=_VALUES).compute()
        dims, variables = array_dimensions(dataset, table.dims, spec), (_VALUES,)
        features = _features_of_array(table, dims, spec, units or {})
    else:
        dataset = table.compute()
        dims, variables = dataset_dimensions(dataset, spec)
        known = [_text(dataset[name].attrs.get("units")) for name in variables]
        features = features_of(variables, units or {}, known)
    stamps, alignment = _placed(dataset, dims, time_options)
    cube = np.concatenate([_cube(dataset[name].variable, dims) for name in variables], 2)
    named = [dataset[dim].values if dim in dataset.coords else range(dataset.sizes[dim]) for dim in dims.groups]
    groups = [" / ".join(map(str, parts)) for parts in product(*named)]
    label = lambda t: label_text(alignment.labels[0][alignment.step_of_row[t]])
    of = lambda n: f" of {groups[n]!r}" if groups[n] else ""
    check_finite(cube, lambda n, t, k: f"{features[k].name} at {label(t)}{of(n)}")
    panel = panel_of(
        cube, features, groups, alignment, time_options.unit_without_times if stamps is None else stamps.unit
    )
    notes = (*(stamps.notes if stamps else ()), *alignment.notes, *length_notes(dataset, dims, variables, alignment))
    return LabelledTable(
        table, dataset, dims, variables, stamps, alignment, panel, notes, alignment.warnings,
        n_added=int(alignment.inserted[0].sum()),
    )  # fmt: skip


def _check_size(table: xr.DataArray | xr.Dataset) -> None:
    if isinstance(table, xr.DataArray) and table.dtype.kind not in "fiu":
        raise DataError(
            f"table: expected floats or whole numbers, came dtype {table.dtype}. Convert it with .astype(float), NaN "
            "where nothing is."
        )
    if not table.sizes:
        raise DataError(f"table: expected a dimension of times, came {type(table).__name__} without dimensions.")
    empty = [str(dim) for dim, size in table.sizes.items() if not size]
    if empty:
        raise DataError(f"table: expected dimensions of one or more places, {', '.join(empty)} has none.")


def _features_of_array(
    array: xr.DataArray, dims: Dimensions, spec: ColumnSpec, units: Mapping[str, str]
) -> tuple[Feature, ...]:
    n, labelled = (1, False) if dims.feature is None else (array.sizes[dims.feature], dims.feature in array.coords)
    names: Sequence[Any] = np.asarray(array[dims.feature]).tolist() if labelled else range(n)
    if dims.feature is None:
        names = ["value" if array.name is None else array.name]
    if spec.features is not None:
        if labelled:
            raise ConfigError(
                f"features: {dims.feature!r} names the features of the data array already. Choose some with "
                f".sel({dims.feature}=[...]) and leave features out."
            )
        if len(spec.features) != n:
            raise ConfigError(f"features: expected {n} names, came {len(spec.features)}.")
        names = spec.features
    known = [_text(array.attrs.get("units"))] * n
    for name, coordinate in array.coords.items():
        if dims.feature is not None and coordinate.dims == (dims.feature,) and plain(name) in UNIT_NAMES:
            known = [_text(unit) for unit in coordinate.values.tolist()]
    return features_of(names, units, known)


def _text(unit: Any) -> str:
    return unit if isinstance(unit, str) else ""


def _placed(dataset: xr.Dataset, dims: Dimensions, time_options: TimeOptions) -> tuple[Stamps | None, RowAlignment]:
    if not dims.stamps:
        time_options.check_without_times()
        note = f"no times were found along {dims.time}: each place counts as one step"
        return None, rows_as_steps(np.zeros(dataset.sizes[dims.time], int), 1, note)
    columns = [column_of(dataset, name) for name in dims.stamps]
    stamps = read_stamps(columns, timezone=time_options.timezone, dayfirst=time_options.dayfirst)
    return stamps, align_rows(
        stamps, np.zeros(len(stamps.moments), np.int64), 1, duplicates=time_options.duplicates,
        missing_times=time_options.missing_times, irregular=time_options.irregular,
    )  # fmt: skip


def _order(dims: Dimensions) -> tuple[Hashable, ...]:
    return (*dims.groups, dims.time, *(() if dims.feature is None else (dims.feature,)))


def _cube(variable: xr.Variable, dims: Dimensions) -> np.ndarray:
    """(n, R, its features) float64."""
    ordered = variable.transpose(*_order(dims))
    n_features = 1 if dims.feature is None else ordered.sizes[dims.feature]
    return numbers_of(ordered.values).reshape(-1, ordered.sizes[dims.time], n_features)

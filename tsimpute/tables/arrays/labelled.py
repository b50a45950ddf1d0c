"""Data arrays and data sets of xarray as tables: read, and given back with all that they carry."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from tsimpute.core.panel import Panel
from tsimpute.core.windows import Feature
from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.arrays.arrays import check_finite, features_of, numbers_of, panel_of, steps_only, written
from tsimpute.tables.arrays.dimensions import Dimensions, array_dimensions, column_of, dataset_dimensions
from tsimpute.tables.arrays.lengthening import length_notes, lengthened, rows_with_inserted
from tsimpute.tables.arrays.without_rows import WithoutRows
from tsimpute.tables.clock.clock import Placement, place
from tsimpute.tables.columns.column_names import UNIT_NAMES
from tsimpute.tables.columns.time_names import plain
from tsimpute.tables.frames.averaging import LeftOut, ranks
from tsimpute.tables.frames.frames import Clockwork, time_text
from tsimpute.tables.frames.panel_texts import features_text, words
from tsimpute.tables.roles.columns import Told
from tsimpute.tables.time.stamps import Stamps, label_text, read_stamps

_VALUES = "values of the data array"


@dataclass(frozen=True, eq=False)
class LabelledTable(WithoutRows):
    """A data array or a data set.

    Attributes:
        given: as given.
        dataset: in memory; the numbers of a data array are one variable of it.
        dims: what its dimensions are.
        variables: that hold the features, one each in a data set.
        stamps: the time of each of R rows; None = rows are steps.
        placement: where each row stands; the same for all series.
        panel: one series for each place along the dimensions of groups.
        notes: what was found and done.
        dropped: (n, R, K) bool, values to be made missing beside others of one time; None = none.
    """

    given: xr.DataArray | xr.Dataset
    dataset: xr.Dataset
    dims: Dimensions
    variables: tuple[Hashable, ...]
    stamps: Stamps | None
    placement: Placement
    panel: Panel
    notes: tuple[str, ...]
    dropped: np.ndarray | None = None

    @property
    def understood(self) -> list[tuple[str, str]]:
        dims, sizes = self.dims, self.dataset.sizes
        listed = ", ".join(f"{dim}: {size:,}" for dim, size in sizes.items())
        stamps = " + ".join(map(str, dims.stamps)) or f"{dims.time}, without times"
        groups = " x ".join(map(str, dims.groups))
        said = [
            ("layout", f"xarray {type(self.given).__name__}, {listed}"),
            ("time", f"{stamps}: {time_text(self.panel, self.placement.step_text)}"),
            ("groups", f"{groups}: {len(self.panel.series):,} series" if groups else "none, one series"),
            ("features", features_text(self.panel)),
        ]
        others = self.passed_through
        return [*said, ("carried along", ", ".join(others))] if others else said

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.placement.warnings

    @property
    def passed_through(self) -> tuple[str, ...]:
        return tuple(str(name) for name in self.dataset.data_vars if name not in self.variables)

    @property
    def n_added(self) -> int:
        return int(self.placement.inserted[0].sum())

    @property
    def layers(self) -> tuple[Panel, ...]:
        rank = ranks(self.placement.step_of_row, self.placement.kept)
        if rank.max() < 1:
            return (self.panel,)
        cube = self._cube
        return tuple(self._panel(np.where((rank == j)[:, None], cube, np.nan)) for j in range(rank.max() + 1))

    def averaged(self, out: LeftOut) -> LabelledTable:
        unused, dropped = self._of_rows(out.unused), self._of_rows(out.dropped)
        return replace(self, panel=self._panel(np.where(unused, np.nan, self._cube)), dropped=dropped)

    @property
    def _cube(self) -> np.ndarray:
        return np.concatenate([_cube(self.dataset[name].variable, self.dims) for name in self.variables], 2)

    def _panel(self, cube: np.ndarray) -> Panel:
        names = [series.name for series in self.panel.series]
        return panel_of(cube, self.panel.features, names, self.placement, self.panel.clock.unit)

    def _of_rows(self, layers: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
        """(n, R, K) bool: cells of each row's own layer."""
        rank = ranks(self.placement.step_of_row, self.placement.kept)
        flat = np.stack([np.stack(of_layer) for of_layer in layers])
        return flat[rank, :, :, self.placement.step_of_row].transpose(1, 0, 2) & (rank >= 0)[:, None]

    @property
    def decimals(self) -> list[int | None]:
        kinds = [0 if self.dataset[name].dtype.kind in "iu" else None for name in self.variables]
        return kinds * len(self.panel.features) if self.dims.feature is not None else kinds

    def completed(self, changed: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> xr.DataArray | xr.Dataset:
        """See ``Table``. A variable of whole numbers becomes float64 where a cell is to be left empty."""
        row, step = self.rows
        out, fresh = self._lengthened(), row < 0
        stands = fresh | self.placement.kept[np.maximum(row, 0)]
        where, new = (self._cubes(parts, step) for parts in (changed, values))
        old = np.zeros((len(self.panel.series), 1, len(self.panel.features)), bool)
        dropped = self._parts(old if self.dropped is None else self.dropped[:, np.maximum(row, 0)] & ~fresh[:, None])
        filled = {}
        for name in self.variables:
            variable = out[name].variable
            raw, hit = np.asarray(variable.values), self._in_kind(name, where[name])
            rows = lambda flags, name=name: self._in_kind(name, np.broadcast_to(flags[:, None], where[name].shape))
            own = hit & (rows(stands) | np.isnan(raw))
            put = own | rows(fresh) | self._in_kind(name, np.broadcast_to(dropped[name], where[name].shape))
            cells = written(raw, put, np.where(own, self._in_kind(name, new[name]), np.nan))
            filled[name] = xr.Variable(variable.dims, cells, variable.attrs, variable.encoding)
        return self._as_given(out.assign(filled))

    def marked(self, changed: Sequence[np.ndarray], codes: Sequence[np.ndarray]) -> xr.DataArray | xr.Dataset:
        cubes = self._cubes(words(codes), self.rows[1])
        said = {name: (self.dataset[name].dims, self._in_kind(name, cubes[name])) for name in self.variables}
        whole = self._lengthened()
        marks = xr.Dataset(said, whole.coords)
        marks.encoding = {key: value for key, value in whole.encoding.items() if key == "format"}
        return self._as_given(marks)

    def _as_given(self, dataset: xr.Dataset) -> xr.DataArray | xr.Dataset:
        return dataset[_VALUES].rename(self.given.name) if isinstance(self.given, xr.DataArray) else dataset

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """For each row of the result: the row of the table, -1 = new; and where it stands in the times."""
        return rows_with_inserted(self.placement)

    def _lengthened(self) -> xr.Dataset:
        return lengthened(self.dataset, self.dims, self.variables, self.stamps, self.placement)

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
    told: Told | None = None,
    clockwork: Clockwork | None = None,
    units: Mapping[str, str] | None = None,
) -> LabelledTable:
    """Understands a data array or a data set; it is not changed, what is not in memory is loaded into a copy.

    Args:
        table: numbers along a dimension of time. In a data array one other dimension may be that of the features; in a
            data set every variable of numbers along time is one. All other dimensions are groups.
        told: ``time`` names a dimension or coordinates; ``group`` dimensions; ``feature`` that of a data array;
            ``features`` the variables of a data set, or the names of features of a data array that has none.
        units: of features, where the attribute "units" or a coordinate "unit" along the features does not tell them.

    Raises:
        ConfigError: a name that was told is not there, or means nothing here.
        DataError: no numbers, a dimension that cannot be told, an infinite value, or times that are refused.
    """
    told, clockwork = told or Told(), clockwork or Clockwork()
    for role in ("value", "unit", "text"):
        if getattr(told, role) is not None:
            raise ConfigError(
                f"{role}: expected None for an xarray object, came {getattr(told, role)!r}. Leave it out."
            )
    _check_size(table)
    if isinstance(table, xr.DataArray):
        dataset = table.to_dataset(name=_VALUES).compute()
        dims, variables = array_dimensions(dataset, table.dims, told), (_VALUES,)
        features = _features_of_array(table, dims, told, units or {})
    else:
        dataset = table.compute()
        dims, variables = dataset_dimensions(dataset, told)
        known = [_text(dataset[name].attrs.get("units")) for name in variables]
        features = features_of(variables, units or {}, known)
    stamps, placement = _placed(dataset, dims, clockwork)
    cube = np.concatenate([_cube(dataset[name].variable, dims) for name in variables], 2)
    groups = _groups(dataset, dims)
    check_finite(cube, lambda n, t, k: _place_text(features[k], groups[n], placement, t))
    panel = panel_of(cube, features, groups, placement, "steps" if stamps is None else stamps.unit)
    notes = (*(stamps.notes if stamps else ()), *placement.notes, *length_notes(dataset, dims, variables, placement))
    return LabelledTable(table, dataset, dims, variables, stamps, placement, panel, notes)


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
    array: xr.DataArray, dims: Dimensions, told: Told, units: Mapping[str, str]
) -> tuple[Feature, ...]:
    n, labelled = (1, False) if dims.feature is None else (array.sizes[dims.feature], dims.feature in array.coords)
    names: Sequence[Any] = np.asarray(array[dims.feature]).tolist() if labelled else range(n)
    if dims.feature is None:
        names = ["value" if array.name is None else array.name]
    if told.features is not None:
        if labelled:
            raise ConfigError(
                f"features: {dims.feature!r} names the features of the data array already. Choose some with "
                f".sel({dims.feature}=[...]) and leave features out."
            )
        if len(told.features) != n:
            raise ConfigError(f"features: expected {n} names, came {len(told.features)}.")
        names = told.features
    known = [_text(array.attrs.get("units"))] * n
    for name, coordinate in array.coords.items():
        if dims.feature is not None and coordinate.dims == (dims.feature,) and plain(name) in UNIT_NAMES:
            known = [_text(unit) for unit in coordinate.values.tolist()]
    return features_of(names, units, known)


def _text(unit: Any) -> str:
    return unit if isinstance(unit, str) else ""


def _placed(dataset: xr.Dataset, dims: Dimensions, clockwork: Clockwork) -> tuple[Stamps | None, Placement]:
    if not dims.stamps:
        clockwork.check_without_times()
        note = f"no times were found along {dims.time}: each place counts as one step"
        return None, steps_only(dataset.sizes[dims.time], (note,))
    columns = [column_of(dataset, name) for name in dims.stamps]
    stamps = read_stamps(columns, timezone=clockwork.timezone, dayfirst=clockwork.dayfirst)
    return stamps, place(
        stamps, np.zeros(len(stamps.moments), np.int64), 1, duplicates=clockwork.duplicates,
        missing_times=clockwork.missing_times, irregular=clockwork.irregular,
    )  # fmt: skip


def _order(dims: Dimensions) -> tuple[Hashable, ...]:
    return (*dims.groups, dims.time, *(() if dims.feature is None else (dims.feature,)))


def _cube(variable: xr.Variable, dims: Dimensions) -> np.ndarray:
    """(n, R, its features) float64."""
    ordered = variable.transpose(*_order(dims))
    n_features = 1 if dims.feature is None else ordered.sizes[dims.feature]
    return numbers_of(ordered.values).reshape(-1, ordered.sizes[dims.time], n_features)


def _groups(dataset: xr.Dataset, dims: Dimensions) -> list[str]:
    names = [
        [str(label) for label in (dataset[dim].values if dim in dataset.coords else range(dataset.sizes[dim]))]
        for dim in dims.groups
    ]
    return [" / ".join(parts) for parts in product(*names)]


def _place_text(feature: Feature, group: str, placement: Placement, row: int) -> str:
    label = label_text(placement.labels[0][placement.step_of_row[row]])
    return f"{feature.name} at {label}{f' of {group!r}' if group else ''}"

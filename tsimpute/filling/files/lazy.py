"""Dask-backed xarray objects are filled chunk by chunk when they are computed: they need not fit into memory."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from tsimpute.core.panel import PROVENANCE
from tsimpute.core.shapes import check_distinct
from tsimpute.errors import DataError, NotFittedError
from tsimpute.filling.imputer.fitting import check_clock
from tsimpute.filling.imputer.table_imputer import TableImputer
from tsimpute.filling.preparing.model_rules import matched
from tsimpute.tables.arrays.dimensions import Dimensions, array_dimensions, dataset_dimensions
from tsimpute.tables.arrays.labelled import read_labelled
from tsimpute.tables.frames.table import Edits
from tsimpute.tables.sources.files import need

AnyTable = TypeVar("AnyTable", xr.Dataset, xr.DataArray)
LEVEL = "quantile"
_NUMBERS = "numbers of the data array"
_FLAGS = {
    "flag_values": list(range(len(PROVENANCE))),
    "flag_meanings": " ".join(word.replace(" ", "_") for word in PROVENANCE),
}


@dataclass(frozen=True, eq=False)
class LazyImputation:
    """The result of an imputation, computed by Dask; attributes that are computed together are sampled once.

    Attributes:
        table: an object of the same kind as the input; gaps hold the median of the draws.
        quantiles: the same with a dimension "quantile" first, of the dtypes of ``table``; at observed cells the value.
        provenance: uint8 codes of ``panel.PROVENANCE``, named in the attributes ``flag_values`` and ``flag_meanings``.
    """

    table: Any
    quantiles: Any
    provenance: Any


def impute_lazily(table: AnyTable, imputer: TableImputer) -> AnyTable:
    """The table with its gaps filled, as an object of the same kind whose chunks are filled when they are computed.

    The result equals that of ``imputer.impute`` to the bit, whatever the chunks. Every place along the dimensions of
    groups is a series. A chunk contains whole series: chunks are joined along time and features, and stay as they are
    along groups. Each Dask thread fills one chunk at a time.

    Example:
        >>> import pandas as pd
        >>> hours = pd.date_range("2024-01-01", periods=60, freq="h")
        >>> values = np.where(np.arange(240) % 5, np.arange(240.0) % 7.3, np.nan).reshape(2, 60, 2)
        >>> axes = {"station": ["x", "y"], "time": hours, "feature": ["a", "b"]}
        >>> cube = xr.DataArray(values, axes, ["station", "time", "feature"], "level")
        >>> imputer = TableImputer(effort="trial", n_samples=3, calibrate=False, missing_codes=[])
        >>> imputer = imputer.fit(cube[:1])  # a part that fits into memory
        >>> filled = impute_lazily(cube.chunk(station=1), imputer)
        >>> int(filled.isnull().sum().compute())
        0

    Args:
        table: chunked or not; its values are not read before something is computed.
        imputer: fitted to a part that fits into memory, or with a model; it is sent to each worker once.

    Raises:
        NotFittedError: the imputer is not fitted.
        DataError: the table is not as expected, or times are missing in it. When computed: as ``TableImputer.draw``
            raises, or a variable cannot hold in its dtype what is to be filled in.
        MissingExtraError: Dask is not installed.
    """
    return draw_lazily(table, imputer).table


def draw_lazily(table: xr.Dataset | xr.DataArray, imputer: TableImputer) -> LazyImputation:
    """``impute_lazily`` with quantiles and what each cell is.

    Example:
        >>> import pandas as pd
        >>> axes = {"time": pd.date_range("2024-01-01", periods=60, freq="h"), "feature": ["a", "b"]}
        >>> values = np.where(np.arange(120) % 5, np.arange(120.0) % 7.3, np.nan).reshape(60, 2)
        >>> table = xr.DataArray(values, axes, ["time", "feature"])
        >>> imputer = TableImputer(effort="trial", n_samples=3, calibrate=False, missing_codes=[]).fit(table)
        >>> result = draw_lazily(table.chunk(), imputer)
        >>> result.quantiles.sizes["quantile"], bool((result.quantiles[0] <= result.quantiles[2]).all().compute())
        (3, True)
    """
    need("dask", install='"dask[distributed]" zarr')
    import dask.array as da
    from dask.delayed import delayed

    filler, dataset = _filler_of(table, imputer)
    core = list(filler.core)
    given = [dataset[name].variable.transpose(*filler.order) for name in filler.variables]
    given = [variable.chunk(dict.fromkeys(core, -1)) for variable in given]
    labels = [xr.Variable(dim, np.array(texts)) for dim, texts in filler.texts.items()]
    labels = [label.chunk({dim: given[0].chunksizes[dim] for dim in label.dims}) for label in labels]
    unpack = delayed(_unpacked, pure=True)
    box = xr.Variable((), da.from_delayed(unpack(pickle.dumps(replace(filler, texts={}))), (), object))
    arrays = xr.apply_ufunc(
        _filled, box, *given, *labels, input_core_dims=[[], *[core] * len(given), *[[]] * len(labels)],
        output_core_dims=[core, [LEVEL, *core], core] * len(given), dask="parallelized",
        output_dtypes=[kind for variable in given for kind in (variable.dtype, variable.dtype, np.dtype(np.uint8))],
        dask_gufunc_kwargs={"output_sizes": {LEVEL: len(filler.levels)}},
    )  # fmt: skip
    parts = (_with_arrays(dataset, filler, [v.data for v in arrays[at::3]], at) for at in range(3))
    if isinstance(table, xr.DataArray):
        return LazyImputation(*(part[_NUMBERS].rename(table.name) for part in parts))
    return LazyImputation(*parts)


def _with_arrays(dataset: xr.Dataset, filler: Filler, arrays: Sequence[Any], at: int) -> xr.Dataset:
    """The data set with the arrays of ``Filler`` in its variables: filled (0), quantiles (1) or codes (2)."""
    lead = (LEVEL,) if at == 1 else ()
    variables = {}
    for name, array in zip(filler.variables, arrays, strict=True):
        old = dataset[name].variable
        attrs, encoding = ((old.attrs, old.encoding), (old.attrs, {}), (_FLAGS, {}))[at]
        new = xr.Variable((*filler.dims.groups, *lead, *filler.core), array, attrs, encoding)
        variables[name] = new.transpose(*lead, *old.dims)
    levels = {LEVEL: np.array(filler.levels)} if lead else {}
    return (dataset if at == 0 else dataset.drop_vars(dataset.data_vars).assign_coords(levels)).assign(variables)


@dataclass(frozen=True, eq=False)
class Filler:
    """Fills blocks of whole series.

    Attributes:
        imputer: with the roles of all dimensions as settings.
        like: the coordinates along time and features.
        dims, variables: see ``LabelledTable``.
        attrs: of the variables.
        array: the name of a data array, in a tuple; () = a data set.
        texts: by dimension of groups, the labels of all places.
    """

    imputer: TableImputer
    like: xr.Dataset
    dims: Dimensions
    variables: tuple[Hashable, ...]
    attrs: tuple[Mapping[Any, Any], ...]
    array: tuple[Hashable | None, ...]
    texts: Mapping[Hashable, Sequence[str]]

    @property
    def core(self) -> tuple[Hashable, ...]:
        return (self.dims.time, *(() if self.dims.feature is None else (self.dims.feature,)))

    @property
    def order(self) -> tuple[Hashable, ...]:
        return (*self.dims.groups, *self.core)

    def block(self, arrays: Sequence[np.ndarray], labels: Sequence[Sequence[str]]) -> xr.Dataset | xr.DataArray:
        coords = {dim: np.array(texts, object) for dim, texts in zip(self.dims.groups, labels, strict=True)}
        parts = zip(self.variables, arrays, self.attrs, strict=True)
        dataset = self.like.assign_coords(coords).assign({name: (self.order, array, a) for name, array, a in parts})
        return dataset[_NUMBERS].rename(self.array[0]) if self.array else dataset

    def __call__(self, arrays: Sequence[np.ndarray], labels: Sequence[Sequence[str]]) -> tuple[np.ndarray, ...]:
        """For each variable: (groups, core) filled; (groups, Q, core) quantiles; (groups, core) uint8 codes."""
        prepared = self.imputer.prepared(self.block(arrays, labels))
        fillings = self.imputer.fillings_of(prepared)
        cells = [filling.filled for filling in fillings]
        points = [[f.point for f in fillings], *([f.quantiles[q] for f in fillings] for q in range(len(self.levels)))]
        parts = [prepared.table.apply(prepared.edits(cells, point)) for point in points]
        marked = prepared.table.apply(Edits.of_provenance(cells, [filling.provenance for filling in fillings]))
        out = []
        for name, given in zip(self.variables, arrays, strict=True):
            filled, *low_to_high = (self._numbers(part, name) for part in parts)
            for part in (filled, *low_to_high):
                if part.dtype != given.dtype:
                    raise DataError(
                        f"{self.array[0] if self.array else name}: expected that {given.dtype} holds what is filled or "
                        f"left empty, it takes {part.dtype}. Convert it before: table.astype(float)."
                    )
            words = self._numbers(marked, name)
            codes = sum((words == word) * np.uint8(code) for code, word in enumerate(PROVENANCE))
            out += [filled, np.stack(low_to_high, len(self.dims.groups)), np.asarray(codes, np.uint8)]
        return tuple(out)

    @property
    def levels(self) -> tuple[float, ...]:
        return self.imputer.settings.levels

    def _numbers(self, part: Any, name: Hashable) -> np.ndarray:
        return (part if self.array else part[name]).transpose(*self.order).values


def _filled(box: Any, *given: np.ndarray) -> tuple[np.ndarray, ...]:
    """The packed filler called with arrays of variables and labels of groups."""
    filler: Filler = box[()]
    n = len(filler.variables)
    return filler(given[:n], [labels.ravel().tolist() for labels in given[n:]])


def _unpacked(packed: bytes) -> np.ndarray:
    box = np.empty((), object)
    box[()] = pickle.loads(packed)
    return box


def _filler_of(table: xr.Dataset | xr.DataArray, imputer: TableImputer) -> tuple[Filler, xr.Dataset]:
    """What fills blocks of a table, and the table as a data set; checked as far as that needs no value."""
    if not isinstance(table, xr.Dataset | xr.DataArray):
        raise DataError(f"table: expected an xarray DataArray or Dataset, came {type(table).__name__}.")
    spec = imputer.reader().spec  # reads the given model, which counts as fitted
    if not hasattr(imputer, "imputer_") or not hasattr(imputer, "codes_"):
        raise NotFittedError("table imputer: expected fit, on a part that fits into memory, before filling lazily.")
    array = (table.name,) if isinstance(table, xr.DataArray) else ()
    if isinstance(table, xr.DataArray):
        dataset, variables = table.to_dataset(name=_NUMBERS), (_NUMBERS,)
        dims, features = array_dimensions(dataset, table.dims, spec), spec.features
    else:
        dims, variables = dataset_dimensions(table, spec)
        dataset, features = table, variables
    if LEVEL in dataset.variables or LEVEL in dataset.dims:
        raise DataError(f"table: expected no {LEVEL!r}, which is a dimension of the result. Rename it.")
    roles = {
        "model": None, "time": list(dims.stamps) or [dims.time], "group": list(dims.groups), "features": features,
        "feature": dims.feature, "keep_samples": False,
    }  # fmt: skip
    with_roles = copy.copy(imputer).set_params(**imputer.effective_params() | roles)
    core = {dims.time, dims.feature}
    along = lambda name: set(dataset[name].dims) <= core and (dims.stamps or dims.time not in dataset[name].dims)
    like = dataset.drop_vars([n for n in dataset.variables if n in dataset.data_vars or not along(n)]).compute()
    places = {dim: dataset[dim].values if dim in dataset.coords else range(dataset.sizes[dim]) for dim in dims.groups}
    texts = {dim: [str(place) for place in of_dim] for dim, of_dim in places.items()}  # as the names of groups
    attrs = tuple(dataset[name].attrs for name in variables)
    filler = Filler(with_roles, like, dims, variables, attrs, array, texts)
    # What can be seen in one series of zeros is refused here.
    shape = [1] * len(filler.dims.groups) + [dataset.sizes[dim] for dim in filler.core]
    zeros = [np.zeros(shape, dataset[name].dtype) for name in filler.variables]
    reader, model = filler.imputer.reader(), filler.imputer.imputer_
    block = filler.block(zeros, [["0"]] * len(filler.texts))
    read = read_labelled(block, reader.spec, reader.time_options, reader.settings.units)
    n_new = int(read.alignment.inserted[0].sum())
    if n_new:
        raise DataError(
            f"{filler.dims.time}: expected times without gaps where a table is filled chunk by chunk, {n_new:,} are "
            "missing. Insert them before, as with table.resample(...).asfreq(), set missing_times='keep', or fill the "
            "table in memory."
        )
    panel = reader.prepared(read).model_panel
    if model is not None and panel is not None:
        check_clock(model, panel.clock)
        matched(panel, model.features_)
    check_distinct("groups", [" / ".join(parts) for parts in product(*filler.texts.values())])
    return filler, dataset

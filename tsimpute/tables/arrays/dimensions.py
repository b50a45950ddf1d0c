"""Which dimension of an xarray object is its time, features or groups: as the user names it, else as it looks."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.columns.column_names import FEATURE_NAMES, GROUP_NAMES
from tsimpute.tables.columns.time_names import COUNT_NAMES, TIME_NAMES, plain
from tsimpute.tables.roles.columns import ColumnSpec
from tsimpute.tables.time.calendar_columns import CALENDAR_NAMES
from tsimpute.tables.time.columns import looks_like_time

SENSOR_NAMES = (
    "station", "stationid", "site", "siteid", "location", "locationid", "sensor", "sensorid", "device", "deviceid",
    "detector", "node", "probe", "electrode", "lead", "buoy", "gauge", "meter",
)  # fmt: skip
RECORD_NAMES = (
    *(name for name in GROUP_NAMES if name not in SENSOR_NAMES), "sample", "batch", "case", "participant", "person",
    "window", "episode", "trial", "member", "ensemble", "realization",
)  # fmt: skip


@dataclass(frozen=True)
class Dimensions:
    """What the dimensions are."""

    time: Hashable  # along which the rows lie
    stamps: tuple[Hashable, ...]  # coordinates that say the time of each row; () = rows are steps
    groups: tuple[Hashable, ...]  # of which every place is one series
    # of a data array, the dimension of its features; None = it has one feature, or there is a data set.
    feature: Hashable | None = None


def array_dimensions(dataset: xr.Dataset, dims: Sequence[Hashable], spec: ColumnSpec) -> Dimensions:
    """Of a data array: ``dataset`` has its coordinates, ``dims`` its dimensions.

    Of ``spec``, ``time`` is a dimension or coordinates, ``feature`` and ``group`` are dimensions.

    Raises:
        ConfigError, DataError: a name of ``spec`` is absent, or it is unclear which dimension is what.
    """
    time, stamps = _time(dataset, spec.time)
    others = [dim for dim in dims if dim != time]
    groups = None if spec.group is None else [_one_of(others, dim, "group") for dim in spec.group]
    if spec.feature is not None:
        feature = _one_of([dim for dim in others if dim not in (groups or ())], spec.feature, "feature")
    else:
        candidates = [dim for dim in others if dim not in (groups or ())]
        is_named = lambda dim, names: plain(dim) in names or plain(dim).removesuffix("s") in names
        named = [dim for dim in candidates if is_named(dim, FEATURE_NAMES)]
        named = named or [dim for dim in candidates if is_named(dim, SENSOR_NAMES)]
        if len(named) > 1:
            raise DataError(f"feature: expected one dimension of features, found {_listed(named)}. Name it (feature).")
        if not named and len(candidates) == 1 and (groups is not None or not is_named(candidates[0], RECORD_NAMES)):
            named = candidates
        feature = named[0] if named else None
    rest = tuple(dim for dim in others if dim != feature)
    if groups is not None and set(groups) != set(rest):
        raise ConfigError(f"group: expected all dimensions but time and feature, {rest}, came {tuple(groups)}.")
    return Dimensions(time, stamps, rest, feature)


def dataset_dimensions(dataset: xr.Dataset, spec: ColumnSpec) -> tuple[Dimensions, tuple[Hashable, ...]]:
    """Of a data set, and the variables that are its features.

    These are the named ones, else all variables of numbers along time except parts of dates (hour, weekday) and bounds
    of cells.

    Raises:
        ConfigError, DataError: a name of ``spec`` is absent, the time is unclear, no variable is a feature, or features
            differ in their other dimensions.
    """
    if spec.feature is not None:
        raise ConfigError(f"feature: expected None for a data set, whose variables are features; came {spec.feature!r}")
    time, stamps = _time(dataset, spec.time)
    if spec.features is not None:
        names = [_one_of(list(dataset.data_vars), name, "features") for name in spec.features]
        for name in names:
            if time not in dataset[name].dims or dataset[name].dtype.kind not in "fiu":
                raise DataError(
                    f"{name}: expected numbers along {time!r}, came {dataset[name].dtype} along {dataset[name].dims}."
                )
    else:
        bounds = {attributes.get("bounds") for c in dataset.coords.values() for attributes in (c.attrs, c.encoding)}
        names = [name for name in dataset.data_vars if plain(name) not in CALENDAR_NAMES and name not in bounds]
        names = [name for name in names if time in dataset[name].dims and dataset[name].dtype.kind in "fiu"]
    if not names:
        raise DataError(
            f"table: expected at least one variable of numbers along {time!r}, found none in "
            f"{_listed(list(dataset.data_vars)) or 'no variables'}. Name the time (time)."
        )
    groups = tuple(dim for dim in dataset[names[0]].dims if dim != time)
    for name in names:
        dims = tuple(dim for dim in dataset[name].dims if dim != time)
        if set(dims) != set(groups):
            raise DataError(
                f"table: expected variables of the same dimensions beside {time!r}; {names[0]} has "
                f"{_listed(groups) or 'none'}, {name} has {_listed(dims) or 'none'}. Choose those that belong "
                "together (features); the others are passed through unchanged."
            )
    if spec.group is not None and set(spec.group) != set(groups):
        raise ConfigError(f"group: expected all dimensions but time, {groups}, came {tuple(spec.group)}.")
    return Dimensions(time, stamps, groups), tuple(names)


def _time(dataset: xr.Dataset, spec: Sequence[Hashable] | None) -> tuple[Hashable, tuple[Hashable, ...]]:
    if spec:
        known = [*dataset.sizes, *(name for name in dataset.coords if name not in dataset.sizes)]
        stamps: Sequence[Hashable] = [_one_of(known, name, "time") for name in spec]
        dim = stamps[0]
        if len(stamps) > 1 or dim not in dataset.sizes:
            along = {dataset[name].dims for name in stamps}
            if len(along) != 1 or len(next(iter(along))) != 1:
                listed = _listed(stamps)
                raise ConfigError(f"time: expected a dimension, or coordinates along one dimension, came {listed}.")
            dim = next(iter(along))[0]
        elif dim not in dataset.coords:
            stamps = _stamps(dataset, dim)
    else:
        dim = _detected_time(dataset)
        stamps = _stamps(dataset, dim)
    if isinstance(dataset.xindexes.get(dim), xr.indexes.PandasMultiIndex):
        raise DataError(
            f"time: the dimension {dim!r} is a stack of {_listed(dataset.xindexes[dim].index.names)}. "  # type: ignore[attr-defined]
            f"Take it apart: unstack({dim!r})."
        )
    if spec == ():
        return dim, ()
    if len(stamps) > 1 and not spec:
        raise DataError(
            f"time: expected one coordinate of times along {dim!r}, found {_listed(stamps)}. Name it (time)."
        )
    return dim, tuple(stamps)


def _detected_time(dataset: xr.Dataset) -> Hashable:
    """Where there are dates or times, or else where a name says so, or else the only dimension."""
    dims = list(dataset.sizes)
    dated = [dim for dim in dims if _dated(dataset, dim)]
    named = [dim for dim in dims if _says_time(dim) or _numbers(dataset, dim)]
    surely = [dim for dim in named if plain(dim) not in COUNT_NAMES]
    for candidates in ([dim for dim in dated if _says_time(dim)], dated, surely, named, dims):
        if len(candidates) == 1:
            return candidates[0]
    raise DataError(
        f"time: expected one dimension of times among {_listed(dims) or 'none'}, found "
        f"{_listed(dated or named) or 'none'}. Name it (time)."
    )


def _stamps(dataset: xr.Dataset, dim: Hashable) -> Sequence[Hashable]:
    return _dated(dataset, dim) or _numbers(dataset, dim)


def _dated(dataset: xr.Dataset, dim: Hashable) -> list[Hashable]:
    """Coordinates of dates or times along a dimension: its own, or else those named so, or else all."""
    dated = [name for name in _along(dataset, dim) if looks_like_time(column_of(dataset, name))]
    return [dim] if dim in dated else [name for name in dated if _says_time(name)] or dated


def column_of(dataset: xr.Dataset, name: Hashable) -> pd.Series:
    """A coordinate along one dimension, with its time zone where it has one."""
    index = dataset.xindexes.get(name)
    if isinstance(index, xr.indexes.PandasIndex) and not isinstance(index, xr.indexes.PandasMultiIndex):
        return pd.Series(index.to_pandas_index(), name=name)
    return pd.Series(np.asarray(dataset[name].values), name=name)


def _numbers(dataset: xr.Dataset, dim: Hashable) -> list[Hashable]:
    """Coordinates of numbers that count as times: named so, or the fractions that a dimension itself has."""
    numbers = [name for name in _along(dataset, dim) if dataset[name].dtype.kind in "fiu"]
    if dim in numbers and (_says_time(dim) or dataset[dim].dtype.kind == "f"):
        only = _says_time(dim) or len(dataset.sizes) == 1
        return [dim] if only else []
    return [name for name in numbers if name != dim and _says_time(name) and plain(name) not in CALENDAR_NAMES]


def _along(dataset: xr.Dataset, dim: Hashable) -> list[Hashable]:
    return [name for name, coordinate in dataset.coords.items() if coordinate.dims == (dim,)]


def _says_time(name: Hashable) -> bool:
    words = ("time", "date", "stamp")
    return plain(name) in (*TIME_NAMES, *COUNT_NAMES) or any(word in plain(name) for word in words)


def _one_of(known: Sequence[Hashable], name: Hashable, role: str) -> Hashable:
    if name not in known:
        raise ConfigError(f"{role}: expected one of {_listed(known) or 'none'}, came {name!r}.")
    return name


def _listed(names: Sequence[Hashable]) -> str:
    return ", ".join(map(str, names))

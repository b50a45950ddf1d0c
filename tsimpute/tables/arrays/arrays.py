"""NumPy arrays, masked arrays and dictionaries that hold one, as tables: read, and written back in kind."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from einops import rearrange

from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Feature
from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.clock.clock import RowAlignment, rows_as_steps
from tsimpute.tables.frames.frames import TimeOptions
from tsimpute.tables.frames.table import Edits, Entries, Table, features_text
from tsimpute.tables.roles.columns import ColumnSpec, check_units, unit_of
from tsimpute.tables.text.numbers import split_unit

SHAPES = "(steps,), (steps, features) or (records, steps, features)"
EXACT = 2**53  # Whole numbers up to it are the same as float64


@dataclass(frozen=True, eq=False)
class ArrayTable(Table):
    """An array of numbers, or a dictionary that holds one as "X"."""

    source: Any  # the array or the dictionary
    array: np.ndarray  # (T,), (T, K) or (n, T, K); n records, T steps, K features
    panel: Panel  # one series per record
    notes: tuple[str, ...] = ()  # what was detected, a sentence each
    emptied: np.ndarray | None = None  # (n, T, K) bool, numbers that are written as empty where they are not filled

    @property
    def understood(self) -> list[tuple[str, str]]:
        n, length, _ = _as_cube(self.array).shape
        kind = "masked array" if isinstance(self.array, np.ma.MaskedArray) else "NumPy array"
        held = f'dictionary whose "X" is a {kind}' if isinstance(self.source, dict) else kind
        axes = {1: "steps", 2: "steps x features", 3: "records x steps x features"}[self.array.ndim]
        sizes = " x ".join(map(str, self.array.shape))
        texts = [
            ("layout", f"{held} of {axes}, {sizes}, {self.array.dtype}"),
            ("time", f"none, {length:,} steps"),
            ("groups", f"records: {n:,} series" if self.array.ndim == 3 else "none, one series"),
            ("features", features_text(self.panel)),
        ]
        others = [str(key) for key in self.source if key != "X"] if isinstance(self.source, dict) else []
        return [*texts, ("passed through", ", ".join(others))] if others else texts

    @property
    def decimals(self) -> list[int | None]:
        return [0 if self.array.dtype.kind in "iu" else None] * len(self.panel.features)

    @property
    def entries(self) -> Entries:
        return entries_of(
            numbers_of(_as_cube(self.array)), rows_as_steps(np.zeros(len(self.panel.series[0].times), int), 1)
        )

    def with_emptied(self, emptied: np.ndarray) -> ArrayTable:
        return replace(self, emptied=rows_of(emptied, _as_cube(self.array).shape))

    def apply(self, edits: Edits) -> Any:
        contents = self._shaped(edits.contents)
        if edits.are_texts:
            return contents
        cells = self._shaped(edits.cells)
        contents = np.where(cells, contents, np.nan)
        if self.emptied is not None:
            cells = cells | self.emptied.reshape(self.array.shape)
        filled = written(self.array, cells, contents)
        if not isinstance(self.source, dict):
            return filled
        out = copy.copy(self.source)
        out["X"] = filled
        return out

    def _shaped(self, of_series: Sequence[np.ndarray]) -> np.ndarray:
        """Per series (K, T) in the shape of the array."""
        return rearrange(np.stack(of_series), "n k t -> n t k").reshape(self.array.shape)


def read_array(
    table: Any,
    spec: ColumnSpec | None = None,
    time_options: TimeOptions | None = None,
    units: Mapping[str, str] | None = None,
) -> ArrayTable:
    """Reads an array, a masked array, or a dictionary with one as "X"; it is not changed.

    Args:
        table: floats or whole numbers of any width, of shape (T,), (T, K) or (n, T, K), in a dictionary (n, T, K). NaN
            and masked cells are missing. Steps are one apart; records are named by their numbers.
        spec: ``features`` may name the K features, which are "0", "1", ... otherwise.
        units: of features.

    Raises:
        DataError: another kind, dtype or shape, nothing in it, or a value that is infinite.
        ConfigError: settings that do not apply to arrays, or another number of names than of features.
    """
    spec, time_options = spec or ColumnSpec(), time_options or TimeOptions()
    settings = {name: getattr(spec, name) for name in ("time", "group", "feature", "value", "unit", "text")}
    settings |= {"categories": tuple(spec.categories)}
    settings |= {"timezone": time_options.timezone, "dayfirst": time_options.dayfirst}
    for name, value in settings.items():
        if value not in (None, ()):
            raise ConfigError(
                f"{name}: expected None for an array, which has steps and no names, came {value!r}. Leave it out, or "
                "give a pandas data frame or an xarray object."
            )
    time_options.check_without_times()
    array = _array_in(table)
    cube = numbers_of(_as_cube(array))
    if spec.features is not None and len(spec.features) != cube.shape[2]:
        raise ConfigError(f"features: expected {cube.shape[2]} names, came {len(spec.features)}.")
    features = features_of(range(cube.shape[2]) if spec.features is None else spec.features, units or {})
    check_finite(
        cube, lambda n, t, k: f"record {n}, step {t}, feature {features[k].name!r}" if array.ndim == 3
        else f"step {t}, feature {features[k].name!r}"
    )  # fmt: skip
    names = [str(n) for n in range(len(cube))] if array.ndim == 3 else [""]
    return ArrayTable(
        table,
        array,
        panel_of(
            cube, features, names, rows_as_steps(np.zeros(cube.shape[1], int), 1), time_options.unit_without_times
        ),
    )


def _array_in(table: Any) -> np.ndarray:
    name = "table"
    if isinstance(table, dict):
        name = 'table["X"]'
        if "X" not in table:
            keys = ", ".join(map(repr, table)) or "none"
            raise DataError(
                f'table: expected a dictionary with "X", floats of shape (records, steps, features) with NaN where '
                f"missing; came the keys {keys}. Of a dictionary of columns make a frame: pandas.DataFrame(...)."
            )
        table = table["X"]
    shapes = "(records, steps, features)" if name != "table" else SHAPES
    if not isinstance(table, np.ndarray):
        raise DataError(
            f"{name}: expected a NumPy array of shape {shapes}, came {type(table).__name__}. Convert it with "
            "numpy.asarray(..., dtype=float)."
        )
    if table.dtype.kind not in "fiu":
        raise DataError(
            f"{name}: expected floats or whole numbers, came dtype {table.dtype}. Convert it with .astype(float), NaN "
            "where nothing is."
        )
    if table.ndim not in (1, 2, 3) or (table.ndim != 3 and name != "table"):
        raise DataError(f"{name}: expected shape {shapes}, came {table.shape}.")
    if not table.size:
        raise DataError(f"{name}: expected one or more of each of {shapes}, came shape {table.shape}.")
    return table


def _as_cube(array: np.ndarray) -> np.ndarray:
    """(n, T, K)."""
    if array.ndim == 3:
        return array
    return array[None, :, None] if array.ndim == 1 else array[None]


def numbers_of(array: np.ndarray) -> np.ndarray:
    """float64 with NaN where nothing is; a copy."""
    with np.errstate(over="ignore"):  # long doubles beyond float64 become infinite and are refused as such
        values = np.array(np.ma.getdata(array), np.float64)
    values[np.ma.getmaskarray(array)] = np.nan
    return values


def check_finite(cube: np.ndarray, place: Callable[[int, int, int], str]) -> None:
    """Refuses infinite values, at a place in words, with a ``DataError``."""
    infinite = np.isinf(cube)
    if infinite.any():
        at = tuple(int(axis[0]) for axis in np.nonzero(infinite))
        raise DataError(
            f"table: expected finite numbers or NaN, {place(*at)} is {cube[at]} ({int(infinite.sum())} such). "
            "Correct it, or make it NaN."
        )


def features_of(
    names: Sequence[Any] | range, units: Mapping[str, str], known: Sequence[str] | None = None
) -> tuple[Feature, ...]:
    """Names as texts, and units: those given, else those known, else those in the names.

    A unit of a feature that is not there is refused with a ``ConfigError``.
    """
    texts = [str(name) for name in names]
    check_units(units, texts)
    units_of_table = known or [""] * len(texts)
    return tuple(
        Feature(t, unit_of(units, t, unit or split_unit(t)[1])) for t, unit in zip(texts, units_of_table, strict=True)
    )


def entries_of(cube: np.ndarray, alignment: RowAlignment) -> Entries:
    """The numbers of (n, R, K) rows, of those that stand for their time; all n series have the same times."""
    n, n_rows, n_features = cube.shape
    length = len(alignment.times[0])
    values = rearrange(np.where(alignment.used[:, None], cube, np.nan), "n r k -> (k n r)")
    first = np.repeat(length * np.arange(n_features * n), n_rows)
    return Entries(values, first + np.tile(alignment.step_of_row, n_features * n), n_features, (length,) * n)


def rows_of(flags: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """(n, R, K) what stands for the rows of ``entries_of``; ``shape`` is n, R, K."""
    n, n_rows, n_features = shape
    return rearrange(flags, "(k n r) -> n r k", k=n_features, n=n, r=n_rows)


def panel_of(
    cube: np.ndarray, features: tuple[Feature, ...], groups: Sequence[str], alignment: RowAlignment, unit: Any
) -> Panel:
    """One series per group of a cube (n, R, K), all of the same times; ``unit``: see ``Clock``."""
    times, labels = alignment.times[0], alignment.labels[0]
    cells = entries_of(cube, alignment).means()
    series = (Series(name, times, values, labels) for name, values in zip(groups, cells, strict=True))
    return Panel(features, tuple(series), Clock(unit, alignment.step))


def written(array: np.ndarray, where: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A copy of an array with ``values`` at ``where``, both of its shape; NaN = nothing.

    Whole numbers get rounded values. The dtype stays where it holds the values; otherwise it becomes float64. In a
    masked array nothing is a mask, and a value lifts it.

    Raises:
        DataError: whole numbers beyond 2**53 would have to become float64, which cannot hold them.
    """
    if isinstance(array, np.ma.MaskedArray):
        empty = where & np.isnan(values)
        data = written(np.ma.getdata(array), where & ~empty, values)
        mask = (np.ma.getmaskarray(array) & ~where) | empty
        lasting = mask.any() or np.ma.getmask(array) is not np.ma.nomask
        out = np.ma.MaskedArray(data, mask if lasting else np.ma.nomask, hard_mask=array.hardmask)
        with np.errstate(over="ignore"):  # of masked arrays of half floats, whose 1e20 is infinite in them
            out.fill_value = array.fill_value
        return out
    new = values[where]
    kind = array.dtype
    if kind.kind == "f":
        holds = not (np.abs(new) > np.finfo(kind).max).any()
    elif kind.kind in "iu":
        limits, whole = np.iinfo(kind), np.rint(new)
        holds = ((whole >= float(limits.min)) & (whole < float(limits.max) + 1)).all()
    else:
        holds = not new.size
    kind = kind if holds else np.dtype(np.float64)
    if kind != array.dtype and array.dtype.kind in "iu":
        unchanged = array[~where]
        if unchanged.size and max(int(unchanged.max()), -int(unchanged.min())) > EXACT:
            raise DataError(
                f"table: {int(np.isnan(new).sum())} cells of whole numbers ({array.dtype}) are to be left empty, and "
                "float64, which has a sign for empty, cannot hold numbers beyond 2**53 to the bit. Fill all cells."
            )
    out = array.astype(kind)
    out[where] = np.rint(new) if array.dtype.kind in "iu" else new
    return out

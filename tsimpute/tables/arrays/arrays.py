"""NumPy arrays, masked arrays and dictionaries that hold one, as tables: read, and given back filled in kind."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from einops import rearrange

from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Feature
from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.arrays.without_rows import WithoutRows
from tsimpute.tables.clock.clock import Placement
from tsimpute.tables.columns.units import check_names, unit_of
from tsimpute.tables.frames.averaging import LeftOut
from tsimpute.tables.frames.frames import Clockwork
from tsimpute.tables.frames.panel_texts import features_text, words
from tsimpute.tables.roles.columns import Told
from tsimpute.tables.text.numbers import split_unit

SHAPES = "(steps,), (steps, features) or (records, steps, features)"
EXACT = 2**53
"""Whole numbers up to it are the same as float64."""


@dataclass(frozen=True, eq=False)
class ArrayTable(WithoutRows):
    """An array of numbers, or a dictionary that holds one as "X".

    Attributes:
        given: the array or the dictionary.
        array: (T,), (T, K) or (n, T, K); n records, T steps, K features.
        panel: one series per record.
        notes: what was found.
    """

    given: Any
    array: np.ndarray
    panel: Panel
    notes: tuple[str, ...] = ()

    @property
    def understood(self) -> list[tuple[str, str]]:
        n, length, _ = _as_cube(self.array).shape
        kind = "masked array" if isinstance(self.array, np.ma.MaskedArray) else "NumPy array"
        held = f'dictionary whose "X" is a {kind}' if isinstance(self.given, dict) else kind
        axes = {1: "steps", 2: "steps x features", 3: "records x steps x features"}[self.array.ndim]
        sizes = " x ".join(map(str, self.array.shape))
        said = [
            ("layout", f"{held} of {axes}, {sizes}, {self.array.dtype}"),
            ("time", f"none, {length:,} steps"),
            ("groups", f"records: {n:,} series" if self.array.ndim == 3 else "none, one series"),
            ("features", features_text(self.panel)),
        ]
        others = [str(key) for key in self.given if key != "X"] if isinstance(self.given, dict) else []
        return [*said, ("carried along", ", ".join(others))] if others else said

    @property
    def warnings(self) -> tuple[str, ...]:
        return ()

    @property
    def passed_through(self) -> tuple[str, ...]:
        return ()

    @property
    def n_added(self) -> int:
        return 0

    @property
    def layers(self) -> tuple[Panel, ...]:
        return (self.panel,)

    def averaged(self, out: LeftOut) -> ArrayTable:
        return self

    @property
    def decimals(self) -> list[int | None]:
        return [0 if self.array.dtype.kind in "iu" else None] * len(self.panel.features)

    def completed(self, changed: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> Any:
        filled = written(self.array, self._shaped(changed), self._shaped(values))
        if not isinstance(self.given, dict):
            return filled
        out = copy.copy(self.given)
        out["X"] = filled
        return out

    def marked(self, changed: Sequence[np.ndarray], codes: Sequence[np.ndarray]) -> np.ndarray:
        return self._shaped(words(codes))

    def _shaped(self, of_series: Sequence[np.ndarray]) -> np.ndarray:
        """Per series (K, T) in the shape of the array."""
        return rearrange(np.stack(of_series), "n k t -> n t k").reshape(self.array.shape)


def read_array(
    table: Any,
    told: Told | None = None,
    clockwork: Clockwork | None = None,
    units: Mapping[str, str] | None = None,
) -> ArrayTable:
    """Understands an array, a masked array, or a dictionary with one as "X"; it is not changed.

    Args:
        table: floats or whole numbers of any width, of shape (T,), (T, K) or (n, T, K), in a dictionary (n, T, K). NaN
            and masked cells are missing. Steps are one apart; records are named by their numbers.
        told: ``features`` may name the K features, which are "0", "1", ... otherwise.
        units: of features.

    Raises:
        DataError: another kind, dtype or shape, nothing in it, or a value that is infinite.
        ConfigError: settings that an array has no use for, or names that are not as many as features.
    """
    told, clockwork = told or Told(), clockwork or Clockwork()
    _check_settings(told, clockwork)
    array = _array_in(table)
    cube = numbers_of(_as_cube(array))
    if told.features is not None and len(told.features) != cube.shape[2]:
        raise ConfigError(f"features: expected {cube.shape[2]} names, came {len(told.features)}.")
    features = features_of(range(cube.shape[2]) if told.features is None else told.features, units or {})
    check_finite(
        cube, lambda n, t, k: f"record {n}, step {t}, feature {features[k].name!r}" if array.ndim == 3
        else f"step {t}, feature {features[k].name!r}"
    )  # fmt: skip
    names = [str(n) for n in range(len(cube))] if array.ndim == 3 else [""]
    return ArrayTable(table, array, panel_of(cube, features, names, steps_only(cube.shape[1], ()), "steps"))


def _check_settings(told: Told, clockwork: Clockwork) -> None:
    given = {name: getattr(told, name) for name in ("time", "group", "feature", "value", "unit", "text")}
    given |= {"timezone": clockwork.timezone, "dayfirst": clockwork.dayfirst}
    for name, value in given.items():
        if value not in (None, ()):
            raise ConfigError(
                f"{name}: expected None for an array, which has steps and no names, came {value!r}. Leave it out, or "
                "give a pandas data frame or an xarray object."
            )
    clockwork.check_without_times()


def _array_in(table: Any) -> np.ndarray:
    """The array itself, its kind and shape checked."""
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
    """Refuses infinite values, at a place in words.

    Raises:
        DataError: there is one.
    """
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

    Raises:
        ConfigError: a unit is given of a feature that is not there.
    """
    texts = [str(name) for name in names]
    check_names(units, texts)
    own = known or [""] * len(texts)
    return tuple(Feature(t, unit_of(units, t, unit or split_unit(t)[1])) for t, unit in zip(texts, own, strict=True))


def steps_only(length: int, notes: tuple[str, ...]) -> Placement:
    """Rows that stand one step apart."""
    steps = np.arange(length)
    return Placement(
        steps, (steps.astype(np.float64),), (steps,), (steps,), (np.zeros(length, bool),), np.ones(length, bool), 1.0,
        notes,
    )  # fmt: skip


def panel_of(
    cube: np.ndarray, features: tuple[Feature, ...], groups: Sequence[str], placement: Placement, unit: Any
) -> Panel:
    """One series per group, all of the same times.

    Args:
        cube: (n, R, K) float64, R rows as ``placement`` puts them.
        unit: see ``Clock``.
    """
    cells = _cells(cube, placement)
    times, labels = placement.times[0], placement.labels[0]
    series = (Series(name, times, values, labels) for name, values in zip(groups, cells, strict=True))
    return Panel(features, tuple(series), Clock(unit, placement.step))


def _cells(cube: np.ndarray, placement: Placement) -> np.ndarray:
    """(n, K, T): the value of the row that stands for a time, or the mean of all rows of it."""
    kept = np.flatnonzero(placement.kept)
    step, by_row = placement.step_of_row[kept], rearrange(cube, "n r k -> r n k")[kept]
    cells = np.full((len(placement.times[0]), *by_row.shape[1:]), np.nan)
    if len(np.unique(step)) == len(step):
        cells[step] = by_row
    else:
        total, count, there = np.zeros(cells.shape), np.zeros(cells.shape), ~np.isnan(by_row)
        np.add.at(total, step, np.where(there, by_row, 0.0))
        np.add.at(count, step, there)
        np.divide(total, count, out=cells, where=count > 0)
    return np.ascontiguousarray(rearrange(cells, "t n k -> n k t"))


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
    kind = array.dtype if _holds(array.dtype, new) else np.dtype(np.float64)
    if kind != array.dtype and array.dtype.kind in "iu":
        kept = array[~where]
        if kept.size and max(int(kept.max()), -int(kept.min())) > EXACT:
            raise DataError(
                f"table: {int(np.isnan(new).sum())} cells of whole numbers ({array.dtype}) are to be left empty, and "
                "float64, which has a sign for empty, cannot hold numbers beyond 2**53 to the bit. Fill all cells."
            )
    out = array.astype(kind)
    out[where] = np.rint(new) if array.dtype.kind in "iu" else new
    return out


def _holds(kind: np.dtype, values: np.ndarray) -> bool:
    if kind.kind == "f":
        return not (np.abs(values) > np.finfo(kind).max).any()
    if kind.kind not in "iu":
        return not values.size
    limits, whole = np.iinfo(kind), np.rint(values)
    return bool(((whole >= float(limits.min)) & (whole < float(limits.max) + 1)).all())

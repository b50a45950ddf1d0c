"""Completed records as tables people file: a long pandas frame of quantiles, or an xarray data set of all samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tsimpute.core.windows import Samples, Windows
from tsimpute.errors import ConfigError, DataError
from tsimpute.system.files import atomic_write
from tsimpute.tables.sources.files import need

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

OBSERVED, IMPUTED, EMPTY = "observed", "imputed", "left empty"


def to_frame(samples: Samples, windows: Windows, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> pd.DataFrame:
    """One row per record, time and feature, in that order.

    Columns: record, time, feature, unit, provenance ("observed", "imputed" or "left empty") and a column per quantile,
    named as ``q0.05``. At an observed cell every quantile is the observed value, bit for bit. The interval from q0.05
    to q0.95 is the one that ``coverage_90`` scores; see ``Samples.quantile``.

    Example:
        >>> import tsimpute as ti
        >>> windows = ti.load_windows("synthetic", n_records=2)
        >>> samples = ti.LinearImputer().fit(windows).impute(windows, n_samples=1)
        >>> to_frame(samples, windows, quantiles=(0.5,)).columns.tolist()
        ['record', 'time', 'feature', 'unit', 'provenance', 'q0.5']

    Raises:
        DataError: ``samples`` and ``windows`` are of different records or features.
    """
    import pandas as pd

    _check_same(samples, windows)
    _check_levels(quantiles)
    n, k, length = windows.values.shape
    by_cell = samples.quantile(quantiles).transpose(0, 1, 3, 2).reshape(len(quantiles), -1)
    columns = {
        "record": np.repeat(np.array(windows.record_ids, dtype=object), length * k),
        "time": np.repeat(windows.times.reshape(-1), k),
        "feature": np.tile(np.array([f.name for f in windows.features], dtype=object), n * length),
        "unit": np.tile(np.array([f.unit for f in windows.features], dtype=object), n * length),
        "provenance": _provenance(samples).transpose(0, 2, 1).reshape(-1),
    }
    return pd.DataFrame(columns | {f"q{level:g}": by_cell[i] for i, level in enumerate(quantiles)})


def to_dataset(samples: Samples, windows: Windows) -> xr.Dataset:
    """All draws: ``values`` (sample, record, feature, step) and ``provenance``, with names, units and times.

    Example:
        >>> import tsimpute as ti
        >>> windows = ti.load_windows("synthetic", n_records=2)
        >>> samples = ti.LinearImputer().fit(windows).impute(windows, n_samples=3)
        >>> dict(to_dataset(samples, windows).sizes)
        {'sample': 3, 'record': 2, 'feature': 8, 'step': 24}

    Raises:
        DataError: ``samples`` and ``windows`` are of different records or features.
    """
    import xarray as xr

    _check_same(samples, windows)
    cells = ("record", "feature", "step")
    return xr.Dataset(
        {"values": (("sample", *cells), samples.values), "provenance": (cells, _provenance(samples).astype(str))},
        coords=_coordinates(windows),
    )


def write_table(
    samples: Samples | Iterable[Samples],
    windows: Windows,
    path: Path,
    quantiles: Sequence[float] = (0.05, 0.5, 0.95),
    force: bool = False,
) -> None:
    """Writes ``path`` whole or not at all: ``.csv`` holds ``to_frame``, ``.nc`` holds ``to_dataset``.

    Args:
        samples: of all records, or of one or a few after another, as ``GenerativeImputer.impute_records`` gives them;
            then no more than these are in memory.
        windows: the same records.

    Raises:
        ConfigError: another ending, or the file exists and ``force`` is not given.
        DataError: the samples are not those of the records, in their order, or some are lacking.
        MissingExtraError: ``.nc`` needs the extra ``netcdf``.
    """
    check_output(path, force, quantiles)
    parts = _with_windows([samples] if isinstance(samples, Samples) else samples, windows)

    def write_csv(partial: Path) -> None:
        for first, part, records in parts:
            frame = to_frame(part, records, quantiles)
            frame.to_csv(partial, index=False, mode="a" if first else "w", header=first == 0)

    atomic_write(path, write_csv if path.suffix == ".csv" else lambda partial: _write_netcdf(parts, windows, partial))


def check_output(path: Path, force: bool, quantiles: Sequence[float]) -> None:
    """Refuses, before any work is done, what ``write_table`` would refuse.

    Raises:
        ConfigError: an ending other than ``.csv`` and ``.nc``, no quantile or one outside [0, 1], or the file exists
            and ``force`` is not given.
        MissingExtraError: ``.nc`` needs the extra ``netcdf``.
    """
    _check_levels(quantiles)
    if path.suffix not in (".csv", ".nc"):
        raise ConfigError(f"output: expected a name that ends in .csv or .nc, came {path}.")
    if path.suffix == ".nc":
        need("h5netcdf", "h5py")
    if path.exists() and not force:
        raise ConfigError(f"output: {path} exists. Choose another name, or overwrite it with force=True.")


def _with_windows(parts: Iterable[Samples], windows: Windows) -> Iterator[tuple[int, Samples, Windows]]:
    """The place of each part's first record, the part, and its records."""
    done = 0
    for samples in parts:
        yield done, samples, windows.select(slice(done, done + len(samples.record_ids)))
        done += len(samples.record_ids)
    if done != len(windows):
        raise DataError(f"table: expected samples of {len(windows)} records, came {done}.")


def _write_netcdf(parts: Iterable[tuple[int, Samples, Windows]], windows: Windows, path: Path) -> None:
    """The coordinates by xarray, then part by part what ``to_dataset`` makes of it."""
    import h5netcdf
    import h5py
    import xarray as xr

    xr.Dataset(coords=_coordinates(windows)).to_netcdf(path, engine="h5netcdf")
    with h5netcdf.File(path, "a") as file:
        for first, samples, records in parts:
            for name, part in to_dataset(samples, records).data_vars.items():
                if first == 0:
                    file.dimensions.setdefault("sample", samples.n_samples)
                    file.create_variable(name, part.dims, h5py.string_dtype() if part.dtype.kind == "U" else part.dtype)
                at = tuple(slice(first, first + len(records)) if dim == "record" else slice(None) for dim in part.dims)
                file.variables[name][at] = part.values


def _coordinates(windows: Windows) -> dict[str, Any]:
    return {
        "record": list(windows.record_ids),
        "feature": [f.name for f in windows.features],
        "unit": ("feature", [f.unit for f in windows.features]),
        "time": (("record", "step"), windows.times),
    }


def _provenance(samples: Samples) -> np.ndarray:
    """(N, K, L) words."""
    filled = np.isfinite(samples.values[0])
    return np.where(samples.visible, OBSERVED, np.where(filled, IMPUTED, EMPTY)).astype(object)


def _check_levels(quantiles: Sequence[float]) -> None:
    if not quantiles or not all(0 <= level <= 1 for level in quantiles):
        raise ConfigError(f"quantiles: expected one or more levels in [0, 1], came {list(quantiles) or 'none'}.")


def _check_same(samples: Samples, windows: Windows) -> None:
    if samples.record_ids != windows.record_ids or samples.features != windows.features:
        raise DataError("table: expected samples of the given records and features, in the same order; they differ.")

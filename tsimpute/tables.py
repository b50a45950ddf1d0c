"""Completed records as tables people file: a long pandas frame of quantiles, or an xarray data set of all samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tsimpute.checkpoints import write_whole
from tsimpute.containers import Samples, Windows
from tsimpute.errors import ConfigError, DataError, MissingExtraError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

OBSERVED, IMPUTED, EMPTY = "observed", "imputed", "left empty"


def to_frame(samples: Samples, windows: Windows, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> pd.DataFrame:
    """One row per record, time and feature, in that order.

    Columns: record, time, feature, unit, provenance ("observed", "imputed" or "left empty") and a column per quantile,
    named as ``q0.05``. At an observed cell every quantile is the observed value, bit for bit.

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

    Raises:
        DataError: ``samples`` and ``windows`` are of different records or features.
    """
    import xarray as xr

    _check_same(samples, windows)
    cells = ("record", "feature", "step")
    return xr.Dataset(
        {"values": (("sample", *cells), samples.values), "provenance": (cells, _provenance(samples).astype(str))},
        coords={
            "record": list(windows.record_ids),
            "feature": [f.name for f in windows.features],
            "unit": ("feature", [f.unit for f in windows.features]),
            "time": (("record", "step"), windows.times),
        },
    )


def write_table(
    samples: Samples, windows: Windows, path: Path, quantiles: Sequence[float] = (0.05, 0.5, 0.95), force: bool = False
) -> None:
    """Writes ``path`` whole or not at all: ``.csv`` holds ``to_frame``, ``.nc`` holds ``to_dataset``.

    Raises:
        ConfigError: another ending, or the file exists and ``force`` is not given.
        MissingExtraError: ``.nc`` needs the extra ``netcdf``.
    """
    check_output(path, force, quantiles)
    if path.suffix == ".csv":
        frame = to_frame(samples, windows, quantiles)
        write_whole(path, lambda partial: frame.to_csv(partial, index=False))
    else:
        _write_netcdf(to_dataset(samples, windows), path)


def check_output(path: Path, force: bool, quantiles: Sequence[float]) -> None:
    """Refuses, before any work is done, what ``write_table`` would refuse.

    Raises:
        ConfigError: an ending other than ``.csv`` and ``.nc``, no quantile or one outside [0, 1], or the file exists
            and ``force`` is not given.
    """
    _check_levels(quantiles)
    if path.suffix not in (".csv", ".nc"):
        raise ConfigError(f"output: expected a name that ends in .csv or .nc, came {path}.")
    if path.exists() and not force:
        raise ConfigError(f"output: {path} exists. Choose another name, or say --force true to overwrite it.")


def _write_netcdf(dataset: xr.Dataset, path: Path) -> None:
    try:
        import h5netcdf  # noqa: F401 - xarray's engine
    except ImportError as error:
        raise MissingExtraError("writing .nc needs h5netcdf: pip install h5netcdf h5py, or write .csv.") from error
    write_whole(path, lambda partial: dataset.to_netcdf(partial, engine="h5netcdf"))


def _provenance(samples: Samples) -> np.ndarray:
    """(N, K, L) words."""
    filled = np.isfinite(samples.values[0])
    return np.where(samples.shown, OBSERVED, np.where(filled, IMPUTED, EMPTY)).astype(object)


def _check_levels(quantiles: Sequence[float]) -> None:
    if not quantiles or not all(0 <= level <= 1 for level in quantiles):
        raise ConfigError(f"quantiles: expected one or more levels in [0, 1], came {list(quantiles) or 'none'}.")


def _check_same(samples: Samples, windows: Windows) -> None:
    if samples.record_ids != windows.record_ids or samples.features != windows.features:
        raise DataError("table: expected samples of the given records and features, in the same order; they differ.")

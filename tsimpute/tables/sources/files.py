"""Tables in memory of any kind, and files by their ending: read, and written back filled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.errors import ConfigError, DataError, MissingExtraError
from tsimpute.system.files import atomic_write, atomic_write_folder
from tsimpute.tables.frames.frames import TimeOptions, read_frame
from tsimpute.tables.frames.table import Table
from tsimpute.tables.roles.columns import ColumnSpec
from tsimpute.tables.sources.text_tables import FilledText, read_text_table, understood_folder
from tsimpute.tables.text.folders import is_archive, read_folder, unpacked

TEXT = (".csv", ".tsv", ".psv", ".txt", ".tab", ".dat", ".asc", ".csv.gz", ".tsv.gz", ".psv.gz", ".txt.gz")
FRAMES = (".parquet", ".pq")
ARRAYS = (".nc", ".zarr")
KINDS = (TEXT, FRAMES, ARRAYS)
_CLASSIC = {b"CDF\x01": "NETCDF3_CLASSIC", b"CDF\x02": "NETCDF3_64BIT"}
"""Formats of classic NetCDF by the first bytes of a file."""


def read_table(
    table: Any,
    spec: ColumnSpec | None = None,
    time_options: TimeOptions | None = None,
    units: Mapping[str, str] | None = None,
) -> Table:
    """Understands a table; it is not changed.

    Args:
        table: a pandas data frame, an xarray DataArray or Dataset, a NumPy array or masked array, or a dictionary with
            an array "X".
        spec: what is known of its columns.
        time_options: how its times are read.
        units: of features, where the table does not tell them.

    Raises:
        DataError, ConfigError: see ``read_frame``, ``read_array``, ``read_labelled``; or it is no known kind of table.
    """
    if isinstance(table, pd.DataFrame):
        return read_frame(table, spec, time_options, units)
    if isinstance(table, np.ndarray | dict | list | tuple):
        from tsimpute.tables.arrays.arrays import read_array

        return read_array(table, spec, time_options, units)
    import xarray as xr

    if isinstance(table, xr.DataArray | xr.Dataset):
        from tsimpute.tables.arrays.labelled import read_labelled

        return read_labelled(table, spec, time_options, units)
    way, came = "", type(table).__name__
    if isinstance(table, pd.Series):
        way = " Make a frame of it: series.to_frame()."
    elif isinstance(table, str | Path):
        way = " Fill a file with tsimpute.fill_file, or read it first, as with pandas.read_csv."
    elif came != "type" and hasattr(table, "to_pandas"):  # of polars, pyarrow and others
        way, came = " Convert it with table.to_pandas().", f"{type(table).__module__.partition('.')[0]}.{came}"
    raise DataError(
        "table: expected a pandas data frame, an xarray DataArray or Dataset, a NumPy array or a dictionary with an "
        f'array "X", came {came}.{way}'
    )


@dataclass(frozen=True)
class TextForm:
    """How a delimited text file is written; None where it is to be detected. See ``read_text_table``."""

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    missing_marks: Collection[str] = ()


def is_table(path: Path) -> bool:
    return ending(path) in sum(KINDS, ())


def ending(path: Path) -> str:
    """The ending that says what a file is, in small letters."""
    name = path.name.lower()
    return next(
        (e for kind in KINDS for e in sorted(kind, key=len, reverse=True) if name.endswith(e)), path.suffix.lower()
    )


def read_file(
    path: Path,
    spec: ColumnSpec | None = None,
    time_options: TimeOptions | None = None,
    units: Mapping[str, str] | None = None,
    form: TextForm | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Table:
    """Understands a file; ``progress`` is called with the number of files of a folder that are read, and of all.

    Raises:
        DataError: there is no such file, it is damaged, or no table.
        ConfigError: its ending is not known.
        MissingExtraError: an optional package is needed to read it.
    """
    if not path.exists():
        raise DataError(f"{path}: expected a file, there is none.")
    kind, form = ending(path), form or TextForm()
    settings = {"delimiter": form.delimiter, "decimal": form.decimal, "encoding": form.encoding}
    if is_folder_of_files(path):
        with unpacked(path, TEXT) if is_archive(path) else nullcontext(path) as place:
            folder = read_folder(place, TEXT, progress=progress, **settings)
        return understood_folder(folder, spec, time_options, units, form.missing_marks)
    if kind in TEXT:
        return read_text_table(path, spec, time_options, units, missing_marks=form.missing_marks, **settings)
    if kind in FRAMES + ARRAYS:
        given = settings | {"missing_marks": ",".join(form.missing_marks) or None}
        for name, value in given.items():
            if value is not None:
                raise ConfigError(
                    f"{name}: expected a text file with it, came {value!r} for {path.name}, whose kind holds numbers "
                    "as such. Leave it out."
                )
        if kind in FRAMES:
            need("pyarrow")
        try:
            content = pd.read_parquet(path) if kind in FRAMES else _open_arrays(path)
        except (MissingExtraError, DataError):
            raise
        except Exception as error:  # whatever bytes of any kind make other libraries raise
            reason = " ".join(str(error).split())[:200]
            raise DataError(f"{path}: expected a {kind} file; it is damaged or of another kind ({reason}).") from error
        try:
            return read_table(content, spec, time_options, units)
        except DataError as error:
            raise DataError(f"{path.name}: {error}") from None
    raise ConfigError(
        f"{path}: expected a file that ends in {', '.join(sum(KINDS, ()))}; came {kind or 'no ending'!r}. Save the "
        "table as one of these: a sheet of a workbook as .csv."
    )


def is_folder_of_files(path: Path) -> bool:
    """Whether a path is a folder, or an archive of one, whose files are read as one table; a Zarr store is none."""
    return (path.is_dir() and ending(path) != ".zarr") or is_archive(path)


def check_ending(source: Path, out: Path) -> None:
    """Refuses an ``out`` that cannot hold what comes of ``source`` with a ``ConfigError``."""
    if is_folder_of_files(source):
        if any(ending(out) in kind for kind in KINDS):
            raise ConfigError(
                f"output: expected a name of a folder, as {source.name} is one; came {out.name}. Leave its ending out."
            )
        if source.resolve() in out.resolve().parents:
            raise ConfigError(
                f"output: expected a folder outside of {source}, whose files are all read; came {out}. Choose another."
            )
        return
    kind = next((kind for kind in KINDS if ending(source) in kind), None)
    if kind is not None and ending(out) not in kind:
        raise ConfigError(
            f"output: expected a name that ends in {', '.join(kind)}, as {source.name} does; came {out.name}."
        )


def write_object(filled: Any, path: Path, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
    """Writes what a table's ``apply`` gave, whole or not at all.

    ``progress`` is called with the number of files of a folder that are written, and of all.
    """
    if isinstance(filled, FilledText):
        filled.write(path, progress)
    elif isinstance(filled, pd.DataFrame):
        atomic_write(path, filled.to_parquet)
    elif ending(path) == ".zarr":
        atomic_write_folder(path, lambda folder: filled.drop_encoding().to_zarr(folder, mode="w"))
    else:
        stored = filled.copy(deep=False)
        for name in filled.variables:
            if not _fits(filled[name]):
                stored[name] = filled[name].drop_encoding()
        form = filled.encoding.get("format", "NETCDF4")
        engine: Any = _engine(form)
        atomic_write(path, lambda partial: stored.to_netcdf(partial, engine=engine, format=form))


def _engine(form: str) -> str:
    """The library that reads and writes a format of NetCDF; refuses where it is not installed."""
    if form == "NETCDF4":
        need("h5netcdf", "h5py")
        return "h5netcdf"
    need("scipy")
    return "scipy"


def _fits(variable: Any) -> bool:
    """Whether the whole numbers that a variable was packed in hold its values: those filled may lie beyond."""
    kind = np.dtype(variable.encoding.get("dtype") or variable.dtype)
    if kind.kind not in "iu" or variable.dtype.kind != "f" or not variable.size:
        return True
    scale, offset = (variable.encoding.get(name, default) for name, default in (("scale_factor", 1), ("add_offset", 0)))
    packed = np.rint((variable.values - offset) / scale)
    packed, limits = packed[np.isfinite(packed)], np.iinfo(kind)
    blank = [variable.encoding[name] for name in ("_FillValue", "missing_value") if name in variable.encoding]
    return bool((packed >= limits.min).all() and (packed <= limits.max).all() and not np.isin(packed, blank).any())


def _open_arrays(path: Path) -> Any:
    import xarray as xr

    if ending(path) == ".zarr":
        need("zarr")
        with xr.open_zarr(path) as store:
            return store.load()
    with path.open("rb") as file:
        magic = file.read(4)
    if magic == b"CDF\x05":
        raise DataError(
            f"{path}: expected NetCDF 4 or classic NetCDF, came the 64-bit data format (CDF-5). Convert it with: "
            "nccopy -k nc4 old.nc new.nc."
        )
    form = _CLASSIC.get(magic, "NETCDF4")
    with xr.open_dataset(path, engine=_engine(form)) as file:
        dataset = file.load()
    dataset.encoding["format"] = form
    return dataset


def need(*packages: str, install: str = "") -> None:
    """Refuses where an optional package is absent; ``install`` is the argument of pip, if not these names."""
    absent = [name for name in packages if find_spec(name) is None]
    if absent:
        wanted = install or " ".join(packages)
        raise MissingExtraError(f"{' and '.join(absent)}: expected to be installed; pip install {wanted}.")

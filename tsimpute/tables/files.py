"""Files of tables by their ending: delimited text, Parquet, NetCDF, Zarr; read, and written back filled."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.errors import ConfigError, DataError, MissingExtraError
from tsimpute.files import write_whole
from tsimpute.tables.frames import Clockwork
from tsimpute.tables.reading import Table, read_table
from tsimpute.tables.roles import Told
from tsimpute.tables.text_tables import FilledText, read_text_table

TEXT = (".csv", ".tsv", ".txt", ".tab", ".dat", ".asc", ".csv.gz", ".tsv.gz", ".txt.gz")
FRAMES = (".parquet", ".pq")
ARRAYS = (".nc", ".zarr")
KINDS = (TEXT, FRAMES, ARRAYS)


@dataclass(frozen=True)
class TextForm:
    """How a delimited text file is written, where it cannot be told; see ``read_text_table``."""

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    missing_marks: Collection[str] = ()


def ending(path: Path) -> str:
    """The ending that says what a file is, in small letters."""
    name = path.name.lower()
    return next(
        (e for kind in KINDS for e in sorted(kind, key=len, reverse=True) if name.endswith(e)), path.suffix.lower()
    )


def read_file(
    path: Path,
    told: Told | None = None,
    clockwork: Clockwork | None = None,
    units: Mapping[str, str] | None = None,
    form: TextForm | None = None,
) -> Table:
    """Understands a file.

    Raises:
        DataError: there is no such file, it is damaged, or no table.
        ConfigError: its ending is not known.
        MissingExtraError: an optional package is needed to read it.
    """
    if not path.exists():
        raise DataError(f"{path}: expected a file, there is none.")
    kind, form = ending(path), form or TextForm()
    if path.is_dir() and kind != ".zarr":
        raise DataError(f"{path}: expected a file, came a folder. Name the file in it.")
    if kind in TEXT:
        return read_text_table(
            path, told, clockwork, units, delimiter=form.delimiter, decimal=form.decimal, encoding=form.encoding,
            missing_marks=form.missing_marks,
        )  # fmt: skip
    if kind in FRAMES + ARRAYS:
        found = _opened(path, _open_frame if kind in FRAMES else _open_arrays)
        try:
            return read_table(found, told, clockwork, units)
        except DataError as error:
            raise DataError(f"{path.name}: {error}") from None
    raise ConfigError(
        f"{path}: expected a file that ends in {', '.join(sum(KINDS, ()))}; came {kind or 'no ending'!r}. Save the "
        "table as one of these: a sheet of a workbook as .csv."
    )


def check_ending(source: Path, out: Path) -> None:
    """Makes sure that ``out`` can hold what comes of ``source``.

    Raises:
        ConfigError: its ending is of another kind.
    """
    kind = next((kind for kind in KINDS if ending(source) in kind), None)
    if kind is not None and ending(out) not in kind:
        raise ConfigError(
            f"output: expected a name that ends in {', '.join(kind)}, as {source.name} does; came {out.name}."
        )


def write_object(filled: Any, path: Path) -> None:
    """Writes what a table's ``completed`` or ``marked`` gave, whole or not at all."""
    if isinstance(filled, FilledText):
        filled.write(path)
    elif isinstance(filled, pd.DataFrame):
        write_whole(path, filled.to_parquet)
    elif ending(path) == ".zarr":
        write_whole_folder(path, lambda folder: filled.drop_encoding().to_zarr(folder, mode="w"))
    else:
        need("h5netcdf", "h5py")
        stored = filled.copy(deep=False)
        for name in filled.variables:
            if not _fits(filled[name]):
                stored[name] = filled[name].drop_encoding()
        write_whole(path, lambda partial: stored.to_netcdf(partial, engine="h5netcdf"))


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


def write_whole_folder(path: Path, write: Callable[[Path], object]) -> None:
    """Calls ``write`` with a temporary folder beside ``path``, then puts it in its place."""
    partial, old = path.with_name(f".{path.name}.partial"), path.with_name(f".{path.name}.old")
    for rest in (partial, old):
        shutil.rmtree(rest, ignore_errors=True)
    try:
        write(partial)
        if path.exists():
            path.rename(old)
        try:
            partial.rename(path)
        except OSError:
            old.rename(path)
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if old.is_file():
            old.unlink()
        shutil.rmtree(old, ignore_errors=True)


def _open_frame(path: Path) -> Any:
    need("pyarrow")
    return pd.read_parquet(path)


def _open_arrays(path: Path) -> Any:
    import xarray as xr

    need(*(("zarr",) if ending(path) == ".zarr" else ("h5netcdf", "h5py")))
    with xr.open_zarr(path) if ending(path) == ".zarr" else xr.open_dataset(path, engine="h5netcdf") as found:
        return found.load()


def _opened(path: Path, read: Callable[[Path], Any]) -> Any:
    try:
        return read(path)
    except MissingExtraError:
        raise
    except Exception as error:  # whatever bytes of any kind make other libraries raise
        reason = " ".join(str(error).split())[:200]
        raise DataError(
            f"{path}: expected a {ending(path)} file; it is damaged or of another kind ({reason})."
        ) from error


def need(*packages: str, install: str = "") -> None:
    """Refuses where an optional package is absent; ``install`` is what pip is to be given, if not these names.

    Raises:
        MissingExtraError: one is.
    """
    absent = [name for name in packages if find_spec(name) is None]
    if absent:
        wanted = install or " ".join(packages)
        raise MissingExtraError(f"{' and '.join(absent)}: expected to be installed; pip install {wanted}.")

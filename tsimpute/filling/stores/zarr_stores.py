"""Zarr stores, filled block by block into new ones, on whatever Dask cluster there is."""

from __future__ import annotations

import hashlib
import pickle
import shutil
import tempfile
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import product
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.imputer.table_imputer import TableImputer
from tsimpute.filling.stores.lazy import LEVEL, PACKAGES, Filler, filler_of, put, unpacked
from tsimpute.system.files import write_whole, write_whole_folder
from tsimpute.system.terminal import Tell, silent
from tsimpute.tables.sources.files import check_ending, need

QUANTILES, CODES = "quantiles", "provenance"
_OF_WHOLE = ("chunks", "preferred_chunks", "shards")


def impute_zarr(
    source: Path,
    out: Path,
    imputer: TableImputer,
    *,
    chunks: Mapping[Hashable, int] | None = None,
    at_once: int = 32,
    force: bool = False,
    progress: Tell = silent,
    should_stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Fills a Zarr store into a new one, block by block of whole records, on the Dask cluster that is there.

    The new store is written whole or not at all; the same call again goes on where an interrupted one was. It holds
    all that the source holds, with attributes and encoding; a variable packed as whole numbers is stored as decoded,
    since what is filled may lie beyond them. Its groups "quantiles" and "provenance" are as of ``LazyImputation``.

    Example:
        >>> import tempfile
        >>> import pandas as pd
        >>> hours = pd.date_range("2024-01-01", periods=60, freq="h")
        >>> values = np.where(np.arange(240) % 5, np.arange(240.0) % 7.3, np.nan).reshape(2, 60, 2)
        >>> axes = {"station": [1, 2], "time": hours, "feature": ["a", "b"]}
        >>> cube = xr.DataArray(values, axes, ["station", "time", "feature"], "level")
        >>> imputer = TableImputer(effort="trial", n_samples=3, calibrate=False, missing_codes=[])
        >>> imputer = imputer.fit(cube[:1].to_dataset("feature"))  # a part that fits into memory
        >>> folder = tempfile.TemporaryDirectory()
        >>> source, out = Path(folder.name, "in.zarr"), Path(folder.name, "out.zarr")
        >>> _ = cube.to_dataset("feature").chunk(station=1).to_zarr(source, zarr_format=2)
        >>> impute_zarr(source, out, imputer)
        True
        >>> int(xr.open_zarr(out)["a"].isnull().sum().compute())
        0
        >>> folder.cleanup()

    Args:
        source, out: folders that all workers reach under these names.
        imputer: see ``impute_lazily``.
        chunks: records of a block along dimensions of groups, and then of a chunk of the new store; where they are not
            said, blocks are the source's chunks.
        at_once: blocks that are begun before progress is told and it is asked whether to stop.
        force: whether a store that is there is overwritten.
        progress: gets "imputing", blocks done and all blocks.

    Returns:
        Whether the store is there; False = it was asked to stop, and what is done is kept in a folder beside ``out``.

    Raises:
        ConfigError: ``out`` exists or is no name for a store, or ``chunks`` name what is no dimension of groups.
        Others: see ``impute_lazily``; all blocks done before stay done.
    """
    need("dask", "zarr", install=PACKAGES)
    from dask.base import compute
    from dask.delayed import delayed

    source, out = Path(source).absolute(), Path(out).absolute()
    _check_places(source, out, force)
    with _opened(source) as found:
        filler, dataset = filler_of(found, imputer)
        sizes = _block_sizes(filler, dataset, chunks or {})
        blocks = _blocks({dim: dataset.sizes[dim] for dim in sizes}, sizes)
        state = out.with_name(f".{out.name}.unfinished") / _identity(source, filler, sizes)
        if not (state / "begun").exists():
            shutil.rmtree(state, ignore_errors=True)
            _begin(state / "store", source, filler, sizes, chunks or {})
            write_whole(state / "begun", lambda partial: partial.touch())
    packed, left = pickle.dumps(filler.packed), [n for n in range(len(blocks)) if not (state / f"{n}.done").exists()]
    for first in range(0, len(left), at_once):
        progress("imputing", len(blocks) - len(left) + first, len(blocks))
        if should_stop():
            return False
        box = delayed(unpacked, pure=True)(packed)
        fill = delayed(_fill_block, pure=False)
        now = left[first : first + at_once]
        texts = [[filler.texts[dim][part] for dim, part in blocks[n].items()] for n in now]
        compute(*(fill(box, source, state, n, blocks[n], of_n) for n, of_n in zip(now, texts, strict=True)))
    progress("imputing", len(blocks), len(blocks))
    write_whole_folder(out, lambda folder: (state / "store").rename(folder))
    shutil.rmtree(state.parent, ignore_errors=True)
    return True


def _opened(source: Path, chunks: dict[Any, int] | None = None) -> xr.Dataset:
    import zarr

    try:
        group = zarr.open_group(source, mode="r")
        inner = [name for name in group if isinstance(group[name], zarr.Group)]
    except Exception as error:  # whatever files of any kind make other libraries raise
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{source}: expected a Zarr store; it is damaged or of another kind ({reason}).") from error
    if inner:
        raise DataError(f"{source}: expected a store without groups, it has {', '.join(inner)}. Fill one of them.")
    for name in (QUANTILES, CODES):
        if name in group:
            raise DataError(f"{source}: expected no variable {name!r}, which is a group of the result. Rename it.")
    about = group.metadata
    return xr.open_zarr(source, chunks=chunks, consolidated=about.consolidated_metadata is not None)


def _check_places(source: Path, out: Path, force: bool) -> None:
    if not source.is_dir():
        raise DataError(f"{source}: expected a Zarr store, there is none.")
    check_ending(source, out)
    if source.resolve() == out.resolve():
        raise ConfigError(f"output: expected a store other than the input, came {out} as both. Choose another.")
    if out.exists() and not force:
        raise ConfigError(f"output: {out} exists. Choose another name, or overwrite it (force).")


def _block_sizes(filler: Filler, dataset: xr.Dataset, chunks: Mapping[Hashable, int]) -> dict[Hashable, int]:
    """Records of a block by dimension of groups: as told, or as many as all variables' chunks divide."""
    for dim, size in chunks.items():
        if dim not in filler.dims.groups or size < 1:
            raise ConfigError(f"chunks: expected numbers from 1 of {filler.dims.groups}, came {dim!r}: {size}.")
    sizes = {}
    for dim in filler.dims.groups:
        own = [dataset[name].encoding["preferred_chunks"][dim] for name in filler.variables]
        sizes[dim] = chunks.get(dim, lcm(*own))
    return sizes


def _blocks(sizes: Mapping[Hashable, int], of_block: Mapping[Hashable, int]) -> list[dict[Hashable, slice]]:
    cuts = [[slice(a, min(a + of_block[dim], n)) for a in range(0, n, of_block[dim])] for dim, n in sizes.items()]
    return [dict(zip(sizes, parts, strict=True)) for parts in product(*cuts)]


def _identity(source: Path, filler: Filler, sizes: Mapping[Hashable, int]) -> str:
    """Of all that the result depends on: unfinished work is taken up only where it is the same."""
    files = sorted(path.stat().st_mtime_ns for path in source.rglob("*") if path.is_file())
    imputer, model = filler.imputer, filler.imputer.imputer_
    settings = {name: value for name, value in imputer.get_params().items() if name != "model"}
    said = [str(source), len(files), files[-1:], settings, imputer.calibration_, imputer.codes_, dict(sizes)]
    said += [imputer.kinds_]
    found = hashlib.blake2b(repr(said).encode(), digest_size=8)
    if model is not None:
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder, "model"))
            found.update(Path(folder, "model").read_bytes())
    return found.hexdigest()


def _begin(
    store: Path, source: Path, filler: Filler, sizes: Mapping[Hashable, int], chunks: Mapping[Hashable, int]
) -> None:
    """A store with all but the numbers to be filled."""
    import zarr

    form = zarr.open_group(source, mode="r").metadata.zarr_format
    with _opened(source, {}) as dataset:
        for at, group in ((0, None), (1, QUANTILES), (2, CODES)):
            template = put(dataset, filler, _blanks(dataset, filler, sizes, at), at)
            for name in filler.variables:
                variable, own = template[name], dataset[name]
                stored = dict(zip(own.dims, own.encoding["chunks"], strict=True)) | dict(chunks)
                found = [stored.get(dim, len(filler.levels)) for dim in variable.dims]
                variable.encoding = _encoding(variable) | {"chunks": found}
            template.to_zarr(store, group=group, mode="a", compute=False, zarr_format=form, consolidated=False)
        rest = dataset.drop_vars(filler.variables)
        rest.to_zarr(store, mode="r+", consolidated=False)
    with warnings.catch_warnings(action="ignore"):  # format 3 has no such part yet, and xarray expects it nevertheless
        zarr.consolidate_metadata(store)


def _blanks(dataset: xr.Dataset, filler: Filler, sizes: Mapping[Hashable, int], at: int) -> list[Any]:
    """Arrays like those that will be filled (0), their quantiles (1) or codes (2), in blocks."""
    import dask.array as da

    lead = {LEVEL: len(filler.levels)} if at == 1 else {}
    whole = lead | {dim: dataset.sizes[dim] for dim in filler.core}
    shape = [*(dataset.sizes[dim] for dim in filler.dims.groups), *whole.values()]
    kinds = [np.dtype(np.uint8) if at == 2 else dataset[name].dtype for name in filler.variables]
    return [da.zeros(shape, dtype=kind, chunks=(*sizes.values(), *whole.values())) for kind in kinds]


def _encoding(variable: xr.DataArray) -> dict[Hashable, Any]:
    found = {name: value for name, value in variable.encoding.items() if name not in _OF_WHOLE}
    packed = np.dtype(found.get("dtype", variable.dtype)) != variable.dtype
    return {} if packed else found


def _fill_block(
    box: Any, source: Path, state: Path, n: int, block: Mapping[Hashable, slice], labels: Sequence[Sequence[str]]
) -> None:
    """Reads, fills and writes one block, and then marks it as done."""
    filler: Filler = box[()]
    with _opened(source) as found:
        dataset = found[list(filler.variables)].isel(block).load()
        arrays = [dataset[name].variable.transpose(*filler.order).values for name in filler.variables]
        filled = filler(arrays, labels)
        for at, group in ((2, CODES), (1, QUANTILES), (0, None)):
            part = put(dataset, filler, filled[at::3], at).reset_coords(drop=True)
            region: dict[Any, slice] = {dim: block.get(dim, slice(0, size)) for dim, size in part.sizes.items()}
            part.to_zarr(state / "store", group=group, mode="r+", region=region, consolidated=False)
    write_whole(state / f"{n}.done", lambda partial: partial.touch())

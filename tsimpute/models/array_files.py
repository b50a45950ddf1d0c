"""A fitted peer as one file: named arrays and a header of plain values, read without running code from it."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tsimpute.errors import CheckpointError
from tsimpute.system.files import atomic_write

_FORMAT = "tsimpute peer"
_LAYOUT = 1
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, AttributeError, TypeError)
"""What numpy and json raise of a damaged file."""


def write_model(path: Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Writes a ``.npz`` file under any name, atomically."""
    text = json.dumps({"format": _FORMAT, "layout": _LAYOUT, **header}, ensure_ascii=False)

    def write(partial: Path) -> None:
        with partial.open("wb") as file:
            np.savez_compressed(file, header=np.array(text), **arrays)  # type: ignore[arg-type]

    atomic_write(path, write)


def read_model(path: Path, peer: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays that ``write_model`` wrote for the peer of that name.

    Raises:
        CheckpointError: the file is foreign, damaged, of another layout or of another peer.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        header = json.loads(str(arrays.pop("header")))
    except (*_UNREADABLE, zipfile.BadZipFile, zlib.error) as error:
        raise CheckpointError(f"{path}: expected a model written by save, cannot be read: {error}.") from error
    came = (header.get("format"), header.get("layout"), header.get("imputer"))
    if came != (_FORMAT, _LAYOUT, peer):
        raise CheckpointError(f"{path}: expected {(_FORMAT, _LAYOUT, peer)}, came {came}. Fit and save again.")
    return header, arrays

"""A file is written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Calls ``write`` with a temporary path beside ``path``, then puts the result in its place at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial{os.getpid()}")
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def remove_partial(path: Path) -> None:
    """Removes what killed processes left of unfinished versions of ``path``."""
    for partial in path.parent.glob(f".{path.name}.partial*"):
        partial.unlink(missing_ok=True)

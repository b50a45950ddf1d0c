"""A file is written whole or not at all, and a folder by one process at a time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tsimpute.errors import BusyError


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


@contextmanager
def alone(folder: Path | None, what: str = "") -> Iterator[None]:
    """Keeps other processes out of a folder that is worked in, until the end of the block or of this process.

    Args:
        folder: made where it is not there; None = nothing is written.
        what: is made there, for the message; "" = the folder.

    Raises:
        BusyError: another process is at work there.
    """
    if folder is None:
        yield
        return
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise BusyError(
            f"{what or folder}: expected to be alone here, another process is at work at it, or something in this one "
            "that was not closed. Wait for it, or name another place."
        ) from error
    try:
        yield
    finally:
        lock.release()

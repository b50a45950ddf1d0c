"""Files written whole or not at all, and folders in which one process works at a time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tsimpute.errors import BusyError


def atomic_write(path: Path, write: Callable[[Path], object]) -> None:
    """Calls ``write`` with a temporary path in the same folder, then replaces ``path`` at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial{os.getpid()}")
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def atomic_write_text(path: Path, text: str) -> None:
    """Writes a text as UTF-8, its line ends as they are, whole or not at all."""
    atomic_write(path, lambda partial: partial.write_text(text, encoding="utf-8", newline=""))


def remove_partial(path: Path) -> None:
    """Removes unfinished versions of ``path`` of killed processes."""
    for partial in path.parent.glob(f".{path.name}.partial*"):
        partial.unlink(missing_ok=True)


def atomic_write_folder(path: Path, write: Callable[[Path], object]) -> None:
    """Calls ``write`` with a temporary folder next to ``path``, then replaces ``path``."""
    partial, old = path.with_name(f".{path.name}.partial"), path.with_name(f".{path.name}.old")
    for leftover in (partial, old):
        shutil.rmtree(leftover, ignore_errors=True)
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
def exclusive_lock(folder: Path | None, what: str = "") -> Iterator[None]:
    """Keeps other processes out of a folder that is worked in, until the end of the block or of this process.

    Args:
        folder: created where it does not exist; None = nothing is written.
        what: the name of the result, for the message; "" = the folder.

    Raises:
        BusyError: another process holds the lock.
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

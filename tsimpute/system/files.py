"""Files written whole or not at all, folders in which one process works at a time, and places on this machine."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import platformdirs

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


def user_cache() -> Path:
    """This user's cache folder for tsimpute; it need not exist yet. ``XDG_CACHE_HOME`` counts on every platform."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base, "tsimpute")
    return Path(platformdirs.user_cache_dir("tsimpute", appauthor=False, opinion=False)).expanduser()


@cache
def packaged(*parts: str) -> Path:
    """A file that comes with the package, such as ``packaged("models", "physionet2012.md")``, as a file on the disk.

    Where the package is imported from a zip it is a copy, in a temporary folder until the process ends.
    """
    resource = resources.files("tsimpute").joinpath(*parts)
    if isinstance(resource, Path):
        return resource
    folder = Path(tempfile.mkdtemp(prefix="tsimpute-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / parts[-1]
    path.write_bytes(resource.read_bytes())
    return path


def packaged_names(ending: str, *folder: str) -> list[str]:
    """Names, without ``ending``, of the files in a folder of the package that end so."""
    names = [file.name for file in resources.files("tsimpute").joinpath(*folder).iterdir()]
    return sorted(name.removesuffix(ending) for name in names if name.endswith(ending))


@cache
def package_digest() -> str:
    """A digest of the source of this package: other code, another digest."""
    digest = hashlib.sha256()
    for name, content in sorted(_sources(resources.files("tsimpute"), "")):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


def _sources(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry, f"{name}{entry.name}/")
        elif entry.name.endswith((".py", ".c")):
            yield f"{name}{entry.name}", entry.read_bytes()

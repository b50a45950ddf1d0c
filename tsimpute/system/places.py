"""Folders on this machine: the user's cache, and the files that are part of the package."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path

import platformdirs


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

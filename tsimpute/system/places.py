"""Where on this machine the package keeps files of its own, and where those are that come with it."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path


def user_cache() -> Path:
    """This user's cache folder for tsimpute, where the platform keeps such; it need not exist yet."""
    home = Path.home()
    if os.environ.get("XDG_CACHE_HOME"):
        base = Path(os.environ["XDG_CACHE_HOME"])
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        base = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    return base / "tsimpute"


@cache
def packaged(*parts: str) -> Path:
    """A file that comes with the package, such as ``packaged("models", "physionet2012.md")``, as a file on the disk.

    Where the package is imported from a zip it is a copy, in a temporary folder until the process ends.
    """
    found = resources.files("tsimpute").joinpath(*parts)
    if isinstance(found, Path):
        return found
    folder = Path(tempfile.mkdtemp(prefix="tsimpute-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / parts[-1]
    path.write_bytes(found.read_bytes())
    return path


def packaged_names(ending: str, *folder: str) -> list[str]:
    """Names, without ``ending``, of the files in a folder of the package that end so."""
    names = [file.name for file in resources.files("tsimpute").joinpath(*folder).iterdir()]
    return sorted(name.removesuffix(ending) for name in names if name.endswith(ending))

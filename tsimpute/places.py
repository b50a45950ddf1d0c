"""Where on this machine the package keeps files of its own."""

from __future__ import annotations

import os
import sys
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

"""Locates and downloads the raw files of a data set: a folder, TSIMPUTE_DATA, or the user cache."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from tsimpute.config.registry import make
from tsimpute.errors import ConfigError, DataError, SourceError
from tsimpute.system.places import user_cache

VARIABLE = "TSIMPUTE_DATA"


@runtime_checkable
class FileBased(Protocol):
    """The methods of a data set of files, next to ``load``."""

    def locate(self, root: Path) -> Path:
        """Where the files are under ``root``.

        Raises:
            SourceError: nowhere; the message lists what was looked for and how to get it.
        """
        ...

    def download(self, folder: Path) -> None:
        """Downloads the files into ``folder``, which exists and may hold parts from an interrupted call.

        Raises:
            SourceError: they cannot be had.
        """
        ...

    def verify(self, root: Path) -> None:
        """Accepts the files under ``root`` if they are the published ones.

        Raises:
            DataError: a file is another; both checksums are named.
        """
        ...


def find_root(name: str, root: Path | None = None) -> Path | None:
    """The folder to give to the data set's ``load``; None where the data set is generated.

    A given ``root`` is the only place looked at; otherwise TSIMPUTE_DATA comes first, then the user cache.

    Raises:
        SourceError: the files are in none of the places; each is listed, with the way to get them.
        ConfigError: there is no such data set.
    """
    adapter = make("datasets", name)
    if not isinstance(adapter, FileBased):
        return None
    if root is not None:
        adapter.locate(Path(root))
        return Path(root)
    given = os.environ.get(VARIABLE)
    places = ([Path(given)] if given else []) + [user_cache() / name]
    refusals = []
    for place in places:
        try:
            adapter.locate(place)
        except SourceError as error:
            refusals.append(str(error))
        else:
            return place
    named = f"{VARIABLE}={given}" if given else f"{VARIABLE} is not set"
    raise SourceError(
        f"{name}: raw files not found; looked in {', '.join(map(str, places))} ({named}, no root given). {refusals[-1]}"
    )


def fetch(name: str, cache: Path | None = None) -> Path:
    """Downloads a data set's published files into the cache, verifies them, and returns their folder.

    Files that exist are only verified. A folder appears under its final name only when it is complete.

    Args:
        name: a data set made of files.
        cache: the folder to hold ``<name>/``; None = the user cache.

    Raises:
        SourceError: the network or the server fails; what has arrived is kept for the next call where possible.
        DataError: what came, or what was there, is not the published content.
        ConfigError: the data set is generated, or there is no such data set.
    """
    adapter = make("datasets", name)
    if not isinstance(adapter, FileBased):
        raise ConfigError(f"{name} is generated: there is nothing to fetch, load it right away.")
    folder = (user_cache() if cache is None else Path(cache)) / name
    if folder.exists():
        adapter.verify(folder)
        return folder
    arriving = folder.with_name(f"{name}.part")
    arriving.mkdir(parents=True, exist_ok=True)
    files = cast(FileBased, adapter)
    files.download(arriving)
    try:
        files.verify(arriving)
    except (DataError, SourceError):
        shutil.rmtree(arriving)  # continuing from wrong content would never end
        raise
    os.replace(arriving, folder)
    return folder

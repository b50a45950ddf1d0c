"""Locates and downloads the raw files of a data set: a folder, TSIMPUTE_DATA, or the user cache."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from tsimpute.config.registry import make
from tsimpute.errors import ConfigError, DataError, SourceError
from tsimpute.system.files import user_cache

VARIABLE = "TSIMPUTE_DATA"
CHUNK = 1 << 18
TIMEOUT_SECONDS = 60

# Importing tsdb writes ~/.pypots and installs a log handler, and its downloader prints a progress bar. A process with a
# HOME of its own keeps all that away from the caller.
_TSDB_SCRIPT = """
import json, sys
name, folder, urls = json.load(sys.stdin)
import tsdb
from tsdb.database import DATABASE
DATABASE[name] = urls
tsdb.download_and_extract(name, folder)
"""


@runtime_checkable
class FileBased(Protocol):
    """The methods of a data set of files, next to ``load``."""

    def locate(self, root: Path) -> Path:
        """Where the files are under ``root``; a SourceError lists what was looked for and how to get it."""
        ...

    def download(self, folder: Path) -> None:
        """Downloads the files into ``folder``, which exists and may hold parts from an interrupted call.

        A SourceError says that they cannot be had.
        """
        ...

    def verify(self, root: Path) -> None:
        """Refuses files under ``root`` that are not the published ones, with a DataError that names both checksums."""
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


def sha256(content: bytes) -> str:
    """The checksum of a text file whose line ends are LF, whatever they are here."""
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


def check_sha256(path: Path, expected: str) -> None:
    """Refuses, with a DataError, a file whose content is not the published one."""
    digest = sha256(path.read_bytes())
    if digest != expected:
        raise DataError(
            f"{path}: expected the published file with sha256 {expected}, came one with {digest}. It is damaged or of "
            "another version: remove it and get it again."
        )


def download(urls: Iterable[str], target: Path) -> None:
    """Downloads the first available of several equal files to ``target`` atomically; an interrupted one is continued.

    Raises:
        SourceError: every server cannot be reached, refuses, or breaks off; the message lists each URL and the reason.
    """
    part, reasons = target.with_name(target.name + ".part"), []
    for url in urls:
        try:
            size, expected = _transfer(url, part)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            reasons.append(_unreachable(url, error))
            continue
        if expected is None or size == expected:
            os.replace(part, target)
            return
        reasons.append(_unreachable(url, f"the connection broke off after {size} of {expected} bytes"))
    raise SourceError(" ".join(reasons))


def _transfer(url: str, part: Path) -> tuple[int, int | None]:
    """Appends the rest of the file to ``part``; returns its size and the size that the server announced."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "tsimpute"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if not have or error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        error.close()
        part.unlink()  # nothing is left to send: a whole file that was not renamed, or another version's
        return _transfer(url, part)
    with response:
        continues = response.status == http.HTTPStatus.PARTIAL_CONTENT
        length = response.headers.get("Content-Length")
        with part.open("ab" if continues else "wb") as file:
            while chunk := response.read(CHUNK):
                file.write(chunk)
    return part.stat().st_size, int(length) + have * continues if length else None


def download_with_tsdb(name: str, urls: Sequence[str], folder: Path) -> None:
    """Downloads and unpacks files into the new ``folder`` with TSDB; a SourceError gives its last words."""
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {
            "HOME": home, "USERPROFILE": home, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": home,
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", _TSDB_SCRIPT], input=json.dumps([name, str(folder), list(urls)]), text=True,
            capture_output=True, env=environment, check=False,
        )  # fmt: skip
    if done.returncode:
        last_words = (done.stderr.strip() or "no message").splitlines()[-1]
        raise SourceError(_unreachable(", ".join(urls), f"tsdb: {last_words}"))


def _unreachable(url: str, reason: object) -> str:
    return (
        f"{url}: could not be downloaded ({reason}). Check the network and its proxy settings and try again; what has "
        "arrived is kept. Or get the file by other means and name its folder with --root or TSIMPUTE_DATA."
    )

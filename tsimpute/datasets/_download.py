"""Downloads: resumable single files, and TSDB's downloader in a separate process."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path

from tsimpute.errors import DataError, SourceError

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


def sha256(content: bytes) -> str:
    """The checksum of a text file whose line ends are LF, whatever they are here."""
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


def check_sha256(path: Path, expected: str) -> None:
    """Accepts the file if its content is the published one.

    Raises:
        DataError: it is another.
    """
    digest = sha256(path.read_bytes())
    if digest != expected:
        raise DataError(
            f"{path}: expected the published file with sha256 {expected}, came one with {digest}. It is damaged or of "
            "another version: remove it and get it again."
        )


def download_any(urls: Iterable[str], target: Path) -> None:
    """Downloads the first available of several equal files.

    Raises:
        SourceError: none can; the message lists each URL with its reason.
    """
    reasons = []
    for url in urls:
        try:
            download(url, target)
        except SourceError as error:
            reasons.append(str(error))
        else:
            return
    raise SourceError(" ".join(reasons))


def download(url: str, target: Path) -> None:
    """Downloads a file to ``target`` atomically; an interrupted download is continued.

    Raises:
        SourceError: the server cannot be reached, refuses, or breaks off.
    """
    part = target.with_name(target.name + ".part")
    try:
        size, expected = _transfer(url, part)
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise SourceError(_unreachable(url, error)) from error
    if expected is not None and size != expected:
        raise SourceError(_unreachable(url, f"the connection broke off after {size} of {expected} bytes"))
    os.replace(part, target)


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
    """Downloads and unpacks files into the new ``folder`` with TSDB's downloader.

    Raises:
        SourceError: TSDB failed; its last words are given.
    """
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

"""From the text files of PhysioNet 2012 to one table of rows, in one joined parse; a broken line is named."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tsimpute.errors import DataError

HEADER = b"Time,Parameter,Value"

_RECORD_NAME = re.compile(r"(\d+)\.txt")
_PATTERNS = {
    "time": re.compile(r"\d{1,3}:[0-5]\d"),
    "parameter": re.compile(r"[A-Za-z]\w*"),
    "value": re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?"),
}
_LINE = re.compile(",".join(pattern.pattern for pattern in _PATTERNS.values()))


@dataclass(frozen=True)
class RecordFile:
    """One stay's raw text: ``name`` for messages, ``record_id`` from the file name."""

    name: str
    record_id: str
    content: bytes


@dataclass(frozen=True, eq=False)
class Rows:
    """R rows of all files, in the order of the files and of their lines.

    Attributes:
        record: (R,) index into the list of files.
        minute: (R,) minutes since admission.
        parameter: (R,) index into ``parameters``.
        value: (R,) float64, finite; -1 still stands for unknown.
        parameters: the distinct names.
    """

    record: np.ndarray
    minute: np.ndarray
    parameter: np.ndarray
    value: np.ndarray
    parameters: tuple[str, ...]

    def where(self, keep: np.ndarray) -> Rows:
        """The rows at ``keep``, a bool mask or indices."""
        return Rows(self.record[keep], self.minute[keep], self.parameter[keep], self.value[keep], self.parameters)


def is_record_name(name: str) -> bool:
    """Whether a file is called like a stay: digits and ``.txt``."""
    return _RECORD_NAME.fullmatch(name) is not None


def read_files(path: Path) -> list[RecordFile]:
    """The stays of a folder or ``.tar.gz``, sorted by record number; nothing is unpacked to disk.

    Raises:
        DataError: the archive is truncated, damaged or no ``.tar.gz``; or it holds no stay, or one twice.
    """
    contents = _folder_contents(path) if path.is_dir() else _archive_contents(path)
    files = [
        RecordFile(name, match[1], content)
        for name, content in contents
        if (match := _RECORD_NAME.fullmatch(name.rsplit("/", 1)[-1]))
    ]
    if not files:
        raise DataError(f"{path}: expected files such as set-a/132539.txt, found none. Is this PhysioNet 2012's set-a?")
    return sorted(files, key=lambda file: int(file.record_id))


def join_rows(files: list[RecordFile]) -> Rows:
    """The rows of all files; an empty file contributes none.

    Raises:
        DataError: a file has another header, or a line is not ``HH:MM,Parameter,number``; file, line number and content
            are named.
    """
    import pandas as pd

    bodies = [_body(file) for file in files]
    n_rows = np.array([body.count(b"\n") + 1 if body else 0 for body in bodies])
    joined = b"\n".join(body for body in bodies if body)
    if not joined:
        none = np.empty(0, np.int64)
        return Rows(none, none, none, np.empty(0), ())
    try:
        table = pd.read_csv(
            io.BytesIO(joined), header=None, names=["time", "parameter", "value"], dtype="category", encoding="latin-1",
            quoting=3, keep_default_na=False, skip_blank_lines=False,
        )  # fmt: skip
    except ValueError as error:
        raise _broken_line(files) from error
    codes = {column: table[column].cat.codes.to_numpy() for column in table}
    texts = {column: [str(text) for text in table[column].cat.categories] for column in table}
    # Each distinct text is checked and converted once: exact to the last bit, and faster than each of 1.8 million.
    well_formed = all(all(map(pattern.fullmatch, texts[column])) for column, pattern in _PATTERNS.items())
    if len(table) != n_rows.sum() or not well_formed or any((code < 0).any() for code in codes.values()):
        raise _broken_line(files)
    return Rows(
        record=np.repeat(np.arange(len(files)), n_rows),
        minute=np.array([60 * int(text[:-3]) + int(text[-2:]) for text in texts["time"]])[codes["time"]],
        parameter=codes["parameter"].astype(np.int64),
        value=np.array([float(text) for text in texts["value"]])[codes["value"]],
        parameters=tuple(texts["parameter"]),
    )


def _folder_contents(path: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(path.iterdir()):
        if is_record_name(file.name):
            yield str(file), file.read_bytes()


def _archive_contents(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        # Unpacked whole (27 MB) before any member is read, so that gzip's checksum speaks first.
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(path.read_bytes()))) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:
                    yield member.name, content.read()
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise DataError(
            f"{path}: expected a whole .tar.gz archive of stays; it is truncated, damaged or another file ({error}). "
            "Get it again: `tsimpute fetch physionet2012`."
        ) from error


def _body(file: RecordFile) -> bytes:
    header, _, body = file.content.replace(b"\r\n", b"\n").rstrip().partition(b"\n")
    if file.content.strip() and header != HEADER:
        raise DataError(
            f"{file.name}, line 1: expected the header {HEADER.decode()!r}, came {header[:80].decode('latin-1')!r}."
        )
    return body


def _broken_line(files: list[RecordFile]) -> DataError:
    for file in files:
        lines = _body(file).decode("latin-1").split("\n")
        for number, line in enumerate(lines if lines != [""] else [], start=2):
            if not _LINE.fullmatch(line):
                return DataError(
                    f"{file.name}, line {number}: expected HH:MM,Parameter,number, came {line[:80]!r}. "
                    "Correct the line or get the file again."
                )
    return DataError("expected lines HH:MM,Parameter,number, but the files cannot be read as such.")

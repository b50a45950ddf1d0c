"""Delimited files in a test's folder: written, read, and written back."""

from __future__ import annotations

from pathlib import Path

from tsimpute.errors import DataError
from tsimpute.tables.text.delimited import read_delimited, write_delimited
from tsimpute.tables.text.rawtext import Delimited


def read(folder: Path, content: str | bytes, name: str = "in.csv", **settings: str | None) -> Delimited:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_delimited(path, **settings)


def written(folder: Path, table: Delimited, changes: dict | None = None, insertions: tuple = ()) -> bytes:
    write_delimited(table, folder / "out.csv", changes or {}, insertions)
    return (folder / "out.csv").read_bytes()


def outcome(folder: Path, content: str | bytes) -> Delimited | str:
    """The table, or the message of the refusal; nothing else may happen."""
    try:
        return read(folder, content)
    except DataError as error:
        return str(error)


def texts(table: Delimited) -> list[list[str]]:
    return [list(column) for column in table.columns]

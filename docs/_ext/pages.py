"""Writes the parts of the documentation that are taken from the package and its results."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import command_line
import evidence
import settings_tables

CELL_PATH = rb"/tmp/ipykernel_\d+/\d+\.py:\d+: "
"""Where a warning of a notebook came from: a file that nobody has."""


def write(docs: Path) -> None:
    """Fills ``docs/generated`` and copies the notebooks to ``docs/tutorials``."""
    root, generated = docs.parent, docs / "generated"
    for notebook in sorted((root / "notebooks").glob("*.ipynb")):
        _put(docs / "tutorials" / notebook.name, re.sub(CELL_PATH, b"", notebook.read_bytes()))
    for name, text in _texts(root):
        _put(generated / name, text.encode())
    for source, name in evidence.pictures(root):
        target = generated / "pictures" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def _texts(root: Path) -> Iterator[tuple[str, str]]:
    yield "cli.md", command_line.page()
    yield from settings_tables.pages()
    yield from evidence.fragments(root)


def _put(path: Path, content: bytes) -> None:
    """Writes what differs only: Sphinx reads again what is newer."""
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def escaped(line: str) -> str:
    """A line of a docstring in which single stars, and underscores at the end of a name, are plain characters."""
    if line.lstrip().startswith((">>>", "...")):
        return line
    parts = re.split(r"(``.*?``|\*\*\w+)", line)
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(r"(?<![\\\w])\*(?=[^*\s])", r"\\*", parts[at])
        parts[at] = re.sub(r"(\w)_(?=[\s,.;:)]|$)", r"\1\\_", parts[at])
    return "".join(parts)

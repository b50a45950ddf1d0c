"""A delimited text file: the texts of its columns, and every line as it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tsimpute.tables.text.row_errors import RowError


@dataclass(frozen=True, eq=False)
class Raw:
    """What is needed to write a file back: every record with its line end, and which of them is which row."""

    records: Sequence[str]
    rows: np.ndarray
    header: int
    mark: bytes


@dataclass(frozen=True, eq=False)
class Delimited:
    """A delimited text file: the texts of its columns, and every line as it is written.

    Attributes:
        name: of the file, for messages.
        header: names of the C columns, stripped; "" where there is none, as with delimiters at the ends of lines.
        columns: per column (R,) object array of str: the text of each row's field, unquoted and stripped.
        lines: (R,) number of the line in the file at which each row starts, from 1.
        delimiter: one character; " " stands for any run of blanks and tabs.
        decimal: "." or ",".
        encoding: without the name of a byte order mark.
        units: texts of the row of units below the names, C of them; "" where there is none.
        notes: what a user should know of how it was read, a sentence each.
        decimal_is_sure: the decimal mark was given, or numbers of the file show a decimal point.
        names_line: number of the line of names, from 1.
        blanks: records between rows that hold delimiters and no value, each with its line; they are no rows.
    """

    name: str
    header: tuple[str, ...]
    columns: tuple[np.ndarray, ...]
    lines: np.ndarray
    delimiter: str
    decimal: str
    encoding: str
    units: tuple[str, ...]
    notes: tuple[str, ...]
    decimal_is_sure: bool
    _raw: Raw = field(repr=False)
    names_line: int = field(default=1, kw_only=True)
    blanks: tuple[tuple[int, int], ...] = field(default=(), kw_only=True)

    def with_blanks(self) -> Delimited:
        """The same file with the records of ``blanks`` as rows of empty fields."""
        records, lines = np.array(self.blanks).T
        at = np.searchsorted(self._raw.rows, records)
        note = f"{len(at):,} row{'s' if len(at) > 1 else ''} without any value between others: steps without values"
        notes = tuple(text for text in self.notes if "without any value" not in text)
        return replace(
            self, columns=tuple(np.insert(column, at, "") for column in self.columns),
            lines=np.insert(self.lines, at, lines), notes=(*notes, note), blanks=(),
            _raw=replace(self._raw, rows=np.insert(self._raw.rows, at, records)),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.lines)

    def place(self, row: int) -> str:
        """The place of a row, for messages."""
        return f"{self.name}, line {self.lines[row]}"

    def worded(self, error: RowError) -> str:
        """The message of an error about rows, with the lines of the file."""
        return f"{self.name}: {self.in_lines(error)}"

    def in_lines(self, error: RowError) -> str:
        """The same without the name of the file."""
        return error.in_lines(self.lines)

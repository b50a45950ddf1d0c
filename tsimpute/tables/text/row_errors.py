"""Errors that name rows of a table, which whoever read it from a file tells as lines of that file."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tsimpute.errors import DataError

Part = str | int | tuple[int, int]  # Of a message: a text, the number of a row from 0, or those of two rows


class _OfRows:
    parts: tuple[Part, ...]

    def in_lines(self, lines: np.ndarray) -> str:
        """The message with lines of a file in place of rows; ``lines``: (R,) the line of each row, from 1."""
        return _message(self.parts, "line", lambda row: int(lines[row]))


class RowNote(_OfRows, str):
    """A note that names rows of a table, which whoever read it from a file tells as lines of that file."""

    def __new__(cls, *parts: Part) -> RowNote:
        note = super().__new__(cls, _message(parts, "row", int))
        note.parts = parts
        return note


class RowError(_OfRows, DataError):
    """Some rows of a table are not what was expected.

    Attributes:
        parts: of the message, (3, 4) for "rows 3 and 4".
    """

    def __init__(self, *parts: Part) -> None:
        super().__init__(_message(parts, "row", int))
        self.parts = parts

    def in_words(self, place: Callable[[int], str]) -> str:
        """The message with whatever ``place`` says of a row, as "line 3 of a.csv"."""
        rows = lambda part: " and ".join(map(place, part if isinstance(part, tuple) else (part,)))
        return "".join(part if isinstance(part, str) else rows(part) for part in self.parts)


def _message(parts: tuple[Part, ...], word: str, number: Callable[[int], int]) -> str:
    rows = lambda part: (
        f"{word}s {number(part[0])} and {number(part[1])}" if isinstance(part, tuple) else f"{word} {number(part)}"
    )
    return "".join(part if isinstance(part, str) else rows(part) for part in parts)

"""How a delimited text is laid out: its delimiter, the line of names, and the rows below."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.text.headers import (
    Header,
    find_header,
    is_comment,
    spread,
    without_names,
)
from tsimpute.tables.text.numbers import is_number_or_missing
from tsimpute.tables.text.other_lines import footers, repeats
from tsimpute.tables.text.rawtext import BLANKS, read_records

DELIMITERS = (",", ";", "\t", "|")

_NAMES_OF_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", BLANKS: "blanks"}

# Chosen on files of all sorts: a wrong delimiter that splits most lines alike is not met, prose stays below.
_FITS, _BLANKS_FIT = 0.5, 0.9
_HEAD, _AGREES = 2000, 0.9
"""Lines from which the delimiter of a long text is told, and the score that all of its lines must reach with it."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The records of a text and what they are.

    Attributes:
        delimiter: one character; ``BLANKS`` for any run of blanks and tabs.
        records: fields of each record, unquoted and stripped; a blank line has none.
        starts: the line, from 0, at which each record starts; one more for the end of the text.
        header: where the names stand.
        rows: which records are rows: those below with a value; in a table of one column blank lines between, too.
        comments: how many lines below the header are remarks, which start with "#".
        repeats: records below that repeat the line of names.
        footers: the last records that are remarks or summaries and no rows.
    """

    delimiter: str
    records: list[list[str]]
    starts: list[int]
    header: Header
    rows: list[int]
    comments: int
    repeats: list[int]
    footers: list[int]

    @property
    def names(self) -> list[str]:
        return self.header.names

    def fits(self, record: int) -> bool:
        """Whether a record has a field for each name; empty ones beyond, or none below empty last names, are fine."""
        fields, names = self.records[record], self.names
        if len(fields) == len(names):
            return True
        if len(fields) > len(names):
            return is_blank(fields[len(names) :])
        return len(names) == 1 or is_blank(names[len(fields) :])


def find_layout(lines: Sequence[str], delimiter: str | None) -> Layout:
    """The layout of a text by the delimiter given, or by the one that splits its lines best.

    Raises:
        ConfigError: the delimiter given cannot be one.
        DataError: there is no line of names or no row, or a quote is not closed.
    """
    if delimiter is not None:
        return _layout(lines, check_delimiter(delimiter))
    if len(lines) > _HEAD and '"' not in "".join(lines[:_HEAD]):
        # The first lines of a long text tell the delimiter, unless its other lines do not agree.
        likely, _, _ = _best_layout(lines[:_HEAD])
        with suppress(DataError):
            if likely is not None and _score(layout := _layout(lines, likely.delimiter)) >= _AGREES:
                return layout
    best, score, errors = _best_layout(lines)
    if best is not None and score > _FITS:
        return best
    try:
        by_blanks = _layout(lines, BLANKS)
        if len(by_blanks.names) > 1 and _score(by_blanks) >= _BLANKS_FIT:
            return by_blanks
        return _one_column(lines, DELIMITERS[1])
    except DataError as error:
        if best is not None:
            return best
        raise (errors or [error])[0] from None


def _best_layout(lines: Sequence[str]) -> tuple[Layout | None, float, list[DataError]]:
    """The layout with the highest score, by most names where several have it; its score; and what others raised."""
    text = "".join(lines)
    best, best_score = None, (-math.inf, 0)
    errors: list[DataError] = []
    for delimiter in sorted((d for d in DELIMITERS if d in text), key=text.count, reverse=True):
        try:
            layout = _layout(lines, delimiter)
        except DataError as error:
            errors.append(error)
            continue
        score = _score(layout), len(layout.names)
        if score > best_score:
            best, best_score = layout, score
    return best, best_score[0], errors


def check_delimiter(delimiter: str) -> str:
    """The delimiter as one character; ``\\t`` and ``\\s+`` are understood.

    Raises:
        ConfigError: it cannot be one.
    """
    delimiter = {"\\t": "\t", "\\s+": BLANKS}.get(delimiter, delimiter)
    if len(delimiter) != 1 or delimiter.isalnum() or delimiter in '"\r\n\0+-.#':
        raise ConfigError(f"delimiter: expected one character such as , ; | or a tab, came {delimiter!r}.")
    return delimiter


def name_of(delimiter: str) -> str:
    """A delimiter in words."""
    return _NAMES_OF_DELIMITERS.get(delimiter, repr(delimiter))


def is_blank(fields: Sequence[str]) -> bool:
    return not any(fields)


def _layout(lines: Sequence[str], delimiter: str) -> Layout:
    records, starts = read_records(lines, delimiter)
    content = [i for i, record in enumerate(records) if not is_blank(record)]
    if not content:
        raise DataError("expected a line of names and rows of values, the file is empty or blank.")
    widths = Counter(len(records[i]) for i in content)
    wide = [width for width in widths if width > 1]
    if not wide:
        return _one_column(lines, delimiter)
    width = max(wide, key=lambda w: (w * widths[w], w))
    header = find_header(records, content, width, starts)
    n_names = len(header.names)
    below = [i for i in content if i >= header.below]
    comments = {i for i in below if is_comment(records[i]) and len(records[i]) != n_names}
    below = [i for i in below if i not in comments]
    again = repeats(records, below, header.block)
    known = set(again)
    last = footers(records, [i for i in below if i not in known], n_names)
    no_rows = {*again, *last}
    rows = [i for i in below if i not in no_rows]
    if not rows:
        raise DataError(f"expected rows of values below the names in line {starts[header.record] + 1}, found none.")
    return Layout(delimiter, records, starts, header, rows, len(comments), again, last)


def _one_column(lines: Sequence[str], delimiter: str) -> Layout:
    """A table of one column of numbers; a blank line between two of them is a missing value."""
    records, starts = read_records(lines, delimiter)
    content = [i for i, record in enumerate(records) if not is_blank(record) and not is_comment(record)]
    rows = list(range(content[0] + 1, content[-1] + 1)) if content else []
    rows = [i for i in rows if not is_comment(records[i])]
    n_numbers = sum(all(map(is_number_or_missing, records[i])) for i in rows)
    if max(map(len, records)) > 1 or 2 * n_numbers <= len(rows):
        raise DataError(
            "expected a table: a line of names and rows with as many fields each, found no delimiter that splits the "
            "lines so. Pass the delimiter if it is an unusual one."
        )
    if is_number_or_missing(records[content[0]][0]):
        raise without_names(starts[content[0]], records[content[0]])
    header = Header(content[0], records[content[0]], content[0] + 1)
    return Layout(delimiter, records, starts, header, rows, content[-1] - content[0] - len(rows), [], [])


def _score(layout: Layout) -> float:
    """Share of rows that fit the header, less the share of fields that hold another delimiter."""
    fitting = sum(layout.fits(i) for i in layout.rows) / len(layout.rows)
    fields = [field for i in spread(layout.rows) for field in layout.records[i]]
    others = [d for d in DELIMITERS if d not in (",", layout.delimiter)]
    return fitting - sum(any(d in field for d in others) for field in fields) / max(len(fields), 1)

"""How a delimited text is laid out: its delimiter, the line of names, the rows below, units and decimal mark."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.text.headers import (
    SAMPLE,
    Header,
    find_header,
    footers,
    is_comment,
    repeats,
    shape,
    spread,
    without_names,
)
from tsimpute.tables.text.number_forms import core_of, decimal_of
from tsimpute.tables.text.numbers import is_missing, is_number, is_number_or_missing
from tsimpute.tables.text.rawtext import BLANKS, read_records

DELIMITERS = (",", ";", "\t", "|")

_NAMES_OF_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", BLANKS: "blanks"}

# Chosen on files of all sorts: a wrong delimiter that splits most lines alike is not met, prose stays below.
_FITS, _BLANKS_FIT = 0.5, 0.9

_COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?", re.ASCII)
_POINT_NUMBER = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?", re.ASCII)
_TWO_POINTS = re.compile(r"\.[^.\n]*\.")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+", re.ASCII)


@dataclass(frozen=True, eq=False)
class Layout:
    """The records of a text and what they are.

    Attributes:
        delimiter: one character; ``BLANKS`` for any run of blanks and tabs.
        records: fields of each record, unquoted and stripped; a blank line has none.
        starts: the line, from 0, at which each record starts; one more for the end of the text.
        header: where the names stand.
        rows: which records are rows: those below with a value; in a table of one column blank lines between, too.
        comments: how many lines below the header are remarks, starting with "#".
        repeats: records below that are the line of names once more.
        footers: the last records, remarks or summaries, which are no rows.
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
        DataError: no line of names or no row was found, or a quote is not closed.
    """
    if delimiter is not None:
        return _layout(lines, check_delimiter(delimiter))
    text = "".join(lines)
    found: list[Layout] = []
    errors: list[DataError] = []
    for candidate in sorted((d for d in DELIMITERS if d in text), key=text.count, reverse=True):
        try:
            found.append(_layout(lines, candidate))
        except DataError as error:
            errors.append(error)
    scores = [_score(layout) for layout in found]
    best = max(range(len(found)), key=lambda i: (scores[i], len(found[i].names)), default=None)
    if best is not None and scores[best] > _FITS:
        return found[best]
    try:
        by_blanks = _layout(lines, BLANKS)
        if len(by_blanks.names) > 1 and _score(by_blanks) >= _BLANKS_FIT:
            return by_blanks
        return _one_column(lines, DELIMITERS[1])
    except DataError as error:
        if best is not None:
            return found[best]
        raise (errors or [error])[0] from None


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


def find_decimal(columns: Sequence[Sequence[str]]) -> str:
    """The decimal mark, "." or ",", of columns of stripped texts.

    Raises:
        DataError: all numbers with a comma may as well have a separator of thousands, or be a value and a code.
    """
    doubtful = ""
    for column in columns:
        joined = "\n".join(column)
        if "," not in joined and not _TWO_POINTS.search(joined):
            continue
        _check_packed(column)
        with_comma = [text if _COMMA_NUMBER.fullmatch(text) else core_of(text) for text in column if "," in text]
        with_point = [core_of(text) for text in column if text.count(".") > 1] if not with_comma else []
        marks = {decimal_of(text) for text in with_comma or with_point} - {""}
        if marks == {","}:
            return ","
        commas = [text for text in with_comma if _COMMA_NUMBER.fullmatch(text)]
        if 2 * len(commas) <= len(with_comma) or len(commas) <= _points(column) or marks:
            continue
        if any(not _THOUSANDS.fullmatch(text) for text in commas):
            return ","
        doubtful = doubtful or commas[0]
    if doubtful and not has_points(columns):
        raise DataError(
            f'expected numbers whose decimal mark can be told, {doubtful!r} can be read in two ways. Pass decimal="," '
            f'for a decimal comma, decimal="." where the comma separates thousands.'
        )
    return "."


def _check_packed(column: Sequence[str]) -> None:
    """Refuses fields of a value, with zeros before it up to one width, and a code: "+0028,5" of NOAA is 2.8 degrees."""
    with_comma = [text for text in column if "," in text]
    packed = [text for text in with_comma if _PACKED.fullmatch(text)]
    if len(packed) < _SOME_PACKED or len(packed) < len(with_comma) or len({text.index(",") for text in packed}) > 1:
        return
    padded = next((text for text in packed if text.lstrip("+-").startswith("0")), None)
    if padded is not None:
        raise DataError(
            f"expected one number in each field, {padded!r} looks like a value and a code behind it, as in files "
            'of NOAA. Write them into two columns; if the comma is a decimal one, pass decimal=",".'
        )


def has_points(columns: Sequence[Sequence[str]]) -> bool:
    """Whether some column holds numbers with a decimal point."""
    pointed = (core_of(text) for column in columns for text in column if "." in text)
    return any(_POINT_NUMBER.fullmatch(text) or decimal_of(text) == "." for text in pointed)


_PACKED = re.compile(r"[+-]?\d{3,},\d")
_SOME_PACKED = 3
_DIMENSIONLESS = ("1", "1e-3", "1E-3")
"""Units of flags, ratios and salinity in files of oceanography."""
_BESIDE_BARE = 2
"""Units in words that must stand beside these in the row."""


def count_unit_rows(columns: Sequence[Sequence[str]], n_above: int = 0) -> int:
    """How many of the first rows, 3 at most, tell of the columns rather than hold values: units and the like.

    Such a row has a text, and no number, in columns that hold numbers below; its other fields are unlike those below.

    Args:
        columns: texts of the rows below the names.
        n_above: how many of these rows stand above the first one that looks like most.
    """
    for count in range(4):
        start = max(count + 1, n_above)
        below = [column[start : start + SAMPLE] for column in columns]
        if count == 3 or not _is_unit_row([column[count] if len(column) > count else "" for column in columns], below):
            return count
    return 3


def _is_unit_row(fields: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    n_texts, n_bare = 0, 0
    for text, column in zip(fields, below, strict=True):
        if all(is_number_or_missing(other) for other in column) and not all(is_missing(other) for other in column):
            if is_number(text) and text not in _DIMENSIONLESS:
                return False
            n_bare += is_number(text)
            n_texts += not is_missing(text) and not is_number(text)
        elif text and shape(text) in {shape(other) for other in column}:
            return False
    return n_texts > 0 and (n_bare == 0 or n_texts >= _BESIDE_BARE)


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


def _points(column: Sequence[str]) -> int:
    return sum(_POINT_NUMBER.fullmatch(core_of(text)) is not None for text in column if "." in text)

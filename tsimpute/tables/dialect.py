"""How a delimited text is laid out: its delimiter, the line of names, the rows below, units and decimal mark."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.numbers import is_missing, is_number_or_missing

DELIMITERS = (",", ";", "\t", "|")
BLANKS = " "
"""The delimiter that stands for any run of blanks and tabs."""

_NAMES_OF_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", BLANKS: "blanks"}

# Chosen on files of all sorts: a wrong delimiter that splits most lines alike is not met, prose stays below.
_FITS, _BLANKS_FIT = 0.5, 0.9
_SAMPLE = 100

WORD = re.compile(r'"(?:[^"]|"")*+"(?=[ \t\r\n]|$)|[^ \t\r\n]+')
_DIGITS = re.compile(r"\d+")
_COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?", re.ASCII)
_POINT_NUMBER = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+", re.ASCII)


@dataclass(frozen=True, eq=False)
class Layout:
    """The records of a text and what they are.

    Attributes:
        delimiter: one character; ``BLANKS`` for any run of blanks and tabs.
        records: fields of each record, unquoted; a blank line has none.
        starts: the line, from 0, at which each record starts; one more for the end of the text.
        header: which record holds the names.
        rows: which records are rows: those below with a value; in a table of one column blank lines between, too.
        comments: how many lines below the header are remarks, starting with "#".
    """

    delimiter: str
    records: list[list[str]]
    starts: list[int]
    header: int
    rows: list[int]
    comments: int

    @property
    def names(self) -> list[str]:
        """Stripped, the first also of the sign of a remark before it."""
        names = [name.strip() for name in self.records[self.header]]
        return [names[0].lstrip("# ") or names[0], *names[1:]]

    def fits(self, record: int) -> bool:
        """Whether a record has a field for each name; empty ones beyond, or none below empty last names, are fine."""
        fields, names = self.records[record], self.records[self.header]
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
    return not any(field.strip() for field in fields)


def find_decimal(columns: Sequence[Sequence[str]]) -> str:
    """The decimal mark, "." or ",", of columns of stripped texts.

    Raises:
        DataError: all numbers with a comma may as well have a separator of thousands.
    """
    doubtful = ""
    for column in columns:
        with_comma = [text for text in column if "," in text]
        commas = [text for text in with_comma if _COMMA_NUMBER.fullmatch(text)]
        if 2 * len(commas) <= len(with_comma) or len(commas) <= _points(column):
            continue
        if any(not _THOUSANDS.fullmatch(text) for text in commas):
            return ","
        doubtful = doubtful or commas[0]
    if doubtful and not any(_points(column) for column in columns):
        raise DataError(
            f'expected numbers whose decimal mark can be told, {doubtful!r} can be read in two ways. Pass decimal="," '
            f'for a decimal comma; with decimal="." separators of thousands have to be removed from the file.'
        )
    return "."


def count_unit_rows(columns: Sequence[Sequence[str]]) -> int:
    """How many of the first rows, 3 at most, tell of the columns rather than hold values: units and the like.

    Such a row has a text, and no number, in columns that hold numbers below; its other fields are unlike those below.
    """
    for count in range(4):
        below = [column[count + 1 : count + 1 + _SAMPLE] for column in columns]
        if count == 3 or not _is_unit_row([column[count] if len(column) > count else "" for column in columns], below):
            return count
    return 3


def _is_unit_row(fields: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    has_text = False
    for text, column in zip(fields, below, strict=True):
        if all(is_number_or_missing(other) for other in column) and not all(is_missing(other) for other in column):
            if not is_missing(text) and is_number_or_missing(text):
                return False
            has_text |= not is_missing(text)
        elif text and _shape(text) in {_shape(other) for other in column}:
            return False
    return has_text


def _layout(lines: Sequence[str], delimiter: str) -> Layout:
    records, starts = _split(lines, delimiter)
    content = [i for i, record in enumerate(records) if not is_blank(record)]
    if not content:
        raise DataError("expected a line of names and rows of values, the file is empty or blank.")
    widths = Counter(len(records[i]) for i in content)
    wide = [width for width in widths if width > 1]
    if not wide:
        return _one_column(lines, delimiter)
    width = max(wide, key=lambda w: (w * widths[w], w))
    header = _find_header(records, content, width, starts)
    n_names = len(records[header])
    below = [i for i in content if i > header]
    comments = {i for i in below if _is_comment(records[i]) and len(records[i]) != n_names}
    rows = [i for i in below if i not in comments]
    if not rows:
        raise DataError(f"expected rows of values below the names in line {starts[header] + 1}, found none.")
    return Layout(delimiter, records, starts, header, rows, len(comments))


def _one_column(lines: Sequence[str], delimiter: str) -> Layout:
    """A table of one column of numbers; a blank line between two of them is a missing value."""
    records, starts = _split(lines, delimiter)
    content = [i for i, record in enumerate(records) if not is_blank(record) and not _is_comment(record)]
    rows = list(range(content[0] + 1, content[-1] + 1)) if content else []
    rows = [i for i in rows if not _is_comment(records[i])]
    n_numbers = sum(all(map(is_number_or_missing, records[i])) for i in rows)
    if max(map(len, records)) > 1 or 2 * n_numbers <= len(rows):
        raise DataError(
            "expected a table: a line of names and rows with as many fields each, found no delimiter that splits the "
            "lines so. Pass the delimiter if it is an unusual one."
        )
    if is_number_or_missing(records[content[0]][0].strip()):
        raise _without_names(starts[content[0]], records[content[0]])
    return Layout(delimiter, records, starts, content[0], rows, content[-1] - content[0] - len(rows))


def _split(lines: Sequence[str], delimiter: str) -> tuple[list[list[str]], list[int]]:
    """The records, and the line at which each starts."""
    if delimiter == BLANKS:
        return [[unquote(word) for word in WORD.findall(line)] for line in lines], list(range(len(lines) + 1))
    # A further line tells a quote that never closes from one that closes in the last line.
    reader = csv.reader(chain(lines, ["end"]), delimiter=delimiter, skipinitialspace=True)
    records: list[list[str]] = []
    starts = [0]
    try:
        for record in reader:
            records.append(record)
            starts.append(reader.line_num)
    except csv.Error as error:
        raise DataError(f"line {starts[-1] + 1}: expected fields that can be split, came: {error}.") from None
    if starts[-2] != len(lines):
        raise DataError(f"line {starts[-2] + 1}: expected a quote that closes, it is open to the end of the file.")
    return records[:-1], starts[:-1]


def unquote(field: str) -> str:
    return field[1:-1].replace('""', '"') if len(field) > 1 and field[0] == field[-1] == '"' else field


def _find_header(records: list[list[str]], content: list[int], width: int, starts: list[int]) -> int:
    """The first record that names all columns used further down (the first may lack a name, as that of an index)."""
    late = [records[i] for i in content[len(content) // 2 :] if len(records[i]) == width]
    used = {c for record in _spread(late) for c, field in enumerate(record) if field.strip()}
    plain = [i for i in content if not _is_comment(records[i])]
    half = max(2, (len(used) + 1) // 2)
    complete = next((at for at, i in enumerate(plain) if _names(records[i], width) >= used - {0}), None)
    partial = next((at for at, i in enumerate(plain) if len(_names(records[i], width) & used) >= half), None)
    header = None
    for at in (complete, partial):
        if at is None:
            continue
        header = plain[at]
        others = [records[i] for i in plain[max(0, at - _SAMPLE) : at + _SAMPLE] if i != header]
        if not _is_data(records[header], others):
            return header
    remarks = (i for i in range(content[-1] if header is None else header, -1, -1) if _is_comment(records[i]))
    named = next((i for i in remarks if _names(records[i], width) >= used - {0}), None)
    if named is not None:
        return named
    if header is None:
        first = content[0]
        raise DataError(
            f"expected a line with a name for each of {width} columns, found none; line {starts[first] + 1} has "
            f"{len(records[first])} fields. Name every column."
        )
    raise _without_names(starts[header], records[header])


def _without_names(line: int, record: Sequence[str]) -> DataError:
    shown = repr(", ".join(record)[:60])
    return DataError(
        f"line {line + 1}: expected names of columns, came what looks like values: {shown}. "
        f"Add a line of names above it."
    )


def _names(record: Sequence[str], width: int) -> set[int]:
    """The columns that a record names; none where it names more than there are."""
    named = {c for c, field in enumerate(record) if field.strip()}
    return named if named and max(named) < width else set()


def _is_data(record: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a record looks like others: its first field and most others do, or a date or a decimal number does."""
    alike: list[bool] = []
    for c, field in enumerate(text.strip() for text in record):
        if not field:
            continue
        column = [other[c].strip() for other in rows if c < len(other)]
        is_number = is_number_or_missing(field) and any(map(is_number_or_missing, filter(None, column)))
        alike.append(is_number or _shape(field) in {_shape(other) for other in column})
        if alike[-1] and field[0].isdigit() and not field.isdigit():
            return True
    return bool(rows) and alike[0] and 2 * sum(alike) > len(alike)


def _score(layout: Layout) -> float:
    """Share of rows that fit the header, less the share of fields that hold another delimiter."""
    fitting = sum(layout.fits(i) for i in layout.rows) / len(layout.rows)
    fields = [field for i in _spread(layout.rows) for field in layout.records[i]]
    others = [d for d in DELIMITERS if d not in (",", layout.delimiter)]
    return fitting - sum(any(d in field for d in others) for field in fields) / max(len(fields), 1)


def _spread(items: Sequence) -> Iterator:
    """At most about ``_SAMPLE`` of the items, evenly from first to last."""
    return iter(items[:: max(1, len(items) // _SAMPLE)])


def _is_comment(record: Sequence[str]) -> bool:
    return bool(record) and record[0].lstrip().startswith("#")


def _shape(text: str) -> str:
    return _DIGITS.sub("9", text)


def _points(column: Sequence[str]) -> int:
    return sum(_POINT_NUMBER.fullmatch(text) is not None for text in column if "." in text)

"""Delimited text files, read so that they can be written back byte for byte but for the fields that change."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.text import dialect, headers, rawtext
from tsimpute.tables.text.dialect import Layout, check_one_table, count_unit_rows, units_of
from tsimpute.tables.text.number_forms import find_decimal, has_points
from tsimpute.tables.text.rawtext import BLANKS, Delimited, Raw

_SEPARATOR = re.compile(r'"?sep=([^\w"\r\n\0+.#-])"?[\r\n]*', re.IGNORECASE)
"""A first line that names the delimiter for spreadsheets."""


@dataclass(frozen=True, slots=True)
class Insertion:
    """A new line before row ``row``, or after the last row where it is the number of rows; one text per column."""

    row: int
    fields: tuple[str, ...]


def read_delimited(
    path: Path, *, delimiter: str | None = None, decimal: str | None = None, encoding: str | None = None
) -> Delimited:
    """Reads a file of names and rows; what is not given is detected from the whole file.

    A first line such as ``sep=;`` names the delimiter. This one and others before the names, blank lines, remarks
    (``#``) and rows of units are no rows; they are kept and noted.

    Args:
        path: a text file; one that ends in ``.gz`` is unpacked.
        delimiter: one character; " " for runs of blanks and tabs.
        decimal: "." or ",".
        encoding: a name that Python knows; otherwise UTF-8 (or as the byte order mark says), else Windows-1252.

    Raises:
        ConfigError: a setting cannot be.
        DataError: the file is no text, has no names, no rows, or a row with too few or too many fields.
        OSError: the file cannot be opened.
    """
    if decimal not in (None, ".", ","):
        raise ConfigError(f'decimal: expected "." or ",", came {decimal!r}.')
    path = Path(path)
    text, encoding, mark = rawtext.read_text(path, encoding)
    lines = list(io.StringIO(text, newline=""))
    try:
        separator = _SEPARATOR.fullmatch(lines[0])
        below = lines if separator is None else ["\n", *lines[1:]]
        layout = dialect.find_layout(below, separator[1] if separator and delimiter is None else delimiter)
        check_one_table(layout.records, layout.rows, layout.header.record, layout.names, layout.starts)
        _check_rows(layout, lines)
        headers.check_names(layout.header, layout.starts)
        width, fields = len(layout.names), [layout.records[i] for i in layout.rows]
        fields = [row if len(row) >= width else [*row, *[""] * (width - len(row))] for row in fields]
        columns = [[row[at] for row in fields] for at in range(width)]  # many times faster than zip(*fields)
        is_sure = decimal is not None
        decimal = decimal or find_decimal(columns)
        is_sure |= decimal == "." and has_points(columns)
    except DataError as error:
        raise DataError(f"{path.name}: {error}") from None
    n_units = count_unit_rows(columns, sum(i in layout.header.block for i in layout.rows[:5]))
    rows = np.array(layout.rows[n_units:], int)
    starts = np.array(layout.starts)
    between = np.setdiff1d(np.arange(rows[0], rows[-1]) if len(rows) else [], rows).astype(int).tolist()
    blank = [i for i in between if len(layout.records[i]) == width and not any(layout.records[i])]
    return Delimited(
        name=path.name,
        header=tuple(layout.names),
        columns=tuple(np.array(column[n_units:], object) for column in columns),
        lines=starts[rows] + 1,
        delimiter=layout.delimiter,
        decimal=decimal,
        encoding=encoding,
        units=units_of(columns, n_units),
        notes=_notes(layout, lines, n_units, decimal, encoding, mark),
        decimal_is_sure=is_sure,
        _raw=Raw(["".join(lines[a:b]) for a, b in pairwise(layout.starts)], rows, layout.header.record, mark),
        names_line=layout.starts[layout.header.record] + 1,
        blanks=tuple((i, layout.starts[i] + 1) for i in blank),
    )


def write_delimited(
    table: Delimited, path: Path, changes: Mapping[int, Mapping[int, str]], insertions: Sequence[Insertion] = ()
) -> None:
    """Writes a file as it was read, but for some fields and new lines; whole or not at all.

    A new text takes the place of the old one between the same quotes and blanks, and is quoted where it has to be. A
    new line is laid out and ends as the row that it stands before (the last one: after).

    Args:
        path: packed if it ends in ``.gz``; may be the file that was read.
        changes: column -> row -> new text.
        insertions: those before the same row are written in the order given.

    Raises:
        DataError: a row, a column or a number of texts is not that of the table; a text cannot be written.
    """
    records = list(table._raw.records)
    places = table._raw.rows.tolist()
    by_row: dict[int, dict[int, str]] = {}
    for column, texts in changes.items():
        for row, text in texts.items():
            if not (0 <= column < len(table.header) and 0 <= row < len(table)):
                raise DataError(
                    f"changes of {table.name}: expected rows below {len(table)} and columns below "
                    f"{len(table.header)}, came row {row}, column {column}."
                )
            _check_text(table, text)
            by_row.setdefault(row, {})[column] = text
    new_lines: dict[int, list[str]] = {}
    models: dict[int, rawtext.Record] = {}
    for insertion in insertions:
        if not 0 <= insertion.row <= len(table) or len(insertion.fields) != len(table.header):
            raise DataError(
                f"new line of {table.name}: expected {len(table.header)} texts before a row from 0 to {len(table)}, "
                f"came {len(insertion.fields)} before row {insertion.row}."
            )
        for text in insertion.fields:
            _check_text(table, text)
        model = places[min(insertion.row, len(places) - 1)]
        if model not in models:
            models[model] = rawtext.split_record(records[model], table.delimiter)
        new_lines.setdefault(insertion.row, []).append(models[model].with_texts(dict(enumerate(insertion.fields))))
    for row, texts in by_row.items():
        records[places[row]] = rawtext.split_record(records[places[row]], table.delimiter).with_texts(texts)
    end = rawtext.line_end(table._raw.records[table._raw.header])
    for row, added in new_lines.items():  # every line but the last of the file gets an end
        at = places[min(row, len(places) - 1)]
        lines = [*added, records[at]] if row < len(places) else [records[at], *added]
        records[at] = "".join(line if rawtext.line_end(line) else line + end for line in lines[:-1]) + lines[-1]
    rawtext.write_text("".join(records), Path(path), table.encoding, table._raw.mark)


def _check_text(table: Delimited, text: str) -> None:
    if "\0" in text or (table.delimiter == BLANKS and re.search(r"[\r\n]", text)):
        raise DataError(f"{table.name}: expected texts without line ends and zero bytes, came {text!r}.")


def _check_rows(layout: Layout, lines: Sequence[str]) -> None:
    wrong = [i for i in layout.rows if not layout.fits(i)]
    if wrong:
        start, n_names = layout.starts[wrong[0]], len(layout.names)
        names = layout.starts[layout.header.record] + 1
        raise DataError(
            f"line {start + 1}: expected {n_names} fields as in the names in line {names}, "
            f"found {len(layout.records[wrong[0]])}: {lines[start].strip()[:60]!r} "
            f"({_count(len(wrong), 'such line')}). Correct {'it' if len(wrong) == 1 else 'them'}, or pass the "
            f"delimiter if {layout.delimiter!r} is not it."
        )


def _notes(
    layout: Layout, lines: Sequence[str], n_units: int, decimal: str, encoding: str, mark: bytes
) -> tuple[str, ...]:
    before = layout.starts[layout.header.record]
    n_records = len(layout.records) - layout.header.below
    n_blank = n_records - len(layout.rows) - layout.comments - len(layout.repeats) - len(layout.footers)
    n_joined = layout.starts[layout.header.below] - before
    n_empty = sum(not any(layout.records[i]) for i in layout.rows) if len(layout.names) == 1 else 0
    n_unnamed = layout.names.count("")
    ends = {rawtext.line_end(line) for line in lines[:-1]}
    first = layout.starts[layout.rows[0]] + 1
    footer = lines[layout.starts[layout.footers[0]]].strip()[:40] if layout.footers else ""
    are = f"({footer!r} ...) are" if len(layout.footers) > 1 else f"({footer!r}) is"
    footers = f"{_lines(layout, layout.footers)} {are}"
    separator = dialect.NAMES_OF_DELIMITERS.get(layout.delimiter, repr(layout.delimiter))
    notes = (
        (layout.delimiter != "," and len(layout.names) > 1, f"fields are separated by {separator}"),
        (decimal == ",", "decimal commas"),
        (encoding not in ("utf-8", "ascii"), f"encoding {encoding}"),
        (bool(mark), "the byte order mark is kept"),
        (before > 0, f"{_count(before, 'line')} before the names kept as they are"),
        (before > 0, f"names are in line {before + 1}"),
        (n_joined > 1, f"names are joined from lines {before + 1} to {before + n_joined}"),
        (n_units > 0, f"line {first} is taken for units"),
        (n_units > 1, f"{_count(n_units - 1, 'line')} below the units kept as they are"),
        (n_unnamed > 0, f"{_count(n_unnamed, 'column')} without a name"),
        (n_blank > 0, f"{_count(n_blank, 'row')} without any value kept as they are"),
        (n_empty > 0, f"{_count(n_empty, 'blank line')} between values taken for missing values"),
        (bool(layout.repeats), f"what stands above the rows comes again in {_lines(layout, layout.repeats)}, kept"),
        (bool(layout.footers), f"at the end {footers} taken for no row of values, kept as written"),
        (layout.comments > 0, f"{_count(layout.comments, 'remark')} between rows kept as they are"),
        (len(ends) > 1, "line ends are mixed and kept as they are"),
    )
    return tuple(text for holds, text in notes if holds)


def _lines(layout: Layout, records: Sequence[int]) -> str:
    numbers = [f"{layout.starts[i] + 1:,}" for i in records]
    more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
    return f"line{'s' * (len(numbers) > 1)} {', '.join(numbers[:5])}{more}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"

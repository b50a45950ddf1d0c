"""The bytes of a text file, its records and their fields, read and written back with the same bytes; and its table.

A record is a string of one or more lines with its line end. One grammar splits it into fields, for reading and for
writing: that of the csv module, with blanks before a quote. For ``BLANKS`` any run of blanks and tabs is a delimiter.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path

import numpy as np

from tsimpute.errors import ConfigError, DataError
from tsimpute.system.files import atomic_write
from tsimpute.tables.text.row_errors import RowError

BLANKS = " "  # The delimiter that stands for any run of blanks and tabs
_MOST_SHARED = 100_000
_LINE_ENDS = ("\n", "\r\n", "\r")

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WITH_MARK = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
_SCRIPTS = ("gb18030", "big5", "cp932", "euc_kr", "cp1251", "cp1253")
"""Chinese, Japanese, Korean, Cyrillic and Greek: encodings that a file may have whose text is not Western European."""
_BEYOND_ASCII = re.compile(rb"([A-Za-z]?)([\x80-\xff]+)")
_SHOWN = 40
_KINDS = {
    b"\x1f\x8b": "a gzip file: end its name in .gz",
    b"PK\x03\x04": "a zip file or a workbook: unpack it, or save the sheet as CSV",
    b"PAR1": "a Parquet file: end its name in .parquet",
    b"\x89HDF": "an HDF5 or NetCDF file: end its name in .nc",
}


def read_text(path: Path, encoding: str | None) -> tuple[str, str, bytes]:
    """The text of a file without its byte order mark, the encoding, and the mark.

    An unknown encoding is refused; so is a folder, an empty file, what is no text or would not be written back as it
    is.
    """
    if path.is_dir():
        raise DataError(f"{path}: expected a file, came a folder. Name the file in it.")
    data = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path.name}: expected a gzip file as its name says, came: {error}.") from None
    mark, marked = next(((mark, codec) for mark, codec in _MARKS if data.startswith(mark)), (b"", ""))
    if encoding is None:
        codecs_to_try = (marked,) if marked else ("utf-8", "cp1252")
    else:
        try:
            "".encode(encoding)  # also refuses codecs that are not for text
            codec = codecs.lookup(encoding).name
        except (LookupError, ValueError):
            raise ConfigError(f"encoding: expected a text encoding that Python knows, came {encoding!r}.") from None
        unmarked = _WITH_MARK.get(codec, codec)
        # "utf-16" and the like stand for both orders of bytes: the mark tells which.
        fits = marked == unmarked or (codec in ("utf-16", "utf-32") and marked.startswith(codec))
        mark, codecs_to_try = (mark, (marked,)) if fits else (b"", (unmarked,))
    body = data[len(mark) :]
    for codec in codecs_to_try:
        with suppress(UnicodeError):
            text = body.decode(codec)
            if text.encode(codec) == body:
                if codec == "cp1252" and encoding is None and not _looks_western(body):
                    break
                _check_text(path.name, data, text)
                return text, codec, mark
    if encoding is None and not marked and (readings := _readings(body)):
        raise DataError(
            f"{path.name}: expected UTF-8, or Western European text in cp1252; came text that seems to be of another "
            f"script: {'; '.join(readings)}. Pass the encoding that reads it rightly, or save the file as UTF-8."
        )
    raise DataError(
        f"{path.name}: expected text in {' or '.join(codecs_to_try)}, some bytes are not. Pass the encoding, or save "
        f"the file as UTF-8."
    )


def _looks_western(body: bytes) -> bool:
    """Whether most bytes beyond ASCII stand alone, or two of them behind a letter or of which one is a sign."""
    runs = _BEYOND_ASCII.findall(body)
    western = sum(len(run) for letter, run in runs if len(run) < 2 or (len(run) == 2 and (letter or run[0] < 0xB0)))
    return 2 * western >= sum(len(run) for _, run in runs)


def _readings(body: bytes) -> list[str]:
    """The first line beyond ASCII, in each encoding that can be meant and that has all bytes of the file."""
    line = next(line for line in body.splitlines() if not line.isascii()).strip()
    readings = []
    for codec in (*_SCRIPTS, "cp1252"):
        with suppress(UnicodeError):
            body.decode(codec)
            readings.append(f"{line.decode(codec)[:_SHOWN]!r} in {codec}")
    return readings


def write_text(text: str, path: Path, encoding: str, mark: bytes) -> None:
    """Writes a text whole or not at all, packed if the path ends in ``.gz``; the encoding must have all characters."""
    try:
        data = mark + text.encode(encoding)
    except UnicodeEncodeError as error:
        raise DataError(
            f"{path.name}: expected characters of {encoding}, the encoding of the file read, came "
            f"{error.object[error.start : error.end]!r}. Save the file as UTF-8 first."
        ) from None
    if path.suffix.lower() == ".gz":
        data = gzip.compress(data, mtime=0)
    atomic_write(path, lambda partial: partial.write_bytes(data))


def line_end(record: str) -> str:
    if record.endswith("\r\n"):
        return "\r\n"
    return record[-1:] if record[-1:] in ("\r", "\n") else ""


def read_records(lines: Sequence[str], delimiter: str) -> tuple[list[list[str]], list[int]]:
    """The texts of the fields of each record, without quotes and the blanks around them; of a blank line none.

    Returns the records, and the line from 0 at which each starts, with one more for the end of the text. A quote that
    is not closed is refused.
    """
    if delimiter == BLANKS:
        return [_field_texts(line, delimiter) for line in lines], list(range(len(lines) + 1))
    is_open, stays_open = _open_quotes(delimiter)
    records: list[list[str]] = []
    starts: list[int] = []
    unfinished: list[str] = []
    known: dict[str, str] = {}  # equal texts are one object: of millions of fields most are equal to others
    for at, line in enumerate(lines):
        if not unfinished:
            starts.append(at)
        if '"' not in line and not unfinished:
            fields = [] if line in _LINE_ENDS else list(map(str.strip, line.split(delimiter)))
        elif (stays_open if unfinished else is_open).match(line):
            unfinished.append(line)
            continue
        else:
            fields, unfinished = _field_texts("".join([*unfinished, line]), delimiter), []
        share = known.setdefault if len(known) < _MOST_SHARED else known.get
        records.append(list(map(share, fields, fields)))
    if unfinished:
        raise DataError(f"line {starts[-1] + 1}: expected a quote that closes, it is open to the end of the file.")
    return records, [*starts, len(lines)]


def _field_texts(record: str, delimiter: str) -> list[str]:
    end = "" if delimiter == BLANKS else delimiter
    fields = _field(delimiter).findall(record[: len(record) - len(line_end(record))] + end)
    if '""' in record:
        return [(quoted.replace('""', '"') + rest).strip() for _, quoted, rest in fields]
    return [(quoted + rest).strip() for _, quoted, rest in fields]


@dataclass(frozen=True)
class Record:
    """A record taken apart."""

    fields: tuple[str, ...]  # as they are written, with their quotes and blanks
    between: tuple[str, ...]  # what is before each field and after the last one
    delimiter: str  # one character; ``BLANKS`` for any run of blanks and tabs

    def with_texts(self, texts: Mapping[int, str]) -> str:
        """The record with new texts at some columns; columns that it lacks are added behind its last field."""
        fields = [_new_field(f, texts[c], self.delimiter) if c in texts else f for c, f in enumerate(self.fields)]
        added = [_new_field("", texts.get(c, ""), self.delimiter) for c in range(len(fields), max(texts) + 1)]
        *before, end = self.between
        body = chain.from_iterable(zip(before, fields, strict=True))
        return "".join(
            [*body, end[: len(end) - len(line_end(end))], *(self.delimiter + t for t in added), line_end(end)]
        )


def split_record(record: str, delimiter: str) -> Record:
    """Takes a record apart, into the same fields as ``read_records``."""
    body = record[: len(record) - len(line_end(record))]
    end = "" if delimiter == BLANKS else delimiter
    spans = [match.span(1) for match in _field(delimiter).finditer(body + end)]
    edges = [0, *chain.from_iterable(spans), len(record)]
    return Record(
        tuple(record[start:stop] for start, stop in spans),
        tuple(record[start:stop] for start, stop in zip(edges[::2], edges[1::2], strict=True)),
        delimiter,
    )


def _new_field(old: str, new: str, delimiter: str) -> str:
    head, tail, quoted = _rim(old)
    if quoted or _special(delimiter).search(new) or (not new and delimiter == BLANKS):
        new = '"' + new.replace('"', '""') + '"'
    return head + new + tail


@lru_cache
def _rim(field: str) -> tuple[str, str, bool]:
    """The blanks before and behind a field, and whether it has quotes; cached, as new lines repeat them."""
    core = field.strip(" ")
    head = field[: len(field) - len(field.lstrip(" "))]
    return head, field[len(head) + len(core) :], core.startswith('"')


@cache
def _special(delimiter: str) -> re.Pattern[str]:
    return re.compile(r'[ \t"]' if delimiter == BLANKS else rf'[{re.escape(delimiter)}"\r\n]')


@cache
def _field(delimiter: str) -> re.Pattern[str]:
    """A field with the delimiter behind it: as written, the text between its quotes, and the rest of its text."""
    if delimiter == BLANKS:
        return re.compile(r'("((?:[^"]|"")*+)"(?=[ \t\r\n]|$)|([^ \t\r\n]+))')
    mark = re.escape(delimiter)
    return re.compile(rf'((?: *+"((?:[^"]|"")*+)")?+([^{mark}]*+)){mark}')


@cache
def _open_quotes(delimiter: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What a line matches that ends within quotes: where it begins a record, and where it begins within quotes."""
    mark = re.escape(delimiter)
    fields = rf'(?:(?: *+"(?:[^"]|"")*+"|(?! *+"))[^{mark}]*+{mark})*+'
    is_open = rf'{fields} *+"(?:[^"]|"")*+\Z'
    return re.compile(is_open), re.compile(rf'(?:[^"]|"")*+(?:\Z|"[^{mark}]*+{mark}{is_open})')


def _check_text(name: str, data: bytes, text: str) -> None:
    if not text.strip():
        raise DataError(f"{name}: expected a table, the file is empty or blank.")
    if "\0" not in text:
        return
    kind = next((kind for start, kind in _KINDS.items() if data.startswith(start)), "no text, or text in UTF-16")
    raise DataError(
        f"{name}: expected a text file, came zero bytes, as in {kind}."
        + (" Pass the encoding if it is text." if kind.startswith("no text") else "")
    )


@dataclass(frozen=True, eq=False)
class Raw:
    """What is needed to write a file back: every record with its line end, and which of them is which row."""

    records: Sequence[str]
    rows: np.ndarray
    header: int
    mark: bytes


@dataclass(frozen=True, eq=False)
class Delimited:
    """A delimited text file: the texts of its columns, and every line as it is written."""

    name: str  # of the file, for messages
    # names of the C columns, stripped; "" where there is none, as with delimiters at the ends of lines.
    header: tuple[str, ...]
    # per column (R,) object array of str: the text of each row's field, unquoted and stripped.
    columns: tuple[np.ndarray, ...]
    lines: np.ndarray  # (R,) number of the line in the file at which each row starts, from 1
    delimiter: str  # one character; " " stands for any run of blanks and tabs
    decimal: str  # "." or ","
    encoding: str  # without the name of a byte order mark
    units: tuple[str, ...]  # texts of the row of units below the names, C of them; "" where there is none
    notes: tuple[str, ...]  # what a user should know of how it was read, a sentence each
    decimal_is_sure: bool  # the decimal mark was given, or numbers of the file show a decimal point
    _raw: Raw = field(repr=False)
    names_line: int = field(default=1, kw_only=True)  # number of the line of names, from 1
    # records between rows that hold delimiters and no value, each with its line; they are no rows.
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
        return f"{self.name}, line {self.lines[row]}"

    def in_lines(self, error: RowError) -> str:
        """The message of an error about rows, with the lines of the file."""
        return error.in_lines(self.lines)

"""How a delimited text is laid out: its delimiter, the line of names, rows, units, footers, and no second table."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.text.headers import (
    SAMPLE,
    Header,
    Profile,
    find_header,
    is_comment,
    shape,
    spread,
    unit_of,
    without_names,
)
from tsimpute.tables.text.number_forms import is_unit
from tsimpute.tables.text.numbers import is_missing, is_number, is_number_or_missing
from tsimpute.tables.text.rawtext import BLANKS, read_records

_SUMMARIES = frozenset(
    ("mean", "average", "avg", "total", "totals", "sum", "min", "minimum", "max", "maximum", "median", "std", "stdev",
     "sd", "count", "summary", "subtotal", "mittel", "mittelwert", "durchschnitt", "summe", "gesamt", "moyenne",
     "somme", "promedio", "media", "suma", "gemiddelde", "totaal", "totale", "máximo", "mínimo", "平均", "合計", "总计",
     "平均値", "最大", "最小")
)  # fmt: skip
_WORD = re.compile(r"[^\W\d_]+")
_MOST_FOOTERS = 50
_MOSTLY = 0.9
_DIMENSIONLESS = ("1", "1e-3", "1E-3")  # Units of flags, ratios and salinity in files of oceanography
_BESIDE_BARE = 2  # Units in words that a row with such fields must have
FEWEST = 3  # Rows above the line of names that make another table, and not a preamble
_DATED = re.compile(r"\d{1,4}[-/.:]\d{1,2}[-/.:]\d{1,4}|\d{8,14}\b")
_SPLIT = (
    "Write each part as a file of its own, or give all parts the same columns in the same order; parts with the same "
    "columns may be filled together as a folder of files."
)

DELIMITERS = (",", ";", "\t", "|")
NAMES_OF_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", BLANKS: "blanks"}
_FITS, _BLANKS_FIT = 0.5, 0.9
_HEAD, _AGREES = 2000, 0.9
"""Lines from which the delimiter of a long text is told, and the score that all of its lines must reach with it."""


def count_unit_rows(columns: Sequence[Sequence[str]], n_above: int = 0) -> int:
    """How many of the first rows, 3 at most, tell of the columns rather than hold values: units and the like.

    Such a row has a text, and no number, in columns that hold numbers below; its other fields are unlike those below.
    ``n_above`` of the rows stand above the first one that looks like most.
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


def units_of(columns: Sequence[Sequence[str]], n_rows: int) -> tuple[str, ...]:
    """Per column the text of the row of units: of several rows below the names, the one with most units."""
    rows = [[column[at] for column in columns] for at in range(n_rows)] or [[""] * len(columns)]
    best = max(rows, key=lambda row: sum(is_unit(unit_of(text)) for text in row))
    return tuple(map(unit_of, best))


def repeats(records: list[list[str]], rows: Sequence[int], block: Sequence[int]) -> list[int]:
    """The rows that are the line of names, or another one above the first row of values, once more."""
    known = {tuple(records[i]) for i in block}
    firsts = {line[0] for line in known if line}
    alike = (i for i in rows if records[i] and records[i][0] in firsts and i not in block)
    return [i for i in alike if tuple(records[i]) in known]


def footers(records: list[list[str]], rows: Sequence[int], width: int) -> list[int]:
    """The last rows that are remarks or summaries such as "Mean,20.1" below a column of dates or numbers.

    Below other columns too, a remark is what has one field, where there are ``width``, that comes nowhere else.
    """
    labels = [records[i][0] for i in rows if records[i]]
    digits = sum(text[:1].isdigit() for text in labels)
    is_counted = digits >= _MOSTLY * max(1, sum(map(bool, labels)) - _MOST_FOOTERS // 10) and digits > 1
    last: list[int] = []
    for i in reversed(rows[2:]):
        known = list(filter(None, records[i]))
        is_remark = len(records[i]) == 1 < width and labels.count(known[0]) == 1 if known else False
        if not known or len(last) >= _MOST_FOOTERS or not _is_footer(known, labels, is_counted or is_remark):
            break
        # A field behind the first that is a date or the like, as that of another row is, goes on with the rows.
        pairs = zip(records[i][1:], records[rows[0]][1:], strict=False)
        if is_counted and any(a[:1].isdigit() and not is_number(a) and shape(a) == shape(b) for a, b in pairs):
            break
        last.append(i)
    return last[::-1]


def _is_footer(known: Sequence[str], labels: Sequence[str], is_counted: bool) -> bool:
    first = known[0]
    if first[:1].isdigit() or is_missing(first) or is_number(first):
        return False
    words = _WORD.findall(first.casefold())
    if is_counted:
        return first[0] == "#" or any(word in _SUMMARIES for word in words) or not any(map(is_number, known))
    return words == [first.casefold().strip(" :.")] and words[0] in _SUMMARIES and labels.count(first) == 1


def check_one_table(
    records: Sequence[list[str]], rows: Sequence[int], header: int, names: Sequence[str], starts: Sequence[int]
) -> None:
    """Refuses a file in which the names (record ``header``) stand anew with other columns, or in another order.

    Rows of values (``rows`` of the records) stand above the names, or a row holds names where numbers are expected.
    """
    width = len(names)
    fitting = [records[i] for i in rows if len(records[i]) == width]
    if not fitting:
        return
    profile = Profile(list(spread(fitting)), width)
    above = [i for i in range(header) if len(records[i]) > 1 and not is_comment(records[i])]
    above = [i for i in above if _DATED.match(records[i][0]) and any(map(is_number, records[i][1:]))]
    above = [i for i in above if profile.alike(records[i])[0]]  # which begin with a date as the rows do
    if len(above) >= FEWEST:
        raise DataError(
            f"line {starts[header] + 1}: expected one table, came names of columns ({_shown(records[header])}) below "
            f"{len(above):,} rows of values (the first in line {starts[above[0]] + 1}): the file holds several tables. "
            f"{_SPLIT}"
        )
    known = {name.casefold() for name in names if name}
    # Units and descriptions right below the names are none: the rows begin with the first one of a date or a number.
    begin = next((at for at, i in enumerate(rows) if records[i] and records[i][0][:1].isdigit()), len(rows))
    for i in rows[begin + 1 : -1]:
        if _names_columns(records[i], profile, known):
            raise DataError(
                f"line {starts[i] + 1}: expected a row of values, came what looks like names of columns "
                f"({_shown(records[i])}; the names in line {starts[header] + 1} are {_shown(names)}): from here on the "
                f"columns are others, or in another order. {_SPLIT}"
            )


def _names_columns(record: Sequence[str], profile: Profile, known: set[str]) -> bool:
    """Whether a record holds texts alone, some where the rows hold numbers, below dates or names of columns."""
    if not record or not record[0] or record[0][0].isdigit():
        return False
    texts = [(at, text) for at, text in enumerate(record) if text]
    if is_comment(record) or len(texts) < 2 or any(text[0].isdigit() for _, text in texts):
        return False
    if not any(char.isdigit() for shape in profile.shapes[0] for char in shape):
        return False
    width = len(profile.numeric)
    odd = [text for at, text in texts if at < width and profile.numeric[at] and not is_number_or_missing(text)]
    if len(odd) < len(texts) - 1 - sum(not n for n in profile.numeric[1:]) or not odd:
        return False
    return len(texts) > 2 or bool(known & {text.casefold() for _, text in texts})


def _shown(names: Sequence[str]) -> str:
    text = ", ".join(names)
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


# Chosen on files of all sorts: a wrong delimiter that splits most lines alike is not met, prose stays below.


@dataclass(frozen=True, eq=False)
class Layout:
    """The records of a text and what they are."""

    delimiter: str  # one character; ``BLANKS`` for any run of blanks and tabs
    records: list[list[str]]  # fields of each record, unquoted and stripped; a blank line has none
    starts: list[int]  # the line, from 0, at which each record starts; one more for the end of the text
    header: Header  # where the names stand
    # which records are rows: those below with a value; in a table of one column blank lines between, too.
    rows: list[int]
    comments: int  # how many lines below the header are remarks, which start with "#"
    repeats: list[int]  # records below that repeat the line of names
    footers: list[int]  # the last records that are remarks or summaries and no rows

    @property
    def names(self) -> list[str]:
        return self.header.names

    def fits(self, record: int) -> bool:
        """Whether a record has a field for each name; empty ones beyond, or none below empty last names, are fine."""
        fields, names = self.records[record], self.names
        if len(fields) == len(names):
            return True
        if len(fields) > len(names):
            return not any(fields[len(names) :])
        return len(names) == 1 or not any(names[len(fields) :])


def find_layout(lines: Sequence[str], delimiter: str | None) -> Layout:
    """The layout of a text by the delimiter given (``\\t``, ``\\s+`` are understood), or by the one that splits best.

    Raises:
        ConfigError, DataError: no such delimiter, no line of names, no row, or a quote that is not closed.
    """
    if delimiter is not None:
        delimiter = {"\\t": "\t", "\\s+": BLANKS}.get(delimiter, delimiter)
        if len(delimiter) != 1 or delimiter.isalnum() or delimiter in '"\r\n\0+-.#':
            raise ConfigError(f"delimiter: expected one character such as , ; | or a tab, came {delimiter!r}.")
        return _layout(lines, delimiter)
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


def _layout(lines: Sequence[str], delimiter: str) -> Layout:
    records, starts = read_records(lines, delimiter)
    content = [i for i, record in enumerate(records) if any(record)]
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
    content = [i for i, record in enumerate(records) if any(record) and not is_comment(record)]
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

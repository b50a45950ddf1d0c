"""Which line of a delimited text holds the names of its columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from tsimpute.errors import DataError
from tsimpute.tables.text.number_forms import is_unit
from tsimpute.tables.text.numbers import is_number, is_number_or_missing

SAMPLE = 100
_DIGITS = re.compile(r"\d+")

NO_UNITS = frozenset(
    ("float", "double", "int", "integer", "string", "str", "text", "number", "numeric", "real", "bool", "boolean",
     "date", "datetime", "time", "varchar", "char", "analog", "digital", "status", "avg", "average", "mean", "smp",
     "min", "max", "std", "tot", "sum", "wvc", "instant", "none")
)  # fmt: skip
"""Words of lines below the names: kinds of values, and how they were averaged."""
TYPES = NO_UNITS | frozenset(
    ("rn", "ts", "yr", "mo", "dy", "hr", "mn", "unitless", "dimensionless", "volts", "deg c", "degrees", "grad",
     "prozent", "percent", "uhr", "utc", "local time", "lst", "degrees_north", "degrees_east", "degree_north",
     "degree_east", "psu", "pss", "ntu", "fnu")
)  # fmt: skip
"""The same, and units in words."""
_COLUMN_FORMAT = re.compile(r"\d+[sdnS]")  # As in files of the USGS: 5s is text of five characters, 14n a number of 14
_DATE_FORMAT = re.compile(r"(?=.*(?:yy|dd|hh))[ymdhs]{1,4}([-/.: T][ymdhs]{1,4})+", re.IGNORECASE)
_VALUE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d{1,2}:\d{2}|:\s|:$")
_TIME_WORDS = re.compile(r"time|date|stamp|datum|fecha|zeit|heure|hora|日期|时间|時間", re.IGNORECASE)
_OF_UNITS = frozenset(("unit", "units", "uom", "einheit", "einheiten", "unidad", "unit\u00e9"))
_TIMES = frozenset(("time", "timestamp", "date", "datetime", "datum", "zeit", "fecha", "hora", "valid", "date_time"))
_ENVIRONMENTS = frozenset(("TOA5", "TOACI1", "TOB1"))
"""First fields of the line above the names in files of Campbell loggers."""

_FEWEST_COUNTED = 4


@dataclass(frozen=True, eq=False)
class Header:
    """Where the names stand."""

    record: int  # the one that was taken for names
    names: list[str]  # stripped, one per field; joined from two lines where only both together are distinct
    below: int  # the first record after them
    block: Sequence[int] = ()  # the records above the first row of values


class Profile:
    """What the fields of columns look like, from rows of the second half of a text."""

    def __init__(self, rows: Sequence[Sequence[str]], width: int) -> None:
        self._columns = [[row[c] for row in rows if c < len(row)] for c in range(width)]
        self.used = {c for c, column in enumerate(self._columns) if any(column)}

    @cached_property
    def shapes(self) -> list[set[str]]:
        return [{shape(text) for text in column} for column in self._columns]

    @cached_property
    def numeric(self) -> list[bool]:
        return [any(map(is_number_or_missing, filter(None, column))) for column in self._columns]

    def alike(self, record: Sequence[str]) -> list[bool]:
        """Whether each field that is not empty looks as those of its column do."""
        is_like = lambda c, text: (is_number_or_missing(text) and self.numeric[c]) or shape(text) in self.shapes[c]
        return [c < len(self._columns) and is_like(c, text) for c, text in enumerate(record) if text]

    def is_row(self, record: Sequence[str]) -> bool:
        alike = self.alike(record)
        return bool(alike) and alike[0] and 2 * sum(alike) > len(alike)


def find_header(records: list[list[str]], content: list[int], width: int, starts: list[int]) -> Header:
    """The record that names all columns used further down (the first may lack a name, as that of an index).

    Of several such lines above the first row of values it is the last one that holds no units or kinds of values. A
    ``DataError`` is raised where there is none, or what looks like one holds values.
    """
    # Of the second half, with the usual number of fields, but for those that are one of the first once more.
    first = {tuple(records[i]) for i in content[: min(len(content) // 2, SAMPLE // 2)]}
    usual = [records[i] for i in content[len(content) // 2 :] if len(records[i]) == width]
    late = [record for record in usual if tuple(record) not in first] or usual
    profile = Profile(list(spread(late)), width)
    wanted = profile.used - {0}
    first_row = next((i for i in content if profile.is_row(records[i]) and not is_comment(records[i])), None)
    above = [] if first_row is None else [i for i in content if i < first_row]
    complete = [i for i in above if named(records[i], width) >= wanted and not _is_data(records[i], late)]
    if not complete or first_row is None:
        header = _first_with_names(records, content, width, starts, profile.used)
        return Header(header, _names(records[header]), header + 1, [i for i in content if i <= header])
    header = complete[0]
    for i in complete[1:]:
        if _is_better(records, i, header):
            header = i
    names = _distinct(records, header, [i for i in above if i > header], [i for i in above if i < header])
    return replace(names, block=above)


def _names(record: Sequence[str]) -> list[str]:
    return [record[0].lstrip("# ") or record[0], *record[1:]]


def are_distinct(names: Sequence[str]) -> bool:
    known = [name for name in names if name]
    return len(set(known)) == len(known)


def _is_better(records: list[list[str]], lower: int, upper: int) -> bool:
    below, above = records[lower], records[upper]
    if {text.casefold() for text in below} & _TIMES and not any(map(_TIME_WORDS.search, above)):
        return True
    if _are_annotations(below) and not _are_annotations(above):
        return False
    if is_comment(records[upper]) != is_comment(records[lower]):
        return is_comment(records[upper])
    if above[0] in _ENVIRONMENTS:
        return True
    is_fuller = sum(map(bool, above)) > sum(map(bool, below))
    tests = (
        (are_distinct(above) or is_fuller, are_distinct(below)),
        (not _has_values(above), not _has_values(below)),
        (sum(map(bool, above)), sum(map(bool, below))),
        (any(map(_TIME_WORDS.search, above)), any(map(_TIME_WORDS.search, below))),
    )
    for of_upper, of_lower in tests:
        if of_upper != of_lower:
            return of_lower > of_upper
    is_apart = lower != upper + 1
    return is_apart or is_comment(records[upper]) or sum(" " in t for t in above) > sum(" " in t for t in below)


def _has_values(fields: Sequence[str]) -> bool:
    known = [text for text in fields if text]
    numbers = [int(text) for text in known if text.isdecimal() and len(text) <= 4]
    by_one = len(numbers) >= _FEWEST_COUNTED and all(b == a + 1 for a, b in pairwise(numbers))
    if by_one and not any(is_number(text) for text in known if not text.isdecimal()):
        return False  # years that count on by one are names of columns
    return any(is_number(text) or _VALUE.search(text) for text in known)


def _are_annotations(fields: Sequence[str]) -> bool:
    known = [text.lstrip("# ") for text in fields if text and not _TIME_WORDS.search(text)]
    if known and known[0].casefold().rstrip(":") in _OF_UNITS:
        return True
    return bool(known) and 2 * sum(map(is_annotation, known)) >= len(known)


def is_annotation(text: str) -> bool:
    """Whether a text says of a column what its values are: a unit, a kind of value, a format."""
    bare = text.strip("[]() ")
    is_format = _COLUMN_FORMAT.fullmatch(bare) or _DATE_FORMAT.fullmatch(bare)
    in_brackets = len(text) > 2 and text[0] + text[-1] in ("[]", "()")
    return bool(is_unit(bare) or bare.casefold() in TYPES or is_format or in_brackets)


def unit_of(text: str) -> str:
    """The unit that a field below a name tells, "" where it tells a format or a kind of value."""
    bare = text.lstrip("# ").strip("[]() ")
    is_format = _COLUMN_FORMAT.fullmatch(bare) or _DATE_FORMAT.fullmatch(bare)
    return "" if is_format or bare.casefold() in NO_UNITS else bare


def _distinct(records: list[list[str]], header: int, below: list[int], above: list[int]) -> Header:
    """The names, joined with the line below or above where they are distinct only so."""
    names = _names(records[header])
    alone = Header(header, names, header + 1)
    if are_distinct(names):
        return alone
    for n_lines in (1, 2):
        lines = [names, *(records[i] for i in below[:n_lines])]
        joined = _joined(lines)
        if len(lines) == n_lines + 1 and are_distinct(joined):
            last = [i for i in below[:n_lines] if not _are_annotations(records[i])]
            return Header(header, joined, (last or [header])[-1] + 1)
    for start in range(len(above) - 1, -1, -1):
        for lines in ([above[start]], above[start:]):
            joined = _joined([*(_carried_on(records[i]) for i in lines), names])
            # A name that stands over others carries on to the columns behind it, but not to one without any name.
            upper = _joined([records[i] for i in lines])
            bare = [upper[at] if at < len(upper) else "" for at in range(len(names))]
            joined = [text if name else other for text, name, other in zip(joined, names, bare, strict=False)]
            if are_distinct(joined) and all(len(records[i]) > 1 for i in lines):
                return Header(header, joined, header + 1)
    return alone


def _joined(lines: Sequence[Sequence[str]]) -> list[str]:
    width = max(map(len, lines))
    columns = zip(*([*line, *[""] * (width - len(line))] for line in lines), strict=True)
    return [" ".join(dict.fromkeys(filter(None, column))) for column in columns]


def _carried_on(record: Sequence[str]) -> list[str]:
    """A line of names each of which stands over several columns, as merged cells of a sheet are written.

    Where one stands twice side by side (``Wind, Wind, Wind, ,`` of weather stations) each column has its own.
    """
    if any(one and one == other for one, other in pairwise(record)):
        return list(record)
    out: list[str] = []
    for text in record:
        out.append(text or (out[-1] if out else ""))
    return out


def _first_with_names(
    records: list[list[str]], content: list[int], width: int, starts: list[int], used: set[int]
) -> int:
    plain = [i for i in content if not is_comment(records[i])]
    half = max(2, (len(used) + 1) // 2)
    complete = next((at for at, i in enumerate(plain) if named(records[i], width) >= used - {0}), None)
    partial = next((at for at, i in enumerate(plain) if len(named(records[i], width) & used) >= half), None)
    header = None
    for at in (complete, partial):
        if at is None:
            continue
        header = plain[at]
        others = [records[i] for i in plain[max(0, at - SAMPLE) : at + SAMPLE] if i != header]
        others = [record for record in others if any(map(str.isdigit, "".join(record)))]  # no second line of names
        if not _is_data(records[header], others):
            return header
    remarks = (i for i in range(content[-1] if header is None else header, -1, -1) if is_comment(records[i]))
    of_remarks = next((i for i in remarks if named(records[i], width) >= used - {0}), None)
    if of_remarks is not None:
        return of_remarks
    if header is None:
        first = content[0]
        raise DataError(
            f"expected a line with a name for each of {width} columns, found none; line {starts[first] + 1} has "
            f"{len(records[first])} fields. Name every column."
        )
    raise without_names(starts[header], records[header])


def without_names(line: int, record: Sequence[str]) -> DataError:
    shown = repr(", ".join(record)[:60])
    if not any(map(is_number, record)):
        return DataError(
            f"line {line + 1}: expected names of columns, came {shown}, as which other lines look too. If the names "
            "stand above each of several blocks, as of patients, write one line of names, and what stands above each "
            "block into a column of its own."
        )
    return DataError(
        f"line {line + 1}: expected names of columns, came what looks like values: {shown}. "
        f"Add a line of names above it."
    )


def check_names(header: Header, starts: Sequence[int]) -> None:
    """Refuses names that stand twice."""
    if are_distinct(header.names):
        return
    name = next(n for n in header.names if n and header.names.count(n) > 1)
    places = [str(at + 1) for at, other in enumerate(header.names) if other == name]
    raise DataError(
        f"line {starts[header.record] + 1} was taken for the names of columns: expected distinct ones, {name!r} comes "
        f"more than once (columns {', '.join(places[:6])}{', ...' if len(places) > 6 else ''}), and the lines around "
        "it do not tell them apart. Make the names differ in that line; if the names stand further below, cut the "
        "lines above them."
    )


def named(record: Sequence[str], width: int) -> set[int]:
    """The columns that a record names; none where it names more than there are."""
    columns = {c for c, field in enumerate(record) if field}
    return columns if columns and max(columns) < width else set()


def _is_data(record: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a record looks like others: its first field and most others do, or a date or a decimal number does."""
    profile = Profile(list(spread(rows)), len(record))
    pairs = zip(profile.alike(record), filter(None, record), strict=True)
    if any(a and text[0].isdigit() and not text.isdigit() for a, text in pairs):
        return True
    return bool(rows) and profile.is_row(record)


def spread(items: Sequence) -> Iterator:
    """At most about ``SAMPLE`` of the items, evenly from first to last."""
    return iter(items[:: max(1, len(items) // SAMPLE)])


def is_comment(record: Sequence[str]) -> bool:
    return bool(record) and record[0].startswith("#")


def shape(text: str) -> str:
    return _DIGITS.sub("9", text)

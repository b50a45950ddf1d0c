"""Numbers of a delimited file: read from the texts of a column with the marks that mean "missing", and written."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.text.number_forms import (
    BOUND,
    NO_NUMBER,
    NUMBER,
    PLAIN,
    TRACE,
    UNITS,
    NumberForm,
    nature,
    read_form,
)
from tsimpute.tables.text.rawtext import Delimited

MISSING_MARKS = frozenset(
    ("", "NA", "N/A", "#N/A", "#NA", "<NA>", "NaN", "1.#QNAN", "NaT", "null", "None", "nil", "nodata",
     "no data", "NR", "ND", "n.a.", "n.d.", "not available", "missing", "-", "--", "---",
     *"\u2010\u2011\u2012\u2013\u2014\u2015\u2212\uff0d", "\u2014\u2014", ".", "..", "...", "?", "*")
)  # fmt: skip
"""Texts that mean "no value" in whatever case; numeric codes such as -999 are not among them."""

NUMERIC_MARKS = frozenset(
    ("M", "MM", "//", "///", "////", "/////", "#N/V", "#NV", "k.A.", "n/d", "s/d", "n/e", "-?-", "***")
)
"""Texts that mean "no value" in a column that holds numbers, written exactly so; elsewhere they are words."""

MAX_DECIMALS = 15  # The most decimals that a column has; float64 carries no more of a number near 1

DECIMAL_MARKS = {".": "decimal point", ",": "decimal comma"}
SHOWN_LINES = 3

_NUMBER = re.compile(NUMBER, re.ASCII)
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:([ .,'\u2019\u00a0\u202f])\d{3})(?:\1\d{3})*(?:[.,]\d*)?", re.ASCII)
_SCIENTIFIC = re.compile(r"[+-]?\d+(?:[.,](\d*))?([eE])([+-]?)(\d+)", re.ASCII)
_PADDED = re.compile(r"0\d+", re.ASCII)
_CHARACTERS = frozenset("0123456789+-.eE")
_LAST_BRACKETS = re.compile(r"(.*\S)\s*(?:\[([^\[\]]*)\]|\(([^()]*)\))", re.DOTALL)
_DATE_FORMAT = re.compile(r"yy|dd|hh:", re.IGNORECASE)


@dataclass(frozen=True)
class Exponents:
    """How a column writes numbers such as 2.250e-06."""

    decimals: int  # of the mantissa, the most that came
    letter: str  # e or E
    digits: int  # of the exponent, the fewest that came
    plus: str  # "+" where exponents that are not negative have it

    @classmethod
    def of(cls, texts: Sequence[str]) -> Exponents | None:
        """Those of numbers all of which have one but for zeros; else None."""
        matches = [match for text in texts if (match := _SCIENTIFIC.fullmatch(text))]
        if not matches or any(float(text.replace(",", ".")) for text in texts if not _SCIENTIFIC.fullmatch(text)):
            return None
        decimals, digits = max(len(match[1] or "") for match in matches), min(len(match[4]) for match in matches)
        return cls(decimals, matches[0][2], digits, "+" * any(match[3] == "+" for match in matches))

    def texts(self, values: np.ndarray, decimal: str) -> list[str]:
        """Finite numbers as the column writes them."""
        out = []
        for value in np.asarray(values, np.float64).tolist():
            mantissa, _, exponent = f"{value:z.{self.decimals}e}".partition("e")
            sign = "-" if exponent[0] == "-" else self.plus
            power = str(abs(int(exponent))).zfill(self.digits)
            out.append(f"{mantissa.replace('.', decimal)}{self.letter}{sign}{power}")
        return out


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of one column."""

    values: np.ndarray  # (R,) float64, NaN = missing
    missing: Mapping[str, int]  # the marks that came, as the file writes them, and how often; "" for an empty field
    # largest number of decimals of the numbers, 0 for whole ones, at most ``MAX_DECIMALS``; 1.5e-3 has 4.
    decimals: int
    is_integer: bool  # there are numbers, and each is written without decimals and exponent
    form: NumberForm = PLAIN  # signs of all numbers besides the digits, as a percent sign
    width: int = 0  # see ``padded_width``
    exponents: Exponents | None = None  # of a column all of whose numbers have one


def read_numbers(table: Delimited, column: int, missing_marks: Collection[str] = MISSING_MARKS) -> Numbers:
    """The numbers of one column; see ``find_numbers``.

    A field that is neither a number nor a mark, is infinite, or has signs that not every number has, is refused.
    """
    numbers = find_numbers(table, column, missing_marks)
    if numbers is None:
        raise _refusal(table, column, _split_marks(missing_marks)[0])
    return numbers


def find_numbers(table: Delimited, column: int, missing_marks: Collection[str] = MISSING_MARKS) -> Numbers | None:
    """The numbers of one column, exact to the last bit; None where a field is neither a number nor a missing mark.

    Args:
        table: R rows.
        column: its place, from 0.
        missing_marks: texts that mean "no value", in whatever case, in addition to ``NUMERIC_MARKS``. One that is a
            number, as "-999", stands for all ways to write it, as -999.0.
    """
    places, distinct = pd.factorize(table.columns[column])  # each text is read once, however often it comes
    texts = distinct.tolist()
    marks, codes = _split_marks(missing_marks)
    is_mark = np.array([_is_mark(text, marks) for text in texts], bool)
    form, plain = PLAIN, [text for text, is_one in zip(texts, is_mark, strict=True) if not is_one]
    parsed = parse(plain, table.decimal)
    if parsed is None and (read := read_form(plain, table.decimal, sure=table.decimal_is_sure)):
        form, plain = read
        parsed = parse(plain, table.decimal)
    if parsed is None:
        return None
    values = np.full(len(texts), np.nan)
    values[~is_mark] = parsed
    is_missing = is_mark | np.isin(values, codes)
    written = [text for text, is_code in zip(plain, is_missing[~is_mark], strict=True) if not is_code]
    values[is_missing] = np.nan
    counts = np.bincount(places, minlength=len(texts))
    return Numbers(
        values=values[places],
        missing={texts[at]: int(counts[at]) for at in np.flatnonzero(is_missing)},
        decimals=min(max(written_decimals(written, table.decimal), default=0), MAX_DECIMALS),
        is_integer=bool(written) and not set("".join(written)) & set(".,eE"),
        form=form,
        width=padded_width(written),
        exponents=Exponents.of(written),
    )


def _is_mark(text: str, marks: Collection[str]) -> bool:
    return text.casefold() in marks or text in NUMERIC_MARKS


def number_text(values: np.ndarray, decimals: int, decimal: str) -> list[str]:
    """Numbers as a file writes them: rounded to so many decimals, never with an exponent, never "-0".

    NaN and infinite values are refused.
    """
    if not np.isfinite(values).all():
        at = int(np.flatnonzero(~np.isfinite(values))[0])
        raise DataError(f"numbers to write: expected finite values, value {at} is {values[at]}. Leave such cells out.")
    texts = [f"{value:z.{decimals}f}" for value in np.asarray(values, np.float64).tolist()]
    return [text.replace(".", decimal) for text in texts] if decimal != "." else texts


def split_unit(name: str) -> tuple[str, str]:
    """A name and the unit in brackets at its end: "Temp [degC]" -> ("Temp", "degC"); "CO(GT)" -> ("CO(GT)", "").

    A unit is what has one of % ° ² ³ µ / in it, or stands in ``UNITS``; the format of a date is none.
    """
    match = _LAST_BRACKETS.fullmatch(name.strip())
    if match is None:
        return name, ""
    unit = (match[2] or match[3] or "").strip()
    has_sign = any(sign in unit for sign in "%°²³µμ/‰") and not _DATE_FORMAT.search(unit)
    return (match[1], unit) if has_sign or unit in UNITS else (name, "")


def parse(texts: Sequence[str], decimal: str) -> np.ndarray | None:
    """The numbers of stripped texts, or None where one of them is no finite number."""
    characters = set("".join(texts))
    if decimal == ",":
        if "." in characters:
            return None
        characters = {"." if c == "," else c for c in characters}
        texts = [text.replace(",", ".") for text in texts]
    if not characters <= _CHARACTERS:  # float() would take "1_000", "infinity" and the digits of other scripts
        return None
    try:
        values = np.array([float(text) for text in texts], np.float64)
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


def is_number_or_missing(text: str) -> bool:
    """Whether a text is a number, with a decimal point or comma, or means "no value" in a column of numbers."""
    return is_number(text) or text.casefold() in _FOLDED or text in NUMERIC_MARKS


def is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def is_missing(text: str) -> bool:
    return text.casefold() in _FOLDED


_FOLDED = frozenset(mark.casefold() for mark in MISSING_MARKS)


def _split_marks(marks: Collection[str]) -> tuple[frozenset[str], list[float]]:
    if marks is MISSING_MARKS:
        return _FOLDED, []
    if isinstance(marks, str):
        raise ConfigError(f"missing marks: expected a list of texts, came the single text {marks!r}. Use [{marks!r}].")
    stripped = [mark.strip() for mark in marks]
    codes = [float(mark.replace(",", ".").replace("\u2212", "-")) for mark in stripped if _NUMBER.fullmatch(mark)]
    return frozenset(mark.casefold() for mark in stripped), codes


def _parses(text: str, decimal: str) -> bool:
    return parse([text], decimal) is not None


def written_decimals(texts: Sequence[str], mark: str) -> list[int]:
    """Decimals of each of some numbers without a unit or another sign: 1.5e-3 has 4."""
    if not set("".join(texts)) & set("eE"):
        return [len(text) - text.index(mark) - 1 if mark in text else 0 for text in texts]
    counts = []
    for text in texts:
        mantissa, _, exponent = text.lower().partition("e")
        counts.append(max(0, len(mantissa.partition(mark)[2]) - int(exponent or 0)))
    return counts


def _refusal(table: Delimited, column: int, marks: Collection[str]) -> DataError:
    """What is wrong with the first field that is neither a number nor a mark, and what to do."""
    texts = {row: text for row, text in enumerate(table.columns[column].tolist()) if not _is_mark(text, marks)}
    bad = [row for row, text in texts.items() if not _parses(text, table.decimal)]
    if two := _two_marks(table, column, texts):
        return two
    row, text = bad[0], texts[bad[0]]
    name = repr(table.header[column]) if table.header[column] else str(column + 1)
    where = f"{table.place(row)}, column {name}: expected"
    other = "," if table.decimal == "." else "."
    shown = repr(text if len(text) <= 60 else text[:60] + "...")
    is_infinite = _NUMBER.fullmatch(text) and math.isinf(float(text.replace(",", ".").replace("\u2212", "-")))
    if is_infinite or text.casefold().lstrip("+-") in ("inf", "infinity"):
        return DataError(f"{where} a finite number, came {shown}. Correct it, or name it as a missing mark.")
    if _GROUPED.fullmatch(text):
        grouped = (
            f"{where} a number with decimal {table.decimal!r}, came {shown}, which may have separators of thousands. "
        )
        grouped += f"Pass decimal={table.decimal!r} if they are, or remove them from the file. "
        at, rows = _column_with(table, table.decimal)
        if all(_GROUPED.fullmatch(table.columns[at][row]) for row in rows):
            return DataError(f"{grouped}Pass decimal={other!r} if it is the decimal mark.")
        return DataError(
            f"{grouped}If it is the decimal mark: column {table.header[at]!r} has a {DECIMAL_MARKS[table.decimal]} "
            f"({_lines_of(table, rows)}). {_one_mark(table, column)}"
        )
    if _parses(text, other):
        return DataError(
            f"{where} a number with decimal {table.decimal!r}, came {shown}. Pass decimal={other!r}, or correct it."
        )
    fields = [column[row] for column in table.columns]
    again = any(text and text == name for text, name in zip(fields, table.header, strict=True))
    if again and not any(_parses(text, table.decimal) for text in fields if text):
        return DataError(
            f"{where} a number or a missing mark, came {shown}: this line repeats names of columns, as where a second "
            "table begins. Write each table to a file of its own, or its columns beside those of the first."
        )
    wrong = [texts[r] for r in bad]
    return DataError(
        f"{where} a number or a missing mark, came {shown}: {nature(text)}. {tally(wrong, len(texts))} "
        f"{advice(table.header[column], wrong)}"
    )


def _two_marks(table: Delimited, column: int, texts: Mapping[int, str]) -> DataError | None:
    """What to do where a column has decimal points and commas, or one column has these and another one those."""
    mark_of_file, other = (table.decimal, "," if table.decimal == "." else ".")
    others = [row for row, text in texts.items() if has_mark(text, other) and not _GROUPED.fullmatch(text)]
    place, with_mark = column, [row for row, text in texts.items() if has_mark(text, mark_of_file)]
    if not others:
        return None
    if not with_mark:
        place, with_mark = _column_with(table, mark_of_file)
    if not with_mark:
        return None
    came = [
        f"a {DECIMAL_MARKS[mark]} in column {table.header[at]!r} ({_lines_of(table, rows)}"
        for mark, at, rows in sorted(
            ((mark_of_file, place, with_mark), (other, column, others)), key=lambda part: part[2][0]
        )
    ]
    return DataError(
        f"{table.name}: expected one decimal mark, came {came[0]}) and {came[1]}). {_one_mark(table, column)}"
    )


def _one_mark(table: Delimited, column: int) -> str:
    """What to do with a column of another decimal mark than the rest of the file."""
    name = f'""{table.header[column]}""' if "," in table.header[column] else table.header[column]
    return (
        "No option reads both: write the numbers of the file with one mark. To have column "
        f"{table.header[column]!r} passed through unchanged, {COMMAND.text.format(name)}."
    )


def _lines_of(table: Delimited, rows: Sequence[int]) -> str:
    return lines_text([int(table.lines[row]) for row in rows])


def _column_with(table: Delimited, mark: str) -> tuple[int, list[int]]:
    """The first column of numbers that has this decimal mark, and the rows with it; no rows where there is none."""
    for at, fields in enumerate(table.columns):
        rows = [row for row, text in enumerate(fields) if has_mark(text, mark)]
        if rows and all(_parses(text, mark) or is_missing(text) for text in fields):
            return at, rows
    return 0, []


def has_padded(texts: Iterable[str]) -> bool:
    """Whether some are digits with zeros before them, as 007."""
    return any(map(_PADDED.fullmatch, texts))


def padded_width(texts: Sequence[str]) -> int:
    """The digits to which a format such as %05d pads all of some whole numbers; 0 where none does."""
    if not all(text.isascii() and text.isdigit() for text in texts):
        return 0
    padded = {len(text) for text in texts if _PADDED.fullmatch(text)}
    return padded.pop() if len(padded) == 1 and min(padded) <= min(map(len, texts)) else 0


def has_mark(text: str, mark: str) -> bool:
    """Whether a text is a number with this decimal mark."""
    return mark in text and _parses(text, mark)


def lines_text(lines: Sequence[int]) -> str:
    """The first of some lines, and how many there are: "lines 2, 3, 5, ..., 31 in all"."""
    if len(lines) == 1:
        return f"line {lines[0]}"
    more = f", ..., {len(lines):,} in all" if len(lines) > SHOWN_LINES else ""
    return f"lines {', '.join(map(str, lines[:SHOWN_LINES]))}{more}"


def tally(bad: Sequence[str], n_values: int) -> str:
    """How many values are no plain numbers, and the commonest of these, in a sentence."""
    counts = Counter(bad).most_common(5)
    listed = ", ".join(f"{text[:30]!r}{f' {count:,} times' if count > 1 else ''}" for text, count in counts)
    more = ", ..." if len(set(bad)) > len(counts) else ""
    what = "are no plain numbers" if len(bad) > 1 else "is no plain number"
    return f"{len(bad):,} of {n_values:,} values {what}: {listed}{more}."


@dataclass(frozen=True)
class Wording:
    """How a user says two things, with "{}" where the texts or the name of the column stand."""

    missing: str
    text: str


COMMAND = Wording('pass --missing_marks "{}"', 'pass --text "{}"')
CALL = Wording("replace them by NaN ({})", 'pass text="{}"')


def advice(name: str, bad: Sequence[str], ways: Wording = COMMAND) -> str:
    """What to do about texts in a column of numbers, in sentences."""
    kinds = {text: nature(text) for text in dict.fromkeys(bad)}
    words = [text for text, kind in kinds.items() if kind in (NO_NUMBER, TRACE)]
    bounds = [text for text, kind in kinds.items() if kind == BOUND]
    parts = []
    if words:
        listed = " or ".join(map(repr, words[:3])) + (" or ..." if len(words) > 3 else "")
        parts.append(f"If {listed} means that there is no value, {ways.missing.format(_quoted(words))}.")
    if bounds:
        parts.append(
            "Write numbers in place of bounds and estimates, as half the limit, or treat them as missing: "
            f"{ways.missing.format(_quoted(bounds))}."
        )
    if len(words) + len(bounds) < len(kinds):
        parts.append("Take off what stands beside the numbers, or move it into a column of its own.")
    column = f'""{name}""' if "," in name else name
    return " ".join([*parts, f"To have the column passed through unchanged, {ways.text.format(column)}."])


def _quoted(texts: Sequence[str]) -> str:
    return ",".join(f'""{text}""' if "," in text else text for text in texts[:6]) + ",..." * (len(texts) > 6)

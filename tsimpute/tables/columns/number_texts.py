"""Text columns that hold numbers: told apart from true text, and refused with the first value that is no number."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.tables.columns.column_names import words
from tsimpute.tables.text.number_forms import LEAST, LOOKS, looks_like_number, nature, share_a_tail
from tsimpute.tables.text.numbers import (
    CALL,
    MISSING_MARKS,
    NUMERIC_MARKS,
    Wording,
    advice,
    has_mark,
    has_padded,
    is_missing,
    padded_width,
    parse,
    tally,
)
from tsimpute.tables.text.row_errors import RowError

_LETTERED = re.compile(r"[A-Za-z]{1,3}\d[\w.+-]*")
_CODE_WORDS = frozenset((
    "dx", "diag", "diagnosis", "diagnose", "code", "atc", "ndc", "drg", "cpt", "ops", "procedure", "proc", "snomed",
    "loinc",
))  # fmt: skip
"""Words of names of columns of codes from a catalogue."""
MOST = 0.5  # A text column with at least this share of numbers was meant to be one of numbers
_FEWEST_DISTINCT, _NEAR, _BOTH_WAYS = 10, 0.5, 0.1
"""Of digits with zeros before them that are measured: see ``are_padded_codes``."""


def is_number(column: pd.Series | pd.Index) -> bool:
    """Numbers, of any dtype: also objects that are all numbers or nothing. Booleans are none, nor are empty texts."""
    kind = column.dtype
    if pd.api.types.is_bool_dtype(kind) or isinstance(kind, pd.CategoricalDtype):
        return False
    if pd.api.types.is_numeric_dtype(kind):
        return not pd.api.types.is_complex_dtype(kind)
    return pd.api.types.is_object_dtype(kind) and all(map(is_real, column[~pd.isna(column)]))


def is_true_false(column: pd.Series | pd.Index) -> bool:
    """True and false, or texts that say so, or nothing."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return True
    known = column[~pd.isna(column)]
    return bool(len(known)) and all(
        isinstance(item, bool) or (isinstance(item, str) and item.strip().casefold() in ("true", "false", ""))
        for item in known
    )


def is_real(item: Any) -> bool:
    """A number that is no boolean."""
    return isinstance(item, Real | Decimal) and not isinstance(item, bool)


def can_name(column: pd.Series | pd.Index) -> bool:
    """Whether what a column holds can be told apart, as names must be: lists, dictionaries and the like cannot."""
    kind = column.dtype
    plain = not (pd.api.types.is_object_dtype(kind) or isinstance(kind, pd.ArrowDtype))
    return plain or all(map(is_hashable, column))


def check_names(column: pd.Series | pd.Index, name: Hashable) -> None:
    """Refuses a column that was named as times or names and holds what cannot be told apart; see ``can_name``."""
    if not can_name(column):
        row = next(row for row, item in enumerate(column) if not is_hashable(item))
        raise RowError(
            f"column {name!r}: expected times or names, came {column.tolist()[row]!r} in ", row, row_label(column, row),
            ". Make texts or numbers of them, or name another column.",
        )  # fmt: skip


def is_hashable(item: Any) -> bool:
    """Whether it has a hash: also what is within it."""
    try:
        hash(item)
    except TypeError:
        return False
    return True


def row_label(column: pd.Series | pd.Index, row: int) -> str:
    """The label of a row in brackets, "" where it is the row's place."""
    index = column.index if isinstance(column, pd.Series) else None
    if index is None or (isinstance(index, pd.RangeIndex) and index.name is None):
        return ""
    return f" ({index[row]})"


def are_padded_codes(texts: Sequence[str]) -> bool:
    """Digits alone, some with zeros before them, that name something: "01" and "1" are two names, and not one number.

    They are measured where a format pads all of them to one width and they vary as a measurement does: ten distinct
    ones or more, those that follow each other (repeats left out) less than half as far apart on average as any two
    are, and a tenth or more of these steps up, and of them down.

    Args:
        texts: stripped and none of them missing, in the order of the rows.
    """
    if not all(text.isascii() and text.isdigit() for text in texts) or not has_padded(texts):
        return False
    if not padded_width(texts):
        return True
    values = np.array(list(map(float, texts)))
    steps = np.diff(values)
    steps = steps[steps != 0]
    if len(np.unique(values)) < _FEWEST_DISTINCT or min((steps > 0).mean(), (steps < 0).mean()) < _BOTH_WAYS:
        return True
    n = len(values)
    mean_difference = 2 * (np.sort(values) * (2 * np.arange(n) - n + 1)).sum() / (n * (n - 1))
    return bool(np.abs(steps).mean() >= _NEAR * mean_difference)


def are_catalogue_codes(name: Hashable, items: Iterable[Any]) -> bool:
    """Codes of diagnoses, drugs or procedures, of which some are digits alone (I50.9 beside 486): names, no numbers."""
    named = any(word in _CODE_WORDS or word.startswith("icd") for word in words(name))
    return named and any(isinstance(item, str) and _LETTERED.fullmatch(item.strip()) for item in items)


def text_problem(column: pd.Series | pd.Index, name: Hashable, *, named: bool = False) -> RowError | None:
    """Why a column that is text cannot be filled although it was meant to be numbers, or None where it is true text.

    ``named``: the user names the column as one of numbers, so whatever else it holds is refused.
    """
    if not (column.dtype == object or pd.api.types.is_string_dtype(column.dtype)):
        parts = ", complex numbers: give their real and imaginary parts as columns" * (column.dtype.kind == "c")
        return RowError(f"column {name!r}: expected numbers, came {column.dtype}{parts}.") if named else None
    items = column.tolist()
    rows = [row for row, blank in enumerate(pd.isna(column)) if not blank]
    numbers = {row for row in rows if _reads(items[row])}
    if not named and (not numbers or len(numbers) < MOST * len(rows)):
        return None
    bad = next((row for row in rows if row not in numbers), None)
    if bad is not None:
        marks = ", one of the texts that mean 'missing'" if is_missing(str(items[bad]).strip()) else ""
        return RowError(
            f"column {name!r}: expected numbers or nothing, came {items[bad]!r} in ", bad, row_label(column, bad),
            f"{marks}; {len(numbers)} of {len(rows)} values are numbers. Clean it (pandas.to_numeric with "
            "errors='coerce' makes such texts missing), or leave the column out by naming those to fill (features).",
        )  # fmt: skip
    point, comma = (_first_with(items, rows, mark) for mark in ".,")
    if point is not None and comma is not None:
        return RowError(
            f"column {name!r}: expected numbers with one decimal mark, came {items[point]!r} in ",
            point, row_label(column, point), f" and {items[comma]!r} in ", comma, row_label(column, comma),
            ". Write all of them with decimal points and convert the column with pandas.to_numeric, or leave it out by "
            "naming those to fill (features).",
        )  # fmt: skip
    texts = [items[row].strip() if isinstance(items[row], str) else "" for row in rows]
    are_names = all(map(str.isdigit, texts)) if len(rows) == len(items) else are_padded_codes(texts)
    if not named and comma is None and are_names:
        return None
    how = "Read the file with decimal=','" if comma is not None else "Convert it with pandas.to_numeric"
    first = (f"{items[rows[0]]!r} in ", rows[0], row_label(column, rows[0])) if rows else ("nothing",)
    return RowError(
        f"column {name!r}: expected numbers, came texts of numbers, the first is ", *first,
        f". {how}, or leave the column out by naming those to fill (features).",
    )  # fmt: skip


def _first_with(items: Sequence[Any], rows: Sequence[int], mark: str) -> int | None:
    """The first of some rows whose text is a number with this decimal mark."""
    return next((row for row in rows if isinstance(items[row], str) and has_mark(items[row].strip(), mark)), None)


def unfillable_text(
    column: pd.Series | pd.Index, name: Hashable, marks: Collection[str] = (), ways: Wording = CALL
) -> RowError | None:
    """Why a column of texts with gaps that look like numbers cannot be filled, or None where it does not look so.

    ``marks`` mean "missing", beside ``MISSING_MARKS``; ``ways`` are how a user says what to do.
    """
    if not (column.dtype == object or pd.api.types.is_string_dtype(column.dtype)):
        return None
    folded = {mark.casefold() for mark in (*MISSING_MARKS, *marks)}
    texts: dict[int, str] = {}
    for row, (item, blank) in enumerate(zip(column.tolist(), pd.isna(column), strict=True)):
        if isinstance(item, str) and item.strip().casefold() not in folded and item.strip() not in NUMERIC_MARKS:
            texts[row] = item.strip()
        elif not isinstance(item, str) and not blank:
            return None
    is_sure = share_a_tail(list(texts.values()))
    distinct = {text: is_sure or looks_like_number(text) for text in set(texts.values())}
    rows = [row for row, text in texts.items() if distinct[text]]
    if len(texts) == len(column) or len(rows) < max(LEAST, LOOKS * len(texts)):
        return None
    wrong = [row for row, text in texts.items() if parse([text], ".") is None]
    if not wrong:
        return None
    bad = [texts[row] for row in wrong]
    return RowError(
        f"expected numbers in a column with gaps, came {bad[0]!r} in ", wrong[0],
        f": {nature(bad[0])}. {tally(bad, len(texts))} Its {len(column) - len(texts):,} gaps stay empty. "
        + advice(str(name), bad, ways),
    )  # fmt: skip


def _reads(item: Any) -> bool:
    if not isinstance(item, str):
        return is_real(item)
    text = item.strip()
    return bool(text) and any(parse([text], mark) is not None for mark in ".,")


def floats(column: pd.Series | pd.Index) -> np.ndarray:
    """(R,) float64 of a column of numbers, NaN where nothing is; a copy."""
    if column.dtype == object:
        return np.array([np.nan if blank else float(x) for x, blank in zip(column, pd.isna(column), strict=True)])
    return pd.Series(column).astype("Float64").to_numpy(np.float64, na_value=np.nan, copy=True)


def has_fractions(column: pd.Series | pd.Index) -> bool:
    """Numbers that are not all whole: no names of anything."""
    if not is_number(column):
        return False
    values = floats(column)
    return bool((values[np.isfinite(values)] % 1 != 0).any())

"""Whether a text file holds one table alone: another line of names between the rows begins a second one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tsimpute.errors import DataError
from tsimpute.tables.text.headers import Profile, is_comment, spread
from tsimpute.tables.text.numbers import is_number, is_number_or_missing

FEWEST = 3
"""Rows above the line of names that make another table, and not a preamble."""
_DATED = re.compile(r"\d{1,4}[-/.:]\d{1,2}[-/.:]\d{1,4}|\d{8,14}\b")
_SPLIT = (
    "Write each part as a file of its own, or give all parts the same columns in the same order; parts with the same "
    "columns may be filled together as a folder of files."
)


def check_one_table(
    records: Sequence[list[str]], rows: Sequence[int], header: int, names: Sequence[str], starts: Sequence[int]
) -> None:
    """Refuses a file in which the names stand anew with other columns, or in another order.

    Args:
        rows: of the records those that are rows of values.
        header: the one that was taken for names.
        starts: the line of each record, from 0.

    Raises:
        DataError: rows of values stand above the line of names, or a row holds names where numbers are expected.
    """
    width = len(names)
    fitting = [records[i] for i in rows if len(records[i]) == width]
    if not fitting:
        return
    profile = Profile(list(spread(fitting)), width)
    above = [i for i in range(header) if _is_dated_row(records[i], profile)]
    if len(above) >= FEWEST:
        raise DataError(
            f"line {starts[header] + 1}: expected one table, found names of columns ({_shown(records[header])}) below "
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


def _is_dated_row(record: Sequence[str], profile: Profile) -> bool:
    """Whether a record begins with a date as the rows do, and holds a number behind it."""
    if len(record) < 2 or is_comment(record) or _DATED.match(record[0]) is None:
        return False
    alike = profile.alike(record)
    return bool(alike) and alike[0] and any(map(is_number, record[1:]))


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

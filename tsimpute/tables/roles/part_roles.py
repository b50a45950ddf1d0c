"""Which columns of a table are parts of its time: year, month, day, hour; detected by their names and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tsimpute.tables.columns.column_names import is_feature_name, is_group_name
from tsimpute.tables.columns.number_texts import is_real
from tsimpute.tables.columns.time_names import PLAIN_SHORT, edge_of, is_calendar_name, part_of, plain
from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.looks import FEW, MOST, Look
from tsimpute.tables.time.numbers import Digits, digits_of
from tsimpute.tables.time.part_columns import HIGHEST, LOWEST, fraction_of_year, joined_clock, named_months
from tsimpute.tables.time.several_columns import CHAINS

if TYPE_CHECKING:
    from tsimpute.tables.roles.columns import Columns


def find_parts(columns: Columns, free: Sequence[int], looks: dict[int, Look]) -> list[int]:
    """The columns of year, month, day and hour, or year and day of the year, as far as there are."""
    months = _valid(columns, free, "month")
    chains = []
    for chain in CHAINS:
        parts: list[int] = []
        for part in chain:
            if part == "hour":
                parts += clock_after(columns, free, parts, looks)
                break
            options = [i for i in _valid(columns, free, part) if i not in parts]
            if part == "doy" and not months:
                options += [i for i in _valid(columns, free, "day", highest=366) if i not in parts]
            options = [i for i in options if part == "year" or _adds(columns, free, parts, i)]
            if not options:
                break
            parts.append(options[0])
        chains.append(parts)
    best = max(chains, key=len)
    names = [plain(columns.names[i]) for i in best]
    if len(best) == 1 and (of_time := part_of(columns.names[best[0]])) and not of_time[1]:
        return []
    return [] if len(best) < 3 and all(len(name) == 1 for name in names) else best


def calendar_parts(columns: Columns, free: Sequence[int]) -> set[int]:
    """Columns that are parts of the time by their names, in full or, where they make a whole date, in short."""
    dated = find_parts(columns, free, {})
    named = {i for i in free if is_calendar_name(columns.names[i])}
    return named | set(dated if len(dated) > 2 else ())


def repeats(columns: Columns, time: Sequence[int], free: Sequence[int]) -> int:
    """How many rows repeat the time of an earlier one of the same series and feature, as far as names tell these."""
    named = [i for i in free if is_group_name(columns.names[i]) or is_feature_name(columns.names[i])]
    keys = [i for i in named if i not in time and columns[i].nunique() < len(columns[i])]
    return int(columns.repeats([*time, *keys]).sum())


def _adds(columns: Columns, free: Sequence[int], before: Sequence[int], at: int) -> bool:
    """A part counts where its name is sure, or it tells rows apart that the parts before it do not.

    A short name is sure where another one is short, too, or where all rows hold one number.
    """
    of_time, name = part_of(columns.names[at]), plain(columns.names[at])
    if (of_time is not None and of_time[1]) or name in PLAIN_SHORT:
        return True
    if any(plain(columns.names[i]) in PLAIN_SHORT for i in before):
        return True
    if len(before) > 2 and columns[at].nunique() == 1:
        return True
    return repeats(columns, before, free) > repeats(columns, [*before, at], free)


def clock_after(columns: Columns, free: Sequence[int], before: Sequence[int], looks: dict[int, Look]) -> list[int]:
    """The columns of hour, minute and second that go on from a date, or the one of a time of day."""
    if before and part_of(columns.names[before[-1]]) in (("year", True), ("year", False)):
        return []
    texts = [i for i in free if i in looks and looks[i].kind == "clock" and part_of(columns.names[i])]
    texts = [i for i in texts if i not in before]
    hours = [i for i in _valid(columns, free, "hour") if i not in before] + texts
    hours = [i for i in hours if _adds(columns, free, before, i)]
    if not hours:
        return []
    clock = hours[:1]
    digits = digits_at(columns, clock[0])
    if digits is None or joined_clock(digits):
        return clock
    for part in ("minute", "second"):
        options = [i for i in _valid(columns, free, part) if i not in before]
        options = [i for i in options if _adds(columns, free, [*before, *clock], i)]
        if not options:
            break
        clock += options[:1]
    return clock


def _valid(columns: Columns, free: Sequence[int], part: str, highest: int | None = None) -> list[int]:
    """Columns that are named as a part and hold it in nearly every row; those that are named in full first.

    A row that holds none is named where the parts are read.
    """
    options = []
    both = {str(columns.names[i]).lstrip("#") for i in free} >= {"MM", "mm"}
    for i in free:
        of_time = part_of(columns.names[i])
        if both and str(columns.names[i]) == "mm":
            of_time = ("minute", False)
        if of_time is None or of_time[0] != part or edge_of(columns.names[i]) == "end":
            continue
        digits = digits_at(columns, i)
        if digits is None:
            named = part == "month" and named_months(columns[i]) is not None
            if (
                named
                or (part == "doy" and fraction_of_year(columns[i]) is not None)
                or (of_time[1] and _mostly(columns[i], part))
            ):
                options.append((i, of_time[1]))
            continue
        low, high = LOWEST.get(part, 0), highest or HIGHEST[part]
        inside = (digits.numbers >= low) & (digits.numbers <= high)
        short_year = part == "year" and digits.numbers.max() < 100
        nearly = inside.mean() >= MOST and inside.sum() >= FEW and of_time[1]
        if inside.all() or short_year or (part == "hour" and joined_clock(digits)) or nearly:
            options.append((i, of_time[1]))
    return [i for i, full in options if full] + [i for i, full in options if not full]


def _mostly(column: pd.Series | pd.Index, part: str) -> bool:
    """Whether nearly all rows of a column that holds something else somewhere are a part of the time."""
    able = [item if isinstance(item, str) or is_real(item) else None for item in column]
    numbers = np.asarray(pd.to_numeric(pd.Series(able, dtype=object), errors="coerce"), np.float64)
    inside = (numbers >= LOWEST.get(part, 0)) & (numbers <= HIGHEST[part]) & (numbers == np.floor(numbers))
    return bool(inside.mean() >= MOST and inside.sum() >= FEW)


def digits_at(columns: Columns, at: int) -> Digits | None:
    try:
        return digits_of(columns[at])
    except RowError:
        return None

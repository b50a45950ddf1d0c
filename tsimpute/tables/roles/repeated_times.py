"""Rows of one time that another column tells apart: that column and the option are named, and no rows thrown away."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from tsimpute.errors import TsimputeError
from tsimpute.tables.columns.column_names import is_id_name, is_instrument_name, is_place_name, is_remark_name
from tsimpute.tables.columns.number_texts import can_name, has_fractions, is_number
from tsimpute.tables.columns.time_names import part_of
from tsimpute.tables.roles.columns import Columns
from tsimpute.tables.roles.roles import Roles
from tsimpute.tables.roles.time_roles import find_parts
from tsimpute.tables.time.columns import look_of
from tsimpute.tables.time.stamps import read_stamps

SHARE = 0.1  # Share of the rows that must repeat a time before numbers are believed to tell them apart
REST = 0.05  # Share of the repeated rows that may still be alike
_SHOWN = 3
_MOST_PAIRED, _PARTS_OF_A_DATE = 8, 3


def what_tells_apart(columns: Columns, roles: Roles, key: np.ndarray) -> str:
    """Which columns tell rows of one time apart, and the option that says so; "" where none does.

    ``key`` (R,) whole numbers are equal for rows of one series, feature and time.
    """
    before = int(pd.Series(key).duplicated().sum())
    if not before:
        return ""
    taken = {*roles.time, *roles.group, roles.feature, roles.value}
    times, names = [], []
    for at in (at for at in range(len(columns)) if at not in taken and columns.names[at] is not None):
        column, of_time = columns[at], part_of(columns.names[at])
        is_complete = can_name(column) and not pd.isna(column).any()
        is_part = of_time is not None and not has_fractions(column)
        if is_complete and (is_part or look_of(column).kind):
            if _n_alike(columns, at, key) <= REST * before:
                times.append(at)
        elif _may_name(columns, at, before) and _n_alike(columns, at, key) <= REST * before:
            names.append(at)
    names = [at for at in names if _says_apart(columns, at)] or names
    if times:
        together, name = sorted((*roles.time, times[0])), str(columns.names[times[0]])
        listed = [str(columns.names[at]) for at in together]
        tells = f" Column {columns.names[times[0]]!r} tells these rows apart"
        try:
            read_stamps([columns[at] for at in together])
        except TsimputeError:
            parts = [str(columns.names[at]) for at in _parts(columns, roles)]
            if parts:
                return (
                    f"{tells}: it makes a time with other columns of the table, so name these, as time={parts} (--time "
                    f"{_quoted(','.join(parts))})."
                )
            if before < SHARE * len(key):  # a few rows are rather wrong than of another time
                return ""
            if len(roles.time) == 1 and is_number(columns[times[0]]):
                date = str(columns.names[roles.time[0]])
                groups = [*(str(columns.names[at]) for at in roles.group), date]
                return (
                    f" Column {name!r} tells these rows apart: if it counts within each {date!r}, as minutes of a "
                    f"session do, set time={name!r} and group={groups}."
                )
            return (
                f"{tells}, but {' and '.join(listed)} make no time together: write one column of times, or all parts "
                "of it from the year on (year, month, day, hour)."
            )
        return f"{tells}: name it with the time, as time={listed} (--time {','.join(listed)})."
    if not names:
        return _pair(columns, roles, key, before)
    shown = " or ".join(repr(columns.names[at]) for at in names[:_SHOWN])
    listed = [str(columns.names[at]) for at in (*roles.group, names[0])]
    return (
        f" Column {shown} tells these rows apart: if each of its names is a series of its own, name it, as "
        f"group={listed} (--group {_quoted(','.join(listed))}); if it says what was measured, name it as feature and "
        "the column of values as value."
    )


def _parts(columns: Columns, roles: Roles) -> list[int]:
    """Columns from the year on that make a time in which no row repeats another; [] where there are none."""
    key = [*roles.group, *([] if roles.feature is None else [roles.feature])]
    parts = find_parts(columns, [at for at in range(len(columns)) if at not in (*key, roles.value)], {})
    return [] if len(parts) <= _PARTS_OF_A_DATE or columns.repeats([*key, *parts]).any() else parts


def _pair(columns: Columns, roles: Roles, key: np.ndarray, before: int) -> str:
    """Two columns that tell the rows apart together, as a store and an item do; "" where there are none."""
    taken = {*roles.time, *roles.group, roles.feature, roles.value}
    able = [at for at in range(len(columns)) if at not in taken and _may_name(columns, at, before)]
    able = [at for at in able if not is_number(columns[at]) or is_id_name(columns.names[at])][:_MOST_PAIRED]
    for one, other in combinations(able, 2):
        codes = columns.codes(one)
        if _n_alike(columns, other, key * (int(codes.max()) + 2) + codes + 1) <= REST * before:
            listed = [str(columns.names[at]) for at in (*roles.group, one, other)]
            return (
                f" Columns {columns.names[one]!r} and {columns.names[other]!r} together tell these rows apart: if each "
                f"pair of names is a series of its own, name them, as group={listed} "
                f"(--group {_quoted(','.join(listed))})."
            )
    return ""


def _says_apart(columns: Columns, at: int) -> bool:
    """Named as a place, or as one of several instruments at a place, such as a depth in metres."""
    return is_instrument_name(columns.names[at]) or is_place_name(columns.names[at])


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text else text


def _n_alike(columns: Columns, at: int, key: np.ndarray) -> int:
    """How many rows repeat one of the same time and of the same name in a column."""
    return int(pd.DataFrame({"key": key, "name": columns.codes(at)}).duplicated().sum())


def _may_name(columns: Columns, at: int, before: int) -> bool:
    """Texts, or a few whole numbers where many rows repeat, that are no number of the row."""
    column, is_sure = columns[at], _says_apart(columns, at)
    if not can_name(column) or (has_fractions(column) and not is_sure) or pd.isna(column).any():
        return False
    n_names = column.nunique()
    remark = is_remark_name(columns.names[at]) and not is_id_name(columns.names[at])
    if not 2 <= n_names <= len(column) / 2 or remark:
        return False
    return is_sure or not is_number(column) or (before >= SHARE * len(column) and n_names <= len(column) / 3)

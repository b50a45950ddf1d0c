"""Columns that tell rows apart and that nobody named: series under one another, quantities in one column, times."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from tsimpute.errors import DataError, TsimputeError
from tsimpute.tables.columns.column_names import (
    is_id_name,
    is_instrument_name,
    is_place_name,
    is_remark_name,
    is_unit_name,
    value_rank,
    words,
)
from tsimpute.tables.columns.number_texts import can_name, floats, has_fractions, is_number
from tsimpute.tables.columns.time_names import is_clock_name, part_of
from tsimpute.tables.roles.columns import Columns, Roles
from tsimpute.tables.roles.time_roles import find_parts
from tsimpute.tables.time.columns import look_of
from tsimpute.tables.time.stamps import read_stamps

COUNT_WORDS = frozenset((
    "t", "time", "hour", "hours", "hr", "hrs", "h", "minute", "minutes", "min", "mins", "second", "seconds", "sec",
    "secs", "s", "day", "days", "d", "week", "weeks", "month", "months", "year", "years", "age", "visit", "visitnum",
    "visitno", "wave", "round", "cycle", "session", "step", "epoch", "occasion", "followup",
))  # fmt: skip
"""Of names of columns that count times, whatever their steps."""
FEWEST_RISES = 5
MOST_PARTS = 8  # Columns of which two may name a series only together, as a person and a day
FEWEST_IN_BLOCK = 3
MOSTLY = 0.6
MOST_UNITS = 0.1  # Of the rows, the share that several units of one column make at most; more are no units
SHARE = 0.1  # Share of the rows that must repeat a time before numbers are believed to tell them apart
REST = 0.05  # Share of the repeated rows that may still be alike
_SHOWN = 3
_MOST_PAIRED, _PARTS_OF_A_DATE = 8, 3


def check_rows_as_steps(
    columns: Columns, free: Sequence[int], group: Sequence[int], *, series_told: bool = False
) -> None:
    """Refuses rows that would be taken for the steps of one series where they are those of several.

    A column of numbers that rises from row to row within each name of another one, and starts anew from name to name,
    is the time of these series. It rises in equal steps, or its name speaks of time; else it may be a sum.
    ``free`` have no role; ``series_told``: the caller named the groups, also as none.
    """
    numbers = [i for i in free if is_number(columns[i]) and not pd.isna(columns[i]).any()]
    numbers = [i for i in numbers if i >= columns.n_levels or columns.names[i] is None]
    numbers = [i for i in numbers if not is_id_name(columns.names[i]) and _starts_anew(floats(columns[i]))]
    if group and numbers:
        codes = columns.together(group)
        time = next((i for i in numbers if _counts(columns, i, codes)), None)
        if time is not None:
            name = columns.names[time]
            if name is None:
                raise _index_rises(columns, group)
            raise DataError(
                f"time: no column is known as the time, but {name!r} rises from row to row within each "
                f"{_listed(columns, group)} and starts anew in the next. If it is the time, set time={name!r}. If each "
                "row is one step, set time=()."
            )
    if group or series_told:
        return
    named = [i for i in free if not is_remark_name(columns.names[i]) and not is_clock_name(columns.names[i])]
    able = _able(columns, named)
    able.sort(key=lambda i: int(columns.codes(i).max()))
    for of_names in [*combinations(able, 1), *combinations(able[:MOST_PARTS], 2)]:
        codes = columns.together(of_names)
        if int(codes.max()) + 1 > len(codes) / 2:
            continue
        time = next((at for at in numbers if at not in of_names and _counts(columns, at, codes)), None)
        if time is None:
            continue
        is_count = _is_count_name(columns.names[time])
        if not is_count:
            _check_blocks(columns, [time, *of_names])
        if not is_count and len(of_names) == 1 and _is_count_name(columns.names[of_names[0]]):
            series, of = columns.names[time], columns.names[of_names[0]]
            raise DataError(
                f"time: no column is known as the time, but {of!r} is named as one, and each of its names comes once "
                f"for each {series!r}. If {series!r} names the series, set group={series!r} and time=(), which takes "
                f"each of its rows as one step; or write numbers in place of the names of {of!r}, and set "
                f"group={series!r} and time={of!r}."
            )
        of_names, name = sorted(of_names), columns.names[time]
        if name is None:
            raise _index_rises(columns, of_names)
        series = [columns.names[i] for i in of_names] if len(of_names) > 1 else columns.names[of_names[0]]
        raise DataError(
            f"time: no column is known as the time, but {name!r} rises from row to row within each of the "
            f"{int(codes.max()) + 1:,} names of {_listed(columns, of_names)} and starts anew in the next. If these "
            f"are series and their time, set group={series!r} and time={name!r}. If each row is the next step of "
            "one series, set group=() and time=()."
        )
    _check_blocks(columns, free)


def _able(columns: Columns, free: Sequence[int]) -> list[int]:
    """Columns that may name something in every row, and two things or more."""
    able = [i for i in free if can_name(columns[i]) and not has_fractions(columns[i])]
    return [i for i in able if (columns.codes(i) >= 0).all() and columns.codes(i).max() >= 1]


def _index_rises(columns: Columns, group: Sequence[int]) -> DataError:
    names = [columns.names[i] for i in group]
    return DataError(
        f"time: no column is known as the time, but the index, which has no name, rises from row to row within each "
        f"name of {_listed(columns, group)} and starts anew in the next. If it is the time, name it: "
        f"frame.rename_axis('time'), and set time='time' and group={names}. If each row is the next step of one "
        "series, set group=() and time=()."
    )


def _check_blocks(columns: Columns, free: Sequence[int]) -> None:
    """Refuses rows in blocks, one for each name of a column, in which the texts of another column come anew.

    These are visits or ages in words (Baseline, Week 4; 3m, 6m) of persons, and no steps of one series.
    """
    able = _able(columns, [i for i in free if i >= columns.n_levels])
    labels = [i for i in able if not is_number(columns[i])]
    for series, label in ((i, at) for i in able for at in labels if at != i):
        codes = columns.codes(series)
        n_names = int(codes.max()) + 1
        n_runs = 1 + int((np.diff(codes) != 0).sum())
        pairs = pd.DataFrame({"series": codes, "label": columns.codes(label)})
        if n_runs != n_names or n_names > len(codes) / FEWEST_IN_BLOCK or pairs.duplicated().any():
            continue
        if float(pairs.duplicated("label", keep=False).mean()) < MOSTLY:
            continue
        name, of = columns.names[series], columns.names[label]
        shown = ", ".join(map(str, pd.unique(pd.Series(np.asarray(columns[label], object)))[:3]))
        raise DataError(
            f"table: no column is known as the time, and the rows stand in {n_names:,} blocks, one for each name of "
            f"{name!r}, in each of which {of!r} begins anew ({shown}, ...). If each block is a series, set "
            f"group={name!r} and time=(), or write numbers in place of the texts of {of!r} and set time={of!r}. If "
            "each row is the next step of one series, set group=() and time=()."
        )


def check_one_quantity(columns: Columns, free: Sequence[int], features: Sequence[int]) -> None:
    """Refuses one column of values in several units, which would be filled as one quantity."""
    values = [i for i in features if value_rank(columns.names[i]) is not None]
    if len(values) != 1 or len(features) != 1:
        return
    name = columns.names[values[0]]
    able = [i for i in free if can_name(columns[i]) and not is_number(columns[i])]
    for i in (i for i in able if is_unit_name(columns.names[i])):
        codes = columns.codes(i)
        n_units = int(codes.max(initial=-1)) + 1
        if not 2 <= n_units <= MOST_UNITS * len(codes):
            continue
        units = ", ".join(map(str, pd.unique(pd.Series(np.asarray(columns[i], object)).dropna())[:3]))
        quantity: Hashable = "COLUMN"
        for at in (at for at in able if not is_unit_name(columns.names[at])):
            pairs = pd.DataFrame({"name": columns.codes(at), "unit": codes}).query("name >= 0 and unit >= 0")
            pairs = pairs.drop_duplicates()
            n_names = len(pairs["name"].unique())
            if 2 <= n_names <= MOST_UNITS * len(codes) and n_names == len(pairs):  # a few, each with one unit
                quantity = columns.names[at]
                break
        raise DataError(
            f"table: column {columns.names[i]!r} holds {n_units} units ({units}), so column {name!r} holds several "
            f"quantities. Name the column that says which: set feature={quantity!r} and value={name!r}. If it is one "
            f"quantity, convert its values to one unit, or set features=[{name!r}]."
        )


def _starts_anew(values: np.ndarray) -> bool:
    """Whether numbers rise from row to row, time and again, or stand in order with several rows for each."""
    rises, falls = values[1:] > values[:-1], values[1:] < values[:-1]
    in_order = not falls.any() and len(np.unique(values)) <= len(values) / 2
    return bool(in_order or (falls.any() and rises.mean() >= MOSTLY))


def _counts(columns: Columns, at: int, codes: np.ndarray) -> bool:
    """Whether a column rises within each name, as the time of a series does, and not from name to name."""
    values = floats(columns[at])
    order = np.argsort(codes, kind="stable")
    same = np.diff(codes[order]) == 0
    steps = np.diff(values[order])[same]
    if len(steps) < max(FEWEST_RISES, len(values) / 3) or not (steps > 0).all() or (np.diff(values) > 0).all():
        return False
    if len(np.unique(values)) == len(values):  # nothing starts anew: a sum over all rows, or the number of a row
        return False
    equal = (steps == np.median(steps)).mean() > 0.5
    return bool(equal) or _is_count_name(columns.names[at])


def _is_count_name(name: Hashable) -> bool:
    return not COUNT_WORDS.isdisjoint(words(name))


def _listed(columns: Columns, at: Sequence[int]) -> str:
    return " and ".join(repr(columns.names[i]) for i in at)


def what_tells_apart(columns: Columns, roles: Roles, key: np.ndarray) -> str:
    """Which columns tell rows of one time apart, and the option that says so; "" where none does.

    ``key`` (R,) whole numbers are equal for rows of one series, feature and time.
    """
    before = int(pd.Series(key).duplicated().sum())
    if not before:
        return ""
    if before >= SHARE * len(key) and (records := _are_records(columns, roles)):
        return records
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
            # Columns from the year on that make a time in which no row repeats another.
            series = [*roles.group, *([] if roles.feature is None else [roles.feature])]
            others = [at for at in range(len(columns)) if at not in (*series, roles.value)]
            chain = find_parts(columns, others, {})
            parts = [str(columns.names[at]) for at in chain]
            if len(chain) > _PARTS_OF_A_DATE and not columns.repeats([*series, *chain]).any():
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


def _are_records(columns: Columns, roles: Roles) -> str:
    """What to do where rows are rather records by themselves, as people with a date; "" where nothing says so."""
    name = next((name for at, name in enumerate(columns.names) if _names_records(columns, at)), None)
    if name is None or roles.group or roles.layout == "long":
        return ""
    return (
        f" Every row has another {name!r}: if each row is a record by itself, as a person, set records='rows'. If rows "
        "belong to series, name the columns that tell these apart (group)."
    )


def _names_records(columns: Columns, at: int) -> bool:
    """A column named as an id, of which every row has another one; not one that counts the rows."""
    column = columns[at]
    if columns.names[at] is None or not is_id_name(columns.names[at]) or has_fractions(column):
        return False
    codes = columns.codes(at)
    if (codes < 0).any() or codes.max() + 1 < len(codes):
        return False
    return not is_number(column) or bool((np.diff(floats(column)) != 1).any())


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

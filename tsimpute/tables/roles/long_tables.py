"""Whether a table is long: one row for each time and quantity, with the quantity's name in a column."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from tsimpute.errors import DataError
from tsimpute.tables.columns.column_names import (
    VALUE_NAMES,
    is_feature_name,
    is_group_name,
    is_id_name,
    is_instrument_name,
    is_offset_name,
    is_place_name,
    is_remark_name,
    is_thing_name,
    is_unit_name,
    may_be_numbered,
    may_name_quantities,
    names_quantity,
    value_rank,
)
from tsimpute.tables.columns.number_texts import can_name, floats, has_fractions, is_number, text_problem
from tsimpute.tables.columns.time_names import plain
from tsimpute.tables.roles.columns import Columns
from tsimpute.tables.roles.grouping import find_group, numbers_rows
from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.calendar_columns import CALENDAR_NAMES

FEWER = 0.1  # Of the rows that repeat a time, the share that may still do so within one quantity (true duplicates)
MANY_ROWS = 10  # In fewer rows each may well have a name of its own
APART = 5.0
"""Medians of several names that lie so many times the usual spread within a name apart are of several quantities."""
COORDINATES = ("lat", "latitude", "lon", "lng", "long", "longitude", "elevation", "altitude", "elev", "alt")


@dataclass(frozen=True)
class _Found:
    """A column of names, and how it tells rows apart."""

    at: int
    before: float  # share of the rows that repeat a time of their series
    after: float  # the same within each of its names

    @property
    def separates(self) -> bool:
        return self.before > 0 and self.after <= FEWER * self.before


@dataclass(frozen=True)
class _Search:
    """A table without known names and values: its columns, those without a role, of its time, of its groups."""

    columns: Columns
    free: Sequence[int]
    time: Sequence[int]
    group: Sequence[int] | None

    def group_of(self, key: Sequence[int], without: Collection[int]) -> list[int]:
        """The columns of the groups, were these the columns that may not repeat within one."""
        if self.group is not None:
            return list(self.group)
        free = [i for i in self.free if i not in without and not names_quantity(self.columns.names[i])]
        return find_group(self.columns, free, key, [])

    def told_apart(self, at: int, value: int | None) -> _Found:
        """How a column tells rows apart that have one time and one series."""
        if not self.time:
            return _Found(at, 0.0, 0.0)
        series = self.group_of([*self.time, at], [at, *([] if value is None else [value])])
        before, after = [*series, *self.time], [*series, *self.time, at]
        return _Found(at, *(float(self.columns.repeats(key).mean()) for key in (before, after)))

    def best(self, names: Sequence[int], value: int | None) -> _Found:
        """The column within whose names the fewest rows repeat a time; of equal ones the one of the most names.

        Two quantities under one name would be mixed, so finer names are the safer ones.
        """
        candidates = [self.told_apart(at, value) for at in names]

        def order(one: _Found) -> tuple[float, int, bool, bool, bool]:
            """Many names first, then plainly named ones, then texts, then those that are no codes."""
            name, column = self.columns.names[one.at], self.columns[one.at]
            n_names, is_code = int(self.columns.codes(one.at).max()), plain(name).endswith(("code", "id"))
            return one.after, -n_names, not names_quantity(name), is_number(column), is_code

        return min(candidates, key=order)

    @property
    def readings(self) -> list[int]:
        """Columns of numbers that may be measured: no ids, no times, no places."""
        columns, names = self.columns, self.columns.names
        able = [i for i in self.free if i >= columns.n_levels and is_number(columns[i]) and columns.codes(i).max() >= 1]
        able = [i for i in able if plain(names[i]) not in (*CALENDAR_NAMES, *COORDINATES)]
        able = [i for i in able if not is_remark_name(plain(names[i]).replace("value", "").replace("result", ""))]
        able = [i for i in able if not is_offset_name(names[i])]
        is_id = lambda i: is_id_name(names[i]) or numbers_rows(columns, i)
        return [i for i in able if has_fractions(columns[i]) or not is_id(i)]


def find_long(
    columns: Columns, free: Sequence[int], time: Sequence[int], group: Sequence[int] | None, notes: list[str]
) -> tuple[list[int], list[int]]:
    """The columns of names and of values of a long table; ([], []) = it is wide.

    Names of columns and contents have to agree: few different names, and where times of a series repeat, they do so
    no longer within one name. What is not plain to see is added to ``notes``.

    Raises:
        DataError: the table looks long, and it is unclear which columns hold names and values, or a value is no number.
    """
    search = _Search(columns, free, time, group)
    names = [i for i in free if can_name(columns[i]) and not has_fractions(columns[i])]
    names = [i for i in names if columns.codes(i).max() >= 0]
    plainly = [i for i in names if is_feature_name(columns.names[i])]
    plainly = [i for i in plainly if not is_number(columns[i]) or may_be_numbered(columns.names[i])]
    plainly = [i for i in plainly if _are_few(columns, i)] or plainly
    values = [i for i in free if i >= columns.n_levels and value_rank(columns.names[i]) is not None]
    values = [i for i in values if i not in plainly or len(plainly) > 1]
    rank = {at: value_rank(columns.names[at]) or 0 for at in values}
    able = [i for i in values if is_number(columns[i]) and columns.codes(i).max() >= 0]
    if not able and plainly:  # what is named as the values of names holds something that is no number
        for i in sorted(values, key=rank.__getitem__):
            if problem := text_problem(columns[i], columns.names[i]):
                raise RowError("long table: ", *problem.parts)
    best = [i for i in able if rank[i] == min(rank[at] for at in able)]
    value = best[0] if len(best) == 1 else None  # several are named alike
    names, plainly = ([i for i in of if i != value] for of in (names, plainly))
    if value is None:
        pair = _without_values(search, plainly, values, notes)
    elif plainly:
        pair = _plain(search, plainly, value)
    else:
        pair = _by_contents(search, names, value, notes)
    return ([], []) if pair is None else ([pair[0]], [pair[1]])


def _plain(search: _Search, names: Sequence[int], value: int) -> tuple[int, int] | None:
    columns, best = search.columns, search.best(names, value)
    name = columns.names[best.at]
    sure = names_quantity(name) or plain(columns.names[value]) in VALUE_NAMES
    others = [i for i in search.readings if i not in (value, best.at)]
    if not best.separates and others and not sure:
        return None
    if not _are_few(columns, best.at):
        raise DataError(
            f"long table: expected the names of a few quantities in column {name!r}, came "
            f"{columns.codes(best.at).max() + 1:,} different ones in {len(columns[best.at]):,} rows. Name the right "
            f"column: {_options('NAME', columns.names[value])}. If the table is wide, name the columns to fill: "
            "--features (features)."
        )
    return best.at, value


def _without_values(
    search: _Search, names: Sequence[int], values: Sequence[int], notes: list[str]
) -> tuple[int, int] | None:
    """Where a column is named as names of quantities are, and no column, or several alike, as their values."""
    columns = search.columns
    sure = [i for i in names if names_quantity(columns.names[i])]
    readings = [i for i in search.readings if i not in names]
    if not sure or not readings or not search.time:
        return None
    best = search.best(sure, None)
    if not best.separates:
        return None
    name = columns.names[best.at]
    if len(readings) == 1:
        notes.append(f"long table: {name} holds the names of quantities, {columns.names[readings[0]]} their values")
        return best.at, readings[0]
    named = ", ".join(str(columns.names[i]) for i in values or readings)
    raise DataError(
        f"table: it looks long, with a row for each quantity: times repeat, and within each {name!r} they do not. "
        f"Expected one column of values, came {named}. Name it: {_options(name, 'COLUMN')}. If the table is wide and "
        f"{name!r} names places, name it as the group: --group {_quoted(name)} (group)."
    )


def _by_contents(search: _Search, names: Sequence[int], value: int, notes: list[str]) -> tuple[int, int] | None:
    """Where a column is named as values are, and none as names of quantities."""
    columns = search.columns
    if not search.time:
        return None
    known = search.group_of(search.time, [value])
    able = [i for i in names if columns.codes(i).max() >= 1 and not numbers_rows(columns, i)]
    able = [i for i in able if not is_remark_name(columns.names[i]) and not is_unit_name(columns.names[i])]
    labels = [i for i in able if may_name_quantities(columns.names[i])]
    names_columns = [search.best(labels, value)] if labels else []
    names_columns = [one for one in names_columns if one.separates]
    places = [i for i in known if is_group_name(columns.names[i])]
    if names_columns and places:
        name = columns.names[names_columns[0].at]
        notes.append(
            f"long table: {name} holds the names of quantities, since times repeat and within each name they do not"
        )
        return names_columns[0].at, value
    if names_columns:
        raise _unclear(columns, names_columns[0].at, value)
    alone = search.readings == [value]
    things = [i for i in able if not is_place_name(columns.names[i]) or is_thing_name(columns.names[i])]
    things = [i for i in things if (alone and not is_instrument_name(columns.names[i])) or i in places]
    for at in things:
        if _lie_apart(columns, at, value) and search.told_apart(at, value).separates:
            raise _unclear(columns, at, value)
    return None


def _unclear(columns: Columns, at: int, value: int) -> DataError:
    name = columns.names[at]
    return DataError(
        f"table: times repeat, and within each {name!r} they do not. Expected to know whether {name!r} names "
        f"quantities or places of one quantity. If quantities, the table is long: "
        f"{_options(name, columns.names[value])}. If places: --group {_quoted(name)} (group)."
    )


def _lie_apart(columns: Columns, at: int, value: int) -> bool:
    """Whether values under several names differ so much that they hardly are of one quantity."""
    codes, numbers = columns.codes(at), floats(columns[value])
    parts = [numbers[(codes == k) & ~np.isnan(numbers)] for k in range(int(codes.max()) + 1)]
    parts = [np.sort(part) for part in parts if len(part)]
    quarters = np.array([[part[len(part) // 4], part[len(part) // 2], part[3 * len(part) // 4]] for part in parts])
    with np.errstate(over="ignore", invalid="ignore"):  # numbers may be as large as floats can be
        spread = np.median(quarters[:, 2] - quarters[:, 0])
        return bool(len(quarters) > 1 and np.ptp(quarters[:, 1]) > APART * max(spread, 1e-9))


def _are_few(columns: Columns, at: int) -> bool:
    n_rows = len(columns[at])
    return n_rows <= MANY_ROWS or int(columns.codes(at).max()) + 1 <= n_rows / 2


def _options(feature: Hashable, value: Hashable) -> str:
    return f"--feature {_quoted(feature)} --value {_quoted(value)} (feature, value)"


def _quoted(name: Hashable) -> str:
    text = str(name)
    return f'"{text}"' if " " in text or "," in text else text

"""Which column of a table is its time, its groups, its features: as the user names them, else by names and contents."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Sequence

import numpy as np
import pandas as pd

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.columns.column_names import (
    UNIT_NAMES,
    is_id_name,
    is_offset_name,
    is_row_number_name,
    is_unit_name,
)
from tsimpute.tables.columns.number_texts import (
    are_catalogue_codes,
    can_name,
    check_names,
    floats,
    has_fractions,
    is_number,
    is_true_false,
    text_problem,
    unfillable_text,
)
from tsimpute.tables.columns.time_names import plain
from tsimpute.tables.roles.columns import Columns, ColumnSpec, Roles
from tsimpute.tables.roles.grouping import depends_on, find_group
from tsimpute.tables.roles.hidden_series import check_one_quantity, check_rows_as_steps
from tsimpute.tables.roles.long_tables import find_long
from tsimpute.tables.roles.time_roles import calendar_parts, find_time
from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.calendar_columns import CALENDAR_NAMES
from tsimpute.tables.time.columns import is_stamp

ROW_NAMES = ("", "no", "nr", "row", "rownumber", "rownum", "index")
MOST_BY_ONE = 0.8  # Share of the steps from row to row that are one, of a number of rows from which some were taken out
FILL = "To fill it, name all columns to fill (features)"  # How to have a column filled that is passed through


def find_roles(columns: Columns, spec: ColumnSpec) -> Roles:
    """What each column is.

    A named column that is absent, an unclear time, no column to fill, two of one name, and a column of texts that was
    meant to be one of numbers are refused.
    """
    free = list(range(len(columns)))
    notes: list[str] = []

    def take(names: Sequence[Hashable] | None, role: str) -> tuple[int, ...] | None:
        if names is None:
            return None
        places = tuple(columns.find(name, role) for name in names)
        if twice := [columns.names[at] for at in places if places.count(at) > 1]:
            raise ConfigError(f"{role}: expected distinct columns, {twice[0]!r} is named twice. Name it once.")
        for at in places:
            if at not in free:
                raise ConfigError(f"{role}: column {columns.names[at]!r} has another role already.")
            if role in ("time", "group", "feature", "unit"):
                check_names(columns[at], columns.names[at])
            free.remove(at)
        return places

    one = [None if name is None else [name] for name in (spec.feature, spec.value, spec.unit)]
    time, group = take(spec.time, "time"), take(spec.group, "group")
    feature, value, unit = (take(n, role) for n, role in zip(one, ("feature", "value", "unit"), strict=True))
    features = take(spec.features, "features")
    text = (*(take(spec.text, "text") or ()), *(take(tuple(spec.categories), "categories") or ()))
    if time is None:
        time = _drop(free, find_time(columns, free, notes))
    if features is None and feature is None and value is None:
        feature, value = (_drop(free, at) or None for at in find_long(columns, free, time, group, notes))
    if (feature is None) != (value is None):
        absent, what = ("value", "values") if value is None else ("feature", "feature names")
        raise ConfigError(
            f"long table: expected both the column of feature names and that of values. Name that of {what} ({absent})."
        )
    _check_layout(spec, feature is not None)
    if feature is not None:
        units = [i for i in free if is_unit_name(columns.names[i]) and can_name(columns[i])]
        one_each = [i for i in units if depends_on(columns, i, feature[0])]  # one unit for each feature
        unit = unit or _drop(free, (one_each or units)[:1])
    if group is None:
        group = _drop(free, find_group(columns, free, (*time, *(feature or ())), notes))
    if spec.time is None and not time and feature is None:
        check_rows_as_steps(columns, free, group, series_told=spec.group is not None)
    unfillable: tuple[tuple[str, RowError], ...] = ()
    if feature is None and features is None:
        features = _drop(free, _find_features(columns, free, notes))
        check_one_quantity(columns, free, features)
        texts = [i for i in free if i >= columns.n_levels and not is_number(columns[i])]
        named = [(columns.names[i], columns[i]) for i in texts if not is_id_name(columns.names[i])]
        unfillable = tuple((str(n), why) for n, column in named if (why := unfillable_text(column, n)) is not None)
    _check_features(columns, features or ())
    if feature is None and not features and not spec.categories:
        listed = ", ".join(map(str, columns.names)) or "no columns"
        what = f"table: expected at least one column of numbers to fill, found none in {listed}. "
        if unfillable:
            raise RowError(f"{what}column {unfillable[0][0]!r}: ", *unfillable[0][1].parts)
        people = "" if time else "; where each row is a record (records='rows'), columns of texts to fill (categories)"
        raise RowError(f"{what}Name them (features), or the column of values of a long table{people}.")
    first = [None if x is None or not x else x[0] for x in (feature, value, unit)]
    layout = "wide" if feature is None else "long"
    extra = tuple(sorted((*free, *text)))
    return Roles(layout, time, group, features or (), *first, extra=extra, notes=tuple(notes), unfillable=unfillable)


def _check_layout(spec: ColumnSpec, is_long: bool) -> None:
    if is_long and spec.features is not None and spec.known is None:
        raise ConfigError(
            f"features: expected columns of a wide table, came {', '.join(map(str, spec.features))} for a long one, "
            "whose features are named in a column (feature) and all filled. Leave features out, or name no columns of "
            "feature names and values."
        )
    if not is_long and spec.unit is not None:
        raise ConfigError(
            f"unit: expected a long table with a column of units, came {spec.unit!r} for a wide one. Give the units of "
            "its features (units), or name the columns of feature names and values (feature, value)."
        )


def _drop(free: list[int], places: Collection[int]) -> tuple[int, ...]:
    for at in places:
        free.remove(at)
    return tuple(places)


def _check_features(columns: Columns, features: Sequence[int]) -> None:
    """Refuses features of one name, as ``Feature`` has it: a text."""
    names = [str(columns.names[at]) for at in features]
    for at, name in zip(features, names, strict=True):
        if names.count(name) > 1:
            places = [i - columns.n_levels for i, other in zip(features, names, strict=True) if other == name]
            raise DataError(
                f"columns: expected distinct names, {columns.names[at]!r} stands {len(places)} times (columns "
                f"{', '.join(map(str, places))}, counted from 0). Rename all but one."
            )


def _find_features(columns: Columns, free: Sequence[int], notes: list[str]) -> list[int]:
    """Columns of numbers that are no part of the time, no id, and not a blank one at the edge of a file."""
    features, parts = [], calendar_parts(columns, free)
    for i in free:
        name, column = columns.names[i], columns[i]
        if i < columns.n_levels:
            continue
        if plain(name) in CALENDAR_NAMES or i in parts:
            if is_number(column):
                notes.append(f"{name}: numbers that are named as a part of the time; passed through unchanged. {FILL}")
        elif is_number(column) and is_stamp(column):
            notes.append(f"{name}: holds dates; passed through unchanged. {FILL}")
        elif is_true_false(column):
            notes.append(f"{name}: true and false; passed through unchanged. To fill it, write 1 and 0")
        elif column.dtype.kind == "c":
            notes.append(
                f"{name}: complex numbers ({column.dtype}); passed through unchanged. To fill it, give its real and "
                "imaginary parts as columns"
            )
        elif not is_number(column):
            named = is_id_name(name) or plain(name) in UNIT_NAMES or are_catalogue_codes(name, column)
            if not named and (problem := text_problem(column, name)):
                raise problem
        elif is_offset_name(name):
            notes.append(f"{name}: named as a time that counts from the start of a record; passed through. {FILL}")
        elif is_id_name(name) and not has_fractions(column):
            if not any(note.startswith(f"{name}: numbers the rows") for note in notes):
                notes.append(
                    f"{name}: whole numbers that are named as an id; they are passed through unchanged. {FILL}"
                )
        elif pd.isna(column).all() and (column.dtype == object or re.fullmatch(r"Unnamed: \d+", str(name))):
            notes.append(f"{name}: holds nothing and is passed through unchanged")
        elif _numbers_rows(name, column):
            notes.append(f"{name}: numbers the rows; it is passed through unchanged")
        else:
            features.append(i)
    return features


def _numbers_rows(name: Hashable, column: pd.Series | pd.Index) -> bool:
    """Whole numbers that rise from row to row, named as what does so: as the index that a file was written with."""
    named = plain(name) in ROW_NAMES or re.fullmatch(r"Unnamed: \d+", str(name))
    if not (named or is_row_number_name(name)) or pd.isna(column).any():
        return False
    values = floats(column)
    if not np.isfinite(values).all() or (values % 1 != 0).any():
        return False
    before, after = values[:-1], values[1:]  # whose difference may be beyond floats
    return bool((after > before).all() and (named or (after == before + 1).mean() > MOST_BY_ONE))

"""Which columns of a table tell its series apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.columns.column_names import (
    SITE_PARTS,
    STAY_NAMES,
    is_group_name,
    is_offset_name,
    is_place_name,
    is_remark_name,
    is_sure_group_name,
    is_unit_name,
)
from tsimpute.tables.columns.number_texts import can_name, floats, has_fractions, is_number
from tsimpute.tables.columns.time_names import is_clock_name, is_time_name, plain
from tsimpute.tables.roles.columns import Columns
from tsimpute.tables.time.calendar_columns import CALENDAR_NAMES
from tsimpute.tables.time.columns import look_of, resembles_time

REPEATED = 0.1
"""Share of the rows that must repeat a time before a column without a telling name is taken for the groups."""
QUANTITIES = frozenset((
    "pm2.5", "pm25", "pm10", "pm1", "so2", "no2", "no", "nox", "co", "o3", "aqi", "co2", "nh3", "h2s", "ch4", "temp",
    "temperature", "humidity", "pressure", "precipitation", "rain", "rainfall", "prcp", "tmax", "tmin", "tavg", "wind",
    "wind speed", "windspeed", "wind direction", "radiation", "rh", "level", "flow", "discharge", "stage", "turbidity",
    "conductivity", "dissolved oxygen", "ph", "voltage", "current", "power", "energy", "frequency", "amb_temp", "nmhc",
    "thc",
))  # fmt: skip
"""Names that mean a quantity and no series."""
_CLOCK_COUNTS = (
    "minute", "minutes", "min", "mins", "second", "seconds", "sec", "secs", "hour", "hours", "hr", "hrs", "elapsed",
)  # fmt: skip
"""Names of columns that count the time within a session or a day, and name no series."""
ROWS_PER_GROUP = 3  # Rows that such groups must have on average


def find_group(columns: Columns, free: Sequence[int], key: Sequence[int], notes: list[str]) -> list[int]:
    """The columns that tell series apart; what is not plain to see is added to ``notes``.

    Index levels beside the time where there are several, or else the first column whose name says so, with the stay
    of a patient beside it. A column of which every row has a value of its own numbers the rows and is none of them.

    Where times repeat all the same within ``key`` (time, and the feature of a long table), also the one column with
    which they do not. Numbers are readings as often as names, whatever their column is called: they are groups only
    where times repeat, less so within them, or where each is one stretch of rows.
    """
    free = [i for i in free if can_name(columns[i])]
    levels = [i for i in free if i < columns.n_levels and columns.n_levels > 1]
    named = [i for i in free if is_group_name(columns.names[i]) and not has_fractions(columns[i])]
    named = [i for i in named if columns.codes(i).max(initial=-1) >= 0]
    row_numbers = [i for i in levels or named if numbers_rows(columns, i)]
    named = [i for i in levels or named if i not in row_numbers]
    for i in row_numbers:
        why = "numbers the rows (another value in every row), so it is no group; it is passed through"
        notes.append(f"{columns.names[i]}: {why}")
    if not key:
        return named if levels else [*named[:1], *_stay(columns, free, named[:1])]
    if not levels:
        # State, county and number of a site name a station only together.
        site = [[i for i in free if plain(columns.names[i]) in names][:1] for names in SITE_PARTS]
        whole = [i for part in site for i in part if (columns.codes(i) >= 0).all()]
        if len(whole) < len(SITE_PARTS):
            whole = [i for i in named if _names_series(columns, i, key, notes)][:1]
        named = whole
        named += _stay(columns, free, named)
    if columns.repeats([*named, *key]).mean() < REPEATED:
        return named
    most = int(columns.table_of(key).value_counts().iloc[0])
    others = [i for i in free if i not in named and _may_be_group(columns, i, most)]
    fits = [i for i in others if not columns.repeats([*named, i, *key]).any()]
    places = [i for i in fits if is_place_name(columns.names[i])]
    fits = places or fits
    same = (depends_on(columns, i, fits[0]) and depends_on(columns, fits[0], i) for i in fits[1:])
    if not fits or not all(same):  # several that tell other rows apart
        return named
    _check_places(columns, fits[0], free)
    what = "index" if columns.names[fits[0]] is None else columns.names[fits[0]]
    notes.append(f"{what}: taken for the groups, since times repeat and within each of its names they do not")
    return [*named, fits[0]]


def _check_places(columns: Columns, at: int, free: Sequence[int]) -> None:
    """Refuses names of quantities in one column beside several columns of numbers, as of one place each.

    As groups, quantities of different size would be learnt, scaled and filled as one.
    """
    items = {str(item).strip().casefold() for item in pd.unique(pd.Series(np.asarray(columns[at], object)))}
    numbers = [columns.names[i] for i in free if i != at and i >= columns.n_levels and is_number(columns[i])]
    known = items & QUANTITIES
    if len(known) < 2 or 2 * len(known) < len(items) or len(numbers) < 2:
        return
    others = [n for n in columns.names[columns.n_levels :] if n not in numbers]
    name, listed = columns.names[at], ", ".join(map(str, numbers[:3])) + ", ..." * (len(numbers) > 3)
    raise DataError(
        f"table: column {name!r} holds names of quantities ({', '.join(sorted(known)[:3])}) beside {len(numbers)} "
        f"columns of numbers ({listed}), which may be places. Put the places below one another with pandas, then fill "
        f"the new table:\n  long = frame.melt({others!r}, var_name='place', value_name='value')\n"
        f"Then name its columns: feature={name!r}, value='value', group='place'. If the names are series of one kind "
        "and size, name them as groups (group)."
    )


def numbers_rows(columns: Columns, at: int) -> bool:
    """Whether every row that has a value in a column has one of its own: a number of the row and no name."""
    codes = columns.codes(at)
    known = codes[codes >= 0]
    return len(known) > 1 and int(known.max()) + 1 == len(known)


def depends_on(columns: Columns, at: int, on: int) -> bool:
    """Whether a column holds the same in all rows that are alike in another one."""
    return not columns.table_of([on, at]).drop_duplicates()[0].duplicated().any()


def _stay(columns: Columns, free: Sequence[int], named: Sequence[int]) -> list[int]:
    """The column that divides the named group into stays, the finest of several."""
    if len(named) != 1:
        return []
    count = lambda at: int(columns.codes(at).max()) + 1
    stays = [i for i in free if i not in named and plain(columns.names[i]) in STAY_NAMES]
    stays = [i for i in stays if (columns.codes(i) >= 0).all() and not numbers_rows(columns, i)]
    stays = [i for i in stays if count(named[0]) < count(i) <= len(columns[i]) / ROWS_PER_GROUP]
    stays = [i for i in stays if depends_on(columns, named[0], i)]
    return sorted(stays, key=lambda i: (-count(i), STAY_NAMES.index(plain(columns.names[i]))))[:1]


def _names_series(columns: Columns, at: int, key: Sequence[int], notes: list[str]) -> bool:
    """Whether a column that is named as groups are holds their names, and no readings."""
    name, column = columns.names[at], columns[at]
    repeated = columns.repeats(key).mean()
    if is_sure_group_name(name) and columns.codes(at).max() + 1 <= len(column) / ROWS_PER_GROUP:
        return True
    if not is_number(column) or columns.repeats([at, *key]).mean() < repeated:
        return True
    values = floats(column)
    if not repeated and 1 + int((np.diff(values) != 0).sum()) == len(np.unique(values)) <= len(values) / ROWS_PER_GROUP:
        notes.append(f"{name}: taken for the groups, since each of its numbers is one stretch of rows")
        return True
    why = "times repeat within it" if repeated else "no time repeats"
    notes.append(f"{name}: named as groups are, but holds numbers and {why}: no groups. To have it so, name it (group)")
    return False


def _may_be_group(columns: Columns, at: int, most: int) -> bool:
    """Texts or whole numbers in every row that name few groups with several rows each.

    More groups of whole numbers than twice the ``most`` rows of a time are chance.
    """
    column, kind, name = columns[at], columns[at].dtype, columns.names[at]
    is_object, whole = pd.api.types.is_object_dtype(kind), pd.api.types.is_integer_dtype(kind)
    text = is_object or isinstance(kind, pd.CategoricalDtype) or pd.api.types.is_string_dtype(kind)
    if not (text or whole) or pd.isna(column).any() or plain(name) in CALENDAR_NAMES:
        return False
    if is_remark_name(name) or is_offset_name(name) or plain(name) in _CLOCK_COUNTS:
        return False
    if is_unit_name(name) and not all(str(item).isdigit() for item in column.unique()):  # units 1, 2, 3 are machines
        return False
    if is_object and not all(isinstance(item, str | int) for item in column):
        return False
    look = look_of(column)
    dated = bool(look.kind) and (not look.by_name or is_time_name(name))
    if dated or is_clock_name(name) or resembles_time(column, ""):
        return False
    n_groups = column.nunique()
    return 2 <= n_groups <= min(len(column) / ROWS_PER_GROUP, len(column) if text else 2 * most)

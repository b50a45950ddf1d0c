"""Which columns of a table tell its series apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tsimpute.tables.calendar_columns import CALENDAR_NAMES, plain
from tsimpute.tables.number_texts import can_name, floats, has_fractions, is_number

if TYPE_CHECKING:
    from tsimpute.tables.roles import Columns

GROUP_NAMES = (
    "group", "id", "station", "stationid", "site", "siteid", "location", "locationid", "sensor", "sensorid", "device",
    "deviceid", "patient", "patientid", "record", "recordid", "subject", "subjectid", "stay", "stayid", "icustayid",
    "hadmid", "series", "seriesid", "unitid", "uniqueid", "participant", "participantid", "caseid", "encounterid",
    "meterid", "buoy",
)  # fmt: skip
REPEATED = 0.1
"""Share of the rows that must repeat a time before a column without a telling name is taken for the groups."""
ROWS_PER_GROUP = 3
"""Rows that such groups must have on average."""


def find_group(columns: Columns, left: Sequence[int], key: Sequence[int], notes: list[str]) -> list[int]:
    """The columns that tell series apart; what is not plain to see is added to ``notes``.

    Index levels beside the time where there are several, or else the first column whose name says so.

    Where times repeat all the same, also the one column with which they do not. Numbers are readings as often as names,
    whatever their column is called: they are groups only where times repeat, less so within them, or where each is
    one stretch of rows.

    Args:
        key: columns that may not repeat within a group: time, and the feature of a long table.
    """
    left = [i for i in left if can_name(columns[i])]
    levels = [i for i in left if i < columns.n_levels and columns.n_levels > 1]
    named = [i for i in left if plain(columns.names[i]) in GROUP_NAMES and can_name(columns[i])]
    named = levels or [i for i in named if not has_fractions(columns[i])]
    if not key:
        return [i for i in named[: None if levels else 1] if columns[i].nunique() < len(columns[i]) or i in levels]
    if not levels:
        named = [i for i in named if _names_rows(columns, i, key, notes)][:1]
    if _repeats(columns, [*named, *key]) < REPEATED:
        return named
    most = int(_frame(columns, key).value_counts().iloc[0])
    others = [i for i in left if i not in named and _may_be_group(columns, i, most)]
    fits = [i for i in others if not _repeats(columns, [*named, i, *key])]
    if not fits or any(_partition(columns[i]) != _partition(columns[fits[0]]) for i in fits[1:]):
        return named
    what = "index" if columns.names[fits[0]] is None else columns.names[fits[0]]
    notes.append(f"{what}: taken for the groups, since times repeat and within each of its names they do not")
    return [*named, fits[0]]


def _names_rows(columns: Columns, at: int, key: Sequence[int], notes: list[str]) -> bool:
    """Whether a column that is named as groups are holds their names, and no numbers of rows and no readings."""
    name, column = columns.names[at], columns[at]
    repeats = _repeats(columns, key)
    if not repeats and column.nunique() == len(column) > 1:
        notes.append(f"{name}: numbers the rows; it is carried along")
        return False
    if not is_number(column) or _repeats(columns, [at, *key]) < repeats:
        return True
    values = floats(column)
    if not repeats and 1 + int((np.diff(values) != 0).sum()) == len(np.unique(values)) <= len(values) / ROWS_PER_GROUP:
        notes.append(f"{name}: taken for the groups, since each of its numbers is one stretch of rows")
        return True
    why = "times repeat within it" if repeats else "no time repeats"
    notes.append(f"{name}: named as groups are, but holds numbers and {why}: no groups. To have it so, name it (group)")
    return False


def _frame(columns: Columns, at: Sequence[int]) -> pd.DataFrame:
    return pd.DataFrame({i: pd.factorize(np.asarray(columns[c], object))[0] for i, c in enumerate(at)})


def _repeats(columns: Columns, at: Sequence[int]) -> float:
    """Share of the rows that repeat what an earlier one has in these columns."""
    return float(_frame(columns, at).duplicated().mean())


def _may_be_group(columns: Columns, at: int, most: int) -> bool:
    """Texts or whole numbers in every row that name few groups with several rows each.

    Args:
        most: how often a time comes at most; more groups than some twice as many are chance among whole numbers.
    """
    column, kind = columns[at], columns[at].dtype
    text = (
        pd.api.types.is_object_dtype(kind)
        or isinstance(kind, pd.CategoricalDtype)
        or pd.api.types.is_string_dtype(kind)
    )
    whole = pd.api.types.is_integer_dtype(kind)
    if not (text or whole) or pd.isna(column).any() or plain(columns.names[at]) in CALENDAR_NAMES:
        return False
    if pd.api.types.is_object_dtype(kind) and not all(isinstance(item, str | int) for item in column):
        return False
    n_groups = column.nunique()
    return 2 <= n_groups <= min(len(column) / ROWS_PER_GROUP, len(column) if text else 2 * most)


def _partition(column: pd.Series | pd.Index) -> list[int]:
    return pd.factorize(np.asarray(column, object))[0].tolist()

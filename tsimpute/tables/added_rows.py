"""Rows that a frame is to be given: how many, refused where they are far too many, and whether labels can be told."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.clock import Placement
from tsimpute.tables.roles import Columns, Roles

MAX_TIMES = 20
"""More rows to add than so many times those given are a table misread, where they are more than ``MANY``."""
MANY = 10_000
_SHOWN = 5


def rows_to_add(placement: Placement, series_of_row: np.ndarray, feature_of_row: np.ndarray | None) -> int:
    """How many rows may be added: for inserted times, or for times at which a feature of a series has no row.

    Args:
        placement: of R rows.
        series_of_row: (R,).
        feature_of_row: (R,) of a long table, else None.
    """
    if feature_of_row is None:
        return sum(int(new.sum()) for new in placement.inserted)
    lengths = np.array([len(times) for times in placement.times])
    there = pd.DataFrame({"series": series_of_row, "feature": feature_of_row, "step": placement.step_of_row})
    pairs = there[["series", "feature"]].drop_duplicates()
    return int(lengths[pairs["series"]].sum()) - len(there.drop_duplicates())


def check_rows_to_add(columns: Columns, roles: Roles, count: int, n_rows: int) -> None:
    """Refuses a table that would grow beyond all measure, as one whose columns were mistaken does.

    Raises:
        DataError: more than ``MANY`` rows are to be added, and more than ``MAX_TIMES`` those given.
    """
    if count <= max(MANY, MAX_TIMES * n_rows):
        return

    def listed(places: Sequence[int]) -> str:
        names = ", ".join("the index" if columns.names[at] is None else repr(columns.names[at]) for at in places)
        return names or "none"

    if roles.feature is None or roles.value is None:
        more = f" and {len(roles.features) - _SHOWN} more" if len(roles.features) > _SHOWN else ""
        rest = f"features (features) = {listed(roles.features[:_SHOWN])}{more}"
        hint = "add no times with missing_times='keep'"
    else:
        rest = f"names of features (feature) = {listed([roles.feature])}, values (value) = {listed([roles.value])}"
        hint = "give it as a wide table, with a column for each feature"
    raise DataError(
        f"table: up to {count:,} rows would be added to its {n_rows:,}, expected at most {MAX_TIMES} times as many. It "
        f"was taken as {roles.layout}: time (time) = {listed(roles.time)}, groups (group) = {listed(roles.group)}, "
        f"{rest}. Name the columns if that is wrong; if it is right, {hint}."
    )


def index_notes(columns: Columns, roles: Roles, series_of_row: np.ndarray) -> tuple[str, ...]:
    """What is to be said of an index that is no time or group and must have labels for new rows.

    Raises:
        DataError: no label can be told.
    """
    notes: tuple[str, ...] = ()
    for at in (at for at in roles.extra if at < columns.n_levels):
        level = columns[at]
        if pd.api.types.is_integer_dtype(level.dtype) and columns.n_levels == 1 and not pd.isna(level).any():
            notes += (f"index: labels of new rows count on from {level.max()}",)
            continue
        pairs = pd.DataFrame({"series": series_of_row, "label": pd.factorize(np.asarray(level, object))[0]})
        if pairs.drop_duplicates()["series"].duplicated().any():
            raise DataError(
                f"index: rows may have to be added for missing times, and no label can be told for them from the index "
                f"{level.name!r}, whose first label is {level[0]!r}. Use reset_index() before, or "
                "missing_times='keep' for a wide table."
            )
    return notes

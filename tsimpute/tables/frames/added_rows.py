"""Rows that are added to a frame: for which cells, whether so many are wanted, and what they hold besides values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.clock.clock import RowAlignment
from tsimpute.tables.columns.column_names import (
    is_group_name,
    is_id_name,
    is_remark_name,
    is_result_text_name,
    is_unit_name,
)
from tsimpute.tables.columns.number_texts import can_name, is_number
from tsimpute.tables.columns.time_names import plain
from tsimpute.tables.frames.rows import Rows
from tsimpute.tables.roles.columns import Columns, Roles
from tsimpute.tables.text.numbers import is_missing
from tsimpute.tables.time.calendar_columns import CALENDAR_NAMES, at_new_times
from tsimpute.tables.time.stamps import Stamps

MAX_TIMES = 20  # A table that would get more than so many times its rows, and more than ``MANY``, was misread
MANY = 10_000
SEVERAL = 3
"""Rows that must agree before a column counts as constant in the whole table; series that must each have one value of a
quantity before it counts as a description of these series."""
Source = Literal["table", "series", "feature"]
"""What a column is a property of, so that added rows hold the same as the other rows of it."""
_SHOWN = 5
_SHOWN_TEXTS = 3


def check_rows_to_add(columns: Columns, roles: Roles, count: int, n_rows: int, wanted: bool = False) -> None:
    """Refuses a table that would grow more than its reader may expect, or beyond all measure.

    That is a long table that would more than double, unless rows are ``wanted`` (asked for), or any table that would
    get more than ``MANY`` rows and more than ``MAX_TIMES`` its own.
    """
    beyond = count > max(MANY, MAX_TIMES * n_rows)
    if not beyond and (wanted or roles.feature is None or count <= n_rows):
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
        hint = (
            "fill only the values that are empty in rows that there are, with missing_times='keep', "
            "or give the table with one row for each step, such as an hour, and a column for each feature"
        )
        if not beyond:
            hint = f"add the rows with missing_times='insert', or {hint}"
    limit = f"at most {MAX_TIMES} times as many" if beyond else "no more than there are"
    why = "" if roles.feature is None else ", one for each feature at each time of its series where it has none"
    raise DataError(
        f"table: up to {count:,} rows would be added to its {n_rows:,}{why}; expected {limit}. It was taken as "
        f"{roles.layout}: time (time) = {listed(roles.time)}, groups (group) = {listed(roles.group)}, {rest}. Name the "
        f"columns if that is wrong; if it is right, {hint}."
    )


def sources(
    columns: Columns, roles: Roles, series_of_row: np.ndarray, feature_of_row: np.ndarray | None
) -> dict[int, Source]:
    """By place, the columns that are passed through and hold in added rows what the other rows of a kind hold.

    Such a column is constant in the whole table, or is a property of the series or of the feature: constant in all
    rows of each, with several rows in most of them and not the same in all. Of one row alone nothing is copied, nor
    flags and remarks, nor what is said of a measured value in a column that has its name, such as TMAX_ATTRIBUTES.
    """
    keys: list[tuple[Source, np.ndarray]] = [("series", series_of_row)]
    if feature_of_row is not None:
        keys.append(("feature", feature_of_row))
    lent: dict[int, Source] = {}
    for at in roles.extra:
        if at < columns.n_levels or is_remark_name(columns.names[at]) or not can_name(columns[at]):
            continue
        if any(_speaks_of(columns.names[at], columns.names[feature]) for feature in roles.features):
            continue
        codes = columns.codes(at)
        if (codes == 0).all() and len(codes) >= SEVERAL:
            if is_group_name(columns.names[at]) or not is_id_name(columns.names[at]):
                lent[at] = "table"
            continue
        for source, key in keys:  # the same in all rows of a key, in a way that is hardly chance
            rows = np.bincount(key)
            pairs = np.unique(np.stack([key, codes]), axis=1)
            several = (rows >= 2).mean() > 0.5 and len(rows) >= 2 and len(np.unique(codes)) >= 2
            if several and pairs.shape[1] == len(rows):
                lent.setdefault(at, source)
    return lent


def _speaks_of(name: Hashable, feature: Hashable) -> bool:
    """Whether a name is that of a feature and a word behind it that is no unit."""
    text, of_feature = str(name), str(feature)
    rest = text.removeprefix(of_feature)
    is_longer = bool(of_feature) and rest not in ("", text)
    return is_longer and not rest[0].isalnum() and not is_unit_name(rest.strip(" _-."))


def labels_note(columns: Columns, roles: Roles, stamps: Stamps | None, lent: Mapping[int, Source]) -> tuple[str, ...]:
    """Which of the columns that are passed through are copied to added rows, and which are empty in them."""
    inside = [at for at in roles.extra if at >= columns.n_levels]
    copied = [str(columns.names[at]) for at in inside if at in lent]
    empty = [str(columns.names[at]) for at in inside if at not in lent and not _follows_time(columns, at, stamps)]
    parts = [f"{what}: {', '.join(of)}" for what, of in (("copied", copied), ("empty", empty)) if of]
    return (f"in added rows, columns that are passed through are {'; '.join(parts)}",) if parts else ()


def _follows_time(columns: Columns, at: int, stamps: Stamps | None) -> bool:
    """Whether a column is a part of the time, or a stamp that follows from the time."""
    if stamps is None or stamps.kind != "dates" or not can_name(columns[at]):
        return plain(columns.names[at]) in CALENDAR_NAMES
    column = pd.Series(columns[at].array)
    return at_new_times(column, columns.names[at], stamps.labels, stamps.labels[:1]) is not None


def index_notes(columns: Columns, roles: Roles, series_of_row: np.ndarray) -> tuple[str, ...]:
    """Notes on an index that is no time or group; refused where new rows can get no label from it."""
    notes: tuple[str, ...] = ()
    for at in (at for at in roles.extra if at < columns.n_levels):
        level = columns[at]
        if pd.api.types.is_integer_dtype(level.dtype) and columns.n_levels == 1 and not pd.isna(level).any():
            notes += (f"index: labels of new rows count on from {level.max()}",)
            continue
        pairs = pd.DataFrame({"series": series_of_row, "label": pd.factorize(np.asarray(level, object))[0]})
        if pairs.drop_duplicates()["series"].duplicated().any():
            raise DataError(
                f"index: rows may have to be added for missing times, and they can get no label from the index "
                f"{level.name!r}, whose first label is {level[0]!r}. Use reset_index() before, or "
                "missing_times='keep' for a wide table."
            )
    return notes


@dataclass(frozen=True, eq=False)
class LongCells:
    """Cells of a long table without a value, and whether a row is added for them."""

    fixed: list[np.ndarray]  # per series (K, T) bool, those that stay empty
    added: list[np.ndarray]  # per series (K, T) bool, those that get a row where they are filled
    notes: tuple[str, ...]  # why some stay empty


def long_cells(
    rows: Rows, alignment: RowAlignment, cells: Sequence[np.ndarray], *, keep: bool, described: bool
) -> LongCells:
    """Which cells of a long table get a row, and which do not.

    A row is added for a feature that its series shows at all, at each of the series' times; none for a feature that is
    no series of values, see ``static``. A cell whose result is a text stays empty.

    Args:
        cells: per series (K, T), the values.
        keep: no row is added at all.
        described: quantities may describe their series.
    """
    assert rows.feature_of_row is not None
    assert rows.nameless is not None
    start = np.cumsum([0, *(len(times) for times in alignment.times)])
    place, named = alignment.place_of(rows.series_of_row), ~rows.nameless
    has_row = np.zeros((len(rows.features), start[-1]), bool)
    has_row[rows.feature_of_row[named], place[named]] = True
    still = np.zeros(len(rows.features), bool)
    if described:
        first = alignment.step_of_row == 0
        keys = rows.series_of_row[named], rows.feature_of_row[named]
        still = static(*keys, first[named], rows.values[named, 0], len(rows.features))
    fixed, added = [], []
    for a, b in pairwise(start):
        here = has_row[:, a:b]
        added.append((here.any(1) & ~still)[:, None] & ~here & (not keep))
        fixed.append((~here & ~added[-1]) | still[:, None])
    in_words, notes = _results_in_words(rows)
    for row in np.flatnonzero(in_words).tolist():
        n, k, step = rows.series_of_row[row], rows.feature_of_row[row], alignment.step_of_row[row]
        fixed[n][k, step] |= np.isnan(cells[n][k, step])
    if still.any():
        names = ", ".join(feature.name for feature, one in zip(rows.features, still, strict=True) if one)
        note = f"{names}: the same in all rows of a series; no rows are added for it, and it is not filled"
        notes = (note, *notes)
    return LongCells(fixed, added, notes)


def _results_in_words(rows: Rows) -> tuple[np.ndarray, tuple[str, ...]]:
    """(R,) bool, rows with an empty number beside a text in another column, as "<0.30" or "HEMOLYZED", and notes.

    They were measured, so no number is put in their place.
    """
    columns, values = rows.columns, rows.values[:, 0]
    in_words = np.zeros(len(values), bool)
    notes: list[str] = []
    for at in rows.roles.extra:
        name = columns.names[at]
        if is_number(columns[at]) or not is_result_text_name(name):
            continue
        texts = pd.Series(np.asarray(columns[at], object))
        is_text = np.array([isinstance(text, str) and not is_missing(text.strip()) for text in texts], bool)
        measured = np.flatnonzero(is_text & np.isnan(values) & ~in_words)
        if not len(measured):
            continue
        in_words[measured] = True
        shown = ", ".join(repr(text) for text in texts.iloc[measured].value_counts().index[:_SHOWN_TEXTS])
        notes.append(
            f"{columns.names[rows.roles.value or 0]}: empty in {len(measured):,} rows whose result is a text in column "
            f"{name!r} ({shown}); they were measured, and stay empty"
        )
    return in_words, tuple(notes)


def static(
    series_of_row: np.ndarray, feature_of_row: np.ndarray, first: np.ndarray, values: np.ndarray, n_features: int
) -> np.ndarray:
    """(K,) bool: quantities that describe a series and are no series of values, as the age of a patient.

    In every series that has one it stands in one row, at the first time (``first``), or in several rows with one value;
    and its values differ between series, unless it stands but once in each.
    """
    rows = pd.DataFrame({"series": series_of_row, "feature": feature_of_row, "value": values, "first": first})
    pairs = rows.groupby(["feature", "series"])
    size, alike = pairs["value"].size(), pairs["value"].nunique() <= 1
    described = (pairs["first"].all() & (size == 1)) | (alike & (size > 1))
    by_feature = pd.DataFrame({"described": described, "once": size == 1}).groupby(level="feature")
    differs = (rows.groupby("feature")["value"].nunique() > 1) & (by_feature.size() >= SEVERAL)
    still = by_feature["described"].all() & (by_feature["once"].all() | differs)
    return still.reindex(range(n_features), fill_value=False).to_numpy(bool)

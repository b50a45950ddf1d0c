"""Rows of another kind: a column that is passed through decides whether a feature is measured at all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tsimpute.tables.columns.column_names import words
from tsimpute.tables.columns.number_texts import can_name, is_number
from tsimpute.tables.columns.time_names import is_calendar_name, is_clock_name, plain, speaks_of_time
from tsimpute.tables.frames.table import FrameTable, Table
from tsimpute.tables.time.calendar_columns import CALENDAR_NAMES
from tsimpute.tables.time.columns import is_stamp

FEWEST_ROWS = 5
MOST_VALUES = 20
OFTEN = 0.5
"""Share of the rows of some value in which a feature is measured, where the column decides."""
CHANCE = 0.001
"""Above it, rows without any value may be gaps like all others."""
MOST_LINES = 3
_SHOWN, _NAMED = 3, 6
_QUALITY = (
    "flag", "qual", "qc", "qa", "qf", "qn", "valid", "verif", "status", "statut", "remark", "comment", "note", "reason",
    "attribute", "text", "error", "warning", "message", "censored", "symbol",
)  # fmt: skip
"""First letters of words for what is said of single values: that one is missing, and why."""


@dataclass(frozen=True)
class SilentRows:
    """Rows in which a feature is never measured.

    Attributes:
        column: the name of the column that decides.
        values: of it, in words.
        n_rows: how many rows hold these.
    """

    column: str
    values: str
    n_rows: int


def row_kind_warnings(table: Table, observed: Sequence[np.ndarray], filled: Collection[int]) -> Iterable[str]:
    """A sentence for each pattern of rows of a wide frame in which features are never measured, and are filled.

    Args:
        observed: per series (K, T) bool.
        filled: places of the features that are filled.
    """
    if not isinstance(table, FrameTable) or table.roles.layout != "wide" or not filled:
        return
    is_observed = np.concatenate(observed, 1)
    stands = table.alignment.used
    coded = [(at, codes[stands], names) for at, codes, names in _deciding(table, filled)]
    place = table.place_of_row[stands]
    features_by_rows: dict[SilentRows, list[str]] = {}
    for k in filled if coded else ():
        measured = ~np.isnan(table.values[stands, k])
        known = is_observed[k, place]
        silent = _most_silent(table, coded, measured & known, known)
        if silent is not None:
            features_by_rows.setdefault(silent, []).append(table.panel.features[k].name)
    for silent, features in sorted(features_by_rows.items(), key=lambda item: -item[0].n_rows)[:MOST_LINES]:
        named = ", ".join(features[:_SHOWN]) + f" and {len(features) - _SHOWN} more" * (len(features) > _SHOWN)
        others = [name for name in (table.panel.features[k].name for k in filled) if name not in features]
        it, leave = "it" if len(features) == 1 else "them", ""
        if len(others) > _NAMED:
            leave = f", or leave {it} out of the columns to fill (features)"
        elif others:
            leave = f", or leave {it} unfilled: set features={others!r}"
        yield (
            f"{named}: never measured where {silent.column!r} {silent.values} ({silent.n_rows:,} rows), and filled "
            "there. If such rows measure something else, leave these rows out of the table before it is filled"
            f"{leave}"
        )


def _deciding(table: FrameTable, filled: Collection[int]) -> Iterable[tuple[int, np.ndarray, list[str]]]:
    """Columns of few values that are passed through: place, (R,) code of each row from 0, a text for each code."""
    columns, roles = table.columns, table.roles
    passed = [at for k, at in enumerate(roles.features) if k not in filled]
    for at in (*roles.extra, *passed):
        if at < columns.n_levels or not _may_decide(table, at):
            continue
        codes = columns.codes(at)
        n_values = int(codes.max(initial=-1)) + 1
        values = np.asarray(columns[at], object)[np.unique(codes, return_index=True)[1]]
        texts = [f"{v:g}" if isinstance(v, float) else str(v) if is_number(columns[at]) else repr(str(v))
                 for v in values[len(values) - n_values:]]  # fmt: skip
        if n_values > MOST_VALUES and (codes < 0).any() and not is_number(columns[at]):
            codes, texts = np.where(codes < 0, -1, 0), [""]
        if len(texts) <= MOST_VALUES:
            yield at, codes + 1, ["", *texts]


def _may_decide(table: FrameTable, at: int) -> bool:
    """Whether a column may tell kinds of rows apart: no part of the time, no property of a series, no remark."""
    columns = table.columns
    name = columns.names[at]
    if not can_name(columns[at]):
        return False
    if plain(name) in CALENDAR_NAMES or is_calendar_name(name) or is_clock_name(name) or speaks_of_time(name):
        return False
    if any(word.startswith(_QUALITY) for word in words(name)) or is_stamp(columns[at]):
        return False
    if len(table.panel.series) > 1:
        of_series = np.unique(np.stack([table.series_of_row, columns.codes(at)]), axis=1)
        if of_series.shape[1] == len(table.panel.series):
            return False
    return not _is_calendar(table, columns.codes(at))


def _is_calendar(table: FrameTable, codes: np.ndarray) -> bool:
    """Whether a column holds the same in all rows of one hour of the day, day of the week or month."""
    labels = np.concatenate([np.asarray(series.labels) for series in table.panel.series])
    if not np.issubdtype(labels.dtype, np.datetime64):
        return False
    when = pd.DatetimeIndex(labels[table.place_of_row])
    for part in (when.hour, when.day_of_week, when.month):
        n_parts = len(np.unique(part))
        n_pairs = np.unique(np.stack([np.asarray(part), codes]), axis=1).shape[1]
        if 1 < n_parts <= len(codes) / 3 and n_parts == n_pairs:
            return True
    return False


def _most_silent(
    table: FrameTable, coded: Sequence[tuple[int, np.ndarray, list[str]]], measured: np.ndarray, known: np.ndarray
) -> SilentRows | None:
    """Of the columns that decide on a feature, the one that explains most of its gaps.

    Args:
        measured: whether a row has a value of the feature.
        known: whether the cell of a row has one, from this row or another one of its time.
    """
    best = None
    for at, codes, texts in coded:
        n = np.bincount(codes, minlength=len(texts))
        shown = np.bincount(codes[measured], minlength=len(texts))
        gaps = np.bincount(codes[~known], minlength=len(texts))
        share = np.divide(shown, n, out=np.zeros(len(n)), where=n >= FEWEST_ROWS)
        often = share.max(initial=0)
        # An empty field says little: it may be a remark on what is measured.
        silent = [i for i in range(1, len(texts)) if not shown[i] and gaps[i] >= FEWEST_ROWS]
        silent = [i for i in silent if (1 - often) ** int(gaps[i]) < CHANCE]
        n_rows = int(gaps[silent].sum())
        if often >= OFTEN and silent and (best is None or n_rows > best.n_rows):
            best = SilentRows(str(table.columns.names[at]), _values_text([texts[i] for i in silent]), n_rows)
    return best


def _values_text(texts: Sequence[str]) -> str:
    if list(texts) == [""]:
        return "holds a text"
    more = len(texts) - _SHOWN
    return f"is {' or '.join(texts[:_SHOWN])}" + f" or one of {more} others" * (more > 0)

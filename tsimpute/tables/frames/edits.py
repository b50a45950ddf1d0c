"""What changes in a frame when its gaps are filled: cells, and new rows for times or features without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsimpute.core.panel import LEFT_EMPTY, OBSERVED, PROVENANCE, RULE
from tsimpute.tables.frames.table import Edits, FrameTable


@dataclass(frozen=True, eq=False)
class NewRows:
    """M rows that the table lacks, in the order in which they come to stand."""

    after: np.ndarray  # (M,) the row of the table after which each stands, -1 = before the first
    place: np.ndarray  # (M,) where each stands in the times of all series; see ``FrameTable.place_of_row``
    feature: np.ndarray | None  # (M,) of a long table, else None
    series: np.ndarray  # (M,)
    moment: np.ndarray  # (M,) as ``RowAlignment.moments``

    def __len__(self) -> int:
        return len(self.after)


@dataclass(frozen=True, eq=False)
class RowEdits:
    """What to write into the rows of a table."""

    # per column that is filled, as its place in the frame's columns: rows and their new contents.
    cells: dict[int, tuple[np.ndarray, np.ndarray]]
    new: NewRows  # rows to be added
    new_contents: dict[int, np.ndarray]  # per such column, (M,) contents of the new rows


def row_edits(table: FrameTable, edits: Edits) -> RowEdits:
    """The rows that put the edits of cells into a table.

    Of several rows of one time, numbers go only into those that have no number of their own; nothing beside a number
    gets that of the time. Texts say of each row what it holds: a number that stays is observed, the number of another
    row is by rule.
    """
    new, roles, first = new_rows(table, edits.cells), table.roles, table.columns.n_levels
    mask, contents = np.concatenate(edits.cells, 1), np.concatenate(edits.contents, 1)
    cells, new_contents = {}, {}
    # The columns that are filled, each with the feature of its rows: one number for all, or (R,).
    filled = [(at - first, np.array(k)) for k, at in enumerate(roles.features)]
    if table.feature_of_row is not None and roles.value is not None:
        filled = [(roles.value - first, table.feature_of_row)]
    for n, (column, of_row) in enumerate(filled):
        of_new = of_row if new.feature is None else new.feature
        added = contents[of_new, new.place]
        if edits.are_texts:
            cells[column] = np.arange(len(table.frame)), _texts_of(table, n, contents[of_row, table.place_of_row])
            new_contents[column] = added
            continue
        hit = mask[of_row, table.place_of_row]
        if _repeats_times(table):
            nothing, stands = np.isnan(_own(table, n)), table.stands(n)
            cell = table.place_of_row + (1 + int(table.place_of_row.max())) * of_row
            _, at = np.unique(cell, return_inverse=True)
            # A number of its own goes where no other row stands for the cell; of several whose mean counts, none does.
            hit &= nothing | (stands & (np.bincount(at, weights=stands & ~nothing)[at] <= 1))
            hit |= nothing & ~np.isnan(contents[of_row, table.place_of_row])
        if table.nameless is not None:
            hit &= ~table.nameless
        rows = np.flatnonzero(hit if table.emptied is None else hit | table.emptied[:, n])
        of_rows = of_row if np.ndim(of_row) == 0 else of_row[rows]
        cells[column] = rows, np.where(hit[rows], contents[of_rows, table.place_of_row[rows]], np.nan)
        new_contents[column] = np.where(mask[of_new, new.place], added, np.nan)
    for category in table.categories:
        column, n = category.at - first, category.first
        if edits.are_texts:
            cells[column] = np.arange(len(table.frame)), _texts_of(table, n, contents[n, table.place_of_row])
        else:
            rows = np.flatnonzero(mask[n, table.place_of_row])
            cells[column] = rows, category.likeliest(contents[:, table.place_of_row[rows]])
        new_contents[column] = np.empty(0, object)
    return RowEdits(cells, new, new_contents)


def _texts_of(table: FrameTable, n: int, texts: np.ndarray) -> np.ndarray:
    """(R,) what each row of the n-th column that is filled holds, where ``texts`` (R,) say it of the row's cell."""
    empty = np.isnan(_own(table, n))
    observed = np.where(empty, PROVENANCE[LEFT_EMPTY], PROVENANCE[OBSERVED])
    if _repeats_times(table):
        texts = np.where(~table.stands(n) & ~empty, PROVENANCE[OBSERVED], texts).astype(object)
        texts[empty & (texts == PROVENANCE[OBSERVED])] = PROVENANCE[RULE]
    return texts if table.nameless is None else np.where(table.nameless, observed, texts).astype(object)


def _repeats_times(table: FrameTable) -> bool:
    """Whether some cell of the panel has several rows."""
    cell = table.place_of_row
    if table.feature_of_row is not None:
        cell = cell * len(table.panel.features) + table.feature_of_row
    return len(np.unique(cell)) < len(cell)


def _own(table: FrameTable, n: int) -> np.ndarray:
    """(R,) what the n-th column that is filled holds; NaN also where it is emptied."""
    numbers = table.values[:, n]
    return numbers if table.emptied is None else np.where(table.emptied[:, n], np.nan, numbers)


def new_rows(table: FrameTable, changed: Sequence[np.ndarray]) -> NewRows:
    """The rows to add: of a wide table one for each inserted time, of a long one for each changed cell without a row.

    They stand by time where the table does, otherwise beside the neighbour in time of the same series and feature.
    """
    inserted = np.concatenate(table.alignment.inserted)
    if table.feature_of_row is None:
        feature, place = None, np.flatnonzero(inserted)
    else:
        has_row = np.zeros((len(table.panel.features), len(inserted)), bool)
        named = np.ones(len(table.place_of_row), bool) if table.nameless is None else ~table.nameless
        has_row[table.feature_of_row[named], table.place_of_row[named]] = True
        feature, place = np.nonzero(np.concatenate(changed, 1) & ~has_row)
    series = np.repeat(np.arange(len(table.panel.series)), list(map(len, table.alignment.times)))[place]
    moment = np.concatenate(table.alignment.moments)[place]
    after, order = np.zeros(len(moment), np.int64), np.arange(len(moment))
    if table.stamps is not None and len(moment):
        moments, is_before = table.stamps.moments, np.zeros(len(moment), np.int64)
        steps = np.diff(moments)
        if (steps >= 0).all():
            after, towards = np.searchsorted(moments, moment, side="right") - 1, moment
        elif (steps <= 0).all():
            after, towards = np.searchsorted(-moments, -moment, side="right") - 1, -moment
        elif (blocks := _in_blocks(table.series_of_row, moments, series, moment)) is not None:
            after, is_before, towards = blocks
        else:
            width = len(table.panel.features)
            key, new_key = table.series_of_row, series
            if feature is not None and table.feature_of_row is not None:
                key, new_key = key * width + table.feature_of_row, series * width + feature
            after, is_before, towards = _next_to(key, moments, new_key, moment)
        rank = np.zeros(len(series), np.int64) if feature is None else feature
        order = np.lexsort((rank, series, towards, is_before, after))
    of_feature = None if feature is None else feature[order]
    return NewRows(after[order], place[order], of_feature, series[order], moment[order])


def _in_blocks(
    series_of_row: np.ndarray, moments: np.ndarray, series: np.ndarray, moment: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """As ``_beside``, where each series is one block of rows in the order of time; else None."""
    changes = np.diff(series_of_row) != 0
    starts = np.r_[0, np.flatnonzero(changes) + 1]
    if len(starts) > len(np.unique(series_of_row)) or (np.diff(moments)[~changes] < 0).any():
        return None
    block_of_series = np.empty(int(series_of_row.max()) + 1, np.int64)
    block_of_series[series_of_row[starts]] = np.arange(len(starts))
    distinct, rank = np.unique(np.concatenate([moments, moment]), return_inverse=True)
    key = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(moments)])) * len(distinct) + rank[: len(moments)]
    block = block_of_series[series]
    after = np.searchsorted(key, block * len(distinct) + rank[len(moments) :], side="right") - 1
    return after, (after < starts[block]).astype(np.int64), rank[len(moments) :]


def _next_to(
    key: np.ndarray, moments: np.ndarray, new_key: np.ndarray, moment: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where new rows stand among the rows of their key: next to the neighbour in time that comes first in the table.

    ``key`` (R,) and ``moments`` (R,) are of the rows, ``new_key`` (M,) and ``moment`` (M,) of new ones. Returns (M,)
    the row after which each stands; whether (1) that is only since it stands before the row that follows; and a number
    that rises in the direction in which the times of its key run.
    """
    distinct, rank = np.unique(np.concatenate([moments, moment]), return_inverse=True)
    order = np.lexsort((moments, key))
    first, last = np.searchsorted(key[order], new_key), np.searchsorted(key[order], new_key, side="right") - 1
    place = key * len(distinct) + rank[: len(moments)]
    at = np.searchsorted(place[order], new_key * len(distinct) + rank[len(moments) :])
    earlier, later = order[np.maximum(at - 1, first)], order[np.minimum(at, last)]
    by_row = np.lexsort((np.arange(len(key)), key))
    falls = moments[by_row[last]] < moments[by_row[first]]
    leads = np.where(falls, at <= last, at > first)
    after = np.where(leads, np.where(falls, later, earlier), np.where(falls, earlier, later) - 1)
    towards = rank[len(moments) :] * np.where(falls, -1, 1)
    return after, (~leads).astype(np.int64), towards

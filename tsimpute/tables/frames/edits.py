"""What changes in a frame when its gaps are filled: cells, and rows for times or features that had none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsimpute.core.panel import LEFT_EMPTY, OBSERVED, PROVENANCE
from tsimpute.tables.frames.frames import FrameReading, numbers


@dataclass(frozen=True, eq=False)
class NewRows:
    """M rows that the table lacks, in the order in which they come to stand.

    Attributes:
        after: (M,) the row of the table after which each stands, -1 = before the first.
        place: (M,) where each stands in the times of all series; see ``FrameReading.place_of_row``.
        feature: (M,) of a long table, else None.
        series: (M,).
        moment: (M,) as ``Placement.moments``.
    """

    after: np.ndarray
    place: np.ndarray
    feature: np.ndarray | None
    series: np.ndarray
    moment: np.ndarray

    def __len__(self) -> int:
        return len(self.after)


@dataclass(frozen=True, eq=False)
class Edits:
    """What to write into a table.

    Attributes:
        cells: per column that is filled, as its place in the frame's columns: rows and their new values, NaN = empty.
        new: rows to be added.
        new_values: per such column, (M,) values in the new rows, NaN = empty.
    """

    cells: dict[int, tuple[np.ndarray, np.ndarray]]
    new: NewRows
    new_values: dict[int, np.ndarray]


def edits_of(reading: FrameReading, changed: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> Edits:
    """The edits that put ``values`` where ``changed`` says.

    A row that another one of the same time stands for is changed only where it has no value of its own.

    Args:
        changed: per series (K, T) bool; only cells that the panel has as missing, or that were declared invalid.
        values: per series (K, T), NaN = leave the cell empty.
    """
    new = new_rows(reading, changed)
    mask, filled = np.concatenate(changed, 1), np.concatenate(values, 1)
    place = reading.place_of_row
    cells, new_values = {}, {}
    for n, (column, of_row) in enumerate(_columns(reading)):
        hit = mask[of_row, place]
        if _repeats_times(reading):
            nothing = np.isnan(_own(reading, n, column))
            hit &= nothing | _stands_alone(of_row, place, reading.stands(n), nothing)
        if reading.nameless is not None:
            hit &= ~reading.nameless
        dropped = np.zeros(len(hit), bool) if reading.dropped is None else reading.dropped[:, n]
        rows = np.flatnonzero(hit | dropped)
        own = filled[of_row if np.ndim(of_row) == 0 else of_row[rows], place[rows]]
        cells[column] = rows, np.where(hit[rows], own, np.nan)
        of_new = of_row if new.feature is None else new.feature
        at = mask[of_new, new.place]
        new_values[column] = np.where(at, filled[of_new, new.place], np.nan)
    return Edits(cells, new, new_values)


def _stands_alone(of_row: np.ndarray, place: np.ndarray, kept: np.ndarray, nothing: np.ndarray) -> np.ndarray:
    """(R,) bool: no other row with a value stands for its cell; of several whose mean counts, none does so."""
    cell = place + (1 + int(place.max())) * np.broadcast_to(of_row, place.shape)
    _, at = np.unique(cell, return_inverse=True)
    return kept & (np.bincount(at, weights=kept & ~nothing)[at] <= 1)


def words_of(
    reading: FrameReading, new: NewRows, words: Sequence[np.ndarray]
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Per column that is filled: what ``words`` (per series (K, T)) say of its cells (R,), and of the new rows (M,).

    Each of several rows of one time is said to be what it holds: a value that stays is observed, nothing beside one is
    left empty.
    """
    flat, said = np.concatenate(words, 1), {}
    for n, (column, of_row) in enumerate(_columns(reading)):
        old = flat[of_row, reading.place_of_row]
        if _repeats_times(reading):
            blank = np.isnan(_own(reading, n, column))
            old = np.where(~reading.stands(n) & ~blank, PROVENANCE[OBSERVED], old).astype(object)
            old[blank & (old == PROVENANCE[OBSERVED])] = PROVENANCE[LEFT_EMPTY]
        if reading.nameless is not None:
            own = np.isnan(_own(reading, n, column))
            old = np.where(reading.nameless, np.where(own, PROVENANCE[LEFT_EMPTY], PROVENANCE[OBSERVED]), old)
            old = old.astype(object)
        said[column] = old, flat[of_row if new.feature is None else new.feature, new.place]
    return said


def _repeats_times(reading: FrameReading) -> bool:
    """Whether some cell of the panel has several rows."""
    cell = reading.place_of_row
    if reading.feature_of_row is not None:
        cell = cell * len(reading.panel.features) + reading.feature_of_row
    return len(np.unique(cell)) < len(cell)


def _columns(reading: FrameReading) -> list[tuple[int, np.ndarray]]:
    """The columns that are filled, each with the feature of its rows: one number for all, or (R,)."""
    first, roles = reading.columns.n_levels, reading.roles
    if reading.feature_of_row is not None:
        assert roles.value is not None
        return [(roles.value - first, reading.feature_of_row)]
    return [(at - first, np.array(k)) for k, at in enumerate(roles.features)]


def _own(reading: FrameReading, n: int, column: int) -> np.ndarray:
    """(R,) what the n-th column that is filled holds; NaN also where that counts as nothing."""
    own = numbers(reading.frame.iloc[:, column], reading.frame.columns[column])
    return own if reading.blank is None else np.where(reading.blank[:, n], np.nan, own)


def new_rows(reading: FrameReading, changed: Sequence[np.ndarray]) -> NewRows:
    """The rows to add: of a wide table one for each inserted time, of a long one for each changed cell without a row.

    They stand where the table's own order has them: by time where the table is, otherwise beside the neighbour in time
    of the same series and feature.
    """
    inserted = np.concatenate(reading.placement.inserted)
    if reading.feature_of_row is None:
        feature, place = None, np.flatnonzero(inserted)
    else:
        there = np.zeros((len(reading.panel.features), len(inserted)), bool)
        named = np.ones(len(reading.place_of_row), bool) if reading.nameless is None else ~reading.nameless
        there[reading.feature_of_row[named], reading.place_of_row[named]] = True
        feature, place = np.nonzero(np.concatenate(changed, 1) & ~there)
    series = np.searchsorted(reading.start, place, side="right") - 1
    moment = np.concatenate(reading.placement.moments)[place]
    after, order = _stand(reading, series, feature, moment)
    return NewRows(
        after[order], place[order], None if feature is None else feature[order], series[order], moment[order]
    )


def _stand(
    reading: FrameReading, series: np.ndarray, feature: np.ndarray | None, moment: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """After which row each new one stands, and their order."""
    if reading.stamps is None or not len(moment):
        return np.zeros(len(moment), np.int64), np.arange(len(moment))
    own = reading.stamps.moments
    rank = np.zeros(len(series), np.int64) if feature is None else feature
    steps, beside = np.diff(own), np.zeros(len(moment), np.int64)
    if (steps >= 0).all():
        after, towards = np.searchsorted(own, moment, side="right") - 1, moment
    elif (steps <= 0).all():
        after, towards = np.searchsorted(-own, -moment, side="right") - 1, -moment
    elif (found := _in_blocks(reading.series_of_row, own, series, moment)) is not None:
        after, beside, towards = found
    else:
        width = len(reading.panel.features)
        key, new_key = reading.series_of_row, series
        if feature is not None and reading.feature_of_row is not None:
            key, new_key = key * width + reading.feature_of_row, series * width + feature
        after, beside, towards = _beside(key, own, new_key, moment)
    return after, np.lexsort((rank, series, towards, beside, after))


def _in_blocks(
    series_of_row: np.ndarray, own: np.ndarray, series: np.ndarray, moment: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """As ``_beside``, where each series is one block of rows in the order of time; else None."""
    changes = np.diff(series_of_row) != 0
    starts = np.r_[0, np.flatnonzero(changes) + 1]
    if len(starts) > len(np.unique(series_of_row)) or (np.diff(own)[~changes] < 0).any():
        return None
    block_of_series = np.empty(int(series_of_row.max()) + 1, np.int64)
    block_of_series[series_of_row[starts]] = np.arange(len(starts))
    distinct, rank = np.unique(np.concatenate([own, moment]), return_inverse=True)
    key = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(own)])) * len(distinct) + rank[: len(own)]
    block = block_of_series[series]
    after = np.searchsorted(key, block * len(distinct) + rank[len(own) :], side="right") - 1
    return after, (after < starts[block]).astype(np.int64), rank[len(own) :]


def _beside(
    key: np.ndarray, own: np.ndarray, new_key: np.ndarray, moment: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where new rows stand among the rows of their key: next to the neighbour in time that comes first in the table.

    Args:
        key: (R,) of each row; the rows of one are in the order of time or not.
        own: (R,) moment of each.
        new_key, moment: (M,) the same of new rows; each key has a row.

    Returns:
        (M,) the row after which each stands; whether (1) that is only since it stands before the row that follows; and
        a number that rises in the direction in which the times of its key run.
    """
    distinct, rank = np.unique(np.concatenate([own, moment]), return_inverse=True)
    order = np.lexsort((own, key))
    first, last = np.searchsorted(key[order], new_key), np.searchsorted(key[order], new_key, side="right") - 1
    place = key * len(distinct) + rank[: len(own)]
    at = np.searchsorted(place[order], new_key * len(distinct) + rank[len(own) :])
    earlier, later = order[np.maximum(at - 1, first)], order[np.minimum(at, last)]
    by_row = np.lexsort((np.arange(len(key)), key))
    falls = own[by_row[last]] < own[by_row[first]]
    leads = np.where(falls, at <= last, at > first)
    after = np.where(leads, np.where(falls, later, earlier), np.where(falls, earlier, later) - 1)
    towards = rank[len(own) :] * np.where(falls, -1, 1)
    return after, (~leads).astype(np.int64), towards

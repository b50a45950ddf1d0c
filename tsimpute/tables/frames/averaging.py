"""Rows of one time whose mean counts: taken apart, so that what is no value is found before it would be averaged in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tsimpute.core.panel import Panel
from tsimpute.tables.frames.frames import FrameReading, cells_of, numbers


@dataclass(frozen=True, eq=False)
class LeftOut:
    """What of the rows of one time is not averaged; per layer and series (K, T) bool, see ``Table.layers``.

    Attributes:
        unused: all that is not.
        blank: of these, what counts as holding nothing, as a code for missing does.
        dropped: of these, what is to be made missing.
    """

    unused: Sequence[Sequence[np.ndarray]]
    blank: Sequence[Sequence[np.ndarray]]
    dropped: Sequence[Sequence[np.ndarray]]


def ranks(cell_of_row: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """(R,) which of the rows of its cell each is, from 0; -1 for a row that another one stands for."""
    out = np.full(len(kept), -1)
    out[kept] = pd.Series(cell_of_row[kept]).groupby(cell_of_row[kept]).cumcount()
    return out


def left_out(
    coded: Sequence[Sequence[np.ndarray]],
    outside: Sequence[Sequence[np.ndarray]],
    observed: Sequence[Sequence[np.ndarray]],
    drop_invalid: bool,
) -> LeftOut:
    """Codes, and values outside the limits: where a cell has no others, the first of these stands for it.

    Args:
        coded, outside: per layer and series (K, T) bool.
        observed: the same: values that are no code.
    """
    unused, dropped = [], []
    taken = [np.logical_or.reduce(both) for both in zip(*_valid(observed, outside), strict=True)]
    for of_layer in outside:
        unused.append([cells & used for cells, used in zip(of_layer, taken, strict=True)])
        taken = [used | cells for cells, used in zip(of_layer, taken, strict=True)]
    nothing = [[np.zeros_like(cells) for cells in of_layer] for of_layer in unused]
    dropped = unused if drop_invalid else nothing
    return LeftOut(_either(coded, unused), _either(coded, dropped), dropped)


def _valid(observed: Sequence[Sequence[np.ndarray]], outside: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
    return [[a & ~b for a, b in zip(*both, strict=True)] for both in zip(observed, outside, strict=True)]


def _either(one: Sequence[Sequence[np.ndarray]], two: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
    return [[a | b for a, b in zip(*both, strict=True)] for both in zip(one, two, strict=True)]


def layers_of(reading: FrameReading) -> tuple[Panel, ...]:
    """See ``Table.layers``."""
    if reading.superseded is not None:
        return (reading.panel,)
    rank = _rank(reading)
    if rank.max() < 1:
        return (reading.panel,)
    return tuple(_panel(reading, _values(reading, rank == j)) for j in range(rank.max() + 1))


def averaged(reading: FrameReading, out: LeftOut) -> FrameReading:
    """The reading with the mean of what is not left out."""
    unused, blank, dropped = (_of_rows(reading, part) for part in (out.unused, out.blank, out.dropped))
    panel = _panel(reading, np.where(unused, np.nan, _values(reading, reading.placement.kept)))
    return replace(reading, panel=panel, blank=blank, dropped=dropped)


def _rank(reading: FrameReading) -> np.ndarray:
    feature = 0 if reading.feature_of_row is None else reading.feature_of_row
    return ranks(reading.place_of_row * len(reading.panel.features) + feature, reading.placement.kept)


def _values(reading: FrameReading, rows: np.ndarray) -> np.ndarray:
    """(R, columns that are filled), NaN but in some rows."""
    roles, columns = reading.roles, reading.columns
    at = roles.features if roles.value is None else (roles.value,)
    return np.where(rows[:, None], np.stack([numbers(columns[i], columns.names[i]) for i in at], 1), np.nan)


def _panel(reading: FrameReading, values: np.ndarray) -> Panel:
    cells = cells_of(values, reading.series_of_row, reading.feature_of_row, reading.placement)
    series = (replace(s, values=v) for s, v in zip(reading.panel.series, cells, strict=True))
    return replace(reading.panel, series=tuple(series))


def _of_rows(reading: FrameReading, layers: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """(R, columns that are filled) bool: cells of each row's own layer."""
    rank, place = _rank(reading), reading.place_of_row
    flat = np.stack([np.concatenate(of_layer, 1) for of_layer in layers])
    if reading.feature_of_row is None:
        return flat[rank, :, place] & (rank >= 0)[:, None]
    return (flat[rank, reading.feature_of_row, place] & (rank >= 0))[:, None]

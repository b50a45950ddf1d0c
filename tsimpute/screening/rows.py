"""Codes for missing and values outside the limits, found in the rows of a table before these are averaged."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from tsimpute.core.limits import Limits
from tsimpute.tables.frames.table import Entries


@dataclass(frozen=True, eq=False)
class ScreenedEntries:
    """What of the entries of a table is no value, each (E,) bool.

    Attributes:
        coded: codes for missing.
        outside: values outside the limits, no codes.
        unused: of both, what does not count in the panel: all codes, and outside values of cells with valid ones. Where
            a cell has no valid value, its first outside value stands for it.
    """

    coded: np.ndarray
    outside: np.ndarray
    unused: np.ndarray


def values_by_feature(entries: Entries) -> list[np.ndarray]:
    """Per feature its values, in the order of the table."""
    order = np.argsort(entries.feature, kind="stable")
    counts = np.bincount(entries.feature, minlength=entries.n_features)
    return np.split(entries.values[order], np.cumsum(counts)[:-1])


def screen_entries(entries: Entries, codes: Sequence[Collection[float]], limits: Sequence[Limits]) -> ScreenedEntries:
    """The codes and the values outside the limits.

    Args:
        codes, limits: one per feature.
    """
    feature = entries.feature
    coded = np.zeros(len(feature), bool)
    for code in {code for of_one in codes for code in of_one}:
        coded |= (entries.values == code) & np.array([code in of_one for of_one in codes])[feature]
    low, high = (np.array(side)[feature] for side in zip(*(of_one.bounds for of_one in limits), strict=True))
    outside = ((entries.values < low) | (entries.values > high)) & ~coded
    valid = ~np.isnan(entries.values) & ~coded & ~outside
    taken = np.bincount(entries.cell[valid], minlength=entries.n_cells) > 0
    first = np.zeros(len(coded), bool)
    at = np.flatnonzero(outside)
    first[at[np.unique(entries.cell[at], return_index=True)[1]]] = True
    return ScreenedEntries(coded, outside, coded | (outside & (taken[entries.cell] | ~first)))

"""How many decimals numbers that are filled in are written with, in a text file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tsimpute.tables.text.number_forms import PLAIN
from tsimpute.tables.text.numbers import number_text, written_decimals

if TYPE_CHECKING:
    from tsimpute.tables.frames.frame_table import FrameTable
    from tsimpute.tables.text.numbers import Numbers

FEW = 5
"""Numbers of a feature of a long table, from which it is told how many decimals it has."""


def decimals_by_feature(
    reading: FrameTable, numbers: Numbers, fields: np.ndarray, mark: str, of_column: int
) -> np.ndarray:
    """(K,) decimals of each feature of a long table; of one of few numbers, those of the column.

    Args:
        numbers, fields: (R,) of the column of values.
        mark: the decimal mark.
        of_column: decimals of the column.
    """
    assert reading.feature_of_row is not None
    n_features = len(reading.panel.features)
    known = ~np.isnan(numbers.values)
    if reading.nameless is not None:
        known &= ~reading.nameless
    if numbers.form != PLAIN:
        return np.full(n_features, of_column)
    own, feature = np.zeros(n_features, np.int64), reading.feature_of_row[known]
    np.maximum.at(own, feature, written_decimals(fields[known].tolist(), mark))
    return np.where(np.bincount(feature, minlength=n_features) < FEW, of_column, np.minimum(own, of_column))


def written(values: np.ndarray, decimals: np.ndarray, numbers: Numbers, mark: str) -> list[str]:
    """Numbers as their column writes them, each with its own decimals; "" for NaN."""
    out = np.full(len(values), "", object)
    there = ~np.isnan(values)
    for of_one in np.unique(decimals[there]).tolist():
        here = there & (decimals == of_one)
        out[here] = numbers.form.dressed(number_text(values[here], of_one, mark), mark)
    return out.tolist()

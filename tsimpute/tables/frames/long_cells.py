"""Cells of a long table that have no row: which of them get one, and which do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from tsimpute.tables.clock.clock import RowAlignment
from tsimpute.tables.columns.column_names import is_result_text_name
from tsimpute.tables.columns.number_texts import is_number
from tsimpute.tables.frames.rows import Rows
from tsimpute.tables.text.numbers import is_missing

SEVERAL = 3
"""Series that must each have one value of a quantity before it counts as a description of these series."""
_SHOWN = 3


@dataclass(frozen=True, eq=False)
class LongCells:
    """Cells of a long table without a value, and whether a row is added for them.

    Attributes:
        fixed: per series (K, T) bool, those that stay empty.
        added: per series (K, T) bool, those that get a row where they are filled.
        notes: why some stay empty.
    """

    fixed: list[np.ndarray]
    added: list[np.ndarray]
    notes: tuple[str, ...]


def long_cells(
    rows: Rows, alignment: RowAlignment, cells: Sequence[np.ndarray], *, keep: bool, described: bool
) -> LongCells:
    """Which cells of a long table get a row, and which do not.

    A row is added for a feature that its series shows at all, at each of the series' times; none for a feature that is
    no series of values, see ``static``. A cell whose result is a text stays empty.

    Args:
        rows: of a long table.
        cells: per series (K, T), the values.
        keep: no row is added at all.
        described: quantities may describe their series, see ``static``.
    """
    assert rows.feature_of_row is not None
    assert rows.nameless is not None
    start = np.cumsum([0, *(len(times) for times in alignment.times)])
    place, named = start[rows.series_of_row] + alignment.step_of_row, ~rows.nameless
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
    """Rows whose result is a text in another column, as "<0.30" or "HEMOLYZED", beside an empty number.

    They were measured, so no number is put in their place.

    Returns:
        (R,) bool, and a note for each column of such texts.
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
        shown = ", ".join(repr(text) for text in texts.iloc[measured].value_counts().index[:_SHOWN])
        notes.append(
            f"{columns.names[rows.roles.value or 0]}: empty in {len(measured):,} rows whose result is a text in column "
            f"{name!r} ({shown}); they were measured, and stay empty"
        )
    return in_words, tuple(notes)


def static(
    series_of_row: np.ndarray, feature_of_row: np.ndarray, first: np.ndarray, values: np.ndarray, n_features: int
) -> np.ndarray:
    """(K,) bool: quantities that describe a series and are no series of values, as the age of a patient.

    In every series that has one it stands in one row, at the first time, or in several rows with one value; and
    its values differ between series, unless it stands but once in each.

    Args:
        first: (R,) bool, rows of the first time of their series.
    """
    rows = pd.DataFrame({"series": series_of_row, "feature": feature_of_row, "value": values, "first": first})
    pairs = rows.groupby(["feature", "series"])
    size, alike = pairs["value"].size(), pairs["value"].nunique() <= 1
    described = (pairs["first"].all() & (size == 1)) | (alike & (size > 1))
    by_feature = pd.DataFrame({"described": described, "once": size == 1}).groupby(level="feature")
    differs = (rows.groupby("feature")["value"].nunique() > 1) & (by_feature.size() >= SEVERAL)
    still = by_feature["described"].all() & (by_feature["once"].all() | differs)
    return still.reindex(range(n_features), fill_value=False).to_numpy(bool)

"""The rows of a long table: whose quantity each one is, in which unit, and which quantities are no series of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tsimpute.core.windows import Feature
from tsimpute.errors import DataError
from tsimpute.tables.columns.column_names import is_result_text_name
from tsimpute.tables.columns.number_texts import is_number
from tsimpute.tables.columns.units import unit_of
from tsimpute.tables.text.numbers import is_missing
from tsimpute.tables.text.row_errors import Part, RowNote

if TYPE_CHECKING:
    from tsimpute.tables.clock.clock import RowAlignment
    from tsimpute.tables.roles.columns import Columns

SEVERAL = 3
"""Series that must each have one value of a quantity before it counts as a description of these series."""

_SHOWN = 3


def features_of_rows(columns: Columns, at: int) -> tuple[np.ndarray, list[object], np.ndarray]:
    """The quantity of each row of a long table.

    Returns:
        (R,) number of the name in each row, in the order in which names first come, 0 where there is none; the names;
        and (R,) bool, rows without a name: None, NaN or a blank text.

    Raises:
        DataError: no row has a name.
    """
    names = np.asarray(columns[at], object)
    blank = columns.codes(at) < 0
    if blank.all():
        raise DataError(f"column {columns.names[at]!r}: expected names of quantities, came none. Name another column.")
    codes = columns.codes(at)
    first = np.unique(codes[~blank], return_index=True)[1]
    return np.maximum(codes, 0), names[~blank][first].tolist(), blank


def nameless_note(name: object, blank: np.ndarray) -> tuple[RowNote, ...]:
    """Says which rows have no name of a quantity, and what is done with them."""
    rows = np.flatnonzero(blank).tolist()
    if not rows:
        return ()
    parts: list[Part] = [f"column {name!r}: no name of a quantity in "]
    for row in rows[:_SHOWN]:
        parts += [row] if row == rows[0] else [", ", row]
    more = f" and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
    return (
        RowNote(*parts, f"{more}; {'this row is' if len(rows) == 1 else 'these rows are'} passed through unchanged"),
    )


def features_of(
    names: Sequence[str], feature_of_row: np.ndarray, unit_of_row: pd.Series | pd.Index | None, units: Mapping[str, str]
) -> list[Feature]:
    """Names and units of the quantities of a long table.

    Args:
        feature_of_row: (R,) number of the name of each row.
        unit_of_row: (R,) the column of units, or None.
        units: by name, where they are given; these come first.

    Raises:
        DataError: a quantity has several units.
    """
    by_name: dict[int, list[str]] = {}
    if unit_of_row is not None:
        pairs = pd.DataFrame({"feature": feature_of_row, "unit": np.asarray(unit_of_row, object)})
        for k, unit in pairs.dropna().drop_duplicates().itertuples(index=False):
            if str(unit).strip():
                by_name.setdefault(k, []).append(str(unit).strip())
    features = []
    for k, name in enumerate(names):
        distinct = list({unit.casefold(): unit for unit in reversed(by_name.get(k, []))}.values())[::-1]
        if len(distinct) > 1:
            raise DataError(
                f"unit: expected one unit for {name!r}, found {', '.join(distinct)}. Convert the values to one unit."
            )
        features.append(Feature(name, unit_of(units, name, distinct[0] if distinct else "")))
    return features


def results_in_words(
    columns: Columns, value: int, others: Sequence[int], values: np.ndarray
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Rows whose result is a text in another column, as "<0.30" or "HEMOLYZED", beside an empty number.

    They were measured, so no number is put in their place.

    Args:
        value: column of the numbers; others: columns without a role; values: (R,).

    Returns:
        (R,) bool, and a note for each column of such texts.
    """
    in_words = np.zeros(len(values), bool)
    notes: list[str] = []
    for at in others:
        name = columns.names[at]
        if is_number(columns[at]) or not is_result_text_name(name):
            continue
        texts = pd.Series(np.asarray(columns[at], object))
        is_text = np.array([isinstance(text, str) and not is_missing(text.strip()) for text in texts], bool)
        rows = np.flatnonzero(is_text & np.isnan(values) & ~in_words)
        if not len(rows):
            continue
        in_words[rows] = True
        shown = ", ".join(repr(text) for text in texts.iloc[rows].value_counts().index[:_SHOWN])
        notes.append(
            f"{columns.names[value]}: empty in {len(rows):,} rows whose result is a text in column {name!r} ({shown}); "
            "they were measured, and stay empty"
        )
    return in_words, tuple(notes)


@dataclass(frozen=True, eq=False)
class Places:
    """Cells of a long table that have no row.

    Attributes:
        fixed: per series (K, T) bool, those that get none.
        added: per series (K, T) bool, those that get one where they are filled.
        notes: why some get none.
    """

    fixed: list[np.ndarray]
    added: list[np.ndarray]
    notes: tuple[str, ...]

    def without(
        self,
        rows: np.ndarray,
        series_of_row: np.ndarray,
        feature_of_row: np.ndarray,
        step_of_row: np.ndarray,
        cells: Sequence[np.ndarray],
    ) -> Places:
        """The same where the empty cells of some rows stay empty.

        Args:
            rows: (R,) bool; series_of_row, feature_of_row, step_of_row: (R,); cells: per series (K, T).
        """
        fixed = [of_series.copy() for of_series in self.fixed]
        for row in np.flatnonzero(rows).tolist():
            n, k, step = series_of_row[row], feature_of_row[row], step_of_row[row]
            fixed[n][k, step] |= np.isnan(cells[n][k, step])
        return replace(self, fixed=fixed)


def places_of(
    features: Sequence[Feature],
    alignment: RowAlignment,
    series_of_row: np.ndarray,
    feature_of_row: np.ndarray,
    values: np.ndarray,
    nameless: np.ndarray,
    keep: bool,
    described: bool = True,
) -> Places:
    """Which cells of a long table get a row, and which do not.

    A row is added for a feature that its series shows at all, at each of the series' times; none for a feature that is
    no series of values, see ``static``.

    Args:
        feature_of_row, values, nameless: (R,).
        keep: no row is added at all.
        described: quantities may describe their series, see ``static``.
    """
    lengths = [len(times) for times in alignment.times]
    start = np.concatenate([[0], np.cumsum(lengths)])
    has_row = np.zeros((len(features), sum(lengths)), bool)
    named = ~nameless
    has_row[feature_of_row[named], (start[series_of_row] + alignment.step_of_row)[named]] = True
    first = alignment.step_of_row == 0
    still = np.zeros(len(features), bool)
    if described:
        still = static(series_of_row[named], feature_of_row[named], first[named], values[named], len(features))
    fixed, added = [], []
    for a, b in pairwise(start):
        here = has_row[:, a:b]
        open_to = (here.any(1) & ~still)[:, None] & ~here & (not keep)
        fixed.append((~here & ~open_to) | still[:, None])
        added.append(open_to)
    if not still.any():
        return Places(fixed, added, ())
    names = ", ".join(feature.name for feature, one in zip(features, still, strict=True) if one)
    note = f"{names}: the same in all rows of a series; no rows are added for it, and it is not filled"
    return Places(fixed, added, (note,))


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

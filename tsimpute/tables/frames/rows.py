"""The rows of a frame: their series, their features, their numbers and their categories."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tsimpute.core.windows import Feature
from tsimpute.errors import DataError
from tsimpute.tables.clock.clock import RowAlignment
from tsimpute.tables.clock.duplicates import Duplicates
from tsimpute.tables.columns.number_texts import floats, is_number, row_label, text_problem
from tsimpute.tables.roles.columns import Columns, KnownFeatures, Roles, unit_of
from tsimpute.tables.text.numbers import split_unit
from tsimpute.tables.text.row_errors import Part, RowError, RowNote
from tsimpute.tables.time.stamps import Stamps

_SHOWN = 3
MOST_LEVELS = 50
_WHOLE, _CODE = re.compile(r"-?(0|[1-9]\d*)\.0+"), re.compile(r"-9{2,}")


@dataclass(frozen=True, eq=False)
class Rows:
    """What the R rows of a frame hold."""

    columns: Columns  # of the frame
    roles: Roles  # of the frame
    series: Sequence[str]  # names of the series, in the order in which they first come
    series_of_row: np.ndarray  # (R,) number of each row's series
    features: Sequence[Feature]  # of the table; of a long one in the order in which they first come
    # (R,) number of each row's feature in a long table, 0 where it has none; None = it is wide.
    feature_of_row: np.ndarray | None
    values: np.ndarray  # (R, columns that are filled) float64, NaN = nothing
    # (R,) bool, rows of a long table without a feature; they are passed through. None = it is wide.
    nameless: np.ndarray | None
    counts: np.ndarray | None = None  # (R,) bool, rows that tell when a series begins and ends; None = all
    notes: tuple[str, ...] = ()  # what was done

    @property
    def apart(self) -> np.ndarray | None:
        """(R,) the feature of each row, each row without one by itself: none of these repeats the time of another."""
        if self.feature_of_row is None or self.nameless is None:
            return self.feature_of_row
        return np.where(self.nameless, self.feature_of_row.max() + np.cumsum(self.nameless), self.feature_of_row)

    @property
    def sequence(self) -> np.ndarray:
        """(R,) rows of one number must have distinct times."""
        feature = self.apart
        return self.series_of_row if feature is None else self.series_of_row * (1 + feature.max()) + feature

    def known(self, known: KnownFeatures, named: Sequence[object] | None) -> Rows:
        """The rows of the features that a model knows; all others are passed through.

        Columns that a caller ``named`` as features stay features, known or not. Raises as ``KnownFeatures`` does.
        """
        names, inside = [feature.name for feature in self.features], self.columns.n_levels
        others = [str(self.columns.names[at]) for at in self.roles.extra if at >= inside]
        names_of_model = known.of(names)
        if self.feature_of_row is None or self.nameless is None:
            if named is None or known.rename:
                known.check([*names, *others], names_of_model)
            return replace(self, notes=known.notes(names_of_model, dict.fromkeys(others, 0), True))
        known.check(names, names_of_model)
        is_known = np.array([name in names_of_model for name in names])
        number = np.cumsum(is_known) - 1
        stands = is_known[self.feature_of_row] & ~self.nameless
        unknown = Counter(self.feature_of_row[~is_known[self.feature_of_row] & ~self.nameless].tolist())
        described = np.isin(names, known.descriptors)[self.feature_of_row] & ~self.nameless
        notes = known.notes(names_of_model, {names[k]: unknown[k] for k in sorted(unknown)}, False)
        return replace(
            self, features=[feature for feature, one in zip(self.features, is_known, strict=True) if one],
            feature_of_row=np.where(stands, number[self.feature_of_row], 0), nameless=~stands,
            counts=stands | described, notes=(*self.notes, *notes),
        )  # fmt: skip


def rows_of(columns: Columns, roles: Roles, units: Mapping[str, str]) -> Rows:
    """The rows of a frame; ``units``: of features by name, where they are given.

    A row without a group, no feature, an infinite value or no number, and several units of a quantity are refused.
    """
    series_of_row, series = _groups(columns, roles)
    if roles.feature is None or roles.value is None:
        names = [str(columns.names[at]) for at in roles.features]
        features = [Feature(name, unit_of(units, name, split_unit(name)[1])) for name in names]
        values = np.empty((len(series_of_row), len(features)))  # without any, all features are of categories
        for k, at in enumerate(roles.features):
            values[:, k] = numbers(columns[at], columns.names[at])
        return Rows(columns, roles, series, series_of_row, features, None, values, None)
    codes = columns.codes(roles.feature)
    nameless, name = codes < 0, columns.names[roles.feature]
    if nameless.all():
        raise DataError(f"column {name!r}: expected names of quantities, came none. Name another column.")
    first = np.unique(codes[~nameless], return_index=True)[1]
    names = [name_text(item) for item in np.asarray(columns[roles.feature], object)[~nameless][first]]
    features = _features_of(names, codes, None if roles.unit is None else columns[roles.unit], units)
    values = numbers(columns[roles.value], columns.names[roles.value])[:, None]
    notes: tuple[RowNote, ...] = ()
    if nameless.any():
        rows = np.flatnonzero(nameless).tolist()
        parts: list[Part] = [f"column {name!r}: no name of a quantity in ", rows[0]]
        for row in rows[1:_SHOWN]:
            parts += [", ", row]
        more = f" and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
        are = "this row is" if len(rows) == 1 else "these rows are"
        notes = (RowNote(*parts, f"{more}; {are} passed through unchanged"),)
    return Rows(columns, roles, series, series_of_row, features, np.maximum(codes, 0), values, nameless, notes=notes)


def _groups(columns: Columns, roles: Roles) -> tuple[np.ndarray, list[str]]:
    """(R,) series of each row, and the series' names in the order in which they first come."""
    n_rows = len(columns[0]) if len(columns) else 0
    if not roles.group:
        return np.zeros(n_rows, np.int64), [""]
    parts: list[list[str]] = []
    for at in roles.group:
        codes = columns.codes(at)
        if (codes < 0).any():
            row = int(np.flatnonzero(codes < 0)[0])
            raise RowError(
                f"column {columns.names[at]!r}: expected a name in every row, ", row, row_label(columns[at], row),
                " has none. Fill it in, take the row out, or name the column of groups (group=() = there is none)."
            )  # fmt: skip
        first = np.unique(codes, return_index=True)[1]
        parts.append([name_text(name) for name in np.asarray(columns[at], object)[first]])
    series_of_row, keys = pd.MultiIndex.from_arrays([columns.codes(at) for at in roles.group]).factorize()
    names = [" / ".join(of_part[code] for of_part, code in zip(parts, key, strict=True)) for key in keys]
    return np.asarray(series_of_row, np.int64), names


def name_text(name: object) -> str:
    """A name for people: whole numbers without decimals, as a column with gaps may hold them."""
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)


def _features_of(
    names: Sequence[str], feature_of_row: np.ndarray, unit_of_row: pd.Series | pd.Index | None, units: Mapping[str, str]
) -> list[Feature]:
    """Names and units of the quantities of a long table; units that are given by name come first.

    Args:
        feature_of_row: (R,) number of the name of each row, -1 = it has none.
        unit_of_row: (R,) the column of units, or None.
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


def numbers(column: pd.Series | pd.Index, name: object) -> np.ndarray:
    """(R,) float64, NaN where nothing is, a copy; a value that is infinite or no number is refused."""
    if not is_number(column):
        problem = text_problem(column, name, named=True)
        assert problem is not None
        raise problem
    out = floats(column)
    if np.isinf(out).any():
        row = int(np.flatnonzero(np.isinf(out))[0])
        raise RowError(
            f"column {name!r}: expected finite numbers or nothing, came {out[row]} in ", row, row_label(column, row),
            ". Correct or remove it.",
        )  # fmt: skip
    return out


def of_one_step(
    stamps: Stamps, rows: Rows, alignment: RowAlignment, duplicates: Duplicates
) -> tuple[np.ndarray, tuple[str, ...]]:
    """(R, columns that are filled) bool, values for which another one of their step stands; and a note of how many.

    The latest value stands, of several at one time the last one of the table; "first" uses the earliest.
    """
    cell = alignment.place_of(rows.series_of_row)
    if rows.feature_of_row is not None:
        cell = cell * len(rows.features) + rows.feature_of_row
    if rows.nameless is not None:
        cell = np.where(rows.nameless, -1, cell)
    superseded = np.zeros(rows.values.shape, bool)
    for column in range(rows.values.shape[1]):
        at = np.flatnonzero((cell >= 0) & ~np.isnan(rows.values[:, column]))
        order = at[np.lexsort((stamps.moments[at], cell[at]))]
        same = np.diff(cell[order]) == 0
        superseded[order[1:][same] if duplicates == "first" else order[:-1][same], column] = True
    if not (count := int(superseded.sum())):
        return superseded, ()
    which, order = ("first", "n earlier") if duplicates == "first" else ("latest", " later")
    share = "1 value shares its hour with a" if count == 1 else f"{count:,} values share their hour with a"
    return superseded, (
        f"{share}{order} one of the same feature: the {which} value of an hour is the one that the model sees; all "
        "values stay as they are",
    )


@dataclass(frozen=True, eq=False)
class Category:
    """One column of categories."""

    at: int  # its place among the columns
    name: Hashable  # of the column
    levels: tuple[object, ...]  # the categories, as the column holds them
    codes: np.ndarray  # (R,) number of each row's category, -1 = missing
    first: int  # the number of the feature of the first category; those of the others follow

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features; of two categories the second one is enough."""
        return tuple(f"{self.name}={level_text(level)}" for level in self.levels[self._skipped :])

    @property
    def indicators(self) -> np.ndarray:
        """(R, features) 1 = the row has the category, NaN = missing."""
        ones = (self.codes[:, None] == np.arange(self._skipped, len(self.levels))).astype(np.float64)
        return np.where(self.codes[:, None] < 0, np.nan, ones)

    @property
    def _skipped(self) -> int:
        return int(len(self.levels) == 2)

    def likeliest(self, contents: np.ndarray) -> np.ndarray:
        """(M,) objects: the category of the largest of ``contents`` (K, M) of all features; None where none is."""
        mine = contents[self.first : self.first + len(self.features)]
        if self._skipped:
            mine = np.concatenate([1 - mine, mine])
        best = np.argmax(np.where(np.isnan(mine), -np.inf, mine), 0)
        out = np.empty(len(best), object)
        out[:] = [self.levels[n] for n in best.tolist()]
        out[np.isnan(mine).all(axis=0)] = None
        return out


def categories_of(columns: Columns, named: Mapping[Hashable, Sequence[object]], first: int) -> tuple[Category, ...]:
    """The columns of categories, whose features count from ``first``.

    ``named`` has the names of columns, each with the categories that a model knows, or none: those of the column,
    sorted.

    Raises:
        ConfigError: there is no such column.
        DataError: it has no category, more than ``MOST_LEVELS``, an unknown one, or a code such as -999.
    """
    out = []
    for name, known in named.items():
        at = columns.find(name, "categories")
        if at < columns.n_levels:
            raise DataError(f"categories: expected columns, {name!r} is a level of the index. Use reset_index() first.")
        number_of_row = columns.codes(at)
        numbers, rows = np.unique(number_of_row, return_index=True)
        items = np.asarray(columns[at], object)[rows[numbers >= 0]].tolist()
        texts = list(map(level_text, items))
        by_text: dict[str, object] = dict(zip(reversed(texts), reversed(items), strict=True))  # the first item of each
        codes = [text for text in texts if _CODE.fullmatch(text)]
        if codes:
            raise DataError(
                f"column {name!r}: expected categories, came {codes[0]}, which is a code for missing. Say so "
                f"(missing_marks, as --missing_marks={codes[0]}), or leave these cells empty."
            )
        unknown = [text for text in texts if known and text not in map(level_text, known)]
        if unknown:
            raise DataError(
                f"column {name!r}: expected one of the categories that the model knows "
                f"({', '.join(map(level_text, known))}), came {unknown[0]!r}. Correct it, or fit to a table with it."
            )
        levels = {level_text(level): level for level in known} or dict(sorted(by_text.items()))
        if not 1 <= len(levels) <= MOST_LEVELS:
            raise DataError(
                f"column {name!r}: expected 1 to {MOST_LEVELS} different categories, came {len(levels):,}. Leave it "
                "out of categories; it is then passed through unchanged."
            )
        place = {text: n for n, text in enumerate(levels)}
        places = np.append([place[text] for text in texts], -1).astype(np.int64)
        category = Category(at, name, tuple((levels | by_text).values()), places[number_of_row], first)
        out.append(category)
        first += len(category.features)
    return tuple(out)


def unfilled_texts(columns: Columns, places: Sequence[int], decided: Sequence[Hashable]) -> tuple[str, ...]:
    """A warning of columns of texts that have gaps and few enough different texts to be filled as categories.

    ``decided`` are names of columns of which a user has said what becomes of them.
    """
    names = []
    for at in (at for at in places if columns.names[at] not in decided):
        codes = columns.codes(at)
        items = pd.Series(columns[at]).dropna()
        is_text = at >= columns.n_levels and all(isinstance(item, str) for item in items)
        if is_text and (codes < 0).any() and 1 < codes.max() + 1 <= min(MOST_LEVELS, (codes >= 0).sum() // 2):
            names.append(columns.names[at])
    if not names:
        return ()
    stay = "column of texts whose gaps stay" if len(names) == 1 else "columns of texts whose gaps stay"
    return (f"{', '.join(map(str, names))}: {stay} empty; categories={names!r} fills them with one of their texts",)


def level_text(level: object) -> str:
    """A category in words, the same for 1, 1.0 and "1.0"; "01" is another one."""
    text = name_text(level)
    return text.partition(".")[0] if _WHOLE.fullmatch(text) else text

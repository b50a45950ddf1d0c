"""Columns of categories: a feature for each category, 1 where a row has it, and back to the likeliest category."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tsimpute.errors import DataError
from tsimpute.tables.frames.rows import name_text
from tsimpute.tables.roles.columns import Columns

MOST_LEVELS = 50
_WHOLE, _CODE = re.compile(r"-?(0|[1-9]\d*)\.0+"), re.compile(r"-9{2,}")


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
        by_text, number = _levels(columns, at)
        codes = [text for text in by_text if _CODE.fullmatch(text)]
        if codes:
            raise DataError(
                f"column {name!r}: expected categories, came {codes[0]}, which is a code for missing. Say so "
                f"(missing_marks, as --missing_marks={codes[0]}), or leave these cells empty."
            )
        unknown = [text for text in by_text if known and text not in map(level_text, known)]
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
        places = np.append([place[text] for text in by_text], -1).astype(np.int64)
        category = Category(at, name, tuple((levels | by_text).values()), places[number], first)
        out.append(category)
        first += len(category.features)
    return tuple(out)


def level_text(level: object) -> str:
    """A category in words, the same for 1, 1.0 and "1.0"; "01" is another one."""
    text = name_text(level)
    return text.partition(".")[0] if _WHOLE.fullmatch(text) else text


def _levels(columns: Columns, at: int) -> tuple[dict[str, object], np.ndarray]:
    """What a column holds, by its text, and (R,) the place of each row's among them, -1 = nothing."""
    codes = columns.codes(at)
    numbers, rows = np.unique(codes, return_index=True)
    items = np.asarray(columns[at], object)[rows[numbers >= 0]].tolist()
    by_text: dict[str, object] = {}
    place: dict[str, int] = {}
    texts = list(map(level_text, items))
    for text, item in zip(texts, items, strict=True):
        by_text.setdefault(text, item)
        place.setdefault(text, len(place))
    return by_text, np.append([place[text] for text in texts], -1).astype(np.int64)[codes]

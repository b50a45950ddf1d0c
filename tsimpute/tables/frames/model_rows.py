"""The rows of a table that are put to a model: those of features that it knows, one value for each of its steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tsimpute.tables.clock.hours import latest

if TYPE_CHECKING:
    from tsimpute.core.windows import Feature
    from tsimpute.tables.clock.clock import RowAlignment
    from tsimpute.tables.clock.duplicates import Duplicates
    from tsimpute.tables.roles.known_features import KnownFeatures
    from tsimpute.tables.time.stamps import Stamps


@dataclass(frozen=True, eq=False)
class Rows:
    """What the rows of a table hold.

    Attributes:
        feature_of_row: (R,) number of each row's feature, of a long table; None = the table is wide.
        features: of the table.
        values: (R, columns that are filled).
        nameless: (R,) bool, rows of a long table without a feature; they are passed through.
        counts: (R,) bool, rows that tell when a series begins and ends; None = all.
        notes: what was done.
    """

    feature_of_row: np.ndarray | None
    features: Sequence[Feature]
    values: np.ndarray
    nameless: np.ndarray | None
    counts: np.ndarray | None = None
    notes: tuple[str, ...] = ()

    @property
    def apart(self) -> np.ndarray | None:
        """(R,) the feature of each row, each row without one by itself: none of these repeats the time of another."""
        if self.feature_of_row is None or self.nameless is None:
            return self.feature_of_row
        return np.where(self.nameless, self.feature_of_row.max() + np.cumsum(self.nameless), self.feature_of_row)

    def known(self, known: KnownFeatures, named: Sequence[object] | None, others: Sequence[str]) -> Rows:
        """The rows of the features that a model knows; all others are passed through.

        Args:
            named: columns that a caller named as features; these are kept, known or not.
            others: columns of a wide table that are passed through.

        Raises:
            DataError, ConfigError: see ``KnownFeatures``.
        """
        names = [feature.name for feature in self.features]
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
        return Rows(
            np.where(stands, number[self.feature_of_row], 0),
            [feature for feature, one in zip(self.features, is_known, strict=True) if one],
            self.values, ~stands, stands | described,
            known.notes(names_of_model, {names[k]: unknown[k] for k in sorted(unknown)}, False),
        )  # fmt: skip


def of_one_step(
    stamps: Stamps, series_of_row: np.ndarray, rows: Rows, alignment: RowAlignment, duplicates: Duplicates
) -> tuple[np.ndarray, tuple[str, ...]]:
    """(R, columns that are filled) bool, values for which another one of their step stands; and a note of how many."""
    lengths = [len(times) for times in alignment.times]
    cell = np.concatenate([[0], np.cumsum(lengths)[:-1]])[series_of_row] + alignment.step_of_row
    if rows.feature_of_row is not None:
        cell = cell * len(rows.features) + rows.feature_of_row
    if rows.nameless is not None:
        cell = np.where(rows.nameless, -1, cell)
    superseded, count = latest(stamps, cell, rows.values, duplicates)
    if not count:
        return superseded, ()
    which = "first" if duplicates == "first" else "latest"
    share = "1 value shares its hour with a" if count == 1 else f"{count:,} values share their hour with a"
    order = {"first": "n earlier", "latest": " later"}[which]
    return superseded, (
        f"{share}{order} one of the same feature: the {which} value of an hour is the one that the model sees; all "
        "values stay as they are",
    )

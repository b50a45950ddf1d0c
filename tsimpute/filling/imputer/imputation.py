"""A filled table beside what is known of its cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.core.panel import OBSERVED, PROVENANCE, Filling, Panel
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.tables.frames.table import Edits


@dataclass(frozen=True, eq=False, repr=False)
class Imputation:
    """A filled table and what is known of its cells.

    What is only looked at by some is made when it is first asked for: of thousands of series it needs much memory.

    Attributes:
        table: the same kind of object as was given; gaps hold the median of the draws.
        fillings: one per series.
        prepared: the table as it was understood.
        provenance: in the shape of ``table``, what each cell is: see ``panel.PROVENANCE``.
        cells: one row for each cell that was not observed: group, time, feature, unit, provenance, value, quantiles.
            Values are as drawn, also where a column of whole numbers holds them rounded.
    """

    table: Any
    fillings: tuple[Filling, ...]
    prepared: Prepared

    @cached_property
    def provenance(self) -> Any:
        return self.marked()

    @cached_property
    def cells(self) -> pd.DataFrame:
        return pd.concat(list(self.cells_by_series()), ignore_index=True)

    def marked(self) -> Any:
        """``provenance``, made anew and not kept."""
        cells = [filling.filled for filling in self.fillings]
        codes = [filling.provenance for filling in self.fillings]
        return self.prepared.table.apply(Edits.of_provenance(cells, codes))

    def cells_by_series(self) -> Iterator[pd.DataFrame]:
        """``cells``, one series after another."""
        return cells_of(self.prepared.panel, self.fillings, self.prepared.table.absent)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {what}" for what, count in self.counts().items() if count)
        return f"Imputation({type(self.table).__name__}: {counts})"

    def counts(self) -> dict[str, int]:
        """How many cells are what; cells that the table has no place for are not counted."""
        codes = np.concatenate(
            [
                filling.provenance[~absent].ravel()
                for filling, absent in zip(self.fillings, self.prepared.table.absent, strict=True)
            ]
        )
        return dict(zip(PROVENANCE, np.bincount(codes, minlength=len(PROVENANCE)).tolist(), strict=True))

    def hints(self) -> list[str]:
        """What a reader may want to do otherwise, now that the table is filled."""
        below = [
            feature.name
            for k, feature in enumerate(self.prepared.panel.features)
            if not any((s.values[k][s.observed[k]] < 0).any() for s in self.prepared.panel.series)
            and any((filling.quantiles[:, k][:, filling.filled[k]] < 0).any() for filling in self.fillings)
        ]
        if not below:
            return []
        named = ", ".join(below[:5]) + f" and {len(below) - 5} more" * (len(below) > 5)
        return [
            f"{named}: some filled values or their intervals lie below 0, where no observed value does; if that cannot "
            'be, give limits, as limits="*=0:" for all features'
        ]


def imputation_of(prepared: Prepared, fillings: Sequence[Filling]) -> Imputation:
    """The table put together from the fillings of its series."""
    edits = prepared.edits([filling.filled for filling in fillings], [filling.point for filling in fillings])
    table = prepared.table.apply(edits)
    return Imputation(table, tuple(fillings), prepared)


def cells_of(panel: Panel, fillings: Sequence[Filling], absent: Sequence[np.ndarray]) -> Iterator[pd.DataFrame]:
    """For each series, one row for each cell that was not observed, by time and feature."""
    for series, filling, no_place in zip(panel.series, fillings, absent, strict=True):
        step, k = np.nonzero(((filling.provenance != OBSERVED) & ~no_place).T)
        rows = {
            "group": np.full(len(k), series.name, object),
            "time": series.labels[step],
            "feature": np.array([f.name for f in panel.features], object)[k],
            "unit": np.array([f.unit for f in panel.features], object)[k],
            "provenance": np.array(PROVENANCE, object)[filling.provenance[k, step]],
            "value": filling.point[k, step],
        }
        quantiles = {f"q{level:g}": filling.quantiles[q, k, step] for q, level in enumerate(filling.levels)}
        yield pd.DataFrame(rows | quantiles)

"""The last steps of every call: the gaps are sampled, and the samples put back into the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.core.panel import FILLED, LEFT_EMPTY, OBSERVED, PROVENANCE, Filling
from tsimpute.core.seeding import derive_seed
from tsimpute.errors import ConfigError
from tsimpute.filling.imputer.fitting import checked_model
from tsimpute.filling.imputer.saved_tables import FittedTable
from tsimpute.filling.measuring.calibration import Calibration
from tsimpute.filling.preparing.model_rules import matched
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.filling.preparing.series import blank_filling, fill_series
from tsimpute.filling.preparing.table_settings import Settings
from tsimpute.imputers.base import TableModel
from tsimpute.system.terminal import Tell
from tsimpute.tables.frames.table import Edits


@dataclass(frozen=True, eq=False, repr=False)
class Imputation:
    """A filled table and what is known of its cells.

    ``provenance`` and ``cells`` are made when they are first used: of thousands of series they need much memory.

    Attributes:
        table: an object of the same kind as the input; gaps hold the median of the draws.
        fillings: one per series.
        prepared: the table as it was understood.
        provenance: in the shape of ``table``, what each cell is: see ``panel.PROVENANCE``.
        cells: one row for each cell that was not observed: group, time, step, feature, unit, provenance, value,
            quantiles. ``step`` numbers the times of a series from 0: a time by the wall clock stands twice when clocks
            go back. Values are as drawn, also where a column of whole numbers holds them rounded.
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
        """``provenance``, made anew and not stored."""
        cells = [filling.filled for filling in self.fillings]
        codes = [filling.provenance for filling in self.fillings]
        return self.prepared.table.apply(Edits.of_provenance(cells, codes))

    def cells_by_series(self) -> Iterator[pd.DataFrame]:
        """``cells``, one series after another; rows by time and feature."""
        panel, absent = self.prepared.panel, self.prepared.table.absent
        names, units = (np.array([getattr(f, what) for f in panel.features], object) for what in ("name", "unit"))
        for series, filling, without_place in zip(panel.series, self.fillings, absent, strict=True):
            step, k = np.nonzero(((filling.provenance != OBSERVED) & ~without_place).T)
            columns = {
                "group": np.full(len(k), series.name, object),
                "time": series.labels[step],
                "step": step,
                "feature": names[k],
                "unit": units[k],
                "provenance": np.array(PROVENANCE, object)[filling.provenance[k, step]],
                "value": filling.point[k, step],
            }
            quantiles = {f"q{level:g}": filling.quantiles[q, k, step] for q, level in enumerate(filling.levels)}
            yield pd.DataFrame(columns | quantiles)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {what}" for what, count in self.counts().items() if count)
        return f"Imputation({type(self.table).__name__}: {counts})"

    def counts(self) -> dict[str, int]:
        """The number of cells of each provenance; cells that the table has no place for are not counted."""
        codes = self.prepared.cells_of_table([filling.provenance for filling in self.fillings])
        return dict(zip(PROVENANCE, np.bincount(codes, minlength=len(PROVENANCE)).tolist(), strict=True))

    def completed_tables(self) -> Iterator[Any]:
        """One table for each draw, for multiple imputation: analyse each, and pool the estimates by Rubin's rules.

        Each category fills a cell in so many of the tables as its share in the mean of the draws says.

        Raises:
            ConfigError: the draws were not kept.
        """
        samples = [filling.samples for filling in self.fillings]
        if any(of_series is None for of_series in samples):
            raise ConfigError("completed_tables: expected draws, came none. Give TableImputer keep_samples=True.")
        cells = [filling.filled for filling in self.fillings]
        samples = [_with_drawn_categories(of_series, self.prepared) for of_series in samples if of_series is not None]
        for draws in zip(*samples, strict=True):
            values = [
                np.where(is_filled, drawn, filling.point)
                for is_filled, drawn, filling in zip(cells, draws, self.fillings, strict=True)
            ]
            yield self.prepared.table.apply(self.prepared.edits(cells, values))

    def hints(self) -> list[str]:
        """What a reader may want to change, seen in the filled cells."""
        indicators = set(chain(*self.prepared.table.category_features))
        below = [
            feature.name
            for k, feature in enumerate(self.prepared.panel.features)
            if feature.name not in indicators
            and not any((s.values[k][s.observed[k]] < 0).any() for s in self.prepared.panel.series)
            and any((filling.quantiles[:, k][:, filling.filled[k]] < 0).any() for filling in self.fillings)
        ]
        if not below:
            return []
        named = ", ".join(below[:5]) + f" and {len(below) - 5} more" * (len(below) > 5)
        return [
            f"{named}: some filled values or their intervals lie below 0, where no observed value does; if that cannot "
            'be, give limits, as limits="*=0:" for all features'
        ]


def _with_drawn_categories(samples: np.ndarray, prepared: Prepared) -> np.ndarray:
    """Draws (S, K, T) in which one feature of each column of categories is 1, and the others are 0.

    The largest of a draw would choose rare categories too seldom: a category is that of as many draws as its share,
    those with its largest values.
    """
    names, out = [feature.name for feature in prepared.panel.features], samples.copy()
    for group in prepared.table.category_features:
        at = [names.index(name) for name in group]
        rows = np.flatnonzero(~np.isnan(samples[0, at[0]]))
        scores = samples[:, at][:, :, rows].astype(np.float64)
        if len(at) == 1:
            scores = np.concatenate([1 - scores, scores], 1)
        share = np.clip(scores.mean(0), 1e-9, 1)
        rng = np.random.default_rng(derive_seed(0, "categories", group[0]))
        ends = np.floor(np.cumsum(share / share.sum(0), 0) * len(samples) + rng.random(len(rows))).astype(int)
        counts = np.diff(np.minimum(ends, len(samples)), axis=0, prepend=0)
        counts[-1] += len(samples) - counts.sum(0)
        for m, row in enumerate(rows.tolist()):
            chosen = _dealt(scores[:, :, m], counts[:, m])
            out[:, at, row] = (chosen[:, None] == np.arange(scores.shape[1])[-len(at) :]).astype(np.float32)
    return out


def _dealt(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(S,) a category for each draw, so many of each (C,), rare ones first, by the largest of (S, C) scores."""
    chosen, free = np.empty(len(scores), int), np.ones(len(scores), bool)
    for c in np.argsort(counts, kind="stable").tolist():
        order = np.argsort(-np.where(free, scores[:, c], -np.inf), kind="stable")[: counts[c]]
        chosen[order], free[order] = c, False
    return chosen


def imputation_of(prepared: Prepared, fillings: Sequence[Filling]) -> Imputation:
    """Puts the fillings of all series back into the table."""
    edits = prepared.edits([filling.filled for filling in fillings], [filling.point for filling in fillings])
    return Imputation(prepared.table.apply(edits), tuple(fillings), prepared)


def needs_model(prepared: Prepared) -> bool:
    """Whether a model has to predict any cell."""
    return any(np.isin(codes[prepared.predicted], FILLED).any() for codes in prepared.provenance)


def sampled(
    prepared: Prepared, settings: Settings, model: TableModel | None, fitted: FittedTable | None, progress: Tell
) -> tuple[Filling, ...]:
    """Fills the gaps with draws of the model and with rules; one filling per series.

    Args:
        fitted: the table that the imputer was fitted to; None where only a model is known.

    Raises:
        ConfigError: a level of the quantiles was not calibrated.
        ConfigError, DataError: the model cannot fill the table.
    """
    predicted: tuple[Filling, ...] = ()
    if needs_model(prepared) or (model is not None and prepared.model_panel is not None):
        model = checked_model(model, prepared, fitted, settings.calendar)
        calibration = Calibration() if fitted is None else fitted.calibration
        predicted = _predicted(model, calibration, prepared, settings, progress)
    if predicted and all(kind.predicted for kind in prepared.kinds):
        return predicted
    n_samples, at, fillings = settings.n_samples if settings.keep_samples else None, prepared.predicted, []
    for n, (series, codes) in enumerate(zip(prepared.panel.series, prepared.provenance, strict=True)):
        out = blank_filling(series, codes, settings.levels, n_samples)
        if predicted:
            out.point[at], out.quantiles[:, at] = predicted[n].point, predicted[n].quantiles
        if predicted and out.samples is not None and predicted[n].samples is not None:
            out.samples[:, at] = predicted[n].samples
        # Quantiles below the median are the lowest possible value, those above it the highest; draws hold the value.
        for k, (low, middle, high) in prepared.bands(n).items():
            cells = out.filled[k]
            out.point[k, cells] = middle[cells]
            for q, level in enumerate(settings.levels):
                out.quantiles[q, k, cells] = (low if level < 0.5 else high if level > 0.5 else middle)[cells]
            if out.samples is not None:
                out.samples[:, k, cells] = middle[cells]
        fillings.append(out)
    return tuple(fillings)


def _predicted(
    model: TableModel, calibration: Calibration, prepared: Prepared, settings: Settings, progress: Tell
) -> tuple[Filling, ...]:  # fmt: skip
    """The fillings of the features that the model predicts; what stands for categories lies within 0 and 1."""
    unknown = [level for level in settings.levels if level != 0.5 and level not in calibration.factors]
    if calibration.n_cells and unknown:
        raise ConfigError(
            f"quantiles: expected levels that fit has calibrated, came {unknown[0]:g}. Fit once more (recalibrate)."
        )
    assert prepared.model_panel is not None
    at, fillings, done = prepared.predicted, [], 0
    panel, match = matched(prepared.model_panel, model.features_, prepared.rules)
    total = sum(len(series.times) for series in panel.series)
    categories = set(chain(*prepared.table.category_features))
    is_share = np.array([feature.name in categories for feature in prepared.model_panel.features])[:, None]
    for series, visible, codes in zip(prepared.panel.series, panel.series, prepared.provenance, strict=True):
        n_steps = len(visible.times)
        filling = fill_series(
            model, panel, replace(series, values=match.to_model(series.values[at], np.nan)), visible.values,
            match.to_model(codes[at], LEFT_EMPTY),
            levels=settings.levels, n_samples=settings.n_samples, seed=settings.seed, calibration=calibration,
            keep_samples=settings.keep_samples,
            progress=lambda share, done=done, n=n_steps: progress("imputing", done + int(share * n), total),
        ).features(match.back)  # fmt: skip
        for values in (filling.point, filling.quantiles):
            np.clip(values, 0, 1, out=values, where=is_share)
        fillings.append(filling)
        done += n_steps
        progress("imputing", done, total)
    return tuple(fillings)

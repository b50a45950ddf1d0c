"""Errors and coverage of a filling at observed cells that were hidden from the model, and their calibration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsimpute.core.panel import Panel
from tsimpute.core.quantiles import central_levels
from tsimpute.core.seeding import derive_seed
from tsimpute.evaluation.ensembles import INTERVALS, crps
from tsimpute.filling.measuring.calibration import LEAST, Calibration, calibrate, summarised
from tsimpute.filling.measuring.hidden_draws import HiddenDraws, TimeBudget, draws_at
from tsimpute.filling.measuring.hiding import hidden_cells
from tsimpute.filling.panels.gaps import apart
from tsimpute.imputers.base import TableModel

_NEIGHBOURS = 8
"""Blocks that follow each other in time and go into one half together: a gap may reach over several."""
_OPTIMISM = 1.1
"""Errors, in units of draws, are so much wider at cells that a model was not fitted to."""
_AGAIN, _AGAIN_CELLS = 2, 50_000
"""How often further cells are hidden, and cells of the stretches of time that are drawn each time, about."""


def calibrated_on(
    imputer: TableModel, hidden: HiddenDraws, levels: Sequence[float], again: Sequence[HiddenDraws] = ()
) -> Calibration:
    """The calibration from hidden cells, in the scale in which the model works.

    Args:
        again: see ``draws_at_further_cells``; they count where the hidden cells alone are enough.
    """
    every = hidden, *again
    scaled = [[imputer.scaler_.transform_cells(x, part.feature) for x in (part.draws, part.truth)] for part in every]
    if len(hidden.truth) < LEAST or not hidden.run.size:
        return calibrate(levels, *scaled[0], hidden.block, *([hidden.run] if hidden.run.size else []))
    for part in scaled[1:]:
        median = np.median(part[0], 0)
        part[0] = median + (part[0] - median) / _OPTIMISM
    draws, truth = (np.concatenate(part, -1) for part in zip(*scaled, strict=True))
    return calibrate(levels, draws, truth, apart([part.block for part in every]), apart([part.run for part in every]))


def draws_at_further_cells(
    model: TableModel, panel: Panel, hidden: Sequence[np.ndarray], gaps: Sequence[np.ndarray], n_samples: int, seed: int
) -> list[HiddenDraws]:
    """Draws of the model that fills tables at further cells, which it was fitted to but does not see.

    The cells that were hidden for measuring lie in few gaps, and the model that was measured is another one. A model is
    too good at cells that it was fitted to, by about as much in all tables; that is taken off (``_OPTIMISM``).

    Args:
        model: of whole series, fitted to all values.
        hidden: per series (K, T) bool, the cells on which another one was measured; as many are taken here.
        gaps: per series (K, T) bool, the cells that are filled in use.
    """
    n_known = sum(int(series.observed.sum()) for series in panel.series)
    share, draws = sum(int(cells.sum()) for cells in hidden) / max(1, n_known), []
    for n in range(_AGAIN):
        others = hidden_cells(panel, share, derive_seed(seed, "hidden again", str(n)))
        cells = [new & ~before for new, before in zip(others, hidden, strict=True)]
        if any(mask.any() for mask in cells):
            most = TimeBudget(cells=_AGAIN_CELLS)
            draws.append(draws_at(model, panel, cells, n_samples=n_samples, seed=seed, gaps=gaps, budget=most))
    return draws


def scores_of(
    imputer: TableModel, panel: Panel, hidden: HiddenDraws, others: Sequence[tuple[TableModel, HiddenDraws]] = ()
) -> tuple[dict[str, str | float], ...]:
    """One row per imputer: error, CRPS, and coverage of central intervals without and with calibration.

    Errors are in the features' unit where they share one, else in standard deviations of each feature's observed
    values. Coverage with calibration is cross-fitted: each half of the blocks is calibrated on the other.

    Args:
        others: with draws at the same cells, whose rows come before.
    """
    if not len(hidden.truth):
        return ()
    units = {feature.unit for feature in panel.features if not feature.given}
    alike = sum(not feature.given for feature in panel.features) == 1 or (len(units) == 1 and units != {""})
    spread = np.ones(len(hidden.truth)) if alike else spreads_of(panel)[hidden.feature]
    units_and_cells = {
        "units": (units.pop() or "units of the column") if alike else "standard deviations",
        "cells": len(spread),
    }
    rows: list[dict[str, str | float]] = [
        {"imputer": name} | units_and_cells | _errors((value - hidden.truth) / spread, (value - hidden.truth) / spread)
        for name, value in hidden.baselines.items()
    ]
    for model, drawn in (*others, (imputer, hidden)):
        draws, truth = drawn.draws / spread, drawn.truth / spread
        row = {"imputer": model.name} | units_and_cells | _errors(np.median(draws, 0) - truth, draws.mean(0) - truth)
        rows.append(row | {"CRPS": float(crps(draws, truth).mean())} | coverage_of(model, drawn))
    return tuple(rows)


def coverage_of(imputer: TableModel, hidden: HiddenDraws) -> dict[str, float]:
    """The share of cells inside central intervals, as drawn and with calibration.

    Calibration is cross-fitted: each half of the blocks is calibrated on the other; it is left out where a half has too
    few cells for that.
    """
    ends = {percent: central_levels(percent) for percent in INTERVALS}
    levels = sorted(level for pair in ends.values() for level in pair)
    kinds = {"as drawn": summarised(imputer.scaler_, Calibration(), levels, hidden.draws, hidden.feature)[1]}
    calibrated = _cross_fitted(imputer, levels, hidden)
    if calibrated is not None:
        kinds["calibrated"] = calibrated
    coverage = {}
    for name, quantiles in kinds.items():
        for percent, pair in ends.items():
            low, high = (quantiles[levels.index(end)] for end in pair)
            inside = (low <= hidden.truth) & (hidden.truth <= high)
            coverage[f"coverage {percent} %, {name}"] = float(inside.mean())
    return coverage


def _errors(of_median: np.ndarray, of_mean: np.ndarray) -> dict[str, str | float]:
    return {"MAE": float(np.abs(of_median).mean()), "RMSE": float(np.sqrt((of_mean**2).mean()))}


def spreads_of(panel: Panel) -> np.ndarray:
    """(K,) standard deviation of what is observed; 1 where that is nothing or one value."""
    pooled = np.concatenate([series.values for series in panel.series], axis=1)
    return np.array([(np.std(row[~np.isnan(row)]) if (~np.isnan(row)).any() else 0.0) or 1.0 for row in pooled])


def halves(hidden: HiddenDraws) -> tuple[np.ndarray, np.ndarray]:
    """Two (M,) bool masks of cells: neighbouring blocks are in one half."""
    first = np.unique(hidden.block, return_inverse=True)[1] // _NEIGHBOURS % 2 == 0
    return first, ~first


def _cross_fitted(imputer: TableModel, levels: Sequence[float], hidden: HiddenDraws) -> np.ndarray | None:
    """(Q, M) quantiles of each cell, calibrated on the other half of the blocks; neighbours are in one half.

    None where a half has too few cells.
    """
    out = np.empty((len(levels), len(hidden.truth)))
    for mine in halves(hidden):
        calibration, half = calibrated_on(imputer, hidden.at(~mine), levels), hidden.at(mine)
        if not calibration.n_cells:
            return None
        out[:, mine] = summarised(imputer.scaler_, calibration, levels, half.draws, half.feature)[1]
    return out

"""How good a filling is, measured on observed cells of the user's own data that were hidden from the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tsimpute.batches.masking import LikeGaps
from tsimpute.core.panel import Panel
from tsimpute.core.quantiles import central_levels
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Windows
from tsimpute.evaluation.ensembles import INTERVALS, crps
from tsimpute.filling.measuring.calibration import LEAST, Calibration, calibrate, summarised
from tsimpute.filling.measuring.hidden_draws import Hidden, TimeBudget, drawn_at
from tsimpute.filling.panels.gaps import apart
from tsimpute.filling.panels.windows import window_steps
from tsimpute.imputers.base import TableModel


def hidden_cells(panel: Panel, share: float, seed: int) -> list[np.ndarray]:
    """Per series (K, T) bool: observed cells hidden as the panel's own gaps lie, about a share of each feature's.

    The share is that of all series together; see ``_quotas``. The gaps of a series are moved along it by a random time,
    all features together, and stretches of a window's length are taken at random, of each feature until its share is
    reached. In series of more than one window runs are taken whole, also those that are longer than a stretch or a
    share, up to half of a feature's values: what is said of long gaps has to come from gaps as long. Where that gives
    too few cells, runs as long as the gaps are hidden beside; see ``LikeGaps``.
    """
    length = window_steps(panel)
    runs = LikeGaps.of([series.observed for series in panel.series])
    hidden, quotas = [], _quotas(np.array([series.observed.sum(1) for series in panel.series]), share, seed)
    for series, quota in zip(panel.series, quotas, strict=True):
        rng = np.random.default_rng(derive_seed(seed, "hidden", series.name))
        observed, n_steps = series.observed, len(series.times)
        moved = observed & np.roll(~observed, int(rng.integers(n_steps // 4, 1 + 3 * n_steps // 4)), axis=1)
        most = observed.sum(1) // 2 if n_steps > length else quota
        cells = _whole_runs(moved, quota, most, length, rng)
        needy = observed & ~cells & (2 * cells.sum(1) < quota)[:, None]
        if needy.any():
            beside = needy & ~runs.hide(needy, min(1.0, 4 * share), rng)
            cells |= _first(beside, quota - cells.sum(1), int(rng.integers(n_steps)))
        hidden.append(cells)
    return hidden


_ENOUGH = 400
"""Hidden cells, in all, from which no series has to give more than its share."""


def _quotas(counts: np.ndarray, share: float, seed: int) -> np.ndarray:
    """(N, K) how many cells of each feature are hidden in each series, for (N, K) observed ones; half of them at most.

    A share of each feature's cells in all series, rounded up. Were it rounded up in each series, features with few
    values in each of many series would be hidden most of all: a laboratory value of ICU stays five times as often as a
    heart rate. Only where cells are few does each series give one of each feature.
    """
    able = np.where(counts >= 2, counts, 0)
    most = np.minimum(np.ceil(share * able), able // 2).astype(int)
    wanted = np.maximum(np.ceil(share * able.sum(0)), _ENOUGH // counts.shape[1])
    upto = np.cumsum(able, 0) * (wanted / np.maximum(able.sum(0), 1))
    offset = np.random.default_rng(derive_seed(seed, "hidden", "shares")).random(counts.shape[1])
    spread = np.diff(np.floor(upto + offset), axis=0, prepend=0).astype(int)
    return np.where(most.sum(0) <= wanted, most, np.minimum(spread, most))


def _whole_runs(
    moved: np.ndarray, quota: np.ndarray, most: np.ndarray, length: int, rng: np.random.Generator
) -> np.ndarray:
    """(K, T) bool: runs of cells of each feature until its quota (K,) is reached, cut at the most (K,) that may be.

    Stretches of ``length`` steps come in random order, the same for all features, so that runs of one time are hidden
    together; in each, runs count from a random one on.
    """
    cells, n_steps = np.zeros(moved.shape, bool), moved.shape[1]
    begins = np.diff(np.pad(moved, ((0, 0), (1, 0))).astype(np.int8), axis=1) == 1
    number, counts = np.cumsum(begins, axis=1), np.zeros(len(moved), int)
    ends = n_steps - np.argmax(moved[:, ::-1], axis=1)
    for start in rng.permutation(np.arange(0, n_steps, length)).tolist():
        turn = int(rng.integers(length))
        for k in np.flatnonzero((counts < quota) & (start < ends)).tolist():
            part = slice(start, start + length)
            runs = np.unique(number[k, part][moved[k, part] & ~cells[k, part]])
            for run in np.roll(runs, -(turn % max(1, len(runs)))).tolist():
                if counts[k] >= quota[k]:
                    break
                first, last = np.searchsorted(number[k], [run, run + 1])
                steps = first + np.flatnonzero(moved[k, first:last])[: most[k] - counts[k]]
                cells[k, steps] = True
                counts[k] += len(steps)
    return cells


def _first(cells: np.ndarray, most: np.ndarray, start: int) -> np.ndarray:
    """(K, T) bool: of each feature so many (K,) cells, the first ones from step ``start`` on and round to it.

    From a random step on, so that a series of one window is not hidden at its beginning alone.
    """
    turned = np.roll(cells, -start, axis=1)
    return np.roll(turned & (np.cumsum(turned, axis=1) <= most[:, None]), start, axis=1)


_NEIGHBOURS = 8
"""Blocks that follow each other in time and go into one half together: a gap may reach over several."""


_OPTIMISM = 1.1
"""So much wider are errors, measured by draws, at cells that a model has not learnt from; see ``drawn_again``."""
_AGAIN, _AGAIN_CELLS = 2, 50_000
"""How often further cells are hidden, and cells of the stretches of time that are drawn each time, about."""


def calibrated_on(
    imputer: TableModel, hidden: Hidden, levels: Sequence[float], again: Sequence[Hidden] = ()
) -> Calibration:
    """The calibration that hidden cells give, in the scale in which the model works.

    Args:
        again: see ``drawn_again``; they count where the hidden cells alone are enough.
    """
    found = [_scaled(imputer, of_one) for of_one in (hidden, *again)]
    if len(hidden.truth) < LEAST or not hidden.run.size:
        return calibrate(levels, *found[0], hidden.block, *([hidden.run] if hidden.run.size else []))
    for n, (draws, truth) in enumerate(found[1:], 1):
        median = np.median(draws, 0)
        found[n] = median + (draws - median) / _OPTIMISM, truth
    draws, truth = (np.concatenate(part, -1) for part in zip(*found, strict=True))
    every = hidden, *again
    block, run = apart([of_one.block for of_one in every]), apart([of_one.run for of_one in every])
    return calibrate(levels, draws, truth, block, run)


def _scaled(imputer: TableModel, hidden: Hidden) -> tuple[np.ndarray, np.ndarray]:
    """Draws (S, M) and truth (M,) in the scale of the model."""
    draws, truth = (imputer.scaler_.transform_cells(values, hidden.feature) for values in (hidden.draws, hidden.truth))
    return draws, truth


def drawn_again(
    model: TableModel, panel: Panel, hidden: Sequence[np.ndarray], gaps: Sequence[np.ndarray], n_samples: int, seed: int
) -> list[Hidden]:
    """Draws of the model that fills tables at further cells, which it has learnt from but is not shown.

    The cells that were hidden for measuring lie in few gaps, which say little of those that are filled, and the model
    that was measured is another one. What a model says of cells that it has learnt from is too good by about as much in
    all tables; that is taken off (``_OPTIMISM``).

    Args:
        model: of whole series, fitted to all values.
        hidden: per series (K, T) bool, the cells on which another one was measured; as many are taken here.
        gaps: per series (K, T) bool, the cells that are filled in use.
    """
    n_known = sum(int(series.observed.sum()) for series in panel.series)
    share, found = sum(int(cells.sum()) for cells in hidden) / max(1, n_known), []
    for n in range(_AGAIN):
        others = hidden_cells(panel, share, derive_seed(seed, "hidden again", str(n)))
        cells = [of_one & ~before for of_one, before in zip(others, hidden, strict=True)]
        if any(of_one.any() for of_one in cells):
            most = TimeBudget(cells=_AGAIN_CELLS)
            found.append(drawn_at(model, panel, cells, n_samples=n_samples, seed=seed, gaps=gaps, budget=most))
    return found


def scores_of(
    imputer: TableModel, panel: Panel, hidden: Hidden, beside: Sequence[tuple[TableModel, Hidden]] = ()
) -> tuple[dict[str, str | float], ...]:
    """One row per imputer: error, CRPS, and coverage of central intervals without and with calibration.

    Errors are in the features' unit where they share one, else in standard deviations of each feature's observed
    values. Coverage with calibration is cross-fitted: each half of the blocks is calibrated on the other.

    Args:
        beside: others with draws at the same cells, whose rows come before.
    """
    if not len(hidden.truth):
        return ()
    own = [feature for feature in panel.features if not feature.given]
    units = {feature.unit for feature in own}
    alike = len(own) == 1 or (len(units) == 1 and units != {""})
    spread = np.ones(len(hidden.truth)) if alike else spreads_of(panel)[hidden.feature]
    about = {"units": (units.pop() or "units of the column") if alike else "standard deviations", "cells": len(spread)}
    rows: list[dict[str, str | float]] = [
        {"imputer": name} | about | _errors((guess - hidden.truth) / spread, (guess - hidden.truth) / spread)
        for name, guess in hidden.guesses.items()
    ]
    for model, drawn in (*beside, (imputer, hidden)):
        draws, truth = drawn.draws / spread, drawn.truth / spread
        row = {"imputer": model.name} | about | _errors(np.median(draws, 0) - truth, draws.mean(0) - truth)
        rows.append(row | {"CRPS": float(crps(draws, truth).mean())} | coverage_of(model, drawn))
    return tuple(rows)


def coverage_of(imputer: TableModel, hidden: Hidden) -> dict[str, float]:
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
    found = {}
    for name, quantiles in kinds.items():
        for percent, pair in ends.items():
            low, high = (quantiles[levels.index(end)] for end in pair)
            inside = (low <= hidden.truth) & (hidden.truth <= high)
            found[f"coverage {percent} %, {name}"] = float(inside.mean())
    return found


def held_out_coverage(
    imputer: TableModel,
    windows: Windows,
    *,
    n_samples: int,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, float]:
    """``coverage_of`` the held-out cells of records, each a block; only these cells are asked for."""
    windows = windows.select(np.flatnonzero(windows.held_out_mask.any((1, 2))))
    parts: list[tuple[np.ndarray, ...]] = []
    records = imputer.impute_records(windows.without_held_out(), n_samples, seed, fill=windows.held_out_mask)
    for n, record in enumerate(records):
        feature, step = np.nonzero(windows.held_out_mask[n])
        truth = windows.values[n, feature, step]
        parts.append((record.values[:, 0, feature, step], truth, feature, np.full(len(truth), n)))
        progress(n + 1, len(windows))
    draws, truth, feature, block = (np.concatenate(part, -1) for part in zip(*parts, strict=True))
    found = coverage_of(imputer, Hidden(draws, truth, feature, block))
    return {"cells": len(truth), "records": len(windows)} | found


def _errors(of_median: np.ndarray, of_mean: np.ndarray) -> dict[str, str | float]:
    return {"MAE": float(np.abs(of_median).mean()), "RMSE": float(np.sqrt((of_mean**2).mean()))}


def spreads_of(panel: Panel) -> np.ndarray:
    """(K,) standard deviation of what is observed; 1 where that is nothing or one value."""
    pooled = np.concatenate([series.values for series in panel.series], axis=1)
    return np.array([(np.std(row[~np.isnan(row)]) if (~np.isnan(row)).any() else 0.0) or 1.0 for row in pooled])


def halves(hidden: Hidden) -> tuple[np.ndarray, np.ndarray]:
    """Two (M,) bool masks of cells: neighbouring blocks are in one half."""
    first = np.unique(hidden.block, return_inverse=True)[1] // _NEIGHBOURS % 2 == 0
    return first, ~first


def _cross_fitted(imputer: TableModel, levels: Sequence[float], hidden: Hidden) -> np.ndarray | None:
    """(Q, M) quantiles of each cell, calibrated on the other half of the blocks; neighbours are in one half.

    None where a half has too few cells.
    """
    out = np.empty((len(levels), len(hidden.truth)))
    for mine in halves(hidden):
        found, own = calibrated_on(imputer, hidden.at(~mine), levels), hidden.at(mine)
        if not found.n_cells:
            return None
        out[:, mine] = summarised(imputer.scaler_, found, levels, own.draws, own.feature)[1]
    return out

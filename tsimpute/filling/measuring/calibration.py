"""Errors, coverage and calibrated intervals of a filling, measured at observed cells that were hidden from the model.

Split-conformal calibration of each quantile, as a factor on its distance from the median (in the scale in which the
model works, so that limits are kept). See Romano, Patterson and Candes (2019), with a scaled score. Where few
independent cells were hidden, the factor of a quantile is drawn towards the one of it and its opposite together, and
that towards the usual one: the tail of a few gaps is mostly chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tsimpute.core.panel import Panel
from tsimpute.core.quantiles import central_levels, quantiles
from tsimpute.core.seeding import derive_seed
from tsimpute.errors import ConfigError, DataError
from tsimpute.evaluation.ensembles import INTERVALS, crps
from tsimpute.filling.measuring.hidden_draws import HiddenDraws, draws_at, hidden_cells
from tsimpute.filling.panels.windows import apart
from tsimpute.imputers.base import TableModel
from tsimpute.scaling.standardizer import Standardizer

LEAST = 100
"""Cells below which nothing is calibrated: a 95 % quantile would come from a handful of them."""
_PRIOR_OF_BOTH, _PRIOR_USUAL = 50.0, 50.0
"""Both sides together count as that many independent cells of a side, the usual factor as that many."""
_USUAL = 1.1
"""A model that is fitted to few data is somewhat too sure of itself."""
_LEAST_FACTOR = 0.01
_NEIGHBOURS = 8
"""Blocks that follow each other in time and go into one half together: a gap may reach over several."""
_OPTIMISM = 1.1
"""Errors, in units of draws, are so much wider at cells that a model was not fitted to."""
_AGAIN, _AGAIN_CELLS = 2, 50_000
"""How often further cells are hidden, and cells of the stretches of time that are drawn each time, about."""


@dataclass(frozen=True)
class Calibration:
    """Factors on the distance of quantiles from the median.

    Attributes:
        factors: by level in (0, 1); 1 where a level was not calibrated.
        n_cells: hidden cells that they come from; 0 = not calibrated.
    """

    factors: Mapping[float, float] = field(default_factory=dict)
    n_cells: int = 0

    def applied(self, levels: Sequence[float], quantiles: np.ndarray, median: np.ndarray) -> np.ndarray:
        """(Q, ...) calibrated quantiles, never crossing; the median stays.

        Args:
            levels: Q increasing levels.
            quantiles: (Q, ...) of the draws. median: (...).
        """
        factors = np.array([self.factors.get(level, 1.0) for level in levels]).reshape(-1, *[1] * median.ndim)
        out = median + factors * (quantiles - median)
        below, above = np.array(levels) < 0.5, np.array(levels) > 0.5
        if below.any():  # from the median outwards, so that none crosses the next
            out[below] = np.minimum.accumulate(np.minimum(out[below], median)[::-1], 0)[::-1]
        if above.any():
            out[above] = np.maximum.accumulate(np.maximum(out[above], median), 0)
        return out


def summarised(
    scaler: Standardizer, calibration: Calibration, levels: Sequence[float], draws: np.ndarray, feature: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The median (M,) and the calibrated quantiles (Q, M) of each cell; whole numbers where draws are.

    Args:
        scaler: of the model, whose scale is the one of ``calibration``.
        levels: Q increasing levels in (0, 1).
        draws: (S, M) in the data's units.
        feature: (M,) the index of each cell's feature.
    """
    at_levels = quantiles(draws, [0.5, *levels])
    if calibration.factors or scaler.warps is not None:
        scaled = scaler.transform_cells(at_levels, feature)
        scaled[1:] = calibration.applied(levels, scaled[1:], scaled[0])
        at_levels = scaler.inverse_cells(scaled, feature)
    return at_levels[0], at_levels[1:]


def calibrate(
    levels: Sequence[float], draws: np.ndarray, truth: np.ndarray, block: np.ndarray, *others: np.ndarray
) -> Calibration:
    """The factors that make each quantile right on cells whose truth is known and was hidden.

    Args:
        levels: in (0, 1); 0.5 is left as it is.
        draws: (S, M) of M hidden cells, in the scale in which the quantiles will be scaled.
        truth: (M,).
        block: (M,) which record, or stretch of time of a record, each cell lies in: cells of one are not independent,
            and the correction for few data takes that into account.
        others: (M,) each, the gap of each cell, or another group whose cells count as one independent cell at most. Of
            all groupings, the one with the fewest independent cells counts.

    Raises:
        ConfigError: a level is outside (0, 1).
        DataError: shapes disagree or a number is not finite.
    """
    if any(not 0 < level < 1 for level in levels):
        raise ConfigError(f"quantiles: expected levels in (0, 1), came {list(levels)}.")
    if draws.ndim != 2 or draws.shape[1:] != truth.shape or block.shape != truth.shape:
        raise DataError(
            f"calibration: expected draws (S, M), truth (M,) and block (M,), came {draws.shape}, {truth.shape}, "
            f"{block.shape}."
        )
    if not (np.isfinite(draws).all() and np.isfinite(truth).all()):
        raise DataError("calibration: expected finite draws and truth; some are not.")
    if len(truth) < LEAST:
        return Calibration()
    median = np.median(draws, 0)
    factors = {level: _factor(level, draws, truth - median, median, block, others) for level in levels if level != 0.5}
    return Calibration(factors, len(truth))


def uncalibrated_text(n_cells: int) -> str:
    """States that so many hidden cells are too few to calibrate on, and what that means."""
    return (
        f"the quantiles are as drawn: calibration needs {LEAST} hidden cells and had {n_cells}, so the intervals may "
        "be too narrow or too wide"
    )


def _factor(
    level: float, draws: np.ndarray, error: np.ndarray, median: np.ndarray, block: np.ndarray,
    gaps: Sequence[np.ndarray],
) -> float:  # fmt: skip
    """The factor with which a share of ``1 - tail`` of the truth lies on the inner side of the quantile."""
    tail = min(level, 1 - level)
    distance, opposite = quantiles(draws, [level, 1 - level]) - median
    spread = distance != 0
    if spread.sum() < LEAST:
        return 1.0
    score = error[spread] / distance[spread]  # how many times the distance the truth lies outwards
    factor, n_free = _smallest(score, tail, block[spread], [gap[spread] for gap in gaps])
    spread &= opposite != 0
    if spread.sum() >= LEAST:
        score = np.maximum(error[spread] / distance[spread], error[spread] / opposite[spread])
        both, n_both = _smallest(score, 2 * tail, block[spread], [gap[spread] for gap in gaps])
        factor = (n_free * factor + _PRIOR_OF_BOTH * both) / (n_free + _PRIOR_OF_BOTH)
        n_free = n_both
    return float(np.exp((factor * n_free + np.log(_USUAL) * _PRIOR_USUAL) / (n_free + _PRIOR_USUAL)))


def _smallest(score: np.ndarray, tail: float, block: np.ndarray, gaps: Sequence[np.ndarray]) -> tuple[float, float]:
    """Logarithm of the smallest factor that covers a share of ``1 - tail``, and its number of independent cells."""
    outside = score > np.quantile(score, 1 - tail)
    n_free = min(_independent(outside, group) for group in (block, *gaps))
    n_free = min([n_free, *(float(len(np.unique(gap))) for gap in gaps)])
    # The conformal rank among the scores of cells, which are no draws: rounded up, so that the share is no less.
    wanted = min(1.0, (1 - tail) * (1 + 1 / n_free))
    return float(np.log(max(_LEAST_FACTOR, np.quantile(score, wanted, method="higher")))), n_free


def _independent(outside: np.ndarray, block: np.ndarray) -> float:
    """How many independent cells determine a share as well as these do, whose blocks go together."""
    share = outside.mean()
    _, of_block = np.unique(block, return_inverse=True)
    sums = np.bincount(of_block, weights=outside - share)
    alone, together = share * (1 - share) * len(outside), float((sums**2).sum())
    return len(outside) * min(1.0, alone / together) if together > 0 else float(len(outside))


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
        further = [new & ~before for new, before in zip(others, hidden, strict=True)]
        if any(mask.any() for mask in further):
            options: dict[str, Any] = {"n_samples": n_samples, "seed": seed, "gaps": gaps, "cells": _AGAIN_CELLS}
            draws.append(draws_at(model, panel, further, **options))
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
    calibrated = np.empty((len(levels), len(hidden.truth)))
    for mine in halves(hidden):
        calibration, half = calibrated_on(imputer, hidden.at(~mine), levels), hidden.at(mine)
        if not calibration.n_cells:
            break
        calibrated[:, mine] = summarised(imputer.scaler_, calibration, levels, half.draws, half.feature)[1]
    else:
        kinds["calibrated"] = calibrated
    coverage = {}
    for name, ends_of_cells in kinds.items():
        for percent, pair in ends.items():
            low, high = (ends_of_cells[levels.index(end)] for end in pair)
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

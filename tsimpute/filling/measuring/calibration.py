"""Intervals that hold: quantiles widened or narrowed until they are right on cells that were hidden from the model.

Split-conformal calibration of each quantile, as a factor on its distance from the median (in the scale in which the
model works, so that limits are kept). See Romano, Patterson and Candes (2019), with a scaled score. Where few
independent cells were hidden, the factor of a quantile is drawn towards the one of it and its opposite together, and
that towards the usual one: what a few gaps say of a tail is mostly chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tsimpute.core.quantiles import quantiles
from tsimpute.errors import ConfigError, DataError
from tsimpute.scaling.standardizer import Standardizer

LEAST = 100
"""Cells below which nothing is calibrated: a 95 % quantile would come from a handful of them."""
_PRIOR_OF_BOTH, _PRIOR_USUAL = 50.0, 50.0
"""What both sides together say counts as that many independent cells of a side, the usual factor as that many."""
_USUAL = 1.1
"""A model that is fitted to few data is somewhat too sure of itself; it is known before anything is hidden."""
_LEAST_FACTOR = 0.01


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
    found = quantiles(draws, [0.5, *levels])
    if not calibration.factors and scaler.warps is None:
        return found[0], found[1:]
    scaled = scaler.transform_cells(found, feature)
    scaled[1:] = calibration.applied(levels, scaled[1:], scaled[0])
    kept = scaler.inverse_cells(scaled, feature)
    return kept[0], kept[1:]


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
        others: (M,) each, the gap of each cell, or what else of cells tells little more than one of them does: each
            counts as one independent cell at most. Of all ways, the one that leaves the fewest counts.

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
    """Says that so many hidden cells are too few to calibrate on, and what that means."""
    return (
        f"the quantiles are as drawn: calibration needs {LEAST} hidden cells and had {n_cells}, so the intervals may "
        "be too narrow or too wide"
    )


def _factor(
    level: float, draws: np.ndarray, error: np.ndarray, median: np.ndarray, block: np.ndarray,
    gaps: Sequence[np.ndarray],
) -> float:  # fmt: skip
    """With which a share of ``1 - tail`` of the truth lies on the inner side of the quantile, as far as can be told."""
    tail = min(level, 1 - level)
    own, opposite = quantiles(draws, [level, 1 - level]) - median
    there = own != 0
    if there.sum() < LEAST:
        return 1.0
    score = error[there] / own[there]  # how many times the distance the truth lies outwards
    found, n_free = _smallest(score, tail, block[there], [gap[there] for gap in gaps])
    there &= opposite != 0
    if there.sum() >= LEAST:
        score = np.maximum(error[there] / own[there], error[there] / opposite[there])
        both, n_both = _smallest(score, 2 * tail, block[there], [gap[there] for gap in gaps])
        found = (n_free * found + _PRIOR_OF_BOTH * both) / (n_free + _PRIOR_OF_BOTH)
        n_free = n_both
    return float(np.exp((found * n_free + np.log(_USUAL) * _PRIOR_USUAL) / (n_free + _PRIOR_USUAL)))


def _smallest(score: np.ndarray, tail: float, block: np.ndarray, gaps: Sequence[np.ndarray]) -> tuple[float, float]:
    """Logarithm of the smallest factor that holds a share of ``1 - tail``, and the independent cells that say so."""
    outside = score > np.quantile(score, 1 - tail)
    n_free = min(_independent(outside, group) for group in (block, *gaps))
    n_free = min([n_free, *(float(len(np.unique(gap))) for gap in gaps)])
    # The conformal rank among the scores of cells, which are no draws: rounded up, so that the share is no less.
    wanted = min(1.0, (1 - tail) * (1 + 1 / n_free))
    return float(np.log(max(_LEAST_FACTOR, np.quantile(score, wanted, method="higher")))), n_free


def _independent(outside: np.ndarray, block: np.ndarray) -> float:
    """How many independent cells say as much of a share as these do, whose blocks go together."""
    share = outside.mean()
    _, of_block = np.unique(block, return_inverse=True)
    sums = np.bincount(of_block, weights=outside - share)
    alone, together = share * (1 - share) * len(outside), float((sums**2).sum())
    return len(outside) * min(1.0, alone / together) if together > 0 else float(len(outside))

"""What S draws say about single cells, in float64; ``metrics`` adds these numbers up over cells and records."""

from __future__ import annotations

import numpy as np

from tsimpute.core.quantiles import at_ranks, central_levels, quantiles_of_sorted
from tsimpute.errors import DataError

LEVELS = np.arange(0.05, 1.0, 0.05)
"""The 19 quantile levels of CSDI's magnitude-normalised CRPS."""

INTERVALS = (50, 90, 95)
"""Central intervals, in percent, whose coverage is reported."""

CELL_SCORES = (
    "crps", "crps_fair", "pinball", "magnitude", "abs_median", "sq_mean", "abs_lower", "sq_lower",
    *(f"coverage_{percent}" for percent in INTERVALS),
)  # fmt: skip
"""The columns of ``cell_scores``."""


def crps(samples: np.ndarray, truth: np.ndarray, *, fair: bool = False) -> np.ndarray:
    """Continuous ranked probability score of each cell, by the ensemble formula.

    ``mean |x_i - y| - 1/2 mean |x_i - x_j|``, the last mean over all S^2 pairs, or over the S (S - 1) pairs of
    different draws with ``fair`` (unbiased in the number of draws: Ferro 2014, Eq. 6).

    Args:
        samples: (S, ...) draws.
        truth: (...) in the same units; NaN gives NaN.
        fair: the unbiased estimator; needs two draws.

    Returns:
        (...) float64, in the units of the data.

    Raises:
        DataError: shapes disagree, one draw with ``fair``, or a draw is not finite where there is a truth.
    """
    named = [tuple(d)[skip:] for x, skip in ((samples, 1), (truth, 0)) if (d := getattr(x, "dims", None))]
    if any(names != named[0] for names in named):
        raise DataError(f"axes: expected the same names in samples and truth, came {named}. Transpose them.")
    samples, truth = np.asarray(samples), np.asarray(truth)
    if samples.ndim != truth.ndim + 1 or samples.shape[1:] != truth.shape or samples.shape[0] < 1:
        raise DataError(
            f"samples and truth: expected (samples, *cells) and (*cells), came {samples.shape} and {truth.shape}. "
            "One draw is a leading axis of length 1; are the two arguments swapped?"
        )
    if fair and len(samples) < 2:
        raise DataError("samples: the fair CRPS needs at least 2 draws, came 1.")
    known = ~np.isnan(truth)
    out = np.full(truth.shape, np.nan)
    if known.any():
        draws = np.ascontiguousarray(samples[:, known].T, np.float64)
        if not np.isfinite(draws).all():
            raise DataError("samples: expected finite draws at every cell with a truth; some are NaN or infinite.")
        out[known] = cell_scores(draws, truth[known].astype(np.float64))["crps_fair" if fair else "crps"]
    return out


def cell_scores(draws: np.ndarray, truth: np.ndarray) -> dict[str, np.ndarray]:
    """What each of M cells adds to the sums: a column (M,) per CELL_SCORES, from draws (M, S) and truth (M,)."""
    # Cells are rows: a mean along a contiguous axis does not depend on how many rows there are, to the last bit.
    draws = np.sort(draws, axis=1)
    s = draws.shape[1]
    y = truth[:, None]
    to_truth = np.abs(draws - y).mean(1)
    # sum_{i<j} |x_i - x_j| from the gaps between neighbours: no cancellation, exactly 0 for equal draws.
    ranks = np.arange(1, s)
    spread = (np.diff(draws, axis=1) * (ranks * (s - ranks))).sum(1)
    lower, upper = draws[:, (s - 1) // 2], draws[:, s // 2]
    # These levels and the linear interpolation (type 7, as torch.quantile) belong to the published definition of this
    # metric; nothing that is delivered is a quantile of this kind (see ``quantiles``).
    q = np.ascontiguousarray(at_ranks(draws.T, (s - 1) * LEVELS).T)
    out = {
        "crps": to_truth - spread / s**2,
        "crps_fair": to_truth - spread / max(s * (s - 1), 1),
        "pinball": 2 * np.abs((q - y) * ((y <= q) - LEVELS)).mean(1),
        "magnitude": np.abs(truth),
        "abs_median": np.abs((lower + upper) / 2 - truth),
        "sq_mean": (draws.mean(1) - truth) ** 2,
        "abs_lower": np.abs(lower - truth),
        "sq_lower": (lower - truth) ** 2,
    }
    for percent in INTERVALS:
        out[f"coverage_{percent}"] = _holds(draws.T, truth, percent).astype(np.float64)
    return out


def interval_holds(draws: np.ndarray, truth: np.ndarray, percent: float) -> np.ndarray:
    """(M,) bool: whether the central interval of so many percent of draws (M, S) holds the truth (M,).

    Its ends are ``quantiles`` of the draws, as delivered; a truth that equals an end is within.
    """
    return _holds(np.sort(draws.T, axis=0), truth, percent)


def _holds(ordered: np.ndarray, truth: np.ndarray, percent: float) -> np.ndarray:
    low, high = quantiles_of_sorted(ordered, central_levels(percent))
    return (low <= truth) & (truth <= high)

"""The one definition of a quantile of samples, used in scores, tables and pictures alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tsimpute.errors import DataError


def quantiles(samples: np.ndarray, levels: Sequence[float] | np.ndarray) -> np.ndarray:
    """(Q, ...) float64 quantiles over the first axis: at level p the draw of rank p (S + 1), from 1 in ascending order.

    Between two ranks it is interpolated linearly; a rank below 1 or above S gives the smallest or the largest draw.
    This is type 6 of Hyndman and Fan (1996), Weibull's plotting position; the quantile at 0.5 is the median.

    Why this one: let the truth and the S draws be exchangeable, as they are where the model is right. Then the truth
    takes each of the S + 1 places among the draws with the same probability, so a share r / (S + 1) of all truths lies
    below the draw of rank r, whatever the law. The interval from level a to level b therefore holds b - a of the
    truths, exactly where both ranks are whole numbers; where they are not, exactly for a uniform law, and for any law
    by no more than 1 / (S + 1) too many or too few at each end. The usual interpolation (type 7, the default of NumPy)
    holds (b - a) (S - 1) / (S + 1) of a uniform law: 81.4 instead of 90 % with 20 draws.

    The range of S draws holds (S - 1) / (S + 1) of the truths, and no interval within it holds more: at most 90.5 %
    with 20 draws. See ``fewest_draws``.

    Args:
        samples: (S, ...) finite draws. Where one of a cell is NaN, so are the cell's quantiles.
        levels: Q numbers in [0, 1], in any order.

    Raises:
        DataError: there is no draw, or a level is outside [0, 1].
    """
    samples = np.asarray(samples)
    if samples.ndim < 1 or not len(samples):
        raise DataError(f"samples: expected draws along the first axis, came shape {samples.shape}.")
    return quantiles_of_sorted(np.sort(samples, axis=0), levels)


def quantiles_of_sorted(ordered: np.ndarray, levels: Sequence[float] | np.ndarray) -> np.ndarray:
    """``quantiles`` of draws (S, ...) that ascend along the first axis."""
    p = np.asarray(levels, np.float64).reshape(-1)
    if not ((p >= 0) & (p <= 1)).all():
        raise DataError(f"quantile levels: expected numbers in [0, 1], came {p.tolist()}.")
    # Rounded, so that a rank that is a whole number in exact arithmetic gives that very draw, and no rounding error of
    # the interpolation leads beyond the upper of its two draws.
    ranks = np.round(p * (len(ordered) + 1), 9)
    out = at_ranks(ordered, ranks - 1)
    return np.where(np.isnan(ordered[-1]), np.nan, out)  # NaN is sorted to the end


def at_ranks(ordered: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """(Q, ...) float64 values at fractional ranks, from 0 and held within 0 to S - 1, of ascending draws (S, ...)."""
    last = len(ordered) - 1
    ranks = np.clip(ranks, 0, last)
    below = np.floor(ranks).astype(int)
    low, high = (ordered[rank].astype(np.float64) for rank in (below, np.minimum(below + 1, last)))
    return low + (high - low) * (ranks - below).reshape(-1, *[1] * (ordered.ndim - 1))


def central_levels(percent: float) -> tuple[float, float]:
    """The levels of the two ends of the central interval of so many percent: 0.05 and 0.95 of 90 %."""
    return (100 - percent) / 200, (100 + percent) / 200


def most_coverage(n_samples: int) -> float:
    """The share of exchangeable truths in the whole range of so many draws: no interval of them can hold more."""
    return (n_samples - 1) / (n_samples + 1)


def few_draws_text(levels: Sequence[float], n_samples: int) -> str:
    """Says which quantiles are no more than the smallest or largest of so many draws; "" where none is.

    Levels 0 and 1 ask for these and are left out.
    """
    beyond = [level for level in levels if 0 < level < 1 and not 1 <= round(level * (n_samples + 1), 9) <= n_samples]
    if not beyond:
        return ""
    needed = max(math.ceil(round(1 / min(level, 1 - level), 6)) - 1 for level in beyond)
    least, most = 1 / (n_samples + 1), n_samples / (n_samples + 1)
    return (
        f"quantile {', '.join(f'{level:g}' for level in beyond)}: the smallest or largest of {n_samples} draws, which "
        f"lies at {least:.2g} or {most:.2g}; take {needed} draws or more"
    )


def fewest_draws(percent: int) -> int:
    """The fewest draws whose range holds so many percent of exchangeable truths: 3, 19 and 39 for 50, 90 and 95 %."""
    return -(-200 // (100 - percent)) - 1

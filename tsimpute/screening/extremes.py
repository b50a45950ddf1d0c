"""Single values so far from all others that no model could learn beside them."""

from __future__ import annotations

import numpy as np

FEWEST = 30
"""Values below which none is called far."""
RANGES = 20
"""How many ranges of the rest a value lies beyond it at least."""
POWER, MOST_RATIO = 8, 1e4
NARROW, PEAK, NARROW_PEAK = 3, 300, 10
"""Of features that never fall below 0, true peaks reach farther; see ``far_bounds``."""
FEW_DISTINCT = 10


def far_bounds(values: np.ndarray) -> tuple[float | None, float | None]:
    """Lowest and highest value that is not far from all others; None = there are too few to say.

    The rest is all but two values, or half a percent, on each side. A value is far where it lies more than 20 ranges of
    the rest beyond it. Rain, concentrations and laboratory values have peaks that are true: of what never falls below
    0, a value is far only if it is 300 times the largest of the rest, too, or 10 times where that is less than 3 times
    the smallest; and more where the rest itself has a heavy tail: the eighth power of the ratio of the largest to the
    median of the positive values, up to 10,000 times. Of a rest of fewer than ten distinct values 10,000 times it is.

    Args:
        values: sorted, without NaN.
    """
    n = len(values)
    if n < FEWEST:
        return None, None
    most = max(2, n // 200)
    rest = values[most : n - most]
    first, last = float(rest[0]), float(rest[-1])
    with np.errstate(over="ignore"):
        spread = max(last - first, 0.1 * max(abs(first), abs(last)))
    if spread == 0 or not np.isfinite(spread):
        return None, None
    if len(np.unique(rest)) < FEW_DISTINCT and last > first:
        reach = MOST_RATIO * max(abs(first), abs(last), spread)
        return _finite(first - reach), _finite(last + reach)
    low, high = first - RANGES * spread, last + RANGES * spread
    if first >= 0:
        ratio = min(last / float(np.median(rest[rest > 0])), MOST_RATIO ** (1 / POWER))
        high = max(high, last * max(ratio**POWER, NARROW_PEAK if last < NARROW * first else PEAK))
    return _finite(low), _finite(high)


def _finite(bound: float) -> float | None:
    return bound if np.isfinite(bound) else None

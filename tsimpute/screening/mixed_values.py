"""Numbers of two kinds in one feature: codes of surveys beside answers, fractions beside percentages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tsimpute.screening.findings import Finding

FEW_TIMES, MOSTLY, FEWEST_SHARE = 3, 0.5, 0.02
FULL, LEAST_PERCENT = 100.0, 15.0


def small_codes(name: str, values: np.ndarray) -> Iterator[Finding]:
    """-9 to -1 beside whole numbers from 1 on, and never 0: refused, not asked, does not apply, as in surveys."""
    codes, others = values[values < 0], values[values > 0]
    if len(codes) < FEW_TIMES or len(others) < MOSTLY * len(values) or len(codes) + len(others) < len(values):
        return
    if (values % 1).any() or codes[0] < -9:
        return
    listed = ", ".join(f"{code:g}" for code in np.unique(codes))
    text = (
        f"{name}: {listed} stand {len(codes):,} times, 0 never, and all others are "
        f"{others[0]:g} to {others[-1]:g}: codes for missing? If so, set missing_codes={{{name!r}: [{listed}]}}"
    )
    yield Finding("code", name, text, len(codes), float(codes[0]))


def fractions(name: str, values: np.ndarray) -> Iterator[Finding]:
    """Shares of 1 beside percentages, as 0.4 and 40 of inspired oxygen."""
    low, high = values[values <= 1], values[values >= LEAST_PERCENT]
    fewest = max(FEW_TIMES, FEWEST_SHARE * len(values))
    if min(len(low), len(high)) < fewest or len(low) + len(high) < len(values):
        return
    if low[0] < LEAST_PERCENT / FULL or high[-1] > FULL or not (low % 1).any():
        return
    text = (
        f"{name}: {len(low):,} values are {low[0]:g} to {low[-1]:g}, {len(high):,} are {high[0]:g} to {high[-1]:g} and "
        "none lies between: fractions beside percentages? If so, convert one of both before"
    )
    yield Finding("mixed units", name, text, len(low), float(low[0]))

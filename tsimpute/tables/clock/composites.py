"""Dates of the calendar that no single step gives: dekads, half months, composites that begin anew each January."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

FEWEST = 6
"""Dates of one series from which a pattern is told."""
COMPOSITES = (8, 16)
"""Days of the composites of satellites."""
_SHOWN = 3

_Pattern = Callable[[np.ndarray], np.ndarray]


def calendar_pattern(labels: np.ndarray, series: np.ndarray) -> str:
    """What the dates are, and which of them are absent, where they follow such a pattern; else "".

    Args:
        labels: (D,) times.
        series: (D,) number of the series of each, never falling; times of one rise.
    """
    if labels.dtype.kind != "M" or len(labels) < FEWEST:
        return ""
    days = labels.astype("M8[D]")
    if (days != labels).any():
        return ""
    for text, pattern in _patterns(days, series):
        if pattern(days).all():
            return text + _absent(days, series, pattern)
    return ""


def _patterns(days: np.ndarray, series: np.ndarray) -> list[tuple[str, _Pattern]]:
    of_month = set(_day_of_month(days).tolist())
    found: list[tuple[str, _Pattern]] = []
    if of_month == {1, 11, 21}:
        found.append(("dekads, the 1st, 11th and 21st of each month", lambda d: np.isin(_day_of_month(d), (1, 11, 21))))
    if of_month in ({1, 15}, {1, 16}):
        second = max(of_month)
        text = f"half months, the 1st and {second}th of each month"
        found.append((text, lambda d: np.isin(_day_of_month(d), (1, second))))
    gaps = np.diff(days).astype(int)[np.diff(series) == 0]
    for step in reversed(COMPOSITES):
        if (gaps % step).any() and (gaps == step).any():
            text = f"composites of {step} days that begin anew each 1 January"
            found.append((text, lambda d, step=step: _day_of_year(d) % step == 0))
    return found


def _absent(days: np.ndarray, series: np.ndarray, pattern: _Pattern) -> str:
    """How many dates of the pattern are absent between the first and the last of each series."""
    absent = []
    for number in np.unique(series):
        own = days[series == number]
        span = np.arange(own[0], own[-1] + 1)
        absent.append(np.setdiff1d(span[pattern(span)], own))
    dates = np.concatenate(absent)
    if not len(dates):
        return "; none is absent"
    are = "1 is" if len(dates) == 1 else f"{len(dates):,} are"
    return f"; {are} absent (first: {', '.join(map(str, dates[:_SHOWN]))}): add rows for them to have them filled"


def _day_of_month(days: np.ndarray) -> np.ndarray:
    return (days - days.astype("M8[M]")).astype(int) + 1


def _day_of_year(days: np.ndarray) -> np.ndarray:
    """Counted from 0."""
    return (days - days.astype("M8[Y]")).astype(int)

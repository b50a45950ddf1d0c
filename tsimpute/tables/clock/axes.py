"""The axes on which a clock may be regular: true time, the wall clock of a zone, and calendar months."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tsimpute.tables.clock.steps import MONTH, exactly_regular, months_text, step_text
from tsimpute.tables.time.stamps import Stamps
from tsimpute.tables.time.wall_times import DAY, HOUR, MINUTE, SECOND, Offsets

_TIMES = tuple(
    [DAY] + [n * HOUR for n in (12, 6, 3, 1)] + [n * MINUTE for n in (30, 15, 10, 5, 1)]
    + [n * SECOND for n in (30, 10, 5, 1)] + [10**n for n in (5, 4, 3, 2, 1, 0)]
)  # fmt: skip
_DIGITS = tuple(n * 10.0**power for power in range(15, -16, -1) for n in (5, 2, 1))
_WHOLE = tuple(int(n) for n in _DIGITS if n >= 1)


@dataclass(frozen=True, eq=False)
class Axis:
    """Times counted in one way."""

    positions: np.ndarray  # (D,) int64 or float64
    unit: float  # what one step of the stamps' unit, such as one hour, is on it
    roundings: Sequence[float]  # from coarse to fine, what people choose as steps
    moments: Callable[[np.ndarray], np.ndarray]  # from positions to moments of ``Stamps``
    text: Callable[[float], str]  # a distance on it in words


def axes(stamps: Stamps, moments: np.ndarray, series: np.ndarray) -> tuple[Axis, ...]:
    """True time first, then the axes that fit the calendar better, best first.

    ``moments`` (D,) are distinct, by series and time; ``series`` (D,) has the number of each one's series.
    """
    if stamps.kind == "numbers":
        whole = moments.dtype.kind == "i"
        return (Axis(moments, 1.0, _WHOLE if whole else _DIGITS, _tidy, lambda step: f"{step:g}"),)
    text = lambda step: step_text(step / HOUR)
    true = Axis(moments, HOUR, _TIMES, lambda positions: positions.astype(np.int64), text)
    offsets = stamps.offsets
    if offsets is None:
        return (true,)
    wall = moments + offsets.at(moments)
    months = _months(offsets, wall, series)
    others = [] if months is None else [months]
    rising = (np.diff(wall)[np.diff(series) == 0] > 0).all()
    if offsets.change and rising and exactly_regular(wall, series) > exactly_regular(moments, series):
        others.append(Axis(wall, HOUR, _TIMES, offsets.instants, lambda step: f"{text(step)} by the wall clock"))
    return (true, *others)


def _months(offsets: Offsets, wall: np.ndarray, series: np.ndarray) -> Axis | None:
    """Where each month of a series has one time, at one time of day, on a day that a rule gives."""
    if not len(wall) or (wall % DAY != wall[0] % DAY).any():
        return None
    days = (wall // DAY).astype("M8[D]")
    months = days.astype("M8[M]")
    if ((np.diff(months) == np.timedelta64(0, "M")) & (np.diff(series) == 0)).any():
        return None
    rule = _day_rule(days, months)
    if rule is None:
        return None
    clock = int(wall[0] % DAY)
    back = lambda positions: offsets.instants(
        rule(positions.astype(np.int64).astype("M8[M]")).astype(np.int64) * DAY + clock
    )
    return Axis(months.astype(np.int64), HOUR / MONTH, (1,), back, lambda step: months_text(round(step)))


def _day_rule(days: np.ndarray, months: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """From months to days: the same day, or the last one of shorter months; the first or last working day.

    An exchange that is closed on a working day has a row before it: some working days may be up to four days off.
    """
    latest = int((days - months.astype("M8[D]")).astype(np.int64).max())
    same_day = lambda months: np.minimum(months.astype("M8[D]") + latest, _last_day(months))
    for rule in (same_day, _last_day) if latest < 28 else (_last_day, same_day):
        if (rule(months) == days).all():
            return rule
    for rule in (
        lambda months: np.busday_offset(_last_day(months), 0, roll="backward"),
        lambda months: np.busday_offset(months.astype("M8[D]"), 0, roll="forward"),
    ):
        off = np.abs((rule(months) - days).astype(np.int64))
        if len(days) >= 4 and (off == 0).mean() >= 0.8 and off.max() <= 4:
            return rule
    return None


def _last_day(months: np.ndarray) -> np.ndarray:
    return (months + 1).astype("M8[D]") - 1


def _tidy(positions: np.ndarray) -> np.ndarray:
    """Sums of decimal steps as people write them: 0.3, not 0.30000000000000004."""
    if positions.dtype.kind == "i" or not len(positions):
        return positions
    largest = float(np.abs(positions).max())
    return np.round(positions, int(np.clip(12 - np.ceil(np.log10(largest or 1.0)), -300, 300)))

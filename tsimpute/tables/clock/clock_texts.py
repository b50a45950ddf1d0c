"""Steps of a clock, and the parts of an hour, a day, a week or a year in which a table has no row, in words."""

from __future__ import annotations

import numpy as np

from tsimpute.tables.time.text_formats import MONTHS, WEEKDAYS
from tsimpute.tables.time.wall_times import DAY, HOUR, MINUTE

MONTH = 365.2425 / 12 * DAY
"""Mean length of a month, in microseconds."""


def step_text(hours: float) -> str:
    """A step in words, such as "1 hour", "10 minutes" or "3 months"."""
    hours = float(hours)
    months = hours * HOUR / MONTH
    if months > 0.5 and abs(months - round(months)) < 1e-9 * months:
        return months_text(round(months))
    for size, name in ((24.0, "day"), (1.0, "hour"), (1 / 60, "minute"), (1 / 3600, "second")):
        count = hours / size
        if count >= 1 and abs(count - round(count)) < 1e-6:
            return _counted(round(count), name)
    return _counted(hours * 3600, "second")


def months_text(months: int) -> str:
    """Months, or years where they are whole."""
    return _counted(months, "month") if months % 12 else _counted(months // 12, "year")


def _counted(count: float, name: str) -> str:
    text = f"{count:,}" if isinstance(count, int) else f"{count:.6g}"
    return f"{text} {name}{'' if text == '1' else 's'}"


def _runs(phases: np.ndarray) -> list[tuple[int, int]]:
    """First and last of each run of whole numbers that follow one another."""
    pieces = np.split(phases, np.flatnonzero(np.diff(phases) != 1) + 1)
    return [(int(piece[0]), int(piece[-1])) for piece in pieces]


def no_weekday_text(phases: np.ndarray) -> str:
    *names, last = (WEEKDAYS[day] for day in phases)
    return f"no row on {', '.join(names)} or {last}" if names else f"no row on {last}"


def no_month_text(phases: np.ndarray) -> str:
    names = [MONTHS[a] if a == b else f"{MONTHS[a]} to {MONTHS[b]}" for a, b in _runs(phases)]
    return f"no row in {', '.join(names)}"


def no_time_text(phases: np.ndarray, step: int, cycle: int, start: int) -> str:
    """At which times of an hour or a day there is no row, those around midnight as one stretch."""
    runs, n_phases = _runs(phases), cycle // step
    if cycle == DAY and len(runs) > 1 and runs[0][0] == 0 and runs[-1][1] == n_phases - 1:
        runs = [*runs[1:-1], (runs[-1][0], runs[0][1])]
    text = lambda at: _clock_text(start + at * step) if cycle == DAY else f"{(start + at * step) / MINUTE:g}"
    listed = [text(a) if a == b else f"{text(a)} to {text(b)}" for a, b in runs[:4]]
    more = f" and {len(runs) - 4} more" if len(runs) > 4 else ""
    where = ", ".join(listed) + more
    return f"no row at {where}" if cycle == DAY else f"no row at minute {where} of an hour"


def no_time_of_week_text(phases: np.ndarray, step: int, start: int) -> str:
    first = int(phases[0]) * step + start
    where = f"{WEEKDAYS[first // DAY]} {_clock_text(first % DAY)}"
    return f"no row at {len(phases)} times of the week (first: {where})"


def _clock_text(micros: int) -> str:
    text = f"{micros // HOUR:02d}:{micros // MINUTE % 60:02d}"
    seconds = micros % MINUTE / 1e6
    return f"{text}:{seconds:02g}" if seconds else text

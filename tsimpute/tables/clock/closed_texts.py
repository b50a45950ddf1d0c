"""Parts of an hour, a day, a week or a year in which a table has no row, in words."""

from __future__ import annotations

import numpy as np

from tsimpute.tables.time.wall_times import DAY, HOUR, MINUTE

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def _runs(phases: np.ndarray) -> list[tuple[int, int]]:
    """First and last of each run of whole numbers that follow one another."""
    pieces = np.split(phases, np.flatnonzero(np.diff(phases) != 1) + 1)
    return [(int(piece[0]), int(piece[-1])) for piece in pieces]


def weekday_text(phases: np.ndarray) -> str:
    *names, last = (_DAYS[day] for day in phases)
    return f"no row on {', '.join(names)} or {last}" if names else f"no row on {last}"


def months_text(phases: np.ndarray) -> str:
    return ", ".join(_MONTHS[a] if a == b else f"{_MONTHS[a]} to {_MONTHS[b]}" for a, b in _runs(phases))


def times_text(phases: np.ndarray, step: int, cycle: int, start: int) -> str:
    """At which times of an hour or a day, those around midnight as one stretch."""
    runs, n_phases = _runs(phases), cycle // step
    if cycle == DAY and len(runs) > 1 and runs[0][0] == 0 and runs[-1][1] == n_phases - 1:
        runs = [*runs[1:-1], (runs[-1][0], runs[0][1])]
    word = (
        (lambda at: _clock_text(start + at * step))
        if cycle == DAY
        else (lambda at: f"{(start + at * step) / MINUTE:g}")
    )
    shown = [word(a) if a == b else f"{word(a)} to {word(b)}" for a, b in runs[:4]]
    more = f" and {len(runs) - 4} more" if len(runs) > 4 else ""
    return f"at {'minute ' if cycle == HOUR else ''}{', '.join(shown)}{more}"


def _clock_text(micros: int) -> str:
    text = f"{micros // HOUR:02d}:{micros // MINUTE % 60:02d}"
    seconds = micros % MINUTE / 1e6
    return f"{text}:{seconds:02g}" if seconds else text


def week_text(phases: np.ndarray, step: int, start: int) -> str:
    first = int(phases[0]) * step + start
    where = f"{_DAYS[first // DAY]} {_clock_text(first % DAY)}"
    return f"no row at {len(phases)} times of the week (first: {where})"

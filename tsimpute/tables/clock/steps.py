"""The step of a clock, from the times of all series: jitter is tolerated, a change is refused; and steps in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tsimpute.tables.time.text_formats import MONTHS, WEEKDAYS
from tsimpute.tables.time.wall_times import DAY, HOUR, MINUTE

NEAR = 0.02  # A difference counts as a whole number of steps within this share of a step
MOST = 0.9  # Share of the differences that must count as whole numbers of steps
JITTER = 0.25  # Largest distance of a time from the grid, as a share of a step
RARE = 1e-3  # A coarse stretch that missing rows would give a table less often than this is a change of step
FINEST = 48  # How many times smaller than the usual difference a step of a clock with pauses may be
RUN = 4  # Differences that must be alike in a row to count as a stretch with a step of its own
MONTH = 365.2425 / 12 * DAY  # Mean length of a month, in microseconds


@dataclass(frozen=True, eq=False)
class Grid:
    """A regular clock."""

    step: float | int  # in the unit of the positions
    index: np.ndarray  # (D,) whole number of steps from the first time of the series
    origin: np.ndarray  # (D,) position at index 0 of the series of each time
    off: np.ndarray  # (D,) distance of each time from its place on the grid


@dataclass(frozen=True)
class Irregular:
    """No step fits."""

    reason: str  # why, as the end of a sentence
    unequal: bool = False  # the differences are of several lengths


@dataclass(frozen=True)
class Change:
    """Two stretches with different steps."""

    at: int  # number (of the D times) where the second stretch begins
    before: float  # the step of the first stretch, in the unit of the positions
    after: float  # that of the second one
    within: bool  # whether both are of one series


def find_grid(positions: np.ndarray, series: np.ndarray, roundings: Sequence[float]) -> Grid | Irregular | Change:
    """The regular clock of times.

    Args:
        positions: (D,) int64 or float64, distinct and increasing within each series.
        series: (D,) number of the series of each time, never falling.
        roundings: what people choose as steps, from coarse to fine; a step of jittered times is a multiple of one.
    """
    inside = np.diff(series) == 0
    steps = np.diff(positions)[inside]
    place = np.flatnonzero(inside)
    if not len(steps):
        return Irregular("no series has two times")
    likely = _common(steps)
    common = next((step for step in likely if _multiples(steps, step)[1].mean() >= MOST), likely[0])
    multiples, near = _multiples(steps, common)
    if near.mean() < MOST:
        reason = f"only {near.mean():.0%} of the differences are whole numbers of the most common one"
        return _stretches(steps, place, series) or Irregular(reason, unequal=True)
    change = _coarse_run(steps, np.maximum(multiples, 1), place, series)
    if change is not None:
        return change
    step = _refined(steps[near], multiples[near], common, positions, series, roundings)
    grid = _on_grid(positions, series, step, roundings)
    far = int((grid.off > JITTER * step).sum())
    if far:
        return _stretches(steps, place, series) or Irregular(f"{far} times lie far from the grid of the common step")
    if ((np.diff(grid.index) == 0) & inside).any():
        return _stretches(steps, place, series) or Irregular("two times of a series fall on one time of the grid")
    return grid


def finest_grid(positions: np.ndarray, series: np.ndarray) -> Grid | None:
    """The grid of the largest step of which all differences are whole numbers; None where it is far below them."""
    steps = np.diff(positions)[np.diff(series) == 0]
    if positions.dtype.kind != "i" or not len(steps):
        return None
    step = int(np.gcd.reduce(steps))
    if step * FINEST < np.median(steps):
        return None
    first = np.searchsorted(series, series)
    origin = positions[first]
    return Grid(step, (positions - origin) // step, origin, np.zeros(len(positions)))


def exactly_regular(positions: np.ndarray, series: np.ndarray) -> float:
    """Share of the differences that are exact multiples of the most common one; for whole positions."""
    steps = np.diff(positions)[np.diff(series) == 0]
    return float((steps % _common(steps)[0] == 0).mean()) if len(steps) else 0.0


def _common(steps: np.ndarray) -> list[float | int]:
    """The most common differences, best first: the first one, and others half as common or more.

    It is the median where jitter makes all of them different.
    """
    rounded = steps
    if steps.dtype.kind == "f":
        digits = 9 - np.ceil(np.log10(steps.min())).astype(int)
        rounded = np.round(steps, int(np.clip(digits, -300, 300)))
    sizes, counts = np.unique(rounded, return_counts=True)
    if counts.max() < 0.1 * len(steps):
        return [np.sort(steps)[len(steps) // 2].item()]
    order = np.argsort(-counts, kind="stable")
    likely = [size for size, count in zip(sizes[order], counts[order], strict=True) if 2 * count >= counts.max()]
    return [steps[np.argmax(rounded == size)].item() for size in likely[:4]]


def _multiples(steps: np.ndarray, step: float | int) -> tuple[np.ndarray, np.ndarray]:
    """How many steps each difference is, and whether it is nearly a whole number of them."""
    multiples = np.rint(steps / step).astype(np.int64)
    return multiples, (multiples >= 1) & (np.abs(steps - multiples * step) <= NEAR * step)


def _refined(
    steps: np.ndarray,
    multiples: np.ndarray,
    common: float | int,
    positions: np.ndarray,
    series: np.ndarray,
    roundings: Sequence[float],
) -> float | int:
    """The step without the jitter of any one difference, rounded as far as no time of the longest series notices."""
    if (steps == multiples * common).all():
        return common
    mean = float(steps.sum() / multiples.sum())
    first = np.searchsorted(series, series)
    longest = float(((positions - positions[first]) / mean).max())
    for rounding in roundings:
        step = round(mean / rounding) * rounding
        if step > 0 and abs(step - mean) * longest <= 0.1 * mean:
            return type(common)(step)
    return type(common)(mean)


def _on_grid(positions: np.ndarray, series: np.ndarray, step: float | int, roundings: Sequence[float]) -> Grid:
    first = np.searchsorted(series, series)
    origin = positions[first]
    index = np.rint((positions - origin) / step).astype(np.int64)
    off = positions - origin - index * step
    if positions.dtype.kind == "f":  # float noise is no jitter
        off[np.abs(off) <= 1e-9 * np.maximum(np.abs(positions), step)] = 0
    if off.any():
        shift = pd.Series(off).groupby(series).transform("median").to_numpy()
        spread = float(np.abs(off - shift).max())
        rounding = next((r for r in roundings if r <= max(spread, roundings[-1])), roundings[-1])
        origin = (np.rint((origin + shift) / rounding) * rounding).astype(positions.dtype)
        index = np.rint((positions - origin) / step).astype(np.int64)
        origin = origin + (index[first] * step)
        index = index - index[first]
        off = positions - origin - index * step
    return Grid(step, index, origin, np.abs(off))


def _runs(alike: np.ndarray, place: np.ndarray, series: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts and lengths of the runs of differences, each but the first of a run ``alike`` the one before it."""
    owner = series[place]
    starts = np.flatnonzero(np.r_[True, ~alike | (np.diff(owner) != 0)])
    return starts, np.diff(np.r_[starts, len(place)])


def _stretches(steps: np.ndarray, place: np.ndarray, series: np.ndarray) -> Change | None:
    """A change between long stretches of equal differences that make up nearly all of a table."""
    alike = np.abs(np.diff(steps)) <= NEAR * np.minimum(steps[1:], steps[:-1])
    starts, lengths = _runs(alike, place, series)
    long = lengths >= RUN
    if lengths[long].sum() < 0.8 * len(steps):
        return None
    starts, lengths = starts[long], lengths[long]
    sizes = steps[starts + lengths // 2]
    other = np.abs(sizes - sizes[0]) > NEAR * np.minimum(sizes, sizes[0])
    if not other.any():
        return None
    owner = series[place[starts]]
    turns = np.flatnonzero((np.diff(owner) == 0) & (np.abs(np.diff(sizes)) > NEAR * np.minimum(sizes[1:], sizes[:-1])))
    b = int(turns[0]) + 1 if len(turns) else int(np.argmax(other))
    a = b - 1 if len(turns) else 0
    return Change(int(place[starts[b]]), float(sizes[a]), float(sizes[b]), bool(len(turns)))


def _coarse_run(steps: np.ndarray, multiples: np.ndarray, place: np.ndarray, series: np.ndarray) -> Change | None:
    """A series that begins or ends with a coarser step, for longer than missing rows would make it look so.

    Where rows are missing at random, gaps are multiples of m no more often than 1 in m, whatever the share missing. A
    coarse stretch amid a finer clock is no change: the finer one is there before and after it.
    """
    owner = series[place]
    ends_series = np.diff(owner) != 0
    first, last = np.r_[True, ends_series], np.r_[ends_series, True]
    sizes, counts = np.unique(multiples[multiples > 1], return_counts=True)
    best = (0, 0)
    for size in sizes[np.argsort(-counts, kind="stable")][:8]:
        fits = multiples % size == 0
        starts, lengths = _runs(fits[1:] == fits[:-1], place, series)
        at_edge = first[starts] | last[starts + lengths - 1]
        lengths = np.where(fits[starts] & at_edge, lengths, 0)
        longest = int(lengths.max())
        beyond_chance = longest * np.log(size) > np.log(2 * first.sum() / RARE)
        if beyond_chance and longest >= RUN and longest > best[1]:
            best = int(starts[lengths.argmax()]), longest
    start, length = best
    if not length:
        return None
    sizes, counts = np.unique(multiples[start : start + length], return_counts=True)
    usual = sizes[counts.argmax()]
    coarse = float(steps[start : start + length][multiples[start : start + length] == usual][0])
    fine, end = coarse / float(usual), start + length
    if not first[start]:
        return Change(int(place[start]), fine, coarse, True)
    if not last[end - 1]:
        return Change(int(place[end]), coarse, fine, True)
    return Change(int(place[start]), fine, coarse, False)


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


def _stretches_of(phases: np.ndarray) -> list[tuple[int, int]]:
    """First and last of each run of whole numbers that follow one another."""
    pieces = np.split(phases, np.flatnonzero(np.diff(phases) != 1) + 1)
    return [(int(piece[0]), int(piece[-1])) for piece in pieces]


def no_weekday_text(phases: np.ndarray) -> str:
    *names, last = (WEEKDAYS[day] for day in phases)
    return f"no row on {', '.join(names)} or {last}" if names else f"no row on {last}"


def no_month_text(phases: np.ndarray) -> str:
    names = [MONTHS[a] if a == b else f"{MONTHS[a]} to {MONTHS[b]}" for a, b in _stretches_of(phases)]
    return f"no row in {', '.join(names)}"


def no_time_text(phases: np.ndarray, step: int, cycle: int, start: int) -> str:
    """At which times of an hour or a day there is no row, those around midnight as one stretch."""
    runs, n_phases = _stretches_of(phases), cycle // step
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

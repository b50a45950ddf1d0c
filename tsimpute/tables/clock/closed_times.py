"""Times that a table never has: weekends, nights, seasons, and the pauses of instruments that take turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tsimpute.tables.clock.steps import no_month_text, no_time_of_week_text, no_time_text, no_weekday_text
from tsimpute.tables.time.wall_times import DAY, HOUR, MINUTE

FEW = 0.1  # A part of a cycle is rare where it is present at most so often, as a share of how often the other parts are
FEW_DAYS = 1 / 3  # The same for a day of the week: some Saturdays among the working days
CHANCE = 1e-3  # Rows that are missing at random leave a part of a cycle that rare less often than this
QUARTER = 15 * MINUTE
"""How much earlier or later than on the days around a closed time may begin or end, where it moves with the season."""
NIGHT = 4 * HOUR  # Two nights that are closed for so long are enough where nothing else is missing
TURNS = 3  # A cycle must be seen so many times
MOST_PHASES = 2_000_000
WEEKENDS = ((5, 6), (4, 5))  # Saturday and Sunday, Friday and Saturday; Monday is 0
_WEDNESDAY = 3  # Days from Monday to 1970-01-01, a Thursday


@dataclass(frozen=True, eq=False)
class Slots:
    """All times of a regular clock from the first to the last of each series, S in all."""

    series: np.ndarray  # (S,) number, never falling
    index: np.ndarray  # (S,) steps from the first time of the series
    moments: np.ndarray  # (S,) of ``Stamps``
    present: np.ndarray  # (S,) bool: some row has this time
    wall: np.ndarray | None  # (S,) int64 microseconds by the wall clock; None where times have no date
    step: float  # in microseconds, for dates; a month and longer where the clock counts months

    def at(self, places: np.ndarray) -> Slots:
        wall = None if self.wall is None else self.wall[places]
        series, index, present = self.series[places], self.index[places], self.present[places]
        return Slots(series, index, self.moments[places], present, wall, self.step)

    @property
    def n_series(self) -> int:
        return int(self.series[-1]) + 1 if len(self.series) else 0


@dataclass(frozen=True, eq=False)
class Cycle:
    """A division of time that repeats."""

    number: np.ndarray  # (S,) int64, how often it has turned
    phase: np.ndarray  # (S,) int64, the part of it, in [0, n_phases)
    n_phases: int
    text: Callable[[np.ndarray], str]  # what is absent, in words, from the phases that are closed
    per_series: bool = False  # whether each series is judged by itself only
    weekdays: bool = False  # whether the phases are days of the week
    night: int = 0  # parts of a day, if it is one, that are closed together as a night is; 0 = it is none
    short: bool = False  # whether it has several rows at unequal distances, as where instruments take turns


@dataclass(frozen=True, eq=False)
class Closed:
    """What is never there."""

    slots: np.ndarray  # (S,) bool: absent, and at a time at which its series hardly ever has a row
    texts: tuple[str, ...]  # what is absent, in words, one per cycle
    weekend: np.ndarray  # (S,) bool: the series has rows on all days of the week but those of a weekend
    turns: bool  # whether rows are only at a few times of each hour, or of a shorter or longer cycle


def closed_times(slots: Slots, step_text: Callable[[float], str]) -> Closed:
    """The absent times at which a table never has a row, or hardly ever; ``step_text``: a number of steps in words."""
    closed, texts, turns = np.zeros(len(slots.series), bool), [], False
    weekend = np.zeros(len(slots.series), bool)
    for cycle in _cycles(slots, step_text):
        open_ = np.flatnonzero(~closed)
        series, phase, rare = slots.series[open_], cycle.phase[open_], np.zeros(len(open_), bool)
        of_open = cycle.number[open_], phase, slots.present[open_], cycle
        if len(open_) and not cycle.per_series:  # rare in the table
            rare |= _rare(np.zeros_like(series), *of_open)[0, phase]
        many = slots.n_series > 1 and slots.n_series * cycle.n_phases <= MOST_PHASES
        if len(open_) and (cycle.per_series or many):  # rare in the series
            rare |= _rare(series, *of_open)[series, phase]
        if cycle.weekdays:
            days = np.zeros((slots.n_series, cycle.n_phases), bool)
            days[series[rare], phase[rare]] = True
            pairs = np.logical_or.reduce([days[:, list(pair)].all(1) for pair in WEEKENDS])
            weekend = (pairs & (days.sum(1) == 2))[slots.series]
        new = open_[rare & ~slots.present[open_]]
        if len(new):
            closed[new] = True
            hit = len(np.unique(slots.series[new]))
            where = "" if hit == slots.n_series else f" in {hit:,} of {slots.n_series:,} series"
            texts.append(cycle.text(np.unique(cycle.phase[new])) + where)
            turns |= cycle.short
    edges = _moving_edges(slots, closed)
    if edges.any():
        closed |= edges
        texts.append(f"no row at {int(edges.sum()):,} times before or after these, which move with the season")
    return Closed(closed, tuple(texts), weekend, turns)


def _moving_edges(slots: Slots, closed: np.ndarray) -> np.ndarray:
    """(S,) bool: absent times just before or after closed ones, as many as the days around have absent there too.

    Nights grow with the season, and sessions of New York in a table in UTC begin at 13:30 or at 14:30.
    """
    edges = np.zeros(len(closed), bool)
    if slots.wall is None or slots.step >= DAY or not closed.any():
        return edges
    phase = slots.wall % DAY // round(slots.step)
    absent = ~slots.present & ~closed
    borders = np.flatnonzero(np.diff(np.r_[False, closed, False]))
    first, last = borders[::2], borders[1::2] - 1
    for edge, way in ((first - 1, -1), (last + 1, 1)):
        lengths = _run_lengths(absent, way)[np.clip(edge, 0, len(closed) - 1)]
        where = first if way < 0 else last
        expected = _usual_nearby(lengths, slots.series[where] * (int(phase.max()) + 1) + phase[where])
        allowed = np.where(expected > 0, expected + max(1, int(QUARTER // slots.step)), 0)
        for at, n in zip(edge.tolist(), np.minimum(lengths, allowed).tolist(), strict=True):
            edges[slice(at - n + 1, at + 1) if way < 0 else slice(at, at + n)] = True
    return edges & absent


def _run_lengths(flags: np.ndarray, way: int) -> np.ndarray:
    """(S,) number of consecutive flags from each on, in this direction."""
    ahead = flags[::-way]  # so that what follows in the direction has been counted already
    at = np.arange(len(ahead))
    stop = np.maximum.accumulate(np.where(ahead, -1, at))
    return (at - stop)[::-way]


def _usual_nearby(lengths: np.ndarray, key: np.ndarray) -> np.ndarray:
    """For each of the lengths of one key, in order, what all but one of seven reach that end or begin with it."""
    usual = np.zeros(len(lengths))
    for way in (1, -1):
        grouped = pd.Series(lengths[::way].astype(np.float64)).groupby(key[::way], sort=False)
        nearby = grouped.transform(lambda of_key: of_key.rolling(7, min_periods=4).quantile(1 / 6, "lower"))
        usual = np.maximum(usual, nearby.fillna(0).to_numpy()[::way])
    return usual.astype(np.int64)


def _cycles(slots: Slots, step_text: Callable[[float], str]) -> Iterator[Cycle]:
    wall, step = slots.wall, round(slots.step)
    if wall is not None and step <= DAY:
        day = wall // DAY
        yield Cycle((day + _WEDNESDAY) // 7, (day + _WEDNESDAY) % 7, 7, no_weekday_text, weekdays=True)
    short = _short_cycle(slots)
    if short is not None:
        length, n_rows = short
        where = f"rows stand at {n_rows} of every {length} steps only ({step_text(length)})"
        turn, phase = slots.index // length, slots.index % length
        yield Cycle(turn, phase, length, lambda phases: where, per_series=True, short=True)
    if wall is None:
        return
    start = int(wall[0] % step) if step < DAY else 0  # of the first slot in its step; others are not far from it
    for cycle in (HOUR, DAY):
        if step < cycle and cycle % step == 0:
            text = lambda phases, cycle=cycle: no_time_text(phases, step, cycle, start)
            night = -(-NIGHT // step) if cycle == DAY else 0
            yield Cycle(wall // cycle, wall % cycle // step, cycle // step, text, short=cycle == HOUR, night=night)
    if step < DAY and DAY % step == 0:
        week = (wall // DAY + _WEDNESDAY) // 7
        phase = (wall - (week * 7 - _WEDNESDAY) * DAY) // step
        yield Cycle(week, phase, 7 * DAY // step, lambda phases: no_time_of_week_text(phases, step, start))
    months = wall.astype("M8[us]").astype("M8[M]").astype(np.int64)
    yield Cycle(months // 12, months % 12, 12, no_month_text)


def _short_cycle(slots: Slots) -> tuple[int, int] | None:
    """Steps and rows of a cycle in which two or three rows follow at unequal distances; None = there is none."""
    at = np.flatnonzero(slots.present)
    inside, steps = np.diff(slots.series[at]) == 0, np.diff(slots.index[at])
    for n in (2, 3):
        if len(steps) < n * TURNS:
            return None
        within = np.logical_and.reduce([inside[i : len(inside) - n + 1 + i] for i in range(n)])
        sums = np.sum([steps[i : len(steps) - n + 1 + i] for i in range(n)], axis=0)[within]
        if not len(sums):
            continue
        sizes, counts = np.unique(sums, return_counts=True)
        length = int(sizes[counts.argmax()])
        if counts.max() >= 0.6 * len(sums) and n < length <= 10_000:
            return length, n
    return None


def _rare(owner: np.ndarray, number: np.ndarray, phase: np.ndarray, present: np.ndarray, cycle: Cycle) -> np.ndarray:
    """(owners, phases) bool: rarely present, more rarely than by chance."""
    n_owners, n = int(owner.max()) + 1, cycle.n_phases
    turn = number - number.min()
    cell = owner * n + phase
    _, first, part = np.unique(cell * (int(turn.max()) + 1) + turn, return_index=True, return_inverse=True)
    turned = np.zeros(len(first), bool)
    turned[part[present]] = True
    cell = cell[first]
    possible = np.bincount(cell, minlength=n_owners * n).reshape(n_owners, n)
    count = np.bincount(cell[turned], minlength=n_owners * n).reshape(n_owners, n)
    share = count / np.maximum(possible, 1)
    usual = (count * share).sum(1, keepdims=True) / np.maximum(count.sum(1, keepdims=True), 1)
    few = share <= (FEW_DAYS if cycle.weekdays else FEW) * usual
    often = (possible * ~few).sum(1, keepdims=True)
    usual = ((count * ~few).sum(1, keepdims=True) + 1) / (often + 2)
    by_chance = np.exp(-possible * _divergence(share, usual)) * n * n_owners
    rare = few & (possible >= TURNS) & (by_chance < CHANCE)
    if cycle.weekdays:
        return rare | _closed_weekend(count, possible)
    return rare | _closed_night(count, possible, cycle.night) if cycle.night else rare


def _divergence(share: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Chernoff's exponent: so many events of n are rarer than exp(-n d) where each comes with the usual chance."""
    with np.errstate(divide="ignore", invalid="ignore"):
        d = np.where(share > 0, share * np.log(share / usual), 0) + np.where(
            share < 1, (1 - share) * np.log((1 - share) / (1 - usual)), 0
        )
    return np.where(share < usual, d, 0)


def _closed_weekend(count: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """(owners, 7) bool: a weekend, or a day of one, that is always absent while the other days are nearly all present.

    Weeks are too few in most tables for chance to be ruled out, and what people do on weekends is known.
    """
    closed = np.zeros(count.shape, bool)
    for days in (*WEEKENDS, *((day,) for day in (4, 5, 6))):
        these, others = list(days), [day for day in range(7) if day not in days]
        n_others = possible[:, others].sum(1)
        share = count[:, others].sum(1) / np.maximum(n_others, 1)
        never = (count[:, these] == 0).all(1) & (possible[:, these] > 0).all(1)
        weeks = possible[:, these].min(1)
        enough = (share >= 0.75) & (weeks >= 2) | (share == 1) if len(days) == 2 else (share >= 0.9) & (weeks >= 2)
        hit = never & enough & ((count[:, others] > 0).sum(1) >= 3) & ~closed[:, these].any(1)
        closed[np.ix_(hit, these)] = True
    return closed


def _closed_night(count: np.ndarray, possible: np.ndarray, least: int) -> np.ndarray:
    """(owners, phases) bool: a long stretch of the day without any row on two days, the rest nearly all present."""
    never = (count == 0) & (possible >= 2)
    rest = np.where(never, 0, possible).sum(1)
    complete = np.where(never, 0, count).sum(1) >= 0.95 * np.maximum(rest, 1)
    around = np.concatenate([never, never], axis=1)  # midnight ends no stretch
    whole = np.array([np.minimum(_run_lengths(row, 1) + _run_lengths(row, -1) - row, never.shape[1]) for row in around])
    long = np.maximum(*np.split(whole, 2, axis=1)) >= least
    return never & long & complete[:, None]

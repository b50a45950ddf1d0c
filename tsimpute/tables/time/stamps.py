"""The time columns of a table: true instants and what people read, and back to the form of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.time.columns import Numbers, read_column
from tsimpute.tables.time.several_columns import read_together
from tsimpute.tables.time.wall_times import DAY, HOUR, Column, Form, Offsets, WallTimes, localise, wall_clock

_CHECKED = 5000  # Rows at the beginning of a table whose texts are held against the form in which new ones are written
MOSTLY = 2.0  # A reading of day and month wins where it leaves at most half of the gaps' length of the other ones


@dataclass(frozen=True, eq=False)
class Stamps:
    """The time of each row of a table."""

    # (R,) int64 microseconds since 1970-01-01 UTC (since the start for elapsed times), or the numbers themselves, int64
    # or float64.
    moments: np.ndarray
    # (R,) the time as people read it: datetime64[us] of the wall clock, hours for elapsed times, or the numbers.
    labels: np.ndarray
    # dates, times elapsed since a start such as 47:30, or numbers whose unit is their own.
    kind: Literal["dates", "elapsed", "numbers"]
    notes: tuple[str, ...]  # how the times are read
    forms: tuple[Form, ...]  # how each time column writes
    offsets: Offsets | None = None  # of the wall clock; for dates only
    late_midnight: bool = False  # midnight is written as 24:00 of the day before
    # times of day without a date go on after midnight: they count on, and are written below 24:00.
    past_midnight: bool = False

    @property
    def ticks(self) -> np.ndarray:
        """(R,) float64: hours since 1970-01-01 UTC or since the start, or the numbers."""
        return self.moments / HOUR if self.unit else self.moments.astype(np.float64)

    @property
    def unit(self) -> Literal["hours", ""]:
        return "" if self.kind == "numbers" else "hours"

    def labels_at(self, moments: np.ndarray) -> np.ndarray:
        """(R,) labels of new moments."""
        if self.kind == "numbers":
            return moments.astype(self.labels.dtype)
        if self.offsets is None:
            return moments / HOUR
        return (moments + self.offsets.at(moments)).astype("M8[us]")

    def texts(self, moments: np.ndarray) -> list[tuple[str, ...]]:
        """For new moments the text of each time column, in the form of the table."""
        times = self._written(moments)
        return list(zip(*[form.texts(times) for form in self.forms], strict=True))

    def values(self, moments: np.ndarray) -> tuple[pd.Series, ...]:
        """For new moments the values of each time column, in its dtype and time zone."""
        times = self._written(moments)
        return tuple(form.values(times) for form in self.forms)

    def _written(self, moments: np.ndarray) -> WallTimes | np.ndarray:
        """What the forms write: wall times, or the numbers themselves."""
        if self.kind == "numbers":
            return moments
        if self.offsets is None:
            return WallTimes(np.zeros_like(moments), moments % DAY if self.past_midnight else moments)
        offset = self.offsets.at(moments)
        wall = moments + offset
        days = (wall - self.late_midnight) // DAY
        return WallTimes(days, wall - days * DAY, offset)


def label_text(label: Any) -> str:
    """A label, datetime64 or number, for people: no more of the seconds than there are."""
    if not isinstance(label, np.datetime64):
        return f"{label:.10g}"
    date, clock = str(label.astype("M8[us]")).split("T")
    whole, fraction = clock.split(".")
    if fraction.strip("0"):
        return f"{date} {whole}.{fraction.rstrip('0')}"
    return f"{date} {whole.removesuffix(':00')}"


def read_stamps(
    columns: Sequence[pd.Series | pd.Index],
    *,
    timezone: str | None = None,
    dayfirst: bool | None = None,
    series_of_row: np.ndarray | None = None,
    series: np.ndarray | None = None,
) -> Stamps:
    """Reads the time of each row from one column, a date and a time of day, or parts such as year and month.

    Args:
        columns: each (R,): time stamps, periods, dates, texts in one form, or numbers. Whole numbers that all read as
            dates such as 20140501 are dates; so are, where the name of the column is one of time, those of
            ``dates_of_numbers``; other numbers stay numbers. Several columns: see ``read_together``.
        timezone: name of the zone whose wall clock the table shows, such as "Europe/Rome". None: the offsets in the
            table hold, and a table without any is on a clock without daylight saving.
        dayfirst: whether 03/04/2005 is the third of April. None: decided from the whole column.
        series_of_row: (R,) whole numbers; rows of one number are one sequence, whose order distinguishes the two
            autumn hours of a zone. Give features of long tables numbers of their own. None: all rows are one sequence.
        series: (R,) the same for whole series, with all their features; None: as ``series_of_row``.

    Raises:
        DataError: a time is missing or cannot be read, does not exist in the zone, or day and month are ambiguous.
        ConfigError: the zone is unknown, or it is not that of the table's offsets.
    """
    if not len(columns):
        raise ConfigError("time columns: expected one, or a date and a time of day, or parts of a date, came none.")
    if not len(columns[0]):
        raise DataError("table: expected at least one row, came none.")
    if len(columns) > 1:
        column, forms = read_together(columns)
    else:
        single = read_column(columns[0])
        if isinstance(single, Numbers):
            _check_unset(timezone, dayfirst, "numbers")
            return Stamps(single.numbers, single.numbers.copy(), "numbers", ("times are numbers",), (single.form,))
        column, forms = single, {order: (form,) for order, form in single.forms.items()}
    sequence = np.zeros(len(column.clock), np.int64) if series_of_row is None else np.asarray(series_of_row)
    if not column.dated:
        _check_unset(timezone, dayfirst, "times without a date")
        note = "times without a date count from the start"
        clock = column.clock
        if not column.typed:
            clock = _past_midnight(clock, sequence, sequence if series is None else series)
        past = clock is not column.clock
        if past:
            note = "times of day without a date go on after midnight: they are of the next day from there on"
        return Stamps(clock, clock / HOUR, "elapsed", (note, *column.notes), forms[""], past_midnight=past)
    order = _date_order(column, dayfirst, sequence)
    stamps = _dates(column, column.times[order], forms[order], order, timezone, sequence)
    if dayfirst is None or order:
        return stamps
    note = f"dayfirst={dayfirst} has no effect: the dates can be read in one way only"
    return replace(stamps, notes=(*stamps.notes, note))


def _check_unset(timezone: str | None, dayfirst: bool | None, what: str) -> None:
    for setting, value in (("timezone", timezone), ("dayfirst", dayfirst)):
        if value is not None:
            raise ConfigError(f"{setting}: expected None for {what}, came {value!r}; leave it out.")


def _past_midnight(clock: np.ndarray, sequence: np.ndarray, series: np.ndarray) -> np.ndarray:
    """Times of day that count on after midnight, as those of one night do; the same array where there is none.

    A series begins after the longest span of the day that it does not touch, if all its sequences then are in order.
    """
    if clock.max() >= DAY or (clock < 0).any():
        return clock
    order = np.argsort(sequence, kind="stable")
    same = np.diff(sequence[order]) == 0
    steps = np.where(same, np.diff(clock[order]), 0)
    if not (steps < 0).any() or (steps[steps < 0] > -DAY // 2).any():
        return clock
    out = clock.copy()
    for one in np.unique(series[order[1:]][steps < 0]):
        rows = np.flatnonzero(series == one)
        times = np.unique(clock[rows])
        gaps = np.diff(times, append=times[0] + DAY)
        start = times[(int(gaps.argmax()) + 1) % len(times)]
        out[rows] += DAY * (clock[rows] < start)
    back = np.where(same, np.diff(out[order]), 0) < 0
    return clock if back.any() else out


def _date_order(column: Column, dayfirst: bool | None, sequence: np.ndarray) -> str:
    """The order of day, month and year: the one that ``dayfirst`` asks for, or the only one that makes sense."""
    names = list(column.times)
    if names == [""]:
        return ""
    if dayfirst is not None:
        wanted = "day/month/year" if dayfirst else "month/day/year"
        if wanted not in names:
            raise ConfigError(f"dayfirst={dayfirst}: not every date is a {wanted}, all are {' and '.join(names)}.")
        return wanted
    walls = {name: times.micros for name, times in column.times.items()}
    if all((walls[name] == walls[names[0]]).all() for name in names):
        return names[0]
    rows = np.argsort(sequence, kind="stable")
    same = np.diff(sequence[rows]) == 0
    steps = {name: np.diff(wall[rows])[same] for name, wall in walls.items()}
    # Never back, or never on, within each sequence in the order of rows.
    ordered = [name for name in names if len(steps[name]) and ((steps[name] >= 0).all() or (steps[name] <= 0).all())]
    ordered = ordered or names
    if len(ordered) == 1:
        return ordered[0]
    cover = {}  # share of the whole span that steps of the most common size would cover
    for name in ordered:
        times = np.unique(walls[name])
        sizes, counts = np.unique(np.diff(times), return_counts=True)
        common = sizes[counts.argmax()] if len(sizes) else 0
        cover[name] = float(common * (len(times) - 1) / (times[-1] - times[0])) if len(sizes) else 1.0
    best = max(ordered, key=lambda name: cover[name])
    if all(cover[best] >= MOSTLY * cover[name] for name in ordered if name != best):
        return best
    first = WallTimes.of(walls[best][:1], None if column.offset is None else column.offset[:1])
    example = column.forms[best].texts(first)[0]
    options = "dayfirst=True for day/month/year, dayfirst=False for month/day/year"
    raise DataError(
        f"dates such as {example!r} in the first row: {' and '.join(ordered)} both fit every row; say which "
        f"with {options}."
    )


def _dates(
    column: Column, times: WallTimes, forms: tuple[Form, ...], order: str, timezone: str | None, sequence: np.ndarray
) -> Stamps:
    wall, moments, zone = times.micros, times.utc, column.zone
    notes = [*column.notes, *[f"dates are read as {order}"] * bool(order)]
    notes += ["dates without a time of day"] * (not column.has_clock)
    if times.offset is not None:
        if timezone is not None:
            wrong = wall_clock(moments, timezone) != wall
            if wrong.any():
                raise ConfigError(
                    f"timezone {timezone!r}: the stamps carry UTC offsets of their own, and that of "
                    f"{wall[np.argmax(wrong)].astype('M8[us]')} is another; leave timezone out."
                )
            zone = timezone
        different = np.unique(times.offset)
        if column.zone is None:
            words = "UTC offsets" if len(different) > 1 else "UTC offset"
            notes.append(f"{words} {', '.join(f'{offset / HOUR:+g} h' for offset in different)}")
    elif timezone is not None:
        moments = localise(wall, timezone, sequence=sequence, notes=notes)
        zone = timezone
        notes.append(f"time zone {timezone}")
    known, rows = np.unique(moments, return_index=True)
    late = bool((times.clock == DAY).any() and (times.clock != 0).all())
    offsets = Offsets(known, (wall - moments)[rows], zone, naive=times.offset is None and timezone is None)
    return Stamps(moments, wall.astype("M8[us]"), "dates", tuple(notes), forms, offsets, late)


def forms_note(stamps: Stamps, columns: Sequence[np.ndarray]) -> tuple[str, ...]:
    """A note where the texts of time columns (R,) are written in more ways than the one in which rows are added."""
    texts = stamps.texts(stamps.moments[:_CHECKED])
    for at, column in enumerate(columns):
        odd = next((i for i, row in enumerate(texts) if row[at] != str(column[i]).strip()), None)
        if odd is not None:
            return (
                f"times are written in more than one way: {str(column[odd]).strip()!r} would be {texts[odd][at]!r} in "
                "an added row",
            )
    return ()

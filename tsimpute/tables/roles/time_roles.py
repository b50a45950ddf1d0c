"""Which columns of a table make its time: one of stamps, a date and an hour, parts of a date, or numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.columns.column_names import is_feature_name, is_group_name, is_later_time, may_be_offset_name
from tsimpute.tables.columns.number_texts import can_name, floats, is_number, is_real
from tsimpute.tables.columns.time_names import (
    COUNT_NAMES,
    PLAIN_SHORT,
    TIME_NAMES,
    edge_of,
    is_calendar_name,
    is_clock_name,
    is_of_a_life,
    is_time_name,
    part_of,
    plain,
)
from tsimpute.tables.roles.columns import Columns
from tsimpute.tables.text.numbers import split_unit
from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.columns import FEW, MOST, Look, look_of, resembles_time
from tsimpute.tables.time.numbers import Digits, digits_of
from tsimpute.tables.time.several_columns import (
    CHAINS,
    HIGHEST,
    LOWEST,
    fraction_of_year,
    is_half,
    joined_clock,
    named_months,
)
from tsimpute.tables.time.text_formats import DATES
from tsimpute.tables.time.texts import SAMPLE, advice_on, fits

_CLOCK = re.compile(r"\d{1,6}(?:\.0)?|\d\d?:\d\d(?::\d\d)?")
NONE = "or set time=() to take each row as one step"
_FASTEST = 240
"""Beats of a heart in a minute, at most; times such as 1330 go beyond."""


def find_parts(columns: Columns, free: Sequence[int], looks: dict[int, Look]) -> list[int]:
    """The columns of year, month, day and hour, or year and day of the year, as far as there are."""
    months = _valid(columns, free, "month")
    chains = []
    for chain in CHAINS:
        parts: list[int] = []
        for part in chain:
            if part == "hour":
                parts += clock_after(columns, free, parts, looks)
                break
            options = [i for i in _valid(columns, free, part) if i not in parts]
            if part == "doy" and not months:
                options += [i for i in _valid(columns, free, "day", highest=366) if i not in parts]
            options = [i for i in options if part == "year" or _adds(columns, free, parts, i)]
            if not options:
                break
            parts.append(options[0])
        chains.append(parts)
    best = max(chains, key=len)
    names = [plain(columns.names[i]) for i in best]
    if len(best) == 1 and (of_time := part_of(columns.names[best[0]])) and not of_time[1]:
        return []
    return [] if len(best) < 3 and all(len(name) == 1 for name in names) else best


def calendar_parts(columns: Columns, free: Sequence[int]) -> set[int]:
    """Columns that are parts of the time by their names, in full or, where they make a whole date, in short."""
    dated = find_parts(columns, free, {})
    named = {i for i in free if is_calendar_name(columns.names[i])}
    return named | set(dated if len(dated) > 2 else ())


def repeats(columns: Columns, time: Sequence[int], free: Sequence[int]) -> int:
    """How many rows repeat the time of an earlier one of the same series and feature, as far as names tell these."""
    named = [i for i in free if is_group_name(columns.names[i]) or is_feature_name(columns.names[i])]
    keys = [i for i in named if i not in time and columns[i].nunique() < len(columns[i])]
    return int(columns.repeats([*time, *keys]).sum())


def _adds(columns: Columns, free: Sequence[int], before: Sequence[int], at: int) -> bool:
    """A part counts where its name is sure, or it tells rows apart that the parts before it do not.

    A short name is sure where another one is short, too, or where all rows hold one number.
    """
    of_time, name = part_of(columns.names[at]), plain(columns.names[at])
    if (of_time is not None and of_time[1]) or name in PLAIN_SHORT:
        return True
    if any(plain(columns.names[i]) in PLAIN_SHORT for i in before):
        return True
    if len(before) > 2 and columns[at].nunique() == 1:
        return True
    return repeats(columns, before, free) > repeats(columns, [*before, at], free)


def clock_after(columns: Columns, free: Sequence[int], before: Sequence[int], looks: dict[int, Look]) -> list[int]:
    """The columns of hour, minute and second that go on from a date, or the one of a time of day."""
    if before and part_of(columns.names[before[-1]]) in (("year", True), ("year", False)):
        return []
    texts = [i for i in free if i in looks and looks[i].kind == "clock" and part_of(columns.names[i])]
    texts = [i for i in texts if i not in before]
    hours = [i for i in _valid(columns, free, "hour") if i not in before] + texts
    hours = [i for i in hours if _adds(columns, free, before, i)]
    if not hours:
        return []
    clock = hours[:1]
    digits = digits_at(columns, clock[0])
    if digits is None or joined_clock(digits):
        return clock
    for part in ("minute", "second"):
        options = [i for i in _valid(columns, free, part) if i not in before]
        options = [i for i in options if _adds(columns, free, [*before, *clock], i)]
        if not options:
            break
        clock += options[:1]
    return clock


def _valid(columns: Columns, free: Sequence[int], part: str, highest: int | None = None) -> list[int]:
    """Columns that are named as a part and hold it in nearly every row; those that are named in full first.

    A row that holds none is named where the parts are read.
    """
    options = []
    both = {str(columns.names[i]).lstrip("#") for i in free} >= {"MM", "mm"}
    for i in free:
        of_time = part_of(columns.names[i])
        if both and str(columns.names[i]) == "mm":
            of_time = ("minute", False)
        if of_time is None or of_time[0] != part or edge_of(columns.names[i]) == "end":
            continue
        digits, low, high = digits_at(columns, i), LOWEST.get(part, 0), highest or HIGHEST[part]
        if digits is None:
            named = part == "month" and named_months(columns[i]) is not None
            is_part = named or (part == "doy" and fraction_of_year(columns[i]) is not None)
            able = [item if isinstance(item, str) or is_real(item) else None for item in columns[i]]
            numbers = np.asarray(pd.to_numeric(pd.Series(able, dtype=object), errors="coerce"), np.float64)
            inside = (numbers >= low) & (numbers <= HIGHEST[part]) & (numbers == np.floor(numbers))
        else:
            inside = (digits.numbers >= low) & (digits.numbers <= high)
            short_year = part == "year" and digits.numbers.max() < 100
            is_part = inside.all() or short_year or (part == "hour" and joined_clock(digits))
        if is_part or (of_time[1] and inside.mean() >= MOST and inside.sum() >= FEW):
            options.append((i, of_time[1]))
    return [i for i, full in options if full] + [i for i, full in options if not full]


def digits_at(columns: Columns, at: int) -> Digits | None:
    try:
        return digits_of(columns[at])
    except RowError:
        return None


def find_time(columns: Columns, free: Sequence[int], notes: list[str]) -> list[int]:
    """The columns that make the time, [] where none does; what is not plain to see is added to ``notes``.

    Refused where several columns may be the time, or one looks like a time and cannot be read.
    """
    free = [i for i in free if can_name(columns[i])]
    looks = {i: look_of(columns[i]) for i in free}
    stamps = [i for i in free if looks[i].kind]
    stamps = [i for i in stamps if i < columns.n_levels] or stamps
    if len(stamps) == 2 and [plain(columns.names[i]) for i in stamps] == ["date", "time"]:
        return [*stamps, *_half(columns, free)]
    dated = [i for i in stamps if looks[i].kind in ("full", "date")]
    sure = [i for i in dated if not looks[i].by_name or is_time_name(columns.names[i])]
    if any(not is_of_a_life(columns.names[i]) for i in sure):
        at = _chosen(columns, sure, looks, notes)
        rest = _clock_of(columns, free, at, looks) if looks[at].kind == "date" else []
        if looks[at].kind == "date" and not rest:
            _check_no_clock(columns, free, at)
        return sorted([at, *rest, *(_half(columns, free) if rest else [])])
    chain = find_parts(columns, free, looks)
    numbers = _numeric_time(columns, free) or [i for i in stamps if looks[i].kind == "years"][:1]
    chain += _half(columns, free) if len(chain) > 2 else []
    if chain and not (numbers and repeats(columns, chain, free) > 0):
        return chain
    clocks = [i for i in stamps if looks[i].kind == "clock"]
    if clocks:
        return [_chosen(columns, clocks, looks, notes)]
    if numbers and looks[numbers[0]].kind == "years":
        notes.append(
            f"{columns.names[numbers[0]]}: years with decimals; they count as numbers, and a step as their unit"
        )
    if columns_of_time := (numbers or sure[:1] or dated[:1]):
        return columns_of_time
    _refuse_unreadable(columns, free)
    return []


def _chosen(columns: Columns, stamps: Sequence[int], looks: dict[int, Look], notes: list[str]) -> int:
    candidates = [i for i in stamps if not is_of_a_life(columns.names[i])] or list(stamps)
    candidates = [i for i in candidates if not is_later_time(columns.names[i])] or candidates
    candidates = [i for i in candidates if columns.codes(i).max() > 0] or candidates
    edges = {i: edge_of(columns.names[i]) for i in candidates}
    starts = [i for i in candidates if edges[i] == "start"]
    if len(starts) == 1 and len(candidates) > 1 and all(edges[i] == "end" for i in candidates if i not in starts):
        others = ", ".join(str(columns.names[i]) for i in candidates if i not in starts)
        notes.append(f"{columns.names[starts[0]]}: the start of each interval is its time; {others}: its end")
        return starts[0]
    names = {i: plain(columns.names[i]) for i in candidates}
    for named in (
        [i for i in candidates if edges[i] != "end"],
        [i for i in candidates if any(word in names[i] for word in ("time", "date", "stamp"))],
        [i for i in candidates if names[i] in TIME_NAMES],
        [i for i in candidates if names[i] in TIME_NAMES and looks[i].kind == "full"],
        [i for i in candidates if is_time_name(columns.names[i])],
        [i for i in candidates if not looks[i].n_bad and looks[i].kind == "full"],
    ):
        if len(candidates) > 1 and len(named) == 1:
            candidates = named
    if len(candidates) > 1:
        listed = ", ".join(str(columns.names[i]) for i in candidates)
        at = candidates[0]
        clock = [at + 1] if looks[at].kind == "date" and looks.get(at + 1, Look()).kind == "clock" else []
        named = [str(columns.names[i]) for i in (at, *clock)]
        raise DataError(
            f"time: expected one column of stamps, or a date and a time of day; found {listed}. Name it (time), as "
            f"time={named}."
        )
    return candidates[0]


def _clock_of(columns: Columns, free: Sequence[int], date: int, looks: dict[int, Look]) -> list[int]:
    """The columns of the time of day beside one of dates; none where the dates are the whole time."""
    texts = [i for i in free if looks[i].kind == "clock" and not is_number(columns[i])]
    named = [i for i in texts if is_clock_name(columns.names[i]) or edge_of(columns.names[i])]
    starts = [i for i in named if edge_of(columns.names[i]) != "end"]
    for clocks in (starts if len(starts) > 1 else [], starts, named, texts):
        if len(clocks) == 1:
            sure = clocks[0] in named or repeats(columns, [date], free) > repeats(columns, [date, clocks[0]], free)
            return clocks if sure else []
    clock = clock_after(columns, free, [date], looks)
    return clock if clock and repeats(columns, [date], free) > repeats(columns, [date, *clock], free) else []


def _half(columns: Columns, free: Sequence[int]) -> list[int]:
    return [i for i in free if is_half(columns[i])][:1]


def _check_no_clock(columns: Columns, free: Sequence[int], date: int) -> None:
    """Refuses dates that repeat beside a column that cannot be read and is named as an hour, or counts up in each day.

    Such a column would otherwise be taken for the names of 24 series.
    """
    before = repeats(columns, [date], free)
    if not before:
        return
    for i in (i for i in free if i != date):
        apart = repeats(columns, [date, i], free) < before / 2
        if not apart:
            continue
        name, items = columns.names[i], columns[i].tolist()
        of_time, first = part_of(name), items[0]
        if of_time is not None and (of_time[0] == "hour" or is_clock_name(name)) and not _are_no_hours(columns[i]):
            row = int(np.argmax([_CLOCK.fullmatch(str(item).strip()) is None for item in items]))
            raise RowError(
                f"time column {name!r}: expected hours such as 0 to 23, 1 to 24, 1330, 13:30 or 1 PM beside the date "
                f"{columns.names[date]!r}, came {items[row]!r} in ", row, f"; write them so, name the columns of "
                f"the time (time) or, if {name!r} names series, of groups (group).",
            )  # fmt: skip
        digits = digits_at(columns, i)
        if digits is None or digits.numbers.min() > 1 or not 23 <= digits.numbers.max() <= 1440:
            continue
        same = np.diff(columns.codes(date)) == 0
        if same.any() and (np.diff(digits.numbers)[same] == 1).mean() >= 0.9:  # they count up by one within each date
            raise DataError(
                f"column {name!r}: counts from {first} up within each date of {columns.names[date]!r}, as hours or "
                f"intervals of a day do. Write the time of day in its place (as 0 to 23, or 13:30), or name "
                f"{name!r} as groups (group) if each of its numbers is a series of its own."
            )


def _are_no_hours(column: pd.Series | pd.Index) -> bool:
    """Numbers of which most are neither hours nor times such as 1330: heart rates, whose name is that of hours, too."""
    if not is_number(column):
        return False
    values = floats(column)
    values = values[np.isfinite(values)]
    if not len(values):
        return False
    are_hours = (values >= 0) & (values <= 24) & (values % 1 == 0)
    if values.max() > _FASTEST:
        are_hours |= (values >= 0) & (values <= 2400) & (values % 100 < 60)
    return bool(are_hours.mean() < 0.5)


def _numeric_time(columns: Columns, free: Sequence[int]) -> list[int]:
    """The column of numbers whose name says that it counts time, or an index of fractions."""
    names = {i: plain(split_unit(str(columns.names[i]))[0]) for i in free}
    sure = [i for i in free if names[i] in TIME_NAMES and _are_numbers(columns[i])]
    counts = [i for i in free if names[i] in COUNT_NAMES or may_be_offset_name(columns.names[i])]
    counts = [i for i in counts if str(columns.names[i])[:1] != "T"]  # a temperature, as a rule
    counts = [i for i in counts if is_number(columns[i]) and not pd.isna(columns[i]).any()]
    levels = [i for i in free if i < columns.n_levels and is_number(columns[i]) and columns[i].dtype.kind == "f"]
    counts = [i for i in counts if not is_later_time(columns.names[i])] or counts
    named = sure or counts
    return [i for i in named if i < columns.n_levels][:1] or levels[:1] or named[:1]


def _are_numbers(column: pd.Series | pd.Index) -> bool:
    """Numbers, or texts all of which are numbers, as 20140501 may be."""
    texts = (isinstance(item, str) and re.fullmatch(r"\d+([.,]\d+)?", item.strip()) for item in column)
    return is_number(column) or (len(column) > 0 and all(texts))


def _of_another_form(texts: Sequence[str], row: int) -> int | None:
    """The first date that is not of the form of a row; None where some text is no date, or all are of one form."""
    rows = [at for at, text in enumerate(texts) if text][: 2 * SAMPLE]
    if not all(fits([texts[at]], DATES) for at in rows):
        return None
    return next((at for at in rows if not fits([texts[row], texts[at]], DATES)), None)


def _refuse_unreadable(columns: Columns, free: Sequence[int]) -> None:
    """Refuses a table without a time one of whose columns looks like one."""
    for i in free:
        name, column = columns.names[i], columns[i]
        if name is not None and resembles_time(column, name):
            texts = [str(item).strip() for item in column]
            numbers = [re.fullmatch(r"[\d.,]+", text) is not None for text in texts]
            mixed = 2 * sum(numbers) > len(texts)
            row = next((row for row, text in enumerate(texts) if text and not (mixed and numbers[row])), 0)
            text = column.tolist()[row]
            if (other := _of_another_form(texts, row)) is not None:
                raise RowError(
                    f"time: column {name!r} looks like a time and mixes two forms: expected dates of one form, came "
                    f"{text!r} in ", row, f" and {texts[other]!r} in ", other, ". Write all of them in one form. Or "
                    f"name another column of times (time), {NONE}.",
                )  # fmt: skip
            raise RowError(
                f"time: column {name!r} looks like a time and cannot be read as one: expected dates such as "
                f"2024-03-31 02:00, came {text!r} in ", row, f"; {advice_on(str(text))}. Or name another column of "
                f"times (time), {NONE}.",
            )  # fmt: skip
    odd = [i for i in free if is_number(columns[i]) and not is_calendar_name(columns.names[i])]
    odd = [i for i in odd if is_time_name(columns.names[i])]
    if odd:
        name = columns.names[odd[0]]
        raise RowError(
            f"time: column {name!r} is named as a time and cannot be read as one: expected numbers such as 20240331, "
            f"202403310200 or seconds since 1970, came {columns[odd[0]].tolist()[0]!r} in ", 0, ". Write dates such as "
            f"2024-03-31 02:00, name the column of times (time), {NONE}.",
        )  # fmt: skip
    parts = [i for i in free if is_calendar_name(columns.names[i]) and is_number(columns[i])]
    if parts:
        listed = ", ".join(str(columns.names[i]) for i in parts)
        raise DataError(
            "time: expected one column of stamps, or whole parts of it from the year on (year, month, day, hour; or "
            f"year and day of the year) in every row; found {listed}. Add or correct the parts, name the column of "
            f"times (time), {NONE}."
        )

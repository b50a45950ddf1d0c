"""A time in several columns: a date and a time of day, or parts such as year, month, hour, AM and PM."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.columns.time_names import is_clock_name, part_of
from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.columns import Numbers, read_column
from tsimpute.tables.time.numbers import Digits, decimals_of, digits_of, read_digits
from tsimpute.tables.time.text_formats import MONTH_OF, Format, name_piece
from tsimpute.tables.time.wall_times import DAY, HOUR, MINUTE, SECOND, Column, Form, WallTimes, text_form

HIGHEST = {
    "year": 2999, "quarter": 4, "month": 12, "week": 53, "day": 31, "doy": 366, "hour": 24, "minute": 59, "second": 59,
}  # fmt: skip
LOWEST = {"year": 1000, "quarter": 1, "month": 1, "week": 1, "day": 1, "doy": 1}
FIRST_OF_1900 = 69  # Of years with two digits, those from here on are of the 20th century
_HALF = re.compile(r"\s*[ap]\.?\s?m\.?\s*", re.IGNORECASE)
_SIZES = {"hour": HOUR, "minute": MINUTE, "second": SECOND}
CHAINS = (
    ("year", "month", "day", "hour", "minute", "second"),
    ("year", "doy", "hour", "minute", "second"),
    ("year", "week"),
    ("year", "quarter"),
)
"""Parts that make a time, each chain as far as there are columns; the first two columns at least, or only the year."""
Forms = dict[str, tuple[Form, ...]]  # How each column writes, under each order of day, month and year


@dataclass(frozen=True, eq=False)
class Part:
    """One column: its part, its numbers (R,), how it writes, and the time of day that its decimals give."""

    part: str
    numbers: np.ndarray
    form: Form
    clock: np.ndarray | None = None


def read_part(column: pd.Series | pd.Index, part: str) -> Part:
    """A column of one part of a time; a row that holds no such part is refused."""
    digits = digits_of(column)
    if digits is None and part == "month" and (named := named_months(column)):
        return named
    if digits is None and part == "doy" and (fraction := fraction_of_year(column)):
        return fraction
    if digits is None and part == "hour":
        numbers, form, _ = read_clock(column)
        return Part("clock", numbers, form)
    what = f"time column {column.name!r}"
    if digits is None:
        items = column.tolist()
        row = next(row for row, item in enumerate(items) if not _is_whole(item))
        came = "nothing" if pd.isna(items[row]) or items[row] == "" else repr(items[row])
        raise RowError(
            f"{what}, ", row, f": expected a {part} as a whole number, came {came}; correct it, or take the row out."
        )
    numbers = digits.numbers
    if part == "year" and numbers.max() < 100:
        return Part(part, numbers + np.where(numbers >= FIRST_OF_1900, 1900, 2000), digits.part_form("year2"))
    if part == "hour" and (joined := joined_clock(digits)):
        return Part("clock", _joined_micros(digits, joined), digits.part_form(joined))
    _check_range(numbers, part, what)
    return Part(part, numbers, digits.part_form(part))


def _is_whole(item: Any) -> bool:
    try:
        return float(item) % 1 == 0 and float(item) >= 0
    except (TypeError, ValueError):
        return False


def named_months(column: pd.Series | pd.Index) -> Part | None:
    """A column of English names of months, or None."""
    items = column.tolist()
    if not all(isinstance(item, str) for item in items):
        return None
    texts = [item.strip() for item in items]
    months = [MONTH_OF.get(text.lower(), 0) for text in texts]
    if not all(months):
        return None
    write = Format((name_piece("name", max(texts, key=len)),)).write
    return Part("month", np.array(months, np.int64), text_form(write, column))


def fraction_of_year(column: pd.Series | pd.Index) -> Part | None:
    """A day of the year with decimals, 1.5 for noon of the first of January; None where the column holds no such."""
    decimals = decimals_of(column)
    if decimals is None or decimals.numbers.min() < 1 or decimals.numbers.max() >= 367:
        return None
    # 1972 is a leap year, so that all days of a year can be written there.
    first = int(np.datetime64("1972-01-01").astype(np.int64))
    dates = decimals.dates(
        (decimals.numbers - 1) * DAY, lambda times: times.part("doy") + times.clock / DAY, first * DAY
    )
    return None if dates is None else Part("doy", dates[0].days - first + 1, dates[1], dates[0].clock)


def _check_range(numbers: np.ndarray, part: str, what: str) -> None:
    low, high = LOWEST.get(part, 0), HIGHEST[part]
    wrong = (numbers < low) | (numbers > high)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise RowError(
            f"{what}, ", row, f": expected {'an' if part == 'hour' else 'a'} {part} from {low} to {high}, came "
            f"{numbers[row]} (rows like it: {int(wrong.sum())}); correct it, or name other columns of times (time).",
        )  # fmt: skip


def joined_clock(digits: Digits) -> str:
    """ "hhmm" or "hhmmss" where whole numbers are times of day written without a sign between, "" where not."""
    numbers, high, name = digits.numbers, int(digits.numbers.max()), digits.column.name
    has_minutes = is_clock_name(name) and "m" in str(name).lower() and "time" not in str(name).lower()
    if (numbers % 100 > 59).any() or (high <= 24 and digits.width < 4 and not has_minutes):
        return ""
    if high <= 2400 and digits.width in (0, 3, 4):
        return "hhmm" if high >= 100 or digits.width == 4 or has_minutes else ""
    return "hhmmss" if high <= 240_000 and digits.width in (0, 6) and not (numbers // 100 % 100 > 59).any() else ""


def _joined_micros(digits: Digits, form: str) -> np.ndarray:
    """Microseconds since midnight of numbers such as 1330."""
    numbers = digits.numbers if form == "hhmmss" else digits.numbers * 100
    return numbers // 10_000 * HOUR + numbers // 100 % 100 * MINUTE + numbers % 100 * SECOND


def read_clock(column: pd.Series | pd.Index) -> tuple[np.ndarray, Form, tuple[str, ...]]:
    """Microseconds since midnight of a column of times of day, how it writes, and notes."""
    digits = digits_of(column)
    if digits is not None:
        if joined := joined_clock(digits):
            return _joined_micros(digits, joined), digits.part_form(joined), ()
        _check_range(digits.numbers, "hour", f"time column {column.name!r}")
        return digits.numbers * HOUR, digits.part_form("hour"), ()
    # 00-01, 01-02: from one hour to the next, and not minutes.
    ranges = [re.fullmatch(r"\s*(\d\d?)\s*[-\u2013]\s*(\d\d?)\s*", str(item)) for item in column]
    if len(ranges) > 2 and all(ends and (int(ends[2]) - int(ends[1])) % 24 == 1 for ends in ranges):
        raise DataError(
            f"time column {column.name!r}: expected times of day, came hours with their ends such as "
            f"{column.tolist()[0]!r}; write the hour alone at which each begins, as 0 to 23."
        )
    hour = read_column(column, part="clock")
    if isinstance(hour, Numbers):
        raise DataError(f"time column {column.name!r}: expected times of day, came numbers that are not whole.")
    return hour.clock, next(iter(hour.forms.values())), hour.notes


def is_half(column: pd.Series | pd.Index) -> bool:
    """Whether all rows of a column are AM or PM."""
    if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        return False
    words = pd.unique(np.asarray(column, object))
    return 0 < len(words) <= 6 and all(isinstance(word, str) and _HALF.fullmatch(word) for word in words)


def read_together(columns: Sequence[pd.Series | pd.Index]) -> tuple[Column, Forms]:
    """Several columns as one time, in any order.

    They are parts by their names, such as year, month, day and hour; or a date and a time of day, the latter in one
    column, or as hour, minute and second. What makes no time is refused.
    """
    halves = [i for i, column in enumerate(columns) if is_half(column)]
    if len(halves) == 1 and len(columns) > 2:
        return _with_half(columns, halves[0])
    names = parts_by_name([column.name for column in columns])
    if names is not None and "year" in names:
        return _from_parts(columns, names)
    if len(columns) == 2:
        try:
            return _date_and_clock(columns, 0)
        except DataError as error:
            try:
                return _date_and_clock(columns, 1)
            except DataError:
                raise error from None
    dates = [i for i, column in enumerate(columns) if part_of(column.name) is None]
    dates = dates or [i for i, column in enumerate(columns) if part_of(column.name) == ("day", True)]
    if len(dates) != 1:
        listed = ", ".join(repr(column.name) for column in columns)
        raise DataError(
            "time columns: expected a date and a time of day, or parts named as year, month, day, hour and minute, "
            f"came {listed}. Rename them so, or name one column of times (time)."
        )
    return _date_and_clock(columns, dates[0])


def _with_half(columns: Sequence[pd.Series | pd.Index], at: int) -> tuple[Column, Forms]:
    """As ``read_together``, with AM or PM at that place: hours from 1 to 12 count within the halves of the day."""
    halves = columns[at]
    column, forms = read_together([other for i, other in enumerate(columns) if i != at])
    after_noon = np.array([str(item).strip()[0].lower() == "p" for item in halves], bool)
    times = {}
    for name, of_name in column.times.items():
        hour = of_name.part("hour")
        wrong = (hour < 1) | (hour > 12)
        if wrong.any():
            row, which = int(np.argmax(wrong)), repr(halves.name)
            raise RowError(
                f"times of day beside {which}, ", row, f": expected an hour from 1 to 12 beside {which}, came "
                f"{hour[row]}."
            )  # fmt: skip
        times[name] = replace(of_name, clock=of_name.clock + (hour % 12 + 12 * after_noon - hour) * HOUR)
    words = [str(word).strip() for word in pd.unique(np.asarray(halves, object))]
    word_of = {word[0].lower(): word for word in reversed(words)}
    both = [
        word_of.get(letter, (letter.upper() if words[0][0].isupper() else letter) + words[0][1:]) for letter in "ap"
    ]
    half = text_form(lambda times: [both[number] for number in times.part("half").tolist()], halves)
    in_halves = lambda times: replace(times, clock=times.clock + (times.part("hour12") - times.part("hour")) * HOUR)
    whole: Forms = {}
    for name, of_name in forms.items():
        others = tuple(form.of(in_halves) for form in of_name)
        whole[name] = (*others[:at], half, *others[at:])
    return replace(column, times=times), whole


def parts_by_name(names: Sequence[Any]) -> list[str] | None:
    """The part that each column represents by its name, or None where one has none or two have the same."""
    named = [part_of(name) for name in names]
    if not all(named):
        return None
    parts = [part for one in named if one for part in one[:1]]
    minutes = [i for i, name in enumerate(names) if str(name).lstrip("#") == "mm"]
    if parts.count("month") == 2 and len(minutes) == 1:
        parts[minutes[0]] = "minute"
    parts = ["doy" if part == "day" and not {"month"} & set(parts) else part for part in parts]
    return parts if len(set(parts)) == len(parts) else None


def _from_parts(columns: Sequence[pd.Series | pd.Index], names: Sequence[str]) -> tuple[Column, Forms]:
    parts = [read_part(column, name) for column, name in zip(columns, names, strict=True)]
    by_part = {part.part: part.numbers for part in parts}
    listed = ", ".join(str(column.name) for column in columns)
    if not any(set(names) == set(chain[: len(names)]) for chain in CHAINS):
        raise DataError(
            f"time columns: expected year, month, day, hour, minute and second without one left out between, or year "
            f"and day of the year, came {listed}. Name the columns that make the time (time)."
        )
    clock = sum((part.clock for part in parts if part.clock is not None), by_part.get("clock", 0))
    clock = clock + sum(by_part[name] * size for name, size in _SIZES.items() if name in by_part)
    days = _days(by_part, listed)
    times = WallTimes(days, np.zeros_like(days) + clock)
    forms = [part.form for part in parts]
    notes = (f"the time is read from {listed}",)
    if "week" in by_part:
        notes += ("weeks are read as ISO weeks, from Monday on",)
        year = list(names).index("year")
        digits = digits_of(columns[year])
        assert digits is not None
        forms[year] = digits.part_form("isoyear")
    return Column({"": times}, {}, has_clock=bool(times.clock.any()), notes=notes), {"": tuple(forms)}


def _days(parts: Mapping[str, np.ndarray], listed: str) -> np.ndarray:
    """Days since 1970 of whole parts, each row's first day where there is no day among them."""
    year = parts["year"]
    if "week" in parts:
        times, exists = read_digits(year * 100 + parts["week"], ("isoyear", "week"))
    elif "doy" in parts:
        times, exists = read_digits(year * 1000 + parts["doy"], ("year", "doy"))
    else:
        month = 3 * parts["quarter"] - 2 if "quarter" in parts else parts.get("month", 1)
        times, exists = read_digits((year * 100 + month) * 100 + parts.get("day", 1), ("year", "month", "day"))
    if not exists.all():
        row = int(np.argmin(exists))
        came = ", ".join(f"{name} {numbers[row]}" for name, numbers in parts.items() if name not in ("clock", *_SIZES))
        raise RowError(f"time columns {listed}, ", row, f": expected a day that exists, came {came}; correct it.")
    return times.days


def _date_and_clock(columns: Sequence[pd.Series | pd.Index], date: int) -> tuple[Column, Forms]:
    """A date at that place, and a time of day in the other columns."""
    day, name = read_column(columns[date], part="date"), columns[date].name
    if isinstance(day, Numbers) or not day.dated:
        came = " and ".join(repr(column.name) for column in columns)
        raise DataError(
            f"time columns: expected a date and a time of day, came {came}; name the column of times alone."
        )
    if day.clock.any():
        raise DataError(
            f"time columns: expected a date and a time of day, but {name!r} has times of day of its own; name it alone."
        )
    if day.offset is not None:
        raise DataError(
            f"time columns: expected dates without a time zone in {name!r}; take the zone off, and give it as timezone."
        )
    others = [i for i in range(len(columns)) if i != date]
    clock, forms, notes = np.zeros(len(day.clock), np.int64), {}, day.notes
    names = ["hour"] if len(others) == 1 else parts_by_name([columns[i].name for i in others])
    if names is None or set(names) != set(("hour", "minute", "second")[: len(names)]):
        raise DataError(
            f"time columns: expected a date {name!r} beside hour, minute and second, came "
            f"{', '.join(repr(columns[i].name) for i in others)}. Rename them so, or name other columns (time)."
        )
    for i, part in zip(others, names, strict=True):
        if part == "hour":
            micros, forms[i], more = read_clock(columns[i])
            clock, notes = clock + micros, (*notes, *more)
        else:
            of_part = read_part(columns[i], part)
            clock, forms[i] = clock + of_part.numbers * _SIZES[part], of_part.form
    times = {name: WallTimes(of_name.days, clock) for name, of_name in day.times.items()}
    # A date may be written with a midnight of its own.
    at_midnight = lambda times: replace(times, clock=np.zeros_like(times.clock))
    ordered = lambda form: tuple(form.of(at_midnight) if i == date else forms[i] for i in range(len(columns)))
    return Column(times, day.forms, notes=notes), {name: ordered(form) for name, form in day.forms.items()}

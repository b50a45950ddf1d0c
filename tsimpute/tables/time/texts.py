"""Texts of dates and times: a column is read as a whole, in one order of day and month."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.text.row_errors import Part, RowError
from tsimpute.tables.time.text_formats import MONTH_OF, Format, formats_of
from tsimpute.tables.time.wall_times import WallTimes

READINGS = {
    "day/month/year": ("day", "month", "year"),
    "month/day/year": ("month", "day", "year"),
    "year/month/day": ("year", "month", "day"),
}
SAMPLE = 50  # Texts by which a reading is tried first
_SHAPE = str.maketrans("123456789", "000000000")
OTHER_CALENDAR = (
    "this looks like the Solar Hijri or the Islamic calendar: write Gregorian dates, as in 2024-03-31, or set time=() "
    "to take each row as one step"
)
_OTHER = re.compile(r"^\s*1[34]\d\d[-/.]\d{1,2}[-/.]\d{1,2}")
_SUMMARY = re.compile(
    r"^\W*(?:mean|average|avg|total|totals|sum|summe|gesamt|mittel|mittelwert|min|max|minimum|maximum|median|std|stdev|count"
    r"|moyenne|somme|media|promedio|suma|totale)\b",
    re.IGNORECASE,
)
_DOUBLED = re.compile(r"\d\s*[AaBb]$")
_FOREIGN = re.compile(r"\b\d{1,2}[-/. ]+([^\W\d_]{3,})\.?[-/. ,]+\d{2,4}")
_ZONED = re.compile(r"\d\s*(?:[AaPp][Mm]\s+)?(?!(?:AM|PM)$)(?:[A-Z]{2,5}|\[[\w/+-]+\])$")
_HALF_DAY = re.compile(r"\s*\d{1,2}(?::\d{2}){0,2}\s*[AaPp]\.?[Mm]\.?\s*")
_FISCAL = re.compile(r"^\s*(?:FY\s*'?\d{2,4}|\d{4}[-/]\d{2})\s*$", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class TextTimes:
    """Times of texts, all dates read in one order."""

    times: WallTimes  # (R,) of the texts that can be read
    valid: np.ndarray  # (R,) bool: the texts that can be read
    zoned: np.ndarray  # (R,) bool: the texts that have a UTC offset
    formats: tuple[Format, ...]  # in which they are written, the one with the most fields first
    finer: bool  # some text is finer than a microsecond

    def at(self, codes: np.ndarray) -> TextTimes:
        """Of texts that repeat these, (R,) numbers."""
        times = self.times if self.zoned.any() else replace(self.times, offset=None)
        return replace(self, times=times.at(codes), valid=self.valid[codes], zoned=self.zoned[codes])

    def has(self, *fields: str) -> bool:
        """Whether some text has one of these fields."""
        return any(field in format.fields for format in self.formats for field in fields)


def read_texts(texts: Sequence[str] | np.ndarray, patterns: Sequence[re.Pattern[str]]) -> dict[str, TextTimes]:
    """Times of distinct texts (R,) under each order of day, month and year that reads the most of them.

    A text can be read where its format writes it again, letter by letter. Of the ``patterns`` (``DATES``, ``CLOCKS`` or
    ``ELAPSED``) the one that fits most texts is used.
    """
    stripped = [str(text).strip() for text in texts]
    shapes, names = pd.factorize(np.array([text.translate(_SHAPE) for text in stripped], object))
    first = np.unique(shapes, return_index=True)[1]
    counts = np.bincount(shapes, minlength=len(names))
    best: list[re.Match[str]] = []
    most = 0
    for pattern in patterns:
        matches = {at: pattern.fullmatch(stripped[first[at]]) for at in np.argsort(-counts, kind="stable").tolist()}
        n_texts = sum(int(counts[at]) for at, match in matches.items() if match)
        if n_texts > most:
            best, most = [match for match in matches.values() if match], n_texts
    orders: Mapping[str, tuple[str, ...]] = {"": ()}
    if best and "a" in best[0].re.groupindex:
        short = all(len(match["c"]) == 2 for match in best)
        orders = {name: order for name, order in READINGS.items() if short or order[-1] == "year"}
    formats = {name: formats_of(best, order) for name, order in orders.items()}
    if len(formats) > 1 and len(stripped) > 2 * SAMPLE:
        some = spread(stripped, SAMPLE)
        share = {name: _read(some, of_order).valid.mean() for name, of_order in formats.items()}
        formats = {name: formats[name] for name in formats if share[name] == max(share.values())}
    return {name: _read(stripped, of_order) for name, of_order in formats.items()}


def spread(texts: list[str], n_texts: int) -> list[str]:
    """At most so many, spread over all of them."""
    return texts[:: -(-len(texts) // n_texts)]


def _read(texts: list[str], formats: Sequence[Format]) -> TextTimes:
    days, clock, offset = (np.zeros(len(texts), np.int64) for _ in range(3))
    valid, zoned = np.zeros(len(texts), bool), np.zeros(len(texts), bool)
    right: dict[Format, int] = {}
    finer = False
    for format in formats:
        rows = np.flatnonzero(~valid)
        if not len(rows):
            break
        unread = texts if len(rows) == len(texts) else [texts[row] for row in rows.tolist()]
        times, known = format.read(unread)
        if known.any():
            rows = rows[known]
            finer |= format.is_finer(unread)
            days[rows], clock[rows], valid[rows] = times.days[known], times.clock[known], True
            if times.offset is not None:
                offset[rows], zoned[rows] = times.offset[known], True
            right[format] = len(rows)
    if len(right) > 1:
        some = spread(texts, 1000)
        right = {format: int(format.read(some)[1].sum()) for format in right}
    # Midnight and whole seconds may be written shorter.
    fullest = sorted(right, key=lambda format: (*format.detail, right[format]), reverse=True)
    return TextTimes(WallTimes(days, clock, offset), valid, zoned, tuple(fullest), finer)


def parse(texts: Sequence[str] | np.ndarray, patterns: Sequence[re.Pattern[str]], *, what: str) -> dict[str, TextTimes]:
    """Reads all texts (R,), none of them blank, under each order of day, month and year that fits all of them.

    A text that cannot be read is refused; the message names the column (``what``) and the row, counted from 0.
    """
    codes, index = pd.factorize(np.asarray(texts, object))
    distinct = np.asarray(index, object)
    readings = read_texts(distinct, patterns)
    fitting = {name: reading for name, reading in readings.items() if reading.valid.all()}
    if not fitting:
        raise _unreadable(distinct, codes, readings, what)
    first, text = next(iter(fitting.values())), str(distinct[0]).strip()
    # 2009/10, 2010/11, 2011/12: years that end in the next one, and not October, November and December.
    are_months = len(distinct) >= 3 and all(format.fields == ("year", "month") for format in first.formats)
    if are_months and (first.times.part("month") == (first.times.part("year") + 1) % 100).all():
        raise DataError(
            f"{what}: expected dates, came {text!r}, {str(distinct[1]).strip()!r}, which look like fiscal years; write "
            "the day on which each begins, as in 2024-07-01."
        )
    # The months of the Solar Hijri and the Islamic calendar, whose years are such as 1402, have other lengths.
    years = [reading.times.part("year") for reading in fitting.values() if reading.has("year", "isoyear")]
    if years and all(((of_reading >= 1300) & (of_reading < 1500)).all() for of_reading in years):
        raise DataError(f"{what}: expected dates of the Gregorian calendar, came {text!r}; {OTHER_CALENDAR}.")
    zoned = first.zoned
    if zoned.any() and not zoned.all():
        bare, full = int(np.argmin(zoned)), int(np.argmax(zoned))
        raise RowError(
            f"times: expected a UTC offset in every row or in none, came {str(distinct[bare]).strip()!r} (",
            int(np.argmax(codes == bare)), f") and {str(distinct[full]).strip()!r} (", int(np.argmax(codes == full)),
            ").",
        )  # fmt: skip
    return {name: reading.at(codes) for name, reading in fitting.items()}


def _unreadable(distinct: np.ndarray, codes: np.ndarray, readings: Mapping[str, TextTimes], what: str) -> RowError:
    misfits = {name: np.flatnonzero(~reading.valid) for name, reading in readings.items()}
    each_fits = np.any([reading.valid for reading in readings.values()], axis=0).all()
    # The reading that gets furthest is the one to complain about.
    best = min(misfits, key=lambda name: (len(misfits[name]), -misfits[name][0]))
    counts, n_texts = sorted(map(len, misfits.values())), len(distinct)
    # Hardly any text is no date under one reading, and many are under all others: these few are wrong.
    few = len(counts) == 1 or (
        counts[0] <= max(1, n_texts // 10) and counts[1] > 3 * counts[0] and n_texts >= 3 * len(counts)
    )
    if each_fits and not few:
        parts: list[Part] = []
        for name, misfit in misfits.items():
            between = ", and " if parts else f"{what}: expected dates of one order of day, month and year, came "
            row = int(np.argmax(codes == misfit[0]))
            parts += [f"{between}{distinct[misfit[0]]!r} (", row, f") is no {name}"]
        return RowError(*parts, "; correct them.")
    valid = readings[best].valid
    rows = np.flatnonzero(~valid[codes])
    text = str(distinct[codes[rows[0]]])
    like = f" like that of the other rows, such as {str(distinct[valid][0]).strip()!r}" if valid.any() else ""
    many = f" ({len(rows)} of {len(codes)} rows cannot be read)" if len(rows) > 1 else ""
    return RowError(
        f"{what}, ", int(rows[0]), f": expected a date or time{like}, came {text!r}{many}; {advice_on(text)}."
    )


def fits(texts: Sequence[str] | np.ndarray, patterns: Sequence[re.Pattern[str]]) -> bool:
    """Whether ``parse`` reads all of them."""
    try:
        parse(texts, patterns, what="")
    except DataError:
        return False
    return True


def advice_on(text: str) -> str:
    """What to do about a text that cannot be read as a time."""
    if _SUMMARY.search(text):
        return "this looks like a summary of the table and not like a measurement: take the row out"
    if _OTHER.search(text):
        return OTHER_CALENDAR
    if _DOUBLED.search(text):
        return (
            "if the letter marks the hour that comes twice in autumn, take the letters off and name the time zone "
            "(timezone), or write UTC offsets"
        )
    if _HALF_DAY.fullmatch(text):
        return "a time of day with AM or PM says no day: write the date before it, or name a column of dates too (time)"
    if _ZONED.search(text):
        return "take the name of the zone off all stamps and name it (timezone), as in --timezone Europe/Berlin"
    if (name := _FOREIGN.search(text)) and name[1].lower() not in MONTH_OF:
        return f"{name[1]!r} is no English name of a month: write months as numbers, as in 2024-03-31"
    if _FISCAL.search(text):
        return "this looks like a fiscal year: write the day on which it begins, as in 2024-07-01"
    return "correct it, or take the row out"

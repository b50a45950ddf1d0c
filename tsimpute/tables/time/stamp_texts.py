"""Texts of dates and times: a column is understood as a whole, by one form and one order of day and month."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.text.row_errors import Part, RowError
from tsimpute.tables.time.stamp_advice import MONTH_OF, OTHER_CALENDAR, advice_on
from tsimpute.tables.time.stamp_forms import HOUR, MINUTE, SECOND, WEEKDAYS, TextForm, first_mondays, part_numbers

_WEEKDAY_OF = {name[:n]: i + 1 for i, name in enumerate(WEEKDAYS) for n in (3, len(name))}
READINGS = {
    "day/month/year": ("day", "month", "year"),
    "month/day/year": ("month", "day", "year"),
    "year/month/day": ("year", "month", "day"),
}
_HALF = r"(?:\s*(?P<half>[AaPp]\.?[Mm]\.?))?"
_MINUTES = r"(?:(?P<mark>[:./h-])(?P<minute>\d\d)(?:(?P=mark)(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?)"
_OFFSET = r"(?:\s*(?P<offset>[Zz]|UTC|GMT|[+-]\d\d(?::?\d\d)?))?"
_JOINED = rf"(?:(?:\s*[Tt,;:_-]\s*|\s+)(?P<hour>\d{{1,2}}){_MINUTES}?{_HALF}{_OFFSET})?"
_DAY = r"(?:(?P<dow>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*)[.,]?\s+)?"
_NAME = r"(?P<name>[A-Za-z]{3,9})"
DATES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_DAY}(?P<year>\d{{4}})(?P<dash>[-/.])(?P<month>\d{{1,2}})(?:(?P=dash)(?P<day>\d{{1,2}}))?{_JOINED}",
        rf"{_DAY}(?P<a>\d{{1,2}})(?P<dash>[-/. ])(?P<b>\d{{1,2}})(?P=dash)(?P<c>\d{{4}}|\d\d){_JOINED}",
        rf"(?P<a>\d{{1,2}}):(?P<b>\d{{1,2}}):(?P<c>\d{{4}}){_JOINED}",
        rf"(?P<year>(?:19|20)\d\d):(?P<month>\d\d):(?P<day>\d\d){_JOINED}",
        rf"{_DAY}(?P<day>\d{{1,2}})[-/. ]*{_NAME}[-/.,\s]*(?P<year>\d{{4}}|\d\d){_JOINED}",
        rf"{_DAY}{_NAME}\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<year>\d{{4}}){_JOINED}",
        rf"(?P<year>\d{{4}})[-/ ]{_NAME}[-/ ](?P<day>\d{{1,2}}){_JOINED}",
        r"(?P<month>\d{1,2})[-/](?P<year>\d{4})",
        rf"{_NAME}[-/. ](?P<year>\d{{4}})",
        rf"(?P<year>\d{{4}})(?P<month>\d\d)(?P<day>\d\d)"
        rf"(?:[Tt _]?(?P<hour>\d\d)(?:(?P<minute>\d\d)(?P<second>\d\d)?)?{_OFFSET})?",
        rf"{_DAY}{_NAME}\s+(?P<day>\d{{1,2}})\s+(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)\s+(?P<year>\d{{4}})",
        rf"(?P<year>\d{{4}})-(?P<doy>\d{{3}}){_JOINED}",
        r"(?P<isoyear>\d{4})-?[Ww](?P<week>\d\d)(?:-?(?P<weekday>[1-7]))?",
        r"(?P<year>\d{4})[-/ .]?[Qq](?P<quarter>[1-4])",
        r"[Qq](?P<quarter>[1-4])[-/ .]?(?P<year>\d{4})",
    )
)
_TAIL = r"(?:\s*(?:UTC|GMT|Z|Uhr|hrs|h))?"
CLOCKS = (
    re.compile(rf"(?P<hour>\d{{1,2}}){_MINUTES}(?:\s*(?P<half>[AaPp]\.?[Mm]\.?|[ap]))?{_TAIL}"),
    re.compile(r"(?P<hour>\d{1,2})\s*(?P<half>[AaPp]\.?[Mm]\.?)"),
    re.compile(r"(?P<hour>\d{1,2})"),
    re.compile(rf"(?P<hour>\d{{1,2}})(?P<minute>\d\d){_TAIL}"),
    re.compile(r"(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)"),
)
ELAPSED = (
    re.compile(r"(?P<hour>\d{1,5}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?"),
    re.compile(r"(?P<hour>\d{1,5})\.(?P<minute>\d\d)\.(?P<second>\d\d)"),
)
_FIELDS = {"year", "month", "day", "a", "b", "c", "name", "hour", "minute", "second", "fraction", "half", "offset"}
_FIELDS |= {"dow", "doy", "isoyear", "week", "weekday", "quarter"}


@dataclass(frozen=True, eq=False)
class TextTimes:
    """What the texts of a column say.

    Attributes:
        days: (R,) days since 1970 under each reading that fits every row; one reading unless the order of day and
            month is open. None where there is no date.
        clock: (R,) microseconds since midnight; 24:00 stands as one whole day.
        offset: (R,) microseconds ahead of UTC, or None where no text has an offset.
        forms: how to write, under each reading.
        has_clock: some text has a time of day.
        finer: some text is finer than a microsecond.
    """

    days: Mapping[str, np.ndarray] | None
    clock: np.ndarray
    offset: np.ndarray | None
    forms: Mapping[str, TextForm]
    has_clock: bool
    finer: bool = False


def parse(texts: Sequence[str] | np.ndarray, patterns: Sequence[re.Pattern[str]], *, what: str) -> TextTimes:
    """Understands all texts by the one pattern that fits most of them.

    Args:
        texts: (R,) none of them blank.
        patterns: ``DATES``, ``CLOCKS`` or ``ELAPSED``.
        what: name of the column, for messages.

    Raises:
        DataError: a text does not fit; the message names its row, counted from 0.
    """
    codes, index = pd.factorize(np.asarray(texts, object))
    distinct = np.asarray(index, object)
    matches, found = _best([str(text).strip() for text in distinct], patterns)
    misfit = np.array([match is None for match in found], bool)
    if not misfit.any():
        readings = {name: _fields(matches, order) for name, order in _orders(matches).items()}
        fitting = {name: fields for name, fields in readings.items() if _valid(fields, patterns).all()}
        if fitting:
            _check_fiscal(matches, next(iter(fitting.values())), what)
            _check_calendar(matches, fitting.values(), what)
            return _spread(matches, fitting, codes)
        misfits = [np.flatnonzero(~_valid(fields, patterns)) for fields in readings.values()]
        if min(map(len, misfits)) > 0 and len(readings) > 1 and not _few(misfits, len(distinct)):
            raise _clash(distinct, codes, readings, misfits, what)
        # The reading that gets furthest is the one to complain about.
        misfit[min(misfits, key=lambda rows: (len(rows), -rows[0]))] = True
        like = next((text for text, bad in zip(distinct, misfit, strict=True) if not bad), None)
    else:
        like = matches[0].string if matches else None
    raise _odd(distinct, codes, misfit, like, what)


def _few(misfits: list[np.ndarray], n_texts: int) -> bool:
    """Whether under one reading hardly any text is no date, and under all others many are."""
    counts = sorted(map(len, misfits))
    return counts[0] <= max(1, n_texts // 10) and counts[1] > 3 * counts[0] and n_texts >= 3 * len(misfits)


def _odd(distinct: np.ndarray, codes: np.ndarray, misfit: np.ndarray, like: str | None, what: str) -> RowError:
    """The first text that cannot be read, how many there are, and what to do."""
    rows = np.flatnonzero(misfit[codes])
    text = str(distinct[codes[rows[0]]])
    beside = f" like that of the other rows, such as {like!r}" if like is not None else ""
    many = f" ({len(rows)} of {len(codes)} rows cannot be read)" if len(rows) > 1 else ""
    return RowError(
        f"{what}, ", int(rows[0]), f": expected a date or time{beside}, came {text!r}{many}; {advice_on(text)}."
    )  # fmt: skip


def _check_fiscal(matches: list[re.Match[str]], fields: Mapping[str, np.ndarray], what: str) -> None:
    """Refuses 2009/10, 2010/11, 2011/12: years that end in the next one, and not October, November and December."""
    names = matches[0].re.groupindex
    if "dash" not in names or "month" not in names or len(matches) < 3 or any(match["day"] for match in matches):
        return
    if (fields["month"] == (fields["year"] + 1) % 100).all():
        raise DataError(
            f"{what}: expected dates, came {matches[0].string!r}, {matches[1].string!r}, which look like fiscal years; "
            "write the day on which each begins, as in 2024-07-01."
        )


def _check_calendar(matches: list[re.Match[str]], fitting: Iterable[Mapping[str, np.ndarray]], what: str) -> None:
    """Refuses years such as 1402: the months of the Solar Hijri and the Islamic calendar have other lengths."""
    if all("year" in fields and ((fields["year"] >= 1300) & (fields["year"] < 1500)).all() for fields in fitting):
        raise DataError(
            f"{what}: expected dates of the Gregorian calendar, came {matches[0].string!r}; {OTHER_CALENDAR}."
        )


def fits(texts: Sequence[str] | np.ndarray, patterns: Sequence[re.Pattern[str]]) -> bool:
    """Whether ``parse`` understands all of them."""
    try:
        parse(texts, patterns, what="")
    except DataError:
        return False
    return True


def readable(texts: Sequence[str], patterns: Sequence[re.Pattern[str]]) -> np.ndarray:
    """(N,) bool: the texts that the pattern and the order of day and month that fit most of them understand."""
    matches, found = _best([text.strip() for text in texts], patterns)
    fits = np.array([match is not None for match in found], bool)
    if matches:
        valid = [_valid(_fields(matches, order), patterns) for order in _orders(matches).values()]
        fits[fits] = max(valid, key=np.sum)
    return fits


def _best(
    texts: list[str], patterns: Sequence[re.Pattern[str]]
) -> tuple[list[re.Match[str]], list[re.Match[str] | None]]:
    """The matches of the pattern that fits most texts, and those of all texts."""
    best: list[re.Match[str] | None] = []
    for pattern in patterns:
        found = [pattern.fullmatch(text) for text in texts]
        if not best or best.count(None) > found.count(None):
            best = found
        if None not in found:
            break
    return [match for match in best if match], best


def _orders(matches: list[re.Match[str]]) -> dict[str, tuple[str, ...]]:
    if not matches or "a" not in matches[0].re.groupindex:
        return {"": ()}
    short = all(len(match["c"]) == 2 for match in matches)
    return READINGS if short else {name: order for name, order in READINGS.items() if order[-1] == "year"}


def _fields(matches: list[re.Match[str]], order: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Numbers of each field per text; absent ones as 0, day and month as 1."""
    names = matches[0].re.groupindex
    source = dict(zip(order, "abc", strict=False)) or {name: name for name in ("year", "month", "day") if name in names}
    fields = {name: _numbers(matches, group, "01") for name, group in source.items()}
    if "year" in source:
        short = np.array([len(match[source["year"]]) == 2 for match in matches], bool)
        fields["year"] += np.where(short, np.where(fields["year"] >= 69, 1900, 2000), 0)
        fields["day"] = fields.get("day", np.ones(len(matches), np.int64))
    if "name" in names:
        fields["month"] = np.array([MONTH_OF.get(match["name"].lower(), 0) for match in matches], np.int64)
    fields |= _calendar(matches)
    for name in ("hour", "minute", "second"):
        fields[name] = _numbers(matches, name, "0") if name in names else np.zeros(len(matches), np.int64)
    if "fraction" in names:
        digits = [((match["fraction"] or "") + "000000") for match in matches]
        fields["fraction"] = np.array([int(d[:6]) for d in digits], np.int64)
    if "dow" in names:
        days = [(match["dow"] or "").lower() for match in matches]
        fields["dow"] = np.array([_WEEKDAY_OF.get(day, 8 if day else 0) for day in days], np.int64)
    if "half" in names:  # 0 none, 1 before noon, 2 after noon
        fields["half"] = np.array(["?ap".index((match["half"] or "?")[0].lower()) for match in matches], np.int64)
    return fields


def _calendar(matches: list[re.Match[str]]) -> dict[str, np.ndarray]:
    """Year, month and day of texts that give the day of the year, the week or the quarter; whether the day exists."""
    names = matches[0].re.groupindex
    if "quarter" in names:
        return {"month": 3 * _numbers(matches, "quarter", "1") - 2}
    if "doy" not in names and "week" not in names:
        return {}
    whole = "year" if "doy" in names else "isoyear"
    year = _numbers(matches, whole, "1")
    days = (year - 1970).astype("M8[Y]").astype("M8[D]").astype(np.int64)
    if "doy" in names:
        days = days + _numbers(matches, "doy", "1") - 1
    else:
        days = first_mondays(year) + 7 * (_numbers(matches, "week", "1") - 1) + _numbers(matches, "weekday", "1") - 1
    found = {part: part_numbers(part, days, days) for part in ("year", "month", "day")}
    return found | {"exists": part_numbers(whole, days, days) == year}


def _numbers(matches: list[re.Match[str]], name: str, absent: str) -> np.ndarray:
    return np.array([int(match[name] or absent) for match in matches], np.int64)


def _valid(fields: Mapping[str, np.ndarray], patterns: Sequence[re.Pattern[str]]) -> np.ndarray:
    hour, minute, second = fields["hour"], fields["minute"], fields["second"]
    valid = (minute < 60) & (second < 60)
    if patterns is not ELAPSED:
        valid &= (hour < 24) | ((hour == 24) & (minute == 0) & (second == 0) & (fields.get("fraction", 0) == 0))
    if "half" in fields:
        valid &= (fields["half"] == 0) | ((hour >= 1) & (hour <= 12))
    if "exists" in fields:
        valid &= fields["exists"].astype(bool)
    if "dow" in fields:
        valid &= (fields["dow"] == 0) | (fields["dow"] == part_numbers("weekday", _days(fields), hour))
    if "year" in fields:
        month, day = fields["month"], fields["day"]
        valid &= (month >= 1) & (month <= 12) & (day >= 1) & (fields["year"] >= 1)
        valid &= _days(fields).astype("M8[D]").astype("M8[M]").astype(np.int64) == _months(fields)
    return valid


def _months(fields: Mapping[str, np.ndarray]) -> np.ndarray:
    return (fields["year"] - 1970) * 12 + fields["month"] - 1


def _days(fields: Mapping[str, np.ndarray]) -> np.ndarray:
    return _months(fields).astype("M8[M]").astype("M8[D]").astype(np.int64) + fields["day"] - 1


def _clock(fields: Mapping[str, np.ndarray]) -> np.ndarray:
    hour = fields["hour"]
    if "half" in fields:
        half = fields["half"]
        hour = np.where(half == 0, hour, hour % 12 + 12 * (half == 2))
    return hour * HOUR + fields["minute"] * MINUTE + fields["second"] * SECOND + fields.get("fraction", 0)


def _spread(
    matches: list[re.Match[str]], fitting: Mapping[str, Mapping[str, np.ndarray]], codes: np.ndarray
) -> TextTimes:
    """From the distinct texts to all rows."""
    names = matches[0].re.groupindex
    first = next(iter(fitting.values()))
    days = {name: _days(fields)[codes] for name, fields in fitting.items()} if "year" in first else None
    offsets = [match["offset"] for match in matches] if "offset" in names else []
    if any(offsets) and not all(offsets):
        bare, full = offsets.index(None), next(i for i, offset in enumerate(offsets) if offset)
        raise RowError(
            f"times: expected a UTC offset in every row or in none, came {matches[bare].string!r} (",
            int(np.argmax(codes == bare)), f") and {matches[full].string!r} (", int(np.argmax(codes == full)), ").",
        )  # fmt: skip
    return TextTimes(
        days,
        _clock(first)[codes],
        np.array([_offset(offset) for offset in offsets], np.int64)[codes] if any(offsets) else None,
        {name: _form(matches, READINGS.get(name, ())) for name in fitting},
        has_clock="hour" in names and any(match["hour"] for match in matches),
        finer="fraction" in names and any((match["fraction"] or "")[6:].strip("0") for match in matches),
    )


def _offset(text: str) -> int:
    digits = text[1:].replace(":", "").ljust(4, "0")
    if not digits.isdigit():
        return 0
    return (-1 if text[0] == "-" else 1) * (int(digits[:2]) * HOUR + int(digits[2:]) * MINUTE)


def _form(matches: list[re.Match[str]], order: tuple[str, ...]) -> TextForm:
    """Of the text with the most fields, since midnight or whole seconds may be written shorter."""
    fullest = max(matches, key=lambda match: (sum(v is not None for v in match.groups()), len(match[0])))
    meaning = dict(zip("abc", order, strict=False))
    named = [name for name in fullest.re.groupindex if name in _FIELDS and fullest[name] is not None]
    named.sort(key=fullest.start)
    pieces, at = [], 0
    for name in named:
        sample = max((match["name"] for match in matches), key=len) if name == "name" else fullest[name]
        pieces += [("", fullest.string[at : fullest.start(name)]), (meaning.get(name, name), sample)]
        at = fullest.end(name)
    pieces.append(("", fullest.string[at:]))
    bare = {
        meaning.get(name, name)
        for name in named
        if fullest[name].isdigit() and any(len(match[name] or "00") == 1 for match in matches)
    }
    return TextForm(tuple(piece for piece in pieces if piece[1]), frozenset(bare))


def _clash(
    distinct: np.ndarray,
    codes: np.ndarray,
    readings: Mapping[str, object],
    misfits: list[np.ndarray],
    what: str,
) -> RowError:
    parts: list[Part] = []
    for name, misfit in zip(readings, misfits, strict=True):
        between = ", and " if parts else f"{what}: expected dates of one order of day, month and year, came "
        parts += [f"{between}{distinct[misfit[0]]!r} (", int(np.argmax(codes == misfit[0])), f") is no {name}"]
    return RowError(*parts, "; correct them.")

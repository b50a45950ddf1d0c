"""Texts of dates and times: a column is understood as a whole, by one form and one order of day and month."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.row_errors import Part, RowError
from tsimpute.tables.stamp_forms import HOUR, MINUTE, MONTHS, SECOND, TextForm

_MONTH_OF = {name[:n]: i + 1 for i, name in enumerate(MONTHS) for n in (3, len(name))} | {"sept": 9}
READINGS = {
    "day/month/year": ("day", "month", "year"),
    "month/day/year": ("month", "day", "year"),
    "year/month/day": ("year", "month", "day"),
}
_HALF = r"(?:\s*(?P<half>[AaPp]\.?[Mm]\.?))?"
_MINUTES = r"(?:(?P<mark>[:./h-])(?P<minute>\d\d)(?:(?P=mark)(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?)"
_OFFSET = r"(?:\s*(?P<offset>[Zz]|UTC|GMT|[+-]\d\d(?::?\d\d)?))?"
_JOINED = rf"(?:(?:\s*[Tt,;:_-]\s*|\s+)(?P<hour>\d{{1,2}}){_MINUTES}?{_HALF}{_OFFSET})?"
_NAME = r"(?P<name>[A-Za-z]{3,9})"
DATES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?P<year>\d{{4}})(?P<dash>[-/.])(?P<month>\d{{1,2}})(?:(?P=dash)(?P<day>\d{{1,2}}))?{_JOINED}",
        rf"(?P<a>\d{{1,2}})(?P<dash>[-/. ])(?P<b>\d{{1,2}})(?P=dash)(?P<c>\d{{4}}|\d\d){_JOINED}",
        rf"(?P<day>\d{{1,2}})[-/. ]*{_NAME}[-/.,\s]*(?P<year>\d{{4}}|\d\d){_JOINED}",
        rf"{_NAME}\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<year>\d{{4}}){_JOINED}",
        rf"(?P<year>\d{{4}})[-/ ]{_NAME}[-/ ](?P<day>\d{{1,2}}){_JOINED}",
        rf"{_NAME}[-/. ](?P<year>\d{{4}})",
        rf"(?P<year>\d{{4}})(?P<month>\d\d)(?P<day>\d\d)"
        rf"(?:[Tt _]?(?P<hour>\d\d)(?:(?P<minute>\d\d)(?P<second>\d\d)?)?{_OFFSET})?",
    )
)
CLOCKS = (
    re.compile(rf"(?P<hour>\d{{1,2}}){_MINUTES}{_HALF}"),
    re.compile(r"(?P<hour>\d{1,2})\s*(?P<half>[AaPp]\.?[Mm]\.?)"),
    re.compile(r"(?P<hour>\d{1,2})"),
    re.compile(r"(?P<hour>\d{1,2})(?P<minute>\d\d)"),
    re.compile(r"(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)"),
)
ELAPSED = (
    re.compile(r"(?P<hour>\d{1,5}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?"),
    re.compile(r"(?P<hour>\d{1,5})\.(?P<minute>\d\d)\.(?P<second>\d\d)"),
)
_FIELDS = {"year", "month", "day", "a", "b", "c", "name", "hour", "minute", "second", "fraction", "half", "offset"}


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
    matches, odd, like = _best([str(text).strip() for text in distinct], patterns)
    if odd is None:
        readings = {name: _fields(matches, order) for name, order in _orders(matches).items()}
        fitting = {name: fields for name, fields in readings.items() if _valid(fields, patterns).all()}
        if fitting:
            return _spread(matches, fitting, codes)
        misfits = [np.flatnonzero(~_valid(fields, patterns)) for fields in readings.values()]
        # The reading that gets furthest is the one to complain about.
        odd = max(int(misfit[0]) for misfit in misfits)
        if min(map(len, misfits)) > 0 and len(readings) > 1:
            raise _clash(distinct, codes, readings, misfits, what)
    row = int(np.argmax(codes == odd))
    beside = f" like that of the other rows, such as {like!r}" if like is not None else ""
    raise RowError(
        f"{what}, ", row, f": expected a date or time{beside}, came {distinct[odd]!r}; correct it, or take the row "
        "out.",
    )  # fmt: skip


def fits(texts: Sequence[str] | np.ndarray, patterns: Sequence[re.Pattern[str]]) -> bool:
    """Whether ``parse`` understands all of them."""
    try:
        parse(texts, patterns, what="")
    except DataError:
        return False
    return True


def _best(texts: list[str], patterns: Sequence[re.Pattern[str]]) -> tuple[list[re.Match[str]], int | None, str | None]:
    """The matches of the pattern that fits most texts; else the first text it does not fit, and one that it does."""
    best: list[re.Match[str] | None] = []
    for pattern in patterns:
        found = [pattern.fullmatch(text) for text in texts]
        if None not in found:
            return [match for match in found if match], None, None
        if not best or best.count(None) > found.count(None):
            best = found
    return [], best.index(None), next((match.string for match in best if match), None)


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
        fields["month"] = np.array([_MONTH_OF.get(match["name"].lower(), 0) for match in matches], np.int64)
    for name in ("hour", "minute", "second"):
        fields[name] = _numbers(matches, name, "0") if name in names else np.zeros(len(matches), np.int64)
    if "fraction" in names:
        digits = [((match["fraction"] or "") + "000000") for match in matches]
        fields["fraction"] = np.array([int(d[:6]) for d in digits], np.int64)
    if "half" in names:  # 0 none, 1 before noon, 2 after noon
        fields["half"] = np.array(["?ap".index((match["half"] or "?")[0].lower()) for match in matches], np.int64)
    return fields


def _numbers(matches: list[re.Match[str]], name: str, absent: str) -> np.ndarray:
    return np.array([int(match[name] or absent) for match in matches], np.int64)


def _valid(fields: Mapping[str, np.ndarray], patterns: Sequence[re.Pattern[str]]) -> np.ndarray:
    hour, minute, second = fields["hour"], fields["minute"], fields["second"]
    valid = (minute < 60) & (second < 60)
    if patterns is not ELAPSED:
        valid &= (hour < 24) | ((hour == 24) & (minute == 0) & (second == 0) & (fields.get("fraction", 0) == 0))
    if "half" in fields:
        valid &= (fields["half"] == 0) | ((hour >= 1) & (hour <= 12))
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

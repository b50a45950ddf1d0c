"""What to do about texts that cannot be read as times."""

from __future__ import annotations

import re

from tsimpute.tables.time.text_formats import MONTHS

MONTH_OF = {name[:n].lower(): i + 1 for i, name in enumerate(MONTHS) for n in (3, len(name))} | {"sept": 9}
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
_ZONED = re.compile(r"\d\s*(?:[AaPp][Mm]\s+)?(?:[A-Z]{2,5}|\[[\w/+-]+\])$")
_HALF_DAY = re.compile(r"\s*\d{1,2}(?::\d{2}){0,2}\s*[AaPp]\.?[Mm]\.?\s*")
_FISCAL = re.compile(r"^\s*(?:FY\s*'?\d{2,4}|\d{4}[-/]\d{2})\s*$", re.IGNORECASE)


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
    if (found := _FOREIGN.search(text)) and found[1].lower() not in MONTH_OF:
        return f"{found[1]!r} is no English name of a month: write months as numbers, as in 2024-03-31"
    if _FISCAL.search(text):
        return "this looks like a fiscal year: write the day on which it begins, as in 2024-07-01"
    return "correct it, or take the row out"

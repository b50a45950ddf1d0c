"""What the name of a column says of time: a part of a date, a whole stamp, the start or the end of an interval."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable

TIME_NAMES = ("time", "timestamp", "datetime", "date", "stamp")
"""Of stamps, and of numbers that are times whatever they hold."""
COUNT_NAMES = ("t", "hour", "hours", "minute", "minutes", "seconds", "step", "elapsed", "elapsedtime")
"""Of numbers that are times where every row has one and there are no stamps."""

_FULL = {
    "year": ("year", "years", "yyyy", "jahr", "annee", "anno", "ano", "calendaryear", "年", "년", "год"),
    "quarter": ("quarter", "quartal", "trimestre"),
    "month": ("month", "months", "monat", "mois", "mes", "mese", "maand", "月", "월", "месяц"),
    "week": ("week", "weeks", "isoweek", "weekofyear", "weeknumber", "woche", "kw", "semaine", "semana", "周", "週"),
    "day": ("day", "days", "dayofmonth", "mday", "tag", "dia", "giorno", "jour", "日", "일", "день"),
    "doy": (
        "dayofyear", "doy", "julianday", "julday", "jday", "yday", "yearday", "ordinalday", "dayyear", "julian",
        "ordinaldate",
    ),
    "hour": (
        "hour", "hours", "hourofday", "stunde", "heure", "hora", "ora", "hourending", "hourend", "uur", "時", "时",
        "시", "час",
    ),
    "minute": ("minute", "minutes", "minuten", "minuto", "分", "분"),
    "second": ("second", "seconds", "sekunde", "seconde", "segundo"),
}  # fmt: skip
_FULL_WORDS = frozenset(word for names in _FULL.values() for word in names)
_SHORT = {
    "year": ("yy", "yr", "y"),
    "quarter": ("qtr", "q"),
    "month": ("mm", "mo", "mon", "mth", "m"),
    "week": ("wk", "w"),
    "day": ("dd", "dy", "d"),
    "doy": ("jd", "ddd", "jjj"),
    "hour": ("hr", "hh", "h", "hrs", "he"),
    "minute": ("min", "mi", "mn", "mins", "nn"),
    "second": ("ss", "sec", "s"),
}
PLAIN_SHORT = ("yy", "yr", "mo", "mth", "dy", "hh", "he", "hhmm", "hrmn", "hourminute", "doy", "jday")
"""Of the short ones those that hardly stand for anything else: ``mm`` may be rain, ``hr`` a heart rate."""
CLOCK_NAMES = (
    "hhmm", "hourminute", "hourmin", "hrmn", "hrmin", "hhmmss", "time", "timeofday", "clock", "clocktime", "zeit",
    "uhrzeit", "heure", "hora", "ora", "tijd",
)  # fmt: skip
"""Of a time of day: 1330 or 13:30."""
_QUALIFIERS = frozenset(
    ("utc", "gmt", "lst", "lt", "local", "mez", "mesz", "cet", "cest", "est", "rtm", "obs", "observation",
     "observed", "sample", "sampling", "measurement", "number", "num", "nr", "no", "y", "et", "und", "and", "e",
     "of", "the", "meter", "reading", "record", "recorded", "start", "started", "begin", "beginning", "end",
     "ending", "from", "to", "event", "open", "close", "opening", "closing", "created", "server", "device",
     "gps", "system", "hhmm", "hhmmss")
)  # fmt: skip
"""Words beside those of time that change nothing of what a column is."""
_TIME_WORDS = frozenset(
    ("time", "timestamp", "datetime", "date", "stamp", "zeit", "zeitstempel", "zeitpunkt", "uhrzeit", "datum",
     "fecha", "hora", "fechahora", "jour", "heure", "horodatage", "dateheure", "dataora", "ora", "tijd",
     "tijdstip", "epoch", "ts", "unix", "unixtime", "utctime", "localtime", "dateutc", "datelocal", "timeutc",
     "datenum", "datestr", "periodo", "period", "dt", "mjd", "yyyymmdd", "yyyymm", "yyyymmddhhmm", "yyyymmddhh",
     "yymmdd", "aammjj", "aammdd", "yyddd", "yyjjj",
     "yyyymmddhhmmss", "yyyyddd", "yyyyjjj", "yearmonth", "yearmon", "yearquarter", "yearweek", "epiweek",
     "yyyyww", "yearday", "decyear", "日期", "時間", "时间", "日時", "день", "дата", "время")
)  # fmt: skip
_KINDS = frozenset(("decimal", "excel", "matlab", "serial", "unix", "fiscal", "ms", "iso", "iso8601"))
"""Words that say how a stamp is written."""
_UNIT = re.compile(r"[\[(]([^\])]*)[\])]\s*$")
_MEASURED = frozenset(
    ("w", "kw", "mw", "wh", "kwh", "mwh", "v", "a", "va", "hz", "mm", "cm", "km", "°c", "degc", "°f", "%", "hpa", "pa",
     "bar", "mbar", "l", "m3", "m³", "m3/s", "m³/s", "l/s", "m/s", "km/h", "ppm", "ppb", "µg/m³", "μg/m³", "ug/m3",
     "w/m2", "w/m²", "kg", "€", "eur", "bpm", "mg/l")
)  # fmt: skip
"""Units of measured quantities: a daily yield, "E_Tag [Wh]", is no day."""
_LENGTHS = ("years", "months", "weeks", "days", "hours", "minutes", "seconds", "minuten")
_START = frozenset((
    "start", "open", "opening", "started", "begin", "beginning", "from", "von", "ab", "debut", "inicio",
    "desde", "since",
))  # fmt: skip
_END = frozenset((
    "end", "ending", "close", "closing", "stop", "to", "until", "till", "bis", "fin", "hasta", "final",
    "finish", "ende", "stopped",
))  # fmt: skip
_BORN = frozenset(("birth", "dob", "born", "death", "dod", "admission", "admit", "discharge", "intime", "outtime"))


def plain(name: Hashable) -> str:
    """A name without case, blanks and signs."""
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


def words_of(name: Hashable) -> list[str]:
    """The words of a name in small letters without accents and without a unit in square brackets."""
    text = re.sub(r"\[[^\]]*\]", " ", str(name))
    bare = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    bare = unicodedata.normalize("NFC", bare)  # so that Hangul stays in one piece
    parts = re.findall(r"[^\W\d_]+|\d+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", bare))
    return [part.lower() for part in parts]


def part_of(name: Hashable) -> tuple[str, bool] | None:
    """The part of a time that a name stands for, and whether the name says it in full; None where it says none.

    ``MM`` is the month and ``mm`` the minute where both stand in one table; that is for the caller to tell.
    """
    unit = _UNIT.search(str(name))
    if unit and unit[1].strip().lower() in _MEASURED:
        return None
    words = words_of(name)
    telling = [word for word in words if word not in _QUALIFIERS or len(words) == 1]
    whole = {"".join(telling), "".join(words)}
    for names, full in ((_FULL, True), (_SHORT, False)):
        for part, known in names.items():
            if whole & set(known):
                return part, full
    return ("hour", False) if whole & set(CLOCK_NAMES) else None


def is_calendar_name(name: Hashable) -> bool:
    """Whether a name says in full that a column is a part of the time, and not a length of time, such as days."""
    part, words = part_of(name), words_of(name)
    return part is not None and part[1] and not any(word in _LENGTHS for word in words)


def is_clock_name(name: Hashable) -> bool:
    """Whether a name is that of a time of day written as one number or text."""
    words = words_of(name)
    return bool({"".join(w for w in words if w not in _QUALIFIERS), "".join(words)} & set(CLOCK_NAMES))


def is_time_name(name: Hashable) -> bool:
    """Whether a name is that of a stamp: words of time, and beside them at most words that change nothing."""
    words = words_of(name)
    telling = [word for word in words if word not in _QUALIFIERS | _KINDS]
    whole = "".join(telling)
    return bool(telling) and (
        whole in _TIME_WORDS
        or all(word in _TIME_WORDS or word in _FULL_WORDS for word in telling)
        or ((part := part_of(name)) is not None and part[1])
    )


def speaks_of_time(name: Hashable) -> bool:
    """Whether some word of a name is one of time, as in "Sample Date (UTC)"."""
    words = words_of(name)
    return is_time_name(name) or any(
        word in ("date", "time", "timestamp", "datetime", "zeit", "datum", "fecha", "日期", "時間") for word in words
    )


def is_of_a_life(name: Hashable) -> bool:
    """Whether a name is that of a date that a person has once, such as the birth or the admission."""
    return bool(set(words_of(name)) & _BORN)


def edge_of(name: Hashable) -> str:
    """ "start" or "end" of an interval, "" where a name says neither."""
    words = set(words_of(name))
    return "start" if words & _START else "end" if words & _END else ""

"""Tables whose hours, days of the month or times stand in columns: refused with a recipe that makes them long."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Hashable, Sequence

import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.columns.column_names import is_feature_name
from tsimpute.tables.columns.time_names import part_of

_HOUR = re.compile(
    r"(h|hr|hour|hours|hora|heure|stunde|std|v|t|)[ _.]?(\d{1,2})(?::00|00)?(?:h|hr|hrs|\u6642|\u65f6)?", re.IGNORECASE
)
_RANGES = (list(range(24)), list(range(1, 25)))
_WHOLE_DATE = re.compile(
    r"(?:\d{4}[-/.\u5e74]?\d{1,2}[-/.\u6708]?\d{1,2}\u65e5?|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2}))"
    r"(?:[ T]0?0:00(?::00)?)?"
)
_PARTS = (
    ("year", "yy", "yyyy", "ano", "a\u00f1o", "jahr", "ann\u00e9e", "\u5e74"),
    ("month", "mm", "mes", "monat", "mois", "\u6708"),
    ("day", "dd", "dia", "d\u00eda", "tag", "jour", "\u65e5"),
)
_ITEMS = ("parameter", "item", "pollutant", "feature", "variable", "measurement", "\u6e2c\u9805", "magnitud")
_DAY = re.compile(r"(.*?)[ _.]?0?(\d{1,2})")
_MONTH = re.compile(r"\d{4}[-/.]\d{1,2}(?:[-/.]0?1)?(?: 00:00(?::00)?)?")
_YEAR = re.compile(r"(?:yr|year|x|y|f|)[ _.]?((?:18|19|20|21)\d\d)(?:\.0)?(?: ?\[YR\d{4}\])?", re.IGNORECASE)
_PERIOD = re.compile(r"(?:x|)((?:18|19|20|21)\d\d)[-_ ]?(?:Q[1-4]|M\d\d|W\d\d|-\d\d)", re.IGNORECASE)
_DATE = re.compile(
    r"(?:x|)(?:\d{4}[-/._]\d{1,2}[-/._]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2}))(?: 00:00:00)?", re.IGNORECASE
)
_VALUE = "value"
_INDICATORS = ("indicator name", "series name", "indicator", "series", "na_item", "unit")
_FEWEST_TIMES = 4
"""Columns named by times are the rows of a table when there are so many, and they are at least half of all columns."""
_SAMPLE = 1000


def check_wide_hours(frame: pd.DataFrame, read: str = "frame") -> None:
    """Refuses a table whose hours stand in 24 columns.

    ``read`` is an expression of Python that gives the frame, for the recipe.
    """
    numbered = _numbered(list(frame.columns), _HOUR)
    of_hours = [[places[hour] for hour in sorted(places)] for places in numbered if sorted(places) in _RANGES]
    taken = {at for places in of_hours for at in places}
    others = [at for at in range(frame.shape[1]) if at not in taken]
    if not of_hours or not others:
        return
    dates = [at for at in others if _hold(frame.iloc[:_SAMPLE, at], _WHOLE_DATE, lambda t: t == t.dt.normalize())]
    names = [frame.columns[at] for at in others]
    parts = [next((n for n in names if str(n).strip().casefold() in words), None) for words in _PARTS]
    if not dates and None in parts:
        return
    hours = [frame.columns[at] for at in of_hours[0]]
    date = f"long[{frame.columns[dates[0]]!r}].astype(str)" if dates else (
        "dict(" + ", ".join(f"{k}=long[{n!r}]" for k, n in zip(("year", "month", "day"), parts, strict=True)) + ")"
    )  # fmt: skip
    more = f", {hours}" if len(of_hours) > 1 else ""
    item = next((n for n in names if str(n).strip().casefold() in _ITEMS), None)
    roles = "features='value'" if item is None else f"feature={item!r}, value='value'"
    raise DataError(
        f"table: expected one row for each time, found the hours of a day in 24 columns, from {hours[0]!r} to "
        f"{hours[-1]!r}. Put them below one another with pandas, then fill the new table:\n"
        f"  long = {read}.melt({names}{more}, var_name='hour', value_name='value')\n"
        f"  hour = long['hour'].astype(str).str.extract(r'(\\d{{1,2}})')[0].astype(int)\n"
        f"  long['time'] = pandas.to_datetime({date}) + pandas.to_timedelta(hour, unit='h')\n"
        f"Then name its columns: time='time', {roles}, and group where there are several places. If these columns are "
        "no hours, name the columns to fill (features)."
    )


def _numbered(names: Sequence[Hashable], pattern: re.Pattern[str]) -> list[dict[int, int]]:
    """Places of columns by the number in their names; those of one prefix together."""
    by_prefix: dict[str, dict[int, int]] = {}
    for at, name in enumerate(names):
        if (match := pattern.fullmatch(str(name).strip())) is not None:
            by_prefix.setdefault(match[1].casefold(), {}).setdefault(int(match[2]), at)
    return list(by_prefix.values())


def _hold(column: pd.Series, pattern: re.Pattern[str], is_whole: Callable[[pd.Series], pd.Series]) -> bool:
    """Whether all texts of a column match, or all its stamps are whole days or months."""
    known = column.dropna()
    if pd.api.types.is_datetime64_any_dtype(known.dtype):
        return bool(len(known)) and bool(is_whole(known).all())
    texts = [text for item in known if (text := str(item).strip())]
    return bool(texts) and all(map(pattern.fullmatch, texts))


def check_wide_times(frame: pd.DataFrame, read: str = "frame") -> None:
    """Refuses a table whose days of the month stand in columns beside a year and a month, or whose names are times.

    ``read`` as in ``check_wide_hours``.
    """
    names = list(frame.columns)
    of_days = next((places for places in _numbered(names, _DAY) if sorted(places) == list(range(1, 32))), {})
    days = [names[of_days[day]] for day in sorted(of_days)]
    others = [name for name in names if days and name not in days]
    of_time = [(n, part[0]) for n in others if (part := part_of(n))]
    year, month = (next((n for n, part in of_time if part == wanted), None) for wanted in ("year", "month"))
    is_dated, is_first = None not in (year, month), lambda stamps: stamps.dt.day == 1
    months = [n for n in others if not is_dated and _hold(pd.Series(frame[n]).iloc[:_SAMPLE], _MONTH, is_first)]
    if is_dated or months:
        # Without columns of the days of another quantity, such as flags beside values.
        keys = [n for n in others if (match := _DAY.fullmatch(str(n).strip())) is None or not match[1]]
        parts = f"dict(year=long[{year!r}], month=long[{month!r}], day=1)"
        first = parts if is_dated else f"long[{months[0]!r}].astype(str)"
        raise DataError(
            f"table: expected one row for each time, found the days of a month in 31 columns, from {days[0]!r} to "
            f"{days[-1]!r}; days such as 30 February are none and stay out. Put them below one another with pandas, "
            f"then fill the new table:\n"
            f"  long = {read}.melt({keys}, {days}, var_name='day', value_name='value')\n"
            f"  first = pandas.to_datetime({first})\n"
            f"  day = long['day'].astype(str).str.extract(r'(\\d{{1,2}})$')[0].astype(int)\n"
            f"  long['time'] = first + pandas.to_timedelta(day - 1, unit='D')\n"
            f"  long = long[long['time'].dt.month == first.dt.month]\n"
            f"Then name its columns: time='time', features='value', and group where there are several places. If these "
            f"columns are no days, name the columns to fill (features)."
        )
    if not isinstance(frame.index, pd.DatetimeIndex | pd.PeriodIndex):
        _refuse_times(frame, read)


def _refuse_times(frame: pd.DataFrame, read: str) -> None:
    """Refuses columns that are named by years, quarters, months or dates: each row then is a series, and not a time."""
    names = list(frame.columns)
    texts, stamps = [str(name).strip() for name in names], (pd.Timestamp, pd.Period, dt.date)
    is_dated = lambda text: any(pattern.fullmatch(text) for pattern in (_YEAR, _PERIOD, _DATE))
    dated = [at for at, name in enumerate(names) if isinstance(name, stamps) or is_dated(texts[at])]
    distinct = {str(names[at]) for at in dated}
    if len(distinct) < max(_FEWEST_TIMES, (len(names) + 1) // 2) or len(distinct) != len(dated):
        return
    others = [names[at] for at in range(len(names)) if at not in dated]
    first, last = str(names[dated[0]]), str(names[dated[-1]])
    source = read if others else f"{read}.reset_index()"
    years = all(_YEAR.fullmatch(texts[at]) for at in dated)
    only = r"  long['time'] = long['time'].astype(str).str.extract(r'(\d{4})')[0].astype(int)" + "\n" if years else ""
    items = [name for name in others if is_feature_name(name) or str(name).strip().casefold() in _INDICATORS]
    complete = [name for name in others if all(pd.notna(item) and str(item).strip() for item in pd.Series(frame[name]))]
    places = [name for name in complete if name not in items]
    group = f", group={(places or others)[0]!r}" if others else ""
    roles = f"time='time', {f'feature={items[0]!r}, value={_VALUE!r}' if items else f'features={_VALUE!r}'}{group}"
    raise DataError(
        f"table: expected one row for each time, found times in the names of {len(dated):,} columns, from {first!r} to "
        f"{last!r}. Put them below one another with pandas, then fill the new table:\n"
        f"  long = {source}.melt({others or ['index']}, var_name='time', value_name='value')\n"
        f"{only}"
        f"Then name its columns: {roles} (the columns that name the series). If these columns are no times, name the "
        "columns to fill (features)."
    )

"""Tables of one row per day whose hours stand in 24 columns: told, and refused with a recipe that makes them long."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence

import pandas as pd

from tsimpute.errors import DataError

_HOUR = re.compile(
    r"(h|hr|hour|hours|hora|heure|stunde|std|v|t|)[ _.]?(\d{1,2})(?::00|00)?(?:h|hr|hrs|\u6642|\u65f6)?", re.IGNORECASE
)
_RANGES = (list(range(24)), list(range(1, 25)))
_DATE = re.compile(
    r"(?:\d{4}[-/.\u5e74]?\d{1,2}[-/.\u6708]?\d{1,2}\u65e5?|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2}))"
    r"(?:[ T]0?0:00(?::00)?)?"
)
_PARTS = (
    ("year", "yy", "yyyy", "ano", "a\u00f1o", "jahr", "ann\u00e9e", "\u5e74"),
    ("month", "mm", "mes", "monat", "mois", "\u6708"),
    ("day", "dd", "dia", "d\u00eda", "tag", "jour", "\u65e5"),
)
_ITEMS = ("parameter", "item", "pollutant", "feature", "variable", "measurement", "\u6e2c\u9805", "magnitud")
_SAMPLE = 1000


def check_wide_hours(frame: pd.DataFrame, read: str = "frame") -> None:
    """Refuses a table whose hours stand in 24 columns.

    Args:
        frame: columns of any dtype.
        read: an expression of Python that gives it, for the recipe.

    Raises:
        DataError: they do.
    """
    of_hours = _hours(list(frame.columns))
    taken = {at for places in of_hours for at in places}
    others = [at for at in range(frame.shape[1]) if at not in taken]
    if not of_hours or not others:
        return
    dates = [at for at in others if _holds_dates(frame.iloc[:_SAMPLE, at])]
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


def _hours(names: Sequence[Hashable]) -> list[list[int]]:
    """Places of 24 columns named after the hours of a day, in the order of the hours; several where names differ."""
    by_prefix: dict[str, dict[int, int]] = {}
    for at, name in enumerate(names):
        found = _HOUR.fullmatch(str(name).strip())
        if found is not None:
            by_prefix.setdefault(found[1].casefold(), {})[int(found[2])] = at
    return [[places[hour] for hour in sorted(places)] for places in by_prefix.values() if sorted(places) in _RANGES]


def _holds_dates(column: pd.Series) -> bool:
    """Whether a column holds dates without a time of day."""
    known = column.dropna()
    if pd.api.types.is_datetime64_any_dtype(known.dtype):
        return bool(len(known)) and bool((known == known.dt.normalize()).all())
    texts = [str(item).strip() for item in known]
    texts = [text for text in texts if text]
    return bool(texts) and all(map(_DATE.fullmatch, texts))

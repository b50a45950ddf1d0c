"""How time columns write: new times as texts and values in the form of the column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
"""In microseconds, in which all stamps count."""

MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip


WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CALENDAR = {"quarter", "isoyear", "week", "weekday", "doy"}
"""Parts that few forms have."""


class Form(Protocol):
    """How a column writes new times."""

    def texts(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> list[str]: ...

    def values(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> pd.Series: ...


@dataclass(frozen=True)
class TextForm:
    """How a column writes its times: the pieces of one text, (field, sample) or ("", literal).

    Attributes:
        pieces: in order.
        bare: fields that are written without a leading zero.
    """

    pieces: tuple[tuple[str, str], ...]
    bare: frozenset[str]

    def texts(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> list[str]:
        """Texts of new times.

        Args:
            days: (R,) days since 1970 by the wall clock.
            clock: (R,) microseconds since midnight.
            offset: (R,) microseconds that the wall clock is ahead of UTC.
        """
        months = days.astype("M8[D]").astype("M8[M]")
        month = months.astype(np.int64) % 12 + 1
        hour = clock // HOUR
        half_day = any(field == "half" for field, _ in self.pieces)
        fields = {
            "year": months.astype("M8[Y]").astype(np.int64) + 1970,
            "month": month,
            "name": month,
            "day": days - months.astype("M8[D]").astype(np.int64) + 1,
            "hour": (hour - 1) % 12 + 1 if half_day else hour,
            "minute": clock // MINUTE % 60,
            "second": clock // SECOND % 60,
            "fraction": clock % SECOND,
            "half": hour % 24 // 12,
            "dow": (days + 3) % 7 + 1,
            "offset": offset // MINUTE,
        }
        wanted = {field for field, _ in self.pieces}
        fields |= {part: part_numbers(part, days, clock) for part in _CALENDAR & wanted}
        columns = [
            [_written(field, sample, int(value), field in self.bare) for value in fields[field]]
            if field
            else [sample] * len(days)
            for field, sample in self.pieces
        ]
        return ["".join(row) for row in zip(*columns, strict=True)]


@dataclass(frozen=True)
class NumberForm:
    """Numbers with so many decimals; ``restore`` brings texts or numbers into the dtype of the column."""

    name: Any
    dtype: Any
    decimals: int | None
    comma: bool = False

    def texts(self, numbers: np.ndarray) -> list[str]:
        if self.decimals is None:
            return [repr(number) for number in numbers.tolist()]
        texts = [f"{number:.{self.decimals}f}" for number in numbers.tolist()]
        return [text.replace(".", ",") for text in texts] if self.comma else texts

    def values(self, numbers: np.ndarray) -> pd.Series:
        if pd.api.types.is_numeric_dtype(self.dtype):
            whole = pd.api.types.is_integer_dtype(self.dtype)
            return pd.Series(
                np.rint(numbers) if whole and numbers.dtype.kind == "f" else numbers, name=self.name
            ).astype(self.dtype)
        return pd.Series(self.texts(numbers), name=self.name, dtype=self.dtype)


@dataclass(frozen=True, eq=False)
class RestoredForm:
    """Texts, and through them the values of a column of texts, whole numbers, dates or times of day."""

    text: TextForm
    name: Any
    restore: Callable[[list[str]], pd.Series]

    def texts(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> list[str]:
        return self.text.texts(days, clock, offset)

    def values(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> pd.Series:
        return self.restore(self.texts(days, clock, offset)).rename(self.name)


@dataclass(frozen=True, eq=False)
class TypedForm:
    """Time stamps, periods and time differences in the dtype of the column."""

    name: Any
    dtype: Any
    elapsed: bool = False

    def texts(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> list[str]:
        return self.values(days, clock, offset).astype(str).tolist()

    def values(self, days: np.ndarray, clock: np.ndarray, offset: np.ndarray) -> pd.Series:
        micros = days * DAY + clock
        if self.elapsed:
            return pd.Series(micros.astype("m8[us]"), name=self.name).astype(self.dtype)
        if isinstance(self.dtype, pd.PeriodDtype):
            wall = pd.DatetimeIndex(micros.astype("M8[us]"))
            return pd.Series(wall.to_period(self.dtype.freq), name=self.name)
        zone = getattr(self.dtype, "tz", None)
        if zone is None:
            return pd.Series(micros.astype("M8[us]"), name=self.name).astype(self.dtype)
        instants = pd.DatetimeIndex((micros - offset).astype("M8[us]"), tz="UTC").tz_convert(zone)
        return pd.Series(instants, name=self.name).astype(self.dtype)


def _written(field: str, sample: str, value: int, bare: bool) -> str:
    if field == "year":
        return f"{value % 100:02d}" if len(sample) == 2 else f"{value:04d}"
    if field in ("name", "dow"):
        name = (MONTHS if field == "name" else WEEKDAYS)[value - 1]
        name = name if len(sample) > 3 else name[:3]
        return name.upper() if sample.isupper() else name if sample.islower() else name.title()
    if field == "fraction":
        return f"{value:06d}".ljust(9, "0")[: len(sample)]
    if field == "half":
        letter = "ap"[value]
        return (letter.upper() if sample[0].isupper() else letter) + sample[1:]
    if field == "offset":
        return _written_offset(sample, value)
    return str(value) if bare else f"{value:0{len(sample) if field in ('doy', 'isoyear') else 2}d}"


def _written_offset(sample: str, minutes: int) -> str:
    if sample[0] not in "+-":
        return sample
    hours, rest = divmod(abs(minutes), 60)
    colon = ":" * (":" in sample)
    tail = f"{colon}{rest:02d}" if len(sample) > 3 or rest else ""
    return f"{'-' if minutes < 0 else '+'}{hours:02d}{tail}"


def part_numbers(part: str, days: np.ndarray, clock: np.ndarray) -> np.ndarray:
    """What a part of the time is at days since 1970 and microseconds since midnight, (R,) int64."""
    if part in ("hour", "minute", "second", "hhmm", "hhmmss"):
        hour, minute, second = clock // HOUR, clock // MINUTE % 60, clock // SECOND % 60
        if part == "hhmm":
            return hour * 100 + minute
        if part == "hhmmss":
            return hour * 10_000 + minute * 100 + second
        return {"hour": hour, "minute": minute, "second": second}[part]
    date = days.astype("M8[D]")
    months, years = date.astype("M8[M]").astype(np.int64), date.astype("M8[Y]")
    year = years.astype(np.int64) + 1970
    if part == "year2":
        return year % 100
    if part in ("isoyear", "week"):
        calendar = pd.DatetimeIndex(date.astype("M8[s]")).isocalendar()
        return calendar["year" if part == "isoyear" else "week"].to_numpy(np.int64)
    numbers = {
        "year": year,
        "weekday": (days + 3) % 7 + 1,
        "quarter": months % 12 // 3 + 1,
        "month": months % 12 + 1,
        "day": days - date.astype("M8[M]").astype("M8[D]").astype(np.int64) + 1,
        "doy": days - years.astype("M8[D]").astype(np.int64) + 1,
    }
    return numbers[part]


def first_mondays(years: np.ndarray) -> np.ndarray:
    """(R,) days since 1970 on which the first ISO week of each year begins: that of the 4th of January."""
    fourth = (years - 1970).astype("M8[Y]").astype("M8[D]").astype(np.int64) + 3
    return fourth - (fourth + 3) % 7

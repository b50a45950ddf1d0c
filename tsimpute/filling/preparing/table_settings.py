"""The settings of a table imputer, normalised: one form for each of the forms in which a caller may give them.

The constructor stores settings as they were given, as scikit-learn's estimators do; they are normalised where they are
used. A wrong type or value is a ``ConfigError`` here, never an error of the code that uses the setting.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd

from tsimpute.core.limits import Limits
from tsimpute.errors import ConfigError
from tsimpute.filling.blending.mixture import MODEL_KINDS
from tsimpute.filling.learning.learning import EFFORTS
from tsimpute.imputers.base import TableModel
from tsimpute.tables.clock.duplicates import Duplicates
from tsimpute.tables.clock.missing_times import MissingTimes
from tsimpute.tables.frames.frames import Records, TimeOptions
from tsimpute.tables.roles.columns import ColumnSpec

NO_COLUMN = "none"
"""The value of ``time`` and ``group`` for a table without such a column."""

OF_CALLS = {
    "model", "seed", "effort", "minutes", "calibrate", "recalibrate", "keep_samples", "max_gap",
    "no_information",
}  # fmt: skip
"""Settings of single calls. All others say how a table is read, or belong to a calibration."""

Codes = Mapping[str, tuple[float, ...] | Literal["certain"]]
"""Codes for missing by feature, "*" = all others: numbers, or those that are certain in the table."""


@dataclass(frozen=True)
class Settings:
    """Settings of ``TableImputer``; see there.

    Attributes:
        spec: the roles of columns.
        time_options: how times are read.
        rename: names of the model by names of the table.
        units: by feature, "*" = all others.
        limits: by feature, "*" = all others; or a text, which is parsed when the features are known.
        codes: for missing, by feature, "*" = all others.
        levels: of the quantiles, increasing.
    """

    model: TableModel | str | Path | None
    spec: ColumnSpec
    time_options: TimeOptions
    rename: Mapping[str, str]
    units: Mapping[str, str]
    limits: Mapping[str, Limits] | str
    codes: Codes
    drop_invalid: bool
    predict: tuple[Hashable, ...] | None
    no_information: Literal["fill", "empty"]
    max_gap: int | None
    calendar: bool
    n_samples: int
    levels: tuple[float, ...]
    seed: int
    effort: str
    minutes: float | None
    calibrate: bool
    recalibrate: bool
    keep_samples: bool


def normalised(given: Mapping[str, Any]) -> Settings:
    """All settings of ``TableImputer`` by name in one form; a ConfigError where one is wrong or out of range."""
    model = given["model"]
    if model is not None and not isinstance(model, (*MODEL_KINDS, str, Path)):
        raise ConfigError(
            f"model: expected a fitted model that fills tables, its file or the name of a bundled one, came {model!r}."
        )
    limits, units = given["limits"], given["units"]
    switches = ("drop_invalid", "calendar", "calibrate", "recalibrate", "keep_samples")
    return Settings(
        model=model,
        spec=_spec(given),
        time_options=_time_options(given),
        rename=_texts_by_name(
            "rename", given["rename"], "names of the model by names of the table", 'rename={"HeartRate": "HR"}'
        ),
        units=_texts_by_name(
            "units", {"*": units} if isinstance(units, str) else units,
            "a unit of all features or units by feature", 'units="m" or units={"a": "m", "b": "mm"}',
        ),
        limits=limits if isinstance(limits, str) else limits_by_name(limits),
        codes=codes_by_name(given["missing_codes"]),
        predict=columns_of("predict", given["predict"]),
        no_information=cast(Any, one_of("no_information", given["no_information"], ("fill", "empty"))),
        max_gap=whole_number("max_gap", given["max_gap"], 0, or_none=True),
        n_samples=whole_number("n_samples", given["n_samples"], 1),
        levels=levels_of(given["quantiles"]),
        seed=whole_number("seed", given["seed"]),
        effort=one_of("effort", given["effort"], EFFORTS),
        minutes=_minutes(given["minutes"], given["effort"]),
        **{name: true_or_false(name, given[name]) for name in switches},
    )  # fmt: skip


def check_together(settings: Settings) -> None:
    """Refuses (ConfigError) two settings of which one would be ignored."""
    if settings.recalibrate and settings.model is None:
        raise ConfigError(
            "recalibrate: expected the file of an earlier fit with it (model), came none. Leave recalibrate out: what "
            "is learnt from a table is calibrated on it."
        )
    if settings.recalibrate and not settings.calibrate:
        raise ConfigError(
            "recalibrate: expected calibrate=True with it, came calibrate=False, which measures nothing. Leave one of "
            "them out."
        )
    if settings.spec.categories and settings.time_options.records != "rows":
        raise ConfigError(
            f"categories: expected records='rows' with it, came {', '.join(map(str, settings.spec.categories))} for "
            "series in time. Leave categories out; columns of texts are passed through unchanged."
        )
    if settings.time_options.irregular and settings.time_options.missing_times == "insert":
        raise ConfigError(
            "missing_times: expected a regular clock with missing_times='insert', came irregular=True, which takes the "
            "times as they are. Leave one of them out."
        )


def _spec(given: Mapping[str, Any]) -> ColumnSpec:
    feature, value, unit = (_one_column(name, given[name]) for name in ("feature", "value", "unit"))
    features = columns_of("features", given["features"])
    if features == ():
        raise ConfigError("features: expected one or more columns to fill, came none. Name them, or leave it out.")
    time, group = (
        () if isinstance(given[name], str) and given[name] == NO_COLUMN else columns_of(name, given[name])
        for name in ("time", "group")
    )
    if given["records"] == "rows":
        columns = {"time": time or None, "group": group or None}
        for name in ("time", "group", "feature", "value", "unit", "max_gap", "calendar"):
            other = columns.get(name, given[name])
            if other is not None and other is not False and not (isinstance(other, str) and other == NO_COLUMN):
                raise ConfigError(
                    f"{name}: expected none with records='rows', where each row is a record without time, came "
                    f"{name}={given[name]!r}. Leave one of both out."
                )
        time = group = ()
    text, categories = columns_of("text", given["text"]), columns_of("categories", given["categories"]) or ()
    return ColumnSpec(
        time, group, features, feature, value, unit, text=text, categories=dict.fromkeys(categories, ())
    )  # fmt: skip


def _time_options(given: Mapping[str, Any]) -> TimeOptions:
    zone = given["timezone"]
    if zone is not None and not isinstance(zone, str | tzinfo):
        raise ConfigError(f"timezone: expected a text such as 'Europe/Rome', or None; came {zone!r}.")
    return TimeOptions(
        timezone=str(zone) if isinstance(zone, tzinfo) else zone,
        dayfirst=true_or_false("dayfirst", given["dayfirst"], or_none=True),
        duplicates=cast(Any, one_of("duplicates", given["duplicates"], get_args(Duplicates))),
        missing_times=cast(Any, one_of("missing_times", given["missing_times"], get_args(MissingTimes))),
        irregular=true_or_false("irregular", given["irregular"], or_none=True),
        records=cast(Any, one_of("records", given["records"], get_args(Records))),
    )


def columns_of(setting: str, given: Any) -> tuple[Hashable, ...] | None:
    """Names of columns; a single name is one column."""
    if given is None:
        return None
    names = listed(given) if is_list(given) else [given]
    for name in names:
        if isinstance(name, bool | bytes | Iterator) or not isinstance(name, Hashable):
            raise ConfigError(
                f"{setting}: expected the name of a column or a list of names, came {given!r}. Give for example "
                f'{setting}="a" or {setting}=["a", "b"].'
            )
    return tuple(names)


def _one_column(setting: str, given: Any) -> Hashable | None:
    names = columns_of(setting, given)
    if names is not None and len(names) != 1:
        raise ConfigError(f"{setting}: expected the name of one column, came {given!r}. Name one, or leave it out.")
    return None if names is None else names[0]


def _texts_by_name(setting: str, given: Any, expected: str, example: str) -> Mapping[str, str]:
    """Texts by the name of a column; None is none."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for text in given.values()):
        raise ConfigError(f"{setting}: expected {expected}, came {given!r}. Give for example {example}.")
    return {str(name): text for name, text in given.items()}


def limits_by_name(given: Any) -> dict[str, Limits]:
    """Limits by feature; a pair bounds all features."""
    if given is None:
        return {}
    if isinstance(given, Limits) or (is_list(given) and len(listed(given)) == 2):
        given = {"*": given}
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"limits: expected a lowest and a highest value of all features, or limits by feature, came {given!r}. "
            'Give for example limits=(0, None) or limits={"a": (0, 100), "*": (0, None)}.'
        )
    by_name = {}
    for name, value in given.items():
        bounds = listed(value) if is_list(value) else []
        numbers = [None if bound is None else plain_number(bound) for bound in bounds]
        if isinstance(value, Limits):
            by_name[str(name)] = value
        elif len(bounds) == 2 and all(b is None or n is not None for b, n in zip(bounds, numbers, strict=True)):
            by_name[str(name)] = Limits(numbers[0], numbers[1])
        else:
            raise ConfigError(
                f"limits of {str(name)!r}: expected a lowest and a highest value (or None), came {value!r}."
            )
    return by_name


def codes_by_name(given: Any) -> Codes:
    """Codes for missing by feature; without names they are those of all features. NaN is no code: it is missing."""
    if isinstance(given, Mapping):
        return {str(name): _codes(codes, given) for name, codes in given.items()}
    return {"*": _codes(given, given)}


def _codes(codes: Any, given: Any) -> tuple[float, ...] | Literal["certain"]:
    if isinstance(codes, str) and codes in ("certain", "none"):
        return "certain" if codes == "certain" else ()
    numbers = [plain_number(code) for code in (listed(codes) if is_list(codes) else [codes]) if not is_blank(code)]
    if codes is None or any(number is None for number in numbers):
        raise ConfigError(
            f"missing_codes: expected 'certain', 'none', a number, a list of numbers, or these by feature; came "
            f'{given!r}. Give for example missing_codes=-999, missing_codes=[-200, -999] or missing_codes={{"a": -1, '
            '"*": "certain"}.'
        )
    return tuple(number for number in numbers if number is not None)


def levels_of(given: Any) -> tuple[float, ...]:
    """The levels of the quantiles, increasing; a number is one level."""
    levels = [plain_number(level) for level in (listed(given) if is_list(given) else [given])]
    if not levels or not all(level is not None and 0 < level < 1 for level in levels):
        raise ConfigError(
            f"quantiles: expected one or more levels in (0, 1), came {given!r}. Give for example quantiles=(0.05, 0.5, "
            "0.95)."
        )
    return tuple(sorted({level for level in levels if level is not None}))


def _minutes(given: Any, effort: Any) -> float | None:
    if given is None:
        return None
    minutes = plain_number(given)
    if minutes is None or not minutes > 0:
        raise ConfigError(f"minutes: expected a number above 0, came {given!r}. Leave it out for 5 minutes.")
    if effort != "auto":
        raise ConfigError(f"minutes: expected it with effort='auto', came effort={effort!r}. Leave one of both out.")
    return minutes


def is_list(given: Any) -> bool:
    """Whether it is several values: a list, tuple, set, array, index or column; a 0-d array is one value."""
    if isinstance(given, np.ndarray):
        return given.ndim > 0
    return isinstance(given, list | tuple | range | AbstractSet | pd.Index | pd.Series)


def listed(given: Any) -> list[Any]:
    """Several values as a list of Python objects; a set is sorted."""
    if isinstance(given, np.ndarray | pd.Index | pd.Series):
        return given.tolist()
    return sorted(given, key=repr) if isinstance(given, set | frozenset) else list(given)


def plain_number(given: Any) -> float | None:
    """A number of any library as a float; None for anything else, also for True and False."""
    if isinstance(given, np.ndarray) and given.ndim == 0:
        given = given.item()
    if isinstance(given, bool | np.bool_) or not isinstance(given, Real | Decimal):
        return None
    return float(given)


def is_blank(given: Any) -> bool:
    """Whether it is itself a missing value, as NaN or ``pandas.NA`` in a list."""
    return given is pd.NA or given is pd.NaT or (isinstance(given, float | np.floating) and bool(np.isnan(given)))


def whole_number(setting: str, given: Any, least: int | None = None, or_none: bool = False) -> Any:
    """A whole number of any library as an int, at least ``least``; None is returned where it is allowed."""
    if given is None and or_none:
        return None
    if isinstance(given, np.ndarray) and given.ndim == 0:
        given = given.item()
    is_whole = isinstance(given, Integral) and not isinstance(given, bool | np.bool_)
    number = int(given) if isinstance(given, Integral) else 0
    if not is_whole or (least is not None and number < least):
        described = "a whole number" + ("" if least is None else f" from {least}") + " or None" * or_none
        raise ConfigError(f"{setting}: expected {described}, came {given!r}.")
    return number


def true_or_false(setting: str, given: Any, or_none: bool = False) -> Any:
    """A bool; None is returned where it is allowed."""
    if isinstance(given, bool | np.bool_) or (or_none and given is None):
        return None if given is None else bool(given)
    raise ConfigError(f"{setting}: expected True or False{' or None' * or_none}, came {given!r}.")


def one_of(setting: str, given: Any, words: Iterable[str]) -> str:
    """One of several texts."""
    known = tuple(words)
    if not isinstance(given, str) or given not in known:
        raise ConfigError(f"{setting}: expected one of {', '.join(known)}; came {given!r}.")
    return given


def is_same(given: Any, default: Any) -> bool:
    """Whether a setting was left at its default."""
    return (
        given is default
        or (type(given) is type(default) and not is_list(given) and bool(given == default))
        or (isinstance(given, tuple | list) and is_list(default) and list(given) == list(default))
    )

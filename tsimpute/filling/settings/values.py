"""Single values of settings: texts, numbers, lists and yes or no, each accepted in the forms that people have it in."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.errors import ConfigError


def is_list(given: Any) -> bool:
    """Whether it is several values: a list, a tuple, an array, an index or a column; an array of no axis is not."""
    if isinstance(given, np.ndarray):
        return given.ndim > 0
    return isinstance(given, list | tuple | range | AbstractSet | pd.Index | pd.Series)


def listed(given: Any) -> list[Any]:
    """Several values as a list of Python's own; a set has no order, and is sorted."""
    if isinstance(given, np.ndarray | pd.Index | pd.Series):
        return given.tolist()
    return sorted(given, key=repr) if isinstance(given, set | frozenset) else list(given)


def plain_number(given: Any) -> float | None:
    """A number as a float, whatever library it is of; None where it is none. True and False are none."""
    if isinstance(given, np.ndarray) and given.ndim == 0:
        given = given.item()
    if isinstance(given, bool | np.bool_) or not isinstance(given, Real | Decimal):
        return None
    return float(given)


def is_blank(given: Any) -> bool:
    """Whether it stands for a missing value itself, as NaN or ``pandas.NA`` does in a list."""
    return given is pd.NA or given is pd.NaT or (isinstance(given, float | np.floating) and bool(np.isnan(given)))


def whole_number(setting: str, given: Any, least: int | None = None, or_none: bool = False) -> Any:
    """A whole number of any library as an int; None is passed through where it is allowed.

    Raises:
        ConfigError: it is none, or below ``least``.
    """
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
    """A bool; None is passed through where it is allowed.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(given, bool | np.bool_) or (or_none and given is None):
        return None if given is None else bool(given)
    raise ConfigError(f"{setting}: expected True or False{' or None' * or_none}, came {given!r}.")


def one_of(setting: str, given: Any, words: Iterable[str]) -> str:
    """A text out of several.

    Raises:
        ConfigError: it is none of them.
    """
    known = tuple(words)
    if not isinstance(given, str) or given not in known:
        raise ConfigError(f"{setting}: expected one of {', '.join(known)}; came {given!r}.")
    return given


def optional_text(setting: str, given: Any, example: str) -> str | None:
    """A text or None.

    Raises:
        ConfigError: it is neither.
    """
    if given is None or isinstance(given, str):
        return given
    raise ConfigError(f"{setting}: expected a text such as {example!r}, or None; came {given!r}.")


def is_same(given: Any, default: Any) -> bool:
    """Whether a setting was left at its default."""
    return (
        given is default
        or (type(given) is type(default) and not is_list(given) and bool(given == default))
        or (isinstance(given, tuple | list) and is_list(default) and list(given) == list(default))
    )

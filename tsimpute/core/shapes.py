"""What containers share: checks of shapes, masks and names, how they show themselves, and how parts are joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from tsimpute.errors import DataError

_Part = TypeVar("_Part")


def check_shape(name: str, value: object, expected: tuple[int, ...]) -> None:
    if value is None:
        return
    shape = tuple(value.shape) if hasattr(value, "shape") else (len(value),)  # type: ignore[attr-defined, arg-type]
    if shape != expected:
        raise DataError(f"{name}: expected shape {expected}, came {shape}.")


def check_mask(name: str, mask: np.ndarray | None, expected: tuple[int, ...]) -> None:
    check_shape(name, mask, expected)
    if mask is not None and mask.dtype != bool:
        raise DataError(f"{name}: expected a bool mask, came dtype {mask.dtype}.")


def check_distinct(name: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(n for n in names if list(names).count(n) > 1)
        raise DataError(f"{name}: expected distinct names, {twice!r} comes more than once.")


def check_numbers(name: str, value: object, kinds: str) -> None:
    """Refuses, with a DataError, what is no NumPy array of a dtype kind in ``kinds``, such as "f" for floats."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
        came = f"dtype {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        expected = "floats" if kinds == "f" else "numbers"
        raise DataError(f"{name}: expected a NumPy array of {expected}, came {came}.")


class ShortRepr:
    """A dataclass that shows arrays by type and shape and long tuples by their ends: it may hold millions of numbers.

    Decorate with ``@dataclass(repr=False)``.
    """

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={_short(getattr(self, f.name))}" for f in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({shown})"


def _short(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"<{value.dtype} {tuple(value.shape)}>"
    if isinstance(value, tuple) and len(value) > 3:
        return f"({value[0]!r}, ..., {value[-1]!r}; {len(value):,})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))}{',' * (len(value) == 1)})"
    return repr(value)


def joined(parts: Sequence[_Part]) -> _Part:
    """One dataclass of arrays of several of the kind, one after the other along the first axis."""
    kind = type(parts[0])
    return kind(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(kind)))  # type: ignore[arg-type]

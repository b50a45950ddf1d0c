"""Columns of digits: whole numbers, or texts of them, with the zeros that are written before them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.tables.text.row_errors import RowError

_DIGITS = re.compile(r"\d{1,18}|[1-8]\d{18}", re.ASCII)


@dataclass(frozen=True, eq=False)
class Digits:
    """Whole numbers that are 0 or more.

    Attributes:
        numbers: (R,) int64.
        width: they are written with zeros before them up to so many digits; 0 = without.
        name, dtype: of the column.
        as_text: its values are texts.
    """

    numbers: np.ndarray
    width: int
    name: Any
    dtype: Any
    as_text: bool = False

    def texts(self, numbers: np.ndarray) -> list[str]:
        """How the column writes new numbers."""
        return [str(number).zfill(self.width) for number in numbers.tolist()]

    def values(self, numbers: np.ndarray) -> pd.Series:
        """New numbers in the dtype of the column."""
        dtype = object if isinstance(self.dtype, pd.CategoricalDtype) else self.dtype
        new = self.texts(numbers) if self.as_text else numbers.tolist()
        return pd.Series(new, name=self.name, dtype=dtype)


def digits_of(column: pd.Series | pd.Index) -> Digits | None:
    """A column as whole numbers, or None where some row holds something else or nothing.

    Raises:
        RowError: texts are written with zeros before them in some rows and without in others.
    """
    kind = column.dtype
    if not len(column) or pd.api.types.is_bool_dtype(kind) or pd.isna(column).any():
        return None
    if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind):
        values = pd.Series(column).to_numpy(np.float64)
        if not (np.isfinite(values).all() and (values == np.rint(values)).all() and values.min() >= 0):
            return None
        whole = pd.api.types.is_integer_dtype(kind)
        if not whole and values.max() >= 2**53:
            return None
        return Digits(pd.Series(column).to_numpy(np.int64), 0, column.name, kind)
    items = column.tolist()
    if all(isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 2**62 for item in items):
        return Digits(np.array(items, np.int64), 0, column.name, np.dtype(object))
    if not all(isinstance(item, str) and _DIGITS.fullmatch(item.strip()) for item in items):
        return None
    texts = [item.strip() for item in items]
    padded = [len(text) for text in texts if text[0] == "0" and len(text) > 1]
    width = padded[0] if padded else 0
    numbers = np.array(texts, np.int64)
    odd = [row for row, text in enumerate(texts) if str(int(text)).zfill(width) != text]
    if odd:
        like = next(text for text in texts if text[0] == "0" and len(text) == width)
        raise RowError(
            f"time column {column.name!r}, ", odd[0], f": expected {width} digits as in {like!r}, came "
            f"{texts[odd[0]]!r}; write all rows in one form.",
        )  # fmt: skip
    return Digits(numbers, width, column.name, kind, as_text=True)

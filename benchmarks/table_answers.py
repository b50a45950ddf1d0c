"""What a method says of the cells of a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Answer:
    """Of the cells of a table (T, K); hidden ones are looked at.

    Attributes:
        point: what it fills with: the median, where it draws.
        mean: of its draws, or the point.
        draws: (S, T, K), or None where it gives one answer.
        low, high: ends of the 90 % interval that it delivers, or None.
        seconds: wall and CPU seconds, where another program has measured its own; None = those of the call.
        delivered: what it says that it fills with, where it chooses.
    """

    point: np.ndarray
    mean: np.ndarray
    draws: np.ndarray | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    seconds: tuple[float, float] | None = None
    delivered: str = ""

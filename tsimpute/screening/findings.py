"""What looks wrong in a feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "outside limits",
    "code",
    "stuck",
    "never observed",
    "constant",
    "cut off",
    "percent",
    "isolated extreme",
    "mixed units",
]


@dataclass(frozen=True)
class Finding:
    """One thing in one feature that is worth a look.

    Attributes:
        kind: of thing.
        feature: its name.
        text: one line for people; begins with the feature's name.
        n_cells: cells it concerns, over all series.
        value: the code, the stuck value, or the most extreme one; None where no value is concerned.
    """

    kind: Kind
    feature: str
    text: str
    n_cells: int
    value: float | None = None

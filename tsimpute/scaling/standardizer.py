"""Standardisation per feature, after a map that keeps its limits, fitted on cells that may be seen in training only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from tsimpute.core.limits import Limits, limits_of, refuse_outside
from tsimpute.core.shapes import ShortRepr
from tsimpute.core.windows import Windows
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
        low, high = self.limits.bounds
        if self.limits.integer:
            return np.clip(np.rint(x) + 0.0, low, high)  # -0.0 becomes 0.0
        return np.clip(x, _inside(low, np.inf, scale), _inside(high, -np.inf, scale))

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


class Scale(Protocol):
    """To numbers that a network learns, and back."""

    def transform(self, values: np.ndarray) -> np.ndarray:
        """(..., K, L) data units to float64, NaN staying NaN; the input is not changed."""
        ...

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """(..., K, L) numbers back to the data's units, float64."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Standardizer(ShortRepr):
    """Mean and standard deviation of each of K features, and from how many cells they come.

    Attributes:
        mean: (K,) float64, in the data's units; 0 for a feature that was never shown.
        std: (K,) float64, population standard deviation (divided by n, as CSDI does) in the data's units; 1 for a
            feature that is constant or was never shown.
        n_cells: (K,) int, cells that the two numbers come from; 0 = never shown.
        warps: K maps of limited features onto all numbers, None for a feature without limits; ``mean`` and ``std`` are
            then those of the mapped values. None = no feature has limits.

    Raises:
        DataError: shapes disagree, a number is not finite, or a standard deviation is not positive.
    """

    mean: np.ndarray
    std: np.ndarray
    n_cells: np.ndarray
    warps: tuple[SupportBijection | None, ...] | None = None

    def __post_init__(self) -> None:
        shapes = (self.mean.shape, self.std.shape, self.n_cells.shape)
        if len(set(shapes)) != 1 or self.mean.ndim != 1:
            raise DataError(f"scaler: expected mean, std and n_cells of one shape (features,), came {shapes}.")
        if not (np.isfinite(self.mean).all() and np.isfinite(self.std).all() and (self.std > 0).all()):
            raise DataError(
                "scaler: expected finite means and positive finite standard deviations; "
                f"came mean {self.mean.tolist()}, std {self.std.tolist()}."
            )
        if self.warps is not None and len(self.warps) != len(self.mean):
            raise DataError(f"scaler: expected {len(self.mean)} warps, one a feature, came {len(self.warps)}.")

    @classmethod
    def fit(cls, windows: Windows, limits: Mapping[str, Limits] | None = None) -> Standardizer:
        """The mean and standard deviation of each feature over ``windows.visible``; held-out cells are not looked at.

        Args:
            windows: N records.
            limits: of features by name, "*" for all that are not named; None or ``Limits()`` = none.

        Raises:
            DataError: a shown value lies outside its limits.
            ConfigError: limits are given for a feature that is not there.
        """
        values, shown, names = windows.values, windows.visible, [feature.name for feature in windows.features]
        given = limits_of(names, limits or {})
        if all(bounds == Limits() for bounds in given):
            return cls.fit_cells(values, shown)
        warps, stats = [], []
        for k, bounds in enumerate(given):
            x = values[:, k][shown[:, k]].astype(np.float64)
            warps.append(None if bounds == Limits() else SupportBijection.fit(bounds, x, names[k]))
            stats.append(_mean_std(_forward(warps[k], x)))
        mean, std = np.array(stats, np.float64).T.copy()
        return cls(mean, std, shown.sum(axis=(0, 2)), tuple(warps))

    @classmethod
    def fit_cells(cls, values: np.ndarray, cells: np.ndarray) -> Standardizer:
        """The same over the marked cells of (N, K, L) values; ``cells`` is a bool mask of that shape.

        Raises:
            DataError: the mask has another shape or marks a cell that holds no finite number.
        """
        if cells.shape != values.shape or cells.dtype != bool or values.ndim != 3:
            raise DataError(
                "cells: expected a bool mask over values of shape (records, features, steps); "
                f"came {cells.dtype} {cells.shape} over values {values.shape}."
            )
        stats = [_mean_std(values[:, k][cells[:, k]].astype(np.float64)) for k in range(values.shape[1])]
        mean, std = np.array(stats, np.float64).reshape(-1, 2).T.copy()
        return cls(mean, std, cells.sum(axis=(0, 2)))

    @property
    def never_shown(self) -> np.ndarray:
        """(K,) bool: no cell of the feature was shown, so its mean and standard deviation are only conventions."""
        return self.n_cells == 0

    def outside(self, values: np.ndarray) -> np.ndarray:
        """(..., K, L) bool: values outside their feature's limits; the scaler can take none of them."""
        outside = np.zeros(values.shape, bool)
        for k, warp in enumerate(self.warps or ()):
            if warp is not None:
                outside[..., k, :] = warp.limits.outside(values[..., k, :])
        return outside

    def transform(self, values: np.ndarray) -> np.ndarray:
        """(..., K, L) data units to standardised float64, NaN staying NaN; the input is not changed.

        Raises:
            DataError: the features are others, or a value lies outside its feature's limits. Give NaN for cells that
                are not shown.
        """
        values = self._check(values)
        if self.warps is not None:
            values = np.stack([_forward(warp, values[..., k, :]) for k, warp in enumerate(self.warps)], axis=-2)
        return (values - self.mean[:, None]) / self.std[:, None]

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """(..., K, L) standardised values back to the data's units, float64, within the limits there are."""
        values = self._check(values) * self.std[:, None] + self.mean[:, None]
        for k, warp in enumerate(self.warps or ()):
            if warp is not None:
                values[..., k, :] = warp.inverse(values[..., k, :])
        return values

    def transform_cells(self, values: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """(..., M) values of single cells, of the features (M,) by index, standardised as ``transform`` does."""
        out = (np.asarray(values, np.float64) - self.mean[feature]) / self.std[feature]
        for k, warp in enumerate(self.warps or ()):
            at = feature == k
            out[..., at] = (_forward(warp, values[..., at]) - self.mean[k]) / self.std[k]
        return out

    def inverse_cells(self, values: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """(..., M) standardised values of single cells back to the data's units, as ``inverse`` does."""
        out = np.asarray(values, np.float64) * self.std[feature] + self.mean[feature]
        for k, warp in enumerate(self.warps or ()):
            if warp is not None:
                out[..., feature == k] = warp.inverse(out[..., feature == k])
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain lists for JSON; Python writes floats so that they come back exactly."""
        plain = {"mean": self.mean.tolist(), "std": self.std.tolist(), "n_cells": self.n_cells.tolist()}
        if self.warps is None:
            return plain
        return plain | {"warps": [None if warp is None else warp.to_dict() for warp in self.warps]}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Standardizer:
        """What ``to_dict`` gave.

        Raises:
            DataError: a key is absent or unknown, or the numbers are no scaler.
        """
        expected = {"mean", "std", "n_cells"}
        if set(stored) - {"warps"} != expected:
            raise DataError(f"scaler: expected the keys {sorted(expected)}, came {sorted(stored)}.")
        warps = stored.get("warps")
        return cls(
            np.asarray(stored["mean"], np.float64),
            np.asarray(stored["std"], np.float64),
            np.asarray(stored["n_cells"], np.int64),
            warps
            if warps is None
            else tuple(None if warp is None else SupportBijection.from_dict(warp) for warp in warps),
        )

    def _check(self, values: np.ndarray) -> np.ndarray:
        if values.ndim < 2 or values.shape[-2] != len(self.mean):
            raise DataError(
                f"values: expected shape (..., {len(self.mean)} features, steps), as the scaler was fitted; "
                f"came {values.shape}."
            )
        return np.asarray(values, np.float64)


def _forward(warp: SupportBijection | None, values: np.ndarray) -> np.ndarray:
    return values if warp is None else warp.forward(values)


def _mean_std(x: np.ndarray) -> tuple[float, float]:
    if not len(x):
        return 0.0, 1.0
    if not np.isfinite(x).all():
        raise DataError("cells: expected only cells that hold finite numbers; some are NaN or infinite.")
    low, high = float(x.min()), float(x.max())
    if low == high:  # rounding in the mean would otherwise leave a standard deviation of 1e-17 to divide by
        return low, 1.0
    # Deviations from the middle in units of the half range: neither large offsets nor large numbers lose digits.
    middle, half = low / 2 + high / 2, high / 2 - low / 2 or high - low  # the halves may be too small to tell apart
    scaled = (x - middle) / half
    centre = float(scaled.mean())
    return middle + half * centre, half * float(np.sqrt(np.mean((scaled - centre) ** 2))) or high - low

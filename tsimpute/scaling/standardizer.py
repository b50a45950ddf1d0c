"""Standardisation per feature, after a map that keeps its limits, fitted on cells that may be seen in training only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tsimpute.core.limits import Limits, limits_of
from tsimpute.core.shapes import ShortRepr
from tsimpute.core.windows import Windows
from tsimpute.errors import DataError
from tsimpute.scaling.warps import SupportBijection


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

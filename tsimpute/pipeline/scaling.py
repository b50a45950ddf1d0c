"""Standardisation per feature, fitted on cells that may be seen in training and on nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tsimpute.containers import Windows
from tsimpute.errors import DataError


@dataclass(frozen=True, eq=False)
class Standardizer:
    """Mean and standard deviation of each of K features, and from how many cells they come.

    Attributes:
        mean: (K,) float64, in the data's units; 0 for a feature that was never shown.
        std: (K,) float64, population standard deviation (divided by n, as CSDI does) in the data's units; 1 for a
            feature that is constant or was never shown.
        n_cells: (K,) int, cells that the two numbers come from; 0 = never shown.

    Raises:
        DataError: shapes disagree, a number is not finite, or a standard deviation is not positive.
    """

    mean: np.ndarray
    std: np.ndarray
    n_cells: np.ndarray

    def __post_init__(self) -> None:
        shapes = (self.mean.shape, self.std.shape, self.n_cells.shape)
        if len(set(shapes)) != 1 or self.mean.ndim != 1:
            raise DataError(f"scaler: expected mean, std and n_cells of one shape (features,), came {shapes}.")
        if not (np.isfinite(self.mean).all() and np.isfinite(self.std).all() and (self.std > 0).all()):
            raise DataError(
                "scaler: expected finite means and positive finite standard deviations; "
                f"came mean {self.mean.tolist()}, std {self.std.tolist()}."
            )

    @classmethod
    def fit(cls, windows: Windows) -> Standardizer:
        """The mean and standard deviation of each feature over ``windows.shown``; held-out cells are not looked at."""
        return cls.fit_cells(windows.values, windows.shown)

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

    def transform(self, values: np.ndarray) -> np.ndarray:
        """(..., K, L) data units to standardised float64, NaN staying NaN; the input is not changed."""
        values = self._check(values)
        return (values - self.mean[:, None]) / self.std[:, None]

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """(..., K, L) standardised values back to the data's units, float64."""
        values = self._check(values)
        return values * self.std[:, None] + self.mean[:, None]

    def to_dict(self) -> dict[str, list[float] | list[int]]:
        """Plain lists for JSON; Python writes floats so that they come back exactly."""
        return {"mean": self.mean.tolist(), "std": self.std.tolist(), "n_cells": self.n_cells.tolist()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Standardizer:
        """What ``to_dict`` gave.

        Raises:
            DataError: a key is absent or unknown, or the numbers are no scaler.
        """
        expected = {"mean", "std", "n_cells"}
        if set(stored) != expected:
            raise DataError(f"scaler: expected the keys {sorted(expected)}, came {sorted(stored)}.")
        return cls(
            np.asarray(stored["mean"], np.float64),
            np.asarray(stored["std"], np.float64),
            np.asarray(stored["n_cells"], np.int64),
        )

    def _check(self, values: np.ndarray) -> np.ndarray:
        if values.ndim < 2 or values.shape[-2] != len(self.mean):
            raise DataError(
                f"values: expected shape (..., {len(self.mean)} features, steps), as the scaler was fitted; "
                f"came {values.shape}."
            )
        return np.asarray(values, np.float64)


def _mean_std(x: np.ndarray) -> tuple[float, float]:
    if not len(x):
        return 0.0, 1.0
    if not np.isfinite(x).all():
        raise DataError("cells: expected only cells that hold finite numbers; some are NaN or infinite.")
    low, high = float(x.min()), float(x.max())
    if low == high:  # rounding in the mean would otherwise leave a standard deviation of 1e-17 to divide by
        return low, 1.0
    # Deviations from the middle in units of the half range: neither large offsets nor large numbers lose digits.
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    scaled = (x - middle) / half
    centre = float(scaled.mean())
    return middle + half * centre, half * float(np.sqrt(np.mean((scaled - centre) ** 2)))

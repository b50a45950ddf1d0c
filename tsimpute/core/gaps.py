"""Runs of cells, and curves in time through the known values of each record and feature.

Arguments of all curves: ``known`` (N, K, L), NaN where nothing is known; ``times`` (N, L), increasing; ``otherwise``
(K,) for a record in which nothing of the feature is known. They give (N, K, L) float64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def runs_of(flags: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The runs of True along the rows of (R, L), in order: the row of each, where it starts, and where it stops."""
    padded = np.pad(flags, ((0, 0), (1, 1)))
    rows, edges = np.nonzero(padded[:, 1:] != padded[:, :-1])
    return rows[::2], edges[::2], edges[1::2]


def through_known(
    curve: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    known: np.ndarray,
    times: np.ndarray,
    otherwise: np.ndarray,
) -> np.ndarray:
    """A curve: (times (L,), times of known values (M,), these values (M,)) -> (L,)."""
    out = np.broadcast_to(otherwise[:, None], known.shape).astype(np.float64)
    for n, k in zip(*np.nonzero(~np.isnan(known).all(2)), strict=True):
        at = ~np.isnan(known[n, k])
        out[n, k] = curve(times[n], times[n, at], known[n, k, at].astype(np.float64))
    return out


def interpolated(known: np.ndarray, times: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Straight lines in time between the known values, constant before and after them."""
    return through_known(np.interp, known, times, otherwise)


def curved(known: np.ndarray, times: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Monotone cubic curves through the known values, constant before and after them."""
    from scipy.interpolate import PchipInterpolator  # half a second, and only this curve needs it

    def monotone(times: np.ndarray, knots: np.ndarray, values: np.ndarray) -> np.ndarray:
        if len(knots) == 1:
            return np.full(times.shape, values[0])
        inside = PchipInterpolator(knots, values)(np.clip(times, knots[0], knots[-1]))
        return np.where(times < knots[-1], inside, values[-1])  # to the bit, which the end of a polynomial is not

    return through_known(monotone, known, times, otherwise)


def carried(known: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """The last known value, before the first one that one; in the dtype of ``known``."""
    holds = ~np.isnan(known)
    last = np.maximum.accumulate(np.where(holds, np.arange(known.shape[2]), -1), axis=2)
    source = np.where(last < 0, holds.argmax(2, keepdims=True), last)
    values = np.take_along_axis(known, source, axis=2)
    return np.where(holds.any(2, keepdims=True), values, otherwise[:, None])


def nearest_known(known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of (..., L) bool: the last step up to each that is known, -1 if none is, and the next one, L if none is."""
    n_steps = known.shape[-1]
    steps = np.arange(n_steps)
    last = np.maximum.accumulate(np.where(known, steps, -1), -1)
    following = np.minimum.accumulate(np.where(known, steps, n_steps)[..., ::-1], -1)[..., ::-1]
    return last, following

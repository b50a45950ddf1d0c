"""A first guess at cells that are not shown: a model that learns what differs from it need not learn to interpolate."""

from __future__ import annotations

import numpy as np


def first_guess(values: np.ndarray, shown: np.ndarray, times: np.ndarray, span: float) -> np.ndarray:
    """Linear interpolation in time between a feature's shown cells, fading to 0 with the distance to the nearest.

    Before the first and after the last shown cell it is constant but for the fading; where a feature shows none, 0.

    Args:
        values: (N, K, L) standardised values; read at shown cells only.
        shown: (N, K, L) bool.
        times: (N, L), increasing.
        span: the distance, in the unit of ``times``, at which nothing of the nearest cell is left.

    Returns:
        (N, K, L) float64, 0 at shown cells.
    """
    length = shown.shape[2]
    at = np.arange(length)
    before = np.maximum.accumulate(np.where(shown, at, -1), axis=2)
    after = np.minimum.accumulate(np.where(shown, at, length)[..., ::-1], axis=2)[..., ::-1]
    known = np.where(shown, values, 0.0)
    clock = np.broadcast_to(times[:, None].astype(np.float64), shown.shape)
    left, right = (np.take_along_axis(clock, np.clip(i, 0, length - 1), 2) for i in (before, after))
    since, until = np.where(before >= 0, clock - left, np.inf), np.where(after < length, right - clock, np.inf)
    low, high = (np.take_along_axis(known, np.clip(i, 0, length - 1), 2) for i in (before, after))
    both = np.isfinite(since) & np.isfinite(until)
    share = np.divide(since, since + until, out=(before < 0).astype(np.float64), where=both & ~shown)
    kept = np.clip(1 - np.minimum(since, until) / span, 0, None) if span > 0 else 0.0
    return np.where(shown, 0.0, ((1 - share) * low + share * high) * kept)

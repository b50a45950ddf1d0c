"""A first guess at cells that are not shown: a model that learns what differs from it need not learn to interpolate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np


@dataclass(frozen=True, eq=False)
class Nearest:
    """On one side of some steps of records, the shown cell of each feature that is nearest to them.

    Attributes:
        times: (N, K), infinitely far away where there is none.
        values: (N, K) standardised, 0 where there is none.
    """

    times: np.ndarray
    values: np.ndarray

    @classmethod
    def none(cls, shape: tuple[int, ...], times: float) -> Self:
        """There is none: ``times`` is -inf or inf."""
        return cls(np.full(shape, times), np.zeros(shape, np.float32))


def first_guess(
    values: np.ndarray,
    shown: np.ndarray,
    times: np.ndarray,
    span: float,
    before: Nearest | None = None,
    after: Nearest | None = None,
) -> np.ndarray:
    """Linear interpolation in time between a feature's shown cells, fading to 0 with the distance to the nearest.

    Before the first and after the last shown cell it is constant but for the fading; where a feature shows none, 0.

    Args:
        values: (N, K, L) standardised values; read at shown cells only.
        shown: (N, K, L) bool.
        times: (N, L), increasing.
        span: the distance, in the unit of ``times``, at which nothing of the nearest cell is left.
        before, after: what longer records, of which these steps are a part, show nearest to them; None = nothing.

    Returns:
        (N, K, L) float64, 0 at shown cells.
    """
    before = before or Nearest.none(shown.shape[:2], -np.inf)
    after = after or Nearest.none(shown.shape[:2], np.inf)
    clock = np.broadcast_to(times[:, None].astype(np.float64), shown.shape)
    around = np.concatenate([before.times[..., None], clock, after.times[..., None]], 2)
    known = np.concatenate([before.values[..., None], np.where(shown, values, 0.0), after.values[..., None]], 2)
    there = np.pad(shown, ((0, 0), (0, 0), (1, 1)), constant_values=True)
    at = np.arange(there.shape[2])
    last = np.maximum.accumulate(np.where(there, at, 0), axis=2)[..., 1:-1]
    following = np.minimum.accumulate(np.where(there, at, len(at))[..., ::-1], axis=2)[..., -2:0:-1]
    since, until = clock - np.take_along_axis(around, last, 2), np.take_along_axis(around, following, 2) - clock
    low, high = (np.take_along_axis(known, i, 2) for i in (last, following))
    both = np.isfinite(since) & np.isfinite(until)
    share = np.divide(since, since + until, out=np.isinf(since).astype(np.float64), where=both & ~shown)
    kept = np.clip(1 - np.minimum(since, until) / span, 0, None) if span > 0 else 0.0
    return np.where(shown, 0.0, ((1 - share) * low + share * high) * kept)


def last_shown(shown: np.ndarray, steps: Sequence[int]) -> list[np.ndarray]:
    """For each of some increasing ``steps``: (N, K) the last step before it at which a feature is shown, or -1.

    Args:
        shown: (N, K, L) bool; looked at once, whatever the number of steps.
    """
    found, last, seen = [], np.full(shown.shape[:2], -1), 0
    for step in steps:
        if step > seen:
            part = shown[..., seen:step]
            last = np.where(part.any(2), step - 1 - part[..., ::-1].argmax(2), last)
            seen = step
        found.append(last)
    return found

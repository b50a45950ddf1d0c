"""Base estimates of cells that are not visible: a model that learns the residual need not learn to interpolate.

A base estimate is a mean and, where it knows its uncertainty, a standard deviation ("spread"). The model learns and
samples ``(value - mean) / spread``. A base estimate depends on visible cells only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from tsimpute.core.windows import Windows
from tsimpute.scaling.standardizer import Scale


@dataclass(frozen=True, eq=False)
class BaseEstimate:
    """A base estimate at cells of N records.

    Attributes:
        mean: (N, K, L) float32 standardised, 0 at cells that are not wanted.
        spread: (N, K, L) float32, positive, 1 at cells that are not wanted; None = the base estimate has none.
    """

    mean: np.ndarray
    spread: np.ndarray | None = None

    def steps(self, part: slice) -> BaseEstimate:
        return BaseEstimate(self.mean[..., part], None if self.spread is None else self.spread[..., part])


class Known:
    """Records of any length, whose parts are standardised on demand.

    Attributes:
        visible: (N, K, L) bool.
        times: (N, L).
    """

    def __init__(self, windows: Windows, scaler: Scale) -> None:
        self.windows, self.scaler = windows, scaler
        self.visible, self.times = windows.visible, windows.times

    def values(self, steps: slice) -> np.ndarray:
        """(N, K, L') float32 standardised values of shown cells, 0 elsewhere."""
        return standardised(self.windows.values[..., steps], self.visible[..., steps], self.scaler)

    def at(self, steps: np.ndarray) -> np.ndarray:
        """(N, K) the same at one step of each feature."""
        index = steps[..., None]
        values, shown = (np.take_along_axis(x, index, 2) for x in (self.windows.values, self.visible))
        return standardised(values, shown, self.scaler)[..., 0]


def standardised(values: np.ndarray, shown: np.ndarray, scaler: Scale) -> np.ndarray:
    """(N, K, L) float32 standardised values of shown cells, 0 elsewhere."""
    return np.where(shown, scaler.transform(np.where(shown, values, np.nan)), 0.0).astype(np.float32)


class BaseMethod(Protocol):
    """A baseline.

    Attributes:
        has_spread: whether it gives a standard deviation.
    """

    has_spread: bool

    def of(self, values: np.ndarray, shown: np.ndarray, times: np.ndarray, wanted: np.ndarray) -> BaseEstimate:
        """The base estimate at ``wanted`` cells of whole records.

        Args:
            values: (N, K, L) standardised; read at shown cells only.
            shown, wanted: (N, K, L) bool, no cell in both.
            times: (N, L) float64, increasing.
        """
        ...

    def of_parts(self, known: Known, parts: Sequence[slice], wanted: np.ndarray) -> Iterator[BaseEstimate]:
        """The parts of ``of`` the whole records, one after the other.

        Args:
            parts: of which neither starts nor stops decrease.
            wanted: (N, K, L) bool of the whole.
        """
        ...


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


def fading_interpolation(
    values: np.ndarray,
    shown: np.ndarray,
    times: np.ndarray,
    span: float,
    before: Nearest | None = None,
    after: Nearest | None = None,
) -> np.ndarray:
    """(N, K, L) linear interpolation in time between shown cells, fading to 0 with the distance to the nearest.

    Before the first and after the last shown cell it is constant but for the fading; where a feature shows none, and at
    shown cells, 0.

    Args:
        values: (N, K, L) standardised values; read at shown cells only.
        shown: (N, K, L) bool.
        times: (N, L), increasing.
        span: the distance, in the unit of ``times``, at which nothing of the nearest cell is left.
        before, after: what longer records, of which these steps are a part, show nearest to them; None = nothing.
    """
    before = before or Nearest.none(shown.shape[:2], -np.inf)
    after = after or Nearest.none(shown.shape[:2], np.inf)
    clock = np.broadcast_to(times[:, None].astype(np.float64), shown.shape)
    around = np.concatenate([before.times[..., None], clock, after.times[..., None]], 2)
    known = np.concatenate([before.values[..., None], np.where(shown, values, 0.0), after.values[..., None]], 2)
    known_ends = np.pad(shown, ((0, 0), (0, 0), (1, 1)), constant_values=True)
    at = np.arange(known_ends.shape[2])
    last = np.maximum.accumulate(np.where(known_ends, at, 0), axis=2)[..., 1:-1]
    following = np.minimum.accumulate(np.where(known_ends, at, len(at))[..., ::-1], axis=2)[..., -2:0:-1]
    since, until = clock - np.take_along_axis(around, last, 2), np.take_along_axis(around, following, 2) - clock
    low, high = (np.take_along_axis(known, i, 2) for i in (last, following))
    both = np.isfinite(since) & np.isfinite(until)
    share = np.divide(since, since + until, out=np.isinf(since).astype(np.float64), where=both & ~shown)
    fading = np.clip(1 - np.minimum(since, until) / span, 0, None) if span > 0 else 0.0
    return np.where(shown, 0.0, ((1 - share) * low + share * high) * fading)


def last_visible(shown: np.ndarray, steps: Sequence[int]) -> list[np.ndarray]:
    """For each of some increasing ``steps``: (N, K) the last step before it at which a feature is shown, or -1.

    Args:
        shown: (N, K, L) bool; looked at once, whatever the number of steps.
    """
    steps_before, last, counted = [], np.full(shown.shape[:2], -1), 0
    for step in steps:
        if step > counted:
            part = shown[..., counted:step]
            last = np.where(part.any(2), step - 1 - part[..., ::-1].argmax(2), last)
            counted = step
        steps_before.append(last)
    return steps_before


@dataclass(frozen=True)
class Linear:
    """See ``fading_interpolation``; without a standard deviation.

    Attributes:
        span: the distance in time at which nothing of the nearest cell is left.
    """

    span: float
    has_spread = False

    def of(self, values: np.ndarray, shown: np.ndarray, times: np.ndarray, wanted: np.ndarray) -> BaseEstimate:
        return BaseEstimate(fading_interpolation(values, shown, times, self.span).astype(np.float32))

    def of_parts(self, known: Known, parts: Sequence[slice], wanted: np.ndarray) -> Iterator[BaseEstimate]:
        shown, length = known.visible, known.visible.shape[2]
        before = last_visible(shown, [part.start for part in parts])
        mirrored = last_visible(shown[..., ::-1], [length - part.stop for part in reversed(parts)])
        after = [length - 1 - steps for steps in reversed(mirrored)]
        for part, *around in zip(parts, before, after, strict=True):
            outside = []
            for steps, none in zip(around, (-np.inf, np.inf), strict=True):
                within = (steps >= 0) & (steps < length)
                at = np.where(within, steps, 0)
                times = np.where(within, np.take_along_axis(known.times, at, 1), none)
                outside.append(Nearest(times, np.where(within, known.at(at), np.float32(0))))
            values, times = known.values(part), known.times[:, part]
            mean = fading_interpolation(values, shown[..., part], times, self.span, *outside)
            yield BaseEstimate(mean.astype(np.float32))

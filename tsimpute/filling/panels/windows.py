"""A panel cut into windows, and its gaps: what a model learns from and is measured on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tsimpute.core.gaps import runs_of
from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Windows
from tsimpute.errors import DataError
from tsimpute.generative.window_averaging import window_starts

WINDOW_CELLS = 1536
"""Cells of a window, about; see ``window_steps``."""

_MONDAY = np.datetime64("1970-01-05")
MOST_WINDOWS = 4000
"""Windows to learn from that overlap; more add memory and little else."""
BOUNDS = (1, 4, 16, 64, 256)
"""The longest gap of each class, in steps; longer gaps are the last class."""
N_CLASSES = len(BOUNDS) + 1


def window_steps(panel: Panel) -> int:
    """Steps of a window: 16 to 64, fewer the more features there are, and at most those of the longest series.

    Rows that are records of their own are windows of one step.
    """
    if panel.independent_rows:
        return 1
    longest = max(len(series.times) for series in panel.series)
    return min(max(16, min(64, WINDOW_CELLS // sum(_is_variable(panel)))), longest)


def windows_of(panel: Panel, length: int, stride: int) -> Windows:
    """All windows with a value of a feature that is no known covariate; see ``window_places`` and ``windows_at``."""
    return windows_at(panel, window_places(panel, length, stride), length)


def window_places(panel: Panel, length: int, stride: int) -> list[tuple[int, int]]:
    """Index of the series and first step of each window with a value of a feature that is no known covariate.

    Raises:
        DataError: no series has a value.
    """
    places, is_variable = [], _is_variable(panel)
    for n, series in enumerate(panel.series):
        any_shown = np.any(series.observed[is_variable], axis=0)
        starts = window_starts(len(series.times), length, stride)
        places += [(n, start) for start in starts if any_shown[start : start + length].any()]
    if not places:
        raise DataError("table: expected at least one value to learn from, all cells are missing.")
    return places


def windows_at(panel: Panel, places: Sequence[tuple[int, int]], length: int) -> Windows:
    """The windows at some of ``window_places``, padded with missing steps after the end of a series.

    Args:
        places: one at least.

    Returns:
        Windows named after their series and first step; times from 0 in the panel's unit.
    """
    parts = [(panel.series[n], slice(start, start + length)) for n, start in places]
    values = np.full((len(parts), len(panel.features), length), np.nan)
    for window, (series, part) in zip(values, parts, strict=True):
        window[:, : len(series.times[part])] = series.values[:, part]
    return Windows(
        values,
        np.stack([_continued(series.times[part], length, panel.clock.step) for series, part in parts]),
        panel.features,
        tuple(f"{series.name}@{part.start}" for series, part in parts),
    )


def clock_times(series: Series, clock: Clock) -> np.ndarray:
    """(T,) times of a series from one origin for all: hours since a Monday's midnight where the clock has dates."""
    if clock.unit != "hours" or series.labels.dtype.kind != "M":
        return series.times
    return series.times + float((series.labels[0] - _MONDAY) / np.timedelta64(1, "h"))


def training_windows(panel: Panel, length: int) -> Windows:
    """Windows a quarter of their length apart, up to side by side where there would be more than ``MOST_WINDOWS``."""
    return windows_of(panel, length, training_hop(panel, length))


def training_hop(panel: Panel, length: int) -> int:
    """Steps from one of ``training_windows`` to the next."""
    n_steps = sum(len(series.times) for series in panel.series)
    return min(length, max(1, length // 4, -(-n_steps // MOST_WINDOWS)))


def _is_variable(panel: Panel) -> list[bool]:
    return [not feature.given for feature in panel.features]


def _continued(times: np.ndarray, length: int, step: float | None) -> np.ndarray:
    """Times from 0 on, continued by the step, or the usual one, to ``length``."""
    if len(times) < length:
        step = step or (float(np.median(np.diff(times))) if len(times) > 1 else 1.0)
        times = np.concatenate([times, times[-1] + step * np.arange(1, length - len(times) + 1)])
    return times - times[0]


def without(panel: Panel, cells: Sequence[np.ndarray]) -> Panel:
    """The panel with these cells, per series (K', T) bool of its first K' features, made missing."""
    series = [
        replace(s, values=np.concatenate([np.where(c, np.nan, s.values[: len(c)]), s.values[len(c) :]]))
        for s, c in zip(panel.series, cells, strict=True)
    ]
    return replace(panel, series=tuple(series))


def gap_lengths(missing: np.ndarray, independent: bool = False) -> np.ndarray:
    """(K, T) int: the length of the run of missing steps that each cell lies in; 0 where nothing is missing.

    Args:
        independent: whether steps are records of their own, so that each missing cell is a gap.
    """
    if independent:
        return missing.astype(np.int64)
    rows, starts, ends = runs_of(missing)
    lengths = np.zeros((len(missing), missing.shape[1] + 1), np.int64)
    np.add.at(lengths, (rows, starts), ends - starts)
    np.add.at(lengths, (rows, ends), starts - ends)
    return np.cumsum(lengths, axis=1)[:, :-1]


def gap_classes(missing: np.ndarray, independent: bool = False) -> np.ndarray:
    """(K, T) int: the class of the length of each cell's gap; see ``gap_lengths``."""
    return np.searchsorted(BOUNDS, gap_lengths(missing, independent))


def gap_numbers(missing: np.ndarray, independent: bool = False) -> np.ndarray:
    """(K, T) int: a number for each gap of each feature, the same for all its cells; see ``gap_lengths``."""
    if independent:
        return np.arange(missing.size).reshape(missing.shape)
    begins = np.diff(np.pad(missing, ((0, 0), (1, 0))).astype(np.int8), axis=1) == 1
    return np.cumsum(begins, axis=1) + missing.shape[1] * np.arange(len(missing))[:, None]


def apart(numbers: Sequence[np.ndarray]) -> np.ndarray:
    """Joins arrays of numbers from 0 on, shifted so that no number occurs in two of them."""
    step = 1 + max(int(array.max(initial=0)) for array in numbers)
    return np.concatenate([n * step + array for n, array in enumerate(numbers)])

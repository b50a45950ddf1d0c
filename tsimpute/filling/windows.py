"""A panel cut into windows: what a model learns from and is measured on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tsimpute.errors import DataError
from tsimpute.joining import window_starts
from tsimpute.panel import Panel
from tsimpute.windows import Windows

WINDOW_CELLS = 1536
"""Cells of a window, about; see ``window_steps``."""

MOST_WINDOWS = 4000
"""Windows to learn from that overlap; more add memory and little else."""


def window_steps(panel: Panel) -> int:
    """Steps of a window: 16 to 64, fewer where many features are not given, no more than the longest series has."""
    longest = max(len(series.times) for series in panel.series)
    return min(max(16, min(64, WINDOW_CELLS // sum(_own(panel)))), longest)


def windows_of(panel: Panel, length: int, hop: int) -> Windows:
    """Windows of all series that show any value of their own; a shorter series is one that ends with blank steps.

    Returns:
        Windows named after their series and first step; times from 0 in the panel's unit.

    Raises:
        DataError: no series has a value.
    """
    values, times, names = [], [], []
    own = _own(panel)
    for series in panel.series:
        for start in window_starts(len(series.times), length, hop):
            part = slice(start, start + length)
            if not series.observed[own, part].any():
                continue
            values.append(_padded(series.values[:, part], length))
            times.append(_continued(series.times[part], length, panel.clock.step))
            names.append(f"{series.name}@{start}")
    if not values:
        raise DataError("table: expected at least one value to learn from, all cells are missing.")
    return Windows(np.stack(values), np.stack(times), panel.features, tuple(names))


def training_windows(panel: Panel, length: int) -> Windows:
    """Windows a quarter of their length apart, up to side by side where there would be more than ``MOST_WINDOWS``."""
    n_steps = sum(len(series.times) for series in panel.series)
    return windows_of(panel, length, min(length, max(1, length // 4, -(-n_steps // MOST_WINDOWS))))


def _own(panel: Panel) -> list[bool]:
    return [not feature.given for feature in panel.features]


def _padded(values: np.ndarray, length: int) -> np.ndarray:
    return np.pad(values, ((0, 0), (0, length - values.shape[1])), constant_values=np.nan)


def _continued(times: np.ndarray, length: int, step: float | None) -> np.ndarray:
    if len(times) < length:
        beat = step or (float(np.median(np.diff(times))) if len(times) > 1 else 1.0)
        times = np.concatenate([times, times[-1] + beat * np.arange(1, length - len(times) + 1)])
    return times - times[0]


def without(panel: Panel, cells: Sequence[np.ndarray]) -> Panel:
    """The panel with these cells, per series (K', T) bool of its first K' features, made missing."""
    series = [
        replace(s, values=np.concatenate([np.where(c, np.nan, s.values[: len(c)]), s.values[len(c) :]]))
        for s, c in zip(panel.series, cells, strict=True)
    ]
    return replace(panel, series=tuple(series))

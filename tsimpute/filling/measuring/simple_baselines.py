"""Values of simple imputers in the gaps of a series: a model has to be better than they are."""

from __future__ import annotations

import numpy as np

from tsimpute.core.panel import Panel, Series
from tsimpute.imputers.shared.interpolation import carried, interpolated

LINEAR, MEAN = "linear interpolation", "the mean"
_HOUR = np.timedelta64(1, "h")
_DAYS, _YEARS = 3, 2
"""Of which a series has to have so many for a profile."""


def baselines_of(panel: Panel, n: int, season: str | None) -> dict[str, np.ndarray]:
    """By the name of the imputer (K, T), for the n-th series; of independent rows those that need no order."""
    series = panel.series[n]
    if not panel.independent_rows:
        return simple_baselines(series, season)
    known = np.ma.masked_invalid(series.values)
    middles = {"the median": np.ma.median(known, axis=1), MEAN: known.mean(axis=1)}
    columns = {name: np.ma.filled(middle, 0.0)[:, None] for name, middle in middles.items()}
    return {name: np.broadcast_to(column, series.values.shape) for name, column in columns.items()}


def simple_baselines(series: Series, season: str | None = None) -> dict[str, np.ndarray]:
    """By the name of the imputer (K, T); at the start of a series the first value is carried back.

    Args:
        season: see ``season_of``.
    """
    known, nothing = series.values[None], np.zeros(len(series.values))
    baselines = {
        "last value carried forward": carried(known, nothing)[0],
        LINEAR: interpolated(known, series.times[None], nothing)[0],
    }
    if season is not None:
        labels = series.labels
        months = labels.astype("M8[M]").astype(int) % 12
        phase = ((labels - labels.astype("M8[D]")) / _HOUR).astype(int) if season == "daily" else months
        profile = _profile(series.values, phase)
        rest = interpolated((series.values - profile)[None], series.times[None], nothing)[0]
        baselines[f"{season} profile and {LINEAR}"] = profile + rest
    return baselines


def season_of(panel: Panel) -> str | None:
    """The season by whose profile series are filled: "daily" or "yearly" by the wall clock, or None.

    The usual series has to be long enough for it, and its steps short enough.
    """
    if panel.clock.unit != "hours" or any(series.labels.dtype.kind != "M" for series in panel.series):
        return None
    spans = np.array([float(np.ptp(series.times)) for series in panel.series])
    steps = np.array([len(series.times) - 1 for series in panel.series])
    span, step = float(np.median(spans)), panel.clock.step or float(spans.sum() / max(1, steps.sum()))
    if span >= 24 * _DAYS and step <= 6:
        return "daily"
    return "yearly" if span >= 8766 * _YEARS and 6 < step <= 31 * 24 else None


def _profile(values: np.ndarray, phase: np.ndarray) -> np.ndarray:
    """(K, T) the mean of known values at the same phase (T,), an hour or a month; of all where there are none."""
    known, group = ~np.isnan(values), np.unique(phase, return_inverse=True)[1]
    n_phases, filled = int(group.max()) + 1, np.where(known, values, 0.0)
    out = np.empty(values.shape)
    for k in range(len(values)):
        counts = np.bincount(group, known[k], n_phases)
        mean = filled[k].sum() / max(1, known[k].sum())
        sums = np.bincount(group, filled[k], n_phases)
        out[k] = np.where(counts > 0, sums / np.maximum(counts, 1), mean)[group]
    return out

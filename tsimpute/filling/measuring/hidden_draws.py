"""Draws at cells of a panel that are hidden from a model, and simple imputers' values: it is measured on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

import numpy as np

from tsimpute.core.gaps import carried, interpolated
from tsimpute.core.panel import Panel, Series
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Windows
from tsimpute.filling.panels.windows import clock_times, gap_numbers, window_places, window_steps, windows_at, without
from tsimpute.generative.window_averaging import window_starts
from tsimpute.imputers.base import TableModel

MOST_CELLS = 200_000
"""Cells of the series that a model is measured on, about, where it takes whole series."""
_PIECE, _AROUND = 500, 100
"""Steps of the pieces of long series, and those around them that are conditioned on."""


@dataclass(frozen=True, eq=False)
class HiddenDraws:
    """Draws at M hidden cells.

    Attributes:
        draws: (S, M) in the data's units.
        truth: (M,) the hidden values.
        feature: (M,) index of each cell's feature.
        block: (M,) the window, stretch of time or record of each cell; cells of one block are not independent.
        baselines: by the name of a simple imputer (M,) its values there, from the same visible cells.
        place: (2, M) index of each cell's series, and its step; empty where it is not needed.
        run: (M,) number of the run of missing steps that each cell lies in; empty where it is not known.
    """

    draws: np.ndarray
    truth: np.ndarray
    feature: np.ndarray
    block: np.ndarray
    baselines: Mapping[str, np.ndarray] = field(default_factory=dict)
    place: np.ndarray = field(default_factory=lambda: np.empty((2, 0), int))
    run: np.ndarray = field(default_factory=lambda: np.empty(0, int))

    def at(self, cells: np.ndarray) -> HiddenDraws:
        """Some of the cells, of a bool mask or indices (M,)."""
        rows = {name: getattr(self, name)[cells] for name in ("truth", "feature", "block")}
        return HiddenDraws(
            self.draws[:, cells], **rows, baselines={name: value[cells] for name, value in self.baselines.items()},
            place=self.place[:, cells] if self.place.size else self.place,
            run=self.run[cells] if self.run.size else self.run,
        )  # fmt: skip


@dataclass(frozen=True)
class TimeBudget:
    """How much is drawn to measure, at most.

    Attributes:
        windows: of models that take windows.
        cells: of models that take whole series, cells of the series that are drawn, about.
        until: of these, too: ``time.monotonic()`` after which no further stretch of a series is begun.
    """

    windows: int = 200
    cells: int = MOST_CELLS
    until: float = np.inf


Drawn = tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Of a stretch of one series: the series, features (M,), steps (M,), draws (S, M) and blocks (M,)."""


def draws_at(
    model: TableModel,
    panel: Panel,
    hidden: Sequence[np.ndarray],
    *,
    n_samples: int,
    seed: int,
    gaps: Sequence[np.ndarray] | None = None,
    budget: TimeBudget | None = None,
    at: Sequence[np.ndarray] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> HiddenDraws:
    """Draws at hidden cells, with every cell as a query that is filled in use.

    Args:
        panel: with the values of the hidden cells, and covariates after its features.
        hidden: per series (K, T) bool.
        gaps: per series (K, T) bool, the cells that are filled in use; None = every missing cell. A long table has no
            place for features that a series never shows, and more queries give other draws.
        budget: where there is more, a part of it is drawn.
        at: per series (K, T) bool, the hidden cells to draw at; None = all.
    """
    blind, most, at = without(panel, hidden), budget or TimeBudget(), at or hidden
    wanted = [~s.observed for s in blind.series] if gaps is None else [a | b for a, b in zip(gaps, hidden, strict=True)]
    options = n_samples, seed, progress
    parts = list(
        _of_series(model, blind, at, most, *options)
        if model.whole_series
        else _of_windows(model, blind, at, wanted, most.windows, *options)
    )
    if not parts:
        nothing = np.empty(0, int)
        return HiddenDraws(np.empty((n_samples, 0)), np.empty(0), nothing, nothing)
    season = season_of(panel)
    of_series = lru_cache(1)(lambda s: baselines_of(blind, s, season))  # parts come series by series
    truth = np.concatenate([panel.series[s].values[feature, step] for s, feature, step, *_ in parts])
    baselines = [{name: x[feature, step] for name, x in of_series(s).items()} for s, feature, step, *_ in parts]
    series, feature, step = (
        np.concatenate(row)
        for row in zip(*((np.full(len(f), s), f, t) for s, f, t, *_ in parts), strict=True)
    )  # fmt: skip
    place = np.stack([series, step])
    return HiddenDraws(
        np.concatenate([part[3] for part in parts], -1), truth, feature, np.concatenate([part[4] for part in parts]),
        {name: np.concatenate([of_part[name] for of_part in baselines]) for name in baselines[0]}, place,
        _runs(blind, feature, place),
    )  # fmt: skip


def _runs(blind: Panel, feature: np.ndarray, place: np.ndarray) -> np.ndarray:
    """(M,) numbers of the runs of missing steps of cells at their features (M,) and places (2, M)."""
    out, first = np.empty(len(feature), int), 0
    for s in np.unique(place[0]).tolist():
        missing, cells = ~blind.series[s].observed, place[0] == s
        out[cells] = first + gap_numbers(missing, blind.independent_rows)[feature[cells], place[1][cells]]
        first += missing.size + len(missing)
    return out


def _of_windows(
    model: TableModel, blind: Panel, hidden: Sequence[np.ndarray], wanted: Sequence[np.ndarray], most: int,
    n_samples: int, seed: int, progress: Callable[[int, int], None],
) -> Iterator[Drawn]:  # fmt: skip
    """Windows overlap by half; of each the middle is used, as it is where windows are joined."""
    length = min(model.n_steps_ or window_steps(blind), max(len(s.times) for s in blind.series))
    stride = max(1, length // 2)
    places = window_places(blind, length, stride)
    middles = [_middles(len(series.times), length, stride) for series in blind.series]
    with_hidden = [n for n, (s, start) in enumerate(places) if hidden[s][:, middles[s][start]].any()]
    chosen = np.sort(np.random.default_rng(derive_seed(seed, "windows")).permutation(with_hidden)[:most]).tolist()
    if not chosen:
        return
    few = windows_at(blind, [places[n] for n in chosen], length)
    fill = _queries([wanted[s][:, start : start + length] for s, start in (places[n] for n in chosen)], few.visible)
    records = model.impute_records(few, n_samples, seed, fill)
    for done, (n, record) in enumerate(zip(chosen, records, strict=True), 1):
        s, start = places[n]
        middle = middles[s][start]
        feature, step = np.nonzero(hidden[s][:, middle])
        draws = record.values[:, 0, feature, step + middle.start - start]
        yield s, feature, step + middle.start, draws, np.full(len(feature), n)
        progress(done, len(chosen))


def _queries(wanted: Sequence[np.ndarray], visible: np.ndarray) -> np.ndarray:
    """(N, K', L) bool: wanted cells of windows, none of those that are visible or follow a series."""
    fill = np.zeros(visible.shape, bool)
    for of_window, cells in zip(fill, wanted, strict=True):
        of_window[: len(cells), : cells.shape[1]] = cells
    return fill & ~visible


def _of_series(
    model: TableModel, blind: Panel, hidden: Sequence[np.ndarray], budget: TimeBudget, n_samples: int, seed: int,
    progress: Callable[[int, int], None],
) -> Iterator[Drawn]:  # fmt: skip
    """Whole series, pieces of long ones; a block is half a window, as it is where models take windows."""
    pieces = _pieces(hidden, budget.cells, seed)
    length = max(1, window_steps(blind) // 2)
    counts = [-(-(part.stop - part.start) // length) for _, part in pieces]
    first_blocks = np.cumsum([0, *counts])
    order = range(len(pieces))
    if np.isfinite(budget.until):  # those that are drawn in time are anywhere in the table
        order = np.random.default_rng(derive_seed(seed, "order of pieces")).permutation(len(pieces)).tolist()
    drawn = {}
    for done, n in enumerate(order):
        if done and time.monotonic() > budget.until:
            break
        s, part = pieces[n]
        tell = lambda share, done=done: progress(done, len(pieces))
        feature, step, draws = _of_piece(model, blind, hidden, s, part, n_samples, seed, tell)
        drawn[n] = s, feature, step, draws, first_blocks[n] + (step - part.start) // length
        progress(done + 1, len(pieces))
    yield from (drawn[n] for n in sorted(drawn))


def _of_piece(
    model: TableModel, blind: Panel, hidden: Sequence[np.ndarray], s: int, part: slice, n_samples: int, seed: int,
    tell: Callable[[float], None],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Features, steps and draws (S, M) at the hidden cells of some steps of a series."""
    series, first = blind.series[s], max(0, part.start - _AROUND)
    looked_at = slice(first, part.stop + _AROUND)
    times = clock_times(series, blind.clock)[looked_at]
    record = Windows(series.values[None, :, looked_at], times[None], blind.features, (f"{series.name}@{first}",))
    feature, step = np.nonzero(hidden[s][:, part])
    draws, at = np.empty((n_samples, len(feature))), step + part.start - first
    near = _near(at, len(times), window_steps(blind))
    fill = np.broadcast_to(near, record.values.shape) & ~record.visible
    for steps, samples in model.impute_long(record, n_samples, seed, fill, progress=tell):
        cells = (at >= steps.start) & (at < steps.stop)
        draws[:, cells] = samples.values[:, 0, feature[cells], at[cells] - steps.start]
    return feature, step + part.start, draws


def _near(at: np.ndarray, n_steps: int, reach: int) -> np.ndarray:
    """(T,) bool: steps so near to some that draws there affect draws at these."""
    counts = np.bincount(at, minlength=n_steps)
    before = np.concatenate([[0], np.cumsum(counts)])
    steps = np.arange(n_steps)
    return before[np.minimum(n_steps, steps + reach + 1)] > before[np.maximum(0, steps - reach)]


def _pieces(hidden: Sequence[np.ndarray], most: int, seed: int) -> list[tuple[int, slice]]:
    """Series and steps that hold hidden cells, in order, drawn at random until they have about ``most`` cells."""
    pieces = []
    for s, cells in enumerate(hidden):
        n_steps = cells.shape[1]
        n_pieces = max(1, round(n_steps / _PIECE))
        bounds = [n_steps * n // n_pieces for n in range(n_pieces + 1)]
        pieces += [(s, slice(a, b)) for a, b in pairwise(bounds) if cells[:, a:b].any()]
    if sum(cells.size for cells in hidden) <= most:
        return [(s, slice(0, cells.shape[1])) for s, cells in enumerate(hidden) if cells.any()]
    order = np.random.default_rng(derive_seed(seed, "pieces")).permutation(len(pieces))
    sizes = np.array([len(hidden[s]) * (part.stop - part.start) for s, part in pieces], float)
    n_chosen = int(np.searchsorted(np.cumsum(sizes[order]), most)) + 1
    return [pieces[n] for n in np.sort(order[:n_chosen]).tolist()]


def _middles(n_steps: int, length: int, stride: int) -> dict[int, slice]:
    """Of each window of a series, by its first step: the steps that are nearest to its middle; each step is in one."""
    starts = window_starts(n_steps, length, stride)
    bounds = [0, *((a + b + length) // 2 for a, b in pairwise(starts)), n_steps]
    return {start: slice(*ends) for start, ends in zip(starts, pairwise(bounds), strict=True)}


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

"""Cells of a panel that are hidden from a model, and draws and simple imputers' values there, to measure it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from tsimpute.batches.masking import LikeGaps
from tsimpute.core.gaps import carried, interpolated
from tsimpute.core.panel import Panel, Series
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Windows
from tsimpute.filling.panels.windows import clock_times, gap_numbers, window_places, window_steps, windows_at, without
from tsimpute.generative.window_averaging import window_starts
from tsimpute.imputers.base import TableModel

_ENOUGH = 400
"""Hidden cells, in all, from which no series has to give more than its share."""
MOST_CELLS = 200_000
"""Cells of the series that a model is measured on, about, where it takes whole series."""
_PIECE, _AROUND = 500, 100
"""Steps of the pieces of long series, and those around them that are conditioned on."""
LINEAR, MEAN = "linear interpolation", "the mean"
_HOUR = np.timedelta64(1, "h")
_DAYS, _YEARS = 3, 2
"""Of which a series has to have so many for a profile."""


def hidden_cells(panel: Panel, share: float, seed: int) -> list[np.ndarray]:
    """Per series (K, T) bool: observed cells hidden as the gaps of the panel lie, about a share of each feature's.

    The share is that of all series together; see ``_quotas``. The gaps of a series are moved along it by a random time,
    all features together, and stretches of a window's length are taken at random, of each feature until its share is
    reached. In series of more than one window runs are taken whole, also those that are longer than a stretch or a
    share, up to half of a feature's values: errors in long gaps have to come from gaps as long. Where that gives
    too few cells, runs as long as the gaps are hidden, too; see ``LikeGaps``.
    """
    length = window_steps(panel)
    runs = LikeGaps.of([series.observed for series in panel.series])
    hidden, quotas = [], _quotas(np.array([series.observed.sum(1) for series in panel.series]), share, seed)
    for series, quota in zip(panel.series, quotas, strict=True):
        rng = np.random.default_rng(derive_seed(seed, "hidden", series.name))
        observed, n_steps = series.observed, len(series.times)
        moved = observed & np.roll(~observed, int(rng.integers(n_steps // 4, 1 + 3 * n_steps // 4)), axis=1)
        most = observed.sum(1) // 2 if n_steps > length else quota
        cells = _whole_runs(moved, quota, most, length, rng)
        needy = observed & ~cells & (2 * cells.sum(1) < quota)[:, None]
        if needy.any():
            more = needy & ~runs.hide(needy, min(1.0, 4 * share), rng)
            # The first ones from a random step on, so that a series of one window is not hidden at its beginning alone.
            left, start = quota - cells.sum(1), int(rng.integers(n_steps))
            turned = np.roll(more, -start, axis=1)
            cells |= np.roll(turned & (np.cumsum(turned, axis=1) <= left[:, None]), start, axis=1)
        hidden.append(cells)
    return hidden


def hidden_together(panel: Panel, hidden: Sequence[np.ndarray], groups: Sequence[Sequence[str]]) -> list[np.ndarray]:
    """The hidden cells, and with each one of a group of features the others: one category tells what the others are."""
    names, out = [feature.name for feature in panel.features], []
    for series, of_series in zip(panel.series, hidden, strict=True):
        cells = of_series.copy()
        for group in groups:
            of_group = [names.index(name) for name in group]
            cells[of_group] = cells[of_group].any(0) & series.observed[of_group]
        out.append(cells)
    return out


def _quotas(counts: np.ndarray, share: float, seed: int) -> np.ndarray:
    """(N, K) how many cells of each feature are hidden in each series, for (N, K) observed ones; half of them at most.

    A share of each feature's cells in all series, rounded up. Were it rounded up in each series, features with few
    values in each of many series would be hidden most of all: a laboratory value of ICU stays five times as often as a
    heart rate. Only where cells are few does each series give one of each feature.
    """
    able = np.where(counts >= 2, counts, 0)
    most = np.minimum(np.ceil(share * able), able // 2).astype(int)
    wanted = np.maximum(np.ceil(share * able.sum(0)), _ENOUGH // counts.shape[1])
    upto = np.cumsum(able, 0) * (wanted / np.maximum(able.sum(0), 1))
    offset = np.random.default_rng(derive_seed(seed, "hidden", "shares")).random(counts.shape[1])
    spread = np.diff(np.floor(upto + offset), axis=0, prepend=0).astype(int)
    return np.where(most.sum(0) <= wanted, most, np.minimum(spread, most))


def _whole_runs(
    moved: np.ndarray, quota: np.ndarray, most: np.ndarray, length: int, rng: np.random.Generator
) -> np.ndarray:
    """(K, T) bool: runs of cells of each feature until its quota (K,) is reached, cut at the most (K,) that may be.

    Stretches of ``length`` steps come in random order, the same for all features, so that runs of one time are hidden
    together; in each, runs count from a random one on.
    """
    cells, n_steps = np.zeros(moved.shape, bool), moved.shape[1]
    begins = np.diff(np.pad(moved, ((0, 0), (1, 0))).astype(np.int8), axis=1) == 1
    number, counts = np.cumsum(begins, axis=1), np.zeros(len(moved), int)
    ends = n_steps - np.argmax(moved[:, ::-1], axis=1)
    for start in rng.permutation(np.arange(0, n_steps, length)).tolist():
        turn = int(rng.integers(length))
        for k in np.flatnonzero((counts < quota) & (start < ends)).tolist():
            part = slice(start, start + length)
            runs = np.unique(number[k, part][moved[k, part] & ~cells[k, part]])
            for run in np.roll(runs, -(turn % max(1, len(runs)))).tolist():
                if counts[k] >= quota[k]:
                    break
                first, last = np.searchsorted(number[k], [run, run + 1])
                steps = first + np.flatnonzero(moved[k, first:last])[: most[k] - counts[k]]
                cells[k, steps] = True
                counts[k] += len(steps)
    return cells


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
    windows: int = 200,
    cells: int = MOST_CELLS,
    at: Sequence[np.ndarray] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> HiddenDraws:
    """Draws at hidden cells, with every cell as a query that is filled in use.

    Args:
        panel: with the values of the hidden cells, and covariates after its features.
        hidden: per series (K, T) bool.
        gaps: per series (K, T) bool, the cells that are filled in use; None = every missing cell. A long table has no
            place for features that a series never shows, and more queries give other draws.
        windows: of models that take windows; where there are more, a part of them is drawn.
        cells: of models that take whole series, cells of the series that are drawn, about.
        at: per series (K, T) bool, the hidden cells to draw at; None = all.
    """
    blind, at = without(panel, hidden), at or hidden
    wanted = [~s.observed for s in blind.series] if gaps is None else [a | b for a, b in zip(gaps, hidden, strict=True)]
    options = n_samples, seed, progress
    drawn = (
        _of_series(model, blind, at, cells, *options)
        if model.whole_series
        else _of_windows(model, blind, at, wanted, windows, *options)
    )
    season, parts, last, n_runs = season_of(panel), list[HiddenDraws](), -1, 0
    baselines, runs = dict[str, np.ndarray](), np.empty((0, 0), int)
    for s, feature, step, draws, block in list(drawn):
        if s != last:  # parts come series by series
            baselines = simple_baselines(blind.series[s], season, blind.independent_rows)
            missing = ~blind.series[s].observed
            runs = n_runs + gap_numbers(missing, blind.independent_rows)
            n_runs, last = n_runs + missing.size + len(missing), s
        of_part = {name: values[feature, step] for name, values in baselines.items()}
        place = np.stack([np.full(len(step), s), step])
        truth = panel.series[s].values[feature, step]
        parts.append(HiddenDraws(draws, truth, feature, block, of_part, place, runs[feature, step]))
    if not parts:
        nothing = np.empty(0, int)
        return HiddenDraws(np.empty((n_samples, 0)), np.empty(0), nothing, nothing)
    row = lambda name: np.concatenate([getattr(part, name) for part in parts], -1)
    baselines = {name: np.concatenate([part.baselines[name] for part in parts]) for name in baselines}
    return HiddenDraws(row("draws"), row("truth"), row("feature"), row("block"), baselines, row("place"), row("run"))


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
    fill = np.zeros(few.visible.shape, bool)
    for of_window, (s, start) in zip(fill, (places[n] for n in chosen), strict=True):
        cells = wanted[s][:, start : start + length]
        of_window[: len(cells), : cells.shape[1]] = cells
    fill &= ~few.visible
    records = model.impute_records(few, n_samples, seed, fill)
    for done, (n, record) in enumerate(zip(chosen, records, strict=True), 1):
        s, start = places[n]
        middle = middles[s][start]
        feature, step = np.nonzero(hidden[s][:, middle])
        draws = record.values[:, 0, feature, step + middle.start - start]
        yield s, feature, step + middle.start, draws, np.full(len(feature), n)
        progress(done, len(chosen))


def _of_series(
    model: TableModel, blind: Panel, hidden: Sequence[np.ndarray], most: int, n_samples: int, seed: int,
    progress: Callable[[int, int], None],
) -> Iterator[Drawn]:  # fmt: skip
    """Whole series, pieces of long ones; a block is half a window, as it is where models take windows."""
    pieces, reach, first_block = _pieces(hidden, most, seed), window_steps(blind), 0
    length = max(1, reach // 2)
    for done, (s, part) in enumerate(pieces):
        series, first = blind.series[s], max(0, part.start - _AROUND)
        looked_at = slice(first, part.stop + _AROUND)
        times = clock_times(series, blind.clock)[looked_at]
        record = Windows(series.values[None, :, looked_at], times[None], blind.features, (f"{series.name}@{first}",))
        feature, step = np.nonzero(hidden[s][:, part])
        draws, at = np.empty((n_samples, len(feature))), step + part.start - first
        # Steps so near to hidden cells that draws there affect draws at these.
        steps = np.arange(len(times))
        before = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=len(times)))])
        near = before[np.minimum(len(times), steps + reach + 1)] > before[np.maximum(0, steps - reach)]
        fill = np.broadcast_to(near, record.values.shape) & ~record.visible
        tell = lambda share, done=done: progress(done, len(pieces))
        for piece, samples in model.impute_long(record, n_samples, seed, fill, progress=tell):
            cells = (at >= piece.start) & (at < piece.stop)
            draws[:, cells] = samples.values[:, 0, feature[cells], at[cells] - piece.start]
        yield s, feature, step + part.start, draws, first_block + step // length
        first_block += -(-(part.stop - part.start) // length)
        progress(done + 1, len(pieces))


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


def simple_baselines(series: Series, season: str | None = None, independent: bool = False) -> dict[str, np.ndarray]:
    """By the name of the imputer (K, T); at the start of a series the first value is carried back.

    Args:
        season: see ``season_of``.
        independent: whether steps are records of their own: then those that need no order.
    """
    if independent:
        values = np.ma.masked_invalid(series.values)
        middles = {"the median": np.ma.median(values, axis=1), MEAN: values.mean(axis=1)}
        columns = {name: np.ma.filled(middle, 0.0)[:, None] for name, middle in middles.items()}
        return {name: np.broadcast_to(column, series.values.shape) for name, column in columns.items()}
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

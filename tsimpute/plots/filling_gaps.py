"""Where a table had gaps and what became of them: a map over time, and how long the gaps were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tsimpute.core.gaps import runs_of
from tsimpute.core.panel import OBSERVED, Filling, Panel
from tsimpute.plots._style import BLUE, GREEN, INK, ORANGE, PALE, PURPLE, VERMILION, finish, new_figure
from tsimpute.plots.fillings import drawn, span, time_axis, time_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_COLUMNS, MOST_ROWS, MOST_ROWS_OF_BOTH = 720, 240, 60
KINDS = (
    ("observed", PALE), ("filled", BLUE), ("filled without information", PURPLE), ("left empty", INK),
    ("declared invalid, filled", VERMILION), ("filled by rule", GREEN),
)  # fmt: skip
"""Name and colour of each code of provenance."""


@dataclass(frozen=True, eq=False)
class CellMap:
    """Cells of a table counted by row and column of a picture.

    Attributes:
        counts: (R, C, 6) cells of each code of provenance.
        rows: R names.
        edges: (C + 1,) float64 edges of the columns, in the unit of the labels (days since 1970 for dates).
        steps_per_column: of a regular clock, else None.
        note: what a row stands for, where it is more than one series of one feature.
    """

    counts: np.ndarray
    rows: tuple[str, ...]
    edges: np.ndarray
    steps_per_column: int | None
    note: str


@dataclass(frozen=True, eq=False)
class GapLengths:
    """Runs of missing cells of a table.

    Attributes:
        lengths: (G,) from the first missing step to the next observed one, in ``unit``.
        cells: (G,) missing cells of each.
        at_end: (G,) bool: nothing was observed before, or nothing after.
        unit: "minutes", "hours", "days", "steps" or "" for a clock of plain numbers.
        step: of a regular clock in ``unit``, else None.
        n_whole: series of a feature without any value; they are not among the gaps.
        n_whole_cells: their cells.
    """

    lengths: np.ndarray
    cells: np.ndarray
    at_end: np.ndarray
    unit: str
    step: float | None
    n_whole: int
    n_whole_cells: int


def cell_map(panel: Panel, fillings: Sequence[Filling]) -> CellMap:
    """Counts what each cell is by row and column of a picture of at most 720 columns and 240 rows.

    A row is one series of one feature where these are few; otherwise a feature over all series, or neighbours together.
    """
    row_of, rows, note = _rows(panel)
    edges, per_column = _edges(panel)
    n_columns = len(edges) - 1
    counts = np.zeros(len(rows) * n_columns * len(KINDS), np.int64)
    for n, (series, filling) in enumerate(zip(panel.series, fillings, strict=True)):
        column = np.clip(np.searchsorted(edges, _numbers(series.labels), "right") - 1, 0, n_columns - 1)
        place = (row_of[:, n, None] * n_columns + column) * len(KINDS) + filling.provenance
        np.add.at(counts, place.ravel(), 1)
    return CellMap(counts.reshape(len(rows), n_columns, len(KINDS)), rows, edges, per_column, note)


def _rows(panel: Panel) -> tuple[np.ndarray, tuple[str, ...], str]:
    """The row of each (feature, series), the rows' names, and what a row stands for."""
    features, groups = [f.name for f in panel.features], [s.name for s in panel.series]
    k, n = len(features), len(groups)
    if k > 1 and n > 1 and k * n <= MOST_ROWS_OF_BOTH:
        return np.arange(k * n).reshape(k, n), tuple(f"{f}, {g}" for f in features for g in groups), ""
    names, what = (groups, "series") if k == 1 and n > 1 else (features, "features")
    per_row = -(-len(names) // MOST_ROWS)
    row = np.arange(len(names)) // per_row
    row_of = np.broadcast_to(row if names is groups else row[:, None], (k, n))
    notes = [f"each row stands for {per_row} {what}"] * (per_row > 1)
    notes += [f"each row is a mean over {n:,} series"] * (k > 1 and n > 1)
    return row_of, tuple(names[::per_row]), " and ".join(notes)


def _edges(panel: Panel) -> tuple[np.ndarray, int | None]:
    ends = np.array([_numbers(series.labels[[0, -1]]) for series in panel.series if len(series.labels)])
    if not len(ends):
        return np.array([0.0, 1.0]), None
    low, high = float(ends.min()), float(ends.max())
    step = panel.clock.step
    if step is None:
        n_columns = min(MOST_COLUMNS, max(len(series.times) for series in panel.series))
        width = (high - low) / n_columns or 1.0
        return low + width * np.arange(n_columns + 1), None
    step = step / 24 if panel.series[0].labels.dtype.kind == "M" else step
    n_steps = round((high - low) / step) + 1
    per_column = -(-n_steps // MOST_COLUMNS)
    n_columns = -(-n_steps // per_column)
    return low + step * (per_column * np.arange(n_columns + 1) - 0.5), per_column


def _numbers(labels: np.ndarray) -> np.ndarray:
    if labels.dtype.kind == "M":
        return labels.astype("datetime64[us]").astype(np.int64) / 86_400e6
    return labels.astype(float)


def filled_map(panel: Panel, cells: CellMap) -> Figure:
    """The map as a picture; the colours of a column mix by their shares, white is where the table has no row."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    n_rows = len(cells.rows)
    figure = new_figure(9.6, min(max(1.25 + 0.17 * n_rows, 1.7), 9.0))
    axis = figure.subplots()
    total = cells.counts.sum(-1, keepdims=True)
    share = cells.counts / np.maximum(total, 1)
    colours = np.where(total > 0, share @ np.array([to_rgb(colour) for _, colour in KINDS]), 1.0)
    extent = (cells.edges[0], cells.edges[-1], n_rows - 0.5, -0.5)
    axis.imshow(colours, aspect="auto", interpolation="nearest", extent=extent)
    if 1 < n_rows <= 60:
        axis.hlines(np.arange(n_rows - 1) + 0.5, *extent[:2], color="white", lw=0.8)
    every = -(-n_rows // 48)
    names = [drawn(name, 32) for name in cells.rows[::every]]
    axis.set_yticks(np.arange(0, n_rows, every), names, parse_math=False)
    labels = panel.series[0].labels
    time_axis(axis, labels, len(cells.edges) - 1)
    ends = [series.labels[[0, -1]] for series in panel.series if len(series.labels)]
    whole_span = span(np.sort(np.concatenate(ends))) if ends else ""
    axis.set_xlabel(time_name(panel.clock, labels) or whole_span, fontsize=9)
    present = cells.counts.sum((0, 1)) > 0
    handles = [Patch(color=colour, lw=0) for (_, colour), here in zip(KINDS, present, strict=True) if here]
    words = [name for (name, _), here in zip(KINDS, present, strict=True) if here]
    figure.legend(handles, words, loc="outside upper right", ncols=5, frameon=False, fontsize=8.5)
    finish(figure, None)
    axis.spines[:].set_visible(False)
    axis.tick_params(axis="y", left=False, labelsize=9 if every == 1 and n_rows <= 25 else 7.5)
    return figure


def gap_lengths(panel: Panel, fillings: Sequence[Filling]) -> GapLengths:
    """Every run of missing cells, over all features and series; cells declared invalid count as missing."""
    lengths, cells, at_end = [np.empty(0)], [np.empty(0, int)], [np.empty(0, bool)]
    n_whole = n_whole_cells = 0
    for series, filling in zip(panel.series, fillings, strict=True):
        missing, times = filling.provenance != OBSERVED, series.times
        whole = missing.all(1)
        n_whole, n_whole_cells = n_whole + int(whole.sum()), n_whole_cells + int(missing[whole].sum())
        _, start, stop = runs_of(missing[~whole])
        last = panel.clock.step or (float(np.median(np.diff(times))) if len(times) > 1 else 1.0)
        ticks = np.append(times, times[-1] + last) if len(times) else times
        lengths.append(ticks[stop] - ticks[start])
        cells.append(stop - start)
        at_end.append((start == 0) | (stop == len(times)))
    step, unit, factor = panel.clock.step, panel.clock.unit, 1.0
    if unit == "hours" and step is not None:
        unit, factor = ("minutes", 60.0) if step < 1 else ("days", 1 / 24) if step % 24 == 0 else ("hours", 1.0)
    return GapLengths(
        np.concatenate(lengths) * factor, np.concatenate(cells), np.concatenate(at_end), unit, step and step * factor,
        n_whole, n_whole_cells,
    )  # fmt: skip


def gap_histogram(gaps: GapLengths) -> Figure:
    """How many gaps are how long, and how many missing cells lie in them; bins grow by doubling."""
    from matplotlib.ticker import MaxNLocator

    bins, names = _bins(gaps)
    tilted: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if len(names) > 7 else {}
    figure = new_figure(9.6, 3.1)
    axes = figure.subplots(1, 2)
    for axis, weights, title in zip(
        axes, (np.ones(len(bins), int), gaps.cells), ("gaps", "missing cells"), strict=True
    ):
        inner, ends = (np.bincount(bins[of], weights[of], len(names)) for of in (~gaps.at_end, gaps.at_end))
        at, label = np.arange(len(names)), "between observed values" if inner.any() else ""
        axis.bar(at, inner, color=BLUE, width=0.8, label=label)
        end_label = "at the start or end of a series" if ends.any() else ""
        axis.bar(at, ends, bottom=inner, color=ORANGE, width=0.8, label=end_label)
        above: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": 7.5, "color": INK}
        for x, n in enumerate(inner + ends):
            if n:
                axis.annotate(f"{int(n):,}", (x, n), (0, 2), **above)
        axis.set_ylim(0, 1.15 * (inner + ends).max())
        axis.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axis.yaxis.set_major_formatter("{x:,.0f}")
        axis.set_xticks(at, names, **tilted)
        axis.set_title(f"number of {title}", loc="left", fontsize=9.5)
        axis.set_xlabel(f"length of the gap{' in ' + gaps.unit if gaps.unit else ''}")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=2, frameon=False, fontsize=8.5)
    finish(figure, None)
    for axis in axes:
        axis.grid(False, axis="x")
        axis.tick_params(axis="x", labelsize=8)
    return figure


def _bins(gaps: GapLengths) -> tuple[np.ndarray, list[str]]:
    """The bin of each gap, and the bins' names: 1, 2, 3-4, 5-8 ... steps of a regular clock, else 1 to 2, 2 to 5 ..."""
    if gaps.step is not None:
        steps = np.rint(gaps.lengths / gaps.step).astype(int)
        bins = np.ceil(np.log2(np.maximum(steps, 1))).astype(int)
        tops = 2 ** np.arange(bins.max() + 1)
        lows = np.append(1, tops[:-1] + 1)
        names = [
            f"{a * gaps.step:.10g}" if a == b else f"{a * gaps.step:.10g}-{b * gaps.step:.10g}"
            for a, b in zip(lows, tops, strict=True)
        ]
        return bins, names
    decades = np.arange(np.floor(np.log10(gaps.lengths.min())), np.floor(np.log10(gaps.lengths.max())) + 2)
    parts = (1, 2, 5) if len(decades) <= 8 else (1,)
    edges = np.concatenate([[part * 10.0**decade for part in parts] for decade in decades])
    bins = np.searchsorted(edges, gaps.lengths, "right") - 1
    first, last = bins.min(), bins.max()
    return bins - first, [
        f"{a:g} to {b:g}" for a, b in zip(edges[first : last + 1], edges[first + 1 : last + 2], strict=True)
    ]

"""Filled series of one feature: observed values, the median of the draws and the bands around it."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tsimpute.core.panel import INVALID, LEFT_EMPTY, NO_INFORMATION, OBSERVED, RULE, Clock, Filling, Panel, Series
from tsimpute.plots._style import BLUE, GREEN, GREY, INK, PURPLE, VERMILION, finish, lone_steps, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WHOLE_STEPS = 500
"""A series of so many steps is shown whole; of a longer one, ``STRETCH`` steps are."""
STRETCH, CORE = 300, 150
MOST_SERIES = 3


@dataclass(frozen=True)
class Stretch:
    """Steps ``start`` to ``stop`` (not included) of series number ``series``."""

    series: int
    start: int
    stop: int


def filled_feature(panel: Panel, fillings: Sequence[Filling], feature: int, chosen: Sequence[Stretch]) -> Figure:
    """One feature in stretches of its series, one below the other.

    Shown are observed values as dark points, the median of the draws as a line, the outermost pair of quantiles as a
    band and, from four levels on, the second pair as a darker band. Cells filled without information and cells filled
    by a rule have other colours, cells that were declared invalid a cross on the median, cells left empty a tick
    at the lower edge.

    Args:
        panel: the table as it was understood.
        fillings: one per series, in the panel's order, all of the same quantile levels.
        feature: its place in the panel.
        chosen: one or more, as ``stretches`` gives them.
    """
    figure = new_figure(9.6, 0.75 + 1.75 * len(chosen))
    axes = figure.subplots(len(chosen), 1, squeeze=False)[:, 0]
    kinds: set[int] = set()
    name = drawn(panel.features[feature].name, 22)
    unit = panel.features[feature].unit_beside
    unit = "" if unit == "1" else drawn(unit, 20)
    regular = panel.clock.step is not None
    for axis, stretch in zip(axes, chosen, strict=True):
        filling, series = fillings[stretch.series], panel.series[stretch.series]
        here = slice(stretch.start, stretch.stop)
        kind = filling.provenance[feature, here]
        kinds |= set(np.unique(kind).tolist())
        bands = [(filling.quantiles[a, feature, here], filling.quantiles[b, feature, here]) for a, b in pairs(filling)]
        _draw(axis, series.labels[here], filling.point[feature, here], bands, kind, regular)
        axis.set_title(_title(series, stretch), loc="left", fontsize=9.5, parse_math=False)
        axis.set_ylabel(f"{name}\n({unit})" if unit else name, fontsize=9, parse_math=False)
        time_axis(axis, series.labels, stretch.stop - stretch.start)
    axes[-1].set_xlabel(time_name(panel.clock, panel.series[0].labels))
    figure.align_ylabels()
    handles, labels = _legend(kinds, fillings[0])
    compact = {"frameon": False, "fontsize": 8.5, "columnspacing": 1.3, "handlelength": 1.7}
    figure.legend(handles, labels, loc="outside upper right", ncols=max(1, len(labels)), **compact)
    return finish(figure, None)


def distribution(panel: Panel, fillings: Sequence[Filling], feature: int) -> Figure:
    """Histograms of one feature's observed values and of the medians that fill its gaps, over all rows."""
    figure = new_figure(9.6, 2.2)
    axis = figure.subplots()
    known = np.concatenate([series.values[feature][series.observed[feature]] for series in panel.series])
    filled = np.concatenate([filling.point[feature][filling.filled[feature]] for filling in fillings])
    edges = np.histogram_bin_edges(np.concatenate([known, filled]), bins=min(40, 5 + len(known) // 10)).tolist()
    for values, colour, name in ((known, INK, "observed"), (filled, BLUE, "filled (median)")):
        if len(values):
            axis.hist(values, edges, density=True, color=colour, alpha=0.35, histtype="stepfilled", label=name)
            axis.hist(values, edges, density=True, color=colour, lw=1.2, histtype="step")
    unit = panel.features[feature].unit_beside
    name = drawn(panel.features[feature].name, 40)
    axis.set_xlabel(f"{name} ({drawn(unit, 20)})" if unit not in ("", "1") else name, parse_math=False)
    axis.set_ylabel("density", fontsize=9)
    axis.legend(frameon=False, fontsize=8.5)
    return finish(figure, None)


def stretches(fillings: Sequence[Filling], feature: int) -> list[Stretch]:
    """The (up to) three series of a feature with most filled cells; of long ones a part.

    Series that show no value of the feature come after all others: what was filled there follows from other features
    alone. Beyond the first, a series is only chosen if something was filled in it.
    """
    n_observed, n_empty = (
        np.array([np.count_nonzero(filling.provenance[feature] == code) for filling in fillings])
        for code in (OBSERVED, LEFT_EMPTY)
    )
    filled = np.array([filling.provenance.shape[1] for filling in fillings]) - n_observed - n_empty
    order = np.lexsort((-filled, n_observed == 0, filled == 0))[:MOST_SERIES].tolist()
    chosen = []
    for n in (n for i, n in enumerate(order) if i == 0 or filled[n]):
        start, stop = 0, fillings[n].provenance.shape[1]
        if stop > WHOLE_STEPS:
            # Filled cells of the CORE steps from each step on.
            within = np.convolve(fillings[n].filled[feature], np.ones(CORE, int), "valid")
            start = int(np.clip(int(within.argmax()) - (STRETCH - CORE) // 2, 0, stop - STRETCH))
            stop = start + STRETCH
        chosen.append(Stretch(n, start, stop))
    return chosen


def pairs(filling: Filling) -> list[tuple[int, int]]:
    """Indices of the levels at the lower and upper edge of the bands to draw: the outermost, then the next if any."""
    n = len(filling.levels)
    return [(i, n - 1 - i) for i in range(min(2, n // 2))]


def _draw(
    axis: Axes,
    times: np.ndarray,
    point: np.ndarray,
    bands: Sequence[tuple[np.ndarray, np.ndarray]],
    kind: np.ndarray,
    regular: bool,
) -> None:
    """A stretch of n steps: times, point and kind (n,), bands pairs of (n,).

    On an irregular clock each filled cell is a bar: a band would tell of times at which nothing was filled.
    """
    observed, blind = kind == OBSERVED, kind == NO_INFORMATION
    ruled = kind == RULE
    informed = np.isfinite(point) & ~observed & ~blind & ~ruled
    for filled, colour in ((informed, BLUE), (blind, PURPLE), (ruled, GREEN)):
        padded = np.pad(filled, 1)
        # Filled steps and the observed ones next to them, where a band has no width.
        reach = (filled | (observed & (padded[:-2] | padded[2:]))) & regular
        lone = filled & ~reach | lone_steps(reach)
        for (low, high), alpha, width in zip(bands, (0.25, 0.35), (2.5, 4), strict=False):
            axis.fill_between(times, low, high, where=reach, color=colour, alpha=alpha, lw=0, zorder=1)
            axis.vlines(times[lone], low[lone], high[lone], color=colour, alpha=alpha, lw=width, zorder=1)
        axis.plot(times, np.where(reach, point, np.nan), color=colour, lw=1.3, zorder=2)
        axis.plot(times[lone], point[lone], color=colour, marker="_", ls="", ms=6, mew=1.6, zorder=2)
    size = 3.0 if len(times) <= 100 else 1.7
    axis.plot(times, np.where(observed, point, np.nan), color=INK, lw=0.6, marker="o", ms=size, mew=0, zorder=3)
    invalid, empty = kind == INVALID, kind == LEFT_EMPTY
    axis.plot(times[invalid], point[invalid], color=VERMILION, marker="x", ls="", ms=4.5, mew=1.2, zorder=4)
    edge: Any = axis.get_xaxis_transform()
    axis.plot(times[empty], np.full(empty.sum(), 0.03), color=GREY, marker="|", ls="", ms=6, mew=1, transform=edge)
    axis.margins(x=0.01, y=0.1)
    if not np.isfinite(point).any():
        axis.set_yticks([])


def _title(series: Series, stretch: Stretch) -> str:
    n, n_steps, name = stretch.stop - stretch.start, len(series.times), drawn(series.name, 50)
    if not n:
        return f"{name}: no step" if name else "No step"
    what = f"all {n:,} steps" if n > 1 else "one step"
    if n < n_steps:
        what = f"{n:,} of {n_steps:,} steps, around where most is filled"
    what += f", {span(series.labels[stretch.start : stretch.stop])}"
    return f"{name}: {what}" if name else what[0].upper() + what[1:]


def span(labels: np.ndarray) -> str:
    """From the first to the last time, as people write them; to the day where all are at midnight."""
    first, last = labels[0], labels[-1]
    if labels.dtype.kind != "M":
        texts = [f"{float(label):.10g}" for label in (first, last)]
    elif (labels == labels.astype("datetime64[D]")).all():
        texts = [str(label.astype("datetime64[D]")) for label in (first, last)]
    else:
        texts = [str(label.astype("datetime64[m]")).replace("T", " ") for label in (first, last)]
    return " to ".join(dict.fromkeys(texts))


def _legend(kinds: set[int], filling: Filling) -> tuple[list[Any], list[str]]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    informed = kinds - {OBSERVED, LEFT_EMPTY, NO_INFORMATION, RULE}
    entries: list[tuple[object, Any, str]] = [
        (OBSERVED in kinds, Line2D([], [], color=INK, lw=0.6, marker="o", ms=3), "observed"),
        (informed, Line2D([], [], color=BLUE, lw=1.5), "filled (median)"),
        (NO_INFORMATION in kinds, Line2D([], [], color=PURPLE, lw=1.5), "filled without information"),
        (RULE in kinds, Line2D([], [], color=GREEN, lw=1.5), "filled by rule"),
    ]
    colour = BLUE if informed else PURPLE if NO_INFORMATION in kinds else GREEN
    for (low, high), alpha in zip(pairs(filling), (0.25, 0.5), strict=False):
        band = f"{100 * filling.levels[low]:g} to {100 * filling.levels[high]:g} %"
        entries.append((kinds - {OBSERVED, LEFT_EMPTY}, Patch(color=colour, alpha=alpha, lw=0), band))
    entries += [
        (INVALID in kinds, Line2D([], [], color=VERMILION, marker="x", ls="", ms=5), "was declared invalid"),
        (LEFT_EMPTY in kinds, Line2D([], [], color=GREY, marker="|", ls="", ms=7), "left empty"),
    ]
    used = [(handle, label) for is_used, handle, label in entries if is_used]
    return [handle for handle, _ in used], [label for _, label in used]


def time_axis(axis: Axes, labels: np.ndarray, n_times: int) -> None:
    """Short dates where the times are dates; no ticks for a single time."""
    if n_times < 2:
        axis.set_xticks([])
        return
    if labels.dtype.kind != "M":
        return
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=9)
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(ConciseDateFormatter(locator, show_offset=False))


def time_name(clock: Clock, labels: np.ndarray) -> str:
    """The label of an axis of times; none for dates, which need none."""
    if labels.dtype.kind == "M":
        return ""
    return {"steps": "step", "rows": "row", "hours": "time (hours)", "": "time"}[clock.unit]


def drawn(text: str, most: int | None = None) -> str:
    """The text, shortened, in characters that the font of the pictures has; a box stands for each other."""
    known = _characters()
    text = text if most is None or len(text) <= most else text[: most - 1] + "…"
    return "".join(
        " " if c.isspace() else c if ord(c) in known and unicodedata.category(c)[0] != "C" else "\u25a1" for c in text
    )


@cache
def _characters() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())

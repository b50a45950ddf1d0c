"""Colours, figures, axes of metrics and saving, the same for all pictures."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tsimpute.evaluation.ensembles import INTERVALS
from tsimpute.system.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
INK, GREY, PALE = "#222222", "#767676", "#D9D9D9"
LINES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
MARKERS = "osD^vPX*"
TITLES = {
    "crps": "CRPS",
    "crps_fair": "fair CRPS",
    "crps_mean_over_features": "CRPS, mean over features",
    "ncrps": "magnitude-normalised CRPS",
    "mae_median": "MAE of the median",
    "rmse_mean": "RMSE of the mean",
    "rmse_lower_median": "RMSE of the lower median",
    **{f"coverage_{percent}": f"coverage of the {percent} % interval" for percent in INTERVALS},
}


def new_figure(width: float, height: float, dpi: float = 130) -> Figure:
    """An empty figure of that size in inches, which needs no display."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=dpi)


def panels(n: int) -> tuple[Figure, list[Axes]]:
    """A figure of ``n`` panels in rows of two."""
    across = min(n, 2)
    down = -(-n // across)
    figure = new_figure(5.4 * across, 4.2 * down)
    return figure, [figure.add_subplot(down, across, i + 1) for i in range(n)]


def plain_ticks(axis: Axis) -> None:
    """Plain numbers at 1, 2 and 5 times the powers of ten of a log axis."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def scale_values(axis: Axes, values: Sequence[float]) -> None:
    """A log axis where one value would press all others to the bottom."""
    if values and 0 < 5 * min(values) < max(values):
        axis.set_yscale("log")
        plain_ticks(axis.yaxis)


def label_metric(axis: Axes, metric: str, x_label: str, units: str = "1") -> None:
    """The title of a panel and the names of its axes."""
    axis.set_title(TITLES.get(metric, metric.replace("_", " ")), loc="left", fontsize=11)
    axis.set_ylabel({"1": "", "standardised": "standardised units"}.get(units, units))
    axis.set_xlabel(x_label)


def nominal_level(metric: str) -> list[tuple[str, float]]:
    """Name and height of the level at which a coverage should be; none for other metrics."""
    return [("nominal", int(metric.removeprefix("coverage_")) / 100)] if metric.startswith("coverage_") else []


def draw_levels(axis: Axes, levels: Sequence[tuple[str, float]]) -> None:
    """Level lines, named at their right end; names that would overlap are pushed apart."""
    for _, y in levels:
        axis.axhline(y, color=GREY, ls=(0, (5, 2.5)), lw=1.1, zorder=1)
    axis.autoscale_view()
    bottom, top = axis.get_ylim()
    place = -np.inf
    for label, y in sorted(levels, key=lambda level: level[1]):
        height = axis.transAxes.inverted().transform(axis.transData.transform((axis.get_xlim()[0], y)))[1]
        place = max(float(height), place + 0.05)
        axis.text(1.015, place, label, transform=axis.transAxes, va="center", fontsize=9, color=INK)
    axis.set_ylim(bottom, top)


def lone_steps(drawn: np.ndarray) -> np.ndarray:
    """Steps that are drawn although neither neighbour is: a line or band would have no length there."""
    padded = np.pad(drawn, 1)
    return drawn & ~padded[:-2] & ~padded[2:]


def finish_metrics(figure: Figure, title: str, path: Path | None, band: str = "") -> Figure:
    """``finish`` with a title and a legend of the first panel below all, with an entry for bands if they have a name.

    The legend has as many columns as fit into the figure's width, at most six.
    """
    from matplotlib.patches import Patch

    handles, labels = figure.axes[0].get_legend_handles_labels()
    if band:
        handles, labels = [*handles, Patch(color=GREY, alpha=0.3, lw=0)], [*labels, band]
    if labels:
        fitting = int(figure.get_figwidth() * 13 / (max(map(len, labels)) + 8))
        n_columns = max(1, min(len(labels), 6, fitting))
        figure.legend(handles, labels, loc="outside lower center", ncols=n_columns, frameon=False, fontsize=9)
    text = textwrap.fill(title, int(figure.get_figwidth() * 11))
    figure.suptitle(text, fontsize=11, x=0.01, ha="left", color=INK)
    return finish(figure, path)


def finish(figure: Figure, path: Path | None) -> Figure:
    """The figure in the common style, written to ``path`` (format by its ending) where one is given."""
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=9, color=GREY)
        if axis.get_label() != "<colorbar>" and not axis.images:
            axis.grid(True, color="#EBEBEB", lw=0.8)
            axis.set_axisbelow(True)
    if path is not None:
        path = Path(path)
        kind = path.suffix.removeprefix(".") or "png"
        atomic_write(path, lambda partial: figure.savefig(partial, format=kind))
    return figure

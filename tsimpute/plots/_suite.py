"""Pictures of a suite: metrics versus their cost, by length of the gap, and coverage of intervals."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tsimpute.plots import _style as style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = Mapping[str, Sequence[tuple[float, float]]]
"""By name of the method: (x, y), in order of x. Its place gives its colour; none are drawn where there are none."""

Bands = Mapping[str, Sequence[tuple[float, float, float]]]
"""By name of the method: (x, low, high) over several runs, in order of x."""


def versus(
    by_metric: Mapping[str, Points],
    levels: Mapping[str, Mapping[str, float]],
    x_label: str,
    title: str,
    path: Path | None = None,
    bands: Mapping[str, Bands] | None = None,
) -> Figure:
    """Metrics against what they cost, such as seconds of training or network evaluations, on a log axis.

    One panel per metric, in rows of two, and one line per method.

    Args:
        by_metric: metric -> method -> (cost, value).
        levels: metric -> method -> value, for methods without such a cost: level lines.
        x_label: what the cost is.
        title: above all.
        path: PNG (or what matplotlib writes by that ending) to write; None = only give back the figure.
        bands: metric -> method -> band over runs, drawn around the method's line.
    """
    figure, axes = style.panels(len(by_metric))
    for axis, (metric, points) in zip(axes, by_metric.items(), strict=True):
        _draw_lines(axis, points, (bands or {}).get(metric, {}))
        axis.set_xscale("log")
        style.plain_ticks(axis.xaxis)
        style.label_metric(axis, metric, x_label)
        style.scale_values(axis, [*_values(points), *levels.get(metric, {}).values()])
        style.draw_levels(axis, list(levels.get(metric, {}).items()))
    banded = any(band for of_metric in (bands or {}).values() for band in of_metric.values())
    return style.finish_metrics(figure, title, path, "median over runs, 2.5th to 97.5th percentile" if banded else "")


def by_gap(by_metric: Mapping[str, Points], bins: Sequence[str], title: str, path: Path | None = None) -> Figure:
    """Metrics against the length of the gap that a cell lies in, one panel per metric and one line per method.

    Args:
        by_metric: metric -> method -> (place in ``bins``, value).
        bins: names of the lengths.
        title, path: as in ``versus``.
    """
    figure, axes = style.panels(len(by_metric))
    for axis, (metric, points) in zip(axes, by_metric.items(), strict=True):
        _draw_lines(axis, points)
        axis.set_xticks(range(len(bins)), [textwrap.fill(name, 9) for name in bins])
        axis.set_xlim(-0.4, len(bins) - 0.6)
        style.label_metric(axis, metric, "length of the gap, steps")
        if nominal := style.nominal_level(metric):
            style.draw_levels(axis, nominal)
        else:
            style.scale_values(axis, _values(points))
    return style.finish_metrics(figure, title, path)


def calibration(points: Points, title: str, path: Path | None = None) -> Figure:
    """The coverage of central intervals less their nominal width: above 0 they are too wide, below too narrow.

    Args:
        points: method -> (width, coverage), both from 0 to 1.
        title, path: as in ``versus``.
    """
    figure = style.new_figure(6.4, 4.4)
    axis = figure.subplots()
    _draw_lines(axis, {name: [(100 * x, 100 * (y - x)) for x, y in curve] for name, curve in points.items()})
    axis.axhline(0, color=style.INK, lw=1.1, zorder=1)
    axis.set_xlabel("width of the central interval, %")
    axis.set_ylabel("coverage less width, percentage points")
    axis.set_title("coverage of central intervals", loc="left", fontsize=11)
    return style.finish_metrics(figure, title, path)


def ranks(points: Points, path: Path | None = None) -> Figure:
    """The average rank of each method against the share of cells that are missing completely at random, in percent."""
    figure = style.new_figure(6.4, 4.8)
    axis = figure.subplots()
    _draw_lines(axis, points)
    axis.set_xlabel("cells missing completely at random, %")
    axis.set_ylabel("average rank (1 is best)")
    axis.set_xticks(sorted({x for curve in points.values() for x, _ in curve}))
    return style.finish_metrics(figure, "average rank over all metrics and tables", path)


def _draw_lines(axis: Axes, points: Points, bands: Bands = MappingProxyType({})) -> None:
    for i, (name, curve) in enumerate(points.items()):
        colour, marker = style.LINES[i % len(style.LINES)], style.MARKERS[i % len(style.MARKERS)]
        if bands.get(name):
            x, low, high = zip(*bands[name], strict=True)
            axis.fill_between(x, low, high, color=colour, alpha=0.2, lw=0, zorder=2)
        if curve:
            dashes = ("-", "--", ":")[i // len(style.LINES) % 3]
            look: Any = {"marker": marker, "ls": dashes, "markersize": 4.5, "lw": 1.6, "zorder": 3}
            axis.plot(*zip(*curve, strict=True), label=name, color=colour, **look)


def _values(points: Points) -> list[float]:
    return [y for curve in points.values() for _, y in curve]

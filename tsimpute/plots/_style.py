"""Colours, figures and saving, the same for all pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tsimpute.system.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
INK, GREY, PALE = "#222222", "#767676", "#D9D9D9"


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that size in inches, which needs no display."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=130)


def panels(n: int) -> tuple[Figure, list[Axes]]:
    """A figure of ``n`` panels, two beside each other."""
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


def legend_columns(figure: Figure, labels: Sequence[str]) -> int:
    """As many columns as fit into the figure's width, at most one for each label and six."""
    longest = max(len(label) for label in labels)
    return max(1, min(len(labels), 6, int(figure.get_figwidth() * 13 / (longest + 8))))


def scale_values(axis: Axes, values: Sequence[float]) -> None:
    """A log axis where one value would press all others to the bottom."""
    if values and 0 < 5 * min(values) < max(values):
        axis.set_yscale("log")
        plain_ticks(axis.yaxis)


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

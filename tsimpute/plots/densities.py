"""Pictures of densities in two dimensions: imputed points beside the truth, and learnt conditionals beside exact ones.

Points are smoothed by a Gaussian kernel whose deviation is 1.5 % of each axis, in 200 x 200 cells. Points outside of a
picture count in its densities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.ndimage import gaussian_filter

from tsimpute.datasets.densities import DENSITIES, conditional
from tsimpute.plots._style import BLUE, GREY, INK, ORANGE, VERMILION, finish, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CELLS, _WIDTH = 200, 3.0
_DPI = 80  # smoothed noise takes much of a file
VIEWS = {
    "cosine": ((-4.0, 4.0), (-6.0, 6.0)),
    "banana": ((-7.0, 7.0), (-4.0, 10.0)),
    "funnel": ((-6.0, 6.0), (-7.0, 7.0)),
    "ring": ((-6.5, 6.5), (-6.5, 6.5)),
    "spiral": ((-6.0, 6.0), (-6.0, 6.0)),
}
"""What pictures show of x1 and of x2."""
_LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Of contour lines, as shares of the truth's largest density."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """What a method draws of a density.

    Attributes:
        points: (N, 2) imputed points.
        hidden: (N, 2) bool, the cells that were imputed.
        places: (2, Q) given values of x1 for x2, then of x2 for x1.
        draws: (2, Q, S) draws of the conditionals at these places, of x2, then of x1.
    """

    points: np.ndarray
    hidden: np.ndarray
    places: np.ndarray
    draws: np.ndarray


def kernel_density(name: str, points: np.ndarray) -> np.ndarray:
    """(200, 200) smoothed density of (N, 2) points within the picture of a density; first axis x1."""
    counts = np.histogram2d(points[:, 0], points[:, 1], _CELLS, VIEWS[name])[0]
    area = np.prod([high - low for low, high in VIEWS[name]]) / _CELLS**2
    return gaussian_filter(counts, _WIDTH, mode="constant") / (len(points) * area)


def learnt_density(name: str, truth: np.ndarray, drawn: Drawn, title: str, path: Path | None = None) -> Figure:
    """Truth and imputed points, and what was learnt: both conditionals at the middle place, and the joint density.

    Args:
        truth: (N, 2) points of the density.
    """
    points, hidden, places, draws = drawn.points, drawn.hidden, drawn.places, drawn.draws
    figure = new_figure(11.0, 6.0, _DPI)
    axes = figure.subplots(2, 3)
    joint = points[hidden.all(1)]
    middle = places.shape[1] // 2
    pictures = ((axes[0, 0], truth, "truth"), (axes[1, 0], points, "imputed"), (axes[1, 2], joint, "learnt p(x1, x2)"))
    for axis, of_picture, label in pictures:
        _show(axis, name, kernel_density(name, of_picture))
        axis.set_title(label, loc="left", fontsize=10)
    axes[0, 0].axvline(places[0, middle], color=ORANGE, lw=5, alpha=0.5)
    axes[0, 0].axhline(places[1, middle], color=BLUE, lw=5, alpha=0.4)
    some = points[hidden.any(1)][:400]
    axes[1, 0].plot(*some.T, ".", color=VERMILION, ms=2.5)
    axes[1, 0].set(xlim=VIEWS[name][0], ylim=VIEWS[name][1])
    x1, x2 = _middles(name)
    _show(axes[0, 2], name, np.exp(DENSITIES[name].log(x1[:, None], x2)))
    axes[0, 2].set_title("exact p(x1, x2)", loc="left", fontsize=10)
    for axis, unknown, given, at_place, colour in zip(axes[:, 1], (1, 0), places, draws, (ORANGE, BLUE), strict=True):
        grid, density = conditional(name, unknown, given[middle])
        edges = np.linspace(*VIEWS[name][unknown], 61)
        each = np.full(draws.shape[2], 1 / (draws.shape[2] * (edges[1] - edges[0])))
        axis.hist(at_place[middle], edges, weights=each, color=colour, alpha=0.5, label="learnt")
        axis.plot(grid, density, color=INK, lw=1.2, label="exact")
        axis.set_xlim(*VIEWS[name][unknown])
        axis.set_title(f"p(x{unknown + 1} | x{2 - unknown} = {given[middle]:.2f})", loc="left", fontsize=10)
        axis.legend(framealpha=0.8, edgecolor="none", fontsize=8)
    return _titled(figure, title, path)


def density_grid(
    name: str,
    truth: np.ndarray,
    imputed: Mapping[tuple[str, int], np.ndarray],
    title: str,
    path: Path | None = None,
    *,
    differences: bool = False,
) -> Figure:
    """Contour lines of imputed points by process (rows) and training steps (columns), or differences to the truth.

    Differences are in the truth's largest density; blue = too much, red = too little.

    Args:
        truth: (N, 2) points of the density.
        imputed: (N, 2) imputed points by process and training steps.
    """
    processes = list(dict.fromkeys(process for process, _ in imputed))
    budgets = list(dict.fromkeys(steps for _, steps in imputed))
    figure = new_figure(2.3 * len(budgets) + 0.6, 2.4 * len(processes) + 0.5, _DPI)
    axes = figure.subplots(len(processes), len(budgets), squeeze=False, sharex=True, sharey=True)
    of_truth = kernel_density(name, truth)
    top, (x1, x2) = of_truth.max(), _middles(name)
    for (row, process), (column, steps) in ((p, b) for p in enumerate(processes) for b in enumerate(budgets)):
        axis = axes[row, column]
        if (process, steps) in imputed:
            density = kernel_density(name, imputed[process, steps])
            if differences:
                _show(axis, name, (density - of_truth) / top, "RdBu", 0.5)
            else:
                axis.contour(x1, x2, of_truth.T, [v * top for v in _LEVELS], colors=GREY, linewidths=0.5)
                axis.contour(x1, x2, density.T, [v * top for v in _LEVELS], colors=BLUE, linewidths=0.9)
        axis.set_title(f"{steps:,} steps" if row == 0 else "", fontsize=9)
        axis.set_ylabel(process.replace("_", " ") if column == 0 else "", fontsize=9)
    return _titled(figure, title, path)


def _middles(name: str) -> list[np.ndarray]:
    return [low + (np.arange(_CELLS) + 0.5) / _CELLS * (high - low) for low, high in VIEWS[name]]


def _show(axis: Axes, name: str, density: np.ndarray, colours: str = "Greys", most: float | None = None) -> None:
    extent = tuple(np.ravel(VIEWS[name]))
    limits = {} if most is None else {"vmin": -most, "vmax": most}
    axis.imshow(density.T, origin="lower", extent=extent, aspect="auto", cmap=colours, **limits)  # type: ignore[arg-type]


def _titled(figure: Figure, title: str, path: Path | None) -> Figure:
    figure.suptitle(title, fontsize=11, x=0.01, ha="left", color=INK)
    return finish(figure, path)

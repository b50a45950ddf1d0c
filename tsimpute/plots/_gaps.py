"""Where values are missing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tsimpute.core.windows import Windows
from tsimpute.plots._style import BLUE, INK, ORANGE, PALE, finish, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def gaps(windows: Windows, path: Path | None = None, time_label: str = "step") -> Figure:
    """Where values are missing: a map of features and steps, and the share of each feature.

    One record shows each cell as observed, held out or missing; several show the share of records in which it is
    missing.

    Args:
        windows: records to look at.
        path: PNG to write; None = only give back the figure.
        time_label: the name of the horizontal axis.
    """
    k = windows.n_features
    figure = new_figure(11, min(max(2.2 + 0.2 * k, 3.6), 24))
    left, right = figure.subplots(1, 2, width_ratios=(3, 1.2), sharey=True)
    _draw_map(figure, left, windows)
    shares = [m.mean((0, 2)) * 100 for m in (windows.visible, windows.held_out_mask, ~windows.observed)]
    start = np.zeros(k)
    for share, colour, label in zip(shares, (BLUE, ORANGE, PALE), ("shown", "held out", "missing"), strict=True):
        if share.any():
            right.barh(np.arange(k), share, left=start, color=colour, label=label, height=0.8)
        start += share
    right.set_xlim(0, 100)
    right.set_xlabel("% of cells")
    every = max(1, -(-k // 100))
    left.set_yticks(np.arange(0, k, every), [f.name for f in windows.features][::every], fontsize=8 if k > 20 else 9)
    right.tick_params(axis="y", left=False)
    left.set_xlabel(time_label)
    for axis in (left, right):
        axis.spines[:].set_visible(False)
        axis.grid(False)
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=3, frameon=False)
    missing = 100 * (~windows.observed).mean()
    title = f"{len(windows)} record{'s' * (len(windows) != 1)}, {k} features, {windows.n_steps} steps"
    figure.suptitle(f"{title}: {missing:.1f} % missing", fontsize=11, x=0.01, ha="left", color=INK)
    return finish(figure, path)


def _draw_map(figure: Figure, axis: Axes, windows: Windows) -> None:
    from matplotlib.colors import LinearSegmentedColormap, ListedColormap

    if len(windows) == 1:
        kind = np.where(windows.visible[0], 0, np.where(windows.held_out_mask[0], 1, 2))
        colours = ListedColormap([BLUE, ORANGE, PALE])
        axis.imshow(kind, aspect="auto", interpolation="nearest", cmap=colours, vmin=0, vmax=2)
        axis.hlines(np.arange(windows.n_features - 1) + 0.5, -0.5, windows.n_steps - 0.5, color="white", lw=1)
        return
    ramp = LinearSegmentedColormap.from_list("gaps", [BLUE, "#9CC3DD", "#F2F2F2"])
    share = (~windows.observed).mean(0) * 100
    image = axis.imshow(share, aspect="auto", interpolation="nearest", cmap=ramp, vmin=0, vmax=100)
    bar = figure.colorbar(image, ax=axis, pad=0.01, aspect=30, fraction=0.05)
    bar.set_label("% of records missing")
    bar.outline.set_visible(False)  # type: ignore[operator]

"""The picture of ``table_report``: error against CPU seconds, one point a method."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox
from table_methods import EFFORTS, GAUSSIAN, PEERS, SIMPLE

GROUPS = (
    (SIMPLE, "#6b7280", "simple methods"),
    (PEERS, "#047857", "other libraries"),
    (GAUSSIAN, "#c2410c", "Gaussian process alone"),
    (EFFORTS, "#1d4ed8", "TableImputer"),
)


PLACES = ((7, 3, "left", "bottom"), (7, -3, "left", "top"), (-7, 3, "right", "bottom"), (-7, -3, "right", "top"),
          (0, 8, "center", "bottom"), (0, -8, "center", "top"))  # fmt: skip
"""Of a label beside its point: offset in points, and which of its edges lie there."""


def picture(summary: pd.DataFrame, path: Path) -> None:
    """Error relative to the best simple method against CPU seconds, each method labelled where there is room."""
    figure, axes = plt.subplots(figsize=(9, 5.5), layout="constrained")
    most = summary["rows"].max()
    for group, colour, label in GROUPS:
        of_group = summary[[name in group for name in summary.index]]
        for n, (_, line) in enumerate(of_group.iterrows()):
            face = colour if line["rows"] == most else "white"
            axes.plot(line["CPU seconds"], line["MAE"], "o", color=colour, mfc=face, ms=7, label="" if n else label)
    axes.axhline(1, color="#9ca3af", lw=1, ls=":")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.margins(x=0.12, y=0.1)
    low, high = axes.get_ylim()
    ticks = [t for t in (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 4) if low < t < high]
    axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.set_xlabel("CPU seconds for one table (geometric mean)")
    axes.set_ylabel("MAE relative to the best simple method (geometric mean)")
    axes.spines[["top", "right"]].set_visible(False)
    legend = axes.legend(
        fontsize=8, loc="lower left", title="open: rows are missing", title_fontsize=8, framealpha=1, edgecolor="white"
    )
    figure.draw_without_rendering()  # places are known from here on
    _label_all(axes, summary, legend.get_window_extent())
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _label_all(axes: Axes, summary: pd.DataFrame, legend: Bbox) -> None:
    points = axes.transData.transform(summary[["CPU seconds", "MAE"]].to_numpy(float))
    taken = [Bbox.from_bounds(x - 6, y - 6, 12, 12) for x, y in points]
    line = axes.annotate("best simple method of each row", (1, 1), (-4, 3), xycoords=("axes fraction", "data"),
                         ha="right", textcoords="offset points", color="#6b7280", fontsize=8)  # fmt: skip
    taken += [line.get_window_extent(), legend]
    for n, name in enumerate(summary.index):
        colour = next(colour for group, colour, _ in GROUPS if name in group)
        others = taken[:n] + taken[n + 1 :]
        for place in PLACES:
            x, y, ha, va = place
            text = axes.annotate(str(name), tuple(summary.loc[name, ["CPU seconds", "MAE"]]), (x, y), ha=ha, va=va,
                                 textcoords="offset points", color=colour, fontsize=9)  # fmt: skip
            box = text.get_window_extent()
            if place == PLACES[-1] or not box.count_overlaps(others):
                break
            text.remove()
        taken.append(box)

"""Records: where their values are missing, and imputed ones beside the truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tsimpute.core.quantiles import central_levels, fewest_draws
from tsimpute.core.windows import Samples, Windows
from tsimpute.errors import DataError
from tsimpute.evaluation.metrics import check_records
from tsimpute.plots._style import BLUE, GREY, INK, ORANGE, PALE, VERMILION, finish, lone_steps, new_figure

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


def imputed_records(
    samples: Samples,
    windows: Windows,
    features: Sequence[str] | None = None,
    path: Path | None = None,
    records: Sequence[str] | None = None,
    time_label: str = "time",
) -> Figure:
    """Records: observed points, held-out truth, median and 50 and 90 % bands of the samples.

    The bands are those whose coverage is scored; of fewer than 19 samples the wider one is their range.

    Args:
        samples: what an imputer made of ``windows.without_held_out()``. Cells that were not queried stay empty; a
            single one is drawn as a bar.
        windows: the same records, with their held-out values.
        features: rows of the picture; None = the (up to) four with most held-out cells.
        records: columns; None = the (up to) two with most held-out cells.
        time_label: the name and unit of ``times``, such as "hours since admission".

    Raises:
        DataError: the samples are of other records, or a feature or record is not there.
    """
    check_records(samples, windows)
    columns = _chosen("record", records, windows.record_ids, windows.held_out_mask.sum((1, 2)), 2)
    scored_here = windows.held_out_mask[columns].sum((0, 2))
    names = [f.name for f in windows.features]
    rows = _chosen("feature", features, names, scored_here * 1000 + windows.visible[columns].sum((0, 2)), 4)
    figure = new_figure(1.6 + 5.0 * len(columns), 1.0 + 1.9 * len(rows))
    axes = figure.subplots(len(rows), len(columns), squeeze=False, sharex="col")
    (low, high), (quarter, three) = central_levels(90), central_levels(50)
    bands = samples.quantile([low, quarter, 0.5, three, high])
    for i, k in enumerate(rows):
        for j, n in enumerate(columns):
            _draw_record(axes[i, j], bands[:, n, k], windows, n, k)
            axes[i, j].set_xlabel(time_label if i == len(rows) - 1 else "")
            axes[i, j].set_title(f"record {windows.record_ids[n]}" if i == 0 else "", loc="left", fontsize=10)
        unit = windows.features[k].unit
        axes[i, 0].set_ylabel(names[k] if unit in ("", "1") else f"{names[k]}\n({unit})")
    figure.align_ylabels()
    figure.legend(
        *_legend(samples.n_samples), loc="outside lower center", ncols=5 if len(columns) > 1 else 3, frameon=False
    )
    return finish(figure, path)


def _draw_record(axis: Axes, bands: np.ndarray, windows: Windows, n: int, k: int) -> None:
    """One feature of one record; bands (5, L) from the 5 % to the 95 % quantile, NaN where not queried."""
    times, values = windows.times[n], windows.values[n, k]
    shown, truth = windows.visible[n, k], windows.held_out_mask[n, k]
    drawn = np.isfinite(bands[2])
    low, quarter, middle, three, high = bands
    for a, b, alpha, width in ((low, high, 0.22, 2.5), (quarter, three, 0.42, 4.5)):
        axis.fill_between(times, a, b, where=drawn, color=BLUE, alpha=alpha, lw=0, zorder=1)
        lone = lone_steps(drawn) & ~shown
        axis.vlines(times[lone], a[lone], b[lone], color=BLUE, alpha=alpha, lw=width, zorder=1)
    gap = drawn & ~shown
    reach = gap | (drawn & (np.roll(gap, 1) | np.roll(gap, -1)))  # up to the observed points at the gap's edges
    axis.plot(times, np.where(drawn, middle, np.nan), color=GREY, lw=0.7, alpha=0.6, zorder=1)
    axis.plot(times, np.where(reach, middle, np.nan), color=BLUE, lw=1.7, zorder=2)
    lone = lone_steps(drawn) & ~shown
    axis.plot(times[lone], middle[lone], color=BLUE, marker="_", ls="", ms=7, mew=1.8, zorder=2)
    axis.plot(times[shown], values[shown], color=INK, marker="o", ls="", ms=3.6, zorder=4)
    axis.plot(times[truth], values[truth], color=VERMILION, marker="X", ls="", ms=6.5, mec="white", mew=0.7, zorder=5)
    axis.margins(x=0.02, y=0.12)


def _legend(n_samples: int) -> tuple[list[Any], list[str]]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return [
        Line2D([], [], color=INK, marker="o", ls="", ms=4),
        Line2D([], [], color=VERMILION, marker="X", ls="", ms=6.5, mec="white", mew=0.7),
        Line2D([], [], color=BLUE, lw=1.6),
        Patch(color=BLUE, alpha=0.55, lw=0),
        Patch(color=BLUE, alpha=0.22, lw=0),
    ], [
        "observed",
        "held-out truth",
        f"median of {n_samples} samples" if n_samples > 1 else "the one sample",
        # Of few samples the band is their range, and its nominal share would be false.
        *(f"{p} % band" if n_samples >= fewest_draws(p) else f"range of {n_samples} samples" for p in (50, 90)),
    ]


def _chosen(what: str, wanted: Sequence[str] | None, names: Sequence[str], weight: np.ndarray, most: int) -> list[int]:
    if wanted is None:
        best = np.argsort(-weight, kind="stable")[:most]
        return sorted(int(i) for i in best)
    absent = [name for name in wanted if name not in names]
    if absent or not wanted:
        raise DataError(f"{what}s: expected some of {', '.join(names)}; came {', '.join(absent) or 'none'}.")
    return [list(names).index(name) for name in wanted]

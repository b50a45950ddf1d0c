"""Metrics versus network evaluations per draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tsimpute.config.registry import is_known, make
from tsimpute.evaluation.reporting import Report, Row
from tsimpute.plots._curves import COMPARABLE, check_comparable, context_text
from tsimpute.plots._style import GREY, INK, LINES, finish_metrics, label_metric, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WITHIN = 0.01
"""How much worse than the reference a sampler may be and still count as good."""

NAMES = {
    ("flow_matching", "one_step, eta 0"): "Euler",
    ("diffusion", "one_step, eta 0"): "DDIM",
    ("diffusion", "one_step, eta 1"): "ancestral",
}


def steps(
    report: Report,
    metrics: Sequence[str] = ("crps_fair", "mae_median", "rmse_mean"),
    path: Path | None = None,
    feature: str = "all",
) -> Figure:
    """Metrics versus network evaluations per draw, one panel per metric and one line per process and solver.

    Colours are solvers, dashes processes, and hollow markers grids that are not even. A band reaches 1 % to both sides
    of each process's reference, its first-order solver with the most evaluations (Euler, or the ancestral one); a ring
    marks the fewest evaluations that are no more than 1 % worse. The fair CRPS is the default: where draws are few, the
    plain one favours those that are too close together, as those of few steps are.

    Args:
        report: rows of generative imputers on the same cells, with one number of draws.
        path: PNG (or what matplotlib writes by that ending) to write; None = only give back the figure.
        feature: a feature's name, or "all".

    Raises:
        DataError: a metric has no value, rows are not comparable, or one sampler has two values.
    """
    figure = new_figure(4.6 * len(metrics), 4.6)
    axes = figure.subplots(1, len(metrics), squeeze=False)[0]
    for axis, metric in zip(axes, metrics, strict=True):
        rows = [r for r in report.where(metric=metric, feature=feature).rows if r.value is not None and r.n_steps]
        check_comparable(rows, metric, feature, ("n_samples", "fill", *COMPARABLE), ("process", "solver", "n_steps"))
        _draw_metric(axis, rows, metric)
    ring = f"ring: fewest evaluations at most {100 * WITHIN:g} % above"
    return finish_metrics(figure, f"{context_text(rows[0])} · {rows[0].n_samples} draws · {ring}", path)


def evaluations(row: Row) -> int:
    """Network evaluations per draw of the sampler of a row; a solver that is not there is taken for one a step."""
    name = row.solver.split(",")[0]
    return make("solvers", name).n_evaluations(row.n_steps) if is_known("solvers", name) else row.n_steps


def reference(rows: Iterable[Row]) -> Row | None:
    """Of rows of one process and metric, that of the first-order solver with the most even steps; None without one."""
    first_order = [row for row in rows if row.solver.startswith("one_step") and "grid" not in row.solver]
    return max(first_order, key=lambda row: (evaluations(row), row.solver), default=None)


def fewest(rows: Sequence[Row]) -> Row | None:
    """Of rows of one process and metric, that of the fewest evaluations no more than 1 % worse than the reference."""
    best = reference(rows)
    limit = None if best is None or best.value is None else best.value * (1 + WITHIN)
    good = [row for row in rows if limit is not None and row.value is not None and row.value <= limit]
    return min(good, key=lambda row: (evaluations(row), row.value), default=None)


def _draw_metric(axis: Axes, rows: Sequence[Row], metric: str) -> None:
    processes, solvers = list(dict.fromkeys(row.process for row in rows)), sorted({row.solver for row in rows})
    colours = {name: LINES[i % len(LINES)] for i, name in enumerate(dict.fromkeys(_plain(name) for name in solvers))}
    for process, dashes, marker in zip(processes, ("-", "--", ":"), "os^", strict=False):
        of_process = [row for row in rows if row.process == process]
        for solver in [name for name in solvers if any(row.solver == name for row in of_process)]:
            points = sorted((evaluations(r), r.value) for r in of_process if r.solver == solver)
            axis.plot(
                *zip(*points, strict=True), ls=dashes, marker=marker, markersize=4.5, lw=1.6, zorder=3,
                color=colours[_plain(solver)], mfc=None if _plain(solver) == solver else "white",
                label=_label(process, solver),
            )  # fmt: skip
        _draw_reference(axis, of_process)
    _scale(axis, rows)
    label_metric(axis, metric, "network evaluations per draw", rows[0].units)


def _draw_reference(axis: Axes, rows: Sequence[Row]) -> None:
    """The band around the reference of one process, and the ring of the cheapest sampler that reaches it."""
    best, cheapest = reference(rows), fewest(rows)
    if best is None or best.value is None or cheapest is None or cheapest.value is None:
        return
    label = f"{_label(best.process, best.solver)}, {evaluations(best)}: ±{100 * WITHIN:g} %"
    axis.axhspan(
        best.value * (1 - WITHIN), best.value * (1 + WITHIN), color=GREY, alpha=0.25, lw=0, zorder=1, label=label
    )
    x, y = evaluations(cheapest), cheapest.value
    axis.plot(x, y, marker="o", markersize=12, mfc="none", mec=INK, ls="", zorder=4)


def _scale(axis: Axes, rows: Sequence[Row]) -> None:
    """Evaluations on a log axis; of the values only those up to 1.6 times the highest reference, and a note of others.

    Single steps can be so far off that all other values would look the same.
    """
    ticks = sorted({evaluations(row) for row in rows})
    axis.set_xscale("log", base=2)
    axis.set_xticks([tick for tick in ticks if tick + 1 not in ticks or tick < 3])
    axis.xaxis.set_major_formatter("{x:g}")
    axis.minorticks_off()
    values = [row.value for row in rows if row.value is not None]
    references = [reference([r for r in rows if r.process == process]) for process in {row.process for row in rows}]
    top = 1.6 * max((r.value for r in references if r is not None and r.value is not None), default=max(values))
    if max(values) > top:
        low = min(values)
        axis.set_ylim(low - 0.05 * (top - low), top)  # not as far down as the highest would have it
        axis.text(0.98, 0.97, f"up to {max(values):.3g}", transform=axis.transAxes, ha="right", va="top", color=GREY)


def _label(process: str, solver: str) -> str:
    name = NAMES.get((process, _plain(solver)), _plain(solver)) + solver.removeprefix(_plain(solver))
    return f"{process}, {name}".replace("_", " ")


def _plain(solver: str) -> str:
    """A solver's name without its grid."""
    return solver.split(", grid")[0]

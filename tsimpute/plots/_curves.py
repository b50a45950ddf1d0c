"""Metrics of a report versus training epochs, and versus network evaluations per draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tsimpute.config.registry import is_known
from tsimpute.core.quantiles import central_levels, quantiles
from tsimpute.errors import DataError
from tsimpute.evaluation.reporting import Report, Row
from tsimpute.plots import _style as style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COMPARABLE = ("dataset", "split", "protocol", "fold", "mechanism", "rate", "units")
METHOD = ("imputer", "process", "solver", "n_steps", "n_samples", "epoch", "run")

WITHIN = 0.01
"""How much worse than the reference a sampler may be and still count as good."""

NAMES = {
    ("flow_matching", "one_step, eta 0"): "Euler",
    ("diffusion", "one_step, eta 0"): "DDIM",
    ("diffusion", "one_step, eta 1"): "ancestral",
}


def curves(
    report: Report,
    metrics: Sequence[str] = ("crps", "rmse_mean"),
    path: Path | None = None,
    order: Sequence[str] = (),
) -> Figure:
    """Metrics versus training epochs, one panel per metric, in rows of two.

    One line per imputer, process, solver and number of steps and samples: the median over runs, and, where there are
    several runs, a band from the 2.5th to the 97.5th percentile; of fewer than 39 runs it is their range. What was not
    trained in epochs is a level line.

    Args:
        report: rows of one data set, split, protocol, fold, mechanism and rate.
        path: PNG (or what matplotlib writes by that ending) to write; None = only give back the figure.
        order: imputers by the place of their colour; those that are not named take the first ones.

    Raises:
        DataError: a metric has no value, rows are not comparable, or one run has two values for one epoch.
    """
    figure, axes = style.panels(len(metrics))
    for axis, metric in zip(axes, metrics, strict=True):
        rows = [r for r in report.where(metric=metric, feature="all").rows if r.value is not None]
        check_comparable(rows, metric)
        _draw_epochs(axis, rows, metric, order)
    rows = report.where(metric=metrics[0], feature="all").rows
    n_runs = len({r.run for r in rows if r.epoch is not None})
    band = f"95 % band over {n_runs} runs" if n_runs > 1 else ""
    return style.finish_metrics(figure, context_text(rows[0]), path, band)


def _draw_epochs(axis: Axes, rows: Sequence[Row], metric: str, order: Sequence[str]) -> None:
    methods = _by_method(rows)
    all_epochs = sorted({r.epoch for r in rows if r.epoch is not None})
    trained = [(label, of_method) for label, of_method in methods if of_method[0].epoch is not None]
    for i, (label, of_method) in enumerate(trained):
        place = order.index(of_method[0].imputer) if of_method[0].imputer in order else i
        colour, marker = style.LINES[place % len(style.LINES)], style.MARKERS[place % len(style.MARKERS)]
        epochs = sorted({r.epoch for r in of_method if r.epoch is not None})
        low, middle, high = np.array([_over_runs(of_method, epoch) for epoch in epochs]).T
        axis.plot(epochs, middle, color=colour, marker=marker, markersize=4.5, lw=1.8, label=label, zorder=3)
        if len({r.run for r in of_method}) > 1:
            axis.fill_between(epochs, low, high, color=colour, alpha=0.2, lw=0, zorder=2)
    if not metric.startswith("coverage_"):
        style.scale_values(axis, [r.value for r in rows if r.value is not None])
    levels = [(label, float(_over_runs(rows, None)[1])) for label, rows in methods if rows[0].epoch is None]
    style.draw_levels(axis, [*levels, *style.nominal_level(metric)])
    if all_epochs and all_epochs[0] > 0 and all_epochs[-1] / all_epochs[0] >= 10:
        axis.set_xscale("log")
        axis.minorticks_off()
        spaced: list[int] = []  # far enough from each other on a log axis to be printed; the last one always is
        for epoch in reversed(all_epochs):
            if not spaced or spaced[-1] / epoch > 1.25 * (all_epochs[-1] / all_epochs[0]) ** 0.02:
                spaced.append(epoch)
        axis.set_xticks(spaced[::-1], [str(epoch) for epoch in spaced[::-1]])
    elif len(all_epochs) <= 12:
        axis.set_xticks(all_epochs)
    style.label_metric(axis, metric, "training epochs", rows[0].units)


def _over_runs(of_method: Sequence[Row], epoch: int | None) -> np.ndarray:
    """(3,) 2.5th, 50th and 97.5th percentile over runs."""
    values = [row.value for row in of_method if row.epoch == epoch and row.value is not None]
    low, high = central_levels(95)
    return quantiles(np.array(values), (low, 0.5, high))


def _by_method(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Rows by method, with its label, which names only what tells the trained methods apart."""
    parts = ("imputer", "process", "solver", "n_steps", "n_samples")
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault((*(getattr(row, name) for name in parts), row.epoch is None), []).append(row)
    trained = [key for key in groups if not key[-1]]
    several = [len({key[i] for key in trained}) > 1 for i in range(len(parts))]
    labelled = []
    for (imputer, process, solver, n_steps, n_samples, level), of_method in groups.items():
        words = [process or imputer]
        words = [imputer, *words] if several[0] and process not in ("", imputer) else words
        words += [str(solver)] if several[2] and solver else []
        words += [f"{n_steps} steps"] if several[3] and n_steps else []
        words += [f"{n_samples} samples"] if several[4] else []
        labelled.append((imputer if level else ", ".join(word.replace("_", " ") for word in words), of_method))
    return labelled


def check_comparable(
    rows: Sequence[Row], metric: str, same: Sequence[str] = COMPARABLE, key: Sequence[str] = METHOD
) -> None:
    """Refuses rows that differ in what should be the same, or of which two are of one method.

    Raises:
        DataError: they do, or there is no row.
    """
    if not rows:
        raise DataError(f"report: no value of metric {metric!r} for feature 'all' to draw.")
    for name in same:
        values = sorted({str(getattr(row, name)) for row in rows})
        if len(values) > 1:
            raise DataError(f"report: expected one {name} in a picture, came {', '.join(values)}. Choose with where().")
    value_of: dict[tuple, float | None] = {}
    for row in rows:
        of_row = tuple(getattr(row, name) for name in key)
        if value_of.setdefault(of_row, row.value) != row.value:
            raise DataError(f"report: expected one value of {metric!r} per {', '.join(key)}; {of_row} has several.")


def context_text(row: Row) -> str:
    words = [row.dataset, row.split, row.protocol and f"{row.protocol} protocol", row.mechanism]
    words += ["" if row.fold is None else f"fold {row.fold}"]
    words += ["" if row.rate is None else f"{100 * row.rate:g} % held out", f"{row.n_cells:,} cells"]
    return " · ".join(word for word in words if word)


def steps(
    report: Report,
    metrics: Sequence[str] = ("crps_fair", "mae_median", "rmse_mean"),
    path: Path | None = None,
) -> Figure:
    """Metrics versus network evaluations per draw, one panel per metric and one line per process and solver.

    Colours are solvers, dashes processes, and hollow markers grids that are not even. A band reaches 1 % to both sides
    of each process's reference, its first-order solver with the most evaluations (Euler, or the ancestral one); a ring
    marks the fewest evaluations that are no more than 1 % worse. The fair CRPS is the default: where draws are few, the
    plain one favours those that are too close together, as those of few steps are.

    Args:
        report: rows of generative imputers on the same cells, with one number of draws.
        path: PNG (or what matplotlib writes by that ending) to write; None = only give back the figure.

    Raises:
        DataError: a metric has no value, rows are not comparable, or one sampler has two values.
    """
    figure = style.new_figure(4.6 * len(metrics), 4.6)
    axes = figure.subplots(1, len(metrics), squeeze=False)[0]
    for axis, metric in zip(axes, metrics, strict=True):
        rows = [r for r in report.where(metric=metric, feature="all").rows if r.value is not None and r.n_steps]
        check_comparable(rows, metric, ("n_samples", "fill", *COMPARABLE), ("process", "solver", "n_steps"))
        _draw_evaluations(axis, rows, metric)
    ring = f"ring: fewest evaluations at most {100 * WITHIN:g} % above"
    return style.finish_metrics(figure, f"{context_text(rows[0])} · {rows[0].n_samples} draws · {ring}", path)


def evaluations(row: Row) -> int:
    """Network evaluations per draw of the sampler of a row; a solver that is not there is taken for one a step."""
    return (row.nfe if is_known("solvers", row.solver.split(",")[0]) else row.n_steps) or 0


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


def _draw_evaluations(axis: Axes, rows: Sequence[Row], metric: str) -> None:
    processes, solvers = list(dict.fromkeys(row.process for row in rows)), sorted({row.solver for row in rows})
    plain = dict.fromkeys(_plain(name) for name in solvers)
    colours = dict(zip(plain, cycle(style.LINES), strict=False))
    for process, dashes, marker in zip(processes, ("-", "--", ":"), "os^", strict=False):
        of_process = [row for row in rows if row.process == process]
        for solver in [name for name in solvers if any(row.solver == name for row in of_process)]:
            points = sorted((evaluations(r), r.value) for r in of_process if r.solver == solver)
            axis.plot(
                *zip(*points, strict=True), ls=dashes, marker=marker, markersize=4.5, lw=1.6, zorder=3,
                color=colours[_plain(solver)], mfc=None if _plain(solver) == solver else "white",
                label=_sampler(process, solver),
            )  # fmt: skip
        best, cheapest = reference(of_process), fewest(of_process)
        if best is not None and best.value is not None and cheapest is not None:
            band = best.value * (1 - WITHIN), best.value * (1 + WITHIN)
            label = f"{_sampler(best.process, best.solver)}, {evaluations(best)}: ±{100 * WITHIN:g} %"
            axis.axhspan(*band, color=style.GREY, alpha=0.25, lw=0, zorder=1, label=label)
            ring: Any = evaluations(cheapest), cheapest.value  # the cheapest sampler that reaches the reference
            axis.plot(*ring, marker="o", markersize=12, mfc="none", mec=style.INK, ls="", zorder=4)
    _scale(axis, rows)
    style.label_metric(axis, metric, "network evaluations per draw", rows[0].units)


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
        at_top: Any = {"transform": axis.transAxes, "ha": "right", "va": "top", "color": style.GREY}
        axis.text(0.98, 0.97, f"up to {max(values):.3g}", **at_top)


def _sampler(process: str, solver: str) -> str:
    name = NAMES.get((process, _plain(solver)), _plain(solver)) + solver.removeprefix(_plain(solver))
    return f"{process}, {name}".replace("_", " ")


def _plain(solver: str) -> str:
    """A solver's name without its grid."""
    return solver.split(", grid")[0]

"""Metrics versus training epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tsimpute.core.quantiles import central_levels, quantiles
from tsimpute.errors import DataError
from tsimpute.evaluation.reporting import Report, Row
from tsimpute.plots._style import (
    LINES,
    MARKERS,
    draw_levels,
    finish_metrics,
    label_metric,
    nominal_level,
    panels,
    scale_values,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COMPARABLE = ("dataset", "split", "protocol", "fold", "mechanism", "rate", "units")
METHOD = ("imputer", "process", "solver", "n_steps", "n_samples", "epoch", "run")


def curves(
    report: Report,
    metrics: Sequence[str] = ("crps", "rmse_mean"),
    path: Path | None = None,
    feature: str = "all",
    order: Sequence[str] = (),
) -> Figure:
    """Metrics versus training epochs, one panel per metric, in rows of two.

    One line per imputer, process, solver and number of steps and samples: the median over runs, and, where there are
    several runs, a band from the 2.5th to the 97.5th percentile; of fewer than 39 runs it is their range. What was not
    trained in epochs is a level line.

    Args:
        report: rows of one data set, split, protocol, fold, mechanism and rate.
        path: PNG (or what matplotlib writes by that ending) to write; None = only give back the figure.
        feature: a feature's name, or "all".
        order: imputers by the place of their colour; those that are not named take the first ones.

    Raises:
        DataError: a metric has no value, rows are not comparable, or one run has two values for one epoch.
    """
    figure, axes = panels(len(metrics))
    for axis, metric in zip(axes, metrics, strict=True):
        rows = [r for r in report.where(metric=metric, feature=feature).rows if r.value is not None]
        check_comparable(rows, metric, feature)
        _draw_metric(axis, rows, metric, order)
    rows = report.where(metric=metrics[0], feature=feature).rows
    n_runs = len({r.run for r in rows if r.epoch is not None})
    return finish_metrics(figure, context_text(rows[0]), path, f"95 % band over {n_runs} runs" if n_runs > 1 else "")


@dataclass(frozen=True)
class _Line:
    """A method's values: one per epoch and run, or one per run where there are no epochs."""

    label: str
    rows: tuple[Row, ...]

    def over_runs(self, epoch: int | None) -> np.ndarray:
        """(3,) 2.5th, 50th and 97.5th percentile over runs."""
        values = [r.value for r in self.rows if r.epoch == epoch and r.value is not None]
        low, high = central_levels(95)
        return quantiles(np.array(values), (low, 0.5, high))


def _draw_metric(axis: Axes, rows: Sequence[Row], metric: str, order: Sequence[str]) -> None:
    lines = _lines(rows)
    trained = [line for line in lines if line.rows[0].epoch is not None]
    levels = [line for line in lines if line.rows[0].epoch is None]
    all_epochs = sorted({r.epoch for r in rows if r.epoch is not None})
    for i, line in enumerate(trained):
        place = order.index(line.rows[0].imputer) if line.rows[0].imputer in order else i
        colour, marker = LINES[place % len(LINES)], MARKERS[place % len(MARKERS)]
        epochs = sorted({r.epoch for r in line.rows if r.epoch is not None})
        low, middle, high = np.array([line.over_runs(e) for e in epochs]).T
        axis.plot(epochs, middle, color=colour, marker=marker, markersize=4.5, lw=1.8, label=line.label, zorder=3)
        if len({r.run for r in line.rows}) > 1:
            axis.fill_between(epochs, low, high, color=colour, alpha=0.2, lw=0, zorder=2)
    if not metric.startswith("coverage_"):
        scale_values(axis, [r.value for r in rows if r.value is not None])
    draw_levels(axis, [*((line.label, float(line.over_runs(None)[1])) for line in levels), *nominal_level(metric)])
    if all_epochs and all_epochs[0] > 0 and all_epochs[-1] / all_epochs[0] >= 10:
        axis.set_xscale("log")
        axis.minorticks_off()
        axis.set_xticks(_apart(all_epochs), [str(e) for e in _apart(all_epochs)])
    elif len(all_epochs) <= 12:
        axis.set_xticks(all_epochs)
    label_metric(axis, metric, "training epochs", rows[0].units)


def _lines(rows: Sequence[Row]) -> list[_Line]:
    """Rows by method; a label names only what tells the methods apart."""
    parts = ("imputer", "process", "solver", "n_steps", "n_samples")
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault((*(getattr(row, name) for name in parts), row.epoch is None), []).append(row)
    trained = [key for key in groups if not key[-1]]
    several = [len({key[i] for key in trained}) > 1 for i in range(len(parts))]
    return [_Line(_label(key, several), tuple(of_method)) for key, of_method in groups.items()]


def _label(key: tuple, several: Sequence[bool]) -> str:
    imputer, process, solver, n_steps, n_samples, level = key
    if level:
        return imputer
    words = [process or imputer]
    words = [imputer, *words] if several[0] and process not in ("", imputer) else words
    words += [str(solver)] if several[2] and solver else []
    words += [f"{n_steps} steps"] if several[3] and n_steps else []
    words += [f"{n_samples} samples"] if several[4] else []
    return ", ".join(word.replace("_", " ") for word in words)


def check_comparable(
    rows: Sequence[Row], metric: str, feature: str, same: Sequence[str] = COMPARABLE, key: Sequence[str] = METHOD
) -> None:
    """Refuses rows that differ in what should be the same, or of which two are of one method.

    Raises:
        DataError: they do, or there is no row.
    """
    if not rows:
        raise DataError(f"report: no value of metric {metric!r} for feature {feature!r} to draw.")
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


def _apart(epochs: Sequence[int]) -> list[int]:
    """Epochs far enough from each other on a log axis to be printed; the last one always is."""
    spaced: list[int] = []
    for epoch in reversed(epochs):
        if not spaced or spaced[-1] / epoch > 1.25 * (epochs[-1] / epochs[0]) ** 0.02:
            spaced.append(epoch)
    return spaced[::-1]

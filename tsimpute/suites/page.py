"""What a suite shows: metrics.csv, breakdowns.csv, tables.md, pictures, and one page of HTML with all of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from tsimpute.core.quantiles import central_levels, fewest_draws, quantiles
from tsimpute.errors import DataError
from tsimpute.evaluation.reporting import Report
from tsimpute.plots import by_gap, calibration, curves, versus
from tsimpute.reports.pages import Picture
from tsimpute.reports.pages import render as render_page
from tsimpute.suites.breakdowns import BINS
from tsimpute.suites.jobs import Job
from tsimpute.suites.paired import difference_table
from tsimpute.suites.results import Result, not_shown, read_results
from tsimpute.suites.settings import Suite
from tsimpute.suites.tables import (
    NOTES,
    Line,
    Table,
    feature_table,
    head_and_rows,
    last_lines,
    lines,
    markdown,
    parts_csv,
    published,
    side_by_side,
    task_sentences,
)
from tsimpute.system.files import atomic_write_text

CURVES = ("crps", "crps_fair", "ncrps", "mae_median", "rmse_mean", "rmse_lower_median")
STEPS = ("crps", "crps_fair")
BY_FEATURE = ("crps", "mae_median", "rmse_mean", "coverage_90")
GAPS = ("crps", "coverage_90")
KINDS = ("seconds", "gaps", "intervals", "steps", "epochs_fold[0-9]*")


def render(suite: Suite, jobs: Sequence[Job], out: Path) -> list[Path]:
    """Writes all results so far into ``out``, each file whole or not at all; returns their paths.

    Args:
        jobs: all of the suite.

    Raises:
        DataError: nothing is done yet, or a file of an entry is damaged.
    """
    results = list(read_results(jobs, out))
    if not results:
        raise DataError(f"{out}: expected results of the suite, there are none yet.")
    of_all = lines(results)
    last = {(line.task, line.method): line.epoch for line in last_lines(of_all)}
    # Single features in a few metrics after the last epoch only: all of them stand with the entries.
    rows = [
        row
        for result in results
        for row in result.report.rows
        if row.feature == "all" or (row.metric in BY_FEATURE and row.epoch == last[result.job.task, result.job.method])
    ]
    atomic_write_text(out / "metrics.csv", Report(tuple(rows)).csv())
    hidden = not_shown(jobs, out)
    differences = {task: difference_table(suite, task, results, out) for task in suite.tasks}
    atomic_write_text(
        out / "tables.md", "\n\n".join([markdown(suite, results, differences).rstrip("\n"), *hidden]) + "\n"
    )
    atomic_write_text(out / "breakdowns.csv", parts_csv(results))
    about_all = [{"entry": result.job.names} | asdict(result.record) for result in results]
    atomic_write_text(out / "entries.json", json.dumps(about_all, indent=1) + "\n")
    steps = Report.concat(result.steps for result in results)
    if steps.rows:
        atomic_write_text(out / "steps.csv", steps.csv())
    else:
        (out / "steps.csv").unlink(missing_ok=True)
    pictures = {task: _pictures(suite, task, results, of_all, out) for task in suite.tasks}
    for task, paths in pictures.items():  # what other settings have left
        before = [path for kind in KINDS for path in out.glob(f"{task}_{kind}.png")]
        for path in set(before) - set(paths):
            path.unlink()
    atomic_write_text(out / "index.html", _page(suite, results, of_all, pictures, differences, hidden))
    names = ["metrics.csv", "breakdowns.csv", *(["steps.csv"] if steps.rows else []), "tables.md", "entries.json"]
    names.append("index.html")
    return [*(out / name for name in names), *(path for paths in pictures.values() for path in paths)]


def _pictures(suite: Suite, task: str, results: Sequence[Result], of_all: Sequence[Line], out: Path) -> list[Path]:
    of_task = [result for result in results if result.job.task == task]
    of_lines = [line for line in of_all if line.task == task]
    if not of_task:
        return []
    paths = [out / f"{task}_{name}.png" for name in KINDS[:4]]
    units = of_lines[0].units.replace("standardised", "standardised units")
    title = f"{task}: {of_task[0].record.n_cells:,} cells, {units}"
    trained = _by_method([line for line in of_lines if line.epoch is not None])
    levels = {line.method: line for line in of_lines if line.epoch is None}
    pictures = []
    if any(len(states) > 1 and states[0].seconds_training for states in trained.values()):
        metrics = [
            metric for metric in CURVES if any(line.of_runs[metric] for line in of_lines if line.seconds_training)
        ]
        seconds = {
            metric: _in_order(suite, {name: _points(states, metric) for name, states in trained.items()})
            for metric in metrics
        }
        flat = {
            metric: {name: _value(line, metric) for name, line in levels.items() if line.of_runs[metric]}
            for metric in metrics
        }
        bands = {metric: {name: _bands(states, metric) for name, states in trained.items()} for metric in metrics}
        versus(seconds, flat, "seconds of training", title, paths[0], bands)
        pictures.append(paths[0])
    last = {line.method: line.epoch for line in last_lines(of_lines)}
    fold, seed = of_task[0].job.fold, of_task[0].job.seed
    first = f"{title}, fold {fold}, seed {seed}"
    of_first = [result for result in of_task if (result.job.fold, result.job.seed) == (fold, seed)]
    by_gap({m: _in_order(suite, _gap_points(of_first, last, m)) for m in GAPS}, BINS, first, paths[1])
    pictures.append(paths[1])
    drawn = [result for result in of_first if result.record.checkpoints[-1].n_samples > 1]
    if drawn:
        calibration(_in_order(suite, _interval_points(drawn, last)), first, paths[2])
        pictures.append(paths[2])
    if any(result.steps.rows for result in of_first):
        by_metric = {metric: _in_order(suite, _step_points(of_first, metric)) for metric in STEPS}
        versus(by_metric, {}, "network evaluations per sample", first, paths[3])
        pictures.append(paths[3])
    return pictures + _curves(of_task, task, out, list(suite.methods))


def _curves(results: Sequence[Result], task: str, out: Path, order: Sequence[str]) -> list[Path]:
    """Metrics versus epochs, where there are several."""
    paths = []
    for fold in sorted({result.job.fold for result in results}):
        rows = [row for result in results if result.job.fold == fold for row in result.report.rows]
        trained = [row for row in rows if row.epoch is not None]
        if len({row.epoch for row in trained}) > 1:
            path = out / f"{task}_epochs_fold{fold}.png"
            metrics = [m for m in CURVES if any(r.metric == m and r.value is not None for r in trained)]
            curves(Report(tuple(rows)), metrics, path, order=order)
            paths.append(path)
    return paths


def _in_order(suite: Suite, points: Mapping[str, list[tuple[float, float]]]) -> dict[str, list[tuple[float, float]]]:
    """All methods of the suite, those without points too: a method has the same colour in every picture."""
    return {name: points.get(name, []) for name in suite.methods}


def _by_method(of_task: Sequence[Line]) -> dict[str, list[Line]]:
    out: dict[str, list[Line]] = {}
    for line in sorted(of_task, key=lambda line: line.epoch or 0):
        out.setdefault(line.method, []).append(line)
    return out


def _value(line: Line, metric: str) -> float:
    return float(np.median(line.of_runs[metric])) if line.of_runs[metric] else float("nan")


def _points(of_method: Sequence[Line], metric: str) -> list[tuple[float, float]]:
    """The median over runs at the mean of their seconds."""
    return [(line.seconds_training, _value(line, metric)) for line in of_method if line.seconds_training]


def _bands(of_method: Sequence[Line], metric: str) -> list[tuple[float, float, float]]:
    """The 2.5th and the 97.5th percentile over runs, where there are several; of fewer than 39 runs their range."""
    several = [line for line in of_method if line.seconds_training and len(line.of_runs[metric]) > 1]
    return [
        (line.seconds_training or 0.0, *quantiles(np.array(line.of_runs[metric]), central_levels(95)).tolist())
        for line in several
    ]


def _gap_points(
    results: Sequence[Result], last: dict[str, int | None], metric: str
) -> dict[str, list[tuple[float, float]]]:
    """The first run of each method after its last epoch; the range of fewer than 19 draws cannot hold 90 %."""
    out: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        method, n_samples = result.job.method, result.record.checkpoints[-1].n_samples
        if method not in out and not (metric == "coverage_90" and n_samples < 19):
            of_last = [p for epoch, p in result.parts if epoch == last[method]]
            values = {p.key: p.value for p in of_last if (p.kind, p.metric) == ("gap", metric)}
            out[method] = [(i, v) for i, name in enumerate(BINS) if (v := values.get(name)) is not None]
    return {name: points for name, points in out.items() if points}


def _interval_points(results: Sequence[Result], last: dict[str, int | None]) -> dict[str, list[tuple[float, float]]]:
    out: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        method, n_samples = result.job.method, result.record.checkpoints[-1].n_samples
        if method not in out:
            out[method] = [
                (int(p.key) / 100, p.value)
                for e, p in result.parts
                if e == last[method] and p.kind == "interval" and p.value is not None
                if n_samples >= fewest_draws(int(p.key))
            ]
    return out


def _step_points(results: Sequence[Result], metric: str) -> dict[str, list[tuple[float, float]]]:
    """The first run of each method: (evaluations, value)."""
    out: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        epoch = result.record.checkpoints[-1].epoch
        both = (
            *result.report.where(metric=metric, feature="all", epoch=epoch).rows,
            *result.steps.where(metric=metric).rows,
        )
        rows = {(row.solver, row.n_steps): row for row in both}.values()
        points = [(n, row.value) for row in rows if row.value is not None and (n := row.nfe) is not None]
        if result.steps.rows and points and result.job.method not in out:
            out[result.job.method] = sorted(points)
    return out


def _page(
    suite: Suite,
    results: Sequence[Result],
    of_all: Sequence[Line],
    pictures: dict[str, list[Path]],
    differences: Mapping[str, Table],
    hidden: Sequence[str],
) -> str:
    machines = sorted({result.record.machine for result in results})
    commits = sorted({result.record.commit[:10] for result in results if result.record.commit})
    by = f", by commit {', '.join(commits)}" if commits else ""
    tasks = []
    for task in suite.tasks:
        of_task = [result for result in results if result.job.task == task]
        if not of_task:
            continue
        scores = head_and_rows([line for line in last_lines(of_all) if line.task == task])
        others = [table for table in (differences[task], published(suite, task)) if table[1]]
        tasks.append(
            {
                "name": task,
                "texts": task_sentences(of_task),
                "tables": [scores, *others],
                "by_feature": feature_table(of_task),
                "pictures": [Picture(path.read_bytes(), path.stem, path.name) for path in pictures[task]],
            }
        )
    return render_page(
        "suite.html",
        title=suite.title or "Suite",
        summary=f"{len(results)} entries, made on {'; '.join(machines)}{by}.",
        overview=side_by_side(suite, results),
        tasks=tasks,
        notes=[NOTES, *hidden],
    )

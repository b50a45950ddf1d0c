"""What a suite shows: metrics.csv, breakdowns.csv, tables.md, pictures, and one page of HTML with all of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, fields
from itertools import product
from pathlib import Path

import numpy as np

from tsimpute.core.quantiles import central_levels, fewest_draws, quantiles
from tsimpute.errors import DataError
from tsimpute.evaluation.reporting import Report, csv_text
from tsimpute.plots import by_gap, calibration, curves, versus
from tsimpute.reports.pages import Picture
from tsimpute.reports.pages import render as render_page
from tsimpute.suites import densities, ranking, tables
from tsimpute.suites.jobs import Job
from tsimpute.suites.paired import difference_table
from tsimpute.suites.results import Part, Result, damage, not_shown, read_results, samples_of
from tsimpute.suites.scoring import BINS
from tsimpute.suites.settings import Suite
from tsimpute.suites.tables import FEWEST_SAMPLES, Line, Table, last_lines
from tsimpute.suites.user_defined import import_plugins
from tsimpute.system.files import atomic_write_text

CURVES = ("crps", "crps_fair", "ncrps", "mae_median", "rmse_mean", "rmse_lower_median")
STEPS = ("crps", "crps_fair")
BY_FEATURE = ("crps", "mae_median", "rmse_mean", "coverage_90")
GAPS = ("crps", "coverage_90")
KINDS = ("seconds", "gaps", "intervals", "steps", "epochs_fold[0-9]*")

Curve = list[tuple[float, float]]


def render(
    suite: Suite, jobs: Sequence[Job], out: Path, damaged: Callable[[DataError], None] = lambda error: None
) -> list[Path]:
    """Writes all results so far into ``out``, each file whole or not at all; returns their paths.

    Args:
        jobs: all of the suite.
        damaged: called with the error of each entry that cannot be read. It is left out of the tables, which say so.

    Raises:
        DataError: there is nothing to show.
    """
    faults: list[DataError] = []

    def left_out(error: DataError) -> None:
        damaged(error)
        faults.append(error)

    results = list(read_results(jobs, out, left_out))
    if not results:
        more = f" {len(faults)} entries are damaged; the first: {faults[0]}" if faults else ""
        raise DataError(f"{out}: expected results of the suite, there are none yet.{more}")
    hidden = [*not_shown(jobs, out), *(f"Left out: {error}" for error in faults)]
    import_plugins(dict.fromkeys(one for result in results for one in result.job.plugins))  # rows ask their solvers
    if suite.ranking.groups:
        return ranking.render(suite, jobs, results, out, hidden)
    if suite.conditionals:
        return densities.render(suite, results, out, hidden)
    return _render_tables(suite, results, out, hidden, damaged)


def _render_tables(
    suite: Suite, results: Sequence[Result], out: Path, hidden: Sequence[str], damaged: Callable[[DataError], None]
) -> list[Path]:
    of_all = tables.lines(results)
    last = {(line.task, line.method): line.epoch for line in last_lines(of_all)}
    # Single features in a few metrics after the last epoch only: all of them stand with the entries.
    rows = [
        row
        for result in results
        for row in result.report.rows
        if row.feature == "all" or (row.metric in BY_FEATURE and row.epoch == last[result.job.task, result.job.method])
    ]
    lost: list[str] = []

    def no_samples(result: Result, error: DataError) -> None:
        job, folder = result.job, out / result.job.folder
        error = damage(folder, error)
        lost.append(
            f"Not among the differences: {job.title}, fold {job.fold}, as seed {job.seed} cannot be read: {error}"
        )
        if samples_of(folder, result.record.checkpoints[-1].epoch).is_file():
            damaged(error)

    differences = {task: difference_table(suite, task, results, out, no_samples) for task in suite.tasks}
    hidden = [*hidden, *lost]
    columns = ["task", "method", "fold", "seed", *(field.name for field in fields(Part))]
    parts = [(*result.job.names.values(), *astuple(part)) for result in results for part in result.parts]
    steps = Report.concat(result.steps for result in results)
    about_all = [{"entry": result.job.names} | asdict(result.record) for result in results]
    files = {"metrics.csv": Report(tuple(rows)).csv(), "breakdowns.csv": csv_text(columns, parts)}
    files |= {"steps.csv": steps.csv()} if steps.rows else {}
    files["tables.md"] = "\n\n".join([tables.markdown(suite, results, differences).rstrip("\n"), *hidden]) + "\n"
    files["entries.json"] = json.dumps(about_all, indent=1) + "\n"
    for name, text in files.items():
        atomic_write_text(out / name, text)
    if not steps.rows:
        (out / "steps.csv").unlink(missing_ok=True)
    pictures = {task: _pictures(suite, task, results, of_all, out) for task in suite.tasks}
    for task, paths in pictures.items():  # what other settings have left
        before = [path for kind in KINDS for path in out.glob(f"{task}_{kind}.png")]
        for path in set(before) - set(paths):
            path.unlink()
    atomic_write_text(out / "index.html", _page(suite, results, of_all, pictures, differences, hidden))
    return [*(out / name for name in (*files, "index.html")), *(path for paths in pictures.values() for path in paths)]


def _pictures(suite: Suite, task: str, results: Sequence[Result], of_all: Sequence[Line], out: Path) -> list[Path]:
    of_task = [result for result in results if result.job.task == task]
    of_lines = [line for line in of_all if line.task == task]
    if not of_task:
        return []
    seconds, gaps, intervals, steps = (out / f"{task}_{name}.png" for name in KINDS[:4])
    units = of_lines[0].units.replace("standardised", "standardised units")
    title = f"{task}: {of_task[0].record.n_cells:,} cells, {units}"
    paths = [seconds] if _draw_seconds(suite, of_lines, title, seconds) else []
    last = {line.method: line.epoch for line in last_lines(of_lines)}
    fold, seed = of_task[0].job.fold, of_task[0].job.seed
    title = f"{title}, fold {fold}, seed {seed}"
    first = {r.job.method: r for r in of_task if (r.job.fold, r.job.seed) == (fold, seed)}
    parts = {name: [part for part in result.parts if part.epoch == last[name]] for name, result in first.items()}
    n_samples = {name: result.record.checkpoints[-1].n_samples for name, result in first.items()}
    by_metric: dict[str, dict[str, Curve]] = {metric: {} for metric in GAPS}
    for metric, name in product(GAPS, first):
        # The range of fewer than 19 draws cannot hold 90 %.
        if metric != "coverage_90" or n_samples[name] >= FEWEST_SAMPLES[metric]:
            values = {part.key: part.value for part in parts[name] if (part.kind, part.metric) == ("gap", metric)}
            by_metric[metric][name] = [(i, v) for i, key in enumerate(BINS) if (v := values.get(key)) is not None]
    by_gap({metric: _in_order(suite, curves_of) for metric, curves_of in by_metric.items()}, BINS, title, gaps)
    paths.append(gaps)
    drawn = [name for name, n in n_samples.items() if n > 1]
    if drawn:
        widths = {
            name: [
                (int(part.key) / 100, part.value)
                for part in parts[name]
                if part.kind == "interval" and part.value is not None
                if n_samples[name] >= fewest_draws(int(part.key))
            ]
            for name in drawn
        }
        calibration(_in_order(suite, widths), title, intervals)
        paths.append(intervals)
    if any(result.steps.rows for result in first.values()):
        of_steps = {metric: {name: _step_points(result, metric) for name, result in first.items()} for metric in STEPS}
        of_metric = {metric: _in_order(suite, points) for metric, points in of_steps.items()}
        versus(of_metric, {}, "network evaluations per sample", title, steps)
        paths.append(steps)
    for fold in sorted({result.job.fold for result in of_task}):
        of_fold = [row for result in of_task if result.job.fold == fold for row in result.report.rows]
        trained = [row for row in of_fold if row.epoch is not None]
        if len({row.epoch for row in trained}) > 1:
            paths.append(out / f"{task}_epochs_fold{fold}.png")
            metrics = [m for m in CURVES if any(row.metric == m and row.value is not None for row in trained)]
            curves(Report(tuple(of_fold)), metrics, paths[-1], order=list(suite.methods))
    return paths


def _draw_seconds(suite: Suite, of_task: Sequence[Line], title: str, path: Path) -> bool:
    """Metrics against seconds of training, median and band over runs; False where nothing was trained in epochs."""
    states: dict[str, list[Line]] = {}
    for line in sorted(of_task, key=lambda line: line.epoch or 0):
        if line.epoch is not None:
            states.setdefault(line.method, []).append(line)
    if not any(len(of_method) > 1 and of_method[0].seconds_training for of_method in states.values()):
        return False
    points, levels, bands = {}, {}, {}
    for metric in CURVES:
        timed = {name: [s for s in each if s.seconds_training] for name, each in states.items()}
        if not any(line.of_runs[metric] for line in of_task if line.seconds_training):
            continue
        of_metric = {
            name: [(s.seconds_training or 0.0, _value(s, metric)) for s in each] for name, each in timed.items()
        }
        points[metric] = _in_order(suite, of_metric)
        level = [line for line in of_task if line.epoch is None and line.of_runs[metric]]
        levels[metric] = {line.method: _value(line, metric) for line in level}
        # Of fewer than 39 runs the percentiles are their range.
        bands[metric] = {
            name: [
                (s.seconds_training or 0.0, *quantiles(np.array(s.of_runs[metric]), central_levels(95)).tolist())
                for s in each
                if len(s.of_runs[metric]) > 1
            ]
            for name, each in timed.items()
        }
    versus(points, levels, "seconds of training", title, path, bands)
    return True


def _in_order(suite: Suite, points: Mapping[str, Curve]) -> dict[str, Curve]:
    """All methods of the suite, those without points too: a method has the same colour in every picture."""
    return {name: points.get(name, []) for name in suite.methods}


def _value(line: Line, metric: str) -> float:
    return float(np.median(line.of_runs[metric])) if line.of_runs[metric] else float("nan")


def _step_points(result: Result, metric: str) -> Curve:
    """(evaluations, value) of the last checkpoint; none where it was not scored with several numbers of steps."""
    if not result.steps.rows:
        return []
    epoch = result.record.checkpoints[-1].epoch
    at_last = result.report.where(metric=metric, feature="all", epoch=epoch).rows
    rows = {(row.solver, row.n_steps): row for row in (*at_last, *result.steps.where(metric=metric).rows)}
    return sorted((n, row.value) for row in rows.values() if row.value is not None and (n := row.nfe) is not None)


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
        of_lines = [line for line in last_lines(of_all) if line.task == task]
        scores = tables.head_and_rows(suite, of_lines)
        others = [table for table in (differences[task], tables.published(suite, task)) if table[1]]
        tasks.append(
            {
                "name": task,
                "texts": [*tables.task_sentences(of_task), *tables.notes_on_runs(suite, of_lines)],
                "tables": [scores, *others],
                "by_feature": tables.feature_table(of_task),
                "pictures": [Picture(path.read_bytes(), path.stem, path.name) for path in pictures[task]],
            }
        )
    return render_page(
        "suite.html",
        title=suite.title or "Suite",
        summary=f"{len(results)} entries, made on {'; '.join(machines)}{by}.",
        overview=tables.side_by_side(suite, results),
        tasks=tasks,
        notes=[tables.NOTES, *hidden],
    )

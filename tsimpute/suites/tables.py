"""The tables of a suite: one a task, a line a method, mean and standard error over runs, results of others below."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tsimpute.evaluation.reporting import Row
from tsimpute.suites.results import METRICS, CheckpointScore, Result
from tsimpute.suites.settings import Suite

FEWEST_SAMPLES = {"coverage_90": 19, "crps_fair": 2}
"""With fewer samples a metric is "-": the range of the draws cannot hold the interval, one draw has no fair CRPS."""
SIDE_BY_SIDE = tuple(metric for metric in METRICS if metric[0] in ("crps", "rmse_mean"))

Table = tuple[list[str], list[list[str]]]
"""A head, and rows of texts."""


@dataclass(frozen=True)
class Line:
    """What one method has reached on one task after one epoch, over its runs (folds x seeds).

    Attributes:
        epoch: None for a method that is not trained in epochs.
        values: (mean, standard error) by metric; the error is None with one run, the mean where it is undefined. The
            error is that over folds, of the mean over the seeds of each; with one fold over seeds.
        of_runs: the value of each run by metric, where it is defined.
        seconds_training, seconds_sampling: means over runs; ``seconds_training`` is None where it is not known.
        nfe: network evaluations per sample; None = no network.
        n_samples: samples per record.
        runs: (fold, seed) of each run.
        leakage: the result of the leakage test.
    """

    task: str
    method: str
    epoch: int | None
    values: Mapping[str, tuple[float | None, float | None]]
    of_runs: Mapping[str, Sequence[float]]
    seconds_training: float | None
    seconds_sampling: float
    nfe: int | None
    n_samples: int
    runs: Sequence[tuple[int, int]]
    units: str
    leakage: str

    def absent(self, suite: Suite) -> list[tuple[int, int]]:
        """(fold, seed) of the runs that the suite asks for and that are not there."""
        return [run for run in suite.runs_of(self.task, self.method) if run not in self.runs]

    def n_runs(self, suite: Suite) -> str:
        """The number of runs; of how many, where some are not there."""
        absent = len(self.absent(suite))
        return f"{len(self.runs)} of {len(self.runs) + absent}" if absent else str(len(self.runs))


def lines(results: Sequence[Result]) -> list[Line]:
    """Every state of every method, in the order of the results; states with runs of different number of draws apart."""
    groups: dict[tuple[str, str, int | None, int], list[tuple[Result, CheckpointScore]]] = {}
    for result in results:
        for checkpoint in result.record.checkpoints:
            key = (result.job.task, result.job.method, checkpoint.epoch, checkpoint.n_samples)
            groups.setdefault(key, []).append((result, checkpoint))
    of_all = []
    for (task, method, epoch, n_samples), runs in groups.items():
        rows = [
            {row.metric: row for row in result.report.where(feature="all", epoch=epoch, n_samples=n_samples).rows}
            for result, _ in runs
        ]
        folds = [result.job.fold for result, _ in runs]
        of_runs = {metric: [of_run[metric].value for of_run in rows] for metric, _ in METRICS}
        training = [run.seconds_training for _, run in runs if run.seconds_training is not None]
        tests = sorted({result.record.leakage for result, _ in runs if result.record.leakage})
        line = Line(
            task=task,
            method=method,
            epoch=epoch,
            values={metric: _mean_error(values, folds) for metric, values in of_runs.items()},
            of_runs={metric: [value for value in values if value is not None] for metric, values in of_runs.items()},
            seconds_training=float(np.mean(training)) if training else None,
            seconds_sampling=float(np.mean([run.seconds_sampling for _, run in runs])),
            nfe=rows[0]["crps"].nfe,
            n_samples=n_samples,
            runs=[(result.job.fold, result.job.seed) for result, _ in runs],
            units=rows[0]["crps"].units,
            leakage="; ".join(tests) or "not tested",
        )
        of_all.append(line)
    return of_all


def last_lines(of_all: Iterable[Line]) -> list[Line]:
    """The last checkpoint of each method on each task."""
    last: dict[tuple[str, str], Line] = {}
    for line in of_all:
        before = last.setdefault((line.task, line.method), line)
        if (line.epoch or 0) >= (before.epoch or 0):
            last[line.task, line.method] = line
    return list(last.values())


def _mean_error(values: Sequence[float | None], folds: Sequence[int]) -> tuple[float | None, float | None]:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None, None
    if len(set(folds)) > 1:  # runs of one fold share its cells: they are not so many separate readings
        of_fold = {fold: [v for v, f in zip(known, folds, strict=True) if f == fold] for fold in folds}
        known = [float(np.mean(fold_values)) for fold_values in of_fold.values()]
    error = float(np.std(known, ddof=1)) / math.sqrt(len(known)) if len(known) > 1 else None
    return float(np.mean(known)), error


def markdown(suite: Suite, results: Sequence[Result], differences: Mapping[str, Table]) -> str:
    """All tables, one a task, with what the numbers are of.

    Args:
        differences: by task, see ``paired``.
    """
    last = last_lines(lines(results))
    parts = [f"# {suite.title or 'Suite'}", ""]
    for title, head, rows in side_by_side(suite, results):
        parts += [f"## {title}", "", grid(head, rows), ""]
    for task in suite.tasks:
        of_task = [line for line in last if line.task == task]
        if of_task:
            parts += [f"## {task}", "", " ".join(task_sentences([r for r in results if r.job.task == task])), ""]
            parts += [grid(*head_and_rows(suite, of_task), words=1), ""]
            parts += [part for note in notes_on_runs(suite, of_task) for part in (note, "")]
            for (head, rows), words in ((differences[task], 0), (published(suite, task), 2)):
                parts += [grid(head, rows, words), ""] if rows else []
    parts += [NOTES]
    return "\n".join(parts) + "\n"


NOTES = (
    "CRPS, MAE and RMSE are in the units given and better when lower, as is nCRPS: CRPS by 19 quantiles, as CSDI "
    "computes it, over the mean size of the true values, a pure number. *CRPS over features* is the mean of the "
    "features' own, each counting once. *90 % coverage* is the share of true values in the central 90 % interval. "
    "Where there are several runs: mean and standard error over folds, of the mean over the seeds of each; with "
    "one fold over seeds. Seeds of a method that was trained elsewhere are those of its samples only. *leakage* is "
    "the result of the leakage test: the method is fitted on 24 records (networks for one epoch), and fills 4 "
    "others, once as they are and once with all held-out values set to 1e9, to another number and to the largest "
    "of its feature; none: nothing that it learns or samples changes by a bit. Of a method that was trained "
    "elsewhere only the filling is tested (filling only). What code of a method finds on disk or in the memory of "
    "this process is beyond the test. *difference*: the metric less that of the first method, on the same cells of "
    "the folds that both have; in brackets the middle 95 % over resamples of the records of each fold. It tells "
    "what other records would change, not what another training would; it is too narrow where few records carry "
    "most of the error, and far too narrow for windows of one series, which depend on each other. CRPS depends on "
    "the number of samples, fair CRPS does not. One sample: CRPS is MAE; a 90 % interval needs "
    f"{FEWEST_SAMPLES['coverage_90']} samples. Seconds are those of the machine named in each entry, which may have "
    "done other work at the same time."
)


def head_and_rows(suite: Suite, of_task: Sequence[Line]) -> Table:
    """A table for people: its head, and a row of texts for each line; runs that are not there have a note's number."""
    partial = [line for line in of_task if line.absent(suite)]
    head = ["method", "epochs", "samples", "NFE per sample", *(title for _, title in METRICS)]
    head += ["training, s", "sampling, s", "runs", "leakage"]
    return head, [
        [
            line.method,
            _text(line.epoch),
            str(line.n_samples),
            _text(line.nfe),
            *(
                "-" if line.n_samples < FEWEST_SAMPLES.get(metric, 1) else value_text(*line.values[metric])
                for metric, _ in METRICS
            ),
            "-" if line.seconds_training is None else _seconds(line.seconds_training),
            _seconds(line.seconds_sampling),
            line.n_runs(suite) + (f" [{partial.index(line) + 1}]" if line in partial else ""),
            line.leakage,
        ]
        for line in of_task
    ]


def notes_on_runs(suite: Suite, of_task: Sequence[Line]) -> list[str]:
    """The notes of ``head_and_rows``: which runs of a method are there, and which are not."""
    partial = [line for line in of_task if line.absent(suite)]
    return [
        f"[{n}] {line.method}: only {_runs_text(line.runs)}; without results: {_runs_text(line.absent(suite))}. Its "
        "numbers are of the former alone, and cannot be set beside the others."
        for n, line in enumerate(partial, 1)
    ]


def _runs_text(runs: Sequence[tuple[int, int]]) -> str:
    """Such as "fold 0, seeds 0, 1; folds 1, 2, seed 0"."""
    seeds_of = {fold: tuple(sorted(seed for f, seed in runs if f == fold)) for fold, _ in runs}
    texts = []
    for seeds in dict.fromkeys(seeds_of.values()):
        groups = ("fold", sorted(fold for fold, of_fold in seeds_of.items() if of_fold == seeds)), ("seed", seeds)
        texts.append(", ".join(f"{kind}{'s'[: len(all_) - 1]} {', '.join(map(str, all_))}" for kind, all_ in groups))
    return "; ".join(texts)


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 1 else f"{value:.1g}"


def value_text(value: float | None, error: float | None) -> str:
    if value is None:
        return "undefined"
    text = f"{value:.3g}" if abs(value) < 0.1 else f"{value:.3f}" if abs(value) < 10 else f"{value:.2f}"
    return text if error is None else f"{text} ± {error:.2g}"


def side_by_side(suite: Suite, results: Sequence[Result]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Tables of one metric each with all tasks beside each other: which protocol, which holes, and who fills them.

    Returns:
        Title, head and rows of each; none with fewer than two tasks.
    """
    tasks = [task for task in suite.tasks if any(r.job.task == task for r in results)]
    if len(tasks) < 2:
        return []
    first = {task: next(r for r in results if r.job.task == task) for task in tasks}
    last = {(line.task, line.method): line for line in last_lines(lines(results))}
    about_tasks = [
        ["protocol", *(first[task].report.rows[0].protocol for task in tasks)],
        ["mechanism", *(first[task].report.rows[0].mechanism for task in tasks)],
        [
            "share of cells hidden",
            *("-" if (rate := first[task].record.achieved_rate) is None else f"{rate:.4f}" for task in tasks),
        ],
        ["cells scored", *(f"{first[task].record.n_cells:,}" for task in tasks)],
        ["units", *(suite.tasks[task].units for task in tasks)],
    ]
    tables = []
    for metric, title in SIDE_BY_SIDE:
        rows = [
            [
                method,
                *(
                    value_text(*line.values[metric]) + (f" ({line.n_runs(suite)} runs)" if line.absent(suite) else "")
                    if (line := last.get((task, method)))
                    else "-"
                    for task in tasks
                ),
            ]
            for method in suite.methods
            if any((task, method) in last for task in tasks)
        ]
        tables.append((f"{title}, all tasks", ["", *tasks], [*about_tasks, *rows]))
    return tables


def feature_table(results: Sequence[Result]) -> Table:
    """The CRPS of each feature that is scored in one task: one fold and seed of each method in its last state."""
    of_method: dict[str, dict[str, Row]] = {result.job.method: {} for result in results}
    fold, seed = results[0].job.fold, results[0].job.seed
    for result in (r for r in results if (r.job.fold, r.job.seed) == (fold, seed)):
        rows = result.report.where(metric="crps", epoch=result.record.checkpoints[-1].epoch).rows
        of_method[result.job.method] = {row.feature: row for row in rows if row.feature != "all"}
    first = next(iter(of_method.values()))
    names = [name for name, row in first.items() if row.n_cells]
    rows = [
        [
            name,
            f"{first[name].n_cells:,}",
            *(value_text(rows[name].value, None) if name in rows else "-" for rows in of_method.values()),
        ]
        for name in names
    ]
    return ["feature", "cells", *of_method], rows


def grid(head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 0) -> str:
    """A table whose first column and last ``words`` columns hold words."""
    ruler = ["---", *["---:"] * (len(head) - 1 - words), *["---"] * words]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ruler, *rows))


def task_sentences(results: Sequence[Result]) -> list[str]:
    """Sentences on a task: which cells are scored, the steps of its protocol, and whether the protocol itself leaks."""
    first, report = results[0], results[0].report
    units = {"standardised": "standardised units", "data": "the data's own units"}[first.job.task_config.units]
    if report.where(metric="crps", feature="all").rows[0].units == "mixed":
        units += " (features of different units together: large ones dominate)"
    counts = sorted({(r.job.fold, r.record.n_cells, r.record.n_records) for r in results})
    cells = "; ".join(f"fold {fold}: {n:,} cells of {records:,} records" for fold, n, records in counts)
    whole = first.job.task_config.max_records is None
    numbers = [(r.record.n_cells if whole else r.record.n_cells_of_all, r.job.n_cells) for r in results]
    sure = " (as many as expected)" if all(n is not None and n == expected for n, expected in numbers) else ""
    kinds = {(r.job.fold, r.record.records) for r in results if r.record.records}
    others = "Its entries were made with different records or holes: do not compare them. "
    unlike = others if len(kinds) > len({fold for fold, _ in kinds}) else ""
    leak = (
        "The protocol's own scaler has seen held-out values of validation and test records, as the original's has."
        if any(r.record.protocol_leaks for r in results)
        else "Nothing of a held-out value is in the scaler."
    )
    of_what = f"{report.rows[0].dataset}, {report.rows[0].split}, {units}. {cells}{sure}."
    return [of_what, f"{unlike}{first.record.order} {leak}"]


def published(suite: Suite, task: str) -> Table:
    """What others printed of a task: a head, and a row of texts for each."""
    head = ["printed by others", "CRPS", "nCRPS", "MAE", "RMSE", "source", "what differs"]
    rows = [
        [row.method, _text(row.crps), _text(row.ncrps), _text(row.mae), _text(row.rmse), row.source, row.differs]
        for row in suite.published
        if row.task == task
    ]
    return head, [[text.replace("|", "/").replace("\n", " ") or "-" for text in row] for row in rows]


def _text(value: float | int | None) -> str:
    return "-" if value is None else str(value)

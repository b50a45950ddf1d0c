"""Scores a checkpoint of a method on a task, tests it for leakage, and describes how the numbers were made.

A breakdown says where a method is good: scores by length of the gap, and how much intervals of every width hold.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tsimpute.config.registry import make
from tsimpute.core.quantiles import fewest_draws
from tsimpute.core.windows import Windows
from tsimpute.datasets.fetching import find_root
from tsimpute.errors import ConfigError
from tsimpute.evaluation.ensembles import interval_holds
from tsimpute.evaluation.kept_samples import filled_table, read_cells
from tsimpute.evaluation.metrics import Scores
from tsimpute.evaluation.reporting import Report
from tsimpute.evaluation.table_metrics import BETWEEN_ROWS, MAX_ROWS, TABLE_METRICS, table_metrics
from tsimpute.experiments import runs
from tsimpute.experiments.leakage import leakage_of, leakage_of_filling, scaler_moves
from tsimpute.suites.checkpoints import Checkpoint, global_seeds, new_imputer, with_leakage_options
from tsimpute.suites.densities import density_parts
from tsimpute.suites.jobs import Job
from tsimpute.suites.results import EntryRecord, Part
from tsimpute.system.files import package_digest
from tsimpute.tasks.task import Task

BINS = ("1", "2-3", "4-6", "7-12", "13-24", "25+", "no value in the record")
"""Lengths of a gap in steps; the last: the record shows no value of that feature."""

_STARTS = np.array([1, 2, 4, 7, 13, 25])
LEVELS = (10, 20, 30, 40, 50, 60, 70, 80, 90, 95)
"""Central intervals, in percent."""

TABLE = "table"
"""The kind of parts that are metrics of whole tables."""

BY_GAP = ("crps", "crps_fair", "mae_median", "rmse_mean", "coverage_90")


@dataclass(frozen=True, eq=False)
class Prepared:
    """The task of one name and fold.

    Attributes:
        test: the records that are scored.
        leaks: the protocol's scaler has seen held-out values.
    """

    task: Task
    test: Windows
    leaks: bool


def prepare(job: Job) -> Prepared:
    """The records of a job, split and with their held-out cells."""
    data = job.scoring.data
    windows = runs.load_windows(data.name, data.root, **data.options)
    task = runs.task_of(job.scoring, windows)
    leaks = scaler_moves(task, lambda changed: runs.task_of(job.scoring, changed), windows)
    return Prepared(task, runs.scored_records(task, job.task_config.max_records), leaks)


def new_record(job: Job, prepared: Prepared) -> EntryRecord:
    """What is known of a job before anything is scored."""
    packages, test = ("tsimpute-cfmi", "torch", "numpy"), prepared.task.test
    # Of what is visible and what is scored: other data or other held-out cells, another digest.
    records = hashlib.sha256("\0".join(test.record_ids).encode())
    for array in (test.values, test.times, test.held_out_mask):
        records.update(np.ascontiguousarray(array).tobytes())
    return EntryRecord(
        key=job.key,
        order=prepared.task.order,
        n_cells=int(prepared.test.held_out_mask.sum()),
        n_records=len(prepared.test),
        n_cells_of_all=int(test.held_out_mask.sum()),
        records=records.hexdigest()[:16],
        leakage="",
        protocol_leaks=prepared.leaks,
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        versions={"python": platform.python_version()} | {name: version(name) for name in packages},
        commit=_commit(),
        code=package_digest(),
        checkpoints=(),
        changes=prepared.task.changes,
        achieved_rate=float(test.held_out_mask.sum() / test.observed.sum()),
    )


def leakage_result(job: Job, prepared: Prepared, model: Checkpoint | None = None) -> str:
    """The result of the leakage test; see ``tsimpute.experiments.leakage``.

    Args:
        model: of a method that was trained elsewhere: only its samples are tested.
    """
    if model is not None:
        return leakage_of_filling(model.imputer, prepared.test, job.seed)
    if job.config is not None:  # two steps of training are enough
        training = replace(job.config.training, epochs=1, max_steps=None, keep_epochs=())
        training = replace(training, query_unobserved=0.0, warmup_steps=0)
        job = replace(job, config=replace(job.config, training=training))
    job = with_leakage_options(job)
    try:
        with global_seeds(job.seed):
            return leakage_of(lambda: new_imputer(job), prepared.task, job.seed, job.method_config.n_samples or 2)
    except Exception as error:
        if job.config is not None:
            raise
        return f"could not be tested: {type(error).__name__}: {error}"


def score(
    job: Job,
    model: Checkpoint,
    prepared: Prepared,
    progress: Callable[[int, int], None],
    samples: Path | None,
) -> tuple[Report, list[Part]]:
    """The rows of a checkpoint, and its breakdown where samples are stored.

    Args:
        samples: file that gets the samples at the scored cells.
    """
    with global_seeds(job.seed) if job.method_config.imputer else nullcontext():
        stated = {"run": f"seed {job.seed}", "imputer": job.method, "epoch": model.epoch}
        report = runs.score(job.scoring, prepared.task, model.imputer, progress, samples, stated)
    parts = [] if samples is None else breakdown(prepared.test, samples)
    if samples is not None and job.ranked:
        parts += table_parts(job, prepared.task.test, samples)
    if samples is not None and job.conditionals:
        parts += density_parts(job, model.imputer, prepared.task.test, samples)
    return report, parts


def _commit() -> str:
    """The commit of the package's checkout; "" where there is none."""
    root = Path(__file__).parents[2]
    command = ["git", "-C", str(root), "rev-parse", "--show-toplevel", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    top, _, commit = done.stdout.strip().partition("\n")
    return commit if done.returncode == 0 and Path(top) == root else ""


def gap_lengths(shown: np.ndarray) -> np.ndarray:
    """(N, K, L) int: for each cell that is not shown the length in steps of the gap it lies in; 0 for shown cells.

    Args:
        shown: (N, K, L) bool. Gaps at the ends of a record count as far as the record goes; a feature of a record
            without any shown cell is one gap of -1.
    """
    steps = np.arange(shown.shape[-1])
    before = np.maximum.accumulate(np.where(shown, steps, -1), axis=-1)
    after = np.minimum.accumulate(np.where(shown, steps, len(steps))[..., ::-1], axis=-1)[..., ::-1]
    lengths = np.where(shown, 0, after - before - 1)
    return np.where(shown.any(-1, keepdims=True), lengths, -1)


def table_parts(job: Job, windows: Windows, samples: Path) -> list[Part]:
    """Metrics of whole tables, of the samples put into the table of these records; ``n_cells`` counts rows.

    Raises:
        ConfigError: the data set has no outcome.
        DataError: a record has several steps, or the table is not complete.
    """
    data = job.scoring.data
    outcome: Any = getattr(make("datasets", data.name, **data.options), "target", None)
    if outcome is None:
        raise ConfigError(f"suite: ranking: expected a data set with an outcome, such as uci; came {data.name!r}.")
    hidden, imputed = filled_table(samples, windows)
    truth, epoch = windows.values[:, :, 0], read_cells(samples)[0].context.epoch
    root = find_root(data.name, None if data.root is None else Path(data.root))
    values, n = table_metrics(truth, hidden, imputed, outcome(root)), len(truth)
    n_rows = {metric: min(n, MAX_ROWS) if metric in BETWEEN_ROWS else n for metric in TABLE_METRICS}
    return [
        Part(epoch, TABLE, "", name, None if np.isnan(values[name]) else values[name], n_rows[name])
        for name in TABLE_METRICS
        if name in values
    ]


def breakdown(windows: Windows, samples: Path) -> list[Part]:
    """The parts of an evaluation of these records, from the samples that it kept, in the units of its scores."""
    header, chunks = read_cells(samples)
    place = {record_id: n for n, record_id in enumerate(windows.record_ids)}
    lengths_of_gaps = gap_lengths(windows.without_held_out().visible)
    scores, holds, n_cells, epoch = Scores(BINS), np.zeros(len(LEVELS)), 0, header.context.epoch
    for cells in chunks:
        draws, truth = header.in_units(cells)
        records = np.array([place[str(record_id)] for record_id in cells.record_ids])
        lengths = lengths_of_gaps[records[cells.record], cells.feature, cells.step]
        bins = np.where(lengths < 0, len(BINS) - 1, np.searchsorted(_STARTS, lengths, side="right") - 1)
        scores.update(draws, truth, cells.record, bins, cells.record_ids.tolist())
        holds += [interval_holds(draws, truth, level).sum() for level in LEVELS]
        n_cells += len(truth)
    gaps = [score for score in scores.values() if score.feature != "all" and score.metric in BY_GAP]
    parts = [Part(epoch, "gap", score.feature, score.metric, score.value, score.n_cells) for score in gaps]
    for level, n_held in zip(LEVELS, holds, strict=True):
        if (scores.n_samples or 0) >= fewest_draws(level):  # else the range of the draws says nothing of this level
            share = n_held / n_cells if n_cells else None
            parts.append(Part(epoch, "interval", str(level), "coverage", share, n_cells))
    return parts

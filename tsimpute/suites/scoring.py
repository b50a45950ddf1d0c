"""Scores a checkpoint of a method on a task, tests it for leakage, and describes how the numbers were made."""

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

import numpy as np

from tsimpute.core.windows import Windows
from tsimpute.evaluation.reporting import Report
from tsimpute.experiments import runs
from tsimpute.experiments.leakage import leakage_of, leakage_of_filling, scaler_moves
from tsimpute.suites.breakdowns import breakdown
from tsimpute.suites.checkpoints import Checkpoint, global_seeds, new_imputer
from tsimpute.suites.jobs import Job
from tsimpute.suites.results import EntryRecord, Part
from tsimpute.tasks.task import Task


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
    return report, [] if samples is None else breakdown(prepared.test, samples)


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

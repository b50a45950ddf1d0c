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

from tsimpute.config.registry import plugin
from tsimpute.core.windows import Windows
from tsimpute.evaluation.evaluate import evaluate
from tsimpute.evaluation.kept_samples import Cells, Header, read_cells
from tsimpute.evaluation.reporting import Report
from tsimpute.experiments import runs
from tsimpute.experiments.leakage import leakage_of, leakage_of_filling, scaler_moves
from tsimpute.suites.breakdowns import Breakdown, Part
from tsimpute.suites.checkpoints import Checkpoint, global_seeds, new_imputer
from tsimpute.suites.jobs import Job
from tsimpute.suites.results import EntryRecord
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
    windows = _windows(job)
    task = make_task(job, windows)
    leaks = scaler_moves(task, lambda changed: make_task(job, changed), windows)
    return Prepared(task, runs.scored_records(task, job.task_config.max_records), leaks)


def make_task(job: Job, windows: Windows | None = None) -> Task:
    """The task of a job; of other records where they are given."""
    limits = plugin("datasets", job.task_config.data.name).card.limits
    protocol = replace(job.task_config.protocol, fold=job.fold)
    return runs.make_task(_windows(job) if windows is None else windows, protocol, limits)


def _windows(job: Job) -> Windows:
    data = job.task_config.data
    return runs.load_windows(data.name, data.root, **data.options)


def new_record(job: Job, prepared: Prepared) -> EntryRecord:
    """What is known of a job before anything is scored."""
    packages, test = ("tsimpute-cfmi", "torch", "numpy"), prepared.task.test
    return EntryRecord(
        key=job.key,
        order=prepared.task.order,
        n_cells=int(prepared.test.held_out_mask.sum()),
        n_records=len(prepared.test),
        n_cells_of_all=int(test.held_out_mask.sum()),
        records=_digest(test),
        leakage="",
        protocol_leaks=prepared.leaks,
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        versions={"python": platform.python_version()} | {name: version(name) for name in packages},
        commit=_commit(),
        checkpoints=(),
        changes=prepared.task.changes,
        achieved_rate=float(test.held_out_mask.sum() / test.observed.sum()),
    )


def _digest(test: Windows) -> str:
    """Of what is visible and what is scored: other data or other held-out cells, another digest."""
    digest = hashlib.sha256("\0".join(test.record_ids).encode())
    for array in (test.values, test.times, test.held_out_mask):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


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
    task = prepared.task
    context = runs.context_of(job.task_config.data.name, task, len(prepared.test), model.imputer, f"seed {job.seed}")
    with global_seeds(job.seed) if job.method_config.imputer else nullcontext():
        report = evaluate(
            model.imputer,
            prepared.test,
            n_samples=job.n_samples,
            seed=job.seed,
            fill=job.fill,
            scaler=(task.units or task.scaler) if job.task_config.units == "standardised" else None,
            context=replace(context, imputer=job.method, epoch=model.epoch),
            progress=progress,
            keep_samples=samples,
        )
    if samples is None:
        return report, []
    breakdown, header = Breakdown(prepared.test), None
    for content in read_cells(samples):
        if isinstance(content, Header):
            header = content
        elif isinstance(content, Cells) and header is not None:
            breakdown.add(content, header)
    return report, list(breakdown.parts())


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

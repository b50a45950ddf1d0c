"""Scores one state of a method on a task, changes hidden values, and writes down how it all came about."""

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
from tsimpute.evaluation.evaluate import evaluate
from tsimpute.evaluation.kept_samples import Cells, Header, read_cells
from tsimpute.evaluation.reporting import Report
from tsimpute.experiments import runs
from tsimpute.experiments.leakage import leakage_of, leakage_of_filling
from tsimpute.suites.breakdowns import Breakdown, Part
from tsimpute.suites.entries import EntryRecord
from tsimpute.suites.methods import new_imputer, short_training, training_config
from tsimpute.suites.own import global_seeds
from tsimpute.suites.settings import Entry, Suite
from tsimpute.suites.states import Checkpoint
from tsimpute.tasks.task import Task


@dataclass(frozen=True, eq=False)
class Prepared:
    """The task of one name and fold: its records, and whether its protocol's scaler has seen what it hides."""

    task: Task
    test: Windows
    leaks: bool


def blank(key: str, prepared: Prepared) -> EntryRecord:
    """What is known of an entry before anything is scored."""
    names, test = ("tsimpute-cfmi", "torch", "numpy"), prepared.task.test
    return EntryRecord(
        key=key,
        order=prepared.task.order,
        n_cells=int(prepared.test.held_out_mask.sum()),
        n_records=len(prepared.test),
        n_cells_of_all=int(test.held_out_mask.sum()),
        records=_digest(test),
        sabotage="",
        protocol_leaks=prepared.leaks,
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        versions={"python": platform.python_version()} | {name: version(name) for name in names},
        commit=_commit(),
        scored=(),
        changes=prepared.task.changes,
        reached=float(test.held_out_mask.sum() / test.observed.sum()),
    )


def _digest(test: Windows) -> str:
    """Of what is shown and what is scored: other data or other holes, another digest."""
    digest = hashlib.sha256("\0".join(test.record_ids).encode())
    for array in (test.values, test.times, test.held_out_mask):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def leakage_result(suite: Suite, entry: Entry, prepared: Prepared, model: Checkpoint | None = None) -> str:
    """What the test of hidden values says; see ``tsimpute.experiments.leakage``.

    Args:
        model: of a method that was trained elsewhere.
    """
    method, of_task = suite.methods[entry.method], suite.tasks[entry.task]
    if model is not None:
        return leakage_of_filling(model.imputer, prepared.test, entry.seed)
    config = None
    if method.config is not None:
        config = short_training(training_config(suite, of_task, method, entry.fold, entry.seed))
    try:
        with global_seeds(entry.seed):
            make = lambda: new_imputer(suite, method, config, entry.seed)
            return leakage_of(make, prepared.task, entry.seed, method.n_samples or 2)
    except Exception as error:
        if config is not None:  # of our own: nothing may fail
            raise
        return f"could not be tested: {type(error).__name__}: {error}"


def score(
    suite: Suite,
    entry: Entry,
    model: Checkpoint,
    prepared: Prepared,
    progress: Callable[[int, int], None],
    samples: Path | None,
) -> tuple[Report, list[Part]]:
    """The rows of a state, and its breakdown where samples are kept.

    Args:
        samples: file that gets the samples at the scored cells.
    """
    method, of_task, task = suite.methods[entry.method], suite.tasks[entry.task], prepared.task
    context = runs.context_of(of_task.data.name, task, len(prepared.test), model.imputer, f"seed {entry.seed}")
    with global_seeds(entry.seed) if method.imputer else nullcontext():
        report = evaluate(
            model.imputer,
            prepared.test,
            n_samples=method.n_samples or of_task.n_samples or suite.n_samples,
            seed=entry.seed,
            fill=method.fill or suite.fill,
            scaler=(task.units or task.scaler) if of_task.units == "standardised" else None,
            context=replace(context, imputer=entry.method, epoch=model.epoch),
            progress=progress,
            keep_samples=samples,
        )
    breakdown, header = Breakdown(prepared.test), None
    for content in read_cells(samples) if samples is not None else ():
        if isinstance(content, Header):
            header = content
        elif isinstance(content, Cells) and header is not None:
            breakdown.add(content, header)
    return report, [] if samples is None else list(breakdown.parts())


def _commit() -> str:
    """The commit of the package's own checkout; "" where it is none."""
    root = Path(__file__).parents[2]
    command = ["git", "-C", str(root), "rev-parse", "--show-toplevel", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    top, _, commit = done.stdout.strip().partition("\n")
    return commit if done.returncode == 0 and Path(top) == root else ""

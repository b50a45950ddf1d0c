"""The states of a method that a suite scores: trained here and now, kept by a run, or fitted at once."""

from __future__ import annotations

import csv
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tsimpute.config.registry import make
from tsimpute.config.settings import ProcessConfig, RunConfig, SamplingConfig
from tsimpute.config.yaml_files import load_config
from tsimpute.errors import CheckpointError
from tsimpute.experiments import runs
from tsimpute.imputers.base import Imputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.processes.base import takes
from tsimpute.suites.methods import (
    by_data,
    epochs_asked,
    new_imputer,
    original_csdi,
    settings_that_count,
    training_config,
)
from tsimpute.suites.own import global_seeds
from tsimpute.suites.settings import Entry, Suite
from tsimpute.tasks.task import Task

Progress = Callable[[str, int, int], None]
_LAST = ("last", "model")


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A method in the state after an epoch.

    Attributes:
        epoch: None for a method that is not trained in epochs.
        trained: seconds of training; None = not known.
        n_steps: the number of solver steps that it draws with instead of its own; None = its own.
    """

    imputer: Imputer
    epoch: int | None
    trained: float | None
    n_steps: int | None = None


def epochs_of(suite: Suite, entry: Entry) -> list[int]:
    """The epochs of a training at which it is scored; of one that is done those that were kept, and its last."""
    method, task = suite.methods[entry.method], suite.tasks[entry.task]
    asked = epochs_asked(suite, task)
    if method.run is None:
        last = training_config(suite, task, method, entry.fold, entry.seed).training.epochs
        return [*(epoch for epoch in asked if epoch < last), last]
    folder = suite.path(by_data(method.run, task))
    last = int(GenerativeImputer.load(_model(folder, _LAST)).fitted_["epoch"])
    return [*(e for e in asked if e < last and (folder / f"epoch-{e:04d}.safetensors").is_file()), last]


def steps_of(suite: Suite, entry: Entry) -> tuple[int, ...]:
    """The other numbers of solver steps that are scored: those of the task that the method's process can take."""
    method, task = suite.methods[entry.method], suite.tasks[entry.task]
    if not task.n_steps or method.imputer:
        return ()
    process = ProcessConfig("diffusion")
    if method.config is not None:
        process = training_config(suite, task, method, entry.fold, entry.seed).process
    elif method.run is not None:
        process = load_config(suite.path(by_data(method.run, task)) / "config.yaml").process
    made = make("processes", process.name, **process.options)
    return tuple(n for n in task.n_steps if takes(made, n))


def states(
    suite: Suite,
    out: Path,
    entry: Entry,
    task: Task,
    should_stop: Callable[[], bool],
    progress: Progress,
) -> Iterator[Checkpoint]:
    """The states of a method that are scored, in order; trained where they are not there yet.

    After the last one come, of what draws by a solver, the same with the task's other numbers of steps.
    """
    method, of_task = suite.methods[entry.method], suite.tasks[entry.task]
    steps = steps_of(suite, entry)
    if method.weights is not None:
        path = suite.path(method.weights)
        for n in (None, *steps):
            sampling = SamplingConfig(n_steps=n, device=suite.device)
            yield Checkpoint(original_csdi(path, of_task, task, sampling), None, None, n)
    elif method.run is not None:
        folder = suite.path(by_data(method.run, of_task))
        asked = RunConfig(data=of_task.data, protocol=replace(of_task.protocol, fold=entry.fold))
        runs.check_same_split(asked, folder)
        sampling = load_config(folder / "config.yaml").sampling
        sampling = sampling if suite.device == "cpu" else replace(sampling, device=suite.device)
        yield from _kept_models(folder, epochs_of(suite, entry), sampling, steps)
    elif method.config is not None:
        config = training_config(suite, of_task, method, entry.fold, entry.seed)
        folder = _training_folder(out, entry.method, _training_key(config, task))
        if _train(config, task, folder, f"{entry.task}, {entry.method}: training", should_stop, progress):
            yield from _kept_models(folder, epochs_of(suite, entry), config.sampling, steps)
    else:
        imputer = new_imputer(suite, method, None, entry.seed)
        progress(f"{entry.task}, {entry.method}: fitting", 0, 1)
        start = time.perf_counter()
        with global_seeds(entry.seed):  # copies: other methods are fitted on the same records
            imputer.fit(task.train.select(slice(None)), task.valid.select(slice(None)))
        yield Checkpoint(imputer, None, time.perf_counter() - start)


def _training_folder(out: Path, method: str, key: str) -> Path:
    """That of the same training, whichever method it was made for; else one with this method's name."""
    models = out / "models"
    return next((path for path in sorted(models.glob(f"*-{key}")) if path.is_dir()), models / f"{method}-{key}")


def _train(
    config: RunConfig, task: Task, folder: Path, what: str, should_stop: Callable[[], bool], progress: Progress
) -> bool:
    """Trains into ``folder`` or goes on there; False where it was stopped before its end.

    Raises:
        CheckpointError: it has gone past an epoch that is asked for now and was not when it passed.
    """
    for epoch in config.training.keep_epochs:
        if epoch < max(_seconds(folder), default=0):
            _model(folder, _of_epoch(epoch))
    last = config.training.epochs  # logged after its model is written
    if last in _seconds(folder) and (folder / f"{_of_epoch(last)[0]}.safetensors").is_file():
        return True
    step = None
    for step in runs.train(config, task, runs.new_imputer(config), folder, should_stop=should_stop):
        progress(what, step.step, step.n_steps)
    return step is not None and step.epoch >= config.training.epochs and not should_stop()


def _kept_models(
    folder: Path, epochs: Sequence[int], sampling: SamplingConfig, n_steps: Sequence[int]
) -> Iterator[Checkpoint]:
    seconds = _seconds(folder)
    for epoch in epochs[:-1]:
        yield Checkpoint(GenerativeImputer.load(_model(folder, _of_epoch(epoch)), sampling), epoch, seconds.get(epoch))
    last = _model(folder, (*_of_epoch(epochs[-1]), *_LAST))
    for n in (None, *n_steps):
        of_one = sampling if n is None else replace(sampling, n_steps=n)
        yield Checkpoint(GenerativeImputer.load(last, of_one), epochs[-1], max(seconds.values(), default=None), n)


def _of_epoch(epoch: int) -> tuple[str]:
    return (f"epoch-{epoch:04d}",)


def _model(folder: Path, names: Sequence[str]) -> Path:
    """The first of the models that there is.

    Raises:
        CheckpointError: none is there.
    """
    path = next((found for name in names if (found := folder / f"{name}.safetensors").is_file()), None)
    if path is None:
        raise CheckpointError(
            f"{folder}: {names[0]} was not kept when this was trained, as it was not asked for then. Ask for other "
            "epochs (at_epochs), or remove the folder to train anew."
        )
    return path


def _seconds(folder: Path) -> dict[int, float]:
    """Seconds of training up to each epoch, as the run has logged them."""
    path = folder / "epochs.csv"
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {int(row["epoch"]): float(row["seconds"]) for row in csv.DictReader(file)}


def _training_key(config: RunConfig, task: Task) -> str:
    """A key of all that a training depends on: tasks that train on the same shown cells share one."""
    digest = hashlib.sha256(np.where(task.train.visible, task.train.values, np.nan).tobytes())
    digest.update(task.train.times.tobytes())
    asked = {part: settings_that_count(config)[part] for part in ("process", "network", "training")}
    digest.update(json.dumps([asked, task.scaler.to_dict(), list(task.train.record_ids)], sort_keys=True).encode())
    return digest.hexdigest()[:12]

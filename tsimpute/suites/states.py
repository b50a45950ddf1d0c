"""The states of a method that a suite scores: trained here and now, kept by a run, or fitted at once."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tsimpute import runs
from tsimpute.config import RunConfig, SamplingConfig
from tsimpute.config_files import load_config, to_dict
from tsimpute.errors import CheckpointError, ConfigError
from tsimpute.imputers.base import Imputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.pipeline.task import Task
from tsimpute.suites.methods import by_data, epochs_asked, new_imputer, original_csdi, training_config
from tsimpute.suites.settings import Entry, Suite, TaskConfig

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class State:
    """A method in the state after an epoch; ``trained`` in seconds."""

    imputer: Imputer
    epoch: int | None
    trained: float | None


def epochs_of(suite: Suite, entry: Entry) -> list[int]:
    """The epochs of a training at which it is scored; of one that is done those that were kept, and its last."""
    method, task = suite.methods[entry.method], suite.tasks[entry.task]
    asked = epochs_asked(suite, task)
    if method.run is None:
        last = training_config(suite, task, method, entry.fold, entry.seed).training.epochs
        return [*(epoch for epoch in asked if epoch < last), last]
    folder = Path(by_data(method.run, task))
    last = load_config(folder / "config.yaml").training.epochs
    return [*(e for e in asked if e < last and (folder / f"epoch-{e:04d}.safetensors").is_file()), last]


def states(
    suite: Suite,
    out: Path,
    entry: Entry,
    task: Task,
    should_stop: Callable[[], bool],
    progress: Progress,
) -> Iterator[State]:
    """The states of a method that are scored, in order; trained where they are not there yet."""
    method, of_task = suite.methods[entry.method], suite.tasks[entry.task]
    if method.weights is not None:
        yield State(original_csdi(Path(os.path.expandvars(method.weights)), task), None, None)
    elif method.run is not None:
        folder = Path(by_data(method.run, of_task))
        _check_split(folder, of_task, entry)
        yield from _kept_models(folder, epochs_of(suite, entry), load_config(folder / "config.yaml").sampling)
    elif method.config is not None:
        config = training_config(suite, of_task, method, entry.fold, entry.seed)
        folder = out / "models" / f"{entry.method}-{_training_key(config, task)}"
        if _train(config, task, folder, f"{entry.task}, {entry.method}: training", should_stop, progress):
            yield from _kept_models(folder, epochs_of(suite, entry), config.sampling)
    else:
        imputer = new_imputer(method, None, entry.seed)
        progress(f"{entry.task}, {entry.method}: fitting", 0, 1)
        start = time.perf_counter()
        imputer.fit(task.train, task.valid)
        yield State(imputer, None, time.perf_counter() - start)


def _train(
    config: RunConfig, task: Task, folder: Path, what: str, should_stop: Callable[[], bool], progress: Progress
) -> bool:
    """Trains into ``folder`` or goes on there; False where it was stopped before its end."""
    if (folder / f"epoch-{config.training.epochs:04d}.safetensors").is_file():
        return True
    step = None
    for step in runs.train(config, task, runs.new_imputer(config), folder, should_stop=should_stop):
        progress(what, step.step, step.n_steps)
    return step is not None and step.epoch >= config.training.epochs and not should_stop()


def _kept_models(folder: Path, epochs: Sequence[int], sampling: SamplingConfig) -> Iterator[State]:
    seconds = _seconds(folder)
    for epoch in epochs:
        names = [f"epoch-{epoch:04d}", *(("last", "model") if epoch == epochs[-1] else ())]
        path = next((found for name in names if (found := folder / f"{name}.safetensors").is_file()), None)
        if path is None:
            raise CheckpointError(
                f"{folder}: epoch {epoch} was not kept when this was trained, as it was not asked for then. Ask for "
                "other epochs (at_epochs), or remove the folder to train anew."
            )
        yield State(GenerativeImputer.load(path, sampling), epoch, seconds.get(epoch))


def _seconds(folder: Path) -> dict[int, float]:
    """Seconds of training up to each epoch, as the run has logged them."""
    path = folder / "epochs.csv"
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {int(row["epoch"]): float(row["seconds"]) for row in csv.DictReader(file)}


def _training_key(config: RunConfig, task: Task) -> str:
    """A key of all that a training depends on: tasks that train on the same shown cells share one."""
    digest = hashlib.sha256(np.where(task.train.shown, task.train.values, np.nan).tobytes())
    digest.update(task.train.times.tobytes())
    asked = {part: to_dict(getattr(config, part)) for part in ("process", "network", "training")}
    asked["training"].pop("keep_epochs")
    if config.training.patience is not None:  # only then do validation records choose the epoch
        digest.update(np.where(task.valid.shown, task.valid.values, np.nan).tobytes())
    digest.update(json.dumps([asked, task.scaler.to_dict(), list(task.train.record_ids)], sort_keys=True).encode())
    return digest.hexdigest()[:12]


def _check_split(folder: Path, of_task: TaskConfig, entry: Entry) -> None:
    came = runs.split_of(load_config(folder / "config.yaml"))
    asked = runs.split_of(RunConfig(data=of_task.data, protocol=replace(of_task.protocol, fold=entry.fold)))
    if asked != came:
        raise ConfigError(
            f"suite: {entry.method!r} on {entry.task!r}: {folder} was trained on {came}, asked to score {asked} (data, "
            "options, protocol, fold, seed). Records that it has seen would be scored; name another run, or its tasks."
        )

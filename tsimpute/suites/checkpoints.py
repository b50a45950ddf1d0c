"""The checkpoints of a method that a suite scores: trained for it, kept by a finished run, or fitted at once."""

from __future__ import annotations

import csv
import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tsimpute.config.registry import IMPUTER_KINDS, available, is_import_path, is_known, make_imputer
from tsimpute.config.settings import NetworkConfig, ProcessConfig, RunConfig, SamplingConfig
from tsimpute.config.yaml_files import load_config
from tsimpute.errors import CheckpointError, ConfigError
from tsimpute.experiments import runs
from tsimpute.imputers.base import Imputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.imputers.linear_pool import LinearPoolImputer
from tsimpute.imputers.network.fitted import FittedModel, RecordClock
from tsimpute.models.csdi_weights import load_csdi_weights
from tsimpute.suites.jobs import LAST, Job, model_file, settings_that_count
from tsimpute.suites.user_defined import Plugin, user_imputer
from tsimpute.system.files import atomic_write_text, package_digest
from tsimpute.tasks.missingness import global_generators_kept
from tsimpute.tasks.task import Task

Progress = Callable[[str, int, int], None]
ORIGINAL_SPLIT = ("physionet2012", "csdi", 0, 1)
"""Data, protocol, fold and seed that CSDI's released weights were trained with."""
LONG = 30.0
"""Seconds of a fit from which it is kept."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A method after an epoch.

    Attributes:
        epoch: None for a method that is not trained in epochs.
        seconds_training: None = not known.
        n_steps: the number of solver steps that it samples with instead of its default; None = its default.
    """

    imputer: Imputer
    epoch: int | None
    seconds_training: float | None
    n_steps: int | None = None


def checkpoints(
    job: Job, out: Path, task: Task, should_stop: Callable[[], bool], progress: Progress
) -> Iterator[Checkpoint]:
    """The checkpoints of a job in order, trained where they do not exist yet; the last with other numbers of steps too.

    Args:
        out: folder of the suite's results; trainings are in its folder ``models``.
    """
    if job.config is not None:
        # The folder of the same training, whichever method it was made for; else one with this method's name.
        models, key = out / "models", training_key(job.config, task, job.plugins)
        folders = (path for path in sorted(models.glob(f"*-{key}")) if path.is_dir())
        folder = next(folders, models / f"{job.method}-{key}")
        if _train(job, task, folder, should_stop, progress):
            yield from _stored(job, folder, job.config.sampling)
    elif job.method_config.run is not None:
        assert job.source is not None
        runs.check_same_split(job.scoring, job.source)
        sampling = load_config(job.source / "config.yaml").sampling
        yield from _stored(job, job.source, sampling if job.device == "cpu" else replace(sampling, device=job.device))
    elif job.method_config.weights is not None:
        for n in (None, *job.n_steps):
            yield Checkpoint(_original_csdi(job, task, SamplingConfig(n_steps=n, device=job.device)), None, None, n)
    elif job.members:
        yield from _pool(job, out, task, should_stop, progress)
    else:
        yield _fitted(job, out / "models", task, progress)


def new_imputer(job: Job) -> Imputer:
    """The imputer of a job, not fitted yet. The seed of its training is the job's, where no other is given.

    Raises:
        ConfigError: no such imputer or option.
    """
    if job.config is not None:
        return runs.new_imputer(job.config)
    name, options = job.method_config.imputer, job.method_config.options
    if is_import_path(name):
        return user_imputer(name, job.source, job.files, options, job.seed)
    if any(is_known(kind, name) for kind in IMPUTER_KINDS):
        return make_imputer(name, options, job.seed)
    known = ", ".join(one for kind in IMPUTER_KINDS for one in available(kind))
    raise ConfigError(
        f"suite: imputer: expected one of {known}, or an import path as my_module:MyImputer or my_module:draw; came "
        f"{name!r}."
    )


def with_leakage_options(job: Job) -> Job:
    """With the options that its imputer has in the leakage test."""
    method = job.method_config
    return replace(job, method_config=replace(method, options={**method.options, **method.leakage_options}))


@contextmanager
def global_seeds(seed: int) -> Iterator[None]:
    """Global generators start at ``seed`` and are restored afterwards: a method that uses them is repeatable."""
    python = random.getstate()
    try:
        with global_generators_kept():
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002
            torch.default_generator.manual_seed(seed)
            yield
    finally:
        random.setstate(python)


def training_key(config: RunConfig, task: Task, plugins: Sequence[Plugin] = ()) -> str:
    """A key of all that a training depends on: tasks that train on the same visible cells share one.

    Args:
        plugins: of the job; the files of those that take part in training count.
    """
    digest = _training_digest(task)
    settings = {part: settings_that_count(config)[part] for part in ("process", "network", "training")}
    depends = [settings, task.scaler.to_dict(), list(task.train.record_ids)]
    depends += [one.digests for one in plugins if one.files and one.kind in ("processes", "backbones", "mask_policies")]
    digest.update(json.dumps(depends, sort_keys=True).encode())
    return digest.hexdigest()[:12]


def _pool(job: Job, out: Path, task: Task, should_stop: Callable[[], bool], progress: Progress) -> Iterator[Checkpoint]:
    """The pool of the last models of other methods; nothing where a training was stopped."""
    last = []
    for member in job.members:
        of_member = list(checkpoints(member, out, task, should_stop, progress))
        if not of_member:
            return
        last.append(of_member[-1])
    seconds = [one.seconds_training for one in last]
    total = None if None in seconds else sum(filter(None, seconds))
    shares = list(job.method_config.members.values())
    yield Checkpoint(LinearPoolImputer.of([one.imputer for one in last], shares), None, total)


def _fitted(job: Job, models: Path, task: Task, progress: Progress) -> Checkpoint:
    """A method that is fitted at once. What took long is kept for tasks with the same visible training cells.

    A method of other code than this package's is not kept: its fit may depend on what a key does not see.
    """
    imputer = new_imputer(job)
    path = models / f"{job.method}-{fit_key(job, task)}.safetensors"
    seconds_file = path.with_suffix(".json")
    if seconds_file.is_file():
        with suppress(CheckpointError, OSError, ValueError, LookupError):  # of what is damaged: fitted anew
            seconds = float(json.loads(seconds_file.read_text())["seconds"])
            return Checkpoint(type(imputer).load(path), None, seconds)
    progress(f"{job.title}: fitting", 0, 1)
    start = time.perf_counter()
    with global_seeds(job.seed):  # copies: other methods are fitted on the same records
        valid = task.valid_or_none
        imputer.fit(task.train.select(slice(None)), None if valid is None else valid.select(slice(None)))
    seconds = time.perf_counter() - start
    of_package = not any(map(is_import_path, _texts([job.method_config.imputer, job.method_config.options])))
    if of_package and getattr(imputer, "ignores_valid", False) and seconds > LONG:
        imputer.save(path)
        atomic_write_text(seconds_file, json.dumps({"seconds": seconds}))  # last: with it, the model counts
    return Checkpoint(imputer, None, seconds)


def _texts(value: Any) -> Iterator[str]:
    """All texts in settings, at any depth."""
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        yield from _texts(item)


def fit_key(job: Job, task: Task) -> str:
    """A key of all that the fit of an imputer depends on that does not look at validation records.

    The code of this package counts, too: a fit is never taken for one of other code.
    """
    method = job.method_config
    depends = [method.imputer, method.options, job.seed, [asdict(one) for one in task.train.features]]
    donor = task.train.pattern_donor  # whose gaps masks are made of
    depends += [list(task.train.record_ids), None if donor is None else donor.tolist(), package_digest()]
    digest = _training_digest(task)
    digest.update(json.dumps(depends, sort_keys=True, default=str).encode())
    return digest.hexdigest()[:12]


def _training_digest(task: Task) -> Any:
    """A digest, to be added to, of the visible training cells and their times."""
    digest = hashlib.sha256(np.where(task.train.visible, task.train.values, np.nan).tobytes())
    digest.update(task.train.times.tobytes())
    return digest


def _train(job: Job, task: Task, folder: Path, should_stop: Callable[[], bool], progress: Progress) -> bool:
    """Trains into ``folder`` or continues there; False where it was stopped before its end.

    Raises:
        CheckpointError: it has passed an epoch or a step that is to be scored now and was not kept.
    """
    assert job.config is not None
    config, at_step, seconds = job.config, job.method_config.at_step, _seconds(folder)
    if at_step is not None:
        return _train_to_step(config, task, folder, at_step, f"{job.title}: training", should_stop, progress)
    for epoch in config.training.keep_epochs:
        if epoch < max(seconds, default=0):
            model_file(folder, [_of_epoch(epoch)])
    last = config.training.epochs  # logged after its model is written
    of_epochs, step, trained = config.training.max_steps is None, None, False
    if of_epochs and last in seconds and (folder / f"{_of_epoch(last)}.safetensors").is_file():
        return True
    for step in runs.train(config, task, runs.new_imputer(config), folder, should_stop=should_stop):
        progress(f"{job.title}: training", step.step, step.n_steps)
        trained = trained or step.stop is None
    return step is not None and step.step >= step.n_steps and not (trained and should_stop())


def _train_to_step(
    config: RunConfig, task: Task, folder: Path, at: int, what: str, should_stop: Callable[[], bool], progress: Progress
) -> bool:
    """Trains up to a step, and keeps the model there and the state that a later one goes on from."""
    path, imputer = folder / f"{_of_step(at)}.safetensors", runs.new_imputer(config)
    if path.is_file():
        return True
    stopping = lambda: path.is_file() or should_stop()
    for step in runs.train(config, task, imputer, folder, should_stop=stopping):
        if step.stop is None and step.step == at:
            imputer.save(path)
        progress(what, step.step, at)
    if not path.is_file() and not should_stop():
        raise CheckpointError(f"{folder}: training is past step {at}, and its model is not there. Remove the folder.")
    return path.is_file()


def _stored(job: Job, folder: Path, sampling: SamplingConfig) -> Iterator[Checkpoint]:
    """The checkpoints in the folder of a run."""
    seconds = _seconds(folder)
    *earlier, last = job.epochs
    for epoch in earlier:
        assert epoch is not None  # alone, where training is of a number of steps
        model = GenerativeImputer.load(model_file(folder, [_of_epoch(epoch)]), sampling)
        yield Checkpoint(model, epoch, seconds.get(epoch))
    at = job.method_config.at_step
    path = model_file(folder, [_of_step(at)] if at else [*([] if last is None else [_of_epoch(last)]), *LAST])
    for n in (None, *job.n_steps):
        model = GenerativeImputer.load(path, sampling if n is None else replace(sampling, n_steps=n))
        yield Checkpoint(model, last, max(seconds.values(), default=None), n)


def _of_step(step: int) -> str:
    return f"step-{step:07d}"


def _of_epoch(epoch: int) -> str:
    return f"epoch-{epoch:04d}"


def _seconds(folder: Path) -> dict[int, float]:
    """Seconds of training up to each epoch, as the run has logged them."""
    path = folder / "epochs.csv"
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {int(row["epoch"]): float(row["seconds"]) for row in csv.DictReader(file)}


def _original_csdi(job: Job, task: Task, sampling: SamplingConfig) -> GenerativeImputer:
    """The network that CSDI's authors trained, with the task's scaler and CSDI's sampler: 50 ancestral steps.

    Raises:
        ConfigError: the split is not the one of the weights' training, whose test records they have not seen.
        CheckpointError: the file does not contain weights of the original.
    """
    split = job.task_config.data.name, task.protocol, task.fold, task.seed
    if split != ORIGINAL_SPLIT:
        raise ConfigError(
            f"suite: weights: CSDI's released weights were trained on {ORIGINAL_SPLIT}, asked to score {split} (data, "
            "protocol, fold, seed). Records that they have seen would be scored; name tasks of that split."
        )
    assert job.source is not None
    imputer = GenerativeImputer(ProcessConfig("diffusion"), NetworkConfig("dual_transformer"), sampling=sampling)
    clock = RecordClock.of(task.train)
    imputer.model_ = FittedModel(load_csdi_weights(job.source), task.scaler, task.train.features, clock)
    return imputer

"""From the settings of a method to an imputer: one to train, the original's weights, a simple one, or one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tsimpute.config.registry import available, is_known, make, options_of
from tsimpute.config.settings import NetworkConfig, ProcessConfig, RunConfig, SamplingConfig
from tsimpute.config.yaml_files import config_path, from_dict, load_config, to_dict
from tsimpute.errors import ConfigError
from tsimpute.imputers.base import Imputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.imputers.shared.completing import usual_step
from tsimpute.models.csdi_weights import load_csdi_weights
from tsimpute.suites.own import files_of, is_own, own_imputer
from tsimpute.suites.settings import MethodConfig, Suite, TaskConfig
from tsimpute.tasks.task import Task

_RUN_FILES = ("config.yaml", "last.safetensors", "model.safetensors", "epoch-*.safetensors")
ORIGINAL_SPLIT = ("physionet2012", "csdi", 0, 1)
"""Data, protocol, fold and seed that CSDI's released weights were trained with."""


def training_config(suite: Suite, task: TaskConfig, method: MethodConfig, fold: int, seed: int) -> RunConfig:
    """The whole of a training of our own on a task.

    Raises:
        ConfigError: no such config, none for this data set, or a setting that there is not.
    """
    if method.config is None:
        raise ConfigError("method: expected a config, came none.")
    name = by_data(method.config, task)
    values = to_dict(RunConfig() if name == "default" else load_config(config_path(name)))
    for path, value in method.settings.items():
        *way, last = path.split(".")
        where = values
        for step in way:
            where = where.setdefault(step, {})
            if not isinstance(where, dict):
                raise ConfigError(f"suite: settings: {path}: {step} is one value and holds no others.")
        before = where.get(last, {})
        where[last] = before | value if isinstance(value, dict) and isinstance(before, dict) else value
    config = from_dict(RunConfig, values)
    if config.training.patience is not None:
        raise ConfigError(
            "suite: training.patience: expected none, as a suite scores given epochs, the last among them; came "
            f"{config.training.patience}."
        )
    training, sampling = replace(config.training, seed=seed), config.sampling
    if suite.device != "cpu":
        training = replace(training, accelerator={"cuda": "gpu"}.get(suite.device, suite.device))
        sampling = replace(sampling, device=suite.device)
    # All that any task asks for: tasks that train on the same cells, and methods with the same settings, share one.
    alike = [one for one in suite.methods.values() if (one.config, one.settings) == (method.config, method.settings)]
    sharing = [
        of_one
        for name, of_one in suite.tasks.items()
        if of_one.data == task.data and any(one.takes_part(name) for one in alike)
    ]
    asked = {epoch for of_one in sharing for epoch in epochs_asked(suite, of_one)}
    epochs = tuple(sorted(epoch for epoch in asked if epoch < training.epochs))
    return replace(
        config,
        data=task.data,
        protocol=replace(task.protocol, fold=fold),
        training=replace(training, keep_epochs=(*epochs, training.epochs)),
        sampling=sampling,
        evaluation=replace(config.evaluation, at_epochs=()),
    )


def settings_that_count(config: RunConfig) -> dict[str, Any]:
    """The settings that numbers of a training depend on: keys of what is kept do not change with others."""
    found = to_dict(config)
    idle = [] if config.network.guess == "gaussian" else ["masks_per_record", "base_folds"]
    for name in ("keep_epochs", *idle):
        del found["training"][name]
    if not config.sampling.antithetic:  # came after keys were written
        del found["sampling"]["antithetic"]
    return found


def epochs_asked(suite: Suite, task: TaskConfig) -> tuple[int, ...]:
    """The epochs after which a task is scored, beside the last."""
    return suite.at_epochs if task.at_epochs is None else task.at_epochs


def by_data(value: str | dict[str, Any], task: TaskConfig) -> str:
    """What is said for the data set of a task.

    Raises:
        ConfigError: nothing is.
    """
    if isinstance(value, str):
        return value
    if task.data.name not in value:
        raise ConfigError(f"suite: nothing for data set {task.data.name!r}, only for {', '.join(value)}.")
    return str(value[task.data.name])


def named_files(suite: Suite, task: TaskConfig, method: MethodConfig) -> list[Path]:
    """The files that a method names and whose content its numbers depend on.

    Raises:
        ConfigError: one is not there.
    """
    named = [method.imputer.partition(":")[0]] if is_own(method.imputer) else []
    named += [] if method.weights is None else [method.weights]
    paths = [suite.path(name) for name in named]
    absent = [path for path in paths if not path.is_file()]
    if is_own(method.imputer) and not absent:
        paths += files_of(paths[0])[1:]
    if method.run is not None:
        folder = suite.path(by_data(method.run, task))
        paths += [path for name in _RUN_FILES for path in sorted(folder.glob(name))]
        absent += [] if (folder / "config.yaml").is_file() else [folder / "config.yaml"]
    if absent:
        raise ConfigError(f"suite: expected a file {absent[0]}, as a method names it; there is none.")
    return paths


def new_imputer(suite: Suite, method: MethodConfig, config: RunConfig | None, seed: int = 0) -> Imputer:
    """An imputer that is not fitted yet; ``seed`` is that of its training, where it has one and no other is given.

    Raises:
        ConfigError: no such imputer or option.
    """
    if config is not None:
        return GenerativeImputer(config.process, config.network, config.training, config.sampling)
    if is_own(method.imputer):
        path, _, name = method.imputer.partition(":")
        return own_imputer(suite.path(path), name, method.options, seed)
    for kind in ("imputers", "peers"):
        if is_known(kind, method.imputer):
            seeded = {"seed": seed} if "seed" in options_of(kind, method.imputer) else {}
            return make(kind, method.imputer, **seeded | method.options)
    raise unknown_imputer(method)


def unknown_imputer(method: MethodConfig) -> ConfigError:
    names = ", ".join([*available("imputers"), *available("peers")])
    return ConfigError(
        f"suite: imputer: expected one of {names}, my_imputer.py, my_imputer.py:MyImputer or package.module:Class; "
        f"came {method.imputer!r}."
    )


def short_training(config: RunConfig) -> RunConfig:
    """The same with two steps of training."""
    training = replace(config.training, epochs=1, keep_epochs=(), ask_unobserved=0.0, warmup_steps=0)
    return replace(config, training=training)


def original_csdi(path: Path, of_task: TaskConfig, task: Task, sampling: SamplingConfig) -> GenerativeImputer:
    """The network that CSDI's authors trained, with the task's scaler and CSDI's sampler: 50 ancestral steps.

    Raises:
        ConfigError: another split than the one the weights were trained on, whose test records they have not seen.
        CheckpointError: the file is none of the original's weights.
    """
    split = of_task.data.name, task.protocol, task.fold, task.seed
    if split != ORIGINAL_SPLIT:
        raise ConfigError(
            f"suite: weights: CSDI's released weights were trained on {ORIGINAL_SPLIT}, asked to score {split} (data, "
            "protocol, fold, seed). Records that they have seen would be scored; name tasks of that split."
        )
    imputer = GenerativeImputer(ProcessConfig("diffusion"), NetworkConfig("dual_transformer"), sampling=sampling)
    imputer.network_, imputer.scaler_, imputer.features_ = load_csdi_weights(path), task.scaler, task.train.features
    (imputer.time_step_, imputer.regular_), imputer.n_steps_ = usual_step(task.train), task.train.n_steps
    imputer.fitted_ = {"epoch": 0, "step": 0}
    return imputer

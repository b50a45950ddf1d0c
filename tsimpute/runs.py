"""One run from a config: raw files -> records -> task -> trained imputer -> metrics, each step by itself.

What a run writes lies in one folder: ``config.yaml``, ``state.pt`` (to go on from), ``epochs.csv`` (losses),
``last``, ``best`` and ``epoch-NNNN.safetensors`` (models), and what an evaluation adds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from tsimpute.config import DataConfig, ProtocolConfig, RunConfig, save_config
from tsimpute.containers import Windows
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.pipeline.protocols import clean, csdi
from tsimpute.pipeline.task import Task
from tsimpute.registry import make
from tsimpute.training import Step


def load_windows(data: DataConfig) -> Windows:
    """The records of a data set, from where ``data`` or the environment says it lies."""
    from tsimpute.datasets.fetching import find_root

    adapter = make("datasets", data.name, **data.options)
    if adapter.card.synthetic:
        return adapter.load(None)
    return adapter.load(find_root(data.name, None if data.root is None else Path(data.root)))


def make_task(windows: Windows, protocol: ProtocolConfig) -> Task:
    """Split, holes and scaler as the protocol says."""
    if protocol.name == "csdi":
        return csdi(windows, rate=protocol.rate, fold=protocol.fold, seed=protocol.seed)
    return clean(windows, rate=protocol.rate, fold=protocol.fold, seed=protocol.seed)


def new_imputer(config: RunConfig) -> GenerativeImputer:
    """The imputer of a config, not yet fitted."""
    return GenerativeImputer(config.process, config.network, config.training, config.sampling)


def train(
    config: RunConfig, task: Task, imputer: GenerativeImputer, folder: Path, should_stop: Callable[[], bool]
) -> Iterator[Step]:
    """Trains ``imputer`` on ``task`` with everything on disk in ``folder``, going on from a state found there."""
    folder.mkdir(parents=True, exist_ok=True)
    save_config(config, folder / "config.yaml")
    return imputer.fit_steps(task.train, task.valid, scaler=task.scaler, folder=folder, should_stop=should_stop)

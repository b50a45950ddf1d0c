"""Makes model files of what ``train.py`` wrote: the networks run as ``context_cells``, on any device.

Usage: python scripts/gpu/convert.py JOB.npz DATA.npz OUT pm25|physionet2012 [--root DIR] [--fold N] [--rate R]

JOB.npz is of ``train.py``, DATA.npz of ``prepare.py``, and the rest as it was for the latter. OUT gets
``epoch-NNNN.safetensors`` for each time that weights were kept, ``last.safetensors`` and ``config.yaml``: the folder of
a run, which ``tsimpute evaluate OUT`` scores.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jsonargparse import auto_cli

import tsimpute as ti
from tsimpute.config.registry import make
from tsimpute.config.settings import (
    DataConfig,
    EvaluationConfig,
    NetworkConfig,
    ProcessConfig,
    ProtocolConfig,
    RunConfig,
    TrainingConfig,
)
from tsimpute.config.yaml_files import save_config
from tsimpute.gaussian.process import GaussianModel
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.imputers.network.fitted import FittedModel, RecordClock, new_network


def convert(
    job: Path, prepared: Path, out: Path, data: str, root: Path | None = None, fold: int = 0, rate: float | None = None
) -> None:
    """See the head of this file.

    Args:
        job: what a training wrote.
        prepared: what it was made of.
        out: the folder to write.
        data, root, fold, rate: as for ``prepare.py``.
    """
    task = ti.csdi(ti.load_windows(data, root=root), rate=rate, fold=fold)
    with np.load(job) as file:
        settings = json.loads(str(file["job"]))
        weights = {name: file[name] for name in file.files if "/" in name}
    with np.load(prepared) as file:
        base = {name.removeprefix("base."): file[name] for name in file.files if name.startswith("base.")}
        n_folds = int(file["fold_of"].max()) + 1 if "fold_of" in file.files else 1
        n_records = len(file["train_values"])
    imputer = _unfitted(settings, n_records, n_folds if base else 0)
    process = None
    if base:  # covariances in single precision: half as large in a file, and far more exact than what is learnt
        process = GaussianModel.from_arrays(base)
        process = replace(process, covariance=process.covariance.astype(np.float32))
    frequency = make("processes", imputer.process.name, **imputer.process.options).tau_frequency
    out.mkdir(parents=True, exist_ok=True)
    steps = sorted({int(name.split("/")[0]) for name in weights})
    epochs = [max(1, step * settings["batch_size"] // n_records) for step in steps]
    for step, epoch in zip(steps, epochs, strict=True):
        of_step = {n.split("/")[1]: torch.from_numpy(w) for n, w in weights.items() if int(n.split("/")[0]) == step}
        network = new_network(imputer.network, task.train.features, frequency)
        network.load_state_dict(of_step)
        imputer.model_ = FittedModel(
            network,
            task.scaler,
            task.train.features,
            RecordClock.of(task.train),
            imputer.network.base,
            process,
            usual_cells=task.train.n_features * task.train.n_steps,  # no record is dense
            fitted={"epoch": epoch, "step": step},
        )
        imputer.save(out / f"epoch-{epoch:04d}.safetensors")
    imputer.save(out / "last.safetensors")
    config = RunConfig(
        DataConfig(data),
        ProtocolConfig("csdi", rate=rate, fold=fold),
        imputer.process,
        imputer.network,
        replace(imputer.training, epochs=epochs[-1], keep_epochs=tuple(sorted(set(epochs)))),
        evaluation=EvaluationConfig(n_samples=100, units="data" if rate is None else "standardised"),
    )
    save_config(config, out / "config.yaml")
    print(f"{out}: {len(steps)} model files, the last of step {steps[-1]}")


def _unfitted(settings: dict[str, Any], n_records: int, n_folds: int) -> GenerativeImputer:
    """``n_folds``: see ``TrainingConfig.base_folds``; 0 = there is no Gaussian process."""
    same = (
        "batch_size", "learning_rate", "weight_decay", "warmup_steps", "clip_norm", "ema", "mask_policy",
        "query_unobserved", "query_from",
    )  # fmt: skip
    training = TrainingConfig(
        epochs=max(1, settings["steps"] * settings["batch_size"] // n_records),
        schedule="cosine",
        accelerator="gpu",
        **{name: settings[name] for name in same},
        **({"masks_per_record": settings["masks_per_record"], "base_folds": n_folds} if n_folds else {}),
    )
    return GenerativeImputer(
        ProcessConfig(settings["process"], settings["process_options"]),
        NetworkConfig("context_cells", settings["network"], base="gaussian" if n_folds else "none"),
        training,
    )


if __name__ == "__main__":
    auto_cli(convert)

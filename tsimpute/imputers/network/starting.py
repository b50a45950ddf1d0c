"""What a training starts from: a new network or a fitted one, a scaler, a Gaussian process, and batches."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tsimpute.batches.base_estimates import BaseMethod
from tsimpute.batches.loading import Loader, usual_cells
from tsimpute.batches.masking import MaskPolicy, Masks
from tsimpute.config.settings import NetworkConfig, ProcessConfig, TrainingConfig
from tsimpute.config.yaml_files import differences
from tsimpute.core.windows import Windows
from tsimpute.errors import CheckpointError, ConfigError
from tsimpute.gaussian.maps import Records
from tsimpute.gaussian.model import Regularisation, fit
from tsimpute.gaussian.process import GaussianModel
from tsimpute.generative.distillation import Distillation
from tsimpute.generative.scoring import SampleScore
from tsimpute.imputers.network.fitted import FittedModel, RecordClock, new_network
from tsimpute.imputers.network.sampler import Sampler
from tsimpute.imputers.shared.records import usual_step
from tsimpute.processes.base import Process
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.training.trainer import Objective


def starting_model(
    network: NetworkConfig,
    training: TrainingConfig,
    process: Process,
    train: Windows,
    scaler: Standardizer | None = None,
    base: GaussianModel | None = None,
    time_unit: str | None = None,
    fitted: FittedModel | None = None,
) -> FittedModel:
    """The model before its first step: with initial weights, or with all that a fitted one has.

    Args:
        scaler, base, time_unit: see ``GenerativeImputer.fit_steps``.
    """
    if fitted is not None:
        scaler, base = fitted.scaler, fitted.base_process
    scaler = scaler or Standardizer.fit(train)
    start = base_process(train, scaler, network.base, base, training.seed, training.base_folds)
    fresh = new_network(network, train.features, process.tau_frequency, training.seed)
    if fitted is not None:
        fresh.load_state_dict(fitted.network.state_dict())
    clock = RecordClock.of(train, time_unit)
    return FittedModel(fresh, scaler, train.features, clock, network.base, start, usual_cells(train), {})


def loader(
    settings: TrainingConfig, model: FittedModel, windows: Windows, policy: MaskPolicy, seed: int,
    base_of_record: Callable[[int], BaseMethod] | None = None, masks: Masks | None = None,
) -> Loader:  # fmt: skip
    """The batches of a training; see ``Loader``."""
    asks = settings.query_unobserved, 1 + round(settings.query_from * settings.epochs)
    n_masks = 0 if model.base_process is None else settings.masks_per_record
    bases = model.base, base_of_record, n_masks, masks
    return Loader(windows, model.scale, policy, settings.batch_size, seed, *asks, *bases)


def base_process(
    train: Windows, scaler: Standardizer, name: str, base: GaussianModel | None, seed: int, n_folds: int = 1
) -> GaussianModel | None:
    """The process given, or one fitted to what ``train`` shows, standardised; None where ``name`` is not "gaussian".

    With more than one fold, see ``shared.cross_fitting``, what regularises is not chosen on hidden cells of the
    records: for other records that is too little (PM2.5 fitted on its training months: MAE of the test months 9.86,
    chosen 10.71).

    Raises:
        ConfigError: a process is given for another base, or of another number of features.
    """
    if name != "gaussian":
        if base is not None:
            raise ConfigError(f'base: expected none with network.base {name!r}, came one. Set it to "gaussian".')
        return None
    n_features = len(train.features)
    if base is not None:
        if len(base.maps) != n_features:
            raise ConfigError(
                f"base: expected a Gaussian process of {n_features} features, as the records have; came one of "
                f"{len(base.maps)}. Fit it on these records, or pass none."
            )
        return base
    records = Records(tuple(scaler.transform(train.known)), tuple(train.times.astype(np.float64)), usual_step(train)[0])
    return fit(records, settings=None if n_folds == 1 else Regularisation(), seed=seed)


def start_file(name: str) -> Path:
    """The file of ``TrainingConfig.start_from``; a CheckpointError where there is none."""
    path = Path(name)
    if not path.is_file():
        came = "the folder" if path.is_dir() else "no file at"
        raise CheckpointError(
            f"training.start_from: expected a model file, came {came} {path}. Name a file such as "
            f"{(path if path.is_dir() else path.parent) / 'last.safetensors'}."
        )
    return path


def check_same_kind(
    path: Path, here: tuple[ProcessConfig, NetworkConfig], in_file: tuple[ProcessConfig, NetworkConfig]
) -> None:
    """Refuses, with a ConfigError, a model file of another process or network than the one that is trained."""
    for name, mine, theirs in zip(("process", "network"), here, in_file, strict=True):
        if theirs != mine:
            raise ConfigError(
                f"training.start_from: expected a model of the {name} that is trained, came {path} of another: "
                f"{differences(mine, theirs, 'here', 'in the file')}. Set {name} as in the file."
            )


def objective_of(
    name: str, sampler: Sampler, start: FittedModel | None = None, its_sampler: Sampler | None = None
) -> Objective | None:
    """What training minimises, by ``TrainingConfig.objective``; None = the process's regression.

    Args:
        sampler: of the network that is trained.
        start, its_sampler: the model that training starts from, and how it samples.

    Raises:
        ConfigError: a sampler draws noise on the way, or that of the network draws what the model draws already: the
            loss of distillation is 0 then, and there is nothing to learn.
    """
    if name == "crps":
        return SampleScore(sampler.path)
    if name == "distillation" and start is not None and its_sampler is not None:
        its_path, path = its_sampler.path, sampler.path
        ways = [(x.solver_name, way.grid.tolist()) for x, way in ((its_sampler, its_path), (sampler, path))]
        if ways[0] == ways[1]:
            raise ConfigError(
                "training.objective: expected other steps than those in which the model of training.start_from draws, "
                f"came the same {sampler.n_steps} {sampler.solver_name} steps: its samples are the same already, and "
                "there is nothing to learn. Set sampling.n_steps to the fewer steps that are to be enough, as 2."
            )
        return Distillation(start.network, its_path, path)
    return None


def identity_of(
    network: NetworkConfig, process: ProcessConfig, training: TrainingConfig, sampler: Sampler, model: FittedModel,
    base: GaussianModel | None,
) -> str:  # fmt: skip
    """A text of what must not change when a run resumes, beside its training settings."""
    parts = [f"{network.name} {network.options}", f"{process.options}"]
    parts += [f"base estimate {network.base}"] * (model.base is not None)
    parts += [f"base {digest_of(base.to_arrays())}"] if base else []
    if training.objective != "regression":
        parts.append(f"{sampler.n_steps} {sampler.solver_name} steps, grid {sampler.grid_power}")
    return ", ".join(parts)


def digest_of(arrays: Mapping[str, Any]) -> str:
    """A short text that identifies arrays, such as those of a process."""
    digest = hashlib.blake2b(digest_size=8)
    for name, array in sorted(arrays.items()):
        digest.update(name.encode() + np.asarray(array).tobytes())
    return digest.hexdigest()

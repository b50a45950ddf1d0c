"""Imputation by draws from a learnt conditional distribution: flow matching (CFMI) or diffusion (CSDI)."""

from __future__ import annotations

import copy
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
from torch import nn

from tsimpute.batches.masking import Masks, make_policy
from tsimpute.config.registry import check_imported
from tsimpute.config.settings import NetworkConfig, ProcessConfig, SamplingConfig, TrainingConfig, named_parts
from tsimpute.config.yaml_files import from_dict, to_dict
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.errors import CheckpointError, ConfigError, NotFittedError
from tsimpute.gaussian.process import GaussianModel
from tsimpute.generative.window_averaging import WindowAveraging, usual_stride
from tsimpute.imputers.network import starting
from tsimpute.imputers.network.fitted import FittedModel
from tsimpute.imputers.network.sampler import Sampler, WindowProgress, check_times, pieces, steps_within
from tsimpute.imputers.shared.cross_fitting import cross_fitted
from tsimpute.imputers.shared.records import cells_to_fill, check_features, check_given, collected, completed
from tsimpute.models.checkpoints import read_model, write_model
from tsimpute.processes.base import Process
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.system.terminal import Progress, progress_bars
from tsimpute.training.progress import Step
from tsimpute.training.trainer import Objective, Trainer

_SETTINGS = {
    "process": ProcessConfig,
    "network": NetworkConfig,
    "training": TrainingConfig,
    "sampling": SamplingConfig,
}
_CHUNK_BYTES = 8 * 2**20
"""Of samples that are computed together, at most."""
_CELLS_AT_ONCE = 100_000
"""Samples of cells, about, after which records are yielded: a few seconds' work."""


def _part(path: str) -> Any:
    """A read-only attribute that is one of a part."""
    return property(attrgetter(path))


class GenerativeImputer:
    """A transformer trained as vector field or denoiser, and the sampler that fills gaps with it.

    Example:
        >>> import tsimpute as ti
        >>> task = ti.clean(ti.load_windows("synthetic", n_records=20), rate=0.2, seed=1)
        >>> small = ti.NetworkConfig(options={"width": 8, "n_heads": 2, "n_blocks": 1})
        >>> imputer = GenerativeImputer(network=small, training=ti.TrainingConfig(epochs=1)).fit(task.train, task.valid)
        >>> samples = imputer.impute(task.test.without_held_out(), n_samples=5, seed=0)
        >>> samples.values.shape  # draws, records, features, steps
        (5, 4, 8, 24)

    Args:
        process: its settings, its name ("flow_matching", "diffusion" or an import path), its class or an instance.
        network: settings of the backbone, its name or its class; see ``tsimpute.config.registry``.
        training, sampling: settings; see ``tsimpute.config.settings``.

    Attributes:
        model_: the fitted network with scaler, features and clock; those below are its parts.
        network_, scaler_, features_, fitted_, usual_cells_, base_: see ``FittedModel``.
        time_step_, regular_, n_steps_, time_unit_: see ``RecordClock``.
        no_data_: names of the features of which training had no value.
        solver, n_steps, grid_power, eta: of the sampler, as set or by the process's own defaults; see ``Sampler``.
    """

    model_: FittedModel
    network_: nn.Module = _part("model_.network")
    scaler_: Standardizer = _part("model_.scaler")
    features_: tuple[Feature, ...] = _part("model_.features")
    fitted_: dict[str, Any] = _part("model_.fitted")
    usual_cells_: int = _part("model_.usual_cells")
    base_: GaussianModel | None = _part("model_.base_process")
    no_data_: tuple[str, ...] = _part("model_.never_visible")
    time_step_: float = _part("model_.clock.step")
    regular_: bool = _part("model_.clock.regular")
    n_steps_: int = _part("model_.clock.n_steps")
    time_unit_: str | None = _part("model_.clock.unit")
    solver: str = _part("_sampler.solver_name")
    n_steps: int = _part("_sampler.n_steps")
    grid_power: float = _part("_sampler.grid_power")
    eta: float = _part("_sampler.eta")

    def __init__(
        self,
        process: ProcessConfig | Process | type | str = "flow_matching",
        network: NetworkConfig | type | str | None = None,
        training: TrainingConfig | None = None,
        sampling: SamplingConfig | None = None,
    ) -> None:
        self.process = process if isinstance(process, ProcessConfig) else ProcessConfig(cast(str, process))
        network = NetworkConfig() if network is None else network
        self.network = network if isinstance(network, NetworkConfig) else NetworkConfig(cast(str, network))
        self.training = training or TrainingConfig()
        self.sampling = sampling or SamplingConfig()

    @property
    def name(self) -> str:
        """The name of the process."""
        return self.process.name

    @property
    def method(self) -> str:
        """Process and network."""
        return f"{self.process.name} on {self.network.name}"

    @property
    def sampler(self) -> str:
        """Steps and solver."""
        return f"{self.n_steps} {self.solver} steps"

    @property
    def sampler_context(self) -> dict[str, Any]:
        """Process, solver, steps and epoch, as the rows of an evaluation state them."""
        solver = f"one_step, eta {self.eta:g}" if self.solver == "one_step" else self.solver
        if self.grid_power != 1:
            solver += f", grid {self.grid_power:g}"
        if self.sampling.antithetic:
            solver += ", antithetic"
        epoch = int(self.fitted_["epoch"])
        return {"process": self.process.name, "solver": solver, "n_steps": self.n_steps, "epoch": epoch}

    @property
    def whole_series(self) -> bool:
        """See ``TableModel``: a process needs the clock for its seasons, and what stands beside a window."""
        return hasattr(self, "model_") and self.model_.base_process is not None

    @property
    def _sampler(self) -> Sampler:
        return Sampler(self.process, self.sampling)

    def fit(self, train: Windows, valid: Windows | None = None, *, progress: Progress = "auto") -> Self:
        """See ``Imputer``; ``progress`` as of ``tsimpute.system.terminal.progress_bars``."""
        with progress_bars(progress, {"learning": "step"}) as tell:
            for step in self.fit_steps(train, valid):
                tell("learning", step.step, step.n_steps)
        return self

    def fit_steps(
        self,
        train: Windows,
        valid: Windows | None = None,
        *,
        scaler: Standardizer | None = None,
        base: GaussianModel | None = None,
        time_unit: str | None = None,
        folder: Path | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        masks: Masks | None = None,
    ) -> Iterator[Step]:
        """Fits, yielding after each optimiser step: for progress, and for evaluation between epochs.

        Args:
            train, valid: records; only their shown cells are used.
            scaler: None = fitted on the shown cells of ``train``.
            base: with the base "gaussian" only: the Gaussian process to start from, of values standardised by
                ``scaler`` and times counted as in ``train``; None = fitted on the shown cells of ``train``.
            time_unit: of the times of the records, to be kept with the model; None = not known.
            folder: where the state, ``epochs.csv`` and models go; a state found there is taken up.
            should_stop: asked after each step; True ends with the state on disk.
            masks: with a ``base`` alone: masks of ``train`` and what is estimated of the cells that they hide, by who
                sees more than the records; None = drawn as ``training.mask_policy`` says.

        Raises:
            DataError: ``valid`` has other features than ``train``, given ones are not last, or no record shows a cell.
            ConfigError: patience without ``valid``, a base that does not fit, or ``query_unobserved`` with a process on
                discrete levels.
            TrainingError, CheckpointError: see ``Trainer.run``; and ``check_start``.
        """
        if valid is not None:
            check_features(train.features, valid.features)
        check_given(train.features)
        process, training = self._sampler.process, self.training
        if training.query_unobserved and not process.continuous:
            raise ConfigError(
                f"training.query_unobserved: expected 0 with {self.process.name}, which has levels and no times "
                f"between them; came {training.query_unobserved}."
            )
        fitted, objective = self._start()
        if fitted is not None:
            check_features(fitted.features, train.features)
        model = starting.starting_model(self.network, training, process, train, scaler, base, time_unit, fitted)
        self.model_, policy, base_of_record = model, make_policy(training.mask_policy, train), None
        if model.base_process is not None and training.base_folds > 1:
            base_of_record = cross_fitted(train, model.scaler, model.base_process, training.base_folds, training.seed)

        def save_model(name: str, network: nn.Module, fitted: dict[str, Any]) -> None:
            if folder is not None:
                description = self._description(model) | {"fitted": fitted}
                write_model(folder / f"{name}.safetensors", model.arrays(network), description)

        checked = None if valid is None or not len(valid) else valid
        trainer = Trainer(
            model.network,
            process,
            starting.loader(training, model, train, policy, training.seed, base_of_record, masks),
            starting.loader(training, model, checked, policy, derive_seed(training.seed, "valid")) if checked else None,
            training,
            folder,
            save_model,
            should_stop,
            identity=starting.identity_of(self.network, self.process, training, self._sampler, model, base),
            started_from=starting.digest_of(fitted.arrays()) if fitted else None,
            objective=objective,
        )
        for step in trainer.run():
            model.network, model.fitted = trainer.output_network, {"epoch": trainer.epochs_done, "step": step.step}
            yield step
        if training.patience is not None and trainer.at.best_epoch and folder is not None:
            self._take(*read_model(folder / "best.safetensors"))
        elif trainer.best is not None:
            model.network.load_state_dict(trainer.best)
            best = trainer.at.best_epoch
            model.fitted = {"epoch": best, "step": min(best * trainer.train.n_batches, trainer.n_steps)}

    def check_start(self) -> None:
        """Refuses what training cannot start from; ``fit`` does so, too, and this needs no data.

        Raises:
            CheckpointError: the file of ``training.start_from`` is absent, damaged or no model.
            ConfigError: bad settings of the sampler, another network or process, or an objective that is not for it.
        """
        self._start()

    def _start(self) -> tuple[FittedModel | None, Objective | None]:
        """The model of ``training.start_from``, and what is minimised; see ``check_start``."""
        objective, sampler = self.training.objective, self._sampler
        sampler.check()
        if self.training.start_from is None:
            return None, starting.objective_of(objective, sampler)
        path = starting.start_file(self.training.start_from)
        start = GenerativeImputer.load(path)
        starting.check_same_kind(path, (self.process, self.network), (start.process, start.network))
        if self.sampling.eta == 0:
            start.sampling = replace(start.sampling, eta=0.0)
        start.network_.eval()
        return start.model_, starting.objective_of(objective, sampler, start.model_, start._sampler)

    def impute(
        self,
        windows: Windows,
        n_samples: int,
        seed: int = 0,
        fill: np.ndarray | None = None,
        *,
        progress: Progress = "auto",
    ) -> Samples:
        """See ``Imputer``; ``progress`` as of ``tsimpute.system.terminal.progress_bars``."""
        return collected(self.impute_records(windows, n_samples, seed, fill), windows, n_samples, progress)

    def impute_records(
        self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None
    ) -> Iterator[Samples]:
        """The result of ``impute``, one record after another: few samples are in memory, those of one record at least.

        Args, Raises: see ``impute``; bad arguments are refused before any work is done.
        """
        model, sampler = copy.copy(self._fitted()), self._sampler
        model.check(windows)
        cells, network = cells_to_fill(windows, n_samples, fill), self._network_for_use()
        scale, _ = model.scale, sampler.solver  # an eta that the solver does not take is refused at once

        def impute_chunk(chunk: np.ndarray) -> Iterator[Samples]:
            seeds = [derive_seed(seed, "impute", windows.record_ids[n]) for n in chunk]
            condition = model.condition_of(windows.select(chunk), cells[chunk])
            draws = sampler.draw(network, condition, n_samples, seeds)
            for n, of_record in zip(chunk, np.moveaxis(draws, 1, 0), strict=True):
                yield completed(windows.select([n]), scale, of_record[:, None], cells[[n]])

        most, n_threads = windows.records_within(_CHUNK_BYTES, n_samples), torch.get_num_threads()
        per_record = max(1, n_samples * int(cells.sum()) // max(1, len(windows)))
        size = min(most, max(4 * n_threads, _CELLS_AT_ONCE // per_record))  # enough records to keep all threads busy
        chunks = [np.arange(first, min(first + size, len(windows))) for first in range(0, len(windows), size)]
        return chain.from_iterable(map(impute_chunk, chunks))

    def impute_long(
        self,
        record: Windows,
        n_samples: int,
        seed: int = 0,
        fill: np.ndarray | None = None,
        progress: Callable[[float], None] = lambda share: None,
    ) -> Iterator[tuple[slice, Samples]]:
        """One record of any length, by overlapping windows of the fitted length; each sample is one path.

        Args:
            record: one record; its features are those learnt.
            n_samples, seed, fill: see ``impute``.
            progress: called from time to time with the share of the record that is done.

        Yields:
            Steps and their draws, from the first step to the last; as many at once as ``sampling.memory_mib`` allows.
            Steps without a queried cell are left out.

        Raises:
            DataError: times within a window, counted from its first, lose their order in single precision.
            Others: see ``impute``.
        """
        model, sampler = self._fitted(), self._sampler
        model.check(record)
        cells = cells_to_fill(record, n_samples, fill)
        if len(record) != 1:
            raise ConfigError(f"impute_long: expected 1 record, came {len(record)}.")
        length = min(model.clock.n_steps or record.n_steps, record.n_steps)
        memory, stride = self.sampling.memory_mib, usual_stride(length)
        check_times(record.times[0], length, stride)
        n_evaluations = sampler.solver.n_evaluations(sampler.n_steps)
        seeds = [derive_seed(seed, "impute", record.record_ids[0])]
        done = WindowProgress(n_samples * n_evaluations, progress)
        network = WindowAveraging(self._network_for_use(), length, stride, memory, done.add)
        n_at_once = steps_within(memory, n_samples, record.n_features, n_evaluations * length)
        parts = pieces(record.n_steps, length, stride, n_evaluations, n_at_once)
        parts = [piece for piece in parts if cells[..., piece.delivered].any()]
        conditions = model.conditions_of(record, [piece.computed for piece in parts], cells, length)
        for piece, condition in zip(parts, conditions, strict=True):
            done.begin(piece.delivered.start / record.n_steps, piece.delivered.stop / record.n_steps)
            draws = sampler.draw(network, condition, n_samples, seeds, (piece.computed.start, record.n_steps))
            draws = draws[..., piece.delivered_within]
            part = record.steps(piece.delivered)
            yield piece.delivered, completed(part, model.scale, draws, cells[..., piece.delivered])

    def _fitted(self) -> FittedModel:
        if not hasattr(self, "model_"):
            raise NotFittedError("impute: expected a fitted imputer; call fit(...) or load(...) first.")
        return self.model_

    def _network_for_use(self) -> Any:
        """A copy: the network may be in training, and must stay on its device and in its mode."""
        return copy.deepcopy(self.network_).to(self.sampling.device).eval()

    # Files ------------------------------------------------------------------------------------------------------------

    def save(self, path: Path, also: Mapping[str, Any] | None = None) -> None:
        """See ``Imputer``; ``also`` holds more plain values, by names that models do not use."""
        weights, description = self.parts()
        write_model(Path(path), weights, {**(also or {}), **description})

    def parts(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """The weights and the description that a model file holds."""
        return self._fitted().arrays(), self._description(self._fitted())

    @classmethod
    def load(cls, path: Path, sampling: SamplingConfig | None = None) -> Self:
        """Reads what ``save`` wrote; ``sampling`` takes the place of the stored sampler settings."""
        return cls.from_file(Path(path), *read_model(Path(path)), sampling)

    @classmethod
    def from_file(
        cls, path: Path, weights: dict[str, torch.Tensor], description: dict[str, Any],
        sampling: SamplingConfig | None = None,
    ) -> Self:  # fmt: skip
        """What ``read_model`` read from ``path``."""
        if "imputer" in description:  # models of other kinds say which
            raise CheckpointError(f"{path}: expected a network, came a model of imputer {description['imputer']!r}.")
        if "settings" not in description and "table" in description:
            raise CheckpointError(
                f"{path}: expected a model, came a table imputer without a network. Use "
                "TableImputer.load, or name it as the model of a TableImputer."
            )
        try:
            settings = {name: from_dict(kind, description["settings"][name]) for name, kind in _SETTINGS.items()}
            settings |= {} if sampling is None else {"sampling": sampling}
            for name in named_parts(settings["process"], settings["network"], settings["sampling"]).values():
                check_imported(name, str(path))
            imputer = cls(**settings)
            imputer._take(weights, description)
        except CheckpointError:
            raise
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise CheckpointError(f"{path}: the model file is damaged or of another layout ({reason}).") from error
        return imputer

    def _take(self, weights: dict[str, torch.Tensor], description: dict[str, Any]) -> None:
        self.model_ = FittedModel.from_file(weights, description, self.network, self._sampler.process.tau_frequency)

    def _description(self, model: FittedModel) -> dict[str, Any]:
        versions = {"python": platform.python_version()} | {name: version(name) for name in ("torch", "numpy")}
        settings = {name: to_dict(getattr(self, name)) for name in _SETTINGS}
        return {"settings": settings, "versions": versions, **model.description()}


PLUGIN = GenerativeImputer

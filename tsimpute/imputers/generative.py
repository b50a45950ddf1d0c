"""Imputation by draws from a learnt conditional distribution: flow matching (CFMI) or diffusion (CSDI)."""

from __future__ import annotations

import copy
import platform
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from tsimpute.checkpoints import read_model, write_model
from tsimpute.config import NetworkConfig, ProcessConfig, SamplingConfig, TrainingConfig, from_dict, to_dict
from tsimpute.containers import Feature, Samples, Windows
from tsimpute.errors import CheckpointError, ConfigError, DataError, NotFittedError, TsimputeError
from tsimpute.imputers._checks import cells_to_fill, check_features
from tsimpute.pipeline.loading import Loader, condition_of
from tsimpute.pipeline.masking import make_policy
from tsimpute.pipeline.scaling import Standardizer
from tsimpute.registry import make, options_of
from tsimpute.sampling import sample
from tsimpute.seeding import derive_seed
from tsimpute.solvers.base import Solver
from tsimpute.training import Step, Trainer

_SETTINGS = {
    "process": ProcessConfig,
    "network": NetworkConfig,
    "training": TrainingConfig,
    "sampling": SamplingConfig,
}


_CHUNK_BYTES = 4 * 2**20
"""Of draws that are computed side by side: enough records to keep several threads busy."""


class GenerativeImputer:
    """A transformer trained as vector field or denoiser, and the sampler that fills gaps with it.

    Args:
        process: the process, or its name: "flow_matching" or "diffusion".
        network, training, sampling: settings; see ``tsimpute.config``.

    Attributes:
        network_: the trained backbone.
        scaler_: means and standard deviations of the training cells.
        features_: names and units, in the model's order.
        time_step_: the usual distance between two steps of a record.
        fitted_: epoch, step and seconds of the weights.
    """

    def __init__(
        self,
        process: ProcessConfig | str = "flow_matching",
        network: NetworkConfig | None = None,
        training: TrainingConfig | None = None,
        sampling: SamplingConfig | None = None,
    ) -> None:
        self.process = ProcessConfig(process) if isinstance(process, str) else process
        self.network = network or NetworkConfig()
        self.training = training or TrainingConfig()
        self.sampling = sampling or SamplingConfig()

    @property
    def name(self) -> str:
        """The name of the process."""
        return self.process.name

    @property
    def no_data_(self) -> tuple[str, ...]:
        """Features of which training had no value: they are filled with what the others tell, around 0."""
        return tuple(f.name for f, never in zip(self.features_, self.scaler_.never_shown, strict=True) if never)

    def fit(self, train: Windows, valid: Windows | None = None) -> Self:
        for _ in self.fit_steps(train, valid):
            pass
        return self

    def fit_steps(
        self,
        train: Windows,
        valid: Windows | None = None,
        *,
        scaler: Standardizer | None = None,
        folder: Path | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[Step]:
        """Fits, yielding after each optimiser step: for progress, and for evaluation between epochs.

        Args:
            train, valid: records; only their shown cells are used.
            scaler: None = fitted on the shown cells of ``train``.
            folder: where the state, ``epochs.csv`` and models go; a state found there is taken up.
            should_stop: asked after each step; True ends with the state on disk.

        Raises:
            DataError: ``valid`` has other features than ``train``, or no record shows a cell.
            ConfigError: patience without ``valid``, or ``ask_unobserved`` with a process on discrete levels.
            TrainingError, CheckpointError: see ``Trainer.run``.
        """
        if valid is not None:
            check_features(train.features, valid.features)
        self.scaler_ = scaler or Standardizer.fit(train)
        self.features_ = train.features
        self.time_step_ = float(np.median(_time_steps(train))) if len(train) else 0.0
        process = make("processes", self.process.name, **self.process.options)
        self.network_ = self._new_network(process.tau_frequency)
        policy = make_policy(self.training.masks, train)

        if self.training.ask_unobserved and not process.continuous:
            raise ConfigError(
                f"training.ask_unobserved: expected 0 with {self.process.name}, which has levels and no times between "
                f"them; came {self.training.ask_unobserved}."
            )

        def loader(windows: Windows, seed: int) -> Loader:
            asks = self.training.ask_unobserved, 1 + round(self.training.ask_from * self.training.epochs)
            return Loader(windows, self.scaler_, policy, self.training.batch_size, seed, *asks)

        def save_model(name: str, network: nn.Module, about: dict[str, Any]) -> None:
            if folder is not None:
                write_model(folder / f"{name}.safetensors", network.state_dict(), self._about(about))

        trainer = Trainer(
            self.network_,
            process,
            loader(train, self.training.seed),
            None if valid is None else loader(valid, derive_seed(self.training.seed, "valid")),
            self.training,
            folder,
            save_model,
            should_stop,
            identity=f"{self.network.name} {self.network.options}, {self.process.options}",
        )
        for step in trainer.run():
            self.network_, self.fitted_ = trainer.kept, {"epoch": trainer.epochs_done, "step": step.step}
            yield step
        if self.training.patience is not None and trainer.at.best_epoch and folder is not None:
            self._take(*read_model(folder / "best.safetensors"))
        elif trainer.best is not None:
            self.network_.load_state_dict(trainer.best)
            self.fitted_ = {"epoch": trainer.at.best_epoch, "step": trainer.at.best_epoch * trainer.train.n_batches}

    def impute(self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None) -> Samples:
        records = self.impute_records(windows, n_samples, seed, fill)
        values = np.empty((n_samples, *windows.values.shape), windows.values.dtype)
        for n, record in enumerate(records):
            values[:, n] = record.values[:, 0]
        return Samples(values, windows.shown, windows.features, windows.record_ids)

    def impute_records(
        self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None
    ) -> Iterator[Samples]:
        """What ``impute`` gives, one record after another: few draws are in memory, those of one record at least.

        Args, Raises: see ``impute``; what can be refused before any work is done, is.
        """
        network, scaler, sampling = self._fitted(), self.scaler_, self.sampling
        self._check(windows)
        cells = cells_to_fill(windows, n_samples, fill)
        # A copy: the network may be in training, and must stay on its device and in its mode.
        backbone: Any = copy.deepcopy(network).to(sampling.device).eval()
        draw = partial(
            sample,
            backbone,
            make("processes", self.process.name, **self.process.options),
            self._solver(),
            n_samples=n_samples,
            n_steps=self.n_steps,
            grid_power=self.grid_power,
            rows_at_once=sampling.rows_at_once,
            memory_mib=sampling.memory_mib,
        )

        def impute_chunk(chunk: np.ndarray) -> Iterator[Samples]:
            seeds = [derive_seed(seed, "impute", windows.record_ids[n]) for n in chunk]
            condition = condition_of(windows.select(chunk), scaler, cells[chunk]).to(sampling.device)
            draws = draw(condition, seeds=seeds).cpu().numpy()
            for n, of_record in zip(chunk, np.moveaxis(draws, 1, 0), strict=True):
                yield _completed(windows.select([n]), scaler, of_record[:, None], cells[[n]])

        size = max(1, _CHUNK_BYTES // (4 * n_samples * windows.values[:1].size)) if len(windows) else 1
        chunks = [np.arange(first, min(first + size, len(windows))) for first in range(0, len(windows), size)]
        return chain.from_iterable(map(impute_chunk, chunks))

    @property
    def solver(self) -> str:
        """Name of the solver: as set, or the process's own default."""
        return self.sampling.solver or self._process_default("default_solver")

    @property
    def grid_power(self) -> float:
        """How the steps are spaced: as set, or the process's own default with its own solver, else evenly."""
        default = 1.0 if self.sampling.solver else self._process_default("default_power")
        return self.sampling.grid_power or default

    @property
    def n_steps(self) -> int:
        """Solver steps: as set, or the process's own default."""
        return self.sampling.n_steps or self._process_default("default_steps")

    @property
    def eta(self) -> float:
        """Share of fresh noise in the first-order solver: as set, or the process's own default."""
        return self._process_default("default_eta") if self.sampling.eta is None else self.sampling.eta

    def save(self, path: Path) -> None:
        write_model(Path(path), self._fitted().state_dict(), self._about(self.fitted_))

    @classmethod
    def load(cls, path: Path, sampling: SamplingConfig | None = None) -> Self:
        """Reads what ``save`` wrote; ``sampling`` takes the place of the stored sampler settings."""
        path = Path(path)
        weights, about = read_model(path)
        try:
            settings = {name: from_dict(kind, about["settings"][name]) for name, kind in _SETTINGS.items()}
            imputer = cls(**settings)
            imputer._take(weights, about)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise CheckpointError(f"{path}: the model file is damaged or of another layout ({reason}).") from error
        if sampling is not None:
            imputer.sampling = sampling
        return imputer

    # ------------------------------------------------------------------------------------------------------------------

    def _new_network(self, tau_frequency: float) -> nn.Module:
        options = {"max_frequency": tau_frequency} | self.network.options
        with torch.random.fork_rng(devices=[]):
            # Not torch.manual_seed: that would reseed every other device, too.
            torch.default_generator.manual_seed(derive_seed(self.training.seed, "network"))
            return make("backbones", self.network.name, n_features=len(self.features_), **options)

    def _solver(self) -> Solver:
        name = self.solver
        if "eta" in options_of("solvers", name):
            return make("solvers", name, eta=self.eta)
        if self.sampling.eta:
            raise ConfigError(f"sampling.eta: solver {name} is deterministic, expected 0 or none, came {self.eta}.")
        return make("solvers", name)

    def _take(self, weights: dict[str, torch.Tensor], about: dict[str, Any]) -> None:
        self.features_ = tuple(Feature(*f) for f in about["features"])
        self.scaler_ = Standardizer.from_dict(about["scaler"])
        self.time_step_ = about["time_step"]
        self.fitted_ = about["fitted"]
        self.network_ = self._new_network(self._process_default("tau_frequency"))
        self.network_.load_state_dict(weights)

    def _about(self, fitted: dict[str, Any]) -> dict[str, Any]:
        return {
            "settings": {name: to_dict(getattr(self, name)) for name in _SETTINGS},
            "features": [[f.name, f.unit] for f in self.features_],
            "scaler": self.scaler_.to_dict(),
            "time_step": self.time_step_,
            "fitted": fitted,
            "versions": {
                "python": platform.python_version(),
                "torch": version("torch"),
                "numpy": version("numpy"),
            },
        }

    def _process_default(self, name: str) -> Any:
        return getattr(make("processes", self.process.name, **self.process.options), name)

    def _fitted(self) -> nn.Module:
        if not hasattr(self, "network_"):
            raise NotFittedError("impute: expected a fitted imputer; call fit(...) or load(...) first.")
        return self.network_

    def _check(self, windows: Windows) -> None:
        check_features(self.features_, windows.features)
        for record, step in zip(windows.record_ids, _time_steps(windows), strict=True):
            if step and self.time_step_ and not np.isclose(step, self.time_step_, rtol=0.05):
                raise DataError(
                    f"times: the model was trained on steps of {self.time_step_:g}, record {record!r} has steps of "
                    f"{step:g}. Resample it, or convert its times to the model's unit."
                )


def _time_steps(windows: Windows) -> np.ndarray:
    """(N,) median distance between two steps of each record; 0 where records have one step."""
    return np.median(np.diff(windows.times, axis=1), axis=1) if windows.n_steps > 1 else np.zeros(len(windows))


def _completed(record: Windows, scaler: Standardizer, draws: np.ndarray, filled: np.ndarray) -> Samples:
    """One record with its standardised draws (S, 1, K, L) at the cells ``filled``, in the data's units."""
    values = np.empty(draws.shape, record.values.dtype)
    with np.errstate(over="ignore"):  # what does not fit the data's own dtype is refused below
        for draw, value in zip(draws, values, strict=True):  # one by one: all draws in float64 would be much
            value[...] = scaler.inverse(draw)
    if not np.isfinite(values).all():
        raise TsimputeError(
            f"sampling: draws of record {record.record_ids[0]!r} are not finite as {values.dtype}. "
            "Train anew, use more steps, or give the records in a wider dtype."
        )
    values[:, ~filled] = np.nan
    shown = record.shown
    values[:, shown] = record.values[shown]
    return Samples(values, shown, record.features, record.record_ids)


PLUGIN = GenerativeImputer

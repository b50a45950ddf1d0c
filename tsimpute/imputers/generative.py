"""Imputation by draws from a learnt conditional distribution: flow matching (CFMI) or diffusion (CSDI)."""

from __future__ import annotations

import copy
import platform
from collections.abc import Callable, Iterator
from dataclasses import astuple
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from tsimpute.checkpoints import read_model, write_model
from tsimpute.config import NetworkConfig, ProcessConfig, SamplingConfig, TrainingConfig
from tsimpute.config_files import from_dict, to_dict
from tsimpute.containers import Feature, Samples, Windows
from tsimpute.errors import CheckpointError, ConfigError, NotFittedError
from tsimpute.imputers._checks import cells_to_fill, check_features, check_given
from tsimpute.imputers._completing import check_steps, completed, usual_step
from tsimpute.imputers._long import Done, check_times, pieces, steps_within
from tsimpute.imputers._sampling import Sampling
from tsimpute.joining import Joined
from tsimpute.pipeline.loading import Loader, condition_of, conditions_of, usual_cells
from tsimpute.pipeline.masking import make_policy
from tsimpute.pipeline.scaling import Standardizer
from tsimpute.registry import make
from tsimpute.seeding import derive_seed
from tsimpute.training import Step, Trainer

_SETTINGS = {
    "process": ProcessConfig,
    "network": NetworkConfig,
    "training": TrainingConfig,
    "sampling": SamplingConfig,
}

_CHUNK_BYTES = 8 * 2**20
"""Of draws that are computed side by side: enough records to keep several threads busy."""


class GenerativeImputer(Sampling):
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
        process: the process, or its name: "flow_matching" or "diffusion".
        network, training, sampling: settings; see ``tsimpute.config``.

    Attributes:
        network_: the trained backbone.
        scaler_: means and standard deviations of the training cells.
        features_: names and units, in the model's order.
        time_step_: the usual distance between two steps of a record; 0 where there is none.
        regular_: whether all training records keep to it; where not, records of any steps are taken.
        time_unit_: of the times: see ``panel.Clock``; None = not known.
        n_steps_: steps of a training record.
        usual_cells_: see ``usual_cells``; 0 = not known, as of models of before.
        fitted_: epoch, step and seconds of the weights.
    """

    usual_cells_ = 0

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
        time_unit: str | None = None,
        folder: Path | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[Step]:
        """Fits, yielding after each optimiser step: for progress, and for evaluation between epochs.

        Args:
            train, valid: records; only their shown cells are used.
            scaler: None = fitted on the shown cells of ``train``.
            time_unit: of the times of the records, to be kept with the model; None = not known.
            folder: where the state, ``epochs.csv`` and models go; a state found there is taken up.
            should_stop: asked after each step; True ends with the state on disk.

        Raises:
            DataError: ``valid`` has other features than ``train``, given ones are not last, or no record shows a cell.
            ConfigError: patience without ``valid``, or ``ask_unobserved`` with a process on discrete levels.
            TrainingError, CheckpointError: see ``Trainer.run``.
        """
        if valid is not None:
            check_features(train.features, valid.features)
        check_given(train.features)
        self.scaler_ = scaler or Standardizer.fit(train)
        self.features_, self.time_unit_ = train.features, time_unit
        self.n_steps_, self.usual_cells_ = train.n_steps, usual_cells(train)
        self.time_step_, self.regular_ = usual_step(train)
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
            return Loader(windows, self.scaler_, policy, self.training.batch_size, seed, *asks, self.guess_span_)

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
            identity=f"{self.network.name} {self.network.options}, {self.process.options}"
            + f", guess {self.network.guess}" * (self.guess_span_ is not None),
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
        self._fitted()
        self._check(windows)
        scaler, sampling = self.scaler_, self.sampling
        cells = cells_to_fill(windows, n_samples, fill)
        draw = self._sampler(self._backbone(), n_samples)

        def impute_chunk(chunk: np.ndarray) -> Iterator[Samples]:
            seeds = [derive_seed(seed, "impute", windows.record_ids[n]) for n in chunk]
            condition = condition_of(windows.select(chunk), scaler, cells[chunk], self.guess_span_, self.usual_cells_)
            draws = draw(condition.to(sampling.device), seeds=seeds).cpu().numpy()
            for n, of_record in zip(chunk, np.moveaxis(draws, 1, 0), strict=True):
                yield completed(windows.select([n]), scaler, of_record[:, None], cells[[n]])

        size = windows.records_within(_CHUNK_BYTES, n_samples)
        chunks = [np.arange(first, min(first + size, len(windows))) for first in range(0, len(windows), size)]
        return chain.from_iterable(map(impute_chunk, chunks))

    def impute_long(
        self,
        record: Windows,
        n_samples: int,
        seed: int = 0,
        fill: np.ndarray | None = None,
        overlap: float = 1 / 3,
        progress: Callable[[float], None] = lambda share: None,
    ) -> Iterator[tuple[slice, Samples]]:
        """One record of any length, by overlapping windows of the length learnt: each draw is one path without seams.

        Args:
            record: one record; its features are those learnt.
            n_samples, seed, fill: see ``impute``.
            overlap: share of a window that the next one holds too, in [0, 1).
            progress: called now and then with the share of the record that is done.

        Yields:
            Steps and their draws, from the first step to the last; as many at once as ``sampling.memory_mib`` allows.
            Where nothing is asked for, no steps are given.

        Raises:
            ConfigError: ``overlap`` out of range.
            DataError: times within a window, counted from its first, lose their order in single precision.
            Others: see ``impute``.
        """
        self._fitted()
        self._check(record)
        cells = cells_to_fill(record, n_samples, fill)
        if len(record) != 1 or not 0 <= overlap < 1:
            raise ConfigError(
                f"impute_long: expected 1 record and an overlap in [0, 1), came {len(record)}, {overlap}."
            )
        length = min(self.n_steps_ or record.n_steps, record.n_steps)
        memory, hop = self.sampling.memory_mib, max(1, round(length * (1 - overlap)))
        check_times(record.times[0], length, hop)
        n_evaluations = self._solver().n_evaluations(self.n_steps)
        done = Done(n_samples * n_evaluations, progress)
        draw = self._sampler(Joined(self._backbone(), length, hop, memory, done.add), n_samples)
        seeds = [derive_seed(seed, "impute", record.record_ids[0])]
        kept_steps = steps_within(memory, n_samples, record.n_features, n_evaluations * length)
        made = pieces(record.n_steps, length, hop, n_evaluations, kept_steps)
        asked = [piece for piece in made if cells[..., piece.kept].any()]
        about = cells, self.guess_span_, self.usual_cells_
        conditions = conditions_of(record, self.scaler_, [p.computed for p in asked], *about)
        for piece, condition in zip(asked, conditions, strict=True):
            done.begin(piece.kept.start / record.n_steps, piece.kept.stop / record.n_steps)
            part_of = piece.computed.start, record.n_steps
            draws = draw(condition.to(self.sampling.device), seeds=seeds, part_of=part_of).cpu().numpy()
            kept = draws[..., piece.kept_within]
            yield piece.kept, completed(record.steps(piece.kept), self.scaler_, kept, cells[..., piece.kept])

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

    def _new_network(self, tau_frequency: float) -> nn.Module:
        options = {"max_frequency": tau_frequency} | self.network.options
        given = {"n_given": n} if (n := sum(feature.given for feature in self.features_)) else {}
        with torch.random.fork_rng(devices=[]):
            # Not torch.manual_seed: that would reseed every other device, too.
            torch.default_generator.manual_seed(derive_seed(self.training.seed, "network"))
            return make("backbones", self.network.name, n_features=len(self.features_), **given, **options)

    @property
    def guess_span_(self) -> float | None:
        """Over which time a first guess fades; None = there is none."""
        return None if self.network.guess == "none" else self.time_step_ * self.n_steps_

    def _backbone(self) -> Any:
        """A copy: the network may be in training, and must stay on its device and in its mode."""
        return copy.deepcopy(self._fitted()).to(self.sampling.device).eval()

    def _take(self, weights: dict[str, torch.Tensor], about: dict[str, Any]) -> None:
        self.features_ = tuple(Feature(*f) for f in about["features"])
        self.scaler_ = Standardizer.from_dict(about["scaler"])
        self.time_step_, self.n_steps_ = about["time_step"], about.get("n_steps", 0)
        self.regular_, self.time_unit_ = about.get("regular", True), about.get("time_unit")
        self.usual_cells_, self.fitted_ = about.get("usual_cells", 0), about["fitted"]
        self.network_ = self._new_network(self._process_default("tau_frequency"))
        self.network_.load_state_dict(weights)

    def _about(self, fitted: dict[str, Any]) -> dict[str, Any]:
        return {
            "settings": {name: to_dict(getattr(self, name)) for name in _SETTINGS},
            "features": [astuple(feature)[: 2 + feature.given] for feature in self.features_],
            "scaler": self.scaler_.to_dict(),
            "time_step": self.time_step_,
            "time_unit": self.time_unit_,
            "regular": self.regular_,
            "n_steps": self.n_steps_,
            "usual_cells": self.usual_cells_,
            "fitted": fitted,
            "versions": {"python": platform.python_version()} | {name: version(name) for name in ("torch", "numpy")},
        }

    def _fitted(self) -> nn.Module:
        if not hasattr(self, "network_"):
            raise NotFittedError("impute: expected a fitted imputer; call fit(...) or load(...) first.")
        return self.network_

    def _check(self, windows: Windows) -> None:
        check_features(self.features_, windows.features)
        if self.regular_:
            check_steps(windows, self.time_step_)


PLUGIN = GenerativeImputer

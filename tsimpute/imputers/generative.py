"""Imputation by draws from a learnt conditional distribution: flow matching (CFMI) or diffusion (CSDI)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
from torch import nn

from tsimpute.batches.guessing import Guess
from tsimpute.batches.loading import Loader, condition_of, conditions_of, usual_cells
from tsimpute.batches.mask_pool import Masks
from tsimpute.batches.masking import MaskPolicy, make_policy
from tsimpute.config.registry import make
from tsimpute.config.settings import NetworkConfig, ProcessConfig, SamplingConfig, TrainingConfig
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Samples, Windows
from tsimpute.errors import ConfigError
from tsimpute.gaussian.process import GaussianModel
from tsimpute.generative.window_averaging import WindowAveraging
from tsimpute.imputers.network.learnt import FittedModel
from tsimpute.imputers.network.long_records import WindowProgress, check_times, pieces, steps_within
from tsimpute.imputers.network.start import base_of, digest_of, guesses_apart
from tsimpute.imputers.shared.checks import cells_to_fill, check_features, check_given
from tsimpute.imputers.shared.completing import check_steps, collected, completed, usual_step
from tsimpute.models.checkpoints import read_model, write_model
from tsimpute.processes.base import Process
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.system.terminal import Progress, progress_bars
from tsimpute.training.progress import Step
from tsimpute.training.trainer import Trainer

_CHUNK_BYTES = 8 * 2**20
"""Of draws that are computed side by side, at most."""
_CELLS_AT_ONCE = 100_000
"""Draws of cells after which records are given out, about: of cells to fill a few seconds' work."""


class GenerativeImputer(FittedModel):
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

    Attributes: see ``FittedModel``.
    """

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
            base: with the guess "gaussian" alone: the Gaussian process to start from, of values standardised by
                ``scaler`` and times counted as in ``train``; None = fitted on the shown cells of ``train``.
            time_unit: of the times of the records, to be kept with the model; None = not known.
            folder: where the state, ``epochs.csv`` and models go; a state found there is taken up.
            should_stop: asked after each step; True ends with the state on disk.
            masks: with a ``base`` alone: masks of ``train`` and what is guessed of the cells that they hide, by who
                sees more than the records; None = drawn as ``training.masks`` says.

        Raises:
            DataError: ``valid`` has other features than ``train``, given ones are not last, or no record shows a cell.
            ConfigError: patience without ``valid``, a base that does not fit, or ``ask_unobserved`` with a process on
                discrete levels.
            TrainingError, CheckpointError: see ``Trainer.run``.
        """
        if valid is not None:
            check_features(train.features, valid.features)
        check_given(train.features)
        self.scaler_ = scaler or Standardizer.fit(train)
        self.features_, self.time_unit_ = train.features, time_unit
        self.n_steps_, self.usual_cells_ = train.n_steps, usual_cells(train)
        self.time_step_, self.regular_ = usual_step(train)
        self.base_ = base_of(
            train, self.scaler_, self.network.guess, base, self.training.seed, self.training.base_folds
        )
        process = make("processes", self.process.name, **self.process.options)
        self.network_ = self._new_network(process.tau_frequency)
        policy = make_policy(self.training.masks, train)
        if self.training.ask_unobserved and not process.continuous:
            raise ConfigError(
                f"training.ask_unobserved: expected 0 with {self.process.name}, which has levels and no times between "
                f"them; came {self.training.ask_unobserved}."
            )

        def save_model(name: str, network: nn.Module, about: dict[str, Any]) -> None:
            if folder is not None:
                write_model(folder / f"{name}.safetensors", self._weights(network), self._about(about))

        trainer = Trainer(
            self.network_,
            process,
            self._loader(train, policy, self.training.seed, self._guesses_apart(train), masks),
            None if valid is None else self._loader(valid, policy, derive_seed(self.training.seed, "valid")),
            self.training,
            folder,
            save_model,
            should_stop,
            identity=f"{self.network.name} {self.network.options}, {self.process.options}"
            + f", guess {self.network.guess}" * (self.guess_ is not None)
            + (f", base {digest_of(base)}" if base else ""),
        )
        for step in trainer.run():
            self.network_, self.fitted_ = trainer.kept, {"epoch": trainer.epochs_done, "step": step.step}
            yield step
        if self.training.patience is not None and trainer.at.best_epoch and folder is not None:
            self._take(*read_model(folder / "best.safetensors"))
        elif trainer.best is not None:
            self.network_.load_state_dict(trainer.best)
            self.fitted_ = {"epoch": trainer.at.best_epoch, "step": trainer.at.best_epoch * trainer.train.n_batches}

    def _loader(
        self, windows: Windows, policy: MaskPolicy, seed: int, guess_of: Callable[[int], Guess] | None = None,
        masks: Masks | None = None,
    ) -> Loader:  # fmt: skip
        settings = self.training
        asks = settings.ask_unobserved, 1 + round(settings.ask_from * settings.epochs)
        n_masks = 0 if self.base_ is None else settings.masks_per_record
        guessing = self.guess_, guess_of, n_masks, masks
        return Loader(windows, self.scale_, policy, settings.batch_size, seed, *asks, *guessing)

    def _guesses_apart(self, train: Windows) -> Callable[[int], Guess] | None:
        if self.base_ is None or self.training.base_folds == 1:
            return None
        return guesses_apart(train, self.scaler_, self.base_, self.training.base_folds, self.training.seed)

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
        """What ``impute`` gives, one record after another: few draws are in memory, those of one record at least.

        Args, Raises: see ``impute``; what can be refused before any work is done, is.
        """
        self._fitted()
        self._check(windows)
        scaler, sampling = self.scale_, self.sampling
        cells = cells_to_fill(windows, n_samples, fill)
        draw, usual = self._sampler(self._backbone(), n_samples), self._usual_cells(windows.n_steps)

        def impute_chunk(chunk: np.ndarray) -> Iterator[Samples]:
            seeds = [derive_seed(seed, "impute", windows.record_ids[n]) for n in chunk]
            condition = condition_of(windows.select(chunk), scaler, cells[chunk], self.guess_, usual)
            draws = draw(condition.to(sampling.device), seeds=seeds).cpu().numpy()
            for n, of_record in zip(chunk, np.moveaxis(draws, 1, 0), strict=True):
                yield completed(windows.select([n]), scaler, of_record[:, None], cells[[n]])

        most, n_threads = windows.records_within(_CHUNK_BYTES, n_samples), torch.get_num_threads()
        asked = max(1, n_samples * int(cells.sum()) // max(1, len(windows)))
        size = min(most, max(4 * n_threads, _CELLS_AT_ONCE // asked))  # enough records to keep all threads busy
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
        memory, stride = self.sampling.memory_mib, max(1, round(length * (1 - overlap)))
        check_times(record.times[0], length, stride)
        n_evaluations = self._solver().n_evaluations(self.n_steps)
        done = WindowProgress(n_samples * n_evaluations, progress)
        draw = self._sampler(WindowAveraging(self._backbone(), length, stride, memory, done.add), n_samples)
        seeds = [derive_seed(seed, "impute", record.record_ids[0])]
        kept_steps = steps_within(memory, n_samples, record.n_features, n_evaluations * length)
        made = pieces(record.n_steps, length, stride, n_evaluations, kept_steps)
        asked = [piece for piece in made if cells[..., piece.kept].any()]
        about = cells, self.guess_, self._usual_cells(length)
        conditions = conditions_of(record, self.scale_, [p.computed for p in asked], *about)
        for piece, condition in zip(asked, conditions, strict=True):
            done.begin(piece.kept.start / record.n_steps, piece.kept.stop / record.n_steps)
            part_of = piece.computed.start, record.n_steps
            draws = draw(condition.to(self.sampling.device), seeds=seeds, part_of=part_of).cpu().numpy()
            kept = draws[..., piece.kept_within]
            yield piece.kept, completed(record.steps(piece.kept), self.scale_, kept, cells[..., piece.kept])

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

    def _backbone(self) -> Any:
        """A copy: the network may be in training, and must stay on its device and in its mode."""
        return copy.deepcopy(self._fitted()).to(self.sampling.device).eval()

    def _check(self, windows: Windows) -> None:
        check_features(self.features_, windows.features)
        if self.regular_:
            check_steps(windows, self.time_step_)


PLUGIN = GenerativeImputer

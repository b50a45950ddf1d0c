"""The training loop: a generator that yields after every optimiser step, on lightning-fabric.

It gets batches and a process and yields steps; it knows no data set and no metric. All randomness comes from
(seed, epoch, record), so a run that was stopped anywhere resumes from its last state to the same result.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from tsimpute.backbones.dropout import seeded_dropout
from tsimpute.batches.loading import Loader, RankShard
from tsimpute.config.settings import TrainingConfig
from tsimpute.core.containers import Batch
from tsimpute.errors import CheckpointError, ConfigError, TrainingError
from tsimpute.generative.objective import Regression, loss_per_record
from tsimpute.models.checkpoints import read_state, write_state
from tsimpute.processes.base import Process
from tsimpute.system.files import exclusive_lock, remove_partial
from tsimpute.training.devices import (
    CallableModule,
    gradients_one_by_one,
    gradients_side_by_side,
    launched,
    side_by_side_here,
    wait_for_gloo,
)
from tsimpute.training.progress import Progress, Step, check_same, log_epoch, settings_key

if TYPE_CHECKING:
    pass

_REST = 10.0
"""Seconds between two files of the last model, at least, where training is of a number of steps."""

Objective = Callable[[nn.Module, Batch], tuple[torch.Tensor, torch.Tensor]]
"""(network, B records) -> (B, K, L) squared errors, and the mask of the cells that they are of."""

SaveModel = Callable[[str, nn.Module, dict[str, Any]], None]
"""(name such as "last", "best" or "epoch-0005", network, where it stands) -> writes a model file."""


def moving_average(decay: float) -> Callable[[Any, Any, Any], None]:
    """Exponential moving average of weights whose decay rises to ``decay`` as (1 + n) / (10 + n) after n averages.

    With the full decay from the start, the first weights would still weigh 1 / e after 1 / (1 - decay) steps.
    """

    @torch.no_grad()
    def update(averaged: Any, current: Any, n_averaged: Any) -> None:
        n = float(n_averaged)
        weight = 1 - min(decay, (1 + n) / (10 + n))
        torch._foreach_lerp_(list(averaged), list(current), weight)  # type: ignore[attr-defined]

    return update


class Trainer:
    """Trains one network; ``run`` yields a ``Step`` after each optimiser step.

    Args:
        network: the backbone; it is trained in place.
        process: what it is trained for.
        train, valid: batches; without ``valid`` there is no best epoch.
        settings: see ``TrainingConfig``.
        folder: for state, logs and models; None = nothing is written and nothing can be resumed.
        save_model: writes a model file; called with the averaged network where there is one.
        should_stop: called after each step; True ends training with its state written.
        identity: more settings that must not change when a run resumes, as text, such as the options of the network.
        started_from: see ``settings_key``.
        objective: what is minimised; None = the process's regression.

    Attributes:
        best: weights of the best epoch of this call, where there is patience and no folder to keep them in.

    Raises:
        ConfigError: ``settings`` ask for patience, and there are no validation records.
    """

    def __init__(
        self,
        network: nn.Module,
        process: Process,
        train: Loader,
        valid: Loader | None,
        settings: TrainingConfig,
        folder: Path | None = None,
        save_model: SaveModel = lambda name, network, fitted: None,
        should_stop: Callable[[], bool] = lambda: False,
        identity: str = "",
        started_from: str | None = None,
        objective: Objective | None = None,
    ) -> None:
        if settings.patience is not None and valid is None:
            raise ConfigError(
                f"training.patience: {settings.patience} epochs without a better validation loss were asked for, and "
                "there are no validation records. Pass some, or set patience to none."
            )
        self.process, self.train, self.valid, self.settings = process, train, valid, settings
        self.folder, self.save_model, self.should_stop = folder, save_model, should_stop
        self.identity, self.started_from = identity, started_from
        self.objective: Objective = objective or Regression(process)
        self.fabric = launched(settings)
        wait_for_gloo(self.fabric)
        # A fused step differs from a plain one in last bits, which results of time series keep.
        fused = True if getattr(network, "max_length", None) == 1 else None
        optimiser = torch.optim.AdamW(
            network.parameters(), settings.learning_rate, weight_decay=settings.weight_decay, fused=fused
        )
        self.network = network
        self.model, self.optimiser = self.fabric.setup(CallableModule(network), optimiser)
        self.average = None
        if settings.ema is not None:
            self.average = AveragedModel(network, multi_avg_fn=moving_average(settings.ema))
        self.n_steps = settings.max_steps or settings.epochs * train.n_batches
        self.at = Progress()
        self.best: dict[str, torch.Tensor] | None = None

    @property
    def output_network(self) -> nn.Module:
        """The network that is validated and saved: the moving average if there is one."""
        return self.network if self.average is None else self.average.module

    @property
    def epochs_done(self) -> int:
        """Epochs that are finished."""
        return self.at.epoch - 1

    def run(self) -> Iterator[Step]:
        """Trains to the end, yielding after each step; resumes from a state in ``folder``.

        Raises:
            TrainingError: a loss or gradient is not finite; the weights before that step are kept.
            CheckpointError: the state in ``folder`` is damaged or of other settings.
            BusyError: another process trains in ``folder``.
        """
        with exclusive_lock(self.folder if self.fabric.is_global_zero else None):
            self._resume()
            started = saved = time.monotonic()
            before, stop = self.at.seconds, self._finished()
            while stop is None:
                self.network.train()
                shares = self.train.epoch(self.at.epoch, self.at.batch, self.fabric.global_rank, self.fabric.world_size)
                for share in shares:
                    step = self._step(share)
                    now = time.monotonic()
                    self.at.seconds = before + now - started
                    # Epochs of a few steps are not worth a file each where it is steps that count.
                    rests = self.settings.max_steps is None or self.at.step == self.n_steps or now - saved > _REST
                    if step.ends_epoch:
                        step = self._end_epoch(step, rests)
                    # Clocks and signals differ between processes: the first one decides for all.
                    stop = self.fabric.broadcast(self._finished(now - started))
                    if (step.ends_epoch and rests) or stop or now - saved > 60 * self.settings.checkpoint_minutes:
                        self._save_state()
                        saved = now
                    yield step
                    if stop:
                        break
            self.fabric.barrier()
            yield Step(self.epochs_done, self.at.step, self.n_steps, math.nan, math.nan, stop=stop)

    def _step(self, share: RankShard) -> Step:
        """One optimiser step, with gradients of the batch's mean loss, a few records at a time."""
        settings, n = self.settings, self.at.step
        rise = min(1.0, (n + 1) / (settings.warmup_steps + 1))
        if settings.schedule == "cosine":
            factor = rise * (1 + math.cos(math.pi * n / self.n_steps)) / 2
        else:
            factor = rise * settings.decay ** sum(n >= part * self.n_steps for part in settings.milestones)
        rate = settings.learning_rate * factor
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad()
        batch, size = share.batch.to(self.fabric.device), settings.micro_batch
        parts = [batch.select(slice(first, first + size)) for first in range(0, len(batch), size)]
        # Processes' gradients are averaged, so each counts its share of the sum n_ranks times.
        weight = share.weight / share.n_global
        if side_by_side_here(self.fabric, settings.precision):
            total = gradients_side_by_side(self.network, parts, self._losses, weight)
        else:
            total = gradients_one_by_one(self.fabric, self.model, parts, self._losses, weight)
        loss = float(self.fabric.all_reduce(total, reduce_op="sum"))  # type: ignore[arg-type]
        if not math.isfinite(loss):  # seen by every process at once, so none is left waiting for another
            self._fail(f"the training loss is not finite at {self._culprit(self.train, batch)}")
        norm = self.fabric.clip_gradients(
            self.model, self.optimiser, max_norm=settings.clip_norm, error_if_nonfinite=False
        )
        if not math.isfinite(float(norm)):  # type: ignore[arg-type]
            self._fail(f"the gradient of step {n + 1} is not finite (records {', '.join(share.batch.record_ids)})")
        self.optimiser.step()
        if self.average is not None:
            self.average.update_parameters(self.network)
        self.at.step += 1
        self.at.batch += 1
        self.at.losses.append(loss)
        ends_epoch = self.at.batch == self.train.n_batches or self.at.step == self.n_steps
        return Step(self.at.epoch, self.at.step, self.n_steps, loss, rate, ends_epoch)

    def _losses(self, network: nn.Module, batch: Batch) -> torch.Tensor:
        with seeded_dropout(batch.seeds, batch.values.device):
            return loss_per_record(*self.objective(network, batch))

    @torch.no_grad()
    def _culprit(self, loader: Loader, batch: Batch) -> str:
        """Names a record whose loss is not finite, in any process, and its feature with the largest value."""
        network = self.output_network if loader is self.valid else self.network
        # Each record by itself: in a batch, cells of several records may share one attention bin.
        errors = torch.cat([self.objective(network, batch.select(slice(b, b + 1)))[0] for b in range(len(batch))])
        bad = (~errors.isfinite()).flatten(1).any(1).nonzero()
        cell = -1
        if len(bad):
            feature = int(batch.values[bad[0, 0]].abs().amax(-1).argmax())
            cell = loader.record_ids.index(batch.record_ids[bad[0, 0]]) * len(loader.features) + feature
        cell = int(self.fabric.all_reduce(torch.tensor(cell, device=self.fabric.device), reduce_op="max"))  # type: ignore[arg-type]
        if cell < 0:
            return "no single record: the sum over the batch is too large"
        record, feature = divmod(cell, len(loader.features))
        largest = abs(loader.values[record, feature]).max()
        return (
            f"record {loader.record_ids[record]!r}, feature {loader.features[feature].name!r} "
            f"(its largest standardised value is {largest:.3g})"
        )

    def _fail(self, what: str) -> NoReturn:
        if self.fabric.is_global_zero:
            self.save_model("last", self.output_network, self._fitted() | {"epoch": self.epochs_done})
        raise TrainingError(
            f"training stopped in epoch {self.at.epoch}: {what}. The last good weights are kept. "
            "Look for extreme values in that record, or lower the learning rate."
        )

    def _end_epoch(self, step: Step, writes: bool) -> Step:
        train_loss = math.fsum(self.at.losses) / len(self.at.losses)
        valid_loss = None if self.valid is None else self._validate(self.valid)
        better = valid_loss is not None and valid_loss < self.at.best_loss
        if better:
            self.at.best_loss, self.at.best_epoch = valid_loss, self.at.epoch  # type: ignore[assignment]
            if self.folder is None and self.settings.patience is not None:
                self.best = {name: x.detach().clone() for name, x in self.output_network.state_dict().items()}
        if self.fabric.is_global_zero:
            fitted = self._fitted() | {"train_loss": train_loss, "valid_loss": valid_loss}
            names = ["last"] * writes + ["best"] * better
            names += [f"epoch-{self.at.epoch:04d}"] * (self.at.epoch in self.settings.keep_epochs)
            for name in names:
                self.save_model(name, self.output_network, fitted)
            if self.folder is not None and writes:
                row = [self.at.epoch, self.at.step, train_loss, valid_loss, step.learning_rate, self.at.seconds]
                log_epoch(self.folder / "epochs.csv", row)
        self.at.epoch, self.at.batch, self.at.losses = self.at.epoch + 1, 0, []
        return dataclasses.replace(step, train_loss=train_loss, valid_loss=valid_loss)

    @torch.no_grad()
    def _validate(self, valid: Loader) -> float:
        """Mean loss over the validation records with the same masks, times and noise in every epoch."""
        self.output_network.eval()
        losses = []
        for share in valid.fixed():
            batch = share.batch.to(self.fabric.device)
            losses += self._losses(self.output_network, batch).tolist()
            if not all(map(math.isfinite, losses[-len(batch) :])):
                self._fail(f"the validation loss is not finite at {self._culprit(valid, batch)}")
        return math.fsum(losses) / len(losses)

    def _finished(self, elapsed: float | None = None) -> str | None:
        """Why training ends, ``elapsed`` seconds after it began (None = before its first step); None = it goes on."""
        if self.at.step >= self.n_steps:
            steps, epochs = self.settings.max_steps, self.settings.epochs
            return f"all {epochs} epochs done" if steps is None else f"all {steps} steps done"
        patience = self.settings.patience
        if patience is not None and self.at.batch == 0 and self.epochs_done - self.at.best_epoch >= patience:
            return f"no better validation loss for {patience} epochs; the best was epoch {self.at.best_epoch}"
        limit = self.settings.max_minutes
        if elapsed is not None and limit is not None and elapsed > 60 * limit:
            return f"time limit of {limit} minutes reached; the same command goes on from here"
        if elapsed is not None and self.should_stop():
            return "asked to stop; the same command goes on from here"
        return None

    def _fitted(self) -> dict[str, Any]:
        return {"epoch": self.at.epoch, "step": self.at.step}

    # State on disk ---------------------------------------------------------------------------------------------------

    def _key(self) -> dict[str, Any]:
        return settings_key(self.settings, self.process.name, self.train.record_ids, self.identity, self.started_from)

    def _save_state(self) -> None:
        if self.folder is None or not self.fabric.is_global_zero:
            return
        state = {
            "settings": self._key(),
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "progress": vars(self.at).copy(),
            "step": self.at.step,
        }
        write_state(self.folder / "state.pt", state)

    def _resume(self) -> None:
        if self.folder is None:
            return
        path = self.folder / "state.pt"
        if self.fabric.is_global_zero:
            remove_partial(path)
        if not path.exists():
            return
        state = read_state(path)
        check_same(path, state, self._key())
        try:
            self.network.load_state_dict(state["network"])
            self.optimiser.load_state_dict(state["optimiser"])
            if self.average is not None:
                self.average.load_state_dict(state["average"])
            self.at = Progress(**state["progress"])
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{path}: the state does not fit the network of these settings. "
                "Use the settings that the run was started with to go on, or another folder."
            ) from error

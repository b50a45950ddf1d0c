"""The training loop: a generator that yields after every optimiser step, on lightning-fabric.

It gets batches and a process and yields steps; it knows no data set and no metric. Everything random comes from
(seed, epoch, record), so a run that was stopped anywhere goes on from its last state as if it had not been.
"""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from tsimpute.checkpoints import read_state, write_state
from tsimpute.config import TrainingConfig
from tsimpute.containers import Batch
from tsimpute.errors import CheckpointError, TrainingError
from tsimpute.objective import draw, loss_per_record, squared_errors
from tsimpute.pipeline.loading import Loader, Share
from tsimpute.processes.base import Process

SaveModel = Callable[[str, nn.Module, dict[str, Any]], None]
"""(name such as "last", "best" or "epoch-0005", network, where it stands) -> writes a model file."""


@dataclass(frozen=True)
class Step:
    """Where training stands after an optimiser step.

    Attributes:
        epoch, step: counted from 1; ``step`` over all epochs.
        loss: mean over the records of the batch.
        learning_rate: that was used.
        valid_loss: after the last step of an epoch with validation records, else None.
        stop: why training ends here, else None.
    """

    epoch: int
    step: int
    loss: float
    learning_rate: float
    ends_epoch: bool = False
    train_loss: float | None = None
    valid_loss: float | None = None
    stop: str | None = None


@dataclass
class _Progress:
    """Counters that a stopped run takes up again."""

    epoch: int = 1
    batch: int = 0
    step: int = 0
    losses: list[float] = field(default_factory=list)
    best_loss: float = math.inf
    best_epoch: int = 0
    seconds: float = 0.0


class Trainer:
    """Trains one network; ``run`` yields a ``Step`` after each optimiser step.

    Args:
        network: the backbone; it is trained in place.
        process: what it is trained for.
        train, valid: batches; without ``valid`` there is no best epoch.
        settings: see ``TrainingConfig``.
        folder: where state, logs and models go; None = nothing is written and nothing can be resumed.
        save_model: writes a model file; called with the averaged network where there is one.
        should_stop: asked after each step; True ends training with its state written.
        fabric: a launched lightning-fabric; made from ``settings`` where None.
    """

    def __init__(
        self,
        network: nn.Module,
        process: Process,
        train: Loader,
        valid: Loader | None,
        settings: TrainingConfig,
        folder: Path | None = None,
        save_model: SaveModel = lambda name, network, about: None,
        should_stop: Callable[[], bool] = lambda: False,
        fabric: Fabric | None = None,
    ) -> None:
        self.process, self.train, self.valid, self.settings = process, train, valid, settings
        self.folder, self.save_model, self.should_stop = folder, save_model, should_stop
        self.fabric = fabric or Fabric(
            accelerator=settings.accelerator,
            devices=settings.devices,
            precision=settings.precision,  # type: ignore[arg-type]
        )
        optimiser = torch.optim.AdamW(network.parameters(), settings.learning_rate, weight_decay=settings.weight_decay)
        self.network = network
        self.model, self.optimiser = self.fabric.setup(network, optimiser)
        self.average = None
        if settings.ema is not None:
            self.average = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(settings.ema))
        self.n_steps = settings.epochs * train.n_batches
        self.at = _Progress()

    @property
    def kept(self) -> nn.Module:
        """The network that is validated and kept: the moving average where there is one."""
        return self.network if self.average is None else self.average.module

    def run(self) -> Iterator[Step]:
        """Trains to the end, yielding after each step; takes up a state found in ``folder``.

        Raises:
            TrainingError: a loss or gradient is not finite; the weights before that step are kept.
            CheckpointError: the state in ``folder`` is damaged or of other settings.
        """
        self._resume()
        started = saved = time.monotonic()
        before = self.at.seconds
        while (stop := self._finished()) is None:
            self.network.train()
            shares = self.train.epoch(self.at.epoch, self.at.batch, self.fabric.global_rank, self.fabric.world_size)
            for share in shares:
                step = self._step(share)
                now = time.monotonic()
                self.at.seconds = before + now - started
                if step.ends_epoch:
                    step = self._end_epoch(step)
                stop = self._reason_to_stop(now - started)
                if step.ends_epoch or stop or now - saved > 60 * self.settings.checkpoint_minutes:
                    self._save_state()
                    saved = now
                yield step
                if stop:
                    break
            if stop:
                break
        yield Step(self.at.epoch, self.at.step, math.nan, math.nan, stop=stop)

    def _step(self, share: Share) -> Step:
        rate = self.settings.learning_rate * self._rate_factor()
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad()
        total = self._accumulate(share)
        norm = self.fabric.clip_gradients(self.model, self.optimiser, max_norm=self.settings.clip_norm)
        if not math.isfinite(float(norm)):  # type: ignore[arg-type]
            self._fail(
                f"the gradient of step {self.at.step + 1} is not finite (records {', '.join(share.batch.record_ids)})"
            )
        self.optimiser.step()
        if self.average is not None:
            self.average.update_parameters(self.network)
        self.at.step += 1
        self.at.batch += 1
        self.at.losses.append(total)
        return Step(self.at.epoch, self.at.step, total, rate, ends_epoch=self.at.batch == self.train.n_batches)

    def _accumulate(self, share: Share) -> float:
        """Gradients of the batch's mean loss, a few records at a time; gives back that loss over all processes."""
        batch, size = share.batch.to(self.fabric.device), self.settings.micro_batch
        total = torch.zeros((), device=self.fabric.device)
        for first in range(0, len(batch), size):
            part = batch.select(slice(first, first + size))
            last = first + size >= len(batch)
            with self.fabric.no_backward_sync(self.model, enabled=not last):  # type: ignore[arg-type]
                # Processes' gradients are averaged, so each counts its share of the sum n_ranks times.
                loss = self._losses(self.model, part).sum() * (share.weight / share.n_global)
                self.fabric.backward(loss * self.fabric.world_size)
            total += loss.detach()
        return float(self.fabric.all_reduce(total, reduce_op="sum"))  # type: ignore[arg-type]

    def _losses(self, network: nn.Module, batch: Batch) -> torch.Tensor:
        tau, noise = draw(batch, self.process)
        errors = squared_errors(network, self.process, batch, tau, noise)
        losses = loss_per_record(errors, batch.target_mask)
        if not bool(losses.isfinite().all()):
            b, k, _ = (~errors.isfinite()).nonzero()[0].tolist()
            self._fail(f"the loss of record {batch.record_ids[b]!r} is not finite, first at feature number {k}")
        return losses

    def _fail(self, what: str) -> None:
        if self.fabric.is_global_zero:
            self.save_model("last", self.kept, self._about())
        raise TrainingError(
            f"training stopped in epoch {self.at.epoch}: {what}. The weights before this step are kept. "
            "Look for extreme values in that record, or lower the learning rate."
        )

    def _end_epoch(self, step: Step) -> Step:
        train_loss = math.fsum(self.at.losses) / len(self.at.losses)
        valid_loss = None if self.valid is None else self._validate(self.valid)
        better = valid_loss is not None and valid_loss < self.at.best_loss
        if better:
            self.at.best_loss, self.at.best_epoch = valid_loss, self.at.epoch  # type: ignore[assignment]
        if self.fabric.is_global_zero:
            about = self._about() | {"train_loss": train_loss, "valid_loss": valid_loss}
            names = ["last"] + ["best"] * better
            names += [f"epoch-{self.at.epoch:04d}"] * (self.at.epoch in self.settings.keep_epochs)
            for name in names:
                self.save_model(name, self.kept, about)
            self._log(train_loss, valid_loss, step.learning_rate)
        self.at.epoch, self.at.batch, self.at.losses = self.at.epoch + 1, 0, []
        return Step(step.epoch, step.step, step.loss, step.learning_rate, True, train_loss, valid_loss)

    @torch.no_grad()
    def _validate(self, valid: Loader) -> float:
        """Mean loss over the validation records with the same masks, times and noise in every epoch."""
        self.kept.eval()
        losses = [
            float(loss)
            for share in valid.fixed()
            for loss in self._losses(self.kept, share.batch.to(self.fabric.device))
        ]
        return math.fsum(losses) / len(losses)

    def _rate_factor(self) -> float:
        passed = sum(self.at.step >= share * self.n_steps for share in self.settings.milestones)
        return self.settings.decay**passed

    def _finished(self) -> str | None:
        return f"all {self.settings.epochs} epochs done" if self.at.epoch > self.settings.epochs else None

    def _reason_to_stop(self, elapsed: float) -> str | None:
        patience, limit = self.settings.patience, self.settings.max_minutes
        if patience is not None and self.at.batch == 0 and self.at.epoch - 1 - self.at.best_epoch >= patience:
            return f"no better validation loss for {patience} epochs; the best was epoch {self.at.best_epoch}"
        if limit is not None and elapsed > 60 * limit:
            return f"time limit of {limit} minutes reached; the same command goes on from here"
        return "asked to stop; the same command goes on from here" if self.should_stop() else None

    def _about(self) -> dict[str, Any]:
        return {"epoch": self.at.epoch, "step": self.at.step, "seconds": self.at.seconds}

    # State on disk ---------------------------------------------------------------------------------------------------

    def _save_state(self) -> None:
        if self.folder is None or not self.fabric.is_global_zero:
            return
        state = {
            "settings": _settings_key(self.settings, self.train, self.process),
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "progress": vars(self.at).copy(),
            "step": self.at.step,
        }
        write_state(self.folder / "state.pt", state)

    def _resume(self) -> None:
        if self.folder is None or not (self.folder / "state.pt").exists():
            return
        path = self.folder / "state.pt"
        state = read_state(path)
        key = _settings_key(self.settings, self.train, self.process)
        changed = [f"{k} ({state['settings'].get(k)} -> {key[k]})" for k in key if state["settings"].get(k) != key[k]]
        if changed:
            raise CheckpointError(
                f"{path}: this run was started with other settings: {', '.join(changed)}. "
                "Use the same settings to go on, or another folder."
            )
        self.network.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        self.at = _Progress(**state["progress"])

    def _log(self, train_loss: float, valid_loss: float | None, rate: float) -> None:
        """Adds a row to ``epochs.csv``, in the place of any row that a stopped run left after its last state."""
        if self.folder is None:
            return
        path, row = (
            self.folder / "epochs.csv",
            [self.at.epoch, self.at.step, train_loss, valid_loss, rate, self.at.seconds],
        )
        rows = [["epoch", "step", "train_loss", "valid_loss", "learning_rate", "seconds"]]
        if path.exists():
            with path.open(newline="") as file:
                rows += [r for r in list(csv.reader(file))[1:] if int(r[0]) < self.at.epoch]
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([*rows, row])


def _settings_key(settings: TrainingConfig, train: Loader, process: Process) -> dict[str, Any]:
    """What must not change between the parts of one run."""
    free = {"checkpoint_minutes", "keep_epochs", "max_minutes", "accelerator", "devices", "precision", "patience"}
    fixed = {k: v for k, v in vars(settings).items() if k not in free}
    return fixed | {"process": process.name, "records": len(train.usable)}

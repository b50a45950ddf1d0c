"""Distillation: a network learns to reach in few steps the samples that a fitted one reaches in many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tsimpute.backbones.base import VectorField
from tsimpute.core.containers import Batch
from tsimpute.generative.objective import draw
from tsimpute.processes.base import Process
from tsimpute.solvers.base import Solver


@dataclass(frozen=True, eq=False)
class Path:
    """A deterministic way from noise to a sample: a solver of a process and the times it goes through."""

    process: Process
    solver: Solver
    grid: Tensor

    def end(self, field: VectorField, noise: Tensor) -> Tensor:
        """(B, K, L) the sample that a conditioned network draws from ``noise``."""
        return self.solver.solve(
            lambda state, tau: self.process.predict(field(state, tau), state, tau),
            self.process.scales, noise, self.grid, lambda: torch.zeros_like(noise),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Distillation:
    """Squared distances between samples of two networks from equal noise: the loss of the one that is trained.

    The samples of a deterministic sampler are a function of the noise, so the loss can come down to 0 (Salimans and Ho
    2022, with the whole path at once). Hidden values are not used: the teacher sees what the student sees.

    Attributes:
        teacher: a fitted network; it goes to the device of the batches.
        its_path: how the teacher draws, with many steps.
        path: how the network that is trained is going to draw.
    """

    teacher: nn.Module
    its_path: Path
    path: Path

    def __call__(self, network: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """(B, K, L) errors, and the cells that they are of: targets, and unobserved cells that are queried."""
        _, noise = draw(batch, self.path.process)
        condition = batch.condition
        with torch.no_grad():
            teacher: Any = self.teacher.to(noise.device)
            wanted = self.its_path.end(teacher.condition_on(condition), noise)
        errors = self.path.end(lambda state, tau: network(state, tau, condition), noise) - wanted
        return errors.square() * condition.query_mask, condition.query_mask

"""Distillation: a network learns to reach in few steps the samples that a fitted one reaches in many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tsimpute.core.containers import Batch
from tsimpute.generative.objective import draw
from tsimpute.generative.sampling import SamplingPath


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
    its_path: SamplingPath
    path: SamplingPath

    def __call__(self, network: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """(B, K, L) errors, and the cells that they are of: targets, and unobserved cells that are queried."""
        _, noise = draw(batch, self.path.process)
        condition, queried = batch.condition, batch.condition.query_mask
        student: Any = network
        with torch.no_grad():
            teacher: Any = self.teacher.to(noise.device)
            wanted = self.its_path.end(teacher.condition_on(condition), queried, lambda: noise)
        came = self.path.end(student.condition_on(condition), queried, lambda: noise)
        return (came - wanted).square(), queried

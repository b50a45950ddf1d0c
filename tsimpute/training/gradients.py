"""Gradients of a batch's loss from parts of the batch, added up in their order, whoever computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from tsimpute.core.containers import Batch
from tsimpute.system.threads import in_threads

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Losses = Callable[[nn.Module, Batch], Tensor]
"""(network, B records) -> (B,) losses."""


def side_by_side_here(fabric: Fabric, precision: str) -> bool:
    """Whether parts can be computed in threads: on a CPU, in one process and in full precision."""
    return fabric.device.type == "cpu" and fabric.world_size == 1 and precision == "32-true"


def gradients_side_by_side(network: nn.Module, parts: Sequence[Batch], losses: Losses, weight: float) -> Tensor:
    """Adds the gradient of the sum of ``weight * losses`` to the network's, each part in a thread of its own.

    Returns:
        () that sum. It and the gradients are those of ``gradients_one_by_one`` to the bit where each part has one
        thread.
    """
    weights = [w for w in network.parameters() if w.requires_grad]

    def work(part: Batch) -> tuple[Tensor, Sequence[Tensor | None]]:
        loss = losses(network, part).sum() * weight
        return loss.detach(), torch.autograd.grad(loss, weights, allow_unused=True)

    total = torch.zeros(())
    for loss, found in in_threads(work, parts):
        total += loss
        for of, gradient in zip(weights, found, strict=True):
            if gradient is not None:
                of.grad = gradient.clone() if of.grad is None else of.grad.add_(gradient)
    return total


def gradients_one_by_one(
    fabric: Fabric, model: nn.Module, parts: Sequence[Batch], losses: Losses, weight: float
) -> Tensor:
    """The same through lightning-fabric, on any device, in any precision and any number of processes."""
    total = torch.zeros((), device=fabric.device)
    for n, part in enumerate(parts):
        last = n == len(parts) - 1
        with fabric.no_backward_sync(model, enabled=not last):  # type: ignore[arg-type]
            loss = model(lambda network, part=part: losses(network, part)).sum() * weight
            fabric.backward(loss * fabric.world_size)
        total += loss.detach()
    return total

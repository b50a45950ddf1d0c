"""lightning-fabric as the training loop uses it: devices, processes, and gradients from parts of a batch."""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from tsimpute.config.settings import TrainingConfig
from tsimpute.core.containers import Batch
from tsimpute.errors import ConfigError
from tsimpute.system.threads import in_threads

if TYPE_CHECKING:
    from lightning_fabric import Fabric  # loads for seconds, and only training needs it

_WAIT = partial(time.sleep, 0.2)

Losses = Callable[[nn.Module, Batch], Tensor]
"""(network, B records) -> (B,) losses."""


class CallableModule(nn.Module):
    """Runs a function of a network inside the module that lightning-fabric wraps.

    Fabric casts and copies what a module is called with; process times must stay float64, and a Condition is frozen.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, use: Callable[[nn.Module], Tensor]) -> Tensor:
        return use(self.network)


def launched(settings: TrainingConfig) -> Fabric:
    """A fabric on the devices of ``settings``; with several devices it starts, or joins, the other processes."""
    from lightning_fabric import Fabric

    try:
        fabric = Fabric(
            accelerator=settings.accelerator,
            devices=settings.devices,
            precision=settings.precision,  # type: ignore[arg-type]
        )
    except (RuntimeError, ValueError) as error:
        raise ConfigError(
            f"training.accelerator {settings.accelerator!r} with {settings.devices} devices: not here ({error})."
        ) from error
    fabric.launch()
    return fabric


def wait_for_gloo(fabric: Fabric) -> None:
    """Makes Python wait a moment for gloo's threads before it exits, where there are several processes.

    These threads free the tensors of the last all-reduce, which are Python objects. A thread that still waits for the
    GIL when the interpreter has exited aborts the process.
    """
    if fabric.world_size > 1:
        atexit.unregister(_WAIT)
        atexit.register(_WAIT)


def side_by_side_here(fabric: Fabric, precision: str) -> bool:
    """Whether parts can be computed in threads: on a CPU, in one process and in full precision."""
    return fabric.device.type == "cpu" and fabric.world_size == 1 and precision == "32-true"


def gradients_side_by_side(network: nn.Module, parts: Sequence[Batch], losses: Losses, weight: float) -> Tensor:
    """Adds the gradient of the sum of ``weight * losses`` to the network's, one thread per part.

    Returns:
        () that sum. It and the gradients are those of ``gradients_one_by_one`` to the bit where each part has one
        thread.
    """
    weights = [w for w in network.parameters() if w.requires_grad]

    def work(part: Batch) -> tuple[Tensor, Sequence[Tensor | None]]:
        loss = losses(network, part).sum() * weight
        return loss.detach(), torch.autograd.grad(loss, weights, allow_unused=True)

    total = torch.zeros(())
    for loss, gradients in in_threads(work, parts):
        total += loss
        for of, gradient in zip(weights, gradients, strict=True):
            if gradient is not None:
                mine = gradient if len(parts) == 1 else gradient.clone()
                of.grad = mine if of.grad is None else of.grad.add_(gradient)
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

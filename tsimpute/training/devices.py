"""lightning-fabric as the training loop uses it: devices, precision and processes."""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import nn

from tsimpute.config.settings import TrainingConfig
from tsimpute.errors import ConfigError

if TYPE_CHECKING:
    from lightning_fabric import Fabric  # loads for seconds, and only training needs it


class CallableModule(nn.Module):
    """Runs a function of a network inside the module that lightning-fabric wraps.

    Fabric casts and copies what a module is called with; process times must stay float64, and a Condition is frozen.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, use: Callable[[nn.Module], torch.Tensor]) -> torch.Tensor:
        return use(self.network)


def launched(settings: TrainingConfig) -> Fabric:
    """A fabric on the devices of ``settings``; with several of them it starts, or joins, the other processes."""
    from lightning_fabric import Fabric

    try:
        fabric = Fabric(
            accelerator=settings.accelerator,
            devices=settings.devices,
            num_nodes=settings.nodes,
            precision=settings.precision,  # type: ignore[arg-type]
        )
    except (RuntimeError, ValueError) as error:
        raise ConfigError(
            f"training.accelerator {settings.accelerator!r} with {settings.devices} devices: not here ({error})."
        ) from error
    fabric.launch()
    return fabric


def wait_for_gloo(fabric: Fabric) -> None:
    """Has the end of Python wait a moment for gloo's threads, where there are several processes.

    They let go of the tensors of the last sum over processes, which have Python objects: one that still waits for
    Python's lock when Python has ended aborts the process.
    """
    if fabric.world_size > 1:
        atexit.unregister(_wait)
        atexit.register(_wait)


def _wait() -> None:
    time.sleep(0.2)

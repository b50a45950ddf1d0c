"""What the workers of CSDI's arithmetic share: the prepared arrays, and a training step on them. Needs torch only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

Arrays = dict[str, Tensor]


def training_batches(folder: str) -> Iterator[Arrays]:
    """The prepared batches, over and over: values, observed, cond_mask (B, K, L) and times (B, L)."""
    stored = _read(folder, "training")
    return cycle([{name: array[at] for name, array in stored.items()} for at in range(len(stored["values"]))])


def records_to_impute(folder: str) -> Arrays:
    """values, cond_mask (N, K, L) and times (N, L)."""
    return _read(folder, "impute")


def training_step(network: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], None]:
    """Forward, backward, clipping and AdamW, with the paper's settings."""
    optimiser = torch.optim.AdamW(network.train().parameters(), 1e-3, weight_decay=1e-6)

    def run() -> None:
        optimiser.zero_grad()
        loss().backward()
        nn.utils.clip_grad_norm_(network.parameters(), 2.0)
        optimiser.step()

    return run


def _read(folder: str, name: str) -> Arrays:
    with np.load(Path(folder) / f"{name}.npz") as stored:
        return {key: torch.from_numpy(stored[key]) for key in stored.files}

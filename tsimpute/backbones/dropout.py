"""Dropout whose masks come from the records trained on, so that a stopped training resumes to the same weights."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from tsimpute.core.seeding import derive_seed
from tsimpute.errors import ConfigError

_OF_THREAD = threading.local()


@contextmanager
def seeded_dropout(seeds: Sequence[int], device: torch.device) -> Iterator[None]:
    """Within it this thread draws dropout masks from the seeds of a batch's records, whatever other threads draw.

    Records of one batch share a sequence of random numbers: another batch, as a part of a larger one, has other masks.
    """
    _OF_THREAD.generator = torch.Generator(device).manual_seed(derive_seed("dropout", *seeds))
    try:
        yield
    finally:
        del _OF_THREAD.generator


class Dropout(nn.Module):
    """Zeroes a share of numbers in training and scales up the others; masks of ``seeded_dropout``, else torch's own.

    Raises:
        ConfigError: a share that is not from 0 to below 1.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        if not 0 <= share < 1:
            raise ConfigError(f"network: dropout: expected a share from 0 to below 1, came {share}.")
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.share:
            return x
        generator = getattr(_OF_THREAD, "generator", None)
        return x * torch.empty_like(x).bernoulli_(1 - self.share, generator=generator).div_(1 - self.share)

"""The contract of a backbone: one network, whichever process trains it."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from tsimpute.containers import Condition


class Backbone(Protocol):
    """A torch module that maps a partly noisy record and what is known of it to one number per cell."""

    def __call__(self, state: Tensor, tau: Tensor, condition: Condition) -> Tensor:
        """The regressed quantity of the process, (B, K, L); only the cells of ``condition.fill_mask`` mean something.

        Args:
            state: (B, K, L) noisy values of the cells to fill; other cells are ignored.
            tau: (B,) float64 process time on the CPU, 0 = noise, 1 = data.
            condition: the shown cells.
        """
        ...

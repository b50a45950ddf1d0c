"""The contract of a backbone: one network, whichever process trains it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from tsimpute.core.containers import Condition

VectorField = Callable[[Tensor, Tensor], Tensor]
"""(state (R, K, L), tau (R,)) -> (R, K, L): a denoiser for one condition; see ``Backbone.condition_on``."""


class Backbone(Protocol):
    """A torch module that maps a partly noisy record and what is known of it to one number per cell.

    A backbone may have an attribute ``max_length``, the most steps of a record that it takes; without it any.
    """

    def __call__(self, state: Tensor, tau: Tensor, condition: Condition) -> Tensor:
        """The regressed quantity of the process, (R, K, L); only the cells of ``condition.query_mask`` mean something.

        Args:
            state: (R, K, L) noisy values of the cells to fill, one row for each record; any number of rows where
                ``condition`` is of one record. Other cells are ignored.
            tau: (R,) float64 process time on the CPU, 0 = noise, 1 = data.
            condition: the shown cells.
        """
        ...

    def condition_on(self, condition: Condition) -> VectorField:
        """The same function of state and tau alone; what depends on the condition only is computed once."""
        ...

    def bytes_per_row(self, condition: Condition) -> int:
        """About what each draw of one record adds to the memory of an evaluation without gradients, rather too much."""
        ...

    def bytes_once(self, condition: Condition) -> int:
        """About what one record needs at its peak, and before any draw of it: for being bound."""
        ...

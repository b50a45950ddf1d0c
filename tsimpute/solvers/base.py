"""The contract of a solver: the way from noise to data, in the language of ``Prediction`` and ``Scales``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from tsimpute.core.containers import Prediction, Scales

Predict = Callable[[Tensor, Tensor], Prediction]
"""(state (B, K, L), tau (B,) float64 on the CPU) -> clean data and noise; one network evaluation."""

ScalesAt = Callable[[Tensor], Scales]
"""tau (G + 1,) -> alpha, sigma."""

DrawNoise = Callable[[], Tensor]
"""A fresh (B, K, L) standard normal draw, each row from its own generator."""


class Solver(Protocol):
    """Takes noise to data. ``order`` is the order of accuracy of its solution of the process's ODE.

    A solver evaluates the network at times of the grid and at no other: a process may be defined on discrete levels,
    and a network is trained at those. All rows go through the same times, so that a row does not depend on the others.
    """

    name: str
    order: int

    def solve(self, predict: Predict, scales: ScalesAt, state: Tensor, grid: Tensor, draw_noise: DrawNoise) -> Tensor:
        """The state at the last time of the grid.

        Args:
            state: (B, K, L) at the first time.
            grid: (G + 1,) increasing times, float64 on the CPU; the last one is 1, where the state is clean data.
        """
        ...

    def n_evaluations(self, n_steps: int) -> int:
        """Network evaluations that a grid of ``n_steps`` intervals costs."""
        ...

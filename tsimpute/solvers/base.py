"""The contract of a solver: one step from noise towards data, in the language of ``Prediction`` and ``Scales``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from tsimpute.containers import Prediction, Scales

Predict = Callable[[Tensor, Tensor], Prediction]
"""(state (B, K, L), tau (B,)) -> clean data and noise; one network evaluation."""

ScalesAt = Callable[[Tensor], Scales]
"""tau (B,) -> alpha, sigma."""

DrawNoise = Callable[[], Tensor]
"""A fresh (B, K, L) standard normal draw, each row from its own generator."""


class Solver(Protocol):
    """Moves a state from ``tau`` to ``tau_next``. ``order`` is the global order of accuracy of its ODE step."""

    name: str
    order: int

    def step(
        self, predict: Predict, scales: ScalesAt, state: Tensor, tau: Tensor, tau_next: Tensor, draw_noise: DrawNoise
    ) -> Tensor:
        """The state at ``tau_next``."""
        ...

    def n_evaluations(self, n_steps: int) -> int:
        """Network evaluations that ``n_steps`` steps cost."""
        ...

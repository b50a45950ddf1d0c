"""A third-order Runge-Kutta method on any path: three grid intervals a step, one network evaluation an interval."""

from __future__ import annotations

from torch import Tensor

from tsimpute.solvers._straight import StraightPath, runge_kutta
from tsimpute.solvers.base import DrawNoise, Predict, ScalesAt


class RungeKutta3:
    """Heun's third-order method where the grid is even; steps of two intervals at the end where three do not fit.

    One step of second order costs a third-order method nothing: its error is that of all the other steps together.
    """

    name = "runge_kutta_3"
    order = 3

    def solve(self, predict: Predict, scales: ScalesAt, state: Tensor, grid: Tensor, draw_noise: DrawNoise) -> Tensor:
        path = StraightPath(predict, scales, state, grid)
        y, i, n_steps = path.y, 0, len(grid) - 1
        while i < n_steps:
            n_left = n_steps - i
            n_stages = 2 if n_left in (2, 4) else min(3, n_left)
            y = runge_kutta(path, y, i, n_stages)
            i += n_stages
        return path.state(y)

    def n_evaluations(self, n_steps: int) -> int:
        return n_steps


PLUGIN = RungeKutta3

"""The second-order midpoint rule on any path: two grid intervals a step, one network evaluation an interval."""

from __future__ import annotations

from torch import Tensor

from tsimpute.solvers._straight import StraightPath, runge_kutta
from tsimpute.solvers.base import DrawNoise, Predict, ScalesAt


class Midpoint:
    """Steps to the second next time of the grid with the slope in between; an odd interval at the end is first order.

    Where the time in between is not the middle, the slope at the beginning gets the weight that second order asks for.
    """

    name = "midpoint"
    order = 2

    def solve(self, predict: Predict, scales: ScalesAt, state: Tensor, grid: Tensor, draw_noise: DrawNoise) -> Tensor:
        path = StraightPath(predict, scales, state, grid)
        y, n_steps = path.y, len(grid) - 1
        for i in range(0, n_steps, 2):
            y = runge_kutta(path, y, i, min(2, n_steps - i))
        return path.state(y)

    def n_evaluations(self, n_steps: int) -> int:
        return n_steps


PLUGIN = Midpoint

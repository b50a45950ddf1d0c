"""A second-order multistep method on any path: one network evaluation a step, used for both ends of a step."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor

from tsimpute.solvers._straight import StraightPath
from tsimpute.solvers.base import DrawNoise, Predict, ScalesAt


class Multistep:
    """Predicts with the slope carried on from the step before; once there, corrects with the mean of both ends' slopes.

    Carrying on (Adams-Bashforth; DPM-Solver++(2M), Lu et al. 2022) and correcting with the evaluation that the next
    step needs anyway (UniPC, Zhao et al. 2023) cost nothing beyond one evaluation a step. The last step, to data, is
    first order: its state is the corrected one moved on to the predicted clean data.
    """

    name = "multistep"
    order = 2

    def solve(self, predict: Predict, scales: ScalesAt, state: Tensor, grid: Tensor, draw_noise: DrawNoise) -> Tensor:
        path = StraightPath(predict, scales, state, grid)
        steps = [b - a for a, b in pairwise(path.u)]
        corrected = path.y
        slope = path.slope(corrected, 0)
        carried = slope
        for i, h in enumerate(steps[:-1]):
            now = path.slope(corrected + h * carried, i + 1)
            corrected = corrected + h / 2 * (slope + now)
            carried = now + steps[i + 1] / (2 * h) * (now - slope)
            slope = now
        return path.state(corrected + steps[-1] * slope)

    def n_evaluations(self, n_steps: int) -> int:
        return n_steps


PLUGIN = Multistep

"""A second-order multistep method on any path: one network evaluation a step, used for both ends of a step."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor

from tsimpute.solvers.base import DrawNoise, Predict, ScalesAt


class Multistep:
    """Predicts with the slope carried on from the step before; once there, corrects with the mean of both ends' slopes.

    Carrying on (Adams-Bashforth; DPM-Solver++(2M), Lu et al. 2022) and correcting with the evaluation that the next
    step needs anyway (UniPC, Zhao et al. 2023) cost nothing beyond one evaluation a step. The last step, to data, is
    first order: its state is the corrected one moved on to the predicted clean data.

    States are scaled so that their path is straight. With ``y = state / (alpha + sigma)`` and
    ``u = alpha / (alpha + sigma)`` every path reads ``y = u * clean + (1 - u) * noise``, and what a process moves by,
    ``d state = d alpha * clean + d sigma * noise``, becomes ``dy / du = clean - noise``. The log-SNR of Lu et al. is
    infinite at both ends; u goes from 0 for noise to 1 for data.
    """

    name = "multistep"
    order = 2

    def solve(self, predict: Predict, scales: ScalesAt, state: Tensor, grid: Tensor, draw_noise: DrawNoise) -> Tensor:
        at = scales(grid)
        total: list[float] = (at.alpha + at.sigma).tolist()
        steps = [b - a for a, b in pairwise((at.alpha / (at.alpha + at.sigma)).tolist())]

        def slope_at(y: Tensor, i: int) -> Tensor:
            """(B, K, L) dy/du at ``grid[i]``."""
            prediction = predict(y * total[i], grid[i].expand(len(y)))
            return prediction.clean - prediction.noise

        corrected = state / total[0]
        carried = slope = slope_at(corrected, 0)
        for i, h in enumerate(steps[:-1]):
            now = slope_at(corrected + h * carried, i + 1)
            corrected = corrected + h / 2 * (slope + now)
            carried = now + steps[i + 1] / (2 * h) * (now - slope)
            slope = now
        return (corrected + steps[-1] * slope) * total[-1]

    def n_evaluations(self, n_steps: int) -> int:
        return n_steps


PLUGIN = Multistep

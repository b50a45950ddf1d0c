"""Heun's second-order step on any path: the trapezoidal rule for the slope along alpha and sigma."""

from __future__ import annotations

from torch import Tensor

from tsimpute.solvers.base import DrawNoise, Predict, ScalesAt


class Heun:
    """A trial first-order step, then the same step with the mean of the predictions at both its ends.

    Holding (clean, noise) fixed along a step is exact where they are constant; averaging the two ends makes it second
    order (Karras et al. 2022, Algorithm 1, in terms of alpha and sigma). The last step, to tau = 1, stays first order:
    there the state is the predicted clean data and nothing is left to correct.
    """

    name = "heun"
    order = 2

    def solve(self, predict: Predict, scales: ScalesAt, state: Tensor, grid: Tensor, draw_noise: DrawNoise) -> Tensor:
        at = scales(grid)
        steps = list(zip(at.alpha.diff().tolist(), at.sigma.diff().tolist(), strict=True))
        for i, (of_clean, of_noise) in enumerate(steps):
            first = predict(state, grid[i].expand(len(state)))
            trial = state + of_clean * first.clean + of_noise * first.noise
            if i == len(steps) - 1:
                return trial
            second = predict(trial, grid[i + 1].expand(len(state)))
            of_clean, of_noise = of_clean / 2, of_noise / 2
            state = state + of_clean * (first.clean + second.clean) + of_noise * (first.noise + second.noise)
        return state

    def n_evaluations(self, n_steps: int) -> int:
        return 2 * n_steps - 1


PLUGIN = Heun

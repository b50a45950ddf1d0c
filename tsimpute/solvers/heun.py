"""Heun's second-order step on any path: the trapezoidal rule for the slope along alpha and sigma."""

from __future__ import annotations

from torch import Tensor

from tsimpute.containers import Prediction, spread
from tsimpute.solvers.base import DrawNoise, Predict, ScalesAt


class Heun:
    """A trial first-order step, then the same step with the mean of the predictions at both its ends.

    Holding (clean, noise) fixed along a step is exact where they are constant; averaging the two ends makes it second
    order (Karras et al. 2022, Algorithm 1, in terms of alpha and sigma). The last step, to tau = 1, stays first order:
    there the state is the predicted clean data and nothing is left to correct.
    """

    name = "heun"
    order = 2

    def step(
        self, predict: Predict, scales: ScalesAt, state: Tensor, tau: Tensor, tau_next: Tensor, draw_noise: DrawNoise
    ) -> Tensor:
        now, then = scales(tau), scales(tau_next)

        def moved(found: Prediction) -> Tensor:
            step_alpha, step_sigma = spread(then.alpha - now.alpha, state), spread(then.sigma - now.sigma, state)
            return state + step_alpha * found.clean + step_sigma * found.noise

        first = predict(state, tau)
        trial = moved(first)
        if bool((tau_next >= 1).all()):
            return trial
        second = predict(trial, tau_next)
        return moved(Prediction((first.clean + second.clean) / 2, (first.noise + second.noise) / 2))

    def n_evaluations(self, n_steps: int) -> int:
        return 2 * n_steps - 1


PLUGIN = Heun

"""The first-order step: Euler for flow matching, DDIM (eta 0) and CSDI's ancestral sampler (eta 1) for diffusion."""

from __future__ import annotations

from torch import Tensor

from tsimpute.errors import ConfigError
from tsimpute.solvers.base import DrawNoise, Predict, ScalesAt


class OneStep:
    """Puts the predicted clean data and noise together again at the next time, part of the noise drawn afresh.

    Args:
        eta: 0 = deterministic, 1 = ancestral (Eq. 16, Song et al. 2021, in terms of alpha and sigma).
    """

    name = "one_step"
    order = 1

    def __init__(self, eta: float = 0.0) -> None:
        self.eta = eta

    def solve(self, predict: Predict, scales: ScalesAt, state: Tensor, grid: Tensor, draw_noise: DrawNoise) -> Tensor:
        if not 0 <= self.eta <= 1:
            raise ConfigError(f"eta: expected a number from 0 (deterministic) to 1 (ancestral), came {self.eta}.")
        at = scales(grid)
        ratio = at.alpha[:-1] * at.sigma[1:] / (at.alpha[1:] * at.sigma[:-1])
        fresh = self.eta * at.sigma[1:] * (1 - ratio**2).clamp(min=0).sqrt()
        remaining = (at.sigma[1:] ** 2 - fresh**2).clamp(min=0).sqrt()
        shares = zip(at.alpha[1:].tolist(), remaining.tolist(), fresh.tolist(), strict=True)
        for tau, (of_clean, of_noise, of_fresh) in zip(grid[:-1], shares, strict=True):
            prediction = predict(state, tau.expand(len(state)))
            state = of_clean * prediction.clean + of_noise * prediction.noise
            if of_fresh:
                state = state + of_fresh * draw_noise()
        return state

    def n_evaluations(self, n_steps: int) -> int:
        return n_steps


PLUGIN = OneStep

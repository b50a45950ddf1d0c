"""The first-order step: Euler for flow matching, DDIM (eta 0) and CSDI's ancestral sampler (eta 1) for diffusion."""

from __future__ import annotations

from torch import Tensor

from tsimpute.containers import spread
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

    def step(
        self, predict: Predict, scales: ScalesAt, state: Tensor, tau: Tensor, tau_next: Tensor, draw_noise: DrawNoise
    ) -> Tensor:
        if not 0 <= self.eta <= 1:
            raise ConfigError(f"eta: expected a number from 0 (deterministic) to 1 (ancestral), came {self.eta}.")
        found, now, then = predict(state, tau), scales(tau), scales(tau_next)
        ratio = now.alpha * then.sigma / (then.alpha * now.sigma)
        fresh = self.eta * then.sigma * (1 - ratio**2).clamp(min=0).sqrt()
        kept = (then.sigma**2 - fresh**2).clamp(min=0).sqrt()
        moved = spread(then.alpha, state) * found.clean + spread(kept, state) * found.noise
        return moved + spread(fresh, state) * draw_noise() if bool(fresh.any()) else moved

    def n_evaluations(self, n_steps: int) -> int:
        return n_steps


PLUGIN = OneStep

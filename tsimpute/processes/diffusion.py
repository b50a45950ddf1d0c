"""The discrete diffusion of CSDI: 50 noise levels on a quadratic schedule, the network regresses the noise.

Tashiro et al. 2021, Section 4 and Appendix E.2. Level ``i`` = 0 (least noise) ... n_levels - 1 stands at
``tau = 1 - (i + 1) / n_levels``, and clean data at tau = 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tsimpute.core.containers import Prediction, Scales, spread
from tsimpute.errors import ConfigError


class Diffusion:
    """A variance-preserving diffusion over ``n_levels`` discrete noise levels.

    Args:
        n_levels: noise levels.
        beta_first, beta_last: noise added at the first and the last level; their square roots are spaced evenly.

    Raises:
        ConfigError: no level, or a beta out of (0, 1).
    """

    name = "diffusion"
    tau_frequency = 1e4
    continuous = False
    default_solver = "one_step"
    default_eta = 1.0
    default_power = 1.0

    def __init__(self, n_levels: int = 50, beta_first: float = 1e-4, beta_last: float = 0.5) -> None:
        if n_levels < 1 or not (0 < beta_first < 1 and 0 < beta_last < 1):
            raise ConfigError(
                "diffusion: expected n_levels of at least 1 and beta_first, beta_last between 0 and 1; "
                f"came {n_levels}, {beta_first}, {beta_last}."
            )
        self.n_levels, self.beta_first, self.beta_last = n_levels, beta_first, beta_last
        self.default_steps = n_levels
        self.beta = torch.linspace(beta_first**0.5, beta_last**0.5, n_levels, dtype=torch.float64) ** 2
        self.alpha_bar = torch.cumprod(1 - self.beta, 0)
        self._from_data = torch.cat([torch.ones(1, dtype=torch.float64), self.alpha_bar])

    def sample_tau(self, uniform: Tensor) -> Tensor:
        return 1 - ((uniform * self.n_levels).floor() + 1) / self.n_levels

    def grid(self, n_steps: int, power: float = 1.0) -> Tensor:
        if not 1 <= n_steps <= self.n_levels:
            raise ConfigError(
                f"n_steps: diffusion has {self.n_levels} noise levels, expected 1 to {self.n_levels} steps, "
                f"came {n_steps}. Flow matching takes any number."
            )
        if power != 1:
            raise ConfigError(f"grid_power: diffusion has its levels at even times, expected 1, came {power}.")
        return torch.linspace(0, self.n_levels, n_steps + 1, dtype=torch.float64).round() / self.n_levels

    def scales(self, tau: Tensor) -> Scales:
        steps_from_data = ((1 - tau) * self.n_levels).round().long()
        alpha_bar = self._from_data[steps_from_data]
        return Scales(alpha_bar.sqrt(), (1 - alpha_bar).sqrt())

    def corrupt(self, clean: Tensor, noise: Tensor, tau: Tensor) -> Tensor:
        return self.scales(tau).mix(clean, noise)

    def target(self, clean: Tensor, noise: Tensor, tau: Tensor) -> Tensor:
        return noise

    def predict(self, output: Tensor, state: Tensor, tau: Tensor) -> Prediction:
        scales = self.scales(tau)
        clean = (state - spread(scales.sigma, state) * output) / spread(scales.alpha, state)
        return Prediction(clean=clean, noise=output)


PLUGIN = Diffusion

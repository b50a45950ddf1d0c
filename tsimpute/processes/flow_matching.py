"""Conditional flow matching with independent coupling and straight paths (I-CFM, Tong et al. 2023).

Section 3.2 of Simkus and Gutmann 2025: state ``tau * clean + (1 - tau) * noise``, target ``clean - noise``, sigma 0.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tsimpute.containers import Prediction, Scales, spread
from tsimpute.errors import ConfigError

if TYPE_CHECKING:
    from torchcfm.conditional_flow_matching import ConditionalFlowMatcher


class FlowMatching:
    """The straight path from noise to data; the network is its vector field."""

    name = "flow_matching"
    tau_frequency = 10.0
    continuous = True
    # Fair CRPS against 100 Euler steps on PhysioNet 2012: +0.35 % (standard error 0.14 %); 5 steps +0.67 %, 4 +1.65 %.
    default_solver = "multistep"
    default_steps = 6
    default_eta = 0.0
    default_power = 1.5

    @cached_property
    def _matcher(self) -> ConditionalFlowMatcher:
        from torchcfm.conditional_flow_matching import ConditionalFlowMatcher

        return ConditionalFlowMatcher(sigma=0.0)

    def sample_tau(self, uniform: Tensor) -> Tensor:
        return uniform

    def grid(self, n_steps: int, power: float = 1.0) -> Tensor:
        if n_steps < 1:
            raise ConfigError(f"n_steps: expected at least 1, came {n_steps}.")
        if not 1 <= power <= 2:
            raise ConfigError(f"grid_power: expected a number from 1 (even) to 2, came {power}.")
        return 1 - torch.linspace(1, 0, n_steps + 1, dtype=torch.float64) ** power

    def scales(self, tau: Tensor) -> Scales:
        return Scales(tau, 1 - tau)

    def corrupt(self, clean: Tensor, noise: Tensor, tau: Tensor) -> Tensor:
        return self._matcher.compute_mu_t(noise, clean, tau.to(clean.device, clean.dtype))

    def target(self, clean: Tensor, noise: Tensor, tau: Tensor) -> Tensor:
        return self._matcher.compute_conditional_flow(noise, clean, tau, None)

    def predict(self, output: Tensor, state: Tensor, tau: Tensor) -> Prediction:
        at = spread(tau, state)
        return Prediction(clean=state + (1 - at) * output, noise=state - at * output)


PLUGIN = FlowMatching

"""The contract of a process, and its laws.

Every process moves along ``state = alpha(tau) * clean + sigma(tau) * noise`` with tau = 0 noise and tau = 1 data. It
owns alpha, sigma and what the network regresses, and turns a network output back into clean data and noise. Laws:

    predict(target(clean, noise, tau), scales(tau).mix(clean, noise), tau) == (clean, noise)
    scales(1) == (1, 0)
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from tsimpute.core.containers import Prediction, Scales
from tsimpute.errors import ConfigError


class Process(Protocol):
    """A path between noise and data. ``tau`` is (B,) float64 on the CPU throughout; states are (B, K, L).

    Attributes:
        tau_frequency: the fastest sinusoid, in radians per noise level, that an embedding of its times needs.
        continuous: whether tau may be any number in [0, 1], or levels only.
        default_solver, default_steps, default_eta, default_power: the sampler to use where none is named.
    """

    name: str
    tau_frequency: float
    continuous: bool
    default_solver: str
    default_steps: int
    default_eta: float
    default_power: float

    def sample_tau(self, uniform: Tensor) -> Tensor:
        """Training times from (B,) uniform numbers in [0, 1)."""
        ...

    def grid(self, n_steps: int, power: float = 1.0) -> Tensor:
        """(n_steps + 1,) increasing times ``1 - (1 - k / n_steps) ** power`` from 0 to 1.

        Args:
            power: 1 = evenly spaced; above, steps get shorter towards the data.

        Raises:
            ConfigError: fewer than one step, more than the process has levels, or a power that it has no grid for.
        """
        ...

    def scales(self, tau: Tensor) -> Scales:
        """alpha and sigma at ``tau``."""
        ...

    def corrupt(self, clean: Tensor, noise: Tensor, tau: Tensor) -> Tensor:
        """The state at ``tau``."""
        ...

    def target(self, clean: Tensor, noise: Tensor, tau: Tensor) -> Tensor:
        """What the network regresses."""
        ...

    def predict(self, output: Tensor, state: Tensor, tau: Tensor) -> Prediction:
        """The network's output in terms of clean data and noise."""
        ...


def takes(process: Process, n_steps: int) -> bool:
    """Whether a process can be gone through in that number of steps."""
    try:
        process.grid(n_steps)
    except ConfigError:
        return False
    return True

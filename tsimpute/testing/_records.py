"""Small records, networks and exact denoisers that laws are checked with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tsimpute.core.containers import Batch, Condition, Prediction
from tsimpute.core.windows import Feature
from tsimpute.processes.base import Process
from tsimpute.solvers.base import Solver
from tsimpute.testing._laws import expect

SIZES: dict[str, Any] = {
    "width": 8, "n_heads": 2, "n_blocks": 1, "width_time": 8, "width_feature": 4, "width_tau": 8,
}  # fmt: skip
FEATURES = (Feature("HR", "bpm"), Feature("Temp", "degC"), Feature("Urine", "mL"))


def shaken(network: nn.Module, seed: int = 0) -> Any:
    """``network`` with every parameter drawn anew, so that none is 0 and every input matters."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in network.parameters():
            weights.copy_(0.3 * torch.randn(weights.shape, generator=generator))
    return network


def random_batch(n: int = 4, k: int = 3, length: int = 8, seed: int = 0) -> Batch:
    """Observed, shown and target cells at random; every record has at least one target and one shown cell."""
    g = torch.Generator().manual_seed(seed)
    observed = torch.rand(n, k, length, generator=g) < 0.7
    cond_mask = observed & (torch.rand(n, k, length, generator=g) < 0.5)
    observed.flatten(1)[:, 0], cond_mask.flatten(1)[:, 0] = True, False
    if k * length > 1:
        observed.flatten(1)[:, -1], cond_mask.flatten(1)[:, -1] = True, True
    return Batch(
        values=torch.randn(n, k, length, generator=g) * observed,
        observed=observed,
        cond_mask=cond_mask,
        times=torch.arange(float(length)).repeat(n, 1),
        record_ids=tuple(f"r{i}" for i in range(n)),
        seeds=tuple(range(seed, seed + n)),
    )


def random_condition(n: int = 4, k: int = 3, length: int = 8, seed: int = 0) -> Condition:
    return random_batch(n, k, length, seed).condition


class ExactGaussian:
    """The best possible network for clean data drawn from N(mean, covariance): it regresses what a process asks for.

    E[clean | state] is the posterior mean of a Gaussian seen through ``state = alpha * clean + sigma * noise``; every
    target is linear in clean and noise, so its expectation is the target of the expectations.
    """

    def __init__(self, process: Process, mean: Tensor, covariance: Tensor) -> None:
        self.process, self.mean, self.covariance = process, mean, covariance
        self.calls = 0

    def __call__(self, state: Tensor, tau: Tensor) -> Tensor:
        """(B, 1, M) -> (B, 1, M), all tau alike."""
        self.calls += 1
        scales = self.process.scales(tau[:1])
        alpha, sigma = scales.alpha.item(), scales.sigma.item()
        of_state = alpha**2 * self.covariance + sigma**2 * torch.eye(len(self.mean), dtype=state.dtype)
        gain = alpha * torch.linalg.solve(of_state, self.covariance)
        clean = self.mean + (state - alpha * self.mean) @ gain
        return self.process.target(clean, (state - alpha * clean) / sigma, tau)


def solved(
    process: Process, solver: Solver, network: ExactGaussian, n_steps: int, n: int = 8, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Start and end (n, 1, M) of paths with ``network`` in place of a trained one."""
    generator = torch.Generator().manual_seed(seed)

    def draw_noise() -> Tensor:
        return torch.randn(n, 1, len(network.mean), generator=generator, dtype=torch.float64)

    def predict(state: Tensor, tau: Tensor) -> Prediction:
        return process.predict(network(state, tau), state, tau)

    start = draw_noise()
    return start, solver.solve(predict, process.scales, start.clone(), process.grid(n_steps), draw_noise)


def recovers_the_posterior(process: Process, solver: Solver, n_steps: int) -> None:
    """Cells 0 and 3 of four correlated ones are shown; the draws of 1 and 2 have the known conditional distribution.

    Raises:
        AssertionError: their mean or covariance is another.
    """
    factor = torch.tensor([[1.0, 0, 0, 0], [0.8, 0.6, 0, 0], [0.3, 0.7, 0.5, 0], [-0.5, 0.2, 0.4, 0.8]]).double()
    joint, mean = factor @ factor.T, torch.tensor([1.0, -2.0, 0.5, 3.0]).double()
    shown, hidden, value = [0, 3], [1, 2], torch.tensor([2.0, 2.5]).double()
    regression = joint[hidden][:, shown] @ torch.linalg.inv(joint[shown][:, shown])
    expected_mean = mean[hidden] + regression @ (value - mean[shown])
    expected_cov = joint[hidden][:, hidden] - regression @ joint[shown][:, hidden]
    draws = solved(process, solver, ExactGaussian(process, expected_mean, expected_cov), n_steps, 10_000)[1][:, 0]
    scale = expected_cov.diagonal().sqrt()
    sample_mean, sample_cov = draws.mean(0), draws.T.cov()
    expect(
        ((sample_mean - expected_mean).abs() < 0.04 * scale).all(),
        f"a mean of {expected_mean.tolist()}, within .04 standard deviations",
        sample_mean.tolist(),
    )
    expect(
        ((sample_cov - expected_cov).abs() < 0.06 * scale[:, None] * scale).all(),
        f"a covariance of {expected_cov.tolist()}, within .06 variances",
        sample_cov.tolist(),
    )

"""Draws with an exact network, compared with the conditional distribution of a Gaussian, which is known."""

from __future__ import annotations

import torch
from torch import Tensor

from tsimpute.core.containers import Prediction
from tsimpute.processes.base import Process
from tsimpute.solvers.base import Solver
from tsimpute.testing._laws import expect
from tsimpute.testing._records import ExactGaussian


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

    draws = _run(process, solver, ExactGaussian(process, expected_mean, expected_cov), 10_000, n_steps)[:, 0]

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


def _run(process: Process, solver: Solver, network: ExactGaussian, n: int, n_steps: int) -> Tensor:
    """(n, 1, M) draws with ``network`` in place of a trained one."""
    generator = torch.Generator().manual_seed(0)

    def draw_noise() -> Tensor:
        return torch.randn(n, 1, len(network.mean), generator=generator, dtype=torch.float64)

    def predict(state: Tensor, tau: Tensor) -> Prediction:
        return process.predict(network(state, tau), state, tau)

    return solver.solve(predict, process.scales, draw_noise(), process.grid(n_steps), draw_noise)

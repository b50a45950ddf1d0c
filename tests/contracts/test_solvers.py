"""What holds for every solver: each file in tsimpute/solvers that is a plug-in is under test."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from tiny_models import ExactGaussian
from torch import Tensor

from tsimpute import registry
from tsimpute.errors import ConfigError
from tsimpute.processes.base import Process
from tsimpute.processes.flow_matching import FlowMatching
from tsimpute.solvers.base import Solver
from tsimpute.solvers.one_step import OneStep

every_solver = pytest.mark.parametrize("name", registry.available("solvers"))
every_process = pytest.mark.parametrize("process_name", registry.available("processes"))

MEAN = torch.tensor([0.7, -1.5]).double()
COVARIANCE = torch.tensor([[0.5, 0.2], [0.2, 0.3]]).double()


def solved(process: Process, solver: Solver, n_steps: int, seed: int = 0) -> tuple[Tensor, Tensor, int]:
    """Start (8, 1, 2), end (8, 1, 2), and how often the network was called."""
    network, generator = ExactGaussian(process, MEAN, COVARIANCE), torch.Generator().manual_seed(seed)

    def draw_noise() -> Tensor:
        return torch.randn(8, 1, 2, generator=generator, dtype=torch.float64)

    start = state = draw_noise()
    grid = process.grid(n_steps)
    for tau, tau_next in pairwise(grid):
        state = solver.step(
            lambda x, t: process.predict(network(x, t), x, t),
            process.scales, state, tau.expand(8), tau_next.expand(8), draw_noise,
        )  # fmt: skip
    return start, state, network.calls


@every_solver
def test_order_on_the_flow_of_a_gaussian_is_the_declared_one(name: str):
    """The flow takes noise z to mean + covariance^(1/2) z: a closed form for the error."""
    values, vectors = torch.linalg.eigh(COVARIANCE)
    root = vectors @ values.sqrt().diag() @ vectors.T
    solver = registry.make("solvers", name)
    errors = []
    for n_steps in (32, 64, 128):
        start, end, _ = solved(FlowMatching(), solver, n_steps)
        errors.append((end - MEAN - start @ root).abs().max().item())
    orders = [math.log2(a / b) for a, b in pairwise(errors)]
    assert min(orders) > solver.order - 0.15
    assert errors[-1] < 0.1


@every_solver
@every_process
@pytest.mark.parametrize("n_steps", [1, 2, 10])
def test_declared_evaluations_are_those_made(name: str, process_name: str, n_steps: int):
    solver = registry.make("solvers", name)
    _, end, calls = solved(registry.make("processes", process_name), solver, n_steps)
    assert calls == solver.n_evaluations(n_steps)
    assert end.isfinite().all()


@every_solver
@every_process
def test_same_seed_same_result_another_seed_another(name: str, process_name: str):
    process, solver = registry.make("processes", process_name), registry.make("solvers", name)
    assert torch.equal(solved(process, solver, 6)[1], solved(process, solver, 6)[1])
    assert not torch.allclose(solved(process, solver, 6)[1], solved(process, solver, 6, seed=1)[1])


@every_solver
@every_process
def test_last_step_ends_at_the_predicted_clean_data(name: str, process_name: str):
    process, solver = registry.make("processes", process_name), registry.make("solvers", name)
    network = ExactGaussian(process, MEAN, COVARIANCE)
    tau, end = process.grid(10)[-2:].unbind()
    state = torch.full((3, 1, 2), 0.4, dtype=torch.float64)
    found = process.predict(network(state, tau.expand(3)), state, tau.expand(3))
    moved = solver.step(
        lambda x, t: process.predict(network(x, t), x, t),
        process.scales, state, tau.expand(3), end.expand(3), lambda: pytest.fail("noise at the end"),
    )  # fmt: skip
    torch.testing.assert_close(moved, found.clean, rtol=1e-9, atol=1e-9)


@every_process
def test_eta_0_draws_no_noise_and_eta_1_draws_some(process_name: str):
    process = registry.make("processes", process_name)
    tau, tau_next = process.grid(10)[4:6].unbind()
    network = ExactGaussian(process, MEAN, COVARIANCE)

    def moved(eta: float, fresh: float) -> Tensor:
        state = torch.full((3, 1, 2), 0.4, dtype=torch.float64)
        args = (process.scales, state, tau.expand(3), tau_next.expand(3), lambda: torch.full_like(state, fresh))
        return OneStep(eta).step(lambda x, t: process.predict(network(x, t), x, t), *args)

    assert torch.equal(moved(0.0, 1.0), moved(0.0, 5.0))
    assert (moved(1.0, 1.0) != moved(1.0, 5.0)).all()
    assert ((moved(0.5, 5.0) - moved(0.5, 1.0)).abs() < (moved(1.0, 5.0) - moved(1.0, 1.0)).abs()).all()


@pytest.mark.parametrize("eta", [-0.1, 1.1, float("nan")])
def test_eta_out_of_range_is_refused(eta: float):
    with pytest.raises(ConfigError, match="eta: expected a number from 0"):
        solved(FlowMatching(), OneStep(eta), 3)

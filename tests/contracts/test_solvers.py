"""What holds for every solver: each file in tsimpute/solvers that is a plug-in is under test."""

from __future__ import annotations

import math

import pytest
import torch
from tiny_models import ExactGaussian
from torch import Tensor

from tsimpute import registry
from tsimpute.containers import Prediction, spread
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

    def predict(state: Tensor, tau: Tensor) -> Prediction:
        return process.predict(network(state, tau), state, tau)

    def draw_noise() -> Tensor:
        return torch.randn(8, 1, 2, generator=generator, dtype=torch.float64)

    start = draw_noise()
    end = solver.solve(predict, process.scales, start.clone(), process.grid(n_steps), draw_noise)
    return start, end, network.calls


class TwoPeaks:
    """The exact denoiser of one cell whose data are a mixture of two normal distributions, and its distribution.

    In one dimension the flow keeps the order of its particles, so that the share of data below the end of a path is
    the share of states below its beginning: a closed form for a flow that is not linear.
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self.weight = torch.tensor([0.3, 0.7]).double()
        self.mean, self.std = torch.tensor([-1.0, 1.2]).double(), torch.tensor([0.4, 0.6]).double()

    def _peaks(self, tau: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scales = self.process.scales(tau[:1])
        return scales.alpha, scales.sigma, (scales.alpha**2 * self.std**2 + scales.sigma**2).sqrt()

    def predict(self, state: Tensor, tau: Tensor) -> Prediction:
        alpha, sigma, std = self._peaks(tau)
        share = torch.softmax(self.weight.log() - std.log() - ((state - alpha * self.mean) / std) ** 2 / 2, -1)
        of_each = self.mean + alpha * self.std**2 / std**2 * (state - alpha * self.mean)
        clean = (share * of_each).sum(-1, keepdim=True)
        return Prediction(clean, (state - alpha * clean) / sigma)

    def share_below(self, state: Tensor, tau: Tensor) -> Tensor:
        alpha, _, std = self._peaks(tau)
        return (self.weight * torch.special.ndtr((state - alpha * self.mean) / std)).sum(-1)


# Levels fine enough for 128 steps; hardly any noise at the first, since a jump there is one step of first order.
FINE = {"diffusion": {"n_levels": 4096, "beta_first": 1e-12, "beta_last": 0.5 * 50 / 4096}}


@every_solver
@pytest.mark.parametrize(
    ("process_name", "power"),
    [
        (process_name, power)
        for process_name in registry.available("processes")
        for power in ((1.0, 1.5, 2.0) if registry.plugin("processes", process_name).continuous else (1.0,))
    ],
)
def test_order_on_a_flow_that_is_not_linear_is_the_declared_one(name: str, process_name: str, power: float):
    process, solver = registry.make("processes", process_name, **FINE.get(process_name, {})), make(name)
    network, start = TwoPeaks(process), torch.linspace(-2.2, 2.2, 45, dtype=torch.float64)[:, None, None]

    def error(n_steps: int) -> float:
        grid = process.grid(n_steps, power)
        end = solver.solve(network.predict, process.scales, start, grid, no_noise)
        return (
            (network.share_below(end, grid[-1:]) - network.share_below(start, grid[:1])).square().mean().sqrt().item()
        )

    for few, many in ((64, 256), (61, 253)):  # intervals left over by steps of two or three must not cost the order
        errors = error(few), error(many)
        assert math.log(errors[0] / errors[1]) / math.log(many / few) > solver.order - 0.15
        assert errors[0] < (0.02 if solver.order == 1 else 1e-3)


@every_solver
def test_flow_of_a_gaussian_ends_where_it_must(name: str):
    """The flow takes noise z to mean + covariance^(1/2) z."""
    values, vectors = torch.linalg.eigh(COVARIANCE)
    root = vectors @ values.sqrt().diag() @ vectors.T
    start, end, _ = solved(FlowMatching(), make(name), 128)
    assert (end - MEAN - start @ root).abs().max() < (0.02 if make(name).order == 1 else 3e-4)


@every_solver
@every_process
@pytest.mark.parametrize("n_steps", [1, 2, 3, 4, 5, 10])
def test_declared_evaluations_are_those_made(name: str, process_name: str, n_steps: int):
    _, end, calls = solved(registry.make("processes", process_name), make(name), n_steps)
    assert calls == make(name).n_evaluations(n_steps)
    assert end.isfinite().all()


@every_solver
@every_process
@pytest.mark.parametrize("n_steps", [1, 2, 3, 4, 5, 10])
def test_evaluates_at_times_of_the_grid_before_its_end_and_in_order(name: str, process_name: str, n_steps: int):
    process, seen = registry.make("processes", process_name), []

    def predict(state: Tensor, tau: Tensor) -> Prediction:
        assert (tau.shape, tau.dtype, state.dtype) == ((3,), torch.float64, torch.float32)
        seen.append(tau.unique().item())
        return Prediction(torch.zeros_like(state), state)

    grid = process.grid(n_steps)
    start = torch.ones(3, 1, 2)
    end = make(name).solve(predict, process.scales, start, grid, no_noise)
    assert end.dtype == torch.float32
    assert (start == 1).all()
    assert seen == sorted(seen)
    assert set(seen) == set(grid[:-1].tolist())


@every_solver
@every_process
@pytest.mark.parametrize("n_steps", [1, 2, 3, 4, 5, 10])
def test_where_the_network_is_sure_every_way_ends_at_its_answer(name: str, process_name: str, n_steps: int):
    process, answer = registry.make("processes", process_name), torch.tensor([[[0.3, -2.0]]]).double()

    def predict(state: Tensor, tau: Tensor) -> Prediction:
        at = process.scales(tau)
        return Prediction(answer.expand_as(state), (state - spread(at.alpha, state) * answer) / spread(at.sigma, state))

    start = torch.randn(4, 1, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    end = make(name).solve(predict, process.scales, start, process.grid(n_steps), no_noise)
    torch.testing.assert_close(end, answer.expand(4, 1, 2), rtol=1e-9, atol=1e-9)


@every_solver
@every_process
def test_a_row_does_not_depend_on_the_others(name: str, process_name: str):
    process, solver = registry.make("processes", process_name), make(name)
    network = TwoPeaks(process)
    start = torch.linspace(-2, 2, 5, dtype=torch.float64)[:, None, None]

    def ends(rows: Tensor) -> Tensor:
        return solver.solve(network.predict, process.scales, rows, process.grid(7), no_noise)

    assert torch.equal(ends(start)[1:3], ends(start[1:3]))


@every_solver
@every_process
def test_same_seed_same_result_another_seed_another(name: str, process_name: str):
    process, solver = registry.make("processes", process_name), make(name)
    assert torch.equal(solved(process, solver, 6)[1], solved(process, solver, 6)[1])
    assert not torch.allclose(solved(process, solver, 6)[1], solved(process, solver, 6, seed=1)[1])


@every_solver
@every_process
def test_last_step_ends_at_the_predicted_clean_data(name: str, process_name: str):
    process = registry.make("processes", process_name)
    network = TwoPeaks(process)
    grid, state = process.grid(10)[-2:], torch.full((3, 1, 1), 0.4, dtype=torch.float64)
    found = network.predict(state, grid[:1].expand(3))
    moved = make(name).solve(network.predict, process.scales, state, grid, no_noise)
    torch.testing.assert_close(moved, found.clean, rtol=1e-9, atol=1e-9)


def test_multistep_carries_an_evenly_changing_slope_on_to_where_it_leads():
    """With the slope 1 + 6 u the path is u + 3 u^2: reached exactly, but for the first trial step and the last one."""
    process, seen = FlowMatching(), []

    def predict(state: Tensor, tau: Tensor) -> Prediction:
        seen.append(state.item())
        return Prediction((1 + 6 * tau)[:, None, None], torch.zeros_like(state))

    grid = process.grid(6, 1.5)
    start = torch.zeros(1, 1, 1, dtype=torch.float64)
    end = make("multistep").solve(predict, process.scales, start, grid, no_noise).item()
    way = grid + 3 * grid**2
    assert seen[1] == pytest.approx(grid[1].item())
    assert seen[2:] == pytest.approx(way[2:-1].tolist(), rel=1e-12)
    assert end == pytest.approx((way[-2] + (1 - grid[-2]) * (1 + 6 * grid[-2])).item(), rel=1e-12)


@every_process
def test_eta_0_draws_no_noise_and_eta_1_draws_some(process_name: str):
    process = registry.make("processes", process_name)
    network = ExactGaussian(process, MEAN, COVARIANCE)

    def moved(eta: float, fresh: float) -> Tensor:
        def predict(state: Tensor, tau: Tensor) -> Prediction:
            return process.predict(network(state, tau), state, tau)

        state = torch.full((3, 1, 2), 0.4, dtype=torch.float64)
        return OneStep(eta).solve(
            predict, process.scales, state, process.grid(10)[4:6], lambda: torch.full_like(state, fresh)
        )

    assert torch.equal(moved(0.0, 1.0), moved(0.0, 5.0))
    assert (moved(1.0, 1.0) != moved(1.0, 5.0)).all()
    assert ((moved(0.5, 5.0) - moved(0.5, 1.0)).abs() < (moved(1.0, 5.0) - moved(1.0, 1.0)).abs()).all()


@pytest.mark.parametrize("eta", [-0.1, 1.1, float("nan")])
def test_eta_out_of_range_is_refused(eta: float):
    with pytest.raises(ConfigError, match="eta: expected a number from 0"):
        solved(FlowMatching(), OneStep(eta), 3)


@every_solver
@every_process
def test_over_a_single_interval_every_solver_is_the_deterministic_first_order_step(name: str, process_name: str):
    process = registry.make("processes", process_name)
    network, grid = TwoPeaks(process), process.grid(10)[4:6]
    state = torch.linspace(-2, 2, 5, dtype=torch.float64)[:, None, None]
    moved, ddim = (s.solve(network.predict, process.scales, state, grid, no_noise) for s in (make(name), OneStep()))
    torch.testing.assert_close(moved, ddim, rtol=1e-9, atol=1e-9)


def make(name: str) -> Solver:
    return registry.make("solvers", name)


def no_noise() -> Tensor:
    return pytest.fail("a deterministic solver drew noise")

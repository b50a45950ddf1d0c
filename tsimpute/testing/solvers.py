"""The laws of a solver; each takes an instance, made with its default options."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from tsimpute.config import registry
from tsimpute.core.containers import Prediction, expand_like
from tsimpute.processes.base import Process, takes
from tsimpute.solvers.base import Solver
from tsimpute.solvers.one_step import OneStep
from tsimpute.testing._laws import Laws, expect, expect_name
from tsimpute.testing._records import ExactGaussian, recovers_the_posterior, solved

LAWS = Laws()

MEAN = torch.tensor([0.7, -1.5]).double()
COVARIANCE = torch.tensor([[0.5, 0.2], [0.2, 0.3]]).double()

# Levels fine enough for 128 steps; hardly any noise at the first, since a jump there is one step of first order.
FINE = {"diffusion": {"n_levels": 4096, "beta_first": 1e-12, "beta_last": 0.5 * 50 / 4096}}


def each_process() -> Iterable[dict[str, Any]]:
    return [{"process_name": name} for name in registry.available("processes")]


def each_process_and_steps() -> Iterable[dict[str, Any]]:
    return [one | {"n_steps": n_steps} for one in each_process() for n_steps in (1, 2, 3, 4, 5, 10)]


def each_process_and_power() -> Iterable[dict[str, Any]]:
    for name in registry.available("processes"):
        process = registry.make("processes", name, **FINE.get(name, {}))
        if takes(process, 256):
            yield from ({"process_name": name, "power": p} for p in ((1.0, 1.5, 2.0) if process.continuous else (1.0,)))


def no_noise() -> Tensor:
    raise AssertionError("expected a deterministic solver, as its default options make it; it drew noise")


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


@LAWS.law()
def it_has_a_name_and_an_order(solver: Solver) -> None:
    """It has a name, and its order is a whole number from 1 on."""
    expect_name(solver)
    expect(isinstance(solver.order, int) and solver.order >= 1, "an order of 1, 2, ...", repr(solver.order))


@LAWS.law(each_process_and_power)
def order_on_a_flow_that_is_not_linear_is_the_declared_one(solver: Solver, process_name: str, power: float) -> None:
    """On a flow that is not linear, the error falls with the number of steps as the declared order says."""
    process = registry.make("processes", process_name, **FINE.get(process_name, {}))
    network, start = TwoPeaks(process), torch.linspace(-2.2, 2.2, 45, dtype=torch.float64)[:, None, None]

    def error(n_steps: int) -> float:
        grid = process.grid(n_steps, power)
        end = solver.solve(network.predict, process.scales, start, grid, no_noise)
        return (
            (network.share_below(end, grid[-1:]) - network.share_below(start, grid[:1])).square().mean().sqrt().item()
        )

    for few, many in ((64, 256), (61, 253)):  # intervals left over by steps of two or three must not cost the order
        errors = error(few), error(many)
        order = math.log(errors[0] / errors[1]) / math.log(many / few) if min(errors) > 0 else math.nan
        expect(order > solver.order - 0.15, f"an order of {solver.order} from {few} to {many} steps", f"{order:.3g}")
        bound = 0.02 if solver.order == 1 else 1e-3
        expect(errors[0] < bound, f"an error below {bound} with {few} steps", f"{errors[0]:.3g}")


@LAWS.law(each_process_and_steps)
def declared_evaluations_are_those_made(solver: Solver, process_name: str, n_steps: int) -> None:
    """``n_evaluations`` is how often the network is called."""
    process = registry.make("processes", process_name)
    network, declared = ExactGaussian(process, MEAN, COVARIANCE), solver.n_evaluations(n_steps)
    _, end = solved(process, solver, network, n_steps)
    calls = network.calls
    expect(calls == declared, f"{declared} calls of the network, as n_evaluations({n_steps}) declares", calls)
    expect(end.isfinite().all(), "finite numbers at the end", end.flatten().tolist())


@LAWS.law(each_process_and_steps)
def evaluates_at_times_of_the_grid_before_its_end_and_in_order(solver: Solver, process_name: str, n_steps: int) -> None:
    """The network is called at every time of the grid but the last, at no other, and in order."""
    process, called_at = registry.make("processes", process_name), []

    def predict(state: Tensor, tau: Tensor) -> Prediction:
        came = (tuple(tau.shape), tau.dtype, state.dtype)
        expected = ((3,), torch.float64, torch.float32)
        expect(came == expected, f"tau of shape and dtype, and a state of dtype {expected}", came)
        called_at.append(tau.unique().item())
        return Prediction(torch.zeros_like(state), state)

    grid = process.grid(n_steps)
    start = torch.ones(3, 1, 2)
    end = solver.solve(predict, process.scales, start, grid, no_noise)
    expect(end.dtype == torch.float32, "the dtype of the state, torch.float32", end.dtype)
    expect((start == 1).all(), "that the state given is not written to", start.tolist())
    expect(called_at == sorted(called_at), "times in order", called_at)
    expect(set(called_at) == set(grid[:-1].tolist()), f"the times {grid[:-1].tolist()}", called_at)


@LAWS.law(each_process_and_steps)
def where_the_network_is_sure_every_way_ends_at_its_answer(solver: Solver, process_name: str, n_steps: int) -> None:
    """Where the network gives the same clean data everywhere, the way ends there, whatever the number of steps."""
    process, answer = registry.make("processes", process_name), torch.tensor([[[0.3, -2.0]]]).double()

    def predict(state: Tensor, tau: Tensor) -> Prediction:
        at = process.scales(tau)
        return Prediction(
            answer.expand_as(state), (state - expand_like(at.alpha, state) * answer) / expand_like(at.sigma, state)
        )

    start = torch.randn(4, 1, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    end = solver.solve(predict, process.scales, start, process.grid(n_steps), no_noise)
    torch.testing.assert_close(end, answer.expand(4, 1, 2), rtol=1e-9, atol=1e-9)


@LAWS.law(each_process)
def a_row_does_not_depend_on_the_others(solver: Solver, process_name: str) -> None:
    """A row ends at the same bits, whatever other rows are solved with it."""
    process = registry.make("processes", process_name)
    network = TwoPeaks(process)
    start = torch.linspace(-2, 2, 5, dtype=torch.float64)[:, None, None]

    def ends(rows: Tensor) -> Tensor:
        return solver.solve(network.predict, process.scales, rows, process.grid(7), no_noise)

    together, alone = ends(start)[1:3], ends(start[1:3])
    expect(torch.equal(together, alone), f"{together.flatten().tolist()} as among five rows", alone.flatten().tolist())


@LAWS.law(each_process)
def same_seed_same_result_another_seed_another(solver: Solver, process_name: str) -> None:
    """The same noise gives the same bits, and other noise gives others."""
    process = registry.make("processes", process_name)
    network = ExactGaussian(process, MEAN, COVARIANCE)
    first, again, other = (solved(process, solver, network, 6, seed=seed)[1] for seed in (0, 0, 1))
    expect(torch.equal(first, again), "the same end from the same noise", (first - again).abs().max().item())
    expect(not torch.allclose(first, other), "another end from other noise", "the same")


@LAWS.law(each_process)
def a_single_interval_is_the_first_order_step_and_the_last_ends_at_clean_data(
    solver: Solver, process_name: str
) -> None:
    """A single interval is the deterministic step of first order; the last one ends at the predicted clean data."""
    process = registry.make("processes", process_name)
    network, grid = TwoPeaks(process), process.grid(10)
    state = torch.linspace(-2, 2, 5, dtype=torch.float64)[:, None, None]
    moved, ddim = (s.solve(network.predict, process.scales, state, grid[4:6], no_noise) for s in (solver, OneStep()))
    torch.testing.assert_close(moved, ddim, rtol=1e-9, atol=1e-9)
    end = solver.solve(network.predict, process.scales, state, grid[-2:], no_noise)
    clean = network.predict(state, grid[-2:-1].expand(5)).clean
    torch.testing.assert_close(end, clean, rtol=1e-9, atol=1e-9)


@LAWS.law(each_process)
def recovers_the_posterior_of_a_gaussian(solver: Solver, process_name: str) -> None:
    """With an exact network, 10,000 draws of 50 steps have the mean and covariance of the known posterior."""
    recovers_the_posterior(registry.make("processes", process_name), solver, 50)

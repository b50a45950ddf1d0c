"""The laws of a process; each takes an instance. A process of levels has at least 50 of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from tsimpute.config import registry
from tsimpute.errors import ConfigError
from tsimpute.processes.base import Process
from tsimpute.testing._laws import Laws, expect, expect_name, expect_refused, over
from tsimpute.testing._records import recovers_the_posterior

LAWS = Laws()


def each_solver() -> Iterable[dict[str, Any]]:
    return [{"solver_name": name} for name in registry.available("solvers")]


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def on_the_way(process: Process) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Process times, clean data, noise, and the states that they mix to."""
    tau = process.grid(40)[1:-1]
    clean, noise = normal(len(tau), 3, 5, seed=1), normal(len(tau), 3, 5, seed=2)
    return tau, clean, noise, process.scales(tau).mix(clean, noise)


@LAWS.law()
def the_target_predicts_clean_data_and_noise(process: Process) -> None:
    """``predict`` is the inverse of ``target``: it gives back the clean data and the noise."""
    tau, clean, noise, state = on_the_way(process)
    predicted = process.predict(process.target(clean, noise, tau), state, tau)
    torch.testing.assert_close(predicted.noise, noise, rtol=1e-9, atol=1e-9, msg=lambda text: f"noise: {text}")
    torch.testing.assert_close(predicted.clean, clean, rtol=1e-9, atol=1e-9, msg=lambda text: f"clean data: {text}")


@LAWS.law()
def corrupt_gives_the_state_that_the_scales_say(process: Process) -> None:
    """``corrupt`` gives alpha times the clean data plus sigma times the noise."""
    tau, clean, noise, state = on_the_way(process)
    torch.testing.assert_close(process.corrupt(clean, noise, tau), state, rtol=1e-12, atol=1e-12)


@LAWS.law()
def it_goes_from_noise_to_clean_data(process: Process) -> None:
    """``scales(0)`` is nearly (0, 1), then alpha grows and sigma falls, and ``scales(1)`` is (1, 0) exactly."""
    end = process.scales(torch.ones(2, dtype=torch.float64))
    expect(end.alpha.tolist() == [1, 1], "alpha 1 at tau 1", end.alpha.tolist())
    expect(end.sigma.tolist() == [0, 0], "sigma 0 at tau 1", end.sigma.tolist())
    start = process.scales(torch.zeros(1, dtype=torch.float64))
    expect(start.alpha.item() < 0.01, "alpha below .01 at tau 0", start.alpha.item())
    expect(start.sigma.item() > 0.9999, "sigma above .9999 at tau 0", start.sigma.item())
    scales = process.scales(process.grid(50))
    expect((scales.alpha.diff() > 0).all(), "growing alpha", scales.alpha.tolist())
    expect((scales.sigma.diff() < 0).all(), "falling sigma", scales.sigma.tolist())


@LAWS.law(over(n_steps=(1, 2, 7, 50)))
def grid_rises_from_0_to_1(process: Process, n_steps: int) -> None:
    """A grid of n steps has n + 1 increasing times from 0 to 1."""
    grid = process.grid(n_steps)
    expect(grid.shape == (n_steps + 1,), f"{n_steps + 1} times", tuple(grid.shape))
    ends = (grid[0].item(), grid[-1].item())
    expect(ends == (0, 1), "times from 0 to 1", ends)
    expect((grid.diff() > 0).all(), "increasing times", grid.tolist())


@LAWS.law()
def a_grid_that_a_process_does_not_have_is_refused(process: Process) -> None:
    """A power outside 1 to 2, and fewer than one step, are refused; the message names the setting and what came."""
    for power in (0.9, 2.1, float("nan")):
        expect_refused(ConfigError, lambda power=power: process.grid(5, power), f"grid_power: .*came {power}")
    for n_steps in (0, -1):
        expect_refused(ConfigError, lambda n_steps=n_steps: process.grid(n_steps), f"n_steps.*came {n_steps}")


@LAWS.law()
def training_times_cover_the_way_evenly(process: Process) -> None:
    """Training times cover 0 to 1 evenly, 1 itself excluded."""
    uniform = (torch.arange(10_000, dtype=torch.float64) + 0.5) / 10_000
    tau = process.sample_tau(uniform).sort().values
    expect(tau.dtype == torch.float64, "float64 times", tau.dtype)
    expect(tau[0] >= 0, "times from 0", tau[0].item())
    expect(tau[-1] < 1, "times below 1", tau[-1].item())
    gap = (tau - uniform).abs().max().item()
    expect(gap < 1 / 50 + 1e-9, "times that are even, up to the spacing of 50 levels", f"a gap of {gap:.3g}")
    extremes = process.sample_tau(torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64))
    expect(((extremes >= 0) & (extremes < 1)).all(), "times from 0 to below 1 at the extremes", extremes.tolist())


@LAWS.law()
def it_has_a_name(process: Process) -> None:
    """It has a name."""
    expect_name(process)


@LAWS.law()
def default_sampler_is_one_it_can_run(process: Process) -> None:
    """The default number of steps, power, solver and eta are such as can be run."""
    times = len(process.grid(process.default_steps, process.default_power))
    expect(times == process.default_steps + 1, f"{process.default_steps + 1} times for the default steps", times)
    known = registry.available("solvers")
    expect(process.default_solver in known, f"a default solver of {', '.join(known)}", process.default_solver)
    expect(0 <= process.default_eta <= 1, "a default eta from 0 to 1", process.default_eta)


@LAWS.law(each_solver)
def recovers_the_posterior_of_a_gaussian(process: Process, solver_name: str) -> None:
    """With an exact network, 10,000 draws of 50 steps have the mean and covariance of the known posterior."""
    recovers_the_posterior(process, registry.make("solvers", solver_name), 50)

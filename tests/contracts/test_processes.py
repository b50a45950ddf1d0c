"""What holds for every process: each file in tsimpute/processes that is a plug-in is under test."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
import pytest
import torch
from tiny_models import ExactGaussian
from torch import Tensor

from tsimpute import registry
from tsimpute.containers import Prediction
from tsimpute.errors import ConfigError
from tsimpute.processes.base import Process
from tsimpute.processes.diffusion import Diffusion
from tsimpute.processes.flow_matching import FlowMatching
from tsimpute.solvers.base import Solver
from tsimpute.solvers.one_step import OneStep

PROCESSES = [registry.make("processes", name) for name in registry.available("processes")]
PROCESSES.append(FlowMatching("trigonometric"))
every_process = pytest.mark.parametrize("process", PROCESSES, ids=lambda p: p.name)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@every_process
def test_the_target_predicts_clean_data_and_noise(process: Process):
    tau = process.grid(40)[1:-1]
    clean, noise = normal(len(tau), 3, 5, seed=1), normal(len(tau), 3, 5, seed=2)
    state = process.scales(tau).mix(clean, noise)
    torch.testing.assert_close(process.corrupt(clean, noise, tau), state, rtol=1e-12, atol=1e-12)
    found = process.predict(process.target(clean, noise, tau), state, tau)
    torch.testing.assert_close(found.noise, noise, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.clean, clean, rtol=1e-9, atol=1e-9)


@every_process
def test_ends_at_clean_data_and_starts_near_noise(process: Process):
    end = process.scales(torch.ones(2, dtype=torch.float64))
    assert end.alpha.tolist() == [1, 1]
    assert end.sigma.tolist() == [0, 0]
    start = process.scales(torch.zeros(1, dtype=torch.float64))
    assert start.alpha.item() < 0.01
    assert start.sigma.item() > 0.9999


@every_process
def test_signal_grows_and_noise_falls_along_the_way(process: Process):
    scales = process.scales(process.grid(50))
    assert (scales.alpha.diff() > 0).all()
    assert (scales.sigma.diff() < 0).all()


@every_process
@pytest.mark.parametrize("n_steps", [1, 2, 7, 50])
def test_grid_rises_from_0_to_1(process: Process, n_steps: int):
    grid = process.grid(n_steps)
    assert grid.shape == (n_steps + 1,)
    assert (grid[0].item(), grid[-1].item()) == (0, 1)
    assert (grid.diff() > 0).all()


@pytest.mark.parametrize("n_steps", [1, 2, 7, 50])
def test_flow_matching_has_shorter_steps_towards_the_data_where_asked(n_steps: int):
    left = 1 - torch.arange(n_steps + 1, dtype=torch.float64) / n_steps
    for power in (1.0, 1.5, 2.0):
        grid = FlowMatching().grid(n_steps, power)
        assert (grid[0].item(), grid[-1].item()) == (0, 1)
        torch.testing.assert_close(grid, 1 - left**power, rtol=0, atol=1e-15)
    torch.testing.assert_close(FlowMatching().grid(n_steps), 1 - left, rtol=0, atol=1e-15)


@every_process
@pytest.mark.parametrize("power", [0.9, 2.1, float("nan")])
def test_a_power_that_a_process_has_no_grid_for_is_refused(process: Process, power: float):
    with pytest.raises(ConfigError, match=f"grid_power: .*came {power}"):
        process.grid(5, power)


def test_levels_of_diffusion_are_at_even_times():
    with pytest.raises(ConfigError, match=r"grid_power: diffusion has its levels at even times.*came 1\.5"):
        Diffusion().grid(5, 1.5)


@every_process
@pytest.mark.parametrize("n_steps", [0, -1])
def test_fewer_than_one_step_is_refused(process: Process, n_steps: int):
    with pytest.raises(ConfigError, match=f"n_steps.*came {n_steps}"):
        process.grid(n_steps)


@every_process
def test_training_times_cover_the_way_evenly(process: Process):
    uniform = (torch.arange(10_000, dtype=torch.float64) + 0.5) / 10_000
    tau = process.sample_tau(uniform).sort().values
    assert tau.dtype == torch.float64
    assert tau[0] >= 0
    assert tau[-1] < 1
    # Evenly, up to the spacing of 50 levels.
    assert (tau - uniform).abs().max() < 1 / 50 + 1e-9
    extremes = process.sample_tau(torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64))
    assert ((extremes >= 0) & (extremes < 1)).all()


@every_process
def test_default_sampler_is_one_it_can_run(process: Process):
    assert len(process.grid(process.default_steps, process.default_power)) == process.default_steps + 1
    assert process.default_solver in registry.available("solvers")
    assert 0 <= process.default_eta <= 1


@pytest.mark.parametrize("path", ["straight", "trigonometric"])
def test_flow_matching_is_torchcfms_bit_for_bit(path: Literal["straight", "trigonometric"]):
    from torchcfm import conditional_flow_matching as torchcfm

    process = FlowMatching(path)
    clean, noise = normal(6, 3, 5, seed=1).float(), normal(6, 3, 5, seed=2).float()
    tau = torch.linspace(0, 0.99, 6, dtype=torch.float64)
    name = {"straight": "ConditionalFlowMatcher", "trigonometric": "VariancePreservingConditionalFlowMatcher"}[path]
    matcher = getattr(torchcfm, name)(sigma=0.0)
    _, state, flow = matcher.sample_location_and_conditional_flow(noise, clean, t=tau.float())
    assert torch.equal(process.corrupt(clean, noise, tau), state)
    assert torch.equal(process.target(clean, noise, tau), flow)
    assert torch.equal(flow, clean - noise) == (path == "straight")


def test_flow_matching_refuses_a_path_it_does_not_know():
    with pytest.raises(ConfigError, match='path: expected "straight" or "trigonometric", came \'bent\''):
        registry.make("processes", "flow_matching", path="bent")


def test_diffusion_visits_every_level_equally_often_and_no_other():
    process = Diffusion()
    tau = process.sample_tau((torch.arange(1000, dtype=torch.float64) + 0.5) / 1000)
    levels, counts = ((1 - tau) * 50 - 1).round(decimals=9).unique(return_counts=True)
    assert levels.tolist() == list(range(50))
    assert counts.tolist() == [20] * 50
    assert torch.equal(
        process.scales(tau).alpha ** 2, process.alpha_bar[((1 - tau) * 50 - 1).round().long()].sqrt() ** 2
    )


def test_diffusion_refuses_more_steps_than_levels_and_bad_schedules():
    with pytest.raises(ConfigError, match=r"50 noise levels.*came 51"):
        Diffusion().grid(51)
    for options in ({"n_levels": 0}, {"beta_last": 1.0}, {"beta_first": 0.0}):
        with pytest.raises(ConfigError, match="diffusion: expected"):
            Diffusion(**options)


def test_diffusion_and_its_ancestral_step_are_those_of_diffusers():
    pytest.importorskip("diffusers", reason="diffusers is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from diffusers import DDPMScheduler

        scheduler = DDPMScheduler(50, 1e-4, 0.5, "scaled_linear", variance_type="fixed_small", clip_sample=False)
    process, solver = Diffusion(), OneStep(eta=1.0)
    np.testing.assert_allclose(process.beta.numpy(), scheduler.betas.numpy(), rtol=1e-5)
    np.testing.assert_allclose(process.alpha_bar.numpy(), scheduler.alphas_cumprod.numpy(), rtol=1e-5)
    state, output = normal(2, 3, 5, seed=1).float(), normal(2, 3, 5, seed=2).float()
    for level in (49, 20, 1, 0):
        theirs = scheduler.step(output, level, state, generator=torch.Generator().manual_seed(level)).prev_sample
        noise = torch.randn(state.shape, generator=torch.Generator().manual_seed(level))
        grid = torch.tensor([1 - (i + 1) / 50 for i in (level, level - 1)], dtype=torch.float64)
        ours = solver.solve(
            lambda x, t: process.predict(output, x, t), process.scales, state, grid, lambda noise=noise: noise
        )
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


# The ancestral sampler's variance is short by about 5 / n_steps, whatever the network: it gets a finer path.
FINE = {"diffusion": {"n_levels": 400, "beta_first": 1e-4 / 8, "beta_last": 0.5 / 8}}
SOLVERS = [(registry.make("solvers", name), 50) for name in registry.available("solvers")] + [(OneStep(1.0), 400)]


@pytest.mark.parametrize("name", registry.available("processes"))
@pytest.mark.parametrize(("solver", "n_steps"), SOLVERS, ids=[*registry.available("solvers"), "ancestral"])
def test_recovers_the_posterior_of_a_gaussian(name: str, solver: Solver, n_steps: int):
    """Cells 0 and 3 of four correlated ones are shown; the draws of 1 and 2 have the known conditional distribution."""
    factor = torch.tensor([[1.0, 0, 0, 0], [0.8, 0.6, 0, 0], [0.3, 0.7, 0.5, 0], [-0.5, 0.2, 0.4, 0.8]]).double()
    joint, mean = factor @ factor.T, torch.tensor([1.0, -2.0, 0.5, 3.0]).double()
    shown, hidden, value = [0, 3], [1, 2], torch.tensor([2.0, 2.5]).double()
    regression = joint[hidden][:, shown] @ torch.linalg.inv(joint[shown][:, shown])
    expected_mean = mean[hidden] + regression @ (value - mean[shown])
    expected_cov = joint[hidden][:, hidden] - regression @ joint[shown][:, hidden]

    process = registry.make("processes", name, **(FINE.get(name, {}) if n_steps > 50 else {}))
    draws = run(process, solver, ExactGaussian(process, expected_mean, expected_cov), 10_000, n_steps)[:, 0]

    scale = expected_cov.diagonal().sqrt()
    assert ((draws.mean(0) - expected_mean).abs() < 0.04 * scale).all()
    assert ((draws.T.cov() - expected_cov).abs() < 0.06 * scale[:, None] * scale).all()


def run(process: Process, solver: Solver, network: ExactGaussian, n: int, n_steps: int) -> Tensor:
    """(n, 1, M) draws with ``network`` in place of a trained one."""
    generator = torch.Generator().manual_seed(0)

    def draw_noise() -> Tensor:
        return torch.randn(n, 1, len(network.mean), generator=generator, dtype=torch.float64)

    def predict(state: Tensor, tau: Tensor) -> Prediction:
        return process.predict(network(state, tau), state, tau)

    return solver.solve(predict, process.scales, draw_noise(), process.grid(n_steps), draw_noise)

"""The laws of every process, and what is particular to some: each plug-in in tsimpute/processes is under test."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
import pytest
import torch

from tsimpute.config import registry
from tsimpute.errors import ConfigError
from tsimpute.processes.base import Process
from tsimpute.processes.diffusion import Diffusion
from tsimpute.processes.flow_matching import FlowMatching
from tsimpute.solvers.one_step import OneStep
from tsimpute.testing import Case, cases, subject
from tsimpute.testing._records import recovers_the_posterior
from tsimpute.testing.processes import normal

PROCESSES = [*registry.available("processes"), FlowMatching("trigonometric")]


@pytest.mark.parametrize("process", PROCESSES, ids=lambda p: getattr(p, "path", p))
@pytest.mark.parametrize("case", cases("processes"), ids=str)
def test_law(process: str | Process, case: Case):
    case.check(subject("processes", process))


@pytest.mark.parametrize("n_steps", [1, 2, 7, 50])
def test_flow_matching_has_shorter_steps_towards_the_data_where_asked(n_steps: int):
    left = 1 - torch.arange(n_steps + 1, dtype=torch.float64) / n_steps
    for power in (1.0, 1.5, 2.0):
        grid = FlowMatching().grid(n_steps, power)
        assert (grid[0].item(), grid[-1].item()) == (0, 1)
        torch.testing.assert_close(grid, 1 - left**power, rtol=0, atol=1e-15)
    torch.testing.assert_close(FlowMatching().grid(n_steps), 1 - left, rtol=0, atol=1e-15)


def test_levels_of_diffusion_are_at_even_times():
    with pytest.raises(ConfigError, match=r"grid_power: diffusion has its levels at even times.*came 1\.5"):
        Diffusion().grid(5, 1.5)


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


@pytest.mark.parametrize("name", registry.available("processes"))
def test_the_ancestral_sampler_recovers_the_posterior_of_a_gaussian(name: str):
    recovers_the_posterior(registry.make("processes", name, **FINE.get(name, {})), OneStep(1.0), 400)

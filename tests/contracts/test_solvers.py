"""The laws of every solver, and what is particular to some: each plug-in in tsimpute/solvers is under test."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tsimpute.config import registry
from tsimpute.core.containers import Prediction
from tsimpute.errors import ConfigError
from tsimpute.processes.flow_matching import FlowMatching
from tsimpute.solvers.one_step import OneStep
from tsimpute.testing import Case, cases, subject
from tsimpute.testing._records import ExactGaussian, solved
from tsimpute.testing.solvers import COVARIANCE, MEAN, no_noise

every_process = pytest.mark.parametrize("process_name", registry.available("processes"))


@pytest.mark.parametrize("name", registry.available("solvers"))
@pytest.mark.parametrize("case", cases("solvers"), ids=str)
def test_law(name: str, case: Case):
    case.check(subject("solvers", name))


def test_multistep_carries_an_evenly_changing_slope_on_to_where_it_leads():
    """With the slope 1 + 6 u the path is u + 3 u^2: reached exactly, but for the first trial step and the last one."""
    process, seen = FlowMatching(), []

    def predict(state: Tensor, tau: Tensor) -> Prediction:
        seen.append(state.item())
        return Prediction((1 + 6 * tau)[:, None, None], torch.zeros_like(state))

    grid = process.grid(6, 1.5)
    start = torch.zeros(1, 1, 1, dtype=torch.float64)
    end = registry.make("solvers", "multistep").solve(predict, process.scales, start, grid, no_noise).item()
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
        solved(FlowMatching(), OneStep(eta), ExactGaussian(FlowMatching(), MEAN, COVARIANCE), 3)

"""The loss: equal to a plain loop, fair to records, blind to what lies outside the targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from tiny_models import tiny_network
from torch import Tensor

from tsimpute.config import registry
from tsimpute.core.containers import Batch, Condition
from tsimpute.generative.objective import draw, loss_per_record, squared_errors
from tsimpute.processes.base import Process
from tsimpute.processes.flow_matching import FlowMatching
from tsimpute.testing._records import random_batch

PROCESSES = [registry.make("processes", name) for name in registry.available("processes")]
every_process = pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.name)


def losses(process: Process, batch: Batch, noise: torch.Tensor | None = None) -> torch.Tensor:
    tau, own = draw(batch, process)
    with torch.no_grad():
        errors = squared_errors(tiny_network(), process, batch, tau, own if noise is None else noise)
    return loss_per_record(errors, batch.target_mask)


@every_process
def test_equals_a_loop_over_cells(process: Process):
    batch = random_batch()
    tau, noise = draw(batch, process)
    network, found = tiny_network(), losses(process, batch)
    for b in range(len(batch)):
        one, scales = batch.select(slice(b, b + 1)), process.scales(tau[b : b + 1])
        state = torch.zeros(1, 3, 8)
        for k, t in one.target_mask[0].nonzero().tolist():
            state[0, k, t] = scales.alpha.item() * one.values[0, k, t] + scales.sigma.item() * noise[b, k, t]
        with torch.no_grad():
            output = network(state, tau[b : b + 1], one.condition)[0]
        target = process.target(one.values, noise[b : b + 1], tau[b : b + 1])[0]
        cells = one.target_mask[0].nonzero().tolist()
        total = sum((output[k, t] - target[k, t]).item() ** 2 for k, t in cells)
        assert found[b].item() == pytest.approx(total / len(cells), rel=1e-5)


def test_a_record_with_one_target_counts_as_much_as_one_with_many():
    target_mask = torch.zeros(2, 4, 25, dtype=torch.bool)
    target_mask[0, 0, 0], target_mask[1] = True, True
    assert loss_per_record(3.0 * target_mask, target_mask).tolist() == [3.0, 3.0]


@every_process
def test_a_record_without_targets_adds_nothing_and_no_nan(process: Process):
    batch = random_batch()
    cond_mask = batch.cond_mask.clone()
    cond_mask[1] = batch.observed[1]
    batch = replace(batch, cond_mask=cond_mask)
    tau, noise = draw(batch, process)
    network = tiny_network()
    found = loss_per_record(squared_errors(network, process, batch, tau, noise), batch.target_mask)
    assert found[1].item() == 0
    assert (found[[0, 2, 3]] > 0).all()
    found.sum().backward()
    assert all(w.grad is not None and w.grad.isfinite().all() for w in network.parameters())


@every_process
def test_depends_on_hidden_targets_and_not_on_noise_elsewhere(process: Process):
    batch = random_batch()
    # The network is told more than 0 noise of a diffusion's target only through the state, so the value must matter.
    other = replace(batch, values=torch.where(batch.target_mask, batch.values + 1, batch.values))
    assert (losses(process, batch) != losses(process, other)).all()
    _, noise = draw(batch, process)
    elsewhere = torch.where(batch.target_mask, noise, noise + 1e3)
    assert torch.equal(losses(process, batch, noise), losses(process, batch, elsewhere))


def test_noise_of_records_of_one_step_is_standard_normal_and_tau_uniform():
    tau, noise = draw(random_batch(4000, 3, 1), FlowMatching())
    assert stats.kstest(tau.numpy(), "uniform").pvalue > 1e-3
    assert min(stats.kstest(noise[:, k, 0].numpy(), "norm").pvalue for k in range(3)) > 1e-3
    assert abs(np.corrcoef(torch.cat([tau[:, None], noise[..., 0]], 1).T) - np.eye(4)).max() < 0.06


@every_process
@pytest.mark.parametrize("length", [1, 8])
def test_what_is_drawn_for_a_record_depends_on_its_seed_alone(process: Process, length: int):
    batch = random_batch(length=length)
    tau, noise = draw(batch, process)
    for b in range(len(batch)):
        alone_tau, alone_noise = draw(batch.select(slice(b, b + 1)), process)
        assert torch.equal(alone_tau[0], tau[b])
        assert torch.equal(alone_noise[0], noise[b])
    assert len(set(noise[:, 0, 0].tolist())) == len(batch)
    assert tau.dtype == torch.float64


class Drift:
    """A vector field of 2 everywhere, which notes what it was given."""

    def __init__(self) -> None:
        self.seen: list[tuple[Tensor, Tensor, Condition]] = []

    def condition_on(self, condition: Condition) -> Callable[[Tensor, Tensor], Tensor]:
        return lambda state, tau: self(state, tau, condition)

    def __call__(self, state: Tensor, tau: Tensor, condition: Condition) -> Tensor:
        self.seen.append((state, tau, condition))
        return torch.full_like(state, 2.0)


def with_asked(batch: Batch) -> Batch:
    asked = ~batch.observed & (torch.arange(8) % 2 == 0)
    asked[1] = False
    return replace(batch, unobserved_query=asked, usual_cells=7)


def test_unobserved_cells_that_are_asked_for_stand_where_the_model_takes_them_and_have_no_loss():
    batch, process, network = with_asked(random_batch()), registry.make("processes", "flow_matching"), Drift()
    assert batch.unobserved_query is not None
    tau, noise = draw(batch, process)
    errors = squared_errors(network, process, batch, tau, noise)  # type: ignore[arg-type]
    state, _, condition = network.seen[-1]
    carried = noise + 2 * tau.float()[:, None, None]
    torch.testing.assert_close(state[batch.unobserved_query], carried[batch.unobserved_query])
    torch.testing.assert_close(state[batch.target_mask], process.corrupt(batch.values, noise, tau)[batch.target_mask])
    assert torch.equal(condition.query_mask, batch.target_mask | batch.unobserved_query)
    assert (errors[~batch.target_mask] == 0).all()
    assert condition.usual_cells == 7
    # On the way, all that is observed is shown, and records without an asked cell cost nothing.
    rows = batch.unobserved_query.flatten(1).any(1)
    assert not rows.all()
    assert len(network.seen) == 3
    for _, _, on_the_way in network.seen[:-1]:
        assert torch.equal(on_the_way.cond_mask, batch.observed[rows])
        assert torch.equal(on_the_way.query_mask, batch.unobserved_query[rows])
        assert on_the_way.usual_cells == 7


def test_the_way_of_asked_cells_carries_no_gradient():
    batch, process, network = with_asked(random_batch()), registry.make("processes", "flow_matching"), tiny_network()
    tau, noise = draw(batch, process)
    given: list[Tensor] = []
    network.register_forward_pre_hook(lambda module, args: given.append(args[0]))
    squared_errors(network, process, batch, tau, noise).sum().backward()
    assert len(given) == 1
    assert not given[0].requires_grad


class Towards:
    """The straight vector field that takes every cell to ``truth``, as a difference to the base estimate it is told."""

    def __init__(self, truth: float) -> None:
        self.truth = truth
        self.seen: list[tuple[Tensor, Condition]] = []

    def condition_on(self, condition: Condition) -> Callable[[Tensor, Tensor], Tensor]:
        return lambda state, tau: self(state, tau, condition)

    def __call__(self, state: Tensor, tau: Tensor, condition: Condition) -> Tensor:
        self.seen.append((state, condition))
        assert condition.base is not None
        spread = 1.0 if condition.spread is None else condition.spread
        return ((self.truth - condition.base) / spread - state) / (1 - tau.to(state)[:, None, None])


@pytest.mark.parametrize("spreads", [False, True])
def test_with_a_base_estimate_queried_cells_stand_at_its_residual_and_targets_have_no_part_in_it(
    spreads: bool,
):
    plain, process, network = with_asked(random_batch()), registry.make("processes", "flow_matching"), Towards(5.0)
    assert plain.unobserved_query is not None
    numbers = torch.Generator().manual_seed(3)
    base, given_all = (
        torch.randn(plain.values.shape, generator=numbers) * ~m for m in (plain.cond_mask, plain.observed)
    )
    spread, spread_all = (
        1 + torch.rand(plain.values.shape, generator=numbers) * ~m if spreads else None
        for m in (plain.cond_mask, plain.observed)
    )
    values = plain.values - base * plain.observed
    values = values if spread is None else values / spread
    batch = replace(
        plain, values=values, base=base, base_given_all=given_all, spread=spread, spread_given_all=spread_all
    )
    tau, noise = draw(batch, process)
    squared_errors(network, process, batch, tau, noise)  # type: ignore[arg-type]
    state, condition = network.seen[-1]
    expected = process.scales(tau).mix((5.0 - base) / (1.0 if spread is None else spread), noise)
    torch.testing.assert_close(state[plain.unobserved_query], expected[plain.unobserved_query])
    assert condition.base is not None
    assert torch.equal(condition.base, base)
    rows = plain.unobserved_query.flatten(1).any(1)
    for _, on_the_way in network.seen[:-1]:
        assert on_the_way.base is not None
        assert torch.equal(on_the_way.base, given_all[rows])
        torch.testing.assert_close(on_the_way.values, plain.values[rows])

"""Draws belong to their record: alone, in any batch, in any order; in bounded memory; only where asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny_models import random_condition, tiny_network
from torch import Tensor

from tsimpute import registry
from tsimpute.containers import Condition
from tsimpute.errors import ConfigError
from tsimpute.sampling import sample

NETWORK, CONDITION, SEEDS = tiny_network(), random_condition(), (11, 12, 13, 14)
# A stochastic and a deterministic sampler; FlowMatching shares all code that matters here.
PROCESS = registry.make("processes", "diffusion")
ANCESTRAL, HEUN = registry.make("solvers", "one_step", eta=1.0), registry.make("solvers", "heun")


def draws(
    condition: Condition = CONDITION, seeds: tuple[int, ...] = SEEDS, solver: Any = ANCESTRAL, **options: Any
) -> Tensor:
    options = {"n_samples": 5, "n_steps": 3, "rows_at_once": 2} | options
    return sample(NETWORK, PROCESS, solver, condition, seeds=seeds, **options)


@pytest.mark.parametrize("solver", [ANCESTRAL, HEUN], ids=["ancestral", "heun"])
def test_a_records_draws_are_the_same_alone_in_another_batch_and_in_another_order(solver: Any):
    together = draws(solver=solver)
    turned = Condition(*(x.flip(0) for x in vars(CONDITION).values()))
    assert torch.equal(draws(turned, SEEDS[::-1], solver), together.flip(1))
    for b in range(4):
        alone = draws(CONDITION.select(slice(b, b + 1)), SEEDS[b : b + 1], solver)
        assert torch.equal(alone[:, 0], together[:, b])


def test_draws_differ_from_each_other_and_from_those_of_another_seed():
    found, fill = draws(), CONDITION.fill_mask
    for s in range(1, 5):
        assert (found[s] != found[0])[fill].all()
    assert (draws(seeds=(1, 2, 3, 4)) != found)[:, fill].all()
    assert torch.equal(draws(), found)


def test_a_draw_does_not_depend_on_how_many_are_asked_for():
    # Row by row to the bit; in larger rows to the last bits, since matrix products round by their size.
    assert torch.equal(draws(n_samples=5, rows_at_once=1)[:3], draws(n_samples=3, rows_at_once=1))
    torch.testing.assert_close(draws(n_samples=5, rows_at_once=4)[:3], draws(n_samples=3, rows_at_once=3))
    torch.testing.assert_close(draws(rows_at_once=5), draws(rows_at_once=1), rtol=1e-4, atol=1e-5)


def test_only_cells_to_fill_are_filled():
    found = draws()
    assert found.shape == (5, 4, 3, 8)
    assert (found[:, ~CONDITION.fill_mask] == 0).all()
    assert (found[:, CONDITION.fill_mask] != 0).all()


def test_shown_cells_steer_the_draws():
    other = replace(CONDITION, values=torch.where(CONDITION.cond_mask, CONDITION.values + 3, CONDITION.values))
    assert not torch.allclose(draws(other), draws())


class Counting:
    """A network that notes how many rows it was given, and what stood outside the cells to fill."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.outside = 0.0

    def __call__(self, state: Tensor, tau: Tensor, condition: Condition) -> Tensor:
        self.rows.append(len(state))
        self.outside += state[~condition.fill_mask].abs().sum().item()
        assert len(condition) == len(tau) == len(state)
        return NETWORK(state, tau, condition)


def test_no_more_rows_than_allowed_are_computed_at_once_and_noise_is_only_where_it_belongs():
    network = Counting()
    sample(network, PROCESS, ANCESTRAL, CONDITION, n_samples=7, n_steps=2, seeds=SEEDS, rows_at_once=3)
    assert network.rows == [3, 3, 3, 3, 1, 1] * 4
    assert network.outside == 0


def test_nothing_to_fill_costs_nothing_and_gives_zeros():
    network = Counting()
    nothing = replace(CONDITION, fill_mask=torch.zeros_like(CONDITION.fill_mask))
    found = sample(network, PROCESS, ANCESTRAL, nothing, n_samples=2, n_steps=2, seeds=SEEDS)
    assert network.rows == []
    assert (found == 0).all()


@pytest.mark.parametrize("solver", [ANCESTRAL, HEUN], ids=["ancestral", "heun"])
def test_one_sample_in_one_step_of_one_cell(solver: Any):
    found = draws(n_samples=1, n_steps=1, solver=solver)
    assert found.shape == (1, 4, 3, 8)
    assert found[:, CONDITION.fill_mask].isfinite().all()
    one = Condition(torch.zeros(1, 1, 1), torch.zeros(1, 1, 1, dtype=torch.bool), torch.ones(1, 1, 1, dtype=torch.bool),
                    torch.zeros(1, 1))  # fmt: skip
    cell = sample(tiny_network(1), PROCESS, solver, one, n_samples=3, n_steps=4, seeds=[0])
    assert len(set(cell.flatten().tolist())) == 3


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_samples": 0}, "n_samples: expected at least 1, came 0"),
        ({"rows_at_once": 0}, "rows_at_once: expected at least 1, came 0"),
        ({"n_steps": 0}, "n_steps"),
        ({"n_steps": 51}, "50 noise levels"),
        ({"seeds": (1, 2)}, "seeds: expected one for each of 4 records, came 2"),
    ],
)
def test_counts_out_of_range_are_refused(options: dict[str, Any], says: str):
    with pytest.raises(ConfigError, match=says):
        draws(**options)


def test_no_gradient_is_kept_and_no_global_generator_is_used():
    before = torch.get_rng_state()
    assert not draws().requires_grad
    assert torch.equal(torch.get_rng_state(), before)

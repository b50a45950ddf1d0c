"""What holds for every backbone: each file in tsimpute/backbones that is a plug-in is under test."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tiny_models import SIZES, random_batch, random_condition, shaken
from torch import nn

from tsimpute import registry
from tsimpute.backbones.dual_transformer import DualTransformer
from tsimpute.errors import ConfigError

OPTIONS = {"context_cells": SIZES, "dual_transformer": SIZES, "present_cells": SIZES}
every_backbone = pytest.mark.parametrize("name", registry.available("backbones"))


def made(name: str, n_features: int = 3) -> nn.Module:
    return shaken(registry.make("backbones", name, n_features=n_features, **OPTIONS.get(name, {})))


def tau_of(n: int) -> torch.Tensor:
    return torch.linspace(0.1, 0.9, n, dtype=torch.float64)


def outputs(network: nn.Module, n: int = 4, k: int = 3, length: int = 8) -> torch.Tensor:
    state = torch.randn(n, k, length, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return network(state, tau_of(n), random_condition(n, k, length))


@every_backbone
@pytest.mark.parametrize(("n", "k", "length"), [(4, 3, 8), (1, 3, 8), (2, 1, 8), (2, 3, 1), (1, 1, 1), (2, 3, 30)])
def test_one_finite_number_per_cell_for_any_size(name: str, n: int, k: int, length: int):
    found = outputs(made(name, k), n, k, length)
    assert found.shape == (n, k, length)
    assert found.dtype == torch.float32
    assert found.isfinite().all()


@every_backbone
def test_state_matters_at_the_cells_to_fill_and_nowhere_else(name: str):
    network, condition = made(name), random_condition()
    state = torch.randn(4, 3, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        found = network(state, tau_of(4), condition)
        elsewhere = network(torch.where(condition.fill_mask, state, 1e6), tau_of(4), condition)
        there = network(torch.where(condition.fill_mask, state + 1, state), tau_of(4), condition)
    assert torch.equal(found, elsewhere)
    assert ((found != there).flatten(1).any(1)).all()


@every_backbone
def test_hidden_values_cannot_matter(name: str):
    network, batch = made(name), random_batch()
    state = torch.randn(4, 3, 8, generator=torch.Generator().manual_seed(1))
    hidden = replace(batch, values=torch.where(batch.target_mask, 1e6, batch.values))
    shown = replace(batch, values=torch.where(batch.cond_mask, batch.values + 1, batch.values))
    with torch.no_grad():
        found, other, changed = (network(state, tau_of(4), b.condition) for b in (batch, hidden, shown))
    assert torch.equal(found, other)
    assert (found != changed).any()


@every_backbone
def test_a_spread_matters_at_the_cells_to_fill_where_the_network_is_made_for_one(name: str):
    plain = random_condition()
    network = shaken(registry.make("backbones", name, n_features=3, with_spread=True, **OPTIONS.get(name, {})))
    one, two = (replace(plain, guess=plain.fill_mask * 0.5, spread=1 + x * plain.fill_mask) for x in (0.0, 1.5))
    state = torch.randn(4, 3, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert (network(state, tau_of(4), one) != network(state, tau_of(4), two))[plain.fill_mask].any()
        with pytest.raises(ConfigError, match="expected a condition with a spread"):
            network(state, tau_of(4), plain)


@every_backbone
def test_process_time_clock_and_mask_matter(name: str):
    network, condition = made(name), random_condition()
    state = torch.randn(4, 3, 8, generator=torch.Generator().manual_seed(1))
    blank = replace(condition, values=torch.zeros_like(condition.values))
    unknown = replace(blank, cond_mask=torch.zeros_like(condition.cond_mask))
    with torch.no_grad():
        found = network(state, tau_of(4), condition)
        assert not torch.allclose(found, network(state, tau_of(4) + 0.05, condition), atol=1e-6)
        assert not torch.allclose(found, network(state, tau_of(4), replace(condition, times=condition.times * 2)))
        assert not torch.allclose(network(state, tau_of(4), blank), network(state, tau_of(4), unknown), atol=1e-6)


@every_backbone
def test_a_record_does_not_depend_on_its_neighbours_in_the_batch(name: str):
    network, condition = made(name), random_condition()
    state = torch.randn(4, 3, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        together = network(state, tau_of(4), condition)
        for b in range(4):
            at = slice(b, b + 1)
            alone = network(state[at], tau_of(4)[at], condition.select(at))
            assert torch.allclose(alone[0], together[b], atol=1e-5)


@every_backbone
def test_bound_to_one_record_it_takes_any_number_of_draws(name: str):
    network, condition = made(name), random_condition(1)
    states = torch.randn(5, 3, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        field = network.bind(condition)
        together = field(states, tau_of(5))
        for s in range(5):
            at = slice(s, s + 1)
            alone = network(states[at], tau_of(5)[at], condition)
            assert torch.allclose(together[at][condition.fill_mask], alone[condition.fill_mask], atol=1e-5)
        assert torch.equal(field(states, tau_of(5)), together)


@every_backbone
def test_gradient_reaches_every_parameter(name: str):
    network = made(name)
    state = torch.randn(4, 3, 8, generator=torch.Generator().manual_seed(1))
    (network(state, tau_of(4), random_condition()) ** 2).sum().backward()
    for parameter, weights in network.named_parameters():
        assert weights.grad is not None, parameter
        assert weights.grad.abs().sum() > 0, parameter


@every_backbone
def test_is_a_function_of_its_inputs_and_leaves_them_alone(name: str):
    network, condition = made(name), random_condition()
    state = torch.randn(4, 3, 8, generator=torch.Generator().manual_seed(1))
    before = [x.clone() for x in (state, condition.values, condition.times)]
    with torch.no_grad():
        assert torch.equal(network(state, tau_of(4), condition), network(state, tau_of(4), condition))
    assert all(torch.equal(a, b) for a, b in zip(before, (state, condition.values, condition.times), strict=True))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"width": 10, "n_heads": 4}, "divisor of width 10"),
        ({"n_blocks": 0}, "at least 1"),
        ({"n_heads": 0}, "at least 1"),
        ({"width_tau": 2}, "width_tau of at least 4"),
        ({"width_time": 7}, "even width_time"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(options: dict[str, int], says: str):
    with pytest.raises(ConfigError, match=says):
        DualTransformer(3, **(SIZES | options))

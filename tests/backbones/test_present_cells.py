"""The network on present cells: equal to the dense one where nothing is blank, and blind to what is blank."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tsimpute.backbones.dual_transformer import DualTransformer
from tsimpute.backbones.present_cells import PresentCells
from tsimpute.core.containers import Condition
from tsimpute.testing._records import SIZES, random_condition, shaken


def network(n_features: int = 3) -> PresentCells:
    return shaken(PresentCells(n_features, **SIZES))


def output(net: torch.nn.Module, condition: Condition, seed: int = 1) -> Tensor:
    n = len(condition)
    state = torch.randn(condition.values.shape, generator=torch.Generator().manual_seed(seed))
    return net(state, torch.linspace(0.1, 0.9, n, dtype=torch.float64), condition)


def filled(n: int, k: int, length: int) -> Condition:
    """Every cell is shown or to be filled."""
    condition = random_condition(n, k, length)
    return replace(condition, query_mask=~condition.cond_mask)


@pytest.mark.parametrize(("n", "k", "length"), [(4, 3, 8), (1, 5, 40), (2, 35, 48), (3, 1, 20), (2, 4, 1)])
def test_equals_the_dense_network_where_no_cell_is_blank(n: int, k: int, length: int):
    dense, packed, condition = shaken(DualTransformer(k, **SIZES)), network(k), filled(n, k, length)
    packed.load_state_dict(dense.state_dict())
    found, expected = output(packed, condition), output(dense, condition)
    torch.testing.assert_close(found * condition.query_mask, expected * condition.query_mask, rtol=1e-4, atol=1e-4)
    for out in (found, expected):
        (out * condition.query_mask).square().sum().backward()
    for (name, a), b in zip(packed.named_parameters(), dense.parameters(), strict=True):
        if b.grad is None:  # an axis of one cell is passed over
            assert a.grad is None, name
        else:
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4 * float(b.grad.abs().max() + 1), msg=name)


def test_gradients_are_those_of_finite_differences():
    """The reorderings' backward is written by hand; blank positions must give nothing to it."""
    net, condition = network().double(), random_condition(3)
    condition = Condition(
        condition.values.double(), condition.cond_mask, condition.query_mask, condition.times.double()
    )
    state = torch.randn(3, 3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2), requires_grad=True)
    tau = torch.tensor([0.2, 0.5, 0.8], dtype=torch.float64)
    weights = (net.enter.weight, net.blocks[0].feature_axis.qkv.weight, net.blocks[0].side.of_feature.weight)
    assert torch.autograd.gradcheck(lambda x, *_: net(x, tau, condition), (state, *weights), fast_mode=True)


def test_steps_and_features_without_a_cell_change_nothing():
    """What holds no cell may be cut away, whatever its time: padding carries no information."""
    net, condition = network(), random_condition(4, 3, 8)
    steps = torch.tensor([0, 2, 3, 5, 7])
    there = torch.isin(torch.arange(8), steps)
    condition = Condition(
        condition.values * there, condition.cond_mask & there, condition.query_mask & there, condition.times
    )
    state = torch.randn(4, 3, 8, generator=torch.Generator().manual_seed(1))
    tau = torch.full((4,), 0.3, dtype=torch.float64)
    short = Condition(*(x[..., steps] for x in list(vars(condition).values())[:4]))
    whole, cut = net(state, tau, condition), net(state[..., steps], tau, short)
    torch.testing.assert_close((whole * condition.query_mask)[..., steps], cut * short.query_mask, rtol=1e-5, atol=1e-5)


def test_times_are_real_numbers():
    """Records with clocks of their own, of uneven steps, give the same together as each by itself."""
    net, condition = network(), random_condition(4, 3, 8)
    steps = torch.rand(4, 8, generator=torch.Generator().manual_seed(3)) + 0.1
    condition = replace(condition, times=steps.cumsum(1))
    state = torch.randn(4, 3, 8, generator=torch.Generator().manual_seed(1))
    tau = torch.full((4,), 0.3, dtype=torch.float64)
    together = net(state, tau, condition)
    for b in range(4):
        alone = net(state[b : b + 1], tau[:1], condition.select(slice(b, b + 1)))
        torch.testing.assert_close(alone[0], together[b], rtol=1e-5, atol=1e-5)
    assert not torch.allclose(together, net(state, tau, replace(condition, times=condition.times + 0.5)), atol=1e-4)

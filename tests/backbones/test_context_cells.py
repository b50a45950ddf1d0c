"""The network with shown cells as context, against the same weights on the grid with who sees whom spelt out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tsimpute.backbones import row_attention
from tsimpute.backbones.context_cells import ContextCells
from tsimpute.backbones.embeddings import clock_embedding
from tsimpute.core.containers import Condition
from tsimpute.testing._records import SIZES, random_condition, shaken

TAU = torch.tensor([0.2, 0.4, 0.6, 0.8], dtype=torch.float64)


def network(n_features: int = 3, n_blocks: int = 3, n_given: int = 0) -> ContextCells:
    return shaken(ContextCells(n_features, n_given=n_given, **(SIZES | {"n_blocks": n_blocks})))


def states(condition: Condition, n: int | None = None, seed: int = 1) -> Tensor:
    shape = (n or len(condition), *condition.values.shape[1:])
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def looked_at(condition: Condition) -> Tensor:
    """(B,) shown cells and cells to fill of each record."""
    return (condition.cond_mask | condition.fill_mask).flatten(1).sum(1)


def on_the_grid(net: ContextCells, condition: Condition, state: Tensor, tau: Tensor) -> Tensor:
    """Every cell of (R, K, L, D) at its own process time; a cell sees those of its row that it may."""
    shown, asked = condition.cond_mask, condition.fill_mask
    crowded = looked_at(condition) > 1.25 * condition.usual_cells
    # How many of a row are shown and how many asked, along time (R, K, 1, 1) and along features (R, L, 1, 1).
    counts = {axis: [mask.sum(at)[..., None, None] for mask in (shown, asked)] for axis, at in ((-2, 2), (-3, 1))}
    may_see = {
        -2: shown[:, :, None, :] | (asked[:, :, :, None] & asked[:, :, None, :]),  # along time: (R, K, L, L)
        -3: (shown[:, None] | (asked[:, :, None] & asked[:, None])).permute(0, 3, 1, 2),  # along features: (R, L, K, K)
    }

    def attend(axis: int) -> Callable[[Tensor, int], Tensor]:
        def read(qkv: Tensor, n_heads: int) -> Tensor:
            rows = qkv if axis == -2 else qkv.transpose(1, 2)
            q, k, v = rows.unflatten(-1, (3, n_heads, -1)).permute(3, 0, 1, 4, 2, 5)
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
            n_shown, n_asked = counts[axis]
            lowered = (2 * n_asked / (n_shown + 1)).clamp(min=1).log() * crowded[:, None, None, None]
            of_keys = (asked if axis == -2 else asked.transpose(1, 2))[:, :, None, :]
            of_queries = of_keys.transpose(-1, -2)
            others = ~torch.eye(rows.shape[2], dtype=torch.bool)
            scores = scores - (lowered * of_keys * of_queries * others)[:, :, None]
            weights = scores.masked_fill(~may_see[axis][:, :, None], -torch.inf).softmax(-1).nan_to_num()
            found = (weights @ v).transpose(2, 3).flatten(-2)
            return found if axis == -2 else found.transpose(1, 2)

        return read

    def of_tau(linear: torch.nn.Module) -> Tensor:
        own = linear(net.of_tau(tau))[:, None, None]
        ones = linear(net.of_tau(torch.ones_like(tau)))[:, None, None]
        return torch.where(asked[..., None], own, ones)

    values = torch.stack([condition.values * shown, state * asked], -1)
    cells = F.relu(net.enter(values))
    clock = clock_embedding(condition.times, net.width_time).to(values.dtype)
    total = torch.zeros(())
    for block in net.blocks:
        hidden = cells + of_tau(block.of_tau)
        hidden = block.time_axis(hidden, attend(-2))
        hidden = block.feature_axis(hidden, attend(-3))
        side = block.side.of_time(clock)[:, None] + block.side.of_feature(net.feature.weight)[:, None]
        side = side + asked[..., None] * block.side.of_mask
        cells, skip = block.gated(cells, hidden, side)
        total = total + skip
    out = net.leave(F.relu(net.gather(total / math.sqrt(len(net.blocks)))))[..., 0]
    return out * asked


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("n_crowded", [0, 2, 4])
@pytest.mark.parametrize(("k", "length"), [(3, 8), (5, 40), (35, 48)])
def test_equals_the_grid_with_who_sees_whom_spelt_out(
    k: int, length: int, n_crowded: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
):
    if not compiled:
        monkeypatch.setattr(row_attention, "_library", lambda head: None)
    net, condition = network(k), random_condition(4, k, length)
    most_first = looked_at(condition).sort(descending=True).values
    condition = replace(condition, usual_cells=0.0 if n_crowded == 4 else float(most_first[n_crowded]) / 1.25)
    assert (~condition.cond_mask & ~condition.fill_mask).any(), "no blank cell: the test would not see them"
    state = states(condition)
    found, expected = net(state, TAU, condition), on_the_grid(net, condition, state, TAU)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    gradients = []
    for out in (found, expected):
        net.zero_grad()
        out.square().sum().backward()
        gradients.append([(name, w.grad) for name, w in net.named_parameters()])
    for (name, a), (_, b) in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4 * float(b.abs().max() + 1), msg=name)


def test_a_record_is_crowded_where_a_quarter_more_cells_are_looked_at_than_training_records_hold():
    """Given features, here the last, do not count."""
    net = network(n_given=1)
    cond_mask, fill_mask = torch.zeros(2, 2, 3, 8, dtype=torch.bool)
    cond_mask[:, 0, 0], cond_mask[:, 2] = True, True
    fill_mask[0, 1, :4], fill_mask[1, 1, :5] = True, True
    times = torch.arange(8.0).repeat(2, 1)
    condition = Condition(torch.ones(2, 3, 8) * cond_mask, cond_mask, fill_mask, times)
    never, above_5, always = (
        net(states(condition), TAU[:2], replace(condition, usual_cells=usual)) for usual in (math.inf, 4, 0)
    )
    assert [torch.equal(a, b) for a, b in zip(above_5, never, strict=True)] == [True, False]
    assert [torch.equal(a, b) for a, b in zip(above_5, always, strict=True)] == [False, True]


def test_scores_of_many_cells_to_fill_are_lowered_in_crowded_records():
    net, many = network(), random_condition()
    alone = torch.zeros_like(many.fill_mask)
    alone[:, 0, 0] = True
    few = replace(many, values=many.values * ~alone, cond_mask=~alone, fill_mask=alone)
    for condition, same in ((many, False), (few, True)):
        trained, used = (
            net(states(condition), TAU, replace(condition, usual_cells=usual)) for usual in (math.inf, 0.0)
        )
        # Record 2 of many has no row in which many are to be filled.
        assert [torch.equal(a, b) for a, b in zip(trained, used, strict=True)] == [same, same, True, same]


@pytest.mark.parametrize("compiled", [True, False])
def test_what_is_read_off_the_record_is_computed_once_for_all_states(compiled: bool, monkeypatch: pytest.MonkeyPatch):
    """Bound to one record the network takes any number of draws, each as by itself."""
    if not compiled:
        monkeypatch.setattr(row_attention, "_library", lambda head: None)
    net, condition = network(), random_condition(4).select(slice(1, 2))
    field, state = net.bind(condition), states(condition, 5)
    tau = torch.linspace(0.1, 0.9, 5, dtype=torch.float64)
    together = field(state, tau)
    for s in range(5):
        torch.testing.assert_close(field(state[s : s + 1], tau[s : s + 1])[0], together[s], rtol=1e-5, atol=1e-5)
    assert torch.equal(field(state, tau), together)


def test_shown_cells_do_not_see_what_is_asked_for():
    """A cell to fill that shares no row with another one, directly or through a third, is not touched by it."""
    condition = random_condition(1, 4, 6)
    shown = torch.ones(1, 4, 6, dtype=torch.bool)
    shown[0, 0, 0] = shown[0, 2, 3] = False
    both = replace(condition, cond_mask=shown, fill_mask=~shown)
    one = replace(both, fill_mask=both.fill_mask & (torch.arange(4) == 0)[:, None])
    net, state = network(4), states(both)
    first, alone = net(state, TAU[:1], both), net(state, TAU[:1], one)
    torch.testing.assert_close(first[0, 0, 0], alone[0, 0, 0], rtol=1e-5, atol=1e-5)
    other = replace(both, values=both.values + shown)
    assert not torch.allclose(net(state, TAU[:1], other)[0, 0, 0], first[0, 0, 0])


def test_cells_to_fill_see_each_other():
    net, condition = network(), random_condition()
    state = states(condition)
    moved = state.clone()
    moved[0, condition.fill_mask[0].nonzero()[0][0], condition.fill_mask[0].nonzero()[0][1]] += 1
    changed = (net(state, TAU, condition) != net(moved, TAU, condition))[0]
    assert changed.sum() > 1


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("nothing", ["cond_mask", "fill_mask"])
def test_a_record_with_nothing_shown_and_one_with_nothing_to_fill(
    nothing: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
):
    if not compiled:
        monkeypatch.setattr(row_attention, "_library", lambda head: None)
    net, condition = network(), random_condition()
    values = condition.values * (nothing != "cond_mask")
    empty = replace(condition, values=values, **{nothing: torch.zeros_like(condition.cond_mask)})
    found = net(states(condition), TAU, empty)
    torch.testing.assert_close(found, on_the_grid(net, empty, states(condition), TAU), rtol=1e-4, atol=1e-4)
    found.square().sum().backward()


def test_gradients_are_those_of_finite_differences():
    net, condition = network().double(), random_condition(3)
    condition = Condition(condition.values.double(), condition.cond_mask, condition.fill_mask, condition.times.double())
    state = states(condition).double().requires_grad_()
    weights = (net.enter.weight, net.blocks[0].feature_axis.qkv.weight, net.blocks[0].side.of_feature.weight)
    assert torch.autograd.gradcheck(lambda x, *_: net(x, TAU[:3], condition), (state, *weights), fast_mode=True)

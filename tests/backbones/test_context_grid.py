"""The whole grid against ``ContextCells`` with the same weights, and the attention of GPUs against torch's."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from tsimpute.backbones.context_cells import ContextCells
from tsimpute.backbones.context_grid import ContextGrid, _MaskedAttention
from tsimpute.testing._records import SIZES, random_condition, shaken


def both(n_given: int) -> tuple[ContextCells, ContextGrid]:
    cells = shaken(ContextCells(3, n_given=n_given, **(SIZES | {"n_blocks": 3})))
    grid = ContextGrid(3, n_given=n_given, **(SIZES | {"n_blocks": 3}))
    grid.load_state_dict(cells.state_dict())
    return cells, grid


@pytest.mark.parametrize("n_given", [0, 1])
@pytest.mark.parametrize("usual", [math.inf, 2.0])
def test_the_grid_gives_what_cells_give(n_given: int, usual: float) -> None:
    cells, grid = both(n_given)
    condition = replace(random_condition(), usual_cells=usual)
    own = condition.query_mask & (torch.arange(3) < 3 - n_given)[:, None]
    state = torch.randn(condition.values.shape, generator=torch.Generator().manual_seed(1))
    tau = torch.tensor([0.2, 0.4, 0.6, 0.8], dtype=torch.float64)
    expected = cells(state, tau, condition)
    assert expected[own].abs().max() > 0.05
    torch.testing.assert_close(grid(state, tau, condition)[own], expected[own], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("usual", [math.inf, 2.0])
def test_several_states_of_one_record(usual: float) -> None:
    cells, grid = both(0)
    condition = replace(random_condition(), usual_cells=usual).select(slice(0, 1))
    state = torch.randn(5, *condition.values.shape[1:], generator=torch.Generator().manual_seed(1))
    tau = torch.linspace(0.1, 0.9, 5, dtype=torch.float64)
    expected = cells(state, tau, condition) * condition.query_mask
    torch.testing.assert_close(grid(state, tau, condition), expected, rtol=1e-5, atol=1e-6)


def test_gradients_are_those_of_cells() -> None:
    cells, grid = both(0)
    condition = random_condition()
    state = torch.randn(condition.values.shape, generator=torch.Generator().manual_seed(1))
    tau = torch.tensor([0.2, 0.4, 0.6, 0.8], dtype=torch.float64)
    found = []
    for net in (cells, grid):
        (net(state, tau, condition) * condition.query_mask).square().sum().backward()
        found.append({name: w.grad for name, w in net.named_parameters()})
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: attention in Triton runs there only")
@pytest.mark.parametrize("axis", ["time", "features"])
@pytest.mark.parametrize("with_shared", [False, True])
def test_attention_of_gpus(axis: str, with_shared: bool) -> None:
    generator = torch.Generator("cuda").manual_seed(0)
    own, shared = (
        torch.randn(2, 5, 36, 3 * 64, device="cuda", generator=generator, requires_grad=True) for _ in range(2)
    )
    shown = torch.rand(2, 5, 36, device="cuda", generator=generator) < 0.5
    shown[:, 0], shown[:, :, 0] = True, True  # a cell that is shown in each row
    meet = _MaskedAttention(axis, shown, ~shown if with_shared else None)
    others = shared if with_shared else None
    mine, torchs = meet(own, 8, others), meet._in_rows(own, 8, others)
    torch.testing.assert_close(mine, torchs, rtol=0.01, atol=0.01)
    inputs = [own, shared] if with_shared else [own]
    gradients = (torch.autograd.grad(x.square().sum(), inputs) for x in (mine, torchs))
    for ours, theirs in zip(*gradients, strict=True):
        assert (ours - theirs).norm() < 0.01 * theirs.norm()

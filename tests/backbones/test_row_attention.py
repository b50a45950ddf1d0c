"""Compiled attention against torch's: every row by itself, forward and backward, and nothing where no row is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from tsimpute.backbones import row_attention as module
from tsimpute.backbones.context_cells import ContextCells
from tsimpute.backbones.dual_transformer import DualTransformer
from tsimpute.backbones.present_cells import PresentCells
from tsimpute.backbones.row_attention import Rows, is_compiled, row_attention
from tsimpute.testing._records import SIZES, random_condition, shaken

pytestmark = pytest.mark.skipif(
    not is_compiled(torch.empty(1, 24), 1), reason="NO C COMPILER: compiled attention is not tested"
)


def plain(qkv: Tensor, rows: Rows, n_heads: int, bias: Tensor | None = None) -> Tensor:
    """Row by row with torch's own kernel, in double precision; ``bias`` is added to the scores of each key."""
    n_states, n_tokens, width = qkv.shape
    split = qkv.double().reshape(n_states, n_tokens, 3, n_heads, width // (3 * n_heads))
    out = torch.zeros(n_states, n_tokens, width // 3, dtype=torch.float64)
    for start, length in zip(rows.start, rows.length, strict=True):
        q, k, v = split[:, start : start + length].permute(2, 0, 3, 1, 4)
        read = F.scaled_dot_product_attention(q, k, v, bias).transpose(1, 2)
        out = torch.cat([out[:, :start], read.reshape(n_states, length, -1), out[:, start + length :]], 1)
    return out


def close(found: Tensor, expected: Tensor, tolerance: float = 2e-6) -> None:
    found, expected = found.detach(), expected.detach()
    assert found.dtype == torch.float32
    scale = float(expected.abs().max()) + 1e-30
    assert float((found.double() - expected).abs().max()) <= tolerance * max(scale, 1), scale


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 70), min_size=1, max_size=6),
    gaps=st.lists(st.integers(0, 3), min_size=7, max_size=7),
    n_states=st.integers(1, 3),
    n_heads=st.integers(1, 3),
    head=st.sampled_from([1, 2, 4, 5, 8, 16]),
    size=st.sampled_from([0.1, 1.0, 6.0]),
    seed=st.integers(0, 99),
)
def test_equals_torchs_attention(
    lengths: list[int], gaps: list[int], n_states: int, n_heads: int, head: int, size: float, seed: int
):
    start = np.cumsum([gap + before for gap, before in zip(gaps, [0, *lengths], strict=False)])[: len(lengths)]
    rows = Rows(start, np.array(lengths))
    n_tokens = int(start[-1]) + lengths[-1] + gaps[-1]
    g = torch.Generator().manual_seed(seed)
    qkv = (size * torch.randn(n_states, n_tokens, 3 * n_heads * head, generator=g)).requires_grad_()
    out = row_attention(qkv, rows, n_heads)
    expected = plain(qkv, rows, n_heads)
    rounding = 1 + head * size**2  # of the scores, in single precision
    close(out, expected, 4e-7 * rounding)
    to_out = torch.randn(out.shape, generator=g)
    (found,) = torch.autograd.grad(out, qkv, to_out)
    (wanted,) = torch.autograd.grad(expected, qkv, to_out.double())
    close(found, wanted.detach(), 4e-6 * rounding)
    inside = np.zeros(n_tokens, bool)
    for a, n in zip(start, lengths, strict=True):
        inside[a : a + n] = True
    assert (out[:, ~inside] == 0).all()
    assert (found[:, ~inside] == 0).all()
    with torch.inference_mode():
        assert torch.equal(row_attention(qkv.detach(), rows, n_heads), out)


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), min_size=1, max_size=5),
    n_states=st.integers(1, 3),
    head=st.sampled_from([2, 4, 8]),
    seed=st.integers(0, 99),
)
def test_shared_tokens_are_seen_as_if_they_stood_in_every_row(
    lengths: list[tuple[int, int]], n_states: int, head: int, seed: int
):
    own, shared = np.array(lengths).T
    bias = -np.arange(len(own)) / 2
    rows = Rows(np.cumsum(own) - own, own, np.cumsum(shared) - shared, shared, bias)
    g = torch.Generator().manual_seed(seed)
    qkv = torch.randn(n_states, own.sum(), 6 * head, generator=g).requires_grad_()
    told = torch.randn(shared.sum(), 6 * head, generator=g).requires_grad_()
    out = row_attention(qkv, rows, 2, told)
    expected = []
    for r, (start, length, n) in enumerate(zip(rows.start, own, shared, strict=True)):
        first = rows.start_shared[r]  # type: ignore[index]
        seen = told[first : first + n].expand(n_states, n, -1)
        row = torch.cat([seen, qkv[:, start : start + length]], 1)
        of_others = torch.where(torch.eye(length, dtype=torch.bool), 0.0, bias[r])
        added = torch.cat([torch.zeros(length, n), of_others], 1).double()
        added = torch.cat([torch.zeros(n, n + length), added])
        expected.append(plain(row, Rows.equal(1, n + length), 2, added)[:, n:])
    close(out, torch.cat(expected, 1), 4e-7 * head * 4)
    to_out = torch.randn(out.shape, generator=g)
    found = torch.autograd.grad(out, (qkv, told), to_out)
    wanted = torch.autograd.grad(torch.cat(expected, 1), (qkv, told), to_out.double())
    for a, b in zip(found, wanted, strict=True):
        if b.numel():
            close(a, b, 4e-6 * head * 4)


def test_rows_and_states_do_not_touch_each_other():
    rows = Rows.equal(3, 5)
    qkv = torch.randn(2, 15, 24, generator=torch.Generator().manual_seed(0))
    before = row_attention(qkv, rows, 1)
    qkv[0, 5:10] = 1e4
    after = row_attention(qkv, rows, 1)
    assert torch.equal(after[1], before[1])
    assert torch.equal(after[0, :5], before[0, :5])
    assert torch.equal(after[0, 10:], before[0, 10:])
    assert not torch.equal(after[0, 5:10], before[0, 5:10])


@pytest.mark.parametrize("size", [30.0, 1e3, 1e15])
def test_large_scores_neither_overflow_nor_lose_the_largest(size: float):
    qkv = torch.randn(1, 20, 24, generator=torch.Generator().manual_seed(1))
    qkv[..., :16] *= size
    qkv.requires_grad_()
    out, expected = row_attention(qkv, Rows.equal(1, 20), 1), plain(qkv, Rows.equal(1, 20), 1)
    close(out, expected, 1e-4)
    (found,), (wanted,) = (torch.autograd.grad(x.square().sum(), qkv) for x in (out, expected))
    if size < 1e3:  # beyond, one key takes all, and what is left to learn is rounding
        close(found[..., 16:], wanted[..., 16:].detach(), 1e-3)
    assert found.isfinite().all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "any NaN"])
@pytest.mark.parametrize("channel", [0, 8, 16])
def test_what_is_not_finite_is_not_hidden(bad: float | str, channel: int):
    """Training stops at a loss that is not finite; a NaN must get there. Other rows stay as they are."""
    qkv = torch.randn(1, 12, 24, generator=torch.Generator().manual_seed(1)).requires_grad_()
    clean = row_attention(qkv, Rows.equal(2, 6), 1)
    number = torch.tensor(0x7FC00001, dtype=torch.int32).view(torch.float32) if isinstance(bad, str) else bad
    broken = qkv.detach().clone()
    broken[0, 2, channel : channel + 8] = number
    broken.requires_grad_()
    out = row_attention(broken, Rows.equal(2, 6), 1)
    assert torch.equal(out[0, 6:], clean[0, 6:])
    assert not out[0, :6].isfinite().all()
    (gradient,) = torch.autograd.grad(out.sum(), broken)
    (expected,) = torch.autograd.grad(clean.sum(), qkv)
    assert torch.equal(gradient[0, 6:], expected[0, 6:])
    assert not gradient[0, :6].isfinite().all()


@pytest.mark.parametrize(
    ("rows", "n_shared"),
    [(Rows.equal(3, 5), 0), (Rows(np.array([0]), np.array([4]), np.array([2]), np.array([3])), 4)],
    ids=["too long", "too few shared"],
)  # fmt: skip
def test_rows_of_tokens_that_are_not_there_are_refused(rows: Rows, n_shared: int):
    with pytest.raises(IndexError, match="more tokens than there are"):
        row_attention(torch.zeros(1, 14, 24), rows, 1, torch.zeros(n_shared, 24))


def test_rows_before_the_first_token_are_refused():
    with pytest.raises(IndexError, match="from 0 on, came -1"):
        Rows(np.array([-1]), np.array([3]))


@pytest.mark.parametrize("network", [ContextCells, DualTransformer, PresentCells])
def test_networks_give_the_same_with_and_without_it(network: type, monkeypatch: pytest.MonkeyPatch):
    net, condition = shaken(network(3, **SIZES)), random_condition(4, 3, 40)
    state = torch.randn(4, 3, 40, generator=torch.Generator().manual_seed(1))
    tau = torch.linspace(0.1, 0.9, 4, dtype=torch.float64)

    def outcome() -> list[Tensor]:
        net.zero_grad()
        out = net(state, tau, condition) * condition.query_mask
        out.square().sum().backward()
        return [out.detach(), *(w.grad for w in net.parameters())]

    compiled = outcome()
    monkeypatch.setattr(module, "_library", lambda head: None)
    assert not is_compiled(torch.empty(1, 24), 1)
    for a, b in zip(compiled, outcome(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5 * float(b.abs().max() + 1))


@pytest.mark.parametrize(
    ("qkv", "n_heads"),
    [(torch.empty(1, 24, dtype=torch.float64), 1), (torch.empty(1, 24, dtype=torch.bfloat16), 1),
     (torch.empty(1, 3 * 64), 2), (torch.empty(1, 24, device="meta"), 1)],
    ids=["double", "half", "wide", "elsewhere"],
)  # fmt: skip
def test_what_it_is_not_made_for_is_left_to_torch(qkv: Tensor, n_heads: int):
    assert not is_compiled(qkv, n_heads)


def test_torch_knows_shapes_and_gradient_of_the_compiled_code():
    """So that torch.compile and fake tensors pass through: what is registered agrees with what is computed."""
    g = torch.Generator().manual_seed(0)
    qkv, shared = torch.randn(2, 9, 24, generator=g), torch.randn(4, 24, generator=g)
    rows = Rows(np.array([0, 5]), np.array([5, 4]), np.array([0, 1]), np.array([2, 3]))
    for keeps in (False, True):
        given = (qkv.clone().requires_grad_(keeps), shared.clone().requires_grad_(keeps))
        torch.library.opcheck(module._forward, (*given, *rows.tensors, 1, rows.longest, keeps))


def test_torch_compile_passes_through_it():
    rows, qkv = Rows.equal(3, 4), torch.randn(2, 12, 24, generator=torch.Generator().manual_seed(0))

    def twice(tokens: Tensor) -> Tensor:
        return row_attention(2 * tokens, rows, 1) + 1

    compiled = torch.compile(twice, backend="aot_eager", fullgraph=False)
    for needs_gradient in (False, True):
        own, other = (qkv.clone().requires_grad_(needs_gradient) for _ in range(2))
        expected, found = twice(own), compiled(other)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        if needs_gradient:
            expected.sum().backward()
            found.sum().backward()
            torch.testing.assert_close(other.grad, own.grad)

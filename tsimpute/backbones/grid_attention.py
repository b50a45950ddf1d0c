"""Attention within the short rows of whole grids on a GPU: one program for each row and head, nothing is copied.

Queries, keys and values stand side by side in the channels of a cell, as a linear layer leaves them. Cells of a row
look at those of the same row in ``qkv`` and, where given, in ``shared``. Written in Triton, which comes with torch for
GPUs; products are in TF32.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

_NEVER = tl.constexpr(-1e9)


@triton.jit
def _load(qkv, cell, channel, valid, block: tl.constexpr, width: tl.constexpr):
    at = cell[:, None] * (3 * width) + block * width + channel[None, :]
    return tl.load(qkv + at, mask=valid, other=0.0).to(tl.float32)


@triton.jit
def _scores(q, k, visible, cell, inside, scale):
    """(T, T) scores; cells that are not seen never count, and what is beyond the row not at all."""
    scores = tl.dot(q, tl.trans(k), input_precision="tf32") * scale
    is_seen = tl.load(visible + cell, mask=inside, other=0) != 0
    scores = tl.where(is_seen[None, :], scores, _NEVER)
    return tl.where(inside[None, :], scores, float("-inf"))


@triton.jit
def _cells(n_steps, n_tokens, cell_stride, along_time: tl.constexpr, n_features, size: tl.constexpr):
    """The cells of this program's row, and which of the positions are inside."""
    row = tl.program_id(0)
    if along_time:  # noqa: SIM108
        first = row * n_steps
    else:
        first = (row // n_steps) * n_features * n_steps + row % n_steps
    position = tl.arange(0, size)
    return first.to(tl.int64) + position * cell_stride, position < n_tokens


@triton.jit
def _forward(
    qkv, visible, shared, shared_seen, out, n_features, n_steps, n_tokens, cell_stride, scale,
    along_time: tl.constexpr, has_shared: tl.constexpr, width: tl.constexpr, d: tl.constexpr, size: tl.constexpr,
    padded: tl.constexpr,
):  # fmt: skip
    cell, inside = _cells(n_steps, n_tokens, cell_stride, along_time, n_features, size)
    c = tl.arange(0, padded)
    channel = tl.program_id(1) * d + c
    valid = inside[:, None] & (c < d)[None, :]
    q = _load(qkv, cell, channel, valid, 0, width)
    k, v = _load(qkv, cell, channel, valid, 1, width), _load(qkv, cell, channel, valid, 2, width)
    scores = _scores(q, k, visible, cell, inside, scale)
    top = tl.max(scores, 1)
    if has_shared:
        k2, v2 = _load(shared, cell, channel, valid, 1, width), _load(shared, cell, channel, valid, 2, width)
        scores2 = _scores(q, k2, shared_seen, cell, inside, scale)
        top = tl.maximum(top, tl.max(scores2, 1))
    weights = tl.exp(scores - top[:, None])
    total = tl.sum(weights, 1)
    read = tl.dot(weights, v, input_precision="tf32")
    if has_shared:
        weights2 = tl.exp(scores2 - top[:, None])
        total += tl.sum(weights2, 1)
        read += tl.dot(weights2, v2, input_precision="tf32")
    read = read / total[:, None]
    at = cell[:, None] * width + channel[None, :]
    tl.store(out + at, read.to(out.dtype.element_ty), mask=valid)


@triton.jit
def _store(into, grad, cell, channel, valid, block: tl.constexpr, width: tl.constexpr):
    at = cell[:, None] * (3 * width) + block * width + channel[None, :]
    tl.store(into + at, grad.to(into.dtype.element_ty), mask=valid)


@triton.jit
def _backward(
    qkv, visible, shared, shared_seen, out, grad, of_qkv, to_shared, n_features, n_steps, n_tokens, cell_stride, scale,
    along_time: tl.constexpr, has_shared: tl.constexpr, width: tl.constexpr, d: tl.constexpr, size: tl.constexpr,
    padded: tl.constexpr,
):  # fmt: skip
    cell, inside = _cells(n_steps, n_tokens, cell_stride, along_time, n_features, size)
    c = tl.arange(0, padded)
    channel = tl.program_id(1) * d + c
    valid = inside[:, None] & (c < d)[None, :]
    q = _load(qkv, cell, channel, valid, 0, width)
    k, v = _load(qkv, cell, channel, valid, 1, width), _load(qkv, cell, channel, valid, 2, width)
    at = cell[:, None] * width + channel[None, :]
    g = tl.load(grad + at, mask=valid, other=0.0).to(tl.float32)
    y = tl.load(out + at, mask=valid, other=0.0).to(tl.float32)
    delta = tl.sum(g * y, 1)
    scores = _scores(q, k, visible, cell, inside, scale)
    top = tl.max(scores, 1)
    if has_shared:
        k2, v2 = _load(shared, cell, channel, valid, 1, width), _load(shared, cell, channel, valid, 2, width)
        scores2 = _scores(q, k2, shared_seen, cell, inside, scale)
        top = tl.maximum(top, tl.max(scores2, 1))
    weights = tl.exp(scores - top[:, None])
    total = tl.sum(weights, 1)
    if has_shared:
        weights2 = tl.exp(scores2 - top[:, None])
        total += tl.sum(weights2, 1)
    weights = tl.where(inside[:, None], weights / total[:, None], 0.0)
    of_scores = weights * (tl.dot(g, tl.trans(v), input_precision="tf32") - delta[:, None]) * scale
    to_q = tl.dot(of_scores, k, input_precision="tf32")
    _store(of_qkv, tl.dot(tl.trans(of_scores), q, input_precision="tf32"), cell, channel, valid, 1, width)
    _store(of_qkv, tl.dot(tl.trans(weights), g, input_precision="tf32"), cell, channel, valid, 2, width)
    if has_shared:
        weights2 = tl.where(inside[:, None], weights2 / total[:, None], 0.0)
        of_scores2 = weights2 * (tl.dot(g, tl.trans(v2), input_precision="tf32") - delta[:, None]) * scale
        to_q += tl.dot(of_scores2, k2, input_precision="tf32")
        _store(to_shared, tl.zeros_like(q), cell, channel, valid, 0, width)
        _store(to_shared, tl.dot(tl.trans(of_scores2), q, input_precision="tf32"), cell, channel, valid, 1, width)
        _store(to_shared, tl.dot(tl.trans(weights2), g, input_precision="tf32"), cell, channel, valid, 2, width)
    _store(of_qkv, to_q, cell, channel, valid, 0, width)


_KERNELS: Any = (_forward, _backward)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, visible: Tensor, shared: Tensor | None, shared_seen: Tensor, n_heads: int, axis: str
    ) -> Tensor:  # type: ignore[override]
        b, k, n_steps, channels = qkv.shape
        width = channels // 3
        qkv = qkv.contiguous()
        shared = None if shared is None else shared.contiguous()
        out = qkv.new_empty(b, k, n_steps, width)
        along_time = axis == "time"
        n_tokens, n_rows = (n_steps, b * k) if along_time else (k, b * n_steps)
        d = width // n_heads
        ctx.sizes = (k, n_steps, n_tokens, 1 if along_time else n_steps, 1 / math.sqrt(d))
        ctx.constants = {
            "along_time": along_time, "has_shared": shared is not None, "width": width, "d": d,
            "size": max(16, triton.next_power_of_2(n_tokens)), "padded": max(16, triton.next_power_of_2(d)),
        }  # fmt: skip
        ctx.programs = (n_rows, n_heads)
        other = qkv if shared is None else shared
        _KERNELS[0][ctx.programs](qkv, visible, other, shared_seen, out, *ctx.sizes, **ctx.constants, num_warps=4)
        ctx.save_for_backward(qkv, visible, other, shared_seen, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        qkv, visible, other, shared_seen, out = ctx.saved_tensors
        of_qkv = torch.empty_like(qkv)
        has_shared = ctx.constants["has_shared"]
        to_shared = torch.empty_like(other) if has_shared else of_qkv
        _KERNELS[1][ctx.programs](
            qkv, visible, other, shared_seen, out, grad.contiguous(), of_qkv, to_shared, *ctx.sizes,
            **ctx.constants, num_warps=4,
        )  # fmt: skip
        return of_qkv, None, to_shared if has_shared else None, None, None, None


def grid_attention(
    qkv: Tensor,
    visible: Tensor,
    n_heads: int,
    axis: str,
    shared: Tensor | None = None,
    shared_seen: Tensor | None = None,
) -> Tensor:
    """(B, K, L, D) of what each cell reads of its row along ``axis``, "time" or "features".

    Args:
        qkv: (B, K, L, 3 D) queries, keys and values.
        visible: (B, K, L) uint8, the cells of ``qkv`` that may be looked at.
        shared, shared_seen: the same of others, whose queries ask nothing.
    """
    shared_seen = visible if shared_seen is None else shared_seen
    return _Attention.apply(qkv, visible, shared, shared_seen, n_heads, axis)  # type: ignore[return-value]

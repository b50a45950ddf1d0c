"""What each cell of the network does by itself, fused by torch.compile."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tsimpute.backbones.trunk import AxisTransformer, ResidualBlock


def after_attention(
    cells: Tensor, read: Tensor, merge: Tensor, merge_bias: Tensor, norm: Tensor, norm_bias: Tensor, expand: Tensor,
    expand_bias: Tensor, contract: Tensor, contract_bias: Tensor, norm2: Tensor, norm2_bias: Tensor, dropout: float,
) -> Tensor:  # fmt: skip
    """The rest of ``AxisTransformer.forward``."""
    width = cells.shape[-1:]
    merged = F.dropout(F.linear(read, merge, merge_bias), dropout)
    cells = F.layer_norm(cells + merged, width, norm, norm_bias)
    hidden = F.dropout(F.gelu(F.linear(cells, expand, expand_bias)), dropout)
    forward = F.dropout(F.linear(hidden, contract, contract_bias), dropout)
    return F.layer_norm(cells + forward, width, norm2, norm2_bias)


def gated(
    cells: Tensor, hidden: Tensor, side: Tensor, mid: Tensor, mid_bias: Tensor, out: Tensor, out_bias: Tensor
) -> tuple[Tensor, Tensor]:
    """``ResidualBlock.gated``."""
    gate, signal = (F.linear(hidden, mid, mid_bias) + side).chunk(2, -1)
    residual, skip = F.linear(gate.sigmoid() * signal.tanh(), out, out_bias).chunk(2, -1)
    return (cells + residual) * math.sqrt(0.5), skip


def compile_parts() -> None:
    """Has torch.compile fuse what each cell does by itself, in training; both functions serve all blocks."""
    torch._dynamo.config.cache_size_limit = 64
    of_axis, of_block = (torch.compile(f, dynamic=False) for f in (after_attention, gated))

    def axis_forward(self: AxisTransformer, cells: Tensor, attend: Any) -> Tensor:
        run = of_axis if torch.is_grad_enabled() else after_attention
        read = attend(self.qkv(cells), self.n_heads)
        layers = self.merge, self.norm_attention, self.expand, self.contract, self.norm_feedforward
        dropout = self.dropout.share if self.training else 0.0
        return run(cells, read, *(x for layer in layers for x in (layer.weight, layer.bias)), dropout)

    def block_gated(self: ResidualBlock, cells: Tensor, hidden: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
        run = of_block if torch.is_grad_enabled() else gated
        return run(cells, hidden, side, self.mid.weight, self.mid.bias, self.out.weight, self.out.bias)

    AxisTransformer.forward, ResidualBlock.gated = axis_forward, block_gated  # type: ignore[method-assign]

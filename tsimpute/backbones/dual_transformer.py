"""CSDI's network: attention along time and along features in turn, for every cell of the grid.

Tashiro et al. 2021, Section 5 and Appendix E.1; residual blocks after DiffWave (Kong et al. 2021). Every tensor has
its width last, (B, K, L, D); rows of one axis are views, and only the feature axis needs a copy.
"""

from __future__ import annotations

import math

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional as F

from tsimpute.backbones.embeddings import ProcessTimeEmbedding, clock_embedding
from tsimpute.containers import Condition
from tsimpute.errors import ConfigError


class AxisTransformer(nn.Module):
    """One post-norm transformer layer over the rows of one axis (R, T, D) -> (R, T, D)."""

    def __init__(self, width: int, n_heads: int, width_feedforward: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.norm_attention = nn.LayerNorm(width)
        self.expand = nn.Linear(width, width_feedforward)
        self.contract = nn.Linear(width_feedforward, width)
        self.norm_feedforward = nn.LayerNorm(width)

    def forward(self, rows: Tensor) -> Tensor:
        q, k, v = rearrange(self.qkv(rows), "r t (three h d) -> three r h t d", three=3, h=self.n_heads)
        attended = rearrange(F.scaled_dot_product_attention(q, k, v), "r h t d -> r t (h d)")
        rows = self.norm_attention(rows + self.merge(attended))
        return self.norm_feedforward(rows + self.contract(F.gelu(self.expand(rows))))


class SideProjection(nn.Module):
    """A linear map of what is known of each cell (its time, its feature, whether it is shown) to ``width_out``.

    The map of the concatenated (B, K, L, time + feature + 1) channels is a sum of three small maps, so the
    concatenation is never formed.
    """

    def __init__(self, width_time: int, width_feature: int, width_out: int) -> None:
        super().__init__()
        self.of_time = nn.Linear(width_time, width_out)
        self.of_feature = nn.Linear(width_feature, width_out, bias=False)
        self.of_mask = nn.Parameter(torch.empty(width_out))
        bound = 1 / math.sqrt(width_time + width_feature + 1)
        for weight in self.parameters():
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, clock: Tensor, feature: Tensor, shown: Tensor) -> Tensor:
        """(B, L, T), (K, F), (B, K, L, 1) -> (B, K, L, width_out)."""
        known = self.of_time(clock)[:, None] + self.of_feature(feature)[:, None]
        return torch.addcmul(known, shown, self.of_mask)


class ResidualBlock(nn.Module):
    """Process time in, attention along time then features, a gate steered by the side information."""

    def __init__(self, width: int, n_heads: int, width_tau: int, side: SideProjection) -> None:
        super().__init__()
        self.of_tau = nn.Linear(width_tau, width)
        self.time_axis = AxisTransformer(width, n_heads, 64)
        self.feature_axis = AxisTransformer(width, n_heads, 64)
        self.side = side
        self.mid = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, 2 * width)

    def forward(self, cells: Tensor, tau: Tensor, known: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """(B, K, L, D), (B, T) -> the next block's cells and this block's share of the output."""
        b, k, length, _ = cells.shape
        hidden = cells + self.of_tau(tau)[:, None, None]
        if length > 1:
            hidden = rearrange(self.time_axis(rearrange(hidden, "b k l d -> (b k) l d")), "(b k) l d -> b k l d", b=b)
        if k > 1:
            hidden = rearrange(
                self.feature_axis(rearrange(hidden, "b k l d -> (b l) k d")), "(b l) k d -> b k l d", b=b
            )
        gate, signal = (self.mid(hidden) + self.side(*known)).chunk(2, -1)
        residual, skip = self.out(gate.sigmoid() * signal.tanh()).chunk(2, -1)
        return (cells + residual) * math.sqrt(0.5), skip


class DualTransformer(nn.Module):
    """The dual temporal/feature transformer as vector field or denoiser.

    Args:
        n_features: K; the order of features is part of the model.
        width: channels of a cell.
        n_heads: attention heads; must divide ``width``.
        n_blocks: residual blocks.
        width_time, width_feature, width_tau: channels of the embeddings.
        max_frequency: see ``ProcessTimeEmbedding``; 1e4 for diffusion as CSDI, small for continuous tau.

    Raises:
        ConfigError: sizes that do not fit each other.
    """

    def __init__(
        self,
        n_features: int,
        width: int = 64,
        n_heads: int = 8,
        n_blocks: int = 4,
        width_time: int = 128,
        width_feature: int = 16,
        width_tau: int = 128,
        max_frequency: float = 1e4,
    ) -> None:
        super().__init__()
        if min(n_features, width, n_heads, n_blocks, width_feature) < 1:
            raise ConfigError(
                "dual_transformer: expected n_features, width, n_heads, n_blocks and width_feature of at least 1; "
                f"came {n_features}, {width}, {n_heads}, {n_blocks}, {width_feature}."
            )
        if width % n_heads:
            raise ConfigError(f"n_heads: expected a divisor of width {width}, came {n_heads}.")
        if width_time % 2 or width_time < 2 or width_tau % 2 or width_tau < 4:
            raise ConfigError(
                "dual_transformer: expected an even width_time of at least 2 and an even width_tau of at least 4; "
                f"came {width_time} and {width_tau}."
            )
        self.n_features = n_features
        self.width_time = width_time
        self.of_tau = ProcessTimeEmbedding(width_tau, max_frequency=max_frequency)
        self.feature = nn.Embedding(n_features, width_feature)
        self.enter = nn.Linear(2, width)
        self.blocks = nn.ModuleList(
            ResidualBlock(width, n_heads, width_tau, SideProjection(width_time, width_feature, 2 * width))
            for _ in range(n_blocks)
        )
        self.gather = nn.Linear(width, width)
        self.leave = nn.Linear(width, 1)
        nn.init.zeros_(self.leave.weight)

    def forward(self, state: Tensor, tau: Tensor, condition: Condition) -> Tensor:
        noisy = state * condition.fill_mask
        cells = F.relu(self.enter(torch.stack([condition.values, noisy], -1)))
        clock = clock_embedding(condition.times, self.width_time).to(state.dtype)
        known = clock, self.feature.weight, condition.cond_mask[..., None].to(state.dtype)
        tau = self.of_tau(tau)
        skips = []
        for block in self.blocks:
            cells, skip = block(cells, tau, known)
            skips.append(skip)
        total = sum(skips[1:], skips[0]) / math.sqrt(len(skips))
        return self.leave(F.relu(self.gather(total)))[..., 0]


PLUGIN = DualTransformer

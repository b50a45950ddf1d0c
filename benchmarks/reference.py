"""The arithmetic of CSDI, as a baseline of speed: channels first, a sequence-first transformer layer per axis.

Written from Tashiro et al. 2021 (Sections 4 and 5, Appendix E); it computes what ``DualTransformer`` computes, in the
layout that a direct reading of the paper gives. Parameters bear the names of the released weights files, so that these
load into it and its own weights load into the package.
"""

from __future__ import annotations

import math

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional as F

N_LEVELS = 50


class StepEmbedding(nn.Module):
    """The noise level through a table of sinusoids and two linear layers."""

    table: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        # In this order of operations: at 1e4 radians per level the rounding of an exponent is seen in the result.
        rate = 10.0 ** (torch.arange(width // 2) / (width // 2 - 1) * 4.0)
        angle = torch.arange(N_LEVELS)[:, None] * rate
        self.register_buffer("table", torch.cat([angle.sin(), angle.cos()], 1), persistent=False)
        self.projection1 = nn.Linear(width, width)
        self.projection2 = nn.Linear(width, width)

    def forward(self, level: Tensor) -> Tensor:
        return F.silu(self.projection2(F.silu(self.projection1(self.table[level]))))


def axis_layer(width: int, n_heads: int) -> nn.TransformerEncoder:
    """One post-norm layer on (sequence, rows, width)."""
    layer = nn.TransformerEncoderLayer(width, n_heads, dim_feedforward=64, dropout=0.1, activation="gelu")
    return nn.TransformerEncoder(layer, num_layers=1, enable_nested_tensor=False)


class Block(nn.Module):
    """A gated residual block; (B, C, K * L) in and out, the side information convolved anew in each call."""

    def __init__(self, width: int, n_heads: int, width_side: int, width_step: int) -> None:
        super().__init__()
        self.diffusion_projection = nn.Linear(width_step, width)
        self.cond_projection = nn.Conv1d(width_side, 2 * width, 1)
        self.mid_projection = nn.Conv1d(width, 2 * width, 1)
        self.output_projection = nn.Conv1d(width, 2 * width, 1)
        self.time_layer = axis_layer(width, n_heads)
        self.feature_layer = axis_layer(width, n_heads)

    def forward(self, cells: Tensor, side: Tensor, step: Tensor, k: int) -> tuple[Tensor, Tensor]:
        b, length = len(cells), cells.shape[2] // k
        hidden = cells + self.diffusion_projection(step)[..., None]
        rows = self.time_layer(rearrange(hidden, "b c (k l) -> l (b k) c", k=k))
        hidden = rearrange(rows, "l (b k) c -> b c (k l)", k=k)
        rows = self.feature_layer(rearrange(hidden, "b c (k l) -> k (b l) c", k=k))
        hidden = rearrange(rows, "k (b l) c -> b c (k l)", b=b, l=length)
        gate, signal = (self.mid_projection(hidden) + self.cond_projection(side)).chunk(2, 1)
        residual, skip = self.output_projection(gate.sigmoid() * signal.tanh()).chunk(2, 1)
        return (cells + residual) / math.sqrt(2), skip


class Denoiser(nn.Module):
    """(B, 2, K, L) shown and noisy values, (B, side, K, L), (B,) levels -> the noise, (B, K, L)."""

    def __init__(self, width: int, n_heads: int, n_blocks: int, width_side: int, width_step: int) -> None:
        super().__init__()
        self.diffusion_embedding = StepEmbedding(width_step)
        self.input_projection = nn.Conv1d(2, width, 1)
        self.residual_layers = nn.ModuleList(Block(width, n_heads, width_side, width_step) for _ in range(n_blocks))
        self.output_projection1 = nn.Conv1d(width, width, 1)
        self.output_projection2 = nn.Conv1d(width, 1, 1)

    def forward(self, channels: Tensor, side: Tensor, level: Tensor) -> Tensor:
        k = channels.shape[2]
        cells = F.relu(self.input_projection(channels.flatten(2)))
        side, step = side.flatten(2), self.diffusion_embedding(level)
        skips = []
        for block in self.residual_layers:
            cells, skip = block(cells, side, step, k)
            skips.append(skip)
        total = torch.stack(skips).sum(0) / math.sqrt(len(skips))
        return rearrange(self.output_projection2(F.relu(self.output_projection1(total))), "b 1 (k l) -> b k l", k=k)


class ReferenceNetwork(nn.Module):
    """CSDI with the schedule of its paper: 50 levels, square roots of beta evenly spaced from 1e-4 to 0.5."""

    def __init__(
        self,
        n_features: int,
        width: int = 64,
        n_heads: int = 8,
        n_blocks: int = 4,
        width_time: int = 128,
        width_feature: int = 16,
        width_step: int = 128,
    ) -> None:
        super().__init__()
        self.width_time = width_time
        self.embed_layer = nn.Embedding(n_features, width_feature)
        self.diffmodel = Denoiser(width, n_heads, n_blocks, width_time + width_feature + 1, width_step)
        self.beta = torch.linspace(1e-4**0.5, 0.5**0.5, N_LEVELS) ** 2
        self.alpha_bar = torch.cumprod(1 - self.beta, 0)

    def side_information(self, times: Tensor, cond_mask: Tensor) -> Tensor:
        """(B, time + feature + 1, K, L): embedded clock, embedded feature, whether the cell is shown."""
        _, k, length = cond_mask.shape
        rate = 10000.0 ** (-torch.arange(0, self.width_time, 2) / self.width_time)
        angle = times[..., None] * rate
        clock = rearrange(torch.stack([angle.sin(), angle.cos()], -1), "b l half two -> b (half two) 1 l")
        feature = rearrange(self.embed_layer.weight, "k c -> 1 c k 1")
        parts = clock.expand(-1, -1, k, -1), feature.expand(len(times), -1, -1, length), cond_mask[:, None].float()
        return torch.cat(parts, 1)

    def forward(self, noisy: Tensor, level: Tensor, values: Tensor, cond_mask: Tensor, side: Tensor) -> Tensor:
        """The noise in ``noisy`` (B, K, L) at ``level`` (B,); noise stands at every cell that is not shown."""
        channels = torch.stack([values * cond_mask, noisy * ~cond_mask], 1)
        return self.diffmodel(channels, side, level)

    def loss(self, values: Tensor, cond_mask: Tensor, target_mask: Tensor, times: Tensor) -> Tensor:
        """Mean squared error of the noise at the targets, each record at a level drawn for it (Section 4.2)."""
        level = torch.randint(N_LEVELS, (len(values),))
        noise = torch.randn_like(values)
        alpha_bar = self.alpha_bar[level][:, None, None]
        noisy = alpha_bar.sqrt() * values + (1 - alpha_bar).sqrt() * noise
        found = self(noisy, level, values, cond_mask, self.side_information(times, cond_mask))
        return ((noise - found) * target_mask).square().sum() / target_mask.sum()

    @torch.no_grad()
    def draw(self, values: Tensor, cond_mask: Tensor, times: Tensor, n_calls: int = N_LEVELS) -> Tensor:
        """One draw of all records by ancestral sampling (Section 3.1); ``n_calls`` ends it early, to measure a part."""
        side = self.side_information(times, cond_mask)
        state = torch.randn_like(values)
        for at in list(reversed(range(N_LEVELS)))[:n_calls]:
            noise = self(state, torch.full((len(values),), at), values, cond_mask, side)
            beta, alpha_bar = self.beta[at], self.alpha_bar[at]
            state = (state - beta / (1 - alpha_bar).sqrt() * noise) / (1 - beta).sqrt()
            if at:
                variance = (1 - self.alpha_bar[at - 1]) / (1 - alpha_bar) * beta
                state = state + variance.sqrt() * torch.randn_like(state)
        return torch.where(cond_mask, values, state)

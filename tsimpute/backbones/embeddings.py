"""Fixed embeddings: of the series' own clock, and of process time."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def clock_embedding(times: Tensor, width: int) -> Tensor:
    """(B, L, width) sinusoids of the series' clock, sine and cosine interleaved (Appendix E.1, Tashiro et al. 2021).

    Args:
        times: (B, L) real numbers, in the dtype of the result; grid steps where training was on a regular grid.
        width: even number of channels.
    """
    rate = 1.0 / torch.pow(10000.0, torch.arange(0, width, 2, device=times.device) / width)
    angle = times[..., None] * rate.to(times.dtype)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)


class ProcessTimeEmbedding(nn.Module):
    """Process time through sinusoids and a two-layer perceptron (DiffWave, Kong et al. 2021).

    Time is put on the axis of ``n_levels`` noise levels, ``position = n_levels * (1 - tau) - 1``: the discrete level of
    a diffusion with as many steps, and any real number in between. The position is found in float64, so that the level
    ``i`` at ``tau = 1 - (i + 1) / n_levels`` is the integer ``i`` to 1e-14.

    Args:
        width: channels of the sinusoids and of the result.
        n_levels: noise levels that span the unit interval of tau.
        max_frequency: the fastest sinusoid, in radians per level. CSDI has 1e4, which tells integers apart but is
            noise between them; a process with continuous tau needs a small one.
    """

    frequency: Tensor

    def __init__(self, width: int, n_levels: int = 50, max_frequency: float = 1e4) -> None:
        super().__init__()
        self.n_levels = n_levels
        exponent = torch.arange(width // 2) / (width // 2 - 1) * 4.0
        self.register_buffer("frequency", 10.0**exponent * (max_frequency / 1e4), persistent=False)
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, tau: Tensor) -> Tensor:
        """(B,) float64 on the CPU -> (B, width)."""
        position = (self.n_levels * (1 - tau.double()) - 1).float().to(self.frequency.device)
        angle = position[:, None] * self.frequency
        hidden = torch.cat([angle.sin(), angle.cos()], -1)
        return nn.functional.silu(self.second(nn.functional.silu(self.first(hidden))))

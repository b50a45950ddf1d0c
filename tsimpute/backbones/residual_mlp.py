"""A residual multilayer perceptron for records of one step: rows of a table, points in space.

The network that Simkus and Gutmann 2025 use for tables and for densities in two dimensions: four blocks of width 256.
Its inputs are those of the other backbones, one number per feature each: the noisy state of the queried cells, what is
known of the other ones, which cells are visible, and which are queried. (The paper's has no mask of queries; with it
the network can tell a queried cell whose state is near 0 from one that is neither known nor queried.) The embedding of
process time is concatenated to them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tsimpute.backbones.base import VectorField
from tsimpute.backbones.embeddings import ProcessTimeEmbedding
from tsimpute.core.containers import Condition
from tsimpute.errors import ConfigError

_INPUTS = 4  # numbers per feature


class _Block(nn.Module):
    """``h + W2 relu(W1 h)``."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + self.second(F.relu(self.first(hidden)))


class ResidualMLP(nn.Module):
    """Linear, ReLU, residual blocks with a ReLU after each, linear; for records of one step.

    Args:
        n_features: K; the order of features is part of the model.
        width: of the hidden layers.
        n_blocks: residual blocks of two layers each.
        width_tau: channels of the embedding of process time.
        max_frequency: see ``ProcessTimeEmbedding``.
        n_given: known covariates among the features; they are inputs like any other visible cell.

    Raises:
        ConfigError: a size below 1, or an odd ``width_tau``.
    """

    max_length = 1

    def __init__(
        self,
        n_features: int,
        width: int = 256,
        n_blocks: int = 4,
        width_tau: int = 128,
        max_frequency: float = 1e4,
        n_given: int = 0,
    ) -> None:
        super().__init__()
        if min(n_features, width, n_blocks) < 1 or width_tau % 2 or width_tau < 4 or not 0 <= n_given < n_features:
            raise ConfigError(
                "residual_mlp: expected n_features, width and n_blocks of at least 1, an even width_tau of at least 4 "
                f"and n_given below n_features; came {n_features}, {width}, {n_blocks}, {width_tau}, {n_given}."
            )
        self.of_tau = ProcessTimeEmbedding(width_tau, max_frequency=max_frequency)
        self.enter = nn.Linear(_INPUTS * n_features + width_tau, width)
        self.blocks = nn.ModuleList(_Block(width) for _ in range(n_blocks))
        self.leave = nn.Linear(width, n_features)

    def forward(self, state: Tensor, tau: Tensor, condition: Condition) -> Tensor:
        return self.condition_on(condition)(state, tau)

    def condition_on(self, condition: Condition) -> VectorField:
        if condition.values.shape[2] != self.max_length:
            raise ConfigError(
                f"network.name: residual_mlp is for records of one step, came {condition.values.shape[2]} steps. "
                "Choose another, such as context_cells."
            )
        known, visible, queried = (
            x[..., 0].to(condition.values.dtype) for x in (condition.known, condition.cond_mask, condition.query_mask)
        )
        fixed = torch.cat([known, visible, queried], -1)

        def field(state: Tensor, tau: Tensor) -> Tensor:
            rows = fixed.expand(len(state), -1)
            hidden = F.relu(self.enter(torch.cat([state[..., 0] * queried, rows, self.of_tau(tau)], -1)))
            for block in self.blocks:
                hidden = F.relu(block(hidden))
            return self.leave(hidden)[..., None]

        return field

    def bytes_per_row(self, condition: Condition) -> int:
        return 4 * (2 * self.enter.in_features + 4 * self.enter.out_features)

    def bytes_once(self, condition: Condition) -> int:
        return 0


PLUGIN = ResidualMLP

"""CSDI's network: attention along time and along features in turn, for every cell of the grid.

Tashiro et al. 2021, Section 5 and Appendix E.1. Cells are (R, K, L, D); rows of the time axis are views, and only the
feature axis needs a copy.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tsimpute.backbones.base import VectorField
from tsimpute.backbones.embeddings import clock_embedding
from tsimpute.backbones.trunk import Grid, Trunk
from tsimpute.core.containers import Condition


class DualTransformer(Trunk):
    """The dual temporal/feature transformer on the whole grid; a cell that is not there is a blank one.

    Args, Raises: see ``Trunk``.
    """

    def condition_on(self, condition: Condition) -> VectorField:
        clock = clock_embedding(condition.times, self.width_time).to(condition.values.dtype)
        clock = torch.cat([clock, condition.values[:, self.n_features - self.n_given :].mT], -1)
        layout = Grid(clock, self.feature.weight, condition.cond_mask[..., None].to(condition.values.dtype))
        side_information, known_inputs = self.side_information(layout), self.inputs_of(condition)

        def field(state: Tensor, tau: Tensor) -> Tensor:
            noisy = state * condition.query_mask
            inputs = torch.stack([*(of_cells.expand_as(noisy) for of_cells in known_inputs), noisy], -1)
            return self.forward_tokens(inputs, tau, side_information, layout)

        return field

    def bytes_per_row(self, condition: Condition) -> int:
        return condition.values[0].numel() * self.bytes_per_cell


PLUGIN = DualTransformer

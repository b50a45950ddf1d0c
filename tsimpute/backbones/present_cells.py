"""The dual transformer of CSDI computed on present cells alone: those that are shown and those to be filled.

Blank cells carry no tokens, so cost follows what is there and a result does not depend on padding. Where every cell is
present the network is ``DualTransformer``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tsimpute.backbones.base import VectorField
from tsimpute.backbones.tokens import Tokens
from tsimpute.backbones.trunk import Trunk
from tsimpute.core.containers import Condition


class PresentCells(Trunk):
    """The weights of ``DualTransformer``, in a network where no cell looks at a blank one.

    Args, Raises: see ``Trunk``.
    """

    def condition_on(self, condition: Condition) -> VectorField:
        present = condition.layout.visible | condition.layout.queried
        tokens = Tokens(condition, present, condition.cond_mask, self.width_time, self.feature.weight, self.n_given)
        side_information = self.side_information(tokens)
        known_inputs, to_fill = [tokens.take(grid) for grid in self.inputs_of(condition)], 1 - tokens.marked

        def field(state: Tensor, tau: Tensor) -> Tensor:
            noisy = tokens.take(state) * to_fill
            inputs = torch.stack([*(of_cells.expand_as(noisy) for of_cells in known_inputs), noisy], -1)
            return tokens.put(self.forward_tokens(inputs, tau, side_information, tokens), state)

        return field

    def bytes_per_row(self, condition: Condition) -> int:
        n_cells = int((condition.layout.visible | condition.layout.queried)[0].sum())
        return n_cells * self.bytes_per_cell * 5 // 4  # and the copies of reordering


PLUGIN = PresentCells

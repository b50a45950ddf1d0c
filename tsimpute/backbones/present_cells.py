"""The dual transformer of CSDI computed on present cells alone: those that are shown and those to be filled.

Blank cells carry no tokens, so cost follows what is there and a result does not depend on padding. Where every cell is
present the network is ``DualTransformer``.
"""

from __future__ import annotations

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
        tokens = Tokens(self, condition, present, condition.cond_mask)
        return self.field_on(tokens, condition, 1 - tokens.marked)

    def bytes_per_row(self, condition: Condition) -> int:
        n_cells = int((condition.layout.visible | condition.layout.queried)[0].sum())
        return n_cells * self.bytes_per_cell * 5 // 4  # and the copies of reordering


PLUGIN = PresentCells

"""A dual transformer whose context is the visible cells: they attend to each other, queried cells to all of their row.

The weights and blocks are those of ``DualTransformer``; only the attention masks differ. Visible cells attend neither
to queried cells nor to the process time (they stand at 1, where data are). So their keys and values are computed once
per record, as in a KV cache, for all samples and steps, and an evaluation costs as much as there are queried cells.
Blank cells have no tokens.

With many queried cells, attention among these dominates. So, in dense records, a negative bias is added to the
attention logits of queried cells with each other where these are many (see ``RaggedAttention``). A network that is
trained with the bias throughout adapts to it; for one that is trained without, it hurts where records are as dense as
in training.

Measured with the weights of ``results/physionet2012/laptop``, trained with the bias in the last tenth, every missing
cell queried (60 validation stays, 10 samples): with 10 % held out the bias lowers CRPS from 0.189 to 0.184; with 90 %
held out it raises CRPS from 0.361 to 0.402, while coverage of the 90 % interval rises from 76 to 87 %.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tsimpute.backbones.base import VectorField
from tsimpute.backbones.row_attention import is_compiled
from tsimpute.backbones.tokens import RaggedAttention, Tokens
from tsimpute.backbones.trunk import Trunk
from tsimpute.core.containers import Condition


class ContextCells(Trunk):
    """The weights of ``DualTransformer``; queried cells attend to visible ones, and not the other way round.

    Args, Raises: see ``Trunk``.
    """

    def condition_on(self, condition: Condition) -> VectorField:
        visible, queried = (
            Tokens(self, condition, mask, condition.query_mask)
            for mask in (condition.layout.visible, condition.layout.queried)
        )
        context = [qkv[0] for qkv in self.context_of(visible, condition)]  # (T, 3 D) each
        n_own = self.n_features - self.n_given
        present = (condition.layout.visible | condition.layout.queried)[:, :n_own]
        # Records with a quarter more visible and queried cells than training records have.
        has_logit_bias = (present.sum((1, 2)) > 1.25 * condition.usual_cells)[queried.record_of]
        rows_of_axes = zip(queried.row_of, visible.row_of, strict=True)
        queried.attend = [RaggedAttention(*rows, has_logit_bias) for rows in rows_of_axes]
        return self.field_on(queried, condition, context=context)

    def bytes_per_row(self, condition: Condition) -> int:
        attention: Any = self.blocks[0].time_axis
        queried, visible = condition.layout.queried[0], self._visible(condition)
        if is_compiled(attention.qkv.weight.T, attention.n_heads):
            return int(queried.sum()) * self.bytes_per_cell * 5 // 4  # and the copies of reordering
        cells = queried | visible  # each row of states has a copy of visible cells and of the mask
        masks = sum(int((cells.sum(axis) ** 2).sum()) for axis in (0, 1))
        return int(cells.sum()) * self.bytes_per_cell * 5 // 4 + 4 * masks

    def bytes_once(self, condition: Condition) -> int:
        # A part of it is free again before the first sample.
        return int(self._visible(condition).sum()) * self.bytes_per_cell * 7 // 8

    def _visible(self, condition: Condition) -> np.ndarray:
        """(K, L) bool, of the first record."""
        given = np.arange(self.n_features) >= self.n_features - self.n_given
        return condition.layout.visible[0] & ~given[:, None]


PLUGIN = ContextCells

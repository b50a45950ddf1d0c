"""A dual transformer whose context is the shown cells: they look at each other, cells to fill look at all of their row.

The weights and blocks are those of ``DualTransformer``; what differs is who looks at whom. Shown cells see neither the
cells to fill nor the process time (they stand at 1, where data are), so what they say is computed once per record and
kept for all draws and all steps: an evaluation costs as much as there are cells to fill. And what is read off a record
does not change with how many cells are asked for. Blank cells carry no tokens.

With many queried cells, attention among these dominates. So, in dense records, a negative bias is added to the
attention logits of queried cells with each other where these are many (see ``RaggedAttention``). A network that is
trained with the bias throughout adapts to it; for one that is trained without, it hurts where records are as dense as
in training.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tsimpute.backbones.base import VectorField
from tsimpute.backbones.row_attention import is_compiled
from tsimpute.backbones.tokens import RaggedAttention, Tokens
from tsimpute.backbones.trunk import Attend, Trunk
from tsimpute.core.containers import Condition


class ContextCells(Trunk):
    """The weights of ``DualTransformer``; cells to fill look at shown ones, and not the other way round.

    Args, Raises: see ``Trunk``.
    """

    def condition_on(self, condition: Condition) -> VectorField:
        shown, asked = (
            Tokens(condition, mask, condition.query_mask, self.width_time, self.feature.weight, self.n_given)
            for mask in (condition.cond_mask, condition.query_mask)
        )
        context = self._context(condition, shown)
        has_logit_bias = self._dense_records(condition)[asked.record_of]
        attentions = [RaggedAttention(*rows, has_logit_bias) for rows in zip(asked.row_of, shown.row_of, strict=True)]
        side_information, known_inputs = (
            self.side_information(asked),
            [asked.take(grid) for grid in self.inputs_of(condition)],
        )

        def field(state: Tensor, tau: Tensor) -> Tensor:
            kv_cache = iter(context)
            tokens = asked.attending(
                [lambda qkv, n_heads, meet=meet: meet(qkv, n_heads, next(kv_cache)) for meet in attentions]
            )
            noisy = tokens.take(state)
            inputs = torch.stack([*(of_cells.expand_as(noisy) for of_cells in known_inputs), noisy], -1)
            return tokens.put(self.forward_tokens(inputs, tau, side_information, tokens), state)

        return field

    def _context(self, condition: Condition, shown: Tokens) -> list[Tensor]:
        """(T, 3 D) queries, keys and values of shown cells, in the order in which the blocks' axes ask for them."""
        kv_cache: list[Tensor] = []

        def keeping(meet: RaggedAttention) -> Attend:
            def attend(qkv: Tensor, n_heads: int) -> Tensor:
                kv_cache.append(qkv[0])
                return meet(qkv, n_heads)

            return attend

        tokens = shown.attending([keeping(RaggedAttention(rows)) for rows in shown.row_of])
        values = tokens.take(condition.values)
        blank = [torch.zeros_like(values)] * (self.enter.in_features - 1)
        cells = F.relu(self.enter(torch.stack([values, *blank], -1)))
        tau = self.of_tau(torch.ones(len(condition), dtype=torch.float64))
        blocks: list[Any] = list(self.blocks)
        for block in blocks[:-1]:
            cells, _ = block.gated(cells, block.along_axes(cells, tau, tokens), block.side(tokens))

        def append_kv(turned: Tensor, _: Attend) -> Tensor:
            kv_cache.append(blocks[-1].feature_axis.qkv(turned)[0])
            return turned

        tokens.along_features(append_kv, blocks[-1].along_time(cells, tau, tokens))  # what they read is asked by none
        return kv_cache

    def bytes_per_row(self, condition: Condition) -> int:
        attention: Any = self.blocks[0].time_axis
        asked, shown = condition.query_mask[0], self._shown(condition)
        if is_compiled(attention.qkv.weight.T, attention.n_heads):
            return int(asked.sum()) * self.bytes_per_cell * 5 // 4  # and the copies of reordering
        cells = asked | shown  # each row of states gets its copy of shown cells, and of who looks at whom
        masks = sum(int(cells.sum(axis).square().sum()) for axis in (0, 1))
        return int(cells.sum()) * self.bytes_per_cell * 5 // 4 + 4 * masks

    def bytes_once(self, condition: Condition) -> int:
        return int(self._shown(condition).sum()) * self.bytes_per_cell * 7 // 8  # gone, in part, before the first draw

    def _shown(self, condition: Condition) -> Tensor:
        """(K, L) bool, of the first record."""
        given = torch.arange(self.n_features, device=condition.cond_mask.device) >= self.n_features - self.n_given
        return condition.cond_mask[0] & ~given[:, None]

    def _dense_records(self, condition: Condition) -> np.ndarray:
        """(B,) bool: whether a quarter more cells are looked at, shown or to be filled, than training records hold."""
        looked_at = (condition.cond_mask | condition.query_mask)[:, : self.n_features - self.n_given]
        return (looked_at.sum((1, 2)) > 1.25 * condition.usual_cells).cpu().numpy()


PLUGIN = ContextCells

"""The function of ``ContextCells`` on whole grids: every cell is computed, masks say who looks at whom.

Its weights are those of ``ContextCells`` and its output is the same at the cells to fill. Shapes depend on the number
of records, features and steps alone and never on a mask, which is what a GPU wants: no index is found on the CPU, and
a training step can be captured once and replayed. On a CPU ``ContextCells`` is many times faster where few cells are
known.
"""

from __future__ import annotations

import importlib.util
import math
from functools import cache, cached_property
from typing import Any

import torch
from einops import rearrange
from torch import Tensor
from torch.nn import functional as F

from tsimpute.backbones.base import VectorField
from tsimpute.backbones.trunk import Axis, Grid, Trunk
from tsimpute.core.containers import Condition

_NEVER = -1e9
"""Added to the score of a cell that may not be looked at; finite, so that a row without any other stays finite."""


class ContextGrid(Trunk):
    """The weights of ``ContextCells``, all cells of the grid computed.

    Args, Raises: see ``Trunk``.
    """

    def condition_on(self, condition: Condition) -> VectorField:
        tokenised = torch.arange(self.n_features, device=condition.values.device) < self.n_features - self.n_given
        visible, queried = (mask & tokenised[:, None] for mask in (condition.cond_mask, condition.query_mask))
        dense_records = None
        if math.isfinite(condition.usual_cells):
            dense_records = (visible | queried).sum((1, 2)) > 1.25 * condition.usual_cells
        grid = _Whole(self, condition, condition.query_mask)
        grid.queried = queried
        grid.attend = [_MaskedAttention(axis, visible) for axis in ("time", "features")]
        context = self.context_of(grid, condition)
        grid.attend = [_MaskedAttention(axis, visible, queried, dense_records) for axis in ("time", "features")]
        return self.field_on(grid, condition, context=context)

    def bytes_per_row(self, condition: Condition) -> int:
        """Beside cells, the scores of all heads: each cell with all of its row, shown and to be filled."""
        attention: Any = self.blocks[0].time_axis
        _, k, n_steps = condition.values.shape
        scores = 4 * attention.n_heads * 2 * max(k, n_steps)
        return condition.values[0].numel() * (2 * self.bytes_per_cell + 2 * scores)

    def bytes_once(self, condition: Condition) -> int:
        return self.bytes_per_row(condition)


class _Whole(Grid):
    """A grid whose attention gets (R, K, L, 3 D), not rows; what is put back is 0 outside of ``queried``."""

    queried: Tensor

    def put(self, of_cells: Tensor, like: Tensor) -> Tensor:
        return of_cells * self.queried

    def along_time(self, axis: Axis, cells: Tensor) -> Tensor:
        return axis(cells, self.attend[0]) if cells.shape[2] > 1 else cells

    def along_features(self, axis: Axis, cells: Tensor) -> Tensor:
        return axis(cells, self.attend[1]) if cells.shape[1] > 1 else cells


class _MaskedAttention:
    """Attention of cells to the visible ones of their row, and, with ``queried``, to these as well.

    Args:
        axis: "time": rows are the steps of a feature; "features": the features of a step.
        visible, queried: (B, K, L) bool.
        dense_records: (B,) bool; in these records logits of queried cells with each other get a bias, see
            ``tokens.RaggedAttention``; None = in none.
    """

    def __init__(
        self, axis: str, visible: Tensor, queried: Tensor | None = None, dense_records: Tensor | None = None
    ) -> None:
        self.axis, self.visible, self.queried, self.dense_records = axis, visible, queried, dense_records

    def __call__(self, qkv: Tensor, n_heads: int, shared: Tensor | None = None) -> Tensor:
        """(R, K, L, 3 D), and the same of shown cells, R or 1 of them -> (R, K, L, D)."""
        if shared is not None:
            shared = shared.expand(len(qkv), -1, -1, -1)
        if qkv.is_cuda and self.dense_records is None and has_triton():
            from tsimpute.backbones.grid_attention import grid_attention

            looked_at, visible = (x.expand(len(qkv), -1, -1).contiguous() for x in self._bytes)
            return grid_attention(qkv, looked_at, n_heads, self.axis, shared, visible)
        return self._in_rows(qkv, n_heads, shared)

    @cached_property
    def _bytes(self) -> tuple[Tensor, Tensor]:
        """The cells of the queries themselves, and shown ones, that may be looked at, as bytes."""
        visible = self.visible.to(torch.uint8)
        return (visible if self.queried is None else self.queried.to(torch.uint8)), visible

    def _in_rows(self, qkv: Tensor, n_heads: int, shared: Tensor | None) -> Tensor:
        """The same with torch's kernel."""
        rows = "(b k) h l d" if self.axis == "time" else "(b l) h k d"
        pattern = f"b k l (three h d) -> three {rows}"
        q, k, v = rearrange(qkv, pattern, three=3, h=n_heads)
        if shared is not None:
            _, keys, values = rearrange(shared, pattern, three=3, h=n_heads)
            k, v = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        read = F.scaled_dot_product_attention(q, k, v, self._mask(len(qkv)).to(q.dtype))
        return rearrange(read, f"{rows} -> b k l (h d)", b=len(qkv))

    def _mask(self, n_records: int) -> Tensor:
        """(rows, 1, tokens or 1, keys) to be added to scores: of shown cells, then of those to fill."""
        visible = self._mask_rows(self.visible)
        mask = torch.where(visible, 0.0, _NEVER)[:, None]
        if self.queried is not None:
            queried = self._mask_rows(self.queried)
            of_queried = torch.where(queried, 0.0, _NEVER)[:, None]
            if self.dense_records is not None:
                in_dense = self.dense_records[:, None].expand(-1, len(visible) // len(self.dense_records)).flatten()
                logit_bias = (2 * queried.sum(1) / (visible.sum(1) + 1)).clamp(min=1).log() * in_dense
                others = ~torch.eye(queried.shape[1], dtype=torch.bool, device=queried.device)
                of_queried = of_queried - logit_bias[:, None, None] * others
            mask = torch.cat([mask.expand(-1, of_queried.shape[1], -1), of_queried], -1)
        return mask.repeat(n_records // len(self.visible), 1, 1)[:, None]

    def _mask_rows(self, mask: Tensor) -> Tensor:
        return (mask if self.axis == "time" else mask.mT).flatten(0, 1)


@cache
def has_triton() -> bool:
    """Whether Triton is there, as it is with torch for GPUs."""
    return importlib.util.find_spec("triton") is not None


PLUGIN = ContextGrid

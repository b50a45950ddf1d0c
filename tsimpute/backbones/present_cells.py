"""The dual transformer of CSDI computed on present cells alone: those that are shown and those to be filled.

Blank cells carry no tokens, so cost follows what is there and a result does not depend on padding. Rows of both axes
are packed into bins of one length (see ``packing``); where every cell is present the network is ``DualTransformer``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tsimpute.backbones.base import Field
from tsimpute.backbones.embeddings import clock_embedding
from tsimpute.backbones.packing import Packing, pack
from tsimpute.backbones.row_attention import Rows, is_compiled, row_attention
from tsimpute.backbones.trunk import AxisTransformer, Layout, Trunk, attention
from tsimpute.containers import Condition


class PresentCells(Trunk):
    """The weights of ``DualTransformer``, in a network where no cell looks at a blank one.

    Args, Raises: see ``Trunk``.
    """

    def bind(self, condition: Condition) -> Field:
        layout = _Packed(condition, self.width_time, self.feature.weight)
        sides = self.sides(layout)
        known, to_fill = layout.take(condition.values), 1 - layout.shown

        def field(state: Tensor, tau: Tensor) -> Tensor:
            noisy = layout.take(state) * to_fill
            inputs = torch.stack([known.expand_as(noisy), noisy], -1)
            return layout.put(self.through(inputs, tau, sides, layout), state)

        return field

    def bytes_per_row(self, condition: Condition) -> int:
        n_cells = int((condition.cond_mask | condition.fill_mask)[0].sum())
        return n_cells * self.bytes_per_cell * 3 // 2  # positions without a cell, and the copies of reordering


class _Packed(Layout):
    """Cells (S, P, D): P positions packed by the rows of the time axis, S states of the same records.

    With one record the rows of a state are S draws of it; with B records S = 1. Positions without a cell take part in
    no row with one, so they carry no information and no gradient.
    """

    def __init__(self, condition: Condition, width_time: int, feature: Tensor) -> None:
        mask = (condition.cond_mask | condition.fill_mask).cpu().numpy()
        record, k, step = np.nonzero(mask)
        self.n_records, self.n_features, self.n_steps = mask.shape
        self.n_cells = mask.size  # of the grid; the one after the last stands for positions without a cell
        time_rows = pack(record * self.n_features + k)
        feature_rows = pack(record * self.n_steps + step)
        self.device = condition.values.device
        n, m = time_rows.n_positions, feature_rows.n_positions
        at, other = time_rows.position, feature_rows.position

        def laid_out(values: np.ndarray, size: int, where: np.ndarray, elsewhere: int = 0) -> Tensor:
            found = np.full(size, elsewhere)
            found[where] = values
            return torch.from_numpy(found).to(self.device)

        self.cell = laid_out(np.flatnonzero(mask), n, at, self.n_cells)
        # As a matrix of 0 and 1: the backward of a gather adds row by row, many times slower than a product.
        self.of_record = F.one_hot(laid_out(record, n, at), self.n_records).to(condition.values.dtype)
        self.k = laid_out(k, n, at)
        self.shown = self.take(condition.cond_mask.to(condition.values.dtype))
        self.to_features, self.to_times = laid_out(at, m, other), laid_out(other, n, at)
        self.blank_times = _absent(at, n).to(self.device)
        self.blank_features = _absent(other, m).to(self.device)
        self.attend_in_time = _Attention(time_rows, self.device)
        self.attend_in_features = _Attention(feature_rows, self.device)
        clock, which = torch.unique(condition.times, return_inverse=True)
        self.when = laid_out(which.cpu().numpy()[record, step], n, at)
        self.clock = clock_embedding(clock, width_time).to(condition.values.dtype)
        self.feature = feature

    def take(self, grid: Tensor) -> Tensor:
        """(R, K, L) -> (S, P), 0 where a position has no cell."""
        flat = grid.reshape(-1, self.n_cells)
        return F.pad(flat, (0, 1)).index_select(1, self.cell)

    def put(self, of_cells: Tensor, like: Tensor) -> Tensor:
        """(S, P) -> the shape of ``like``, 0 where there is no cell."""
        flat = of_cells.new_zeros(len(of_cells), self.n_cells + 1).index_copy(1, self.cell, of_cells)
        return flat[:, : self.n_cells].reshape(like.shape)

    def along_time(self, axis: AxisTransformer, cells: Tensor) -> Tensor:
        return axis(cells, self.attend_in_time) if self.n_steps > 1 else cells

    def along_features(self, axis: AxisTransformer, cells: Tensor) -> Tensor:
        if self.n_features == 1:
            return cells
        turned = _Reorder.apply(cells, self.to_features, self.to_times, self.blank_times)
        turned = axis(turned, self.attend_in_features)
        return _Reorder.apply(turned, self.to_times, self.to_features, self.blank_features)

    def to_cells(self, of_record: Tensor) -> Tensor:
        rows = of_record.reshape(-1, self.n_records, of_record.shape[-1])
        return rows if self.n_records == 1 else self.of_record @ rows

    def side(
        self, of_time: Callable[[Tensor], Tensor], of_feature: Callable[[Tensor], Tensor], of_mask: Tensor
    ) -> Tensor:
        known = F.embedding(self.when, of_time(self.clock)) + F.embedding(self.k, of_feature(self.feature))
        return torch.addcmul(known, self.shown[..., None], of_mask)


class _Bins:
    """Bins of one size and who may look at whom in them."""

    def __init__(self, row_of: np.ndarray, device: torch.device) -> None:
        self.n_bins, self.size = row_of.shape
        row = torch.from_numpy(row_of).to(device)
        # Where no two rows share a bin, keys without a cell are all that is hidden: a mask that does not grow with T^2.
        shared = bool(((row != row.amax(1, keepdim=True)) & (row >= 0)).any())
        apart = row[:, None, :, None] != row[:, None, None, :] if shared else row[:, None, None, :] < 0
        self.mask = torch.zeros(apart.shape, device=device).masked_fill_(apart, -torch.inf) if apart.any() else None
        self.repeated: dict[int, Tensor] = {}

    def mask_of(self, n_states: int) -> Tensor | None:
        """(n_states * n_bins, 1, size or 1, size)."""
        if self.mask is None or n_states == 1:
            return self.mask
        repeated = self.repeated.get(n_states)
        if repeated is None:
            repeated = self.mask.repeat(n_states, 1, 1, 1)
            self.repeated = {n_states: repeated}  # only the last: they are large
        return repeated


class _Attention:
    """(S, P, 3 D) queries, keys and values of the positions of a packing, and the number of heads -> (S, P, D)."""

    def __init__(self, packing: Packing, device: torch.device) -> None:
        self.packing, self.device = packing, device
        self.rows = Rows(packing.start, packing.length)

    @cached_property
    def groups(self) -> list[_Bins]:
        return [_Bins(row_of, self.device) for row_of in self.packing.groups]

    def __call__(self, qkv: Tensor, n_heads: int) -> Tensor:
        if is_compiled(qkv, n_heads):
            return row_attention(qkv, self.rows, n_heads)
        read = []
        for bins, part in zip(self.groups, qkv.split([g.n_bins * g.size for g in self.groups], 1), strict=True):
            rows = part.reshape(-1, bins.size, part.shape[-1])
            read.append(attention(rows, n_heads, bins.mask_of(len(qkv))).reshape(len(qkv), -1, part.shape[-1] // 3))
        return torch.cat(read, 1) if len(read) > 1 else read[0]


def _absent(present: np.ndarray, size: int) -> Tensor:
    """The positions below ``size`` that are not in ``present``."""
    blank = np.ones(size, bool)
    blank[present] = False
    return torch.from_numpy(np.flatnonzero(blank))


class _Reorder(torch.autograd.Function):
    """``cells[:, index]``, whose backward is a gather too: ``inverse`` says where each cell has gone.

    A gather's own backward, adding up rows one by one, took 45 % of a training step.
    """

    @staticmethod
    def forward(ctx: Any, cells: Tensor, index: Tensor, inverse: Tensor, blank: Tensor) -> Tensor:
        ctx.save_for_backward(inverse, blank)
        return cells.index_select(1, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        inverse, blank = ctx.saved_tensors
        return grad.index_select(1, inverse).index_fill_(1, blank, 0.0), None, None, None


PLUGIN = PresentCells

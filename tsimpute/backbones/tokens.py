"""Cells of a mask as tokens, and attention among those that share a feature or a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tsimpute.backbones.embeddings import clock_embedding
from tsimpute.backbones.packing import pack
from tsimpute.backbones.row_attention import Rows, is_compiled, row_attention
from tsimpute.backbones.trunk import Axis, Grid, Trunk, attention
from tsimpute.core.containers import Condition


class Tokens(Grid):
    """The T cells of a mask as (S, T, D): S states of the same records, in the order of record, feature and time.

    With one record the rows of a state are S draws of it; with B records S = 1.

    Args:
        network: whose embeddings are used; its given features, the last ones, have no tokens and go with the clock.
        condition: B records.
        mask: (B, K, L) bool, of which cells: masks of ``condition.layout``.
        marked: (B, K, L) bool, the cells that side information marks, on the device of the records.

    Attributes:
        row_of: for tokens in the order of either axis, time and feature, a number for the row that each is in.
        record_of: (T,) the record of each, in the order of either axis alike: one record stands after the other.
        attend: the attention along either axis; among these tokens only, unless another is set.
    """

    def __init__(self, network: Trunk, condition: Condition, mask: np.ndarray, marked: Tensor) -> None:
        self.n_records, self.n_features, self.n_steps = mask.shape
        device, dtype = condition.values.device, condition.values.dtype
        n_tokenised = self.n_features - network.n_given
        record, feature, step = np.nonzero(mask[:, :n_tokenised])
        by_feature, by_time = record * self.n_features + feature, record * self.n_steps + step
        order = np.argsort(by_time, kind="stable")
        self.row_of, self.record_of = (by_feature, by_time[order]), record
        self.attend = [RaggedAttention(rows) for rows in self.row_of]

        def on_device(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array).to(device)

        self.cell, self.k = on_device(by_feature * self.n_steps + step), on_device(feature)
        self.to_features, self.to_times = on_device(order), on_device(np.argsort(order, kind="stable"))
        self.no_blank = on_device(np.empty(0, np.int64))
        # As a matrix of 0 and 1: the backward of a gather adds row by row, many times slower than a product.
        self.of_record = F.one_hot(on_device(record), self.n_records).to(dtype)
        self.marked = self.take(marked.to(dtype))
        distinct, time_index = condition.layout.clock
        self.clock = clock_embedding(on_device(distinct), network.width_time).to(dtype)
        if network.n_given:
            self.when = on_device(by_time)
            given = condition.values[:, n_tokenised:].mT  # (B, L, n_given)
            self.clock = torch.cat([self.clock[on_device(time_index)], given], -1).flatten(0, 1)  # (B L, T + n_given)
        else:
            self.when = on_device(time_index[record, step])
        self.feature = network.feature.weight

    def take(self, grid: Tensor) -> Tensor:
        """(R, K, L) -> (S, T)."""
        return grid.reshape(-1, self.n_records * self.n_features * self.n_steps).index_select(1, self.cell)

    def put(self, of_cells: Tensor, like: Tensor) -> Tensor:
        """(S, T) -> the shape of ``like``, 0 at all other cells."""
        grid = of_cells.new_zeros(len(of_cells), self.n_records * self.n_features * self.n_steps)
        return grid.index_copy(1, self.cell, of_cells).reshape(like.shape)

    def along_time(self, axis: Axis, cells: Tensor) -> Tensor:
        return axis(cells, self.attend[0]) if self.n_steps > 1 else cells

    def along_features(self, axis: Axis, cells: Tensor) -> Tensor:
        if self.n_features == 1:
            return cells
        turned = Reorder.apply(cells, self.to_features, self.to_times, self.no_blank)
        turned = axis(turned, self.attend[1])
        return Reorder.apply(turned, self.to_times, self.to_features, self.no_blank)  # type: ignore[return-value]

    def to_cells(self, of_record: Tensor) -> Tensor:
        rows = of_record.reshape(-1, self.n_records, of_record.shape[-1])
        return rows if self.n_records == 1 else self.of_record @ rows

    def side(
        self, of_time: Callable[[Tensor], Tensor], of_feature: Callable[[Tensor], Tensor], of_mask: Tensor
    ) -> Tensor:
        known = F.embedding(self.when, of_time(self.clock)) + F.embedding(self.k, of_feature(self.feature))
        return torch.addcmul(known, self.marked[..., None], of_mask)


class RaggedAttention:
    """Attention of tokens to those of their row, and to other tokens of the row that all states share.

    Compiled where it can be; elsewhere rows are packed into bins of one length (see ``packing``) for torch's kernel.

    Args:
        row_of: (T,) the row of each token; rows stand side by side in rising order.
        row_of_shared: (T',) the same of the tokens that are shared; None = there are none.
        has_logit_bias: (T,) bool, tokens of rows in which, where n tokens meet m shared ones, n > (m + 1) / 2, their
            attention logits with each other get the bias -log(2 n / (m + 1)): however many they are, they weigh no more
            together than half of what is shared. A token's logit with itself stays; without it samples vary too little.
    """

    def __init__(
        self, row_of: np.ndarray, row_of_shared: np.ndarray | None = None, has_logit_bias: np.ndarray | None = None
    ) -> None:
        self.row_of = row_of
        self.has_logit_bias = has_logit_bias
        self.row_of_shared = row_of[:0] if row_of_shared is None else row_of_shared

    def __call__(self, qkv: Tensor, n_heads: int, shared: Tensor | None = None) -> Tensor:
        """(S, T, 3 D), and (T', 3 D) of the shared tokens -> (S, T, D)."""
        if not len(self.row_of):
            return qkv[..., : qkv.shape[-1] // 3]
        if is_compiled(qkv, n_heads):
            return row_attention(qkv, self.rows, n_heads, shared)
        if shared is not None:
            qkv = torch.cat([shared.expand(len(qkv), *shared.shape), qkv], 1)
        return self._in_bins.attend(qkv, n_heads)[:, len(self.row_of_shared) :]

    @cached_property
    def rows(self) -> Rows:
        names, start, length = np.unique(self.row_of, return_index=True, return_counts=True)
        bounds = [np.searchsorted(self.row_of_shared, names, side) for side in ("left", "right")]
        n_shared = bounds[1] - bounds[0]
        bias = None
        if self.has_logit_bias is not None:
            bias = -np.log(np.maximum(1, 2 * length / (n_shared + 1))) * self.has_logit_bias[start]
        return Rows(start, length, bounds[0], n_shared, bias)

    @cached_property
    def _in_bins(self) -> _InBins:
        bias = np.repeat(self.rows.bias, self.rows.length)
        return _InBins(np.r_[self.row_of_shared, self.row_of], np.r_[np.zeros(len(self.row_of_shared)), bias])


class _InBins:
    """Attention within rows of tokens in any order, with torch's kernel.

    Args:
        row_of: (T,) of each token.
        bias: (T,) added to the scores that others have with a token.
    """

    def __init__(self, row_of: np.ndarray, bias: np.ndarray) -> None:
        packing = pack(row_of)
        token = np.full(packing.n_positions, -1)
        token[packing.position] = np.arange(len(row_of))
        ends = np.cumsum([group.size for group in packing.groups])
        of_groups = np.split(np.where(token < 0, 0, bias[token]), ends[:-1])
        self.groups = [_Bins(*group) for group in zip(packing.groups, of_groups, strict=True)]
        self.position = torch.from_numpy(packing.position)
        self.blank = torch.from_numpy(np.flatnonzero(token < 0))
        self.token = torch.from_numpy(np.maximum(token, 0))

    def attend(self, qkv: Tensor, n_heads: int) -> Tensor:
        token, position, blank = (x.to(qkv.device) for x in (self.token, self.position, self.blank))
        # Blank positions are masked, and no gradient comes from there.
        spread: Tensor = Reorder.apply(qkv, token, position, blank[:0])  # type: ignore[assignment]
        read = []
        for bins, part in zip(self.groups, spread.split([g.n_bins * g.size for g in self.groups], 1), strict=True):
            rows = part.reshape(-1, bins.size, part.shape[-1])
            of_rows = attention(rows, n_heads, bins.mask_of(len(qkv), qkv.device))
            read.append(of_rows.reshape(len(qkv), -1, part.shape[-1] // 3))
        return Reorder.apply(torch.cat(read, 1), position, token, blank)  # type: ignore[return-value]


class _Bins:
    """Bins of one size, and what is added to the scores in them: -inf between rows, a bias of each token."""

    def __init__(self, row_of: np.ndarray, bias: np.ndarray) -> None:
        self.n_bins, self.size = row_of.shape
        row = torch.from_numpy(row_of)
        added = torch.from_numpy(bias.astype(np.float32)).reshape(self.n_bins, 1, 1, self.size)
        # Where no two rows share a bin, keys without a cell are all that is hidden: a mask that does not grow with T^2.
        shared = bool(((row != row.amax(1, keepdim=True)) & (row >= 0)).any())
        masked = row[:, None, :, None] != row[:, None, None, :] if shared else row[:, None, None, :] < 0
        if bool(added.any()):
            added = added * ~torch.eye(self.size, dtype=torch.bool)
        needed = bool(masked.any()) or bool(added.any())
        self.mask = torch.where(masked, -torch.inf, added) if needed else None
        self.repeated: dict[tuple[int, torch.device], Tensor] = {}

    def mask_of(self, n_states: int, device: torch.device) -> Tensor | None:
        """(n_states * n_bins, 1, size or 1, size)."""
        if self.mask is None:
            return None
        repeated = self.repeated.get((n_states, device))
        if repeated is None:
            repeated = self.mask.to(device).repeat(n_states, 1, 1, 1)
            self.repeated = {(n_states, device): repeated}  # only the last: they are large
        return repeated


class Reorder(torch.autograd.Function):
    """``cells[:, index]``, whose backward is a gather too, by ``inverse``.

    A gather's own backward, adding up rows one by one, took 45 % of a training step.

    Args of ``apply``:
        blank: cells that ``index`` leaves out.
    """

    @staticmethod
    def forward(ctx: Any, cells: Tensor, index: Tensor, inverse: Tensor, blank: Tensor) -> Tensor:
        ctx.save_for_backward(inverse, blank)
        return cells.index_select(1, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        inverse, blank = ctx.saved_tensors
        return grad.index_select(1, inverse).index_fill_(1, blank, 0.0), None, None, None

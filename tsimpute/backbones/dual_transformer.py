"""CSDI's network: attention along time and along features in turn, for every cell of the grid.

Tashiro et al. 2021, Section 5 and Appendix E.1. Cells are (R, K, L, D); rows of the time axis are views, and only the
feature axis needs a copy.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from einops import rearrange
from torch import Tensor

from tsimpute.backbones.base import Field
from tsimpute.backbones.embeddings import clock_embedding
from tsimpute.backbones.trunk import Axis, Layout, Trunk, attention
from tsimpute.containers import Condition


class DualTransformer(Trunk):
    """The dual temporal/feature transformer on the whole grid; a cell that is not there is a blank one.

    Args, Raises: see ``Trunk``.
    """

    def bind(self, condition: Condition) -> Field:
        clock = clock_embedding(condition.times, self.width_time).to(condition.values.dtype)
        clock = torch.cat([clock, condition.values[:, self.n_features - self.n_given :].mT], -1)
        layout = _Grid(clock, self.feature.weight, condition.cond_mask[..., None].to(condition.values.dtype))
        sides, told = self.sides(layout), self.told(condition)

        def field(state: Tensor, tau: Tensor) -> Tensor:
            noisy = state * condition.fill_mask
            inputs = torch.stack([*(of_cells.expand_as(noisy) for of_cells in told), noisy], -1)
            return self.through(inputs, tau, sides, layout)

        return field

    def bytes_per_row(self, condition: Condition) -> int:
        return condition.values[0].numel() * self.bytes_per_cell


class _Grid(Layout):
    """Every cell of (R, K, L, D).

    Args:
        clock: (B, L, T). feature: (K, F). shown: (B, K, L, 1).
    """

    def __init__(self, clock: Tensor, feature: Tensor, shown: Tensor) -> None:
        self.clock, self.feature, self.shown = clock, feature, shown

    def along_time(self, axis: Axis, cells: Tensor) -> Tensor:
        if cells.shape[2] == 1:
            return cells
        rows = axis(rearrange(cells, "r k l d -> (r k) l d"), attention)
        return rearrange(rows, "(r k) l d -> r k l d", r=len(cells))

    def along_features(self, axis: Axis, cells: Tensor) -> Tensor:
        if cells.shape[1] == 1:
            return cells
        rows = axis(rearrange(cells, "r k l d -> (r l) k d"), attention)
        return rearrange(rows, "(r l) k d -> r k l d", r=len(cells))

    def to_cells(self, of_record: Tensor) -> Tensor:
        return of_record[:, None, None]

    def side(
        self, of_time: Callable[[Tensor], Tensor], of_feature: Callable[[Tensor], Tensor], of_mask: Tensor
    ) -> Tensor:
        known = of_time(self.clock)[:, None] + of_feature(self.feature)[:, None]
        return torch.addcmul(known, self.shown, of_mask)


PLUGIN = DualTransformer

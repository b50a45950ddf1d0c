"""All cells of records as they lie: features by steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from einops import rearrange
from torch import Tensor

from tsimpute.backbones.trunk import Attend, Axis, TokenLayout, attention


class Grid(TokenLayout):
    """Every cell of (R, K, L, D).

    Args:
        clock: (B, L, T). feature: (K, F). marked: (B, K, L, 1), the cells that side information marks.
        attend: of the rows along time, (R K, L, 3 D), and along features, (R L, K, 3 D).
    """

    def __init__(
        self, clock: Tensor, feature: Tensor, marked: Tensor, attend: Sequence[Attend] = (attention, attention)
    ) -> None:
        self.clock, self.feature, self.marked, self.attend = clock, feature, marked, attend

    def along_time(self, axis: Axis, cells: Tensor) -> Tensor:
        if cells.shape[2] == 1:
            return cells
        rows = axis(rearrange(cells, "r k l d -> (r k) l d"), self.attend[0])
        return rearrange(rows, "(r k) l d -> r k l d", r=len(cells))

    def along_features(self, axis: Axis, cells: Tensor) -> Tensor:
        if cells.shape[1] == 1:
            return cells
        rows = axis(rearrange(cells, "r k l d -> (r l) k d"), self.attend[1])
        return rearrange(rows, "(r l) k d -> r k l d", r=len(cells))

    def to_cells(self, of_record: Tensor) -> Tensor:
        return of_record[:, None, None]

    def side(
        self, of_time: Callable[[Tensor], Tensor], of_feature: Callable[[Tensor], Tensor], of_mask: Tensor
    ) -> Tensor:
        known = of_time(self.clock)[:, None] + of_feature(self.feature)[:, None]
        return torch.addcmul(known, self.marked, of_mask)

"""CSDI's network: attention along time and along features in turn, for every cell of the grid.

Tashiro et al. 2021, Section 5 and Appendix E.1. Cells are (R, K, L, D); rows of the time axis are views, and only the
feature axis needs a copy.
"""

from __future__ import annotations

from tsimpute.backbones.base import VectorField
from tsimpute.backbones.trunk import Grid, Trunk
from tsimpute.core.containers import Condition


class DualTransformer(Trunk):
    """The dual temporal/feature transformer on the whole grid; a cell that is not there is a blank one.

    Args, Raises: see ``Trunk``.
    """

    def condition_on(self, condition: Condition) -> VectorField:
        return self.field_on(Grid(self, condition, condition.cond_mask), condition, condition.query_mask)

    def bytes_per_row(self, condition: Condition) -> int:
        return condition.values[0].numel() * self.bytes_per_cell


PLUGIN = DualTransformer

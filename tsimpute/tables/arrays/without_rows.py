"""What tables share whose axes are given, arrays and xarray objects: no rows, no roles of columns, no absent cells."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tsimpute.core.panel import Panel
from tsimpute.tables.roles.columns import Told


class WithoutRows:
    """See ``reading.Table``."""

    panel: Panel

    @property
    def unfillable(self) -> tuple[tuple[str, str], ...]:
        return ()

    @property
    def absent(self) -> list[np.ndarray]:
        return [np.zeros(series.values.shape, bool) for series in self.panel.series]

    @property
    def n_rows(self) -> int:
        return 0

    @property
    def roles_by_name(self) -> Told | None:
        return None

    def silent_rows(self, observed: np.ndarray, filled: Collection[int]) -> tuple[str, ...]:
        return ()

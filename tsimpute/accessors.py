"""``frame.tsimpute.impute()``: methods on pandas frames and xarray objects, once this is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from tsimpute.filling.imputer.imputation import Imputation
from tsimpute.filling.imputer.table_imputer import TableImputer, impute
from tsimpute.system.terminal import Progress


@pd.api.extensions.register_dataframe_accessor("tsimpute")
@xr.register_dataset_accessor("tsimpute")
@xr.register_dataarray_accessor("tsimpute")
class Accessor:
    """What ``tsimpute`` does with one table; settings are those of ``TableImputer``.

    ``folder`` and ``progress``: see ``TableImputer.fit``.

    Example:
        >>> import pandas as pd
        >>> import tsimpute.accessors
        >>> frame = pd.DataFrame({"a": [1.0, None, 3.0] * 20, "b": [2.0, 4.0, None] * 20})
        >>> print(frame.tsimpute.describe(records="rows"))
          layout: wide, 60 rows
          records: each row by itself, in no order
          features: 2: a 33.3% missing, b 33.3% missing
        >>> filled = frame.tsimpute.impute(effort="trial", n_samples=3, calibrate=False, limits=(0, None))
        >>> int(filled.isna().sum().sum())
        0
    """

    def __init__(self, table: Any) -> None:
        self._table = table

    def impute(self, *, folder: Path | str | None = None, progress: Progress = "auto", **settings: Any) -> Any:
        """The table with its gaps filled, as ``tsimpute.impute`` gives it."""
        return impute(self._table, folder=folder, progress=progress, **settings)

    def draw(self, *, folder: Path | str | None = None, progress: Progress = "auto", **settings: Any) -> Imputation:
        """The table filled, with quantiles and what each cell is, learnt from the table itself or by a ``model``."""
        return TableImputer().set_params(**settings).fit_draw(self._table, folder=folder, progress=progress)

    def describe(self, **settings: Any) -> str:
        """What the table is understood to be and what looks wrong in it, before anything is learnt; to be printed."""
        return TableImputer().set_params(**settings).prepared(self._table).text

"""Reads a table of any kind that is in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.frames.frames import TimeOptions, read_frame
from tsimpute.tables.frames.table import Table
from tsimpute.tables.roles.columns import ColumnSpec


def read_table(
    table: Any,
    spec: ColumnSpec | None = None,
    time_options: TimeOptions | None = None,
    units: Mapping[str, str] | None = None,
) -> Table:
    """Understands a table; it is not changed.

    Args:
        table: a pandas data frame, an xarray DataArray or Dataset, a NumPy array or masked array, or a dictionary with
            an array "X".
        spec: what is known of its columns.
        time_options: how its times are read.
        units: of features, where the table does not tell them.

    Raises:
        DataError, ConfigError: see ``read_frame``, ``read_array``, ``read_labelled``; or it is no known kind of table.
    """
    if isinstance(table, pd.DataFrame):
        return read_frame(table, spec, time_options, units)
    if isinstance(table, np.ndarray | dict | list | tuple):
        from tsimpute.tables.arrays.arrays import read_array

        return read_array(table, spec, time_options, units)
    import xarray as xr

    if isinstance(table, xr.DataArray | xr.Dataset):
        from tsimpute.tables.arrays.labelled import read_labelled

        return read_labelled(table, spec, time_options, units)
    way = ""
    if isinstance(table, pd.Series):
        way = " Make a frame of it: series.to_frame()."
    elif isinstance(table, str | Path):
        way = " Fill a file with tsimpute.fill_file, or read it first, as with pandas.read_csv."
    raise DataError(
        "table: expected a pandas data frame, an xarray DataArray or Dataset, a NumPy array or a dictionary with an "
        f'array "X", came {type(table).__name__}.{way}'
    )

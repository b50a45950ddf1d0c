"""Text files whose times stand in columns: refused with a recipe that reads this very file."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from tsimpute.errors import DataError
from tsimpute.tables.roles.wide_times import check_wide_hours, check_wide_times
from tsimpute.tables.text.contents import Delimited


def check_wide_file(file: Delimited, columns: Sequence[int], names: Sequence[str]) -> None:
    """Refuses a file whose hours, days or times stand in columns; see ``check_wide_hours``, ``check_wide_times``.

    Args:
        columns, names: of the file, those that are looked at.

    Raises:
        DataError: they do.
    """
    texts = pd.DataFrame({i: file.columns[at] for i, at in enumerate(columns)}, dtype=object)
    texts.columns = pd.Index(names, dtype=object)
    how = "" if file.delimiter == "," else f", sep={chr(92) + 's+' if file.delimiter == ' ' else file.delimiter!r}"
    how += f", skiprows={file.names_line - 1}" if file.names_line > 1 else ""
    how += f", decimal={file.decimal!r}" if file.decimal != "." else ""
    try:
        check_wide_hours(texts, f"pandas.read_csv({file.name!r}{how})")
        blank = "" if len(columns) == len(file.header) else ".filter(regex='^(?!Unnamed)')"
        check_wide_times(texts, f"pandas.read_csv({file.name!r}{how}){blank}")
    except DataError as error:
        raise DataError(f"{file.name}: {error}") from None

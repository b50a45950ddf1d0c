"""A table that would grow beyond all measure is refused, in words that say how it was taken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsimpute.errors import DataError
from tsimpute.tables.frames.added_rows import MANY, MAX_TIMES
from tsimpute.tables.frames.frames import TimeOptions, read_frame
from tsimpute.tables.frames.table import FrameTable
from tsimpute.tables.roles.columns import ColumnSpec
from tsimpute.tables.sources.text_tables import read_text_table

START = pd.Timestamp("2024-01-01")


def spread(n_rows: int, n_added: int) -> pd.DataFrame:
    """Hours in a row, and in each of many series one that comes so late that rows are added."""
    n_series, each = n_rows // 8, np.arange(8)
    late = np.full(n_series, n_added // n_series) + (np.arange(n_series) < n_added % n_series)
    hours = np.array([np.where(each == 7, 7 + gap, each) for gap in late]).ravel()
    return pd.DataFrame(
        {"time": START + pd.to_timedelta(hours, "h"), "site": np.repeat(np.arange(n_series), 8).astype(str), "x": 1.5}
    )


def n_inserted(table: FrameTable) -> int:
    """Times that no row has, in all series."""
    return sum(int(of_series.sum()) for of_series in table.alignment.inserted)


def test_as_many_rows_as_are_bearable_may_be_added_and_one_more_is_refused() -> None:
    frame = spread(800, MAX_TIMES * 800)
    insert = TimeOptions(missing_times="insert")
    assert n_inserted(read_frame(frame, None, insert)) == MAX_TIMES * 800
    one_more = spread(800, MAX_TIMES * 800 + 1)
    with pytest.raises(
        DataError, match=r"16,001 rows would be added to its 800; .* wide: time \(time\) = 'time', grou"
    ):
        read_frame(one_more, None, insert)
    kept = read_frame(one_more, None, TimeOptions(missing_times="keep"))
    assert len(kept.series_of_row) == 800
    assert not any(new.any() for new in kept.alignment.inserted)


def test_a_small_table_may_grow_by_many_times_where_it_is_asked_for() -> None:
    insert = TimeOptions(missing_times="insert")
    assert n_inserted(read_frame(spread(80, MANY // 2), None, insert)) == MANY // 2


def test_no_more_rows_than_there_are_are_added_unasked() -> None:
    assert n_inserted(read_frame(spread(80, 80))) == 80
    with pytest.raises(DataError, match=r"series '0' has 8 times and lacks 9 \(81 in the whole table of 80 times\)"):
        read_frame(spread(80, 81))


def test_a_long_file_whose_names_of_features_are_mistaken_is_refused_with_what_was_taken(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    lines = [f"{START + pd.Timedelta(hours=k % 60)},sample {k},{k}.5" for k in range(300)]
    path.write_text("time,variable,value\n" + "\n".join(lines) + "\n")
    message = (
        r"in\.csv: long table: expected the names of a few quantities in column 'variable', came 300 different ones in "
        r"300 rows\. Name the right column: --feature NAME --value value"
    )
    with pytest.raises(DataError, match=message):
        read_text_table(path)
    assert len(read_text_table(path, ColumnSpec(group=["variable"], features=["value"])).panel.series) == 300

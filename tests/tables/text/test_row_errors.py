"""Errors name rows of a frame, and lines of a file with the file's name."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsimpute.errors import DataError
from tsimpute.tables.frames.frames import TimeOptions, read_frame
from tsimpute.tables.roles.columns import ColumnSpec
from tsimpute.tables.sources.text_tables import read_text_table
from tsimpute.tables.text.row_errors import RowError

PREAMBLE = "A title\n\n"
ROME = TimeOptions(timezone="Europe/Rome")
TIMES = ["2020-01-01 00:00", "2020-01-01 01:00", "2020-01-01 02:00", "2020-01-01 03:00"]
CASES = [
    ([TIMES[0], TIMES[1], TIMES[1], TIMES[3]], None, (1, 2), "{}s {} and {}."),
    ([TIMES[0], "", *TIMES[2:]], None, (1,), "the first is {} {};"),
    ([*TIMES[:2], "yesterday", TIMES[3]], None, (2,), "time column 'time', {} {}: expected a date or time like"),
    (["02/13/2014", "03/13/2014", "13/02/2014", "14/02/2014"], None, (0, 2), "'02/13/2014' ({} {}) is no day/month"),
    ([*TIMES[:3], TIMES[3] + "Z"], None, (0, 3), "'2020-01-01 00:00' ({} {}) and"),
    (["1.5", "2.5", "3,5", "4.5"], None, (2,), "{} {}: expected one decimal mark"),
    ([f"2015-03-29 {hour:02d}:00" for hour in range(1, 5)], ROME, (1,), "times, {} {}: 2015"),
]  # fmt: skip


def content(times: list[str]) -> str:
    return "time,x\n" + "".join(f'"{time}",{k}.5\n' for k, time in enumerate(times))


def refusal(path: Path, spec: ColumnSpec | None = None, time_options: TimeOptions | None = None) -> str:
    with pytest.raises(DataError) as caught:
        read_text_table(path, spec, time_options)
    return str(caught.value)


@pytest.mark.parametrize(("times", "time_options", "rows", "spec"), CASES)
def test_the_line_named_is_the_line_of_the_file_and_a_frame_has_rows(
    times: list[str], time_options: TimeOptions | None, rows: tuple[int, ...], spec: str, tmp_path: Path
) -> None:
    spec_time, path = ColumnSpec(time=["time"], features=["x"]), tmp_path / "in.csv"
    path.write_text(PREAMBLE + content(times))
    message = refusal(path, spec_time, time_options)
    lines = [row + 4 for row in rows]
    assert message.startswith("in.csv: ")
    assert spec.format("line", *lines) in message
    for line, row in zip(lines, rows, strict=True):
        assert times[row] in path.read_text().splitlines()[line - 1]
    frame = pd.read_csv(io.StringIO(content(times)), dtype={"time": str}, keep_default_na=False)
    with pytest.raises(RowError) as caught:
        read_frame(frame, spec_time, time_options)
    assert spec.format("row", *rows) in str(caught.value)


def test_lines_below_units_remarks_and_fields_of_two_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    rows = [TIMES[0] + ',1.5,"two\nlines"', "# a remark", TIMES[1] + ",2.5,b", "", TIMES[1] + ",3.5,c"]
    path.write_text("\n".join(["time,x,note", ",mg/L,", *rows]) + "\n")
    lines = path.read_text().splitlines()
    assert "lines 6 and 8." in refusal(path)
    assert lines[5].startswith(TIMES[1])
    assert lines[7].startswith(TIMES[1])


def test_a_group_without_a_name_is_told_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("time,station,x\n2020-01-01,a,1\n2020-01-02,a,\n2020-01-03,a,3\n")
    frame = read_text_table(path).frame.rename(columns=str)
    with pytest.raises(RowError, match=r"expected a name in every row, row 1 \(q\) has none\. Fill"):
        read_frame(frame.assign(station=["a", None, "a"]).set_axis(["p", "q", "r"]))


def test_errors_without_a_row_name_the_file_too(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("time,note\n2020-01-01,a\n2020-01-02,b\n")
    assert refusal(path).startswith("in.csv: ")


def test_words_of_a_file_that_look_like_rows_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text(content([*TIMES[:3], "row 2 and {rows 1}"]))
    message = refusal(path, ColumnSpec(time=["time"]))
    assert "came 'row 2 and {rows 1}'" in message
    assert "line 5: " in message


def test_an_error_of_rows_can_be_sent_between_processes() -> None:
    error = RowError("of ", (1, 2), ", not ", 0)
    assert str(error) == "of rows 1 and 2, not row 0"
    assert error.in_lines(np.array([3, 5, 9])) == "of lines 5 and 9, not line 3"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)

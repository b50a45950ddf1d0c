"""Layouts of delimited files: found for files of all sorts, refused in words where there is none, at a bounded cost."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from delimited_files import outcome, read, texts, written

from tsimpute.errors import DataError
from tsimpute.tables.text import dialect


@pytest.mark.parametrize(
    ("content", "header", "columns"),
    [
        ("time x\n1 2.5\n2 NA\n", ("time", "x"), [["1", "2"], ["2.5", "NA"]]),
        ("  time   x\n   1 2.5 \n\n  10 NA\n", ("time", "x"), [["1", "10"], ["2.5", "NA"]]),
        ('"a b" x\n"c d" 5\n"" 6\n', ("a b", "x"), [["c d", ""], ["5", "6"]]),
        (",a,b\n0,1.5,\n1,,2\n", ("", "a", "b"), [["0", "1"], ["1.5", ""], ["", "2"]]),
        ("a,b\n1,2,\n3,4,\n", ("a", "b"), [["1", "3"], ["2", "4"]]),
        ("a;b;\n1;2\n3;4;\n", ("a", "b", ""), [["1", "3"], ["2", "4"], ["", ""]]),
        ("# made by hand\n# t,x\n1,2\n3,4\n", ("t", "x"), [["1", "3"], ["2", "4"]]),
        ("t,x\n1,2\n# the end\n", ("t", "x"), [["1"], ["2"]]),
        ("time,001001,001002\n2014-05-01,1,2\n", ("time", "001001", "001002"), [["2014-05-01"], ["1"], ["2"]]),
        ("level\n1,5\n\n2,5\n\n", ("level",), [["1,5", "", "2,5"]]),
        ("t;CO, mg;NO, ug\n1;2,5;1\n2;3,5;2\n", ("t", "CO, mg", "NO, ug"), [["1", "2"], ["2,5", "3,5"], ["1", "2"]]),
        ('t, note, x\n1, "a, b", 2\n', ("t", "note", "x"), [["1"], ["a, b"], ["2"]]),
        ('t,x\n"1\n1",2\n3,4\n', ("t", "x"), [["1\n1", "3"], ["2", "4"]]),
        (
            "t,a,b,\n1,2,3,\n4,5,6,new sensor\n",
            ("t", "a", "b", ""),
            [["1", "4"], ["2", "5"], ["3", "6"], ["", "new sensor"]],
        ),
        ("Sheet,\n,\nt,x\n1,2\n", ("t", "x"), [["1"], ["2"]]),
    ],
)
def test_files_of_all_sorts_are_understood_and_come_back(
    content: str, header: tuple[str, ...], columns: list[list[str]], tmp_path: Path
) -> None:
    table = read(tmp_path, content)
    assert (table.header, texts(table)) == (header, columns)
    assert written(tmp_path, table) == content.encode()


def test_a_row_of_units_is_kept_and_given(tmp_path: Path) -> None:
    content = "time;CO;T\n;mg/m^3;degC\n2014-05-01;2,6;\n2014-05-02;;1\n"
    table = read(tmp_path, content)
    assert (table.units, len(table), table.lines[0]) == (("", "mg/m^3", "degC"), 2, 3)
    assert written(tmp_path, table, {1: {1: "3,0"}}).decode() == content.replace(";;1", ";3,0;1")


def test_a_first_row_of_missing_values_or_a_bad_one_is_no_row_of_units(tmp_path: Path) -> None:
    assert len(read(tmp_path, "time,a,b\n2014-05-01,NA,\n2014-05-02,1,2\n")) == 2
    assert len(read(tmp_path, "time,a,b\n2014-05-01,error,\n2014-05-02,1,2\n")) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b" \r\n\n", "empty"),
        (b"time,x\n", "line"),
        (b"a\0b,c\n", "zero bytes"),
        (b"PK\x03\x04\0\0", "workbook"),
        (b"\x1f\x8b\x08\0\0", r"\.gz"),
        (b"t,x\n\x98\xff\x81,1\n", "some bytes are not"),
        (b"t,x\n1,2\n3,4,5\n6,7\n", "line 3: expected 2 fields as in the names in line 1, found 3"),
        (b"t,x,y\n1,2,3\n3,4\n6,7,8\n", "line 3: expected 3 fields as in the names in line 1, found 2"),
        (b'note,x\na,2\n"b,3\nc,4\n', "line 3: expected a quote that closes"),
        (b"1,2\n3,4\n", "line 1: expected names of columns"),
        (b"2014-05-01,2.5\n2014-05-02,4\n", "line 1: expected names of columns"),
        (b"1.5\n2\n", "line 1: expected names of columns"),
        (b"t,x,x\n1,2,3\n", "'x' comes more than once"),
        (b"a,b\n1,2,3\n4,5,6\n", "line 2: expected 2 fields as in the names in line 1, found 3"),
        (b"t;x\n1;1,234\n2;5,678\n", "read in two ways"),
        (b"Dear Sir,\nthis is a letter, and no table.\nYours\n", "expected"),
    ],
)
def test_bad_files_are_refused_with_what_to_do(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as error:
        read(tmp_path, content)
    assert "in.csv" in str(error.value)


def test_reading_takes_time_in_proportion_to_the_file_also_where_it_is_hostile(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 999, (9000, 37)).astype(str).tolist()
    wide = "\n".join(map(",".join, [[f"c{k}" for k in range(37)], *rows]))
    hostile = ['"' * 100_001, 'a,"' * 50_000, ',"\n' * 50_000, '" ' * 50_000, ";" * 200_000, "a,b\n" + "," * 200_000]
    for content in (wide, *hostile):
        start = time.process_time()
        found = outcome(tmp_path, content)
        assert time.process_time() - start < 4
        assert content is not wide or len(found) == 9000


@pytest.mark.parametrize("delimiter", [None, ";"])
def test_of_one_column_no_delimiter_is_noted(tmp_path: Path, delimiter: str | None) -> None:
    table = read(tmp_path, "x\n1.5\n\n2.5\n", delimiter=delimiter)
    assert (table.header, texts(table)) == (("x",), [["1.5", "", "2.5"]])
    assert table.notes == ("1 blank line between values taken for missing values",)
    assert "fields are separated by semicolons" in read(tmp_path, "x;y\n1.5;2\n2.5;3\n").notes


def test_one_column_may_begin_with_a_gap(tmp_path: Path) -> None:
    table = read(tmp_path, "x\n\n\n2.5\n1.5\n")
    assert texts(table) == [["", "", "2.5", "1.5"]]


def test_a_column_with_blanks_around_its_fields_is_one_column(tmp_path: Path) -> None:
    content = 'x \r\n 781 \r\n \r\n "4" \r\n'
    table = read(tmp_path, content)
    assert (table.header, texts(table)) == (("x",), [["781", "", "4"]])
    assert written(tmp_path, table, {0: {1: "5"}}).decode() == 'x \r\n 781 \r\n 5\r\n "4" \r\n'


@pytest.mark.parametrize(
    "content",
    [
        "t;x,y\n1;2,5\n2;2,5\n3;2,5\n",
        "a,b;c\n1,2\n3;4\n5;6\n7;8\n",
        "Sheet, one\n,\nt;x\n1;2\n3;4\n5;6\n7;8\n",
        "t x\n1 2,5\n2 3,5\n3 4,5\n",
        "t,x\n1,2\n3,4\n1;2;3\n4;5;6\n7;8;9\n",
        't,x\n1,2\n3,"4\n5"\n6,7\n8,9\n',
    ],
)
def test_the_first_lines_tell_the_delimiter_that_all_lines_tell(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for head in (2, 3, 1000):
        monkeypatch.setattr(dialect, "_HEAD", head)
        table = outcome(tmp_path, content)
        results.append(table if isinstance(table, str) else (table.delimiter, table.header, texts(table)))
    assert results[0] == results[1] == results[2]

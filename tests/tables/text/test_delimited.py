"""Delimited files: written back byte for byte, only the asked fields change, dialects are found, bad files refused."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest
from delimited_files import outcome, read, texts, written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.text import rawtext
from tsimpute.tables.text.delimited import Insertion, read_delimited, write_delimited

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
REAL = ("AirQualityUCI.csv", "us_embassy_beijing_2015.csv", "openaq_no2_long.csv")


@dataclass(frozen=True)
class Made:
    """A generated file and what is in it."""

    content: bytes
    delimiter: str
    decimal: str
    header: list[str]
    columns: list[list[str]]


def numbers(decimal: str) -> st.SearchStrategy[str]:
    number = st.decimals(-9999, 9999, places=2).map(lambda d: f"{d:.2f}".replace(".", decimal))
    return st.one_of(number, st.integers(-99, 99).map(str), st.sampled_from(["", "NA", "-"]))


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


@st.composite
def files(draw: st.DrawFn, wild: bool = True) -> Made:
    """A table with a time, numbers and, if ``wild``, any text; with all that may stand around its fields."""
    delimiter, decimal = draw(
        st.sampled_from([(",", "."), (",", ","), (";", ","), (";", "."), ("\t", ","), ("|", ".")])
    )
    n_rows, n_numbers = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    columns = [[f"2014-05-{row + 1:02d} 00:00" for row in range(n_rows)]]
    columns += [draw(st.lists(numbers(decimal), min_size=n_rows, max_size=n_rows)) for _ in range(n_numbers)]
    columns[1][-1] = f"0{decimal}5"
    if wild:
        any_text = st.text(st.sampled_from('ab ,;|\t"\n\r1é'), max_size=6).map(str.strip)
        columns.append(draw(st.lists(any_text, min_size=n_rows, max_size=n_rows)))
    header = ["time", *(f"x {k}" for k in range(1, len(columns)))]
    pad, trailing = draw(st.sampled_from(["", " "])), delimiter * draw(st.integers(0, 2))
    always = draw(st.booleans())

    def line(fields: list[str]) -> str:
        special = f'"\r\n{delimiter}'
        shown = [quoted(text) if always or any(c in text for c in special) else text for text in fields]
        return delimiter.join(pad + text + pad for text in shown) + trailing

    ends = st.sampled_from([["\n"], ["\r\n"], ["\r\n", "\n"], ["\r"]])
    end = st.sampled_from(draw(ends))
    lines = draw(st.lists(st.sampled_from(["A title", "", "# remark", "(c) 2014: all"]), max_size=3))
    lines += [line(header)]
    for row in range(n_rows):
        lines.append(line([column[row] for column in columns]))
        lines += draw(st.sampled_from([[], [""], [trailing]]))
    text = "".join(piece + draw(end) for piece in lines)
    if draw(st.booleans()):
        text = text.rstrip("\r\n")
    mark, codec = draw(st.sampled_from([(b"", "utf-8"), (b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le")]))
    return Made(mark + text.encode(codec), delimiter, decimal, header, columns)


# Laws


@QUICK
@given(made=files())
def test_reading_and_writing_gives_the_same_bytes_and_the_texts_of_the_fields(made: Made, tmp_path: Path) -> None:
    table = read(tmp_path, made.content, delimiter=made.delimiter, decimal=made.decimal)
    assert [name for name in table.header if name] == made.header
    assert texts(table)[: len(made.header)] == made.columns
    assert written(tmp_path, table) == made.content


@QUICK
@given(made=files(wild=False))
def test_delimiter_and_decimal_mark_are_found(made: Made, tmp_path: Path) -> None:
    table = read(tmp_path, made.content)
    assert (table.delimiter, table.decimal) == (made.delimiter, made.decimal)
    assert texts(table)[: len(made.header)] == made.columns


@QUICK
@given(made=files(), data=st.data())
def test_only_the_changed_fields_differ_when_read_again(made: Made, data: st.DataObject, tmp_path: Path) -> None:
    table = read(tmp_path, made.content, delimiter=made.delimiter, decimal=made.decimal)
    new = st.text(st.sampled_from('xy,;|\t"\n7'), min_size=1, max_size=5).map(str.strip).filter(bool)
    cell = st.tuples(st.integers(1, len(made.header) - 1), st.integers(0, len(table) - 1))
    cells = data.draw(st.dictionaries(cell, new, max_size=6))
    changes: dict[int, dict[int, str]] = {}
    expected = texts(table)
    for (column, row), text in cells.items():
        changes.setdefault(column, {})[row] = text
        expected[column][row] = text
    content = written(tmp_path, table, changes)
    again = read(tmp_path, content, delimiter=made.delimiter, decimal=made.decimal)
    assert texts(again) == expected
    assert again.header == table.header
    back = {column: {row: table.columns[column][row] for row in rows} for column, rows in changes.items()}
    restored = read(tmp_path, written(tmp_path, again, back), delimiter=made.delimiter, decimal=made.decimal)
    assert texts(restored) == texts(table)


@QUICK
@given(made=files(), data=st.data())
def test_new_lines_stand_before_their_row_and_nothing_else_moves(made: Made, data: st.DataObject, tmp_path: Path):
    table = read(tmp_path, made.content, delimiter=made.delimiter, decimal=made.decimal)
    places = data.draw(st.lists(st.integers(0, len(table)), max_size=4))
    new = [
        Insertion(row, tuple(f"{i}{made.decimal}5" if name else "" for name in table.header))
        for i, row in enumerate(places)
    ]
    content = written(tmp_path, table, {}, tuple(new))
    again = read(tmp_path, content, delimiter=made.delimiter, decimal=made.decimal)
    rows = [list(fields) for fields in zip(*texts(table), strict=True)]
    for row in range(len(table), -1, -1):
        rows[row:row] = [list(insertion.fields) for insertion in new if insertion.row == row]
    assert [list(fields) for fields in zip(*texts(again), strict=True)] == rows


@QUICK
@given(content=st.one_of(st.binary(max_size=300), st.text(st.sampled_from('a1.,;|\t "\n\r#é'), max_size=120)))
def test_any_bytes_are_refused_in_words_or_come_back_as_they_are(content: bytes | str, tmp_path: Path) -> None:
    content = content if isinstance(content, bytes) else content.encode()
    table = outcome(tmp_path, content)
    if isinstance(table, str):
        assert table.startswith(("in.csv: expected", "in.csv: line", "in.csv: names"))
        return
    assert written(tmp_path, table) == content
    assert {len(column) for column in table.columns} == {len(table)}


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1), flip=st.floats(0, 1), byte=st.integers(0, 255), name=st.sampled_from(REAL))
def test_truncated_and_damaged_real_files(
    share: float, flip: float, byte: int, name: str, data_root: Path, tmp_path: Path
) -> None:
    content = bytearray((data_root / "air_quality" / name).read_bytes()[:60_000])
    content[int(flip * (len(content) - 1))] = byte
    content = bytes(content[: int(share * len(content))])
    table = outcome(tmp_path, content)
    if isinstance(table, str):
        assert table.startswith("in.csv: ")
    else:
        assert written(tmp_path, table) == content


@QUICK
@given(
    text=st.text(st.sampled_from('a "\t,;\n\r'), max_size=60).map(lambda text: text + "\n"),
    delimiter=st.sampled_from(",;\t"),
)
def test_fields_are_those_of_the_csv_module_and_a_record_is_put_together_again(text: str, delimiter: str) -> None:
    lines = list(io.StringIO(text, newline=""))
    *expected, last = csv.reader([*lines, "end"], delimiter=delimiter, skipinitialspace=True)
    if last != ["end"]:
        with pytest.raises(DataError, match="a quote that closes"):
            rawtext.read_records(lines, delimiter)
        return
    records, starts = rawtext.read_records(lines, delimiter)
    expected = [list(map(str.strip, fields)) for fields in expected]
    assert records == expected
    for fields, start, stop in zip(records, starts, starts[1:], strict=False):
        record = "".join(lines[start:stop])
        parts = rawtext.split_record(record, delimiter)
        assert "".join(chain.from_iterable(zip(parts.between, (*parts.fields, ""), strict=True))) == record
        assert len(parts.fields) == max(len(fields), 1)


# Real files


def test_air_quality_uci(data_root: Path, tmp_path: Path) -> None:
    path = data_root / "air_quality" / "AirQualityUCI.csv"
    table = read_delimited(path)
    assert (len(table), len(table.header), table.header[-2:]) == (9357, 17, ("", ""))
    assert (table.delimiter, table.decimal, table.encoding) == (";", ",", "utf-8")
    assert "114 rows without any value kept as they are" in table.notes
    assert (table.columns[2][0], table.lines[0], table.lines[-1]) == ("2,6", 2, 9358)
    assert written(tmp_path, table) == path.read_bytes()
    lines = path.read_bytes().split(b"\r\n")
    lines[1] = lines[1].replace(b";2,6;", b";2,7;")
    new = ("04/04/2005", "15.00.00", *["1,5"] * 13, "", "")
    lines.insert(9358, ";".join(new).encode())
    assert written(tmp_path, table, {2: {0: "2,7"}}, (Insertion(9357, new),)) == b"\r\n".join(lines)


def test_us_embassy_with_three_lines_before_the_names_and_no_last_line_end(data_root: Path, tmp_path: Path) -> None:
    path = data_root / "air_quality" / "us_embassy_beijing_2015.csv"
    table = read_delimited(path)
    assert (len(table), table.header[2], table.lines[0]) == (8760, "Date (LST)", 5)
    assert "3 lines before the names kept as they are" in table.notes
    assert written(tmp_path, table) == path.read_bytes()
    new = tuple("abcdefghijk")
    content = written(tmp_path, table, {}, (Insertion(8760, new),))
    assert content == path.read_bytes() + b"\r\n" + ",".join(new).encode()


def test_openaq_begins_with_a_blank_line(data_root: Path, tmp_path: Path) -> None:
    path = data_root / "air_quality" / "openaq_no2_long.csv"
    table = read_delimited(path)
    lines = path.read_bytes().decode().split("\n")
    assert (table.header[0], table.lines[0], len(table)) == ("city", 3, sum(map(bool, lines)) - 1)
    assert written(tmp_path, table) == path.read_bytes()


# Fields, encodings and settings


@pytest.mark.parametrize(
    ("content", "changes", "expected"),
    [
        ('t,x\n"1","NA"\n2,NA\n', {1: {0: "5", 1: "6"}}, 't,x\n"1","5"\n2,6\n'),
        ("t;x;\r\n1;  NA ;\r\n", {1: {0: "5,5"}}, "t;x;\r\n1;  5,5 ;\r\n"),
        ('t,x\n1,"2,5"\n2,\n', {1: {1: "3,5"}}, 't,x\n1,"2,5"\n2,"3,5"\n'),
        ("t x\n1   NA\n2   5", {1: {0: "4"}}, "t x\n1   4\n2   5"),
        ("level\n1\n\n2\n", {0: {1: "1.5"}}, "level\n1\n1.5\n2\n"),
        ("t,x,\n1,2\n", {2: {0: "3"}}, "t,x,\n1,2,3\n"),
    ],
)
def test_new_texts_keep_quotes_and_blanks(content: str, changes: dict, expected: str, tmp_path: Path) -> None:
    assert written(tmp_path, read(tmp_path, content), changes).decode() == expected


def test_encodings_are_found_said_and_kept(tmp_path: Path) -> None:
    text = "time;T °C\r\n1;2\r\n"
    table = read(tmp_path, text.encode("cp1252"))
    assert (table.header[1], table.encoding) == ("T °C", "cp1252")
    assert "encoding cp1252" in table.notes
    assert written(tmp_path, table, {1: {0: "3"}}) == text.replace("2", "3").encode("cp1252")
    with pytest.raises(DataError, match="expected characters of cp1252"):
        written(tmp_path, table, {1: {0: "≥"}})
    wide = read(tmp_path, text.encode("utf-16"), encoding="utf-16")
    assert written(tmp_path, wide) == text.encode("utf-16")
    assert read(tmp_path, text.encode("utf-16-be"), encoding="utf-16-be").header == ("time", "T °C")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("时间,浓度\n1,2\n", "gb18030"), ("A站,东四\n1,2\n", "gb18030"), ("дата,озон\n1,2\n", "cp1251"),
     ("時刻,濃度\n1,2\n", "cp932"), ("시간,농도\n1,2\n", "euc_kr")],
)  # fmt: skip
def test_text_of_another_script_is_asked_for_and_not_read_as_western(text: str, encoding: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"seems to be of another script: .*{text.splitlines()[0]!r} in {encoding}"):
        read(tmp_path, text.encode(encoding))
    assert list(read(tmp_path, text.encode(encoding), encoding=encoding).header) == text.splitlines()[0].split(",")


@pytest.mark.parametrize("name", ["Größe", "créée", "µg/m³", "T ‰ °C", "Übergröße", "naïve", "“Öl”"])
def test_western_names_are_read_without_a_question(name: str, tmp_path: Path) -> None:
    table = read(tmp_path, f"t,{name}\n1,2\n".encode("cp1252"))
    assert (table.header[1], table.encoding) == (name, "cp1252")


def test_gzip_is_read_and_written(tmp_path: Path) -> None:
    content = b"t,x\n1,2\n2,\n"
    table = read(tmp_path, gzip.compress(content), "in.csv.gz")
    write_delimited(table, tmp_path / "out.csv.gz", {1: {1: "7"}})
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()) == b"t,x\n1,2\n2,7\n"


def test_folders_bad_gzip_and_bad_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="folder"):
        read_delimited(tmp_path)
    for content in (b"t,x\n1,2\n", gzip.compress(b"t,x\n1,2\n")[:-6]):
        with pytest.raises(DataError, match="gzip"):
            read(tmp_path, content, "in.csv.gz")
    for wrong in ({"delimiter": "ab"}, {"decimal": ";"}, {"encoding": "nonsense"}, {"encoding": "hex"}):
        with pytest.raises(ConfigError, match="expected"):
            read(tmp_path, "t,x\n1,2\n", **wrong)


def test_changes_outside_the_table_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    table = read(tmp_path, "t,x\n1,2\n")
    for changes, insertions in (
        ({2: {0: "1"}}, ()),
        ({0: {1: "1"}}, ()),
        ({0: {-1: "1"}}, ()),
        ({}, (Insertion(2, ("1", "2")),)),
        ({}, (Insertion(0, ("1",)),)),
    ):
        with pytest.raises(DataError, match="expected"):
            write_delimited(table, tmp_path / "out.csv", changes, insertions)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


# The line that names the delimiter


@QUICK
@given(made=files(), name=st.sampled_from(["sep=", "SEP="]), quote=st.sampled_from(["", '"']))
def test_a_first_line_names_the_delimiter_and_is_kept(made: Made, name: str, quote: str, tmp_path: Path) -> None:
    codec, mark = ("utf-16-le", b"\xff\xfe") if made.content.startswith(b"\xff\xfe") else ("utf-8", b"")
    mark = mark or (b"\xef\xbb\xbf" if made.content.startswith(b"\xef\xbb\xbf") else b"")
    first = f"{quote}{name}{made.delimiter}{quote}\r\n".encode(codec)
    content = mark + first + made.content.removeprefix(mark)
    table = read(tmp_path, content, decimal=made.decimal)
    assert table.delimiter == made.delimiter
    assert texts(table)[: len(made.header)] == made.columns
    assert written(tmp_path, table) == content
    changed = written(tmp_path, table, {1: {0: "7"}})
    assert changed.startswith(mark + first)
    assert texts(read(tmp_path, changed, decimal=made.decimal))[1][0] == "7"


def test_the_line_that_names_the_delimiter_is_no_name_of_a_column_and_another_one_told_wins(tmp_path: Path) -> None:
    assert read(tmp_path, "sep=;\nx\n1\n2\n").header == ("x",)
    odd = read(tmp_path, "sep=~\na b,c~d\n1~2\n")
    assert (odd.delimiter, odd.header, odd.lines.tolist()) == ("~", ("a b,c", "d"), [3])
    assert read(tmp_path, "sep=;\na,b\n1,2\n", delimiter=",").header == ("a", "b")


# Many new lines, and messages


def test_many_new_lines_are_each_what_the_line_beside_them_would_be_with_new_texts(tmp_path: Path) -> None:
    content = 't, "x" ,y,\n1, "2" ,a,\n3,4,b\n5,,"c",\n'
    table = read(tmp_path, content)
    fields = [(str(10 + i), text, text, "") for i, text in enumerate(["6", 'a"b', "p,q", ""] * 3)]
    new = tuple(Insertion(row, texts) for texts in fields for row in range(4))
    singly = {
        (insertion.row, insertion.fields): written(tmp_path, table, insertions=(insertion,)).decode()
        for insertion in new
    }
    lines = content.splitlines(keepends=True)
    expected = lines[0]
    for row in range(4):
        for insertion in (i for i in new if i.row == row):
            alone = singly[row, insertion.fields].splitlines(keepends=True)
            assert alone[: row + 1] + alone[row + 2 :] == lines
            expected += alone[row + 1]
        expected += "".join(lines[row + 1 : row + 2])
    assert written(tmp_path, table, insertions=new).decode() == expected


def test_a_line_is_taken_apart_once_however_many_follow_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = read(tmp_path, "t,x\n1,2\n3,4\n")
    taken: list[str] = []
    whole = rawtext.split_record
    monkeypatch.setattr(
        rawtext, "split_record", lambda record, delimiter: taken.append(record) or whole(record, delimiter)
    )
    written(tmp_path, table, insertions=tuple(Insertion(row, ("7", "8")) for row in (0, 1, 2) * 50))
    assert sorted(taken) == ["1,2\n", "3,4\n"]


def test_one_line_of_wrong_length_is_one_and_two_are_two(tmp_path: Path) -> None:
    assert "(1 such line). Correct it, or" in str(outcome(tmp_path, "a,b\n1,2\n1,2,3\n1,2\n"))
    assert "(2 such lines). Correct them, or" in str(outcome(tmp_path, "a,b\n1,2\n1,2,3\n1,2\n1,2,3\n"))


MARKS = {
    "utf-8": b"\xef\xbb\xbf", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff",
    "utf-32-le": b"\xff\xfe\0\0", "utf-32-be": b"\0\0\xfe\xff",
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((mark, "the file is empty or blank") for mark in (b"", *MARKS.values())),
        *((mark + " \n\t\r\n".encode(codec), "the file is empty or blank") for codec, mark in MARKS.items()),
        *((b"\0" * n, "expected a text file, came zero bytes") for n in (1, 2, 5)),
        *((bytes([byte]), "no delimiter that splits the lines") for byte in b'A"7\x1a\xff\xfe'),
        *((bytes([byte]), "empty or blank") for byte in b" \t\r\n,;"),
        (b"\xff\xfeA", "expected text in utf-16-le, some bytes are not"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_file_without_a_table_is_refused_by_its_name(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(DataError, match=f"{name}: .*{message}"):
        read_delimited(path)

"""Text files as tables: only filled fields and inserted lines differ, byte for byte, however the file is written."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tsimpute.core.limits import Limits
from tsimpute.core.panel import IMPUTED, OBSERVED
from tsimpute.errors import DataError
from tsimpute.filling.preparing.prepare import prepare
from tsimpute.tables.frames.frames import TimeOptions
from tsimpute.tables.frames.table import Edits, FrameTable
from tsimpute.tables.roles.columns import ColumnSpec
from tsimpute.tables.sources.text_tables import TextWriter, read_text_table
from tsimpute.tables.text.rawtext import Delimited

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NUMBER = "7.25"
"""What gaps are filled with."""


def read(
    folder: Path, content: str | bytes, spec: ColumnSpec | None = None, name: str = "in.csv", **form: str
) -> FrameTable:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_text_table(path, spec, **form)  # type: ignore[arg-type]


def file_of(table: FrameTable) -> Delimited:
    assert isinstance(table.writer, TextWriter)
    return table.writer.file


def gaps(table: FrameTable) -> list[np.ndarray]:
    return [np.isnan(series.values) for series in table.panel.series]


def filled(folder: Path, table: FrameTable, value: float = float(NUMBER), name: str = "out.csv") -> bytes:
    """The file with a value in every gap."""
    table.apply(Edits(gaps(table), [np.full(gap.shape, value) for gap in gaps(table)])).write(folder / name)
    return (folder / name).read_bytes()


def marked(folder: Path, table: FrameTable) -> list[str]:
    codes = [np.where(gap, IMPUTED, OBSERVED).astype(np.uint8) for gap in gaps(table)]
    table.apply(Edits.of_provenance(gaps(table), codes)).write(folder / "marks.csv")
    return (folder / "marks.csv").read_text().splitlines()


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A file with gaps in one column of two decimals, and the same with 7.25 in each."""
    delimiter, decimal = draw(st.sampled_from([(",", "."), (";", ","), ("\t", ","), (";", "."), ("|", ".")]))
    end, mark = draw(st.sampled_from(["\n", "\r\n"])), draw(st.sampled_from(["", "\ufeff"]))
    quote, trailing = draw(st.sampled_from(["", '"'])), delimiter * draw(st.integers(0, 2))
    units, preamble = (
        draw(st.booleans()),
        draw(st.sampled_from([[], ["A line before the names"], ["# one", "", "# two"]])),
    )
    n_rows = draw(st.integers(3, 8))
    cell = st.decimals(-99, 99, places=2).map(str) | st.sampled_from(["", "NA", "-", "NaN", " "])
    values = ["0.25", *draw(st.lists(cell, min_size=n_rows - 1, max_size=n_rows - 1))]

    def line(fields: list[str]) -> str:
        return delimiter.join(f"{quote}{field}{quote}" for field in fields) + trailing

    def whole(texts: list[str]) -> bytes:
        rows = [
            [f"2020-01-01 {h:02d}:00", text.replace(".", decimal), f"n{h}", f"0{decimal}5"]
            for h, text in enumerate(texts)
        ]
        head = [["time", "x 1", "note", "y"], *([["", "mg/L", "", "degC"]] if units else [])]
        return (mark + end.join([*preamble, *map(line, head + rows), ""])).encode()

    gap = [text.strip() in ("", "NA", "-", "NaN") for text in values]
    blank = "" if quote else " "
    full = [(blank if t == " " else "") + NUMBER if missing else t for t, missing in zip(values, gap, strict=True)]
    return whole(values), whole(full)


@QUICK
@given(files())
def test_only_filled_fields_differ_however_a_file_is_written(tmp_path: Path, made: tuple[bytes, bytes]) -> None:
    content, expected = made
    table = read(tmp_path, content)
    assert filled(tmp_path, table) == expected
    nothing = [np.zeros_like(gap) for gap in gaps(table)]
    table.apply(Edits(nothing, [np.zeros(gap.shape) for gap in gaps(table)])).write(tmp_path / "same.csv")
    assert (tmp_path / "same.csv").read_bytes() == content


def test_a_line_for_a_missing_time_is_written_as_the_others_are(tmp_path: Path) -> None:
    content = (
        "\ufeffmade by a logger;;\r\nDate;Time;Station;NO2;O3;;\r\n01/05/2020;00.00.00;007;1,5;20;;\r\n"
        "01/05/2020;01.00.00;007;;21;;\r\n01/05/2020;03.00.00;007;2,5;;;\r\n13/05/2020;00.00.00;007;3,5;22;;\r\n"
    ).encode()
    (tmp_path / "in.csv").write_bytes(content)
    table = read_text_table(tmp_path / "in.csv", time_options=TimeOptions(missing_times="insert"))
    assert len(table.panel.series[0].times) == 12 * 24 + 1
    lines, before = filled(tmp_path, table, 4.0).split(b"\r\n"), content.split(b"\r\n")
    assert lines[:3] == before[:3]
    assert lines[3:6] == [
        b"01/05/2020;01.00.00;007;4,0;21;;", b"01/05/2020;02.00.00;007;4,0;4;;", b"01/05/2020;03.00.00;007;2,5;4;;",
    ]  # fmt: skip
    assert lines[-2:] == before[-2:]
    assert len(lines) == len(before) + 12 * 24 + 1 - 4
    assert [line for line in lines if line in before] == [line for line in before if line not in before[3:5]]


def test_packed_files_hold_what_plain_ones_do(tmp_path: Path) -> None:
    content = b"time,x\n0,1.5\n1,\n2,2.5\n"
    table = read(tmp_path, gzip.compress(content), name="in.csv.gz")
    filled(tmp_path, table, 2.0, "out.csv.gz")
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()) == content.replace(b"1,\n", b"1,2.0\n")
    assert filled(tmp_path, table, 2.0) == content.replace(b"1,\n", b"1,2.0\n")


def test_numbers_have_the_decimals_of_their_column_and_a_bare_column_those_of_another(tmp_path: Path) -> None:
    spec = ColumnSpec(features=["whole", "fine", "bare"])
    table = read(tmp_path, "time,whole,fine,bare\n0,1,1.125,\n1,,,\n2,3,2.5,\n", spec)
    assert (
        filled(tmp_path, table, 2.34567) == b"time,whole,fine,bare\n0,1,1.125,2.346\n1,2,2.346,2.346\n2,3,2.5,2.346\n"
    )


def test_a_cell_that_is_left_empty_becomes_an_empty_field(tmp_path: Path) -> None:
    table = read(tmp_path, "time,x\n0,1\n1,99\n2,3\n")
    changed = [np.array([[False, True, False]])]
    table.apply(Edits(changed, [np.full((1, 3), np.nan)])).write(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "time,x\n0,1\n1,\n2,3\n"


def test_marks_stand_where_values_do(tmp_path: Path) -> None:
    table = read(
        tmp_path, 'time,x,note\n2020-01-01 00:00,"1,5",a\n2020-01-01 01:00,,b\n2020-01-01 03:00,2,c\n', decimal=","
    )
    assert marked(tmp_path, table) == [
        "time,x,note", '2020-01-01 00:00,"observed",a', "2020-01-01 01:00,imputed,b", "2020-01-01 02:00,imputed,",
        "2020-01-01 03:00,observed,c",
    ]  # fmt: skip


def test_ids_of_groups_keep_their_zeros(tmp_path: Path) -> None:
    rows = [(h, station) for station in ("001013", "1013") for h in (0, 1, 3)]
    content = "time,station,x\n" + "".join(f"2020-01-01 {h:02d}:00,{station},{h}.5\n" for h, station in rows)
    table = read(tmp_path, content)
    assert [series.name for series in table.panel.series] == ["001013", "1013"]
    lines = filled(tmp_path, table).decode().splitlines()
    assert "2020-01-01 02:00,001013,7.2" in lines
    assert "2020-01-01 02:00,1013,7.2" in lines
    table = read(tmp_path, content.replace("station", "plant"), ColumnSpec(group=["plant"]))
    assert [series.name for series in table.panel.series] == ["001013", "1013"]


def test_a_long_file_gets_lines_for_the_times_of_each_feature(tmp_path: Path) -> None:
    rows = ["00:00,no2,1.5", "01:00,no2,2.5", "02:00,no2,3.5", "00:00,o3,10", "02:00,o3,12"]
    content = "time,parameter,value,unit\n" + "".join(f"2020-01-01 {row},ppb\n" for row in rows)
    table = read(tmp_path, content)
    assert [(f.name, f.unit) for f in table.panel.features] == [("no2", "ppb"), ("o3", "ppb")]
    lines = filled(tmp_path, table).decode().splitlines()
    assert [line for line in lines if line not in content.splitlines()] == ["2020-01-01 01:00,o3,7.2,ppb"]
    assert [line for line in lines if line in content.splitlines()] == content.splitlines()


def test_units_come_from_their_row_in_the_file_unless_told(tmp_path: Path) -> None:
    content = "time,x,y\n,mg/L,degC\n0,1,2\n1,3,4\n"
    assert [f.unit for f in read(tmp_path, content).panel.features] == ["mg/L", "degC"]
    table = read_text_table(tmp_path / "in.csv", units={"y": "K"})
    assert [f.unit for f in table.panel.features] == ["mg/L", "K"]


def test_a_column_that_is_mostly_numbers_is_refused_unless_others_are_named(tmp_path: Path) -> None:
    content = "time,x,odd\n0,1,1\n1,,2\n2,3,calm\n"
    with pytest.raises(DataError, match=r"in.csv, line 4, column 'odd': .*'calm'"):
        read(tmp_path, content)
    table = read(tmp_path, content, ColumnSpec(features=["x"]))
    assert filled(tmp_path, table, 2.0).decode() == content.replace("1,,2", "1,2,2")
    marks = read_text_table(tmp_path / "in.csv", missing_marks=("calm",))
    assert np.isnan(marks.panel.series[0].values[1, 2])


def test_columns_named_as_groups_can_be_features(tmp_path: Path) -> None:
    table = read(tmp_path, "time,device,x\n0,1.5,1\n1,,2\n2,2.5,3\n", ColumnSpec(group=(), features=["device"]))
    assert filled(tmp_path, table, 2.0) == b"time,device,x\n0,1.5,1\n1,2.0,2\n2,2.5,3\n"


def test_of_rows_of_one_time_the_one_that_stands_is_filled(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("time,x\n2020-01-01 00:00,1\n2020-01-01 01:00,\n2020-01-01 01:00,\n2020-01-01 02:00,3\n")
    with pytest.raises(DataError, match="2020-01-01"):
        read_text_table(path)
    table = read_text_table(path, time_options=TimeOptions(duplicates="first"))
    lines = filled(tmp_path, table, 2.0).decode().splitlines()
    assert lines[2] == "2020-01-01 01:00,2"
    assert len(lines) == 5


@pytest.mark.parametrize(
    ("name", "code"), [("AirQualityUCI.csv", -200), ("us_embassy_beijing_2015.csv", -999), ("openaq_no2_long.csv", -1)]
)
def test_a_real_file_differs_in_its_gaps_alone(data_root: Path, tmp_path: Path, name: str, code: int) -> None:
    source = data_root / "air_quality" / name
    table = read_text_table(source, time_options=TimeOptions(duplicates="first"))
    values = [series.values for series in table.panel.series]
    changed = [np.isnan(of_series) | (of_series == code) for of_series in values]
    table.apply(Edits(changed, [np.full(of_series.shape, 7.0) for of_series in values])).write(tmp_path / name)
    before = source.read_bytes().splitlines(keepends=True)
    after = (tmp_path / name).read_bytes().splitlines(keepends=True)
    there, coded = set(before), re.compile(rb"[,;]%d[,;]" % code)
    n_repeated = int((~table.alignment.used).sum())
    assert (
        len(after) == len(before) + sum(of_series.shape[1] for of_series in values) - len(file_of(table)) + n_repeated
    )
    assert [line for line in after if line in there] == [line for line in before if not coded.search(line)]


def test_names_of_digits_stay_apart_and_come_back_as_written(tmp_path: Path) -> None:
    lines = [f"{h},{name},{h + 1}{name}" for h in range(4) for name in ("01", "1")]
    long = read(tmp_path, "time,parameter,value\n" + "\n".join(lines[:-1]))
    assert [feature.name for feature in long.panel.features] == ["01", "1"]
    assert filled(tmp_path, long).decode().splitlines() == ["time,parameter,value", *lines[:-1], "3,1,7"]
    wide = read(tmp_path, "time,place,x\n" + "\n".join(lines))
    assert [series.name for series in wide.panel.series] == ["01", "1"]
    alone = read(tmp_path, "time,place,x\n" + "".join(f"{h},0{h},{h}\n" for h in range(4)))
    assert [feature.name for feature in alone.panel.features] == ["x"]
    assert any(note.startswith("place: digits with zeros before them are names") for note in alone.notes)
    spec = read(
        tmp_path, "time,place,x\n" + "".join(f"{h},0{h},{h}\n" for h in range(4)), ColumnSpec(features=["place"])
    )
    assert [feature.name for feature in spec.panel.features] == ["place"]


ZIPS = ["09073", "01067", "", "10115", "80331", "NA", "09111", "01067"] * 4
RISING = [(t, 420 + 60 * np.sin(t / 6)) for t in range(60)]


@pytest.mark.parametrize(
    ("name", "texts", "is_filled"),
    [
        ("zip", ZIPS, False),
        ("zip", sorted(ZIPS), False),
        ("place", ["7", "07", ""] * 10, False),
        ("peak", [f"{(37 * t) % 24:02d}30" if t != 3 else "" for t in range(40)], False),
        ("sunrise", [f"{630 + t:04d}" if t != 3 else "" for t in range(29)], False),
        ("sampled", [f"{t + 1:02d}012005" if t != 3 else "" for t in range(29)], False),
        ("co2", [f"{round(value):05d}" if t % 9 else "" for t, value in RISING], True),
        ("co2", [f"{round(value):05d}" for t, value in RISING], True),
        ("co2", [f"{round(value)}" if t % 9 else "" for t, value in RISING], True),
        ("share", ["0.5", "0", "", "0.25"] * 10, True),
    ],
)
def test_digits_with_zeros_before_them_are_codes_unless_they_vary_as_a_measurement(
    tmp_path: Path, name: str, texts: list[str], is_filled: bool
) -> None:
    rows = [f"2024-01-{1 + n // 24:02d} {n % 24:02d}:00,{text},{n}.5" for n, text in enumerate(texts)]
    table = read(tmp_path, f"time,{name},x\n" + "\n".join(rows))
    assert [feature.name for feature in table.panel.features] == [name] * is_filled + ["x"]
    assert any(note.startswith(f"{name}: digits with zeros") for note in table.notes) != is_filled
    forced = read(tmp_path, f"time,{name},x\n" + "\n".join(rows), ColumnSpec(features=[name, "x"]))
    assert [feature.name for feature in forced.panel.features] == [name, "x"]


def test_a_filled_number_has_the_zeros_of_its_column(tmp_path: Path) -> None:
    rows = [f"{t},{f'{round(value):05d}' if t else ''},1" for t, value in RISING]
    table = read(tmp_path, "time,co2,x\n" + "\n".join(rows), ColumnSpec(features=["co2"]))
    assert filled(tmp_path, table).decode().splitlines()[1] == "0,00007,1"


def test_a_column_that_is_named_as_groups_but_holds_readings_is_filled(tmp_path: Path) -> None:
    table = read(tmp_path, "time,sensor,x\n" + "".join(f"{h},{h / 4 if h != 2 else ''},1\n" for h in range(8)))
    assert [feature.name for feature in table.panel.features] == ["sensor", "x"]


def test_rounding_to_the_decimals_of_a_column_crosses_no_limit(tmp_path: Path) -> None:
    table = read(tmp_path, "time,x,y\n0,0.5,1\n1,,\n2,0.7,3\n")
    assert table.decimals == [1, 0]
    prepared = prepare(table, limits={"x": Limits(0.12, 0.96)}, missing_codes=(), drop_invalid=False)
    for value, x in ((0.13, "0.2"), (0.959, "0.9"), (0.6, "0.6")):
        prepared.table.apply(prepared.edits(gaps(table), [np.full(gap.shape, value) for gap in gaps(table)])).write(
            tmp_path / "out.csv"
        )
        assert (tmp_path / "out.csv").read_text().splitlines()[2].split(",")[1] == x


@pytest.mark.parametrize("sep", [",", ";", "\t"])
def test_rows_without_any_value_are_steps_where_each_row_is_one(tmp_path: Path, sep: str) -> None:
    lines = ["x,y", "1.5,2", ",", ",", "4.5,", "5.5,6", ",", ""]
    text = "\n".join(lines).replace(",", sep)
    table = read(tmp_path, text)
    np.testing.assert_array_equal(table.panel.series[0].values[0], [1.5, np.nan, np.nan, 4.5, 5.5])
    assert "2 rows without any value between others: steps without values" in table.notes
    assert file_of(table).lines.tolist() == [2, 3, 4, 5, 6]
    assert filled(tmp_path, table).decode().splitlines() == [
        line.replace(",", sep) for line in ("x,y", "1.5,2", "7.2,7", "7.2,7", "4.5,7", "5.5,6", ",")
    ]
    timed = read(tmp_path, "time,x\n2024-01-01,1\n,\n2024-01-02,2\n2024-01-03,3\n".replace(",", sep))
    assert timed.panel.series[0].values.tolist() == [[1, 2, 3]]
    assert "1 row without any value kept as they are" in timed.notes


def test_an_empty_column_is_no_feature_unless_it_is_named_or_known(tmp_path: Path) -> None:
    text = "time,x,DOCS\n" + "".join(f"{h},{h}.5,\n" for h in range(6))
    table = read(tmp_path, text)
    assert [feature.name for feature in table.panel.features] == ["x"]
    assert "DOCS: holds nothing and is passed through unchanged" in table.notes
    for spec in (
        ColumnSpec(features=["x", "DOCS"]),
        ColumnSpec(learnt=ColumnSpec(time=["time"], features=["x", "DOCS"])),
    ):
        named = read(tmp_path, text, spec)
        assert [feature.name for feature in named.panel.features] == ["x", "DOCS"]
    marks = read(tmp_path, text.replace(",\n", ",NA\n"))
    assert [feature.name for feature in marks.panel.features] == ["x"]


def test_a_time_that_is_a_number_beyond_all_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"column 'hour' looks like a time and cannot be read as one"):
        read(tmp_path, "hour\n" + "1" * 400 + "\n")


def test_a_column_in_scientific_notation_is_filled_in_it(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    lines = [f"2024-03-01 {h:02d}:00,{'' if h == 5 else f'{h + 1}.250e-06'}" for h in range(20)]
    source.write_text("\n".join(["time,a", *lines, ""]))
    table = read_text_table(source)
    filled = table.apply(Edits([np.isnan(s.values) for s in table.panel.series], [np.full((1, 20), 1.9841e-6)]))
    assert list(filled.changes.values()) == [{5: "1.984e-06"}]

"""Layouts of text files as instruments and offices write them, and what stands beside the digits of their numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.files.fill_file import fill_file
from tsimpute.filling.files.outputs import Outputs
from tsimpute.filling.imputer.table_imputer import TableImputer
from tsimpute.filling.preparing.prepare import prepare
from tsimpute.tables.frames.table import Edits, Table
from tsimpute.tables.roles.columns import ColumnSpec
from tsimpute.tables.sources.files import TextForm, check_ending, read_file, read_table, write_object

HOURS = pd.date_range("2024-03-01", periods=40, freq="h")
DAYS = pd.date_range("2024-03-01", periods=6)
GAPS = (4, 13, 22, 31)


def body(row: Callable[[int, pd.Timestamp], str], end: str = "\n") -> str:
    return "".join(row(i, time) + end for i, time in enumerate(HOURS))


def value(i: int, text: str) -> str:
    return "" if i in GAPS else text


def read(
    folder: Path, content: str | bytes, name: str = "in.csv", spec: ColumnSpec | None = None, **form: object
) -> Table:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_file(folder / name, spec, form=TextForm(**form))  # type: ignore[arg-type]


def filled(folder: Path, table: Table, number: float) -> bytes:
    """The bytes of the file with a number in every gap."""
    gaps = [np.isnan(series.values) for series in table.panel.series]
    write_object(table.apply(Edits(gaps, [np.full(gap.shape, number) for gap in gaps])), folder / "out.csv")
    return (folder / "out.csv").read_bytes()


def names(table: Table) -> list[str]:
    return [feature.name for feature in table.panel.features]


def units(table: Table) -> list[str]:
    return [feature.unit for feature in table.panel.features]


PLAIN = body(lambda i, t: f"{t:%Y-%m-%d %H:%M},{value(i, '1.5')},{i}.0")
POINTS = body(lambda i, t: f"{t:%d.%m.%Y %H:%M};{value(i, '1,5')};{i},0", "\r\n")


@pytest.mark.parametrize(
    ("head", "rows", "features", "expected_units"),
    [
        ("Report,Generated on,8/22/18\nA Person,1/1/00,\ntime,a,b\n", PLAIN, ["a", "b"], ["", ""]),
        ("Station: 12,Height: 5 m,x\n\ntime,a,b\n", PLAIN, ["a", "b"], ["", ""]),
        ("Report 2024, station A, hourly\ntime,a,b\n", PLAIN, ["a", "b"], ["", ""]),
        ("# made by hand, twice, today\ntime,a,b\n# s,mg/L,degC\n", PLAIN, ["a", "b"], ["mg/L", "degC"]),
        ("time,a,b\nTS,Volts,Deg C\n,Avg,Min\n", PLAIN, ["a", "b"], ["Volts", "Deg C"]),
        ("TOA5,CR1000,1234\nTIMESTAMP,a,b\nTS,Volts,mm\n,Avg,Tot\n", PLAIN, ["a", "b"], ["Volts", "mm"]),
        (
            "Name,FI101,TI102\nDescriptor,Feed flow,Feed temp\nUnits,m3/h,degC\n",
            PLAIN,
            ["FI101", "TI102"],
            ["m3/h", "degC"],
        ),
        (",A,A\ntime,x,y\n", PLAIN, ["x", "y"], ["", ""]),
        (",A,B\ntime,x,x\n", PLAIN, ["A x", "B x"], ["", ""]),
        ("Date,A,\n,x,y\n,mg,mg\n", PLAIN, ["x", "y"], ["mg", "mg"]),
        ("time,A,A\n,x,y\n", PLAIN, ["A x", "A y"], ["", ""]),
        ("sep=;\r\nStation;Mitte\r\n\r\nZeit;a;b\r\n;µg/m³;[°C]\r\n", POINTS, ["a", "b"], ["µg/m³", "°C"]),
        ("\ufeffBericht 2024;;\r\n;;\r\nDatum;a;b\r\n", POINTS, ["a", "b"], ["", ""]),
        (";a;b\r\nDD.MM.YYYY hh:mm;[W];[W]\r\n", POINTS, ["a", "b"], ["W", "W"]),
    ],
)
def test_names_are_found_below_a_preamble_and_above_units_and_every_byte_but_the_gaps_stays(
    head: str, rows: str, features: list[str], expected_units: list[str], tmp_path: Path
) -> None:
    content = head + rows
    table = read(tmp_path, content)
    assert (names(table), units(table)) == (features, expected_units)
    assert table.panel.clock.step == 1
    assert table.panel.clock.unit == "hours"
    expected = content.replace(",,", ",2.5,") if rows is PLAIN else content.replace(";;", ";2,5;")
    expected = head + expected[len(head) :] if expected.startswith(head) else head + _gaps_filled(rows)
    assert filled(tmp_path, table, 2.5) == expected.encode()


def _gaps_filled(rows: str) -> str:
    return rows.replace(",,", ",2.5,").replace(";;", ";2,5;")


@pytest.mark.parametrize("second", ["#yr  mo dy hr mn degT m/s degC", "yr  mo dy hr mn degT m/s degC"])
def test_buoys_have_two_lines_above_the_rows_and_mm_is_missing(second: str, tmp_path: Path) -> None:
    rows = body(lambda i, t: f"{t:%Y %m %d %H} 00 175 3.{i % 10} {value(i, '14.6') or 'MM'}")
    content = f"#YY  MM DD hh mm WDIR WSPD ATMP\n{second}\n{rows}"
    table = read(tmp_path, content, "in.txt", ColumnSpec(features=["WDIR", "WSPD", "ATMP"], time=()))
    assert (names(table), units(table)) == (["WDIR", "WSPD", "ATMP"], ["degT", "m/s", "degC"])
    assert np.flatnonzero(np.isnan(table.panel.series[0].values[2])).tolist() == list(GAPS)
    assert filled(tmp_path, table, 2.5).decode() == content.replace("MM\n", "2.5\n")


def test_lines_of_formats_are_no_units(tmp_path: Path) -> None:
    rows = body(lambda i, t: f"USGS\t01491000\t{t:%Y-%m-%d %H:%M}\tEST\t{value(i, '22.5')}\tA")
    head = "agency_cd\tsite_no\tdatetime\ttz_cd\t69928_00060\t69928_00060_cd\n5s\t15s\t20d\t6s\t14n\t10s\n"
    content = f"# data\n#\n{head}{rows}"
    table = read(tmp_path, content, "in.txt")
    assert (names(table), units(table)) == (["69928_00060"], [""])
    assert filled(tmp_path, table, 2.5).decode() == content.replace("EST\t\t", "EST\t2.5\t")


@pytest.mark.parametrize(
    "head", [",A,A\n,Wh,W\n,Wh,W\n", "time,A,A\n", ",INV 1,INV 1\n,Dc.Watt,Dc.Watt\n,Analog,Analog\n"]
)
def test_names_that_stand_twice_are_refused_with_their_line_and_what_to_do(head: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"in.csv: line \d was taken for the names.*cut the lines above"):
        read(tmp_path, "\n" + head.replace("Wh,W", "W,W") + PLAIN)


def test_a_first_column_without_a_name_is_the_time_where_it_holds_stamps(tmp_path: Path) -> None:
    table = read(tmp_path, ",a,b\n" + PLAIN)
    assert (table.panel.clock.unit, names(table)) == ("hours", ["a", "b"])
    assert filled(tmp_path, table, 2.5).decode() == ",a,b\n" + _gaps_filled(PLAIN)


@pytest.mark.parametrize(
    "footer",
    ["-- end of file --\n", "Mean,20.1,50.2\n", "Min,1,2\nMax,1,2\nStd. dev,1,2",
     "\n(40 rows affected)\n\nDone, at last\n", "Total:,40,\r\n", "Source: somebody,,\n", ",Mittelwert,3.5\n",
     "Grand total,40,\n# of rows,40,40\n"],
)  # fmt: skip
def test_remarks_and_summaries_at_the_end_are_no_rows_and_stay(footer: str, tmp_path: Path) -> None:
    content = "time,a,b\n" + PLAIN + footer
    table = read(tmp_path, content)
    assert len(table.panel.series[0].times) == len(HOURS)
    assert any("42" in note or "43" in note for note in table.notes)
    assert filled(tmp_path, table, 2.5).decode() == "time,a,b\n" + _gaps_filled(PLAIN) + footer


def test_a_remark_at_the_end_is_no_row_below_a_column_of_names_either(tmp_path: Path) -> None:
    content = "site,time,a\n" + body(lambda i, t: f"A,{t:%Y-%m-%d %H:%M},{value(i, '1.5')}") + "-- end of file --\n"
    assert len(read(tmp_path, content).panel.series[0].times) == len(HOURS)
    with pytest.raises(DataError, match="line 42: expected 3 fields"):
        read(tmp_path, content.replace("-- end of file --", "A"))


def test_few_numbers_with_units_in_all_rows_are_names(tmp_path: Path) -> None:
    content = "time,height,a\n" + "".join(
        f"{t:%Y-%m-%d %H:%M},{h},{value(i, '1.5')}\n" for i, t in enumerate(HOURS) for h in ("2m", "10m")
    )
    table = read(tmp_path, content, spec=ColumnSpec(group=["height"]))
    assert [series.name for series in table.panel.series] == ["2m", "10m"]
    one = content.replace("10m", "2m").splitlines(keepends=True)
    assert names(read(tmp_path, "".join(one[:1] + one[1::2]))) == ["a"]


def test_a_last_row_with_a_time_is_a_row_whatever_stands_before_it(tmp_path: Path) -> None:
    content = "a,time\n" + body(lambda i, t: f"{i}.5,{t:%Y-%m-%d %H:%M}") + "Err,2024-03-05 00:00\n"
    with pytest.raises(DataError, match=r"line 42, column 'a'.*'Err'"):
        read(tmp_path, content)


def test_a_last_row_of_values_is_a_row_whatever_its_first_field(tmp_path: Path) -> None:
    rows = "".join(f"{site},{t:%Y-%m-%d},{i}\n" for i, t in enumerate(DAYS[:3]) for site in ("Min", "Total"))
    assert len(read(tmp_path, "site,time,a\n" + rows, spec=ColumnSpec(group=["site"])).panel.series) == 2


@pytest.mark.parametrize("head", ["time,a,b\n", "time,a,b\n,degC,%\n", "Report,of,today\ntime,a,b\n"])
def test_a_line_of_names_between_the_rows_stays_and_is_named(head: str, tmp_path: Path) -> None:
    lines = PLAIN.splitlines(keepends=True)
    content = head + "".join(lines[:20]) + head + "".join(lines[20:])
    table = read(tmp_path, content)
    n_head = head.count("\n")
    assert len(table.panel.series[0].times) == len(HOURS)
    assert any(f"again in line{'s' * (n_head > 1)} {21 + n_head}" in note for note in table.notes)
    assert filled(tmp_path, table, 2.5).decode() == head + _gaps_filled("".join(lines[:20])) + head + _gaps_filled(
        "".join(lines[20:])
    )


@pytest.mark.parametrize(
    ("texts", "decimal", "written", "unit"),
    [
        (["45%", "46.5%"], ".", "12.3%", "%"),
        (["45 %", "46,5 %"], ",", "12,3 %", "%"),
        (["12.3 °C", "-3.5 °C"], ".", "12.3 °C", "°C"),
        (["5 mg/L", "5.5 mg/L"], ".", "12.3 mg/L", "mg/L"),
        (["5.5 (m3/h)", "6.5 (m3/h)"], ".", "12.3 (m3/h)", "m3/h"),
        (["5.5 deg C", "6.5 deg C"], ".", "12.3 deg C", "deg C"),
        (["$5.10", "$6.20"], ".", "$12.30", "$"),
        (["\u22125,5", "\u22124,5"], ",", "12,3", ""),
        (["1,234.5", "987.5", "1,001.0"], ".", "12.3", ""),
        (["1.234,5", "987,5"], ",", "12,3", ""),
        (["1 234", "987"], ".", "12", ""),
        (["1\u202f234", "987"], ".", "12", ""),
        (["1'234.5", "987.0"], ".", "12.3", ""),
        (["1,234,567", "987"], ".", "12", ""),
        (["1,234 kWh", "987 kWh", "2,345,678 kWh"], ".", "12 kWh", "kWh"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_signs_beside_all_numbers_of_a_column_are_read_and_written_back(
    texts: Sequence[str], decimal: str, written: str, unit: str, end: str, tmp_path: Path
) -> None:
    head, other = f"time;a;b{end}", f"5{decimal}5"
    cells = [value(i, texts[i % len(texts)]) for i in range(len(HOURS))]
    content = head + body(lambda i, t: f"{t:%Y-%m-%d %H:%M};{cells[i]};{other}", end)
    table = read(tmp_path, content)
    assert (names(table), units(table)) == (["a", "b"], [unit, ""])
    number = re.sub(r"\(m3/h\)|[^-\u2212\d.,' \u202f]", "", texts[0]).strip().replace("\u2212", "-")
    for sign in " '\u202f" + {".": ",", ",": "."}[decimal]:
        number = number.replace(sign, "")
    assert table.panel.series[0].values[0, 0] == float(number.replace(",", "."))
    assert table.unfillable == ()
    assert filled(tmp_path, table, 12.3).decode() == content.replace(";;", f";{written};")


def test_thousands_are_grouped_in_filled_cells_and_quoted_where_they_have_to_be(tmp_path: Path) -> None:
    content = "time,a,b\n" + body(lambda i, t: f"{t:%Y-%m-%d %H:%M},{value(i, chr(34) + '1,234.5' + chr(34))},1.5")
    table = read(tmp_path, content)
    assert filled(tmp_path, table, -12345.25).decode() == content.replace(",,", ',"-12,345.2",')


def test_a_thousands_sign_that_may_be_a_decimal_mark_is_refused_until_it_is_said(tmp_path: Path) -> None:
    content = "time;a\n" + body(lambda i, t: f"{t:%Y-%m-%d %H:%M};{value(i, '1,234')}")
    with pytest.raises(DataError, match=r"'1,234' can be read in two ways.*decimal"):
        read(tmp_path, content)
    assert read(tmp_path, content, decimal=".").panel.series[0].values[0, 0] == 1234
    assert read(tmp_path, content, decimal=",").panel.series[0].values[0, 0] == 1.234


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ("<0.5", r"a bound.*half the limit.*--missing_marks \"<0\.5\""),
        (">400", r"a bound.*--missing_marks \">400\""),
        ("12.3*", r"the flag '\*'.*Take off"),
        ("12.3 A", "the flag 'A'"),
        ("0.5J", "the flag 'J'"),
        ("12.3 (est)", r"the flag '\(est\)'"),
        ("12.3 ± 0.4", "uncertainty"),
        ("T", "a trace"),
        ("Bad Input", r"no number.*--missing_marks \"Bad Input\".*--text \"a\""),
        ("#DIV/0!", "no number"),
        ("12 mg/L", "the unit 'mg/L', which not every number has"),
    ],
)
def test_what_is_no_number_among_numbers_is_refused_by_name_and_some_ways_out_hold(
    odd: str, said: str, tmp_path: Path
) -> None:
    content = "time,a,b\n" + body(lambda i, t: f"{t:%Y-%m-%d %H:%M},{value(i, odd if i % 7 == 3 else '1.5')},{i}.0")
    with pytest.raises(DataError, match=rf"in.csv, line 5, column 'a': .*{said}"):
        read(tmp_path, content)
    marked = read(tmp_path, content, missing_marks=(odd,))
    assert np.isnan(marked.panel.series[0].values[0, 3])
    assert names(read(tmp_path, content, spec=ColumnSpec(text=["a"]))) == ["b"]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["12.3 A", "12.4 P"], "the flag 'A'"),
        (["12.3 A", "12.4 A"], "the flag 'A'"),
        (["110/70", "115/75"], "two numbers"),
        (["10-20", "20-30"], "two numbers"),
        (["5 mg/L", "6 mmol/L"], "the unit 'mg/L'"),
        (["<0.5", "<0.5", "1.5"], "a bound"),
        (["Calib", "Calib", "1.5"], "no number"),
        ([f"{k} odd units" for k in range(20)], "no number"),
        (["(12.3)"], "written in another way"),
        (["0.12D+02"], "written in another way"),
        (["12,34,567"], "written in another way"),
    ],
)
def test_a_column_with_gaps_that_looks_like_numbers_and_cannot_be_filled_is_listed(
    texts: list[str], said: str, tmp_path: Path
) -> None:
    cells = [value(i, f'"{texts[i % len(texts)]}"') for i in range(len(HOURS))]
    content = "time,a,b\n" + body(lambda i, t: f"{t:%Y-%m-%d %H:%M},{cells[i]},{i}.0")
    table = read(tmp_path, content)
    ((name, reason),) = table.unfillable
    assert name == "a"
    assert said in reason
    assert "line 2" in reason
    assert "4 gaps stay empty" in reason
    prepared = prepare(table, limits={}, missing_codes="certain", drop_invalid=False)
    assert prepared.table.unfillable == table.unfillable
    assert read(tmp_path, content, spec=ColumnSpec(text=["a"])).unfillable == ()
    frame = pd.read_csv(tmp_path / "in.csv")
    assert [of_one for of_one, _ in read_table(frame).unfillable] == ["a"]
    with pytest.raises(DataError, match=rf"one column of numbers.*column 'a'.*{said}"):
        read(tmp_path, content, spec=ColumnSpec(text=["b"]))


@pytest.mark.parametrize("texts", [["12A", "13A"], ["5 mg given"], ["see above"], ["2nd", "3rd"]])
def test_words_and_full_columns_are_passed_through(texts: list[str], tmp_path: Path) -> None:
    full = texts[0] == "12A"
    cell = lambda i: texts[i % len(texts)] if full or i % 3 == 0 else ""
    content = "time,a,b\n" + body(lambda i, t: f"{t:%Y-%m-%d %H:%M},{cell(i)},{i}.0")
    assert read(tmp_path, content).unfillable == ()


@pytest.mark.parametrize("mark", ["M", "MM", "///", "#NV", "k.A."])
def test_marks_of_gaps_hold_beside_numbers_only(mark: str, tmp_path: Path) -> None:
    content = "time,a,sex\n" + body(lambda i, t: f"{t:%Y-%m-%d %H:%M},{value(i, '1.5') or mark},{mark}")
    table = read(tmp_path, content)
    assert names(table) == ["a"]
    assert filled(tmp_path, table, 2.5).decode() == content.replace(f"{mark},", "2.5,")


def test_text_is_a_setting_of_the_imputer_and_a_name_that_is_not_there_is_refused() -> None:
    assert list(TableImputer(text="note").settings.spec.text or ()) == ["note"]
    frame = pd.DataFrame({"time": HOURS, "a": 1.5, "note": ["1.5 A"] * 39 + [None]})
    assert read_table(frame).unfillable[0][0] == "note"
    assert read_table(frame, ColumnSpec(text=["note"])).unfillable == ()
    with pytest.raises(ConfigError, match="text: expected one column 'no'"):
        read_table(frame, ColumnSpec(text=["no"]))


HOUR_NAMES = [
    [str(h) for h in range(24)], [f"{h:02d}" for h in range(24)], [f"H{h:02d}" for h in range(1, 25)],
    [f"{h:02d}:00" for h in range(24)], [f"Hour {h}" for h in range(1, 25)],
]  # fmt: skip


@pytest.mark.parametrize("hours", HOUR_NAMES)
@pytest.mark.parametrize("days", ["%Y-%m-%d", "%d/%m/%Y", "%Y%m%d"])
def test_hours_in_24_columns_are_refused_with_a_recipe_that_works(hours: list[str], days: str, tmp_path: Path) -> None:
    lines = [",".join([day.strftime(days), "A", "NO2", *(f"{h}.5" for h in range(24))]) for day in DAYS]
    content = ",".join(["date", "site", "item", *hours]) + "\n" + "\n".join(lines).replace("7.5", "7.5x") + "\n"
    with pytest.raises(DataError, match="hours of a day in 24 columns") as error:
        read(tmp_path, content)
    recipe = [line.strip() for line in str(error.value).splitlines() if " = " in line or "long[" in line][:3]
    text = "\n".join(recipe).replace("'in.csv'", repr(str(tmp_path / "in.csv")))
    found: dict[str, object] = {"pandas": pd}
    if days != "%d/%m/%Y":
        exec(text, found)
        long = found["long"]
        assert isinstance(long, pd.DataFrame)
        assert len(long) == 6 * 24
        first = DAYS[0] + pd.Timedelta(hours=int(hours[0] not in ("0", "00", "00:00")))
        assert str(long["time"].min()) == str(first)
    assert "feature='item'" in str(error.value)
    frame = pd.read_csv(tmp_path / "in.csv")
    with pytest.raises(DataError, match="hours of a day"):
        read_table(frame)


def test_24_sensors_are_no_hours(tmp_path: Path) -> None:
    header = ",".join(["time", *map(str, range(1, 25))])
    content = header + "\n" + body(lambda i, t: ",".join([f"{t:%Y-%m-%d %H:%M}", *(["1.5"] * 24)]))
    assert len(names(read(tmp_path, content))) == 24


def folder_of(root: Path, contents: dict[str, str]) -> Path:
    folder = root / "stays"
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content.encode())
    return folder


@pytest.mark.parametrize(("suffix", "end"), [(".psv", "\n"), (".csv", "\r\n"), (".txt", "\n")])
def test_a_folder_of_files_is_one_table_and_comes_back_as_a_folder(suffix: str, end: str, tmp_path: Path) -> None:
    one = f"HR|Temp|ICULOS{end}80|NaN|1{end}NaN|36.5|2{end}"
    two = f"HR|Temp|ICULOS{end}90|37.5|1{end}91|NaN|3{end}"
    folder = folder_of(tmp_path, {f"p1{suffix}": one, f"p2{suffix}": two, ".hidden": "x", "notes.pdf": "x"})
    table = read_file(folder, ColumnSpec(time=["ICULOS"]))
    assert [series.name for series in table.panel.series] == ["p1", "p2"]
    assert names(table) == ["HR", "Temp"]
    assert any("1 in the folder not read: notes.pdf" in note for note in table.notes)
    gaps = [np.isnan(series.values) for series in table.panel.series]
    write_object(table.apply(Edits(gaps, [np.full(gap.shape, 2.0) for gap in gaps])), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"p1{suffix}", f"p2{suffix}"]
    assert (tmp_path / "out" / f"p1{suffix}").read_bytes().decode() == one.replace("NaN|1", "2.0|1").replace("NaN", "2")
    new = two.replace(f"91|NaN|3{end}", f"2|2.0|2{end}91|2.0|3{end}")
    assert (tmp_path / "out" / f"p2{suffix}").read_bytes().decode() == new


def test_new_rows_of_files_in_any_order_of_time_stand_in_their_file(tmp_path: Path) -> None:
    def of(start: str) -> str:
        times = [t for t in pd.date_range(start, periods=8, freq="h") if t.hour not in (3, 6)]
        return "time,a\n" + "".join(f"{t:%Y-%m-%d %H:%M},{t.hour}\n" for t in times)

    folder = folder_of(tmp_path, {"a.csv": of("2024-03-02"), "b.csv": of("2024-03-01"), "c.csv": of("2024-03-01")})
    table = read_file(folder)
    gaps = [np.isnan(series.values) for series in table.panel.series]
    write_object(table.apply(Edits(gaps, [np.full(gap.shape, 99) for gap in gaps])), tmp_path / "out")
    for name, day in (("a", 2), ("b", 1), ("c", 1)):
        written = pd.read_csv(tmp_path / "out" / f"{name}.csv")
        assert written["a"].tolist() == [0, 1, 2, 99, 4, 5, 99, 7]
        assert written["time"].str.startswith(f"2024-03-0{day}").all()


def test_a_folder_is_filled_in_one_call(tmp_path: Path) -> None:
    files = {
        f"p{k}.psv": "HR|Temp\n" + "".join(f"{80 + i % 7}|{value(i, '36.5')}\n" for i in range(40)) for k in range(3)
    }
    folder = folder_of(tmp_path, files)
    found = fill_file(folder, tmp_path / "out", {"effort": "trial", "n_samples": 3, "calibrate": False})
    assert found is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out", "out.cells.csv", "out.model.safetensors", "out.provenance", "out.report.html", "stays",
    ]  # fmt: skip
    for name, content in files.items():
        lines = (tmp_path / "out" / name).read_text().splitlines()
        kept = [line for i, line in enumerate(content.splitlines()) if i - 1 not in GAPS]
        assert [line for i, line in enumerate(lines) if i - 1 not in GAPS] == kept
        assert all(line.split("|")[1] for line in lines)


def test_files_of_a_folder_are_named_in_errors(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"a.csv": "time,x\n1,2\n2,3\n", "b.csv": "time,y\n1,2\n2,3\n"})
    with pytest.raises(DataError, match=r"b\.csv: expected the columns of a\.csv.*without x and with y"):
        read_file(folder)
    (folder / "b.csv").write_text("time,x\n1,2\n2,bad\n")
    with pytest.raises(DataError, match=r"b\.csv, line 3, column 'x'"):
        read_file(folder)
    (folder / "b.csv").write_text("time,x\n1,2\n1,3\n")
    with pytest.raises(DataError, match=r"stays: .*line 2 of b\.csv and line 3 of b\.csv"):
        read_file(folder)
    for path in folder.iterdir():
        path.unlink()
    with pytest.raises(DataError, match="a folder without any"):
        read_file(folder)


def test_a_folder_of_days_is_one_series_where_there_are_no_groups(tmp_path: Path) -> None:
    hours = [pd.date_range(day, periods=24, freq="h") for day in DAYS[:3]]
    days = {
        f"{day[0]:%Y-%m-%d}.csv": "time,a\n" + "".join(f"{t:%Y-%m-%d %H:%M},{t.hour}.5\n" for t in day) for day in hours
    }
    table = read_file(folder_of(tmp_path, days), ColumnSpec(group=()))
    assert [len(series.times) for series in table.panel.series] == [72]


def test_the_output_of_a_folder_is_a_folder_and_overwrites_no_other_files(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"a.csv": "time,x\n1,2\n"})
    with pytest.raises(ConfigError, match="expected a name of a folder"):
        check_ending(folder, tmp_path / "out.csv")
    with pytest.raises(ConfigError, match="outside of"):
        check_ending(folder, folder / "out")
    out = Outputs.named_after(tmp_path / "out.v1", is_folder=True)
    assert (out.provenance.name, out.cells.name) == ("out.v1.provenance", "out.v1.cells.csv")
    out.check(folder, force=False)
    out.table.mkdir()
    (out.table / "a.csv").touch()
    with pytest.raises(ConfigError, match="exists"):
        out.check(folder, force=False)
    out.check(folder, force=True)
    (out.table / "letter.txt").touch()
    with pytest.raises(ConfigError, match="holds others"):
        out.check(folder, force=True)


@pytest.mark.parametrize(("form", "magic"), [("NETCDF3_CLASSIC", b"CDF\x01"), ("NETCDF3_64BIT", b"CDF\x02")])
def test_classic_netcdf_comes_back_in_its_format(form: str, magic: bytes, tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    values[5, 0] = np.nan
    given = xr.Dataset(
        {"pm": (("time", "station"), values, {"units": "ug/m3"})}, {"time": HOURS, "station": ["a", "b"]}
    )
    given.to_netcdf(tmp_path / "in.nc", engine="scipy", format=form)  # type: ignore[call-overload]
    table = read_file(tmp_path / "in.nc")
    gaps = [np.isnan(series.values) for series in table.panel.series]
    write_object(table.apply(Edits(gaps, [np.full(gap.shape, 1.5) for gap in gaps])), tmp_path / "out.nc")
    assert (tmp_path / "out.nc").read_bytes()[:4] == magic
    with xr.open_dataset(tmp_path / "out.nc") as found:
        expected = np.where(np.isnan(values), np.float32(1.5), values)
        assert found["pm"].values.tobytes() == expected.tobytes()
        assert found["pm"].attrs["units"] == "ug/m3"


def test_the_newest_classic_netcdf_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "in.nc").write_bytes(b"CDF\x05" + bytes(40))
    with pytest.raises(DataError, match="nccopy"):
        read_file(tmp_path / "in.nc")

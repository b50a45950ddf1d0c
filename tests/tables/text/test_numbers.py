"""Numbers of delimited files: read to the last bit, marks counted, written without exponent, bad ones refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.sources.files import TextForm, read_file
from tsimpute.tables.text.delimited import read_delimited
from tsimpute.tables.text.numbers import MISSING_MARKS, find_numbers, number_text, read_numbers, split_unit
from tsimpute.tables.text.rawtext import Delimited

finite = st.floats(allow_nan=False, allow_infinity=False)


def table(folder: Path, fields: list[str], decimal: str = ".") -> Delimited:
    """A table of row numbers and one column ``x`` of these fields."""
    lines = ["t;x", *(f'{row};"{text}"' for row, text in enumerate(fields))]
    (folder / "in.csv").write_text("\n".join(lines), encoding="utf-8")
    return read_delimited(folder / "in.csv", delimiter=";", decimal=decimal)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(finite, min_size=1, max_size=9), decimal=st.sampled_from([".", ","]))
def test_numbers_come_back_bit_for_bit(values: list[float], decimal: str, tmp_path: Path) -> None:
    found = read_numbers(table(tmp_path, [repr(v).replace(".", decimal) for v in values], decimal), 1)
    assert found.values.tobytes() == np.array(values).tobytes()


@given(values=st.lists(finite, max_size=9), decimals=st.integers(0, 12), decimal=st.sampled_from([".", ","]))
def test_written_numbers_are_the_rounded_ones_without_exponent_and_negative_zero(
    values: list[float], decimals: int, decimal: str
) -> None:
    texts = number_text(np.array(values), decimals, decimal)
    assert [float(text.replace(decimal, ".")) for text in texts] == [round(v, decimals) for v in values]
    for text in texts:
        assert set(text) <= set("-0123456789" + decimal)
        assert not (text.startswith("-") and set(text) <= set("-0" + decimal))
        assert len(text.partition(decimal)[2]) == decimals


def test_numbers_that_are_not_finite_are_not_written() -> None:
    with pytest.raises(DataError, match="value 1 is nan"):
        number_text(np.array([1.0, np.nan]), 2, ".")


def test_marks_are_missing_in_any_case_and_counted_as_they_stand(tmp_path: Path) -> None:
    found = read_numbers(table(tmp_path, ["NA", "na", "", "1.5", "-200", "Null", "NA", "?", "+3", "-"]), 1)
    nan = np.nan
    np.testing.assert_array_equal(found.values, [nan, nan, nan, 1.5, -200, nan, nan, nan, 3, nan])
    assert found.missing == {"NA": 2, "na": 1, "": 1, "Null": 1, "?": 1, "-": 1}


def test_a_dash_of_any_kind_is_a_mark(tmp_path: Path) -> None:
    dashes = ["-", "\u2013", "\u2014", "\u2014\u2014", "\u2015", "\u2212", "\uff0d"]
    found = read_numbers(table(tmp_path, ["1.5", *dashes]), 1)
    assert found.missing == dict.fromkeys(dashes, 1)


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        (["2.250e-06", "1.9E+05", "0", ""], ["1.984e-06", "-3.000e+10", "0.000e+00"]),
        (["2.25E-6", "1E3"], ["1.98E-6", "-3.00E10", "0.00E0"]),
        (["2,5e+003"], ["2,0e-006", "-3,0e+010", "0,0e+000"]),
    ],
)
def test_a_column_with_exponents_has_its_own_way_to_write_them(
    fields: list[str], texts: list[str], tmp_path: Path
) -> None:
    mark = "," if "," in fields[0] else "."
    exponents = read_numbers(table(tmp_path, fields, mark), 1).exponents
    assert exponents is not None
    assert exponents.texts(np.array([1.9841e-6, -3e10, -0.0]), mark) == texts
    assert read_numbers(table(tmp_path, [*fields, "7.5".replace(".", mark)], mark), 1).exponents is None


def test_a_numeric_mark_stands_for_every_way_to_write_it(tmp_path: Path) -> None:
    found = read_numbers(table(tmp_path, ["-999", "-999.0", "-9.99e2", "-999.5", ""]), 1, [*MISSING_MARKS, "-999"])
    np.testing.assert_array_equal(found.values, [np.nan, np.nan, np.nan, -999.5, np.nan])
    assert found.missing == {"-999": 1, "-999.0": 1, "-9.99e2": 1, "": 1}
    assert found.decimals == 1


def test_only_the_marks_given_are_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 3, column 'x'.*'NA'"):
        read_numbers(table(tmp_path, ["1", "NA"]), 1, ["broken"])
    assert read_numbers(table(tmp_path, ["1", "BROKEN"]), 1, ["broken"]).missing == {"BROKEN": 1}
    with pytest.raises(ConfigError, match="list of texts"):
        read_numbers(table(tmp_path, ["1"]), 1, "NA")


@pytest.mark.parametrize(
    ("fields", "decimals", "is_integer"),
    [
        (["1", "+20", "", "-3"], 0, True),
        (["1", "2.50", "3.1"], 2, False),
        (["1e3"], 0, False),
        (["1.5e-3", "2.5E1"], 4, False),
        (["5.", "6"], 0, False),
        ([".25"], 2, False),
        (["", "NA"], 0, False),
        (["1e-300"], 15, False),
    ],
)
def test_decimals_and_whole_numbers(fields: list[str], decimals: int, is_integer: bool, tmp_path: Path) -> None:
    found = read_numbers(table(tmp_path, fields), 1)
    assert (found.decimals, found.is_integer) == (decimals, is_integer)


@pytest.mark.parametrize(
    ("text", "decimal", "message"),
    [
        ("inf", ".", "a finite number, came 'inf'"),
        ("-Infinity", ".", "a finite number"),
        ("1e999", ".", "a finite number, came '1e999'"),
        ("1.234.567", ".", "separators of thousands"),
        ("1.234,5", ".", "separators of thousands"),
        ("2,6", ".", "Pass decimal=','"),
        ("2.6", ",", r"Pass decimal='\.'"),
        ("1_000", ".", "a number or a missing mark"),
        ("٣", ".", "a number or a missing mark"),
        ("<0.5", ".", "a number or a missing mark"),
        ("0x1F", ".", "a number or a missing mark"),
        ("1 2", ".", "a number or a missing mark"),
    ],
)
def test_what_is_no_number_is_refused_with_its_place(text: str, decimal: str, message: str, tmp_path: Path) -> None:
    wrong = table(tmp_path, ["1", "NA", text, "3"], decimal)
    with pytest.raises(DataError, match=rf"in\.csv, line 4, column 'x': expected .*{message}"):
        read_numbers(wrong, 1)
    assert find_numbers(wrong, 1) is None


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize(("fields", "point", "comma"), [
    (["1.5", "NA", "2", "2,5", "3,25"], "line 2", "lines 5, 6"),
    (["1,5", "1,6", "1,7", "", "1,8", "2.5"], "line 7", "lines 2, 3, 4, ..., 4 in all"),
    (["1,5", "1.234,5", "2.5"], "line 4", "line 2"),
])  # fmt: skip
def test_two_decimal_marks_in_a_column_are_one_error_whatever_the_option(
    fields: list[str], point: str, comma: str, decimal: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"No option reads both: write the numbers") as refused:
        read_numbers(table(tmp_path, fields, decimal), 1)
    text = str(refused.value)
    assert f"a decimal point in column 'x' ({point})" in text
    assert f"a decimal comma in column 'x' ({comma})" in text
    assert "Pass decimal" not in text


def test_two_columns_with_different_decimal_marks_are_one_error_whatever_the_option(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("time;x;y\n" + "".join(f"2024-01-{n:02d};{n}.5;{n},5\n" for n in range(1, 20)), encoding="utf-8")
    for decimal in (None, ".", ","):
        with pytest.raises(DataError, match="No option reads both") as refused:
            read_file(path, form=TextForm(decimal=decimal))
        for mark, name in (("point", "x"), ("comma", "y")):
            assert f"a decimal {mark} in column '{name}' (lines 2, 3, 4, ..., 19 in all)" in str(refused.value)


def test_a_mark_that_may_part_thousands_beside_the_other_decimal_mark_names_no_option_that_is_refused_then(
    tmp_path: Path,
) -> None:
    path = tmp_path / "in.csv"
    path.write_text("time;x;y\n" + "".join(f"2024-01-{n:02d};{n},5;{n}.750\n" for n in range(1, 20)), encoding="utf-8")
    with pytest.raises(DataError, match=r"Pass decimal=',' if they are.*column 'x' has a decimal comma") as refused:
        read_file(path)
    assert "No option reads both" in str(refused.value)
    assert "decimal='.'" not in str(refused.value)
    assert read_file(path, form=TextForm(decimal=",")).panel.series[0].values[1, 0] == 1750


@pytest.mark.parametrize(
    ("texts", "values"),
    [(["", "NA", "7"], [7]), (["", "NA"], []), (["7", "2014-05-01"], None), (["-999", "NA", "-999.0"], [])],
)
def test_a_column_of_numbers_has_no_other_texts_than_missing_marks(
    texts: list[str], values: list[float] | None, tmp_path: Path
) -> None:
    numbers = find_numbers(table(tmp_path, texts), 1, [*MISSING_MARKS, "-999"])
    assert (None if numbers is None else numbers.values[~np.isnan(numbers.values)].tolist()) == values


def test_air_quality_uci_has_codes_and_no_marks(data_root: Path) -> None:
    uci = read_delimited(data_root / "air_quality" / "AirQualityUCI.csv")
    columns = {c: find_numbers(uci, c) for c in range(len(uci.header))}
    numeric = [c for c, numbers in columns.items() if numbers is not None and not np.isnan(numbers.values).all()]
    assert numeric == list(range(2, 15))
    co = read_numbers(uci, 2)
    assert ((co.values == -200).sum(), co.decimals, co.is_integer, co.missing) == (1683, 1, False, {})
    coded = read_numbers(uci, 2, [*MISSING_MARKS, "-200"])
    assert (coded.missing, np.isnan(coded.values).sum()) == ({"-200": 1592, "-200,0": 91}, 1683)
    assert read_numbers(uci, 3).is_integer
    assert read_numbers(uci, 14).decimals == 4


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Temp [degC]", ("Temp", "degC")),
        ("Temp (°C)", ("Temp", "°C")),
        ("RH (%)", ("RH", "%")),
        ("PM2.5 (µg/m³)", ("PM2.5", "µg/m³")),
        ("Rate[1/min]", ("Rate", "1/min")),
        ("CO(GT)", ("CO(GT)", "")),
        ("PT08.S2(NMHC)", ("PT08.S2(NMHC)", "")),
        ("Date (DD/MM/YYYY)", ("Date (DD/MM/YYYY)", "")),
        ("PM2.5_ug/m3", ("PM2.5_ug/m3", "")),
        ("CO(GT) [mg/m3]", ("CO(GT)", "mg/m3")),
        ("[ppm]", ("[ppm]", "")),
        ("", ("", "")),
    ],
)
def test_units_in_brackets_are_told_from_other_words(name: str, expected: tuple[str, str]) -> None:
    assert split_unit(name) == expected

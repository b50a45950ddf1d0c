"""Files of tables by their ending: read, written back in kind, refused with what is known; nothing else happens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from tsimpute.errors import ConfigError, DataError, TsimputeError
from tsimpute.filling.imputer.table_imputer import TableImputer
from tsimpute.system.files import atomic_write_folder
from tsimpute.tables.frames.table import Edits, Table
from tsimpute.tables.sources import files
from tsimpute.tables.sources.files import TextForm, check_ending, ending, read_file, write_object

REAL = {"AirQualityUCI.csv": 60, "us_embassy_beijing_2015.csv": 40, "openaq_no2_long.csv": 40}
"""Real files, and of how many lines a cheap head is."""


def filled(table: Table, value: float) -> object:
    """The table with a value in every gap."""
    gaps = [np.isnan(series.values) for series in table.panel.series]
    return table.apply(Edits(gaps, [np.full(gap.shape, value) for gap in gaps]))


def outcome(path: Path) -> str:
    """What came of reading a file: "read", or the message of the refusal; nothing else may happen."""
    imputer = TableImputer(duplicates="first", missing_times="insert")
    try:
        imputer.prepared(read_file(path, time_options=imputer.reader().time_options))
    except (TsimputeError, OSError) as error:
        return str(error)
    return "read"


def sheet(n_rows: int = 6) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n_rows),
            "b": rng.normal(size=n_rows).astype(np.float32),
            "c": pd.array([1, None] * (n_rows // 2), "Int16"),
            "note": ["x"] * n_rows,
        },
        index=pd.date_range("2020-01-01", periods=n_rows, freq="h", tz="Europe/Rome", name="time"),
    )
    frame.iloc[1, 0], frame.iloc[2, 1] = np.nan, np.nan
    frame.iloc[0, 0] = -0.0
    frame.attrs = {"station": "north"}
    return frame


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a.csv", ".csv"), ("A.CSV.GZ", ".csv.gz"), ("a.b.2015.csv", ".csv"), ("a.parquet", ".parquet"),
        ("a.zarr", ".zarr"), ("a.csv.zip", ".zip"), ("a", ""), ("a.gz", ".gz"), ("a.csv.parquet", ".parquet"),
    ],
)  # fmt: skip
def test_the_longest_known_ending_counts(name: str, found: str) -> None:
    assert ending(Path("some.folder") / name) == found


def test_an_output_of_another_kind_is_refused() -> None:
    check_ending(Path("in.csv"), Path("out.tsv.gz"))
    check_ending(Path("in.unknown"), Path("out.csv"))
    for source, out in (("in.csv", "out.parquet"), ("in.nc", "out.csv"), ("in.csv", "out"), ("in.parquet", "out.nc")):
        with pytest.raises(ConfigError, match="output: expected a name that ends in"):
            check_ending(Path(source), Path(out))


@pytest.mark.parametrize("name", ["book.xlsx", "table", "a.csv.zip"])
def test_an_unknown_ending_is_refused_with_those_known(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04")
    with pytest.raises(ConfigError, match=r"\.csv.*\.parquet.*\.nc.*as \.csv"):
        read_file(tmp_path / name)


def test_no_file_a_folder_and_an_empty_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is none"):
        read_file(tmp_path / "absent.csv")
    for kind in ("csv", "parquet", "nc"):
        (tmp_path / f"folder.{kind}").mkdir()
        (tmp_path / f"empty.{kind}").write_bytes(b"")
        for name in ("folder", "empty"):
            with pytest.raises(DataError, match=f"{name}.{kind}"):
                read_file(tmp_path / f"{name}.{kind}")


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "nc"])
def test_other_bytes_behind_a_known_ending_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"picture.{kind}"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01")
    with pytest.raises(DataError, match="picture"):
        read_file(path)


def test_how_a_text_file_is_written_can_be_told(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes("time|é x\n0|1,500\n1|bad\n2|2,500\n".encode("latin-1"))
    table = read_file(path, form=TextForm("|", ",", "latin-1", ("bad",)))
    assert table.panel.features[0].name == "é x"
    np.testing.assert_array_equal(table.panel.series[0].values, [[1.5, np.nan, 2.5]])


def test_parquet_comes_back_with_index_dtypes_attributes_and_every_observed_bit(tmp_path: Path) -> None:
    frame, path = sheet(), tmp_path / "in.parquet"
    frame.to_parquet(path)
    before = pd.read_parquet(path)
    write_object(filled(read_file(path), 7.0), tmp_path / "out.parquet")
    after = pd.read_parquet(tmp_path / "out.parquet")
    expected = before.copy()
    for name in ("a", "b", "c"):
        expected[name] = expected[name].fillna(7)
    pd.testing.assert_frame_equal(after, expected, check_freq=False)
    assert after.attrs == {"station": "north"}
    assert np.signbit(after["a"].iloc[0])
    assert not any(after[name].isna().any() for name in "abc")


def grid() -> xr.Dataset:
    rng = np.random.default_rng(1)
    values = rng.uniform(-3, 3, (5, 8)).round(2)
    values[2, 3:6] = np.nan
    times = pd.date_range("2020-01-01", periods=8, freq="h")
    return xr.Dataset(
        {"t2m": (("station", "time"), values, {"units": "degC"})},
        {"time": times, "station": [f"s{i}" for i in range(5)]},
        {"title": "a grid"},
    )


def test_netcdf_comes_back_with_coordinates_attributes_and_every_observed_bit(tmp_path: Path) -> None:
    grid().to_netcdf(tmp_path / "in.nc", engine="h5netcdf")
    write_object(filled(read_file(tmp_path / "in.nc"), 1.25), tmp_path / "out.nc")
    with xr.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as after:
        xr.testing.assert_identical(after.load(), grid().fillna(1.25).assign_attrs(grid().attrs))


def test_packed_netcdf_holds_a_filled_value_beyond_its_whole_numbers(tmp_path: Path) -> None:
    packing = {"dtype": "int16", "scale_factor": 1e-4, "add_offset": 0.0, "_FillValue": np.int16(-32768)}
    grid().to_netcdf(tmp_path / "in.nc", engine="h5netcdf", encoding={"t2m": packing})
    with xr.open_dataset(tmp_path / "in.nc", engine="h5netcdf") as found:
        before = found.load()
    for value, stored in ((1.25, "int16"), (50.0, "float64")):
        write_object(filled(read_file(tmp_path / "in.nc"), value), tmp_path / "out.nc")
        with xr.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as found:
            after = found.load()
        there = before["t2m"].notnull().values
        np.testing.assert_array_equal(after["t2m"].values[there], before["t2m"].values[there])
        np.testing.assert_allclose(after["t2m"].values[~there], value)
        assert after["t2m"].encoding["dtype"] == stored


def test_a_folder_is_put_in_its_place_whole_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"

    def write(text: str) -> None:
        atomic_write_folder(place, lambda folder: (folder.mkdir(), (folder / "x").write_text(text)))

    def fail(folder: Path) -> None:
        folder.mkdir()
        raise RuntimeError("disk full")

    write("one")
    with pytest.raises(RuntimeError, match="disk full"):
        atomic_write_folder(place, fail)
    assert (place / "x").read_text() == "one"
    write("two")
    assert (place / "x").read_text() == "two"
    with pytest.raises(FileNotFoundError):
        atomic_write_folder(place, lambda folder: None)
    assert (place / "x").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


def test_an_absent_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    (tmp_path / "in.nc").write_bytes(b"\x89HDF")
    with pytest.raises(ImportError, match="pip install h5netcdf h5py"):
        read_file(tmp_path / "in.nc")


@pytest.mark.parametrize("name", REAL)
def test_a_truncated_real_file_is_read_or_refused_in_a_sentence(data_root: Path, tmp_path: Path, name: str) -> None:
    data = (data_root / "air_quality" / name).read_bytes()
    head = b"".join(data.splitlines(keepends=True)[: REAL[name]])
    rng = np.random.default_rng(0)
    path = tmp_path / name
    found = []
    for cut in [*rng.integers(0, len(head), 49), rng.integers(len(head), len(data))]:
        path.write_bytes(data[:cut])
        found.append(outcome(path))
    assert 0 < found.count("read") < 50


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Bytes with some of them replaced, removed, doubled, or swapped for what files of tables stumble over."""
    words = (
        b'"',
        b",",
        b";",
        b"\n",
        b"\r",
        b"\0",
        b"\xff",
        b"NA",
        b"-999",
        b"1e999",
        b"nan",
        b"2020-13-45",
        b"\t",
        b"#",
    )
    for _ in range(rng.integers(1, 4)):
        start, length = int(rng.integers(0, len(data) + 1)), int(rng.integers(0, 30))
        piece = (words[rng.integers(len(words))], b"", data[start : start + 40] * 2, rng.bytes(5))[rng.integers(4)]
        data = data[:start] + piece + data[start + length :]
    return data


def test_whatever_the_bytes_only_errors_in_words_come(data_root: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    heads = [b"".join((data_root / "air_quality" / name).read_bytes().splitlines(keepends=True)[:30]) for name in REAL]
    found = []
    for i in range(120):
        data = rng.bytes(int(rng.integers(0, 300))) if i % 4 == 3 else mutated(heads[i % 4], rng)
        path = tmp_path / ("x.csv" if i % 10 else "x.parquet")
        path.write_bytes(data)
        found.append(outcome(path))
    assert found.count("read") > 3
    assert len(set(found)) > 10

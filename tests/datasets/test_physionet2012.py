"""PhysioNet 2012: against the published facts, the original CSDI's cells, a naive reader, and broken input."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsimpute.core.windows import Windows
from tsimpute.datasets._physionet_variables import FEATURES
from tsimpute.datasets.physionet2012 import HEADER, PhysioNet2012, join_rows, read_files
from tsimpute.errors import ConfigError, DataError, SourceError

NAMES = [feature.name for feature in FEATURES]


def write_stays(folder: Path, **stays: str) -> Path:
    """``r1="00:00,HR,80"`` becomes set-a/1.txt."""
    (folder / "set-a").mkdir()
    for name, rows in stays.items():
        (folder / "set-a" / f"{name[1:]}.txt").write_text(f"{HEADER.decode()}\n{rows}\n" if rows else "")
    return folder


def pack(folder: Path, target: Path) -> Path:
    with tarfile.open(target, "w:gz") as archive:
        archive.add(folder, "set-a")
    return target


# --- the real files -------------------------------------------------------------------------------------------------


def test_published_facts(real_stays: Windows) -> None:
    assert real_stays.values.shape == (4000, 35, 48)
    assert real_stays.values.dtype == np.float64
    assert round(100 * np.isnan(real_stays.values).mean(), 2) == 80.53
    assert real_stays.changes["rows at 48:00 or later (dropped)"] == 455
    assert real_stays.changes["rows that repeat a record, time and parameter"] == 3744
    unknown = {what.split()[0]: n for what, n in real_stays.changes.items() if "= -1" in what}
    assert unknown == {"Height": 1894, "Weight": 326, "Gender": 3}
    without = [real_stays.record_ids[i] for i in np.flatnonzero(np.isnan(real_stays.values).all((1, 2)))]
    assert without == ["140501", "140936", "141264"]
    assert real_stays.changes["records without a value (kept)"] == 3


def test_every_row_is_accounted_for(real_stays: Windows) -> None:
    """1,757,980 rows = cells + merged + dropped + unknown."""
    gone = [n for what, n in real_stays.changes.items() if "repeat" not in what and "records" not in what]
    assert int((~np.isnan(real_stays.values)).sum()) + sum(gone) == 1_757_980


def test_bad_codes_are_kept_as_they_are(real_stays: Windows) -> None:
    ph, temp = (real_stays.values[:, NAMES.index(name)] for name in ("pH", "Temp"))
    assert np.nanmax(ph) == 735
    assert np.nanmin(temp) == -17.8
    pressures = [i for i, name in enumerate(NAMES) if name.endswith(("ABP", "MAP"))]
    assert (real_stays.values[:, pressures] == 0).sum() == 1125


def test_minus_17_8_degrees_stands_23_times_in_the_files(data_root: Path) -> None:
    rows = join_rows(read_files(PhysioNet2012().locate(data_root)))
    assert ((rows["parameter"] == "Temp") & (rows["value"] == -17.8)).sum() == 23


def test_ids_are_sorted_numbers(real_stays: Windows) -> None:
    numbers = [int(name) for name in real_stays.record_ids]
    assert numbers == sorted(numbers)
    assert real_stays.record_ids[0] == "132539"
    np.testing.assert_array_equal(real_stays.times, np.tile(np.arange(48.0), (4000, 1)))


def test_observed_cells_are_those_of_the_original_csdi(real_stays: Windows, reference_root: Path) -> None:
    with np.load(reference_root / "csdi_protocol.npz") as protocol:
        ids, packed = protocol["ids"].astype(str), protocol["obs"]
    observed = np.unpackbits(packed, axis=1)[:, : 48 * 35].reshape(-1, 48, 35).astype(bool)
    at = {name: i for i, name in enumerate(real_stays.record_ids)}
    np.testing.assert_array_equal(real_stays.observed[[at[name] for name in ids]], observed.swapaxes(1, 2))


def test_values_are_those_of_the_original_csdi(real_stays: Windows, reference_root: Path) -> None:
    """Four stays; they are found by their observed cells, since the ids stored with the last two name other stays."""
    with np.load(reference_root / "csdi_parity.npz") as parity:
        mean, std = parity["mean"][:, None], parity["std"][:, None]
        values, observed = parity["values"], parity["observed"].astype(bool)
    at = [int(np.argmax((real_stays.observed == cells).all((1, 2)))) for cells in observed]
    assert [real_stays.record_ids[i] for i in at] == ["132539", "132540", "132547", "135646"]
    standardised = (real_stays.values[at] - mean) / std
    np.testing.assert_allclose(standardised[observed], values[observed], rtol=2e-6, atol=1e-6)  # stored in float32


def test_mean_and_std_of_csdi_are_those_of_all_values(real_stays: Windows, reference_root: Path) -> None:
    with np.load(reference_root / "csdi_parity.npz") as parity:
        mean, std = parity["mean"], parity["std"]
    np.testing.assert_allclose(np.nanmean(real_stays.values, axis=(0, 2)), mean, rtol=1e-6)
    np.testing.assert_allclose(np.nanstd(real_stays.values, axis=(0, 2)), std, rtol=1e-6)


def test_real_files_verify(data_root: Path) -> None:
    PhysioNet2012().verify(data_root)


def test_truncated_real_archive(data_root: Path, tmp_path: Path) -> None:
    whole = (data_root / "physionet2012" / "set-a.tar.gz").read_bytes()
    for kept in (20, len(whole) // 2, len(whole) - 4):
        (tmp_path / "set-a.tar.gz").write_bytes(whole[:kept])
        with pytest.raises(DataError, match=r"truncated.*fetch physionet2012"):
            PhysioNet2012().load(tmp_path)


# --- the rules, on small files --------------------------------------------------------------------------------------

# Few minutes, so that hours, minutes and lines collide.
MINUTES = [0, 1, 58, 59, 60, 47 * 60 + 59, 48 * 60, 48 * 60 + 1]
ROWS = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from(MINUTES),
        st.sampled_from(["HR", "pH", "ALP", "Weight", "MechVent"]),
        st.sampled_from([-1.0, 0.0, 7.25, 80.0, 80.5, 1e-3]),
    ),
    max_size=40,
)


def naive_grid(rows: list[tuple[int, int, str, float]], within_hour: str) -> dict[tuple[int, str, int], float]:
    """Cell by cell with dictionaries: the rule in its plainest form."""
    cells: dict[tuple[int, str, int], list[tuple[int, float]]] = {}
    for record, minute, parameter, value in rows:
        if parameter in NAMES and minute < 48 * 60 and value != -1:
            cells.setdefault((record, parameter, minute // 60), []).append((minute, value))
    if within_hour == "mean":
        return {cell: float(np.mean([value for _, value in found])) for cell, found in cells.items()}
    return {cell: sorted(found, key=lambda row: row[0])[-1][1] for cell, found in cells.items()}


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, within_hour=st.sampled_from(["last", "mean"]))
def test_grid_equals_a_naive_reader(tmp_path_factory: pytest.TempPathFactory, rows: list, within_hour: str) -> None:
    lines = {
        f"r{record}": "\n".join(f"{m // 60:02}:{m % 60:02},{p},{v}" for r, m, p, v in rows if r == record)
        for record in (1, 2, 3)
    }
    windows = PhysioNet2012(within_hour).load(write_stays(tmp_path_factory.mktemp("stays"), **lines))  # type: ignore[arg-type]
    expected = np.full((3, 35, 48), np.nan)
    for (record, parameter, hour), value in naive_grid(rows, within_hour).items():
        expected[record - 1, NAMES.index(parameter), hour] = value
    np.testing.assert_allclose(windows.values, expected, rtol=1e-14)
    gone = [
        n for what, n in windows.changes.items() if "repeat" not in what and "sorted" not in what and "reco" not in what
    ]
    assert int(windows.observed.sum()) + sum(gone) == len(rows)


def test_last_is_the_latest_minute_then_the_last_line(tmp_path: Path) -> None:
    rows = "00:50,HR,3\n00:50,HR,4\n00:10,HR,1\n01:00,HR,9"
    windows = PhysioNet2012().load(write_stays(tmp_path, r1=rows))
    assert windows.values[0, NAMES.index("HR"), :2].tolist() == [4, 9]
    assert windows.changes["rows out of time order (sorted)"] == 1
    assert windows.changes["rows that repeat a record, time and parameter"] == 1
    assert windows.changes["rows merged into their hour's last value"] == 2


def test_an_unknown_does_not_hide_an_earlier_value(tmp_path: Path) -> None:
    windows = PhysioNet2012().load(write_stays(tmp_path, r1="00:10,Temp,37.5\n00:50,Temp,-1"))
    assert windows.values[0, NAMES.index("Temp"), 0] == 37.5
    assert windows.changes["Temp = -1, which means unknown (made missing)"] == 1


def test_values_come_back_to_the_last_bit(tmp_path: Path) -> None:
    texts = ["92.33", "7.3500000000000005", "0.1", "1e-3", "123456.789"]
    rows = "\n".join(f"{hour:02}:00,HR,{text}" for hour, text in enumerate(texts))
    windows = PhysioNet2012().load(write_stays(tmp_path, r1=rows))
    assert windows.values[0, NAMES.index("HR"), : len(texts)].tolist() == [float(text) for text in texts]


def test_empty_files_and_bare_headers_are_records_without_values(tmp_path: Path) -> None:
    root = write_stays(tmp_path, r1="", r2="00:00,HR,80", r3="")
    (root / "set-a" / "3.txt").write_bytes(HEADER)
    windows = PhysioNet2012().load(root)
    assert windows.record_ids == ("1", "2", "3")
    assert windows.observed.sum((1, 2)).tolist() == [0, 1, 0]
    assert windows.changes["records without a value (kept)"] == 2


def test_only_empty_files(tmp_path: Path) -> None:
    assert not PhysioNet2012().load(write_stays(tmp_path, r1="", r2="")).observed.any()


def test_a_field_too_many_in_every_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"1\.txt, line 2: .*'00:00,HR,80,'"):
        PhysioNet2012().load(write_stays(tmp_path, r1="00:00,HR,80,\n01:00,HR,81,"))


@pytest.mark.parametrize("line", [
    "00:07,HR", "00:07,HR,73,1", "00:07,HR,", "00:07,,73", "00:07,HR,seven", "7,HR,73", "00:61,HR,73", "00:07,HR,nan",
    "00:07,HR,inf", "", ",,", '00:07,"HR,73', "00:07;HR;73",
])  # fmt: skip
def test_broken_line_is_named(tmp_path: Path, line: str) -> None:
    root = write_stays(tmp_path, r1="00:00,HR,80", r2=f"00:00,HR,80\n{line}\n01:00,HR,81")
    with pytest.raises(DataError) as error:
        PhysioNet2012().load(root)
    assert "2.txt, line 3: expected HH:MM,Parameter,number" in str(error.value)
    assert repr(line) in str(error.value)


def test_two_broken_lines_that_even_out_their_commas(tmp_path: Path) -> None:
    root = write_stays(tmp_path, r1="00:00,HR,80,9\n00:30,HR\n01:00,HR,81")
    with pytest.raises(DataError, match=r"1.txt, line 2: .*'00:00,HR,80,9'"):
        PhysioNet2012().load(root)


def test_foreign_header_is_named(tmp_path: Path) -> None:
    root = write_stays(tmp_path, r1="00:00,HR,80")
    (root / "set-a" / "2.txt").write_text("time;value\n1;2\n")
    with pytest.raises(
        DataError, match=r"2.txt, line 1: expected the header 'Time,Parameter,Value', came 'time;value'"
    ):
        PhysioNet2012().load(root)


def test_windows_line_ends(tmp_path: Path) -> None:
    root = write_stays(tmp_path, r1="00:00,HR,80\n01:00,pH,7.4")
    expected = PhysioNet2012().load(root).values
    path = root / "set-a" / "1.txt"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    np.testing.assert_array_equal(PhysioNet2012().load(root).values, expected)


def test_record_number_of_another_stay(tmp_path: Path) -> None:
    root = write_stays(tmp_path, r1="00:00,RecordID,2\n00:00,HR,80")
    with pytest.raises(DataError, match=r"1\.txt: expected the RecordID of its name, came 2"):
        PhysioNet2012().load(root)


def test_same_stay_twice_in_an_archive(tmp_path: Path) -> None:
    root = write_stays(tmp_path, r1="00:00,HR,80")
    with tarfile.open(tmp_path / "twice.tar.gz", "w:gz") as archive:
        archive.add(root / "set-a", "set-a")
        archive.add(root / "set-a", "copy")
    with pytest.raises(DataError, match="'1' comes more than once"):
        PhysioNet2012().load(tmp_path / "twice.tar.gz")


# --- where the files are --------------------------------------------------------------------------------------------


def test_folder_archive_and_parents_give_the_same(tmp_path: Path) -> None:
    home = tmp_path / "physionet2012"
    home.mkdir()
    write_stays(home, r10="00:00,HR,80", r9="00:00,HR,81")
    archive = pack(home / "set-a", tmp_path / "elsewhere.tar.gz")
    for root in (tmp_path, home, home / "set-a", archive):
        windows = PhysioNet2012().load(root)
        assert windows.record_ids == ("9", "10")
        assert windows.values[:, NAMES.index("HR"), 0].tolist() == [81, 80]


def test_other_files_in_the_folder_do_not_matter(tmp_path: Path) -> None:
    root = write_stays(tmp_path, r1="00:00,HR,80")
    for name in ("._1.txt", "README.txt", "2.txt.bak"):
        (root / "set-a" / name).write_bytes(b"\xff\x00")
    assert PhysioNet2012().load(root).record_ids == ("1",)
    assert PhysioNet2012().load(pack(root / "set-a", tmp_path / "a.tar.gz")).record_ids == ("1",)


@pytest.mark.parametrize("root", ["", "missing", None])
def test_wrong_root_says_what_was_looked_for_and_how_to_get_it(tmp_path: Path, root: str | None) -> None:
    (tmp_path / "set-a").mkdir()
    with pytest.raises(SourceError) as error:
        PhysioNet2012().load(None if root is None else tmp_path / root)
    by_hand = ["set-a.tar.gz", "tsimpute fetch physionet2012", "https://"]
    words = ["TSIMPUTE_DATA", "--root"] + (by_hand if root is not None else [])
    assert all(word in str(error.value) for word in words)


def test_files_that_are_no_such_archive(tmp_path: Path) -> None:
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("other.txt"))
    for content, words in (
        (b"PK\x03\x04 not gzip", "truncated, damaged or another file"),
        (gzip.compress(b"not tar" * 100), "truncated, damaged or another file"),
        (gzip.compress(tar.getvalue()), r"expected files such as set-a/132539.txt, found none"),
    ):
        (tmp_path / "set-a.tar.gz").write_bytes(content)
        with pytest.raises(DataError, match=words):
            PhysioNet2012().load(tmp_path)


def test_unpublished_stays_do_not_verify(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected the 4000 stays as published"):
        PhysioNet2012().verify(write_stays(tmp_path, r1="00:00,HR,80"))


def test_within_hour_takes_last_or_mean() -> None:
    with pytest.raises(ConfigError, match=r"within_hour: expected one of \('last', 'mean'\), came 'first'"):
        PhysioNet2012("first")  # type: ignore[arg-type]

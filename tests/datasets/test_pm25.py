"""Beijing PM2.5: against the published facts, a naive cutter, and broken input."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from tsimpute.core.windows import Windows
from tsimpute.datasets.pm25 import GROUND, IN_RELEASE, MISSING, PM25, read_table
from tsimpute.errors import ConfigError, DataError, SourceError

SAMPLES = Path(__file__).parents[2] / "datasets" / "samples" / "pm25"
TEST_CELLS = {3: 3835, 6: 3414, 9: 9752, 12: 3433}


@pytest.fixture(scope="module")
def tables(data_root: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    hours, _, ground = read_table(data_root / "pm25" / GROUND)
    _, _, missing = read_table(data_root / "pm25" / MISSING)
    return hours, ground, missing


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """The sample files, to be changed."""
    shutil.copytree(SAMPLES, tmp_path / "pm25")
    return tmp_path / "pm25"


def part(windows: Windows, split: str) -> Windows:
    assert windows.split is not None
    return windows.select(windows.split == split)


def months(windows: Windows) -> np.ndarray:
    return np.array([int(name[5:7]) for name in windows.record_ids])


def edit(path: Path, line: int, text: str) -> None:
    lines = path.read_text().split("\n")
    lines[line - 1] = text
    path.write_text("\n".join(lines))


# --- the real files -------------------------------------------------------------------------------------------------


def test_published_facts_of_the_tables(tables: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    hours, ground, missing = tables
    assert ground.shape == (8759, 36)
    assert (str(hours[0]), str(hours[-1])) == ("2014-05-01T01", "2015-04-30T23")
    assert (np.diff(hours) == np.timedelta64(1, "h")).all()
    assert round(100 * np.isnan(ground).mean(), 2) == 13.25
    assert (~np.isnan(ground) & np.isnan(missing)).sum() == 35_737
    assert np.nanmax(ground) == 500
    assert np.nanmin(ground) > 0


def test_test_windows_score_each_published_cell_once(real_pm25: Windows) -> None:
    test = part(real_pm25, "test")
    per_month = {month: int(test.held_out_mask[months(test) == month].sum()) for month in TEST_CELLS}
    assert per_month == TEST_CELLS
    assert len(test) == 82
    assert (~test.visible.any(2)).any(1).sum() == 40  # windows in which some station shows nothing


def test_station_001013_is_stuck_for_27_hours(real_pm25: Windows) -> None:
    stuck = 3.0
    table = real_pm25.values[:, [f.name for f in real_pm25.features].index("001013")]
    window = np.lib.stride_tricks.sliding_window_view(table, 27, axis=1)
    assert (window == stuck).all(-1).any()
    assert not (np.lib.stride_tricks.sliding_window_view(table, 28, axis=1) == stuck).all(-1).any()


def test_windows_of_the_original_csdi(real_pm25: Windows) -> None:
    """Its counts: every hour of 7 training months and of January; 2014-05 starts at 01:00."""
    assert len(part(real_pm25, "train")) == sum(days * 24 - 35 for days in (28, 30, 31, 31, 31, 31, 30)) - 1
    assert len(part(real_pm25, "valid")) == 31 * 24 - 35
    assert set(months(part(real_pm25, "test"))) == set(TEST_CELLS)
    assert part(real_pm25, "test").record_ids[20:22] == ("2015-03-30T12", "2014-06-01T00")


def test_only_months_that_made_no_hole_lend_patterns(real_pm25: Windows) -> None:
    assert real_pm25.pattern_donor is not None
    assert set(months(real_pm25)[real_pm25.pattern_donor]) == {2, 5, 8, 11}
    assert set(months(real_pm25)[~real_pm25.pattern_donor]).isdisjoint({2, 5, 8, 11})


def test_against_a_naive_cutter(real_pm25: Windows, tables: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """Each window is the stretch of the tables that its id names."""
    hours, ground, missing = tables
    at = {str(hour): i for i, hour in enumerate(hours)}
    already: set[int] = set()
    for n, (name, split) in enumerate(zip(real_pm25.record_ids, real_pm25.split, strict=True)):  # type: ignore[arg-type]
        if split == "train" and n % 50:
            continue
        rows = np.arange(at[name], at[name] + 36)
        values = ground[rows].T.copy()
        holes = (~np.isnan(ground[rows]) & np.isnan(missing[rows])).T
        repeated = np.array([split == "test" and row in already for row in rows])
        values[holes & repeated] = np.nan
        already |= set(rows) if split == "test" else set()
        np.testing.assert_array_equal(real_pm25.values[n], values)
        np.testing.assert_array_equal(real_pm25.held_out_mask[n], holes & ~repeated)
    assert real_pm25.changes == {"cells scored in the test window before (missing in the overlap)": 56}


def test_real_files_verify(data_root: Path) -> None:
    PM25().verify(data_root)


# --- the rules, on small files --------------------------------------------------------------------------------------


def test_overlap_neither_shows_nor_scores_a_cell_twice() -> None:
    """The sample's June holds 85 hours: windows at 0 and 36, and one that ends the month at hour 84."""
    test = part(PM25().load(SAMPLES), "test")
    assert test.record_ids == ("2014-06-01T00", "2014-06-02T12", "2014-06-03T01")
    hours, _, ground = read_table(SAMPLES / GROUND)
    _, _, missing = read_table(SAMPLES / MISSING)
    june = slice(*np.searchsorted(hours, np.array(["2014-06-01T00", "2014-06-04T13"], "datetime64[h]")))
    assert test.held_out_mask.sum() == (~np.isnan(ground[june]) & np.isnan(missing[june])).sum()
    overlap = 36 - 85 % 36
    assert not test.held_out_mask[2, :, :overlap].any()
    np.testing.assert_array_equal(test.values[2, :, :overlap], missing[june][49 : 49 + overlap].T)
    assert not np.isnan(test.values[2, :, overlap:][test.held_out_mask[2, :, overlap:]]).any()


def test_windows_cross_neither_months_nor_missing_hours(sample: Path) -> None:
    """Training hours 30 of 60 are taken away: what is left is shorter than a window; January ends inside a stretch."""
    for name in (GROUND, MISSING):
        lines = (sample / name).read_text().split("\n")
        (sample / name).write_text("\n".join(lines[:31] + lines[32:]))
    windows = PM25().load(sample)
    assert set(months(windows)) == {1, 6}
    assert windows.changes["hours in stretches shorter than a window (dropped)"] == 59 + 20
    assert part(windows, "valid").record_ids[-1] == "2015-01-30T12"


@pytest.mark.parametrize("window_steps", [1, 17, 36])
@pytest.mark.parametrize("valid_month", [1, 5])
def test_any_window_scores_each_test_cell_once(window_steps: int, valid_month: int) -> None:
    windows = PM25(valid_month=valid_month, window_steps=window_steps).load(SAMPLES)
    assert windows.values.shape[1:] == (5, window_steps)
    assert part(windows, "test").held_out_mask.sum() == part(PM25().load(SAMPLES), "test").held_out_mask.sum()
    assert set(months(part(windows, "valid"))) == {valid_month}
    assert part(windows, "train").held_out_mask.any()


def test_windows_line_ends_and_release_folder(sample: Path) -> None:
    expected = PM25().load(sample)
    inner = sample / "unpacked" / "pm25" / IN_RELEASE
    inner.mkdir(parents=True)
    for name in (GROUND, MISSING):
        (inner / name).write_bytes((sample / name).read_bytes().replace(b"\n", b"\r\n"))
    found = PM25().load(sample / "unpacked")
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.held_out_mask, expected.held_out_mask)


@pytest.mark.parametrize("line", ["2014/05/01 03:00:00,1,2,3", "2014/05/01 03:00:00,1,2,x,4,5", ""])
def test_broken_line_is_named(sample: Path, line: str) -> None:
    edit(sample / GROUND, 4, line)
    with pytest.raises(DataError) as error:
        PM25().load(sample)
    assert f"{GROUND}, line 4: expected a whole hour" in str(error.value)
    assert f"number or nothing per station; came {line!r}" in str(error.value)


@pytest.mark.parametrize(
    "stamp", ["2014/05/01 02:00:00", "2014/05/01 01:00:00", "2014/05/01 03:30:00", "May 1st", "2014/02/30 03:00:00", ""]
)
def test_stamp_that_is_no_later_whole_hour_is_named(sample: Path, stamp: str) -> None:
    edit(sample / GROUND, 4, f"{stamp},1,2,3,4,5")
    with pytest.raises(DataError, match=rf"{GROUND}, line 4: expected a whole hour .* came '{stamp},1"):
        PM25().load(sample)


@pytest.mark.parametrize("header", ["", "time,001001,001002,001003,001004,001005"])
def test_foreign_header(sample: Path, header: str) -> None:
    edit(sample / GROUND, 1, header)
    with pytest.raises(DataError, match=f"{GROUND}, line 1: expected the header datetime,station"):
        PM25().load(sample)


def test_tables_that_do_not_belong_together(sample: Path) -> None:
    edit(sample / MISSING, 2, "2014/05/01 01:00:00,1,2,3,4,5")
    with pytest.raises(DataError, match=f"{MISSING}: expected values of {GROUND} with holes"):
        PM25().load(sample)
    edit(sample / MISSING, 2, "2014/05/01 00:00:00,1,2,3,4,5")
    with pytest.raises(DataError, match=f"{MISSING}: expected the stations and hours of {GROUND}"):
        PM25().load(sample)


def test_one_station_and_one_never_observed(tmp_path: Path) -> None:
    start = datetime(2014, 5, 1)
    for name in (GROUND, MISSING):
        rows = [f"{start + timedelta(hours=i):%Y/%m/%d %H:%M:%S}," for i in range(40)]
        (tmp_path / name).write_text("\n".join(["datetime,001001", *rows]))
    windows = PM25().load(tmp_path)
    assert windows.values.shape == (5, 1, 36)
    assert not windows.observed.any()


def test_too_short_for_a_window(sample: Path) -> None:
    with pytest.raises(DataError, match="expected a stretch of at least 100 hours within a month"):
        PM25(window_steps=100).load(sample)


@pytest.mark.parametrize("present", [[], [GROUND], [MISSING]])
def test_wrong_root_says_what_was_looked_for_and_how_to_get_it(tmp_path: Path, present: list[str]) -> None:
    for name in present:
        (tmp_path / name).touch()
    with pytest.raises(SourceError) as error:
        PM25().load(tmp_path)
    for word in (GROUND, MISSING, str(tmp_path / "pm25"), "tsimpute fetch pm25", "STMVL-Release.zip", "--root"):
        assert word in str(error.value)


def test_no_root() -> None:
    with pytest.raises(SourceError, match="TSIMPUTE_DATA"):
        PM25().load(None)


def test_changed_files_do_not_verify() -> None:
    with pytest.raises(DataError, match=r"expected the published file with sha256 8f77b738"):
        PM25().verify(SAMPLES)


@pytest.mark.parametrize(
    "options", [{"valid_month": 3}, {"valid_month": 13}, {"window_steps": 0}, {"window_steps": 1.5}]
)
def test_settings_out_of_range(options: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        PM25(**options)

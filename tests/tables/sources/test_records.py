"""Tables of completed records: what was observed comes back bit for bit, and every cell says what it is."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from tsimpute.core.windows import Samples, Windows
from tsimpute.errors import ConfigError, DataError
from tsimpute.imputers.simple import LinearImputer, MeanImputer
from tsimpute.tables.sources.records import to_dataset, to_frame, write_table


@pytest.fixture
def samples(small_windows: Windows) -> Samples:
    return LinearImputer().fit(small_windows).impute(small_windows, 3)


def test_frame_holds_each_cell_once_with_its_unit_and_provenance(small_windows: Windows, samples: Samples) -> None:
    frame = to_frame(samples, small_windows, (0.1, 0.9))
    assert len(frame) == small_windows.values.size
    assert list(frame.columns) == ["record", "time", "feature", "unit", "provenance", "q0.1", "q0.9"]
    row = frame[(frame.record == "r2") & (frame.time == 5.0) & (frame.feature == "Temp")]
    assert row.unit.item() == "degC"
    assert (row.provenance.item() == "observed") == bool(small_windows.observed[2, 1, 5])
    assert (frame.provenance == "observed").sum() == small_windows.observed.sum()


def test_frame_gives_observed_values_back_bit_for_bit(small_windows: Windows, samples: Samples) -> None:
    frame = to_frame(samples, small_windows)
    order = small_windows.values.transpose(0, 2, 1).reshape(-1)
    observed = (frame.provenance == "observed").to_numpy()
    assert (frame["q0.05"].to_numpy()[observed] == order[observed]).all()


def test_csv_round_trip_keeps_every_digit(tmp_path: Path, small_windows: Windows, samples: Samples) -> None:
    write_table(samples, small_windows, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        back = [float(row["q0.5"]) for row in csv.DictReader(file)]
    assert back == to_frame(samples, small_windows)["q0.5"].tolist()
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


def test_cells_that_were_not_asked_for_say_so(small_windows: Windows) -> None:
    fill = np.zeros(small_windows.values.shape, bool)
    frame = to_frame(MeanImputer().fit(small_windows).impute(small_windows, 1, fill=fill), small_windows)
    assert set(frame.provenance) == {"observed", "left empty"}
    assert frame[frame.provenance == "left empty"]["q0.5"].isna().all()


def test_netcdf_holds_all_samples(tmp_path: Path, small_windows: Windows, samples: Samples) -> None:
    pytest.importorskip("h5netcdf")
    write_table(samples, small_windows, tmp_path / "out.nc")
    with xr.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as back:
        np.testing.assert_array_equal(back["values"], samples.values)
        assert back["values"].sel(record="r3", feature="Temp").dims == ("sample", "step")
        assert list(back["unit"].values) == ["bpm", "degC", "mL"]


def test_dataset_refuses_samples_of_other_records(small_windows: Windows, samples: Samples) -> None:
    with pytest.raises(DataError, match="same order"):
        to_dataset(samples, small_windows.select([1, 0, 2, 3, 4, 5]))


def one_by_one(samples: Samples) -> Iterator[Samples]:
    for n, name in enumerate(samples.record_ids):
        yield Samples(samples.values[:, [n]], samples.visible[[n]], samples.features, (name,))


def test_record_by_record_the_same_tables_are_written(tmp_path: Path, small_windows: Windows) -> None:
    fill = np.random.default_rng(0).random(small_windows.values.shape) < 0.5
    samples = LinearImputer().fit(small_windows).impute(small_windows, 3, fill=fill)
    write_table(one_by_one(samples), small_windows, tmp_path / "out.csv", (0.1, 0.5))
    expected = to_frame(samples, small_windows, (0.1, 0.5)).to_csv(index=False)
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == expected
    pytest.importorskip("h5netcdf")
    write_table(one_by_one(samples), small_windows, tmp_path / "out.nc")
    with xr.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as back:
        xr.testing.assert_identical(back.load(), to_dataset(samples, small_windows))


@pytest.mark.parametrize("ending", ["csv", "nc"])
def test_records_that_lack_are_too_many_or_out_of_order_are_refused_and_nothing_is_written(
    tmp_path: Path, small_windows: Windows, samples: Samples, ending: str
) -> None:
    if ending == "nc":
        pytest.importorskip("h5netcdf")
    parts, path = list(one_by_one(samples)), tmp_path / f"out.{ending}"
    for wrong, says in (
        (parts[:4], "expected samples of 6 records, came 4"),
        ([], "expected samples of 6 records, came 0"),
        ([*parts, parts[0]], "same order"),
        (parts[::-1], "same order"),
    ):
        with pytest.raises(DataError, match=says):
            write_table(wrong, small_windows, path)
    assert not list(tmp_path.iterdir())


def test_output_is_not_overwritten_unasked(tmp_path: Path, small_windows: Windows, samples: Samples) -> None:
    path = tmp_path / "out.csv"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="exists"):
        write_table(samples, small_windows, path)
    assert path.read_text() == "mine"
    write_table(samples, small_windows, path, force=True)
    assert path.read_text().startswith("record,")


def test_unknown_ending_is_refused(tmp_path: Path, small_windows: Windows, samples: Samples) -> None:
    with pytest.raises(ConfigError, match=r"\.csv or \.nc"):
        write_table(samples, small_windows, tmp_path / "out.xlsx")

"""Stays in intensive care for the model of the 2012 challenge: its own files, tables of events, hourly tables."""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tsimpute as ti
from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.files.fill_file import fill_file

FAST: dict[str, Any] = {"model": "physionet2012", "n_samples": 2, "calibrate": False}
DESCRIPTORS = [("RecordID", "{}"), ("Age", "54"), ("Gender", "0"), ("Height", "-1"), ("Weight", "-1")]
EVENTS = [
    ("00:07", "GCS", "15"), ("00:07", "HR", "73"), ("00:07", "Temp", "35.1"), ("00:37", "HR", "77"),
    ("01:37", "HR", "60"), ("01:37", "Weight", "80"), ("02:10", "Temp", "36.6"),
    ("04:52", "HR", "62"), ("04:52", "Urine", "900"),
    ("05:10", "HR", "64"), ("05:10", "Mood", "2"), ("05:10", "NISysABP", "120"),
]  # fmt: skip


def stay(number: int, events: list[tuple[str, str, str]] = EVENTS) -> str:
    """A file of the challenge."""
    first = [f"00:00,{name},{value.format(number)}" for name, value in DESCRIPTORS]
    return "\n".join(["Time,Parameter,Value", *first, *(",".join(event) for event in events)]) + "\n"


def events(numbers: tuple[int, ...] = (1001, 1002)) -> pd.DataFrame:
    """The same as one table."""
    rows = [(n, 0, name, float(value.format(n))) for n in numbers for name, value in DESCRIPTORS]
    rows += [(n, int(t[:2]) * 60 + int(t[3:]), name, float(value)) for n in numbers for t, name, value in EVENTS]
    frame = pd.DataFrame(rows, columns=["stay_id", "minutes", "name", "value"])
    return frame.sort_values("stay_id", kind="stable", ignore_index=True)


def hourly(numbers: tuple[int, ...] = (1001, 1002), n: int = 8) -> pd.DataFrame:
    """One row for each hour; the third of them is absent."""
    rng = np.random.default_rng(0)
    parts = []
    for number in numbers:
        values = {"HR": rng.normal(80, 5, n), "Temp": rng.normal(37, 0.3, n), "NISysABP": rng.normal(120, 9, n)}
        part = pd.DataFrame({"stay_id": number, "hour": np.arange(n), **{k: v.round(1) for k, v in values.items()}})
        part.loc[part.index[1::3], "Temp"] = np.nan
        parts.append(part.drop(index=2))
    return pd.concat(parts, ignore_index=True)


def prepared(frame: pd.DataFrame, **settings: Any) -> Any:
    return ti.TableImputer(**{**FAST, **settings}).prepared(frame)


def filled(frame: pd.DataFrame, **settings: Any) -> Any:
    imputer = ti.TableImputer(**{**FAST, **settings})
    with pytest.warns(ti.ImputationWarning):
        return imputer.fit(frame, progress=False).draw(frame, progress=False)


def test_events_are_put_into_hours_and_the_latest_value_of_an_hour_stands():
    found = prepared(events())
    panel = found.visible
    names = [feature.name for feature in panel.features]
    assert names == ["GCS", "HR", "Temp", "Urine", "NISysABP"]
    for series in panel.series:
        assert series.times.tolist() == [0, 1, 2, 3, 4, 5]
        assert (panel.clock.unit, panel.clock.step) == ("hours", 1)
        hr = series.values[names.index("HR")]
        assert hr[[0, 1, 4, 5]].tolist() == [77, 60, 62, 64]
        assert np.isnan(hr[[2, 3]]).all()
    assert "2 values share their hour with a later one of the same feature" in found.text
    assert "descriptors of the record, passed through unchanged: RecordID, Age" in found.text
    assert "not known to the model, passed through unchanged: Mood (2 rows); if Mood is one" in found.text
    assert found.table.n_added == 2 * (5 * 6 - 9)


def test_rows_of_events_come_back_to_the_bit_and_new_ones_stand_at_the_hour():
    frame = events()
    out = filled(frame).table
    both = out.merge(frame.drop_duplicates(), how="left", indicator=True)
    old = out[both["_merge"] == "both"].reset_index(drop=True)
    pd.testing.assert_frame_equal(old, frame)
    new = out[both["_merge"] != "both"]
    assert len(new) == 2 * (5 * 6 - 9)
    assert (new["minutes"] % 60 == 0).all()
    assert set(new["name"]) == {"GCS", "HR", "Temp", "Urine", "NISysABP"}
    for _, of_stay in out.groupby("stay_id"):
        assert of_stay["minutes"].is_monotonic_increasing
    taken = frame.assign(minutes=frame["minutes"] // 60 * 60)
    assert new.merge(taken, on=["stay_id", "minutes", "name"]).empty


@pytest.mark.parametrize(
    ("column", "times", "start"),
    [
        ("time", lambda m: [f"{x // 60:02d}:{x % 60:02d}" for x in m], "00:00"),
        ("labresultoffset", lambda m: m - 180, -180),
        ("hours_since_admission", lambda m: m / 60, 0.0),
        ("icu_hour", lambda m: m / 60, 0.0),
        ("charttime", lambda m: pd.Timestamp("2150-03-04 22:40") + pd.to_timedelta(m, unit="min"), "2150-03-04 22:40"),
        ("offset", lambda m: pd.to_timedelta(m, unit="min"), pd.Timedelta(0)),
    ],
)
def test_times_in_every_form_count_as_hours(column: str, times: Any, start: Any):
    frame = events()
    frame.insert(1, column, times(frame["minutes"]))
    frame = frame.drop(columns="minutes")
    found = prepared(frame)
    assert [series.times.tolist() for series in found.visible.series] == [[0, 1, 2, 3, 4, 5]] * 2
    names = [feature.name for feature in found.visible.features]
    assert found.visible.series[0].values[names.index("HR")][[0, 1, 4, 5]].tolist() == [77, 60, 62, 64]
    added = found.table.stamps.values(found.table.alignment.moments[0][:2])[0]
    assert added.iloc[0] == (pd.Timestamp(start) if column == "charttime" else start)


def test_numbers_whose_unit_nobody_knows_are_refused_with_the_option():
    frame = events().rename(columns={"minutes": "t"})
    with pytest.raises(DataError, match=r"column 't': expected times of which the unit is known.*--units \"t=h\""):
        prepared(frame, time="t")
    assert prepared(frame, time="t", units={"t": "min"}).visible.series[0].times.max() == 5


def test_series_that_were_mixed_and_stays_that_are_several_are_refused():
    with pytest.raises(DataError, match="expected each time once per series"):
        prepared(events().drop(columns="stay_id"), group=())
    frame = events((1001,))
    later = frame.assign(minutes=frame["minutes"] + 60 * 24 * 30)
    with pytest.raises(DataError, match=r"expected one stay in each series.*no row for 30 days.*--group"):
        prepared(pd.concat([frame, later], ignore_index=True))


def test_an_hourly_table_is_filled_as_it_stands():
    frame = hourly()
    out = filled(frame).table
    assert len(out) == len(frame) + 2
    assert not out.isna().any().any()
    same = out.merge(frame[["stay_id", "hour"]])
    assert (same[["HR", "Temp"]].to_numpy()[frame[["HR", "Temp"]].notna().to_numpy()] ==
            frame[["HR", "Temp"]].to_numpy()[frame[["HR", "Temp"]].notna().to_numpy()]).all()  # fmt: skip


def test_the_table_is_filled_alike_whether_it_is_long_or_wide():
    frame = hourly()
    long = frame.melt(["stay_id", "hour"], var_name="name", value_name="value").dropna()
    long = long.sort_values(["stay_id", "hour"], kind="stable", ignore_index=True)
    wide, tall = prepared(frame), prepared(long)
    assert [f.name for f in wide.visible.features] == [f.name for f in tall.visible.features]
    for one, other in zip(wide.visible.series, tall.visible.series, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.times, other.times)


def test_rows_within_an_hour_of_a_wide_table_keep_their_values_and_the_latest_counts():
    frame = hourly((1001,)).rename(columns={"hour": "minute"})
    frame["minute"] *= 60
    more = frame.iloc[[4]].assign(minute=frame["minute"].iloc[4] + 20, HR=99.0, Temp=np.nan)
    frame = pd.concat([frame, more]).sort_values("minute", ignore_index=True)
    found = prepared(frame)
    series = found.visible.series[0]
    assert series.times.tolist() == list(range(8))
    hour = int(frame["minute"][4] // 60)
    assert series.values[0][hour] == 99.0
    assert series.values[1][hour] == frame["Temp"][4]
    out = filled(frame).table
    assert out.loc[out["minute"].isin(frame["minute"]), "HR"].tolist() == frame["HR"].tolist()


def test_names_that_differ_are_renamed_and_the_table_keeps_its_own():
    frame = hourly().rename(columns={"HR": "HeartRate", "NISysABP": "nisysabp", "Temp": "Temp [°C]"})
    found = prepared(frame, rename={"HeartRate": "HR"})
    assert [f.name for f in found.visible.features] == ["HeartRate", "Temp [°C]", "nisysabp"]
    assert "features by other names: HeartRate = HR, Temp [°C] = Temp, nisysabp = NISysABP" in found.text
    out = filled(frame, rename={"HeartRate": "HR"}).table
    assert list(out.columns) == list(frame.columns)
    assert out["Temp [°C]"].equals(filled(hourly()).table["Temp"])
    with pytest.raises(DataError, match="expected one name for HR, came HeartRate and HR"):
        prepared(hourly().assign(HeartRate=80.5), rename={"HeartRate": "HR"})


def test_features_that_the_table_lacks_or_the_model_does_not_know_are_said():
    frame = hourly().assign(SpO2=97.0, GCS=15.0)
    frame.loc[3, "SpO2"] = np.nan
    found = prepared(frame)
    assert "not known to the model, passed through unchanged: SpO2; if SpO2 is one of the model's" in found.text
    assert "no column is added for them: DiasABP, Na, Lactate" in found.text
    with pytest.raises(
        DataError, match=r"expected at least 3 of the model's 35 .*; the table has only HR, beside a, b"
    ):
        prepared(hourly().rename(columns={"Temp": "a", "NISysABP": "b"}))
    renamed = prepared(hourly().rename(columns={"HR": "Pulse"}), rename={"Pulse": "HR"})
    assert [f.name for f in renamed.visible.features] == ["Pulse", "Temp", "NISysABP"]
    with pytest.raises(ConfigError, match="rename: expected names of the model's features"):
        prepared(hourly(), rename={"HR": "HeartRate"})
    with pytest.raises(ConfigError, match="rename: expected names of the table"):
        prepared(hourly(), rename={"Pulse": "HR"})


@pytest.mark.parametrize(
    ("name", "change", "shows"),
    [
        ("Temp", lambda v: v * 1.8 + 32, "expected Temp in 'degC'.*shows degF"),
        ("FiO2", lambda v: v * 0 + 40, "expected FiO2 in numbers without a unit.*shows %"),
        ("Glucose", lambda v: v * 0 + 6.4, "expected Glucose in 'mg/dL'.*shows mmol/L"),
        ("Creatinine", lambda v: v * 0 + 88, "expected Creatinine in 'mg/dL'.*shows umol/L"),
        ("Bilirubin", lambda v: v * 0 + 14, "expected Bilirubin in 'mg/dL'.*shows umol/L"),
        ("BUN", lambda v: v * 0 + 7.3, "expected BUN in 'mg/dL'.*shows mmol/L"),
    ],
)
def test_values_in_another_unit_are_refused_by_name(name: str, change: Any, shows: str):
    frame = hourly()
    frame[name] = change(frame["Temp"])
    with pytest.raises(DataError, match=shows):
        prepared(frame)
    unit = shows.split("'")[1] if "'" in shows else "1"
    assert prepared(frame, units={name: unit}).visible.n_cells


def test_units_are_compared_with_those_of_the_data_set():
    frame = hourly().rename(columns={"Temp": "Temp (degF)"})
    with pytest.raises(DataError, match=r"expected Temp \(degF\) in 'degC', came 'degF'"):
        filled(frame)
    long = hourly().melt(["stay_id", "hour"], var_name="name", value_name="value").dropna()
    long["unit"] = long["name"].map({"HR": "/min", "Temp": "°C", "NISysABP": "mm Hg"})
    assert filled(long).table["value"].notna().all()
    with pytest.raises(DataError, match="expected Temp in 'degC', came 'degF'"):
        filled(long.assign(unit=long["unit"].replace("°C", "degF")))


def test_a_feature_that_a_stay_does_not_show_gets_no_rows_there():
    frame = events()
    frame = frame[~((frame["stay_id"] == 1002) & (frame["name"] == "Urine"))]
    out = filled(frame).table
    assert not ((out["stay_id"] == 1002) & (out["name"] == "Urine")).any()
    assert not out["name"].isin(["Lactate", "pH"]).any()
    assert not out["value"].isna().any()


def test_missing_times_keep_adds_no_row():
    frame = events()
    assert prepared(frame, missing_times="keep").table.n_added == 0


def folder(path: Path, texts: dict[str, str]) -> Path:
    path.mkdir()
    for name, text in texts.items():
        (path / name).write_text(text, newline="")
    return path


def archive(path: Path, texts: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as file:
        for name, text in texts.items():
            about = tarfile.TarInfo(f"set-a/{name}")
            about.size = len(text)
            file.addfile(about, io.BytesIO(text.encode()))
    return path


@pytest.mark.parametrize(("make", "name"), [(folder, "set-a"), (archive, "set-a.tar.gz")])
def test_files_of_the_challenge_come_back_with_lines_for_the_cells_that_were_filled(
    tmp_path: Path, make: Any, name: str
):
    late = [*EVENTS, ("47:10", "HR", "70"), ("48:00", "HR", "71"), ("50:05", "HR", "72")]
    texts = {
        "132539.txt": stay(132539),
        "132540.txt": stay(132540, late).replace("\n", "\r\n"),
        "140501.txt": stay(140501, []),
    }
    source, out = make(tmp_path / name, texts), tmp_path / "filled"
    fill_file(source, out, FAST)
    assert sorted(path.name for path in out.iterdir()) == sorted(texts)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [name, "filled", "filled.provenance", "filled.cells.csv", "filled.report.html"]
    )
    assert (out / "140501.txt").read_bytes().decode() == texts["140501.txt"]
    cells = pd.read_csv(tmp_path / "filled.cells.csv")
    for file, hours in (("132539.txt", 6), ("132540.txt", 51)):
        end = "\r\n" if file == "132540.txt" else "\n"
        lines = (out / file).read_bytes().decode().split(end)
        own = texts[file].split(end)
        left = iter(lines)
        assert all(line in left for line in own), "the lines of the file in their order"
        new = list((Counter(lines) - Counter(own)).elements())
        times = [line.split(",")[0] for line in lines[1:-1]]
        assert times == sorted(times)
        assert {line[3:5] for line in new} == {"00"}
        names = [line.split(",")[1] for line in new]
        assert set(names) == {"GCS", "HR", "Temp", "Urine", "NISysABP"}
        assert len(set(new)) == len(new) == (cells["group"] == int(file[:6])).sum()
        assert max(line[:2] for line in new) == f"{hours - 1:02d}"
        n_hours = len({time[:2] for time, name, _ in (late if hours > 6 else EVENTS) if name == "HR"})
        assert names.count("HR") == hours - n_hours


def test_an_output_of_stays_is_a_folder(tmp_path: Path):
    source = folder(tmp_path / "set-a", {"132539.txt": stay(132539), "132540.txt": stay(132540)})
    with pytest.raises(ConfigError, match="expected a name of a folder"):
        fill_file(source, tmp_path / "filled.csv", FAST)
    broken = tmp_path / "broken.tar.gz"
    broken.write_bytes(archive(tmp_path / "whole.tar.gz", {"1.txt": stay(1)}).read_bytes()[:100])
    with pytest.raises(DataError, match="expected a whole archive of text files"):
        fill_file(broken, tmp_path / "out", FAST)

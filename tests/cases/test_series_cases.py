"""Series of files as people write them: ids, long tables of quantities, rows that are added and what they hold."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tsimpute.errors import DataError
from tsimpute.tables.frames.frames import TimeOptions
from tsimpute.tables.frames.table import Edits, FrameTable
from tsimpute.tables.roles.columns import ColumnSpec
from tsimpute.tables.sources.files import read_table
from tsimpute.tables.sources.text_tables import read_text_table

START = pd.Timestamp("2024-01-01")
FILL = 7777.0


def of_file(
    frame: pd.DataFrame, path: Path, spec: ColumnSpec | None = None, sep: str = ",", **clock: Any
) -> FrameTable:
    source = path / "in.csv"
    frame.to_csv(source, index=False, sep=sep)
    return read_text_table(source, spec, TimeOptions(**clock))


def roles(table: FrameTable) -> dict[str, Any]:
    reading = table
    names, own = reading.columns.names, reading.roles
    one = lambda at: None if at is None else names[at]
    return {
        "time": [names[i] for i in own.time], "group": [names[i] for i in own.group], "feature": one(own.feature),
        "value": one(own.value), "unit": one(own.unit), "features": [f.name for f in table.panel.features],
    }  # fmt: skip


def filled(table: FrameTable, path: Path, sep: str = ",") -> pd.DataFrame:
    """All gaps that have a place hold one number; every other field as the file has it."""
    gaps = [np.isnan(s.values) & ~a for s, a in zip(table.panel.series, table.absent, strict=True)]
    table.apply(Edits(gaps, [np.full(cells.shape, FILL) for cells in gaps])).write(path / "out.csv")
    return pd.read_csv(io.StringIO((path / "out.csv").read_text()), sep=sep, dtype=str, keep_default_na=False)


def added(table: FrameTable, path: Path) -> pd.DataFrame:
    """The rows that the file did not have."""
    before = set((path / "in.csv").read_text().splitlines())
    out = filled(table, path)
    lines = (path / "out.csv").read_text().splitlines()[1:]
    assert len(out) == len(table.frame) + table.n_added
    return out[[line not in before for line in lines]]


def said(table: FrameTable, words: str) -> bool:
    return any(words in note for note in table.notes)


def hours(n: int, form: str = "%Y-%m-%d %H:%M") -> list[str]:
    return [(START + pd.Timedelta(hours=h)).strftime(form) for h in range(n)]


def stations(n: int = 20) -> pd.DataFrame:
    """Three stations, hour after hour, every row with a number of its own."""
    rows = [(i, f"S{i % 3}", hours(n)[i // 3], round(20 + np.sin(i), 1)) for i in range(3 * n)]
    return pd.DataFrame(rows, columns=["id", "station_id", "time", "NO2"])


@pytest.mark.parametrize("name", ["id", "ID", "record_id", "sensorId", "series"])
@pytest.mark.parametrize("sep", [",", ";", "\t"])
def test_an_id_that_is_unique_in_every_row_is_no_group_and_a_station_beside_it_is(
    tmp_path: Path, name: str, sep: str
) -> None:
    frame = stations().rename(columns={"id": name})
    for columns in (list(frame), list(frame)[::-1]):
        table = of_file(frame[columns], tmp_path, sep=sep)
        assert roles(table)["group"] == ["station_id"]
        assert [len(s.times) for s in table.panel.series] == [20, 20, 20]
        assert said(table, f"{name}: numbers the rows")
        assert filled(table, tmp_path, sep)[name].tolist() == frame[name].astype(str).tolist()


def test_an_id_that_is_unique_among_its_rows_with_gaps_is_no_group(tmp_path: Path) -> None:
    frame = stations().astype({"id": "Int64"})
    frame.loc[[3, 10], "id"] = pd.NA
    assert roles(of_file(frame, tmp_path))["group"] == ["station_id"]


def test_a_stay_within_a_patient_is_a_series_of_its_own_also_where_no_time_repeats(tmp_path: Path) -> None:
    stays = ((1, 11, 101, 0), (1, 12, 102, 400), (2, 13, 103, 800))
    rows = [(p, a, s, START + pd.Timedelta(hours=h + far), 80.0 + h) for p, a, s, far in stays for h in range(12)]
    frame = pd.DataFrame(rows, columns=["subject_id", "hadm_id", "stay_id", "charttime", "hr"])
    table = of_file(frame, tmp_path)
    assert roles(table)["group"] == ["subject_id", "stay_id"]
    assert roles(table)["features"] == ["hr"]


def labs(n: int = 12) -> pd.DataFrame:
    """Laboratory results of three stays, two at each time, as eICU has them."""
    rows = []
    for stay in (141168, 141194, 141203):
        for h in range(n):
            for k, (name, middle, unit) in enumerate((("glucose", 140, "mg/dL"), ("lactate", 2, "mmol/L"))):
                value = round(middle * (1 + 0.1 * np.sin(h + k + stay)), 1)
                text = f">{value}" if len(rows) % 7 == 0 else str(value)
                rows.append((len(rows) + 9000, stay, 60 * h - 120, k, name, value, text, unit, 60 * h - 100))
    return pd.DataFrame(
        rows,
        columns=[
            "labid", "patientunitstayid", "labresultoffset", "labtypeid", "labname", "labresult", "labresulttext",
            "labmeasurenamesystem", "labresultrevisedoffset",
        ],
    )  # fmt: skip


def test_laboratory_results_of_stays_are_a_long_table_and_ids_and_offsets_no_features(tmp_path: Path) -> None:
    frame = labs()
    for rows in (frame, frame.sort_values("labid", ascending=False), frame.sample(frac=1, random_state=0)):
        table = of_file(rows, tmp_path)
        assert roles(table) | {"features": sorted(roles(table)["features"])} == {
            "time": ["labresultoffset"], "group": ["patientunitstayid"], "feature": "labname", "value": "labresult",
            "unit": None, "features": ["glucose", "lactate"],
        }  # fmt: skip
    one_at_a_time = frame[(frame["labresultoffset"] // 60 + frame["labtypeid"]) % 2 == 0]
    assert roles(of_file(one_at_a_time, tmp_path, missing_times="insert"))["feature"] == "labname"


def test_two_columns_of_values_mean_the_one_of_numbers_and_texts_beside_it_are_no_problem(tmp_path: Path) -> None:
    rows = [
        (10001, START + pd.Timedelta(hours=h), START + pd.Timedelta(hours=h, minutes=7), item, "ERROR" if h == 3 else v,
         v, unit)
        for h in range(10)
        for item, v, unit in ((220045, 80 + h, "bpm"), (220277, 97, "%"))
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["stay_id", "charttime", "storetime", "itemid", "value", "valuenum", "valueuom"])
    table = of_file(frame, tmp_path)
    assert roles(table) == {
        "time": ["charttime"], "group": ["stay_id"], "feature": "itemid", "value": "valuenum", "unit": "valueuom",
        "features": ["220045", "220277"],
    }  # fmt: skip


def test_a_value_that_is_no_number_in_a_long_table_is_refused_with_its_line(tmp_path: Path) -> None:
    rows = [(e, 20.5 + h, time) for e in ("sensor.a", "sensor.b") for h, time in enumerate(hours(10))]
    frame = pd.DataFrame(rows, columns=["entity_id", "state", "last_changed"]).astype({"state": object})
    assert roles(of_file(frame, tmp_path))["feature"] == "entity_id"
    frame.loc[4, "state"] = "unavailable"
    with pytest.raises(DataError, match=r"line 6, column 'state'.*'unavailable'"):
        of_file(frame, tmp_path)


@pytest.mark.parametrize(
    ("feature", "value"),
    [
        ("Parameter", "Value"), ("parameter_name", "Sample Measurement"), ("pollutant", "Concentration"),
        ("labtest", "result"), ("tag", "value"), ("TagName", "Reading"), ("kpi", "amount"), ("sensor_type", "value"),
        ("analyte", "concentration"), ("ELEMENT", "DATA_VALUE"), ("observable", "observation"), ("_field", "_value"),
        ("Komponente", "Wert"), ("magnitud", "valor"), ("polluant", "valeur"), ("vital_sign", "numeric_value"),
        ("display", "valueQuantity.value"), ("test_name", "result_value"),
    ],
)  # fmt: skip
def test_names_of_quantities_and_values_are_known_by_many_names(tmp_path: Path, feature: str, value: str) -> None:
    rows = [("P1", t, n, v + h) for h, t in enumerate(hours(12)) for n, v in (("CO", 0.5), ("O3", 60.0))]
    frame = pd.DataFrame(rows, columns=["patient_id", "time", feature, value])
    table = of_file(frame, tmp_path)
    assert (roles(table)["feature"], roles(table)["value"]) == (feature, value)
    assert roles(table)["features"] == ["CO", "O3"]


@pytest.mark.parametrize("name", ["station_name", "city", "location", "site_name", "POC", "channel"])
def test_names_of_places_and_instruments_are_groups_and_not_quantities(tmp_path: Path, name: str) -> None:
    rows = [(t, n, 20.5 + h) for h, t in enumerate(hours(12)) for n in ("aa", "bb")]
    table = of_file(pd.DataFrame(rows, columns=["time", name, "NO2"]), tmp_path)
    assert (roles(table)["group"], roles(table)["features"]) == ([name], ["NO2"])


@pytest.mark.parametrize("name", ["quantity", "measure", "metric", "element", "measurement"])
def test_numbers_are_readings_and_no_names_of_quantities(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"time": hours(24), name: np.arange(24) % 5, "value": 1.5 + np.arange(24)})
    assert roles(of_file(frame, tmp_path))["features"] == [name, "value"]


def test_a_station_without_a_name_is_refused_with_its_line(tmp_path: Path) -> None:
    frame = stations().drop(columns="id")
    frame.loc[4, "station_id"] = ""
    with pytest.raises(DataError, match=r"column 'station_id': expected a name in every row, line 6 has none"):
        of_file(frame, tmp_path)
    empty = frame[frame["station_id"] == "S1"].assign(station_id="")
    assert roles(of_file(empty, tmp_path))["group"] == []


def test_it_is_asked_where_a_column_may_name_quantities_or_places(tmp_path: Path) -> None:
    values = {"t1": 21.5, "h1": 50.5, "p1": 1013.5}
    rows = [(t, n, v + np.sin(h)) for h, t in enumerate(hours(12)) for n, v in values.items()]
    frame = pd.DataFrame(rows, columns=["time", "sensor", "value"]).round(2)
    with pytest.raises(DataError, match=r"--feature sensor --value value .*--group sensor"):
        of_file(frame, tmp_path)
    assert len(of_file(frame, tmp_path, ColumnSpec(feature="sensor", value="value")).panel.features) == 3
    assert len(of_file(frame, tmp_path, ColumnSpec(group=["sensor"])).panel.series) == 3
    frame["value"] = 20.5 + np.arange(len(frame)) % 5  # of one size: sensors of one quantity
    assert roles(of_file(frame, tmp_path))["group"] == ["sensor"]
    two = frame.rename(columns={"sensor": "labname", "value": "a"}).assign(b=1.5 + np.arange(len(frame)))
    with pytest.raises(DataError, match=r"it looks long.*'labname'.*came a, b.*--feature labname --value COLUMN"):
        of_file(two, tmp_path)


def test_a_station_of_the_epa_is_state_county_and_site_and_a_second_instrument_is_named(tmp_path: Path) -> None:
    places = (("06", "037", "0001"), ("06", "065", "0001"))
    rows = [
        (*place, code, poc, name, "2024-01-01", f"{h:02d}:00", unit, base + h)
        for place in places
        for code, name, unit, base in (("44201", "Ozone", "ppm", 0.5), ("42602", "NO2", "ppb", 12.5))
        for poc in (1, 2)
        for h in range(20)
        if poc == 1 or (h == 7 and place is places[0])
    ]
    columns = "State Code,County Code,Site Num,Parameter Code,POC,Parameter Name,Date,Time,Units of Measure"
    frame = pd.DataFrame(rows, columns=[*columns.split(","), "Sample Measurement"])
    with pytest.raises(
        DataError, match=r"Column 'POC' tells these rows apart.*--group \"State Code,County Code,Site Num,POC\""
    ):
        of_file(frame, tmp_path)
    table = of_file(frame[frame["POC"] == 1], tmp_path)
    assert roles(table) == {
        "time": ["Date", "Time"], "group": ["State Code", "County Code", "Site Num"], "feature": "Parameter Name",
        "value": "Sample Measurement", "unit": "Units of Measure", "features": ["Ozone", "NO2"],
    }  # fmt: skip


@pytest.mark.parametrize("name", ["depth_m", "sensor height", "replicate", "instrument"])
def test_what_explains_that_times_repeat_is_named(tmp_path: Path, name: str) -> None:
    rows = [("A", t, d, 4.5 + h) for h, t in enumerate(hours(20)) for d in (0.5, 1.5) if d == 0.5 or h == 3]
    frame = pd.DataFrame(rows, columns=["station", "time", name, "o2"])
    with pytest.raises(DataError, match=rf"lines 5 and 6.*Column '{name}' tells.*--group \"?station,{name}\"?\)"):
        of_file(frame, tmp_path)


def test_two_columns_that_tell_rows_apart_together_are_named(tmp_path: Path) -> None:
    rows = [(t, s, i, 4.5 + h) for h, t in enumerate(hours(20)) for s in ("CA", "TX") for i in ("bread", "milk")]
    frame = pd.DataFrame(rows, columns=["time", "store_id", "item_id", "sales"])
    with pytest.raises(DataError, match=r"'store_id' and 'item_id' together tell.*--group store_id,item_id\)"):
        of_file(frame, tmp_path)
    assert len(of_file(frame, tmp_path, ColumnSpec(group=["store_id", "item_id"])).panel.series) == 4


def test_cycles_of_units_are_times_of_series(tmp_path: Path) -> None:
    rows = [(u, c, 1.5 + c / 10, 2.5) for u in (1, 2, 3) for c in range(1, 30) if c != u + 5]
    table = of_file(pd.DataFrame(rows, columns=["unit", "cycle", "s1", "s2"]), tmp_path)
    assert (roles(table)["time"], roles(table)["group"], table.n_added) == (["cycle"], ["unit"], 3)


def test_a_rising_number_named_index_is_no_feature_also_where_numbers_are_left_out(tmp_path: Path) -> None:
    frame = pd.DataFrame({"Index": [1, 2, 4, 7, 8, 9], "time": hours(6), "x": [1.5, 2, 3, 4, 5, 6]})
    assert roles(of_file(frame, tmp_path))["features"] == ["x"]


def test_a_running_number_is_no_feature_and_empty_in_added_rows(tmp_path: Path) -> None:
    frame = stations().rename(columns={"id": "lfd_nr"}).drop(index=7)
    table = of_file(frame, tmp_path)
    assert roles(table)["features"] == ["NO2"]
    assert added(table, tmp_path)["lfd_nr"].tolist() == [""]


def test_rows_without_the_name_of_a_quantity_are_passed_through_and_named(tmp_path: Path) -> None:
    rows = [(7, t, n, v + h) for h, t in enumerate(hours(12)) for n, v in (("HR", 80.5), ("RR", 15.5))]
    frame = pd.DataFrame(rows, columns=["RecordID", "Time", "Parameter", "Value"])
    frame = pd.concat([frame[:5], frame[4:5].assign(Parameter="", Value=-1), frame[5:9], frame[10:]])
    table = of_file(frame, tmp_path)
    assert roles(table)["features"] == ["HR", "RR"]
    assert said(table, "column 'Parameter': no name of a quantity in line 7; this row is passed through unchanged")
    out = filled(table, tmp_path)
    assert out[out["Parameter"] == ""]["Value"].tolist() == ["-1.0"]
    assert (out["Value"] == "7777.0").sum() == table.n_added == 1
    frame.loc[3, "Parameter"] = " "
    frame.loc[3, "Value"] = np.nan
    again = of_file(frame, tmp_path)
    marks = again.apply(
        Edits.of_provenance(
            [np.isnan(s.values) for s in again.panel.series],
            [np.isnan(s.values).astype(np.uint8) for s in again.panel.series],
        )
    )
    marks.write(tmp_path / "marks.csv")
    words = (tmp_path / "marks.csv").read_text().splitlines()
    assert words[4].endswith(" ,left empty")
    assert words[6].endswith(",observed")


def descriptors() -> pd.DataFrame:
    """Records of intensive care with what is said of a patient once, as the PhysioNet challenge of 2012 has them."""
    rows: list[tuple[int, str, str, float]] = []
    for r in range(6):
        rows += [(140 + r, "00:00", n, v + r) for n, v in (("RecordID", 140), ("Age", 50), ("Height", 170))]
        for h in range(10):
            rows.append((140 + r, f"{h:02d}:07", "HR", 80.5 + h))
            rows += [(140 + r, f"{h:02d}:07", "Weight", 70 + r)] * (h % 3 == 0)
            rows += [(140 + r, f"{h:02d}:07", "Lactate", 1.5 + h)] * (h % 2)
    return pd.DataFrame(rows, columns=["RecordID", "Time", "Parameter", "Value"])


def test_no_rows_are_added_for_what_is_said_of_a_patient_once(tmp_path: Path) -> None:
    table = of_file(descriptors(), tmp_path)
    assert said(table, "RecordID, Age, Height, Weight: the same in all rows of a series; no rows are added")
    new = added(table, tmp_path)
    assert set(new["Parameter"]) == {"HR", "Lactate"}
    assert table.n_added == len(new) == 6 * (1 + 6)
    assert ("layout", "long, 132 rows, 42 to be added") in table.understood
    empty = descriptors()
    empty.loc[empty["Parameter"] == "Age", "Value"] = np.nan
    assert filled(of_file(empty, tmp_path), tmp_path)["Value"][1] == ""


def test_added_rows_hold_nothing_that_is_known_of_another_row_alone(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        [
            (stay, 60 * h, name, value + h, f"{9000 + 100 * stay + h}", f"{value + h}", flag, f"ward {stay}", code,
             "h7", "V")
            for stay in (1, 2, 3)
            for name, value, code, flag in (("glucose", 100.5, "G", "ok"), ("lactate", 1.5, "L", "high"))
            for h in range(8)
            if name == "glucose" or h in (4, 5)
        ],
        columns=["stay", "t", "lab", "result", "labid", "text", "flag", "ward", "code", "hospital", "status"],
    )  # fmt: skip
    table = of_file(frame, tmp_path, ColumnSpec(time=["t"], group=["stay"], feature="lab", value="result"))
    new = added(table, tmp_path)
    assert len(new) == 18
    assert (new["lab"] == "lactate").all()
    for name in ("labid", "text", "flag", "status"):
        assert (new[name] == "").all(), name
    assert (new["ward"] == "ward " + new["stay"]).all()
    assert (new["code"] == "L").all()
    assert (new["hospital"] == "h7").all()
    assert said(table, "copied: ward, code, hospital; empty: labid, text, flag, status")


def test_a_lab_seen_once_in_each_stay_lends_nothing_to_added_rows(tmp_path: Path) -> None:
    rows = [(s, 60 * h, "glucose", 100.5 + h, 5000 + 20 * s + h, "a") for s in (1, 2) for h in range(9)]
    rows += [(s, 300, "lactate", 1.6, 6000 + s, "1.6 (ok)") for s in (1, 2)]
    frame = pd.DataFrame(rows, columns=["stay", "t", "lab", "result", "labid", "text"])
    table = of_file(frame, tmp_path, ColumnSpec(time=["t"], group=["stay"], feature="lab", value="result"))
    new = added(table, tmp_path)
    assert len(new) == 16
    assert (new["labid"] == "").all()
    assert (new["text"] == "").all()


def test_added_rows_of_a_wide_table_hold_the_names_of_their_station_and_no_ids_flags_and_remarks() -> None:
    frame = stations().assign(
        name=lambda d: "town " + d["station_id"], lat=lambda d: d["station_id"].map({"S0": 1.5, "S1": 2.5, "S2": 3.5}),
        network="N", qc_flag=0, comment="fine", batch_id=5,
    )  # fmt: skip
    table = read_table(frame.drop(index=[12, 20]), ColumnSpec(features=["NO2"]))
    assert isinstance(table, FrameTable)
    gaps = [np.isnan(s.values) for s in table.panel.series]
    out = table.apply(Edits(gaps, [np.full(cells.shape, FILL) for cells in gaps]))
    new = out[out["id"].isna()]
    assert len(new) == table.n_added == 2
    assert (new["name"] == "town " + new["station_id"]).all()
    assert new["lat"].tolist() == [{"S0": 1.5, "S1": 2.5, "S2": 3.5}[s] for s in new["station_id"]]
    assert (new["network"] == "N").all()
    assert new[["qc_flag", "comment", "batch_id"]].isna().all(axis=None)


def test_more_added_rows_than_there_are_have_to_be_asked_for_in_a_long_table(tmp_path: Path) -> None:
    rows = [
        (s, 7 * h + k, name, 10.0 * k + h) for s in (1, 2) for h in range(20) for k, name in enumerate(("a", "b", "c"))
    ]
    frame = pd.DataFrame(rows, columns=["stay_id", "offset_min", "labname", "result"])
    with pytest.raises(
        DataError, match=r"up to 240 rows would be added to its 120.*missing_times='insert'.*missing_times='keep'"
    ):
        of_file(frame, tmp_path, irregular=True)
    wanted = of_file(frame, tmp_path, irregular=True, missing_times="insert")
    assert wanted.n_added == len(added(wanted, tmp_path)) == 240
    frame.loc[5, "result"] = np.nan
    kept = of_file(frame, tmp_path, irregular=True, missing_times="keep")
    assert (len(kept.frame), kept.n_added) == (120, 0)
    out = filled(kept, tmp_path)
    assert len(out) == 120
    assert (out["result"] == "7777.0").sum() == 1


@pytest.mark.parametrize(
    "name", ["labresultoffset", "minutes_since_admit", "offset_min", "hours_in", "icu_hour", "t_rel"]
)
def test_what_counts_from_the_start_of_a_stay_is_a_time_and_no_feature(tmp_path: Path, name: str) -> None:
    rows = [(s, h, 80.5 + h) for s in (1, 2) for h in range(12)]
    frame = pd.DataFrame(rows, columns=["stay_id", name, "hr"])
    table = of_file(frame, tmp_path)
    assert (roles(table)["time"], roles(table)["features"]) == ([name], ["hr"])
    stamped = frame.assign(charttime=[START + pd.Timedelta(hours=h) for _, h, _ in rows])
    assert roles(of_file(stamped, tmp_path))["features"] == ["hr"]

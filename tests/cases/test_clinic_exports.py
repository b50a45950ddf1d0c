"""Exports of clinics, trials and surveys: nights, visits, stays, results in words, doses, and times in columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Feature
from tsimpute.errors import DataError
from tsimpute.screening.column_kinds import column_kinds
from tsimpute.tables.frames.frames import TimeOptions, read_frame
from tsimpute.tables.frames.table import FrameTable
from tsimpute.tables.roles.columns import ColumnSpec
from tsimpute.tables.sources.text_tables import read_text_table

RNG = np.random.default_rng(11)


def text_of(folder: Path, text: str, **spec: Any) -> FrameTable:
    path = folder / "t.csv"
    path.write_text(text, encoding="utf-8")
    return read_text_table(path, ColumnSpec(**spec))


def frame_of(frame: pd.DataFrame, missing_times: Any = "auto", **spec: Any) -> FrameTable:
    return read_frame(frame, ColumnSpec(**spec), TimeOptions(missing_times=missing_times))


def names(reading: FrameTable, places: Any) -> list[Any]:
    return [reading.columns.names[at] for at in places]


def line(values: Any, delimiter: str = ",") -> str:
    return delimiter.join("" if value is None else str(value) for value in values) + "\n"


# Times in the names of columns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("above", ["", '"Data Source","Indicators",\n\n"Last Updated","2023-05-10",\n\n'])
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_years_in_columns_are_refused_and_no_row_is_taken_for_names(tmp_path: Path, above: str, delimiter: str) -> None:
    years = list(range(1990, 2002))
    text = line(["Country Name", "Country Code", "Indicator Name", *years], delimiter)
    for country in ("Aruba", "Afghanistan", "Angola", "Albania"):
        for what in ("Population", "GDP"):
            numbers = [None if year == 1995 else year * 3 for year in years]
            text += line([country, country[:3].upper(), what, *numbers], delimiter)
    with pytest.raises(DataError, match="times in the names of 12 columns, from '1990' to '2001'") as caught:
        text_of(tmp_path, above.replace(",", delimiter) + text)
    message = str(caught.value)
    assert "feature='Indicator Name'" in message
    assert "group='Country Name'" in message
    assert ("skiprows=4" in message) == bool(above)


@pytest.mark.parametrize("names_of", [
    pd.date_range("2020-01-22", periods=9).strftime("%-m/%-d/%y").tolist(), list(pd.date_range("2020", periods=8)),
    [f"{year} [YR{year}]" for year in range(2000, 2010)], list(range(1990, 1999)),
    ["2020Q1", "2020Q2", "2020Q3", "2020Q4"],
    list(pd.period_range("2020-01", periods=6, freq="M")),
])  # fmt: skip
def test_dates_in_columns_are_refused_in_frames(names_of: list[Any]) -> None:
    frame = pd.DataFrame(RNG.normal(size=(5, len(names_of))), columns=names_of)
    frame.insert(0, "region", list("abcde"))
    with pytest.raises(DataError, match=f"times in the names of {len(names_of)} columns"):
        frame_of(frame)
    reading = frame_of(frame.rename(columns=str), features=[str(name) for name in names_of])
    assert len(reading.panel.features) == len(names_of)


def test_the_recipe_gives_a_table_that_is_read(tmp_path: Path) -> None:
    wide = pd.DataFrame({"country": ["A", "B", "C"], **{str(y): RNG.normal(size=3) for y in range(2000, 2010)}})
    wide.loc[1, "2004"] = np.nan
    wide.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError) as caught:
        read_text_table(tmp_path / "t.csv")
    lines = [text.strip() for text in str(caught.value).split("\n") if text.startswith("  long")]
    scope: dict[str, Any] = {"pandas": pd}
    exec("\n".join(lines).replace("'t.csv'", repr(str(tmp_path / "t.csv"))), scope)
    reading = frame_of(scope["long"], time=["time"], features=["value"], group=["country"])
    assert [series.name for series in reading.panel.series] == ["A", "B", "C"]
    assert np.isnan(reading.panel.series[1].values[0, 4])


def test_a_few_years_as_names_are_no_times() -> None:
    frame = pd.DataFrame(
        {"time": pd.date_range("2024", periods=9, freq="h"), "hr": 1.0, "map": 2.0, "x2000": 3.0, "x2001": 1.0}
    )
    assert names(frame_of(frame), frame_of(frame).roles.time) == ["time"]


# Series without a known time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("series", [["C1", "C2", "C3", "C4"], [7, 9, 12, 15]])
@pytest.mark.parametrize(
    "labels", [["0m", "3m", "6m", "9m", "1y"], ["Baseline", "Week 4", "Week 8", "Week 12", "Week 24"]]
)
def test_blocks_of_visits_in_words_are_no_steps_of_one_series(series: list[Any], labels: list[str]) -> None:
    n = len(series) * len(labels)
    frame = pd.DataFrame(
        {"child": np.repeat(series, len(labels)), "when": labels * len(series), "kg": RNG.normal(size=n)}
    )
    with pytest.raises(DataError, match=r"4 blocks, one for each name of 'child', in each of which 'when'"):
        frame_of(frame)
    assert len(frame_of(frame, group=["child"], time=()).panel.series) == 4
    assert len(frame_of(frame, group=(), time=()).panel.series) == 1


def test_texts_that_do_not_come_again_leave_one_series() -> None:
    frame = pd.DataFrame({"phase": ["a"] * 4 + ["b"] * 4, "note": list("qwertyui"), "x": RNG.normal(size=8)})
    assert len(frame_of(frame).panel.series) == 1


def test_each_stay_of_a_patient_is_a_series_without_a_known_time() -> None:
    stays = {"subject_id": [1] * 24 + [2] * 12, "stay_id": [10] * 12 + [11] * 12 + [20] * 12}
    frame = pd.DataFrame({**stays, "hr": list(range(12)) * 3, "map": RNG.normal(size=36)})
    with pytest.raises(DataError, match="'hr' rises from row to row within each 'subject_id' and 'stay_id'"):
        frame_of(frame)
    spec = frame_of(frame, time=["hr"])
    assert names(spec, spec.roles.group) == ["subject_id", "stay_id"]
    assert len(spec.panel.series) == 3


def test_waves_in_letters_are_no_series_of_persons() -> None:
    persons, waves = list(range(6801, 6821)), list("abcde")
    rows = [(p, w) for p in persons for w in waves if (p + ord(w)) % 4]
    frame = pd.DataFrame(rows, columns=["pidp", "wave"]).assign(income=RNG.normal(size=len(rows)))
    with pytest.raises(DataError, match=r"set group='pidp' and time=\(\)"):
        frame_of(frame)
    assert len(frame_of(frame, group=["pidp"], time=()).panel.series) == 20


def test_an_index_without_a_name_that_starts_anew_is_no_number_of_the_row() -> None:
    frame = pd.DataFrame({"iso": ["DE"] * 20 + ["FR"] * 20, "gdp": RNG.normal(size=40)}, index=[*range(1990, 2010)] * 2)
    with pytest.raises(
        DataError, match="the index, which has no name, rises from row to row within each name of 'iso'"
    ):
        frame_of(frame)
    named = frame_of(frame.rename_axis("time"), time=["time"], group=["iso"])
    assert [len(series.times) for series in named.panel.series] == [20, 20]
    assert len(frame_of(frame, time=(), group=()).panel.series) == 1
    assert len(frame_of(frame.drop(columns="iso").iloc[:20]).panel.series) == 1


def test_minutes_within_a_session_are_no_names_of_series() -> None:
    sessions = [
        (p, day, m) for p in (11, 12) for day in ("2024-02-01", "2024-02-03", "2024-02-05") for m in range(0, 240, 30)
    ]
    frame = pd.DataFrame(sessions, columns=["patient_id", "session_date", "minutes"])
    frame["flow"] = RNG.normal(size=len(frame))
    with pytest.raises(DataError, match=r"set time='minutes' and group=\['patient_id', 'session_date'\]"):
        frame_of(frame)
    assert len(frame_of(frame, time=["minutes"], group=["patient_id", "session_date"]).panel.series) == 6


# Nights ---------------------------------------------------------------------------------------------------------------


def night(start: str, n: int, minutes: int, form: str = "%H:%M") -> list[str]:
    return pd.date_range(f"2024-01-01 {start}", periods=n, freq=f"{minutes}min").strftime(form).tolist()


@pytest.mark.parametrize("form", ["%H:%M", "%H:%M:%S"])
def test_a_night_without_dates_goes_on_after_midnight(form: str) -> None:
    frame = pd.DataFrame({"Time": night("22:40", 36, 5, form), "HR": RNG.normal(size=36)}).drop(index=[20, 21])
    reading = frame_of(frame)
    (series,) = reading.panel.series
    assert len(series.times) == 36
    assert (np.diff(series.times) > 0).all()
    assert reading.stamps is not None
    written = reading.stamps.texts((series.labels[20:22] * 3600e6).round().astype(np.int64))
    assert [text for (text,) in written] == night("22:40", 36, 5, form)[20:22]


def test_each_night_of_several_and_each_quantity_of_a_long_table() -> None:
    frame = pd.DataFrame({"patient": ["a"] * 12 + ["b"] * 12, "time": night("23:00", 12, 10) + night("21:50", 12, 20)})
    reading = frame_of(frame.assign(hr=RNG.normal(size=24)))
    assert [series.labels[-1] for series in reading.panel.series] == pytest.approx([24 + 5 / 6, 25.5])
    times = night("23:00", 10, 15)
    blocks = pd.DataFrame({"time": times * 2 + times[6:], "parameter": ["hr"] * 10 + ["map"] * 10 + ["late"] * 4})
    (series,) = frame_of(blocks.assign(value=RNG.normal(size=24))).panel.series
    assert np.flatnonzero(~np.isnan(series.values[2])).tolist() == [6, 7, 8, 9]


@pytest.mark.parametrize("times", [night("08:00", 12, 60) * 2, night("00:00", 24, 60) * 2])
def test_days_one_after_another_without_dates_are_still_refused(times: list[str]) -> None:
    with pytest.raises(DataError, match="expected each time once"):
        frame_of(pd.DataFrame({"time": times, "x": RNG.normal(size=len(times))}))


def test_elapsed_times_and_time_differences_stay() -> None:
    hours = [20.0, 23.0, 1.0, 4.0]
    frame = pd.DataFrame({"time": pd.to_timedelta(hours, unit="h"), "x": [1.0, 2.0, 3.0, 4.0]})
    assert sorted(frame_of(frame, missing_times="keep").panel.series[0].labels) == sorted(hours)


# Visits ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("visits", [[0, 3, 6, 12, 24], [0, 4, 8, 12, 24], [-14, 0, 28, 56, 112]])
def test_no_visit_is_added_where_none_was_planned(visits: list[int]) -> None:
    rows = [(s, visit) for s in range(1, 13) for visit in visits if (s, visit) != (5, visits[2])]
    frame = pd.DataFrame(rows, columns=["study_id", "month"]).assign(score=RNG.normal(size=len(rows)))
    reading = frame_of(frame, time=["month"], group=["study_id"])
    assert {tuple(series.labels) for series in reading.panel.series} == {tuple(visits)}
    assert any("no visit was planned" in note for note in reading.notes)


def test_a_shared_outage_of_a_logger_is_still_filled() -> None:
    rows = [(s, hour) for s in range(6) for hour in range(60) if hour not in (30, 31)]
    frame = pd.DataFrame(rows, columns=["station_id", "hour"]).assign(x=RNG.normal(size=len(rows)))
    assert {len(series.times) for series in frame_of(frame).panel.series} == {60}


# Results in words, doses, codes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "text"), [("valuenum", "value"), ("labresult", "labresulttext"), ("VSSTRESN", "VSORRES")]
)
def test_a_result_in_words_is_no_gap(tmp_path: Path, number: str, text: str) -> None:
    out = line(["stay_id", "charttime", "itemid", number, text])
    for stay in (1, 2):
        for hour in range(6):
            for item in (50912, 51003):
                below = item == 51003 and hour in (2, 3)
                value = 1 + hour / 10
                out += line(
                    [stay, f"2153-03-01 {hour:02d}:00:00", item, None if below else value, "<0.30" if below else value]
                )
    out = out.replace("2,2153-03-01 05:00:00,50912,1.5,1.5\n", "2,2153-03-01 05:00:00,50912,,\n")
    spec = {"feature": "itemid", "value": number, "time": ["charttime"], "group": ["stay_id"]}
    table = text_of(tmp_path, out, **spec)
    assert [int(absent.sum()) for absent in table.absent] == [2, 2]
    assert any("whose result is a text" in note and "'<0.30'" in note for note in table.notes)
    assert np.isnan(table.panel.series[1].values[0, 5])
    assert not table.absent[1][0, 5]


def kind_of(name: str, values: Any, long: bool = False) -> str:
    row = np.asarray(values, float)[None]
    times = np.arange(row.shape[1], dtype=float)
    panel = Panel((Feature(name),), (Series("", times, row, times),), Clock("steps", 1.0))
    return column_kinds(panel, long=long)[0].kind


RUNNING = [np.nan] * 20 + RNG.uniform(0.05, 0.2, 30).tolist() + [np.nan] * 10


@pytest.mark.parametrize("name", ["norepinephrine_rate", "Propofol (mg/h)", "vasopressor", "Noradrenalin"])
def test_a_drug_that_never_is_0_is_not_given_where_nothing_stands(name: str) -> None:
    assert kind_of(name, RUNNING) == "presence"
    assert kind_of(name, RUNNING, long=True) == "presence"
    assert kind_of(name, np.nan_to_num(RUNNING)) == "measurement"


def test_a_level_in_blood_and_other_readings_are_measured() -> None:
    for name in ("fentanyl level", "plasma epinephrine", "heart_rate"):
        assert kind_of(name, RUNNING) == "measurement"


def test_one_dose_now_and_then_in_a_long_table_gets_no_rows() -> None:
    bolus = [100.0 if i % 4 == 0 else np.nan for i in range(40)]
    assert kind_of("225158", bolus, long=True) == "presence"
    assert kind_of("225158", [100.0] * 30 + [np.nan] * 10, long=True) == "constant"


@pytest.mark.parametrize("name", ["dx", "icd10", "Diagnosis code", "atc"])
def test_codes_of_a_catalogue_are_names_though_some_are_digits(tmp_path: Path, name: str) -> None:
    text = line(["date", name, "temp"])
    for day in range(1, 21):
        text += line([f"2024-01-{day:02d}", ["486", "I50.9", "", "4019"][day % 4], None if day % 5 == 0 else 37.1])
    table = text_of(tmp_path, text)
    assert [feature.name for feature in table.panel.features] == ["temp"]
    assert name in table.passed_through


# Blocks under one another ---------------------------------------------------------------------------------------------


def test_a_second_table_below_the_first_is_named(tmp_path: Path) -> None:
    hours = [f"2024-01-01 {hour:02d}:00" for hour in range(20)]
    text = "time,hr,map\n" + "".join(f"{t},{80 + i},{70 + i}\n" for i, t in enumerate(hours))
    text += "time,spo2,map\n" + "".join(f"{t},{90 + i % 9},{16 + i}\n" for i, t in enumerate(hours[:9]))
    with pytest.raises(DataError, match=r"several blocks|a second table begins"):
        text_of(tmp_path, text)


def test_blocks_of_patients_with_names_of_their_own_are_named(tmp_path: Path) -> None:
    text = ""
    for patient in ("00123", "00456", "00789"):
        text += f"Patient: MRN {patient},,,\nDate,HR,RR,SpO2\n"
        text += "".join(f"2024-01-{day:02d},{80 + day},{16 + day},97\n" for day in range(1, 25))
    with pytest.raises(DataError, match="above each of several blocks"):
        text_of(tmp_path, text)

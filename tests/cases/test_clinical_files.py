"""Files of clinics and of people who measure themselves: whose rows they are, and what nobody measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tsimpute.cli.words import in_options
from tsimpute.core.limits import Limits
from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Feature
from tsimpute.errors import DataError
from tsimpute.screening.column_kinds import column_kinds
from tsimpute.screening.screening import screen
from tsimpute.tables.frames.frames import Clockwork, read_frame
from tsimpute.tables.roles.columns import Told
from tsimpute.tables.sources.text_tables import read_text_table

RNG = np.random.default_rng(3)
OPTIONS = ("time", "group", "features", "feature", "value", "units", "predict")


def of(frame: pd.DataFrame, **told: Any) -> dict[str, Any]:
    reading = read_frame(frame, Told(**told), Clockwork(missing_times="keep"))
    names, own = reading.columns.names, reading.roles
    named = lambda places: [names[at] for at in places]
    one = lambda at: None if at is None else names[at]
    return {"layout": own.layout, "time": named(own.time), "group": named(own.group), "feature": one(own.feature),
            "value": one(own.value), "unit": one(own.unit)}  # fmt: skip


def kinds_of(**columns: Any) -> dict[str, str]:
    values = np.stack([np.asarray(column, float) for column in columns.values()])
    times = np.arange(values.shape[1], dtype=float)
    panel = Panel(tuple(Feature(name) for name in columns), (Series("", times, values, times),), Clock("steps", 1.0))
    return {kind.feature: kind.kind for kind in column_kinds(panel)}


def found_in(values: Any, name: str = "HR") -> list[str]:
    row = np.asarray(values, float)[None]
    times = np.arange(row.shape[1], dtype=float)
    panel = Panel((Feature(name),), (Series("", times, row, times),), Clock("steps", 1.0))
    return [finding.text for finding in screen(panel, {})]


def series_of(group: str, names: list[Any], time: str, times: list[float]) -> pd.DataFrame:
    """A block of rows for each name."""
    n = len(names) * len(times)
    return pd.DataFrame({
        group: np.repeat(names, len(times)), time: times * len(names), "x": RNG.normal(size=n), "y": RNG.normal(size=n),
    })  # fmt: skip


UNKNOWN = [
    ("bed", [11, 12, 15], "charthour", [0, 1, 2, 3, 4, 5, 6, 7]),
    ("pid", ["A", "B"], "time_s", [0.0, 30.0, 60.0, 90.0, 120.0]),
    ("kid", ["001", "002", "003"], "age_months", [0, 1, 2, 4, 6, 9, 12]),
    ("who", ["r1", "r2", "r3", "r4"], "wave", [1, 2, 3, 4]),
]


@pytest.mark.parametrize("case", UNKNOWN, ids=[case[2] for case in UNKNOWN])
@pytest.mark.parametrize("order", ["blocks", "by time"])
def test_rows_of_several_people_are_not_the_steps_of_one_series(case: Any, order: str) -> None:
    frame = series_of(*case)
    if order == "by time":
        frame = frame.sort_values(case[2], kind="stable").reset_index(drop=True)
    with pytest.raises(DataError) as refused:
        read_frame(frame)
    text = in_options(str(refused.value), OPTIONS)
    assert f"--group {case[0]} and --time {case[2]}" in text
    assert "--group none and --time none" in text
    assert of(frame, group=[case[0]], time=[case[2]])["group"] == [case[0]]
    assert len(read_frame(frame, Told(group=(), time=())).panel.series) == 1


def test_a_person_and_a_day_name_a_series_together() -> None:
    days = series_of("day", [1, 2], "minute_of_day", [0, 1, 2, 3, 4, 5])
    frame = pd.concat([days.assign(SEQN=person) for person in (21005, 21006, 21007)], ignore_index=True)
    frame = frame.rename(columns={"day": "PAXDAY", "minute_of_day": "PAXMINUTE"})
    with pytest.raises(DataError, match=r"group=\['PAXDAY', 'SEQN'\] and time='PAXMINUTE'"):
        read_frame(frame)


@pytest.mark.parametrize("group", ["stay_id", "icustay", "patient", "USUBJID", "respondent", "pt_no"])
def test_a_time_that_starts_anew_in_each_patient_is_not_passed_over(group: str) -> None:
    frame = series_of(group, list(range(101, 108)), "hr_since_admit", [float(h) for h in range(-2, 7)])
    with pytest.raises(DataError, match=r"time='hr_since_admit'. If each row is one step, set time=\(\)"):
        read_frame(frame)
    assert of(frame, time=["hr_since_admit"])["group"] == [group]
    assert len(read_frame(frame, Told(time=())).panel.series) == 7


def test_rows_without_any_such_column_are_steps_as_before() -> None:
    n = 60
    frame = pd.DataFrame({
        "total": np.cumsum(RNG.uniform(size=n)), "mode": ["a", "b", "c"] * 20, "x": RNG.normal(size=n),
        "stage": np.repeat([1, 2, 1, 3], 15), "number": np.arange(n),
    })  # fmt: skip
    assert len(read_frame(frame).panel.series) == 1
    assert len(read_frame(frame.drop(columns=["mode", "stage", "number"])).panel.series) == 1
    sums = series_of("patient", ["a", "b"], "sum_ml", [1.0, 3.5, 3.9, 7.0, 7.1, 9.9])
    assert len(read_frame(sums).panel.series) == 2


def test_study_data_in_the_standard_of_trials_are_long() -> None:
    rows = [
        (f"01-{s:03d}", k + 1, code, value + s, unit, value + s, unit, visit, f"2020-{1 + visit:02d}-{10 + s:02d}")
        for s in range(4) for visit in range(5)
        for k, (code, value, unit) in enumerate([("SYSBP", 120.0, "mmHg"), ("TEMP", 36.5, "C")])
    ]  # fmt: skip
    names = ["USUBJID", "VSSEQ", "VSTESTCD", "VSORRES", "VSORRESU", "VSSTRESN", "VSSTRESU", "VISITNUM", "VSDTC"]
    assert of(pd.DataFrame(rows, columns=names)) == {
        "layout": "long", "time": ["VSDTC"], "group": ["USUBJID"], "feature": "VSTESTCD", "value": "VSSTRESN",
        "unit": "VSSTRESU",
    }  # fmt: skip


def test_one_column_of_values_in_several_units_is_no_single_quantity(tmp_path: Path) -> None:
    kinds = [("HeartRate", "count/min"), ("StepCount", "count"), ("OxygenSaturation", "%")]
    n, path = 90, tmp_path / "export.csv"
    frame = pd.DataFrame({
        "startDate": pd.Timestamp("2023-02-01") + pd.to_timedelta(np.cumsum(RNG.integers(3, 40, n)), unit="min"),
        "type": [kinds[i % 3][0] for i in range(n)], "value": RNG.uniform(1, 99, n).round(2),
        "unit": [kinds[i % 3][1] for i in range(n)],
    })  # fmt: skip
    frame.to_csv(path, index=False)
    with pytest.raises(DataError) as refused:
        read_text_table(path)
    assert "holds 3 units (count/min, count, %)" in str(refused.value)
    assert "--feature type and --value value" in in_options(str(refused.value), OPTIONS)
    assert of(frame, feature="type", value="value")["layout"] == "long"
    assert of(frame, features=["value"])["layout"] == "wide"
    assert of(frame.assign(unit="ug/m3"))["layout"] == "wide"


@pytest.mark.parametrize(
    "name", ["Rapid-Acting Insulin (units)", "carbs_g", "Bolus", "Kohlenhydrate (Gramm)", "Rescue puffs"]
)
def test_doses_now_and_then_are_not_predicted(name: str) -> None:
    given = np.full(200, np.nan)
    given[::20] = RNG.integers(1, 9, 10)
    assert kinds_of(**{name: given, "glucose": RNG.normal(120, 30, 200)}) == {
        name: "presence", "glucose": "measurement",
    }  # fmt: skip
    assert kinds_of(lactate=given * 1.01)["lactate"] == "measurement"
    charted = np.where(np.isnan(given), 0.0, given)
    charted[5] = np.nan
    assert kinds_of(**{name: charted})[name] == "count"


@pytest.mark.parametrize("name", ["sleep_stage", "SepsisLabel", "outcome", "death_label", "Sleep Phase", "rhythm"])
def test_stages_labels_and_outcomes_are_not_predicted(name: str) -> None:
    values = RNG.integers(0, 2, 100).astype(float)
    values[3] = np.nan
    assert kinds_of(**{name: values, "x": RNG.normal(size=100)})[name] == "code"
    assert kinds_of(stage=RNG.normal(3, 1, 100))["stage"] == "measurement"


def test_an_outcome_of_each_patient_is_copied() -> None:
    dead = np.repeat([0.0, 1.0, 0.0], 12)
    dead[[5, 17]] = np.nan
    times = np.arange(12.0)
    series = tuple(Series(f"{n}", times, dead[None, 12 * n : 12 * n + 12], times) for n in range(3))
    panel = Panel((Feature("death"),), series, Clock("steps", 1.0))
    assert [kind.kind for kind in column_kinds(panel)] == ["per series"]


@pytest.mark.parametrize(
    ("name", "values", "limits"),
    [
        ("Mood (1-5)", [1, 2, 4, 5], Limits(1, 5, integer=True)),
        ("pain 0-10", [0, 3, 4], Limits(0, 10, integer=True)),
        ("Stimmung [1-5]", [2, 3, 4], Limits(1, 5, integer=True)),
        ("gcs_verbal", [1, 2, 3, 4, 5], Limits(1, integer=True)),
        ("Night waking (0/1)", [0, 1], Limits(0, 1, integer=True)),
        ("Mood (1-5)", [1.5, 2, 3], None),
        ("Mood (1-5)", [1, 3, 9], None),
        ("PEEP", [5, 8, 10], None),
        ("soil moisture (0-10 cm)", [11, 12, 13], None),
    ],
)
def test_grades_of_a_scale_are_whole_numbers_within_it(name: str, values: list[float], limits: Limits | None) -> None:
    row = np.tile(np.asarray([*values, np.nan], float), 12)
    times = np.arange(len(row), dtype=float)
    panel = Panel((Feature(name),), (Series("", times, row[None], times),), Clock("steps", 1.0))
    assert [kind.limits for kind in column_kinds(panel)] == [limits]


def test_zeros_far_below_a_pulse_are_named_and_zeros_of_counts_are_not() -> None:
    pulse = RNG.integers(60, 100, 100).astype(float)
    pulse[[5, 50]] = 0
    assert any("HR: 0 stands 2 times and far below all other values" in text for text in found_in(pulse))
    pressure = np.where(pulse == 0, -5.0, pulse)
    assert any("HR: -5 stands 2 times" in text for text in found_in(pressure))
    assert not found_in(RNG.poisson(3, 100).astype(float))
    assert not any("not measured" in text for text in found_in(np.where(np.arange(100) % 2, 0.0, pulse + 60)))
    assert not any("not measured" in text for text in found_in(np.where(pulse == 0, 61.0, pulse)))


def test_units_in_the_name_of_a_column_are_no_option() -> None:
    text = "Name it (time)\nInsulin (units) (an event): it stays empty. To predict it, set predict=['Insulin (units)']"
    assert in_options(text, OPTIONS) == (
        "Name it (--time)\nInsulin (units) (an event): it stays empty. To predict it, set --predict 'Insulin (units)'"
    )

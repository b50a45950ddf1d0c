"""What nobody measured stays empty, and what is no measurement is never predicted: each kind, and its near misses."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tsimpute as ti
from tsimpute.core.limits import Limits
from tsimpute.core.panel import PROVENANCE, Clock, Panel, Series
from tsimpute.core.windows import Feature
from tsimpute.errors import ConfigError
from tsimpute.filling.files.fill_file import fill_file
from tsimpute.filling.preparing.prepare import far_cells, prepare
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.screening.column_kinds import ColumnKind, column_kinds
from tsimpute.screening.kind_texts import far_warnings
from tsimpute.tables.sources.files import read_table

pytestmark = pytest.mark.filterwarnings("ignore::tsimpute.errors.ImputationWarning")

N = 200
RNG = np.random.default_rng(5)
WAVE = 20 + 5 * np.sin(np.arange(N) / 4) + RNG.normal(0, 0.4, N)


def gapped(values: Sequence[float] | np.ndarray, share: float = 0.2, seed: int = 1) -> np.ndarray:
    out = np.array(values, float)
    gaps = np.random.default_rng(seed).random(len(out)) < share
    gaps[[0, -1]] = False
    out[gaps] = np.nan
    return out


def panel_of(name: str, *rows: Sequence[float] | np.ndarray, unit: str = "") -> Panel:
    series = tuple(
        Series(f"s{n}", np.arange(float(len(row))), np.array(row, float)[None], np.arange(float(len(row))))
        for n, row in enumerate(rows)
    )
    return Panel((Feature(name, unit),), series, Clock("hours", 1.0))


def kind_of(name: str, *rows: Sequence[float] | np.ndarray, long: bool = False, unit: str = "") -> str:
    return column_kinds(panel_of(name, *rows, unit=unit), long=long)[0].kind


def frame_of(**columns: Sequence[float] | np.ndarray) -> pd.DataFrame:
    n = len(next(iter(columns.values())))
    return pd.DataFrame({"time": pd.date_range("2024-03-01", periods=n, freq="h"), **columns})


def prepared(frame: pd.DataFrame, **settings: object) -> Prepared:
    return ti.TableImputer(**settings).prepared(frame)  # type: ignore[arg-type]


def steps(n: int, n_steps: int = N, first: float = 0.0, size: float = 1.0, seed: int = 2) -> np.ndarray:
    """Rises at n of the steps."""
    rises = np.zeros(n_steps)
    rises[np.random.default_rng(seed).permutation(np.arange(1, n_steps))[:n]] = size
    return first + rises.cumsum()


def test_a_column_without_a_value_stays_empty_and_is_named() -> None:
    nothing = np.full(N, np.nan)
    found = prepared(frame_of(Glucose=gapped(WAVE), **{"Insulin (units)": nothing}))
    assert [kind.kind for kind in found.kinds] == ["measurement", "empty"]
    assert set(found.provenance[0][1]) == {PROVENANCE.index("left empty")}
    assert any("Insulin (units)" in text and "nobody measured it" in text for text in found.warnings)
    assert found.model_panel is not None
    assert [feature.name for feature in found.model_panel.features] == ["Glucose"]


def test_a_feature_that_other_series_show_is_still_filled_where_one_shows_none() -> None:
    a, b = frame_of(x=gapped(WAVE), y=gapped(WAVE + 1)), frame_of(x=gapped(WAVE), y=np.full(N, np.nan))
    found = prepared(pd.concat([a.assign(site="p"), b.assign(site="q")]))
    assert [kind.kind for kind in found.kinds] == ["measurement"] * 2
    codes = found.provenance
    assert set(codes[1][1]) == {PROVENANCE.index("no information")}


@pytest.mark.parametrize("value", [7.5, 0.0, -3.0, 101325.0])
def test_a_constant_fills_its_gaps_and_nothing_is_learnt_of_it(value: float) -> None:
    frame = frame_of(a=gapped(np.full(N, value), 0.3))
    drawn = ti.TableImputer().fit_rules(prepared(frame)).draw(frame)
    assert (drawn.table["a"] == value).all()
    assert set(drawn.cells["provenance"]) == {"by rule"}
    assert (drawn.cells[["q0.05", "q0.5", "q0.95"]] == value).all().all()


def test_a_stuck_sensor_of_one_station_and_a_column_that_varies_little_are_measurements() -> None:
    assert kind_of("T", gapped(np.full(N, 7.5)), gapped(WAVE)) == "measurement"
    assert kind_of("a", np.append(np.full(N, 7.5), 7.6)) == "measurement"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("WT01", np.where(np.arange(N) % 6 == 0, 1.0, np.nan)), ("Fog", np.where(np.arange(N) % 40 == 0, 1.0, np.nan)),
        ("rain_flag", np.where(np.arange(N) % 3 == 0, 1.0, np.nan)), ("on", gapped(np.ones(N))),
        ("Bolus", np.where(np.arange(N) % 50 == 0, 5.0, np.nan)), ("x", np.append(np.full(N, np.nan), 3.0)),
    ],
)  # fmt: skip
def test_events_stay_empty(name: str, values: np.ndarray) -> None:
    found = prepared(frame_of(T=gapped(np.resize(WAVE, len(values))), **{name: values}))
    assert found.kinds[1].kind in ("presence", "code")
    codes = found.provenance[0][1]
    assert set(codes[np.isnan(values)]) == {PROVENANCE.index("left empty")}


def test_a_valve_with_both_values_is_filled_with_0_or_1() -> None:
    valve = gapped(np.arange(N) // 17 % 2)
    assert kind_of("valve", valve) == "yes or no"
    assert prepared(frame_of(valve=valve)).limits == {"valve": Limits(0, 1, integer=True)}


@pytest.mark.parametrize(
    "name",
    ["temp_quality", "T_QC", "qc_temp", "TA_F_QC", "Status", "PumpStatus_2", "mode", "hvac mode", "door state",
     "stability class", "WeatherCode", "tempflag", "QC1", "Quality Flag", "Event type"],
)  # fmt: skip
def test_codes_pass_through(name: str) -> None:
    codes = gapped(np.resize([1, 5, 9, 1, 1, 2], N))
    assert kind_of(name, codes) == "code"
    found = prepared(frame_of(temp=gapped(WAVE), **{name: codes}))
    provenance = found.provenance[0]
    assert set(provenance[1][np.isnan(codes)]) == {PROVENANCE.index("left empty")}
    assert any(name in text and "predict=[" in text for text in found.warnings)


@pytest.mark.parametrize("name", ["air_quality", "state_of_charge", "GCS", "pain score", "class_size", "quality_mm"])
def test_ratings_and_measured_qualities_are_predicted(name: str) -> None:
    assert kind_of(name, gapped(np.resize([3, 9, 15, 14, 7], N))) == "measurement"


def test_a_state_with_many_values_or_fractions_is_a_measurement() -> None:
    assert kind_of("battery_status", gapped(np.resize(np.arange(20, 95), N)[::-1])) == "measurement"
    assert kind_of("status", gapped(WAVE)) == "measurement"


def test_what_numbers_the_rows_is_passed_through() -> None:
    assert kind_of("seq", np.arange(1, N)) == kind_of("Record No", np.arange(1, N) * 2) == "id"
    assert kind_of("RecordID", [140123.0, np.nan, np.nan]) == "id"
    assert kind_of("NO", gapped(np.rint(WAVE))) != "id"
    assert kind_of("NO2", gapped(np.rint(WAVE))) != "id"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("kWh", 79001.73 + RNG.gamma(2, 1, N).cumsum()),
        ("x", RNG.integers(0, 3, N).cumsum()),
        ("rain_total", steps(4, size=0.2)), ("odometer", steps(40, size=7.0)),
        ("reading", RNG.gamma(2, 1, N).cumsum() % 200), ("rain_today", np.tile(np.maximum(np.arange(25) - 8, 0), 8)),
        ("Energy", np.tile([0] * 6 + [1, 3, 6, 9, 12, 15, 17, 18, 19, 20, 20.5] + [21] * 7, 9)),
    ],
)  # fmt: skip
def test_counters_are_filled_between_their_neighbours(name: str, values: np.ndarray) -> None:
    frame = frame_of(**{name: gapped(values)})
    found = prepared(frame)
    assert found.kinds[0].kind == "counter"
    drawn = ti.TableImputer().fit_rules(found).draw(frame)
    given, filled = frame[name].to_numpy(), drawn.fillings[0].point[0]
    before, after = pd.Series(given).ffill().to_numpy(), pd.Series(given).bfill().to_numpy()
    falls = before > after
    gaps = np.isnan(given)
    assert np.isnan(filled[falls & gaps]).all()
    inside = gaps & ~falls
    assert (before[inside] <= filled[inside]).all()
    assert (filled[inside] <= after[inside]).all()
    expected = pd.Series(given).interpolate().to_numpy()
    whole = (given[~gaps] == np.rint(given[~gaps])).all()
    np.testing.assert_allclose(filled[inside], np.rint(expected[inside]) if whole else expected[inside])
    low, middle, high = drawn.fillings[0].quantiles[:, 0]
    assert (low[inside] == before[inside]).all()
    assert (middle[inside] == filled[inside]).all()
    assert (high[inside] == after[inside]).all()


def test_a_counter_is_not_extrapolated_and_follows_the_true_times() -> None:
    values = np.arange(N) * 3.0
    values[[0, 1, 10, 11, -1]] = np.nan
    frame = frame_of(kWh=values)
    filled = ti.impute(frame)["kWh"]
    assert filled.isna().to_numpy().nonzero()[0].tolist() == [0, 1, N - 1]
    uneven = frame[~frame.index.isin([9])]
    assert ti.impute(uneven, missing_times="keep", irregular=True)["kWh"][10] == 30


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("temp", np.append(np.sort(WAVE[:10]), [np.nan] * 3)), ("temp", gapped(WAVE)),
        ("total cloud", gapped(WAVE * 2.2)), ("level", gapped(np.abs(np.arange(N) % 40 - 20.0) + 1.5)),
        ("rain", gapped(np.where(np.arange(N) % 7 == 0, 2.5, 0.0))), ("drift", gapped(WAVE + np.arange(N) / 10)),
        ("RH", gapped(50 + np.arange(N) % 11)),
        ("setpoint", gapped(np.where(np.arange(N) < 100, 19.5, 21.5))),
    ],
)  # fmt: skip
def test_what_falls_or_hardly_rises_is_no_counter(name: str, values: np.ndarray) -> None:
    assert kind_of(name, values) in ("measurement", "count")


def test_descriptors_of_a_series_are_copied_and_a_series_without_one_stays_empty() -> None:
    ages = ([54.0, *[np.nan] * 9], [71.0, *[np.nan] * 9], [63.0, *[np.nan] * 9], [np.nan] * 10)
    frames = [frame_of(HR=gapped(WAVE[:10]), Age=age).assign(stay=f"s{n}") for n, age in enumerate(ages)]
    found = prepared(pd.concat(frames))
    assert found.kinds[1].kind == "per series"
    bands = [found.bands(n)[1] for n in range(4)]
    assert [set(band.ravel()) for band in bands[:3]] == [{54.0}, {71.0}, {63.0}]
    assert np.isnan(bands[3]).all()
    codes = found.provenance
    assert set(codes[3][1]) == {PROVENANCE.index("left empty")}


def test_other_values_that_stay_in_each_series_are_descriptors_too_and_short_scores_are_not() -> None:
    assert kind_of("elev", gapped(np.full(30, 12.5)), gapped(np.full(30, 341.0))) == "per series"
    assert kind_of("z", gapped(np.full(30, 12.5)), gapped(np.full(30, 341.0))) == "per series"
    assert kind_of("GCS", [15, np.nan, 15], [14, np.nan, 14], [15, np.nan, np.nan]) == "measurement"
    assert kind_of("Lactate", [np.nan, 1.5, np.nan], [np.nan, np.nan, 2.5], [1.7, np.nan, np.nan]) == "measurement"


def test_a_long_table_gets_no_rows_for_what_stands_once_in_a_series() -> None:
    text = "RecordID,Time,Parameter,Value\n"
    for stay, age in ((140001, 54), (140002, 71), (140003, 63)):
        text += f"{stay},00:00,RecordID,{stay}\n{stay},00:00,Age,{age}\n{stay},00:00,ICUType,{stay % 3}\n"
        text += "".join(f"{stay},{hour:02}:00,HR,{80.5 + (hour * stay) % 7}\n" for hour in range(0, 20) if hour % 5)
    frame = pd.read_csv(StringIO(text))
    found = prepared(frame)
    kinds = {kind.feature: kind.kind for kind in found.kinds}
    assert kinds == {"RecordID": "id", "Age": "once", "ICUType": "code", "HR": "measurement"}
    for codes in found.provenance:
        assert set(codes[:3].ravel()) <= {PROVENANCE.index("observed"), PROVENANCE.index("left empty")}


@pytest.mark.parametrize("scale", [1, 40])
def test_counts_are_bounded_by_0_and_whole(scale: int) -> None:
    counts = gapped(RNG.poisson(3 * scale, N) * (np.arange(N) % 24 > 5))
    found = prepared(frame_of(bikes=counts))
    assert found.kinds[0].kind == "count"
    assert found.limits == {"bikes": Limits(0, integer=True)}
    assert any("bikes" in text and "limits=" in text for text in found.warnings)
    for given in ({"bikes": (None, 500)}, {"*": (None, 500)}):
        assert prepared(frame_of(bikes=counts), limits=given).limits == {k: Limits(*v) for k, v in given.items()}


@pytest.mark.parametrize(
    ("name", "unit", "values"),
    [
        ("T", "", np.rint(WAVE - 18)), ("x", "", np.rint(WAVE) - 30), ("HR", "", np.rint(WAVE * 4)),
        ("PT08.S1", "", np.rint(WAVE * 50)), ("q", "degC", np.abs(np.rint(WAVE - 20))), ("flow", "", np.abs(WAVE - 20)),
        ("GCS", "", np.resize([3, 15, 9, 14], N)), ("x", "", [0, 1, 2, 5, np.nan]),
    ],
)  # fmt: skip
def test_whole_numbers_that_are_no_counts(name: str, unit: str, values: np.ndarray) -> None:
    assert kind_of(name, values, unit=unit) == "measurement"


def test_a_wind_direction_is_bounded_by_0_at_most() -> None:
    assert kind_of("WDIR", gapped(RNG.integers(0, 361, N))) == "count"
    assert kind_of("WDIR", gapped(RNG.integers(140, 290, N))) == "measurement"


def test_a_percentage_is_asked_for_in_one_line_and_not_bounded() -> None:
    full = np.clip(WAVE * 4.5, 0, 100)
    found = prepared(frame_of(RH=gapped(full), SpO2=gapped(np.clip(WAVE * 3 + 30, 85, 100)), T=gapped(WAVE)))
    lines = [text for text in found.warnings if "percentage" in text]
    assert lines == [
        "RH, SpO2: the largest value is 100. If that is a percentage, bound what is filled: "
        "set limits='RH=0:100,SpO2=0:100'"
    ]
    assert found.limits == {}
    assert not [t for t in prepared(frame_of(RH=full), limits="RH=0:100").warnings if "percentage" in t]


def test_predict_has_a_column_predicted_and_features_does_not() -> None:
    frame = frame_of(kWh=gapped(WAVE.cumsum()), T=gapped(WAVE))
    assert [kind.kind for kind in prepared(frame, features=["kWh", "T"]).kinds] == ["counter", "measurement"]
    assert [kind.kind for kind in prepared(frame, predict=["kWh"]).kinds] == ["measurement"] * 2
    assert [kind.kind for kind in prepared(frame, predict="kWh").kinds] == ["measurement"] * 2
    with pytest.raises(ConfigError, match="predict: expected features of the table \\(kWh, T\\), came 'x'"):
        prepared(frame, predict=["x"])
    with pytest.raises(ConfigError, match="'Insulin' has none"):
        prepared(frame.assign(Insulin=np.nan), predict=["Insulin"])


def test_the_longest_gap_and_invalid_values_count_for_rules_too() -> None:
    values = np.arange(N) * 2.0
    values[50:60] = np.nan
    values[100] = 1e6
    frame = frame_of(kWh=values)
    limits = {"kWh": (0, 1000)}
    drawn = ti.TableImputer(max_gap=5, limits=limits, drop_invalid=True)
    drawn = drawn.fit_rules(drawn.prepared(frame)).draw(frame)
    assert drawn.table["kWh"][50:60].isna().all()
    assert drawn.table["kWh"][100] == 200
    assert drawn.provenance["kWh"][100] == "declared invalid"


def test_kinds_are_kept_for_the_next_table() -> None:
    first = frame_of(T=gapped(WAVE), kWh=gapped(WAVE.cumsum()), a=gapped(np.full(N, 7.5)), note=np.full(N, np.nan))
    imputer = ti.TableImputer().fit_rules(prepared(first))
    assert [kind.kind for kind in imputer.kinds_] == ["measurement", "counter", "constant", "empty"]
    few = frame_of(T=WAVE[:5], kWh=[1, np.nan, 3, 4, 2.0], a=[7.5, np.nan, 8, 8, 8], note=[1, np.nan, 2, 2, 2])
    drawn = imputer.draw(few)
    assert drawn.table["kWh"][1] == 2.0
    assert drawn.table[["a", "note"]].isna().sum().tolist() == [1, 1]
    assert [text.split(":")[0] for text in drawn.prepared.warnings if "learnt from" in text] == ["a", "note"]


def test_arrays_have_rules_too() -> None:
    counter = gapped(WAVE.cumsum())
    filled = ti.impute(np.stack([counter, np.where(np.arange(N) % 2, np.nan, 4.25)], 1))
    assert (np.diff(filled[:, 0]) >= 0).all()
    assert (filled[:, 1] == 4.25).all()


def test_a_file_of_rules_alone_is_filled_without_a_model_and_a_whole_one_at_once(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    frame_of(kWh=np.round(gapped(WAVE.cumsum()), 2)).to_csv(source, index=False)
    said: list[str] = []
    found = fill_file(source, tmp_path / "out.csv", {}, say=said.append)
    assert found is not None
    assert found.counts()["by rule"] == found.prepared.panel.n_missing
    assert "none: what can be filled follows from rules" in said[-2]
    again = ti.TableImputer.load(tmp_path / "out.model.safetensors")
    assert [kind.kind for kind in again.kinds_] == ["counter"]
    pd.testing.assert_frame_equal(again.impute(pd.read_csv(source)), pd.read_csv(tmp_path / "out.csv"), atol=0.006)
    whole = tmp_path / "whole.csv"
    frame_of(T=np.round(WAVE, 2)).to_csv(whole, index=False)
    assert fill_file(whole, tmp_path / "same.csv", {}) is not None
    assert (tmp_path / "same.csv").read_bytes() == whole.read_bytes()


def test_a_file_is_filled_by_a_model_and_by_rules_together(tmp_path: Path) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    frame = frame_of(
        T=np.round(gapped(WAVE), 2), kWh=np.round(gapped(WAVE.cumsum(), seed=3), 2),
        T_qc=gapped(np.resize([0, 1, 9], N)), a=gapped(np.full(N, 7.5)), Notes=np.full(N, np.nan),
    )[:60]  # fmt: skip
    frame.to_csv(source, index=False)
    settings = {"effort": "trial", "n_samples": 4, "keep_samples": True, "quantiles": (0.05, 0.25, 0.5, 0.95)}
    found = fill_file(source, out, settings)
    assert found is not None
    filled = pd.read_csv(out)
    empty = {"T_qc": frame["T_qc"].isna().sum(), "Notes": 60}
    assert filled.isna().sum().to_dict() == {"time": 0, "T": 0, "kWh": frame["kWh"][-1:].isna().sum(), "a": 0} | empty
    assert (filled["a"] == 7.5).all()
    assert filled["kWh"].dropna().is_monotonic_increasing
    assert "by a rule" in (tmp_path / "out.report.html").read_text()
    samples = found.fillings[0].samples
    assert samples is not None
    assert np.isfinite(samples[:, found.fillings[0].filled]).all()


def test_a_model_that_is_given_predicts_what_it_has_learnt() -> None:
    frame = frame_of(T=gapped(WAVE), b=gapped(WAVE + 1))
    model = ti.TableImputer(effort="trial", n_samples=3, calibrate=False).fit(frame).imputer_
    later = frame.assign(b=np.nan, kWh=gapped(WAVE.cumsum()))
    imputer = ti.TableImputer(model, n_samples=3, calibrate=False).fit(later)
    assert [kind.kind for kind in imputer.kinds_] == ["measurement", "measurement", "counter"]
    drawn = imputer.draw(later)
    assert drawn.table["b"].notna().all()
    assert drawn.table["kWh"].is_monotonic_increasing
    assert any(text.startswith("b: no value in this table; filled all the same") for text in drawn.prepared.warnings)


@pytest.mark.parametrize("spike", [123456789.1, -1e6, 5e4, 3e9])
def test_a_spike_is_kept_named_and_hidden_from_the_model(spike: float) -> None:
    values = gapped(WAVE)
    values[7] = spike
    found = prepared(frame_of(a=values))
    assert np.isnan(found.visible.series[0].values[0, 7])
    assert found.panel.series[0].values[0, 7] == spike
    (line,) = [text for text in found.warnings if "far from all other values" in text]
    assert "at 2024-03-01 07:00" in line
    assert "limits='a=" in line
    (line,) = far_warnings(found.panel, far_cells(found.panel, found.kinds, {}), fitted=True)
    assert f"set missing_codes={{'a': {spike:.10g}}}; if they are true, set limits='a=:'" in line
    assert "drop_invalid" not in line
    allowed = prepared(frame_of(a=values), limits="a=:")
    assert allowed.visible.series[0].values[0, 7] == spike


@pytest.mark.parametrize(
    "values",
    [
        np.append(RNG.lognormal(0, 1.5, N), 400.0), np.append(np.where(np.arange(N) % 9, 0.0, WAVE / 10), 85.0),
        np.append(RNG.uniform(0.01, 0.05, N), 12.4), np.append(RNG.integers(10, 100, N), 24000.0),
        np.append(RNG.lognormal(3.3, 0.5, N), 900.0), np.append(RNG.standard_t(2, N), 60.0),
        np.append(np.where(np.arange(N) < 5, 0.2, 0), 40.0), np.append(np.where(np.arange(N) < 150, 0.0, WAVE), 3000.0),
        np.where(np.arange(N) % 10, WAVE, 1e6),
    ],
)  # fmt: skip
def test_real_peaks_are_seen_by_the_model(values: np.ndarray) -> None:
    found = prepared(frame_of(a=values))
    assert (found.visible.series[0].observed == found.panel.series[0].observed).all()


def test_the_fills_beside_a_spike_stay_near_the_others() -> None:
    values = gapped(WAVE)
    values[7] = 123456789.1
    frame = frame_of(a=values)
    filled = ti.impute(frame, effort="trial", n_samples=10, calibrate=False)["a"].to_numpy()
    assert filled[7] == 123456789.1
    assert ((filled[np.isnan(values)] > 5) & (filled[np.isnan(values)] < 35)).all()


@pytest.mark.parametrize(
    "code", [-32768, 32767, 65535, -9999.9, 9999, 99, 99.9, 999.9, -99.9, 88.8, 9999.9, -99999.9, 7999]
)
@pytest.mark.parametrize("n", [1, 20])
def test_codes_for_missing_are_taken_or_asked_for(code: float, n: int) -> None:
    values = WAVE / 8
    values[3 : 3 + n] = code
    found = prepare(read_table(frame_of(a=values)), limits={}, missing_codes="certain", drop_invalid=False)
    taken = np.isnan(found.panel.series[0].values[0, 3])
    asked = any("a code for missing?" in t and f"missing_codes={{'a': {code:g}}}" in t for t in found.warnings)
    assert taken or asked


@pytest.mark.parametrize(
    "values",
    [np.clip(WAVE * 5, 90, 99), np.resize([97, 98, 98, 99], N), np.arange(N), np.resize([70, 88.8, 77.7, 95], N)],
)
def test_values_near_codes_are_none(values: np.ndarray) -> None:
    found = prepare(read_table(frame_of(a=values)), limits={}, missing_codes="certain", drop_invalid=False)
    assert not [text for text in found.warnings if "code" in text]


def test_kinds_compare_and_say_what_they_are() -> None:
    kind = ColumnKind("kWh", "counter", "never falls", None, 5.0)
    assert kind.by_rule
    assert not kind.predicted
    assert kind.far(np.array([4.0, 6.0, np.nan])).tolist() == [False, True, False]

"""Files of weather services, meters, gauges, buoys and stations of air quality: what is no measurement, and is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tsimpute as ti
from tsimpute.cli.words import in_options
from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Feature
from tsimpute.errors import DataError
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.screening.column_kinds import ColumnKind
from tsimpute.screening.kind_names import named_code, named_counter, named_direction, named_state
from tsimpute.screening.screening import screen
from tsimpute.tables.columns.time_names import part_of
from tsimpute.tables.sources.files import read_file
from tsimpute.tables.text.number_forms import find_decimal
from tsimpute.tables.time.texts import advice_on

pytestmark = pytest.mark.filterwarnings("ignore::tsimpute.errors.ImputationWarning")

N = 240
RNG = np.random.default_rng(8)
WAVE = 250 + 40 * np.sin(np.arange(N) / 24 * 2 * np.pi) + RNG.normal(0, 1, N)
HOURS = pd.date_range("2024-05-01", periods=N, freq="h")


def prepared(path: Path, text: str, **settings: object) -> Prepared:
    path.write_text(text, encoding="utf-8")
    return ti.TableImputer(**settings).prepared(read_file(path))  # type: ignore[arg-type]


def of_frame(**columns: object) -> Prepared:
    return ti.TableImputer().prepared(pd.DataFrame({"time": HOURS, **columns}))


def kind_of(found: Prepared, feature: str) -> ColumnKind:
    return next(kind for kind in found.kinds if kind.feature == feature)


def said(found: Prepared, word: str) -> list[str]:
    return [text for text in found.warnings if word in text]


def gapped(values: np.ndarray, every: int = 11) -> np.ndarray:
    out = np.array(values, float)
    out[5::every] = np.nan
    return out


def findings(values: np.ndarray) -> list[tuple[str, float | None]]:
    series = Series("s", np.arange(float(len(values))), values[None], np.arange(float(len(values))))
    found = screen(Panel((Feature("x", ""),), (series,), Clock("hours", 1.0)), {})
    return [(finding.kind, finding.value) for finding in found]


@pytest.mark.parametrize("name", ["QN_9", "QN_3", "ww", "WW", "Statuswort", "present_weather_code", "wawa"])
def test_codes_of_weather_services_and_meters_are_named_as_codes(name: str) -> None:
    assert named_code(name)


@pytest.mark.parametrize("name", ["気温(℃) 品質情報", "均質番号", "Qualitätsniveau", "estado", "Validity"])
def test_states_are_known_in_other_languages(name: str) -> None:
    assert named_state(name)


@pytest.mark.parametrize("name", ["TT_TU", "snow", "wave", "NO2", "Wasserstand", "water quality", "W"])
def test_measurements_are_not_named_as_codes(name: str) -> None:
    assert not named_code(name)
    assert not named_state(name)


def test_level_of_quality_and_weather_code_stay_empty_in_added_rows(tmp_path: Path) -> None:
    rows = [f"        433;{t:%Y%m%d%H};    {1 + i % 3};{WAVE[i]:6.1f};{i * 7 % 90:3d};eor" for i, t in enumerate(HOURS)]
    text = "STATIONS_ID;MESS_DATUM;QN_9;TT_TU;WW;eor\n" + "\n".join(rows[:60] + rows[63:]) + "\n"
    found = prepared(tmp_path / "produkt_tu_stunde.txt", text)
    assert found.table.n_added == 3
    assert [kind_of(found, name).kind for name in ("QN_9", "TT_TU", "WW")] == ["code", "measurement", "code"]
    assert found.table.panel.series[0].name == "433"


@pytest.mark.parametrize(
    ("code", "known"),
    [(-777.0, True), (990.0, True), (7777.0, True), (1e20, True), (999.5, False), (350.0, False)],
)
def test_a_number_that_stands_far_from_all_others_several_times_may_be_a_code(code: float, known: bool) -> None:
    values = WAVE.copy()
    values[10::40] = code
    assert (("code", code) in findings(values)) == known


def test_one_peak_or_two_are_no_codes() -> None:
    for n in (1, 2):
        values = WAVE.copy()
        values[50 : 50 + n] = 4000.0
        assert "code" not in [kind for kind, _ in findings(values)]


def test_a_state_of_few_values_is_no_code() -> None:
    values = np.where(np.arange(N) % 12 == 0, 1000.0, np.arange(N) % 3)
    assert "code" not in [kind for kind, _ in findings(values)]


@pytest.mark.parametrize(
    "name",
    [
        "WDIR",
        "wind_dir_deg",
        "drct",
        "Wind Direction (°)",
        "风向(°)",
        "VENTO, DIREÇÃO HORARIA (gr)",
        "Windrichtung [°]",
    ],
)
def test_a_direction_is_said_to_be_filled_as_a_plain_number(name: str) -> None:
    found = of_frame(**{name: gapped(np.round(np.abs(RNG.normal(0, 60, N)) * 7 % 360))})
    (text,) = said(found, "a direction, by name and values")
    assert f"limits='{name}=0:360'" in text


def test_tens_of_degrees_have_their_own_circle() -> None:
    found = of_frame(**{"Wind Dir (10s deg)": gapped(np.arange(N) * 7 % 37), "dd": gapped(np.arange(N) * 7 % 37 * 10)})
    (text,) = said(found, "a direction, by name and values")
    assert "limits='Wind Dir (10s deg)=0:36,dd=0:360'" in text


def test_no_word_of_directions_where_none_is_filled_or_the_values_are_none() -> None:
    assert not any(map(named_direction, ("direct_radiation", "adiabatic")))
    found = of_frame(wdir=np.arange(N) % 360, dd=gapped(WAVE), direction_of_travel=gapped(np.arange(N) % 4))
    assert not said(found, "a direction")
    limited = ti.TableImputer(limits="wdir=0:360").prepared(pd.DataFrame({"time": HOURS, "wdir": gapped(WAVE)}))
    assert not said(limited, "a direction")


def test_hours_at_which_nothing_is_ever_measured_are_said() -> None:
    night = np.isin(np.arange(N) % 24, [0, 1, 2, 23])
    found = of_frame(radiation=np.where(night, np.nan, WAVE), temp=gapped(WAVE))
    (text,) = said(found, "no value on any day")
    assert text.startswith("radiation: has no value on any day at these hours: 00, 01, 02, 23.")


def test_gaps_by_chance_are_no_silent_hours() -> None:
    assert not said(of_frame(temp=gapped(WAVE, 5)), "no value on any day")
    hourly = np.where(np.arange(N) % 3 == 0, WAVE, np.nan)  # every third hour: a coarser clock, not a night
    texts = said(of_frame(pressure=hourly), "no value on any day")
    assert ["01, 02, 04" in text for text in texts] == [True]


@pytest.mark.parametrize(("name", "part"), [("E_Tag [Wh]", None), ("Day (kWh)", None), ("Hour (LST)", "hour")])
def test_a_yield_of_the_day_is_no_part_of_a_time(name: str, part: str | None) -> None:
    found = part_of(name)
    assert (found and found[0]) == part


def test_what_is_said_of_a_value_is_not_copied_to_added_rows(tmp_path: Path) -> None:
    rows = [f'"X1",{t:%Y-%m-%d %H:%M},{WAVE[i]:.1f},",,W",mm,A,P,Reading' for i, t in enumerate(HOURS)]
    names = "STATION,DATE,TMAX,TMAX_ATTRIBUTES,TMAX_unit,ReadType,TMAX_cd,network"
    found = prepared(tmp_path / "ghcnd.csv", "\n".join([names, *rows[:40], *rows[42:]]) + "\n")
    (note,) = [note for note in found.table.notes if note.startswith("in added rows")]
    assert note.endswith("copied: TMAX_unit, network; empty: TMAX_ATTRIBUTES, ReadType, TMAX_cd")


def test_units_of_an_erddap_file_may_be_bare_ones(tmp_path: Path) -> None:
    rows = [f"{t:%Y-%m-%dT%H:%M:%SZ},49.03,{WAVE[i]:.3f},1,{WAVE[i] / 9:.3f}" for i, t in enumerate(HOURS)]
    text = "time,latitude,TEMP,TEMP_QC,PSAL\nUTC,degrees_north,degC,1,psu\n" + "\n".join(rows) + "\n"
    found = prepared(tmp_path / "mooring.csv", text)
    assert "line 2 is taken for units" in found.table.notes
    assert [feature.unit for feature in found.table.panel.features] == ["degrees_north", "degC", "1", "psu"]
    assert len(found.table.panel.series[0].times) == N


def test_a_first_row_of_ones_is_a_row(tmp_path: Path) -> None:
    text = "time,a,b\n" + "\n".join(f"{t:%Y-%m-%d %H:%M},1,{i + 1}" for i, t in enumerate(HOURS)) + "\n"
    assert len(prepared(tmp_path / "ones.csv", text).table.panel.series[0].times) == N


def test_several_dates_are_asked_for_with_the_clock_beside(tmp_path: Path) -> None:
    rows = [
        f'"{t:%Y-%m-%d}","{t:%H:%M}","{t:%Y-%m-%d}","{t + pd.Timedelta("6h"):%H:%M}",{i}' for i, t in enumerate(HOURS)
    ]
    text = "Date Local,Time Local,Date GMT,Time GMT,Ozone\n" + "\n".join(rows) + "\n"
    with pytest.raises(DataError, match="Name it \\(time\\), as time=\\['Date Local', 'Time Local'\\]"):
        prepared(tmp_path / "aqs.csv", text)


def test_two_columns_of_a_count_point_are_named_as_groups(tmp_path: Path) -> None:
    rows = [
        f"{point};{way};{t:%Y-%m-%d} 00:00:00;{t.hour};{i % 37}"
        for point in (749, 751)
        for way in "NS"
        for i, t in enumerate(HOURS[:72])
    ]
    text = "count_point_id;direction_of_travel;count_date;hour;cars\n" + "\n".join(rows) + "\n"
    with pytest.raises(DataError, match=r"group=\['count_point_id', 'direction_of_travel'\]"):
        prepared(tmp_path / "traffic.csv", text)


def test_one_row_of_a_wrong_time_is_to_be_corrected_and_not_told_apart(tmp_path: Path) -> None:
    rows = [f"{t:%Y-%m-%d %H:%M},{t.year},{t.month},{t.day},{t.hour},{i}" for i, t in enumerate(HOURS)]
    rows[50] = rows[50].replace(f"{HOURS[50]:%H:%M}", f"{HOURS[51]:%H:%M}").replace(",2,", ",3,", 0)
    text = "Date (LST),Year,Month,Day,Hour,Value\n" + "\n".join(rows) + "\n"
    with pytest.raises(DataError, match="1 row repeats one") as error:
        prepared(tmp_path / "embassy.csv", text)
    assert "time=['Year', 'Month', 'Day', 'Hour']" in str(error.value)
    rows[50] = rows[51].replace(",51", ",50")
    text = "Date (LST),Year,Month,Day,Hour,Value\n" + "\n".join(rows) + "\n"
    with pytest.raises(DataError, match="duplicates='first'"):
        prepared(tmp_path / "embassy.csv", text)


def test_names_with_units_are_spelt_as_options() -> None:
    text = in_options("To have it so, set predict=['E_Total [kWh]', 'E_Tag [Wh]']", ("predict",))
    assert text == "To have it so, set --predict 'E_Total [kWh],E_Tag [Wh]'"


def test_lines_of_python_stay_python() -> None:
    text = "Run:\n  hour = pandas.to_timedelta(hour, unit='h')\nThen set time='time'."
    assert in_options(text, ("unit", "time")).splitlines()[1:] == [
        "  hour = pandas.to_timedelta(hour, unit='h')",
        "Then set --time time.",
    ]


def test_a_value_and_a_code_in_one_field_are_no_decimal_comma(tmp_path: Path) -> None:
    rows = [f'"72546","{t:%Y-%m-%dT%H:%M:%S}","{int(i % 90 - 40):+05d},5"' for i, t in enumerate(HOURS)]
    rows[7] = rows[7][:-9] + '"+9999,9"'
    path = tmp_path / "isd.csv"
    path.write_text('"STATION","DATE","TMP"\n' + "\n".join(rows) + "\n")
    with pytest.raises(DataError, match="a value and a code behind it"):
        read_file(path)


@pytest.mark.parametrize("texts", [["0,5", "10,2", "100,1", "3,4"], ["100,5", "120,2", "150,1", "333,4"]])
def test_decimal_commas_stay_decimal_commas(texts: list[str]) -> None:
    assert find_decimal([texts]) == ","


def test_a_time_of_day_with_am_is_no_zone() -> None:
    assert "zone" not in advice_on("12:00 AM")
    assert "date before it" in advice_on("1:05:00 pm")
    assert "name of the zone" in advice_on("2024-03-01 12:00 CET")


@pytest.mark.parametrize("name", ["Pioggia cumulata (mm)", "Zählerstand 1.8.0 [kWh]", "Lluvia acumulada", "compteur"])
def test_counters_are_known_in_other_languages(name: str) -> None:
    assert named_counter(name)

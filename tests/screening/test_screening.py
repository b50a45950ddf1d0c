"""Screening: what is named and what not, on made series and on real dirty files; nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsimpute.core.limits import Limits, limits_of
from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Feature
from tsimpute.datasets.physionet2012 import PhysioNet2012
from tsimpute.errors import ConfigError
from tsimpute.screening.screening import Finding, screen, screen_entries, values_by_feature
from tsimpute.screening.screening import certain_codes as certain_codes_of
from tsimpute.tables.frames.table import Entries

RNG = np.random.default_rng(0)
START = np.datetime64("2024-03-01T00:00", "us")


def panel_of(*groups: np.ndarray, names: tuple[str, ...] = ("CO", "T", "RH")) -> Panel:
    """One series of hours from each (K, T) table."""
    series = tuple(
        Series(
            f"s{i}", np.arange(float(table.shape[1])), np.asarray(table, float),
            START + np.arange(table.shape[1]) * np.timedelta64(1, "h"),
        )
        for i, table in enumerate(groups)
    )  # fmt: skip
    return Panel(tuple(Feature(name) for name in names[: len(groups[0])]), series, Clock("hours", 1.0))


def names_of(panel: Panel) -> list[str]:
    return [feature.name for feature in panel.features]


def entries_of(panel: Panel) -> Entries:
    """Each cell of a panel as one entry."""
    values = np.concatenate([series.values for series in panel.series], 1)
    lengths = tuple(len(series.times) for series in panel.series)
    return Entries(values.ravel(), np.arange(values.size), len(panel.features), lengths)


def certain_codes(panel: Panel) -> dict[str, tuple[float, ...]]:
    return certain_codes_of(dict(zip(names_of(panel), values_by_feature(entries_of(panel)), strict=True)))


def code_cells(panel: Panel, codes: Mapping[str, Sequence[float]]) -> list[np.ndarray]:
    entries, limits = entries_of(panel), [Limits()] * len(panel.features)
    return entries.holding(screen_entries(entries, [codes.get(n, ()) for n in names_of(panel)], limits).coded)


def invalid_cells(panel: Panel, limits: Mapping[str, Limits]) -> list[np.ndarray]:
    entries, bounds = entries_of(panel), limits_of(names_of(panel), limits)
    return entries.holding(screen_entries(entries, [()] * len(bounds), bounds).outside)


def normal(n: int, mean: float = 20.0, sd: float = 5.0) -> np.ndarray:
    return np.random.default_rng(n).normal(mean, sd, n)


def found(values: np.ndarray, limits: dict[str, Limits] | None = None) -> list[Finding]:
    return list(screen(panel_of(np.atleast_2d(values)), limits or {}))


def kinds(values: np.ndarray, limits: dict[str, Limits] | None = None) -> list[str]:
    return [finding.kind for finding in found(values, limits)]


@pytest.fixture(scope="session")
def uci(data_root: Path) -> Panel:
    """AirQualityUCI.csv as it stands, codes and all."""
    table = pd.read_csv(data_root / "air_quality/AirQualityUCI.csv", sep=";", decimal=",").iloc[:9357, 2:15]
    return panel_of(table.to_numpy(float).T, names=tuple(table.columns))


@pytest.fixture(scope="session")
def beijing(data_root: Path) -> Panel:
    table = pd.read_csv(data_root / "air_quality/us_embassy_beijing_2015.csv", skiprows=3, encoding="latin1")
    return panel_of(table["Value"].to_numpy(float)[None], names=("PM2.5",))


def test_the_code_of_the_air_quality_file_is_certain_in_all_13_features(uci: Panel) -> None:
    assert certain_codes(uci) == {feature.name: (-200.0,) for feature in uci.features}
    (cells,) = code_cells(uci, certain_codes(uci))
    assert cells.sum() == (uci.series[0].values == -200).sum() == 16701
    findings = [finding for finding in screen(uci, {}) if finding.kind == "code"]
    assert [finding.feature for finding in findings] == [feature.name for feature in uci.features]
    text = "CO(GT): -200 stands 1,683 times and far from all other values: a code for missing?"
    assert findings[0].text == f"{text} If so, set missing_codes={{'CO(GT)': -200}}"


def test_the_air_quality_file_gives_no_false_alarm_once_its_code_is_missing(uci: Panel) -> None:
    (cells,) = code_cells(uci, certain_codes(uci))
    clean = panel_of(np.where(cells, np.nan, uci.series[0].values), names=tuple(f.name for f in uci.features))
    assert certain_codes(clean) == {}
    assert screen(clean, {}) == ()
    limits = {"*": Limits(0), "T": Limits(-30, 50), "RH": Limits(0, 100)}
    assert screen(clean, limits) == ()
    assert screen(uci, limits)[0].text == "CO(GT): 1,683 values lie below the limit 0 (-200)"


def test_the_code_of_the_embassy_file_is_certain_and_its_small_negative_values_are_not(beijing: Panel) -> None:
    assert certain_codes(beijing) == {"PM2.5": (-999.0,)}
    texts = [finding.text for finding in screen(beijing, {"PM2.5": Limits(0.0)})]
    assert texts == [
        "PM2.5: 97 values lie below the limit 0 (-999, -15, -2, ..., -1)",
        "PM2.5: -999 stands 89 times and far from all other values: a code for missing? "
        "If so, set missing_codes={'PM2.5': -999}",
    ]
    assert invalid_cells(beijing, {"PM2.5": Limits(0.0)})[0].sum() == (beijing.series[0].values < 0).sum() == 97


def test_impossible_values_of_the_stays_are_listed_and_never_codes(data_root: Path) -> None:
    windows, card = PhysioNet2012().load(data_root), PhysioNet2012.card
    labels = np.arange(48.0)
    series = tuple(
        Series(name, labels, values, labels) for name, values in zip(windows.record_ids, windows.values, strict=True)
    )
    panel = Panel(windows.features, series, Clock("hours", 1.0))
    limits = card.limits
    outside = [finding for finding in screen(panel, limits) if finding.kind == "outside limits"]
    extremes = {(finding.feature, finding.value) for finding in outside}
    assert {("pH", 735), ("Temp", -17.8)} <= extremes
    assert {(name, 0) for name in ("DiasABP", "SysABP", "MAP", "NIDiasABP", "NISysABP", "NIMAP")} <= extremes
    assert certain_codes(panel) == {}
    assert sum(finding.n_cells for finding in outside) == sum(
        int(cells.sum()) for cells in invalid_cells(panel, limits)
    )


@pytest.mark.parametrize("code", [-99.0, -99.9, -200, -999, -999.9, -9999, 9999, 99999])
def test_a_code_is_certain_when_it_stands_twice_or_in_two_features(code: float) -> None:
    twice, once = normal(60), normal(61)[:60]
    once[7] = code
    assert certain_codes(panel_of(once[None])) == {}
    assert [f.value for f in found(once) if f.kind == "code"] == [code]
    twice[[3, 9]] = code
    assert certain_codes(panel_of(twice[None])) == {"CO": (code,)}
    other = normal(62)[:60] + 100
    other[8] = code
    assert certain_codes(panel_of(np.stack([once, other]))) == {"CO": (code,), "T": (code,)}


@pytest.mark.parametrize("code", [-1.0, -9.0, 0.0, 99.0, 999.0])
def test_numbers_that_are_often_true_are_never_certain(code: float) -> None:
    values = np.tile(normal(60), (3, 1))
    values[:, :20] = code
    assert certain_codes(panel_of(values)) == {}
    assert ("code" in kinds(values[0])) == (code in (-1, -9, 99, 999))


@pytest.mark.parametrize(
    ("values", "code"),
    [
        (np.linspace(-250, 100, 60), -200), (np.linspace(-190, 100, 60), -200), (np.linspace(0, 12000, 60), 9999),
        (np.linspace(0, 9000, 60), 9999), (np.linspace(-120, -60, 60), -99),
    ],
)  # fmt: skip
def test_a_code_among_or_near_other_values_is_not_certain(values: np.ndarray, code: float) -> None:
    assert certain_codes(panel_of(np.append(values, [code] * 5)[None])) == {}


def test_a_sensor_that_gave_only_the_code_of_others_has_no_values() -> None:
    values = np.stack([normal(40), np.full(40, -200.0)])
    assert certain_codes(panel_of(values)) == {}
    values[0, :3] = -200
    assert certain_codes(panel_of(values)) == {"CO": (-200.0,), "T": (-200.0,)}


def test_codes_are_marked_in_all_features_or_in_those_named() -> None:
    first, second = np.array([[1.0, -9.0], [-9.0, np.nan]]), np.array([[5.0, 6.0, -1.0], [1.0, -9.0, 2.0]])
    panel = panel_of(first, second)
    everywhere = code_cells(panel, dict.fromkeys(("CO", "T"), (-9.0, -1.0)))
    np.testing.assert_array_equal(everywhere[0], [[0, 1], [1, 0]])
    np.testing.assert_array_equal(everywhere[1], [[0, 0, 1], [0, 1, 0]])
    named = code_cells(panel, {"T": [-9.0]})
    np.testing.assert_array_equal(named[0], [[0, 0], [1, 0]])
    np.testing.assert_array_equal(named[1], [[0, 0, 0], [0, 1, 0]])


@settings(max_examples=50, deadline=None)
@given(
    low=st.none() | st.floats(-50, 0), high=st.none() | st.floats(1, 50),
    values=st.lists(st.floats(-100, 100) | st.just(np.nan), min_size=1, max_size=30),
)  # fmt: skip
def test_invalid_cells_are_those_outside_and_the_findings_count_them(
    low: float | None, high: float | None, values: list[float]
) -> None:
    panel = panel_of(np.array([values]))
    (cells,) = invalid_cells(panel, {"*": Limits(low, high)})
    expected = [(low is not None and v < low) or (high is not None and v > high) for v in values]
    assert cells[0].tolist() == expected
    listed = [f.n_cells for f in screen(panel, {"CO": Limits(low, high)}) if f.kind == "outside limits"]
    assert sum(listed) == sum(expected)


def test_a_stuck_sensor_is_named_with_its_place() -> None:
    first, second = normal(100), normal(101)[:100]
    first[30:30], second[50:62] = [], second[50]
    panel = panel_of(first[None], second[None])
    (finding,) = screen(panel, {})
    assert (finding.kind, finding.n_cells, finding.value) == ("stuck", 12, second[50])
    assert finding.text == f"CO: stays at {second[50]:g} for 12 steps from 2024-03-03 02:00 in s1: a stuck sensor?"
    second[61] += 1
    assert screen(panel_of(first[None], second[None]), {}) == ()


def test_a_run_does_not_go_on_across_series_or_gaps() -> None:
    first, second = normal(100), normal(101)[:100]
    first[-8:], second[:8] = 5.0, 5.0
    assert screen(panel_of(first[None], second[None]), {}) == ()
    first[40:60] = 7.0
    first[50] = np.nan
    assert "stuck" not in kinds(first)


def test_a_sensor_that_froze_for_half_the_time_is_stuck_and_rain_is_not() -> None:
    frozen = normal(100)
    frozen[50:] = frozen[50]
    assert kinds(frozen) == ["stuck"]
    rain = np.where(np.arange(400) % 40 < 5, np.abs(normal(400)), 0.0)
    assert kinds(rain) == []
    snow = np.abs(normal(200))
    snow[100:] = 0.0
    assert kinds(snow) == []


def test_a_sensor_that_froze_at_a_value_that_it_often_has_is_stuck_and_a_thermostat_is_not() -> None:
    frozen = (15 + 3 * np.sin(np.arange(400) / 4)).round(1)
    frozen[5:12], frozen[200:] = 15.0, 15.0
    assert (frozen[:200] == 15.0).sum() > 1
    assert kinds(frozen) == ["stuck"]
    thermostat = normal(400).round(2)
    for first in range(0, 400, 40):
        thermostat[first : first + 20] = 21.0
    assert kinds(thermostat) == []


def test_slow_features_and_sparse_ones_are_not_called_stuck() -> None:
    assert kinds(np.repeat(normal(40), 13)) == []
    sparse = np.full(200, np.nan)
    sparse[:60], sparse[100:112] = normal(60), 3.0
    assert kinds(sparse) == []


def test_dead_sensors_are_named_by_series_or_for_the_whole_table() -> None:
    table, dead = np.stack([normal(30), normal(31)[:30]]), np.stack([normal(32)[:30], np.full(30, np.nan)])
    (finding,) = screen(panel_of(table, dead, table), {})
    assert (finding.kind, finding.feature, finding.n_cells, finding.value) == ("never observed", "T", 30, None)
    assert finding.text == (
        "T: never observed in 1 of 3 series (s1); to leave such series empty, set no_information='empty'"
    )
    (finding,) = screen(panel_of(dead, dead), {})
    assert (finding.text, finding.n_cells) == ("T: never observed", 60)


def test_constant_features_are_named_and_one_value_is_not() -> None:
    (finding,) = found(np.append(np.full(30, 3.0), np.nan))
    assert (finding.kind, finding.n_cells, finding.value) == ("constant", 30, 3)
    assert kinds(np.array([3.0, np.nan])) == []


def test_a_top_that_looks_cut_is_named_unless_it_is_the_limit() -> None:
    values = np.minimum(normal(300), 24.0)
    (finding,) = found(values)
    assert (finding.kind, finding.n_cells, finding.value) == ("cut off", (values == 24).sum(), 24)
    assert kinds(values, {"CO": Limits(high=24.0)}) == []
    assert kinds(np.tile([0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 30)) == []


def test_isolated_extremes_are_named_on_both_sides_and_heavy_tails_are_not() -> None:
    values = normal(2000, 7.4, 0.05)
    values[[5, 50]] = 735.0, 720.0
    (finding,) = found(values)
    assert (finding.kind, finding.n_cells, finding.value) == ("isolated extreme", 2, 735)
    assert finding.text == "CO: 2 values lie far above all others (720, 735)"
    assert [f.value for f in found(-values)] == [-735]
    assert kinds(np.random.default_rng(3).lognormal(3, 1, 2000)) == []


def test_nothing_is_changed_and_limits_of_no_feature_are_refused() -> None:
    values = np.stack([normal(50), np.full(50, -200.0)])
    panel, before = panel_of(values), values.tobytes()
    screen(panel, {"*": Limits(0.0)})
    code_cells(panel, certain_codes(panel))
    invalid_cells(panel, {"*": Limits(0.0)})
    assert panel.series[0].values.tobytes() == before
    for use in (screen, invalid_cells):
        with pytest.raises(ConfigError, match=r"'CO', 'T'.*'PM10'"):
            use(panel, {"PM10": Limits(0.0)})


def test_codes_of_surveys_beside_answers_are_asked_for() -> None:
    answers = np.tile([1.0, 2.0, 3.0, 7.0], 40)
    codes = np.array([-9.0, -8.0, -8.0, -2.0, -1.0, -1.0])
    texts = [of_one.text for of_one in found(np.concatenate([answers, codes]))]
    assert any("missing_codes={'CO': [-9, -8, -2, -1]}" in text for text in texts)
    others = (np.append(answers, [0.0]), answers + 0.5, np.arange(-9.0, 20.0), normal(200, 5.0).round())
    for values in (*(np.concatenate([of_one, codes]) for of_one in others[:2]), *others[2:]):
        assert not any("codes for missing?" in of_one.text for of_one in found(values))


def test_fractions_beside_percentages_are_named() -> None:
    fractions, percents = np.tile([0.21, 0.4, 0.5, 1.0], 10), np.tile([21.0, 40.0, 60.0, 100.0], 10)
    assert "mixed units" in kinds(np.concatenate([fractions, percents]))
    for values in (fractions, percents, np.concatenate([fractions, percents, [5.0]]), np.tile([0.0, 20.0, 50.0], 20)):
        assert "mixed units" not in kinds(values)

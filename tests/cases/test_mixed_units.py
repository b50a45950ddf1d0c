"""Series of one feature in two units: refused with a model whose units are known, else named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import tsimpute as ti
from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Feature
from tsimpute.errors import DataError
from tsimpute.screening.kind_texts import mixed_units

RNG = np.random.default_rng(0)
STAY: dict[str, tuple[float, float]] = {
    "HR": (80, 8), "Temp": (37, 0.4), "Glucose": (130, 20), "MAP": (80, 6), "PaCO2": (40, 4), "Creatinine": (1, 0.2),
}  # fmt: skip


def stays(change: Any, n: int = 12, changed: int = 4) -> pd.DataFrame:
    """Stays of 12 hours, of which the first ones are changed."""
    parts = []
    for i in range(n):
        times = pd.date_range("2024-03-01", periods=12, freq="h")
        stay = pd.DataFrame({name: RNG.normal(*of_one, size=12).round(1) for name, of_one in STAY.items()})
        parts.append((change(stay) if i < changed else stay).assign(stay=f"s{i}", time=times))
    return pd.concat(parts, ignore_index=True)


def prepared(frame: pd.DataFrame, **settings: Any) -> Any:
    return ti.TableImputer("physionet2012", calibrate=False, time="time", group="stay", **settings).prepared(frame)


@pytest.mark.parametrize(
    ("name", "convert", "unit"),
    [
        ("Temp", lambda t: 1.8 * t + 32, "degF"), ("Glucose", lambda g: g / 18.016, "mmol/L"),
        ("MAP", lambda p: p * 0.133322, "kPa"), ("PaCO2", lambda p: p * 0.133322, "kPa"),
        ("Creatinine", lambda c: c * 88.42, "umol/L"),
    ],
)  # fmt: skip
def test_a_group_of_stays_in_another_unit_is_named_and_refused(name: str, convert: Any, unit: str) -> None:
    frame = stays(lambda stay: stay.assign(**{name: convert(stay[name])}))
    with pytest.raises(DataError, match=rf"{name} in .*4 of 12 series \(s0, s1, s2 and 1 more; .* show {unit}\."):
        prepared(frame)
    assert prepared(frame, units={name: "degC" if name == "Temp" else "mg/dL"} if name in ("Temp", "Glucose") else
                    {name: "mmHg" if name != "Creatinine" else "mg/dL"}) is not None  # fmt: skip
    assert prepared(stays(lambda stay: stay)) is not None


def test_one_stay_that_is_unusual_is_accepted() -> None:
    assert prepared(stays(lambda stay: stay.assign(MAP=stay["MAP"] * 0.2), changed=1)) is not None


def panel(name: str, *middles: float, spread: float = 0.5) -> Panel:
    times = np.arange(20.0)
    series = [
        Series(f"n{i}", times, middle + spread * RNG.normal(size=(1, 20)), times) for i, middle in enumerate(middles)
    ]
    return Panel((Feature(name, ""),), tuple(series), Clock("", 1.0))


@pytest.mark.parametrize(
    ("name", "middles", "units"),
    [
        ("Temp", (12, 14, 11, 55, 58), ("degF", "degC")), ("air_temperature", (21, 22, 70.5), ("degF", "degC")),
        ("BodyTemp", (37, 36.8, 98.4, 99), ("degF", "degC")), ("SLP", (101.2, 100.8, 1012, 1009), ("hPa", "kPa")),
        ("Pressure", (760, 755, 1013), ("hPa", "mmHg")), ("MAP", (80, 85, 75, 10.6, 11), ("mmHg", "kPa")),
        ("pCO2", (5.3, 5.1, 40, 42), ("mmHg", "kPa")), ("Glucose", (5.5, 8, 6.5, 110, 140), ("mg/dL", "mmol/L")),
    ],
)  # fmt: skip
def test_series_in_two_units_are_named(name: str, middles: tuple[float, ...], units: tuple[str, str]) -> None:
    (text,) = mixed_units(panel(name, *middles, spread=0.1))
    assert text.startswith(f"{name}: ")
    assert f"look as if they were in {units[0]} and the others in {units[1]}" in text


@pytest.mark.parametrize(
    ("name", "middles"),
    [
        ("Temp", (12, 14, 11, 13)), ("Temp", (-5, 0, 12, 25, 31)), ("Temp", (12,)), ("Temp", (5, 20, 6, 21)),
        ("PM2.5", (12, 14, 11, 55, 58)), ("water_level", (101, 100, 1012)), ("Pressure", (1013, 900, 850)),
        ("Glucose", (90, 110, 250, 300)), ("Glucose", (4, 5, 9, 12)), ("MAP", (60, 80, 100, 120)),
        ("Temp", (20, 22, 40)),
    ],
)  # fmt: skip
def test_series_in_one_unit_are_not_named(name: str, middles: tuple[float, ...]) -> None:
    assert list(mixed_units(panel(name, *middles, spread=0.1))) == []


def test_series_with_the_same_median_are_in_one_unit() -> None:
    assert not list(mixed_units(panel("Temp", 20.0, 20.0, 20.0, spread=0.0)))


def test_it_is_a_line_to_look_at_and_no_refusal() -> None:
    frame = pd.concat([
        pd.DataFrame({
            "time": pd.date_range("2024-03-01", periods=40, freq="h"), "station": name,
            "temp": middle + np.sin(np.arange(40) / 4),
        })
        for name, middle in (("a", 12.0), ("b", 13.0), ("c", 54.0))
    ])  # fmt: skip
    frame.iloc[5, 2] = np.nan
    assert "temp: 1 of 3 series (c) look as if they were in degF" in ti.TableImputer().prepared(frame).text

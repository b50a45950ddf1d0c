"""A setting that another one, or the kind of table, makes pointless is refused or named, never ignored silently."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tsimpute as ti
from tsimpute.errors import ConfigError, ImputationWarning, TsimputeError
from tsimpute.filling.files.fill_file import fill_file, prepare_file
from tsimpute.tables.sources.files import TextForm


def frame() -> pd.DataFrame:
    wave = np.sin(np.arange(60) / 4)
    table = pd.DataFrame({"time": pd.date_range("2024-01-01", periods=60, freq="h"), "a": 10 + wave, "b": 20 + wave})
    return table.mask(np.random.default_rng(0).random(table.shape) < [0, 0.1, 0.1])


def long() -> pd.DataFrame:
    return frame().melt("time", var_name="lab", value_name="result").assign(other=1.5, unit="m")


def prepared(table: Any, **settings: Any) -> None:
    ti.TableImputer(**settings).prepared(table)


TABLES = {
    "no column of times": (frame().drop(columns="time"), {}),
    "none is to be used": (frame(), {"time": "none"}),
    "array": (frame()[["a", "b"]].to_numpy(), {}),
    "xarray": (xr.Dataset({"a": ("time", frame()["a"].to_numpy())}), {"time": "none"}),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timezone", "Europe/Rome"), ("dayfirst", True), ("dayfirst", False), ("duplicates", "first"),
        ("duplicates", "mean"), ("missing_times", "insert"), ("irregular", True),
    ],
)  # fmt: skip
def test_how_times_are_read_is_refused_of_a_table_without_times(kind: str, name: str, value: Any) -> None:
    table, settings = TABLES[kind]
    prepared(table, **settings)
    with pytest.raises(ConfigError, match=f"^{name}: expected "):
        prepared(table, **settings, **{name: value})


@pytest.mark.parametrize("kind", TABLES)
def test_what_holds_of_rows_as_steps_anyway_is_accepted(kind: str) -> None:
    table, settings = TABLES[kind]
    prepared(table, **settings, irregular=False, missing_times="keep", duplicates="refuse")


@pytest.mark.parametrize(
    ("table", "settings", "name"),
    [
        (long(), {"feature": "lab", "value": "result", "features": ["other"]}, "features"),
        (frame().assign(u="m"), {"unit": "u"}, "unit"),
        (frame().assign(u="m"), {"unit": "u", "features": ["a"]}, "unit"),
        (frame(), {"irregular": True, "missing_times": "insert"}, "missing_times"),
        (frame(), {"recalibrate": True}, "recalibrate"),
        (frame(), {"model": "physionet2012", "recalibrate": True, "calibrate": False}, "recalibrate"),
        (frame(), {"rename": {"a": "HR"}}, "rename"),
        (frame(), {"drop_invalid": True}, "drop_invalid"),
        (frame(), {"features": ["a"], "predict": ["b"]}, "predict"),
        (frame(), {"text": ["b"], "predict": ["b"]}, "predict"),
        (frame(), {"text": ["b"], "features": ["b"]}, "text"),
        (frame(), {"text": ["b"], "limits": {"b": (0, 1)}}, "limits"),
        (frame(), {"text": ["b"], "missing_codes": {"b": 9}}, "missing_codes"),
        (frame(), {"text": ["b"], "units": {"b": "m"}}, "units"),
        (frame().assign(time=np.arange(60.0)), {"dayfirst": True}, "dayfirst"),
        (frame().assign(time=np.arange(60.0)), {"timezone": "Europe/Rome"}, "timezone"),
        (frame().assign(time=np.arange(60.0)), {"calendar": True}, "calendar"),
        (TABLES["array"][0], {"text": "a"}, "text"),
        (TABLES["xarray"][0], {"text": "a"}, "text"),
    ],
)
def test_of_two_settings_none_is_ignored_silently(table: Any, settings: dict[str, Any], name: str) -> None:
    with pytest.raises(TsimputeError, match=f"^{name}: (expected |column 'b' has another role already)"):
        prepared(table, **settings)


def test_an_order_of_day_and_month_that_no_date_needs_is_noted() -> None:
    note = "dayfirst=True has no effect: the dates can be read in one way only"
    assert note in ti.TableImputer(dayfirst=True).prepared(frame()).text
    texts = frame().assign(time=frame()["time"].dt.strftime("%d/%m/%Y %H:%M"))
    assert note not in ti.TableImputer(dayfirst=True).prepared(texts).text


@pytest.mark.parametrize("ending", [".parquet", ".nc"])
@pytest.mark.parametrize(
    "form",
    [TextForm(delimiter=";"), TextForm(decimal=","), TextForm(encoding="cp1252"), TextForm(missing_marks=["NR"])],
)
def test_how_a_text_is_written_is_refused_of_other_files(tmp_path: Path, ending: str, form: TextForm) -> None:
    path = tmp_path / f"in{ending}"
    try:
        frame().to_parquet(path) if ending == ".parquet" else frame().set_index("time").to_xarray().to_netcdf(path)
    except ImportError:
        pytest.skip(f"nothing here writes {ending}")
    prepare_file(path, {})
    with pytest.raises(ConfigError, match=r"expected a text file with it, came .*Leave it out"):
        prepare_file(path, {}, form)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "in.model.safetensors"
    with warnings.catch_warnings(action="ignore"):
        ti.TableImputer(effort="trial", n_samples=2).fit(frame()).save(path)
    return path


def warned(**settings: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ImputationWarning)
        ti.impute(frame(), n_samples=2, **settings)
    return [str(one.message) for one in caught if "effort" in str(one.message)]


def test_an_effort_beside_a_model_is_named(model: Path, tmp_path: Path) -> None:
    end = "since a trained model is given. To learn from the table itself, give no model"
    assert warned(model=model, calibrate=False) == []
    nothing = f"effort='trial' trains nothing and has no effect, {end}"
    assert warned(model=model, calibrate=False, effort="trial") == [f"{nothing}."]
    assert warned(model=model, effort="trial") == [
        f"effort='trial' trains nothing; it only says how much is measured to calibrate, {end}."
    ]
    source, said = tmp_path / "in.csv", []
    frame().to_csv(source, index=False)
    settings = {"model": model, "effort": "trial", "n_samples": 2, "calibrate": False}
    fill_file(source, tmp_path / "out.csv", settings, say=said.append)
    assert f"  look: {nothing}\n" in f"{said[0]}\n"

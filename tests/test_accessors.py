"""Tables with methods of their own: the same as the functions, for all kinds of tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tsimpute.accessors
from tsimpute.filling.imputer.table_imputer import TableImputer

SETTINGS: dict[str, Any] = {"n_samples": 4, "calibrate": False}


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    values = np.sin(np.arange(60)[:, None] / 3) + 0.1 * rng.normal(size=(60, 2))
    index = pd.date_range("2024-01-01", periods=60, freq="h", name="time")
    return pd.DataFrame(values, index, ["a", "b"]).mask(rng.random((60, 2)) < 0.2)


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    return SETTINGS | {"model": TableImputer(effort="trial", **SETTINGS).fit(frame()).imputer_}


def tables() -> dict[str, Any]:
    return {
        "frame": frame(),
        "dataset": xr.Dataset.from_dataframe(frame()),
        "array": xr.DataArray(frame(), dims=("time", "feature"), name="x"),
    }


@pytest.mark.parametrize("kind", ["frame", "dataset", "array"])
def test_the_methods_give_what_the_functions_give(kind: str, settings: dict[str, Any]) -> None:
    table = tables()[kind]
    same = pd.testing.assert_frame_equal if kind == "frame" else xr.testing.assert_identical
    expected = TableImputer(**settings).fit(table).draw(table)
    same(table.tsimpute.impute(**settings), tsimpute.impute(table, **settings))
    drawn = table.tsimpute.draw(**settings)
    same(drawn.table, expected.table)
    same(drawn.provenance, expected.provenance)
    pd.testing.assert_frame_equal(drawn.cells, expected.cells)
    same(table, tables()[kind])


@pytest.mark.parametrize("kind", ["frame", "dataset", "array"])
def test_it_says_what_a_table_is_understood_to_be_without_learning(kind: str) -> None:
    table = tables()[kind]
    lines = table.tsimpute.describe(calendar=True, effort="trial").splitlines()
    assert "  time: time: every hour, 2024-01-01 00:00 to 2024-01-03 11:00" in lines
    assert any(line.startswith("  features: 2: ") for line in lines)
    assert "  calendar: hour of the day and day of the week, by the wall clock, given to the model" in lines
    outside = table.tsimpute.describe(limits={"*": (0, None)})
    assert "values outside the limits are kept unchanged and hidden from the model" in outside.splitlines()[-1]

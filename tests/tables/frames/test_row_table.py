"""Numbers of rows and the cells they belong to: means, flags and screening agree with pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tsimpute.core.limits import Limits
from tsimpute.screening.screening import screen_entries, values_by_feature
from tsimpute.tables.frames.frames import TimeOptions, read_frame
from tsimpute.tables.frames.table import Edits, Entries


def random_entries(seed: int, n: int = 200) -> tuple[Entries, pd.DataFrame]:
    """Entries of 3 features and two series of 4 and 6 steps, several for some cells; and the same as a frame."""
    rng = np.random.default_rng(seed)
    values = np.where(rng.random(n) < 0.2, np.nan, rng.integers(-5, 20, n).astype(float))
    entries = Entries(values, rng.integers(0, 30, n), 3, (4, 6))
    return entries, pd.DataFrame({"cell": entries.cell, "feature": entries.cell // 10, "value": values})


@pytest.mark.parametrize("seed", range(3))
def test_means_and_flags_of_cells_are_those_of_groups(seed: int) -> None:
    entries, frame = random_entries(seed)
    without = np.random.default_rng(seed).random(len(frame)) < 0.3
    for mask in (None, without):
        used = frame if mask is None else frame[~mask]
        expected = used.groupby("cell")["value"].mean().reindex(range(30)).to_numpy().reshape(3, 10)
        first, second = entries.means(mask)
        np.testing.assert_allclose(np.concatenate([first, second], 1), expected)
        np.testing.assert_array_equal(entries.flat([first, second]), expected.ravel()[entries.cell])
    holding = np.concatenate(entries.holding(without), 1).ravel()
    assert np.flatnonzero(holding).tolist() == sorted(set(entries.cell[without]))
    for k, values in enumerate(values_by_feature(entries)):
        np.testing.assert_array_equal(values, frame.loc[frame["feature"] == k, "value"])


@pytest.mark.parametrize("seed", range(3))
def test_every_cell_keeps_its_valid_values_or_else_its_first_value_outside(seed: int) -> None:
    entries, frame = random_entries(seed)
    limits = [Limits(0, 10), Limits(), Limits(high=12)]
    screened = screen_entries(entries, [(3.0,), (), (-1.0, 3.0)], limits)
    bounds = np.array([limit.bounds for limit in limits])[frame["feature"]]
    coded = (frame["feature"] != 1) & (frame["value"].eq(3) | (frame["feature"].eq(2) & frame["value"].eq(-1)))
    outside = ((frame["value"] < bounds[:, 0]) | (frame["value"] > bounds[:, 1])) & ~coded
    np.testing.assert_array_equal(screened.coded, coded)
    np.testing.assert_array_equal(screened.outside, outside)
    frame["valid"] = frame["value"].notna() & ~coded & ~outside
    for _, rows in frame.groupby("cell"):
        used = rows.index[~screened.unused[rows.index] & rows["value"].notna()]
        valid = rows.index[rows["valid"]]
        expected = valid if len(valid) else rows.index[outside[rows.index]][:1]
        assert used.tolist() == expected.tolist()


def test_edits_of_no_cell_change_nothing_and_texts_replace_all_numbers() -> None:
    frame = pd.DataFrame({"time": pd.date_range("2024", periods=3, freq="h"), "x": [1, 2, 3], "note": list("abc")})
    table = read_frame(frame, time_options=TimeOptions())
    nothing = [np.zeros((1, 3), bool)]
    pd.testing.assert_frame_equal(table.apply(Edits(nothing, [np.full((1, 3), 9.0)])), frame)
    words = table.apply(Edits.of_provenance(nothing, [np.array([[0, 3, 1]], np.uint8)]))
    assert words["x"].tolist() == ["observed", "left empty", "imputed"]
    assert list(words.columns) == ["x"]

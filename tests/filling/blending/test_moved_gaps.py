"""Methods compared under a table's own gaps, moved: at which cells, and that no method sees the hidden values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tsimpute.core.gaps import interpolated
from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Feature
from tsimpute.filling.blending import first_answer as module
from tsimpute.filling.blending.blend import Comparison
from tsimpute.filling.blending.first_answer import compared_under_moved_gaps, moved_gaps
from tsimpute.filling.blending.mixture import FittedMethods
from tsimpute.filling.learning.learning import gaussian
from tsimpute.filling.methods.components import Lines
from tsimpute.system.terminal import silent


def panel_of(n_steps: int = 300, missing: float = 0.2, lengths: tuple[int, ...] = (2, 8), seed: int = 0) -> Panel:
    rng = np.random.default_rng(seed)
    shared = np.cumsum(rng.normal(size=n_steps)) / 5
    values = shared + 0.2 * np.cumsum(rng.normal(size=(3, n_steps)), 1)
    for k in range(3):
        while np.isnan(values[k]).mean() < missing:
            start, length = int(rng.integers(n_steps)), int(rng.choice(lengths))
            values[k, start : start + length] = np.nan
    labels = pd.date_range("2024-01-01", periods=n_steps, freq="h").to_numpy()
    series = Series("table", np.arange(float(n_steps)), values, labels)
    return Panel((Feature("a"), Feature("b"), Feature("c")), (series,), Clock("hours", 1.0))


@pytest.fixture(scope="module")
def panel() -> Panel:
    return panel_of()


@pytest.fixture(scope="module")
def learnt(panel: Panel) -> FittedMethods:
    return FittedMethods(gaussian(panel, {}, 0, silent), (Lines(),))


def gaps_of(panel: Panel) -> list[np.ndarray]:
    return [~series.observed for series in panel.series]


def test_moved_gaps_hide_known_cells_only_as_many_as_gaps_have_and_leave_half(panel: Panel) -> None:
    known, gaps = panel.series[0].observed, gaps_of(panel)
    for number in range(8):
        (hidden,) = moved_gaps(panel, gaps, (number, 8), 0)
        assert hidden.any()
        assert not (hidden & ~known).any()
        assert hidden.sum() <= gaps[0].sum()
        assert (2 * hidden.sum(1) <= known.sum(1)).all()
    assert (moved_gaps(panel, gaps, (3, 8), 0)[0] == moved_gaps(panel, gaps, (3, 8), 0)[0]).all()


def test_a_long_gap_is_moved_whole_to_other_times_and_features() -> None:
    panel = panel_of(missing=0.0)
    gaps = [np.zeros((3, 300), bool)]
    gaps[0][1, 100:180] = True
    found = [moved_gaps(panel, gaps, (number, 8), 0)[0] for number in range(8)]
    assert {hidden.sum() for hidden in found} == {80}
    assert {int(np.flatnonzero(hidden.any(1))[0]) for hidden in found} == {0, 1, 2}
    assert len({hidden.any(0).tobytes() for hidden in found}) == 8


def test_what_is_said_there_is_what_the_methods_say_without_these_values(panel: Panel, learnt: FittedMethods) -> None:
    found = compared_under_moved_gaps(panel, learnt, gaps_of(panel), 0)
    assert found is not None
    first = moved_gaps(panel, gaps_of(panel), (0, 8), 0)[0]
    n, values = int(first.sum()), panel.series[0].values
    blind = learnt.base.scaler_.transform(np.where(first, np.nan, values))
    lines = interpolated(blind[None], panel.series[0].times[None], np.zeros(3))[0]
    np.testing.assert_allclose(found.values[0][:n], lines[first])
    np.testing.assert_allclose(found.truth[:n], learnt.base.scaler_.transform(values)[first])
    changed = np.where(first, 1e3, values)
    other = replace(panel, series=(replace(panel.series[0], values=changed),))
    poisoned = compared_under_moved_gaps(other, learnt, gaps_of(panel), 0)
    assert poisoned is not None
    np.testing.assert_array_equal(poisoned.draws[:, :n], found.draws[:, :n])


def test_quantiles_hold_as_they_should_and_are_in_order(panel: Panel, learnt: FittedMethods) -> None:
    found = compared_under_moved_gaps(panel, learnt, gaps_of(panel), 0)
    assert found is not None
    assert (np.diff(found.draws, axis=0) >= 0).all()
    inside = (found.draws[1] <= found.truth) & (found.truth <= found.draws[-2])
    assert 0.6 < inside.mean() < 0.95  # 9 of 12 parts


def test_runs_and_stretches_of_several_moves_are_apart(panel: Panel, learnt: FittedMethods) -> None:
    found = compared_under_moved_gaps(panel, learnt, gaps_of(panel), 0)
    assert found is not None
    halves = found.at(np.arange(len(found.truth)) < 50), found.at(np.arange(len(found.truth)) >= 50)
    joined = Comparison.joined(halves)
    np.testing.assert_array_equal(joined.truth, found.truth)
    for name in ("run", "stretch"):
        assert len(np.unique(getattr(joined, name))) == sum(len(np.unique(getattr(half, name))) for half in halves)


def test_spreads_are_chosen_with_given_weights(panel: Panel, learnt: FittedMethods) -> None:
    found = compared_under_moved_gaps(panel, learnt, gaps_of(panel), 0)
    assert found is not None
    blend = found.blend()
    again = found.blend(blend.weights)
    np.testing.assert_array_equal(again.weights, blend.weights)
    assert np.abs(np.log(again.spread / blend.spread)).max() < 0.3


def test_large_tables_and_tables_with_few_gaps_have_none(
    panel: Panel, learnt: FittedMethods, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = [np.zeros_like(cells) for cells in gaps_of(panel)]
    assert compared_under_moved_gaps(panel, learnt, nothing, 0) is None
    monkeypatch.setattr(module, "_MOST_CELLS", panel.n_cells - 1)
    assert compared_under_moved_gaps(panel, learnt, gaps_of(panel), 0) is None

"""What is measured on hidden cells: the middle of windows, coverage as drawn and cross-fitted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.filling.measuring import hidden_draws
from tsimpute.filling.measuring.calibration import Calibration, calibrated_on, coverage_of, draws_at_further_cells
from tsimpute.filling.measuring.hidden_draws import HiddenDraws, draws_at, hidden_cells
from tsimpute.filling.panels.windows import without
from tsimpute.scaling.standardizer import Standardizer


class TooSure:
    """Draws around 0 with half the spread that the truth has; remembers what it was shown."""

    n_steps_ = 24
    name = "too sure"
    whole_series = False

    def __init__(self, like: Windows) -> None:
        self.scaler_, self.features_ = Standardizer.fit(like), like.features
        self.seen: list[Windows] = []

    def impute_records(
        self, windows: Windows, n: int, seed: int = 0, fill: np.ndarray | None = None
    ) -> Iterator[Samples]:
        self.seen.append(windows)
        rng = np.random.default_rng(seed)
        for i in range(len(windows)):
            one = windows.select([i])
            draws = 0.5 * rng.normal(size=(n, *one.values.shape))
            draws[:, one.visible] = one.values[one.visible]
            yield Samples(draws, one.visible, one.features, one.record_ids)


def windows() -> Windows:
    values = np.random.default_rng(0).normal(size=(200, 2, 24))
    times, names = np.tile(np.arange(24.0), (200, 1)), tuple(f"r{i}" for i in range(200))
    return Windows(values, times, (Feature("a"), Feature("b")), names)


def too_narrow(n_cells: int) -> HiddenDraws:
    """Draws with half of the spread of the truth, in many blocks."""
    rng = np.random.default_rng(0)
    feature = rng.integers(0, 2, n_cells)
    return HiddenDraws(
        0.5 * rng.normal(size=(200, n_cells)), rng.normal(size=n_cells), feature, np.arange(n_cells) // 10
    )


def test_intervals_that_are_too_narrow_as_drawn_hold_with_calibration() -> None:
    coverage = coverage_of(cast(Any, TooSure(windows())), too_narrow(3_000))
    for percent, narrow in ((50, 0.264), (90, 0.589), (95, 0.673)):  # P(|N(0, 1)| < z / 2)
        assert coverage[f"coverage {percent} %, as drawn"] == pytest.approx(narrow, abs=0.03)
        assert coverage[f"coverage {percent} %, calibrated"] == pytest.approx(percent / 100, abs=0.02)


def test_where_a_half_has_too_few_cells_no_coverage_is_told_as_calibrated() -> None:
    coverage = coverage_of(cast(Any, TooSure(windows())), too_narrow(150))
    assert "coverage 90 %, as drawn" in coverage
    assert not any("calibrated" in name for name in coverage)


def panel(n_steps: int = 500) -> Panel:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(3, n_steps))
    values[:, rng.random(n_steps) < 0.3] = np.nan  # all features together
    times = np.arange(float(n_steps))
    return Panel(tuple(Feature(f"f{k}") for k in range(3)), (Series("s", times, values, times),), Clock("hours", 1.0))


def test_cells_are_hidden_together_where_the_tables_own_gaps_are_together() -> None:
    whole = panel()
    (hidden,) = hidden_cells(whole, 0.1, seed=0)
    observed = whole.series[0].observed
    at = hidden.any(0)
    assert (hidden[:, at] == observed[:, at]).all()
    assert 0.08 < hidden.sum() / observed.sum() < 0.16


def test_each_hidden_cell_is_drawn_once_with_its_own_truth_and_the_model_sees_none_of_them() -> None:
    whole = panel()
    hidden = hidden_cells(whole, 0.1, seed=0)
    imputer: Any = TooSure(windows())
    imputer.features_ = whole.features
    found = draws_at(imputer, whole, hidden, n_samples=5, seed=0, windows=10_000)
    assert len(found.truth) == hidden[0].sum()
    assert sorted(found.truth) == sorted(whole.series[0].values[hidden[0]])
    blind = without(whole, hidden).series[0].values
    for values, name in zip(imputer.seen[0].values, imputer.seen[0].record_ids, strict=True):
        start = int(name.rpartition("@")[2])
        np.testing.assert_array_equal(values, blind[:, start : start + 24])
    few = draws_at(imputer, whole, hidden, n_samples=5, seed=0, windows=3)
    assert len(np.unique(few.block)) == 3


def hidden_of(n: int, spread: float, seed: int) -> HiddenDraws:
    """Draws of spread 1 at cells of one feature, each a gap and a block of its own, with truth of another spread."""
    rng = np.random.default_rng(seed)
    nothing = np.zeros(n, int)
    own = rng.normal(size=(99, n)), spread * rng.normal(size=n), nothing, np.arange(n)
    return HiddenDraws(*own, place=np.stack([nothing, np.arange(n)]), run=np.arange(n))


def test_cells_that_were_learnt_from_count_beside_hidden_ones_as_if_errors_there_were_a_tenth_larger() -> None:
    model: Any = TooSure(windows())
    alike = [hidden_of(3000, 1.5 / 1.1, seed) for seed in (1, 2)]
    levels = (0.05, 0.95)
    found = calibrated_on(model, hidden_of(3000, 1.5, 0), levels, alike)
    assert found.n_cells == 9000
    assert list(found.factors.values()) == pytest.approx([1.5, 1.5], rel=0.06)
    of_blind = calibrated_on(model, hidden_of(300, 1.5, 3), levels)
    both = calibrated_on(model, hidden_of(300, 1.5, 3), levels, [hidden_of(3000, 0.75, 4)])
    assert both.factors[0.95] < 0.75 * of_blind.factors[0.95], "most cells say that it is less"
    assert calibrated_on(model, hidden_of(90, 1.5, 5), levels, alike) == Calibration(), "too few hidden ones"


def test_further_cells_are_none_of_those_that_were_hidden_and_are_not_shown() -> None:
    whole = panel()
    hidden = hidden_cells(whole, 0.1, seed=0)
    model: Any = TooSure(windows())
    model.features_ = whole.features
    parts = draws_at_further_cells(model, whole, hidden, [~series.observed for series in whole.series], 9, 0)
    assert len(parts) == 2
    assert len({part.truth.tobytes() for part in parts}) == 2
    for part, seen in zip(parts, model.seen, strict=True):
        at = part.feature, part.place[1]
        assert not hidden[0][at].any()
        assert (part.truth == whole.series[0].values[at]).all()
        assert 0.5 * hidden[0].sum() < len(part.truth) < 1.5 * hidden[0].sum()
        for values, name in zip(seen.values, seen.record_ids, strict=True):
            start = int(name.rpartition("@")[2])
            inside = (at[1] >= start) & (at[1] < start + 24)
            assert np.isnan(values[at[0][inside], at[1][inside] - start]).all()


class Telling(TooSure):
    """Draw ``s`` of feature k at step t of series n, named by its number, is 1e8 * n + 1e6 * s + 1e4 * k + t."""

    def impute_records(
        self, windows: Windows, n: int, seed: int = 0, fill: np.ndarray | None = None
    ) -> Iterator[Samples]:
        assert fill is not None
        for name, times, shown, asked in zip(windows.record_ids, windows.times, windows.visible, fill, strict=True):
            group, start = name.split("@")
            place = 1e4 * np.arange(shown.shape[0])[:, None] + int(start) + times + 1e8 * int(group)
            draws = np.where(asked, 1e6 * np.arange(n)[:, None, None] + place, np.nan)
            yield Samples(draws[:, None], shown[None], windows.features, (name,))


def straight(name: str, n_steps: int) -> Series:
    """Feature k is k + 1 times the time; a tenth is missing."""
    rng = np.random.default_rng(len(name) + n_steps)
    times = np.arange(float(n_steps))
    values = np.arange(1.0, 4.0)[:, None] * times
    values[:, rng.random(n_steps) < 0.1] = np.nan
    values[:, [0, -1]] = np.nan
    return Series(name, times, values, times)


@pytest.mark.parametrize("most", [4, 10_000])
def test_draws_and_baselines_are_those_of_their_own_cells(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    built, windows_at = [], hidden_draws.windows_at
    monkeypatch.setattr(hidden_draws, "windows_at", lambda p, at, n: (built.append(len(at)), windows_at(p, at, n))[1])
    series = straight("0", 150), straight("1", 17), straight("2", 61)
    whole = Panel(tuple(Feature(f"f{k}") for k in range(3)), series, Clock("hours", 1.0))
    hidden = [one.observed & (np.random.default_rng(3).random(one.values.shape) < 0.2) for one in series]
    told: list[tuple[int, int]] = []
    found = draws_at(
        cast(Any, Telling(windows())), whole, hidden, n_samples=3, seed=0, windows=most,
        progress=lambda *share: told.append(share),
    )  # fmt: skip
    assert built == [told[-1][1]]
    assert told == [(n, built[0]) for n in range(1, built[0] + 1)]
    assert len(np.unique(found.block)) == built[0]
    if most == 4:
        assert built[0] == 4
    else:
        assert len(found.truth) == sum(h.sum() for h in hidden)
        assert built[0] > 15
    step = found.truth / (found.feature + 1)
    np.testing.assert_array_equal(found.draws[0] % 1e4, step)
    np.testing.assert_array_equal(found.draws[0] % 1e8 // 1e4, found.feature)
    np.testing.assert_array_equal(found.draws, found.draws[0] + 1e6 * np.arange(3)[:, None])
    of_series = (found.draws[0] // 1e8).astype(int)
    assert (np.diff(of_series) >= 0).all()
    blind = without(whole, hidden).series
    where = zip(of_series, found.feature, step.astype(int), *list(found.baselines.values())[::-1], strict=True)
    for n, k, t, linear, locf in where:
        known = np.flatnonzero(blind[n].observed[k])
        earlier = known[known < t]
        assert locf == (k + 1) * (earlier[-1] if len(earlier) else known[0])
        assert linear == pytest.approx((k + 1) * np.clip(t, known[0], known[-1]))


@pytest.mark.parametrize(("n_steps", "length", "stride"), [(5, 8, 4), (8, 8, 4), (61, 8, 4), (62, 9, 4), (50, 7, 7)])
def test_each_step_is_looked_at_once_in_a_window_whose_middle_is_nearest(
    n_steps: int, length: int, stride: int
) -> None:
    middles = hidden_draws._middles(n_steps, length, stride)
    assert [t for part in middles.values() for t in range(n_steps)[part]] == list(range(n_steps))
    far = {start: abs(np.arange(n_steps) - start - (length - 1) / 2) for start in middles}
    for start, part in middles.items():
        assert (far[start][part] <= np.min([off[part] for off in far.values()], 0)).all()


def test_nothing_hidden_is_nothing_drawn() -> None:
    whole = panel(60)
    found = draws_at(cast(Any, Telling(windows())), whole, [np.zeros((3, 60), bool)], n_samples=3, seed=0)
    assert (found.draws.shape, len(found.truth), len(found.baselines)) == ((3, 0), 0, 0)


def test_of_many_short_series_cells_are_hidden_evenly_over_time() -> None:
    """As of stays in intensive care: each is one window, and most of its cells are missing."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(150, 4, 48))
    values[rng.random(values.shape) < 0.7] = np.nan
    steps = np.arange(48.0)
    series = tuple(Series(f"s{n}", steps, of_one, steps) for n, of_one in enumerate(values))
    panel = Panel(tuple(Feature(name) for name in "abcd"), series, Clock("hours", 1.0))
    step = np.concatenate([np.nonzero(cells)[1] for cells in hidden_cells(panel, 0.1, 0)])
    shares = np.histogram(step, bins=[0, 12, 24, 36, 48])[0] / len(step)
    np.testing.assert_allclose(shares, 0.25, atol=0.05)


def test_of_each_feature_the_same_share_is_hidden_however_few_values_a_series_shows() -> None:
    rng = np.random.default_rng(0)
    often, rarely = rng.random((300, 48)) < 0.9, rng.random((300, 48)) < 0.08
    values = np.where(np.stack([often, rarely], 1), 1.0, np.nan)
    hours = np.arange(48.0)
    stays = Panel(
        (Feature("HR"), Feature("K")), tuple(Series(f"s{i}", hours, v, hours) for i, v in enumerate(values)),
        Clock("hours", 1.0),
    )  # fmt: skip
    cells = np.array([of_series.sum(1) for of_series in hidden_cells(stays, 0.05, seed=0)])
    counts = np.array([s.observed.sum(1) for s in stays.series])
    # Each series used to give one value of K, so that 26 % of K were hidden and 5 % of HR.
    np.testing.assert_allclose(cells.sum(0) / counts.sum(0), [0.05, max(0.05, 200 / counts[:, 1].sum())], rtol=0.1)
    assert (cells <= counts // 2).all()
    assert 60 < cells[:150, 1].sum() < 140  # from all over the table
    few = Panel(stays.features, stays.series[:20], stays.clock)
    of_few = np.array([of_series.sum(1) for of_series in hidden_cells(few, 0.05, seed=0)])
    assert (of_few[:, 1] == (counts[:20, 1] >= 2)).all()  # few cells in all: each series gives one


def test_measuring_asks_for_the_cells_that_are_filled_and_no_others() -> None:
    rng = np.random.default_rng(0)
    hours = np.arange(24.0)
    values = np.where(rng.random((2, 24)) < 0.5, rng.normal(size=(2, 24)), np.nan)
    values[1] = np.nan
    whole = Panel((Feature("a"), Feature("b")), (Series("s", hours, values, hours),), Clock("hours", 1.0))
    hidden = [np.zeros((2, 24), bool)]
    hidden[0][0, np.flatnonzero(~np.isnan(values[0]))[:3]] = True
    gaps = [np.isnan(values) & np.array([[True], [False]])]
    imputer: Any = Asking(windows())
    draws_at(imputer, whole, hidden, n_samples=2, seed=0, gaps=gaps)
    assert (imputer.asked[0][0] == (gaps[0] | hidden[0])).all()
    draws_at(imputer, whole, hidden, n_samples=2, seed=0)
    assert (imputer.asked[1][0] == (np.isnan(values) | hidden[0])).all()


class Asking(TooSure):
    """Remembers the cells that it was asked for."""

    def impute_records(
        self, windows: Windows, n: int, seed: int = 0, fill: np.ndarray | None = None
    ) -> Iterator[Samples]:
        assert fill is not None
        self.asked = [*getattr(self, "asked", []), fill]
        return super().impute_records(windows, n, seed, fill)

"""Trees on the posterior of a process: those of scikit-learn, no hidden value among their inputs, the same by seed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor

import tsimpute as ti
from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Feature, Windows
from tsimpute.filling.blending.blend import Blend
from tsimpute.filling.blending.mixture import FittedMethods, Mixture, model_from_file
from tsimpute.filling.learning.learning import gaussian
from tsimpute.filling.learning.posterior_masks import PosteriorMasks
from tsimpute.filling.methods.components import Unseasonal
from tsimpute.filling.methods.forest import Forest, Trees, Watch, _of_mask, others_of
from tsimpute.filling.panels.windows import N_CLASSES, clock_times
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.models.checkpoints import read_model
from tsimpute.system.terminal import silent


def bent(n_steps: int = 480, seed: int = 0) -> pd.DataFrame:
    """A daily course that a second feature follows by a sharp step; runs of both are missing."""
    rng = np.random.default_rng(seed)
    daily = 2 * np.sin(2 * np.pi * np.arange(n_steps) / 24)
    first = daily + np.convolve(rng.normal(size=n_steps + 4), np.ones(5) / 2, "valid")
    values = np.stack([first, 3 * (first > 0.5) + 0.1 * rng.normal(size=n_steps)], 1)
    for k in range(2):
        while np.isnan(values[:, k]).mean() < 0.15:
            start, length = int(rng.integers(n_steps)), int(rng.choice([1, 3, 8]))
            values[start : start + length, k] = np.nan
    return pd.DataFrame(values, pd.date_range("2024-03-04", periods=n_steps, freq="h"), ["a", "b"])


def panel(frame: pd.DataFrame) -> Panel:
    times, values = np.arange(float(len(frame))), frame.to_numpy().T.copy()
    series = Series("s", times, values, frame.index.to_numpy())
    return Panel(tuple(Feature(name) for name in frame), (series,), Clock("hours", 1.0))


@pytest.fixture(scope="module")
def grown() -> tuple[Panel, GaussianImputer, Unseasonal, Forest]:
    table = panel(bent())
    base = gaussian(table, {}, 0, silent)
    unseasonal = Unseasonal.fit(table, base, 0)
    assert unseasonal is not None
    forest = Forest.fit(table, base, 3, unseasonal)
    assert forest is not None
    return table, base, unseasonal, forest


def at(forest: Forest, table: Panel) -> np.ndarray:
    series = table.series[0]
    return forest.at(forest.base.scaler_.transform(series.values), clock_times(series, table.clock))


def test_arrays_say_what_the_trees_of_scikit_learn_say_and_come_back_from_a_file() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 6)).astype(np.float32)
    forest = ExtraTreesRegressor(20, min_samples_leaf=3, random_state=0).fit(rows, rows[:, 0] * rows[:, 1])
    trees, new = Trees.of(forest), rng.normal(size=(200, 6)).astype(np.float32)
    np.testing.assert_allclose(trees.at(new), forest.predict(new), atol=1e-5)
    np.testing.assert_array_equal(Trees.from_arrays(trees.to_arrays()).at(new), trees.at(new))


def test_hidden_values_are_no_inputs(grown: tuple[Panel, GaussianImputer, Unseasonal, Forest]) -> None:
    table, base, _, _ = grown
    hidden = pools_of(table, base)[0].posterior(0, 0)[0]
    series = table.series[0]
    other = replace(table, series=(replace(series, values=np.where(hidden, 1e9, series.values)),))
    found = [_of_mask(pools_of(one, base), None, 0, 0, others_of(base.model_)) for one in (table, other)]
    assert hidden.any()
    for own, changed in zip(*found, strict=True):
        np.testing.assert_array_equal(own.inputs, changed.inputs)
        np.testing.assert_array_equal(own.spread, changed.spread)


def pools_of(table: Panel, base: GaussianImputer) -> list[PosteriorMasks]:
    pool = PosteriorMasks(table, base, 1, n_folds=1, n_masks=1)
    pool.make_all(0)
    return [pool]


def test_a_step_that_no_line_follows_is_learnt(grown: tuple[Panel, GaussianImputer, Unseasonal, Forest]) -> None:
    _, base, _, forest = grown
    later = bent(480, 1).dropna()
    later = later.set_axis(pd.date_range("2024-05-06", periods=len(later), freq="h"))
    truth = later["b"].to_numpy().copy()
    gaps = np.random.default_rng(0).random(len(later)) < 0.3
    series = panel(later.assign(b=np.where(gaps, np.nan, truth))).series[0]
    known = base.scaler_.transform(series.values)
    mean = base.model_.moments(known, series.times)[0]
    points = [base.scaler_.inverse(one)[1] for one in (mean, forest.at(known, series.times))]
    alone, with_trees = (np.abs(point - truth)[gaps].mean() for point in points)
    assert with_trees < 0.9 * alone


def test_the_same_trees_by_seed_and_from_a_model_file(
    grown: tuple[Panel, GaussianImputer, Unseasonal, Forest], tmp_path: Path
) -> None:
    table, base, unseasonal, forest = grown
    again = Forest.fit(table, base, 3, unseasonal)
    assert again is not None
    np.testing.assert_array_equal(at(again, table), at(forest, table))
    whole = np.ones((1, 2, N_CLASSES))
    mixture = Mixture(FittedMethods(base, (forest,)), Blend(whole, np.ones((2, N_CLASSES))))
    mixture.save(tmp_path / "kept")
    back = model_from_file(tmp_path / "kept", *read_model(tmp_path / "kept"))
    series = table.series[0]
    record = Windows(series.values[None], clock_times(series, table.clock)[None], table.features, ("s",))
    drawn = [np.concatenate([d.values for _, d in one.impute_long(record, 6, 1)], -1) for one in (mixture, back)]
    np.testing.assert_array_equal(*drawn)


def test_late_it_ends_with_one_mask_and_stopped_with_none(
    grown: tuple[Panel, GaussianImputer, Unseasonal, Forest],
) -> None:
    table, base, unseasonal, _ = grown
    told: list[int] = []
    watch = Watch(lambda done, total: told.append(done), late=lambda: True)
    assert Forest.fit(table, base, 0, unseasonal, watch) is not None
    assert sum(done <= 2 for done in told) == 1
    assert Forest.fit(table, base, 0, unseasonal, Watch(should_stop=lambda: True)) is None


def test_the_default_says_what_trees_gain() -> None:
    imputer = ti.TableImputer(n_samples=10, minutes=60).fit(bent())
    rows = {str(row["imputer"]): row for row in imputer.scores_}
    assert "randomised trees" in imputer.delivered_
    before = rows.get("first answer", imputer.scores_[-1])
    assert float(imputer.scores_[-1]["CRPS"]) <= float(before["CRPS"])

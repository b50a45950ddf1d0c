"""A user's own imputer: functions that know arrays only behave as any imputer of the package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tsimpute.errors import ConfigError, DataError
from tsimpute.pipeline.protocols import clean
from tsimpute.pipeline.task import Task
from tsimpute.runs import load_windows
from tsimpute.suites.own import FunctionImputer, own_imputer
from tsimpute.suites.sabotage import PASSES, sabotage

NOISY_MEAN = """
import numpy as np

def learn(known, times, spread=1.0):
    return {"mean": np.nanmean(known, (0, 2)), "n": len(known)}

def draw(known, times, n_samples, rng, learnt, spread=1.0):
    noise = spread * rng.normal(size=(n_samples, *known.shape))
    return learnt["mean"][:, None] + noise
"""


@pytest.fixture
def task() -> Task:
    return clean(load_windows("synthetic", n_records=40, n_steps=12), rate=0.3, seed=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "noisy_mean.py"
    path.write_text(NOISY_MEAN)
    return path


def test_two_functions_make_an_imputer(path: Path, task: Task) -> None:
    imputer = own_imputer(str(path), {"spread": 0.5}).fit(task.train)
    assert imputer.name == "noisy_mean"
    test = task.test.without_held_out()
    samples = imputer.impute(test, 400, seed=3)
    assert np.array_equal(samples.values[0][test.shown], test.values[test.shown])
    hidden = ~test.shown
    of_feature = [samples.values[:, :, k][:, hidden[:, k]] for k in range(test.n_features)]
    shown = np.where(task.train.shown, task.train.values, np.nan)
    mean, std = np.nanmean(shown, (0, 2)), np.nanstd(shown, (0, 2))
    for k, draws in enumerate(of_feature):
        assert draws.mean() == pytest.approx(mean[k], abs=0.1 * std[k])
        assert draws.std() == pytest.approx(0.5 * std[k], rel=0.1)
    alone = imputer.impute(test.select([2]), 400, seed=3)
    assert np.array_equal(alone.values[:, 0], samples.values[:, 2], equal_nan=True)
    assert sabotage(lambda: own_imputer(str(path), {}), task) == PASSES


def test_one_answer_is_repeated(task: Task) -> None:
    imputer = FunctionImputer("zero", lambda known, times, n_samples, rng, learnt: np.zeros_like(known)).fit(task.train)
    samples = imputer.impute(task.test, 3)
    assert np.array_equal(samples.values[0], samples.values[2])
    assert samples.n_samples == 3


def test_functions_cannot_reach_the_records_that_they_are_given(task: Task) -> None:
    def draw(known: np.ndarray, times: np.ndarray, n: int, rng: np.random.Generator, learnt: dict) -> np.ndarray:
        known[:] = 5.0
        times[:] = 0.0
        return known

    test = task.test.without_held_out()
    before = replace(test, values=test.values.copy(), times=test.times.copy())
    FunctionImputer("rude", draw).fit(task.train).impute(test, 2)
    assert np.array_equal(test.values, before.values, equal_nan=True)
    assert np.array_equal(test.times, before.times)


def test_what_is_wrong_is_said(tmp_path: Path, path: Path, task: Task) -> None:
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(ConfigError, match="expected a function draw"):
        own_imputer(str(tmp_path / "empty.py"), {})
    with pytest.raises(ConfigError, match="has no 'Mine'"):
        own_imputer(f"{path}:Mine", {})
    with pytest.raises(ConfigError, match="no file"):
        own_imputer(str(tmp_path / "other.py"), {})
    short = FunctionImputer("short", lambda known, times, n, rng, learnt: known[:, :3]).fit(task.train)
    with pytest.raises(DataError, match=r"short: draw: expected \(2, 8, 12\) .* came \(8, 3\)"):
        short.impute(task.test, 2)
    with pytest.raises(DataError, match="learn: expected arrays by name, came list"):
        FunctionImputer("x", draw=lambda *a: None, learn=lambda known, times: [1]).fit(task.train)
    imputer = own_imputer(str(path), {}).fit(task.train)
    imputer.save(tmp_path / "model")
    with pytest.raises(ConfigError, match="fit it again"):
        type(imputer).load(tmp_path / "model")


def test_gaps_that_a_function_leaves_are_refused(task: Task) -> None:
    imputer = FunctionImputer("lazy", lambda known, times, n, rng, learnt: known).fit(task.train)
    with pytest.raises(DataError, match="lazy: draw: expected a number at every cell that is not shown"):
        imputer.impute(task.test, 1)

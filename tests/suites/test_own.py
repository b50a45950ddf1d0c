"""A user's own imputer: functions that know arrays only behave as any imputer of the package."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tsimpute.errors import ConfigError, DataError
from tsimpute.experiments.leakage import NO_LEAK, leakage_of
from tsimpute.experiments.runs import load_windows
from tsimpute.suites.own import FunctionImputer, files_of, global_seeds, own_imputer
from tsimpute.tasks.protocols import clean
from tsimpute.tasks.task import Task

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
    imputer = own_imputer(path, "", {"spread": 0.5}).fit(task.train)
    assert imputer.name == "noisy_mean"
    test = task.test.without_held_out()
    samples = imputer.impute(test, 400, seed=3)
    assert np.array_equal(samples.values[0][test.visible], test.values[test.visible])
    hidden = ~test.visible
    of_feature = [samples.values[:, :, k][:, hidden[:, k]] for k in range(test.n_features)]
    shown = np.where(task.train.visible, task.train.values, np.nan)
    mean, std = np.nanmean(shown, (0, 2)), np.nanstd(shown, (0, 2))
    for k, draws in enumerate(of_feature):
        assert draws.mean() == pytest.approx(mean[k], abs=0.1 * std[k])
        assert draws.std() == pytest.approx(0.5 * std[k], rel=0.1)
    alone = imputer.impute(test.select([2]), 400, seed=3)
    assert np.array_equal(alone.values[:, 0], samples.values[:, 2], equal_nan=True)
    assert leakage_of(lambda: own_imputer(path, "", {}), task) == NO_LEAK


def test_one_answer_is_repeated(task: Task) -> None:
    imputer = FunctionImputer("zero", lambda known, times, n_samples, rng, learnt: np.zeros_like(known)).fit(task.train)
    samples = imputer.impute(task.test, 3)
    assert np.array_equal(samples.values[0], samples.values[2])
    assert samples.n_samples == 3


def test_options_go_to_the_function_that_takes_them_and_learn_may_have_a_generator(task: Task) -> None:
    def learn(known: np.ndarray, times: np.ndarray, rng: np.random.Generator) -> dict:
        return {"noise": rng.normal(size=3)}

    def draw(known, times, n_samples, rng, learnt, add=0.0):
        return np.zeros_like(known) + add

    made = [FunctionImputer("mine", draw, learn, {"add": 2.0}, seed).fit(task.train) for seed in (0, 0, 1)]
    assert np.array_equal(made[0].learnt_["learnt_noise"], made[1].learnt_["learnt_noise"])
    assert not np.array_equal(made[0].learnt_["learnt_noise"], made[2].learnt_["learnt_noise"])
    hidden = ~task.test.visible
    samples = made[0].impute(task.test, 1)
    assert made[0].scaler_.transform(samples.values[0])[hidden] == pytest.approx(2.0)
    with pytest.raises(ConfigError, match="neither draw nor learn takes an option 'ad'"):
        FunctionImputer("mine", draw, learn, {"ad": 2.0})


def test_a_class_gets_the_seed_and_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_mine.py").write_text("from tsimpute.imputers.simple import LinearImputer as Base\n")
    (tmp_path / "mine.py").write_text(
        "from beside_mine import Base\n"
        "class Mine(Base):\n    def __init__(self, seed=0, other=1):\n        self.seed, self.other = seed, other\n"
        "class Fixed(Base):\n    def __init__(self, other=1):\n        self.other = other\n"
        "class No:\n    name = 'no'\n"
    )
    assert vars(own_imputer(tmp_path / "mine.py", "Mine", {"other": 2}, seed=7)) == {"seed": 7, "other": 2}
    assert vars(own_imputer(tmp_path / "mine.py", "Mine", {"seed": 3}, seed=7)) == {"seed": 3, "other": 1}
    assert vars(own_imputer(tmp_path / "mine.py", "Fixed", {}, seed=7)) == {"other": 1}
    with pytest.raises(ConfigError, match="this one has no fit, impute, save"):
        own_imputer(tmp_path / "mine.py", "No", {})


def test_what_learn_gave_cannot_be_changed_from_record_to_record(task: Task) -> None:
    def draw(known: np.ndarray, times: np.ndarray, n: int, rng: np.random.Generator, learnt: dict) -> np.ndarray:
        learnt["count"] += 1
        return np.zeros_like(known) + learnt["count"]

    imputer = FunctionImputer("counts", draw, lambda known, times: {"count": np.zeros(1)}).fit(task.train)
    with pytest.raises(ValueError, match="read-only"):
        imputer.impute(task.test, 1)


def test_functions_cannot_reach_the_records_that_they_are_given(task: Task) -> None:
    def learn(known: np.ndarray, times: np.ndarray) -> dict:
        known[:] = times[:] = 0.0
        return {}

    def draw(known: np.ndarray, times: np.ndarray, n: int, rng: np.random.Generator, learnt: dict) -> np.ndarray:
        known[:] = 5.0
        times[:] = 0.0
        return known

    test = task.test.without_held_out()
    before = replace(test, values=test.values.copy(), times=test.times.copy())
    train_times = task.train.times.copy()
    FunctionImputer("rude", draw, learn).fit(task.train).impute(test, 2)
    assert np.array_equal(test.values, before.values, equal_nan=True)
    assert np.array_equal(test.times, before.times)
    assert np.array_equal(task.train.times, train_times)


def test_what_is_wrong_is_said(tmp_path: Path, path: Path, task: Task) -> None:
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(ConfigError, match="expected a function draw"):
        own_imputer(tmp_path / "empty.py", "", {})
    with pytest.raises(ConfigError, match="has no 'Mine'"):
        own_imputer(path, "Mine", {})
    with pytest.raises(ConfigError, match="no file"):
        own_imputer(tmp_path / "other.py", "", {})
    short = FunctionImputer("short", lambda known, times, n, rng, learnt: known[:, :3]).fit(task.train)
    with pytest.raises(DataError, match=r"short: draw: expected numbers \(2, 8, 12\) .* came float64 \(8, 3\)"):
        short.impute(task.test, 2)
    with pytest.raises(DataError, match="learn: expected arrays by name, came list"):
        FunctionImputer("x", draw=lambda *a: None, learn=lambda known, times: [1]).fit(task.train)
    imputer = own_imputer(path, "", {}).fit(task.train)
    imputer.save(tmp_path / "model")
    with pytest.raises(ConfigError, match="fit it again"):
        type(imputer).load(tmp_path / "model")


def test_gaps_that_a_function_leaves_are_refused(task: Task) -> None:
    imputer = FunctionImputer("lazy", lambda known, times, n, rng, learnt: known).fit(task.train)
    with pytest.raises(DataError, match="lazy: draw: expected a number at every cell that is not shown"):
        imputer.impute(task.test, 1)


def test_two_files_have_helpers_of_their_own(tmp_path: Path, task: Task) -> None:
    for name, value in (("x", 0.0), ("y", 5.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "helper_of_own.py").write_text(f"VALUE = {value}\n")
        (tmp_path / name / f"imp_{name}.py").write_text(
            "import numpy as np\nimport helper_of_own\n"
            "def draw(known, times, n, rng, learnt): return np.full(known.shape, helper_of_own.VALUE)\n"
        )
    test = task.test.without_held_out()
    filled = [own_imputer(tmp_path / n / f"imp_{n}.py", "", {}).fit(task.train).impute(test, 1).values for n in "xy"]
    assert not np.array_equal(*filled, equal_nan=True)


def test_files_of_an_own_imputer_are_those_it_imports_from_beside_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import numpy, near\nfrom package.part import f\n")
    (tmp_path / "near.py").write_text("def later():\n    import nearer, mine\n")
    (tmp_path / "package").mkdir()
    for name in ("nearer.py", "far.py", "package/__init__.py", "package/part.py"):
        (tmp_path / name).write_text("")
    found = [path.relative_to(tmp_path).as_posix() for path in files_of(tmp_path / "mine.py")]
    assert found[0] == "mine.py"
    assert sorted(found[1:]) == ["near.py", "nearer.py", "package/__init__.py", "package/part.py"]


def test_what_an_own_file_sets_for_all_is_put_back(tmp_path: Path) -> None:
    dtype, errors, folder = torch.get_default_dtype(), np.geterr(), Path.cwd()
    with global_seeds(3):
        torch.set_default_dtype(torch.float64)
        np.seterr(all="raise")
        os.chdir(tmp_path)
    assert (torch.get_default_dtype(), np.geterr(), Path.cwd()) == (dtype, errors, folder)

"""A user's imputer by its import path: functions of arrays behave as any imputer of the package."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tsimpute.errors import ConfigError, DataError
from tsimpute.experiments.leakage import NO_LEAK, leakage_of
from tsimpute.experiments.runs import load_windows
from tsimpute.imputers.base import Imputer
from tsimpute.suites.checkpoints import global_seeds
from tsimpute.suites.user_defined import FunctionImputer, source_files, user_imputer
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
def folder(tmp_path: Path) -> Path:
    (tmp_path / "noisy_mean.py").write_text(NOISY_MEAN)
    return tmp_path


def imputer_of(path: str, folder: Path, options: dict | None = None, seed: int = 0) -> Imputer:
    return user_imputer(path, *source_files(path, str(folder)), options or {}, seed)


def test_two_functions_make_an_imputer(folder: Path, task: Task) -> None:
    imputer = imputer_of("noisy_mean:draw", folder, {"spread": 0.5}).fit(task.train)
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
    assert leakage_of(lambda: imputer_of("noisy_mean:draw", folder), task) == NO_LEAK


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


def test_a_class_gets_the_seed_and_may_import_modules_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "base_of_mine.py").write_text("from tsimpute.imputers.simple import LinearImputer as Base\n")
    (tmp_path / "mine.py").write_text(
        "from base_of_mine import Base\n"
        "class Mine(Base):\n    def __init__(self, seed=0, other=1):\n        self.seed, self.other = seed, other\n"
        "class Fixed(Base):\n    def __init__(self, other=1):\n        self.other = other\n"
        "class No:\n    name = 'no'\n"
    )
    assert vars(imputer_of("mine:Mine", tmp_path, {"other": 2}, seed=7)) == {"seed": 7, "other": 2}
    assert vars(imputer_of("mine:Mine", tmp_path, {"seed": 3}, seed=7)) == {"seed": 3, "other": 1}
    assert vars(imputer_of("mine:Fixed", tmp_path, seed=7)) == {"other": 1}
    with pytest.raises(ConfigError, match="it has no fit, impute, save, load"):
        imputer_of("mine:No", tmp_path)


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


def test_what_is_wrong_is_said(folder: Path, task: Task) -> None:
    with pytest.raises(ConfigError, match="module 'noisy_mean' has no attribute 'Mine'"):
        imputer_of("noisy_mean:Mine", folder)
    with pytest.raises(ConfigError, match=r"expected a file other_name\.py next to the suite, or an installed package"):
        imputer_of("other_name:draw", folder)
    short = FunctionImputer("short", lambda known, times, n, rng, learnt: known[:, :3]).fit(task.train)
    with pytest.raises(DataError, match=r"short: draw: expected numbers \(2, 8, 12\) .* came float64 \(8, 3\)"):
        short.impute(task.test, 2)
    with pytest.raises(DataError, match="learn: expected arrays by name, came list"):
        FunctionImputer("x", draw=lambda *a: None, learn=lambda known, times: [1]).fit(task.train)
    imputer = imputer_of("noisy_mean:draw", folder).fit(task.train)
    imputer.save(folder / "model")
    with pytest.raises(ConfigError, match="fit it again"):
        type(imputer).load(folder / "model")


def test_gaps_that_a_function_leaves_are_refused(task: Task) -> None:
    imputer = FunctionImputer("lazy", lambda known, times, n, rng, learnt: known).fit(task.train)
    with pytest.raises(DataError, match="lazy: draw: expected a number at every cell that is not shown"):
        imputer.impute(task.test, 1)


def test_a_module_that_is_not_the_suites_is_refused(tmp_path: Path, task: Task) -> None:
    """Python imports a name once: another file of that name would be stored as what was run."""
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same_name.py").write_text(NOISY_MEAN)
    imputer_of("same_name:draw", tmp_path / "x")
    with pytest.raises(
        ConfigError, match=r"expected the module in .*y/same_name\.py, Python has imported .*x/same_name"
    ):
        imputer_of("same_name:draw", tmp_path / "y")
    (tmp_path / "yaml.py").write_text(NOISY_MEAN)
    with pytest.raises(ConfigError, match="Rename the file"):
        imputer_of("yaml:load", tmp_path)


def test_a_file_that_changed_after_its_import_is_refused(folder: Path) -> None:
    imputer_of("noisy_mean:draw", folder)
    (folder / "noisy_mean.py").write_text(NOISY_MEAN.replace("spread *", "2 * spread *"))
    with pytest.raises(ConfigError, match="has changed since it was imported"):
        imputer_of("noisy_mean:draw", folder)


def test_files_are_those_of_the_module_or_of_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("import numpy, near\n")
    (tmp_path / "near.py").write_text("")
    (tmp_path / "my_package").mkdir()
    for name in ("__init__", "part", "other"):
        (tmp_path / "my_package" / f"{name}.py").write_text("")
    assert source_files("mine:draw", str(tmp_path)) == (tmp_path, (tmp_path / "mine.py",))
    place, files = source_files("my_package.part:Imputer", str(tmp_path))
    assert (place, [file.stem for file in files]) == (tmp_path, ["__init__", "other", "part"])
    assert source_files("pandas:DataFrame", str(tmp_path)) == (None, ())
    monkeypatch.chdir(tmp_path)
    assert source_files("mine:draw", "elsewhere") == (Path(), (Path("mine.py"),))


def test_global_generators_repeat_and_are_put_back() -> None:
    def draws() -> list[float]:
        return [random.random(), float(np.random.random()), float(torch.rand(()))]  # noqa: NPY002

    states = random.getstate(), np.random.get_state()[1], torch.get_rng_state()  # noqa: NPY002
    with global_seeds(3):
        first = draws()
    with global_seeds(3):
        assert draws() == first
    assert random.getstate() == states[0]
    assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), states[2])

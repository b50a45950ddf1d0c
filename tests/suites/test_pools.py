"""Pools of a suite's methods, fits that serve several tasks, and results of other code."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tsimpute.cli.commands import main
from tsimpute.config import registry
from tsimpute.errors import ConfigError
from tsimpute.evaluation.kept_samples import read_cells
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.linear_pool import LinearPoolImputer
from tsimpute.suites import checkpoints, running, scoring
from tsimpute.suites.jobs import Job, plan
from tsimpute.suites.settings import Suite, load_suite
from tsimpute.testing.imputers import TRAIN

SUITE = """
tasks:
  few: &task {data: {name: synthetic, options: {n_records: 20, n_steps: 12}}, protocol: {name: csdi, rate: 0.1}}
  half: {<<: *task, protocol: {name: csdi, rate: 0.5}}
methods:
  process: {imputer: gaussian, options: {settings: {n_rounds: 2}}}
  linear: {imputer: linear, seeds: false}
  flow matching:
    config: default
    settings:
      {training: {epochs: 2, batch_size: 8}, network.options: {width: 8, n_heads: 1, n_blocks: 1}, sampling.n_steps: 2}
  pool: {members: {process: 2, flow matching: 1, linear: 1}}
n_samples: 8
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    (tmp_path / "suite.yaml").write_text(SUITE)
    return load_suite(tmp_path / "suite.yaml")


def run(suite: Suite, out: Path, **more: Any) -> list[Job]:
    return list(running.run_suite(plan(suite), out, **more))


def draws(out: Path, method: str, task: str = "few") -> np.ndarray:
    _, chunks = read_cells(out / "entries" / task / method / "fold0-seed0" / "samples.npz")
    return np.concatenate([cells.draws for cells in chunks])


def test_a_pool_has_draws_of_its_members_in_their_shares(suite: Suite, tmp_path: Path) -> None:
    assert len(run(suite, tmp_path / "out")) == 8
    pool, linear = (draws(tmp_path / "out", name) for name in ("pool", "linear"))
    assert pool.shape == linear.shape
    assert ((pool == linear[:, :1]).sum(1) == 2).all()  # of eight
    entry = json.loads((tmp_path / "out/entries/few/pool/fold0-seed0/entry.json").read_text())
    assert entry["leakage"] == "none (filling only)"
    seconds = [
        json.loads((tmp_path / f"out/entries/few/{name}/fold0-seed0/entry.json").read_text())["checkpoints"][-1][
            "seconds_training"
        ]
        for name in ("process", "linear", "flow matching")
    ]
    assert entry["checkpoints"][0]["seconds_training"] > seconds[2]


def test_another_setting_of_a_member_is_another_pool(suite: Suite, tmp_path: Path) -> None:
    keys = {job.title: job.key for job in plan(suite)}
    (tmp_path / "other.yaml").write_text(SUITE.replace("n_rounds: 2", "n_rounds: 3"))
    other = {job.title: job.key for job in plan(load_suite(tmp_path / "other.yaml"))}
    assert {title for title in keys if keys[title] != other[title]} == {
        f"{task}, {method}" for task in ("few", "half") for method in ("process", "pool")
    }


def test_a_pool_whose_training_was_stopped_is_scored_when_it_is_done(suite: Suite, tmp_path: Path) -> None:
    jobs = [job for job in plan(suite) if job.title == "few, pool"]
    asked = iter(range(1000))
    assert not list(running.run_suite(jobs, tmp_path / "out", should_stop=lambda: next(asked) > 3))
    assert list(running.run_suite(jobs, tmp_path / "out")) == jobs


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ("{linear: 1}", "at least two methods"),
        ("{linear: 1, process: 0}", "positive shares"),
        ("{linear: 1, proces: 1}", "no method 'proces'"),
        ("{linear: 1, pool of two: 1}", "is a pool itself"),
    ],
)
def test_wrong_members_are_refused(tmp_path: Path, members: str, message: str) -> None:
    more = f"  pool of two: {{members: {{process: 1, linear: 1}}}}\n  wrong: {{members: {members}}}\nn_samples"
    (tmp_path / "suite.yaml").write_text(SUITE.replace("n_samples", more))
    with pytest.raises(ConfigError, match=message):
        load_suite(tmp_path / "suite.yaml")


def test_a_member_that_cannot_be_run_is_the_problem_of_the_pool(tmp_path: Path) -> None:
    text = SUITE.replace("imputer: linear, seeds: false", "run: no_such_folder")
    (tmp_path / "suite.yaml").write_text(text)
    problems = {job.method: str(job.problem) for job in plan(load_suite(tmp_path / "suite.yaml")) if job.problem}
    assert set(problems) == {"linear", "pool"}
    assert problems["pool"] == problems["linear"]


class TestFitsThatAreKept:
    def fits(self, suite: Suite, out: Path, monkeypatch: pytest.MonkeyPatch) -> int:
        """How often the process was fitted."""
        done, fit = [], GaussianImputer.fit
        monkeypatch.setattr(GaussianImputer, "fit", lambda *given, **more: done.append(0) or fit(*given, **more))
        for job in plan(suite):
            if job.method in ("process", "linear"):
                list(running.run_suite([job], out))
        monkeypatch.setattr(GaussianImputer, "fit", fit)
        return len(done)

    @pytest.fixture
    def untested(self, suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Suite:
        """Without the leakage test, which fits, too."""
        monkeypatch.setattr(checkpoints, "LONG", 0.0)
        return replace(suite, leakage_test=False)

    def test_tasks_with_the_same_training_cells_share_one(
        self, untested: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert self.fits(untested, tmp_path / "kept", monkeypatch) == 1
        monkeypatch.setattr(checkpoints, "LONG", np.inf)
        assert self.fits(untested, tmp_path / "anew", monkeypatch) == 2
        for task in ("few", "half"):
            kept, anew = (draws(tmp_path / out, "process", task) for out in ("kept", "anew"))
            np.testing.assert_array_equal(kept, anew)
        assert sorted(path.suffix for path in (tmp_path / "kept/models").iterdir()) == [".json", ".safetensors"]

    def test_other_code_or_another_seed_fits_anew(
        self, untested: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        few = plan(untested)[0]
        task = running.prepare(few).task
        keys = {checkpoints.fit_key(few, task)}
        other = plan(load_suite(write(tmp_path, SUITE + "seeds: [1]")))[0]
        keys.add(checkpoints.fit_key(other, task))
        monkeypatch.setattr(checkpoints, "package_digest", lambda: "other")
        keys.add(checkpoints.fit_key(few, task))
        values = task.train.values.copy()
        values[np.nonzero(task.train.visible)] += 1
        keys.add(checkpoints.fit_key(few, replace(task, train=replace(task.train, values=values))))
        donor = np.arange(len(task.train)) < 3
        keys.add(checkpoints.fit_key(few, replace(task, train=replace(task.train, pattern_donor=donor))))
        assert len(keys) == 5

    @pytest.mark.parametrize("damage", ["absent", "cut", "no seconds"])
    def test_a_damaged_one_is_made_anew(
        self, untested: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
    ) -> None:
        assert self.fits(untested, tmp_path, monkeypatch) == 1
        expected = draws(tmp_path, "process")
        (model,) = (tmp_path / "models").glob("*.safetensors")
        shutil.rmtree(tmp_path / "entries")
        if damage == "absent":
            model.unlink()
        elif damage == "cut":
            model.write_bytes(model.read_bytes()[:-7])
        else:
            model.with_suffix(".json").write_text("")
        assert self.fits(untested, tmp_path, monkeypatch) == 1
        np.testing.assert_array_equal(draws(tmp_path, "process"), expected)

    def test_code_of_ones_own_is_fitted_for_each_task(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checkpoints, "LONG", 0.0)
        (tmp_path / "my_process.py").write_text(
            "from tsimpute.imputers.gaussian import GaussianImputer\n"
            "class Mine(GaussianImputer):\n"
            "    def __init__(self, seed=0): super().__init__(settings={'n_rounds': 2}, seed=seed)\n"
        )
        mine = "{imputer: 'my_process:Mine'}"
        pooled = "{imputer: linear_pool, options: {members: ['my_process:Mine', gaussian]}}"
        text = SUITE[: SUITE.index("methods")] + f"methods: {{mine: {mine}, pool: {pooled}}}\nn_samples: 2\n"
        monkeypatch.syspath_prepend(tmp_path)
        assert len(run(load_suite(write(tmp_path, text + "leakage_test: false\n")), tmp_path / "out")) == 4
        assert not (tmp_path / "out" / "models").exists()

    def test_an_imputer_that_may_look_at_validation_records_is_not_kept(self) -> None:
        classes = [registry.plugin("imputers", name) for name in registry.available("imputers")]
        assert [one.name for one in classes if hasattr(one, "ignores_valid")] == ["gaussian", "linear_pool"]
        fitted = {name: registry.make("imputers", name).fit(TRAIN) for name in ("gaussian", "mean")}
        assert LinearPoolImputer.of([fitted["gaussian"]] * 2).ignores_valid
        assert not LinearPoolImputer.of(list(fitted.values())).ignores_valid


def test_the_leakage_test_may_have_other_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = "{settings: {n_rounds: 2}, seed: 5}}"
    with_other = f"{options[:-1]}, leakage_options: {{settings: {{n_rounds: 1}}}}}}"
    jobs = [
        plan(load_suite(write(tmp_path, SUITE.replace("{settings: {n_rounds: 2}}}", x))))[0]
        for x in (options, with_other)
    ]
    assert jobs[0].key == jobs[1].key
    fitted: list[GaussianImputer] = []
    monkeypatch.setattr(scoring, "leakage_of", lambda make, *rest: fitted.append(make()) or "none")
    for job in jobs:
        scoring.leakage_result(job, running.prepare(job))
    assert [(one.settings.n_rounds, one.seed) for one in fitted if one.settings] == [(2, 5), (1, 5)]


def test_wrong_options_for_the_leakage_test_are_refused_before_any_work(tmp_path: Path) -> None:
    text = SUITE.replace("{imputer: linear, seeds: false}", "{imputer: linear, leakage_options: {sttings: 3}}")
    with pytest.raises(ConfigError, match="unknown option sttings"):
        run(load_suite(write(tmp_path, text)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def write(folder: Path, text: str) -> Path:
    path = folder / "other.yaml"
    path.write_text(text)
    return path


def test_results_of_other_code_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["suite", "run", str(write(tmp_path, SUITE)), "--out", str(tmp_path / "out"), "--methods", "linear"]
    main(command)
    main(command)
    assert "another state of this package's code" not in capsys.readouterr().out
    path = tmp_path / "out/entries/half/linear/fold0-seed0/entry.json"
    path.write_text(path.read_text().replace('"code": "', '"code": "0'))
    main(command)
    printed = capsys.readouterr().out
    assert "1 of 2 entries are kept as another state of this package's code made them" in printed
    assert str(path.parent) in printed

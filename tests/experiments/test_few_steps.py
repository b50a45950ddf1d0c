"""Every sampler of a run is scored once, with the evaluations it says, and a second call goes on where one stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tsimpute.config.registry import available
from tsimpute.config.settings import (
    DataConfig,
    EvaluationConfig,
    NetworkConfig,
    ProcessConfig,
    ProtocolConfig,
    RunConfig,
    SamplingConfig,
    TrainingConfig,
)
from tsimpute.config.yaml_files import save_config
from tsimpute.errors import ConfigError
from tsimpute.evaluation.reporting import Report
from tsimpute.experiments import runs
from tsimpute.experiments.few_steps import few_steps
from tsimpute.plots._curves import evaluations

PROCESSES = ("flow_matching", "diffusion")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of both processes, each of one epoch on a few generated records."""
    root = tmp_path_factory.mktemp("runs")
    for process in PROCESSES:
        config = RunConfig(
            data=DataConfig("synthetic", options={"n_records": 20, "n_steps": 8}),
            protocol=ProtocolConfig(rate=0.2),
            process=ProcessConfig(process),
            network=NetworkConfig(options={"width": 8, "n_heads": 2, "n_blocks": 1}),
            training=TrainingConfig(epochs=1),
            evaluation=EvaluationConfig(n_samples=3, max_records=2),
        )
        task = runs.task_of(config)
        (root / process).mkdir()
        save_config(config, root / process / "config.yaml")
        runs.new_imputer(config).fit(task.train).save(root / process / "last.safetensors")
    return root


def test_both_processes_with_every_solver_share_one_table_and_picture(folder: Path, tmp_path: Path):
    for process in PROCESSES:
        list(few_steps(folder / process, tmp_path, evaluations=(3, 60)))
    rows = Report.read(tmp_path).where(metric="crps", feature="all").rows
    ancestral = {"one_step, eta 0", "one_step, eta 1"}
    plain = set(available("solvers")) - {"one_step"}
    even = plain | {"one_step, eta 0"}
    assert {r.solver for r in rows if r.process == "diffusion"} == plain | ancestral
    assert {r.solver for r in rows if r.process == "flow_matching"} == even | {f"{s}, grid 1.5" for s in even}
    assert {evaluations(r) for r in rows if r.process == "flow_matching"} == {3, 59, 60}
    # Diffusion has 50 levels: it stops there, and Heun's method at the most evaluations that fit.
    assert {evaluations(r) for r in rows if r.process == "diffusion" and r.solver != "heun"} == {3, 50}
    assert {r.n_steps for r in rows if r.process == "diffusion" and r.solver == "heun"} == {2, 30}
    assert len({(r.process, r.solver, r.n_steps) for r in rows}) == len(rows)
    assert {(r.n_samples, r.n_records, r.epoch) for r in rows} == {(3, 2, 1)}
    assert (tmp_path / "steps.png").stat().st_size > 10_000


def test_results_are_those_of_the_run_scored_with_that_sampler(folder: Path, tmp_path: Path):
    (found,) = few_steps(
        folder / "flow_matching", tmp_path, evaluations=(4,), solvers=("multistep",), grid_powers=(1.25,), n_samples=5
    )
    config = runs.load_config(folder / "flow_matching" / "config.yaml")
    imputer = runs.GenerativeImputer.load(
        folder / "flow_matching" / "last.safetensors", SamplingConfig("multistep", n_steps=4, grid_power=1.25)
    )
    test = runs.scored_records(runs.task_of(config), 2)
    expected = runs.evaluate(imputer, test, n_samples=5, scaler=imputer.scaler_).value("crps_fair")
    assert found.value == pytest.approx(expected, rel=1e-5)
    assert (found.solver, found.n_steps, found.n_samples, found.seed) == ("multistep, grid 1.25", 4, 5, 0)


def test_goes_on_where_it_was_stopped(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    scored = []
    score = runs.score
    monkeypatch.setattr(runs, "score", lambda *args: scored.append(args[2].sampling) or score(*args))
    asked: dict = {"evaluations": (1, 2), "solvers": ("one_step", "heun"), "grid_powers": (1.0,)}
    job = few_steps(folder / "flow_matching", tmp_path, **asked)
    first = next(job)
    job.close()
    rows = list(few_steps(folder / "flow_matching", tmp_path, **asked))
    assert rows[0] == first
    # Heun's one step costs one evaluation, and two evaluations allow no second.
    assert [(s.solver, s.n_steps) for s in scored] == [("one_step", 1), ("heun", 1), ("one_step", 2)]
    asked["evaluations"], asked["solvers"] = (2,), ("one_step",)
    list(few_steps(folder / "flow_matching", tmp_path, **asked, n_samples=4))
    assert len(scored) == 4


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"evaluations": (0, 2)}, "evaluations: expected numbers from 1"),
        ({"evaluations": ()}, "evaluations: expected numbers from 1"),
        ({"grid_powers": (3.0,)}, "sampling.grid_power: expected none or a number in"),
        ({"solvers": ("euler",)}, "solvers: expected one of heun"),
        ({"n_samples": 0}, "n_samples: expected at least 1"),
    ],
)
def test_bad_requests_are_refused(folder: Path, tmp_path: Path, options: dict, says: str):
    with pytest.raises(ConfigError, match=says):
        list(few_steps(folder / "flow_matching", tmp_path, **options))

"""Plug-ins that a suite names by their import paths: imported, part of what was run, and refused before any work."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tsimpute.config.settings import DataConfig, ProtocolConfig
from tsimpute.errors import ConfigError, TsimputeError
from tsimpute.evaluation.reporting import Report
from tsimpute.experiments.runs import load_windows, make_task
from tsimpute.suites.checkpoints import training_key
from tsimpute.suites.jobs import plan
from tsimpute.suites.page import render
from tsimpute.suites.running import run_suite
from tsimpute.suites.settings import MethodConfig, Suite, TaskConfig

SETTINGS: dict[str, Any] = {
    "training": {"epochs": 1, "batch_size": 8},
    "network.options": {"width": 8, "n_heads": 1, "n_blocks": 1, "width_time": 8, "width_feature": 4, "width_tau": 8},
    "sampling.n_steps": 2,
}
MODULES = {
    "my_solvers": "from tsimpute.solvers.heun import Heun\nclass Mine(Heun): name = 'mine'\n",
    "my_processes": "from tsimpute.processes.flow_matching import FlowMatching as F\nclass Mine(F): name = 'mine'\n",
    "my_networks": "from tsimpute.backbones.dual_transformer import DualTransformer as D\nclass Mine(D): pass\n",
    "my_data": "from tsimpute.datasets.synthetic import SyntheticAirQuality\nclass Mine(SyntheticAirQuality): pass\n",
    "my_mechanisms": "from tsimpute.tasks.missingness import independent_cells as mine\n",
    "my_policies": "from tsimpute.batches.masking import RandomTargets\ndef mine(train): return RandomTargets()\n",
}
OF_TRAINING = ("my_processes", "my_networks", "my_policies")


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    data = DataConfig("my_data:Mine", options={"n_records": 20, "n_steps": 12})
    own = {
        "sampling.solver": "my_solvers:Mine",
        "process.name": "my_processes:Mine",
        "network.name": "my_networks:Mine",
        "training.mask_policy": "my_policies:mine",
    }
    method = MethodConfig(config="default", settings=SETTINGS | own)
    task = TaskConfig(data, ProtocolConfig("clean", rate=0.3, mechanism="my_mechanisms:mine"))
    return Suite("", {"t": task}, {"own": method}, n_samples=2, leakage_test=False, folder=str(tmp_path))


def test_a_suite_runs_with_plug_ins_of_every_kind_and_scores_its_run(suite: Suite, tmp_path: Path) -> None:
    (job,) = run_suite(plan(suite), tmp_path / "out")
    (folder,) = (tmp_path / "out" / "models").iterdir()
    for name in MODULES:  # as in a new process
        sys.modules.pop(name, None)
    sys.path.remove(str(tmp_path))
    done = replace(suite, methods={"done": MethodConfig(run=str(folder))})
    assert render(suite, plan(suite), tmp_path / "out")
    for name in MODULES:
        sys.modules.pop(name, None)
    (other,) = run_suite(plan(done), tmp_path / "other")
    first, again = (Report.read(tmp_path / out / of.folder) for out, of in (("out", job), ("other", other)))
    assert first.value("crps") == again.value("crps")


def test_the_file_of_a_plug_in_is_part_of_what_was_run_and_of_a_training_where_it_takes_part(
    suite: Suite, tmp_path: Path
) -> None:
    task = make_task(load_windows("synthetic", n_records=20, n_steps=12), ProtocolConfig("clean", rate=0.3))

    def keys() -> tuple[str, str]:
        (job,) = plan(suite)
        assert job.config is not None
        return job.key, training_key(job.config, task, job.plugins)

    before = keys()
    assert keys() == before
    for name in MODULES:
        path = tmp_path / f"{name}.py"
        path.write_text(path.read_text() + "\n# changed\n")
        after = keys()
        assert after[0] != before[0], name
        assert (after[1] != before[1]) == (name in OF_TRAINING), name
        before = after


def test_code_that_has_changed_since_it_was_imported_is_refused(suite: Suite, tmp_path: Path) -> None:
    list(run_suite(plan(suite), tmp_path / "out"))
    (tmp_path / "my_solvers.py").write_text(MODULES["my_solvers"] + "# changed\n")
    with pytest.raises(ConfigError, match=r"my_solvers\.py has changed since it was imported"):
        list(run_suite(plan(suite), tmp_path / "out"))


def test_keys_of_what_names_no_import_path_are_what_they_were() -> None:
    data = DataConfig("synthetic", options={"n_records": 20, "n_steps": 12})
    methods = {"linear": MethodConfig("linear"), "CFMI": MethodConfig(config="default", settings=SETTINGS)}
    suite = Suite("", {"t": TaskConfig(data, ProtocolConfig("clean", rate=0.3))}, methods)
    assert [job.key for job in plan(suite)] == ["cad48f280aa421ff", "a951c8e8e04dda8b"]


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"sampling.solver": "heunn"}, r"solvers: expected one of heun, .*came 'heunn'"),
        ({"sampling.device": "foo"}, r"sampling\.device: expected cpu.*came 'foo'"),
        ({"process.name": "flow"}, r"processes: expected one of .*came 'flow'"),
        ({"sampling.solver": "my_solvers:Absent"}, r"solvers: expected an import path .*'Absent'"),
        (
            {"sampling.solver": "absent_solvers:A"},
            r"suite: solvers: expected a file absent_solvers\.py next to the suite",
        ),
        ({"sampling.solver": "broken_solvers:A"}, r"broken_solvers\.py, line 1: ZeroDivisionError"),
    ],
)
def test_what_a_training_cannot_be_sampled_with_is_refused_before_any_work(
    suite: Suite, tmp_path: Path, settings: dict[str, str], match: str
) -> None:
    (tmp_path / "broken_solvers.py").write_text("1 / 0\n")
    methods = {"mean": MethodConfig("mean"), "own": MethodConfig(config="default", settings=SETTINGS | settings)}
    with pytest.raises(TsimputeError, match=match):
        list(run_suite(plan(replace(suite, methods=methods)), tmp_path / "out"))
    assert not (tmp_path / "out" / "models").exists()

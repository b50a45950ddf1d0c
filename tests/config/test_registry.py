"""Plug-ins are found by their file name, and unknown names and options are refused with what there is."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from tiny_models import NETWORK, waves

from tsimpute.config import registry
from tsimpute.config.settings import (
    DataConfig,
    EvaluationConfig,
    ProcessConfig,
    RunConfig,
    SamplingConfig,
    TrainingConfig,
)
from tsimpute.config.yaml_files import load_config, save_config
from tsimpute.core.windows import Windows
from tsimpute.datasets.synthetic import SyntheticAirQuality
from tsimpute.errors import CheckpointError, ConfigError
from tsimpute.experiments.runs import load_windows, new_imputer, score_run, task_of, train
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.processes.diffusion import Diffusion
from tsimpute.processes.flow_matching import FlowMatching
from tsimpute.solvers.one_step import OneStep
from tsimpute.tasks.protocols import clean

KINDS = {
    "backbones": {"context_cells", "dual_transformer", "present_cells", "residual_mlp"},
    "processes": {"diffusion", "flow_matching"},
    "solvers": {"heun", "multistep", "one_step"},
    "imputers": {"generative", "mean", "median", "locf", "linear"},
    "datasets": {"densities", "physionet2012", "pm25", "synthetic", "uci"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_lists_plug_ins_and_nothing_else(kind: str):
    found = registry.available(kind)
    assert KINDS[kind] <= set(found)
    assert found == sorted(found)
    assert not {"base", "embeddings", "csdi_weights", "_simple", "_checks", "__init__"} & set(found)


def test_makes_with_options():
    assert registry.make("solvers", "one_step", eta=0.5).eta == 0.5
    assert registry.make("processes", "flow_matching").name == "flow_matching"
    assert registry.options_of("solvers", "one_step") == ["eta"]
    assert registry.options_of("solvers", "heun") == []


def test_unknown_name_lists_those_there_are():
    with pytest.raises(ConfigError, match=r"solvers: expected one of heun, multistep, one_step, .*'euler'"):
        registry.make("solvers", "euler")


def test_unknown_option_lists_those_there_are():
    with pytest.raises(ConfigError, match=r"unknown option steps; it has n_levels, beta_first, beta_last"):
        registry.make("processes", "diffusion", steps=3)
    with pytest.raises(ConfigError, match="unknown option eta; it has none"):
        registry.make("solvers", "heun", eta=0.5)


# -- from outside the package --------------------------------------------------------------------------------------


class Halves(OneStep):
    """A solver of another package."""

    name = "halves"


class Slow(FlowMatching):
    def __init__(self, path: str = "straight", pace: float = 1.0) -> None:
        super().__init__(path)  # type: ignore[arg-type]
        self.pace = pace


class Forgetful(FlowMatching):
    def __init__(self, pace: float = 1.0) -> None:
        super().__init__()


def every_other_cell(train: Windows) -> object:
    """A mask policy: the cells of even steps are shown."""

    def policy(observed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return observed & (np.arange(observed.shape[1]) % 2 == 0)

    return policy


def first_steps(windows: Windows, *, rate: float, seed: int, features: object = None) -> np.ndarray:
    """A mechanism: the first steps are hidden."""
    return windows.observed & (np.arange(windows.n_steps) < rate * windows.n_steps)


def test_an_import_path_names_a_plug_in_of_another_package():
    path = f"{__name__}:Halves"
    assert registry.plugin("solvers", path) is Halves
    assert registry.make("solvers", path, eta=0.5).eta == 0.5
    assert registry.options_of("solvers", path) == ["eta"]
    assert registry.is_known("solvers", path)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (
            "no_such_package.solvers:Best",
            r"'no_such_package\.solvers:Best': there is no module no_such_package, neither",
        ),
        ("tsimpute.no_such_module:Best", r"there is no module tsimpute\.no_such_module, neither"),
        (f"{__name__}:Best", "has no attribute 'Best'"),
        ("subprocess:Popen", "it has no solve, n_evaluations"),
        (":Best", "came ':Best'"),
    ],
)
def test_an_import_path_that_leads_nowhere_or_to_something_else_is_refused(path: str, says: str):
    with pytest.raises(ConfigError, match=says):
        registry.make("solvers", path)


def test_entry_points_of_installed_packages_are_names(monkeypatch: pytest.MonkeyPatch):
    points = [EntryPoint("halves", f"{__name__}:Halves", "tsimpute.solvers")]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == "tsimpute.solvers" else [])
    registry._entry_points.cache_clear()
    try:
        assert registry.available("solvers")[-1] == "halves"
        assert registry.make("solvers", "halves").eta == 0
        assert "halves" not in registry.available("processes")
    finally:
        monkeypatch.undo()
        registry._entry_points.cache_clear()


@pytest.mark.parametrize(
    ("kind", "given", "name", "options"),
    [
        ("solvers", "heun", "heun", {}),
        ("solvers", OneStep(0.5), "one_step", {"eta": 0.5}),
        ("solvers", Halves, f"{__name__}:Halves", {}),
        ("processes", Diffusion(n_levels=20), "diffusion", {"n_levels": 20}),
        ("processes", Diffusion, "diffusion", {}),
        ("processes", FlowMatching("trigonometric"), "flow_matching", {"path": "trigonometric"}),
        ("processes", Slow(pace=2.0), f"{__name__}:Slow", {"pace": 2.0}),
    ],
)
def test_classes_and_instances_have_names_and_options(kind: str, given: object, name: str, options: dict):
    assert registry.named(kind, given) == (name, options)
    assert type(registry.make(kind, name, **options)) is type(registry.make(kind, *registry.named(kind, given)[:1]))


def test_what_cannot_be_found_again_is_refused():
    class Inside(OneStep):
        pass

    with pytest.raises(ConfigError, match="at the top of a module"):
        registry.named("solvers", Inside())
    with pytest.raises(ConfigError, match="it has no pace"):
        registry.named("processes", Forgetful(2.0))
    with pytest.raises(ConfigError, match="it has no sample_tau"):
        registry.named("processes", OneStep())


def test_settings_take_classes_and_instances_and_files_keep_their_names(tmp_path: Path):
    config = RunConfig(
        process=ProcessConfig(Slow(pace=2.0)),  # type: ignore[arg-type]
        training=TrainingConfig(mask_policy=every_other_cell),  # type: ignore[arg-type]
        sampling=SamplingConfig(solver=Halves(0.25)),  # type: ignore[arg-type]
    )
    assert (config.process.name, config.process.options) == (f"{__name__}:Slow", {"pace": 2.0})
    assert (config.sampling.solver, config.sampling.eta) == (f"{__name__}:Halves", 0.25)
    assert config.training.mask_policy == f"{__name__}:every_other_cell"
    save_config(config, tmp_path / "run.yaml")
    assert load_config(tmp_path / "run.yaml") == config


def test_a_model_with_parts_of_another_package_is_trained_saved_and_read_again(tmp_path: Path):
    training = TrainingConfig(epochs=1, mask_policy=f"{__name__}:every_other_cell")
    imputer = GenerativeImputer(Slow(pace=2.0), NETWORK, training, SamplingConfig(solver=f"{__name__}:Halves")).fit(
        waves(), progress=False
    )
    imputer.save(tmp_path / "model.safetensors")
    found = GenerativeImputer.load(tmp_path / "model.safetensors")
    assert found.process.name == f"{__name__}:Slow"
    gaps = waves(2, seed=1)
    assert np.array_equal(found.impute(gaps, 2).values, imputer.impute(gaps, 2).values)


def test_reading_a_model_file_imports_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A file names a class of a package; who reads it has to import that package."""
    (tmp_path / "of_a_stranger.py").write_text(
        "from tsimpute.processes.flow_matching import FlowMatching\n\nclass Theirs(FlowMatching):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    process = registry.plugin("processes", "of_a_stranger:Theirs")
    imputer = GenerativeImputer(process, NETWORK, TrainingConfig(epochs=1)).fit(waves(), progress=False)
    imputer.save(tmp_path / "model.safetensors")
    monkeypatch.delitem(sys.modules, "of_a_stranger")
    with pytest.raises(CheckpointError, match=r"made with of_a_stranger:Theirs.*import of_a_stranger first"):
        GenerativeImputer.load(tmp_path / "model.safetensors")
    assert "of_a_stranger" not in sys.modules


def test_an_adapter_loads_its_records():
    assert len(load_windows(SyntheticAirQuality(n_records=3))) == len(load_windows("synthetic", n_records=3)) == 3
    assert len(load_windows("tsimpute.datasets.synthetic:SyntheticAirQuality", n_records=3)) == 3


def test_protocols_take_a_mechanism_of_another_package():
    task = clean(waves(40), rate=0.25, mechanism=f"{__name__}:first_steps", seed=1)
    assert not task.test.held_out_mask[..., 2:].any()
    assert task.test.held_out_mask[..., :2].any()
    with pytest.raises(ConfigError, match=r"mechanism: expected one of random, .*came 'holes'"):
        clean(waves(40), rate=0.25, mechanism="holes", seed=1)


def test_scoring_a_run_imports_what_its_own_settings_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "solvers_of_mine.py").write_text(
        "from tsimpute.solvers.one_step import OneStep\n\nclass Mine(OneStep):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = RunConfig(
        data=DataConfig("synthetic", options={"n_records": 20}),
        network=NETWORK,
        training=TrainingConfig(epochs=1),
        sampling=SamplingConfig("solvers_of_mine:Mine", n_steps=2),
        evaluation=EvaluationConfig(n_samples=2, max_records=2),
    )
    task = task_of(config)
    for _ in train(config, task, new_imputer(config), tmp_path / "run"):
        pass
    monkeypatch.delitem(sys.modules, "solvers_of_mine", raising=False)
    score_run(config, task, tmp_path / "run", [])
    assert "solvers_of_mine:Mine" in (tmp_path / "run" / "metrics.csv").read_text()

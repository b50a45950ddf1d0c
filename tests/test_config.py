"""Settings: what is refused, what comes back from a file, and that the shipped files are the paper's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tsimpute.config import NetworkConfig, RunConfig, SamplingConfig, TrainingConfig
from tsimpute.config_files import config_path, from_dict, save_config, shipped_configs, to_dict
from tsimpute.errors import ConfigError


@pytest.mark.parametrize(
    ("cls", "setting", "bad"),
    [
        (TrainingConfig, "epochs", 0),
        (TrainingConfig, "batch_size", 0),
        (TrainingConfig, "micro_batch", -1),
        (TrainingConfig, "devices", 0),
        (TrainingConfig, "learning_rate", 0.0),
        (TrainingConfig, "learning_rate", float("nan")),
        (TrainingConfig, "clip_norm", -1.0),
        (TrainingConfig, "weight_decay", -1e-6),
        (TrainingConfig, "decay", 0.0),
        (TrainingConfig, "ema", 1.0),
        (TrainingConfig, "milestones", (75.0,)),
        (TrainingConfig, "patience", 0),
        (TrainingConfig, "checkpoint_minutes", -1.0),
        (TrainingConfig, "precision", "16-mixed"),
        (TrainingConfig, "masks", "none"),
        (TrainingConfig, "schedule", "linear"),
        (TrainingConfig, "warmup_steps", -1),
        (TrainingConfig, "ask_unobserved", 1.5),
        (TrainingConfig, "ask_from", -0.1),
        (SamplingConfig, "n_steps", 0),
        (SamplingConfig, "grid_power", 0.5),
        (SamplingConfig, "grid_power", 2.5),
        (SamplingConfig, "rows_at_once", 0),
        (SamplingConfig, "memory_mib", 0),
        (SamplingConfig, "eta", 1.5),
        (SamplingConfig, "eta", -0.1),
    ],
)
def test_a_setting_out_of_range_is_named_with_what_was_expected(cls: Any, setting: str, bad: Any):
    with pytest.raises(ConfigError, match=rf"{setting}: expected .*came"):
        cls(**{setting: bad})


def test_a_file_gives_back_what_was_saved(tmp_path: Path):
    config = RunConfig(
        network=NetworkConfig(options={"width": 8}),
        training=TrainingConfig(epochs=3, milestones=(0.5,), ema=0.99, keep_epochs=(1, 3)),
        sampling=SamplingConfig(n_steps=7, eta=0.5),
    )
    save_config(config, tmp_path / "run.yaml")
    assert from_dict(RunConfig, yaml.safe_load((tmp_path / "run.yaml").read_text())) == config
    assert from_dict(RunConfig, to_dict(config)) == config
    assert [p.name for p in tmp_path.iterdir()] == ["run.yaml"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("training: {epoch: 3}", r"unknown key training\.epoch; expected epochs, batch_size"),
        ("trainning: {epochs: 3}", "unknown key trainning; expected data, protocol"),
        ("training: {learning_rate: 1e-3}", r"training\.learning_rate: expected float, came '1e-3'.*1\.0e-3"),
        ("training: {epochs: 2.5}", r"training\.epochs: expected int, came 2\.5"),
        ("training: {epochs: yes}", r"training\.epochs: expected int, came True"),
        ("training: {patience: soon}", r"training\.patience: expected int \| None, came 'soon'"),
        ("training: {masks: mixed}", r"training\.masks: expected .*'mix'.*came 'mixed'"),
        ("training: {milestones: 0.5}", r"training\.milestones: expected tuple"),
        ("training:", r"training: expected settings by name, came None"),
        ("process: diffusion", r"process: expected settings by name, came 'diffusion'"),
        ("network: {options: [8]}", r"network\.options: expected dict"),
        ("", "file: expected settings by name, came None"),
    ],
)
def test_a_wrong_file_is_refused_by_the_place_of_the_fault(text: str, says: str):
    with pytest.raises(ConfigError, match=says):
        from_dict(RunConfig, yaml.safe_load(text))


def test_whole_numbers_do_for_floats_and_none_where_it_is_allowed():
    config = from_dict(TrainingConfig, {"learning_rate": 1, "ema": None, "milestones": [0.5, 0.75]})
    assert (config.learning_rate, config.ema, config.milestones) == (1, None, (0.5, 0.75))


def test_shipped_configs_are_the_papers_and_differ_only_where_they_should():
    assert len(shipped_configs()) >= 4
    for name in ("physionet2012_flow_matching", "physionet2012_diffusion", "pm25_flow_matching", "pm25_diffusion"):
        config = from_dict(RunConfig, yaml.safe_load(config_path(name).read_text()))
        training = config.training
        assert f"{config.data.name}_{config.process.name}" == name
        assert (training.epochs, training.batch_size, training.learning_rate) == (200, 16, 1e-3)
        assert (training.weight_decay, training.clip_norm, training.decay) == (1e-6, 2.0, 0.1)
        assert training.milestones == (0.75, 0.9)
        assert config.protocol.name == "csdi"
    physionet = [
        from_dict(RunConfig, yaml.safe_load(config_path(f"physionet2012_{p}").read_text()))
        for p in ("flow_matching", "diffusion")
    ]
    assert replace(physionet[0], process=physionet[1].process, sampling=physionet[1].sampling) == physionet[1]


def test_config_path_takes_a_file_or_a_shipped_name(tmp_path: Path):
    own = tmp_path / "own.yaml"
    own.write_text("{}")
    assert config_path(str(own)) == own
    assert config_path("pm25_diffusion").is_file()
    with pytest.raises(ConfigError, match=r"pm25_diffusion.*came 'pm26'"):
        config_path("pm26")

"""Settings: what is refused, what comes back from a file, and that the shipped files are the paper's."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tsimpute.cli.commands import _parse, _run_config, main
from tsimpute.config.settings import NetworkConfig, RunConfig, SamplingConfig, TrainingConfig
from tsimpute.config.yaml_files import (
    config_path,
    from_dict,
    load_config,
    load_yaml,
    save_config,
    shipped_configs,
    to_dict,
)
from tsimpute.errors import ConfigError
from tsimpute.suites.settings import load_suite


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
        (TrainingConfig, "mask_policy", "none"),
        (TrainingConfig, "schedule", "linear"),
        (TrainingConfig, "warmup_steps", -1),
        (TrainingConfig, "query_unobserved", 1.5),
        (TrainingConfig, "query_from", -0.1),
        (TrainingConfig, "max_steps", 0),
        (TrainingConfig, "max_steps", 1.5),
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
        ("training: {learning_rate: fast}", r"training\.learning_rate: expected float, came 'fast'"),
        ("training: {epochs: 010}", r"training\.epochs: expected int, came '010'"),
        ("training: {epochs: 1:30}", r"training\.epochs: expected int, came '1:30'"),
        ("training: {epochs: 1e1}", r"training\.epochs: expected int, came 10\.0"),
        ("3: {epochs: 1}", r"unknown key 3; expected data, protocol"),
        ("training: {epochs: 2.5}", r"training\.epochs: expected int, came 2\.5"),
        ("training: {epochs: yes}", r"training\.epochs: expected int, came True"),
        ("training: {patience: soon}", r"training\.patience: expected int \| None, came 'soon'"),
        ("training: {mask_policy: mixed}", r"training\.mask_policy: expected .*mix, .*came mixed"),
        ("training: {milestones: 0.5}", r"training\.milestones: expected tuple"),
        ("training:", r"training: expected settings by name, came None"),
        ("process: diffusion", r"process: expected settings by name, came 'diffusion'"),
        ("network: {options: [8]}", r"network\.options: expected dict"),
        ("", "file: expected settings by name, came None"),
    ],
)
def test_a_wrong_file_is_refused_by_the_place_of_the_fault(text: str, says: str):
    with pytest.raises(ConfigError, match=says):
        from_dict(RunConfig, load_yaml(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001), ("1.0e-3", 0.001), ("1E+5", 1e5), ("-.5", -0.5), ("2.", 2.0), (".inf", float("inf")),
        ("7", 7), ("-7", -7), ("0", 0), ("010", "010"), ("0x1F", "0x1F"), ("1_000", "1_000"), ("12:30", "12:30"),
        ("2020-01-01", "2020-01-01"), ("1e", "1e"), ("1e-3x", "1e-3x"), ("true", True), ("null", None), ("[1]", [1]),
    ],
)  # fmt: skip
def test_a_number_is_decimal_and_what_is_no_number_is_text(text: str, value: object):
    found = load_yaml(text)
    assert (found, type(found)) == (value, type(value))


@given(
    st.dictionaries(
        st.text(max_size=4), st.text("0123456789eE+-._:xnulotrsy~= ", max_size=6) | st.floats(allow_nan=False)
    )
)
def test_options_come_back_as_they_were_saved(options: dict[str, Any]):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.yaml"
        save_config(RunConfig(network=NetworkConfig(options=options)), path)
        assert load_config(path).network.options == options


FAULTS = [
    ("training:\n  epochs: 3\n  epochs: 5\n", r"line 3: .*'epochs' is given twice"),
    ("training: {epochs: 3}\ntraining: {batch_size: 8}\n", r"line 2: .*'training' is given twice"),
    ("network: {options: {width: 8, width: 16}}\n", r"line 1: .*'width' is given twice"),
    ("training: {epochz: 3}\n", r"unknown key training\.epochz; expected epochs"),
    ("trainning: {epochs: 3}\n", r"unknown key trainning; expected data, protocol"),
    ("training: {epochs: three}\n", r"training\.epochs: expected int, came 'three'"),
    ("training: [1\n", r"line 2: expected a YAML file of settings; expected ',' or '\]'"),
    ("- training\n", r"expected settings by name, came list"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says"), FAULTS)
def test_the_command_line_and_python_refuse_a_file_in_the_same_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says) as error:
        load_config(path)
    assert str(path) in str(error.value)
    with pytest.raises(SystemExit) as stop:
        main(["train", "--config", str(path), "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    assert capsys.readouterr().err == f"tsimpute train: {error.value}\n"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("methods: {m: {imputer: mean}, m: {imputer: linear}}\ntasks: {t: {}}\n", r"line 1: .*'m' is given twice"),
        ("tasks: {t: {}}\ntasks: {u: {}}\n", r"line 2: .*'tasks' is given twice"),
        ("methods: {m: {imputer: mean, sed: 1}}\ntasks: {t: {}}\n", r"unknown key methods\.m\.sed; expected imputer"),
        ("methods: {m: {imputer: mean}}\ntasks: {t: {rate: 1}}\n", r"unknown key tasks\.t\.rate; expected data"),
        ("methods: {m: {imputer: mean}}\ntasks: {t: {}}\nsed: 1\n", r"unknown key sed; expected title"),
        ("methods: {m: {imputer: mean}}\ntasks: {t: {n_samples: 1e1}}\n", r"tasks\.t\.n_samples: .*came 10\.0"),
    ],
)
def test_a_suite_is_refused_in_the_words_of_a_config(tmp_path: Path, text: str, says: str):
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says) as error:
        load_suite(path)
    assert str(path) in str(error.value)


def test_a_suite_reads_numbers_as_a_config_does(tmp_path: Path):
    (tmp_path / "suite.yaml").write_text(
        "tasks: {t: {protocol: {rate: 1e-1}}}\n"
        "methods: {m: {config: default, settings: {training.learning_rate: 1e-3}}}\n"
    )
    suite = load_suite(tmp_path / "suite.yaml")
    assert (suite.tasks["t"].protocol.rate, suite.methods["m"].settings) == (0.1, {"training.learning_rate": 0.001})


def test_the_command_line_and_python_read_the_same_values(tmp_path: Path):
    path = tmp_path / "run.yaml"
    path.write_text(
        "training: {learning_rate: 1e-3, ema: .5, milestones: [5e-1, 0.75]}\n"
        "network: {options: {a: 1e-1, b: [08:30, x]}}"
    )
    _, options = _parse(["train", "--config", str(path), "--out", "x"])
    assert _run_config(options) == load_config(path)
    assert load_config(path).training.learning_rate == 0.001
    assert load_config(path).network.options == {"a": 0.1, "b": ["08:30", "x"]}
    _, options = _parse(
        [
            "train",
            "--config",
            str(path),
            "--out",
            "x",
            "--training.learning_rate",
            "2e-3",
            "--network.options",
            "{a: 1e1}",
        ]
    )
    assert options.training.learning_rate == 0.002
    assert options.network.options == {"a": 10.0}


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
        assert config.network.options["dropout"] == 0.1
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

"""The command line as a user meets it: a whole run on generated data, its help, and its answers to bad input."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from tiny_models import NETWORK, waves

from tsimpute.cli.commands import COMMANDS, EXAMPLES, main
from tsimpute.config.settings import SamplingConfig, TrainingConfig
from tsimpute.config.yaml_files import shipped_configs
from tsimpute.core.limits import Limits
from tsimpute.evaluation.reporting import Report
from tsimpute.experiments.runs import fill_gaps, load_windows
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.scaling.standardizer import Standardizer

TINY = [
    "--data.options", "{n_records: 40, n_steps: 12}", "--protocol.rate", "0.2",
    "--network.options", "{width: 8, n_heads: 2, n_blocks: 1}", "--training.micro_batch", "16",
    "--sampling.n_steps", "2", "--evaluation.n_samples", "4", "--evaluation.max_records", "3",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run of two epochs, scored after both."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    main(["train", "--out", str(folder), "--training.epochs", "2", "--evaluation.at_epochs", "[1,2]", *TINY])
    return folder


def test_train_leaves_models_losses_metrics_and_curves(run: Path) -> None:
    found = {path.name for path in run.iterdir()}
    assert found >= {
        "config.yaml",
        "run.json",
        "epochs.csv",
        "last.safetensors",
        "metrics.csv",
        "tables.md",
        "curves.png",
    }
    described = (Path(__file__).parents[2] / "docs" / "reference" / "file_formats.md").read_text(encoding="utf-8")
    plain = {re.sub(r"epoch-\d+", "epoch-*", name) for name in found if not name.startswith(".")}
    assert plain >= {"best.safetensors", "state.pt", "epoch-*.safetensors"}
    assert [name for name in plain if f"`{name}`" not in described] == []
    report = Report.read(run)
    assert {row.epoch for row in report.rows} == {1, 2}
    assert {row.protocol for row in report.rows} == {"clean"}
    assert {row.split for row in report.rows} == {"test[:3]"}


def test_train_again_changes_nothing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run / "last.safetensors").read_bytes()
    main(["train", "--out", str(run), "--training.epochs", "2", "--evaluation.at_epochs", "[1,2]", *TINY])
    assert (run / "last.safetensors").read_bytes() == before
    assert "all 2 epochs done" in capsys.readouterr().out


def test_evaluate_adds_baselines_and_keeps_what_was_there(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["evaluate", str(run), "--epochs", "2", "--baselines"])
    report = Report.read(run)
    assert {row.imputer for row in report.rows} == {"mean", "median", "locf", "linear", "flow_matching"}
    assert {row.epoch for row in report.rows} == {None, 1, 2}
    assert (run / "records_flow_matching.png").stat().st_size > 10_000
    assert "linear" in capsys.readouterr().out


def test_draw_writes_a_table_with_the_observed_values(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "filled.csv"
    main([
        "draw", str(run / "last.safetensors"), "--data.options", "{n_records: 40, n_steps: 12}",
        "--records", "synthetic-00003,synthetic-00001", "--n_samples", "5", "--quantiles", "0.25,0.75",
        "--sampling.n_steps", "1", "--out", str(out),
    ])  # fmt: skip
    frame = pd.read_csv(out)
    assert list(frame.record.unique()) == ["synthetic-00003", "synthetic-00001"]
    windows = load_windows("synthetic", n_records=40, n_steps=12).named(["synthetic-00003", "synthetic-00001"])
    values, there = np.moveaxis(windows.values, 1, 2).ravel(), (frame.provenance == "observed").to_numpy()
    np.testing.assert_array_equal(there, ~np.isnan(values))
    for level in ("q0.25", "q0.75"):
        np.testing.assert_allclose(frame[level][there], values[there], rtol=1e-12)
    assert (frame["q0.25"] <= frame["q0.75"]).all()
    assert (frame[frame.provenance == "imputed"]["q0.25"] < frame[frame.provenance == "imputed"]["q0.75"]).any()


def test_draw_takes_a_gaussian_process_and_bundled_models_by_name(tmp_path: Path) -> None:
    windows = load_windows("synthetic", n_records=40, n_steps=12)
    process = GaussianImputer(settings={"n_rounds": 2}).fit(replace(windows, held_out=None))
    process.save(tmp_path / "process")
    data = ["--data.options", "{n_records: 40, n_steps: 12}", "--records", "synthetic-00003", "--n_samples", "19"]
    main(["draw", str(tmp_path / "process"), *data, "--out", str(tmp_path / "filled.csv")])
    frame = pd.read_csv(tmp_path / "filled.csv")
    expected = process.impute(replace(windows, held_out=None).named(["synthetic-00003"]), 19)
    medians = np.moveaxis(expected.quantile([0.5])[0], 1, 2).ravel()
    imputed = (frame.provenance == "imputed").to_numpy()
    assert imputed.any()
    np.testing.assert_allclose(frame["q0.5"][imputed], medians[imputed], rtol=1e-6)
    with pytest.raises(SystemExit, match="features: expected the 35 learnt in fit"):
        main(["draw", "physionet2012", *data, "--out", str(tmp_path / "other.csv")])
    with pytest.raises(SystemExit, match="--sampling: expected none, as physionet2012 is a Gaussian process"):
        main(["draw", "physionet2012", *data, "--sampling.n_steps", "2", "--out", str(tmp_path / "other.csv")])
    assert not (tmp_path / "other.csv").exists()


def test_values_outside_a_models_limits_are_hidden_from_it_and_stay_as_they_are() -> None:
    windows = waves()
    low, high = np.nanquantile(windows.values[:, 0], [0.2, 1])
    values = windows.values.copy()
    values[:, 0][values[:, 0] < low] = np.nan
    bounded = replace(windows, values=values)
    imputer = GenerativeImputer("flow_matching", NETWORK, TrainingConfig(epochs=1), SamplingConfig(n_steps=1))
    limits = {"HR": Limits(float(low), float(high) + 1)}
    for _ in imputer.fit_steps(bounded, scaler=Standardizer.fit(bounded, limits)):
        pass
    parts, n_outside = fill_gaps(imputer, windows, n_samples=2, seed=0)
    samples = list(parts)
    shown, below = windows.visible, windows.visible[:, 0] & (windows.values[:, 0] < low)
    assert n_outside == below.sum() > 0
    assert (np.concatenate([record.visible for record in samples]) == shown).all()
    values = np.concatenate([record.values for record in samples], 1)
    assert (values[:, shown] == windows.values[shown]).all()
    hidden = imputer.impute(bounded, 2, fill=~shown).values
    assert (values[:, ~shown] == hidden[:, ~shown]).all()


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_has_an_example_that_parses(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*command.split(), "--help"])
    assert stop.value.code == 0
    assert "Example: tsimpute" in " ".join(capsys.readouterr().out.split())
    assert f"{EXAMPLES[command]} ".startswith(f"tsimpute {command} ")


@pytest.mark.parametrize(
    ("native", "says"), [("1", "(in use, compiled on this computer|not in use)"), ("0", "switched off by TSIMPUTE")]
)
def test_doctor_names_versions_and_what_is_compiled(
    native: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TSIMPUTE_NATIVE", native)
    monkeypatch.setenv("TSIMPUTE_DATA", str(tmp_path / "nowhere"))
    main(["doctor"])
    lines = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
    assert "torch 2." in lines["packages"]
    assert re.search(says, lines["compiled attention"])
    assert "nowhere, which does not exist" in lines["raw data"]
    assert f"TSIMPUTE_NATIVE={native}" in lines["variables"]


@pytest.mark.parametrize("words", [["--help"], ["impute", "--help"]])
def test_help_answers_without_torch(words: list[str]) -> None:
    code = (
        "import sys\nfrom tsimpute.cli.commands import main\n"
        f"try: main({words})\nexcept SystemExit: pass\n"
        "print('LOADED', [m for m in ('torch', 'matplotlib', 'tsdb', 'pygrinder', 'pandas') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "LOADED []" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["describe", "nonsense"],
            "nonsense: expected the file of a table, or a data set (densities, physionet2012, pm25, synthetic, uci)",
        ),
        (["describe", "pm25", "--root", "/nowhere"], "pm25_ground.txt"),
        (["draw", "/nowhere/model.safetensors", "--out", "x.csv"], "expected a model file"),
        (["draw", "model.safetensors", "--out", "x.docx"], ".csv or .nc"),
        (["train", "--out", "x", "--protocol.rate", "1.5"], "rate"),
    ],
)
def test_expected_failures_end_in_one_message(arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit, match=r"^tsimpute ") as stop:
        main(arguments)
    assert message in str(stop.value)


def test_a_start_file_that_cannot_be_started_from_is_refused_before_the_data_are_read(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*args: object, **options: object) -> None:
        raise AssertionError("the data were read")

    monkeypatch.setattr("tsimpute.experiments.runs.load_windows", read)
    damaged, model = tmp_path / "damaged.safetensors", run / "last.safetensors"
    damaged.write_bytes(model.read_bytes()[:-100])
    out = ["train", "--out", str(tmp_path / "new"), *TINY, "--training.start_from"]
    for words, message in (
        ([str(tmp_path / "none.safetensors")], "start_from: expected a model file, came no file"),
        ([str(damaged)], "damaged"),
        ([str(model), "--network.options.width", "16"], "expected a model of the network that is trained"),
        ([str(model), "--process.name", "diffusion"], "expected a model of the process that is trained"),
        ([str(model), "--training.objective", "crps", "--sampling.solver", "one_step", "--sampling.eta", "1"],
         "expected deterministic samplers"),
        ([str(model), "--sampling.solver", "heunn"], "solvers: expected one of heun"),
    ):  # fmt: skip
        with pytest.raises(SystemExit, match=r"^tsimpute train: ") as stop:
            main([*out, *words])
        assert message in str(stop.value)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sampling.solver", "heunn"], "solvers: expected one of heun, .*; came 'heunn'"),
        (["--sampling.solver", "heun", "--sampling.eta", "0.5"], r"sampling\.eta: solver heun is deterministic"),
        (["--sampling.device", "foo"], r"sampling\.device: expected cpu.*; came 'foo'"),
        (["--process.name", "flow"], "processes: expected one of .*; came 'flow'"),
    ],
)
def test_a_sampler_that_there_is_not_is_refused_before_training(words: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=f"^tsimpute train: {message}"):
        main(["train", "--out", str(tmp_path / "run"), *TINY, *words])
    assert not (tmp_path / "run").exists()


def test_plug_ins_are_looked_for_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    words = ["train", "--out", "run", "--training.epochs", "1", *TINY]
    absent = re.escape("mechanisms: 'mech_here:few': there is no module mech_here, neither among the installed")
    with pytest.raises(SystemExit, match=rf"{absent} packages nor in .*{re.escape(str(tmp_path))}"):
        main([*words, "--protocol.mechanism", "mech_here:few"])
    Path("mech_here.py").write_text("from tsimpute.tasks.missingness import random_cells as few\n")
    Path("solvers_here.py").write_text("from tsimpute.solvers.heun import Heun as Mine\n")
    main([*words, "--protocol.mechanism", "mech_here:few", "--sampling.solver", "solvers_here:Mine"])
    main(["evaluate", "run"])
    assert {row.mechanism for row in Report.read(tmp_path / "run").rows} == {"mech_here:few"}
    monkeypatch.delitem(sys.modules, "mech_here")
    monkeypatch.delitem(sys.modules, "solvers_here")


def test_shipped_configs_are_the_papers_settings() -> None:
    import yaml

    from tsimpute.config.settings import RunConfig
    from tsimpute.config.yaml_files import config_path, from_dict

    papers = [name for name in shipped_configs() if not name.endswith(("_laptop", "_bounded"))]
    assert len(papers) == 4
    for name in papers:
        config = from_dict(RunConfig, yaml.safe_load(config_path(name).read_text(encoding="utf-8")))
        training = config.training
        assert (training.epochs, training.batch_size, training.learning_rate) == (200, 16, 1e-3)
        assert (training.weight_decay, training.clip_norm, training.mask_policy) == (1e-6, 2.0, "mix")
        assert config.sampling.n_steps == (100 if config.process.name == "flow_matching" else 50)
        assert name == f"{config.data.name}_{config.process.name}"


def test_evaluate_takes_the_runs_own_config_wherever_the_folder_stands(run: Path) -> None:
    before = Report.read(run)
    main(["evaluate", "--baselines", str(run)])
    after = Report.read(run)
    assert {row.n_records for row in after.where(feature="all").rows} == {3}
    assert len(after.rows) >= len(before.rows)


def test_a_refused_run_leaves_the_record_of_the_first_one(run: Path) -> None:
    kept = {name: (run / name).read_bytes() for name in ("config.yaml", "run.json")}
    with pytest.raises(SystemExit, match="other settings"):
        main(["train", "--out", str(run), "--training.epochs", "2", *TINY, "--protocol.fold", "1"])
    assert {name: (run / name).read_bytes() for name in kept} == kept


def test_records_that_the_model_saw_are_not_scored(run: Path) -> None:
    before = (run / "metrics.csv").read_bytes()
    with pytest.raises(SystemExit, match="the model has seen"):
        main(["evaluate", str(run), "--protocol.fold", "1"])
    assert (run / "metrics.csv").read_bytes() == before


def test_an_epoch_that_was_not_kept_is_named_with_those_that_were(run: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"no model 'epoch-0007'; kept are best, epoch-0001, epoch-0002, last"):
        main(["evaluate", str(run), "--epochs", "7"])
    part = tmp_path / "run"
    shutil.copytree(run, part)
    (part / "epoch-0001.safetensors").unlink()
    with pytest.raises(SystemExit, match=r"no model 'epoch-0001'; kept are best, epoch-0002, last"):
        main(["evaluate", str(part), "--evaluation.at_epochs", "[1]"])


def test_evaluate_scores_the_epochs_that_at_epochs_asks_for(run: Path, tmp_path: Path) -> None:
    main(["evaluate", str(run), "--evaluation.at_epochs", "[1]", "--out", str(tmp_path)])
    assert {row.epoch for row in Report.read(tmp_path).rows} == {1}


def test_draw_keeps_values_that_a_data_set_holds_out_for_scoring(tmp_path: Path) -> None:
    samples = Path(__file__).parents[2] / "datasets" / "samples" / "pm25"
    windows = load_windows("pm25", samples, window_steps=6)
    assert windows.held_out_mask.any()
    out, record = tmp_path / "filled.csv", windows.record_ids[int(windows.held_out_mask.any((1, 2)).argmax())]
    data = ["--data.name", "pm25", "--data.root", str(samples), "--data.options", "{window_steps: 6}"]
    main(
        ["train", "--out", str(tmp_path / "run"), "--training.epochs", "1", *data, "--protocol.rate", "null", *TINY[4:]]
    )
    model = str(tmp_path / "run" / "last.safetensors")
    main(["draw", model, *data, "--records", record, "--n_samples", "2", "--sampling.n_steps", "1", "--out", str(out)])
    frame = pd.read_csv(out)
    values = windows.named([record]).values[0].T.reshape(-1)
    assert (frame.provenance == "observed").sum() == np.isfinite(values).sum()
    assert (frame["q0.5"][np.isfinite(values)].to_numpy() == values[np.isfinite(values)]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--out", "x", "--training.epochs", "0"], "training.epochs: expected a whole number from 1"),
        (["train", "--out", "x", "--training.epochs", "1", "--evaluation.at_epochs", "[1,7]"], "epochs from 1 to 1"),
        (["train", "--out", __file__, "--training.epochs", "1"], "is a file"),
        (["train", "--out", "x", "--training.accelerator", "cuda"], "training.accelerator"),
        (["draw", "m", "--out", "x.csv", "--quantiles", "2"], "levels in [0, 1]"),
        (["draw", "m", "--out", "x.csv", "--quantiles", ""], "came none"),
        (["draw", "m", "--out", "x.csv", "--sampling.n_steps", "0"], "sampling.n_steps"),
        (["evaluate", "nowhere"], "expected a folder with a config.yaml"),
    ],
)
def test_settings_out_of_range_end_in_one_message(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "cuda" in arguments and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"^tsimpute ") as stop:
        main(arguments)
    assert message in str(stop.value)
    assert not list(tmp_path.iterdir())

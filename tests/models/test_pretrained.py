"""Models that come with the package: they load, fill, and their cards tell what was measured."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tsimpute.config.settings import DataConfig, EvaluationConfig, ProtocolConfig, RunConfig
from tsimpute.core.windows import Windows
from tsimpute.datasets._physionet_variables import LIMITS
from tsimpute.errors import CheckpointError, ConfigError
from tsimpute.experiments.runs import load_windows, score, task_of
from tsimpute.filling.imputer.saved_tables import read_saved
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.models import pretrained

ROOT = Path(__file__).parents[2]


RUNS = {
    "physionet2012": ("bundled_process", "gaussian"),
    "physionet2012_cfmi": ("bundled", "flow_matching"),
}
"""Of each model the folder of what was measured, and the imputer's name there."""
every_model = pytest.mark.parametrize("name", pretrained.names())


@every_model
def test_each_model_loads_and_has_a_card_of_data_licence_protocol_measures_and_limits(name: str) -> None:
    imputer = read_saved(pretrained.model_path(name)).model
    assert isinstance(imputer, GaussianImputer if name == "physionet2012" else GenerativeImputer)
    assert imputer.n_steps_ == 48
    assert pretrained.model_path(name).stat().st_size < 2_000_000
    text = pretrained.card(name)
    assert text.startswith(f"# {name}\n")
    for section in ("**Use.**", "**Data.**", "**Protocol.**", "**Measured**", "**Limits.**", "**Licence**"):
        assert section in text
    if isinstance(imputer, GenerativeImputer):
        assert f"{sum(p.numel() for p in imputer.network_.parameters()) // 1000},000 weights" in text


def measured(name: str, imputer: str, split: str = "test") -> dict[str, float]:
    """By metric, of all features at cells hidden at random, with these queried alone."""
    with (ROOT / "results/physionet2012" / RUNS[name][0] / "metrics.csv").open(encoding="utf-8") as file:
        wanted = {"feature": "all", "split": split, "mechanism": "random", "imputer": imputer, "fill": "scored"}.items()
        return {r["metric"]: float(r["value"]) for r in csv.DictReader(file) if r["value"] and wanted <= r.items()}


@every_model
def test_the_card_tells_the_metrics_that_are_kept(name: str) -> None:
    scored, linear = measured(name, RUNS[name][1]), measured(name, "linear")
    text = pretrained.card(name).replace("\n", " ")
    for says in (
        f"CRPS {scored['crps']:.3f}", f"nCRPS {scored['ncrps']:.3f}", f"MAE {scored['mae_median']:.3f}",
        f"RMSE {scored['rmse_mean']:.3f}", f"50 % intervals hold {100 * scored['coverage_50']:.1f} %",
        f"90 % intervals {100 * scored['coverage_90']:.1f} %",
        f"MAE {linear['mae_median']:.3f}, RMSE {linear['rmse_mean']:.3f}",
    ):  # fmt: skip
        assert says in text, says


def test_the_cards_tell_the_errors_where_gaps_are_the_stays_own() -> None:
    with (ROOT / "results/physionet2012/bundled_process/own_gaps.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    mae = {(row["model"], row["imputer"]): f"{float(row['MAE']):.3f}" for row in rows}
    process, network = mae["physionet2012", "gaussian"], mae["physionet2012_cfmi", "flow_matching"]
    text = pretrained.card("physionet2012").replace("\n", " ")
    assert f"MAE {process}" in text
    assert network in text
    assert mae["physionet2012", "linear interpolation"] in text


def test_the_process_is_the_one_that_was_measured(data_root: Path) -> None:
    windows = load_windows("physionet2012", data_root)
    protocol = ProtocolConfig(name="clean", rate=0.1, limits="card")
    config = RunConfig(DataConfig("physionet2012"), protocol, evaluation=EvaluationConfig(20, 20))
    task = task_of(config, windows)
    process = GaussianImputer.load(pretrained.model_path("physionet2012"))
    assert process.scaler_.to_dict() == task.scaler.to_dict()
    report, expected = score(config, task, process), measured("physionet2012", "gaussian", "test[:20]")
    for metric in ("crps", "mae_median", "rmse_mean"):
        assert report.value(metric) == pytest.approx(expected[metric], rel=1e-6)


def test_a_network_is_not_read_from_the_file_of_a_process() -> None:
    with pytest.raises(CheckpointError, match="expected a network, came a model of imputer 'gaussian'"):
        GenerativeImputer.load(pretrained.model_path("physionet2012"))


def test_the_weights_are_those_of_the_run_that_was_measured() -> None:
    shipped = GenerativeImputer.load(pretrained.model_path("physionet2012_cfmi"))
    measured = GenerativeImputer.load(ROOT / "results/physionet2012/bundled/model.safetensors")
    for a, b in zip(shipped.network_.state_dict().values(), measured.network_.state_dict().values(), strict=True):
        assert a.equal(b)
    assert shipped.scaler_.to_dict() == measured.scaler_.to_dict()
    np.testing.assert_equal(shipped.n_steps_, 48)


@every_model
def test_what_it_draws_lies_within_the_limits_of_the_data_sets_card(name: str) -> None:
    imputer: Any = read_saved(pretrained.model_path(name)).model
    values = np.full((2, 35, 48), np.nan)
    rng = np.random.default_rng(0)
    for k, feature in enumerate(imputer.features_):
        low, high = LIMITS[feature.name].bounds
        steps = rng.choice(48, 4, replace=False)
        values[0, k, steps] = [low, high, low, high]  # as near to the edge as can be
    times = np.tile(np.arange(48.0), (2, 1))
    draws = imputer.impute(Windows(values, times, imputer.features_, ("edge", "empty")), 20).values
    assert np.isfinite(draws).all()
    for k, feature in enumerate(imputer.features_):
        assert not LIMITS[feature.name].outside(draws[:, :, k]).any(), feature.name
    gcs = draws[:, :, [f.name for f in imputer.features_].index("GCS")]
    np.testing.assert_array_equal(gcs, np.rint(gcs))


def test_a_name_or_a_path_is_found_and_anything_else_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    path.write_bytes(b"")
    assert pretrained.model_path(path) == path
    with pytest.raises(
        ConfigError, match="expected a file or one of physionet2012, physionet2012_cfmi; came 'physionet'"
    ):
        pretrained.model_path("physionet")
    with pytest.raises(ConfigError, match="expected one of physionet2012"):
        pretrained.card("mine")

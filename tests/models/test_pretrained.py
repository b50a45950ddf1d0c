"""Models that come with the package: they load, fill, and their cards tell what was measured."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from tsimpute.core.windows import Windows
from tsimpute.datasets._physionet_variables import LIMITS
from tsimpute.errors import ConfigError
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.models import pretrained

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", pretrained.names())
def test_each_model_loads_and_has_a_card_of_data_licence_protocol_measures_and_limits(name: str) -> None:
    imputer = GenerativeImputer.load(pretrained.model_path(name))
    assert imputer.n_steps_ > 1
    assert pretrained.model_path(name).stat().st_size < 2_000_000
    text = pretrained.card(name)
    for section in ("**Use.**", "**Data.**", "**Protocol.**", "**Measured**", "**Limits.**", "**Licence**"):
        assert section in text
    assert f"{sum(p.numel() for p in imputer.network_.parameters()) // 1000},000 weights" in text


def test_the_physionet_card_tells_the_metrics_that_are_kept() -> None:
    with (ROOT / "results/physionet2012/bundled/metrics.csv").open(encoding="utf-8") as file:
        all_stays = {"feature": "all", "split": "test", "mechanism": "random"}.items()
        rows = [r for r in csv.DictReader(file) if r["value"] and all_stays <= r.items()]
    scored = {r["metric"]: float(r["value"]) for r in rows if r["imputer"] == "flow_matching"}
    linear = {r["metric"]: float(r["value"]) for r in rows if r["imputer"] == "linear"}
    text = pretrained.card("physionet2012").replace("\n", " ")
    for says in (
        f"CRPS {scored['crps']:.3f}", f"nCRPS {scored['ncrps']:.3f}", f"MAE {scored['mae_median']:.3f}",
        f"RMSE {scored['rmse_mean']:.3f}", f"50 % intervals hold {100 * scored['coverage_50']:.1f} %",
        f"90 % intervals {100 * scored['coverage_90']:.1f} %",
        f"MAE {linear['mae_median']:.3f}, RMSE {linear['rmse_mean']:.3f}",
    ):  # fmt: skip
        assert says in text, says


def test_the_weights_are_those_of_the_run_that_was_measured() -> None:
    shipped = GenerativeImputer.load(pretrained.model_path("physionet2012"))
    measured = GenerativeImputer.load(ROOT / "results/physionet2012/bundled/model.safetensors")
    for a, b in zip(shipped.network_.state_dict().values(), measured.network_.state_dict().values(), strict=True):
        assert a.equal(b)
    assert shipped.scaler_.to_dict() == measured.scaler_.to_dict()
    np.testing.assert_equal(shipped.n_steps_, 48)


def test_what_it_draws_lies_within_the_limits_of_the_card() -> None:
    imputer = GenerativeImputer.load(pretrained.model_path("physionet2012"))
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
    with pytest.raises(ConfigError, match="expected a file or one of physionet2012; came 'physionet'"):
        pretrained.model_path("physionet")
    with pytest.raises(ConfigError, match="expected one of physionet2012"):
        pretrained.card("mine")

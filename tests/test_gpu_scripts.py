"""``scripts/gpu``: what it computes for a GPU against the package, and its way from data to a model file, on a CPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import tsimpute as ti
from tsimpute.config.registry import make
from tsimpute.core.containers import Batch
from tsimpute.gaussian.process import GaussianBase
from tsimpute.generative.objective import loss_per_record, squared_errors
from tsimpute.imputers.generative import GenerativeImputer

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts" / "gpu"))

from convert import convert  # type: ignore[import-not-found]
from loss import Levels, batch_loss  # type: ignore[import-not-found]
from posterior import Posterior  # type: ignore[import-not-found]
from prepare import prepare  # type: ignore[import-not-found]
from records import Resident, model_of, random_targets  # type: ignore[import-not-found]
from train import Job, run  # type: ignore[import-not-found]

from tsimpute.backbones.context_grid import ContextGrid

CPU = torch.device("cpu")
SMALL = {"width": 8, "n_heads": 2, "n_blocks": 2}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("gpu") / "data.npz"
    prepare(out, "synthetic", rate=0.2, base="gaussian", base_folds=2)
    return out


@pytest.fixture(scope="module")
def arrays(prepared: Path) -> dict[str, np.ndarray]:
    with np.load(prepared) as file:
        return dict(file)


@pytest.fixture
def records(arrays: dict[str, np.ndarray]) -> Resident:
    few = {name: x[:3] if name.startswith("train_") else x for name, x in arrays.items()}
    few["fold_of"] = np.array([0, 0, 1])
    return Resident(few, "train", "mix", 2, CPU)


@pytest.mark.parametrize("apart", [None, "apart1."])
def test_posteriors_are_those_of_the_base(arrays: dict[str, np.ndarray], apart: str | None) -> None:
    base, other = model_of(arrays, "base."), None if apart is None else model_of(arrays, apart)
    values, shown = (torch.from_numpy(arrays[f"train_{name}"][:3]) for name in ("values", "shown"))
    known = random_targets(shown, torch.Generator().manual_seed(0))
    mean, spread = Posterior(base, other, values.shape[2], CPU)(values, known)
    times = arrays["train_times"][:3]
    expected = GaussianBase(base, other).of(values.numpy(), known.numpy(), times, ~known.numpy())
    np.testing.assert_allclose(mean, expected.mean, atol=1e-5)
    np.testing.assert_allclose(spread, expected.spread, atol=1e-5)


def test_random_targets_hide_any_share() -> None:
    shown = torch.rand(400, 4, 10, generator=torch.Generator().manual_seed(0)) < 0.5
    left = random_targets(shown, torch.Generator().manual_seed(1))
    assert not (left & ~shown).any()
    share = 1 - left.flatten(1).sum(1) / shown.flatten(1).sum(1)
    assert share.min() > 0
    assert (share.quantile(torch.tensor([0.1, 0.5, 0.9])) - torch.tensor([0.1, 0.5, 0.9])).abs().max() < 0.06


@pytest.mark.parametrize("with_process", [False, True])
@pytest.mark.parametrize(
    ("process", "options", "asks"),
    [
        ("flow_matching", {}, False),
        ("flow_matching", {}, True),
        ("flow_matching", {"path": "trigonometric"}, False),
        ("flow_matching", {"path": "trigonometric"}, True),
        ("diffusion", {}, False),  # of which nothing is asked in training
    ],
)
def test_the_loss_is_that_of_the_package(
    records: Resident, process: str, options: dict[str, str], with_process: bool, asks: bool
) -> None:
    of = make("processes", process, **options)
    n_features = records.values.shape[1]
    network = ContextGrid(n_features, max_frequency=of.tau_frequency, with_spread=with_process, **SMALL)
    torch.nn.init.normal_(network.leave.weight)
    mask, index, masks = records.mask(records.visible), torch.arange(3), torch.tensor([0, 1, 1])
    base, spread, given_all = None, None, (None, None)
    values = records.values
    if with_process:
        assert records.pool is not None
        assert records.given_all is not None
        mask, base, spread = (x[index * 2 + masks] for x in records.pool)
        given_all = records.given_all
        values = (values - base * records.visible) / torch.where(records.visible, spread, 1.0)
    else:
        records.pool = records.given_all = None
        records.mask = lambda shown: mask  # type: ignore[method-assign]
    ask = torch.tensor([True, False, True]) if asks else None
    uniform, noise = torch.rand(3, dtype=torch.float64), torch.randn(values.shape)
    mine = batch_loss(network, Levels(of, CPU), records, index, masks, uniform, noise, ask)
    batch = Batch(
        values=values, observed=records.visible, cond_mask=mask, times=records.times, record_ids=("a", "b", "c"),
        seeds=(0, 1, 2), unobserved_query=None if ask is None else ~records.visible & ask[:, None, None], base=base,
        spread=spread, base_given_all=given_all[0], spread_given_all=given_all[1],
    )  # fmt: skip
    errors = squared_errors(network, of, batch, of.sample_tau(uniform), noise)
    expected = loss_per_record(errors, batch.target_mask).mean()
    torch.testing.assert_close(mine, expected, rtol=1e-5, atol=1e-6)


def test_from_data_to_a_model_file(prepared: Path, tmp_path: Path) -> None:
    same = {"data": str(prepared), "network": SMALL, "steps": 4, "batch_size": 4, "masks_per_record": 2}
    jobs = [
        Job("flow", process_options={"path": "trigonometric"}, query_unobserved=0.5, keep=(0.5, 1.0), **same),
        Job("diffusion", process="diffusion", **same),
    ]
    (tmp_path / "jobs.json").write_text(json.dumps([{"name": "unused"}]))
    run(jobs, tmp_path, tmp_path / "out", seconds=60, device=CPU)
    for job in jobs:
        convert(tmp_path / "out" / f"{job.name}.npz", prepared, tmp_path / job.name, "synthetic", rate=0.2)
        imputer = GenerativeImputer.load(tmp_path / job.name / "last.safetensors")
        assert imputer.fitted_["step"] == 4
        task = ti.csdi(ti.load_windows("synthetic"), rate=0.2)
        test = task.test.select(np.arange(2)).without_held_out()
        samples = imputer.impute(test, n_samples=2)
        assert np.isfinite(samples.values).all()
        np.testing.assert_array_equal(samples.values[:, test.visible], np.stack([test.values[test.visible]] * 2))

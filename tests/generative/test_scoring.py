"""Training by the scores of samples."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import NETWORK, tiny_network, waves

import tsimpute as ti
from tsimpute.config.registry import make
from tsimpute.errors import CheckpointError
from tsimpute.generative.sampling import SamplingPath
from tsimpute.generative.scoring import SampleScore, crps_of_two
from tsimpute.testing._records import random_batch

TRAIN = waves(24)
TWO = ti.SamplingConfig(n_steps=2)


def settings(**training: object) -> ti.TrainingConfig:
    return ti.TrainingConfig(**({"epochs": 2, "objective": "crps"} | training))  # type: ignore[arg-type]


def score() -> SampleScore:
    process = make("processes", "flow_matching")
    path = SamplingPath(process, make("solvers", "multistep"), process.grid(2, 1.5))
    return SampleScore(path)


def test_the_score_of_two_samples_is_crps_in_the_mean():
    drawn = torch.randn(2, 400_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for truth in (-1.0, 0.3, 2.0):
        normal = torch.distributions.Normal(0.0, 1.0)
        at = torch.tensor(truth, dtype=torch.float64)
        closed = at * (2 * normal.cdf(at) - 1) + 2 * normal.log_prob(at).exp() - torch.pi**-0.5  # Gneiting 2005
        assert crps_of_two(*drawn, at).mean().item() == pytest.approx(closed.item(), abs=0.005)


def test_errors_are_those_of_cells_and_of_the_differences_of_targets_that_follow_each_other():
    batch, network, objective = random_batch(), tiny_network(), score()
    errors, mask = objective(network, batch)
    assert torch.equal(mask, batch.target_mask)
    samples = []

    class Path(SamplingPath):
        def end(self, *args: object) -> torch.Tensor:
            samples.append(super().end(*args))  # type: ignore[arg-type]
            return samples[-1]

    kept = SampleScore(Path(*vars(objective.path).values()))
    assert torch.equal(kept(network, batch)[0], errors)
    one, two = samples
    assert not torch.equal(one, two)
    wanted = torch.zeros_like(errors)
    for b in range(len(mask)):
        for swapped in (False, True):
            cells = (mask[b].T if swapped else mask[b]).nonzero().tolist()
            cells = [tuple(cell[::-1]) if swapped else tuple(cell) for cell in cells]
            for cell, other in pairwise(cells):
                x = [sample[b][other] - sample[b][cell] for sample in (one, two, batch.values)]
                wanted[b][cell] += crps_of_two(*x) / 2
    wanted += crps_of_two(one, two, batch.values) * mask
    torch.testing.assert_close(errors, wanted)


def test_with_a_base_estimate_errors_are_of_values_and_not_in_units_of_its_spread():
    batch, network = random_batch(), tiny_network()
    base = torch.zeros_like(batch.values)
    apart, double = (
        score()(network, dataclasses.replace(batch, base=base, spread=torch.where(batch.cond_mask, 1.0, spread)))[0]
        for spread in (1.0, 2.0)
    )
    torch.testing.assert_close(double, 2 * apart)


def test_two_steps_become_better_than_those_of_the_start(tmp_path: Path):
    train, records = waves(60), waves(40, seed=5, name="new")
    held_out = ~np.isnan(records.values) & (np.random.default_rng(0).random(records.values.shape) < 0.3)
    records = dataclasses.replace(records, held_out=held_out)
    fast = {"batch_size": 6, "learning_rate": 3e-3, "schedule": "cosine"}
    start = ti.GenerativeImputer(network=NETWORK, training=ti.TrainingConfig(epochs=30, **fast), sampling=TWO)  # type: ignore[arg-type]
    start.fit(train, progress=False).save(tmp_path / "start.safetensors")
    training = settings(start_from=str(tmp_path / "start.safetensors"), epochs=20, **fast)
    tuned = ti.GenerativeImputer(network=NETWORK, training=training, sampling=TWO).fit(train, progress=False)
    before, after = (
        next(
            row.value
            for row in ti.evaluate(x, records, n_samples=20, scaler=start.scaler_).rows
            if (row.metric, row.feature) == ("crps_fair", "all")
        )
        for x in (start, tuned)
    )
    assert after < 0.95 * before


def test_it_needs_no_model_to_start_from_and_hidden_values_change_nothing():
    held_out = np.zeros(TRAIN.values.shape, bool)
    held_out[:, :, ::5] = ~np.isnan(TRAIN.values[:, :, ::5])
    fits = [
        ti.GenerativeImputer(network=NETWORK, training=settings(), sampling=TWO).fit(
            dataclasses.replace(TRAIN, values=np.where(held_out, spoilt, TRAIN.values), held_out=held_out),
            progress=False,
        )
        for spoilt in (0.0, 1e9)
    ]
    ours, theirs = (x.network_.state_dict() for x in fits)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_stopped_run_goes_on_and_other_steps_are_refused(tmp_path: Path):
    def imputer(steps: int = 2) -> ti.GenerativeImputer:
        training = settings(epochs=3, checkpoint_minutes=0.0)
        return ti.GenerativeImputer(network=NETWORK, training=training, sampling=ti.SamplingConfig(n_steps=steps))

    whole, again = imputer().fit(TRAIN, progress=False), imputer()
    steps = again.fit_steps(TRAIN, folder=tmp_path)
    for _ in range(3):
        next(steps)
    steps.close()
    again = imputer()
    first, *_ = again.fit_steps(TRAIN, folder=tmp_path)
    assert first.step == 4
    weights, wanted = again.network_.state_dict(), whole.network_.state_dict()
    assert all(torch.equal(weights[name], wanted[name]) for name in wanted)
    with pytest.raises(CheckpointError, match="other settings"):
        next(imputer(3).fit_steps(TRAIN, folder=tmp_path))

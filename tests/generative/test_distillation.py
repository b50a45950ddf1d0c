"""Distillation: a network learns to go in few steps where its teacher goes in many."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import NETWORK, tiny_network, waves

import tsimpute as ti
from tsimpute.config.registry import make
from tsimpute.core.seeding import derive_seed
from tsimpute.errors import CheckpointError, ConfigError, DataError
from tsimpute.generative import distillation
from tsimpute.generative.objective import draw
from tsimpute.generative.sampling import SamplingPath, sample
from tsimpute.models.checkpoints import read_state, write_state
from tsimpute.testing._records import random_batch, shaken

TRAIN = waves(24)
TWO = ti.SamplingConfig(n_steps=2)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("teacher") / "model.safetensors"
    imputer = ti.GenerativeImputer(network=NETWORK, training=ti.TrainingConfig(epochs=2)).fit(TRAIN, progress=False)
    with torch.no_grad():
        for weights in shaken(imputer.network_, 1).parameters():
            weights.mul_(2)  # a field that bends on its way
    imputer.save(path)
    return path


def student(teacher: Path, **training: object) -> ti.GenerativeImputer:
    settings = {
        "epochs": 40,
        "learning_rate": 1e-3,
        "schedule": "cosine",
        "objective": "distillation",
        "start_from": str(teacher),
    } | training
    return ti.GenerativeImputer(network=NETWORK, training=ti.TrainingConfig(**settings), sampling=TWO)  # type: ignore[arg-type]


def path(n_steps: int, solver: str = "multistep") -> SamplingPath:
    process = make("processes", "flow_matching")
    return SamplingPath(process, make("solvers", solver), process.grid(n_steps, 1.5))


@pytest.mark.parametrize("solver", ["one_step", "multistep", "heun"])
def test_the_end_of_the_path_is_the_sample_that_the_sampler_draws(solver: str):
    batch, network, way = random_batch(1), tiny_network(), path(4, solver)
    noise = torch.randn(1, *batch.values.shape[1:])
    seed = 3
    equal = torch.randn(*noise.shape[1:], generator=torch.Generator().manual_seed(derive_seed(seed, 0)))[None]
    with torch.inference_mode():
        field = network.condition_on(batch.condition)
        other, end = (way.end(field, batch.condition.query_mask, lambda x=x: x) for x in (noise, equal))
        drawn = sample(network, way.process, way.solver, batch.condition, n_samples=1, n_steps=4, grid_power=1.5,
                       seeds=[seed])  # fmt: skip
    assert not torch.equal(other, drawn[0])
    torch.testing.assert_close(end, drawn[0])


def test_the_loss_is_zero_where_both_go_the_same_way_and_a_squared_distance_where_not():
    batch, network, other = random_batch(), tiny_network(), tiny_network(seed=1)
    same = distillation.Distillation(network, path(3), path(3))
    errors, mask = same(network, batch)
    assert torch.equal(mask, batch.condition.query_mask)
    torch.testing.assert_close(errors, torch.zeros_like(errors), atol=1e-8, rtol=0)
    errors, _ = distillation.Distillation(network, path(3), path(2))(other, batch)
    _, noise = draw(batch, path(2).process)
    with torch.no_grad():
        wanted = path(3).end(network.condition_on(batch.condition), mask, lambda: noise)
        came = path(2).end(other.condition_on(batch.condition), mask, lambda: noise)
    torch.testing.assert_close(errors, (came - wanted).square() * mask)


def test_two_steps_of_a_student_are_nearer_to_the_teacher_than_its_own_two_steps(teacher: Path):
    records = waves(12, seed=5, name="new")
    many = ti.GenerativeImputer.load(teacher, ti.SamplingConfig(n_steps=8))
    few = ti.GenerativeImputer.load(teacher, TWO)
    learnt = student(teacher).fit(TRAIN, progress=False)
    missing = np.isnan(records.values)
    scale = np.array([10.0, 0.5, 300.0])[:, None]
    wanted, before, after = (x.impute(records, 8, seed=1).values / scale for x in (many, few, learnt))
    error_before, error_after = (np.mean((x - wanted)[:, missing] ** 2) for x in (before, after))
    assert error_after < 0.5 * error_before


def test_hidden_values_change_nothing(teacher: Path):
    held_out = np.zeros(TRAIN.values.shape, bool)
    held_out[:, :, ::5] = ~np.isnan(TRAIN.values[:, :, ::5])
    spoilt = np.where(held_out, 1e9, TRAIN.values)
    two = [
        student(teacher, epochs=1).fit(dataclasses.replace(TRAIN, values=values, held_out=held_out), progress=False)
        for values in (TRAIN.values, spoilt)
    ]
    ours, theirs = (x.network_.state_dict() for x in two)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_stopped_run_goes_on_and_another_teacher_is_refused(teacher: Path, tmp_path: Path):
    whole = student(teacher, epochs=3).fit(TRAIN, progress=False)
    run = student(teacher, epochs=3, checkpoint_minutes=0.0)
    steps = run.fit_steps(TRAIN, folder=tmp_path)
    for _ in range(3):
        next(steps)
    steps.close()
    again = student(teacher, epochs=3, checkpoint_minutes=0.0)
    first, *_ = again.fit_steps(TRAIN, folder=tmp_path)
    assert first.step == 4
    weights, wanted = again.network_.state_dict(), whole.network_.state_dict()
    assert all(torch.equal(weights[name], wanted[name]) for name in wanted)
    other = tmp_path / "other.safetensors"
    again.sampling = ti.SamplingConfig()  # as a teacher of many steps
    again.save(other)
    plain = ti.GenerativeImputer(network=NETWORK, training=dataclasses.replace(again.training, start_from=None,
                                 objective="regression"), sampling=TWO)  # fmt: skip
    for imputer, came in ((student(other, epochs=3), "another file"), (plain, "the weights of a file")):
        with pytest.raises(CheckpointError, match=rf"other settings:.* start_from \(the run began with {came}\)") as no:
            next(imputer.fit_steps(TRAIN, folder=tmp_path))
        assert ("network and options" in str(no.value)) == (imputer is plain)  # the objective's steps are among them


def test_a_state_that_names_the_start_file_among_the_options_is_taken_up(teacher: Path, tmp_path: Path):
    run = student(teacher, epochs=3, checkpoint_minutes=0.0)
    steps = run.fit_steps(TRAIN, folder=tmp_path)
    next(steps)
    steps.close()
    state = read_state(tmp_path / "state.pt")
    options, start = state["settings"]["network and options"], state["settings"].pop("start_from")
    before, comma, after = options.partition(", 2 multistep")
    state["settings"]["network and options"] = f"{before}, from {start}{comma}{after}"
    write_state(tmp_path / "state.pt", state)
    assert next(student(teacher, epochs=3).fit_steps(TRAIN, folder=tmp_path)).step == 2


def test_what_does_not_fit_is_refused(teacher: Path, tmp_path: Path):
    for name, came in (("none.safetensors", "no file at"), ("", "the folder")):
        with pytest.raises(CheckpointError, match=rf"start_from: expected a model file, came {came} .*Name a file"):
            student(tmp_path / name).fit(TRAIN, progress=False)
    training, same = ti.TrainingConfig(start_from=str(teacher)), NETWORK.options
    wide = dataclasses.replace(NETWORK, options=same | {"width": 16})
    defaults = dataclasses.replace(NETWORK, options={k: v for k, v in same.items() if k != "width"})
    for network, text in ((wide, "width is 16 here"), (defaults, "width is the default here")):
        with pytest.raises(ConfigError, match=f"came .*: {text} and {same['width']} in the file. Set") as refused:
            ti.GenerativeImputer(network=network, training=training, sampling=TWO).fit(TRAIN, progress=False)
        assert "Config(" not in str(refused.value)
    with pytest.raises(ConfigError, match=r"training\.start_from: expected with objective distillation the file"):
        ti.TrainingConfig(objective="distillation")
    noisy = student(teacher)
    noisy.sampling = ti.SamplingConfig(solver="one_step", eta=1.0, n_steps=2)
    with pytest.raises(ConfigError, match="expected deterministic samplers"):
        noisy.fit(TRAIN, progress=False)
    same_steps = student(teacher)
    same_steps.sampling = ti.SamplingConfig()
    with pytest.raises(ConfigError, match=r"came the same 6 multistep steps.*nothing to learn.*Set sampling\.n_steps"):
        same_steps.fit(TRAIN, progress=False)
    with pytest.raises(DataError, match="features"):
        student(teacher).fit(dataclasses.replace(TRAIN, features=TRAIN.features[::-1]), progress=False)


def test_eta_of_the_student_goes_for_a_diffusion_teacher_too(tmp_path: Path):
    training = ti.TrainingConfig(epochs=1)
    ti.GenerativeImputer("diffusion", NETWORK, training).fit(TRAIN, progress=False).save(tmp_path / "d.safetensors")
    taught = ti.TrainingConfig(epochs=1, objective="distillation", start_from=str(tmp_path / "d.safetensors"))
    plain = ti.GenerativeImputer("diffusion", NETWORK, taught, ti.SamplingConfig(n_steps=2))
    with pytest.raises(ConfigError, match=r"Set sampling\.eta to 0"):
        plain.fit(TRAIN, progress=False)
    even = ti.SamplingConfig(n_steps=2, eta=0.0)
    fitted = ti.GenerativeImputer("diffusion", NETWORK, taught, even).fit(TRAIN, progress=False)
    assert fitted.fitted_["step"] > 0

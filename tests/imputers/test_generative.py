"""The generative imputer: what comes back, what is refused, and that nothing of what is hidden gets in."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import NETWORK, waves

from tsimpute.backbones.context_cells import ContextCells
from tsimpute.config.settings import NetworkConfig, ProcessConfig, SamplingConfig, TrainingConfig
from tsimpute.core.containers import Condition
from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import CheckpointError, ConfigError, DataError, NotFittedError, TsimputeError
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.models.checkpoints import read_model, write_model
from tsimpute.testing._records import FEATURES

TRAINING = TrainingConfig(epochs=2, batch_size=3, learning_rate=1e-2, mask_policy="mix")
SAMPLING = SamplingConfig(n_steps=3, rows_at_once=2)
TEST = waves(4, seed=5, name="t")


def new(process: Any = "flow_matching", training: TrainingConfig = TRAINING, sampling: SamplingConfig = SAMPLING):
    return GenerativeImputer(process, NETWORK, training, sampling)


@pytest.fixture(scope="module")
def fitted() -> GenerativeImputer:
    return new().fit(waves(7), waves(3, seed=1, name="v"))


def held_out(windows: Windows) -> Windows:
    return replace(windows, held_out=windows.observed & (np.arange(windows.n_steps) % 4 == 2))


def bits(values: np.ndarray) -> bytes:
    return np.ascontiguousarray(values).tobytes()


def test_asking_for_unobserved_cells_changes_training_from_its_epoch_on_and_needs_a_continuous_process():
    plain = new().fit(waves(7)).network_.state_dict()
    late = new(training=replace(TRAINING, query_unobserved=1.0, query_from=1.0)).fit(waves(7)).network_.state_dict()
    asked = new(training=replace(TRAINING, query_unobserved=1.0, query_from=0.5)).fit(waves(7)).network_.state_dict()
    assert all(torch.equal(plain[name], late[name]) for name in plain)
    assert any(not torch.equal(plain[name], asked[name]) for name in plain)
    with pytest.raises(ConfigError, match="query_unobserved: expected 0 with diffusion"):
        new("diffusion", replace(TRAINING, query_unobserved=0.1)).fit(waves(7))


def test_with_a_base_estimate_a_model_that_learnt_nothing_is_centred_on_interpolation(tmp_path: Path):
    network = replace(NETWORK, base="linear")
    steep = replace(waves(7), values=np.tile(np.arange(8.0), (7, 3, 1)) * 100)
    steep.values[:, :, 3] = np.nan
    imputer = GenerativeImputer("flow_matching", network, TRAINING, SAMPLING).fit(steep)
    found = imputer.impute(steep, 20)
    off = np.abs(found.median()[:, :, 3] - 300)
    plain = new().fit(steep).impute(steep, 20)
    assert off.mean() < 0.7 * np.abs(plain.median()[:, :, 3] - 300).mean()
    imputer.save(tmp_path / "m.safetensors")
    again = GenerativeImputer.load(tmp_path / "m.safetensors")
    assert again.network.base == "linear"
    assert bits(again.impute(steep, 20).values) == bits(found.values)


@pytest.mark.parametrize("process", ["flow_matching", "diffusion"])
def test_a_model_that_starts_from_a_gaussian_process_comes_back_from_its_file(process: str, tmp_path: Path):
    imputer = GenerativeImputer(process, replace(NETWORK, base="gaussian"), TRAINING, SAMPLING).fit(waves(30))
    found = imputer.impute(TEST, 5)
    imputer.save(tmp_path / "m.safetensors")
    again = GenerativeImputer.load(tmp_path / "m.safetensors", SAMPLING)
    assert again.base_ is not None
    assert bits(again.impute(TEST, 5).values) == bits(found.values)
    hidden = held_out(TEST)
    wild = replace(hidden, values=np.where(hidden.held_out_mask, 1e9, hidden.values))
    assert bits(again.impute(hidden, 5).values) == bits(again.impute(wild, 5).values)


def test_a_model_that_learnt_nothing_draws_from_the_posterior_of_its_process(tmp_path: Path):
    """Nothing learnt: the network says that clean data are the noise, which is the posterior's own."""
    train = waves(60, seed=2)
    imputer = GenerativeImputer("flow_matching", replace(NETWORK, base="gaussian"), replace(TRAINING, epochs=1))
    next(imputer.fit_steps(train))
    for weights in imputer.network_.parameters():
        torch.nn.init.zeros_(weights)
    scale, hidden = imputer.scaler_, held_out(waves(6, seed=9))
    cells, seen, process = hidden.held_out_mask, hidden.without_held_out(), imputer.base_
    assert process is not None
    exact = []
    for n, known in enumerate(scale.transform(np.where(seen.visible, seen.values, np.nan))):
        (piece,) = process.posterior_pieces(known, seen.times[n], 2000, np.random.default_rng(n))
        exact.append(process.values(piece.mean + piece.deviations, seen.times[n])[:, cells[n]])
    drawn = scale.transform(imputer.impute(seen, 2000, fill=cells).values)[:, cells]
    np.testing.assert_allclose(np.median(drawn, 0), np.median(np.concatenate(exact, 1), 0), atol=0.12)
    np.testing.assert_allclose(drawn.std(0), np.concatenate(exact, 1).std(0), rtol=0.25)


def test_a_process_that_is_handed_over_is_started_from_and_must_fit(tmp_path: Path):
    network = replace(NETWORK, base="gaussian")
    other = GenerativeImputer("flow_matching", network, TRAINING).fit(waves(20, seed=4)).base_
    imputer = GenerativeImputer("flow_matching", network, TRAINING)
    list(imputer.fit_steps(waves(7), base=other))
    assert imputer.base_ is other
    list(imputer.fit_steps(waves(7), base=other, folder=tmp_path))
    with pytest.raises(CheckpointError, match="base"):
        list(GenerativeImputer("flow_matching", network, TRAINING).fit_steps(waves(7), folder=tmp_path))
    few = replace(waves(7), values=waves(7).values[:, :2], features=FEATURES[:2])
    with pytest.raises(ConfigError, match="base: expected a Gaussian process of 2 features"):
        next(imputer.fit_steps(few, base=other))
    with pytest.raises(ConfigError, match=r"base: expected none with network\.base 'none'"):
        next(new().fit_steps(waves(7), base=other))


def test_a_stopped_training_from_a_gaussian_process_goes_on_bit_for_bit(tmp_path: Path):
    def training() -> GenerativeImputer:
        return GenerativeImputer("flow_matching", replace(NETWORK, base="gaussian"), replace(TRAINING, epochs=4))

    whole, parts = training(), training()
    list(whole.fit_steps(waves(7), folder=tmp_path / "a"))
    seen: list[int] = []
    list(parts.fit_steps(waves(7), folder=tmp_path / "b", should_stop=lambda: seen.append(1) or len(seen) == 5))
    assert parts.fitted_["step"] < whole.fitted_["step"]
    again = training()
    first, *_ = again.fit_steps(waves(7), folder=tmp_path / "b")
    assert first.step == parts.fitted_["step"] + 1
    for name, weights in whole.network_.state_dict().items():
        assert torch.equal(weights, again.network_.state_dict()[name])
    files = [(tmp_path / folder / "last.safetensors").read_bytes() for folder in "ab"]
    assert files[0] == files[1]


@pytest.mark.parametrize("base", ["none", "linear", "gaussian"])
def test_asking_for_unobserved_cells_sees_no_hidden_value(base: Any):
    network = replace(NETWORK, base=base)
    data, asking = held_out(waves(7)), replace(TRAINING, query_unobserved=1.0, query_from=0.0)
    assert not data.visible.all()
    loud = replace(data, values=np.where(data.held_out, 1e9, data.values))
    weights = [GenerativeImputer("flow_matching", network, asking).fit(w).network_.state_dict() for w in (data, loud)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.parametrize("base", ["none", "linear", "gaussian"])
def test_a_long_record_is_drawn_by_windows_in_pieces_with_its_progress(base: Any):
    imputer = GenerativeImputer("flow_matching", replace(NETWORK, base=base), TRAINING, SAMPLING).fit(waves(7))
    long = waves(1, n_steps=100, seed=3)
    whole = list(imputer.impute_long(long, 4, seed=1, progress=(shares := []).append))
    assert [steps for steps, _ in whole] == [slice(0, 100)]
    drawn = whole[0][1]
    assert (np.isfinite(drawn.values).all(0) == np.ones((1, 3, 100), bool)).all()
    assert bits(drawn.values[:, long.visible]) == bits(np.repeat(long.values[long.visible][None], 4, 0))
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    hidden = replace(long, held_out=long.observed & (np.arange(100) % 7 == 3))
    wild = replace(hidden, values=np.where(hidden.held_out_mask, 1e9, hidden.values))
    one, two = (next(imputer.impute_long(w, 4))[1].values for w in (hidden, wild))
    assert bits(one) == bits(two)


@pytest.mark.parametrize("base", ["none", "linear", "gaussian"])
def test_a_long_record_may_begin_at_any_time(base: Any):
    rng = np.random.default_rng(0)

    def stamped(windows: Windows, start: float) -> Windows:
        """Whole seconds, in hours."""
        seconds = np.cumsum(rng.integers(1, 4, windows.times.shape), 1)
        return replace(windows, times=start + seconds / 3600)

    imputer = GenerativeImputer("flow_matching", replace(NETWORK, base=base), TRAINING, SAMPLING)
    imputer.fit(stamped(waves(7), 0.0))
    late = stamped(waves(1, n_steps=100, seed=3), 10 * 8766.0)
    early = replace(late, times=late.times - late.times[0, 0])
    assert (np.diff(late.times.astype(np.float32)) == 0).any()
    one, two, else_ = (
        next(imputer.impute_long(w, 3))[1].values
        for w in (late, early, replace(early, times=early.times * np.linspace(1, 1.2, 100)))
    )
    assert bits(one) == bits(two)
    assert bits(one) != bits(else_), "times do not matter"
    paused = replace(late, times=late.times + 1e7 * (np.arange(100) >= 50))
    with pytest.raises(DataError, match=r"single precision.*long pauses"):
        next(imputer.impute_long(paused, 3))


# What comes back -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_shown_cells_come_back_bit_for_bit_and_the_rest_is_filled(fitted: GenerativeImputer, dtype: type):
    values = TEST.values.astype(dtype)
    values[0, 0, 0], values[1, 1, 1] = -0.0, dtype(0.1) + dtype(0.2)
    windows = held_out(replace(TEST, values=values))
    samples = fitted.impute(windows, 5)
    assert samples.values.shape == (5, 4, 3, 8)
    assert samples.values.dtype == dtype
    for draw in samples.values:
        assert bits(draw[windows.visible]) == bits(values[windows.visible])
    assert np.isfinite(samples.values).all()
    assert (np.ptp(samples.values, axis=0)[~windows.visible] > 0).all()
    np.testing.assert_array_equal(samples.visible, windows.visible)
    assert (samples.features, samples.record_ids) == (windows.features, windows.record_ids)


def test_draws_are_in_the_datas_own_units(fitted: GenerativeImputer):
    windows = held_out(TEST)
    draws = fitted.impute(windows, 20).values
    middle = [np.median(draws[:, :, k][:, ~windows.visible[:, k]]) for k in range(3)]
    assert np.abs(middle - fitted.scaler_.mean).max() > 1
    assert (np.abs(middle - fitted.scaler_.mean) < 4 * fitted.scaler_.std).all()


def test_only_cells_that_are_asked_for_are_filled(fitted: GenerativeImputer):
    windows = held_out(TEST)
    samples = fitted.impute(windows, 2, fill=windows.held_out_mask)
    np.testing.assert_array_equal(np.isnan(samples.values[0]), ~windows.observed)
    nothing = fitted.impute(windows, 2, fill=np.zeros((4, 3, 8), bool))
    np.testing.assert_array_equal(np.isnan(nothing.values[1]), ~windows.visible)


def test_a_records_draws_depend_on_seed_and_record_alone(fitted: GenerativeImputer):
    together = fitted.impute(TEST, 3, seed=7).values
    assert bits(fitted.impute(TEST.select([3, 1]), 3, seed=7).values) == bits(together[:, [3, 1]])
    assert bits(fitted.impute(TEST, 3, seed=7).values) == bits(together)
    assert (fitted.impute(TEST, 3, seed=8).values != together)[:, ~TEST.visible].all()


def test_record_by_record_the_draws_are_the_same_bit_for_bit(fitted: GenerativeImputer):
    windows = held_out(TEST)
    for fill in (None, windows.held_out_mask):
        together = fitted.impute(windows, 3, 7, fill)
        parts = list(fitted.impute_records(windows, 3, 7, fill))
        assert [part.record_ids for part in parts] == [(name,) for name in windows.record_ids]
        assert bits(np.concatenate([part.values for part in parts], 1)) == bits(together.values)
        np.testing.assert_array_equal(np.concatenate([part.visible for part in parts]), together.visible)


def test_record_by_record_what_can_be_refused_at_once_is_and_later_training_changes_nothing(
    fitted: GenerativeImputer,
):
    with pytest.raises(ConfigError, match="n_samples"):
        fitted.impute_records(TEST, 0)
    with pytest.raises(DataError, match="order"):
        fitted.impute_records(replace(TEST, features=TEST.features[::-1]), 1)
    imputer = new().fit(waves(3))
    expected = imputer.impute(TEST, 2).values
    records = imputer.impute_records(TEST, 2)
    first = next(records).values
    with torch.no_grad():
        imputer.network_.enter.weight.add_(1)
    assert bits(np.concatenate([first, *(part.values for part in records)], 1)) == bits(expected)


def test_draws_do_not_depend_on_the_memory_they_may_take(fitted: GenerativeImputer):
    def draws(**settings: Any) -> np.ndarray:
        other = GenerativeImputer.__new__(GenerativeImputer)
        vars(other).update(vars(fitted) | {"sampling": SamplingConfig(n_steps=3, **settings)})
        return other.impute(TEST, 9).values

    for settings in ({"memory_mib": 1}, {"rows_at_once": 1}):
        np.testing.assert_allclose(draws(**settings), draws(), rtol=1e-4)


def test_records_of_any_length_work_with_one_model(fitted: GenerativeImputer):
    for n_steps in (1, 5, 8, 40):
        windows = waves(2, n_steps, seed=3)
        samples = fitted.impute(windows, 2)
        assert samples.values.shape == (2, 2, 3, n_steps)
        assert np.isfinite(samples.values).all()


def test_as_many_cells_are_usual_as_in_training_records_of_the_same_length(fitted: GenerativeImputer, monkeypatch: Any):
    looked_at: list[tuple[int, float]] = []
    condition_on = ContextCells.condition_on

    def seen(network: ContextCells, condition: Condition) -> Any:
        looked_at.append((condition.values.shape[2], condition.usual_cells))
        return condition_on(network, condition)

    monkeypatch.setattr(ContextCells, "condition_on", seen)
    for n_steps in (4, 8, 20):
        fitted.impute(waves(1, n_steps), 1)
        list(fitted.impute_long(waves(1, n_steps), 1))
    per_step = fitted.usual_cells_ / 8
    assert set(looked_at) == {(4, 4 * per_step), (8, 8 * per_step), (20, 20 * per_step)}
    assert fitted.usual_cells_ == max(waves(7).visible.sum((1, 2)))
    looked_at.clear()
    monkeypatch.setattr(fitted.model_, "clock", replace(fitted.model_.clock, n_steps=0))  # a model of before
    fitted.impute(waves(1, 4), 1)
    assert looked_at == [(4, fitted.usual_cells_)]


def test_one_sample_in_one_step(fitted: GenerativeImputer):
    quick = GenerativeImputer.__new__(GenerativeImputer)
    vars(quick).update(vars(fitted) | {"sampling": SamplingConfig(n_steps=1)})
    assert np.isfinite(quick.impute(TEST, 1).values).all()


def test_a_feature_that_was_never_observed_is_filled(fitted: GenerativeImputer):
    values = TEST.values.copy()
    values[:, 1] = np.nan
    samples = fitted.impute(replace(TEST, values=values), 2)
    assert np.isfinite(samples.values).all()
    train = waves(7)
    without = train.values.copy()
    without[:, 1] = np.nan
    imputer = new(training=replace(TRAINING, epochs=1)).fit(replace(train, values=without))
    assert np.isfinite(imputer.impute(replace(TEST, values=values), 2).values).all()
    assert imputer.scaler_.never_shown.tolist() == [False, True, False]


def test_input_is_not_changed(fitted: GenerativeImputer):
    before = TEST.values.copy(), TEST.times.copy()
    fitted.impute(TEST, 2)
    assert (bits(TEST.values), bits(TEST.times)) == (bits(before[0]), bits(before[1]))


# Settings ------------------------------------------------------------------------------------------------------------


def test_constructor_stores_settings_and_does_nothing_else():
    process = ProcessConfig("no such process")
    imputer = GenerativeImputer(process, NetworkConfig("no such network"))
    assert vars(imputer) == {
        "process": process,
        "network": NetworkConfig("no such network"),
        "training": TrainingConfig(),
        "sampling": SamplingConfig(),
    }
    with pytest.raises(ConfigError, match="no such process"):
        imputer.fit(waves(3))
    assert GenerativeImputer("diffusion").name == "diffusion"


def test_default_sampler_is_that_of_the_process():
    plain = new(sampling=SamplingConfig())
    assert (plain.solver, plain.n_steps, plain.eta, plain.grid_power) == ("multistep", 6, 0.0, 1.5)
    diffusion = new("diffusion", sampling=SamplingConfig())
    assert (diffusion.solver, diffusion.n_steps, diffusion.eta, diffusion.grid_power) == ("one_step", 50, 1.0, 1.0)
    own = new("diffusion", sampling=SamplingConfig(n_steps=7, eta=0.0))
    assert (own.n_steps, own.eta) == (7, 0.0)


def test_a_chosen_solver_has_an_even_grid_unless_another_is_chosen():
    assert new(sampling=SamplingConfig("one_step")).grid_power == 1
    assert new(sampling=SamplingConfig("one_step", grid_power=1.2)).grid_power == 1.2
    assert new(sampling=SamplingConfig(grid_power=1.0)).grid_power == 1


def test_another_grid_gives_other_draws_and_is_refused_where_there_is_none(fitted: GenerativeImputer):
    def draws(power: float | None, solver: str | None = None) -> np.ndarray:
        other = new(sampling=SamplingConfig(solver, n_steps=3, grid_power=power))
        vars(other).update({name: value for name, value in vars(fitted).items() if name != "sampling"})
        return other.impute(waves(2, seed=3), 2).values

    assert bits(draws(None)) == bits(draws(1.5)) != bits(draws(1.0))
    assert bits(draws(None, "heun")) == bits(draws(1.0, "heun"))
    diffusion = new("diffusion", sampling=SamplingConfig(grid_power=1.5)).fit(waves(3))
    with pytest.raises(ConfigError, match="grid_power: diffusion has its levels at even times"):
        diffusion.impute(waves(1), 1)


def test_eta_is_used_and_refused_where_a_solver_has_none(fitted: GenerativeImputer):
    def draws(**settings: Any) -> np.ndarray:
        other = GenerativeImputer.__new__(GenerativeImputer)
        vars(other).update(vars(fitted) | {"sampling": SamplingConfig(n_steps=3, **settings)})
        return other.impute(TEST, 1).values

    assert (draws(solver="one_step", eta=1.0) != draws(solver="one_step", eta=0.0)).any()
    assert bits(draws(solver="one_step", eta=0.0)) == bits(draws(solver="one_step"))
    assert (draws(solver="heun") != draws()).any()
    assert bits(draws(solver="heun", eta=0.0)) == bits(draws(solver="heun"))
    with pytest.raises(ConfigError, match=r"heun is deterministic.*came 0\.5"):
        draws(solver="heun", eta=0.5)


# Refusals ------------------------------------------------------------------------------------------------------------


def test_not_fitted():
    for use in (lambda: new().impute(TEST, 1), lambda: new().save(Path("never.safetensors"))):
        with pytest.raises(NotFittedError, match="fit"):
            use()
    assert not Path("never.safetensors").exists()


@pytest.mark.parametrize(
    ("features", "says"),
    [
        ((FEATURES[0], Feature("Temp", "degF"), FEATURES[2]), "Temp in 'degC', came 'degF'"),
        ((FEATURES[1], FEATURES[0], FEATURES[2]), "order"),
        ((FEATURES[0], FEATURES[1], Feature("pH")), "absent: Urine; not learnt: pH"),
    ],
)
def test_other_features_are_refused_by_name(fitted: GenerativeImputer, features: tuple[Feature, ...], says: str):
    features = tuple(Feature(f.name, "degC") if f == Feature("Temp") else f for f in features)
    known = tuple(Feature(f.name, "degC") if f.name == "Temp" else f for f in FEATURES)
    imputer = GenerativeImputer.__new__(GenerativeImputer)
    vars(imputer).update(vars(fitted) | {"features_": known})
    with pytest.raises(DataError, match=says):
        imputer.impute(replace(TEST, features=features), 1)


def test_validation_records_of_other_features_are_refused():
    valid = replace(TEST, features=TEST.features[::-1])
    with pytest.raises(DataError, match="order"):
        new().fit(waves(3), valid)


def test_other_time_steps_are_refused_and_other_starts_are_not(fitted: GenerativeImputer):
    with pytest.raises(DataError, match=r"steps of 1, .*steps of 60"):
        fitted.impute(replace(TEST, times=TEST.times * 60), 1)
    fitted.impute(replace(TEST, times=TEST.times + 12), 1)


@pytest.mark.parametrize("n_samples", [0, -1, 2.5, True])
def test_a_number_of_samples_that_is_none_is_refused(fitted: GenerativeImputer, n_samples: Any):
    with pytest.raises(ConfigError, match="n_samples: expected an integer of at least 1"):
        fitted.impute(TEST, n_samples)


def test_a_mask_of_another_shape_or_kind_is_refused(fitted: GenerativeImputer):
    for fill in (np.ones((4, 8, 3), bool), np.ones((4, 3, 8))):
        with pytest.raises(DataError, match="fill: expected bool of shape"):
            fitted.impute(TEST, 1, fill=fill)


def test_draws_that_are_not_finite_are_an_error_that_names_the_record(fitted: GenerativeImputer):
    imputer = new()
    vars(imputer).update(vars(fitted))
    values = TEST.values.copy()
    values[2][TEST.observed[2]] = 1e35
    with pytest.raises(TsimputeError, match="record 't2' are not finite"):
        imputer.impute(replace(TEST, values=values), 1)


# Files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("process", ["flow_matching", "diffusion"])
def test_a_loaded_model_draws_the_same_bit_for_bit(tmp_path: Path, process: str):
    imputer = new(process).fit(waves(7))
    imputer.save(tmp_path / "m.safetensors")
    loaded = GenerativeImputer.load(tmp_path / "m.safetensors")
    assert bits(loaded.impute(TEST, 3).values) == bits(imputer.impute(TEST, 3).values)
    for name in ("process", "network", "training", "sampling", "features_", "time_step_", "fitted_"):
        assert getattr(loaded, name) == getattr(imputer, name)
    other = GenerativeImputer.load(str(tmp_path / "m.safetensors"), SamplingConfig(n_steps=5))  # type: ignore[arg-type]
    assert other.n_steps == 5


def test_model_file_holds_all_that_is_needed_in_plain_text(tmp_path: Path, fitted: GenerativeImputer):
    fitted.save(tmp_path / "m.safetensors")
    _, about = read_model(tmp_path / "m.safetensors")
    assert about["features"] == [[f.name, f.unit] for f in FEATURES]
    assert about["scaler"] == fitted.scaler_.to_dict()
    assert about["settings"]["process"] == {"name": "flow_matching", "options": {}}
    assert about["settings"]["training"]["epochs"] == 2
    assert about["versions"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert about["fitted"]["epoch"] == 2
    assert about["fitted"]["step"] == 6


def test_damaged_and_foreign_models_are_refused_in_one_sentence(tmp_path: Path, fitted: GenerativeImputer):
    path = tmp_path / "m.safetensors"
    fitted.save(path)
    whole, (weights, about) = path.read_bytes(), read_model(path)

    def refused(says: str) -> None:
        with pytest.raises(CheckpointError, match=says) as error:
            GenerativeImputer.load(path)
        assert "\n" not in str(error.value)

    path.write_bytes(whole[: len(whole) // 2])
    refused("foreign or damaged")
    path.write_text("epoch,loss\n1,0.5\n")
    refused("foreign or damaged")
    save_file(weights, path)
    refused("format")
    for missing in ("settings", "features", "scaler", "fitted", "time_step"):
        write_model(path, weights, {k: v for k, v in about.items() if k != missing})
        refused("another layout")
    write_model(path, {k: v for k, v in weights.items() if k != "enter.weight"}, about)
    refused("another layout.*enter.weight")
    wide = about | {"settings": about["settings"] | {"network": {"name": "dual_transformer", "options": {"width": 16}}}}
    write_model(path, weights, wide)
    refused("another layout")
    write_model(path, weights, about | {"settings": about["settings"] | {"sampling": {"steps": 3}}})
    refused("another layout.*steps")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, fitted: GenerativeImputer, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "m.safetensors"
    fitted.save(path)
    before = path.read_bytes()

    def fails(file: Path, content: bytes) -> int:
        file.write_text("half")
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_bytes", fails)
    with pytest.raises(OSError, match="no space left"):
        fitted.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


# Training ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("process", ["flow_matching", "diffusion"])
def test_held_out_cells_change_nothing(tmp_path: Path, process: str):
    """Weights, scaler, log of losses, best epoch and draws are the same with 1e9 in every held-out cell."""
    plain = held_out(waves(7)), held_out(waves(3, seed=1, name="v")), held_out(TEST)
    extreme = tuple(replace(w, values=np.where(w.held_out_mask, 1e9, w.values)) for w in plain)
    training = replace(TRAINING, epochs=3, patience=3, keep_epochs=(1,))
    draws = []
    for name, (train, valid, test) in (("plain", plain), ("extreme", extreme)):
        imputer = new(process, training)
        for _ in imputer.fit_steps(train, valid, folder=tmp_path / name):
            pass
        draws.append(bits(imputer.impute(test, 2).values))
    assert draws[0] == draws[1]
    for file in ("last", "best", "epoch-0001"):
        a, b = (load_file(tmp_path / name / f"{file}.safetensors") for name in ("plain", "extreme"))
        assert a.keys() == b.keys()
        assert all(torch.equal(a[k], b[k]) for k in a)
        stored = [read_model(tmp_path / name / f"{file}.safetensors")[1] for name in ("plain", "extreme")]
        assert stored[0]["scaler"] == stored[1]["scaler"]
        assert stored[0]["fitted"]["epoch"] == stored[1]["fitted"]["epoch"]
    logs = []
    for name in ("plain", "extreme"):
        with (tmp_path / name / "epochs.csv").open() as file:
            logs.append([row[:5] for row in csv.reader(file)])
    assert logs[0] == logs[1]
    assert len(logs[0]) == 4


def test_patience_gives_the_best_weights_with_and_without_a_folder(tmp_path: Path):
    # A learning rate that wrecks the network after a while, so that the last epoch is not the best.
    training = replace(TRAINING, epochs=8, patience=2, learning_rate=0.5)
    train, valid = waves(7), waves(3, seed=1, name="v")
    in_memory = new("diffusion", training).fit(train, valid)
    on_disk = new("diffusion", training)
    steps = list(on_disk.fit_steps(train, valid, folder=tmp_path))
    ends = [s for s in steps if s.ends_epoch]
    best = min(ends, key=lambda s: s.valid_loss)
    assert best.epoch < ends[-1].epoch
    assert (in_memory.fitted_["epoch"], on_disk.fitted_["epoch"]) == (best.epoch, best.epoch)
    assert in_memory.fitted_["step"] == on_disk.fitted_["step"] == best.step
    stored = load_file(tmp_path / "best.safetensors")
    for imputer in (in_memory, on_disk):
        assert all(torch.equal(imputer.network_.state_dict()[k], stored[k]) for k in stored)


def test_patience_and_a_stop_in_the_first_epoch_give_the_weights_so_far(tmp_path: Path):
    imputer = new("diffusion", replace(TRAINING, patience=1))
    steps = list(imputer.fit_steps(waves(7), waves(3, seed=1), folder=tmp_path, should_stop=lambda: True))
    assert "asked to stop" in (steps[-1].stop or "")
    assert imputer.fitted_ == {"epoch": 0, "step": 1}
    assert np.isfinite(imputer.impute(TEST, 1).values).all()


def test_imputing_between_steps_does_not_disturb_training():
    def weights(look: bool) -> dict[str, torch.Tensor]:
        imputer = new("diffusion")
        for _ in imputer.fit_steps(waves(7)):
            if look:
                imputer.impute(TEST, 1)
                assert imputer.network_.training
        return imputer.network_.state_dict()

    watched, alone = weights(True), weights(False)
    assert all(torch.equal(watched[k], alone[k]) for k in alone)


def test_same_seed_same_model_another_seed_another():
    def draws(seed: int) -> bytes:
        return bits(new("diffusion", replace(TRAINING, seed=seed, epochs=1)).fit(waves(7)).impute(TEST, 1).values)

    torch.manual_seed(1)
    first = draws(0)
    torch.manual_seed(2)
    assert draws(0) == first
    assert draws(1) != first


def test_global_generators_and_threads_are_left_alone():
    def state() -> tuple[Any, ...]:
        numpy_state = np.random.get_state()[1].tobytes()  # noqa: NPY002 - the global state is what is looked at
        threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
        return torch.get_rng_state().tolist(), numpy_state, threads, dtype, torch.is_grad_enabled()

    before = state()
    new().fit(waves(7)).impute(TEST, 1)
    assert state() == before


@pytest.mark.parametrize("n", [1, 2])
def test_one_record_and_one_feature(n: int):
    windows = waves(n).select([0])
    one = replace(windows, values=windows.values[:, :1], features=windows.features[:1])
    for data in (windows, one):
        imputer = new("diffusion", replace(TRAINING, mask_policy="random")).fit(data)
        assert np.isfinite(imputer.impute(data, 2).values).all()


@pytest.mark.parametrize(
    ("network", "process"),
    [
        (NetworkConfig(options=NETWORK.options | {"n_heads": 1}), ProcessConfig("diffusion")),
        (NETWORK, ProcessConfig("diffusion", {"beta_last": 0.4})),
    ],
    ids=["heads", "noise schedule"],
)
def test_options_that_leave_no_trace_in_the_weights_do_not_go_on(
    tmp_path: Path, network: NetworkConfig, process: ProcessConfig
):
    first = GenerativeImputer(ProcessConfig("diffusion"), NETWORK, TRAINING, SAMPLING)
    list(first.fit_steps(waves(6), folder=tmp_path, should_stop=lambda: True))
    with pytest.raises(CheckpointError, match="network and options"):
        list(GenerativeImputer(process, network, TRAINING, SAMPLING).fit_steps(waves(6), folder=tmp_path))


def test_other_records_of_the_same_number_do_not_go_on(tmp_path: Path):
    list(new().fit_steps(waves(6), folder=tmp_path, should_stop=lambda: True))
    with pytest.raises(CheckpointError, match="record ids"):
        list(new().fit_steps(waves(6, name="other"), folder=tmp_path))

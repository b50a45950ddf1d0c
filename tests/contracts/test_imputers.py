"""What holds for every imputer and peer: each file in their folders is under test the moment it exists."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tsimpute import imputers, registry
from tsimpute.config import NetworkConfig, SamplingConfig, TrainingConfig
from tsimpute.containers import Feature, Windows
from tsimpute.errors import CheckpointError, ConfigError, DataError, NotFittedError, TsimputeError
from tsimpute.imputers.base import Imputer

SETTINGS: dict[str, dict[str, Any]] = {
    "generative": {
        "network": NetworkConfig(options={"width": 8, "n_heads": 2, "n_blocks": 1}),
        "training": TrainingConfig(epochs=1, batch_size=4),
        "sampling": SamplingConfig(n_steps=2),
    },
    "iterative": {"max_iter": 2},
    "miss_forest": {"n_trees": 3, "max_iter": 2},
}
"""Settings that make an imputer small enough for tests, by its name; none = its defaults."""

DETERMINISTIC = {
    "mean",
    "median",
    "locf",
    "linear",
    "pchip",
    "seasonal",
    "low_rank",
    "knn",
    "chained_lags",
    "miss_forest",
}
FEATURES = (Feature("HR", "bpm"), Feature("Temp", "degC"), Feature("Urine", "mL"))
PEERS = [name for name in registry.available("peers") if name != "pypots"]  # pypots has its laws, and an environment
every_imputer = pytest.mark.parametrize("name", [*imputers.available(), *PEERS])


def make(name: str, **settings: Any) -> Imputer:
    return registry.make("peers" if name in PEERS else "imputers", name, **settings)


def records(n: int, seed: int, dtype: type = np.float64) -> Windows:
    """Records in different units, a third missing and some held out; the second has no value of the last feature."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 3, 8)) * np.array([1.0, 20.0, 300.0])[:, None] + np.array([0.0, 80.0, -5.0])[:, None]
    values[rng.random(values.shape) < 0.33] = np.nan
    values[1 % n, 2] = np.nan
    values[0, 0, 2] = -0.0
    held_out = ~np.isnan(values) & (rng.random(values.shape) < 0.25)
    held_out[0, 0, 2] = False
    return Windows(
        values=values.astype(dtype),
        times=np.arange(8) + rng.uniform(-0.01, 0.01, size=(n, 8)),
        features=FEATURES,
        record_ids=tuple(f"{seed}-{i}" for i in range(n)),
        held_out=held_out,
    )


TRAIN, VALID, TEST = records(8, 1), records(3, 2), records(5, 3)


def fit(name: str, train: Windows = TRAIN, valid: Windows | None = VALID) -> Imputer:
    return make(name, **SETTINGS.get(name, {})).fit(train, valid)


@cache
def fitted(name: str) -> Imputer:
    return fit(name)


def digest(x: object) -> str:
    """A hash of everything in an object, to the last bit."""
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu().numpy()
    if isinstance(x, np.ndarray):
        text = f"{x.dtype}{x.shape}".encode() + np.ascontiguousarray(x).tobytes()
    elif isinstance(x, torch.nn.Module):
        text = digest(dict(x.state_dict())).encode()
    elif isinstance(x, dict):
        text = "".join(f"{key}:{digest(value)}" for key, value in x.items()).encode()
    elif isinstance(x, tuple | list):
        text = "".join(map(digest, x)).encode()
    elif dataclasses.is_dataclass(x):
        text = digest({f.name: getattr(x, f.name) for f in dataclasses.fields(x)}).encode()
    else:
        text = repr(x).encode() if isinstance(x, str | int | float | None) else type(x).__name__.encode()
    return hashlib.sha256(text).hexdigest()


def learnt(imputer: Imputer) -> str:
    return digest({key: value for key, value in vars(imputer).items() if key.endswith("_")})


# -- answers -------------------------------------------------------------------------------------------------------


@every_imputer
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shown_values_come_back_bit_for_bit(name: str, dtype: type) -> None:
    windows = records(5, 3, dtype)
    samples = fitted(name).impute(windows, 3)
    assert samples.values.dtype == dtype
    assert np.array_equal(samples.shown, windows.shown)
    for draw in samples.values:
        assert draw[windows.shown].tobytes() == windows.values[windows.shown].tobytes()
    assert np.signbit(samples.values[:, 0, 0, 2]).all()  # -0.0


@every_imputer
def test_every_missing_cell_is_filled_with_a_number_and_held_out_cells_are_missing(name: str) -> None:
    samples = fitted(name).impute(TEST, 2)
    assert np.isfinite(samples.values).all()
    hidden = samples.values[:, TEST.scored]
    assert (hidden != TEST.values[TEST.scored]).mean() > 0.9


@every_imputer
def test_only_the_cells_asked_for_are_filled_and_as_if_all_were(name: str) -> None:
    fill = TEST.scored.copy()
    samples = fitted(name).impute(TEST, 2, seed=4, fill=fill)
    assert np.array_equal(np.isfinite(samples.values).all(0), TEST.shown | fill)
    assert np.isnan(samples.values[:, ~(TEST.shown | fill)]).all()
    nothing = fitted(name).impute(TEST, 2, fill=np.zeros_like(fill))
    assert np.array_equal(np.isnan(nothing.values[0]), ~TEST.shown)
    everything = fitted(name).impute(TEST, 2, fill=np.ones_like(fill))  # shown cells are not to be filled
    assert everything.values.tobytes() == fitted(name).impute(TEST, 2).values.tobytes()


@every_imputer
def test_ask_seven_get_seven(name: str) -> None:
    samples = fitted(name).impute(TEST, 7)
    assert samples.values.shape == (7, *TEST.values.shape)
    assert (samples.features, samples.record_ids) == (TEST.features, TEST.record_ids)


@every_imputer
def test_seed_fixes_the_draws(name: str) -> None:
    a, b, c = (fitted(name).impute(TEST, 3, seed).values for seed in (0, 0, 1))
    assert a.tobytes() == b.tobytes()
    gap = ~TEST.shown
    if name in DETERMINISTIC:
        assert a.tobytes() == c.tobytes()
        assert (a[0] == a[1]).all()
    else:
        assert (a[:, gap] != c[:, gap]).mean() > 0.99
        assert (a[0, gap] != a[1, gap]).mean() > 0.99


@every_imputer
def test_a_record_is_imputed_the_same_alone_in_a_batch_and_in_another_order(name: str) -> None:
    whole = fitted(name).impute(TEST, 2, seed=5).values
    backwards = fitted(name).impute(TEST.select([4, 3, 2, 1, 0]), 2, seed=5).values
    for i in range(len(TEST)):
        alone = fitted(name).impute(TEST.select([i]), 2, seed=5).values
        np.testing.assert_array_equal(alone[:, 0], whole[:, i])
        np.testing.assert_array_equal(backwards[:, 4 - i], whole[:, i])


@every_imputer
def test_the_callers_arrays_are_not_changed(name: str) -> None:
    train, valid, test = records(8, 1), records(3, 2), records(5, 3)
    fill = test.scored.copy()
    before = digest((train, valid, test, fill))
    fit(name, train, valid).impute(test, 2, fill=fill)
    assert digest((train, valid, test, fill)) == before


# -- leakage -------------------------------------------------------------------------------------------------------


def poisoned(windows: Windows) -> Windows:
    return replace(windows, values=np.where(windows.scored, 1e9, windows.values))


@every_imputer
def test_held_out_values_change_nothing(name: str) -> None:
    clean, poison = fitted(name), fit(name, poisoned(TRAIN), poisoned(VALID))
    assert learnt(poison) == learnt(clean)
    assert poison.impute(poisoned(TEST), 3, 1).values.tobytes() == clean.impute(TEST, 3, 1).values.tobytes()
    blind = clean.impute(TEST.without_held_out(), 3, 1)
    assert blind.values.tobytes() == clean.impute(TEST, 3, 1).values.tobytes()


@every_imputer
def test_shown_values_do_change_something(name: str) -> None:
    """The leak test above could not fail for an imputer that looks at nothing."""
    assert learnt(fit(name, replace(TRAIN, values=TRAIN.values + 1))) != learnt(fitted(name))


# -- odd data ------------------------------------------------------------------------------------------------------


@every_imputer
def test_a_feature_that_was_never_observed_keeps_its_place_and_is_flagged(name: str) -> None:
    values = TRAIN.values.copy()
    values[:, 1] = np.nan
    imputer = fit(name, replace(TRAIN, values=values, held_out=TRAIN.scored & ~np.isnan(values)))
    assert imputer.no_data_ == ("Temp",)  # type: ignore[attr-defined]
    samples = imputer.impute(TEST, 2)
    assert np.isfinite(samples.values).all()
    assert samples.features == FEATURES
    assert fitted(name).no_data_ == ()  # type: ignore[attr-defined]


@every_imputer
def test_a_record_without_any_value_is_filled(name: str) -> None:
    empty = replace(TEST, values=np.full_like(TEST.values, np.nan), held_out=None)
    assert np.isfinite(fitted(name).impute(empty, 2).values).all()


@every_imputer
def test_one_record_one_feature_one_step(name: str) -> None:
    one = Windows(np.full((1, 1, 1), 4.0), np.zeros((1, 1)), FEATURES[:1], ("a",))
    gap = Windows(np.full((1, 1, 1), np.nan), np.zeros((1, 1)), FEATURES[:1], ("b",))
    assert np.isfinite(fit(name, one, None).impute(gap, 1).values).all()


@every_imputer
def test_training_data_without_a_shown_cell_is_refused(name: str) -> None:
    with pytest.raises(TsimputeError):
        fit(name, replace(TRAIN, values=np.full_like(TRAIN.values, np.nan), held_out=None))


# -- what is refused -----------------------------------------------------------------------------------------------


@every_imputer
def test_the_constructor_does_nothing_and_fit_comes_first(name: str, tmp_path: Path) -> None:
    imputer = make(name, **SETTINGS.get(name, {}))
    assert isinstance(imputer.name, str)
    assert imputer.name
    assert not [key for key in vars(imputer) if key.endswith("_")]
    with pytest.raises(NotFittedError):
        imputer.impute(TEST, 1)
    with pytest.raises(NotFittedError):
        imputer.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


@every_imputer
@pytest.mark.parametrize(
    ("features", "message"),
    [
        ((FEATURES[1], FEATURES[0], FEATURES[2]), "order"),
        ((FEATURES[0], Feature("Temp", "degF"), FEATURES[2]), "Temp.*degC.*degF"),
        ((*FEATURES[:2], Feature("pH")), "Urine.*pH"),
    ],
)
def test_other_features_than_those_learnt_are_refused(name: str, features: tuple[Feature, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        fitted(name).impute(replace(TEST, features=features), 1)


@every_imputer
def test_fewer_features_than_those_learnt_are_refused(name: str) -> None:
    fewer = Windows(TEST.values[:, :2], TEST.times, FEATURES[:2], TEST.record_ids)
    with pytest.raises(DataError, match="Urine"):
        fitted(name).impute(fewer, 1)


@every_imputer
def test_senseless_requests_are_refused(name: str) -> None:
    for n_samples in (0, -1):
        with pytest.raises(ConfigError, match="n_samples"):
            fitted(name).impute(TEST, n_samples)
    for fill in (TEST.scored[:, :2], TEST.scored.astype(int)):
        with pytest.raises(DataError, match="fill"):
            fitted(name).impute(TEST, 1, fill=fill)
    with pytest.raises(ConfigError, match="no_such_setting"):
        make(name, no_such_setting=1)


def test_an_unknown_imputer_is_answered_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="linear, locf, low_rank, mean, median"):
        imputers.make("spline")
    assert {"linear", "locf", "mean", "median"} <= set(imputers.available())


# -- files ---------------------------------------------------------------------------------------------------------


@every_imputer
def test_saved_and_loaded_is_the_same(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model"
    fitted(name).save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    loaded = type(fitted(name)).load(path)
    assert loaded.impute(TEST, 3, 2).values.tobytes() == fitted(name).impute(TEST, 3, 2).values.tobytes()
    with pytest.raises(DataError, match="order"):
        loaded.impute(replace(TEST, features=FEATURES[::-1]), 1)


@every_imputer
@pytest.mark.parametrize("damage", ["absent", "empty", "text", "bytes", "truncated", "json", "folder"])
def test_a_foreign_or_damaged_file_is_refused(name: str, damage: str, tmp_path: Path) -> None:
    path = tmp_path / "model"
    fitted(name).save(path)
    whole = path.read_bytes()
    path.unlink()
    content = {
        "empty": b"",
        "text": b"Time,Parameter,Value\n",
        "bytes": bytes(range(256)) * 40,
        "truncated": whole[: len(whole) * 2 // 3],
        "json": b'{"format": "another", "layout": 1}',
    }
    if damage in content:
        path.write_bytes(content[damage])
    elif damage == "folder":
        path.mkdir()
    with pytest.raises(CheckpointError) as error:
        type(fitted(name)).load(path)
    assert "model" in str(error.value)

"""A Gaussian process that networks correct: where cells depend on each other by curves, and where they do not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import CheckpointError, ConfigError, NotFittedError
from tsimpute.evaluation.ensembles import crps, interval_holds
from tsimpute.gaussian.maps import Records
from tsimpute.gaussian.margins import KNOTS, fit_margins, mapped
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.shared.hidden_errors import _hidden_cells
from tsimpute.models.checkpoints import read_model, write_model


def records(curved: bool, n: int, seed: int) -> Windows:
    """A smooth series, and a second one that is its square or a noisy copy of it; a fifth of the cells held out."""
    rng = np.random.default_rng(seed)
    phase, speed = rng.uniform(0, 2 * np.pi, (2, n, 1))
    first = 2 * np.sin(phase + (0.1 + speed / 12) * np.arange(12)) + 0.1 * rng.normal(size=(n, 12))
    second = first**2 if curved else first + rng.normal(size=(n, 12))
    values = np.stack([first, second + 0.1 * rng.normal(size=(n, 12))], 1)
    values[rng.random(values.shape) < 0.1] = np.nan
    held_out = ~np.isnan(values) & (rng.random(values.shape) < 0.2)
    features = Feature("first"), Feature("second")
    return Windows(values, np.tile(np.arange(12.0), (n, 1)), features, tuple(f"{seed}-{i}" for i in range(n)), held_out)


def with_networks(n_masks: int, n_steps: int) -> GaussianImputer:
    return GaussianImputer(networks={"n_masks": n_masks, "n_folds": 2, "n_steps": n_steps})


@cache
def fitted(curved: bool) -> GaussianImputer:
    return with_networks(1600, 400).fit(records(curved, 200, 1), progress=False)


def draws_of(imputer: GaussianImputer, windows: Windows) -> np.ndarray:
    held_out = windows.held_out
    assert held_out is not None
    return imputer.impute(windows.without_held_out(), 20, 0, held_out, progress=False).values[:, held_out]


def test_curves_that_the_process_does_not_see_are_learnt() -> None:
    test, process = records(True, 60, 2), GaussianImputer().fit(records(True, 200, 1), progress=False)
    assert test.held_out is not None
    truth, corrected = test.values[test.held_out], draws_of(fitted(True), test)
    assert crps(corrected, truth).mean() < 0.8 * crps(draws_of(process, test), truth).mean()
    assert 0.84 < interval_holds(corrected.T, truth, 90).mean() < 0.96
    assert fitted(True).method.endswith("corrected by networks")


def test_where_the_process_is_right_nothing_is_lost() -> None:
    test, process = records(False, 60, 2), GaussianImputer().fit(records(False, 200, 1), progress=False)
    assert test.held_out is not None
    truth = test.values[test.held_out]
    assert crps(draws_of(fitted(False), test), truth).mean() < 1.02 * crps(draws_of(process, test), truth).mean()


def test_hidden_values_reach_neither_the_process_nor_the_networks() -> None:
    train, test = records(True, 40, 1), records(True, 3, 2)
    answers = []
    for number in (0.0, 1e9):
        changed = [replace(w, values=np.where(w.held_out, number, w.values)) for w in (train, test)]
        imputer = with_networks(400, 20).fit(changed[0], progress=False)
        assert imputer.margins_ is not None
        answers.append(imputer.impute(changed[1], 4, progress=False).values[:, test.held_out])
    np.testing.assert_array_equal(*answers)


def test_a_record_has_the_same_draws_whatever_stands_beside_it() -> None:
    test = records(True, 6, 3)
    together = fitted(True).impute(test, 5, progress=False).values
    alone = fitted(True).impute(test.select([4]), 5, progress=False).values
    np.testing.assert_array_equal(together[:, [4]], alone)


def test_a_file_holds_the_networks(tmp_path: Path) -> None:
    test = records(True, 3, 2)
    fitted(True).save(tmp_path / "model.safetensors")
    loaded = GaussianImputer.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(draws_of(loaded, test), draws_of(fitted(True), test))
    weights, description = read_model(tmp_path / "model.safetensors")
    of_fewer = {name: x[:-1] if name.endswith("centre") else x for name, x in weights.items()}
    write_model(tmp_path / "older.safetensors", of_fewer, description)
    with pytest.raises(CheckpointError, match="expected networks of 36 inputs, came 35"):
        GaussianImputer.load(tmp_path / "older.safetensors")
    del weights["margins.0.layers.0.weight"]
    write_model(tmp_path / "damaged.safetensors", weights, description)
    with pytest.raises(CheckpointError, match="damaged"):
        GaussianImputer.load(tmp_path / "damaged.safetensors")


@pytest.mark.filterwarnings("ignore:networks")
def test_one_slip_of_the_keyboard_in_training_counts_as_a_far_value() -> None:
    train = records(True, 60, 1)
    values = train.values.copy()
    values[3, 0, 5], values[3, 1, 2] = 1e6, 1e8
    with patch("tsimpute.imputers.shared.hidden_errors.fit_margins", wraps=fit_margins) as called:
        networks = {"n_masks": 400, "n_folds": 2, "n_steps": 20}
        imputer = GaussianImputer(settings={"normality": 0.0}, networks=networks)
        imputer.fit(replace(train, values=values), progress=False)
    cells = called.call_args.args[0]
    assert np.abs(cells.inputs).max() < 16


@pytest.mark.filterwarnings("ignore:networks")
def test_masks_are_spread_evenly_over_records() -> None:
    with patch("tsimpute.imputers.shared.hidden_errors._hidden_cells", wraps=_hidden_cells) as called:
        with_networks(200, 20).fit(records(True, 50, 1), progress=False)
    count = Counter(call.args[0].record_ids[0] for call in called.call_args_list)
    assert count == {f"1-{n}": 4 for n in range(50)}


def test_one_record_leaves_nothing_to_learn_from() -> None:
    train, test = records(True, 1, 1), records(True, 3, 2)
    with pytest.warns(UserWarning, match="at least 2 training records with values, came 1"):
        imputer = GaussianImputer(networks={}).fit(train, progress=False)
    assert imputer.margins_ is None
    np.testing.assert_array_equal(draws_of(imputer, test), draws_of(GaussianImputer().fit(train, progress=False), test))


@pytest.mark.filterwarnings("ignore:networks")
def test_records_without_values_are_no_fold() -> None:
    train = records(True, 40, 1)
    values = np.where(np.arange(40)[:, None, None] < 20, train.values, np.nan)
    empty = replace(train, values=values, held_out=train.held_out & ~np.isnan(values))
    with patch("tsimpute.imputers.shared.hidden_errors.fit_margins", wraps=fit_margins) as called:
        with_networks(400, 20).fit(empty, progress=False)
    group = called.call_args.args[3]
    assert 0.4 < group.mean() < 0.6


@pytest.mark.filterwarnings("ignore:networks")
@pytest.mark.parametrize("policy", [None, "mix", "historical", "gaps"])
def test_given_features_stay_shown(policy: str | None) -> None:
    hidden = []
    for n in (60, 20):
        train = records(True, n, n)
        phase = np.sin(train.times)[:, None] * np.ones((n, 1, 1))
        never = np.zeros(phase.shape, bool)
        features = *train.features, Feature("phase", given=True)
        values, held_out = np.concatenate([train.values, phase], 1), np.concatenate([train.held_out, never], 1)
        hidden.append(replace(train, values=values, features=features, held_out=held_out))
    with patch("tsimpute.imputers.shared.hidden_errors.fit_margins", wraps=fit_margins) as called:
        networks = {"mask_policy": policy, "n_masks": 400, "n_folds": 2, "n_steps": 20}
        imputer = GaussianImputer(networks=networks).fit(hidden[0], progress=False)
    assert set(called.call_args.args[0].feature.tolist()) == {0, 1}
    assert np.isfinite(imputer.impute(hidden[1], 2, progress=False).values[:, :, :2]).all()


def test_a_fit_that_failed_fills_nothing() -> None:
    imputer = with_networks(400, 20)
    stopped = patch("tsimpute.imputers.shared.hidden_errors.fit_margins", side_effect=KeyboardInterrupt)
    with stopped, pytest.raises(KeyboardInterrupt):
        imputer.fit(records(True, 40, 1), progress=False)
    with pytest.raises(NotFittedError):
        imputer.impute(records(True, 3, 2), 2, progress=False)


def test_curves_are_for_a_process_alone() -> None:
    with pytest.raises(ConfigError, match="networks correct"):
        fitted(True).learn_curves(Records((np.zeros((2, 5)),), (np.arange(5.0),), 1.0))


def test_maps_increase_and_start_from_no_change() -> None:
    scores = torch.linspace(-4, 4, 81).double()[:, None].expand(-1, 3)
    maps = torch.zeros(3, 2 + len(KNOTS)).double()
    torch.testing.assert_close(mapped(maps, scores), scores)
    changed = mapped(torch.randn(3, 2 + len(KNOTS), generator=torch.manual_seed(0)).double(), scores)
    assert (changed.diff(dim=0) > 0).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_folds": 1}, "networks.n_folds: expected an integer of at least 2, came 1"),
        ({"n_masks": "5"}, "networks.n_masks: expected an integer of at least 1, came '5'"),
        ({"n_steps": 1.5}, "networks.n_steps: expected an integer"),
        ({"n_steps": True}, "networks.n_steps: expected an integer"),
        ({"mask_policy": "histrical"}, "networks.mask_policy: expected one of random, .*came 'histrical'"),
        ({"mask_policy": 3}, "networks.mask_policy: expected one of"),
        ({1: 2}, "networks: expected some of mask_policy"),
        (True, "networks: expected a mapping with some of mask_policy.*came True"),
    ],
)
def test_bad_settings_are_refused(wrong: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        GaussianImputer(networks=wrong)

"""Weights and spreads from hidden cells, shares of a network's draws, and mixtures as models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tsimpute.core.limits import Limits
from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import CheckpointError
from tsimpute.evaluation.ensembles import crps
from tsimpute.filling.blending import blend as blending
from tsimpute.filling.blending.blend import SPREADS, WEIGHTS, Blend, Comparison, centre_of
from tsimpute.filling.blending.choosing import network_shares
from tsimpute.filling.blending.mixture import FittedMethods, Mixture, model_from_file, network_draws, pair_order
from tsimpute.filling.methods.components import Cubic, Lines
from tsimpute.filling.panels.windows import N_CLASSES, gap_classes, gap_lengths, gap_numbers
from tsimpute.imputers.base import TableModel
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.simple import LinearImputer, PchipImputer
from tsimpute.models.checkpoints import read_model
from tsimpute.scaling.standardizer import Standardizer


def test_gaps_are_classed_by_their_length() -> None:
    missing = np.array([[True, False, True, True, False] + [True] * 9 + [False] + [True] * 20, [False] * 34 + [True]])
    found = gap_classes(missing)
    np.testing.assert_array_equal(found[0, [0, 2, 3, 5, 13, 15, 34]], [0, 1, 1, 2, 2, 3, 3])
    assert found[1, 34] == 0
    assert (gap_classes(np.ones((1, 257), bool)) == N_CLASSES - 1).all()
    assert gap_lengths(missing)[0, [0, 2, 34]].tolist() == [1, 2, 20]
    numbers = gap_numbers(missing)[missing]
    assert [(numbers == n).sum() for n in np.unique(numbers)] == [1, 2, 9, 20, 1]


def draws_around(truth: np.ndarray, error: float, spread: float, seed: int) -> np.ndarray:
    """Normal draws whose centre lies off the truth by a normal error."""
    rng = np.random.default_rng(seed)
    return truth + error * rng.normal(size=truth.shape) + spread * rng.normal(size=(40, *truth.shape))


def test_shares_follow_the_score_and_a_method_that_only_ties_gets_nothing() -> None:
    rng = np.random.default_rng(0)
    truth, feature, gap = rng.normal(size=4000), rng.integers(0, 2, 4000), rng.integers(0, N_CLASSES, 4000)
    good, bad = draws_around(truth, 0.3, 0.3, 1), draws_around(truth, 1.0, 1.0, 2)
    first = np.where(feature == 0, good, bad)
    second = np.where(feature == 0, bad, good)
    shares = network_shares(first, second, truth, feature, gap, 2)
    assert (shares[0] < 0.3).all()
    assert (shares[1] > 0.7).all()
    assert (network_shares(first, first.copy(), truth, feature, gap, 2) == 0).all()


def test_no_cells_of_a_class_take_what_all_say() -> None:
    truth = np.random.default_rng(0).normal(size=500)
    good, bad = draws_around(truth, 0.3, 0.3, 1), draws_around(truth, 1.0, 1.0, 2)
    zeros = np.zeros(500, int)
    shares = network_shares(bad, good, truth, zeros, zeros, 3)
    assert (np.abs(shares - shares[0, 0]) <= 0.2 + 1e-9).all()


def test_a_mixture_of_two_is_better_than_either() -> None:
    truth = np.random.default_rng(0).normal(size=3000)
    parts = draws_around(truth, 0.6, 0.3, 1), draws_around(truth, 0.6, 0.3, 2)
    zeros = np.zeros(3000, int)
    share = network_shares(*parts, truth, zeros, zeros, 1)[0, 0]
    mixed = np.where(network_draws(40, np.full(3000, share)), parts[1], parts[0])
    assert crps(mixed, truth).mean() < min(crps(part, truth).mean() for part in parts)


def evidence(
    error_of_lines: float, n: int = 600, run_length: int = 2, gap: int = 1, n_features: int = 1, seed: int = 0
) -> Comparison:
    """A process that is off by 0.3 beside a line that is off by so much; each run has an error of its own."""
    rng = np.random.default_rng(seed)
    run = np.arange(n) // run_length
    truth, of_run = rng.normal(size=n), rng.normal(size=(2, n))[:, run]
    centre = truth + 0.3 * of_run[0]
    half = 0.3 * np.abs(rng.normal(size=(20, n)))
    draws = np.stack([centre + half, centre - half], 1).reshape(40, n)
    feature = run % n_features
    line = truth + error_of_lines * of_run[1]
    return Comparison(draws, [line], truth, feature, np.full(n, gap), run, run, n_features, (True,))


def test_the_weight_of_a_line_follows_its_error() -> None:
    better, worse = evidence(0.05).blend(), evidence(3.0).blend()
    assert better.weights[0, 0, 1] >= 0.9
    assert better.spread[0, 1] < 0.5  # draws come as near as the line is
    assert worse.weights[0, 0, 1] == 0
    assert 0.3 <= evidence(0.3).blend().weights[0, 0, 1] <= 0.7  # two of one size, independent: half each


def test_a_line_gets_nothing_in_gaps_of_a_length_that_was_not_hidden() -> None:
    found = evidence(0.05, gap=1).blend()
    unseen = [c for c in range(N_CLASSES) if c != 1]
    assert (found.weights[:, :, unseen] == 0).all()
    assert (found.spread[:, unseen] == 1).all()


def test_many_cells_of_one_gap_are_no_evidence() -> None:
    one_run = evidence(0.05, n=500, run_length=500, gap=4).blend()
    assert not one_run.changes
    many = evidence(0.05, n=500, run_length=10, gap=4).blend()
    assert many.weights[0, 0, 4] >= 0.8


def test_what_is_not_local_counts_by_stretches_of_time_and_in_gaps_of_all_lengths() -> None:
    one_run = evidence(0.05, n=800, run_length=20, gap=4)
    stretches = replace(one_run, run=np.zeros(800, int), local=(False,)).blend()
    assert (stretches.weights >= 0.8).all()
    assert (stretches.spread == 1).all()  # how wide is said by runs of that length alone
    few = replace(one_run, gap_class=np.where(np.arange(800) < 60, 4, 2), local=(False,)).blend()
    assert few.weights[0, 0, 4] == few.weights[0, 0, 5] >= 0.8


def test_a_line_that_helps_by_chance_in_few_gaps_gets_little() -> None:
    """Of lines as good as nothing, over many tables: what is given to them costs next to nothing."""
    cost = []
    for seed in range(30):
        found = evidence(0.6, n=120, run_length=20, gap=3, seed=seed).blend()
        fresh = evidence(0.6, n=4000, run_length=20, gap=3, seed=1000 + seed)
        moved = found.moved(fresh.draws, fresh.values, fresh.feature, fresh.gap_class)
        cost.append(crps(moved, fresh.truth).mean() / crps(fresh.draws, fresh.truth).mean())
    assert np.mean(cost) < 1.01


def test_a_feature_with_few_gaps_takes_what_the_others_say_of_gaps_as_long() -> None:
    both = evidence(0.05, n=600, n_features=2)
    few = both.at((both.feature == 0) | (np.arange(600) < 8))
    weights = few.blend().weights[0, :, 1]
    assert (weights >= 0.8).all()


def test_a_spread_that_is_wrong_is_mended_and_the_median_stays() -> None:
    cells = evidence(3.0)
    middle = np.median(cells.draws, 0)
    wide = replace(cells, draws=middle + 3 * (cells.draws - middle))
    found = wide.blend()
    median = np.median(wide.draws, 0)
    moved = found.moved(wide.draws, wide.values, wide.feature, wide.gap_class)
    assert found.spread[0, 1] <= 0.5
    np.testing.assert_allclose(np.median(moved, 0), median, atol=1e-12)
    assert crps(moved, wide.truth).mean() < crps(wide.draws, wide.truth).mean()


def test_scores_of_weights_and_spreads_are_those_of_the_draws_that_they_give() -> None:
    cells, rng = evidence(0.4, n=50), np.random.default_rng(3)
    median = np.median(cells.draws, 0)
    losses = blending._losses(cells.draws - median, median - cells.truth, cells.values[0] - median)
    for w, s in rng.integers(0, [len(WEIGHTS), len(SPREADS)], (5, 2)).tolist():
        shape = (1, N_CLASSES)
        blend = Blend(np.full((1, *shape), WEIGHTS[w]), np.full(shape, SPREADS[s]))
        moved = blend.moved(cells.draws, cells.values, cells.feature, cells.gap_class)
        np.testing.assert_allclose(losses[w, s], crps(moved, cells.truth))


def test_methods_take_their_turn() -> None:
    median, points = np.array([0.0]), [np.array([1.0]), np.array([3.0])]
    np.testing.assert_allclose(centre_of(median, points, np.array([[0.5], [0.2]])), 0.5 + 0.2 * 2.5)


def base() -> tuple[GaussianImputer, Windows]:
    rng = np.random.default_rng(0)
    values = np.cumsum(rng.normal(size=(1, 2, 300)), -1)
    values[rng.random(values.shape) < 0.3] = np.nan
    record = Windows(values, np.arange(300.0)[None], (Feature("a"), Feature("b")), ("r",))
    return GaussianImputer(periods=()).fit(record), record


def test_a_mixture_moves_whole_paths_keeps_what_is_known_and_comes_back_from_its_file(tmp_path: Path) -> None:
    process, record = base()
    weights, spread = np.full((1, 2, N_CLASSES), 0.4), np.full((2, N_CLASSES), 1.5)
    model = Mixture(FittedMethods(process, (Lines(),)), Blend(weights, spread))
    values = joined(model, record, 10)
    assert (values[:, 0][:, record.visible[0]] == record.values[0][record.visible[0]]).all()
    own = joined(process, record, 10)[pair_order(10)]
    line = LinearImputer().fit(record).impute(record, 1).values[0, 0]
    median = np.median(own[:, 0], 0)
    np.testing.assert_allclose(values[:, 0], 0.6 * median + 0.4 * line + 1.5 * (own[:, 0] - median))
    path = tmp_path / "model"
    model.save(path, {"kept": 1})
    arrays, about = read_model(path)
    again = model_from_file(path, arrays, about)
    assert about["kept"] == 1
    assert again.method == "draws of Gaussian process over features and lags and linear interpolation"
    assert joined(again, record, 10).tobytes() == values.tobytes()
    (whole,) = again.impute_records(record, 10, 3)
    assert whole.values.tobytes() == values.tobytes()
    lacking = {name: of_one for name, of_one in about.items() if name != "spread"}
    for other in ({**about, "bounds": [1, 4, 16]}, lacking):
        with pytest.raises(CheckpointError, match="Fit the table once more"):
            model_from_file(path, arrays, other)


def joined(model: TableModel, record: Windows, n_samples: int) -> np.ndarray:
    return np.concatenate([found.values for _, found in model.impute_long(record, n_samples, 3)], -1)


def test_an_odd_number_of_draws_moves_about_the_same_median() -> None:
    process, record = base()
    blend = Blend(np.full((1, 2, N_CLASSES), 0.5), np.full((2, N_CLASSES), 0.001))
    model = Mixture(FittedMethods(process, (Lines(),)), blend)
    np.testing.assert_allclose(joined(model, record, 1)[0], joined(model, record, 2).mean(0), atol=0.01)


def test_limits_hold_for_draws_that_are_moved_and_stretched() -> None:
    rng = np.random.default_rng(0)
    values = np.exp(np.cumsum(0.3 * rng.normal(size=(1, 1, 200)), -1))
    values[rng.random(values.shape) < 0.3] = np.nan
    record = Windows(values, np.arange(200.0)[None], (Feature("a"),), ("r",))
    process = GaussianImputer(periods=()).fit(record, scaler=Standardizer.fit(record, {"a": Limits(0, None)}))
    model = Mixture(
        FittedMethods(process, (Lines(),)), Blend(np.full((1, 1, N_CLASSES), 0.5), np.full((1, N_CLASSES), 2.5))
    )
    assert joined(model, record, 20).min() > 0


def test_cells_that_are_not_asked_for_stay_missing() -> None:
    process, record = base()
    model = Mixture(FittedMethods(process, (Lines(),)), Blend(np.full((1, 2, N_CLASSES), 0.5), np.ones((2, N_CLASSES))))
    fill = ~record.visible & (np.arange(300) < 150)
    (found,) = model.impute_records(record, 4, 3, fill)
    np.testing.assert_array_equal(np.isnan(found.values[0]), ~record.visible & ~fill)


def test_components_say_what_the_imputers_of_their_names_say() -> None:
    process, record = base()
    known = np.where(record.visible[0], record.values[0], np.nan)
    for component, imputer in ((Lines, LinearImputer()), (Cubic, PchipImputer())):
        found = component().at(known, record.times[0])
        np.testing.assert_array_equal(found, imputer.fit(record).impute(record, 1).values[0, 0])
        arrays, about = component().parts()
        again = component.from_parts(arrays, about, process).at(known, record.times[0])
        np.testing.assert_array_equal(again, found)


def test_the_network_draws_are_the_networks() -> None:
    found = network_draws(10, np.array([0.3, 0.0, 1.0]))
    assert found[:, 0].tolist() == [True] * 3 + [False] * 7
    assert not found[:, 1].any()
    assert found[:, 2].all()
    assert pair_order(5).tolist() == [0, 3, 1, 4, 2]

"""Shares of draws from hidden cells, straight lines with their residuals, and mixtures as models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tsimpute.checkpoints import read_model
from tsimpute.ensembles import crps
from tsimpute.errors import CheckpointError
from tsimpute.filling.lines import N_CLASSES, Lines, gap_classes
from tsimpute.filling.mixture import GAUSSIAN, LINES, NETWORK, Mixture, chosen_of, in_pairs
from tsimpute.filling.models import model_from_file
from tsimpute.filling.weights import best_weights
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.windows import Feature, Windows


def test_gaps_are_classed_by_their_length() -> None:
    missing = np.array([[True, False, True, True, False] + [True] * 9 + [False] + [True] * 20, [False] * 34 + [True]])
    found = gap_classes(missing)
    np.testing.assert_array_equal(found[0, [0, 2, 3, 5, 13, 15, 34]], [0, 1, 1, 2, 2, 3, 3])
    assert found[1, 34] == 0
    assert (gap_classes(np.ones((1, 50), bool)) == N_CLASSES - 1).all()


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
    shares = best_weights((first, second, bad), truth, feature, gap, 2, (1, 1, 1))
    assert (shares[0, :, 0] > 0.7).all()
    assert (shares[1, :, 1] > 0.7).all()
    np.testing.assert_allclose(shares.sum(-1), 1)
    same = best_weights((first, first, bad), truth, feature, gap, 2, (1, 1, 1))
    assert (same[..., 1] == 0).all()
    capped = best_weights((first, second, bad), truth, feature, gap, 2, (1, 0.3, 1))
    assert capped[..., 1].max() == pytest.approx(0.3)


def test_no_cells_of_a_class_take_what_all_say() -> None:
    truth = np.random.default_rng(0).normal(size=500)
    good, bad = draws_around(truth, 0.3, 0.3, 1), draws_around(truth, 1.0, 1.0, 2)
    zeros = np.zeros(500, int)
    shares = best_weights((bad, good, bad), truth, zeros, zeros, 3, (1, 1, 1))
    assert (np.abs(shares - shares[0, 0]) <= 0.2 + 1e-9).all()


def test_a_mixture_of_two_is_better_than_either() -> None:
    truth = np.random.default_rng(0).normal(size=3000)
    parts = draws_around(truth, 0.6, 0.3, 1), draws_around(truth, 0.6, 0.3, 2)
    zeros = np.zeros(3000, int)
    shares = best_weights((*parts, draws_around(truth, 2, 2, 3)), truth, zeros, zeros, 1, (1, 1, 1))[0, 0]
    chosen = chosen_of(40, np.repeat(shares[None], 3000, 0))
    mixed = np.choose(chosen, [*parts, parts[0]])
    assert crps(mixed, truth).mean() < min(crps(part, truth).mean() for part in parts)


def test_residuals_of_lines_have_the_law_that_they_were_fitted_to() -> None:
    rng = np.random.default_rng(0)
    feature, gap = rng.integers(0, 2, 20_000), rng.integers(0, N_CLASSES, 20_000)
    residual = rng.normal(size=20_000) * np.array([1.0, 3.0])[feature] * np.array([1, 1, 2, 2])[gap]
    lines = Lines.fit(residual, feature, gap, 2)
    drawn = lines.at_cells(np.full(4, 7.0), np.array([0, 1, 0, 1]), np.array([0, 0, 2, 2]), 2000, rng)
    np.testing.assert_allclose(drawn.mean(1) if drawn.shape[0] == 4 else drawn.mean(0), 7.0, atol=0.2)
    np.testing.assert_allclose(drawn.std(0), [1, 3, 2, 6], rtol=0.1)
    known = np.array([[0.0, np.nan, np.nan, 3.0, np.nan]])
    paths = lines.draws(np.concatenate([known, known]), np.arange(5.0), 200, rng)
    np.testing.assert_array_equal(paths[:, :, [0, 3]], np.repeat(np.array([[[0.0, 3.0]] * 2]), 200, 0))
    side = np.sign(paths[:, 0, [1, 2]] - [1.0, 2.0])
    assert (side[:, 0] == side[:, 1]).all()
    np.testing.assert_allclose(np.median(paths[:, 0, 1:3], 0), [1, 2], atol=0.2)


def test_a_smooth_feature_keeps_narrow_residuals_beside_a_rough_one() -> None:
    rng = np.random.default_rng(0)
    feature, gap = np.repeat(np.arange(3), 80), np.tile(np.repeat(np.arange(N_CLASSES), 20), 3)
    of_cells = np.array([[0.01, 0.05, 0.3, 1.0], [0.6, 0.6, 0.6, 0.6], [0.02, 0.02, 0.02, 0.02]])
    lines = Lines.fit(rng.laplace(size=240) * of_cells[feature, gap], feature, gap, 4)
    drawn = lines.at_cells(np.zeros(240), feature, gap, 1000, rng)
    found = np.abs(drawn).mean(0).reshape(3, N_CLASSES, 20).mean(2)
    assert (np.abs(np.log(found / of_cells)) < np.log(2.5)).all()
    unseen = lines.at_cells(np.zeros(1), np.array([3]), np.array([0]), 1000, rng)
    assert of_cells[2, 0] < np.abs(unseen).mean() < of_cells[1, 0]


def test_lines_of_older_files_have_one_spread_for_all_gaps() -> None:
    rng = np.random.default_rng(1)
    lines = Lines.fit(rng.normal(size=400), np.zeros(400, int), np.zeros(400, int), 2)
    assert Lines.from_dict(lines.to_dict()).to_dict() == lines.to_dict()
    older = Lines.from_dict({**lines.to_dict(), "spread": [1.0, 2.0]})
    np.testing.assert_array_equal(older.spread, [[1.0] * N_CLASSES, [2.0] * N_CLASSES])


def base() -> tuple[GaussianImputer, Windows]:
    rng = np.random.default_rng(0)
    values = np.cumsum(rng.normal(size=(1, 2, 300)), -1)
    values[rng.random(values.shape) < 0.3] = np.nan
    record = Windows(values, np.arange(300.0)[None], (Feature("a"), Feature("b")), ("r",))
    return GaussianImputer(periods=()).fit(record), record


def test_a_mixture_takes_whole_paths_keeps_what_is_known_and_comes_back_from_its_file(tmp_path: Path) -> None:
    process, record = base()
    lines = Lines.fit(np.random.default_rng(1).normal(size=400), np.zeros(400, int), np.zeros(400, int), 2)
    shares = np.zeros((2, N_CLASSES, 3))
    shares[..., GAUSSIAN], shares[..., LINES] = 0.6, 0.4
    model = Mixture(process, None, lines, shares)
    parts = list(model.impute_long(record, 10, 3))
    values = np.concatenate([found.values for _, found in parts], -1)
    assert np.isfinite(values).all()
    assert (values[:, 0][:, record.shown[0]] == record.values[0][record.shown[0]]).all()
    own = np.concatenate([found.values for _, found in process.impute_long(record, 10, 3)], -1)[in_pairs(10)]
    np.testing.assert_array_equal(values[4:], own[4:])
    assert (values[:4] != own[:4])[:, ~record.shown].mean() > 0.9
    path = tmp_path / "model"
    model.save(path, {"kept": 1})
    weights, about = read_model(path)
    again = model_from_file(path, weights, about)
    assert about["kept"] == 1
    assert again.method == "draws of Gaussian process over features and lags and linear interpolation"
    back = np.concatenate([found.values for _, found in again.impute_long(record, 10, 3)], -1)
    assert back.tobytes() == values.tobytes()
    (whole,) = again.impute_records(record, 10, 3)
    assert whole.values.tobytes() == values.tobytes()
    del about["shares"]
    with pytest.raises(CheckpointError, match="shares"):
        model_from_file(path, weights, about)


def test_the_first_draws_are_the_networks() -> None:
    chosen = chosen_of(10, np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]))
    assert chosen[:, 0].tolist() == [NETWORK] * 3 + [LINES] * 2 + [GAUSSIAN] * 5
    assert (chosen[:, 1] == GAUSSIAN).all()
    assert in_pairs(5).tolist() == [0, 3, 1, 4, 2]

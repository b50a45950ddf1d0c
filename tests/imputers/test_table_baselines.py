"""Baselines of tables, records of one step: closed forms, and columns and rows that have nothing to tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import ot
import pytest
import torch

from tsimpute.config import registry
from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import ConfigError
from tsimpute.imputers.low_rank import solved
from tsimpute.imputers.sinkhorn import sinkhorn_divergence

QUICK: dict[str, dict[str, Any]] = {
    "mice": {"max_iter": 3, "n_sweeps": 5},
    "softimpute": {},
    "gain": {"n_steps": 30},
    "sinkhorn": {"n_steps": 200},
    "miss_forest": {"n_trees": 10, "max_features": 1.0},
}
"""Methods and settings that make them quick."""


def table(values: np.ndarray) -> Windows:
    """Rows (N, K) as records of one step."""
    n, k = values.shape
    features = tuple(Feature(f"f{i}") for i in range(k))
    return Windows(values[:, :, None], np.zeros((n, 1)), features, tuple(map(str, range(n))))


def made(name: str, **settings: Any) -> Any:
    kind = "imputers" if registry.is_known("imputers", name) else "peers"
    return registry.make(kind, name, **QUICK.get(name, {}) | settings)


def filled(name: str, values: np.ndarray, n_samples: int = 1, **settings: Any) -> np.ndarray:
    """(S, N, K) completed versions of the table that it learns from."""
    return made(name, **settings).fit(table(values)).impute(table(values), n_samples).values[..., 0]


COVARIANCE = np.array([[4.0, 3.0, -1.0], [3.0, 5.0, 0.5], [-1.0, 0.5, 2.0]])
MEAN = np.array([10.0, -5.0, 0.0])


def gaussian(n: int, missing: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of one Gaussian, whole and with gaps."""
    rng = np.random.default_rng(seed)
    rows = rng.multivariate_normal(MEAN, COVARIANCE, n)
    return rows, np.where(rng.random(rows.shape) < missing, np.nan, rows)


def conditional(shown: dict[int, float]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the other features given some."""
    b = list(shown)
    a = [k for k in range(3) if k not in shown]
    gain = COVARIANCE[np.ix_(a, b)] @ np.linalg.inv(COVARIANCE[np.ix_(b, b)])
    return MEAN[a] + gain @ (np.array(list(shown.values())) - MEAN[b]), COVARIANCE[np.ix_(a, a)] - gain @ COVARIANCE[
        np.ix_(b, a)
    ]


# -- closed forms ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shown", [{0: 13.0}, {1: -9.0, 2: 1.0}])
@pytest.mark.parametrize("name", ["mice"])
def test_draws_are_of_the_conditional_gaussian(name: str, shown: dict[int, float]) -> None:
    imputer = made(name, **{"mice": {"max_iter": 10, "n_sweeps": 20}}[name]).fit(table(gaussian(1500, 0.25)[1]))
    row = np.full((1, 3), np.nan)
    row[0, list(shown)] = list(shown.values())
    draws = imputer.impute(table(row), 4000).values[:, 0, :, 0]
    mean, covariance = conditional(shown)
    others = [k for k in range(3) if k not in shown]
    np.testing.assert_allclose(draws[:, others].mean(0), mean, atol=0.2)
    np.testing.assert_allclose(np.cov(draws[:, others].T), np.squeeze(covariance), atol=0.35)


def objective(rows: np.ndarray, completed: np.ndarray, penalty: float) -> float:
    """Of SoftImpute, by an independent way: half the squared error plus the nuclear norm."""
    error = np.nansum((rows - completed) ** 2)
    return 0.5 * float(error) + penalty * float(np.linalg.norm(completed, "nuc"))


def test_softimpute_recovers_a_matrix_of_low_rank() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 10))
    gaps = rng.random(truth.shape) < 0.3
    gaps[0] = True
    got = filled("softimpute", np.where(gaps, np.nan, truth), max_iter=3000)[0]
    gaps[0] = False
    assert np.abs(got - truth)[gaps].mean() < 0.05 * truth.std()
    np.testing.assert_allclose(got[0], np.nanmean(np.where(gaps, np.nan, truth)[1:], 0), atol=1e-9)


def test_softimpute_minimises_its_objective_and_is_a_soft_thresholded_decomposition() -> None:
    rng = np.random.default_rng(1)
    rows = gaussian(40, 0.3, 1)[1] - MEAN
    penalty = 4.0
    imputer = registry.make("imputers", "softimpute", max_iter=5000, tol=1e-12)
    completed, projection = imputer._iterated(rows, np.zeros_like(rows), penalty)
    left, values, right = np.linalg.svd(completed, full_matrices=False)
    low_rank = (left * np.maximum(values - penalty, 0)) @ right
    np.testing.assert_allclose(low_rank, completed @ projection, atol=1e-8)
    np.testing.assert_allclose(solved(rows, projection), np.where(np.isnan(rows), low_rank, rows), atol=1e-8)
    least = objective(rows, low_rank, penalty)
    others = [objective(rows, low_rank + 1e-3 * rng.normal(size=rows.shape), penalty) for _ in range(50)]
    assert least < min(others)


def test_gain_beats_the_mean_where_columns_go_together() -> None:
    rng = np.random.default_rng(2)
    truth = rng.normal(size=(400, 1)) * np.array([1.0, -2.0, 30.0]) + 0.1 * rng.normal(size=(400, 3))
    gaps = rng.random(truth.shape) < 0.2
    values = np.where(gaps, np.nan, truth)
    some = gaps & ~gaps.all(1, keepdims=True)
    got = filled("gain", values, 2, n_steps=1000)
    error = np.abs(got - truth)[:, some].mean()
    assert error < 0.8 * np.abs(filled("mean", values) - truth)[:, some].mean()
    assert (got.min((0, 1)) >= np.nanmin(values, 0) - 1e-9).all()
    assert (got.max((0, 1)) <= np.nanmax(values, 0) + 1e-9).all()


def regularised_cost(x: np.ndarray, y: np.ndarray, regularisation: float) -> float:
    """By POT: the cost of the plan and its relative entropy."""
    weights, costs = np.full(len(x), 1 / len(x)), 0.5 * ot.dist(x, y)
    plan = ot.sinkhorn(weights, weights, costs, regularisation, method="sinkhorn_log", numItermax=5000, stopThr=1e-10)
    return float((plan * costs).sum() + regularisation * (plan * np.log(plan * len(x) ** 2 + 1e-300)).sum())


def test_the_sinkhorn_divergence_is_pots_and_falls_to_nothing_between_equal_sets() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(40, 3)), rng.normal(size=(40, 3)) + 0.7
    expected = regularised_cost(x, y, 0.5) - 0.5 * regularised_cost(x, x, 0.5) - 0.5 * regularised_cost(y, y, 0.5)
    assert float(sinkhorn_divergence(torch.tensor(x), torch.tensor(y), 0.5)) == pytest.approx(expected, rel=0.01)
    assert float(sinkhorn_divergence(torch.tensor(x), torch.tensor(x[::-1].copy()), 0.5)) == pytest.approx(0, abs=1e-9)


def test_sinkhorn_lowers_the_divergence_and_fills_a_training_record_as_it_learnt() -> None:
    rng = np.random.default_rng(4)
    truth = rng.normal(size=(120, 1)) * np.array([1.0, -2.0]) + 0.1 * rng.normal(size=(120, 2))
    gaps = rng.random(truth.shape) < 0.25
    gaps[:, 0] &= ~gaps[:, 1]
    values = np.where(gaps, np.nan, truth)
    imputer = made("sinkhorn", n_steps=400).fit(table(values))
    got = imputer.impute(table(values), 2).values[0, :, :, 0]
    mean = filled("mean", values)[0]
    assert np.abs(got - truth)[gaps].mean() < 0.5 * np.abs(mean - truth)[gaps].mean()
    some, whole = gaps.any(1), torch.tensor(truth[~gaps.any(1)])
    n = min(some.sum(), len(whole))
    divergence = [float(sinkhorn_divergence(torch.tensor(x[some][:n]), whole[:n], 0.1)) for x in (got, mean)]
    assert divergence[0] < 0.5 * divergence[1]
    other = replace(table(values), record_ids=tuple(f"new {n}" for n in range(120)))
    projected = imputer.impute(other, 1).values[0, :, :, 0]
    assert not np.array_equal(projected, got)
    assert np.abs(projected - truth)[gaps].mean() < 0.4 * np.abs(mean - truth)[gaps].mean()


def em(rows: np.ndarray, rounds: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of incomplete Gaussian rows by EM, row by row."""
    mean, covariance = np.nanmean(rows, 0), np.diag(np.nanvar(rows, 0))
    for _ in range(rounds):
        completed, spread = rows.copy(), np.zeros_like(covariance)
        for row in completed:
            a, b = np.isnan(row), ~np.isnan(row)
            gain = covariance[np.ix_(a, b)] @ np.linalg.inv(covariance[np.ix_(b, b)])
            row[a] = mean[a] + gain @ (row[b] - mean[b])
            spread[np.ix_(a, a)] += covariance[np.ix_(a, a)] - gain @ covariance[np.ix_(b, a)]
        mean = completed.mean(0)
        covariance = np.cov(completed.T, bias=True) + spread / len(rows)
    return mean, covariance


def test_gaussian_without_lags_is_the_gaussian_of_em() -> None:
    """Three records of the pattern of one column each: means and spreads of draws as EM's parameters give them."""
    rows = gaussian(200, 0.3)[1]
    mean, covariance = em(rows)
    plain = {"normality": 0.0, "component_share": 1.0, "noise": 1e-5, "n_rounds": 20}
    imputer = registry.make("imputers", "gaussian", settings=plain).fit(table(rows))
    given = mean + 1.5 * np.sqrt(np.diag(covariance))
    draws = imputer.impute(table(np.where(np.eye(3) > 0, given, np.nan)), 4000).values[..., 0]
    for k in range(3):
        others = np.arange(3) != k
        slope = covariance[others, k] / covariance[k, k]
        expected = covariance[np.ix_(others, others)] - np.outer(slope, covariance[k, others])
        np.testing.assert_allclose(draws[:, k, others].mean(0), (mean[others] + slope * (given - mean)[k]), atol=0.25)
        np.testing.assert_allclose(np.cov(draws[:, k, others].T), expected, atol=0.35)


# -- columns and rows with nothing to tell -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUICK)
def test_a_constant_column_stays_constant_and_an_empty_row_is_filled(name: str) -> None:
    values = gaussian(60, 0.2)[1]
    values[:, 1] = np.where(np.isnan(values[:, 1]), np.nan, 7.0)
    values[5] = np.nan
    values[6] = [11.0, 7.0, 0.5]
    got = filled(name, values, 3)
    np.testing.assert_allclose(got[:, :, 1], 7.0, atol=1e-6)
    assert np.isfinite(got).all()
    assert (got[:, 6] == values[6]).all()


@pytest.mark.parametrize("name", QUICK)
def test_equal_columns_and_more_columns_than_rows(name: str) -> None:
    rng = np.random.default_rng(1)
    line = rng.normal(size=(80, 1))
    values = np.concatenate([line, 250 * line, rng.normal(size=(80, 1))], 1)
    values[:20, 1] = np.nan
    assert np.corrcoef(filled(name, values)[0, :20, 1], line[:20, 0])[0, 1] > (0.9 if name != "gain" else -1)
    wide = rng.normal(size=(4, 9))
    wide[0, 0] = wide[2, 5] = np.nan
    assert np.isfinite(filled(name, wide)).all()


@pytest.mark.parametrize("name", QUICK)
def test_one_row_one_column_and_a_column_without_values(name: str) -> None:
    assert (filled(name, np.array([[3.0, 4.0]])) == [3.0, 4.0]).all()
    one_row = filled(name, np.array([[3.0, np.nan]]))
    assert (one_row[..., 0] == 3.0).all()
    assert one_row[..., 1] == pytest.approx(0.0)  # the centre of a feature that was never shown
    column = np.array([[1.0], [2.0], [np.nan], [3.0]])
    assert -10 < filled(name, column, 3)[:, 2].mean() < 14
    never = gaussian(50, 0.2)[1]
    never[:, 2] = np.nan
    imputer = made(name).fit(table(never))
    assert imputer.no_data_ == ("f2",)
    assert np.isfinite(imputer.impute(table(never), 1).values).all()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("mice", {"n_chains": 0}),
        ("mice", {"n_sweeps": 1.5}),
        ("softimpute", {"max_iter": 0}),
        ("gain", {"hint_rate": 2.0}),
        ("sinkhorn", {"epsilon": 0.0}),
        ("gaussian", {"settings": {"rounds": 3}}),
    ],
)
def test_senseless_settings_are_refused(name: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        registry.make("imputers", name, **settings)

"""Metrics of imputed tables against closed forms and other implementations, and tables that bite."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import energy_distance
from scoringrules import crps_ensemble

from tsimpute.errors import DataError
from tsimpute.evaluation import table_metrics as metrics
from tsimpute.evaluation.pooling import pool
from tsimpute.evaluation.table_metrics import auroc, median_distance, mmds, table_metrics, wasserstein

pytest.importorskip("ot")


def table(n: int = 120, d: int = 4, m: int = 3, seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) * 10.0 ** np.arange(d) + 5
    hidden = rng.random((n, d)) < 0.3
    draws = truth + truth.std(0) * rng.normal(size=(m, n, d))
    return truth, hidden, np.where(hidden, draws, truth), truth[:, 0] / truth[:, 0].std() + rng.normal(size=n)


def test_distances_between_clouds():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)), rng.normal(size=(60, 3)) + 1
    cost = cdist(x, y, "sqeuclidean")
    at = linear_sum_assignment(cost)
    assert wasserstein(x, y) == pytest.approx(np.sqrt(cost[at].mean()))
    assert wasserstein(x, x + np.array([3, 0, 4])) == pytest.approx(5)
    assert wasserstein(x, x[::-1]) == pytest.approx(0, abs=1e-7)
    s = median_distance(x)
    assert s == pytest.approx(np.median(cdist(x, x)[np.triu_indices(60, 1)]))
    assert mmds(x, y, s)["mmd_energy"] > 0
    assert all(abs(value) < 1e-12 for value in mmds(x, x[::-1], s).values())
    one, other = x[:, :1], y[:, :1]
    assert mmds(one, other, s)["mmd_energy"] == pytest.approx(energy_distance(one[:, 0], other[:, 0]) ** 2 / 2)


def test_kernel_distances_are_those_of_geomloss():
    geomloss, torch = pytest.importorskip("geomloss"), pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), rng.normal(size=(30, 3)) + 1
    found = mmds(x, y, 1.7)
    for kernel in ("energy", "gaussian", "laplacian"):
        loss = geomloss.SamplesLoss(kernel, blur=1.7, backend="tensorized")
        assert found[f"mmd_{kernel}"] == pytest.approx(float(loss(torch.tensor(x), torch.tensor(y))), rel=1e-4), (
            kernel
        )  # it adds a little to d^2


def test_errors_of_cells():
    truth, hidden, imputed, target = table()
    found = table_metrics(truth, hidden, imputed, target)
    z, mu = truth.std(0), truth.mean(0)
    errors = [np.sqrt(np.mean(((one - truth) / z)[hidden] ** 2)) for one in imputed]
    assert found["rmse"] == pytest.approx(np.mean(errors))
    by_column = [
        np.mean(crps_ensemble(((truth - mu) / z)[hidden[:, k], k], (((imputed - mu) / z)[:, hidden[:, k], k]).T))
        for k in range(4)
    ]
    assert found["crps"] == pytest.approx(np.mean(by_column))
    again = table_metrics(1000 * truth - 3, hidden, np.where(hidden, 1000 * imputed - 3, 1000 * truth - 3), target)
    assert again == pytest.approx(found, rel=1e-6)  # units do not matter


def test_the_truth_is_perfect():
    truth, hidden, _, target = table()
    found = table_metrics(truth, hidden, truth[None], target)
    assert found == pytest.approx(dict.fromkeys(found, 0) | {"width": found["width"]}, abs=1e-6)
    assert found["width"] > 0


def test_coefficients_and_predictions_are_those_of_statsmodels():
    sm = pytest.importorskip("statsmodels.api")
    truth, hidden, imputed, target = table(seed=1)
    found = table_metrics(truth, hidden, imputed, target)
    x, filled, y = (truth - truth.mean(0)) / truth.std(0), (imputed - truth.mean(0)) / truth.std(0), target
    y = (y - y.mean()) / y.std()
    fits = [sm.OLS(y, sm.add_constant(rows)).fit() for rows in (x, *filled)]
    true = fits[0].params[1:]
    params = np.array([fit.params[1:] for fit in fits[1:]])
    variances = np.array([fit.bse[1:] ** 2 for fit in fits[1:]])
    assert found["percent_bias"] == pytest.approx(np.mean(100 * np.abs(params.mean(0) - true) / np.abs(true)))
    low, high = pool(params, variances, fits[0].df_resid).interval()
    assert found["width"] == pytest.approx(np.mean(high - low))
    assert found["coverage_loss"] == np.mean((true < low) | (true > high))
    answers = np.array([fits[0].predict(sm.add_constant(rows)) for rows in (x, *filled)])
    assert found["prediction_crps"] == pytest.approx(np.mean(crps_ensemble(answers[0], answers[1:].T)))


def test_auroc_is_that_of_scikit_learn():
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    target = np.repeat(["a", "b", "c"], [50, 30, 20])
    x = rng.normal(size=(100, 2)) + np.array([[0, 0], [1, 0], [1, 1]])[np.repeat([0, 1, 2], [50, 30, 20])]
    fold, scores = np.empty(100, int), np.empty((100, 3))
    fold[np.lexsort((np.random.default_rng(4).random(100), target))] = np.arange(100) % 5
    for k in range(5):
        scores[fold == k] = (
            LogisticRegression(max_iter=300).fit(x[fold != k], target[fold != k]).predict_proba(x[fold == k])
        )
    assert auroc(x, x, target, 4) == pytest.approx(roc_auc_score(target, scores, multi_class="ovr", average="macro"))
    assert auroc(x * 0 + 10 * (target == "a")[:, None], 10 * (target == "a")[:, None] + x * 0, target, 4) > 0.7
    found = table_metrics(x, np.ones(x.shape, bool), rng.normal(size=(2, 100, 2)), target)
    assert 0.3 < found["auroc_loss"] < 0.7
    assert found["prediction_crps"] > 0.05


def test_tables_that_bite():
    truth, hidden, imputed, target = table()
    truth[:, 1] = imputed[:, :, 1] = 0.1  # constant: its coefficient is left out
    found = table_metrics(truth, hidden, imputed, target)
    assert all(np.isfinite(value) for value in found.values())
    assert found["percent_bias"] == pytest.approx(
        table_metrics(truth[:, [0, 2, 3]], hidden[:, [0, 2, 3]], imputed[:, :, [0, 2, 3]], target)["percent_bias"]
    )
    undefined = {"percent_bias", "coverage_loss", "width"}
    collinear = np.concatenate([truth, 250 * truth[:, :1]], 1), np.zeros((120, 5), bool)
    collinear[1][:9, 0] = True
    found = table_metrics(*collinear, collinear[0][None], target)
    assert {name for name, value in found.items() if np.isnan(value)} == undefined
    found = table_metrics(truth[:1], hidden[:1] | True, truth[None, :1], target[:1])
    assert {name for name, value in found.items() if np.isnan(value)} == undefined
    found = table_metrics(truth[:9], hidden[:9] | True, truth[None, :9], np.array(["a"] * 9))
    assert {name for name, value in found.items() if np.isnan(value)} == {*undefined, "auroc_loss", "prediction_crps"}
    rare = np.array(["a"] * 60 + ["b"] * 59 + ["c"])  # a class of one row, that no fold learns and is asked
    assert 0 <= table_metrics(truth, hidden, imputed, rare)["auroc_loss"] <= 1
    one_column = table_metrics(truth[:, :1], hidden[:, :1], imputed[:, :, :1], target)
    assert np.isfinite(list(one_column.values())).all()


def test_large_tables_take_the_same_rows_of_both(monkeypatch: pytest.MonkeyPatch):
    truth, hidden, imputed, target = table(400)
    monkeypatch.setattr(metrics, "MAX_ROWS", 50)
    found = table_metrics(truth, hidden, np.where(hidden, truth, truth)[None], target)
    assert found["w2"] == pytest.approx(0, abs=1e-6)
    assert table_metrics(truth, hidden, imputed, target, 1)["w2"] != table_metrics(truth, hidden, imputed, target)["w2"]


def test_refused():
    truth, hidden, imputed, target = table()
    changed = imputed.copy()
    changed[:, ~hidden] += 1
    for arguments in (
        (truth, hidden, changed, target),
        (truth, hidden, imputed[:, :-1], target),
        (truth, hidden & False, imputed, target),
        (truth, hidden, imputed * np.nan, target),
        (truth, hidden, imputed[:0], target),
    ):
        with pytest.raises(DataError, match="table_metrics: expected"):
            table_metrics(*arguments)

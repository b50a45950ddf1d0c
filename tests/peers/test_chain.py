"""Nearest steps, chained regressions over lags and forests: scikit-learn's own numbers, and what lags are for."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import KNNImputer

from tsimpute.config import registry
from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import ConfigError
from tsimpute.peers.chained import nodes, predicted


def one_record(values: np.ndarray) -> Windows:
    k, length = values.shape
    return Windows(values[None], np.arange(float(length))[None], tuple(Feature(f"f{i}") for i in range(k)), ("a",))


def filled(name: str, values: np.ndarray, **settings) -> np.ndarray:
    record = one_record(values)
    return registry.make("peers", name, **settings).fit(record).impute(record, 1).values[0, 0]


def mixed(seed: int, n_features: int = 4, n_steps: int = 400, missing: float = 0.15) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n_features, n_features)) @ rng.normal(size=(n_features, n_steps)) * 10 + 50
    return truth, np.where(rng.random(truth.shape) < missing, np.nan, truth)


def test_knn_is_scikit_learns() -> None:
    _, values = mixed(0)
    peer = registry.make("peers", "knn", n_neighbors=7).fit(one_record(values))
    known = peer.scaler_.transform(values[None])[0].T
    theirs = KNNImputer(n_neighbors=7, weights="distance").fit(known).transform(known)
    some = ~np.isnan(values).all(0)
    got = peer.scaler_.transform(peer.impute(one_record(values), 1).values[0])[0].T
    np.testing.assert_allclose(got[some], theirs[some], atol=1e-9)


@pytest.mark.parametrize("name", ["knn", "chained_lags", "miss_forest"])
def test_one_feature_by_itself_is_not_worse_than_straight_lines(name: str) -> None:
    truth = np.sin(np.arange(300) / 5)[None]
    values = truth.copy()
    values[0, 40:44] = values[0, 100:106] = np.nan
    lines = np.interp(np.arange(300), np.flatnonzero(~np.isnan(values[0])), values[0][~np.isnan(values[0])])
    gaps = np.isnan(values[0])
    error = np.abs(filled(name, values)[0] - truth[0])[gaps].mean()
    assert error <= np.abs(lines - truth[0])[gaps].mean() + 1e-9


def test_lags_carry_what_the_step_itself_does_not_tell() -> None:
    rng = np.random.default_rng(0)
    first = rng.normal(size=1000)
    truth = np.stack([first, 3 + 2 * np.roll(first, 1)])  # the first feature, one step later
    values = truth.copy()
    gaps = rng.random(1000) < 0.2
    gaps[0] = False
    values[1, gaps] = np.nan
    assert np.abs(filled("chained_lags", values) - truth)[1, gaps].max() < 0.01
    assert np.abs(filled("chained_lags", values, lags=()) - truth)[1, gaps].mean() > 1.0


def test_a_chain_does_not_run_away() -> None:
    """Two features that are one to the last digit, both out for long: the chain feeds on itself."""
    rng = np.random.default_rng(1)
    first = rng.normal(size=500).cumsum()
    values = np.stack([first, first, -first])
    low, high = first.min(), first.max()
    values[:, 200:300] = np.nan
    got = filled("chained_lags", values, max_iter=50)
    assert (np.abs(got) <= max(abs(low), abs(high)) * 3).all()


def test_the_rounds_use_features_of_the_same_step() -> None:
    truth, values = mixed(2)
    gaps = np.isnan(values)
    values[0] = truth[0] = truth[1] + truth[2]
    gaps[0] = False
    values[0, ::3] = np.nan
    gaps[0, ::3] = True
    for name, most in (("chained_lags", 0.9), ("miss_forest", 0.9)):
        error = np.abs(filled(name, values) - truth)[gaps].mean()
        assert error < most * np.abs(truth - np.nanmean(values, 1, keepdims=True))[gaps].mean()


@pytest.mark.parametrize("depth", [1, 3, 12])
def test_a_tree_kept_as_numbers_predicts_what_scikit_learns_does(depth: int) -> None:
    rng = np.random.default_rng(depth)
    columns = rng.normal(size=(300, 5))
    target = columns[:, 0] * columns[:, 1] + rng.normal(size=300)
    forest = RandomForestRegressor(3, max_depth=depth, random_state=0).fit(columns, target)
    other = np.concatenate([rng.normal(size=(1000, 5)), columns])
    for tree in forest.estimators_:
        assert predicted(nodes(tree.tree_), other).tobytes() == tree.predict(other).tobytes()
    alone = RandomForestRegressor(1, bootstrap=False).fit(columns[:1], target[:1])
    assert (predicted(nodes(alone.estimators_[0].tree_), other) == target[0]).all()


def test_forests_of_a_table_are_scikit_learns() -> None:
    """One column with gaps: a forest of the others, whose predictions are scikit-learn's own."""
    rng = np.random.default_rng(4)
    truth = rng.normal(size=(150, 3))
    truth[:, 2] = truth[:, 0] * truth[:, 1]
    values = truth.copy()
    values[::4, 2] = np.nan
    rows = Windows(values[:, :, None], np.zeros((150, 1)), tuple(map(Feature, "abc")), tuple(map(str, range(150))))
    settings = {"n_trees": 10, "max_depth": None, "min_samples_leaf": 1, "max_features": 1.0, "max_iter": 1}
    peer = registry.make("peers", "miss_forest", seed=3, **settings).fit(rows)
    known = peer.scaler_.transform(values[:, :, None])[:, :, 0]
    gaps = np.isnan(values[:, 2])
    columns = known[:, peer.learnt_["neighbours"][2]]
    forest = RandomForestRegressor(10, random_state=3 + 2).fit(columns[~gaps], known[~gaps, 2])
    got = peer.scaler_.transform(peer.impute(rows, 1).values[0])[gaps, 2, 0]
    np.testing.assert_allclose(got, forest.predict(columns[gaps]), atol=1e-9)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("knn", {"n_neighbors": 0}),
        ("knn", {"max_rows": 0}),
        ("chained_lags", {"lags": (0, 1)}),
        ("chained_lags", {"lags": (1, 1)}),
        ("chained_lags", {"max_iter": 0}),
        ("miss_forest", {"n_trees": 0}),
        ("miss_forest", {"max_depth": 1.5}),
        ("miss_forest", {"min_samples_leaf": 0}),
        ("miss_forest", {"max_features": 0.0}),
    ],
)
def test_senseless_settings_are_refused(name: str, settings: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        registry.make("peers", name, **settings)

"""Rubin's rules: closed forms at both ends, another implementation, and intervals that hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

import tsimpute as ti
from tsimpute.errors import ConfigError, DataError


def test_formulas_of_van_buuren():
    rng = np.random.default_rng(0)
    q, u, m, df = rng.normal(size=(7, 3)), rng.random((7, 3)) + 0.1, 7, 40
    pooled = ti.pool(q, u, df)
    between = ((q - q.mean(0)) ** 2).sum(0) / (m - 1)
    total = u.mean(0) + between + between / m
    share = (between + between / m) / total
    old, observed = (m - 1) / share**2, (df + 1) / (df + 3) * df * (1 - share)
    np.testing.assert_allclose(pooled.estimate, q.mean(0))
    np.testing.assert_allclose(pooled.variance, total)
    np.testing.assert_allclose(pooled.df, old * observed / (old + observed))
    half = student.ppf(0.975, pooled.df) * np.sqrt(total)
    np.testing.assert_allclose(pooled.interval(), [q.mean(0) - half, q.mean(0) + half])
    ratio = (1 + 1 / m) * between / u.mean(0)  # Rubin 1987, a large sample
    np.testing.assert_allclose(ti.pool(q, u).df, (m - 1) * (1 + 1 / ratio) ** 2)


def test_equal_analyses_are_one_analysis():
    for n_tables in (2, 5):
        pooled = ti.pool([2.0] * n_tables, [0.25] * n_tables, 10)
        assert (pooled.estimate, pooled.variance, pooled.between, pooled.df) == (2, 0.25, 0, 11 / 13 * 10)
    pooled = ti.pool([2.0] * 2, [0.25] * 2)
    assert np.isinf(pooled.df)
    np.testing.assert_allclose(pooled.interval().T, [[2 - 1.959964 / 2, 2 + 1.959964 / 2]], rtol=1e-6)
    np.testing.assert_array_equal(ti.pool([2.0, 2.0], [0.0, 0.0], 10).interval().ravel(), [2, 2])


def test_as_statsmodels_pools():
    mice = pytest.importorskip("statsmodels.imputation.mice")
    import pandas as pd

    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=["y", "a", "b"])
    frame["y"] += frame["a"]
    frame.loc[rng.random(120) < 0.3, "a"] = np.nan
    np.random.seed(3)  # noqa: NPY002 - statsmodels draws from the global generator
    from statsmodels.regression.linear_model import OLS

    chain = mice.MICE("y ~ a + b", OLS, mice.MICEData(frame))
    other = chain.fit(2, 6)
    pooled = ti.pool([fit.params for fit in chain.results_list], [fit.bse**2 for fit in chain.results_list])
    np.testing.assert_allclose(pooled.estimate, other.params)
    np.testing.assert_allclose(pooled.variance, other.bse**2)


def test_intervals_of_proper_draws_hold_the_truth_as_often_as_they_say():
    rng, held, n, m = np.random.default_rng(2), 0, 60, 5
    for _ in range(400):  # the mean of n values of which half are lost completely at random
        seen = rng.normal(size=n // 2)
        q, u = [], []
        for _ in range(m):  # draws from the posterior predictive distribution
            sd = np.sqrt((len(seen) - 1) * seen.var(ddof=1) / rng.chisquare(len(seen) - 1))
            mean = seen.mean() + sd / np.sqrt(len(seen)) * rng.normal()
            whole = np.concatenate([seen, mean + sd * rng.normal(size=n - len(seen))])
            q.append(whole.mean())
            u.append(whole.var(ddof=1) / n)
        low, high = ti.pool(q, u, n - 1).interval()[:, 0]
        held += low <= 0 <= high
    assert 0.92 <= held / 400 <= 0.98


@pytest.mark.parametrize(
    ("q", "u", "df"),
    [([], [], 5), ([1.0], [1.0, 2.0], 5), ([1.0], [-1.0], 5), ([1.0], [1.0], 0), ([1.0], [1.0], np.nan)],
)
def test_refused(q: list, u: list, df: float):
    with pytest.raises(DataError, match="pool: expected m estimates and as many variances"):
        ti.pool(q, u, df)


def test_one_table_and_other_numbers_of_variances_are_refused_in_words():
    with pytest.raises(DataError, match=r"two tables or more, which tell what the gaps add to the variance, came 1\."):
        ti.pool([1.0], [0.1])
    with pytest.raises(DataError, match="came 2 estimates and 1 variances, and df"):
        ti.pool([1.0, 1.1], [0.1])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_named(bad: float):
    with pytest.raises(DataError, match=rf"came the estimate {bad} of analysis 2 of 3\. Look"):
        ti.pool([1.0, bad, bad], [1.0, 1.0, 1.0])
    if bad > 0 or np.isnan(bad):
        with pytest.raises(
            DataError, match=rf"the variance {bad} of parameter 1 \(counted from 0\) of analysis 3 of 3"
        ):
            ti.pool(np.ones((3, 2)), [[1, 1], [1, 1], [1, bad]])


@pytest.mark.parametrize("level", [95, 1, 0, -0.5, float("nan")])
def test_a_level_outside_0_and_1_is_refused(level: float):
    with pytest.raises(ConfigError, match=r"expected a level in \(0, 1\), as 0\.95; came"):
        ti.pool([1, 2], [1, 1]).interval(level)

"""Quantiles of draws: exact coverage by exchangeability, the order statistics of a uniform law, NumPy's type 6."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from tsimpute.core.quantiles import central_levels, few_draws_text, fewest_draws, most_coverage, quantiles
from tsimpute.errors import DataError

LEVELS = np.array([0, 0.01, 0.025, 0.05, 0.25, 0.3, 0.5, 0.77, 0.95, 0.975, 1])
NUMBERS = st.floats(-1e6, 1e6)
DRAWS = arrays(np.float64, st.tuples(st.integers(1, 45), st.integers(1, 3)), elements=NUMBERS)
SOME_LEVELS = st.lists(st.floats(0, 1), min_size=1, max_size=5)


def left_out_once_each(values: np.ndarray, percent: int) -> tuple[int, int, int]:
    """How many of S + 1 exchangeable values lie below, in and above the interval of the S others."""
    others = np.array([np.delete(values, i) for i in range(len(values))]).T
    low, high = quantiles(others, central_levels(percent))
    below, above = int((values < low).sum()), int((values > high).sum())
    return below, len(values) - below - above, above


@pytest.mark.parametrize(
    ("n_samples", "percent"), [(3, 50), (19, 90), (39, 90), (39, 95), (99, 90), (99, 98), (79, 95)]
)
def test_the_interval_of_exchangeable_draws_holds_exactly_its_share_whatever_the_law(n_samples: int, percent: int):
    rng = np.random.default_rng(n_samples)
    for values in (
        rng.normal(size=n_samples + 1),
        rng.standard_cauchy(n_samples + 1),
        rng.lognormal(0, 3, n_samples + 1),
    ):
        below, within, above = left_out_once_each(values, percent)
        # An end is a draw of rank r: the values of rank r and r + 1 among all have it as a neighbour or are it.
        assert 200 * below == 200 * above == (100 - percent) * (n_samples + 1)
        assert 100 * within == percent * (n_samples + 1)


@pytest.mark.parametrize("n_samples", [20, 50, 100])
@pytest.mark.parametrize("percent", [50, 80, 90])
def test_where_a_rank_is_no_whole_number_the_share_is_off_by_less_than_one_place_at_each_end(
    n_samples: int, percent: int
):
    rng = np.random.default_rng(percent)
    for values in (rng.normal(size=n_samples + 1), rng.standard_cauchy(n_samples + 1)):
        below, _, above = left_out_once_each(values, percent)
        for outside in (below, above):
            assert abs(outside - (100 - percent) / 200 * (n_samples + 1)) < 1


@pytest.mark.parametrize("n_samples", [1, 2, 3, 5, 19, 20, 39, 50, 99, 100])
def test_of_a_uniform_law_the_expected_quantile_is_its_level_within_the_expected_range(n_samples: int):
    # Expected order statistics: E[U(r)] = r / (S + 1); a quantile is linear in them.
    expected = np.arange(1, n_samples + 1) / (n_samples + 1)
    found = quantiles(expected, LEVELS)
    np.testing.assert_allclose(found, np.clip(LEVELS, expected[0], expected[-1]), rtol=1e-12)


@pytest.mark.parametrize(("n_samples", "low", "high"), [(19, 0.05, 0.95), (39, 0.25, 0.75), (20, 0.0, 1.0)])
def test_coverage_of_a_uniform_law_has_the_beta_distribution_of_its_spacing(n_samples: int, low: float, high: float):
    draws = np.random.default_rng(n_samples).random((n_samples, 5_000))
    first, last = quantiles(draws, [low, high])
    i, j = (np.clip(level * (n_samples + 1), 1, n_samples) for level in (low, high))
    spacing = stats.beta(j - i, n_samples - (j - i) + 1)  # U(j) - U(i)
    assert stats.kstest(last - first, spacing.cdf).pvalue > 1e-3
    expected = high - low if low else most_coverage(n_samples)
    assert spacing.mean() == pytest.approx(expected)


def test_the_usual_interpolation_would_hold_less():
    rng = np.random.default_rng(0)
    draws, truth = rng.random((20, 40_000)), rng.random(40_000)
    low, high = np.quantile(draws, (0.05, 0.95), axis=0)
    assert ((low <= truth) & (truth <= high)).mean() == pytest.approx(0.9 * 19 / 21, abs=0.008)
    low, high = quantiles(draws, (0.05, 0.95))
    assert ((low <= truth) & (truth <= high)).mean() == pytest.approx(0.9, abs=0.006)


@given(DRAWS, SOME_LEVELS)
def test_they_are_numpys_weibull_quantiles(draws: np.ndarray, levels: list[float]):
    expected = np.quantile(draws, levels, axis=0, method="weibull")
    np.testing.assert_allclose(quantiles(draws, levels), expected, rtol=1e-9, atol=1e-7 * np.abs(draws).max() + 1e-300)


@given(DRAWS, SOME_LEVELS)
def test_they_ascend_with_the_level_stay_in_the_range_and_take_draws_in_any_order(
    draws: np.ndarray, levels: list[float]
):
    found = quantiles(draws, sorted(levels))
    assert (np.diff(found, axis=0) >= 0).all()
    assert (draws.min(0) <= found).all()
    assert (found <= draws.max(0)).all()
    other = np.random.default_rng(len(levels)).permutation(draws, axis=0)
    assert (quantiles(other, sorted(levels)) == found).all()


@given(st.integers(1, 200), st.data())
def test_at_a_whole_rank_the_quantile_is_that_draw_to_the_bit(n_samples: int, data: st.DataObject):
    rank = data.draw(st.integers(1, n_samples))
    draws = np.random.default_rng(rank).lognormal(0, 5, n_samples)
    assert quantiles(draws, [rank / (n_samples + 1)])[0] == np.sort(draws)[rank - 1]


@given(DRAWS)
def test_at_a_half_they_are_the_median_and_at_the_ends_the_range(draws: np.ndarray):
    low, middle, high = quantiles(draws, [0, 0.5, 1])
    np.testing.assert_allclose(middle, np.median(draws, 0), rtol=1e-14, atol=1e-16 * np.abs(draws).max())
    assert (low == draws.min(0)).all()
    assert (high == draws.max(0)).all()


def test_equal_draws_give_their_value_and_one_draw_is_every_quantile():
    values = np.random.default_rng(0).lognormal(0, 9, 1000)
    assert (quantiles(np.tile(values, (7, 1)), LEVELS) == values).all()
    assert (quantiles(values[None], LEVELS) == values).all()


def test_draws_of_single_precision_are_not_rounded_again():
    draws = np.random.default_rng(0).normal(size=(20, 3, 4)).astype(np.float32)
    found = quantiles(draws, LEVELS)
    assert found.shape == (len(LEVELS), 3, 4)
    assert found.dtype == np.float64
    assert (found == quantiles(draws.astype(np.float64), LEVELS)).all()
    assert (quantiles(np.array([[1], [4]]), [0.5]) == 2.5).all()


def test_a_cell_with_a_draw_that_is_nan_has_no_quantile():
    draws = np.array([[1.0, np.nan, np.nan], [2.0, 3.0, np.nan], [3.0, 4.0, np.nan]])
    np.testing.assert_array_equal(quantiles(draws, [0.0, 0.5]), [[1.0, np.nan, np.nan], [2.0, np.nan, np.nan]])


@pytest.mark.parametrize("levels", [[-0.1], [1.1], [0.5, 50], [float("nan")]])
def test_a_level_outside_0_to_1_is_refused(levels: list[float]):
    with pytest.raises(DataError, match=r"levels: expected numbers in \[0, 1\]"):
        quantiles(np.zeros((3, 2)), levels)


def test_no_draw_is_refused():
    for nothing in (np.zeros((0, 4)), np.float64(1)):
        with pytest.raises(DataError, match="expected draws along the first axis"):
            quantiles(nothing, [0.5])


@pytest.mark.parametrize("percent", range(1, 100))
def test_the_fewest_draws_are_those_whose_range_holds_the_share(percent: int):
    n = fewest_draws(percent)
    assert 100 * (n - 1) >= percent * (n + 1)
    assert 100 * (n - 2) < percent * n
    assert most_coverage(19) == pytest.approx(0.9)
    low, high = central_levels(percent)
    assert low + high == 1
    assert not few_draws_text((low, 0.5, high), n)
    if n > 1:
        assert f"take {n} draws or more" in few_draws_text((low, high), n - 1)


def test_what_few_draws_cannot_tell_is_said():
    text = few_draws_text((0.0, 0.05, 0.5, 0.9, 1.0), 5)
    assert text == (
        "quantile 0.05, 0.9: the smallest or largest of 5 draws, which lies at 0.17 or 0.83; take 19 draws or more"
    )
    assert few_draws_text((0.9,), 8).endswith("take 9 draws or more")

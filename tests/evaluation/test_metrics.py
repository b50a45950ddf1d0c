"""Metrics against closed forms, brute force, an independent library and the frozen numbers of the reference code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import scoringrules
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.errors import DataError
from tsimpute.evaluation.ensembles import crps
from tsimpute.evaluation.metrics import METRICS, OVER_FEATURES, Score, Scores, check_records


def update(
    scores: Scores, samples: np.ndarray, truth: np.ndarray, mask: np.ndarray, record_ids: Sequence[str] = ()
) -> None:
    """Adds the cells of a mask (N, K, L), of samples (S, N, K, L) and truth (N, K, L)."""
    records, features, _ = np.nonzero(mask)
    names = record_ids or [str(n) for n in range(len(truth))]
    scores.update(samples[:, mask].T, truth[mask], records, features, names)


def one(
    samples: np.ndarray, truth: np.ndarray, mask: np.ndarray | None = None, names: tuple[str, ...] = ()
) -> dict[tuple[str, str], Score]:
    scores = Scores(names or [f"f{k}" for k in range(truth.shape[1])])
    update(scores, samples, truth, np.ones(truth.shape, bool) if mask is None else mask)
    return {(s.metric, s.feature): s for s in scores.values()}


def cells(draws: np.ndarray, truth: np.ndarray) -> dict[str, float | None]:
    """The metrics over M cells of one feature; draws (S, M)."""
    found = one(draws[:, None, None], truth[None, None])
    return {metric: found[metric, "all"].value for metric in METRICS}


@pytest.fixture
def ensemble() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    samples, truth = rng.normal(size=(12, 9, 4, 7)) * 3 + 1, rng.normal(size=(9, 4, 7)) * 2
    mask = rng.random(truth.shape) < 0.4
    mask[3] = False  # a record without a scored cell
    mask[:, 2] = False  # and a feature
    return samples, truth, mask


# -- values --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_samples", [1, 2, 3, 20, 101])
def test_crps_equals_scoringrules(n_samples: int) -> None:
    rng = np.random.default_rng(n_samples)
    x, y = rng.normal(size=(n_samples, 5, 6)) * 4 + 100, rng.normal(size=(5, 6)) * 4 + 100
    np.testing.assert_allclose(crps(x, y), scoringrules.crps_ensemble(y, x, m_axis=0, estimator="qd"), atol=1e-11)
    if n_samples > 1:
        for estimator in ("fair", "pwm"):
            expected = scoringrules.crps_ensemble(y, x, m_axis=0, estimator=estimator)
            np.testing.assert_allclose(crps(x, y, fair=True), expected, atol=1e-11)


def test_crps_equals_the_mean_over_all_pairs() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(7, 3)), rng.normal(size=3)
    pairs = np.abs(x[:, None] - x[None]).sum((0, 1))
    np.testing.assert_allclose(crps(x, y), np.abs(x - y).mean(0) - pairs / 2 / 49, rtol=1e-13)
    np.testing.assert_allclose(crps(x, y, fair=True), np.abs(x - y).mean(0) - pairs / 2 / 42, rtol=1e-13)


def test_crps_of_a_gaussian_has_the_closed_form_and_the_fair_one_has_it_at_any_number_of_draws() -> None:
    """CRPS(N(m, s), y) = s (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)) (Gneiting and Raftery 2007, Eq. 21)."""
    mean, std, y = 3.0, 2.0, 4.5
    z = (y - mean) / std
    exact = std * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    rng = np.random.default_rng(0)
    many = rng.normal(mean, std, size=(200_000, 1))
    assert crps(many, np.array([y]))[0] == pytest.approx(exact, rel=5e-3)
    few, truth = rng.normal(mean, std, size=(5, 100_000)), np.full(100_000, y)
    assert crps(few, truth, fair=True).mean() == pytest.approx(exact, rel=5e-3)
    # The plain estimator exceeds it by E|X - X'| / (2 S) = std / (S sqrt(pi)).
    assert crps(few, truth).mean() == pytest.approx(exact + std / (5 * np.sqrt(np.pi)), rel=5e-3)


def test_frozen_numbers_of_the_reference_code(reference_root: Path) -> None:
    stored = np.load(reference_root / "csdi_parity.npz")
    samples, truth, mask = np.moveaxis(stored["metric_samples"], 1, 0), stored["metric_target"], stored["metric_mask"]
    found = one(samples, truth, mask)
    # The reference computes in float32.
    assert found["ncrps", "all"].value == pytest.approx(float(stored["metric_ncrps"]), rel=5e-7)
    assert found["mae_lower_median", "all"].value == pytest.approx(float(stored["metric_mae_median"]), rel=5e-7)
    assert found["rmse_lower_median", "all"].value == pytest.approx(float(stored["metric_rmse_median"]), rel=5e-7)
    scaled = one(samples * np.float32(20) + np.float32(100), truth * np.float32(20) + np.float32(100), mask)
    expected = float(stored["metric_ncrps_scaled_20_shift_100"])
    assert scaled["ncrps", "all"].value == pytest.approx(expected, rel=5e-7)


def test_ncrps_equals_its_definition_by_numpy_quantiles(ensemble: tuple[np.ndarray, ...]) -> None:
    samples, truth, mask = ensemble
    total = 0.0
    for level in np.arange(0.05, 1, 0.05):
        q = np.quantile(samples, level, axis=0)
        total += 2 * np.abs((q - truth) * ((truth <= q) - level))[mask].sum() / np.abs(truth[mask]).sum()
    assert one(samples, truth, mask)["ncrps", "all"].value == pytest.approx(total / 19, rel=1e-12)


def test_point_metrics_of_a_worked_example() -> None:
    draws = np.array([[0.0, 4.0], [1.0, 4.0], [3.0, 4.0], [8.0, 8.0]])  # medians 2, 4; lower 1, 4; means 3, 5
    found = cells(draws, np.array([2.5, 3.0]))
    assert found["mae_median"] == pytest.approx((0.5 + 1.0) / 2)
    assert found["rmse_mean"] == pytest.approx(np.sqrt((0.5**2 + 2.0**2) / 2))
    assert found["mae_lower_median"] == pytest.approx((1.5 + 1.0) / 2)
    assert found["rmse_lower_median"] == pytest.approx(np.sqrt((1.5**2 + 1.0**2) / 2))


@pytest.mark.parametrize("n_samples", [39, 50, 100])
def test_coverage_of_exchangeable_draws_is_nominal(n_samples: int) -> None:
    rng = np.random.default_rng(n_samples)
    drawn = rng.gamma(2.0, size=(n_samples + 1, 20_000)) + rng.normal(size=20_000)
    found = cells(drawn[1:], drawn[0])
    for percent in (50, 90, 95):
        assert found[f"coverage_{percent}"] == pytest.approx(percent / 100, abs=0.008)


def test_coverage_counts_truths_between_the_ranks() -> None:
    draws = np.tile(np.arange(1.0, 40.0)[:, None], (1, 7))  # 39 draws 1 ... 39: rank p (S + 1) is its own value
    found = cells(draws, np.array([0.9, 1.0, 1.9, 2.0, 10.0, 30.1, 38.1]))
    assert found["coverage_95"] == 6 / 7  # [1, 39]
    assert found["coverage_90"] == 3 / 7  # [2, 38]
    assert found["coverage_50"] == 1 / 7  # [10, 30]


def test_coverage_with_too_few_draws_says_so() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(21, 1, 1, 20_000))
    found = one(drawn[1:], drawn[0])
    assert found["coverage_90", "all"].note == ""
    assert found["coverage_95", "all"].value == pytest.approx(19 / 21, abs=0.01)
    assert "expected 0.905 at best; 95 % needs 39 samples" in found["coverage_95", "all"].note


def test_mean_over_cells_and_mean_over_features_differ_and_are_both_given(ensemble: tuple[np.ndarray, ...]) -> None:
    samples, truth, mask = ensemble
    found = one(samples, truth, mask)
    per_cell = crps(samples, truth)
    means = [per_cell[:, k][mask[:, k]].mean() for k in (0, 1, 3)]
    assert found["crps", "all"].value == pytest.approx(per_cell[mask].mean(), rel=1e-12)
    assert found["crps_mean_over_features", "all"].value == pytest.approx(np.mean(means), rel=1e-12)
    assert "3 of 4 features" in found["crps_mean_over_features", "all"].note
    assert found["crps", "f3"].value == pytest.approx(means[2], rel=1e-12)


def test_counts_of_cells_and_records(ensemble: tuple[np.ndarray, ...]) -> None:
    samples, truth, mask = ensemble
    found = one(samples, truth, mask)
    assert found["crps", "all"].n_cells == mask.sum()
    assert found["crps", "all"].n_records == 8
    assert found["crps", "f1"].n_cells == mask[:, 1].sum()
    assert found["crps", "f1"].n_records == mask[:, 1].any(1).sum()


def test_five_and_a_hundred_draws_agree_in_the_fair_score() -> None:
    rng = np.random.default_rng(2)
    truth = rng.normal(size=(1, 1, 40_000))
    fair = [one(rng.normal(size=(s, *truth.shape)), truth)["crps_fair", "all"].value for s in (5, 100)]
    plain = one(rng.normal(size=(5, *truth.shape)), truth)["crps", "all"].value
    assert fair[0] == pytest.approx(fair[1], rel=0.015)
    assert plain > 1.15 * fair[1]


# -- streaming -----------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 30), st.booleans(), st.booleans())
def test_chunks_and_their_order_change_nothing(seed: int, n_chunks: int, large: bool, one_cell: bool) -> None:
    rng = np.random.default_rng(seed)
    n, k, length, s = 30, 3, 19, 11
    scale = np.exp(rng.normal(size=(n, 1, 1)) * (10 if large else 1))
    truth = rng.normal(size=(n, k, length)) * scale
    samples = (truth + rng.normal(size=(s, n, k, length)) * scale).astype(np.float32)
    mask = rng.random(truth.shape) < rng.random((n, 1, 1)) ** 2
    if one_cell:  # per record: NumPy sums a single row in another order if it may
        n_chunks, mask = n, np.zeros_like(mask)
        mask[np.arange(n), rng.integers(k, size=n), rng.integers(length, size=n)] = True
    whole = Scores(["a", "b", "c"])
    update(whole, samples, truth, mask)
    parts = Scores(["a", "b", "c"])
    for part in np.array_split(rng.permutation(n), n_chunks):
        update(parts, samples[:, part], truth[part], mask[part])
    assert parts.values() == whole.values()  # to the last bit


def test_memory_of_the_sums_does_not_grow(ensemble: tuple[np.ndarray, ...]) -> None:
    scores = Scores(["a", "b", "c", "d"])

    def size() -> int:
        arrays = [scores._sums.words, *(x for x in vars(scores).values() if isinstance(x, np.ndarray))]
        return sum(x.nbytes for x in arrays)

    before = size()
    for _ in range(20):
        update(scores, *ensemble)
    assert size() == before
    assert {type(x).__name__ for x in vars(scores).values()} <= {"tuple", "int", "_CarrySum", "ndarray"}


# -- what is undefined or ignored ----------------------------------------------------------------------------------


def test_truth_of_zero_leaves_ncrps_undefined_and_the_rest_defined() -> None:
    found = one(np.ones((30, 2, 1, 3)), np.zeros((2, 1, 3)))
    assert found["ncrps", "all"].value is None
    assert "sum of |truth| is 0" in found["ncrps", "all"].note
    assert found["crps", "all"].value == 1.0
    assert found["mae_median", "all"].value == 1.0


def test_a_feature_without_scored_cells_is_undefined_not_zero(ensemble: tuple[np.ndarray, ...]) -> None:
    found = one(*ensemble)
    for metric in METRICS:
        assert found[metric, "f2"].value is None
        assert "no scored cell" in found[metric, "f2"].note
        assert found[metric, "f2"].n_cells == 0


def test_nothing_added_is_undefined() -> None:
    assert all(s.value is None and s.note for s in Scores(["a"]).values())


def test_one_draw_is_the_absolute_error_and_says_so() -> None:
    rng = np.random.default_rng(3)
    found = one(rng.normal(size=(1, 4, 1, 5)), rng.normal(size=(4, 1, 5)))
    assert found["crps", "all"].value == found["mae_median", "all"].value
    assert found["crps", "all"].note == "one sample: equals the mean absolute error"
    assert found["crps_mean_over_features", "all"].note == found["crps", "all"].note
    for metric in ("crps_fair", "coverage_90"):
        assert found[metric, "all"].value is None
        assert "undefined" in found[metric, "all"].note
    assert found["crps_fair_mean_over_features", "all"].value is None
    with pytest.raises(DataError, match="at least 2"):
        crps(np.zeros((1, 3)), np.zeros(3), fair=True)


def test_equal_draws_have_no_spread_to_the_last_bit() -> None:
    x, y = np.full((7, 4), 0.1), np.array([0.3, 1e9, -4.0, 0.1])
    np.testing.assert_array_equal(crps(x, y), crps(x, y, fair=True))
    np.testing.assert_allclose(crps(x, y), np.abs(0.1 - y), rtol=1e-15)
    assert crps(x, y)[3] == 0


@pytest.mark.parametrize("place", ["truth", "sample"])
def test_nan_outside_the_mask_is_as_if_it_were_not_there(ensemble: tuple[np.ndarray, ...], place: str) -> None:
    samples, truth, mask = (x.copy() for x in ensemble)
    expected = one(samples, truth, mask)
    if place == "truth":
        truth[~mask] = np.nan
    else:
        samples[:, ~mask] = np.nan
    assert one(samples, truth, mask) == expected


def test_nan_truth_within_the_mask_is_ignored_and_counted(ensemble: tuple[np.ndarray, ...]) -> None:
    samples, truth, mask = ensemble
    gone = mask.copy()
    gone[1:] = False
    truth, left = np.where(gone, np.nan, truth), mask & ~gone
    found, expected = one(samples, truth, mask), one(samples, truth, left)
    assert found["crps", "all"].value == expected["crps", "all"].value
    assert found["crps", "all"].n_cells == left.sum()
    assert f"{gone.sum()} scored cells without a truth were ignored" in found["crps", "all"].note


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_prediction_that_is_not_finite_fails_with_its_place(ensemble: tuple[np.ndarray, ...], bad: float) -> None:
    samples, truth, mask = ensemble
    n, k, t = (int(x[-1]) for x in np.nonzero(mask))
    samples[4, n, k, t] = bad
    scores = Scores(["HR", "Temp", "pH", "Na"])
    with pytest.raises(DataError, match=rf"first in record 'p{n}', feature '{scores.features[k]}' \(1 of 12 values"):
        update(scores, samples, truth, mask, [f"p{i}" for i in range(9)])
    with pytest.raises(DataError, match="finite"):
        crps(samples, truth)


@pytest.mark.parametrize(
    "change",
    [
        lambda s, y: (y, s),  # swapped
        lambda s, y: (s[0], y),  # no leading axis of draws
        lambda s, y: (s.swapaxes(2, 3), y),  # (L, K) for (K, L)
        lambda s, y: (s[:0], y),
        lambda s, y: (s[:, :, :3], y),  # three features for four
    ],
)
def test_wrong_shapes_are_refused(ensemble: tuple[np.ndarray, ...], change) -> None:
    with pytest.raises(DataError, match="expected"):
        crps(*change(*ensemble[:2]))


def test_swapped_arguments_and_missing_draws_are_refused_by_crps() -> None:
    with pytest.raises(DataError, match="swapped"):
        crps(np.zeros(4), np.zeros((3, 4)))
    with pytest.raises(DataError, match="leading axis"):
        crps(np.zeros((4, 5)), np.zeros((4, 5)))


def test_axes_of_equal_length_are_told_apart_by_name() -> None:
    rng = np.random.default_rng(0)
    samples = xarray.DataArray(rng.normal(size=(5, 2, 4, 4)), dims=("sample", "record", "feature", "time"))
    truth = xarray.DataArray(rng.normal(size=(2, 4, 4)), dims=("record", "time", "feature"))
    with pytest.raises(DataError, match="Transpose"):
        crps(samples, truth)
    of_cells = crps(samples, truth.transpose("record", "feature", "time"))
    np.testing.assert_array_equal(of_cells, crps(samples.values, truth.values.swapaxes(1, 2)))


def test_another_number_of_draws_is_refused_and_leaves_the_sums_alone(ensemble: tuple[np.ndarray, ...]) -> None:
    samples, truth, mask = ensemble
    scores = Scores("abcd")
    update(scores, samples, truth, mask)
    before = scores.values()
    with pytest.raises(DataError, match="expected 12 draws"):
        update(scores, samples[:5], truth, mask)
    samples[0, mask] = np.nan
    with pytest.raises(DataError, match="finite"):
        update(scores, samples, truth, mask)
    assert scores.values() == before


def test_a_feature_called_all_is_refused() -> None:
    with pytest.raises(DataError, match="rename"):
        Scores(["HR", "all"])


# -- containers ----------------------------------------------------------------------------------------------------


def pair() -> tuple[Samples, Windows]:
    """Square records (K = L = 4), partly held out, and samples that complete them."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=(3, 4, 4))
    held_out = rng.random(values.shape) < 0.3
    windows = Windows(
        values, np.tile(np.arange(4.0), (3, 1)), tuple(Feature(n, "u") for n in "abcd"), ("x", "y", "z"), held_out
    )
    drawn = np.where(windows.visible, values, rng.normal(size=(6, *values.shape)))
    return Samples(drawn, windows.visible, windows.features, windows.record_ids), windows


def test_scores_are_of_the_held_out_cells() -> None:
    samples, windows = pair()
    expected = crps(samples.values, windows.values)[windows.held_out_mask].mean()
    check_records(samples, windows)
    scores = Scores(windows.features)
    update(scores, samples.values, windows.values, windows.held_out_mask, windows.record_ids)
    found = {(s.metric, s.feature): s for s in scores.values()}
    assert found["crps", "all"].value == pytest.approx(expected, rel=1e-12)
    assert {metric for metric, _ in found} == {*METRICS, *OVER_FEATURES}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": tuple(Feature(n, "u") for n in "bacd")}, "features of the windows"),
        ({"features": tuple(Feature(n, "v") for n in "abcd")}, "features of the windows"),
        ({"record_ids": ("y", "x", "z")}, "record_ids of the windows"),
    ],
)
def test_names_are_compared(change: dict, message: str) -> None:
    samples, windows = pair()
    with pytest.raises(DataError, match=message):
        check_records(Samples(**{**vars(samples), **change}), windows)


def test_swapped_axes_of_equal_length_and_changed_values_are_found() -> None:
    samples, windows = pair()
    turned = Samples(
        samples.values.swapaxes(2, 3), samples.visible.swapaxes(1, 2), samples.features, samples.record_ids
    )
    with pytest.raises(DataError, match="swapped"):
        check_records(turned, windows)
    less = Samples(samples.values, np.zeros_like(samples.visible), samples.features, samples.record_ids)
    with pytest.raises(DataError, match="shown cells are not those"):
        check_records(less, windows)
    rescaled = Samples(samples.values * 2, samples.visible, samples.features, samples.record_ids)
    with pytest.raises(DataError, match="scaled units"):
        check_records(rescaled, windows)

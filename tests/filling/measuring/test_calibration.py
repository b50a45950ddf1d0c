"""Calibrated quantiles hold on exchangeable data, whatever is wrong with the draws, and never cross."""

from __future__ import annotations

import numpy as np
import pytest

from tsimpute.core.quantiles import quantiles
from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.measuring.calibration import Calibration, calibrate

LEVELS = (0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975)


def data(n_records: int, spread: float, skew: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws (100, M) of the wrong spread, truth (M,) and the record of each of 20 cells a record."""
    rng = np.random.default_rng(seed)
    record = np.repeat(np.arange(n_records), 20)
    centre, scale = rng.normal(size=(n_records,))[record], rng.lognormal(size=(n_records,))[record]
    shared = rng.normal(size=n_records)[record]
    truth = centre + scale * np.sinh(skew * (0.6 * shared + 0.8 * rng.normal(size=len(record))) + skew / 2)
    draws = centre + spread * scale * rng.normal(size=(100, len(record)))
    return draws, truth, record


@pytest.mark.parametrize(("spread", "skew"), [(1.0, 1.0), (0.4, 1.0), (3.0, 0.5), (0.7, 1.4)])
def test_calibrated_intervals_hold_on_new_records_within_two_points(spread: float, skew: float) -> None:
    draws, truth, record = data(1500, spread, skew, 0)
    found = calibrate(LEVELS, draws, truth, record)
    assert found.n_cells == len(truth)
    new, new_truth, _ = data(1500, spread, skew, 1)
    raw = quantiles(new, LEVELS)
    adjusted = found.applied(LEVELS, raw, np.median(new, 0))
    for low, high, level in ((2, 4, 0.5), (1, 5, 0.9), (0, 6, 0.95)):
        inside = (adjusted[low] <= new_truth) & (new_truth <= adjusted[high])
        assert abs(inside.mean() - level) < 0.02
    off = abs(((raw[1] <= new_truth) & (new_truth <= raw[5])).mean() - 0.9)
    assert off > 0.05, "the draws themselves must be wrong for this to say anything"
    assert (np.diff(adjusted, axis=0) >= 0).all()


def test_right_draws_are_left_nearly_alone() -> None:
    rng = np.random.default_rng(2)
    found = calibrate((0.05, 0.95), rng.normal(size=(400, 20_000)), rng.normal(size=20_000), np.arange(20_000))
    assert all(abs(factor - 1) < 0.05 for factor in found.factors.values())


def test_the_median_and_uncalibrated_levels_stay_as_they_are() -> None:
    median, quantiles = np.array([1.0, 2.0]), np.array([[0.0, 0.0], [1.0, 2.0], [4.0, 4.0]])
    assert (Calibration().applied((0.1, 0.5, 0.9), quantiles, median) == quantiles).all()
    wider = Calibration({0.9: 2.0}).applied((0.1, 0.5, 0.9), quantiles, median)
    assert (wider == [[0.0, 0.0], [1.0, 2.0], [7.0, 6.0]]).all()


def test_quantiles_whose_factors_would_make_them_cross_are_kept_in_order() -> None:
    quantiles = np.array([[-3.0], [-2.0], [2.0], [3.0]])
    out = Calibration({0.05: 0.1, 0.1: 1.0, 0.9: 1.0, 0.95: 0.1}).applied(
        (0.05, 0.1, 0.9, 0.95), quantiles, np.zeros(1)
    )
    assert (out == [[-2.0], [-2.0], [2.0], [2.0]]).all()


def test_few_cells_calibrate_nothing_and_say_so() -> None:
    rng = np.random.default_rng(3)
    found = calibrate((0.1, 0.9), rng.normal(size=(50, 99)), rng.normal(size=99), np.arange(99))
    assert (dict(found.factors), found.n_cells) == ({}, 0)


def test_cells_that_go_together_in_blocks_make_intervals_wider_than_as_many_independent_ones() -> None:
    rng = np.random.default_rng(4)
    draws, block = rng.normal(size=(100, 3000)), np.arange(3000) // 100
    together = rng.normal(size=30)[block]
    of_blocks, of_cells = (calibrate((0.9,), draws, together, of).factors[0.9] for of in (block, np.arange(3000)))
    assert of_blocks > of_cells
    alone = rng.normal(size=3000)  # blocks that say nothing change little
    a, b = (calibrate((0.9,), draws, alone, of).factors[0.9] for of in (block, np.arange(3000)))
    assert abs(a - b) < 0.05


def test_of_few_independent_cells_the_factor_stays_near_what_was_drawn() -> None:
    """Right draws, but ten long gaps: each calibration by itself is off by chance, and all the less drawn to 1."""
    rng = np.random.default_rng(5)
    gap = np.arange(2000) // 200
    found = []
    for _ in range(40):
        truth = 0.9 * rng.normal(size=10)[gap] + np.sqrt(1 - 0.9**2) * rng.normal(size=2000)
        found.append(calibrate((0.05, 0.95), rng.normal(size=(100, 2000)), truth, np.arange(2000), gap).factors[0.95])
    assert abs(np.log(found)).mean() < 0.2
    many = calibrate((0.05, 0.95), rng.normal(size=(100, 4000)), 2 * rng.normal(size=4000), np.arange(4000))
    assert many.factors[0.95] == pytest.approx(2, rel=0.08)


def test_cells_of_one_gap_count_as_one_however_many_they_are() -> None:
    """Errors twice as large as the draws say, in one gap, in 20 and in 4,000: the more gaps, the more is believed."""
    rng = np.random.default_rng(6)
    draws, truth = rng.normal(size=(100, 4000)), 2 * rng.normal(size=4000)
    factors = [
        calibrate((0.05, 0.95), draws, truth, np.arange(4000), np.arange(4000) * n_gaps // 4000).factors[0.95]
        for n_gaps in (1, 20, 4000)
    ]
    assert factors[0] == pytest.approx(1.1, rel=0.03), "the usual factor"
    assert factors[0] < factors[1] < 0.9 * factors[2]


def test_what_cannot_be_calibrated_is_refused() -> None:
    draws, truth = np.zeros((5, 200)), np.zeros(200)
    with pytest.raises(ConfigError, match="levels in"):
        calibrate((0.0,), draws, truth, truth)
    with pytest.raises(DataError, match="expected draws"):
        calibrate((0.1,), draws.T, truth, truth)
    with pytest.raises(DataError, match="finite"):
        calibrate((0.1,), draws, truth * np.nan, truth)

"""Curves, seasons and low rank: what they give back exactly, and what they choose by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator

from tsimpute.config import registry
from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import ConfigError
from tsimpute.imputers.low_rank import iterated, solved
from tsimpute.imputers.shared.standardised import moved_gaps


def one_record(values: np.ndarray, times: np.ndarray | None = None) -> Windows:
    k, length = values.shape
    times = np.arange(float(length)) if times is None else times
    return Windows(values[None], times[None], tuple(Feature(f"f{i}") for i in range(k)), ("a",))


def filled(name: str, values: np.ndarray, times: np.ndarray | None = None, **settings) -> np.ndarray:
    record = one_record(values, times)
    return registry.make("imputers", name, **settings).fit(record).impute(record, 1).values[0, 0]


# -- pchip -------------------------------------------------------------------------------------------------------------


def test_pchip_is_scipys_curve_over_uneven_times_and_holds_its_ends() -> None:
    rng = np.random.default_rng(0)
    times, truth = np.cumsum(rng.uniform(0.1, 3.0, 40)), rng.normal(size=(2, 40))
    gaps = rng.random(truth.shape) < 0.4
    gaps[0, :3] = gaps[0, -2:] = True
    got = filled("pchip", np.where(gaps, np.nan, truth), times)
    for k in range(2):
        at = np.flatnonzero(~gaps[k])
        inside = slice(at[0], at[-1] + 1)
        expected = PchipInterpolator(times[at], truth[k, at])(times[inside])
        np.testing.assert_allclose(got[k, inside], expected, atol=1e-12)
        assert (got[k, : at[0]] == truth[k, at[0]]).all()
        assert (got[k, at[-1] :] == truth[k, at[-1]]).all()
        assert got[k].min() >= truth[k, at].min()  # it does not overshoot
        assert got[k].max() <= truth[k, at].max()


def test_pchip_with_one_value_is_constant_and_with_none_the_median() -> None:
    values = np.full((2, 5), np.nan)
    values[0, 2] = 3.0
    assert (filled("pchip", values)[0] == 3.0).all()
    train = one_record(np.array([[1.0, 2.0, 9.0, 2.0, 1.0]]))
    empty = one_record(np.full((1, 5), np.nan))
    assert (registry.make("imputers", "pchip").fit(train).impute(empty, 1).values == 2.0).all()


# -- seasonal ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("period", "step"), [(24, 1.0), (17, 1.0), (96, 0.25), (40, 1 / 60)])
def test_a_season_is_found_and_fills_a_gap_longer_than_half_of_it(period: int, step: float) -> None:
    rng = np.random.default_rng(period)
    steps = np.arange(period * 30)
    course = rng.normal(size=period)
    truth = np.stack([course[steps % period] + 0.01 * steps / period, rng.normal(size=len(steps)).cumsum()])
    values = truth + 0.01 * rng.normal(size=truth.shape)
    gap = slice(10 * period, 11 * period)
    values[0, gap] = np.nan
    values[0, 3 * period + 2 : 3 * period + 12] = np.nan
    record = one_record(values, 5 + steps * step)
    imputer = registry.make("imputers", "seasonal").fit(record)
    got = imputer.impute(record, 1).values[0, 0]
    assert imputer.learnt_["periods"][0] % period == 0  # type: ignore[attr-defined]
    assert np.abs(got[0, gap] - truth[0, gap]).mean() < 0.15 * truth[0].std()
    lines = filled("linear", values, 5 + steps * step)
    assert np.abs(lines[0, gap] - truth[0, gap]).mean() > 0.5 * truth[0].std()


def test_without_a_season_it_is_linear_interpolation() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(2, 300)).cumsum(1)
    values[rng.random(values.shape) < 0.2] = np.nan
    record = one_record(values)
    imputer = registry.make("imputers", "seasonal").fit(record)
    assert not imputer.learnt_["periods"].any()  # type: ignore[attr-defined]
    np.testing.assert_allclose(imputer.impute(record, 1).values[0, 0], filled("linear", values), atol=1e-9)
    uneven = np.cumsum(rng.uniform(0.1, 4.0, 300))
    two = Windows(np.stack([values, values]), np.stack([uneven, 3 * uneven]), (Feature("a"), Feature("b")), ("a", "b"))
    assert not registry.make("imputers", "seasonal").fit(two).learnt_["periods"].any()  # type: ignore[attr-defined]


# -- low rank ----------------------------------------------------------------------------------------------------------


def test_a_matrix_of_low_rank_is_completed() -> None:
    rng = np.random.default_rng(0)
    truth = (rng.normal(size=(8, 2)) @ rng.normal(size=(2, 500))) * 5 + 100
    gaps = rng.random(truth.shape) < 0.2
    got = filled("low_rank", np.where(gaps, np.nan, truth))
    assert np.abs(got - truth)[gaps].mean() < 0.04 * truth.std()


def test_cells_are_where_the_iterations_lead() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(60, 5)) @ rng.normal(size=(5, 5))
    rows[rng.random(rows.shape) < 0.3] = np.nan
    projection = iterated(rows, 2, 50)
    some = np.isnan(rows) & ~np.isnan(rows).all(1)[:, None]
    by_hand = np.nan_to_num(rows)
    for _ in range(50_000):
        by_hand[some] = (by_hand @ projection)[some]
    np.testing.assert_allclose(solved(rows, projection), by_hand, atol=1e-6)


def test_steps_without_a_value_and_one_feature_alone_get_straight_lines() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(size=(3, 50)).cumsum(1)
    values[:, 20:25] = np.nan
    np.testing.assert_allclose(filled("low_rank", values), filled("linear", values), atol=1e-9)
    np.testing.assert_allclose(filled("low_rank", values[:1]), filled("linear", values[:1]), atol=1e-9)


@pytest.mark.parametrize("settings", [{"ranks": ()}, {"ranks": (0,)}, {"max_iter": 0}])
def test_senseless_settings_of_low_rank_are_refused(settings: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        registry.make("imputers", "low_rank", **settings)


# -- cells to choose on ------------------------------------------------------------------------------------------------


def test_hidden_cells_lie_as_the_gaps_do() -> None:
    known = np.zeros((1, 4, 400))
    known[:, :, 100:124] = np.nan  # all features at once
    hidden = moved_gaps(known, 0)[0]
    assert (hidden.any(0) == hidden.all(0)).all()
    assert hidden.sum() == 4 * 24
    assert not (hidden & np.isnan(known[0])).any()
    assert np.array_equal(moved_gaps(known, 0)[0], hidden)


def test_without_gaps_some_cells_are_drawn_and_many_gaps_are_thinned_out() -> None:
    assert 0.05 < moved_gaps(np.zeros((1, 4, 400)), 0).mean() < 0.15
    rng = np.random.default_rng(0)
    sparse = np.where(rng.random((20, 4, 50)) < 0.8, np.nan, 0.0)
    hidden = moved_gaps(sparse, 0)
    assert 0.2 < hidden.sum() / (~np.isnan(sparse)).sum() < 0.4

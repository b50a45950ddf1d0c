"""Holes that follow values: exact shares, the right cause, and no other."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tsimpute.core.windows import Feature, Windows
from tsimpute.datasets.pm25 import PM25
from tsimpute.errors import ConfigError, DataError
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.tasks.missingness import chances, mar, mar_roles, mnar, reached_rate
from tsimpute.tasks.protocols import clean


def make_windows(n: int = 60, k: int = 6, length: int = 20, missing: float = 0.4) -> Windows:
    """Records in different units with natural gaps; one record is empty but for a cell."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(n, k, length)) * 10.0 ** np.arange(k)[:, None] + 5
    values[rng.random(values.shape) < missing] = np.nan
    values[4 % n] = np.nan
    values[4 % n, -1, 3] = 1.0
    times = np.tile(np.arange(float(length)), (n, 1))
    return Windows(values, times, tuple(Feature(f"f{i}") for i in range(k)), tuple(f"r{i}" for i in range(n)))


WINDOWS = make_windows()
Z = (WINDOWS.values - np.nanmean(WINDOWS.values, axis=(0, 2))[:, None]) / np.nanstd(WINDOWS.values, (0, 2))[:, None]


@pytest.mark.parametrize("hide", [mar, mnar])
@pytest.mark.parametrize("per_cent", [1, 10, 29, 50, 90])
def test_the_share_of_each_record_is_exact_where_data_have_gaps(hide, per_cent: int):
    held_out = hide(WINDOWS, rate=per_cent / 100, seed=1)
    features = mar_roles(WINDOWS, 1)[1] if hide is mar else [f.name for f in WINDOWS.features]
    may = WINDOWS.observed[:, [int(name[1:]) for name in features]]
    np.testing.assert_array_equal(held_out.sum((1, 2)), may.sum((1, 2)) * per_cent // 100)
    assert reached_rate(WINDOWS, held_out, features) == held_out.sum() / may.sum()
    assert not (held_out & ~WINDOWS.observed).any()


@pytest.mark.parametrize("hide", [mar, mnar])
def test_neither_order_nor_batch_matter(hide):
    order = np.random.default_rng(0).permutation(len(WINDOWS))
    np.testing.assert_array_equal(hide(WINDOWS.select(order), rate=0.3, seed=1), hide(WINDOWS, rate=0.3, seed=1)[order])
    scaler = Standardizer.fit(WINDOWS)
    whole = hide(WINDOWS, rate=0.3, seed=1, scaler=scaler)
    for n in (0, 4, 17):
        alone = hide(WINDOWS.select([n]), rate=0.3, seed=1, scaler=scaler)
        np.testing.assert_array_equal(alone[0], whole[n])


def test_what_mar_may_hide_does_not_decide_and_what_decides_is_never_hidden():
    drivers, features = mar_roles(WINDOWS, 1)
    assert len(drivers) == 1
    assert sorted(drivers + features) == [f.name for f in WINDOWS.features]
    decides = np.array([f.name in drivers for f in WINDOWS.features])
    held_out = mar(WINDOWS, rate=0.4, seed=1)
    assert not held_out[:, decides].any()
    for scale in (-1e9, 0.0):
        other = replace(WINDOWS, values=np.where(decides[:, None], WINDOWS.values, WINDOWS.values * scale))
        np.testing.assert_array_equal(mar(other, rate=0.4, seed=1), held_out)
    turned = replace(WINDOWS, values=np.where(decides[:, None], -WINDOWS.values, WINDOWS.values))
    assert (mar(turned, rate=0.4, seed=1) != held_out).any()


def test_mar_follows_the_values_that_decide_with_the_weights_of_its_seed():
    windows = make_windows(60, 3, 20, missing=0).select(slice(5, None))
    driver = windows.values[:, 0] - 5

    def told(strength: float, seed: int) -> np.ndarray:
        held_out = mar(windows, rate=0.3, seed=seed, features=["f1", "f2"], strength=strength)
        return np.array([np.corrcoef(driver.ravel(), held_out[:, k].ravel())[0, 1] for k in (1, 2)])

    assert (np.abs(told(3.0, 1)) > 0.3).all()  # one driver: its weight is 1 or -1
    assert (np.abs(told(0.0, 1)) < 4 / driver.size**0.5).all()
    assert len({tuple(np.sign(told(3.0, seed))) for seed in range(8)}) > 1


def test_a_driver_with_gaps_counts_as_interpolated_and_as_average_where_a_record_has_none():
    windows = make_windows(2, 2, 5, missing=0)
    values = windows.values.copy()
    values[:, 0] = [[0, np.nan, 4, np.nan, np.nan], [np.nan] * 5]
    full = values.copy()
    full[:, 0] = [[0, 2, 4, 4, 4], [2.0] * 5]
    scaler = Standardizer(np.array([2.0, 0.0]), np.ones(2), np.ones(2, int))
    for seed in range(20):
        gaps, whole = (
            mar(replace(windows, values=x), rate=0.5, seed=seed, features=["f1"], scaler=scaler) for x in (values, full)
        )
        np.testing.assert_array_equal(gaps, whole)


def test_hidden_values_are_higher_than_shown_ones_in_each_feature():
    held_out = mnar(WINDOWS, rate=0.3, seed=1)
    shown = WINDOWS.observed & ~held_out
    for k in range(WINDOWS.n_features):
        assert Z[:, k][held_out[:, k]].mean() > Z[:, k][shown[:, k]].mean() + 0.3


def test_without_strength_values_do_not_matter_and_below_zero_low_ones_go():
    for strength, low, high in ((0.0, -0.05, 0.05), (-2.0, -1, -0.2), (2.0, 0.2, 1)):
        held_out = mnar(WINDOWS, rate=0.3, seed=1, strength=strength)
        assert low < np.corrcoef(Z[WINDOWS.observed], held_out[WINDOWS.observed])[0, 1] < high


def test_chances_add_up_and_cells_are_drawn_with_exactly_their_chance():
    one = make_windows(1, 2, 5, missing=0)
    z = np.linspace(-2, 2, 10)
    expected = chances(2.0 * z, 3)
    assert expected.sum() == pytest.approx(3, abs=1e-9)
    odds = expected / (1 - expected)
    np.testing.assert_allclose(odds[1:] / odds[:-1], np.exp(2.0 * np.diff(z)))
    n = 3000
    many = Windows(
        np.tile(z.reshape(1, 2, 5), (n, 1, 1)), np.tile(one.times, (n, 1)), one.features, tuple(map(str, range(n)))
    )
    scaler = Standardizer(np.zeros(2), np.ones(2), np.ones(2, int))
    often = mnar(many, rate=0.3, seed=1, scaler=scaler).mean(0).ravel()
    assert (np.abs(often - expected) < 4.5 * np.sqrt(expected * (1 - expected) / n) + 1e-9).all()


def test_huge_scores_keep_the_share():
    np.testing.assert_allclose(chances(np.array([1e6, -1e6, 0.0]), 1), [1, 0, 0], atol=1e-6)
    odd = replace(WINDOWS, values=np.where(np.arange(20) == 3, 1e12, WINDOWS.values))
    odd = replace(odd, values=np.where(WINDOWS.observed, odd.values, np.nan))
    held_out = mnar(odd, rate=0.29, seed=1, strength=50)
    np.testing.assert_array_equal(held_out.sum((1, 2)), odd.observed.sum((1, 2)) * 29 // 100)


def test_impossible_requests_are_refused():
    for strength in (float("nan"), None, float("inf")):
        for hide in (mar, mnar):
            with pytest.raises(ConfigError, match="strength"):
                hide(WINDOWS, rate=0.1, seed=1, strength=strength)
    with pytest.raises(ConfigError, match="none to decide"):
        mar(WINDOWS, rate=0.1, seed=1, features=[f.name for f in WINDOWS.features])
    with pytest.raises(ConfigError, match="none to lose cells"):
        mar(make_windows(5, 1), rate=0.1, seed=1)
    with pytest.raises(ConfigError, match="f9"):
        mar(WINDOWS, rate=0.1, seed=1, features=["f9"])
    with pytest.raises(DataError, match="features"):
        mnar(WINDOWS, rate=0.1, seed=1, scaler=Standardizer.fit(make_windows(5, 2)))


def test_the_clean_protocol_reaches_the_rate_and_says_where():
    task = clean(WINDOWS, rate=0.5, seed=1, mechanism="mar")
    drivers, features = mar_roles(WINDOWS, 1)
    assert f"in {', '.join(features)} hidden (mar" in task.order
    decides = [f.name in drivers for f in WINDOWS.features]
    assert not task.test.held_out_mask[:, decides].any()


def test_stations_with_gaps_of_their_own_lose_what_was_asked(data_root: Path):
    windows = replace(PM25().load(data_root).select(slice(0, 150)), held_out=None)
    for hide in (mar, mnar):
        held_out = hide(windows, rate=0.1, seed=1)
        may = windows.observed
        if hide is mar:
            may = may & np.isin([f.name for f in windows.features], mar_roles(windows, 1)[1])[:, None]
        np.testing.assert_array_equal(held_out.sum((1, 2)), may.sum((1, 2)) // 10)

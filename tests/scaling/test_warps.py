"""Limits and warps: the laws of a smooth increasing map, its closed form, real PM2.5 values, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsimpute.core.limits import Limits, limits_of
from tsimpute.datasets.pm25 import PM25
from tsimpute.errors import ConfigError, DataError
from tsimpute.scaling.standardizer import SupportBijection

LOW, HIGH, BOTH = Limits(low=0.0), Limits(high=20.0), Limits(-10.0, 30.0)
FAR = np.array([-1e308, -1e6, -1e3, 0, 1e3, 1e6, 1e308])


def spread(limits: Limits, n: int = 50) -> np.ndarray:
    """Values all over the limits, their ends included."""
    low = -20.0 if limits.low is None else limits.low
    high = 60.0 if limits.high is None else limits.high
    values = np.linspace(low, high, n)
    return np.unique(np.rint(values)) if limits.integer else values


@st.composite
def warps(draw: st.DrawFn) -> SupportBijection:
    low, width = draw(st.floats(-1e6, 1e6)), draw(st.floats(1e-3, 1e6))
    kind = draw(st.sampled_from(["low", "high", "both"]))
    limits = Limits(*{"low": (low, None), "high": (None, low), "both": (low, low + width)}[kind])
    shares = np.array(draw(st.lists(st.floats(0.001, 0.999), max_size=8)))
    return SupportBijection.fit(limits, low + width * (shares if kind != "high" else -shares))


@pytest.mark.parametrize("limits", [LOW, HIGH, BOTH])
def test_one_formula_is_the_softplus_near_one_bound_and_a_difference_of_two_between_two(limits: Limits) -> None:
    z, scale = np.linspace(-40, 60, 41), 4.0
    found = SupportBijection(limits, scale, 0.1).inverse(z)
    from_low = scale * np.log1p(np.exp((z - (limits.low or 0)) / scale))
    from_high = scale * np.log1p(np.exp(((limits.high or 0) - z) / scale))
    expected = {LOW: from_low, HIGH: 20 - from_high}.get(
        limits, -10 + from_low - scale * np.log1p(np.exp((z - 30) / scale))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_two_bounds_give_the_logit_when_the_scale_is_wide() -> None:
    warp, x = SupportBijection(Limits(0.0, 1.0), 1e4, 1e-3), np.array([0.1, 0.25, 0.5, 0.9])
    np.testing.assert_allclose((warp.forward(x) - 0.5) / 1e4, np.log(x / (1 - x)), rtol=1e-3, atol=1e-9)


@settings(max_examples=100, deadline=None)
@given(warp=warps(), shares=st.lists(st.floats(-8, 8), min_size=1, max_size=20))
def test_back_and_forth_gives_the_same_number_strictly_within_the_limits(
    warp: SupportBijection, shares: list[float]
) -> None:
    ends = [bound for bound in (warp.limits.low, warp.limits.high) if bound is not None]
    z = np.concatenate([end + warp.scale * np.array(shares) for end in ends])
    x = warp.inverse(z)
    assert (x > (warp.limits.low if warp.limits.low is not None else -np.inf)).all()
    assert (x < (warp.limits.high if warp.limits.high is not None else np.inf)).all()
    # What one rounding of x, of the size of the bound, makes of the distance to it.
    lost = max(map(abs, ends)) * 1e-15 * np.exp(8)
    np.testing.assert_allclose(warp.forward(x), z, rtol=1e-9, atol=1e-7 * warp.scale + lost)


@pytest.mark.parametrize("limits", [LOW, HIGH, BOTH, Limits(0.0, 1e-3), Limits(1e6, 1e6 + 1)])
def test_the_map_back_is_strictly_increasing_across_its_joins(limits: Limits) -> None:
    ends = [bound for bound in (limits.low, limits.high) if bound is not None]
    scale = 0.2 * (ends[-1] - ends[0]) if len(ends) == 2 else 3.0
    warp = SupportBijection(limits, scale, 0.01 * scale)
    z = np.sort(np.concatenate([np.linspace(end - 9 * scale, end + 9 * scale, 2001) for end in ends]))
    z = z[np.diff(z, prepend=-np.inf) > 1e-6 * scale]
    assert (np.diff(warp.inverse(z)) > 0).all()


@pytest.mark.parametrize("limits", [LOW, HIGH, BOTH, Limits(0.0, 0.1), Limits(6.0, 8.5), Limits(1e8, 1e8 + 1)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_no_finite_number_however_far_leaves_the_limits(limits: Limits, kind: type[np.floating]) -> None:
    warp = SupportBijection.fit(limits, spread(limits))
    with np.errstate(over="ignore"):
        z = FAR.astype(kind)
    z = z[np.isfinite(z)]
    x = warp.inverse(z)
    assert x.dtype == np.float64
    assert np.isfinite(x).all()
    assert (np.diff(x) >= 0).all()
    assert (x > (-np.inf if limits.low is None else limits.low)).all()
    assert (x < (np.inf if limits.high is None else limits.high)).all()


@pytest.mark.parametrize("limits", [Limits(0.0, 0.1), Limits(0.3, 0.7), Limits(6.1, 8.5), LOW, Limits(-1e30, 1e30)])
def test_draws_stay_within_when_stored_as_float32(limits: Limits) -> None:
    warp = SupportBijection.fit(limits, spread(limits))
    z = np.concatenate([warp.limits.low + warp.scale * np.linspace(-50, 60, 5001), FAR])  # type: ignore[operator]
    x = np.minimum(warp.inverse(z), 1e38).astype(np.float32).astype(np.float64)
    assert (x > limits.low).all()
    assert (x < (np.inf if limits.high is None else limits.high)).all()


def test_a_million_draws_keep_the_limits_and_do_not_pile_up_at_the_edge() -> None:
    rng = np.random.default_rng(0)
    warp = SupportBijection.fit(Limits(0.0, 100.0), np.clip(rng.normal(96, 3, 2000), 50, 100))
    drawn = warp.inverse(rng.normal(98, 5, 1_000_000))
    assert drawn.min() > 0
    assert drawn.max() < 100
    counts, _ = np.histogram(drawn, bins=np.linspace(90, 100, 101))
    assert counts[-1] < counts.max()  # the last tenth of a percent is not the fullest
    assert len(np.unique(drawn)) > 999_000


def test_far_from_the_bound_nothing_is_bent() -> None:
    pressure = np.random.default_rng(1).normal(1013, 8, 500)
    warp = SupportBijection.fit(LOW, pressure)
    np.testing.assert_array_equal(warp.forward(pressure), pressure)
    np.testing.assert_allclose(warp.inverse(pressure), pressure, rtol=1e-15)


def test_far_draws_grow_in_proportion_and_not_by_an_exponential() -> None:
    warp = SupportBijection.fit(LOW, np.random.default_rng(2).lognormal(3, 1.5, 5000))
    ten, twenty = warp.inverse(np.array([10.0, 20.0]) * warp.scale)
    assert twenty / ten == pytest.approx(2, rel=1e-4)


def test_real_pm25_becomes_nearly_symmetric(data_root: Path) -> None:
    values = PM25().load(data_root).values
    x = values[~np.isnan(values)][::10]
    warp = SupportBijection.fit(LOW, x)

    def skew(y: np.ndarray) -> float:
        return float((((y - y.mean()) / y.std()) ** 3).mean())

    assert skew(x) > 1.5
    z = warp.forward(x)
    assert abs(skew(z)) < 0.6
    assert (np.abs(z - z.mean()) < 6 * z.std()).all()
    np.testing.assert_allclose(warp.inverse(z)[x > 0], x[x > 0], rtol=1e-9)
    assert warp.margin == 0.5 * x[x > 0].min()


def test_values_on_a_bound_are_moved_inward_for_the_model_and_keep_their_order() -> None:
    x = np.array([0.0, 0.4, 1.0, 7.0, 19.0, 20.0])
    warp = SupportBijection.fit(Limits(0.0, 20.0), x)
    assert warp.margin == pytest.approx(0.2)
    z = warp.forward(x)
    assert np.isfinite(z).all()
    assert (np.diff(z) > 0).all()
    np.testing.assert_allclose(warp.inverse(z), [0.2, 0.4, 1, 7, 19, 19.8], rtol=1e-12)


def test_noise_in_the_last_digit_counts_as_on_the_bound() -> None:
    warp = SupportBijection.fit(LOW, np.array([0.0, 5e-17, 1.0, 2.0, 5.0]))
    assert warp.margin == pytest.approx(0.1 * warp.scale)
    on, beside = warp.forward(np.array([0.0, 5e-17]))
    assert on == beside


@pytest.mark.parametrize("values", [[], [0.0, 0.0], [5.0, 5.0, 5.0], [20.0]])
@pytest.mark.parametrize("limits", [LOW, HIGH, Limits(0.0, 20.0), Limits(0, 20, integer=True)])
def test_few_values_or_none_still_give_a_map(limits: Limits, values: list[float]) -> None:
    warp = SupportBijection.fit(limits, np.array(values))
    np.testing.assert_allclose(warp.inverse(warp.forward(np.array([3.0, 17.0]))), [3, 17], rtol=1e-9)


def test_whole_numbers_come_out_whole_and_reach_their_bounds() -> None:
    limits = Limits(3, 15, integer=True)
    x = np.repeat(np.arange(3.0, 16), 5)
    warp = SupportBijection.fit(limits, x)
    np.testing.assert_array_equal(warp.inverse(warp.forward(x)), x)
    np.testing.assert_array_equal(warp.inverse(FAR[FAR != 0]), [3, 3, 3, 15, 15, 15])
    fine = np.linspace(2.5, 15.5, 13 * 1000 + 2)[1:-1]
    plain = SupportBijection(Limits(2.5, 15.5), warp.scale, warp.margin)  # the same map without rounding
    counts = np.unique(warp.inverse(plain.forward(fine)), return_counts=True)[1]
    assert counts.max() - counts.min() <= 2  # each whole number takes one cell of equal width, the bounds too


def test_whole_numbers_without_bounds_are_only_rounded_and_zero_has_no_sign() -> None:
    warp = SupportBijection.fit(Limits(integer=True), np.array([1.0, 5.0]))
    np.testing.assert_array_equal(warp.forward(np.array([1.0, 2.0])), [1, 2])
    found = warp.inverse(np.array([-0.3, 2.6, -7.2]))
    np.testing.assert_array_equal(found, [0, 3, -7])
    assert not np.signbit(found[0])


def test_without_limits_every_bit_stays() -> None:
    x = np.array([-0.0, 1.5, np.nan, 1e300, -3e-310])
    warp = SupportBijection.fit(Limits(), x[:2])
    assert warp.forward(x).tobytes() == x.tobytes()


def test_missing_stays_missing_and_what_no_model_should_draw_is_not_hidden_by_a_bound() -> None:
    warp = SupportBijection(BOTH, 4.0, 0.1)
    np.testing.assert_array_equal(np.isnan(warp.forward(np.array([np.nan, 1.0]))), [True, False])
    np.testing.assert_array_equal(np.isnan(warp.inverse(np.array([np.nan, np.inf, -np.inf, 1.0]))), [1, 1, 1, 0])


def test_the_input_is_not_changed() -> None:
    warp, x = SupportBijection(BOTH, 4.0, 0.1), np.array([[-10.0, 5.0], [30.0, np.nan]])
    before = x.tobytes()
    warp.forward(x)
    warp.inverse(x)
    assert x.tobytes() == before


def test_json_gives_back_the_same_map() -> None:
    warp = SupportBijection.fit(Limits(0, 9, integer=True), np.array([1.0, 2.0, 7.0]), "steps")
    again = SupportBijection.from_dict(json.loads(json.dumps(warp.to_dict())))
    assert vars(again) == vars(warp)
    with pytest.raises(DataError, match="scale"):
        SupportBijection.from_dict({"limits": {"low": 0.0}, "margin": 1.0})
    with pytest.raises(DataError, match="positive"):
        SupportBijection.from_dict({"limits": {"low": 0.0}, "scale": 0.0, "margin": 1.0})


def test_values_outside_are_refused_with_feature_count_and_value() -> None:
    warp = SupportBijection(Limits(0.0, 100.0), 3.0, 0.1, "RH")
    with pytest.raises(DataError, match=r"feature 'RH'.*0:100, 2 lie outside, such as -4"):
        warp.forward(np.array([1.0, np.nan, -4.0, 101.0]))
    with pytest.raises(DataError, match="feature 'RH'"):
        SupportBijection.fit(Limits(0.0, 100.0), np.array([735.0]), "RH")


@pytest.mark.parametrize(
    ("low", "high", "integer", "says"),
    [
        (1.0, 1.0, False, "below"), (2.0, 1.0, False, "below"), (np.nan, None, False, "finite"),
        (None, np.inf, False, "finite"), (0.5, None, True, "whole"),
    ],
)  # fmt: skip
def test_limits_that_are_none_are_refused(low: float | None, high: float | None, integer: bool, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Limits(low, high, integer)


def test_limits_go_by_name_and_the_star_stands_for_the_rest() -> None:
    given = {"*": LOW, "T": Limits()}
    assert limits_of(["T", "RH", "CO"], given) == (Limits(), LOW, LOW)
    assert limits_of(["T"], {}) == (Limits(),)
    with pytest.raises(ConfigError, match=r"'T', 'RH'.*came 'PM'"):
        limits_of(["T", "RH"], {"PM": LOW})

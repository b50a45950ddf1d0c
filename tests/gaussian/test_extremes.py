"""Records at the edges of what there is: a model is fitted to all of them, and fills them with finite values."""

from __future__ import annotations

import numpy as np
import pytest

from tsimpute.errors import DataError
from tsimpute.gaussian.conditioning import joined
from tsimpute.gaussian.maps import Records
from tsimpute.gaussian.model import fit
from tsimpute.gaussian.process import GaussianModel


def paths(n_features: int, n_steps: int, missing: float = 0.2, seed: int = 0) -> np.ndarray:
    """Smooth independent features with gaps."""
    rng = np.random.default_rng(seed)
    out = rng.normal(size=(n_features, n_steps))
    for t in range(1, n_steps):
        out[:, t] = 0.9 * out[:, t - 1] + 0.44 * out[:, t]
    out[rng.random(out.shape) < missing] = np.nan
    return out


def fitted(values: np.ndarray, times: np.ndarray | None = None) -> tuple[GaussianModel, np.ndarray]:
    """A model, and three draws."""
    times = np.arange(float(values.shape[1])) if times is None else times
    step = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    model = fit(Records((values,), (times,), step), (24.0,))
    found = joined(list(model.posterior_pieces(values, times, 3, np.random.default_rng(0))))
    draws = model.values(found.mean + found.deviations, times)
    assert np.isfinite(draws).all()
    for moment in model.moments(values, times):
        assert np.isfinite(moment).all()
    return model, draws


def one_value(n_steps: int = 50) -> np.ndarray:
    return np.where(np.arange(n_steps) == 7, 3.0, np.nan)[None]


def copied() -> np.ndarray:
    one = paths(1, 300, 0)
    both = np.concatenate([one, one, 2 * one + 1, -one])
    both[np.random.default_rng(1).random(both.shape) < 0.2] = np.nan
    return both


@pytest.mark.parametrize(
    "values",
    [
        np.array([[1.0], [np.nan], [3.0]]), np.array([[np.nan]]), np.array([[1.0, np.nan], [np.nan, 2.0]]),
        one_value(), np.full((3, 40), np.nan), paths(1, 200), paths(40, 10), paths(60, 10), copied(),
        paths(5, 1000, 0.999), 1e9 + 1e-3 * paths(3, 200), 1e-12 * paths(3, 200), 1e-200 * paths(3, 200),
        (np.random.default_rng(0).random((4, 300)) < 0.02) * 1.0, np.random.default_rng(0).standard_cauchy((3, 300)),
        np.exp(np.arange(300.0) / 10)[None],
    ],
)  # fmt: skip
def test_draws_and_moments_are_finite(values: np.ndarray) -> None:
    fitted(values)


@pytest.mark.parametrize("steps", [[1.0, 500.0], [1e-9, 1.0], [0.3, 1.7]])
def test_uneven_times_too(steps: list[float]) -> None:
    fitted(paths(3, 200), 1.7e9 + np.cumsum(np.random.default_rng(0).choice(steps, 200)))


@pytest.mark.parametrize("factor", [1e-12, 1e9])
def test_units_do_not_matter(factor: float) -> None:
    values = paths(2, 300)
    _, one = fitted(values)
    _, other = fitted(factor * values)
    np.testing.assert_allclose(other / factor, one, rtol=1e-5, atol=1e-5)


def test_a_constant_feature_stays_constant_and_an_empty_one_is_apart() -> None:
    values = paths(3, 300)
    values[1] = np.where(np.isnan(values[1]), np.nan, 5.0)
    values[2] = np.nan
    model, draws = fitted(values)
    assert (draws[:, 1] == 5).all()
    mean, spread = model.moments(values, np.arange(300.0))
    assert (mean[1] == 5).all()
    assert (spread[1] == 0).all()
    np.testing.assert_allclose(spread[2], 1, atol=0.1)


def test_one_slip_of_the_pen_does_not_set_the_scale() -> None:
    values = paths(3, 500)
    values[0, 100] = 1e6
    values[0, [99, 101]] = np.nan
    _, draws = fitted(values)
    assert np.abs(draws[:, 0][:, np.isnan(values[0])]).max() < 40


def test_copies_of_a_feature_fill_each_other() -> None:
    values = copied()
    _, draws = fitted(values)
    known = ~np.isnan(values[0]) & np.isnan(values[1])
    error = draws[:, 1, known] - values[0, known]
    assert np.sqrt((error**2).mean()) < 0.2


def test_values_that_cannot_be_squared_are_refused() -> None:
    with pytest.raises(DataError, match=r"feature 0: expected values below 1e\+100"):
        fitted(1e200 * paths(2, 100))

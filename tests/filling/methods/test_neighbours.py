"""Nearest neighbours over features: what they say, of which steps, and as part of a file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Feature
from tsimpute.filling.learning.learning import gaussian
from tsimpute.filling.methods.components import Neighbours, _mean_of_nearest, _weights
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.system.terminal import silent

N = 400


def bent() -> tuple[Panel, np.ndarray]:
    """A feature that is the square of another, out for a long time, beside one of noise; and its values."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=N)
    values = np.stack([first, first**2 + 0.5 * first, rng.normal(size=N)])
    truth = values.copy()
    values[1, 150:250] = np.nan
    values[:, 300:305] = np.nan
    labels = pd.date_range("2024-01-01", periods=N, freq="h").to_numpy()
    names = tuple(Feature(name) for name in "abc")
    return Panel(names, (Series("", np.arange(float(N)), values, labels),), Clock("hours", 1.0)), truth


@pytest.fixture(scope="module")
def fitted() -> tuple[Panel, np.ndarray, GaussianImputer, Neighbours]:
    panel, truth = bent()
    base = gaussian(panel, {}, 0, silent)
    found = Neighbours.fit(panel, base, 0)
    assert found is not None
    return panel, truth, base, found


def test_a_feature_that_bends_with_another_is_told_from_it(
    fitted: tuple[Panel, np.ndarray, GaussianImputer, Neighbours],
) -> None:
    panel, truth, base, found = fitted
    values, times = panel.series[0].values, panel.series[0].times
    known, scaled = base.scaler_.transform(values), base.scaler_.transform(truth)
    said = found.at(known, times)
    error = lambda guess: np.abs(guess[1, 150:250] - scaled[1, 150:250]).mean()
    assert error(said) < 0.5 * error(base.model_.moments(known, times)[0])


def test_of_a_step_of_which_nothing_is_known_it_says_what_the_process_expects(
    fitted: tuple[Panel, np.ndarray, GaussianImputer, Neighbours],
) -> None:
    panel, _, base, found = fitted
    known, times = base.scaler_.transform(panel.series[0].values), panel.series[0].times
    expected = base.model_.moments(known, times)[0]
    np.testing.assert_array_equal(found.at(known, times)[:, 300:305], expected[:, 300:305])


def test_it_comes_back_from_its_parts_and_says_the_same_of_some_cells(
    fitted: tuple[Panel, np.ndarray, GaussianImputer, Neighbours],
) -> None:
    panel, _, base, found = fitted
    known, times = base.scaler_.transform(panel.series[0].values), panel.series[0].times
    said = found.at(known, times)
    again = Neighbours.from_parts(*found.parts(), base)
    np.testing.assert_array_equal(again.at(known, times), said)
    some = np.isnan(known) & (np.arange(N) < 200)
    np.testing.assert_allclose(found.at(known, times, some)[some], said[some])


def test_weights_are_those_of_a_regression_and_the_nearest_count() -> None:
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(4, 20_000))
    target = 2 * inputs[1] - 0.5 * inputs[2]
    np.testing.assert_allclose(_weights(inputs, target, 0), [0, 2, 0.5, 0], atol=0.11)
    donors = np.arange(100.0)[:, None]
    found = _mean_of_nearest(np.array([[50.0]]), donors, np.where(np.arange(100) // 10 == 4, 1.0, 0.0))
    by_hand = np.sort(np.abs(np.arange(100) - 50))[:12]
    share = 1 / (by_hand + 0.1 * by_hand.mean() + 1e-9)
    near = np.argsort(np.abs(np.arange(100) - 50), kind="stable")[:12]
    assert found[0] == pytest.approx((share * (near // 10 == 4)).sum() / share.sum(), abs=0.03)


def test_a_single_feature_and_few_steps_have_none(
    fitted: tuple[Panel, np.ndarray, GaussianImputer, Neighbours],
) -> None:
    panel, _, base, _ = fitted
    series = panel.series[0]
    few = Panel(
        panel.features, (Series("", series.times[:40], series.values[:, :40], series.labels[:40]),), panel.clock
    )
    one = Panel(panel.features[:1], (Series("", series.times, series.values[:1], series.labels),), panel.clock)
    assert Neighbours.fit(few, base, 0) is None
    assert Neighbours.fit(one, base, 0) is None

"""The posterior as a base estimate: exact, blind to what is hidden, and the same of a part as of the whole record."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tsimpute.batches.base_estimates import BaseEstimate
from tsimpute.gaussian.covariance import at_positions
from tsimpute.gaussian.maps import N_HARMONICS, MonotoneMap, Seasons
from tsimpute.gaussian.process import CHUNK, LEAST_SPREAD, GaussianBase, GaussianModel, Scores, Tails
from tsimpute.scaling.standardizer import Standardizer

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(2, 3, 12))
SHOWN = RNG.random(VALUES.shape) < 0.6
TIMES = np.tile(np.arange(12.0), (2, 1))


def model(n_lags: int = 12, normality: float = 0.0, season: float = 0.0) -> GaussianModel:
    """Three features of one autoregressive process beside noise of their own."""
    lag0 = np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.3], [0.3, 0.3, 1.0]])
    covariance = 0.9 ** np.arange(n_lags)[:, None, None] * lag0
    known = np.random.default_rng(1).lognormal(size=(3, 400))
    weights = np.zeros((3, 2 * N_HARMONICS))
    weights[:, 0] = season
    maps = tuple(MonotoneMap.fit(of_one, normality) for of_one in known)
    return GaussianModel(
        maps, Seasons((6.0,), weights), np.full(3, 0.1), np.full(3, 0.9), covariance, 1.0, Tails.normal(3)
    )


def test_mean_and_spread_are_those_of_the_closed_form_at_the_cells_asked_for_alone() -> None:
    wanted = ~SHOWN & (np.arange(12) % 2 == 0)
    found = GaussianBase(model()).of(VALUES.astype(np.float32), SHOWN, TIMES, wanted)
    assert found.spread is not None
    matrix = at_positions(model().covariance, np.arange(12.0))
    for n in range(2):
        flat, known = VALUES[n].T.ravel(), np.flatnonzero(SHOWN[n].T.ravel())
        gain = matrix[:, known] @ np.linalg.inv(matrix[np.ix_(known, known)])
        mean = (gain @ flat[known]).reshape(12, 3).T
        spread = np.sqrt(np.maximum(np.diagonal(matrix - gain @ matrix[known]), 0)).reshape(12, 3).T
        np.testing.assert_allclose(found.mean[n][wanted[n]], mean[wanted[n]], atol=1e-5)
        np.testing.assert_allclose(found.spread[n][wanted[n]], spread[wanted[n]], atol=1e-5)
    assert (found.mean[~wanted] == 0).all()
    assert (found.spread[~wanted] == 1).all()


def test_hidden_values_change_nothing() -> None:
    base = GaussianBase(model())
    one, two = (base.of(np.where(SHOWN, VALUES, hidden), SHOWN, TIMES, ~SHOWN) for hidden in (0.0, 1e9))
    assert one.mean.tobytes() == two.mean.tobytes()
    assert one.spread is not None
    assert two.spread is not None
    assert one.spread.tobytes() == two.spread.tobytes()


def test_a_season_is_a_part_of_the_mean_and_leaves_the_spread() -> None:
    season = model(season=0.5).seasons.at(TIMES[0]) / 0.9
    plain = GaussianBase(model()).of(VALUES, SHOWN, TIMES, ~SHOWN)
    seasonal = GaussianBase(model(season=0.5)).of(VALUES + season, SHOWN, TIMES, ~SHOWN)
    assert plain.spread is not None
    assert seasonal.spread is not None
    np.testing.assert_allclose(seasonal.mean, np.where(SHOWN, 0, plain.mean + season), atol=1e-5)
    assert seasonal.spread.tobytes() == plain.spread.tobytes()


def test_a_spread_is_never_too_small_to_divide_by() -> None:
    twins = replace(model(), covariance=np.ones((12, 3, 3)))
    found = GaussianBase(twins).of(VALUES, SHOWN, TIMES, ~SHOWN)
    assert found.spread is not None
    assert found.spread[~SHOWN].min() == pytest.approx(LEAST_SPREAD)


class Long:
    """One long record, standardised already."""

    def __init__(self, n_steps: int) -> None:
        rng = np.random.default_rng(2)
        self.all_values = rng.normal(size=(1, 3, n_steps)).astype(np.float32)
        self.visible = rng.random(self.all_values.shape) < 0.4
        self.times = np.arange(float(n_steps))[None]

    def values(self, steps: slice) -> np.ndarray:
        return self.all_values[..., steps]

    def at(self, steps: np.ndarray) -> np.ndarray:
        return np.take_along_axis(self.all_values, steps[..., None], 2)[..., 0]


def test_parts_of_a_record_are_those_of_the_whole_bit_for_bit() -> None:
    known, base = Long(3 * CHUNK + 100), GaussianBase(model(16))
    wanted = ~known.visible
    whole = base.of(known.all_values, known.visible, known.times, wanted)
    parts = [slice(0, 50), slice(20, CHUNK + 7), slice(CHUNK - 3, CHUNK + 3), slice(2 * CHUNK, 3 * CHUNK + 100)]
    for part, found in zip(parts, base.of_parts(known, parts, wanted), strict=True):
        expected: BaseEstimate = whole.steps(part)
        assert found.mean.tobytes() == np.ascontiguousarray(expected.mean).tobytes()
        assert expected.spread is not None
        assert found.spread is not None
        assert found.spread.tobytes() == np.ascontiguousarray(expected.spread).tobytes()


@pytest.mark.parametrize("normality", [0.0, 0.5])
def test_scores_are_undone_and_are_those_of_the_process(normality: float) -> None:
    values = np.exp(VALUES) * 40
    scaler = Standardizer.fit_cells(values, np.ones(values.shape, bool))
    process = model(normality=normality)
    scores = Scores(scaler, process).transform(values)
    np.testing.assert_allclose(Scores(scaler, process).inverse(scores), values, rtol=1e-9)
    np.testing.assert_allclose(scores[0], process.scores(scaler.transform(values)[0], TIMES[0]), atol=1e-12)

"""Scale mixtures: the law that was drawn from is found again, and factors have it at every step."""

from __future__ import annotations

import numpy as np
import pytest

from tsimpute.gaussian.process import FACTORS, NORMAL_SHARE, Tails


def test_the_mixture_that_residuals_came_from_is_found_half_of_the_way() -> None:
    rng = np.random.default_rng(0)
    wide = rng.random(20_000) < 0.2
    residuals = np.where(wide, 2.0, 0.5) * rng.normal(size=20_000)
    found = Tails.fit(residuals, rng.integers(0, 2, 20_000), 2)
    variance = (found.weights * FACTORS**2).sum(1)
    expected = NORMAL_SHARE + (1 - NORMAL_SHARE) * (0.2 * 4 + 0.8 * 0.25)
    np.testing.assert_allclose(variance, expected, rtol=0.05)
    np.testing.assert_allclose(found.weights.sum(1), 1)
    assert (found.weights[:, FACTORS < 1].sum(1) > 0.3).all()


def test_features_with_few_cells_have_the_law_of_all() -> None:
    rng = np.random.default_rng(1)
    found = Tails.fit(0.5 * rng.normal(size=2_000), np.append(np.zeros(1_999, int), 1), 2)
    np.testing.assert_allclose(found.weights[0], found.weights[1], atol=0.03)
    few = Tails.fit(5.0 * rng.normal(size=10), np.zeros(10, int), 1)
    assert few.weights.tobytes() == Tails.normal(1).weights.tobytes()


@pytest.mark.parametrize("n_steps", [40, 500])
def test_factors_have_their_law_at_every_step_and_change_slowly(n_steps: int) -> None:
    weights = np.zeros((2, len(FACTORS)))
    weights[:, [2, 7]] = [[0.75, 0.25], [0.5, 0.5]]
    found = Tails(weights).of_draws(4_000, n_steps, 90, np.random.default_rng(2)).at(slice(0, n_steps))
    assert found.shape == (4_000, n_steps, 2)
    high = (found == FACTORS[7]).mean(0)
    np.testing.assert_allclose(high, np.broadcast_to([0.25, 0.5], high.shape), atol=0.04)
    assert (np.diff(found, axis=1) == 0).mean() > 0.95
    assert (found[..., 1] >= found[..., 0]).all()


def test_draws_share_a_law_evenly() -> None:
    weights = np.zeros((1, len(FACTORS)))
    weights[:, [2, 7]] = [0.7, 0.3]
    found = Tails(weights).of_draws(10, 20, 90, np.random.default_rng(3)).at(slice(0, 20))
    assert (found[:, 0, 0] == FACTORS[7]).sum() == 3


def test_a_normal_law_leaves_draws_as_they_are() -> None:
    assert (Tails.normal(3).of_draws(7, 300, 90, np.random.default_rng(4)).at(slice(0, 300)) == 1).all()

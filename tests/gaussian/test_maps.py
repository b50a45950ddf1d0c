"""Maps towards normal scores where values leave out a range."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tsimpute as ti
from tsimpute.gaussian.maps import MonotoneMap


def two_levels(n: int = 240, seed: int = 0) -> np.ndarray:
    """A wave at a level of 10, then at one of 100."""
    noise = np.random.default_rng(seed).normal(0, 0.3, 2 * n)
    return np.repeat([10.0, 100.0], n) + 5 * np.sin(np.tile(np.arange(n), 2) / 4) + noise


@pytest.mark.parametrize("normality", [0.5, 1.0])
def test_scores_rise_over_a_range_without_values(normality: float) -> None:
    values = two_levels()
    mapping = MonotoneMap.fit(values, normality)
    low, high = values[values < 50].max(), values[values > 50].min()
    rise = float(np.diff(mapping.forward(np.array([low, high])))[0])
    assert rise >= 0.5 * (high - low) / values.std() - 1e-9
    np.testing.assert_allclose(mapping.inverse(mapping.forward(values)), values)


def test_without_such_a_range_full_normality_gives_normal_scores() -> None:
    values = np.exp(np.random.default_rng(1).normal(size=150))
    scores = MonotoneMap.fit(values, 1.0).forward(np.sort(values))
    np.testing.assert_allclose(scores, -scores[::-1], atol=1e-9)


def test_a_small_error_of_a_score_is_no_step_between_levels() -> None:
    values = two_levels()
    values[[*range(3), *range(234, 243), *range(474, 480)]] = np.nan
    with pytest.warns(UserWarning, match="calibration needs 100 hidden cells"):
        imputer = ti.TableImputer(effort="instant").fit(pd.DataFrame({"a": values}), progress=False)
    errors = pd.DataFrame(imputer.scores_).set_index("imputer").MAE
    assert errors["delivered"] < 10  # a ninth of the step; with plain normal scores 18

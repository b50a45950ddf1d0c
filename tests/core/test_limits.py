"""Limits of a feature: what is rounded inside of them stays inside."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsimpute.core.limits import Limits

BOUND = st.floats(-1e6, 1e6) | st.decimals(-100, 100, places=3).map(float)


@given(low=BOUND, width=st.floats(0.001, 1e3), at=st.floats(0, 1), decimals=st.integers(0, 4))
def test_a_value_within_the_limits_stays_within_them_when_it_is_rounded(
    low: float, width: float, at: float, decimals: int
) -> None:
    limits = Limits(low, low + width)
    value = np.array([min(low + at * width, low + width)])
    clipped = limits.clipped(value, decimals)
    if width > 10.0**-decimals:
        text = float(f"{clipped[0]:.{decimals}f}")
        assert low <= text <= low + width
        assert abs(text - value[0]) <= 1.000001 * 10.0**-decimals


@pytest.mark.parametrize("value", [0.29, 0.285, -5.0, np.nan])
def test_what_no_limit_asks_for_does_not_move(value: float) -> None:
    assert Limits(None, 0.29).clipped(np.array([value]), 2).tobytes() == np.array([value]).tobytes()
    assert Limits(0.12, 0.18).clipped(np.array([0.15]), 1) == [0.15]

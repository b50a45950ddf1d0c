"""What is filled, by policy, and the filling of one series."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tsimpute.core.panel import IMPUTED, INVALID, LEFT_EMPTY, NO_INFORMATION, OBSERVED, Series
from tsimpute.filling.panels.windows import gap_lengths
from tsimpute.filling.preparing.series import Policy, provenance_of

NAN = np.nan


def series(*rows: list[float]) -> Series:
    values = np.array(rows)
    steps = np.arange(float(values.shape[1]))
    return Series("s", steps, values, steps)


def codes(one: Series, policy: Policy, invalid: list[tuple[int, int]] = [], absent: list[int] = []) -> list[list[int]]:  # noqa: B006
    marked, gone = np.zeros(one.values.shape, bool), np.zeros(len(one.values), bool)
    for at in invalid:
        marked[at] = True
    gone[absent] = True
    return provenance_of(one, policy, marked, gone).tolist()


@given(arrays(bool, st.tuples(st.integers(1, 3), st.integers(1, 30))), st.integers(0, 6))
def test_longer_gaps_are_the_runs_that_are_longer_and_whole(missing: np.ndarray, limit: int) -> None:
    found = gap_lengths(missing) > limit
    for row, marked in zip(missing, found, strict=True):
        expected = np.zeros(len(row), bool)
        for start in range(len(row)):
            for stop in range(start + 1, len(row) + 1):
                beside = row[max(start - 1, 0) : start].any() or row[stop : stop + 1].any()
                expected[start:stop] |= row[start:stop].all() and not beside and stop - start > limit
        assert (marked == expected).all()


def test_a_gap_longer_than_the_limit_stays_wholly_empty() -> None:
    one = series([1.0, NAN, NAN, NAN, 2.0, NAN, 3.0])
    assert codes(one, Policy(max_gap=2)) == [[OBSERVED, *[LEFT_EMPTY] * 3, OBSERVED, IMPUTED, OBSERVED]]
    assert codes(one, Policy(max_gap=3))[0].count(LEFT_EMPTY) == 0


def test_what_a_series_never_shows_is_filled_without_information_or_left_empty_as_asked() -> None:
    one = series([1.0, NAN], [NAN, NAN])
    assert codes(one, Policy()) == [[OBSERVED, IMPUTED], [NO_INFORMATION, NO_INFORMATION]]
    assert codes(one, Policy(fill_unseen=False)) == [[OBSERVED, IMPUTED], [LEFT_EMPTY, LEFT_EMPTY]]


def test_invalid_values_are_told_from_gaps() -> None:
    one = series([1.0, NAN, NAN, 4.0])
    assert codes(one, Policy(), invalid=[(0, 2)]) == [[OBSERVED, IMPUTED, INVALID, OBSERVED]]
    assert codes(one, Policy(max_gap=1), invalid=[(0, 2)]) == [[OBSERVED, LEFT_EMPTY, LEFT_EMPTY, OBSERVED]]


def test_features_without_a_place_in_the_series_are_left_empty() -> None:
    one = series([1.0, NAN], [NAN, NAN])
    assert codes(one, Policy(), absent=[1])[1] == [LEFT_EMPTY, LEFT_EMPTY]


@pytest.mark.parametrize("limit", [1, 4])
def test_policies_do_not_touch_observed_cells(limit: int) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 50))
    values[rng.random(values.shape) < 0.6] = NAN
    found = provenance_of(
        series(*values.tolist()), Policy(limit, False), np.zeros((4, 50), bool), np.zeros((4, 50), bool)
    )
    assert ((found == OBSERVED) == ~np.isnan(values)).all()

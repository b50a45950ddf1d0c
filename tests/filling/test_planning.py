"""A network within a time: what is planned fits in, and what cannot be afforded is said before it is begun."""

from __future__ import annotations

import numpy as np
import pytest

from tsimpute.filling.planning import FEWEST_STEPS, LEAST_SHARE, LOOKS, Costs, Plan, TooDear, Work, plan


def needs(found: Plan, costs: Costs, work: Work) -> float:
    """Seconds that a plan takes if costs are as they were measured."""
    windows = len(LOOKS) * found.trial + found.measured + found.most * work.to_fill
    return found.steps * costs.step + windows * costs.draw * work.n_samples


def test_a_plan_takes_no_more_than_the_seconds_that_are_left() -> None:
    rng = np.random.default_rng(0)
    n_plans = 0
    for _ in range(2000):
        costs = Costs(*np.exp(rng.uniform(np.log(1e-4), np.log(2.0), 2)))
        to_measure = int(rng.integers(1, 300))
        work = Work(4000, 50, int(rng.integers(1, 3000)), to_measure, int(rng.integers(1, to_measure + 1)))
        seconds = float(rng.uniform(5, 300))
        found = plan(seconds, costs, work)
        if isinstance(found, TooDear):
            assert found.needed > seconds
            assert isinstance(plan(1.001 * found.needed, costs, work), Plan)
            continue
        n_plans += 1
        assert needs(found, costs, work) <= seconds
        assert FEWEST_STEPS - 1 <= found.steps <= work.steps
        assert LEAST_SHARE <= found.most <= 1
        assert work.least_measured <= found.measured <= work.to_measure
    assert n_plans > 200


@pytest.mark.parametrize(
    ("costs", "work"),
    [
        (Costs(0.01, 0.1), Work(4000, 50, 1000, 10, 1)),
        (Costs(0.01, 0.1), Work(4000, 50, 1, 100, 100)),
        (Costs(10.0, 0.001), Work(4000, 50, 10, 10, 1)),
    ],
)
def test_dear_draws_measurements_or_steps_are_not_begun(costs: Costs, work: Work) -> None:
    assert isinstance(plan(60.0, costs, work), TooDear)


def test_more_time_gives_a_larger_share_and_more_steps() -> None:
    costs, work = Costs(0.1, 0.002), Work(4000, 50, 400, 100, 10)
    plans = [plan(seconds, costs, work) for seconds in (60.0, 120.0, 300.0)]
    assert all(isinstance(found, Plan) for found in plans)
    shares, steps = zip(*((found.most, found.steps) for found in plans if isinstance(found, Plan)), strict=True)
    assert list(shares) == sorted(shares)
    assert list(steps) == sorted(steps)

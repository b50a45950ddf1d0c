"""The base estimate: linear interpolation of shown cells that fades with distance; hidden cells are not read."""

from __future__ import annotations

import numpy as np

from tsimpute.batches.base_estimates import fading_interpolation, last_visible


def one(values: list[float], shown: list[int], times: list[float] | None = None, span: float = 1e12) -> np.ndarray:
    mask = np.zeros(len(values), bool)
    mask[shown] = True
    clock = np.arange(float(len(values))) if times is None else np.array(times)
    return fading_interpolation(np.array(values)[None, None], mask[None, None], clock[None], span)[0, 0]


def test_between_shown_cells_it_is_numpys_interpolation_on_the_true_times() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        times, values = np.cumsum(rng.exponential(size=30)), rng.normal(size=30)
        shown = np.flatnonzero(rng.random(30) < 0.4)
        if not len(shown):
            continue
        expected = np.interp(times, times[shown], values[shown])
        expected[shown] = 0
        np.testing.assert_allclose(one(values.tolist(), shown.tolist(), times.tolist()), expected, atol=1e-9)


def test_it_fades_with_the_distance_to_the_nearest_shown_cell_and_is_gone_at_the_span() -> None:
    np.testing.assert_allclose(one([2.0, 0, 0, 0, 0, 0], [0], span=4.0), [0, 1.5, 1.0, 0.5, 0, 0])
    np.testing.assert_allclose(one([2.0, 0, 0, 0, 2.0], [0, 4], span=4.0), [0, 1.5, 1.0, 1.5, 0])


def test_a_feature_that_shows_nothing_has_its_mean_as_base_estimate() -> None:
    assert (one([5.0, 7.0], []) == 0).all()


def test_hidden_values_are_not_read() -> None:
    assert (one([1.0, 1e9, 2.0], [0, 2]) == one([1.0, np.nan, 2.0], [0, 2])).all()


def test_features_and_records_do_not_mix() -> None:
    rng = np.random.default_rng(1)
    values, shown = rng.normal(size=(3, 2, 9)), rng.random((3, 2, 9)) < 0.5
    times = np.cumsum(rng.exponential(size=(3, 9)), 1)
    together = fading_interpolation(values, shown, times, 5.0)
    for n in range(3):
        for k in range(2):
            alone = fading_interpolation(
                values[n : n + 1, k : k + 1], shown[n : n + 1, k : k + 1], times[n : n + 1], 5.0
            )
            assert (together[n, k] == alone[0, 0]).all()


def test_the_last_shown_step_before_each_of_some_steps_is_found() -> None:
    shown = np.random.default_rng(2).random((2, 3, 40)) < 0.1
    steps = [0, 0, 3, 4, 4, 20, 39, 40]
    for step, found in zip(steps, last_visible(shown, steps), strict=True):
        for n in range(2):
            for k in range(3):
                assert found[n, k] == max(np.flatnonzero(shown[n, k, :step]), default=-1)

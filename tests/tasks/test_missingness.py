"""Hole-makers: exact shares, independence of neighbours, and nothing touched that is not theirs."""

import random
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import ConfigError, DataError
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.tasks.missingness import (
    BY_VALUE,
    MECHANISMS,
    blocks,
    dead_sensor,
    independent_cells,
    random_cells,
    reached_rate,
)

EXACT = ("random", "blocks", "mnar")


def make_windows(n: int, k: int, length: int, missing: float = 0.4, seed: int = 0) -> Windows:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, k, length))
    values[rng.random(values.shape) < missing] = np.nan
    times = np.tile(np.arange(float(length)), (n, 1))
    return Windows(values, times, tuple(Feature(f"f{i}") for i in range(k)), tuple(f"r{i}" for i in range(n)))


@pytest.mark.parametrize("mechanism", EXACT)
@pytest.mark.parametrize("rate", [0.01, 0.1, 0.29, 0.5, 0.9])
def test_exact_share_of_each_records_observed_cells(mechanism: str, rate: float):
    windows = make_windows(30, 4, 25)
    windows = replace(windows, values=np.where(np.arange(30)[:, None, None] == 7, np.nan, windows.values))
    held_out = MECHANISMS[mechanism](windows, rate=rate, seed=1)
    observed = windows.observed.sum((1, 2))
    per_cent = round(100 * rate)
    np.testing.assert_array_equal(held_out.sum((1, 2)), observed * per_cent // 100)
    assert reached_rate(windows, held_out) == held_out.sum() / observed.sum()


def test_a_share_that_is_whole_is_not_lost_to_floating_point():
    # 100 * 0.29 is 28.999999999999996
    assert random_cells(make_windows(1, 4, 25, missing=0), rate=0.29, seed=0).sum() == 29


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_within_observed_and_input_unchanged(mechanism: str):
    windows = make_windows(20, 4, 25)
    before = windows.values.copy()
    held_out = MECHANISMS[mechanism](windows, rate=0.5, seed=1)
    assert held_out.any()
    replace(windows, held_out=held_out)  # checks itself: shape, bool, only cells that hold a value
    np.testing.assert_array_equal(windows.values, before)
    assert windows.held_out is None


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_layout_of_values_in_memory_does_not_matter(mechanism: str):
    windows = make_windows(20, 4, 25)
    by_step = replace(windows, values=np.ascontiguousarray(windows.values.swapaxes(1, 2)).swapaxes(1, 2))
    held_out = MECHANISMS[mechanism](windows, rate=0.5, seed=1)
    assert held_out.any()
    np.testing.assert_array_equal(MECHANISMS[mechanism](by_step, rate=0.5, seed=1), held_out)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_records_holes_depend_on_its_id_and_the_seed_only(mechanism: str):
    windows = make_windows(12, 4, 25)
    hide = MECHANISMS[mechanism]
    if mechanism in BY_VALUE:
        hide = partial(hide, scaler=Standardizer.fit(windows))
    all_at_once = hide(windows, rate=0.4, seed=1)
    order = np.array([9, 2, 11, 5])
    np.testing.assert_array_equal(hide(windows.select(order), rate=0.4, seed=1), all_at_once[order])
    np.testing.assert_array_equal(hide(windows, rate=0.4, seed=np.int64(1)), all_at_once)
    assert (hide(windows, rate=0.4, seed=2) != all_at_once).any()
    other_values = hide(replace(windows, values=windows.values * -1e9), rate=0.4, seed=1)
    assert (other_values == all_at_once).all() != (mechanism in BY_VALUE)
    twins = replace(windows, values=np.repeat(windows.values[:1], 12, axis=0))
    assert len({mask.tobytes() for mask in hide(twins, rate=0.4, seed=1)}) > 6


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_global_generators_go_on_as_if_nothing_was_drawn(mechanism: str):
    windows = make_windows(3, 2, 10)

    def following() -> tuple[float, ...]:
        return random.random(), np.random.random(), torch.rand(()).item()  # noqa: NPY002

    random.seed(0), np.random.seed(0), torch.manual_seed(0)  # noqa: NPY002
    expected = following()
    random.seed(0), np.random.seed(0), torch.manual_seed(0)  # noqa: NPY002
    first = MECHANISMS[mechanism](windows, rate=0.5, seed=1)
    assert following() == expected
    np.testing.assert_array_equal(MECHANISMS[mechanism](windows, rate=0.5, seed=1), first)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_second_punch_is_refused_until_it_is_asked_for(mechanism: str):
    windows = make_windows(20, 4, 25)
    hide = MECHANISMS[mechanism]
    punched = replace(windows, held_out=hide(windows, rate=0.4, seed=1))
    with pytest.raises(DataError, match="punched twice"):
        hide(punched, rate=0.4, seed=1)
    asked = hide(punched.without_held_out(), rate=0.4, seed=2)
    assert not (asked & punched.held_out_mask).any()
    np.testing.assert_array_equal(hide(replace(punched, held_out=None), rate=0.4, seed=1), punched.held_out_mask)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_only_named_features_lose_cells(mechanism: str):
    windows = make_windows(40, 4, 25)
    held_out = MECHANISMS[mechanism](windows, rate=0.5, seed=1, features=["f1", "f3"])
    assert not held_out[:, [0, 2]].any()
    assert held_out[:, 1].any()
    assert held_out[:, 3].any()
    named = windows.observed[:, [1, 3]]
    assert reached_rate(windows, held_out, ["f3", "f1"]) == held_out.sum() / named.sum()
    if mechanism in EXACT:
        np.testing.assert_array_equal(held_out.sum((1, 2)), named.sum((1, 2)) // 2)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("features", [["f1", "heart rate"], "f1", []])
def test_unknown_features_are_refused(mechanism: str, features: list[str]):
    with pytest.raises(ConfigError, match="expected a list of names out of f0, f1, f2, f3"):
        MECHANISMS[mechanism](make_windows(2, 4, 25), rate=0.5, seed=1, features=features)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("rate", [0, -0.1, 1.01, 10, float("nan"), "0.1", None])
def test_rates_out_of_range_are_refused(mechanism: str, rate: float):
    with pytest.raises(ConfigError, match="rate"):
        MECHANISMS[mechanism](make_windows(2, 4, 25), rate=rate, seed=1)


@pytest.mark.parametrize("mechanism", [m for m in MECHANISMS if m != "dead_sensor"])
def test_hiding_everything_is_refused(mechanism: str):
    with pytest.raises(ConfigError, match="both excluded"):
        MECHANISMS[mechanism](make_windows(2, 4, 25), rate=1.0, seed=1)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_one_record_one_feature_one_step_and_nothing_observed(mechanism: str):
    one = make_windows(1, 2 if mechanism == "mar" else 1, 1, missing=0)
    assert MECHANISMS[mechanism](one, rate=0.5, seed=1).shape == one.values.shape
    nothing = replace(one, values=np.full_like(one.values, np.nan))
    assert not MECHANISMS[mechanism](nothing, rate=0.5, seed=1).any()


def test_random_cells_are_alike_and_frozen():
    windows = make_windows(3000, 2, 10, missing=0)
    often = random_cells(windows, rate=0.3, seed=1).mean(0)
    assert np.abs(often - 0.3).max() < 5 * (0.3 * 0.7 / 3000) ** 0.5
    # Frozen: other holes would make published numbers incomparable.
    held_out = random_cells(make_windows(1, 2, 10, missing=0), rate=0.3, seed=1)
    np.testing.assert_array_equal(np.flatnonzero(held_out), [1, 3, 5, 10, 13, 15])


def test_independent_cells_vary_in_number_around_the_rate():
    windows = make_windows(3000, 2, 10, missing=0)
    counts = independent_cells(windows, rate=0.3, seed=1).sum((1, 2))
    assert abs(counts.mean() - 6) < 5 * (20 * 0.3 * 0.7 / 3000) ** 0.5
    assert counts.var() == pytest.approx(20 * 0.3 * 0.7, rel=0.15)  # binomial


def test_blocks_are_runs_of_the_asked_length():
    windows = make_windows(2000, 1, 40, missing=0)
    held_out = blocks(windows, rate=0.2, seed=1, length=8)[:, 0]
    edges = np.diff(np.pad(held_out, ((0, 0), (1, 1))).astype(int), axis=1)
    n_runs = (edges == 1).sum(1)
    # 8 of 40 cells: one run where the first lies inside the record (33 of 47 positions). Else it reached over an end
    # and a second, or at the worst a third, brings what is missing; some of these join the first.
    assert set(n_runs) <= {1, 2, 3}
    assert -0.05 < (n_runs == 1).mean() - 33 / 47 < 0.1
    whole = held_out[n_runs == 1]
    assert (whole.sum(1) == 8).all()
    assert np.abs(held_out.mean(0) / 0.2 - 1).max() < 0.2  # no favoured position


def test_blocks_equal_runs_laid_down_one_by_one():
    windows = make_windows(20, 3, 14)
    for record, hidden in zip(range(20), blocks(windows, rate=0.45, seed=1, length=5), strict=True):
        cells = windows.observed[record]
        rng = np.random.default_rng(derive_seed(1, windows.record_ids[record]))
        turns = rng.permutation(3 * 18)
        forward = int(rng.choice((1, -1)))
        left, expected = int(0.45 * cells.sum()), np.zeros_like(cells)
        for run in np.argsort(turns):
            feature, end = divmod(int(run), 18)
            for step in range(end - 4, end + 1)[::forward]:
                if 0 <= step < 14 and cells[feature, step] and not expected[feature, step] and left:
                    expected[feature, step] = True
                    left -= 1
        np.testing.assert_array_equal(hidden, expected)


def test_blocks_favour_neither_end_of_a_record():
    by_step = blocks(make_windows(4000, 4, 24, missing=0), rate=0.1, seed=1, length=6).mean((0, 1)) / 0.1
    assert np.abs(by_step - 1).max() < 0.15
    np.testing.assert_allclose(by_step, by_step[::-1], atol=5 * 2**0.5 * (0.9 / 0.1 / 16000) ** 0.5)


def test_blocks_of_one_step_are_single_random_cells():
    held_out = blocks(make_windows(2000, 2, 10, missing=0), rate=0.3, seed=1, length=1)
    assert np.abs(held_out.mean(0) - 0.3).max() < 5 * (0.3 * 0.7 / 2000) ** 0.5


@pytest.mark.parametrize("length", [0, -1, 26])
def test_block_longer_than_a_record_is_refused(length: int):
    with pytest.raises(ConfigError, match="1 to 25 steps"):
        blocks(make_windows(2, 4, 25), rate=0.1, seed=1, length=length)


def test_dead_sensor_hides_whole_features_in_the_asked_share_of_records():
    windows = make_windows(2000, 3, 6, missing=0.2)
    held_out = dead_sensor(windows, rate=0.3, seed=1, features=["f0", "f2"])
    dead = held_out.any(2)
    np.testing.assert_array_equal(held_out, windows.observed & dead[:, :, None])
    assert np.abs(dead[:, [0, 2]].mean(0) - 0.3).max() < 5 * (0.3 * 0.7 / 2000) ** 0.5
    both = (dead[:, 0] & dead[:, 2]).mean()
    assert abs(both - 0.09) < 5 * (0.09 * 0.91 / 2000) ** 0.5  # one says nothing about the other
    everywhere = dead_sensor(windows, rate=1, seed=1, features=["f1"])
    np.testing.assert_array_equal(everywhere, windows.observed & np.array([False, True, False])[:, None])


def test_reached_rate_of_nothing_is_undefined_and_foreign_masks_are_refused():
    windows = make_windows(3, 2, 10)
    empty = replace(windows, values=np.full((3, 2, 10), np.nan))
    assert np.isnan(reached_rate(empty, np.zeros((3, 2, 10), bool)))
    with pytest.raises(DataError, match="within the observed cells"):
        reached_rate(windows, np.ones((3, 2, 10), bool))
    with pytest.raises(DataError, match=r"came bool \(3, 10, 2\)"):
        reached_rate(windows, np.zeros((3, 10, 2), bool))

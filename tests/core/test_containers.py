"""What the containers refuse, and what they keep to the bit."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from tsimpute.core.containers import Batch, Condition, PathCoefficients, expand_like
from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.errors import DataError
from tsimpute.testing._records import random_batch, random_condition


def with_held_out(windows: Windows) -> Windows:
    held_out = windows.observed & (np.arange(8) % 3 == 0)
    return replace(windows, held_out=held_out)


def test_observed_is_shown_or_scored_and_never_both(small_windows: Windows):
    windows = with_held_out(small_windows)
    assert not (windows.visible & windows.held_out_mask).any()
    np.testing.assert_array_equal(windows.visible | windows.held_out_mask, windows.observed)
    np.testing.assert_array_equal(windows.observed, ~np.isnan(windows.values))
    assert not small_windows.held_out_mask.any()


@pytest.mark.parametrize(
    ("field", "bad", "says"),
    [
        ("values", np.zeros((6, 3)), "records, features, steps"),
        ("values", np.zeros((6, 3, 8), int), "int64"),
        ("times", np.zeros((6, 7)), r"\(6, 8\), came \(6, 7\)"),
        ("times", np.tile(np.arange(8.0)[::-1], (6, 1)), "increasing"),
        ("times", np.zeros((6, 8)), "increasing"),
        ("times", np.full((6, 8), np.nan), "finite"),
        ("features", (Feature("HR"), Feature("HR"), Feature("T")), "'HR' comes more than once"),
        ("features", (Feature("HR"),), r"\(3,\), came \(1,\)"),
        ("record_ids", ("a", "b"), r"\(6,\), came \(2,\)"),
        ("record_ids", ("a", "b", "c", "d", "e", "a"), "'a' comes more than once"),
        ("held_out", np.zeros((6, 3, 8), int), "bool mask"),
        ("held_out", np.zeros((6, 8, 3), bool), r"\(6, 3, 8\)"),
        ("held_out", np.ones((6, 3, 8), bool), "NaN"),
        ("split", np.array(["train"] * 5), "split"),
        ("pattern_donor", np.ones(2, bool), "pattern_donor"),
    ],
)
def test_windows_refuse(small_windows: Windows, field: str, bad: object, says: str):
    with pytest.raises(DataError, match=says):
        replace(small_windows, **{field: bad})


def test_an_infinite_value_is_named_by_record_feature_and_step(small_windows: Windows):
    values = small_windows.values.copy()
    values[2, 1, 5] = -np.inf
    with pytest.raises(DataError, match=r"record 'r2', feature 'Temp', step 5 is -inf"):
        replace(small_windows, values=values)


@pytest.mark.parametrize("index", [[4, 0], slice(1, 3), np.array([True, False] * 3)])
def test_select_takes_every_field_along(small_windows: Windows, index):
    split = np.array(["train", "valid", "test"] * 2)
    windows = replace(with_held_out(small_windows), split=split, pattern_donor=np.arange(6) < 3)
    part = windows.select(index)
    expected = np.arange(6)[index]
    np.testing.assert_array_equal(part.values, windows.values[expected])
    np.testing.assert_array_equal(part.held_out, windows.held_out_mask[expected])
    np.testing.assert_array_equal(part.split, split[expected])
    np.testing.assert_array_equal(part.pattern_donor, expected < 3)
    assert part.record_ids == tuple(f"r{i}" for i in expected)


def test_the_same_record_twice_is_refused(small_windows: Windows):
    with pytest.raises(DataError, match="'r1' comes more than once"):
        small_windows.select([1, 1])


def test_without_held_out_shows_the_same_cells_and_holds_no_other_value(small_windows: Windows):
    windows = with_held_out(small_windows)
    seen = windows.without_held_out()
    np.testing.assert_array_equal(seen.observed, windows.visible)
    np.testing.assert_array_equal(seen.values[windows.visible], windows.values[windows.visible])
    assert windows.observed.sum() > seen.observed.sum()


def test_condition_holds_nothing_of_what_is_hidden():
    plain = random_batch()
    batch = replace(plain, base=plain.values * plain.target_mask, spread=1.0 + plain.target_mask)
    other = replace(batch, values=torch.where(batch.target_mask, 1e6, batch.values))
    for name in (field.name for field in fields(Condition)):
        a, b = getattr(batch.condition, name), getattr(other.condition, name)
        assert torch.equal(torch.as_tensor(a), torch.as_tensor(b)), name
    assert torch.equal(batch.target_mask, batch.observed & ~batch.cond_mask)


def test_condition_refuses_hidden_values_and_cells_both_shown_and_to_be_filled():
    good = random_condition()
    with pytest.raises(DataError, match="hidden values must not reach a model"):
        replace(good, values=torch.where(good.query_mask, 1.0, good.values))
    with pytest.raises(DataError, match="hidden values must not reach a model"):
        replace(good, values=torch.where(good.query_mask, torch.nan, good.values))
    with pytest.raises(DataError, match="both shown and to be filled"):
        replace(good, query_mask=good.cond_mask)
    with pytest.raises(DataError, match="times"):
        replace(good, times=good.times[:, 1:])
    with pytest.raises(DataError, match="base: expected 0 at shown cells"):
        replace(good, base=torch.ones_like(good.values))
    with pytest.raises(DataError, match="spread: expected positive numbers beside a base estimate"):
        replace(good, spread=torch.ones_like(good.values))
    with pytest.raises(DataError, match="spread: expected positive numbers beside a base estimate"):
        replace(good, base=good.query_mask * 2.0, spread=torch.zeros_like(good.values))


def test_steps_of_a_condition_count_their_times_from_the_first_of_them():
    good = replace(random_condition(), base=random_condition().query_mask * 2.0, usual_cells=7)
    part = good.steps(slice(3, 7))
    assert torch.equal(part.times, torch.arange(4.0).repeat(4, 1))
    assert torch.equal(part.known, good.known[..., 3:7])
    assert torch.equal(part.query_mask, good.query_mask[..., 3:7])
    assert part.usual_cells == 7


def test_batch_refuses_shown_cells_without_value_and_values_that_nobody_observed():
    good = random_batch()
    with pytest.raises(DataError, match="cond_mask"):
        replace(good, cond_mask=torch.ones_like(good.cond_mask))
    for bad in (torch.nan, 3.0):
        with pytest.raises(DataError, match="not observed"):
            replace(good, values=torch.where(good.observed, good.values, bad))
    with pytest.raises(DataError, match="seeds"):
        replace(good, seeds=(1,))


def test_select_keeps_what_belongs_to_a_record_together():
    batch, condition = random_batch(), random_condition()
    part = batch.select(slice(1, 3))
    assert isinstance(part, Batch)
    assert part.record_ids == ("r1", "r2")
    assert part.seeds == (1, 2)
    assert torch.equal(part.values, batch.values[1:3])
    one = condition.select(slice(2, 3))
    assert isinstance(one, Condition)
    assert torch.equal(one.query_mask, condition.query_mask[2:3])
    assert torch.equal(one.times, condition.times[2:3])


def test_scales_mix_per_record_in_the_dtype_of_the_data():
    alpha, sigma = torch.tensor([0.25, 0.5], dtype=torch.float64), torch.tensor([2.0, 4.0], dtype=torch.float64)
    clean, noise = torch.full((2, 1, 3), 8.0), torch.ones(2, 1, 3)
    mixed = PathCoefficients(alpha, sigma).mix(clean, noise)
    assert mixed.dtype == torch.float32
    assert mixed[:, 0, 0].tolist() == [4.0, 8.0]
    assert expand_like(alpha, clean).shape == (2, 1, 1)


def made_samples() -> tuple[np.ndarray, np.ndarray, Samples]:
    values = np.random.default_rng(0).normal(size=(5, 2, 1, 4))
    shown = np.zeros((2, 1, 4), bool)
    shown[0, 0, :2] = True
    values[:, 0, 0, 0], values[:, 0, 0, 1] = -0.0, 0.1 + 0.2
    return values, shown, Samples(values, shown, (Feature("x"),), ("a", "b"))


def test_statistics_of_samples_keep_shown_cells_bit_for_bit():
    values, shown, samples = made_samples()
    assert samples.n_samples == 5
    for statistic in (samples.mean(), samples.median(), samples.quantile([0.9])[0]):
        assert statistic[shown].tobytes() == values[0][shown].tobytes()
    np.testing.assert_allclose(samples.median()[1], np.sort(values[:, 1], axis=0)[2])
    # Of 5 draws the quantile at 0.75 has rank 4.5.
    np.testing.assert_allclose(samples.quantile([0.25, 0.75])[1, 1], np.sort(values[:, 1], axis=0)[3:].mean(0))
    np.testing.assert_allclose(samples.mean()[1], values[:, 1].sum(0) / 5)


def test_samples_refuse_a_missing_axis_wrong_masks_and_levels():
    values, shown, samples = made_samples()
    with pytest.raises(DataError, match="One draw is a leading axis"):
        replace(samples, values=values[0])
    with pytest.raises(DataError, match="visible"):
        replace(samples, visible=shown[:1])
    with pytest.raises(DataError, match="levels"):
        samples.quantile([50])


def test_a_layout_is_that_of_the_masks_and_goes_along_wherever_a_condition_goes():
    """What reaches a device with a layout never has its masks read back from there."""
    batch = random_batch()
    unobserved = ~batch.observed & (torch.arange(len(batch)) > 1)[:, None, None]
    batch = replace(batch, unobserved_query=unobserved)
    whole = batch.condition
    for condition in (
        whole, batch.to("cpu").condition, batch.select(slice(1, 3)).condition, whole.select(slice(1, 3)),
        whole.select(torch.tensor([2, 0])), whole.steps(slice(2, 6)), 
        whole.to("cpu").select(slice(0, 2)).steps(slice(1, 3)),
    ):  # fmt: skip
        assert "layout" in vars(condition)
        np.testing.assert_array_equal(condition.layout.visible, condition.cond_mask)
        np.testing.assert_array_equal(condition.layout.queried, condition.query_mask)
        np.testing.assert_array_equal(condition.layout.times, condition.times)
    assert batch.select(slice(0, 2)).unobserved_layout is None
    part = batch.to("cpu").select(slice(1, 4)).unobserved_layout
    assert part is not None
    np.testing.assert_array_equal(part.visible, batch.observed[1:4])
    np.testing.assert_array_equal(part.queried, unobserved[1:4])

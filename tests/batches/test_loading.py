"""Batches: every record once, the same for any number of processes and from any point on, nothing held out inside."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_models import waves

from tsimpute.batches.base_estimates import Linear, fading_interpolation
from tsimpute.batches.loading import Loader, condition_of, conditions_of, usual_cells
from tsimpute.batches.masking import RandomTargets
from tsimpute.core.containers import Batch
from tsimpute.core.windows import Windows
from tsimpute.errors import DataError
from tsimpute.scaling.standardizer import Standardizer


def loader(windows: Windows, batch_size: int = 3, seed: int = 0) -> Loader:
    return Loader(windows, Standardizer.fit(windows), RandomTargets(), batch_size, seed)


def whole(n: int) -> Windows:
    """Records of which no value is missing."""
    windows = waves(n)
    windows.values[np.isnan(windows.values)] = 1.0
    return windows


def same(a: Batch, b: Batch) -> bool:
    tensors = ("values", "observed", "cond_mask", "times")
    return (a.record_ids, a.seeds) == (b.record_ids, b.seeds) and all(
        torch.equal(getattr(a, name), getattr(b, name)) for name in tensors
    )


def test_an_epoch_holds_every_record_once_in_an_order_of_its_own():
    made = loader(waves(8))
    orders = []
    for epoch in (1, 2):
        shares = list(made.epoch(epoch))
        assert [len(s.batch) for s in shares] == [3, 3, 2]
        assert [s.n_global for s in shares] == [3, 3, 2]
        orders.append([r for s in shares for r in s.batch.record_ids])
        assert sorted(orders[-1]) == [f"r{i}" for i in range(8)]
    assert orders[0] != orders[1]
    assert made.n_batches == 3


def test_a_row_gets_the_same_in_any_batch_size_process_and_order():
    rows = waves(40, n_steps=1)
    by_batch_size = [
        {
            r: (b.seeds[i], b.cond_mask[i].tolist())
            for s in loader(rows, n).epoch(2)
            for b in [s.batch]
            for i, r in enumerate(b.record_ids)
        }
        for n in (3, 64)
    ]
    assert by_batch_size[0] == by_batch_size[1]
    later = {seed for s in loader(rows).epoch(3) for seed in s.batch.seeds}
    assert not later & {seed for seed, _ in by_batch_size[0].values()}
    (whole,), parts = loader(rows, 64).epoch(1), [next(loader(rows, 64).epoch(1, 0, rank, 2)) for rank in (0, 1)]
    assert whole.batch.seeds[::2] == parts[0].batch.seeds
    assert torch.equal(whole.batch.cond_mask[1::2], parts[1].batch.cond_mask)
    assert same(next(loader(rows, 64).fixed()).batch, next(loader(rows, 64).fixed()).batch)


def test_given_features_of_rows_stay_visible():
    rows = waves(40, n_steps=1)
    rows = replace(rows, features=(*rows.features[:2], replace(rows.features[2], given=True)))
    for share in loader(rows).epoch(1):
        assert torch.equal(share.batch.cond_mask[:, 2], share.batch.observed[:, 2])
        assert share.batch.target_mask[:, :2].any(1).all()


def test_with_a_base_estimate_targets_hold_its_residual_and_it_depends_on_shown_cells_only():
    windows, scaler = waves(8), Standardizer.fit(waves(8))
    residual = Loader(windows, scaler, RandomTargets(), 3, 0, base=Linear(8.0))
    for plain, share in zip(loader(windows).epoch(1), residual.epoch(1), strict=True):
        batch, base = share.batch, share.batch.base
        assert base is not None
        target = batch.target_mask
        torch.testing.assert_close((batch.values + base)[target], plain.batch.values[target])
        assert torch.equal(batch.values[batch.cond_mask], plain.batch.values[batch.cond_mask])
        shown = plain.batch.values.numpy() * batch.cond_mask.numpy()
        expected = fading_interpolation(shown, batch.cond_mask.numpy(), batch.times.numpy(), 8.0)
        np.testing.assert_allclose(base.numpy(), expected, atol=1e-6)
        assert batch.base_given_all is None
    asking = Loader(windows, scaler, RandomTargets(), 3, 0, query_unobserved=0.5, query_from_epoch=2, base=Linear(8.0))
    assert all(share.batch.base_given_all is None for share in asking.epoch(1))
    for plain, share in zip(loader(windows).epoch(2), asking.epoch(2), strict=True):
        observed = share.batch.observed.numpy()
        expected = fading_interpolation(plain.batch.values.numpy(), observed, share.batch.times.numpy(), 8.0)
        assert share.batch.base_given_all is not None
        np.testing.assert_allclose(share.batch.base_given_all.numpy(), expected, atol=1e-6)


def test_values_are_standardised_and_targets_are_observed_cells_drawn_anew_each_epoch():
    windows = waves(8)
    made, scaler = loader(windows), Standardizer.fit(windows)
    masks = []
    for epoch in (1, 2):
        cells = {}
        for share in made.epoch(epoch):
            for b, record in enumerate(share.batch.record_ids):
                n = windows.record_ids.index(record)
                expected = np.where(windows.observed[n], scaler.transform(windows.values[n]), 0)
                np.testing.assert_allclose(share.batch.values[b].numpy(), expected, rtol=1e-6, atol=1e-6)
                np.testing.assert_array_equal(share.batch.observed[b].numpy(), windows.observed[n])
                assert share.batch.target_mask[b].any()
                cells[record] = share.batch.cond_mask[b]
        masks.append(cells)
    assert any(not torch.equal(masks[0][r], masks[1][r]) for r in windows.record_ids)


def test_an_epoch_can_be_taken_up_at_any_batch():
    made = loader(waves(8))
    whole = list(made.epoch(5))
    for first in range(4):
        rest = list(made.epoch(5, first))
        assert len(rest) == 3 - first
        assert all(same(a.batch, b.batch) for a, b in zip(rest, whole[first:], strict=True))


@pytest.mark.parametrize("n_ranks", [2, 3, 5])
def test_shares_of_several_processes_make_up_the_batch(n_ranks: int):
    made = loader(waves(8), batch_size=7)
    shares = [list(made.epoch(1, 0, rank, n_ranks)) for rank in range(n_ranks)]
    for b, whole in enumerate(made.epoch(1)):
        parts = [of_rank[b] for of_rank in shares]
        assert {p.n_global for p in parts} == {len(whole.batch)}
        counted = [r for p in parts if p.weight for r in p.batch.record_ids]
        assert sorted(counted) == sorted(whole.batch.record_ids)
        # A process without a record of its own computes a stand-in that has no weight: none waits for another.
        assert all(len(p.batch) >= 1 for p in parts)
        assert all(p.weight == 1 or len(p.batch) == 1 for p in parts)
    assert len(list(made.epoch(1))) == 2


def test_what_is_drawn_for_a_record_does_not_depend_on_its_neighbours():
    windows = waves(8)
    scaler = Standardizer.fit(windows)
    few = Loader(windows.select([6, 2]), scaler, RandomTargets(), 2)
    drawn = {r: (s.batch.cond_mask[b], s.batch.seeds[b]) for s in loader(windows).epoch(3)
             for b, r in enumerate(s.batch.record_ids)}  # fmt: skip
    (share,) = few.epoch(3)
    for b, record in enumerate(share.batch.record_ids):
        assert torch.equal(share.batch.cond_mask[b], drawn[record][0])
        assert share.batch.seeds[b] == drawn[record][1]


def test_validation_batches_are_always_the_same():
    made = loader(waves(8))
    first, second = list(made.fixed()), list(made.fixed())
    assert all(same(a.batch, b.batch) for a, b in zip(first, second, strict=True))
    assert [r for s in first for r in s.batch.record_ids] == [f"r{i}" for i in range(8)]
    assert not any(same(a.batch, b.batch) for a, b in zip(first, loader(waves(8), seed=1).fixed(), strict=True))


def test_nothing_of_held_out_cells_comes_in():
    windows = waves(8)
    windows = replace(windows, held_out=windows.observed & (np.arange(8) % 3 == 1))
    extreme = replace(windows, values=np.where(windows.held_out_mask, 1e9, windows.values))
    for a, b in zip(loader(windows).epoch(1), loader(extreme).epoch(1), strict=True):
        assert same(a.batch, b.batch)
        for i, record in enumerate(a.batch.record_ids):
            scored = windows.held_out_mask[windows.record_ids.index(record)]
            assert not a.batch.observed[i].numpy()[scored].any()
    scaler = Standardizer.fit(windows)
    assert torch.equal(condition_of(windows, scaler).values, condition_of(extreme, scaler).values)


def test_records_without_values_are_left_out(small_windows: Windows):
    values = small_windows.values.copy()
    values[[1, 4]] = np.nan
    made = loader(replace(small_windows, values=values))
    assert len(made.record_ids) - len(made.usable) == 2
    assert made.n_batches == 2
    assert {r for s in made.epoch(1) for r in s.batch.record_ids} == {"r0", "r2", "r3", "r5"}
    with pytest.raises(DataError, match="none of 6 has"):
        loader(replace(small_windows, values=np.full((6, 3, 8), np.nan)))


def test_condition_fills_what_is_missing_or_what_is_asked_for():
    windows = waves(3)
    windows = replace(windows, held_out=windows.observed & (np.arange(8) % 3 == 1))
    scaler = Standardizer.fit(windows)
    np.testing.assert_array_equal(condition_of(windows, scaler).query_mask.numpy(), ~windows.visible)
    np.testing.assert_array_equal(
        condition_of(windows, scaler, windows.held_out_mask).query_mask.numpy(), windows.held_out_mask
    )
    everywhere = condition_of(windows, scaler, np.ones((3, 3, 8), bool))
    np.testing.assert_array_equal(everywhere.query_mask.numpy(), ~windows.visible)
    for bad in (np.ones((3, 8, 3), bool), np.ones((3, 3, 8))):
        with pytest.raises(DataError, match="fill: expected bool of shape"):
            condition_of(windows, scaler, bad)


@pytest.mark.parametrize("span", [None, 7.0, 1e6])
def test_parts_of_a_record_are_those_of_the_whole_bit_for_bit(span: float | None):
    rng = np.random.default_rng(0)
    windows = waves(1, n_steps=400)
    values = np.where(rng.random(windows.values.shape) < 0.97, np.nan, windows.values)  # gaps longer than parts
    values[:, 2] = np.nan
    windows = replace(windows, values=values, times=1e5 + np.cumsum(rng.exponential(size=(1, 400)), 1))
    scaler, fill = Standardizer.fit(waves(5)), rng.random(values.shape) < 0.5
    base = None if span is None else Linear(span)
    whole = condition_of(windows, scaler, fill, base)
    parts = [slice(0, 30), slice(10, 50), slice(50, 51), slice(200, 300), slice(260, 400)]
    for part, found in zip(parts, conditions_of(windows, scaler, parts, fill, base), strict=True):
        for name in ("values", "cond_mask", "query_mask") + ("base",) * (span is not None):
            assert torch.equal(getattr(found, name), getattr(whole, name)[..., part])
        np.testing.assert_array_equal(found.times.numpy(), windows.times[:, part])
        assert (found.base is None) == (span is None)


def test_times_that_single_precision_cannot_tell_apart_are_refused():
    windows = waves(3)
    late = replace(windows, times=windows.times + 1.7e9)  # seconds since 1970
    with pytest.raises(DataError, match=r"single precision.*from the start of each record"):
        condition_of(late, Standardizer.fit(late))
    with pytest.raises(DataError, match="single precision"):
        loader(late)


def test_unobserved_cells_are_asked_for_in_a_share_of_the_records_from_an_epoch_on():
    windows = waves(200, n_steps=20)
    made = Loader(windows, Standardizer.fit(windows), RandomTargets(), 200, 0, query_unobserved=0.3, query_from_epoch=3)
    plain = Loader(windows, Standardizer.fit(windows), RandomTargets(), 200, 0)
    assert next(made.epoch(2)).batch.unobserved_query is None
    assert next(made.fixed()).batch.unobserved_query is None
    batch = next(made.epoch(3)).batch
    assert batch.unobserved_query is not None
    assert torch.equal(batch.cond_mask, next(plain.epoch(3)).batch.cond_mask)
    assert not (batch.unobserved_query & batch.observed).any()
    shares = batch.unobserved_query.sum((1, 2)) / (~batch.observed).sum((1, 2))
    assert set(shares.tolist()) == {0, 1}
    assert 0.2 < shares.mean() < 0.4
    other = Loader(windows.select(slice(3, 9)), Standardizer.fit(windows), RandomTargets(), 2, 0, 0.3, 3)
    for share in other.epoch(3):
        for b, record in enumerate(share.batch.record_ids):
            assert torch.equal(share.batch.unobserved_query[b], batch.unobserved_query[batch.record_ids.index(record)])


def test_usual_cells_are_as_many_as_all_but_a_few_records_hold_of_features_that_are_not_given():
    windows = whole(200)
    windows.values[:199, :, 4:] = np.nan  # 12 cells shown in each record but the last, which shows 24
    assert usual_cells(windows) == 12
    assert condition_of(windows, Standardizer.fit(windows), usual=12).usual_cells == 12
    given = replace(windows, features=(*windows.features[:2], replace(windows.features[2], given=True)))
    assert usual_cells(given) == 8


def test_records_are_crowded_in_training_only_in_passes_that_ask_for_unobserved_cells():
    windows = whole(8)
    windows.values[..., :4] = np.nan
    asking = Loader(windows, Standardizer.fit(windows), RandomTargets(), 8, 0, query_unobserved=1.0, query_from_epoch=2)
    for shares, usual in ((asking.epoch(1), math.inf), (asking.epoch(2), 12), (asking.fixed(), math.inf)):
        assert all(share.batch.condition.usual_cells == usual for share in shares)

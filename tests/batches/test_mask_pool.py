"""A few masks a record: the same at any time, and their base estimates are made once, without the targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from tiny_models import waves

from tsimpute.batches.base_estimates import BaseEstimate, Known
from tsimpute.batches.loading import Loader
from tsimpute.batches.masking import RandomTargets
from tsimpute.core.windows import Windows
from tsimpute.scaling.standardizer import Standardizer


class Counting:
    """Base estimates the mean of what a record shows, and a spread that grows with what is hidden."""

    has_spread = True

    def __init__(self) -> None:
        self.n_made = 0

    def of(self, values: np.ndarray, shown: np.ndarray, times: np.ndarray, wanted: np.ndarray) -> BaseEstimate:
        self.n_made += len(values)
        mean = np.where(shown, values, 0).sum((1, 2)) / np.maximum(shown.sum((1, 2)), 1)
        spread = 1.0 + (~shown).sum((1, 2))
        return BaseEstimate(
            np.where(wanted, mean[:, None, None], 0).astype(np.float32),
            np.where(wanted, spread[:, None, None], 1).astype(np.float32),
        )

    def of_parts(self, known: Known, parts: Sequence[slice], wanted: np.ndarray) -> Iterator[BaseEstimate]:
        raise NotImplementedError


def loader(windows: Windows, base: Counting, n_masks: int = 3, asking: float = 0.0) -> Loader:
    return Loader(windows, Standardizer.fit(windows), RandomTargets(), 4, 0, asking, 1, base=base, n_masks=n_masks)


def test_each_record_has_a_few_masks_and_each_base_estimate_is_computed_once() -> None:
    base, windows = Counting(), waves(8)
    made = loader(windows, base)
    masks: dict[str, set[bytes]] = {}
    for epoch in range(1, 21):
        for share in made.epoch(epoch):
            for record, mask in zip(share.batch.record_ids, share.batch.cond_mask, strict=True):
                masks.setdefault(record, set()).add(mask.numpy().tobytes())
    assert {len(of_one) for of_one in masks.values()} == {3}
    assert base.n_made == 8 * 3


def test_targets_hold_the_difference_in_units_of_the_spread() -> None:
    windows = waves(8)
    plain = Loader(windows, Standardizer.fit(windows), RandomTargets(), 8, 0)
    for asking in (0.0, 1.0):
        batch = next(loader(windows, Counting(), asking=asking).fixed()).batch
        batch = next(loader(windows, Counting(), asking=asking).epoch(1)).batch if asking else batch
        assert batch.base is not None
        assert batch.spread is not None
        at = [windows.record_ids.index(record) for record in batch.record_ids]
        values = torch.from_numpy(plain.values[at])
        torch.testing.assert_close(batch.condition.restored(batch.values)[batch.target_mask], values[batch.target_mask])
        assert torch.equal(batch.values[batch.cond_mask], values[batch.cond_mask])
        cells = batch.condition.query_mask
        assert (batch.spread[cells] > 1).all()
        assert (batch.spread[~cells] == 1).all()
        assert (batch.spread_given_all is not None) == (asking > 0)


def test_an_epoch_is_the_same_whatever_came_before_it() -> None:
    windows = waves(8)
    late = loader(windows, Counting())
    for epoch in (1, 2, 3):
        list(late.epoch(epoch))
    fresh = loader(windows, Counting())
    for one, two in zip(late.epoch(4), fresh.epoch(4), strict=True):
        for name in ("values", "cond_mask", "base", "spread"):
            assert torch.equal(getattr(one.batch, name), getattr(two.batch, name))


def test_targets_have_no_part_in_a_base_estimate() -> None:
    windows, scaler = waves(8), Standardizer.fit(waves(8))
    batch = next(loader(windows, Counting()).epoch(1)).batch
    at = [windows.record_ids.index(record) for record in batch.record_ids]
    loud = windows.values.copy()
    loud[at] = np.where(batch.target_mask.numpy(), 1e9, loud[at])
    other = Loader(replace(windows, values=loud), scaler, RandomTargets(), 4, 0, base=Counting(), n_masks=3)
    again = next(other.epoch(1)).batch
    for name in ("cond_mask", "base", "spread"):
        assert torch.equal(getattr(batch, name), getattr(again, name))
    assert torch.equal(batch.condition.values, again.condition.values)


def test_each_record_has_the_base_of_its_own() -> None:
    windows, one, two = waves(8), Counting(), Counting()
    scaler = Standardizer.fit(windows)
    of = {n: one if n < 3 else two for n in range(8)}
    made = Loader(windows, scaler, RandomTargets(), 4, 0, base=one, base_of_record=of.__getitem__, n_masks=1)
    plain = loader(windows, Counting(), n_masks=1)
    for share, expected in zip(made.epoch(1), plain.epoch(1), strict=True):
        for name in ("base", "spread"):
            assert torch.equal(getattr(share.batch, name), getattr(expected.batch, name))
    assert (one.n_made, two.n_made) == (3, 5)

"""Packed rows: every token has its place, rows stay whole and in order, and bins are well filled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsimpute.backbones.packing import pack


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 75), min_size=1, max_size=40),
    seed=st.integers(0, 99),
)
def test_rows_stay_whole_and_in_order(lengths: list[int], seed: int):
    rows = np.random.default_rng(seed).permutation(np.repeat(100 + 3 * np.arange(len(lengths)), lengths))
    packing = pack(rows)
    assert len(np.unique(packing.position)) == len(rows)
    assert packing.position.max() < packing.n_positions
    for row in np.unique(rows):
        at = packing.position[rows == row]
        assert (np.diff(at) == 1).all()
    base = 0
    for group in packing.groups:
        size = group.size
        inside = (packing.position >= base) & (packing.position < base + size)
        name = np.full(size, -1)
        name[packing.position[inside] - base] = rows[inside]
        name = name.reshape(group.shape)
        # Two positions meet exactly if their tokens are of one row, and no row lies across two bins.
        same = (name[:, :, None] == name[:, None]) & (name >= 0)[:, None]
        meet = (group[:, :, None] == group[:, None]) & (group >= 0)[:, None]
        assert (same == meet).all()
        assert ((group >= 0) == (name >= 0)).all()
        assert sum(len(np.unique(row[row >= 0])) for row in name) == len(np.unique(name[name >= 0]))
        base += size


@pytest.mark.parametrize(("length", "size"), [(1, 32), (32, 32), (33, 33), (48, 48), (5000, 5000)])
def test_rows_of_one_length_leave_no_gap(length: int, size: int):
    packing = pack(np.repeat(np.arange(64), length))
    assert [group.shape[1] for group in packing.groups] == [size]
    assert packing.n_positions == 64 * length


def test_short_rows_share_bins():
    lengths = np.random.default_rng(0).integers(1, 15, 300)
    assert pack(np.repeat(np.arange(300), lengths)).n_positions < 1.05 * lengths.sum()

"""Random numbers from seeds: many at once, each from its own seed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tsimpute.core.seeding import derive_seed, seeds_at, uniforms


def splitmix64(seed: int, n: int) -> list[int]:
    """The first numbers of SplitMix64, as its authors print it."""
    mask, numbers = 2**64 - 1, []
    for _ in range(n):
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        numbers.append((z ^ (z >> 31)) >> 1)
    return numbers


@pytest.mark.parametrize("seed", [0, 1234567, 2**63 - 1])
def test_are_the_numbers_of_splitmix64(seed: int) -> None:
    assert seeds_at(np.array([seed]), np.arange(1, 6)).tolist() == splitmix64(seed, 5)


def test_splitmix64_starts_with_its_published_number() -> None:
    assert seeds_at(np.array([0]), 1).tolist() == [0xE220A8397B1DCDAF >> 1]


def test_a_row_depends_on_its_seed_and_purpose_alone() -> None:
    seeds = np.array([derive_seed(n) for n in range(50)])
    together = uniforms(seeds, 4, "a")
    assert np.array_equal(uniforms(seeds[[7]], 4, "a"), together[[7]])
    assert np.array_equal(uniforms(seeds[::-1], 3, "a")[::-1], together[:, :3])
    assert not np.isclose(uniforms(seeds, 4, "b"), together).any()


def test_numbers_are_uniform_and_independent_along_rows_and_between_them() -> None:
    seeds = np.array([derive_seed("r", n) for n in range(4000)])
    for drawn in (uniforms(seeds, 8, "x"), uniforms(np.arange(4000), 8, "x")):
        assert ((drawn > 0) & (drawn < 1)).all()
        assert min(stats.kstest(column, "uniform").pvalue for column in drawn.T) > 1e-3
        assert abs(np.corrcoef(drawn.T) - np.eye(8)).max() < 0.06
        assert abs(np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]) < 0.06

"""Splits: disjoint, covering, and the same whatever the order of the records."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError, DataError
from tsimpute.tasks.task import Split, csdi_folds, legacy_generator, prescribed, seeded_folds


def ids(n: int) -> list[str]:
    return [f"stay {i}" for i in range(n)]


def parts(split: Split) -> list[list[int]]:
    return [split.train.tolist(), split.valid.tolist(), split.test.tolist()]


@given(st.integers(5, 60), st.integers(0, 3))
def test_seeded_folds_partition_and_their_tests_cover_all_once(n: int, seed: int):
    splits = [seeded_folds(ids(n), fold, seed) for fold in range(5)]
    for split in splits:
        assert sorted(chain(*parts(split))) == list(range(n))
    assert sorted(chain(*(split.test.tolist() for split in splits))) == list(range(n))


def test_shares_are_70_10_20():
    assert [len(part) for part in parts(seeded_folds(ids(4000), 2, 1))] == [2800, 400, 800]


def test_seeded_folds_do_not_depend_on_the_order_of_records():
    names = ids(50)
    order = np.random.default_rng(0).permutation(50)
    split, shuffled = seeded_folds(names, 3, 1), seeded_folds([names[i] for i in order], 3, 1)
    for one, other in zip(parts(split), parts(shuffled), strict=True):
        assert set(one) == {int(order[i]) for i in other}
    assert parts(seeded_folds(names, 3, 2)) != parts(split)
    assert parts(seeded_folds(names, np.int64(3), np.int64(1))) == parts(split)


def test_test_records_are_drawn_and_not_cut_from_one_end():
    test = seeded_folds(ids(1000), 0, 1).test
    assert abs(test.mean() - 499.5) < 5 * 1000 / 12**0.5 / 200**0.5


@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_too_few_records_for_folds(n: int):
    with pytest.raises(DataError, match=f"at least 5 .*came {n}"):
        seeded_folds(ids(n), 0, 1)


@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_too_few_records_for_csdi_folds(n: int):
    with pytest.raises(DataError, match="at least one record in each"):
        csdi_folds(n, 0, 1)


@pytest.mark.parametrize("fold", [-1, 5, 1.5, "0", None])
def test_folds_out_of_range(fold: int):
    for draw in (lambda: seeded_folds(ids(10), fold, 1), lambda: csdi_folds(10, fold, 1)):
        with pytest.raises(ConfigError, match="0 to 4, came"):
            draw()


def test_csdi_folds_by_hand():
    """The original's statements on the global generator, as an independent reading of it."""
    for n, fold in ((10, 0), (23, 3), (101, 4)):
        np.random.seed(7)  # noqa: NPY002
        indlist = np.arange(n)
        np.random.shuffle(indlist)  # noqa: NPY002
        start, end = int(fold * 0.2 * n), int((fold + 1) * 0.2 * n)
        test = indlist[start:end]
        remain = np.delete(indlist, np.arange(start, end))
        np.random.seed(7)  # noqa: NPY002
        np.random.shuffle(remain)  # noqa: NPY002
        expected = [remain[: int(n * 0.7)].tolist(), remain[int(n * 0.7) :].tolist(), test.tolist()]
        assert parts(csdi_folds(n, fold, 7)) == expected


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_legacy_generator_refuses_seeds_that_numpy_would(seed: int):
    with pytest.raises(ConfigError, match="seed"):
        legacy_generator(seed)


def test_prescribed_split_keeps_the_order_of_records(small_windows: Windows):
    split = np.array(["test", "train", "valid", "train", "test", "train"])
    assert parts(prescribed(replace(small_windows, split=split))) == [[1, 3, 5], [2], [0, 4]]


@pytest.mark.parametrize(
    ("split", "says"),
    [
        (None, "have none"),
        (["train"] * 5 + ["test"], "'valid': 0"),
        (["train", "train", "dev", "valid", "test", "test"], "also 'dev'"),
    ],
)
def test_split_that_cannot_be_used(small_windows: Windows, split: list[str] | None, says: str):
    with pytest.raises(DataError, match=says):
        prescribed(replace(small_windows, split=None if split is None else np.array(split)))


def test_a_record_in_two_parts_is_refused():
    with pytest.raises(DataError, match="without common records"):
        Split(np.array([0, 1]), np.array([2]), np.array([1]))

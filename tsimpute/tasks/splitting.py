"""Which records are for training, validation and test: prescribed, in seeded folds, or as CSDI draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsimpute.core.seeding import derive_seed
from tsimpute.core.shapes import ShortRepr
from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError, DataError

N_FOLDS = 5
PARTS = ("train", "valid", "test")


@dataclass(frozen=True, eq=False, repr=False)
class Split(ShortRepr):
    """Positions of the records of each part, each (n,) int.

    Raises:
        DataError: a part is empty, or a record stands in two places.
    """

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray

    def __post_init__(self) -> None:
        sizes = {part: len(getattr(self, part)) for part in PARTS}
        if not all(sizes.values()):
            raise DataError(
                f"split: expected at least one record in each of train, valid and test; came {sizes}. "
                f"Use more records (folds need at least {N_FOLDS}), or set `split` of the windows yourself."
            )
        together = np.concatenate([self.train, self.valid, self.test])
        if len(np.unique(together)) < len(together):
            raise DataError("split: expected train, valid and test without common records.")


def prescribed(windows: Windows) -> Split:
    """The split that the data set prescribes, in the records' order.

    Raises:
        DataError: none is prescribed, it has other names than train, valid and test, or one of them is empty.
    """
    if windows.split is None:
        raise DataError("split: expected a prescribed split, the windows have none; use seeded_folds.")
    unknown = sorted(set(map(str, windows.split)) - set(PARTS))
    if unknown:
        raise DataError(
            f"split: expected only the names {', '.join(PARTS)}; came also {', '.join(map(repr, unknown))}."
        )
    return Split(*(np.flatnonzero(windows.split == part) for part in PARTS))


def seeded_folds(record_ids: Sequence[str], fold: int, seed: int) -> Split:
    """One of five folds: a fifth is test, of the rest 7/8 are training and 1/8 validation (70 / 10 / 20 %).

    The test parts of the five folds have no record in common and together hold all. Who is where depends on the set of
    ids and the seed, not on the order of the records.

    Raises:
        ConfigError: fold is not 0 to 4.
        DataError: fewer than five records.
    """
    check_fold(fold)
    n = len(record_ids)
    if n < N_FOLDS:
        raise DataError(
            f"records: expected at least {N_FOLDS} for {N_FOLDS} folds, came {n}. Cut the series into more windows, or "
            "set `split` of the windows yourself."
        )
    by_lot = sorted(range(n), key=lambda i: derive_seed(int(seed), "test", record_ids[i]))
    start, end = fold * n // N_FOLDS, (fold + 1) * n // N_FOLDS
    rest = by_lot[:start] + by_lot[end:]
    rest.sort(key=lambda i: derive_seed(int(seed), "valid", int(fold), record_ids[i]))
    n_valid = max(round(len(rest) / 8), 1)
    return Split(*(np.array(sorted(part), int) for part in (rest[n_valid:], rest[:n_valid], by_lot[start:end])))


def csdi_folds(n: int, fold: int, seed: int) -> Split:
    """The folds of the original CSDI code, draw by draw, over n records that it numbers by ascending id.

    Raises:
        ConfigError: fold is not 0 to 4, or the seed is none of numpy's legacy generator.
        DataError: too few records: a part would be empty.
    """
    check_fold(fold)
    order = np.arange(n)
    legacy_generator(seed).shuffle(order)
    start, end = fold * n // N_FOLDS, (fold + 1) * n // N_FOLDS
    rest = np.concatenate([order[:start], order[end:]])
    legacy_generator(seed).shuffle(rest)
    n_train = int(n * 0.7)
    return Split(train=rest[:n_train], valid=rest[n_train:], test=order[start:end])


def legacy_generator(seed: int) -> np.random.RandomState:
    """The generator behind ``np.random.seed(seed)``, without touching the global one; other seeds are a ConfigError."""
    if not 0 <= seed < 2**32:
        raise ConfigError(f"seed of the csdi protocol: expected 0 to 2**32 - 1, came {seed}.")
    return np.random.RandomState(int(seed))


def check_fold(fold: int) -> None:
    """Raises ConfigError where ``fold`` is not one of 0 to 4."""
    if fold not in range(N_FOLDS):
        raise ConfigError(f"fold: expected one of 0 to {N_FOLDS - 1}, came {fold!r}.")

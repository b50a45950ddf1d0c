"""Masks for training: new in each epoch, or a few per record where each needs a base estimate that takes time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from tsimpute.batches.base_estimates import BaseEstimate, BaseMethod
from tsimpute.core.seeding import derive_seed

Masker = Callable[[int, np.random.Generator], np.ndarray]
"""(index of a record, generator) -> (K, L) bool, the cells that are shown."""


class Masks(Protocol):
    """Gives masks of training records, and baselines at the cells that they hide.

    Attributes:
        size: masks of each record; 0 = any number.
    """

    size: int

    def draw(self, record: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """A mask of a record, (K, L) bool, the cells that are shown, and its number; -1 where it has none."""
        ...

    def estimates(
        self, index: np.ndarray, shown: np.ndarray, numbers: Sequence[int], wanted: np.ndarray, everywhere: bool
    ) -> BaseEstimate:
        """See ``MaskPool.estimates``."""
        ...


class _Kept(NamedTuple):
    """A base estimate at the wanted cells of one record, in the order of the record."""

    mean: np.ndarray
    spread: np.ndarray | None


class MaskPool:
    """A few masks for each record, whose base estimates are computed once, when they are first needed.

    Masks come from (seed, record, number), so a resumed run has the same ones.

    Args:
        base_of_record: makes the base estimates of a record, by its index.
        masker: draws masks.
        values, observed, times: of all records, see ``BaseMethod.of``.
        record_ids: of all records.
        size: masks of each record; 0 = any number, each from the generator that is passed, and nothing is stored.
        seed: of the masks.
    """

    def __init__(
        self,
        base_of_record: Callable[[int], BaseMethod],
        masker: Masker,
        values: np.ndarray,
        observed: np.ndarray,
        times: np.ndarray,
        record_ids: Sequence[str],
        size: int,
        seed: int,
    ) -> None:
        self.base_of_record, self.masker, self.size, self.seed = base_of_record, masker, size, seed
        self.values, self.observed, self.times, self.record_ids = values, observed, times, record_ids
        self._kept: dict[tuple[int, int, bool], _Kept] = {}

    def draw(self, record: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """A mask of a record, (K, L) bool, and its number in the pool; -1 where it is in none."""
        if not self.size:
            return self.masker(record, rng), -1
        number = int(rng.integers(self.size))
        generator = np.random.default_rng(derive_seed(self.seed, "mask", self.record_ids[record], number))
        return self.masker(record, generator), number

    def estimates(
        self, index: np.ndarray, shown: np.ndarray, numbers: Sequence[int], wanted: np.ndarray, everywhere: bool
    ) -> BaseEstimate:
        """The base estimates of some records.

        Args:
            index: (B,) which ones.
            shown, wanted: (B, K, L) bool.
            numbers: of their masks, as ``draw`` gave them.
            everywhere: whether all cells that are not visible are wanted, not only targets.
        """
        keys = [(i, number, everywhere) for i, number in zip(index.tolist(), numbers, strict=True)]
        new = [b for b, key in enumerate(keys) if key not in self._kept or not self.size]
        fresh: dict[int, _Kept] = {}
        for base, at in _by_method(new, [self.base_of_record(keys[b][0]) for b in new]):
            estimate = base.of(self.values[index[at]], shown[at], self.times[index[at]], wanted[at])
            for n, b in enumerate(at):
                cells = wanted[b]
                fresh[b] = _Kept(
                    estimate.mean[n][cells], None if estimate.spread is None else estimate.spread[n][cells]
                )
                if self.size:
                    self._kept[keys[b]] = fresh[b]
        return self._filled([fresh.get(b) or self._kept[key] for b, key in enumerate(keys)], wanted)

    def _filled(self, of_records: Sequence[_Kept], wanted: np.ndarray) -> BaseEstimate:
        mean = np.zeros(wanted.shape, np.float32)
        spread = None if of_records[0].spread is None else np.ones(wanted.shape, np.float32)
        for b, base in enumerate(of_records):
            mean[b][wanted[b]] = base.mean
            if spread is not None:
                spread[b][wanted[b]] = base.spread
        return BaseEstimate(mean, spread)


def _by_method(at: Sequence[int], methods: Sequence[BaseMethod]) -> list[tuple[BaseMethod, list[int]]]:
    """Each distinct method with its positions."""
    places: dict[int, tuple[BaseMethod, list[int]]] = {}
    for place, base in zip(at, methods, strict=True):
        places.setdefault(id(base), (base, []))[1].append(place)
    return list(places.values())

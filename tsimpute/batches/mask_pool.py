"""Masks for training: new in each epoch, or a few per record where each needs a base estimate that takes time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

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
        """The base estimates of some records.

        Args:
            index: (B,) which ones.
            shown, wanted: (B, K, L) bool.
            numbers: of their masks, as ``draw`` gave them.
            everywhere: whether all cells that are not visible are wanted, not only targets.
        """
        ...


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
        self._kept: dict[tuple[int, int, bool], BaseEstimate] = {}

    def draw(self, record: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        if not self.size:
            return self.masker(record, rng), -1
        number = int(rng.integers(self.size))
        generator = np.random.default_rng(derive_seed(self.seed, "mask", self.record_ids[record], number))
        return self.masker(record, generator), number

    def estimates(
        self, index: np.ndarray, shown: np.ndarray, numbers: Sequence[int], wanted: np.ndarray, everywhere: bool
    ) -> BaseEstimate:
        keys = [(i, number, everywhere) for i, number in zip(index.tolist(), numbers, strict=True)]
        new = [b for b, key in enumerate(keys) if key not in self._kept or not self.size]
        by_method: dict[int, tuple[BaseMethod, list[int]]] = {}
        for b in new:
            base = self.base_of_record(keys[b][0])
            by_method.setdefault(id(base), (base, []))[1].append(b)
        stored = self._kept if self.size else {}
        for base, at in by_method.values():
            estimate = base.of(self.values[index[at]], shown[at], self.times[index[at]], wanted[at])
            for n, b in enumerate(at):
                spread = None if estimate.spread is None else estimate.spread[n][wanted[b]]
                stored[keys[b]] = BaseEstimate(estimate.mean[n][wanted[b]], spread)
        mean, spread = np.zeros(wanted.shape, np.float32), None
        if stored[keys[0]].spread is not None:
            spread = np.ones(wanted.shape, np.float32)
        for b, key in enumerate(keys):
            mean[b][wanted[b]] = stored[key].mean
            if spread is not None:
                spread[b][wanted[b]] = stored[key].spread
        return BaseEstimate(mean, spread)

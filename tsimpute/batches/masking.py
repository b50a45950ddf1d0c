"""Mask policies for training: which observed cells of a record a model may use, and which become its targets.

A pool has a few masks per record where each needs a base estimate that takes time.

The strategies are those of CSDI (Tashiro et al. 2021, section 4.3 and appendix), decided per record by a generator
that is handed in: a record's mask depends neither on its batch nor on its neighbours there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tsimpute.batches.base_estimates import BaseEstimate, BaseMethod
from tsimpute.config.registry import is_known, plugin
from tsimpute.config.settings import MASK_POLICIES
from tsimpute.core.gaps import runs_of
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError, DataError

# A donor can leave no target: the record's own pattern always, a fully observed donor too. On PhysioNet one draw in
# a few thousand does, so a second draw nearly always ends it.
_DRAWS = 8


class MaskPolicy(Protocol):
    """Chooses the visible cells of one record."""

    def __call__(self, observed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(K, L) bool cond_mask within ``observed`` (K, L) bool.

        The other observed cells are the targets; there is at least one wherever anything is observed.
        """
        ...


@dataclass(frozen=True)
class RandomTargets:
    """Targets drawn evenly over the observed cells; their share is drawn from U(0, 1) for each record anew.

    With n observed cells, round(share * n) of them, at least 1 and at most n, become targets.
    """

    def __call__(self, observed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        cond_mask = observed.copy()
        cells = np.flatnonzero(observed)
        if len(cells):
            count = min(max(round(rng.random() * len(cells)), 1), len(cells))
            cond_mask.reshape(-1)[rng.permutation(cells)[:count]] = False
        return cond_mask

    def of_rows(self, observed: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        """(B, K) bool cond_mask of many records of one step, from (B, 1 + K) uniform numbers; each row as above."""
        n_cells = observed.sum(1)
        count = np.clip(np.rint(drawn[:, 0] * n_cells), 1, n_cells)
        rank = np.where(observed, drawn[:, 1:], 2.0).argsort(1).argsort(1)
        return observed & (rank >= count[:, None])


@dataclass(frozen=True, eq=False)
class Historical:
    """Shows what is observed in the record and also in another training record, the donor: gaps as they really come.

    The donor is drawn evenly. Where it leaves no target (as the record's own pattern would) another is drawn, a few
    times; then the record gets random targets.

    Attributes:
        patterns: (P, K, L) bool, what is observed in each possible donor.

    Raises:
        ConfigError: there is no pattern.
        DataError: the patterns are not a bool array of three axes.
    """

    patterns: np.ndarray

    def __post_init__(self) -> None:
        if self.patterns.ndim != 3 or self.patterns.dtype != bool:
            raise DataError(
                "patterns: expected bool of shape (donors, features, steps), "
                f"came {self.patterns.dtype} {self.patterns.shape}."
            )
        if not len(self.patterns):
            raise ConfigError(
                "mask policy: historical targets need at least one training record that lends its pattern, and there "
                "is none. Use the policy 'random', or check `pattern_donor` of the data set."
            )

    def __call__(self, observed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if observed.shape != self.patterns.shape[1:]:
            raise DataError(
                f"observed: expected shape {self.patterns.shape[1:]}, that of the donors' patterns; "
                f"came {observed.shape}."
            )
        for _ in range(_DRAWS):
            cond_mask = observed & self.patterns[rng.integers(len(self.patterns))]
            if not np.array_equal(cond_mask, observed):
                return cond_mask
        return RandomTargets()(observed, rng)


class Mix(Historical):
    """Random or historical targets, each with probability one half for each record anew."""

    def __call__(self, observed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return RandomTargets()(observed, rng) if rng.random() > 0.5 else super().__call__(observed, rng)


@dataclass(frozen=True, eq=False)
class LikeGaps:
    """Hides runs as long as the gaps of the data are, until a share drawn from U(0, 1/2) of the cells is hidden.

    Half of the runs have the length of a gap drawn evenly, half that of the gap which an evenly drawn missing cell lies
    in: so both short gaps and long ones are learnt. A run is one feature's, or, as often as gaps are, that of all.

    Attributes:
        lengths: (G,) lengths of the gaps in steps, at least one.
        together: share of the gaps' steps at which more than half of the features are missing.
    """

    lengths: np.ndarray
    together: float

    @classmethod
    def of(cls, observed: np.ndarray | Sequence[np.ndarray]) -> LikeGaps:
        """As the gaps of (K, L) records of any lengths are; runs of 1 to 8 steps where nothing is missing."""
        lengths, n_together, n_missing = [], 0, 0
        for missing in (~of_record for of_record in observed):
            _, starts, stops = runs_of(missing)
            lengths.append(stops - starts)
            n_together += int(missing[:, missing.mean(0) > 0.5].sum())
            n_missing += int(missing.sum())
        if not n_missing:
            return cls(np.arange(1, 9), 0.0)
        return cls(np.concatenate(lengths), n_together / n_missing)

    def __call__(self, observed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.hide(observed, rng.random() / 2, rng)

    def hide(self, observed: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
        """(K, L) bool cond_mask within ``observed`` with a share of its cells hidden, at least one, by whole runs."""
        shown = observed.copy()
        features, n_steps = np.flatnonzero(observed.any(1)), observed.shape[1]
        n_left = max(1, round(share * observed.sum()))
        cells = np.cumsum(self.lengths)
        while n_left > 0 and len(features):
            at = (
                rng.integers(len(self.lengths))
                if rng.random() < 0.5
                else np.searchsorted(cells, rng.random() * cells[-1])
            )
            length = int(self.lengths[at])
            first = int(rng.integers(1 - length, n_steps))  # a gap may begin before the record, or end after it
            steps = slice(max(first, 0), first + length)
            whose = slice(None) if rng.random() < self.together else int(rng.choice(features))
            n_left -= int(shown[whose, steps].sum())
            shown[whose, steps] = False
        return shown


@dataclass(frozen=True)
class Varied:
    """Targets of one of several policies, each with the same probability, for each record anew."""

    policies: Sequence[MaskPolicy]

    def __call__(self, observed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.policies[int(rng.integers(len(self.policies)))](observed, rng)


def make_policy(name: str, train: Windows) -> MaskPolicy:
    """The policy of that name: one of ``config.MASK_POLICIES``, or one that a function of another package makes.

    Args:
        name: one of ``MASK_POLICIES``, an import path or an entry point: see ``registry``, kind "mask_policies".
        train: training records; their shown cells are the patterns, of those records only that
            ``train.pattern_donor`` marks (all where it is None). Given features are no part of them.

    Raises:
        ConfigError: the name is unknown, or no training record lends a pattern.
    """
    if name == "random":
        return RandomTargets()
    if name not in MASK_POLICIES and not is_known("mask_policies", name):
        raise ConfigError(f"mask policy: expected one of {', '.join(MASK_POLICIES)}; came {name!r}.")
    if name not in MASK_POLICIES:
        return plugin("mask_policies", name)(train)
    shown = train.visible[:, [not feature.given for feature in train.features]]
    if name == "gaps":
        return LikeGaps.of(shown)
    patterns = shown if train.pattern_donor is None else shown[train.pattern_donor]
    if name == "varied":
        return Varied((RandomTargets(), Historical(patterns), LikeGaps.of(shown)))
    return Historical(patterns) if name == "historical" else Mix(patterns)


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

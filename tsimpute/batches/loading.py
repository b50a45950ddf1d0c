"""Training batches from records; the same for any number of processes and after a resume at any batch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from tsimpute.batches.base_estimates import BaseEstimate, BaseMethod, Known, standardised
from tsimpute.batches.masking import MaskPolicy, MaskPool, Masks, RandomTargets
from tsimpute.core.containers import Batch, Condition
from tsimpute.core.seeding import derive_seed, seeds_at, uniforms
from tsimpute.core.windows import Windows
from tsimpute.errors import DataError
from tsimpute.scaling.standardizer import Scale


@dataclass(frozen=True)
class RankShard:
    """One process's part of a global batch.

    Attributes:
        batch: its records; one record without weight where the batch is smaller than the number of processes.
        n_global: records in the whole batch.
        weight: 1, or 0 where the batch holds a stand-in.
    """

    batch: Batch
    n_global: int
    weight: float = 1.0


class Loader:
    """Batches of standardised records with targets drawn by a mask policy.

    Only shown cells are ever read: the held-out cells of ``windows`` reach neither values nor targets. Order, masks,
    process times and noise of a record in an epoch come from (seed, epoch, record), so batches can be cut anywhere.
    Given features are always shown and never targets.

    Args:
        windows: training (or validation) records.
        scaler: fitted on training cells.
        policy: chooses targets among the shown cells.
        batch_size: records of a global batch.
        seed: of everything drawn.
        query_unobserved: share of records in which all unobserved cells are queried too, from ``query_from_epoch`` on.
        base: where given, targets are the differences to it, in units of its spread where it has one.
        base_of_record: another base for some records, by their index; None = ``base`` for all.
        n_masks: masks of each record that there are, see ``MaskPool``; 0 = a new one in each epoch.
        masks: gives masks and base estimates in place of ``policy`` and ``base_of_record``; None = they do.

    Raises:
        DataError: no record has a shown cell, or times lose their order in single precision.
    """

    def __init__(
        self,
        windows: Windows,
        scaler: Scale,
        policy: MaskPolicy,
        batch_size: int,
        seed: int = 0,
        query_unobserved: float = 0.0,
        query_from_epoch: int = 1,
        base: BaseMethod | None = None,
        base_of_record: Callable[[int], BaseMethod] | None = None,
        n_masks: int = 0,
        masks: Masks | None = None,
    ) -> None:
        self.visible = windows.visible
        self.values = standardised(windows.values, self.visible, scaler)
        self.times = single_precision(windows.times)
        self.record_ids, self.features = windows.record_ids, windows.features
        self.targetable = _not_given(windows)
        self.usable = np.flatnonzero(self.visible[:, self.targetable].any((1, 2)))
        self.policy, self.batch_size, self.seed = policy, batch_size, seed
        self.query_unobserved, self.query_from_epoch = query_unobserved, query_from_epoch
        self.usual_cells = usual_cells(windows) if query_unobserved else math.inf
        at_rest = self.values, self.visible, self.times, self.record_ids
        self.pool: Masks | None = masks
        if base is not None and masks is None:
            self.pool = MaskPool(base_of_record or (lambda record: base), self._mask, *at_rest, n_masks, seed)
        self._keys = None  # of the records' own random numbers, where those of a batch are drawn at once
        plain = isinstance(policy, RandomTargets) and base is None and masks is None and not query_unobserved
        if plain and windows.n_steps == 1:
            self._keys = np.array([derive_seed(seed, record) for record in windows.record_ids], np.uint64)
        if not len(self.usable):
            raise DataError(
                f"records to learn from: expected at least one with a shown cell; none of {len(windows)} has."
            )

    @property
    def n_batches(self) -> int:
        """Global batches in an epoch."""
        return -(-len(self.usable) // self.batch_size)

    def epoch(self, epoch: int, first_batch: int = 0, rank: int = 0, n_ranks: int = 1) -> Iterator[RankShard]:
        """The shuffled batches of an epoch from ``first_batch`` on, and of each the records of one process."""
        order = np.random.default_rng(derive_seed(self.seed, "order", epoch)).permutation(self.usable)
        return self._shares(order, epoch, first_batch, rank, n_ranks)

    def fixed(self) -> Iterator[RankShard]:
        """Every record once, in order, with the same masks, times and noise each time: for validation."""
        return self._shares(self.usable, -1, 0, 0, 1)

    def _shares(self, order: np.ndarray, epoch: int, first: int, rank: int, n_ranks: int) -> Iterator[RankShard]:
        for b in range(first, self.n_batches):
            chosen = order[b * self.batch_size : (b + 1) * self.batch_size]
            of_rank = chosen[rank::n_ranks]
            batch = self._batch(of_rank if len(of_rank) else chosen[:1], epoch)
            yield RankShard(batch, len(chosen), float(len(of_rank) > 0))

    def _batch(self, index: np.ndarray, epoch: int) -> Batch:
        if self._keys is not None:
            return self._batch_of_rows(index, seeds_at(self._keys[index], epoch))
        seeds = tuple(derive_seed(self.seed, epoch, self.record_ids[i]) for i in index)
        rngs = [np.random.default_rng(seed) for seed in seeds]
        draw = (lambda record, rng: (self._mask(record, rng), -1)) if self.pool is None else self.pool.draw
        masks, numbers = zip(*(draw(i, rng) for i, rng in zip(index.tolist(), rngs, strict=True)), strict=True)
        cond_mask, observed, values = np.stack(masks), self.visible[index], self.values[index]
        queried = None
        if self.query_unobserved > 0 and epoch >= self.query_from_epoch:
            whole = np.array([rng.random() < self.query_unobserved for rng in rngs])[:, None, None]
            queried = ~observed & self.targetable[:, None] & whole
        base, base_given_all = None, None
        if self.pool is not None:
            everywhere = queried is not None
            wanted = ~cond_mask if everywhere or not self.pool.size else observed & ~cond_mask
            base = self.pool.estimates(index, cond_mask, numbers, wanted, everywhere)
            values = standardised_residuals(values, base, observed)
            if everywhere:
                base_given_all = self.pool.estimates(index, observed, [-1] * len(index), ~observed, True)
        return Batch(
            values=torch.from_numpy(values),
            observed=torch.from_numpy(observed),
            cond_mask=torch.from_numpy(cond_mask),
            times=torch.from_numpy(self.times[index]),
            record_ids=tuple(self.record_ids[i] for i in index),
            seeds=seeds,
            unobserved_query=None if queried is None else torch.from_numpy(queried),
            base=_tensor(base and base.mean),
            spread=_tensor(base and base.spread),
            base_given_all=_tensor(base_given_all and base_given_all.mean),
            spread_given_all=_tensor(base_given_all and base_given_all.spread),
            usual_cells=math.inf if queried is None else self.usual_cells,
        )

    def _batch_of_rows(self, index: np.ndarray, seeds: np.ndarray) -> Batch:
        """Records of one step with random targets, drawn for all of them at once, each from its own seed."""
        observed, targetable = self.visible[index], self.targetable
        cond_mask = observed.copy()
        drawn = uniforms(seeds, 1 + targetable.sum(), "targets")
        cond_mask[:, targetable, 0] = RandomTargets().of_rows(observed[:, targetable, 0], drawn)
        values, times = self.values[index], self.times[index]
        ids, tensor = tuple(self.record_ids[i] for i in index), torch.from_numpy
        return Batch(tensor(values), tensor(observed), tensor(cond_mask), tensor(times), ids, tuple(seeds.tolist()))

    def _mask(self, record: int, rng: np.random.Generator) -> np.ndarray:
        mask = self.visible[record].copy()
        mask[self.targetable] = self.policy(mask[self.targetable], rng)
        return mask


def usual_cells(train: Windows) -> int:
    """The 99th percentile of visible cells per training record, known covariates left out; see ``Condition``.

    The percentile is a number that a record has: of up to a hundred records the largest.
    """
    return int(np.quantile(train.visible[:, _not_given(train)].sum((1, 2)), 0.99, method="higher"))


def condition_of(
    windows: Windows,
    scaler: Scale,
    fill: np.ndarray | None = None,
    base: BaseMethod | None = None,
    usual: float = 0.0,
) -> Condition:
    """The input of a model: the visible cells of ``windows``, standardised, and the queried cells.

    Args:
        fill: (N, K, L) bool; None = every cell that is not shown.
        base: as for ``Loader``.
        usual: see ``usual_cells``; 0 = not known.

    Raises:
        DataError: ``fill`` is no bool mask of the windows' shape, or times lose their order in single precision.
    """
    if fill is not None and (fill.shape != windows.values.shape or fill.dtype != bool):
        raise DataError(f"fill: expected bool of shape {windows.values.shape}, came {fill.dtype} of {fill.shape}.")
    known, cells = Known(windows, scaler), _to_fill(windows, fill)
    estimate = None
    if base is not None:
        wanted = cells if base.has_spread else ~known.visible  # where it costs time, cells to fill alone
        estimate = base.of(known.values(slice(None)), known.visible, known.times, wanted)
    return _condition(windows, single_precision(windows.times), scaler, cells, estimate, usual)


def conditions_of(
    windows: Windows,
    scaler: Scale,
    parts: Sequence[slice],
    fill: np.ndarray,
    base: BaseMethod | None = None,
    usual: float = 0.0,
) -> Iterator[Condition]:
    """Parts of ``condition_of`` the whole records; only one part is in memory at a time.

    Args:
        parts: steps, of which neither starts nor stops decrease from part to part; they may overlap.
        fill, base, usual: as for ``condition_of``.

    Yields:
        The parts, their times as they are, in float64: for windows that count theirs from 0.
    """
    estimates: Iterator[BaseEstimate | None] = itertools.repeat(None)
    if base is not None:
        known = Known(windows, scaler)
        estimates = base.of_parts(known, parts, _to_fill(windows, fill) if base.has_spread else fill)
    for part, estimate in zip(parts, estimates, strict=False):
        steps = windows.steps(part)
        cells = _to_fill(steps, fill[..., part])
        yield _condition(steps, steps.times.astype(np.float64), scaler, cells, estimate, usual)


def single_precision(times: np.ndarray) -> np.ndarray:
    """(N, L) times as float32; a DataError where they no longer increase."""
    single = times.astype(np.float32)
    if (np.diff(single, axis=1) <= 0).any():
        raise DataError(
            "times: too large for single precision to tell neighbouring steps apart, the largest is "
            f"{np.abs(times).max():g}. Count time from the start of each record, and part records at long pauses."
        )
    return single


def standardised_residuals(values: np.ndarray, base: BaseEstimate, cells: np.ndarray) -> np.ndarray:
    """(N, K, L) values less the base estimate, in units of its spread, at ``cells``; others as they are."""
    values = values - base.mean * cells
    return values if base.spread is None else values / np.where(cells, base.spread, np.float32(1))


def _condition(
    windows: Windows,
    times: np.ndarray,
    scaler: Scale,
    cells: np.ndarray,
    base: BaseEstimate | None,
    usual: float,
) -> Condition:
    return Condition(
        values=torch.from_numpy(standardised(windows.values, windows.visible, scaler)),
        cond_mask=torch.from_numpy(windows.visible),
        query_mask=torch.from_numpy(cells),
        times=torch.from_numpy(times),
        usual_cells=usual,
        base=_tensor(base and base.mean),
        spread=_tensor(base and base.spread),
    )


def _to_fill(windows: Windows, fill: np.ndarray | None) -> np.ndarray:
    return ~windows.visible if fill is None else fill & ~windows.visible


def _tensor(array: np.ndarray | None) -> torch.Tensor | None:
    return None if array is None else torch.from_numpy(array)


def _not_given(windows: Windows) -> np.ndarray:
    """(K,) bool: the features that are not given."""
    return np.array([not feature.given for feature in windows.features])

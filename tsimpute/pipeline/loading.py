"""From records at rest to training batches, the same for any number of processes and from any point on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from tsimpute.containers import Batch, Condition, Windows
from tsimpute.errors import DataError
from tsimpute.pipeline.guessing import Nearest, first_guess, last_shown
from tsimpute.pipeline.masking import MaskPolicy
from tsimpute.pipeline.scaling import Standardizer
from tsimpute.seeding import derive_seed


@dataclass(frozen=True)
class Share:
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
        ask_unobserved: share of records in which all unobserved cells are asked for too, from ``ask_from_epoch`` on.
        guess_span: where given, targets are the differences to a first guess that fades over this time.

    Raises:
        DataError: no record has a shown cell, or times lose their order in single precision.
    """

    def __init__(
        self,
        windows: Windows,
        scaler: Standardizer,
        policy: MaskPolicy,
        batch_size: int,
        seed: int = 0,
        ask_unobserved: float = 0.0,
        ask_from_epoch: int = 1,
        guess_span: float | None = None,
    ) -> None:
        self.shown = windows.shown
        self.values = _standardised(windows.values, self.shown, scaler)
        self.times = single_precision(windows.times)
        self.record_ids, self.features = windows.record_ids, windows.features
        self.own = _own(windows)
        self.usable = np.flatnonzero(self.shown[:, self.own].any((1, 2)))
        self.policy, self.batch_size, self.seed = policy, batch_size, seed
        self.ask_unobserved, self.ask_from_epoch = ask_unobserved, ask_from_epoch
        self.guess_span, self.usual_cells = guess_span, usual_cells(windows) if ask_unobserved else math.inf
        if not len(self.usable):
            raise DataError(
                f"records to learn from: expected at least one with a shown cell; none of {len(windows)} has."
            )

    @property
    def n_batches(self) -> int:
        """Global batches in an epoch."""
        return -(-len(self.usable) // self.batch_size)

    def epoch(self, epoch: int, first_batch: int = 0, rank: int = 0, n_ranks: int = 1) -> Iterator[Share]:
        """The shuffled batches of an epoch from ``first_batch`` on, and of each the records of one process."""
        order = np.random.default_rng(derive_seed(self.seed, "order", epoch)).permutation(self.usable)
        return self._shares(order, epoch, first_batch, rank, n_ranks)

    def fixed(self) -> Iterator[Share]:
        """Every record once, in order, with the same masks, times and noise each time: for validation."""
        return self._shares(self.usable, -1, 0, 0, 1)

    def _shares(self, order: np.ndarray, epoch: int, first: int, rank: int, n_ranks: int) -> Iterator[Share]:
        for b in range(first, self.n_batches):
            chosen = order[b * self.batch_size : (b + 1) * self.batch_size]
            own = chosen[rank::n_ranks]
            yield Share(self._batch(own if len(own) else chosen[:1], epoch), len(chosen), float(len(own) > 0))

    def _batch(self, index: np.ndarray, epoch: int) -> Batch:
        seeds = tuple(derive_seed(self.seed, epoch, self.record_ids[i]) for i in index)
        rngs = [np.random.default_rng(s) for s in seeds]
        masks = np.stack([self._mask(self.shown[i], rng) for i, rng in zip(index, rngs, strict=True)])
        asks = self.ask_unobserved > 0 and epoch >= self.ask_from_epoch
        asked = None
        if asks:
            asked = np.stack([self._asked(self.shown[i], rng) for i, rng in zip(index, rngs, strict=True)])
        values, guess, given_all = self.values[index], None, None
        if self.guess_span is not None:
            guess = self._guess(index, masks)
            values = values - guess * self.shown[index]
            given_all = self._guess(index, self.shown[index]) if asks else None
        return Batch(
            values=torch.from_numpy(values),
            observed=torch.from_numpy(self.shown[index]),
            cond_mask=torch.from_numpy(masks),
            times=torch.from_numpy(self.times[index]),
            record_ids=tuple(self.record_ids[i] for i in index),
            seeds=seeds,
            asked=None if asked is None else torch.from_numpy(asked),
            guess=None if guess is None else torch.from_numpy(guess),
            guess_given_all=None if given_all is None else torch.from_numpy(given_all),
            usual_cells=self.usual_cells if asks else math.inf,
        )

    def _guess(self, index: np.ndarray, shown: np.ndarray) -> np.ndarray:
        assert self.guess_span is not None
        return first_guess(self.values[index], shown, self.times[index], self.guess_span).astype(np.float32)

    def _mask(self, shown: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        mask = shown.copy()
        mask[self.own] = self.policy(shown[self.own], rng)
        return mask

    def _asked(self, shown: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return ~shown & self.own[:, None] & (rng.random() < self.ask_unobserved)


def usual_cells(train: Windows) -> int:
    """As many shown cells of features that are not given as all but one in a hundred training records have at most.

    Of up to a hundred records it is the most that one has.
    """
    return int(np.quantile(train.shown[:, _own(train)].sum((1, 2)), 0.99, method="higher"))


def condition_of(
    windows: Windows,
    scaler: Standardizer,
    fill: np.ndarray | None = None,
    guess_span: float | None = None,
    usual: float = 0.0,
) -> Condition:
    """What a model may see of ``windows``: the shown cells, standardised, and which cells to fill.

    Args:
        fill: (N, K, L) bool; None = every cell that is not shown.
        guess_span: as for ``Loader``.
        usual: see ``usual_cells``; 0 = not known.

    Raises:
        DataError: ``fill`` is no bool mask of the windows' shape, or times lose their order in single precision.
    """
    if fill is not None and (fill.shape != windows.values.shape or fill.dtype != bool):
        raise DataError(f"fill: expected bool of shape {windows.values.shape}, came {fill.dtype} of {fill.shape}.")
    return _condition(windows, single_precision(windows.times), scaler, fill, guess_span, usual)


def conditions_of(
    windows: Windows,
    scaler: Standardizer,
    parts: Sequence[slice],
    fill: np.ndarray,
    guess_span: float | None = None,
    usual: float = 0.0,
) -> Iterator[Condition]:
    """What ``condition_of`` the whole holds of some of its parts; only one part is in memory at a time.

    Args:
        parts: steps, of which neither starts nor stops decrease from part to part; they may overlap.
        fill, guess_span, usual: as for ``condition_of``.

    Yields:
        The parts, their times as they are, in float64: for windows that count theirs from 0.
    """
    shown, length = windows.shown, windows.n_steps
    if guess_span is not None:
        before = last_shown(shown, [part.start for part in parts])
        mirrored = last_shown(shown[..., ::-1], [length - part.stop for part in reversed(parts)])
        after = [length - 1 - steps for steps in reversed(mirrored)]
    for n, part in enumerate(parts):
        outside = ()
        if guess_span is not None:
            outside = _nearest(windows, before[n], -np.inf, scaler), _nearest(windows, after[n], np.inf, scaler)
        steps = windows.steps(part)
        yield _condition(steps, steps.times.astype(np.float64), scaler, fill[..., part], guess_span, usual, *outside)


def single_precision(times: np.ndarray) -> np.ndarray:
    """(N, L) times as float32.

    Raises:
        DataError: they no longer increase.
    """
    found = times.astype(np.float32)
    if (np.diff(found, axis=1) <= 0).any():
        raise DataError(
            "times: too large for single precision to tell neighbouring steps apart, the largest is "
            f"{np.abs(times).max():g}. Count time from the start of each record, and part records at long pauses."
        )
    return found


def _condition(
    windows: Windows,
    times: np.ndarray,
    scaler: Standardizer,
    fill: np.ndarray | None,
    guess_span: float | None,
    usual: float,
    before: Nearest | None = None,
    after: Nearest | None = None,
) -> Condition:
    shown = windows.shown
    values, guess = _standardised(windows.values, shown, scaler), None
    if guess_span is not None:
        found = first_guess(values, shown, windows.times, guess_span, before, after)
        guess = torch.from_numpy(found.astype(np.float32))
    cells = ~shown if fill is None else fill & ~shown
    return Condition(
        values=torch.from_numpy(values),
        cond_mask=torch.from_numpy(shown),
        fill_mask=torch.from_numpy(cells),
        times=torch.from_numpy(times),
        usual_cells=usual,
        guess=guess,
    )


def _own(windows: Windows) -> np.ndarray:
    """(K,) bool: the features that are not given."""
    return np.array([not feature.given for feature in windows.features])


def _nearest(windows: Windows, steps: np.ndarray, none: float, scaler: Standardizer) -> Nearest:
    """What is at those steps, (N, K), of the features; ``none`` is the time of steps outside the records."""
    there = (steps >= 0) & (steps < windows.n_steps)
    at = np.where(there, steps, 0)
    values = _standardised(np.take_along_axis(windows.values, at[..., None], 2), there[..., None], scaler)[..., 0]
    return Nearest(np.where(there, np.take_along_axis(windows.times, at, 1), none), values)


def _standardised(values: np.ndarray, shown: np.ndarray, scaler: Standardizer) -> np.ndarray:
    return np.where(shown, scaler.transform(np.where(shown, values, np.nan)), 0.0).astype(np.float32)

"""Incomplete records: pieces of them, cells hidden to choose settings on, and their place on a grid of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tsimpute.core.seeding import derive_seed

PIECE = 1_000
"""Steps of the stretches that long records are cut into."""
Part = tuple[int, int]
"""A record's number, and the step at which a stretch of it begins."""


@dataclass(frozen=True, eq=False)
class Records:
    """Incomplete records.

    Attributes:
        values: (K, T) each, in the data's units, NaN where nothing is known.
        times: (T,) each, increasing.
        step: usual distance between two times.
        independent: whether steps say nothing of each other, as rows of a table that are people.
    """

    values: tuple[np.ndarray, ...]
    times: tuple[np.ndarray, ...]
    step: float
    independent: bool = False

    def without(self, parts: Sequence[Part], hidden: Sequence[np.ndarray]) -> Records:
        """The same, without the values of the cells that are hidden in some stretches."""
        values = list(self.values)
        for (n, start), cells in zip(parts, hidden, strict=True):
            if values[n] is self.values[n]:
                values[n] = values[n].copy()
            values[n][:, start : start + PIECE][cells] = np.nan
        return replace(self, values=tuple(values))

    def parts(self, parts: Sequence[Part]) -> Records:
        """Stretches of records, as records."""
        cut = [(n, slice(start, start + PIECE)) for n, start in parts]
        values, times = ([of_all[n][..., steps] for n, steps in cut] for of_all in (self.values, self.times))
        return replace(self, values=tuple(values), times=tuple(times))

    def halves(self) -> tuple[Records, Records]:
        """Every second quarter of two or more records, in their order: neighbours in time stay together."""
        quarter = np.arange(len(self.values)) * 4 // max(4, len(self.values))
        first, second = ([n for n, q in enumerate(quarter) if q % 2 == half] for half in (0, 1))
        return tuple(
            replace(self, values=tuple(self.values[n] for n in half), times=tuple(self.times[n] for n in half))
            for half in (first, second)
        )  # type: ignore[return-value]

    def sample(self, n_known: int, seed: int) -> list[Part]:
        """Stretches drawn until they have about so many known cells; all where there are no more, in order."""
        every = [
            (n, start) for n, values in enumerate(self.values) for start in range(0, max(1, values.shape[1] - 1), PIECE)
        ]
        chosen, n_left = [], n_known
        for at in np.random.default_rng(derive_seed(seed, "some")).permutation(len(every)).tolist():
            n, start = every[at]
            chosen.append(every[at])
            n_left -= int(np.isfinite(self.values[n][:, start : start + PIECE]).sum())
            if n_left <= 0:
                break
        return sorted(chosen)


def positions(times: np.ndarray, step: float) -> np.ndarray:
    """(T,) times in steps from the first one; whole numbers where they nearly are."""
    steps = (times - times[0]) / (step or 1.0)
    whole = np.rint(steps)
    return whole if (np.abs(steps - whole) < 0.05).all() and (np.diff(whole) > 0).all() else steps


def gridded(scores: np.ndarray, at: np.ndarray, n_lags: int) -> np.ndarray:
    """(K, T') values at whole steps, NaN where there is none; of several at one step the last.

    Args:
        scores: (K, T).
        at: (T,) positions in steps.
        n_lags: what is farther apart is independent, so that longer gaps are cut.
    """
    steps = np.minimum(np.diff(np.rint(at)), n_lags).astype(np.int64)
    places = np.concatenate([[0], np.cumsum(steps)])
    out = np.full((len(scores), int(places[-1]) + 1), np.nan)
    out[:, places] = scores
    return out


def hidden_cells(records: Records, seed: int) -> list[np.ndarray]:
    """Per record (K, T) bool: a tenth of the known cells, half of them one by one and half as other gaps lie."""
    rng = np.random.default_rng(derive_seed(seed, "hidden"))
    out = []
    for values in records.values:
        known = ~np.isnan(values)
        single = known & (rng.random(values.shape) < 0.05)
        n_steps = values.shape[1]
        moved = known & np.roll(~known, int(rng.integers(n_steps)), axis=1)
        share = 0.05 * known.sum() / max(moved.sum(), 1)
        if share < 1:  # whole steps, so that runs stay runs
            moved &= (rng.random(-(-n_steps // 12)) < share).repeat(12)[:n_steps]
        runs = np.zeros_like(known)
        if share > 2 and n_steps >= 24:
            for k in np.flatnonzero(rng.random(len(values)) < 0.5):
                length = int(rng.integers(3, max(4, n_steps // 8)))
                start = int(rng.integers(0, n_steps - length))
                runs[k, start : start + length] = known[k, start : start + length]
        hidden = single | moved | runs
        hidden &= ~(hidden.sum(1) * 2 > known.sum(1))[:, None]  # a feature keeps half of its values
        out.append(hidden)
    return out

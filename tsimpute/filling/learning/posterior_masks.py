"""Masks of a table that look like its gaps, and a process's posterior at the cells that they hide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from tsimpute.batches.base_estimates import BaseEstimate
from tsimpute.batches.masking import LikeGaps
from tsimpute.core.panel import Panel
from tsimpute.core.seeding import derive_seed
from tsimpute.filling.panels.windows import clock_times
from tsimpute.gaussian.conditioning import window_length
from tsimpute.gaussian.maps import Records
from tsimpute.gaussian.model import Regularisation, fit
from tsimpute.gaussian.process import GaussianBase, GaussianModel, Scores
from tsimpute.imputers.gaussian import GaussianImputer

PIECE, FEWEST_PIECES = 256, 8
"""Steps of the stretches of series that are masked and estimated together, and how many there are at least, about."""
MOST_CELLS, _TOGETHER = 4_000_000, 4
"""Cells of all masks together, at most; so many masks of one fold are made together."""


class PosteriorMasks:
    """Masks of whole series, and the posterior of a process at the cells that they hide; windows are parts of them.

    The posterior of a single window would neglect what precedes and follows it, and would be computed again for each
    of several overlapping windows. A process is more certain of cells that it was fitted to: the posterior of a stretch
    comes from a process that was fitted to other stretches.

    Args:
        panel: all that may be learned from.
        base: the process that the network starts from, fitted to all of it.
        seed: of the masks.
        n_folds: number of processes, each fitted without its share of the stretches; 1 = only ``base``.
        n_masks: of each series, at most.
        should_stop: called while the processes are fitted.
        settings: of the processes; None = they are chosen for each.

    Attributes:
        size: masks of each series.
        places: series and first step of each window that a mask hides cells of, once ``take`` was called.
    """

    def __init__(
        self, panel: Panel, base: GaussianImputer, seed: int, n_folds: int = 1, n_masks: int = 8,
        should_stop: Callable[[], bool] = lambda: False, settings: Regularisation | None = None,
    ) -> None:  # fmt: skip
        self.panel, self.base, self.seed, self.should_stop = panel, base, seed, should_stop
        self._settings = settings
        self.scores = Scores(base.scaler_, base.model_)
        n_cells = sum(series.values.size for series in panel.series)
        self.size = int(np.clip(MOST_CELLS // max(1, n_cells), 1, n_masks))
        shapes = [(self.size, *series.values.shape) for series in panel.series]
        self._hidden = [np.zeros(shape, bool) for shape in shapes]
        self._mean = [np.zeros(shape, np.float32) for shape in shapes]
        self._spread = [np.zeros(shape, np.float32) for shape in shapes]
        self._like = LikeGaps.of([series.observed for series in panel.series])
        self._stretches = _stretches([len(series.times) for series in panel.series])
        self.n_folds = min(n_folds, len(self._stretches))
        self._bases: dict[int, GaussianBase] = {}
        self.places: list[tuple[int, int]] = []

    @cached_property
    def pieces(self) -> list[tuple[int, int]]:
        """Number of a mask and of a stretch; several masks of one fold come first: few of them need few processes.

        No more than have about ``MOST_CELLS`` cells.
        """
        rng = np.random.default_rng(derive_seed(self.seed, "order of stretches"))
        order = rng.permutation(len(self._stretches)).tolist()
        by_fold = [[n for n in order if n % self.n_folds == fold] for fold in range(self.n_folds)]
        pieces = [
            (number, n) for first in range(0, self.size, _TOGETHER) for of_fold in by_fold
            for number in range(first, min(self.size, first + _TOGETHER)) for n in of_fold
        ]  # fmt: skip
        steps = np.cumsum([steps.stop - steps.start for _, steps in (self._stretches[n] for _, n in pieces)])
        return pieces[: int(np.searchsorted(steps * len(self.panel.features), MOST_CELLS)) + 1]

    def make(self, number: int, n: int) -> None:
        """Hides cells of one of ``pieces`` and computes their posterior; cells that other pieces hide are visible."""
        s, inner = self._stretches[n]
        self._hide(number, n)
        alone = np.zeros_like(self._hidden[s][number])
        alone[:, inner] = self._hidden[s][number][:, inner]
        self._store_posterior(number, n, alone, alone)

    def make_all(self, number: int) -> None:
        """Hides cells of all stretches and computes the posterior of these and of all gaps; none of them is visible."""
        for n in range(len(self._stretches)):
            self._hide(number, n)
        for n, (s, _) in enumerate(self._stretches):
            if not self.should_stop():
                hidden = self._hidden[s][number]
                self._store_posterior(number, n, hidden, hidden | ~self.panel.series[s].observed)

    def _hide(self, number: int, n: int) -> None:
        s, inner = self._stretches[n]
        series = self.panel.series[s]
        rng = np.random.default_rng(derive_seed(self.seed, "mask", series.name, number, inner.start))
        observed = series.observed[:, inner]
        self._hidden[s][number][:, inner] = observed & ~self._like(observed, rng)

    def _store_posterior(self, number: int, n: int, hidden: np.ndarray, wanted: np.ndarray) -> None:
        """Stores the posterior of ``wanted`` cells (K, T) of a stretch of a series; ``hidden`` ones are hidden."""
        s, inner = self._stretches[n]
        series = self.panel.series[s]
        margin = window_length(len(series.values), len(self.base.model_.covariance))
        around = slice(max(0, inner.start - margin), min(len(series.times), inner.stop + margin))
        cells = np.zeros((len(hidden), around.stop - around.start), bool)
        cells[:, inner.start - around.start : inner.stop - around.start] = wanted[:, inner]
        scores = self.scores.transform(series.values[:, around])
        shown, times = ~np.isnan(scores) & ~hidden[:, around], clock_times(series, self.panel.clock)[around]
        fold = n % self.n_folds
        if fold not in self._bases:
            apart = None if self.n_folds == 1 else self._apart(fold)
            self._bases[fold] = GaussianBase(self.base.model_, apart)
        base = self._bases[fold].of(np.where(shown, scores, 0.0)[None], shown[None], times[None], cells[None])
        for store, values in ((self._mean, base.mean), (self._spread, base.spread)):
            if values is not None:
                store[s][number][:, inner][wanted[:, inner]] = values[0][cells]

    def posterior(self, s: int, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(K, T) bool: the cells of a series that a mask hides, and means and spreads of their posterior, as scores."""
        return self._hidden[s][number], self._mean[s][number], self._spread[s][number]

    def take(self, places: Sequence[tuple[int, int]], length: int) -> None:
        """Makes windows of ``length`` steps at these places the records, if any mask hides a cell of them."""
        usable = {
            (s, start): np.flatnonzero(self._hidden[s][:, :, start : start + length].any((1, 2))).tolist()
            for s, start in places
        }
        self.places, self._length = [place for place in places if usable[place]], length
        self._usable = [usable[place] for place in self.places]

    def draw(self, record: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        s, start = self.places[record]
        number = int(rng.choice(self._usable[record]))
        return self._part(self.panel.series[s].observed & ~self._hidden[s][number], start, False), number

    def estimates(
        self, index: np.ndarray, shown: np.ndarray, numbers: Sequence[int], wanted: np.ndarray, everywhere: bool
    ) -> BaseEstimate:
        at = [(*self.places[record], number) for record, number in zip(index.tolist(), numbers, strict=True)]
        mean = np.stack([self._part(self._mean[s][number], start, 0.0) for s, start, number in at])
        spread = np.stack([self._part(self._spread[s][number], start, 0.0) for s, start, number in at])
        return BaseEstimate(np.where(wanted, mean, np.float32(0)), np.where(wanted, spread, np.float32(1)))

    def _part(self, values: np.ndarray, start: int, blank: float) -> np.ndarray:
        part = values[:, start : start + self._length]
        return np.pad(part, ((0, 0), (0, self._length - part.shape[1])), constant_values=blank)

    def _apart(self, fold: int) -> GaussianModel | None:
        """A process fitted to the other folds, to scores without seasons; None where these have no value."""
        model = self.base.model_
        parts: dict[int, list[slice]] = {}
        for n, (s, steps) in enumerate(self._stretches):
            if n % self.n_folds != fold:
                parts.setdefault(s, []).append(steps)
        values, times = [], []
        for s, of_series in parts.items():
            clock = clock_times(self.panel.series[s], self.panel.clock)
            rest = self.scores.transform(self.panel.series[s].values)
            rest = rest - model.seasons.at(clock) / model.scale[:, None]
            for steps in _joined(of_series):
                values.append(rest[:, steps])
                times.append(clock[steps])
        if not any(np.isfinite(rows).any() for rows in values):
            return None
        records = Records(tuple(values), tuple(times), model.step, self.panel.independent_rows)
        return fit(records, settings=self._settings, seed=self.seed, should_stop=self.should_stop)


def _stretches(lengths: Sequence[int]) -> list[tuple[int, slice]]:
    """Series and steps, side by side; all stretches of a series are about as long."""
    length = int(np.clip(sum(lengths) // FEWEST_PIECES, 1, PIECE))
    stretches = []
    for s, n_steps in enumerate(lengths):
        n = max(1, round(n_steps / length))
        stretches += [(s, slice(a, b)) for a, b in pairwise([n_steps * i // n for i in range(n + 1)])]
    return stretches


def _joined(steps: Sequence[slice]) -> list[slice]:
    """Adjacent slices are joined."""
    joined: list[slice] = []
    for part in steps:
        if joined and joined[-1].stop == part.start:
            joined[-1] = slice(joined[-1].start, part.stop)
        else:
            joined.append(part)
    return joined

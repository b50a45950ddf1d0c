"""A Gaussian process's posterior as base estimate of another model, on the scale on which the process is Gaussian."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tsimpute.batches.base_estimates import BaseEstimate, Known
from tsimpute.gaussian.conditioning import marginals, window_length
from tsimpute.gaussian.process import FARTHEST, GaussianModel
from tsimpute.gaussian.records import positions
from tsimpute.scaling.standardizer import Scale

LEAST_SPREAD = 0.01
"""In standard deviations of a feature's scores: what is less counts as that much."""
CHUNK = 960
"""Steps of long records that are estimated together."""


@dataclass(frozen=True, eq=False)
class Scores:
    """Values as the process's scores: where it is right, their posterior is normal.

    Attributes:
        scaler: to the values that the process was fitted on.
        model: the process; its seasons stay in the scores.
    """

    scaler: Scale
    model: GaussianModel

    def transform(self, values: np.ndarray) -> np.ndarray:
        values, model = self.scaler.transform(values), self.model
        mapped = np.stack([mapping.forward(values[..., k, :]) for k, mapping in enumerate(model.maps)], -2)
        return (mapped - model.centre[:, None]) / model.scale[:, None]

    def inverse(self, values: np.ndarray) -> np.ndarray:
        model = self.model
        mapped = values.astype(np.float64) * model.scale[:, None] + model.centre[:, None]
        return self.scaler.inverse(np.stack([m.inverse(mapped[..., k, :]) for k, m in enumerate(model.maps)], -2))


@dataclass(frozen=True, eq=False)
class GaussianBase:
    """Posterior mean and spread of scores, see ``Scores``, given the shown cells; see ``BaseMethod``.

    Attributes:
        model: the process.
        apart: a process of its scores, fitted to other records than those to estimate; None = ``model`` alone.
    """

    model: GaussianModel
    apart: GaussianModel | None = None
    has_spread = True

    def of(self, values: np.ndarray, shown: np.ndarray, times: np.ndarray, wanted: np.ndarray) -> BaseEstimate:
        in_memory = lambda steps: values[..., steps]
        return _joined([self._of_chunk(in_memory, shown, times, c, wanted) for c in _chunks(shown.shape[2])])

    def of_parts(self, known: Known, parts: Sequence[slice], wanted: np.ndarray) -> Iterator[BaseEstimate]:
        # By chunks of the whole, so that parts that overlap agree.
        cache: dict[int, BaseEstimate] = {}
        for part in parts:
            chunks = [c for c in _chunks(known.visible.shape[2]) if c.start < part.stop and part.start < c.stop]
            source = known.values, known.visible, known.times
            cache = {c.start: cache.get(c.start) or self._of_chunk(*source, c, wanted) for c in chunks}
            first = chunks[0].start
            yield _joined(list(cache.values())).steps(slice(part.start - first, part.stop - first))

    def _of_chunk(
        self, values_at: Callable[[slice], np.ndarray], visible: np.ndarray, times: np.ndarray, chunk: slice,
        wanted: np.ndarray,
    ) -> BaseEstimate:  # fmt: skip
        margin = window_length(len(self.model.maps))
        around = slice(max(0, chunk.start - margin), chunk.stop + margin)
        inner = slice(chunk.start - around.start, chunk.stop - around.start)
        queries = wanted[..., chunk]
        mean, spread = np.zeros(queries.shape, np.float32), np.ones(queries.shape, np.float32)
        values = np.where(visible[..., around], values_at(around), np.nan).astype(np.float64)
        for n in np.flatnonzero(queries.any((1, 2))):
            cells = np.zeros(values[n].shape, bool)
            cells[:, inner] = queries[n]
            moments = self._posterior(values[n], times[n, around].astype(np.float64), cells)
            mean[n][queries[n]], spread[n][queries[n]] = (moment[cells] for moment in moments)
        return BaseEstimate(mean, np.maximum(spread, np.float32(LEAST_SPREAD)))

    def _posterior(self, scores: np.ndarray, times: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(K, T) means and standard deviations at ``cells`` of (K, T) scores, NaN where nothing is known."""
        season, at = self.model.seasons.at(times) / self.model.scale[:, None], positions(times, self.model.step)
        rest = np.clip(scores - season, -FARTHEST, FARTHEST)
        if self.apart is None:
            mean, spread = marginals(self.model.prior, rest, at, cells)
        else:
            mean, spread = marginals(self.apart.prior, self.apart.scores(rest, times), at, cells)
            mean, above = (self.apart.values(x, times) for x in (mean, mean + spread))
            spread = above - mean
        return mean + season, spread


def _joined(chunks: Sequence[BaseEstimate]) -> BaseEstimate:
    if len(chunks) == 1:
        return chunks[0]
    return BaseEstimate(*(np.concatenate([getattr(c, name) for c in chunks], -1) for name in ("mean", "spread")))


def _chunks(n_steps: int) -> list[slice]:
    """Steps side by side; the last of them are not short, but more."""
    starts = [*range(0, max(1, n_steps - CHUNK + 1), CHUNK)]
    return [slice(a, b) for a, b in zip(starts, [*starts[1:], n_steps], strict=True)]

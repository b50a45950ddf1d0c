"""What the posterior mean of a process leaves, as a smooth curve of what it knows: kernel ridge regression.

A process tells one feature from others by a line. Where the truth bends away from it, the error of the posterior mean,
in units of the posterior standard deviation, is a function of the posterior means at the same step and of the time of
day. Curves are fitted at observed cells under the records' gaps, moved in time, so that what is known around them
is what is known around real gaps. A feature has a curve only where that predicts errors in stretches of time that it
was not fitted to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Self

import numpy as np
import scipy.linalg

from tsimpute.core.seeding import derive_seed
from tsimpute.gaussian.maps import PIECE, Records
from tsimpute.gaussian.process import GaussianModel
from tsimpute.system.blas import one_blas_thread

MOST_KNOWN, MOST_FEATURES, MOST_INPUTS = 30_000, 24, 12
"""Known cells that gaps are moved over at a time; features that have a curve; others among its inputs."""
_CELLS, _FEWEST, _MOST_CELLS, _ROUNDS = 1_500, 100, 2_500, (3, 6)
"""Of a feature: cells that are wanted, at least needed, and at most used; gaps are moved so many times."""
_NODES, _FOLDS, _BLOCKS, _FEWEST_STEPS = 100, 5, 30, 12
"""Of a fit: middles of bells, folds, stretches of a record that stay together, and their least length."""
_AT_ONCE = 4_096
"""Steps at which a curve is evaluated at once: memory does not grow with a record by more than its inputs."""
_MANY = 10
"""So many records, and each is one stretch."""
_WIDTHS, _PENALTIES = (1.0, 2.0, 4.0, 8.0), (0.1, 1.0, 10.0, 100.0)
_JITTER, _FARTHEST, _LEAST_SPREAD = 1e-6, 5.0, 0.2
_CAUTION, _LEAST_GAIN = 2.5, 0.01
"""A curve has to lower the mean error by so many standard errors over stretches of time, and by such a share."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of a curve.

    Attributes:
        features: of whose posterior means, that of the curve first.
        slopes: whether also at the steps before and after, as differences.
        period: of the phase of time; 0 = none.
    """

    features: tuple[int, ...]
    slopes: bool = False
    period: float = 0.0

    def of(self, mean: np.ndarray, times: np.ndarray) -> np.ndarray:
        """(T, D) for (K, T) posterior means."""
        rows = mean[list(self.features)]
        parts = [rows]
        if self.slopes:
            padded = np.pad(rows, ((0, 0), (1, 1)), mode="edge")
            parts += [padded[:, 2:] - rows, rows - padded[:, :-2]]
        if self.period:
            phase = 2 * np.pi * times / self.period
            parts += [np.sin(phase)[None], np.cos(phase)[None]]
        return np.concatenate(parts).T


@dataclass(frozen=True, eq=False)
class Curve:
    """A sum of Gaussian bells.

    Attributes:
        inputs: see there.
        centre, scale: (D,) of the inputs.
        nodes: (M, D) middles of the bells, in units of their width.
        heights: (M,).
        spread: factor on the posterior standard deviation that is left.
    """

    inputs: Inputs
    centre: np.ndarray
    scale: np.ndarray
    nodes: np.ndarray
    heights: np.ndarray
    spread: float

    def at(self, mean: np.ndarray, times: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """(M,) expected errors in posterior standard deviations at some of the steps of (K, T) posterior means."""
        rows = (self.inputs.of(mean, times)[steps] - self.centre) / self.scale
        pieces = [_bells(rows[n : n + _AT_ONCE], self.nodes) @ self.heights for n in range(0, len(rows), _AT_ONCE)]
        return np.clip(np.concatenate(pieces), -_FARTHEST, _FARTHEST)


@dataclass(frozen=True, eq=False)
class Curves:
    """Of each feature that has one."""

    curves: tuple[Curve, ...]

    @property
    def features(self) -> frozenset[int]:
        """Those that have a curve, by their index."""
        return frozenset(curve.inputs.features[0] for curve in self.curves)

    def moves(self, mean: np.ndarray, spread: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How far the draws of a record are moved, (K, T) in scores, and the factor (K, T) on their deviations.

        Args:
            mean, spread: (K, T), see ``GaussianModel.marginals``; the spread of known cells is 0.
            times: (T,).
        """
        move, factor = np.zeros(mean.shape), np.ones(mean.shape)
        for curve in self.curves:
            k = curve.inputs.features[0]
            gaps = np.flatnonzero(spread[k] > 0)
            if len(gaps):
                move[k, gaps] = curve.at(mean, times, gaps) * spread[k, gaps]
                factor[k, gaps] = curve.spread
        return move, factor

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All of them, for any file."""
        arrays = {}
        for n, curve in enumerate(self.curves):
            inputs = curve.inputs
            numbers = {"features": inputs.features, "numbers": (inputs.slopes, inputs.period, curve.spread)}
            arrays |= {f"curve_{n}_{name}": np.array(values) for name, values in numbers.items()}
            arrays |= {f"curve_{n}_{name}": getattr(curve, name) for name in ("centre", "scale", "nodes", "heights")}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self | None:
        """What ``to_arrays`` gave, to the bit; None where there are no curves among the arrays."""
        curves = []
        while f"curve_{len(curves)}_features" in arrays:
            array = lambda name: arrays[f"curve_{len(curves)}_{name}"]
            slopes, period, spread = array("numbers").tolist()
            inputs = Inputs(tuple(array("features").tolist()), bool(slopes), period)
            curves.append(Curve(inputs, array("centre"), array("scale"), array("nodes"), array("heights"), spread))
        return cls(tuple(curves)) if curves else None


@dataclass(frozen=True, eq=False)
class _Part:
    """A stretch of a record with some of its known cells hidden.

    Attributes:
        hidden: (K, T) bool. times, block: (T,).
        mean: (K, T) posterior means given what is left, error: (K, T) truth less them in standard deviations.
    """

    hidden: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    times: np.ndarray
    block: np.ndarray


@one_blas_thread()
def fit_curves(
    model: GaussianModel,
    records: Records,
    seed: int,
    periods: Sequence[float] | None = None,
    only: Collection[int] | None = None,
) -> Curves | None:
    """Curves of the features in which records have gaps; None where none of them helps.

    Args:
        model: fitted to these records.
        seed: of how gaps are moved and of the cells that are used.
        periods: of which the first one's phase is an input; None = those of the model's seasons.
        only: features that may have a curve, by their index; None = all.
    """
    missing = np.sum([np.isnan(values).sum(1) for values in records.values], 0)
    order = np.argsort(-missing, kind="stable")[:MOST_FEATURES]
    features = [k for k in np.sort(order).tolist() if missing[k] and (only is None or k in only)]
    if not features:
        return None
    rounds = int(np.clip(np.ceil(_CELLS / np.median(missing[features])), *_ROUNDS))
    parts = [part for n in range(rounds) for part in _moved(model, records, n, rounds, seed)]
    period = (model.seasons.periods if periods is None else tuple(periods))[:1]
    best = [_best(model, parts, k, seed, period) for k in features]
    curves = tuple(curve for curve in best if curve is not None)
    return Curves(curves) if curves else None


def _moved(model: GaussianModel, records: Records, n: int, rounds: int, seed: int) -> Iterator[_Part]:
    """Stretches of the records, whose gaps are moved along them, all features together."""
    rng = np.random.default_rng(derive_seed(seed, "curves", str(n)))
    shift = (n + rng.uniform(0.75, 1.25)) / (rounds + 0.5)
    for record, start in records.sample(MOST_KNOWN, derive_seed(seed, "curves", str(n))):
        whole, steps = records.values[record], slice(start, start + PIECE)
        gaps = np.roll(np.isnan(whole), round(shift * whole.shape[1]), axis=1)[:, steps]
        values, times = whole[:, steps], records.times[record][steps]
        hidden = gaps & ~np.isnan(values)
        if hidden.any():
            mean, spread = model.marginals(np.where(hidden, np.nan, values), times)
            error = np.zeros(mean.shape)
            error[hidden] = (model.scores(values, times) - mean)[hidden] / np.maximum(spread[hidden], 1e-9)
            many = len(records.values) >= _MANY
            length = whole.shape[1] if many else max(_FEWEST_STEPS, whole.shape[1] // _BLOCKS)
            block = 2 * _BLOCKS * record + (start + np.arange(len(times))) // length
            yield _Part(hidden, mean, np.clip(error, -_FARTHEST, _FARTHEST), times, block)


def _best(model: GaussianModel, parts: Sequence[_Part], k: int, seed: int, period: tuple[float, ...]) -> Curve | None:
    """The curve of one feature that predicts best what it was not fitted to; None where that is no gain."""
    cells = [part.hidden[k] for part in parts]
    error = np.concatenate([part.error[k, chosen] for part, chosen in zip(parts, cells, strict=True)])
    if len(error) < _FEWEST or not error.any():
        return None
    some = np.sort(np.random.default_rng(derive_seed(seed, "cells", str(k))).permutation(len(error))[:_MOST_CELLS])
    block = np.concatenate([part.block[chosen] for part, chosen in zip(parts, cells, strict=True)])[some]
    others = np.argsort(-np.abs(model.covariance[0, k]), kind="stable")
    inputs = Inputs((k, *(j for j in others.tolist() if j != k))[: 1 + MOST_INPUTS])

    def tried(inputs: Inputs, widths: Sequence[float]) -> _Fit:
        rows = [inputs.of(part.mean, part.times)[chosen] for part, chosen in zip(parts, cells, strict=True)]
        return _fit(np.concatenate(rows)[some], error[some], block, widths, derive_seed(seed, "nodes", str(k)))

    best, chosen = tried(inputs, _WIDTHS), inputs
    slopes_too = (False, True) if len(model.covariance) > 1 else (False,)
    for slopes, phase in list(product(slopes_too, (0.0, *period)))[1:]:
        other = replace(inputs, slopes=slopes, period=phase)
        fit = tried(other, (best.width, 2 * best.width))
        if fit.loss < best.loss:
            best, chosen = fit, other
    gain = best.before - best.after
    doubt = np.sqrt((gain**2).sum())
    if gain.sum() < max(_CAUTION * doubt, _LEAST_GAIN * best.before.sum()):
        return None
    spread = max(_LEAST_SPREAD, best.loss / float(best.before.sum()))
    return Curve(chosen, best.centre, best.scale, best.nodes, best.heights, min(1.0, spread))


@dataclass(frozen=True, eq=False)
class _Fit:
    """A fit and its errors in stretches of time that it was not fitted to.

    Attributes:
        before, after: (B,) sums of absolute errors in each stretch, without and with the curve.
    """

    width: float
    centre: np.ndarray
    scale: np.ndarray
    nodes: np.ndarray
    heights: np.ndarray
    before: np.ndarray
    after: np.ndarray

    @property
    def loss(self) -> float:
        return float(self.after.sum())


def _fit(rows: np.ndarray, error: np.ndarray, block: np.ndarray, widths: Sequence[float], seed: int) -> _Fit:
    """Kernel ridge regression on some of the rows as nodes, with the width and penalty that predict best.

    See Williams and Seeger (2001) for the nodes.
    """
    centre = rows.mean(0)
    scale = np.where(rows.std(0) > 1e-9, rows.std(0), 1.0)
    rows = (rows - centre) / scale
    at = np.sort(np.random.default_rng(seed).permutation(len(rows))[:_NODES])
    _, block = np.unique(block, return_inverse=True)
    folds = [np.flatnonzero(block % _FOLDS == n) for n in range(_FOLDS)]
    before, best = np.bincount(block, np.abs(error)), None
    for width in widths:
        bells = _bells(rows / width, rows[at] / width)
        root = np.linalg.cholesky(bells[at] + _JITTER * np.eye(len(at)))
        whitening = scipy.linalg.solve_triangular(root, np.eye(len(at)), lower=True, check_finite=False).T
        white = [bells[cells] @ whitening for cells in folds]
        grams = np.stack([part.T @ part for part in white])
        sums = np.stack([part.T @ error[cells] for part, cells in zip(white, folds, strict=True)])
        gram, total = grams.sum(0), sums.sum(0)
        for penalty in _PENALTIES:
            guess = np.empty(len(rows))
            for n, cells in enumerate(folds):
                guess[cells] = white[n] @ _ridge(gram - grams[n], total - sums[n], penalty)
            after = np.bincount(block, np.abs(error - guess))
            if best is None or after.sum() < best[0]:
                best = float(after.sum()), width, after, whitening @ _ridge(gram, total, penalty)
    assert best is not None
    _, width, after, heights = best
    return _Fit(width, centre, scale * width, rows[at] / width, heights, before, after)


def _ridge(gram: np.ndarray, sums: np.ndarray, penalty: float) -> np.ndarray:
    factor = scipy.linalg.cho_factor(gram + penalty * np.eye(len(gram)), lower=True, check_finite=False)
    return scipy.linalg.cho_solve(factor, sums, check_finite=False)


def _bells(rows: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """(n, M) for rows (n, D) and nodes (M, D), both in units of their width."""
    squares = (rows**2).sum(1)[:, None] + (nodes**2).sum(1) - 2 * rows @ nodes.T
    return np.exp(-np.maximum(squares, 0) / 2)

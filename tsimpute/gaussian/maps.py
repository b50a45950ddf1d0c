"""Incomplete records, and what comes before a process: maps of values towards normal scores, and seasonal profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from tsimpute.core.seeding import derive_seed

PIECE = 1_000
"""Steps of the stretches that long records are cut into."""
Part = tuple[int, int]
"""A record's number, and the step at which a stretch of it begins."""
N_KNOTS = 200
_EDGE, _END = 0.5, 0.5
"""Beyond the known values the slope is that of the last so many scores, and at least such a share of the mean slope."""
_INSIDE, _VOID, _LEAST_RISE = (0.05, 0.95), 0.5, 0.5
"""Between these shares of the values, over a range of so many standard deviations without a value, scores rise by at
least such a part of what standardised values rise by."""
_SLIP = 40.0
"""Such a multiple of the other values' usual distance from the median is a slip of the pen."""
N_HARMONICS = 4
MOST_PERIODS = 4
"""A season is looked for where records span at least so many of it."""
_GAIN = 0.02
"""Share of the variance that a profile must explain on periods that it was not fitted to."""
_BEGINNINGS = (0.0, 0.25, 0.5, 0.75)
"""Of these periods, in turns."""


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


@dataclass(frozen=True, eq=False)
class MonotoneMap:
    """Piecewise linear between knots.

    Attributes:
        values: (n,) increasing, in the data's units.
        scores: (n,) increasing, standard normal where the map is a full one.
        slopes: value per score below the first knot and beyond the last one.
    """

    values: np.ndarray
    scores: np.ndarray
    slopes: tuple[float, float]

    @classmethod
    def fit(cls, known: np.ndarray, normality: float) -> MonotoneMap:
        """A map of standardised values a part of the way to their normal scores.

        Args:
            known: (M,) finite values, also none.
            normality: 0 only standardises, 1 gives normal scores, in between their weighted mean. Where values leave
                out a range, as those of two levels, scores rise with it: else a small error of a score would be a step
                from one level to the other.
        """
        known = _without_slips(known)
        distinct, counts = np.unique(known, return_counts=True)
        if len(distinct) < 2:  # a constant stays one; without any value around 0
            value, slope = (float(distinct[0]), 0.0) if len(distinct) else (0.0, 1.0)
            return cls(np.array([value - slope, value + slope]), np.array([-1.0, 1.0]), (slope, slope))
        mean, span = float(known.mean()), float(np.ptp(known))
        scale = span * float(((known - mean) / span).std())  # squares of tiny values would be 0
        first = np.cumsum(counts) - counts
        if normality == 0 or len(distinct) < 3:
            return cls(np.array([mean - scale, mean + scale]), np.array([-1.0, 1.0]), (scale, scale))
        share = (first + counts / 2) / len(known)  # of several equal values the middle rank
        normal = ndtri(share)
        if len(distinct) > N_KNOTS:  # evenly spaced by score: tails need knots as close as the middle
            at = np.searchsorted(normal, np.linspace(normal[0], normal[-1], N_KNOTS))
            at = np.unique(np.append(at, len(distinct) - 1))
            distinct, normal, share = distinct[at], normal[at], share[at]
        standard = (distinct - mean) / scale
        scores = (1 - normality) * standard + normality * normal
        steps = np.diff(standard)
        is_void = (share[1:] > _INSIDE[0]) & (share[:-1] < _INSIDE[1]) & (steps > _VOID)
        missing = np.where(is_void, np.maximum(_LEAST_RISE * steps - np.diff(scores), 0.0), 0.0)
        scores[1:] += np.cumsum(missing)
        mean_slope = float((distinct[-1] - distinct[0]) / (scores[-1] - scores[0]))
        first, last = scores <= scores[0] + _END, scores >= scores[-1] - _END
        low, high = (max(_EDGE * mean_slope, _slope(distinct, scores, end)) for end in (first, last))
        return cls(distinct, scores, (low, high))

    def forward(self, values: np.ndarray) -> np.ndarray:
        """Scores of values, 0 for any value of a feature that was constant; NaN stays."""
        if self.values[0] == self.values[-1]:
            return 0.0 * (values - self.values[0])
        return _piecewise(values, self.values, self.scores, (1 / self.slopes[0], 1 / self.slopes[1]))

    def inverse(self, scores: np.ndarray) -> np.ndarray:
        """Values of scores; NaN stays."""
        return _piecewise(scores, self.scores, self.values, self.slopes)


def _without_slips(known: np.ndarray) -> np.ndarray:
    """Values but for at most one in 500 that lie out of all proportion: they would set the scale of all others."""
    n_extreme = -(-len(known) // 500)
    if len(known) <= 2 * n_extreme:
        return known
    distance = np.abs(known - np.median(known))
    usual = np.sort(distance)[:-n_extreme]
    top = float(usual[-1])
    scale = top * float(np.sqrt(((usual / top) ** 2).mean())) if top > 0 else 0.0
    slips = distance > _SLIP * scale
    return known[~slips] if scale > 0 and slips.any() else known


def to_arrays(maps: Sequence[MonotoneMap]) -> dict[str, np.ndarray]:
    """All of several maps in a few arrays, one after the other."""
    return {
        "map_knots": np.array([len(mapping.values) for mapping in maps], np.int64),
        "map_values": np.concatenate([mapping.values for mapping in maps]),
        "map_scores": np.concatenate([mapping.scores for mapping in maps]),
        "map_slopes": np.array([mapping.slopes for mapping in maps]),
    }


def from_arrays(arrays: Mapping[str, np.ndarray]) -> tuple[MonotoneMap, ...]:
    """The maps whose ``to_arrays`` these are."""
    ends = np.cumsum(arrays["map_knots"])[:-1]
    values, scores = (np.split(arrays[name], ends) for name in ("map_values", "map_scores"))
    return tuple(
        MonotoneMap(v, s, (low, high))
        for v, s, (low, high) in zip(values, scores, arrays["map_slopes"].tolist(), strict=True)
    )


def _slope(values: np.ndarray, scores: np.ndarray, end: np.ndarray) -> float:
    """Value per score over the knots at one end; 0 where there is one knot."""
    spans = np.ptp(values[end]), np.ptp(scores[end])
    return float(spans[0] / spans[1]) if spans[1] > 0 else 0.0


def _piecewise(x: np.ndarray, knots: np.ndarray, at_knots: np.ndarray, slopes: tuple[float, float]) -> np.ndarray:
    inside = np.interp(x, knots, at_knots)
    below, beyond = np.minimum(x - knots[0], 0), np.maximum(x - knots[-1], 0)
    return inside + slopes[0] * below + slopes[1] * beyond


@dataclass(frozen=True, eq=False)
class Seasons:
    """Sums of sines and cosines of time, by feature.

    Attributes:
        periods: in the unit of the times.
        weights: (K, periods x 2 N_HARMONICS); 0 for features without a season.
    """

    periods: tuple[float, ...]
    weights: np.ndarray

    @classmethod
    def fit(cls, records: Sequence[np.ndarray], times: Sequence[np.ndarray], periods: Sequence[float]) -> Seasons:
        """Profiles of standardised records.

        Args:
            records: (K, T) each, NaN where nothing is known.
            times: (T,) each, in one unit from one origin.
            periods: that may be there; those with less than ``MOST_PERIODS`` in the longest record are left out.
        """
        span = max(float(t[-1] - t[0]) for t in times)
        steps = np.concatenate([np.diff(t) for t in times])
        step = float(np.median(steps)) if len(steps) else np.inf
        fitting = tuple(p for p in periods if span >= MOST_PERIODS * p and step <= p / 4)
        weights = np.zeros((len(records[0]), 2 * N_HARMONICS * len(fitting)))
        if not fitting:
            return cls((), weights)
        clock = np.concatenate(list(times))
        waves = _waves(clock, fitting)
        # Odd and even stretches of the longest period: what is fitted to one half must hold on the other, wherever
        # stretches begin. Slow changes of a series without a season often pass with one beginning, and not with all.
        turns = clock / max(fitting) + np.array(_BEGINNINGS)[:, None]
        halves = np.floor(turns).astype(np.int64) % 2 == 0
        values = np.concatenate(list(records), axis=1)
        known = ~np.isnan(values)
        pairs = zip(values, known, strict=True)
        gains = np.array([min(_gain(waves[c], row[c], half[c]) for half in halves) for row, c in pairs])
        alike = _alike(values)
        for k in np.flatnonzero(alike @ gains / alike.sum(1) > _GAIN):
            weights[k] = _ridge(waves[known[k]], values[k, known[k]])
        return cls(fitting, weights)

    def at(self, times: np.ndarray) -> np.ndarray:
        """(K, T) profiles at (T,) times."""
        if not self.periods:
            return np.zeros((len(self.weights), len(times)))
        return self.weights @ _waves(times, self.periods).T


def _waves(times: np.ndarray, periods: Sequence[float]) -> np.ndarray:
    phases = [2 * np.pi * order * times / period for period in periods for order in range(1, N_HARMONICS + 1)]
    return np.stack([wave(phase) for phase in phases for wave in (np.sin, np.cos)], 1)


def _ridge(waves: np.ndarray, values: np.ndarray) -> np.ndarray:
    penalty = 0.01 * len(waves) + 5
    gram = waves.T @ waves + penalty / 2 * np.eye(waves.shape[1])
    return np.linalg.solve(gram, waves.T @ (values - values.mean()))


def _alike(values: np.ndarray) -> np.ndarray:
    """(K, K) squared correlations of (K, T) values at steps where both are known, lower where these are few."""
    known = (~np.isnan(values)).astype(np.float64)
    centred = np.nan_to_num(values - (np.nansum(values, 1) / np.maximum(known.sum(1), 1))[:, None])
    products, squares, counts = centred @ centred.T, centred**2 @ known.T, known @ known.T
    sizes = np.sqrt(squares * squares.T)
    return np.where(np.eye(len(values)) > 0, 1.0, (products / np.maximum(sizes, 1e-12)) ** 2 * counts / (counts + 30))


def _gain(waves: np.ndarray, values: np.ndarray, half: np.ndarray) -> float:
    """Share of the variance that is explained on the other half, the lower one of both."""
    if min(half.sum(), (~half).sum()) <= 2 * waves.shape[1]:
        return 0.0
    gains = []
    for fitted in (half, ~half):
        rest = values[~fitted] - values[fitted].mean()
        residual = rest - waves[~fitted] @ _ridge(waves[fitted], values[fitted])
        gains.append(1 - float((residual**2).sum() / max((rest**2).sum(), 1e-12)))
    return min(gains)

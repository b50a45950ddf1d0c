"""A feature from the steps at which the others are most alike: nearest neighbours of a process's means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from tsimpute.core.panel import Panel
from tsimpute.core.seeding import derive_seed
from tsimpute.filling.panels.windows import clock_times
from tsimpute.imputers.gaussian import GaussianImputer

_NEIGHBOURS = 12
_MOST_STEPS, _MOST_CELLS, _FEWEST_STEPS = 4_000, 200_000, 50
"""Steps in memory, drawn at random; cells of the largest table; steps of the shortest one."""
_PENALTY = 0.05
"""Of the ridge regression, as a share of each feature's variance."""
_OWN_DISTANCE = 0.1
"""Share of the mean distance that is added to each: a step that is all but the same does not decide alone."""
_AT_ONCE = 1_024


class Neighbours:
    """The weighted mean of a feature at the steps whose other features, and whose time of day, are nearest.

    The process fills what is missing of the other features. A difference in a feature counts by its coefficient in a
    ridge regression of the wanted feature on the others. At a step without any known value the mean of the process
    stays.

    Args:
        process: fills what is missing of other features.
        inputs: (D, N) of N steps: all features in the scale of the process, then the phase of time.
        known: (K, N) values of these steps, NaN where they are missing.
        weights: (K, D) of differences in the inputs, by the wanted feature.
        period: of the phase; 0 = none.
    """

    name = "nearest neighbours"
    local = False

    def __init__(
        self, process: GaussianImputer, inputs: np.ndarray, known: np.ndarray, weights: np.ndarray, period: float
    ) -> None:
        self.process, self.inputs, self.known, self.weights, self.period = process, inputs, known, weights, period

    @classmethod
    def fit(cls, panel: Panel, base: GaussianImputer, seed: int) -> Self | None:
        """See ``Component``; None for a single feature, few steps, or a table so large that it takes long."""
        n_steps = sum(len(series.times) for series in panel.series)
        if len(panel.features) < 2 or n_steps < _FEWEST_STEPS or panel.n_cells > _MOST_CELLS:
            return None
        period = min(base.model_.seasons.periods, default=0.0)
        inputs, known = [], []
        for series in panel.series:
            values, times = base.scaler_.transform(series.values), clock_times(series, panel.clock)
            inputs.append(_inputs(base, values, times, period))
            known.append(values)
        rng = np.random.default_rng(derive_seed(seed, "neighbours"))
        some = np.sort(rng.permutation(n_steps)[:_MOST_STEPS])
        x, y = np.concatenate(inputs, 1)[:, some], np.concatenate(known, 1)[:, some]
        return cls(base, x, y, np.stack([_weights(x, row, k) for k, row in enumerate(y)]), period)

    def at(self, known: np.ndarray, times: np.ndarray, cells: np.ndarray | None = None) -> np.ndarray:
        """See ``Component``."""
        inputs, wanted = _inputs(self.process, known, times, self.period), np.isnan(known) if cells is None else cells
        out, blank = inputs[: len(known)].copy(), np.isnan(known).all(0)
        for k in np.flatnonzero(wanted.any(1)).tolist():
            is_donor, weights = ~np.isnan(self.known[k]), self.weights[k][:, None]
            if not is_donor.any():
                continue
            steps = np.flatnonzero(wanted[k] & ~blank)
            donors, values = (weights * self.inputs[:, is_donor]).T, self.known[k, is_donor]
            for n in range(0, len(steps), _AT_ONCE):
                some = steps[n : n + _AT_ONCE]
                out[k, some] = _mean_of_nearest((weights * inputs[:, some]).T, donors, values)
        return out

    def parts(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """See ``Component``."""
        return {"inputs": self.inputs, "known": self.known, "weights": self.weights}, {"period": self.period}

    @classmethod
    def from_parts(
        cls, arrays: Mapping[str, np.ndarray], description: Mapping[str, Any], base: GaussianImputer
    ) -> Self:
        """See ``Component``."""
        return cls(base, arrays["inputs"], arrays["known"], arrays["weights"], float(description["period"]))


def _inputs(process: GaussianImputer, known: np.ndarray, times: np.ndarray, period: float) -> np.ndarray:
    """(D, T): features without gaps, and sine and cosine of the phase."""
    filled = process.model_.moments(known, times)[0]
    if not period:
        return filled
    phase = 2 * np.pi * times / period
    return np.concatenate([filled, np.sin(phase)[None], np.cos(phase)[None]])


def _weights(inputs: np.ndarray, known: np.ndarray, feature: int) -> np.ndarray:
    """(D,) sizes of the coefficients of a ridge regression; 0 for the feature itself."""
    is_known, weights = ~np.isnan(known), np.zeros(len(inputs))
    if is_known.sum() < 2:
        return weights
    others = np.arange(len(inputs)) != feature
    rest = inputs[np.ix_(others, is_known)]
    rest = rest - rest.mean(1, keepdims=True)
    target = known[is_known] - known[is_known].mean()
    second = rest @ rest.T
    penalty = _PENALTY * np.diag(second) + 1e-9 * len(target)
    weights[others] = np.abs(np.linalg.solve(second + np.diag(penalty), rest @ target))
    return weights


def _mean_of_nearest(wanted: np.ndarray, donors: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(M,) weighted means of values (N,) at the donors (N, D) that are nearest to (M, D) wanted ones."""
    n = min(_NEIGHBOURS, len(donors))
    square = (wanted**2).sum(1)[:, None] - 2 * wanted @ donors.T + (donors**2).sum(1)
    nearest = np.argpartition(square, n - 1, axis=1)[:, :n]
    distance = np.sqrt(np.maximum(np.take_along_axis(square, nearest, 1), 0.0))
    share = 1 / (distance + _OWN_DISTANCE * distance.mean(1, keepdims=True) + 1e-9)
    return (share * values[nearest]).sum(1) / share.sum(1)

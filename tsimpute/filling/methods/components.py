"""Methods other than the Gaussian process: each gives one value for each missing cell.

A mixture moves the process's draws towards these values as far as that lowers its score; see ``blending``. To add a
method, write a class that is a ``Component`` and put it into ``AT_KNOWN`` or ``COMPONENTS``: methods take their turn in
this order. No other code has to change. A component is fitted twice: with the process that has not seen the hidden
cells, to be measured, and with the one that has seen all, to fill tables. It may use that process
(``base.model_.moments``, for one); it must see no more of a table than the panel that it is fitted to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from tsimpute.core.gaps import curved, interpolated
from tsimpute.core.panel import Panel
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Feature, Windows
from tsimpute.filling.learning.learning import unseasonal
from tsimpute.filling.measuring.hidden_draws import LINEAR
from tsimpute.filling.panels.windows import clock_times
from tsimpute.gaussian.curves import Curves
from tsimpute.gaussian.process import GaussianModel
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.peers.chained import MissForestImputer
from tsimpute.scaling.standardizer import Standardizer

_MOST_CELLS = 200_000
"""Of a table; the methods that are fitted to it take long beyond."""
_ROUNDS = 3
"""Of EM."""
_NEIGHBOURS = 12
_MOST_STEPS, _FEWEST_STEPS = 4_000, 50
"""Steps in memory, drawn at random; steps of the shortest table."""
_PENALTY = 0.05
"""Of the ridge regression, as a share of each feature's variance."""
_OWN_DISTANCE = 0.1
"""Share of the mean distance that is added to each: a step that is all but the same does not decide alone."""
_AT_ONCE = 1_024
_FOREST: dict[str, Any] = {
    "n_trees": 40, "max_depth": None, "min_samples_leaf": 3, "max_features": 1 / 2, "max_iter": 4,
}  # fmt: skip
_FEWEST_ROWS, _MOST_FEATURES, _MOST_CELLS_OF_FORESTS = 50, 16, 30_000
"""Larger tables take long; with many features the Gaussian is better anyway."""


class Component(ABC):
    """Gives a value for each missing cell, in the scale of a process (``base.scaler_``)."""

    name: str
    """In texts and in model files."""
    local = False
    """Whether it uses only the values at the ends of a gap: then only gaps as long show how good it is. If it uses
    other features, each stretch of time counts, and gaps of all lengths stand for one with too few hidden cells."""

    @classmethod
    @abstractmethod
    def fit(cls, panel: Panel, base: GaussianImputer, seed: int) -> Self | None:
        """Fits the method to the values of a panel; None where it cannot be used.

        Args:
            panel: of the features of the process; hidden cells are missing in it.
            base: the process fitted to it.
            seed: of everything that is drawn.
        """

    @abstractmethod
    def at(self, known: np.ndarray, times: np.ndarray, cells: np.ndarray | None = None) -> np.ndarray:
        """(K, T) finite values at the missing cells of one record; others do not count.

        Args:
            known: (K, T) in the scale of the process, NaN where nothing is known.
            times: (T,) from one origin for all series.
            cells: (K, T) bool, the missing cells that are wanted; None = all.
        """

    def parts(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain values from which ``from_parts`` makes the same component, without the process."""
        return {}, {}

    @classmethod
    def from_parts(
        cls, arrays: Mapping[str, np.ndarray], description: Mapping[str, Any], base: GaussianImputer
    ) -> Self:
        """What ``parts`` gave."""
        return cls()


class Unseasonal(Component):
    """The process without seasons: what is seasonal is a part of its covariances.

    A season that is taken off first is the same in all periods; where days differ, other features and the days around
    predict more. Neither is better everywhere, and their errors differ.
    """

    name = "Gaussian process without seasons"

    def __init__(self, model: GaussianModel, curves: Curves | None = None) -> None:
        self.model, self.curves = model, curves

    @classmethod
    def fit(cls, panel: Panel, base: GaussianImputer, seed: int) -> Self | None:
        """See ``Component``; None where the process has no seasons, or the table is so large that it takes long."""
        if not base.model_.seasons.weights.any() or panel.n_cells > _MOST_CELLS:
            return None
        return cls(*unseasonal(panel, base, _ROUNDS))

    def at(self, known: np.ndarray, times: np.ndarray, cells: np.ndarray | None = None) -> np.ndarray:
        mean, spread = self.model.marginals(known, times, cells if self.curves is None else None)
        if self.curves is not None:
            mean = mean + self.curves.moves(mean, spread, times)[0]
        return self.model.values(mean, times)

    def parts(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return self.model.to_arrays() | ({} if self.curves is None else self.curves.to_arrays()), {}

    @classmethod
    def from_parts(
        cls, arrays: Mapping[str, np.ndarray], description: Mapping[str, Any], base: GaussianImputer
    ) -> Self:
        return cls(GaussianModel.from_arrays(arrays), Curves.from_arrays(arrays))


class _Between(Component):
    """Uses the known values around a gap only; there is nothing to fit."""

    local = True
    _values: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

    @classmethod
    def fit(cls, panel: Panel, base: GaussianImputer, seed: int) -> Self | None:
        """See ``Component``; None where the order of rows means nothing."""
        return None if panel.independent_rows else cls()

    def at(self, known: np.ndarray, times: np.ndarray, cells: np.ndarray | None = None) -> np.ndarray:
        return self._values(known[None], times[None], np.zeros(len(known)))[0]


class Cubic(_Between):
    """Monotone cubic curves through known values, where a series is smoother than the process takes it to be."""

    name = "cubic interpolation"
    _values = staticmethod(curved)


class Lines(_Between):
    """Straight lines between known neighbours in time."""

    name = LINEAR
    _values = staticmethod(interpolated)


class Neighbours(Component):
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
        known = [base.scaler_.transform(series.values) for series in panel.series]
        clocks = [clock_times(series, panel.clock) for series in panel.series]
        inputs = [_inputs(base, values, times, period) for values, times in zip(known, clocks, strict=True)]
        some = np.sort(np.random.default_rng(derive_seed(seed, "neighbours")).permutation(n_steps)[:_MOST_STEPS])
        x, y = np.concatenate(inputs, 1)[:, some], np.concatenate(known, 1)[:, some]
        return cls(base, x, y, np.stack([_weights(x, row, k) for k, row in enumerate(y)]), period)

    def at(self, known: np.ndarray, times: np.ndarray, cells: np.ndarray | None = None) -> np.ndarray:
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
        return {"inputs": self.inputs, "known": self.known, "weights": self.weights}, {"period": self.period}

    @classmethod
    def from_parts(
        cls, arrays: Mapping[str, np.ndarray], description: Mapping[str, Any], base: GaussianImputer
    ) -> Self:
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


class RowForests(Component):
    """Random forests for rows that are records: each feature from the others, round by round, as missForest does."""

    name = "random forests"

    def __init__(self, imputer: MissForestImputer) -> None:
        self.imputer = imputer

    @classmethod
    def fit(cls, panel: Panel, base: GaussianImputer, seed: int) -> Self | None:
        """See ``Component``; None for series in time, a single feature or many, few rows, or a large table."""
        n_rows = sum(len(series.times) for series in panel.series)
        is_small = 2 <= len(panel.features) <= _MOST_FEATURES and panel.n_cells <= _MOST_CELLS_OF_FORESTS
        if not (panel.independent_rows and is_small and n_rows >= _FEWEST_ROWS):
            return None
        known = np.concatenate([base.scaler_.transform(series.values) for series in panel.series], 1)
        return cls(MissForestImputer(**_FOREST, seed=seed % 2**31).fit(_rows(known)))

    def at(self, known: np.ndarray, times: np.ndarray, cells: np.ndarray | None = None) -> np.ndarray:
        return self.imputer.impute(_rows(known), 1).values[0, :, :, 0].T.astype(np.float64)

    def parts(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return dict(self.imputer.learnt_), {"scaler": self.imputer.scaler_.to_dict()}

    @classmethod
    def from_parts(
        cls, arrays: Mapping[str, np.ndarray], description: Mapping[str, Any], base: GaussianImputer
    ) -> Self:
        imputer = MissForestImputer(**_FOREST)
        imputer.features_, imputer.learnt_ = _features(len(base.features_)), dict(arrays)
        imputer.scaler_ = Standardizer.from_dict(description["scaler"])
        return cls(imputer)


def _rows(known: np.ndarray) -> Windows:
    """(K, T) values as T records of one step."""
    n_features, n_rows = known.shape
    names = tuple(map(str, range(n_rows)))
    return Windows(known.T[:, :, None].copy(), np.zeros((n_rows, 1)), _features(n_features), names)


def _features(n: int) -> tuple[Feature, ...]:
    return tuple(Feature(str(k), "") for k in range(n))


AT_KNOWN: tuple[type[Component], ...] = (Unseasonal, Cubic, Lines)
"""Those that are compared at values that they were fitted to; see ``first_answer.moved_gaps``."""
COMPONENTS: tuple[type[Component], ...] = (*AT_KNOWN, Neighbours, RowForests)
"""In the order in which they take their turn; those that remember single values are last."""


def fitted_again(component: Component, panel: Panel, base: GaussianImputer, seed: int) -> Component:
    """The component fitted to other values; as it is where it cannot be."""
    return component.fit(panel, base, seed) or component

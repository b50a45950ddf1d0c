"""Methods other than the Gaussian process: each gives one value for each missing cell.

A mixture moves the process's draws towards these values as far as that lowers its score; see ``blending``. To add a
method, write a class that is a ``Component`` and put it into ``AT_KNOWN`` or ``COMPONENTS``: methods take their turn in
this order. No other code has to change. A component is fitted twice: with the process that has not seen the hidden
cells, to be measured, and with the one that has seen all, to fill tables. It may use that process
(``base.model_.moments``, for one); it must see no more of a table than the panel that it is fitted to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np

from tsimpute.core.gaps import curved, interpolated
from tsimpute.core.panel import Panel
from tsimpute.core.windows import Windows
from tsimpute.filling.learning.learning import unseasonal
from tsimpute.filling.measuring.hidden_draws import LINEAR
from tsimpute.filling.methods.neighbours import Neighbours
from tsimpute.filling.methods.row_forests import RowForests
from tsimpute.gaussian.curves import Curves
from tsimpute.gaussian.process import GaussianModel
from tsimpute.imputers.gaussian import GaussianImputer

_MOST_CELLS = 200_000
_ROUNDS = 3
"""Of EM."""


class Component(Protocol):
    """Gives a value for each missing cell, in the scale of a process (``base.scaler_``)."""

    name: str
    """In texts and in model files."""
    local: bool
    """Whether it uses only the values at the ends of a gap: then only gaps as long show how good it is. If it uses
    other features, each stretch of time counts, and gaps of all lengths stand for one with too few hidden cells."""

    @classmethod
    def fit(cls, panel: Panel, base: GaussianImputer, seed: int) -> Self | None:
        """Fits the method to the values of a panel; None where it cannot be used.

        Args:
            panel: of the features of the process; hidden cells are missing in it.
            base: the process fitted to it.
            seed: of everything that is drawn.
        """
        ...

    def at(self, known: np.ndarray, times: np.ndarray, cells: np.ndarray | None = None) -> np.ndarray:
        """(K, T) finite values at the missing cells of one record; others do not count.

        Args:
            known: (K, T) in the scale of the process, NaN where nothing is known.
            times: (T,) from one origin for all series.
            cells: (K, T) bool, the missing cells that are wanted; None = all.
        """
        ...

    def parts(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain values from which ``from_parts`` makes the same component, without the process."""
        ...

    @classmethod
    def from_parts(
        cls, arrays: Mapping[str, np.ndarray], description: Mapping[str, Any], base: GaussianImputer
    ) -> Self:
        """What ``parts`` gave."""
        ...


class Unseasonal:
    """The process without seasons: what is seasonal is a part of its covariances.

    A season that is taken off first is the same in all periods; where days differ, other features and the days around
    predict more. Neither is better everywhere, and their errors differ.
    """

    name = "Gaussian process without seasons"
    local = False

    def __init__(self, model: GaussianModel, curves: Curves | None = None) -> None:
        self.model, self.curves = model, curves

    @classmethod
    def fit(cls, panel: Panel, base: GaussianImputer, seed: int) -> Self | None:
        """See ``Component``; None where the process has no seasons, or the table is so large that it takes long."""
        if not base.model_.seasons.weights.any() or panel.n_cells > _MOST_CELLS:
            return None
        return cls(*unseasonal(panel, base, _ROUNDS))

    def at(self, known: np.ndarray, times: np.ndarray, cells: np.ndarray | None = None) -> np.ndarray:
        """See ``Component``."""
        mean, spread = self.model.marginals(known, times, cells if self.curves is None else None)
        if self.curves is not None:
            mean = mean + self.curves.moves(mean, spread, times)[0]
        return self.model.values(mean, times)

    def parts(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """See ``Component``."""
        return self.model.to_arrays() | ({} if self.curves is None else self.curves.to_arrays()), {}

    @classmethod
    def from_parts(
        cls, arrays: Mapping[str, np.ndarray], description: Mapping[str, Any], base: GaussianImputer
    ) -> Self:
        """See ``Component``."""
        return cls(GaussianModel.from_arrays(arrays), Curves.from_arrays(arrays))


class _Between:
    """Uses the known values around a gap only; there is nothing to fit."""

    local = True

    @classmethod
    def fit(cls, panel: Panel, base: GaussianImputer, seed: int) -> Self | None:
        """See ``Component``; None where the order of rows means nothing."""
        return None if panel.independent_rows else cls()

    def parts(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """See ``Component``."""
        return {}, {}

    @classmethod
    def from_parts(
        cls, arrays: Mapping[str, np.ndarray], description: Mapping[str, Any], base: GaussianImputer
    ) -> Self:
        """See ``Component``."""
        return cls()


class Cubic(_Between):
    """Monotone cubic curves through known values, where a series is smoother than the process takes it to be."""

    name = "cubic interpolation"

    def at(self, known: np.ndarray, times: np.ndarray, cells: np.ndarray | None = None) -> np.ndarray:
        """See ``Component``."""
        return curved(known[None], times[None], np.zeros(len(known)))[0]


class Lines(_Between):
    """Straight lines between known neighbours in time."""

    name = LINEAR

    def at(self, known: np.ndarray, times: np.ndarray, cells: np.ndarray | None = None) -> np.ndarray:
        """See ``Component``."""
        return interpolated(known[None], times[None], np.zeros(len(known)))[0]


AT_KNOWN: tuple[type[Component], ...] = (Unseasonal, Cubic, Lines)
"""Those that are compared at values that they were fitted to; see ``moved_gaps``."""
COMPONENTS: tuple[type[Component], ...] = (*AT_KNOWN, Neighbours, RowForests)
"""In the order in which they take their turn; those that remember single values are last."""


def fitted_again(component: Component, panel: Panel, base: GaussianImputer, seed: int) -> Component:
    """The component fitted to other values; as it is where it cannot be."""
    return component.fit(panel, base, seed) or component


def record_of(windows: Windows, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Values (K, T) of one record without covariates, NaN where they are not visible, and its times (T,)."""
    known = np.where(windows.visible[0], windows.values[0], np.nan).astype(np.float64)
    return known[:n_features], windows.times[0].astype(np.float64)

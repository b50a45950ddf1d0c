"""What is fitted and delivered for a table, and how it is described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from tsimpute.core.limits import Limits
from tsimpute.core.panel import Panel
from tsimpute.core.windows import Feature
from tsimpute.filling.blending.mixture import GAUSSIAN, METHODS, NETWORK, FittedMethods
from tsimpute.filling.measuring.calibration import Calibration
from tsimpute.filling.measuring.hidden_draws import LINEAR, MEAN, HiddenDraws, TimeBudget, draws_at
from tsimpute.filling.panels.calendar import with_calendar
from tsimpute.filling.panels.windows import without
from tsimpute.imputers.base import TableModel
from tsimpute.system.terminal import Tell

Scores = tuple[dict[str, str | float], ...]
"""One row per imputer, see ``accuracy.scores_of``."""


@dataclass(frozen=True, eq=False)
class FittingData:
    """What is fitted to and measured on.

    Attributes:
        panel: with the values of hidden cells.
        hidden: per series (K, T) bool.
        gaps: per series (K, T) bool, the cells that are filled in use.
        limits: by feature.
        levels: of the quantiles.
        n_samples, seed: of draws.
        windows: see ``TimeBudget``.
        given: what of the calendar a network has as covariates.
        alone: names of features that the process fills alone, such as those that stand for a category: other methods
            give one value for a feature that is 1 or 0, and would never choose rare categories.
    """

    panel: Panel
    hidden: Sequence[np.ndarray]
    gaps: Sequence[np.ndarray]
    limits: Mapping[str, Limits]
    levels: tuple[float, ...]
    n_samples: int
    seed: int
    windows: int = 200
    given: tuple[Feature, ...] = ()
    alone: frozenset[str] = frozenset()

    @cached_property
    def visible(self) -> Panel:
        """The panel without the hidden cells."""
        return without(self.panel, self.hidden)

    def drawn(self, model: TableModel, progress: Tell, at: Sequence[np.ndarray] | None = None) -> HiddenDraws:
        """Draws of a model at the hidden cells, or some of them."""
        panel = with_calendar(self.panel, tuple(feature for feature in model.features_ if feature.given))
        return draws_at(
            model, panel, self.hidden, n_samples=self.n_samples, seed=self.seed, gaps=self.gaps,
            budget=TimeBudget(self.windows), at=at, progress=partial(progress, "measuring"),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class FittedTwice:
    """The same methods twice.

    Attributes:
        blind: fitted without the hidden cells, to be measured there.
        whole: fitted to all values, to fill tables.
        again: draws of the delivered model at further cells; see ``accuracy.draws_at_further_cells``.
        weights: (J', K, C) of the first methods, chosen under moved gaps; None = hidden cells choose all weights.
    """

    blind: FittedMethods
    whole: FittedMethods
    again: tuple[HiddenDraws, ...] = ()
    weights: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class DeliveredModel:
    """What was fitted and measured.

    Attributes:
        model: that fills tables.
        calibration: of its quantiles.
        scores: see ``accuracy.scores_of``.
        shares: (J,) of the methods at hidden cells, in the order of ``mixture.METHODS``; None = nothing was measured.
        base: the process and the methods that its draws may move towards.
        at: draws of the process at hidden cells; None = there are none.
        note: why there is no network, or "".
        measured: draws at hidden cells of what is delivered, fitted without them; None = not needed any more.
    """

    model: TableModel
    calibration: Calibration
    scores: Scores
    shares: np.ndarray | None
    base: FittedTwice
    at: HiddenDraws | None
    note: str = ""
    measured: HiddenDraws | None = None

    @property
    def text(self) -> str:
        """What is delivered, and by how much its error is lower than that of a straight line."""
        return f"{_methods_text(self.shares)}{_gain_text(self.scores)}{f'; {self.note}' * bool(self.note)}"


def _methods_text(shares: np.ndarray | None) -> str:
    """The methods and their shares; None = nothing was measured."""
    if shares is None:
        return f"the {METHODS[GAUSSIAN]}"
    if shares.max() > 0.995:
        method = METHODS[int(shares.argmax())]
        return f"the {method}" if method in METHODS[: NETWORK + 1] else f"{method} with the spread of the process"
    parts = [f"{share:.0%} {name}" for share, name in zip(shares, METHODS, strict=True) if share >= 0.005]
    return f"a mixture: {', '.join(parts)}"


def _gain_text(scores: Scores) -> str:
    """The error of the last row on hidden cells, compared with a straight line, or the mean where there is no time."""
    rows = {str(row["imputer"]): row for row in scores}
    simple = next((name for name in (LINEAR, MEAN) if name in rows), None)
    if simple is None:
        return ""
    error, of_simple, units = float(scores[-1]["MAE"]), float(rows[simple]["MAE"]), scores[-1]["units"]
    change = (of_simple - error) / of_simple if of_simple > 0 else 0.0
    than = f"{abs(change):.0%} {'less' if change >= 0 else 'more'} than that of {simple} ({of_simple:.4g})"
    than = f"as that of {simple} ({of_simple:.4g})" if abs(change) < 0.005 else than
    return f"; mean absolute error on hidden cells {error:.4g} {units}, {than}"

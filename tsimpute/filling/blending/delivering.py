"""What is delivered for a table: a Gaussian process, or a mixture with other methods, as hidden cells say is best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from tsimpute.core.limits import Limits
from tsimpute.core.panel import Panel
from tsimpute.core.windows import Feature
from tsimpute.errors import DataError
from tsimpute.evaluation.ensembles import crps
from tsimpute.filling.blending.blending import Blend, Evidence
from tsimpute.filling.blending.delivered_texts import Scores, gain_text, shares_text
from tsimpute.filling.blending.mixture import GAUSSIAN, METHODS, NETWORK, FittedMethods, Mixture, first_draws, in_pairs
from tsimpute.filling.blending.moved_gaps import evidence_of
from tsimpute.filling.blending.weights import best_weights
from tsimpute.filling.learning.learning import gaussian
from tsimpute.filling.measuring.accuracy import calibrated_on, drawn_again, halves, scores_of, spreads_of
from tsimpute.filling.measuring.calibration import LEAST, Calibration
from tsimpute.filling.measuring.hidden_draws import Hidden, TimeBudget, drawn_at
from tsimpute.filling.methods.components import COMPONENTS, fitted_again
from tsimpute.filling.panels.calendar import with_calendar
from tsimpute.filling.panels.gaps import gap_classes
from tsimpute.filling.panels.windows import clock_times, without
from tsimpute.imputers.base import TableModel
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.system.terminal import Tell

_LEAST_GAIN = 0.002
"""Share of the score of the process alone by which a mixture has to be better."""
MANY_CELLS = 200_000
"""Known values from which on nothing is gained by learning from the hidden ones, too."""


@dataclass(frozen=True, eq=False)
class FittingData:
    """What is learnt from and measured on.

    Attributes:
        panel: with the values of hidden cells.
        hidden: per series (K, T) bool.
        gaps: per series (K, T) bool, the cells that are filled in use.
        limits: by feature.
        levels: of the quantiles.
        n_samples, seed: of draws.
        windows: see ``TimeBudget``.
        given: what of the calendar a network is given beside.
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

    @cached_property
    def visible(self) -> Panel:
        """All that may be learnt from."""
        return without(self.panel, self.hidden)

    def drawn(self, model: TableModel, progress: Tell, at: Sequence[np.ndarray] | None = None) -> Hidden:
        """Draws of a model at the hidden cells, or some of them."""
        panel = with_calendar(self.panel, tuple(feature for feature in model.features_ if feature.given))
        return drawn_at(
            model, panel, self.hidden, n_samples=self.n_samples, seed=self.seed, gaps=self.gaps,
            budget=TimeBudget(self.windows), at=at, progress=partial(progress, "measuring"),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Measured:
    """The same methods twice.

    Attributes:
        blind: fitted without the hidden cells, to be measured there.
        whole: fitted to all values, to fill tables.
        again: draws of what is delivered at further cells; see ``measuring.drawn_again``.
        compared: what the first ones say under gaps that are moved; None = hidden cells alone say which is best.
    """

    blind: FittedMethods
    whole: FittedMethods
    again: tuple[Hidden, ...] = ()
    compared: Evidence | None = None

    @property
    def name(self) -> str:
        """Of the process."""
        return self.blind.name


@dataclass(frozen=True, eq=False)
class DeliveredModel:
    """What was learnt and measured.

    Attributes:
        model: that fills tables.
        calibration: of its quantiles.
        scores: see ``measuring.scores_of``.
        shares: (J,) of what is said at hidden cells, in the order of ``mixture.METHODS``; None = nothing was measured.
        base: the process and what stands beside it.
        at: draws of the process at hidden cells; None = there are none.
        note: why there is no network, or "".
        measured: draws at hidden cells of what is delivered, fitted without them; None = not kept.
    """

    model: TableModel
    calibration: Calibration
    scores: Scores
    shares: np.ndarray | None
    base: Measured
    at: Hidden | None
    note: str = ""
    measured: Hidden | None = None

    @property
    def text(self) -> str:
        """What is delivered, and by how much it is better than a straight line."""
        return f"{shares_text(self.shares)}{gain_text(self.scores)}{f'; {self.note}' * bool(self.note)}"


def first_answer(material: FittingData, progress: Tell) -> DeliveredModel:
    """The process, its draws moved towards other methods where hidden cells say that it helps.

    It is measured without the hidden cells, and fitted to all values for what it fills, unless there are so many that
    it learns nothing more from the hidden ones (a year of 36 stations: MAE .1488 and .1487, and twice the time).
    """
    blind = _learnt(material.visible, material, progress)
    if not any(cells.any() for cells in material.hidden):
        return DeliveredModel(blind.base, Calibration(), (), None, Measured(blind, blind), None)
    compared = evidence_of(material.visible, blind, material.gaps, material.seed)
    measured = Measured(blind, blind, compared=compared)
    found = mixed(material, measured, None, material.drawn(blind.base, progress), None)
    if sum(int(series.observed.sum()) for series in material.visible.series) > MANY_CELLS:
        return found
    used = [isinstance(found.model, Mixture) and c in found.model.learnt.components for c in blind.components]
    whole = _refitted(blind, used, material, progress)
    model: TableModel = whole.base
    if isinstance(found.model, Mixture):
        model = Mixture(whole.only(used), found.model.blend)
    calibration, more = found.calibration, ()
    if found.measured is not None:
        about = material.panel, material.hidden, material.gaps, material.n_samples, material.seed
        more = tuple(drawn_again(model, *about))
        calibration = calibrated_on(model, found.measured, material.levels, more)
    return replace(
        found, model=model, calibration=calibration, base=replace(measured, whole=whole, again=more), measured=None
    )


def _learnt(panel: Panel, material: FittingData, progress: Tell) -> FittedMethods:
    base = gaussian(panel, material.limits, material.seed, progress)
    found = [component.fit(panel, base, material.seed) for component in COMPONENTS]
    return FittedMethods(base, tuple(component for component in found if component is not None))


def _refitted(blind: FittedMethods, used: Sequence[bool], material: FittingData, progress: Tell) -> FittedMethods:
    """The same methods fitted to all values; those that draws are not moved towards stay as they are.

    Settings are chosen anew: with those that were chosen without the hidden cells the error of meteo with sensors out
    was several times as high.
    """
    panel = material.panel
    base = gaussian(panel, material.limits, material.seed, progress)
    found = [
        fitted_again(component, panel, base, material.seed) if is_used else component
        for component, is_used in zip(blind.components, used, strict=True)
    ]
    return FittedMethods(base, tuple(found))


def mixed(
    material: FittingData, learnt: Measured, network: GenerativeImputer | None, of_base: Hidden,
    of_network: Hidden | None, most: float = 1.0,
) -> DeliveredModel:  # fmt: skip
    """The mixture that hidden cells say is best, measured with shares from other cells than those it is measured on.

    Args:
        of_base: the process's draws at hidden cells.
        of_network: draws at some of these cells, in any order.
        most: largest share of the network.
    """
    at, base = of_base, learnt.blind.base
    if of_network is not None:
        own, others = common(material.hidden, of_base, of_network)
        of_base, of_network = of_base.at(own), of_network.at(others)
    if len(of_base.truth) < LEAST:
        calibration = calibrated_on(base, of_base, material.levels)
        scores = scores_of(base, material.panel, of_base)
        return DeliveredModel(learnt.whole.base, calibration, scores, _alone(), learnt, at)
    cells = _Cells.of(material, learnt, of_base, of_network)
    blend, shares, draws = cells.best(most if network is not None else 0.0)
    beside: list[tuple[TableModel, Hidden]] = [(base, of_base)]
    if network is not None and of_network is not None:
        beside.append((network, of_network))
    if not shares.any():
        network = None
    changed = blend.changes or network is not None
    model = Mixture(learnt.whole, blend, network, shares) if changed else learnt.whole.base
    delivered = replace(of_base, draws=draws) if changed else of_base
    measured = Mixture(learnt.blind, blend, network, shares) if changed else base
    calibration = calibrated_on(measured, delivered, material.levels, learnt.again if network is None else ())
    scores = scores_of(measured, material.panel, delivered, beside if changed else beside[1:])
    return DeliveredModel(model, calibration, scores, cells.said_by(blend, shares), learnt, at, measured=delivered)


def _alone() -> np.ndarray:
    return np.eye(len(METHODS))[GAUSSIAN]


@dataclass(frozen=True, eq=False)
class _Cells:
    """What all methods say at hidden cells.

    Attributes:
        process: the process's draws and what it can be moved towards, in its scale; draws that are opposite follow
            each other.
        network: (S, M) in the data's units, or None.
        half: (M,) bool, one of two halves of which each says what is best for the other.
        spread: (M,) in whose units all features count alike.
        learnt: whose draws they are.
        weights: (J', K, C) of the first methods, where other cells than these said which is best.
    """

    process: Evidence
    network: np.ndarray | None
    half: np.ndarray
    truth: np.ndarray
    spread: np.ndarray
    learnt: FittedMethods
    weights: np.ndarray | None

    @classmethod
    def of(cls, material: FittingData, measured: Measured, of_base: Hidden, of_network: Hidden | None) -> _Cells:
        learnt, compared = measured.blind, measured.compared
        feature, scaler, n_features = of_base.feature, learnt.base.scaler_, len(learnt.base.features_)
        draws = scaler.transform_cells(of_base.draws[in_pairs(len(of_base.draws))], feature)
        truth = scaler.transform_cells(of_base.truth, feature)
        points, gap = _beside(material.visible, learnt, of_base)
        return cls(
            Evidence(
                draws, points, truth, feature, gap, of_base.run, of_base.block * n_features + feature, n_features,
                tuple(component.local for component in learnt.components),
            ),
            None if of_network is None else of_network.draws, halves(of_base)[0], of_base.truth,
            spreads_of(material.panel)[feature], learnt, None if compared is None else compared.best().weights,
        )  # fmt: skip

    def best(self, most: float) -> tuple[Blend, np.ndarray, np.ndarray]:
        """A blend, (K, C) shares of the network, and draws (S, M) of both, in the data's units.

        The draws at each half of the cells are with what the other half says is best. They have to be better than the
        process alone, or than it is with weights that other cells gave.
        """
        everywhere = np.ones(len(self.truth), bool)
        blend, shares = self._best(everywhere, most)
        draws = np.empty_like(self.process.draws)
        for mine in (self.half, ~self.half):
            # A half with too few cells takes what all cells say.
            used = self._best(~mine, most) if (~mine).sum() >= LEAST else (blend, shares)
            draws[:, mine] = self._mixed(*used, mine)
        if self.weights is not None and not shares.any():
            return blend, shares, draws  # weights that were not chosen at these cells need not gain here once more
        instead = Blend.nothing(len(self.process.points), self.process.n_features)
        if self.weights is not None:
            instead = self._best(everywhere, 0.0)[0]
        without = self._mixed(instead, np.zeros_like(shares), everywhere)
        if self._score(draws) < (1 - _LEAST_GAIN) * self._score(without):
            return blend, shares, draws
        return instead, np.zeros_like(shares), without

    def _best(self, at: np.ndarray, most: float) -> tuple[Blend, np.ndarray]:
        own = self.process.at(at)
        blend = own.best() if self.weights is None else own.after(self.weights)
        shares = np.zeros_like(blend.spread)
        if self.network is not None and most > 0:
            draws = [self._moved(blend, at), self.network[:, at]]
            scaled = [of_one / self.spread[at] for of_one in draws]
            truth = self.truth[at] / self.spread[at]
            shares = best_weights(scaled, truth, own.feature, own.gap, own.n_features, (1, most))[..., 1]
        return blend, shares

    def _moved(self, blend: Blend, at: np.ndarray) -> np.ndarray:
        """(S, M') draws of the process in the data's units."""
        own = self.process.at(at)
        moved = blend.moved(own.draws, np.median(own.draws, 0), own.points, own.feature, own.gap)
        return self.learnt.base.scaler_.inverse_cells(moved, own.feature)

    def _mixed(self, blend: Blend, shares: np.ndarray, at: np.ndarray) -> np.ndarray:
        """(S, M') draws of the mixture at some cells."""
        draws = self._moved(blend, at)
        if self.network is None:
            return draws
        of_network = first_draws(len(draws), shares[self.process.feature[at], self.process.gap[at]])
        return np.where(of_network, self.network[:, at], draws)

    def _score(self, draws: np.ndarray) -> float:
        """Mean continuous ranked probability score of draws (S, M)."""
        return float(crps(draws / self.spread, self.truth / self.spread).mean())

    def said_by(self, blend: Blend, shares: np.ndarray) -> np.ndarray:
        """(J,) mean shares of the methods at these cells."""
        of_network = shares[self.process.feature, self.process.gap]
        found, left = np.zeros(len(METHODS)), 1 - of_network
        found[NETWORK] = of_network.mean()
        of_components = list(zip(self.learnt.components, blend.weights, strict=True))
        for component, weights in of_components[::-1]:  # the last one moves what the others have left
            own = left * weights[self.process.feature, self.process.gap]
            found[METHODS.index(component.name)], left = own.mean(), left - own
        found[GAUSSIAN] = left.mean()
        return found


def _beside(panel: Panel, learnt: FittedMethods, at: Hidden) -> tuple[list[np.ndarray], np.ndarray]:
    """What other methods than the process say at hidden cells (M,), and the classes of the cells' gaps."""
    points = [np.empty(len(at.truth)) for _ in learnt.components]
    gap = np.empty(len(at.truth), int)
    for s in np.unique(at.place[0]).tolist():
        series, here = panel.series[s], at.place[0] == s
        cells, known = (at.feature[here], at.place[1][here]), learnt.base.scaler_.transform(series.values)
        for found, point in zip(points, learnt.points(known, clock_times(series, panel.clock)), strict=True):
            found[here] = point[cells]
        gap[here] = gap_classes(~series.observed)[cells]
    return points, gap


def common(hidden: Sequence[np.ndarray], a: Hidden, b: Hidden) -> tuple[np.ndarray, np.ndarray]:
    """Where the cells that both hold stand in each."""
    offsets = np.concatenate([[0], np.cumsum([cells.size for cells in hidden])])
    lengths = np.array([cells.shape[1] for cells in hidden])
    flat = [offsets[h.place[0]] + h.feature * lengths[h.place[0]] + h.place[1] for h in (a, b)]
    _, own, others = np.intersect1d(*flat, assume_unique=True, return_indices=True)
    order = np.argsort(own)  # cells stay in the order of their blocks
    return own[order], others[order]


def process_beside(
    material: FittingData, model: TableModel, measured: Hidden, progress: Tell
) -> tuple[Hidden, tuple[tuple[TableModel, Hidden]]] | None:
    """A given model's draws at hidden cells, and beside it a Gaussian process's fitted to the table, at the same cells.

    None where the table is none that a process can be fitted to, or there are too few common cells.

    Args:
        material: its panel may have what the model is given after its own features; limits are the model's.
        measured: the model's draws.
    """
    n_own = sum(not feature.given for feature in model.features_)
    warps = (model.scaler_.warps or [None] * n_own)[:n_own]
    limits = {f.name: warp.limits for f, warp in zip(model.features_, warps, strict=False) if warp is not None}
    series = tuple(replace(s, values=s.values[:n_own]) for s in material.panel.series)
    panel = replace(material.panel, features=material.panel.features[:n_own], series=series)
    own = replace(material, panel=panel, limits=limits)
    try:
        base = gaussian(own.visible, limits, material.seed, progress)
    except DataError:
        return None
    of_base = own.drawn(base, progress, masks_of(material.hidden, measured))
    at, others = common(material.hidden, measured, of_base)
    if len(at) < min(LEAST, len(measured.truth)):
        return None
    return measured.at(at), ((base, of_base.at(others)),)


def masks_of(hidden: Sequence[np.ndarray], at: Hidden) -> list[np.ndarray]:
    """Per series (K, T) bool, the cells at which there are draws."""
    masks = [np.zeros_like(cells) for cells in hidden]
    for s, k, t in zip(at.place[0], at.feature, at.place[1], strict=True):
        masks[s][k, t] = True
    return masks

"""What is fitted and delivered for a table: the mixture of methods with the lowest score at cells that were hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from tsimpute.core.limits import Limits
from tsimpute.core.panel import Panel
from tsimpute.evaluation.ensembles import crps
from tsimpute.filling.blending.blend import Blend, Comparison
from tsimpute.filling.blending.mixture import (
    GAUSSIAN,
    METHODS,
    NETWORK,
    FittedMethods,
    Mixture,
    network_draws,
    pair_order,
)
from tsimpute.filling.measuring.calibration import LEAST, Calibration, calibrated_on, halves, scores_of, spreads_of
from tsimpute.filling.measuring.hidden_draws import LINEAR, MEAN, MOST_CELLS, HiddenDraws, draws_at
from tsimpute.filling.panels.windows import N_CLASSES, clock_times, gap_classes, without
from tsimpute.imputers.base import TableModel
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.system.terminal import Tell

Scores = tuple[dict[str, str | float], ...]
"""One row per imputer, see ``calibration.scores_of``."""
FIRST = "first answer"
"""Name of its row among the scores of a better one, at the same cells."""
_LEAST_GAIN = 0.002
"""Share of the score of the process alone by which a mixture has to be better."""
_LEAST_NETWORK_GAIN = 0.005
"""Share of the score of the process by which the network's draws have to lower it."""
_PRIOR_CELLS = 60
"""The score of all features counts as that many cells of one feature."""
_SHARES = np.arange(11) / 10


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
        windows: of models that take windows, so many are drawn to measure at most.
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
    alone: frozenset[str] = frozenset()

    @cached_property
    def visible(self) -> Panel:
        """The panel without the hidden cells."""
        return without(self.panel, self.hidden)

    def drawn(
        self, model: TableModel, progress: Tell, at: HiddenDraws | None = None, cells: int = MOST_CELLS
    ) -> HiddenDraws:
        """Draws of a model at the hidden cells, or at those of other draws; ``cells`` as of ``draws_at``."""
        masks = None
        if at is not None:
            masks = [np.zeros_like(of_series) for of_series in self.hidden]
            for s, k, t in zip(at.place[0], at.feature, at.place[1], strict=True):
                masks[s][k, t] = True
        return draws_at(
            model, self.panel, self.hidden, n_samples=self.n_samples, seed=self.seed, gaps=self.gaps,
            windows=self.windows, cells=cells, at=masks, progress=partial(progress, "measuring"),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class FittedTwice:
    """The same methods twice.

    Attributes:
        blind: fitted without the hidden cells, to be measured there.
        whole: fitted to all values, to fill tables.
        again: draws of the delivered model at further cells; see ``calibration.draws_at_further_cells``.
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
        scores: see ``calibration.scores_of``.
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
        if self.shares is None:
            methods = f"the {METHODS[GAUSSIAN]}"
        elif self.shares.max() > 0.995:
            main = int(self.shares.argmax())
            methods = f"the {METHODS[main]}" if main <= NETWORK else f"{METHODS[main]} with the spread of the process"
        else:
            parts = [f"{share:.0%} {name}" for share, name in zip(self.shares, METHODS, strict=True) if share >= 0.005]
            methods = f"a mixture: {', '.join(parts)}"
        note, rows = f"; {self.note}" * bool(self.note), {str(row["imputer"]): row for row in self.scores}
        simple = next((name for name in (LINEAR, MEAN) if name in rows), None)  # there are no lines without time
        if simple is None:
            return f"{methods}{note}"
        error, of_simple = float(self.scores[-1]["MAE"]), float(rows[simple]["MAE"])
        change = (of_simple - error) / of_simple if of_simple > 0 else 0.0
        than = f"{abs(change):.0%} {'less' if change >= 0 else 'more'} than that of {simple} ({of_simple:.4g})"
        than = f"as that of {simple} ({of_simple:.4g})" if abs(change) < 0.005 else than
        than = f"that of {simple} is 0" if error > of_simple == 0 else than
        units = self.scores[-1]["units"]
        return f"{methods}; mean absolute error on hidden cells {error:.4g} {units}, {than}{note}"


def mixed(
    material: FittingData, fitted: FittedTwice, network: GenerativeImputer | None, of_base: HiddenDraws,
    of_network: HiddenDraws | None,
) -> DeliveredModel:  # fmt: skip
    """The mixture with the lowest score at hidden cells, measured with weights from other cells than it is measured on.

    Args:
        of_base: the process's draws at hidden cells.
        of_network: the network's draws at some of these cells, in any order.
    """
    process_draws, base = of_base, fitted.blind.base
    if of_network is not None:
        in_base, in_network = common_cells(material.hidden, of_base, of_network)
        of_base, of_network = of_base.at(in_base), of_network.at(in_network)
    n_cells = len(of_base.truth)
    if not n_cells or (n_cells < LEAST and fitted.weights is None):
        calibration, scores = calibrated_on(base, of_base, material.levels), scores_of(base, material.panel, of_base)
        of_process = np.eye(len(METHODS))[GAUSSIAN]
        return DeliveredModel(fitted.whole.base, calibration, scores, of_process, fitted, process_draws)
    cells = _HiddenCells(material, fitted, of_base, of_network)
    blend, shares, draws = cells.choice()
    alone: list[tuple[TableModel, HiddenDraws]] = []
    if network is not None and of_network is not None:
        alone.append((network, of_network))
    if not shares.any():
        network = None
    model, blind, measured = fitted.whole.base, base, of_base
    if blend.changes or network is not None:
        model, blind = (Mixture(methods, blend, network, shares) for methods in (fitted.whole, fitted.blind))
        measured, alone = replace(of_base, draws=draws), [(base, of_base), *alone]
    calibration = calibrated_on(blind, measured, material.levels, fitted.again if network is None else ())
    scores = scores_of(blind, material.panel, measured, alone)
    return DeliveredModel(
        model, calibration, scores, cells.method_shares(blend, shares), fitted, process_draws, measured=measured
    )


class _HiddenCells:
    """All methods at hidden cells.

    Attributes:
        process: the process's draws, in pairs of opposite ones, and other methods' values, in its scale.
        network: (S, M) draws in the data's units, or None.
        half: (M,) bool, one of two halves, each of which gives the weights for the other.
        spread: (M,) in whose units all features count alike.
        fitted: the methods.
        weights: (J', K, C) of the first methods, where they come from moved gaps.
        alone: (K, 1) bool, features that the process fills alone.
    """

    def __init__(
        self, material: FittingData, fitted: FittedTwice, of_base: HiddenDraws, of_network: HiddenDraws | None
    ) -> None:
        self.fitted, self.weights, self.truth = fitted.blind, fitted.weights, of_base.truth
        self.network, self.half = None if of_network is None else of_network.draws, halves(of_base)[0]
        base, feature = self.fitted.base, of_base.feature
        scaler, n_features = base.scaler_, len(base.features_)
        self.spread = spreads_of(material.panel)[feature]
        self.alone = np.array([f.name in material.alone for f in base.features_])[:, None]
        values = [np.empty(len(self.truth)) for _ in self.fitted.components]
        gap_class = np.empty(len(self.truth), int)
        for s in np.unique(of_base.place[0]).tolist():
            series, in_series = material.visible.series[s], of_base.place[0] == s
            cells, known = (feature[in_series], of_base.place[1][in_series]), scaler.transform(series.values)
            of_methods = self.fitted.values(known, clock_times(series, material.panel.clock))
            for value, of_series in zip(values, of_methods, strict=True):
                value[in_series] = of_series[cells]
            gap_class[in_series] = gap_classes(~series.observed, self.fitted.independent)[cells]
        self.process = Comparison(
            scaler.transform_cells(of_base.draws[pair_order(len(of_base.draws))], feature), values,
            scaler.transform_cells(self.truth, feature), feature, gap_class, of_base.run,
            of_base.block * n_features + feature, n_features, tuple(c.local for c in self.fitted.components),
        )  # fmt: skip

    def choice(self) -> tuple[Blend, np.ndarray, np.ndarray]:
        """A blend, (K, C) shares of the network, and draws (S, M) of both, in the data's units.

        The draws at each half of the cells are made with what the other half chooses. They have to be better than the
        process alone, or than it is with weights from other cells.
        """
        everywhere = np.ones(len(self.truth), bool)
        blend = self._blend_at(everywhere)
        shares = self._shares_at(blend, everywhere)
        draws = np.empty_like(self.process.draws)
        for mine in (self.half, ~self.half):
            used = blend, shares
            if (~mine).sum() >= LEAST:  # a half with too few cells takes the choice of all cells
                of_half = self._blend_at(~mine)
                used = of_half, self._shares_at(of_half, ~mine)
            draws[:, mine] = self._mixed(*used, mine)
        if self.weights is not None and not shares.any():
            return blend, shares, draws  # weights that come from other cells need not gain here once more
        instead = Blend.nothing(len(self.process.values), self.process.n_features) if self.weights is None else blend
        without = self._mixed(instead, np.zeros_like(shares), everywhere)
        after, before = (float(crps(x / self.spread, self.truth / self.spread).mean()) for x in (draws, without))
        if after < (1 - _LEAST_GAIN) * before:
            return blend, shares, draws
        return instead, np.zeros_like(shares), without

    def _blend_at(self, cells: np.ndarray) -> Blend:
        """What some of the cells choose."""
        blend = self.process.at(cells).blend(self.weights)
        spread = blend.spread
        if len(self.truth) < LEAST:  # moved gaps give the weights; too few cells say how wide intervals should be
            spread = np.ones_like(spread)
        return Blend(np.where(self.alone, 0.0, blend.weights), np.where(self.alone, 1.0, spread))

    def _shares_at(self, blend: Blend, cells: np.ndarray) -> np.ndarray:
        """(K, C) shares of the network that some of the cells choose."""
        if self.network is None:
            return np.zeros_like(blend.spread)
        process, spread = self.process, self.spread[cells]
        return network_shares(
            self._moved(blend, cells) / spread, self.network[:, cells] / spread, self.truth[cells] / spread,
            process.feature[cells], process.gap_class[cells], process.n_features,
        )  # fmt: skip

    def _moved(self, blend: Blend, cells: np.ndarray) -> np.ndarray:
        """(S, M') draws of the process in the data's units."""
        process = self.process.at(cells)
        moved = blend.moved(process.draws, process.values, process.feature, process.gap_class)
        return self.fitted.base.scaler_.inverse_cells(moved, process.feature)

    def _mixed(self, blend: Blend, shares: np.ndarray, cells: np.ndarray) -> np.ndarray:
        """(S, M') draws of the mixture at some cells."""
        draws = self._moved(blend, cells)
        if self.network is None:
            return draws
        is_network = network_draws(len(draws), shares[self.process.feature[cells], self.process.gap_class[cells]])
        return np.where(is_network, self.network[:, cells], draws)

    def method_shares(self, blend: Blend, shares: np.ndarray) -> np.ndarray:
        """(J,) mean shares of the methods at these cells."""
        of_network = shares[self.process.feature, self.process.gap_class]
        means, rest = np.zeros(len(METHODS)), 1 - of_network
        means[NETWORK] = of_network.mean()
        of_components = list(zip(self.fitted.components, blend.weights, strict=True))
        for component, weights in of_components[::-1]:  # the last one takes its share of all, the others of the rest
            share = rest * weights[self.process.feature, self.process.gap_class]
            means[METHODS.index(component.name)], rest = share.mean(), rest - share
        means[GAUSSIAN] = rest.mean()
        return means


def network_shares(
    process: np.ndarray, network: np.ndarray, truth: np.ndarray, feature: np.ndarray, gap_class: np.ndarray,
    n_features: int,
) -> np.ndarray:  # fmt: skip
    """(K, C) shares of a network with the lowest continuous ranked probability score of the mixture.

    With a share w the score is ``(1 - w, w) a - (1 - w, w) B (1 - w, w)' / 2``: a holds the mean distances of draws
    from the truth, B those between two draws of the same or of both. Shares are drawn towards those of all features.

    Args:
        process, network: (S, M) draws at M hidden cells, in units in which all features count alike.
        truth, feature, gap_class: (M,).
    """
    rest, n, m = 1 - _SHARES, len(process), len(network)
    factors = np.stack([rest, _SHARES, -(rest**2) / 2, -rest * _SHARES, -(_SHARES**2) / 2], 1)
    to_truth = [np.abs(draws - truth).mean(0) for draws in (process, network)]
    alike, others, all_pairs = map(_sum_of_distances, (process, network, np.concatenate([process, network])))
    between = [alike / max(1, n * (n - 1)), (all_pairs - alike - others) / (2 * n * m), others / max(1, m * (m - 1))]
    terms = np.stack([*to_truth, *between])
    of_all = factors @ terms.mean(1)
    out = np.zeros((n_features, N_CLASSES))
    for c in range(N_CLASSES):
        of_class = _towards(of_all, factors, terms[:, gap_class == c])
        for k in range(n_features):
            scores = _towards(of_class, factors, terms[:, (gap_class == c) & (feature == k)])
            out[k, c] = _SHARES[int(np.argmin(scores + _LEAST_NETWORK_GAIN * scores[0] * _SHARES))]  # not by chance
    return out


def _towards(prior: np.ndarray, factors: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """(P,) scores of shares at n cells, n / (n + prior cells) of them these cells' alone; in units of the prior's."""
    n = terms.shape[1]
    if not n:
        return prior
    scores = factors @ terms.mean(1)
    scores *= prior[0] / max(scores[0], 1e-12)  # a feature that is hard to fill counts no more
    return (n * scores + _PRIOR_CELLS * prior) / (n + _PRIOR_CELLS)


def _sum_of_distances(values: np.ndarray) -> np.ndarray:
    """(M,) over all ordered pairs of (S, M) values."""
    n = len(values)
    return 2 * (2 * np.arange(n) - n + 1) @ np.sort(values, axis=0)


def common_cells(hidden: Sequence[np.ndarray], a: HiddenDraws, b: HiddenDraws) -> tuple[np.ndarray, np.ndarray]:
    """The cells that are in both, by their places in each."""
    offsets = np.concatenate([[0], np.cumsum([cells.size for cells in hidden])])
    lengths = np.array([cells.shape[1] for cells in hidden])
    flat = [offsets[h.place[0]] + h.feature * lengths[h.place[0]] + h.place[1] for h in (a, b)]
    _, in_a, in_b = np.intersect1d(*flat, assume_unique=True, return_indices=True)
    order = np.argsort(in_a)  # cells stay in the order of their blocks
    return in_a[order], in_b[order]

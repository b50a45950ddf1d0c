"""Which mixture of methods is delivered: the one with the lowest score at cells that were hidden from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tsimpute.core.panel import Panel
from tsimpute.evaluation.ensembles import crps
from tsimpute.filling.blending.blend import Blend, Comparison
from tsimpute.filling.blending.delivered import DeliveredModel, FittedTwice, FittingData
from tsimpute.filling.blending.mixture import (
    GAUSSIAN,
    METHODS,
    NETWORK,
    FittedMethods,
    Mixture,
    network_draws,
    pair_order,
)
from tsimpute.filling.measuring.calibration import LEAST, calibrated_on, halves, scores_of, spreads_of
from tsimpute.filling.measuring.hidden_draws import HiddenDraws
from tsimpute.filling.panels.windows import N_CLASSES, clock_times, gap_classes
from tsimpute.imputers.base import TableModel
from tsimpute.imputers.generative import GenerativeImputer

_LEAST_GAIN = 0.002
"""Share of the score of the process alone by which a mixture has to be better."""
_LEAST_NETWORK_GAIN = 0.005
"""Share of the score of the process by which the network's draws have to lower it."""
_PRIOR_CELLS = 60
"""The score of all features counts as that many cells of one feature."""
_SHARES = np.arange(11) / 10


def mixed(
    material: FittingData, fitted: FittedTwice, network: GenerativeImputer | None, of_base: HiddenDraws,
    of_network: HiddenDraws | None, most: float = 1.0,
) -> DeliveredModel:  # fmt: skip
    """The mixture with the lowest score at hidden cells, measured with weights from other cells than it is measured on.

    Args:
        of_base: the process's draws at hidden cells.
        of_network: draws at some of these cells, in any order.
        most: largest share of the network.
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
    cells = _HiddenCells.of(material, fitted, of_base, of_network)
    blend, shares, draws = cells.choice(most if network is not None else 0.0)
    alone: list[tuple[TableModel, HiddenDraws]] = [(base, of_base)]
    if network is not None and of_network is not None:
        alone.append((network, of_network))
    if not shares.any():
        network = None
    model, blind, measured = fitted.whole.base, base, of_base
    if blend.changes or network is not None:
        model, blind = (Mixture(methods, blend, network, shares) for methods in (fitted.whole, fitted.blind))
        measured = replace(of_base, draws=draws)
    else:
        alone = alone[1:]
    calibration = calibrated_on(blind, measured, material.levels, fitted.again if network is None else ())
    scores = scores_of(blind, material.panel, measured, alone)
    return DeliveredModel(
        model, calibration, scores, cells.method_shares(blend, shares), fitted, process_draws, measured=measured
    )


@dataclass(frozen=True, eq=False)
class _HiddenCells:
    """All methods at hidden cells.

    Attributes:
        process: the process's draws, in pairs of opposite ones, and other methods' values, in its scale.
        network: (S, M) draws in the data's units, or None.
        half: (M,) bool, one of two halves, each of which gives the weights for the other.
        spread: (M,) in whose units all features count alike.
        fitted: the methods.
        weights: (J', K, C) of the first methods, where they come from moved gaps.
        alone: (K,) bool, features that the process fills alone.
    """

    process: Comparison
    network: np.ndarray | None
    half: np.ndarray
    truth: np.ndarray
    spread: np.ndarray
    fitted: FittedMethods
    weights: np.ndarray | None
    alone: np.ndarray

    @classmethod
    def of(
        cls, material: FittingData, fitted: FittedTwice, of_base: HiddenDraws, of_network: HiddenDraws | None
    ) -> _HiddenCells:
        methods, feature = fitted.blind, of_base.feature
        scaler, n_features = methods.base.scaler_, len(methods.base.features_)
        draws = scaler.transform_cells(of_base.draws[pair_order(len(of_base.draws))], feature)
        truth = scaler.transform_cells(of_base.truth, feature)
        values, gap_class = _method_values(material.visible, methods, of_base)
        return cls(
            Comparison(
                draws, values, truth, feature, gap_class, of_base.run, of_base.block * n_features + feature, n_features,
                tuple(component.local for component in methods.components),
            ),
            None if of_network is None else of_network.draws, halves(of_base)[0], of_base.truth,
            spreads_of(material.panel)[feature], methods, fitted.weights,
            np.array([f.name in material.alone for f in methods.base.features_]),
        )  # fmt: skip

    def choice(self, most: float) -> tuple[Blend, np.ndarray, np.ndarray]:
        """A blend, (K, C) shares of the network, and draws (S, M) of both, in the data's units.

        The draws at each half of the cells are made with what the other half chooses. They have to be better than the
        process alone, or than it is with weights from other cells.
        """
        everywhere = np.ones(len(self.truth), bool)
        blend, shares = self._chosen_at(everywhere, most)
        draws = np.empty_like(self.process.draws)
        for mine in (self.half, ~self.half):
            # A half with too few cells takes the choice of all cells.
            used = self._chosen_at(~mine, most) if (~mine).sum() >= LEAST else (blend, shares)
            draws[:, mine] = self._mixed(*used, mine)
        if self.weights is not None and not shares.any():
            return blend, shares, draws  # weights that come from other cells need not gain here once more
        instead = Blend.nothing(len(self.process.values), self.process.n_features)
        if self.weights is not None:
            instead = self._chosen_at(everywhere, 0.0)[0]
        without = self._mixed(instead, np.zeros_like(shares), everywhere)
        if self._score(draws) < (1 - _LEAST_GAIN) * self._score(without):
            return blend, shares, draws
        return instead, np.zeros_like(shares), without

    def _chosen_at(self, cells: np.ndarray, most: float) -> tuple[Blend, np.ndarray]:
        process = self.process.at(cells)
        blend = process.blend(self.weights)
        if len(self.truth) < LEAST:  # moved gaps give the weights; too few cells say how wide intervals should be
            blend = replace(blend, spread=np.ones_like(blend.spread))
        if self.alone.any():
            blend = Blend(
                np.where(self.alone[:, None], 0.0, blend.weights), np.where(self.alone[:, None], 1.0, blend.spread)
            )
        shares = np.zeros_like(blend.spread)
        if self.network is not None and most > 0:
            of_process, of_network = self._moved(blend, cells), self.network[:, cells]
            shares = network_shares(
                *(x / self.spread[cells] for x in (of_process, of_network, self.truth[cells])),
                feature=process.feature, gap_class=process.gap_class, n_features=process.n_features, most=most,
            )  # fmt: skip
        return blend, shares

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

    def _score(self, draws: np.ndarray) -> float:
        """Mean continuous ranked probability score of draws (S, M)."""
        return float(crps(draws / self.spread, self.truth / self.spread).mean())

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


def _method_values(panel: Panel, fitted: FittedMethods, at: HiddenDraws) -> tuple[list[np.ndarray], np.ndarray]:
    """Values (M,) of other methods than the process at hidden cells, and the classes of the cells' gaps."""
    values = [np.empty(len(at.truth)) for _ in fitted.components]
    gap_class = np.empty(len(at.truth), int)
    for s in np.unique(at.place[0]).tolist():
        series, in_series = panel.series[s], at.place[0] == s
        cells, known = (at.feature[in_series], at.place[1][in_series]), fitted.base.scaler_.transform(series.values)
        for value, of_series in zip(values, fitted.values(known, clock_times(series, panel.clock)), strict=True):
            value[in_series] = of_series[cells]
        gap_class[in_series] = gap_classes(~series.observed, fitted.independent)[cells]
    return values, gap_class


def network_shares(
    process: np.ndarray, network: np.ndarray, truth: np.ndarray, feature: np.ndarray, gap_class: np.ndarray,
    n_features: int, most: float,
) -> np.ndarray:  # fmt: skip
    """(K, C) shares of a network with the lowest continuous ranked probability score of the mixture.

    With a share w the score is ``(1 - w, w) a - (1 - w, w) B (1 - w, w)' / 2``: a holds the mean distances of draws
    from the truth, B those between two draws of the same or of both. Shares are drawn towards those of all features.

    Args:
        process, network: (S, M) draws at M hidden cells, in units in which all features count alike.
        truth, feature, gap_class: (M,).
        most: largest share.
    """
    shares = _SHARES[most + 1e-9 >= _SHARES]
    rest = 1 - shares
    factors = np.stack([rest, shares, -(rest**2) / 2, -rest * shares, -(shares**2) / 2], 1)
    to_truth = [np.abs(draws - truth).mean(0) for draws in (process, network)]
    between = [_distance(a, b) for a, b in ((process, process), (process, network), (network, network))]
    terms = np.stack([*to_truth, *between])
    of_all = factors @ terms.mean(1)
    out = np.zeros((n_features, N_CLASSES))
    for c in range(N_CLASSES):
        of_class = _towards(of_all, factors, terms[:, gap_class == c])
        for k in range(n_features):
            scores = _towards(of_class, factors, terms[:, (gap_class == c) & (feature == k)])
            out[k, c] = shares[int(np.argmin(scores + _LEAST_NETWORK_GAIN * scores[0] * shares))]  # no gain by chance
    return out


def _towards(prior: np.ndarray, factors: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """(P,) scores of shares at n cells, n / (n + prior cells) of them these cells' alone; in units of the prior's."""
    n = terms.shape[1]
    if not n:
        return prior
    scores = factors @ terms.mean(1)
    scores *= prior[0] / max(scores[0], 1e-12)  # a feature that is hard to fill counts no more
    return (n * scores + _PRIOR_CELLS * prior) / (n + _PRIOR_CELLS)


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(M,) mean distance of a draw (S, M) of one and another draw of the other, which may be the same method."""
    n, m = len(a), len(b)
    if a is b:
        return _sum_of_distances(a) / max(1, n * (n - 1))
    both = np.concatenate([a, b])
    return (_sum_of_distances(both) - _sum_of_distances(a) - _sum_of_distances(b)) / (2 * n * m)


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


def masks_of(hidden: Sequence[np.ndarray], at: HiddenDraws) -> list[np.ndarray]:
    """Per series (K, T) bool, the cells at which there are draws."""
    masks = [np.zeros_like(cells) for cells in hidden]
    for s, k, t in zip(at.place[0], at.feature, at.place[1], strict=True):
        masks[s][k, t] = True
    return masks

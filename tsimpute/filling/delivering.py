"""What is delivered for a table: a Gaussian process, a network, straight lines, or a mixture, as hidden cells say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from tsimpute.ensembles import crps
from tsimpute.errors import DataError
from tsimpute.filling.calendar import with_calendar
from tsimpute.filling.calibration import LEAST, Calibration
from tsimpute.filling.hidden_draws import Budget, Hidden, drawn_at
from tsimpute.filling.learning import gaussian
from tsimpute.filling.lines import Lines, gap_classes
from tsimpute.filling.measuring import calibrated_on, halves, scores_of, spreads_of
from tsimpute.filling.mixture import GAUSSIAN, LINES, METHODS, NETWORK, Mixture, chosen_of, in_pairs
from tsimpute.filling.simple_guesses import LINEAR
from tsimpute.filling.weights import best_weights
from tsimpute.filling.windows import without
from tsimpute.imputers.base import TableModel
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.imputers.linear import interpolated
from tsimpute.limits import Limits
from tsimpute.panel import Panel
from tsimpute.seeding import derive_seed
from tsimpute.terminal import Tell
from tsimpute.windows import Feature

_LEAST_GAIN = 0.002
"""Share of the score of the best method alone by which a mixture has to be better."""
Scores = tuple[dict[str, str | float], ...]


@dataclass(frozen=True, eq=False)
class Material:
    """What is learnt from and measured on.

    Attributes:
        panel: with the values of hidden cells.
        hidden: per series (K, T) bool.
        gaps: per series (K, T) bool, the cells that are filled in use.
        limits: by feature.
        levels: of the quantiles.
        n_samples, seed: of draws.
        windows: see ``Budget``.
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
    def shown(self) -> Panel:
        """All that may be learnt from."""
        return without(self.panel, self.hidden)

    def drawn(self, model: TableModel, progress: Tell, at: Sequence[np.ndarray] | None = None) -> Hidden:
        """Draws of a model at the hidden cells, or some of them."""
        panel = with_calendar(self.panel, tuple(feature for feature in model.features_ if feature.given))
        return drawn_at(
            model, panel, self.hidden, n_samples=self.n_samples, seed=self.seed, gaps=self.gaps,
            budget=Budget(self.windows), at=at, progress=partial(progress, "measuring"),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Delivered:
    """What was learnt and measured.

    Attributes:
        model: that fills tables.
        calibration: of its quantiles.
        scores: see ``measuring.scores_of``.
        shares: (3,) of the draws at hidden cells, in the order of ``mixture.METHODS``; None = nothing was measured.
        base: the process.
        at: draws of the process at hidden cells; None = there are none.
        note: why there is no network, or "".
    """

    model: TableModel
    calibration: Calibration
    scores: Scores
    shares: np.ndarray | None
    base: GaussianImputer
    at: Hidden | None
    note: str = ""

    @property
    def text(self) -> str:
        """What is delivered, and by how much it is better than a straight line."""
        return f"{_shares_text(self.shares)}{gain_text(self.scores)}{f'; {self.note}' * bool(self.note)}"


def first_answer(material: Material, progress: Tell) -> Delivered:
    """The process, or straight lines where they are better."""
    base = gaussian(material.shown, material.limits, material.seed, progress)
    if not any(cells.any() for cells in material.hidden):
        return Delivered(base, Calibration(), (), None, base, None)
    return mixed(material, base, None, material.drawn(base, progress), None)


def mixed(
    material: Material, base: GaussianImputer, network: GenerativeImputer | None, of_base: Hidden,
    of_network: Hidden | None, most: float = 1.0,
) -> Delivered:  # fmt: skip
    """The mixture that hidden cells say is best, measured with shares from other cells than those it is measured on.

    Args:
        of_base: draws at hidden cells.
        of_network: draws at some of these cells, in any order.
        most: largest share of the network.
    """
    at = of_base
    if of_network is not None:
        own, others = common(material.hidden, of_base, of_network)
        of_base, of_network = of_base.at(own), of_network.at(others)
    if len(of_base.truth) < LEAST:
        calibration = calibrated_on(base, of_base, material.levels)
        return Delivered(base, calibration, scores_of(base, material.panel, of_base), np.eye(3)[GAUSSIAN], base, at)
    cells = _Cells.of(material, base, of_base, of_network)
    shares, draws = _chosen(cells, of_base, most if network is not None else 0.0)
    per_cell = shares[of_base.feature, cells.gap].mean(0)
    beside: list[tuple[TableModel, Hidden]] = [(base, of_base)]
    if network is not None and of_network is not None:
        beside.append((network, of_network))
    if not per_cell[NETWORK]:
        network = None
    if per_cell[GAUSSIAN] == 1:
        calibration = calibrated_on(base, of_base, material.levels)
        scores = scores_of(base, material.panel, of_base, beside[1:])
        return Delivered(base, calibration, scores, per_cell, base, at)
    model, delivered = Mixture(base, network, cells.lines, shares), replace(of_base, draws=draws)
    calibration = calibrated_on(model, delivered, material.levels)
    return Delivered(model, calibration, scores_of(model, material.panel, delivered, beside), per_cell, base, at)


def _chosen(cells: _Cells, hidden: Hidden, most: float) -> tuple[np.ndarray, np.ndarray]:
    """(K, C, 3) shares and (S, M) draws of the mixture, or of one method where the mixture is no better.

    The draws at each half of the cells are with the shares that the other half says are best.
    """
    everywhere = np.ones(len(cells.truth), bool)
    shares, draws = cells.shares(everywhere, most), np.empty_like(hidden.draws)
    for mine in halves(hidden):
        # A half with too few cells takes the shares of all.
        used = cells.shares(~mine, most) if (~mine).sum() >= LEAST else shares
        draws[:, mine] = cells.mixed(used, mine)
    alone = [GAUSSIAN, LINES, *[NETWORK] * (most >= 1)]
    score = {method: cells.score(cells.draws[method]) for method in alone}
    best = min(alone, key=lambda method: score[method])
    if cells.score(draws) < (1 - _LEAST_GAIN) * score[best]:
        return shares, draws
    return np.broadcast_to(np.eye(3)[best], shares.shape).copy(), cells.draws[best]


@dataclass(frozen=True, eq=False)
class _Cells:
    """Draws of all methods at hidden cells.

    Attributes:
        draws: by method (S, M), in the data's units; those that are opposite follow each other.
        spread: (M,) in whose units all features count alike.
        gap: (M,) class of the gap.
        lines: of straight lines.
    """

    draws: tuple[np.ndarray, ...]
    truth: np.ndarray
    feature: np.ndarray
    spread: np.ndarray
    gap: np.ndarray
    lines: Lines
    n_features: int

    @classmethod
    def of(cls, material: Material, base: GaussianImputer, of_base: Hidden, of_network: Hidden | None) -> _Cells:
        classes = [gap_classes(~series.observed) for series in material.shown.series]
        series, step = of_base.place
        gap = np.array([classes[s][k, t] for s, k, t in zip(series, of_base.feature, step, strict=True)])
        n_samples, scaler, feature = material.n_samples, base.scaler_, of_base.feature
        truth = scaler.transform_cells(of_base.truth, feature)
        line = _lines_at(material.shown, base, of_base)
        lines = Lines.fit(truth - line, feature, gap, len(base.features_))
        rng = np.random.default_rng(derive_seed(material.seed, "lines at hidden cells"))
        of_lines = scaler.inverse_cells(lines.at_cells(line, feature, gap, n_samples, rng), feature)
        of_base_draws = of_base.draws[in_pairs(n_samples)]
        network = of_base_draws if of_network is None else of_network.draws
        return cls(
            (of_base_draws, network, of_lines), of_base.truth, feature, spreads_of(material.panel)[feature], gap,
            lines, len(base.features_),
        )  # fmt: skip

    def shares(self, cells: np.ndarray, most: float) -> np.ndarray:
        """(K, C, 3) the best shares for some cells (M,) bool."""
        draws = [of_one[:, cells] / self.spread[cells] for of_one in self.draws]
        return best_weights(
            draws,
            (self.truth / self.spread)[cells],
            self.feature[cells],
            self.gap[cells],
            self.n_features,
            (1, most, 1),
        )

    def score(self, draws: np.ndarray) -> float:
        """Mean continuous ranked probability score of draws (S, M)."""
        return float(crps(draws / self.spread, self.truth / self.spread).mean())

    def mixed(self, shares: np.ndarray, cells: np.ndarray) -> np.ndarray:
        """(S, M') draws of the mixture with (K, C, 3) shares at some cells."""
        chosen = chosen_of(len(self.draws[0]), shares[self.feature[cells], self.gap[cells]])
        return np.choose(chosen, [of_one[:, cells] for of_one in self.draws])


def _lines_at(panel: Panel, base: GaussianImputer, at: Hidden) -> np.ndarray:
    """(M,) straight lines between standardised values: limits hold, and whole numbers need no rounding."""
    out = np.empty(len(at.truth))
    for s in np.unique(at.place[0]).tolist():
        series, here = panel.series[s], at.place[0] == s
        known = base.scaler_.transform(series.values)
        line = interpolated(known[None], series.times[None], np.zeros(len(known)))[0]
        out[here] = line[at.feature[here], at.place[1][here]]
    return out


def common(hidden: Sequence[np.ndarray], a: Hidden, b: Hidden) -> tuple[np.ndarray, np.ndarray]:
    """Where the cells that both hold stand in each."""
    offsets = np.concatenate([[0], np.cumsum([cells.size for cells in hidden])])
    lengths = np.array([cells.shape[1] for cells in hidden])
    flat = [offsets[h.place[0]] + h.feature * lengths[h.place[0]] + h.place[1] for h in (a, b)]
    _, own, others = np.intersect1d(*flat, assume_unique=True, return_indices=True)
    order = np.argsort(own)  # cells stay in the order of their blocks
    return own[order], others[order]


def process_beside(
    material: Material, model: TableModel, measured: Hidden, progress: Tell
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
        base = gaussian(own.shown, limits, material.seed, progress)
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


def _shares_text(shares: np.ndarray | None) -> str:
    if shares is None:
        return f"the {METHODS[GAUSSIAN]}"
    if shares.max() > 0.995:
        method = int(shares.argmax())
        return f"{LINEAR} with the distribution of its errors" if method == LINES else f"the {METHODS[method]}"
    parts = [f"{share:.0%} {name}" for share, name in zip(shares, METHODS, strict=True) if share >= 0.005]
    return f"a mixture of draws: {', '.join(parts)}"


def gain_text(scores: Scores) -> str:
    """How much nearer to hidden cells the last row is than straight lines."""
    rows = {str(row["imputer"]): row for row in scores}
    line = rows.get(LINEAR)
    if line is None:
        return ""
    own, other, units = float(scores[-1]["MAE"]), float(line["MAE"]), scores[-1]["units"]
    change = (other - own) / other if other > 0 else 0.0
    than = f"{abs(change):.0%} {'less' if change >= 0 else 'more'} than that of {LINEAR} ({other:.4g})"
    than = f"as that of {LINEAR} ({other:.4g})" if abs(change) < 0.005 else than
    return f"; mean absolute error on hidden cells {own:.4g} {units}, {than}"

"""The first answer for a table: a Gaussian process, or its mixture with other methods, whichever scores better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from tsimpute.core.panel import Panel, Series
from tsimpute.core.seeding import derive_seed
from tsimpute.errors import DataError
from tsimpute.filling.blending.blend import Comparison
from tsimpute.filling.blending.choosing import common_cells, masks_of, mixed
from tsimpute.filling.blending.delivered import DeliveredModel, FittedTwice, FittingData
from tsimpute.filling.blending.mixture import FittedMethods, Mixture
from tsimpute.filling.learning.learning import gaussian
from tsimpute.filling.measuring.calibration import LEAST, Calibration, calibrated_on, draws_at_further_cells
from tsimpute.filling.measuring.hidden_draws import HiddenDraws
from tsimpute.filling.methods.components import AT_KNOWN, COMPONENTS, fitted_again
from tsimpute.filling.panels.windows import clock_times, gap_classes, gap_numbers, window_steps, without
from tsimpute.imputers.base import TableModel
from tsimpute.system.terminal import Tell

MANY_CELLS = 200_000
"""Known values from which on nothing is gained by fitting to the hidden ones, too."""


def first_answer(material: FittingData, progress: Tell) -> DeliveredModel:
    """The process, its draws moved towards other methods where that lowers the score.

    It is measured without the hidden cells, and fitted to all values for what it fills, unless there are so many that
    it learns nothing more from the hidden ones (a year of 36 stations: MAE .1488 and .1487, and twice the time).
    """
    base = gaussian(material.visible, material.limits, material.seed, progress)
    components = [component.fit(material.visible, base, material.seed) for component in COMPONENTS]
    blind = FittedMethods(base, tuple(component for component in components if component is not None))
    if not any(cells.any() for cells in material.hidden):
        return DeliveredModel(base, Calibration(), (), None, FittedTwice(blind, blind), None)
    compared, n_hidden = None, sum(int(cells.sum()) for cells in material.hidden)
    if n_hidden < LEAST or not blind.independent:  # the gaps of records are cells like the hidden ones
        compared = compared_under_moved_gaps(material.visible, blind, material.gaps, material.seed)
    fitted = FittedTwice(blind, blind, weights=None if compared is None else compared.blend().weights)
    answer = mixed(material, fitted, None, material.drawn(base, progress), None)
    if sum(int(series.observed.sum()) for series in material.visible.series) > MANY_CELLS:
        return answer
    used = [isinstance(answer.model, Mixture) and c in answer.model.fitted.components for c in blind.components]
    whole = _fitted_to_all(blind, used, material, progress)
    model: TableModel = whole.base
    if isinstance(answer.model, Mixture):
        model = Mixture(whole.only(used), answer.model.blend)
    calibration, again = answer.calibration, ()
    if answer.measured is not None:
        setup = material.panel, material.hidden, material.gaps, material.n_samples, material.seed
        again = tuple(draws_at_further_cells(model, *setup))
        calibration = calibrated_on(model, answer.measured, material.levels, again)
    return replace(
        answer, model=model, calibration=calibration, base=replace(fitted, whole=whole, again=again), measured=None
    )


def _fitted_to_all(blind: FittedMethods, used: Sequence[bool], material: FittingData, progress: Tell) -> FittedMethods:
    """The same methods fitted to all values; those that draws are not moved towards stay as they are.

    Settings are chosen anew: with those that were chosen without the hidden cells the error of meteo with sensors out
    was several times as high.
    """
    base = gaussian(material.panel, material.limits, material.seed, progress)
    components = [
        fitted_again(component, material.panel, base, material.seed) if is_used else component
        for component, is_used in zip(blind.components, used, strict=True)
    ]
    return FittedMethods(base, tuple(components))


def process_at_same_cells(
    material: FittingData, model: TableModel, measured: HiddenDraws, progress: Tell
) -> tuple[HiddenDraws, tuple[tuple[TableModel, HiddenDraws]]] | None:
    """A model's draws at hidden cells, and those of a Gaussian process fitted to the table, at the same cells.

    None where no process can be fitted to the table, or there are too few common cells.

    Args:
        material: its panel may have covariates after the model's features; limits are the model's.
        measured: the model's draws.
    """
    n_features = sum(not feature.given for feature in model.features_)
    warps = (model.scaler_.warps or [None] * n_features)[:n_features]
    limits = {f.name: warp.limits for f, warp in zip(model.features_, warps, strict=False) if warp is not None}
    series = tuple(replace(s, values=s.values[:n_features]) for s in material.panel.series)
    panel = replace(material.panel, features=material.panel.features[:n_features], series=series)
    of_process = replace(material, panel=panel, limits=limits)
    try:
        base = gaussian(of_process.visible, limits, material.seed, progress)
    except DataError:
        return None
    of_base = of_process.drawn(base, progress, masks_of(material.hidden, measured))
    at, others = common_cells(material.hidden, measured, of_base)
    if len(at) < min(LEAST, len(measured.truth)):
        return None
    return measured.at(at), ((base, of_base.at(others)),)


_TIMES, _ENOUGH = (3, 8), 10_000
"""Gaps are moved so many times, fewer where that gives so many cells."""
_MOST_CELLS, _FEWEST_CELLS = 250_000, 100
"""Of the table, all moves together; and of the gaps, below which nothing is compared."""
_NODES = ndtri((np.arange(12) + 0.5) / 12)
"""Of the quantiles that stand for draws."""


def compared_under_moved_gaps(
    panel: Panel, fitted: FittedMethods, gaps: Sequence[np.ndarray], seed: int
) -> Comparison | None:
    """Methods compared at observed cells under gaps like these; None where there are too few, or the table is large.

    Cells that a process was not fitted to are few, and of long gaps there are one or two. Many gaps of the table's
    kind, moved to other times and features, show more surely which method fits them best: they cover cells that the
    methods were fitted to, but whose values they do not see when they fill them. The parameters have seen these values,
    so errors are somewhat too small there, those of straight lines least of all. So only the weights of methods come
    from these cells; the width of intervals and reported scores come from the hidden cells, which are not used here.

    Args:
        panel: that the methods were fitted to.
        gaps: per series (K, T) bool, the cells that are filled in use.
        seed: of where gaps are moved to.
    """
    n_gaps = max(1, sum(int(cells.sum()) for cells in gaps))
    n_times = min(int(np.clip(-(-_ENOUGH // n_gaps), *_TIMES)), _MOST_CELLS // max(1, panel.n_cells))
    parts = []
    for number in range(n_times):
        hidden = moved_gaps(panel, gaps, (number, n_times), seed)
        blind, length = without(panel, hidden), window_steps(panel)
        parts += [
            _compared(fitted, series, whole, cells, length, clock_times(series, panel.clock))
            for series, whole, cells in zip(blind.series, panel.series, hidden, strict=True)
            if cells.any()
        ]
    return Comparison.joined(parts) if sum(len(part.truth) for part in parts) >= _FEWEST_CELLS else None


def moved_gaps(panel: Panel, gaps: Sequence[np.ndarray], turn: tuple[int, int], seed: int) -> list[np.ndarray]:
    """Per series (K, T) bool: observed cells under gaps that are moved along the series, and on to other features.

    A feature of which that would leave less than half keeps all.

    Args:
        turn: number of the move, and how many there are: all times have their turn.
    """
    number, n_times = turn
    masks = []
    for series, cells in zip(panel.series, gaps, strict=True):
        n_features, n_steps = cells.shape
        rng = np.random.default_rng(derive_seed(seed, "moved gaps", series.name, number))
        reach = n_steps // (4 * n_times + 4)
        by = n_steps * (number + 1) // (n_times + 1) + int(rng.integers(-reach, reach + 1))
        hidden = series.observed & np.roll(np.roll(cells, by, axis=1), number % n_features, axis=0)
        hidden[2 * hidden.sum(1) > series.observed.sum(1)] = False
        masks.append(hidden)
    return masks


def _compared(
    fitted: FittedMethods, series: Series, whole: Series, cells: np.ndarray, length: int, times: np.ndarray
) -> Comparison:
    """The process, by quantiles as draws that need no luck, and the other methods at cells hidden from a series."""
    base, components = fitted.base, [component for component in fitted.components if isinstance(component, AT_KNOWN)]
    known, missing, n_features = base.scaler_.transform(series.values), ~series.observed, len(base.features_)
    mean, spread = base.model_.marginals(known, times, None if base.curves_ is not None else cells)
    if base.curves_ is not None:
        move, factor = base.curves_.moves(mean, spread, times)
        mean, spread = mean + move, spread * factor
    quantiles = np.stack([base.model_.values(mean + node * spread, times)[cells] for node in _NODES.tolist()])
    feature, step = np.nonzero(cells)
    return Comparison(
        quantiles, [component.at(known, times, cells)[cells] for component in components],
        base.scaler_.transform(whole.values)[cells], feature,
        gap_classes(missing, fitted.independent)[cells], gap_numbers(missing, fitted.independent)[cells],
        step // max(1, length // 2) * n_features + feature, n_features, tuple(c.local for c in components),
    )  # fmt: skip

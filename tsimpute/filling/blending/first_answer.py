"""The first answer for a table: a Gaussian process or its mixture with other methods; and the same with trees."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from tsimpute.core.panel import Panel, Series
from tsimpute.core.seeding import derive_seed
from tsimpute.errors import DataError
from tsimpute.filling.blending.blend import Comparison
from tsimpute.filling.blending.choosing import FIRST, DeliveredModel, FittedTwice, FittingData, common_cells, mixed
from tsimpute.filling.blending.mixture import FittedMethods, Mixture
from tsimpute.filling.learning.learning import gaussian
from tsimpute.filling.measuring.calibration import LEAST, Calibration, calibrated_on, draws_at_further_cells
from tsimpute.filling.measuring.hidden_draws import HiddenDraws
from tsimpute.filling.methods.components import AT_KNOWN, COMPONENTS, Unseasonal, fitted_again
from tsimpute.filling.methods.forest import Forest, Watch
from tsimpute.filling.panels.windows import clock_times, gap_classes, gap_numbers, window_steps, without
from tsimpute.imputers.base import TableModel
from tsimpute.system.run import Run
from tsimpute.system.terminal import Tell

MANY_CELLS = 200_000
"""Known values from which on nothing is gained by fitting to the hidden ones, too."""
_TIMES, _ENOUGH = (3, 8), 10_000
"""Gaps are moved so many times, fewer where that gives so many cells."""
_MOST_CELLS, _FEWEST_CELLS = 250_000, 100
"""Of the table, all moves together; and of the gaps, below which nothing is compared."""
_NODES = ndtri((np.arange(12) + 0.5) / 12)
"""Of the quantiles that stand for draws."""
_LEAST_GAIN = 0.005
"""Share of the score without trees by which it has to be lower with them: what is less may be chance."""
_FIRST, _AGAIN = 0.6, 1.5
"""Share of the time in which trees have to grow; they grow again if so many times as long as that took is left."""
_LEAST_SECONDS = 5.0
"""With less left nothing is begun."""


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
    mixture = answer.model if isinstance(answer.model, Mixture) else None
    used = [mixture is not None and component in mixture.fitted.components for component in blind.components]
    # Settings are chosen anew: with those that were chosen without the hidden cells the error of meteo with sensors out
    # was several times as high. Methods that draws are not moved towards stay as they are.
    base = gaussian(material.panel, material.limits, material.seed, progress)
    components = [
        fitted_again(component, material.panel, base, material.seed) if is_used else component
        for component, is_used in zip(blind.components, used, strict=True)
    ]
    whole = FittedMethods(base, tuple(components))
    model: TableModel = base if mixture is None else Mixture(whole.only(used), mixture.blend)
    calibration, again = answer.calibration, ()
    if answer.measured is not None:
        setup = material.panel, material.hidden, material.gaps, material.n_samples, material.seed
        again = tuple(draws_at_further_cells(model, *setup))
        calibration = calibrated_on(model, answer.measured, material.levels, again)
    whole_too = replace(fitted, whole=whole, again=again)
    return replace(answer, model=model, calibration=calibration, base=whole_too, measured=None)


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
    of_base = of_process.drawn(base, progress, measured)
    at, others = common_cells(material.hidden, measured, of_base)
    if len(at) < min(LEAST, len(measured.truth)):
        return None
    return measured.at(at), ((base, of_base.at(others)),)


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


def with_forest(data: FittingData, first: DeliveredModel, until: float, run: Run) -> DeliveredModel:
    """The first answer, or one whose draws are also moved towards randomised trees if that is better on hidden cells.

    Args:
        until: ``time.monotonic()`` at which it should end.
    """
    began = time.monotonic()
    if first.at is None or len(first.at.truth) < LEAST:
        n_cells = 0 if first.at is None else len(first.at.truth)
        return replace(first, note=f"no trees: {n_cells} hidden cells are too few to tell whether they help")
    if until - began < _LEAST_SECONDS:
        return replace(first, note=f"no trees: {max(0.0, until - began):.0f} seconds are left")
    watch = _watch(began + _FIRST * (until - began), run)
    blind, whole = first.base.blind, first.base.whole
    forest = Forest.fit(data.visible, blind.base, data.seed, _unseasonal(blind), watch)
    if run.should_stop():
        return replace(first, note="no trees: it was stopped before they had grown")
    if forest is None:
        why = "the time does not suffice" if watch.should_stop() else "too few values are known"
        return replace(first, note=f"no trees: {why}")
    methods = FittedMethods(blind.base, (*blind.components, forest))
    better = mixed(data, FittedTwice(methods, methods, weights=first.base.weights), None, first.at, None)
    before, after = (float(answer.scores[-1]["CRPS"]) for answer in (first, better))
    mixed_in = better.model.fitted.components if isinstance(better.model, Mixture) else ()
    used = [component in mixed_in for component in methods.components]
    if not isinstance(better.model, Mixture) or not used[-1] or after > (1 - _LEAST_GAIN) * before:
        return replace(first, note=f"randomised trees lower the CRPS on hidden cells by less than {_LEAST_GAIN:.1%}")
    took = time.monotonic() - began
    # Components that the first answer does not use were not fitted to all values; those in use now are.
    components = [
        fitted_again(component, data.panel, whole.base, data.seed)
        if whole is not blind and fitted is component and (is_used or isinstance(component, Unseasonal))
        else fitted
        for component, fitted, is_used in zip(blind.components, whole.components, used[:-1], strict=True)
    ]
    whole = FittedMethods(whole.base, tuple(components))
    if whole.base is not blind.base:
        # Trees that know another process's errors do harm: airq with blocks out 2 % more error than without them.
        watch = _watch(until, run)
        late = time.monotonic() + _AGAIN * took > until
        again = None if late else Forest.fit(data.panel, whole.base, data.seed, _unseasonal(whole), watch)
        if again is None:
            return replace(first, note="no trees: the time does not suffice for those of all values")
        forest = again
    model: TableModel = Mixture(FittedMethods(whole.base, (*components, forest)).only(used), better.model.blend)
    scores = (*better.scores[:-1], first.scores[-1] | {"imputer": FIRST}, better.scores[-1])
    return replace(better, model=model, base=first.base, scores=scores)


def _unseasonal(learnt: FittedMethods) -> Unseasonal | None:
    return next((component for component in learnt.components if isinstance(component, Unseasonal)), None)


def _watch(until: float, run: Run) -> Watch:
    """Half of the time is for masks. At the end of the time an unfinished forest is given up."""
    half = (time.monotonic() + until) / 2
    return Watch(
        lambda done, total: run.progress("fitting", done, total),
        late=lambda: time.monotonic() > half,
        should_stop=lambda: run.should_stop() or time.monotonic() > until,
    )

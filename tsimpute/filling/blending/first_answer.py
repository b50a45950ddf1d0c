"""The first answer for a table: a Gaussian process, or its mixture with other methods, whichever scores better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tsimpute.errors import DataError
from tsimpute.filling.blending.choosing import common_cells, masks_of, mixed
from tsimpute.filling.blending.delivered import DeliveredModel, FittedTwice, FittingData
from tsimpute.filling.blending.mixture import FittedMethods, Mixture
from tsimpute.filling.blending.moved_gaps import compared_under_moved_gaps
from tsimpute.filling.learning.learning import gaussian
from tsimpute.filling.measuring.accuracy import calibrated_on, draws_at_further_cells
from tsimpute.filling.measuring.calibration import LEAST, Calibration
from tsimpute.filling.measuring.hidden_draws import HiddenDraws
from tsimpute.filling.methods.components import COMPONENTS, fitted_again
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

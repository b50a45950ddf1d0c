"""Fitting to a prepared table: a first answer, measured on hidden cells, which is improved while there is time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from tsimpute.core.limits import Limits, limits_of
from tsimpute.core.panel import FILLED, Clock, Panel
from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.blending.choosing import DeliveredModel, FittingData
from tsimpute.filling.blending.first_answer import first_answer, process_at_same_cells, with_forest
from tsimpute.filling.blending.with_network import with_network
from tsimpute.filling.imputer.saved_tables import FittedTable, SavedImputer
from tsimpute.filling.learning.learning import EFFORTS, Effort, learnt
from tsimpute.filling.measuring.calibration import calibrated_on, scores_of
from tsimpute.filling.measuring.hidden_draws import hidden_cells, hidden_together
from tsimpute.filling.panels.calendar import calendar_text, with_calendar
from tsimpute.filling.preparing.model_rules import matched
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.filling.preparing.table_settings import Settings
from tsimpute.imputers.base import TableModel
from tsimpute.system.run import Run
from tsimpute.tables.clock.steps import step_text

_CLOCKS = {"hours": "dates or hours:minutes", "": "times that are plain numbers", "steps": "rows that count as steps"}
ENOUGH, MOST_HIDDEN = 250, 0.2
"""Hidden cells that suffice, and the largest share of the observed cells that is hidden to have so many."""


def checked_model(
    model: TableModel | None, prepared: Prepared, fitted: FittedTable | None, calendar: bool
) -> TableModel:
    """The model, if it can fill the table; ``fitted`` is the one that the imputer was fitted to, if it is known.

    Raises:
        ConfigError: the limits or the calendar differ from the model's.
        DataError: there is no model, or the clock or the step differ from the model's.
    """
    if model is None:
        names = [kind.feature for kind in prepared.kinds if kind.predicted]
        raise DataError(
            f"features: expected gaps that rules fill, as in the table that was fitted, came gaps of "
            f"{', '.join(names)}. Fit on a table in which they are measured."
        )
    _check_limits(model, prepared.model_limits)
    clock, known = prepared.visible.clock, None if fitted is None else fitted.clock.step
    check_clock(model, clock)
    if fitted is not None and known is not None and clock.step is not None and not np.isclose(known, clock.step):
        expected, came = (step_text(step) if clock.unit == "hours" else f"{step:g}" for step in (known, clock.step))
        raise DataError(
            f"times: expected a step of {expected}, as in {fitted.name} that the model was fitted to; came {came}. "
            "Bring the table to that step (as pandas' resample does), or fit on the table itself."
        )
    given = [feature for feature in model.features_ if feature.given]
    if given and not calendar:
        raise ConfigError(
            f"calendar: expected True with this model, which was given {calendar_text(given)}; came {calendar}."
        )
    if calendar and not given and not model.whole_series:  # one of whole series models seasons by itself
        raise ConfigError(
            "calendar: expected False with this model, which has learnt without one; came True. Leave it out, or fit "
            "on the table itself (no model)."
        )
    return model


def check_any_value(prepared: Prepared) -> None:
    """Refuses (DataError) to learn from a table in which nothing was measured: its gaps cannot be filled."""
    if not any(series.observed.any() for series in prepared.panel.series):
        names = [feature.name for feature in prepared.panel.features]
        raise DataError(
            f"table: expected at least one value to learn from, all cells of {', '.join(names[:10])}"
            f"{', ...' if len(names) > 10 else ''} are missing. Choose the columns to fill (features), or give a model "
            "that was learnt from another table."
        )


def check_clock(model: TableModel, clock: Clock) -> None:
    """Refuses (DataError) a table whose times have another unit than those that the model learned from."""
    if model.time_unit_ not in (None, clock.unit):
        raise DataError(
            f"times: expected {_CLOCKS[model.time_unit_]}, as the model has learnt, came {_CLOCKS[clock.unit]}. Give "
            f"the times so (time names their column), or fit on the table itself."
        )


def _check_limits(model: TableModel, limits: Mapping[str, Limits]) -> None:
    """Refuses limits that are narrower than the model's: its draws would lie outside of them."""
    bijections = model.scaler_.warps or [None] * len(model.features_)
    by_name = {f.name: bijection for f, bijection in zip(model.features_, bijections, strict=True) if not f.given}
    names = list(by_name)
    bounds = {name: pair for name, pair in limits.items() if name == "*" or name in names}
    for (name, bijection), wanted in zip(by_name.items(), limits_of(names, bounds), strict=True):
        learned = Limits() if bijection is None else bijection.limits
        ends = np.array([learned.low, learned.high], float)
        pairs = ((learned.low, wanted.low), (learned.high, wanted.high))
        is_missing = any(has is None and wants is not None for has, wants in pairs)
        is_missing |= wanted.integer and not learned.integer
        if wanted.outside(ends[~np.isnan(ends)]).any() or is_missing:
            raise ConfigError(
                f"limits: expected limits that the model has learnt, came {wanted} for {name}, which it learnt with "
                f"{learned}. Fit on the table itself (no model), or leave these limits out."
            )


@dataclass(frozen=True, eq=False)
class Fit:
    """The result of a fit.

    Attributes:
        model: fills the gaps; None where rules fill all features.
        table: what is known of the table; None where only a model was given.
        delivered: what fills the gaps and how good it is, in words.
        answer: as it was measured; None where a model was given or a network alone was trained.
        data: what ``answer`` was fitted to and measured on; None where nothing improves it.
    """

    model: TableModel | None
    table: FittedTable | None
    delivered: str = ""
    answer: DeliveredModel | None = None
    data: FittingData | None = None

    def of(self, answer: DeliveredModel) -> Fit:
        """The same fit with another answer."""
        assert self.table is not None
        table = replace(self.table, calibration=answer.calibration, scores=answer.scores)
        return replace(self, model=answer.model, table=table, delivered=answer.text, answer=answer)

    def improved(self, settings: Settings, run: Run, until: float) -> Fit:
        """The better one of the first answer and an answer with a further method; see ``TableImputer.improve``."""
        assert self.answer is not None
        assert self.data is not None
        effort = EFFORTS[settings.effort]
        if effort.methods == "forest":
            return self.of(with_forest(self.data, self.answer, until, run)).final
        return self.of(with_network(self.data, self.answer, effort, run)).final

    @property
    def final(self) -> Fit:
        """Without what only an improvement needs, which is large."""
        return replace(self, answer=None, data=None)


def first_fit(prepared: Prepared, settings: Settings, run: Run, given: SavedImputer | None = None) -> Fit:
    """Trains the first model, unless one was given, and measures it on hidden cells of the table.

    A given one that was learnt and measured on this very table is not measured again: it has seen all cells of it.

    Raises:
        ConfigError, DataError: the given model cannot fill the table.
    """
    fit = Fit(None if given is None else given.model, FittedTable.of(prepared, run.name))
    panel, effort, categories = prepared.model_panel, EFFORTS[settings.effort], prepared.table.category_features
    if panel is None:
        return fit
    if given is not None and given.is_of(fit.table) and not settings.recalibrate:
        assert given.table is not None
        assert fit.table is not None
        if given.table.scores and settings.calibrate and not given.table.calibration.n_cells:
            checked_model(fit.model, prepared, given.table, settings.calendar)
            return replace(fit, table=replace(fit.table, scores=given.table.scores))
    hidden = [np.zeros(series.values.shape, bool) for series in panel.series]
    if settings.calibrate:
        hidden = hidden_cells(panel, hidden_share(effort, panel), settings.seed)
        hidden = hidden_together(panel, hidden, categories)
    gaps = [np.isin(of_series[prepared.predicted], FILLED) for of_series in prepared.provenance]
    data = FittingData(
        panel, hidden, gaps, prepared.model_limits, settings.levels, settings.n_samples, settings.seed, effort.windows,
        frozenset(chain(*categories)),
    )  # fmt: skip
    if given is not None:
        model: TableModel = checked_model(given.model, prepared, given.table, settings.calendar)
    elif effort.methods == "network":
        model = learnt(with_calendar(data.visible, prepared.calendar), data.limits, effort, settings.seed, run)
    else:
        fit = replace(fit, data=data if effort.improves else None)
        return fit.of(first_answer(data, run.progress))
    panel, match = matched(panel, model.features_, prepared.rules)
    hidden, gaps = ([match.to_model(cells, False) for cells in masks] for masks in (hidden, gaps))
    fit, data = replace(fit, model=model), replace(data, panel=panel, hidden=hidden, gaps=gaps)
    if fit.table is None or not any(cells.any() for cells in hidden):
        return fit
    draws, others = data.drawn(model, run.progress), ()
    calibration = calibrated_on(model, draws, settings.levels)
    if settings.model is not None and not model.whole_series:
        draws, others = process_at_same_cells(data, model, draws, run.progress) or (draws, ())
    scores = scores_of(model, panel, draws, others)
    return replace(fit, table=replace(fit.table, calibration=calibration, scores=scores))


def hidden_share(effort: Effort, panel: Panel) -> float:
    """Share of the observed cells that is hidden to measure on: more of small tables, if a process is fitted.

    The process loses little by that, and fewer than 100 hidden cells can neither choose nor calibrate anything.
    """
    if effort.methods == "network":
        return effort.hidden
    return float(np.clip(ENOUGH / max(1, panel.n_cells - panel.n_missing), effort.hidden, MOST_HIDDEN))

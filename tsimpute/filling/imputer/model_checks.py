"""Whether a fitted model can fill a table: the limits, clock, step and calendar that it learned must be the table's."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tsimpute.core.limits import Limits, limits_of
from tsimpute.core.panel import Clock
from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.imputer.saved_tables import FittedTable
from tsimpute.filling.panels.calendar import calendar_text
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.imputers.base import TableModel
from tsimpute.tables.clock.clock_texts import step_text

_CLOCKS = {"hours": "dates or hours:minutes", "": "times that are plain numbers", "steps": "rows that count as steps"}


def checked_model(
    model: TableModel | None, prepared: Prepared, fitted: FittedTable | None, calendar: bool
) -> TableModel:
    """The model, if it can fill the table.

    Args:
        fitted: the table that the imputer was fitted to; None where only a model is known.
        calendar: the setting.

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
    check_clock(model, prepared.visible.clock)
    if fitted is not None:
        _check_step(fitted, prepared.visible.clock)
    _check_calendar(model, calendar)
    return model


def check_any_value(prepared: Prepared) -> None:
    """Refuses to learn from a table in which nothing was measured: its gaps cannot be filled.

    Raises:
        DataError: all cells are missing.
    """
    if not any(series.observed.any() for series in prepared.panel.series):
        names = [feature.name for feature in prepared.panel.features]
        raise DataError(
            f"table: expected at least one value to learn from, all cells of {', '.join(names[:10])}"
            f"{', ...' if len(names) > 10 else ''} are missing. Choose the columns to fill (features), or give a model "
            "that was learnt from another table."
        )


def check_clock(model: TableModel, clock: Clock) -> None:
    """Refuses a table whose times have another unit than those that the model learned from.

    Raises:
        DataError: they have.
    """
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


def _check_step(fitted: FittedTable, clock: Clock) -> None:
    """Refuses a table of another step."""
    known = fitted.clock.step
    if known is not None and clock.step is not None and not np.isclose(known, clock.step):
        is_time = clock.unit == "hours"
        expected, came = (step_text(step) if is_time else f"{step:g}" for step in (known, clock.step))
        raise DataError(
            f"times: expected a step of {expected}, as in {fitted.name} that the model was fitted to; came {came}. "
            "Bring the table to that step (as pandas' resample does), or fit on the table itself."
        )


def _check_calendar(model: TableModel, calendar: bool) -> None:
    """Refuses a model that was given a calendar where none is set, and the other way round."""
    given = [feature for feature in model.features_ if feature.given]
    if model.whole_series and not given:
        return  # it models daily and weekly seasons by itself
    if given and not calendar:
        raise ConfigError(
            f"calendar: expected True with this model, which was given {calendar_text(given)}; came {calendar}."
        )
    if calendar and not given:
        raise ConfigError(
            "calendar: expected False with this model, which has learnt without one; came True. Leave it out, or fit "
            "on the table itself (no model)."
        )

"""What of a table imputer's settings can be refused before any work."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tsimpute.core.limits import Limits, limits_of
from tsimpute.core.panel import Clock
from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.imputer.learnt_tables import LearntTable
from tsimpute.filling.panels.calendar import calendar_text
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.filling.settings.table_settings import Settings
from tsimpute.imputers.base import TableModel
from tsimpute.tables.clock.axes import step_text

_CLOCKS = {"hours": "dates or hours:minutes", "": "times that are plain numbers", "steps": "rows that count as steps"}


def check_together(settings: Settings) -> None:
    """Refuses settings of which one makes the other pointless: it would be ignored.

    Raises:
        ConfigError: there are two such settings.
    """
    if settings.recalibrate and settings.model is None:
        raise ConfigError(
            "recalibrate: expected the file of an earlier fit with it (model), came none. Leave recalibrate out: what "
            "is learnt from a table is calibrated on it."
        )
    if settings.recalibrate and not settings.calibrate:
        raise ConfigError(
            "recalibrate: expected calibrate=True with it, came calibrate=False, which measures nothing. Leave one of "
            "them out."
        )
    if settings.time_options.irregular and settings.time_options.missing_times == "insert":
        raise ConfigError(
            "missing_times: expected a regular clock with missing_times='insert', came irregular=True, which takes the "
            "times as they are. Leave one of them out."
        )


def check_any_value(prepared: Prepared) -> None:
    """Refuses a table to learn from in which nothing was measured: its gaps cannot be filled.

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


def check_limits(model: TableModel, limits: Mapping[str, Limits]) -> None:
    """Refuses limits that a model has not learnt to keep to: what it draws would lie beyond them.

    Raises:
        ConfigError: a limit is narrower than the model's, or the model has none.
    """
    warps = model.scaler_.warps or [None] * len(model.features_)
    held_by = {f.name: warp for f, warp in zip(model.features_, warps, strict=True) if not f.given}
    names = list(held_by)
    bounds = {name: of_one for name, of_one in limits.items() if name == "*" or name in names}
    for (name, warp), asked in zip(held_by.items(), limits_of(names, bounds), strict=True):
        held = Limits() if warp is None else warp.limits
        ends = np.array([held.low, held.high], float)
        if asked.outside(ends[~np.isnan(ends)]).any() or _is_looser(held, asked):
            raise ConfigError(
                f"limits: expected limits that the model has learnt, came {asked} for {name}, which it learnt with "
                f"{held}. Fit on the table itself (no model), or leave these limits out."
            )


def check_calendar(model: TableModel, calendar: bool) -> None:
    """Refuses a model that has learnt otherwise than is asked for.

    Raises:
        ConfigError: it was given a calendar and is to have none, or the other way round.
    """
    given = [feature for feature in model.features_ if feature.given]
    if model.whole_series and not given:
        return  # it finds the seasons of the day and the week in the times themselves
    if given and not calendar:
        raise ConfigError(
            f"calendar: expected True with this model, which was given {calendar_text(given)}; came {calendar}."
        )
    if calendar and not given:
        raise ConfigError(
            "calendar: expected False with this model, which has learnt without one; came True. Leave it out, or fit "
            "on the table itself (no model)."
        )


def check_clock(model: TableModel, clock: Clock) -> None:
    """Refuses a table whose times count in something else than those that a model has learnt.

    Raises:
        DataError: they do.
    """
    if model.time_unit_ not in (None, clock.unit):
        raise DataError(
            f"times: expected {_CLOCKS[model.time_unit_]}, as the model has learnt, came {_CLOCKS[clock.unit]}. Give "
            f"the times so (time names their column), or fit on the table itself."
        )


def check_step(learnt: LearntTable, clock: Clock) -> None:
    """Refuses a table of another step than the one that was learnt from.

    Raises:
        DataError: it has one.
    """
    known = learnt.clock.step
    if known is not None and clock.step is not None and not np.isclose(known, clock.step):
        is_time = clock.unit == "hours"
        expected, came = (step_text(step) if is_time else f"{step:g}" for step in (known, clock.step))
        raise DataError(
            f"times: expected a step of {expected}, as in {learnt.name} that the model was fitted to; came {came}. "
            "Bring the table to that step (as pandas' resample does), or fit on the table itself."
        )


def _is_looser(held: Limits, asked: Limits) -> bool:
    """Whether a bound, or wholeness, is asked for that is not held at all."""
    pairs = ((held.low, asked.low), (held.high, asked.high))
    return any(own is None and wanted is not None for own, wanted in pairs) or (asked.integer and not held.integer)

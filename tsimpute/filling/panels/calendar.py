"""The hour of the day and the day of the week by the wall clock, as known covariates of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tsimpute.core.panel import Panel, Series
from tsimpute.core.windows import Feature
from tsimpute.errors import DataError
from tsimpute.tables.clock.steps import step_text

_DAY = np.timedelta64(1, "D")
_THURSDAY = 3
"""Days from Monday to that of 1970-01-01."""
_PARTS: dict[str, tuple[float, Callable[[np.ndarray], np.ndarray]]] = {
    "hour of the day": (24.0, lambda labels: (labels - labels.astype("M8[D]")) / _DAY),
    "day of the week": (168.0, lambda labels: (labels.astype("M8[D]").astype(np.int64) + _THURSDAY) % 7 / 7),
}
"""Name -> hours of a turn, which the step must be shorter than, and how much of a turn has passed, in [0, 1)."""
_WAVES = {"sine": np.sin, "cosine": np.cos}


def calendar_features(panel: Panel) -> tuple[Feature, ...]:
    """Sine and cosine of the hour of the day and the day of the week, as far as they vary with the table's step.

    Raises:
        DataError: the times are no dates, or a week or more apart.
    """
    _check_dates(panel)
    step = panel.clock.step
    parts = [name for name, (turn, _) in _PARTS.items() if step is None or step < turn]
    if step is not None and not parts:
        raise DataError(
            f"calendar: expected times less than a week apart, came steps of {step_text(step)}, which have neither an "
            "hour of the day nor a day of the week to tell. Leave calendar out."
        )
    return tuple(Feature(f"{part}, {wave}", "1", given=True) for part in parts for wave in _WAVES)


def with_calendar(panel: Panel, given: Sequence[Feature]) -> Panel:
    """The panel with these features, as of ``calendar_features``, after the others; with none, the panel as it is.

    Raises:
        DataError: the times are no dates, or no calendar tells such a feature.
    """
    if not given:
        return panel
    _check_dates(panel)
    known = {f"{part}, {wave}": (turned, form) for part, (_, turned) in _PARTS.items() for wave, form in _WAVES.items()}
    unknown = [feature.name for feature in given if feature.name not in known]
    if unknown:
        raise DataError(
            f"features: expected of what a model is given only {', '.join(known)}; it also wants {unknown[0]!r}, which "
            "no table's times tell. Use it on records (ti.Windows) that hold it."
        )

    def longer(series: Series) -> Series:
        labels = series.labels.astype("M8[us]")
        rows = [known[feature.name][1](2 * np.pi * known[feature.name][0](labels)) for feature in given]
        return replace(series, values=np.concatenate([series.values, np.stack(rows)]))

    return replace(panel, features=(*panel.features, *given), series=tuple(map(longer, panel.series)))


def calendar_text(given: Sequence[Feature]) -> str:
    """The calendar features of a model, in words."""
    parts = dict.fromkeys(feature.name.rpartition(",")[0] for feature in given)
    return f"{' and '.join(parts)}, by the wall clock, given to the model"


def _check_dates(panel: Panel) -> None:
    kinds = {"hours": "a time since the start", "steps": "rows without times", "": "numbers"}
    if any(series.labels.dtype.kind != "M" for series in panel.series):
        raise DataError(
            f"calendar: expected times with dates, came {kinds[panel.clock.unit]}. Name the column of dates, or leave "
            "calendar out."
        )

"""Fitting to a prepared table: a first answer, measured on hidden cells, which is improved while there is time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np

from tsimpute.core.panel import FILLED, LEFT_EMPTY, Panel
from tsimpute.filling.blending.delivered import DeliveredModel, FittingData
from tsimpute.filling.blending.first_answer import first_answer, process_at_same_cells
from tsimpute.filling.improving.with_forest import with_forest
from tsimpute.filling.improving.with_network import with_network
from tsimpute.filling.imputer.model_checks import checked_model
from tsimpute.filling.imputer.saved_tables import FittedTable, SavedImputer
from tsimpute.filling.learning.efforts import EFFORTS, Effort
from tsimpute.filling.learning.learning import learnt
from tsimpute.filling.measuring.accuracy import calibrated_on, scores_of
from tsimpute.filling.measuring.calibration import Calibration
from tsimpute.filling.measuring.hidden_draws import TimeBudget, draws_at
from tsimpute.filling.measuring.hiding import hidden_cells, hidden_together
from tsimpute.filling.panels.calendar import with_calendar
from tsimpute.filling.panels.windows import without
from tsimpute.filling.preparing.prepare import matched
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.filling.settings.table_settings import Settings
from tsimpute.imputers.base import TableModel
from tsimpute.system.run import Run

ENOUGH, MOST_HIDDEN = 250, 0.2
"""Hidden cells that suffice, and the largest share of the observed cells that is hidden to have so many."""


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

    @property
    def calibration(self) -> Calibration:
        return Calibration() if self.table is None else self.table.calibration

    def of(self, answer: DeliveredModel) -> Fit:
        """The same fit with another answer."""
        assert self.table is not None
        table = replace(self.table, calibration=answer.calibration, scores=answer.scores)
        return replace(self, model=answer.model, table=table, delivered=answer.text, answer=answer)

    @property
    def final(self) -> Fit:
        """Without what only an improvement needs, which is large."""
        return replace(self, answer=None, data=None)


def rules_fit(prepared: Prepared, name: str, given: SavedImputer | None = None) -> Fit:
    """A fit without training and measurement: all features that this table needs are filled by rules.

    Args:
        name: of the table.
        given: the model that was given.
    """
    return Fit(None if given is None else given.model, FittedTable.of(prepared, name))


def first_fit(prepared: Prepared, settings: Settings, run: Run, given: SavedImputer | None = None) -> Fit:
    """Trains the first model, unless one was given, and measures it on hidden cells of the table.

    Raises:
        ConfigError, DataError: the given model cannot fill the table.
    """
    fit, panel, effort = rules_fit(prepared, run.name, given), prepared.model_panel, EFFORTS[settings.effort]
    if panel is None:
        return fit
    hidden = [np.zeros(series.values.shape, bool) for series in panel.series]
    if settings.calibrate:
        hidden = hidden_cells(panel, hidden_share(effort, panel), settings.seed)
        hidden = hidden_together(panel, hidden, prepared.table.category_features)
    if given is None and effort.methods != "network":
        gaps = [np.isin(of_series[prepared.predicted], FILLED) for of_series in prepared.provenance]
        data = FittingData(
            panel, hidden, gaps, prepared.model_limits, settings.levels, settings.n_samples, settings.seed,
            effort.windows, prepared.calendar, frozenset(chain(*prepared.table.category_features)),
        )  # fmt: skip
        fit = replace(fit, data=data if effort.improves else None)
        return fit.of(first_answer(data, run.progress))
    if given is None:
        visible = with_calendar(without(panel, hidden), prepared.calendar)
        model = learnt(visible, prepared.model_limits, effort, settings.seed, run)
    else:
        model = checked_model(given.model, prepared, given.table, settings.calendar)
    return _measured(replace(fit, model=model), model, prepared, hidden, settings, run)


def hidden_share(effort: Effort, panel: Panel) -> float:
    """Share of the observed cells that is hidden to measure on: more of small tables, if a process is fitted.

    The process loses little by that, and fewer than 100 hidden cells can neither choose nor calibrate anything.
    """
    if effort.methods == "network":
        return effort.hidden
    return float(np.clip(ENOUGH / max(1, panel.n_cells - panel.n_missing), effort.hidden, MOST_HIDDEN))


def _measured(
    fit: Fit, model: TableModel, prepared: Prepared, hidden: list[np.ndarray], settings: Settings, run: Run
) -> Fit:
    """The fit with calibration and scores of a single model."""
    assert prepared.model_panel is not None
    assert fit.table is not None
    panel, match = matched(prepared.model_panel, model.features_, prepared.rules)
    hidden = [match.to_model(cells, False) for cells in hidden]
    if not any(cells.any() for cells in hidden):
        return fit
    provenance = [of_series[prepared.predicted] for of_series in prepared.provenance]
    gaps = [np.isin(match.to_model(of_series, LEFT_EMPTY), FILLED) for of_series in provenance]
    draws = draws_at(
        model, panel, hidden, n_samples=settings.n_samples, seed=settings.seed, gaps=gaps,
        budget=TimeBudget(EFFORTS[settings.effort].windows), progress=partial(run.progress, "measuring"),
    )  # fmt: skip
    calibration, others = calibrated_on(model, draws, settings.levels), ()
    if settings.model is not None and not model.whole_series:
        data = FittingData(panel, hidden, gaps, {}, settings.levels, settings.n_samples, settings.seed)
        draws, others = process_at_same_cells(data, model, draws, run.progress) or (draws, ())
    scores = scores_of(model, panel, draws, others)
    return replace(fit, table=replace(fit.table, calibration=calibration, scores=scores))


def improved_fit(fit: Fit, settings: Settings, run: Run, until: float) -> Fit:
    """The better one of the first answer and an answer with a further method.

    Args:
        fit: with ``answer`` and ``data``.
        until: ``time.monotonic()`` at which it should end.
    """
    assert fit.answer is not None
    assert fit.data is not None
    effort = EFFORTS[settings.effort]
    if effort.methods == "forest":
        return fit.of(with_forest(fit.data, fit.answer, until, run))
    return fit.of(with_network(fit.data, fit.answer, effort, run))

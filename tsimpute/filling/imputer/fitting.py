"""How a table imputer learns: what its effort says, measured on hidden cells, and improved while there is time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np

from tsimpute.core.panel import FILLED, LEFT_EMPTY, Panel
from tsimpute.filling.blending.delivered import DeliveredModel, FittingData
from tsimpute.filling.blending.first_answer import first_answer, process_at_same_cells
from tsimpute.filling.improving.with_forest import with_forest
from tsimpute.filling.improving.with_network import improved
from tsimpute.filling.imputer.checks import check_calendar, check_clock, check_limits, check_step
from tsimpute.filling.imputer.learnt_tables import LearntTable
from tsimpute.filling.imputer.long_calls import never
from tsimpute.filling.imputer.persistent import Persistent
from tsimpute.filling.imputer.predicting import has_to_predict, model_of
from tsimpute.filling.learning.efforts import EFFORTS, Effort
from tsimpute.filling.learning.learning import learnt
from tsimpute.filling.measuring.accuracy import calibrated_on, scores_of
from tsimpute.filling.measuring.calibration import Calibration
from tsimpute.filling.measuring.hidden_draws import TimeBudget, draws_at
from tsimpute.filling.measuring.hiding import hidden_cells
from tsimpute.filling.panels.calendar import with_calendar
from tsimpute.filling.panels.windows import without
from tsimpute.filling.preparing.prepare import matched
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.filling.preparing.series import Policy
from tsimpute.imputers.base import TableModel
from tsimpute.system.terminal import Tell, silent

ENOUGH, MOST_HIDDEN = 250, 0.2
"""Hidden cells that suffice, and the largest share of the observed ones that is hidden to have so many."""
_SPARE = 0.25
"""Of the time of fitting and measuring, what drawing takes at most."""
MINUTES = 5.0
"""How long effort "auto" takes unless told otherwise."""


def hidden_share(effort: Effort, panel: Panel) -> float:
    """Share of the observed cells that is hidden to measure on: more of small tables, if a process is fitted.

    It loses little by that, and below 100 such cells nothing can be chosen or calibrated.
    """
    if effort.methods == "network":
        return effort.hidden
    return float(np.clip(ENOUGH / max(1, panel.n_cells - panel.n_missing), effort.hidden, MOST_HIDDEN))


class Fitting(Persistent):
    """See ``TableImputer``."""

    _first: tuple[Prepared, str, FittingData, DeliveredModel] | None
    _before: tuple[Prepared, str, DeliveredModel] | None

    def fit_prepared(
        self,
        prepared: Prepared,
        *,
        name: str = "",
        folder: Path | None = None,
        progress: Tell = silent,
        should_stop: Callable[[], bool] = never,
    ) -> Self:
        """``fit`` of a table that has been understood; ``name`` is kept with what is learnt from it."""
        began = time.monotonic()
        self.begin_prepared(prepared, name=name, folder=folder, progress=progress, should_stop=should_stop)
        spare = _SPARE * (time.monotonic() - began)
        self.improve_prepared(began, spare=spare, folder=folder, progress=progress, should_stop=should_stop)
        return self

    def begin_prepared(
        self,
        prepared: Prepared,
        *,
        name: str = "",
        folder: Path | None = None,
        progress: Tell = silent,
        should_stop: Callable[[], bool] = never,
    ) -> Self:
        """``fit_prepared`` up to the first answer, which ``improve_prepared`` may improve."""
        settings, self._first, self._before = self.settings, None, None
        if not self.is_known:
            self._forget_table()
        effort = EFFORTS[settings.effort]
        panel = prepared.model_panel
        if panel is None:
            return self.fit_rules(prepared, name)
        nothing = [np.zeros(series.values.shape, bool) for series in panel.series]
        share = hidden_share(effort, panel)
        hidden = hidden_cells(panel, share, settings.seed) if settings.calibrate else nothing
        if settings.model is None and effort.methods != "network":
            gaps = [np.isin(code[prepared.predicted], FILLED) for code in prepared.provenance]
            about = prepared.model_limits, settings.levels, settings.n_samples, settings.seed, effort.windows
            material = FittingData(panel, hidden, gaps, *about, prepared.calendar)
            answer = first_answer(material, progress)
            self._first = prepared, name, material, answer
            return self._take_answer(prepared, name, answer)
        if settings.model is None:
            shown, limits = with_calendar(without(panel, hidden), prepared.calendar), prepared.model_limits
            self.imputer_ = learnt(shown, limits, effort, settings.seed, folder, progress, should_stop)
        model = model_of(self.imputer_, prepared)
        if settings.model is not None:
            self._check_model(model, prepared)
        self._keep(prepared, name)
        self._measure(model, prepared, panel, hidden, progress)
        return self

    def improve_prepared(
        self,
        began: float,
        *,
        spare: float = 0.0,
        folder: Path | None = None,
        progress: Tell = silent,
        should_stop: Callable[[], bool] = never,
    ) -> bool:
        """Learns more beside the first answer where the effort says so, and takes what is better.

        Args:
            began: ``time.monotonic()`` when the work began.
            spare: seconds that are needed afterwards, for draws of the process and for writing.

        Returns:
            Whether what fills tables is now another model.
        """
        settings, first = self.settings, self._first
        effort, self._first = EFFORTS[settings.effort], None
        if first is None or not effort.improves:
            return False
        prepared, name, material, answer = first
        self._before = prepared, name, replace(answer, at=None)
        until = began + 60 * self.minutes_within - spare
        if effort.methods == "forest":
            better = with_forest(material, answer, until, progress, should_stop)
        else:
            better = improved(material, answer, effort, folder, progress, should_stop)
        self._take_answer(prepared, name, better)
        return better.model is not answer.model

    def take_first_back(self, note: str) -> None:
        """Delivers the first answer in place of the one that ``improve_prepared`` took.

        Args:
            note: why.
        """
        if self._before is not None:
            prepared, name, answer = self._before
            self._take_answer(prepared, name, replace(answer, note=note))

    @property
    def minutes_within(self) -> float:
        """How long the work may take; no end where the effort is not timed."""
        if not EFFORTS[self.settings.effort].timed:
            return np.inf
        return MINUTES if self.settings.minutes is None else self.settings.minutes

    @property
    def can_improve(self) -> bool:
        """Whether there is a first answer that ``improve_prepared`` may improve."""
        return self._first is not None and EFFORTS[self.settings.effort].improves

    def fit_rules(self, prepared: Prepared, name: str = "") -> Self:
        """Keeps what is known of a table that has been understood; no model is trained or measured."""
        if self.settings.model is None:
            self.imputer_ = None
        self._keep(prepared, name)
        return self

    def learn_prepared(
        self,
        prepared: Prepared,
        *,
        name: str = "",
        folder: Path | None = None,
        progress: Tell = silent,
        should_stop: Callable[[], bool] = never,
        begin: bool = False,
    ) -> Self:
        """``fit_prepared``, unless all that it would give comes with the model, or no cell is to be predicted.

        Args:
            begin: True = ``begin_prepared``.
        """
        self._first = None
        learn = self.begin_prepared if begin else self.fit_prepared
        if not self.keeps_calibration and not self.has_to_predict(prepared):
            self.fit_rules(prepared, name)
        elif not self.keeps_calibration:
            learn(prepared, name=name, folder=folder, progress=progress, should_stop=should_stop)
        return self

    def has_to_predict(self, prepared: Prepared) -> bool:
        """Whether any cell is to be filled by a model."""
        return has_to_predict(prepared, prepared.provenance)

    @property
    def _policy(self) -> Policy:
        settings = self.settings
        return Policy(settings.max_gap, settings.no_information == "fill")

    def _take_answer(self, prepared: Prepared, name: str, answer: DeliveredModel) -> Self:
        self._keep(prepared, name)
        self.imputer_, self.calibration_, self.scores_ = answer.model, answer.calibration, answer.scores
        self.delivered_ = answer.text
        return self

    def _measure(
        self, model: TableModel, prepared: Prepared, panel: Panel, hidden: list[np.ndarray], progress: Tell
    ) -> None:
        settings = self.settings
        seen, found = matched(panel, model.features_, prepared.rules)
        hidden = [found.to_model(cells, False) for cells in hidden]
        if not any(cells.any() for cells in hidden):
            return
        codes = [found.to_model(code[prepared.predicted], LEFT_EMPTY) for code in prepared.provenance]
        gaps = [np.isin(code, FILLED) for code in codes]
        measured = draws_at(
            model, seen, hidden, n_samples=settings.n_samples, seed=settings.seed, gaps=gaps,
            budget=TimeBudget(EFFORTS[settings.effort].windows), progress=partial(progress, "measuring"),
        )  # fmt: skip
        self.calibration_ = calibrated_on(model, measured, settings.levels)
        beside = None
        if settings.model is not None and not model.whole_series:
            about = settings.levels, settings.n_samples, settings.seed
            beside = process_at_same_cells(FittingData(seen, hidden, gaps, {}, *about), model, measured, progress)
        self.scores_ = scores_of(model, seen, measured) if beside is None else scores_of(model, seen, *beside)

    def _keep(self, prepared: Prepared, name: str) -> None:
        self.calibration_, self.scores_, self.delivered_ = Calibration(), (), ""
        self.codes_, self.kinds_ = dict(prepared.codes), prepared.kinds
        self.table_ = LearntTable.of(prepared, name)

    def _check_model(self, model: TableModel, prepared: Prepared) -> None:
        check_limits(model, prepared.model_limits)
        check_clock(model, prepared.visible.clock)
        if hasattr(self, "table_"):
            check_step(self.table_, prepared.visible.clock)
        check_calendar(model, self.settings.calendar)

"""The settings and the state of a table imputer, and the steps of which its calls consist."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

import numpy as np

from tsimpute.core.panel import Filling
from tsimpute.errors import ConfigError, NotFittedError
from tsimpute.filling.imputer.fitting import Fit, first_fit, improved_fit, rules_fit
from tsimpute.filling.imputer.imputation import Imputation, imputation_of, needs_model, sampled
from tsimpute.filling.imputer.notices import ignored_settings
from tsimpute.filling.imputer.reading import TableReader
from tsimpute.filling.imputer.saved_tables import FittedTable, SavedImputer, saved_in
from tsimpute.filling.learning.learning import EFFORTS
from tsimpute.filling.measuring.calibration import Calibration
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.filling.settings.table_settings import OF_CALLS, Settings, check_together, is_same, normalised
from tsimpute.imputers.base import TableModel
from tsimpute.screening.column_kinds import ColumnKind
from tsimpute.system.run import Run

MINUTES = 5.0
"""How long effort "auto" takes by default."""


class ImputerSteps:
    """What stands behind ``TableImputer``: read, fit, improve, sample, put back.

    The arguments of the constructor are settings, which it stores unchanged, as scikit-learn's estimators do.
    """

    model: TableModel | str | Path | None
    effort: str
    minutes: float | None
    calibrate: bool
    recalibrate: bool
    imputer_: TableModel | None
    calibration_: Calibration
    codes_: dict[str, tuple[float, ...]]
    kinds_: tuple[ColumnKind, ...]
    scores_: tuple[dict[str, str | float], ...]
    delivered_: str
    table_: FittedTable

    def prepared(self, table: Any) -> Prepared:
        """Step 1: the table read, with its codes, invalid values and kinds of columns; also of a ``Table``."""
        return self.reader().prepared(table)

    def fit_first(self, prepared: Prepared, run: Run) -> None:
        """Step 2: trains a first model, unless one was given, and measures it on hidden cells of the table."""
        self.take(first_fit(prepared, self.settings, run, self._given()))

    def fit_to_fill(self, prepared: Prepared, run: Run) -> None:
        """Step 2 as far as filling this very table needs it: not where a calibrated model was given."""
        if self.keeps_calibration:
            return
        if needs_model(prepared):
            self.fit_first(prepared, run)
        else:
            self.fit_rules(prepared, run.name)

    def fit_rules(self, prepared: Prepared, name: str = "") -> Self:
        """Step 2 of a table of which rules fill all gaps."""
        self.take(rules_fit(prepared, name, self._given()))
        return self

    def improve(self, run: Run, until: float) -> bool:
        """Step 3, if the effort has it: learns more, and takes the better answer.

        Args:
            until: ``time.monotonic()`` at which it should end.

        Returns:
            Whether another model than the first now fills tables.
        """
        if not self.can_improve:
            return False
        first = self._fit
        self.take(improved_fit(first, self.settings, run, until).final)
        return self.imputer_ is not first.model

    def fillings_of(self, prepared: Prepared, run: Run | None = None) -> tuple[Filling, ...]:
        """Step 4: samples the gaps of a prepared table; one filling per series."""
        self._check_fitted()
        run, fitted = run or Run(), getattr(self, "table_", None)
        return sampled(prepared, self.settings, self.imputer_, fitted, run.progress)

    def draw_prepared(self, prepared: Prepared, run: Run | None = None) -> Imputation:
        """Steps 4 and 5: samples the gaps, and puts the samples back into the table."""
        return imputation_of(prepared, self.fillings_of(prepared, run))

    # What the steps use.

    @property
    def settings(self) -> Settings:
        """The settings in one form each.

        Raises:
            ConfigError: a setting is of the wrong kind or out of range.
            CheckpointError: the model's file is foreign or damaged.
        """
        return normalised(self.effective_params())

    def check(self) -> None:
        """Refuses settings that are wrong by themselves, or of which one would be ignored next to another one.

        Raises:
            ConfigError: there are some.
        """
        check_together(self.settings)

    def effective_params(self) -> dict[str, Any]:
        """The settings as given; those of how a table is read replace defaults by what the model's file holds."""
        params, given = self.get_params(), self._given()
        if given is None:
            return params
        defaults = self.defaults()
        saved = {name: value for name, value in given.settings.items() if name not in OF_CALLS}
        return params | {name: value for name, value in saved.items() if is_same(params.get(name), defaults[name])}

    def reader(self, fitting: bool = False) -> TableReader:
        """Reads tables; while ``fitting``, as if nothing had been fitted before, but for the given model."""
        settings, given = self.settings, self._given()
        check_together(settings)
        is_saved = given is not None and given.table is not None
        fitted = getattr(self, "table_", None) if is_saved or not fitting else None
        return TableReader(settings, None if given is None else given.model, fitted, is_saved)

    @property
    def fitted(self) -> Fit:
        """The current fit."""
        return self._fit

    def take(self, fit: Fit) -> None:
        """Makes a fit the current one: it fills tables from now on."""
        self._fit = fit if fit.data is not None else fit.final
        self.imputer_, self.delivered_ = fit.model, fit.delivered
        self.calibration_, self.scores_ = Calibration(), ()
        for name in ("table_", "codes_", "kinds_"):
            self.__dict__.pop(name, None)
        if fit.table is not None:
            self.table_, self.codes_, self.kinds_ = fit.table, dict(fit.table.codes), fit.table.kinds
            self.calibration_, self.scores_ = fit.table.calibration, fit.table.scores

    @property
    def can_improve(self) -> bool:
        """Whether ``improve`` may find a better answer."""
        return hasattr(self, "_fit") and self._fit.data is not None

    @property
    def minutes_within(self) -> float:
        """How long the work may take; infinite where the effort is not timed."""
        if not EFFORTS[self.effort].timed:
            return np.inf
        return MINUTES if self.minutes is None else self.minutes

    @property
    def keeps_calibration(self) -> bool:
        """Whether the calibration of the model's file holds, so that nothing is measured on tables that are filled.

        A file without calibration, as of a small table, is calibrated on the table that is filled.
        """
        given = self._given()
        if given is None or given.table is None or self.recalibrate:
            return False
        return given.table.calibration.n_cells > 0 or not self.calibrate

    def ignored(self) -> list[str]:
        """Settings that have no effect with the given model, a sentence each."""
        measures = self.calibrate and not self.keeps_calibration
        return ignored_settings(self.get_params(), self.defaults(), measures)

    def _given(self) -> SavedImputer | None:
        """What the given model holds; its fit becomes the current one when it is first needed. None without a model."""
        if self.model is None:
            return None
        model, saved = getattr(self, "_given_model", (None, None))
        if saved is None or model is not self.model:
            normalised(self.get_params())  # refuses wrong settings before a file is read
            saved = saved_in(self.model)
            self._given_model = self.model, saved
            table = saved.table
            self.take(Fit(saved.model, table if table is None or self.calibrate else table.uncalibrated))
        return saved

    def _check_fitted(self) -> None:
        self._given()
        if not hasattr(self, "_fit"):
            raise NotFittedError("table imputer: expected fit before impute.")

    def __repr__(self) -> str:
        """The settings that are not the defaults."""
        defaults = {name: repr(default) for name, default in self.defaults().items()}
        texts = {name: repr(value) for name, value in self.get_params().items()}
        changed = ", ".join(f"{name}={text}" for name, text in texts.items() if text != defaults[name])
        return f"{type(self).__name__}({changed})"

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The default of each setting."""
        return {name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name, as they were given; ``deep`` is not used, as no setting has settings of its own."""
        return {name: getattr(self, name) for name in self.defaults()}

    def set_params(self, **settings: Any) -> Self:
        """Changes settings.

        Raises:
            ConfigError: there is no such setting.
        """
        known = list(self.get_params())
        for name in settings:
            if name not in known:
                close = get_close_matches(name, known, 1)
                advice = f"Did you mean {close[0]!r}?" if close else f"Use one of {', '.join(known)}."
                raise ConfigError(f"settings: expected names of settings, came {name!r}. {advice}")
        for name, value in settings.items():
            setattr(self, name, value)
        return self

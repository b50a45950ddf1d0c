"""The settings and the state of a table imputer, and the steps of its calls: read, fit, improve, sample, put back."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np

from tsimpute.core.panel import Filling
from tsimpute.errors import ConfigError, NotFittedError
from tsimpute.filling.imputer.fitting import Fit, first_fit
from tsimpute.filling.imputer.imputation import Imputation, imputation_of, needs_model, sampled
from tsimpute.filling.imputer.saved_tables import FittedTable, SavedImputer, read_saved
from tsimpute.filling.learning.learning import EFFORTS
from tsimpute.filling.measuring.calibration import Calibration
from tsimpute.filling.preparing.model_rules import ModelRules, check_features, limits_for, rules_of
from tsimpute.filling.preparing.prepare import prepare
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.filling.preparing.series import Policy
from tsimpute.filling.preparing.table_settings import OF_CALLS, Settings, check_together, is_same, normalised
from tsimpute.imputers.base import TableModel
from tsimpute.models.pretrained import model_path
from tsimpute.screening.column_kinds import ColumnKind
from tsimpute.system.run import Run
from tsimpute.tables.frames.frames import TimeOptions
from tsimpute.tables.frames.table import Table
from tsimpute.tables.roles.columns import ColumnSpec, check_units
from tsimpute.tables.sources.files import read_table

_NO_CALENDAR = (
    "calendar: not used; the Gaussian process finds daily, weekly and yearly profiles in the times themselves"
)
MINUTES = 5.0
"""How long effort "auto" takes by default."""


@dataclass(frozen=True)
class TableReader:
    """Reads and prepares tables.

    Attributes:
        model: that was given; None where the imputer learns from tables.
        fitted: the table that the imputer was fitted to, whose columns, codes and kinds of columns hold; None where
            they are detected.
        is_saved: whether ``fitted`` comes from the model's file.
    """

    settings: Settings
    model: TableModel | None
    fitted: FittedTable | None
    is_saved: bool

    @cached_property
    def rules(self) -> ModelRules | None:
        """How a table is matched to the given model; None without one."""
        return rules_of(None if self.model is None else self.model.features_, self.settings.rename)

    @property
    def spec(self) -> ColumnSpec:
        """The roles of columns, as set and as learned."""
        spec, rules = self.settings.spec, self.rules
        if rules is not None and rules.tables is not None:
            spec = replace(spec, known=rules.known)
        return spec if self.fitted is None else replace(spec, learnt=self.fitted.roles)

    @property
    def time_options(self) -> TimeOptions:
        """How times are read; for a given model they are put into the steps of its data set."""
        time_options, rules = self.settings.time_options, self.rules
        if rules is None or rules.tables is None or time_options.irregular:
            return time_options
        return replace(time_options, step=rules.tables.step)

    def prepared(self, table: Any) -> Prepared:
        """The table with its codes, invalid values and kinds of columns; of an object, or of a ``Table``."""
        settings, rules, fitted, model = self.settings, self.rules, self.fitted, self.model
        if not isinstance(table, Table):
            table = read_table(table, self.spec, self.time_options, settings.units)
        names = [feature.name for feature in table.panel.features]
        if fitted is not None and (rules is None or rules.tables is None):
            check_features(names, fitted.features)
        check_units(settings.units, [*names, *table.time_columns])
        known = {} if rules is None or self.is_saved else rules.known.of(names)
        prepared = prepare(
            table, limits=limits_for(settings.limits, names, rules), missing_codes=settings.codes,
            drop_invalid=settings.drop_invalid, calendar=settings.calendar,
            learnt_codes=None if fitted is None else fitted.codes, kinds=None if fitted is None else fitted.kinds,
            predict=[*map(str, settings.predict or ()), *chain(*table.category_features)],
            learnt=[name for name in names if name in known],
            policy=Policy(settings.max_gap, settings.no_information == "fill"), rules=rules, units=settings.units,
        )  # fmt: skip
        if model is None:
            finds_seasons = EFFORTS[settings.effort].methods != "network"
        else:
            finds_seasons = model.whole_series and not any(feature.given for feature in model.features_)
        if prepared.calendar and finds_seasons:
            prepared = replace(prepared, calendar=(), warnings=(*prepared.warnings, _NO_CALENDAR))
        return prepared


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
        given = self._given()
        self.take(Fit(None if given is None else given.model, FittedTable.of(prepared, name)))
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
        self.take(first.improved(self.settings, run, until))
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
        """The settings in one form each; a ConfigError or CheckpointError where one, or the model's file, is wrong."""
        return normalised(self.effective_params())

    def check(self) -> None:
        """Refuses (ConfigError) settings that are wrong, or of which one would be ignored next to another one."""
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

    def known_cells(self) -> list[str]:
        """A sentence where the given model fills the very table that it was learnt from, and scores are shown."""
        given = self._given()
        if given is None or given.table is None or self.keeps_calibration or not given.is_of(self._fit.table):
            return []
        if self.scores_ == given.table.scores:
            how = "the errors are those that were measured when it was learnt, on cells that were hidden from it"
        else:
            how = "the errors are of cells that it has learnt, and are larger elsewhere; to measure it on cells that "
            how += "are hidden from it, learn from the table again (no model)"
        return [f"the model was learnt from this very table: {how}"] * bool(self.scores_)

    def ignored(self) -> list[str]:
        """Settings that have no effect with the given model, a sentence each."""
        if self.model is None:
            return []
        if self.minutes is not None:
            return [f"minutes={self.minutes!r} has no effect, since a trained model is given"]
        if is_same(self.effort, self.defaults()["effort"]):
            return []
        measures = self.calibrate and not self.keeps_calibration
        effect = "; it only says how much is measured to calibrate" if measures else " and has no effect"
        return [
            f"effort={self.effort!r} trains nothing{effect}, since a trained model is given. To learn from the table "
            "itself, give no model"
        ]

    def _given(self) -> SavedImputer | None:
        """What the given model holds; its fit becomes the current one when it is first needed. None without a model."""
        if self.model is None:
            return None
        model, saved = getattr(self, "_given_model", (None, None))
        if saved is None or model is not self.model:
            normalised(self.get_params())  # refuses wrong settings before a file is read
            if isinstance(self.model, str | Path):
                saved = read_saved(model_path(self.model))
            else:
                saved = SavedImputer(self.model, {}, None)
            self._given_model, table = (self.model, saved), saved.table
            if table is not None and not self.calibrate:
                table = replace(table, calibration=Calibration(), scores=())
            self.take(Fit(saved.model, table))
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

"""Fills tables as people have them: the same table back, with what each filled cell is and how sure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from tsimpute.core.limits import Limits
from tsimpute.core.panel import Filling
from tsimpute.filling.imputer.checks import check_any_value
from tsimpute.filling.imputer.fitting import Fitting
from tsimpute.filling.imputer.imputation import Imputation, imputation_of
from tsimpute.filling.imputer.long_calls import long_call, never, path_of
from tsimpute.filling.imputer.notices import notices, uncalibrated
from tsimpute.filling.imputer.predicting import fillings_of, has_to_predict, model_of, predicted_fillings
from tsimpute.filling.learning.efforts import EFFORTS
from tsimpute.filling.preparing.limits import limits_for
from tsimpute.filling.preparing.prepare import check_features, prepare
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.imputers.base import TableModel
from tsimpute.system.terminal import Progress, Tell, silent
from tsimpute.tables.clock.duplicates import Duplicates
from tsimpute.tables.clock.missing_times import MissingTimes
from tsimpute.tables.columns.units import check_names
from tsimpute.tables.frames.table import Table
from tsimpute.tables.sources.reading import read_table

_NO_CALENDAR = (
    "calendar: not used; the Gaussian process finds daily, weekly and yearly profiles in the times themselves"
)

Bounds = Limits | tuple[float | None, float | None]
"""The lowest and the highest possible value; None = no bound on that side."""
OneCodes = float | Collection[float] | Literal["certain", "none"]
"""What means "missing": a number, several, those that are certain, or none."""


class TableImputer(Fitting):
    """Learns from a table and fills its gaps, or those of others like it.

    Observed values come back to the bit, but for codes for missing (``missing_codes``) and, with ``drop_invalid``,
    values outside the limits: those are filled, and an ``ImputationWarning`` counts them.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"a": [1.0, None, 3.0] * 20, "b": [2.0, 4.0, None] * 20})
        >>> imputer = TableImputer(effort="trial", n_samples=5, limits=(0, None), calibrate=False)
        >>> filled = imputer.fit(frame).impute(frame)
        >>> bool(filled.notna().all().all() and (filled["a"][0] == 1.0))
        True

    Args:
        model: a trained ``GenerativeImputer``, its file, or the name of one that comes along; or a file of ``save``,
            of which codes, limits, columns, clock and calibration hold, too, and settings of how a table is read where
            they are left at their defaults. A model counts as fitted; ``fit`` only measures. None = ``fit`` trains one.
        time, group, features: columns, where they cannot be told: one name or a list of names. ``time="none"``: rows
            are steps; ``group="none"``: there is one series.
        feature, value, unit: of a long table, the columns of names, values and units.
        text: columns that are passed through unchanged, whatever they hold.
        rename: with a model, from names of the table to names of the model, as {"HeartRate": "HR"}; the table keeps
            its own.
        units: by feature, "*" = all others, where the table does not tell them; or one unit of all features. With a
            model of steps of hours, also the unit of a time column of numbers, as {"offset": "min"}.
        timezone: of the table's clock, such as "Europe/Rome"; needed where clocks change for daylight saving. None =
            none; it is not detected.
        dayfirst: True: 03/04/2005 is 3 April; False: it is 4 March. None = detected, and refused where both fit.
        duplicates: what to do with several rows of one time: "refuse" them, take the "first" or the "last", or their
            "mean".
        missing_times: "insert" adds a row for every missing time, "keep" adds none, "auto" adds those that the table's
            own pattern of times lacks.
        irregular: True uses the times as they are; False expects one step. None = detected.
        limits: lowest and highest possible value by feature, "*" = all others; or one pair for all features; or a
            text, as "PM2.5=0:,RH=0:100", or the name of a data set whose card gives limits, as "physionet2012".
        missing_codes: a number or numbers that mean "missing"; "certain" = those that cannot be anything else in the
            table that ``fit`` is given, each of its feature; in later tables too; "none" = no number does; or these by
            feature, "*" = all others, which otherwise have those that are certain.
        drop_invalid: True makes values outside the limits missing; False keeps them, and hides them from the model.
        predict: columns that a model predicts although they look like constants, counters, codes, ids or events,
            which are filled by a rule or left empty; see ``filling.column_kinds``. ``features`` has no such effect.
        no_information: "fill" or "empty": features of which a series shows no value, and others do.
        calendar: True gives the model, beside the features, the hour of the day and the day of the week by the wall
            clock, as far as the step has them; a model that learnt so needs it again.
        max_gap: longest gap in steps that is filled; longer ones stay wholly empty.
        n_samples: draws per cell. Where nothing is calibrated, quantiles at 0.05 and 0.95 need 19 draws or more.
        quantiles: a level or levels in (0, 1).
        seed: of everything that is drawn.
        effort: how long to learn: "instant" fits a Gaussian process, in seconds; "auto" learns the errors of its
            posterior mean by randomised trees, within some minutes, and uses them where hidden cells say that they
            help; "quick", "normal" and "thorough" train a network that starts from the process's posterior, by a
            number of steps, whatever the time; "trial" trains a small network alone.
        minutes: how long "auto" takes, at most about; None = 5. Where that cuts it short, the result depends on the
            machine.
        calibrate: True hides a share of the observed cells in ``fit``, measures on them and calibrates the quantiles.
            Fewer than 100 such cells calibrate nothing; ``calibration_.n_cells`` is 0 then.
        recalibrate: True does so on each table that is filled by a file of ``save``; otherwise its calibration holds.
        keep_samples: True keeps all draws in ``Imputation.fillings``.

    Attributes:
        imputer_: the model; None where no cell had to be predicted.
        kinds_: what kind of column each feature is.
        calibration_: of the quantiles.
        codes_: by feature, the codes for missing of the table that it was fitted to.
        scores_: what was measured on hidden cells, one row per imputer.
        delivered_: what fills the gaps and how good it is, in words; "" where a model was given.
        table_: what is known of the table that it was fitted to; absent where a model alone was given.
    """

    def __init__(
        self,
        model: TableModel | str | Path | None = None,
        *,
        time: Hashable | Sequence[Hashable] | None = None,
        group: Hashable | Sequence[Hashable] | None = None,
        features: Hashable | Sequence[Hashable] | None = None,
        feature: Hashable | None = None,
        value: Hashable | None = None,
        unit: Hashable | None = None,
        text: Hashable | Sequence[Hashable] | None = None,
        rename: Mapping[str, str] | None = None,
        units: Mapping[str, str] | str | None = None,
        timezone: str | None = None,
        dayfirst: bool | None = None,
        duplicates: Duplicates = "refuse",
        missing_times: MissingTimes = "auto",
        irregular: bool | None = None,
        limits: Mapping[str, Bounds] | Bounds | str | None = None,
        missing_codes: Mapping[str, OneCodes] | OneCodes = "certain",
        drop_invalid: bool = False,
        predict: Hashable | Sequence[Hashable] | None = None,
        no_information: Literal["fill", "empty"] = "fill",
        max_gap: int | None = None,
        calendar: bool = False,
        n_samples: int = 50,
        quantiles: float | Sequence[float] = (0.05, 0.5, 0.95),
        seed: int = 0,
        effort: Literal["auto", "instant", "trial", "quick", "normal", "thorough"] = "auto",
        minutes: float | None = None,
        calibrate: bool = True,
        recalibrate: bool = False,
        keep_samples: bool = False,
    ) -> None:
        self.model = model
        self.time, self.group, self.features = time, group, features
        self.feature, self.value, self.unit, self.units = feature, value, unit, units
        self.text, self.rename = text, rename
        self.timezone, self.dayfirst, self.irregular = timezone, dayfirst, irregular
        self.duplicates: Duplicates = duplicates
        self.missing_times: MissingTimes = missing_times
        self.limits, self.drop_invalid, self.predict = limits, drop_invalid, predict
        self.missing_codes: Mapping[str, OneCodes] | OneCodes = missing_codes
        self.no_information, self.max_gap, self.calendar = no_information, max_gap, calendar
        self.n_samples, self.quantiles, self.seed = n_samples, quantiles, seed
        self.effort, self.minutes, self.calibrate, self.recalibrate = effort, minutes, calibrate, recalibrate
        self.keep_samples = keep_samples

    def fit(
        self,
        table: Any,
        y: None = None,
        *,
        folder: Path | str | None = None,
        progress: Progress = "auto",
        should_stop: Callable[[], bool] = never,
    ) -> Self:
        """Trains on the table, unless a model was given, and measures on hidden cells of it.

        Args:
            table: see ``tables.reading.read_table``.
            y: not used; as scikit-learn has it.
            folder: where training keeps its state. After an interruption (Ctrl-C, or killed) the same call goes on from
                there, to the same result to the bit.
            progress: "auto" shows a bar in a terminal or a notebook, True always, False never; or a function that is
                called with what is done, how much of it, and how much there is.
            should_stop: asked after each step of training; True ends it with the state in ``folder``.

        Raises:
            KeyboardInterrupt: Ctrl-C came.
        """
        prepared = self._prepared_to_fit(table)
        with long_call(progress, should_stop, resumable=folder is not None) as (tell, asked):
            self.fit_prepared(prepared, folder=path_of(folder), progress=tell, should_stop=asked)
        self._warn_if_uncalibrated(prepared)
        return self

    def impute(self, table: Any, *, progress: Progress = "auto") -> Any:
        """The table with its gaps filled by the median of the draws; an object of the same kind."""
        return self.draw(table, progress=progress).table

    def draw(self, table: Any, *, progress: Progress = "auto") -> Imputation:
        """The table filled, with quantiles and what each cell is.

        Raises:
            NotFittedError: before ``fit``.
            DataError: the table has other features, units or another step than the model.
        """
        prepared = self.prepared(table)
        self._notices.warn(prepared, [*self.ignored(), *notices(prepared, self.settings)])
        with long_call(progress) as (tell, _):
            return self._drawn(prepared, tell)

    def fit_draw(
        self,
        table: Any,
        *,
        folder: Path | str | None = None,
        progress: Progress = "auto",
        should_stop: Callable[[], bool] = never,
    ) -> Imputation:
        """``fit`` and then ``draw`` of one table, which is read and checked once; see there.

        With a file of ``save`` as model its calibration holds, and nothing is measured on the table, unless
        ``recalibrate`` is set.
        """
        prepared = self._prepared_to_fit(table)
        with long_call(progress, should_stop, resumable=folder is not None) as (tell, asked):
            self.learn_prepared(prepared, folder=path_of(folder), progress=tell, should_stop=asked)
            if self.has_to_predict(prepared):
                self._warn_if_uncalibrated(prepared)
            return self._drawn(prepared, tell)

    def _prepared_to_fit(self, table: Any) -> Prepared:
        prepared = self._prepared(table, fitting=True)
        if self.model is None:
            check_any_value(prepared)
        self._notices.forget()
        self._notices.warn(prepared, [*self.ignored(), *notices(prepared, self.settings)])
        return prepared

    def _warn_if_uncalibrated(self, prepared: Prepared) -> None:
        """Warns where calibration was wanted of what a model predicts, and there were too few cells for it."""
        if self.settings.calibrate and prepared.model_panel is not None and not self.calibration_.n_cells:
            n_cells = int(self.scores_[0]["cells"]) if self.scores_ else 0
            self._notices.warn(prepared, [uncalibrated(n_cells)])

    def _drawn(self, prepared: Prepared, progress: Tell) -> Imputation:
        found = self.draw_prepared(prepared, progress=progress)
        self._notices.warn(prepared, found.hints())
        return found

    def draw_prepared(self, prepared: Prepared, *, progress: Tell = silent) -> Imputation:
        """``draw`` of a table that has been understood."""
        return imputation_of(prepared, self.fillings_of(prepared, progress=progress))

    def fillings_of(self, prepared: Prepared, *, progress: Tell = silent) -> tuple[Filling, ...]:
        """What ``draw`` puts into a table that has been understood, one per series."""
        self._check_fitted()
        settings, codes = self.settings, prepared.provenance
        predicted: tuple[Filling, ...] = ()
        if has_to_predict(prepared, codes) or (self.imputer_ is not None and prepared.model_panel is not None):
            model = model_of(self.imputer_, prepared)
            self._check_model(model, prepared)
            predicted = predicted_fillings(model, self.calibration_, prepared, codes, settings, progress)
        return fillings_of(prepared, codes, settings, predicted)

    def prepared(self, table: Any) -> Prepared:
        """The table understood, its codes and invalid values found; also of what ``read_table`` gave."""
        return self._prepared(table, fitting=False)

    def _prepared(self, table: Any, fitting: bool) -> Prepared:
        self.check()
        settings = self.settings
        known = self.is_known or not fitting
        learnt_codes, kinds = (getattr(self, name, None) if known else None for name in ("codes_", "kinds_"))
        read = table
        if not isinstance(table, Table):
            read = read_table(table, self._spec(fitting), self.time_options, settings.units)
        names = [feature.name for feature in read.panel.features]
        rules = self.rules
        if hasattr(self, "table_") and (self.is_known or not fitting) and (rules is None or rules.tables is None):
            check_features(names, self.table_.features)
        check_names(settings.units, [*names, *read.time_columns])
        prepared = prepare(
            read, limits=limits_for(settings.limits, names, rules), missing_codes=settings.codes,
            drop_invalid=settings.drop_invalid, calendar=settings.calendar, learnt_codes=learnt_codes,
            predict=[str(name) for name in settings.predict or ()], learnt=self._learnt_features(names), kinds=kinds,
            policy=self._policy, rules=rules, units=settings.units,
        )  # fmt: skip
        if prepared.calendar and self._finds_seasons:
            prepared = replace(prepared, calendar=(), warnings=(*prepared.warnings, _NO_CALENDAR))
        return prepared

    @property
    def _finds_seasons(self) -> bool:
        """Whether the model looks at the clock by itself, and needs no calendar beside."""
        model = None if self.model is None else self.imputer_
        if model is None:
            return EFFORTS[self.settings.effort].methods != "network"
        return model.whole_series and not any(feature.given for feature in model.features_)

    def _learnt_features(self, names: Sequence[str]) -> list[str]:
        """Those of the table's features that a model has learnt, where one was given alone."""
        rules = self.rules
        return [] if rules is None or self.is_known else [name for name in names if name in rules.known.of(names)]


def impute(table: Any, *, folder: Path | str | None = None, progress: Progress = "auto", **settings: Any) -> Any:
    """The table with its gaps filled; an object of the same kind.

    Learns from the table itself, unless ``model`` names a trained one. Settings: see ``TableImputer``; ``folder`` and
    ``progress``: see ``TableImputer.fit``.

    Every observed value comes back to the bit, but for numbers that stand for "missing", such as -999, which are
    filled as gaps (``missing_codes="none"`` keeps them), and values outside the limits where ``drop_invalid`` is set.
    An ``ImputationWarning`` counts these cells, rows that are added and columns that are passed through.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"a": [1.0, None, 3.0] * 20, "b": [2.0, 4.0, None] * 20})
        >>> filled = impute(frame, effort="trial", n_samples=3, calibrate=False, limits=(0, None))
        >>> int(frame.isna().sum().sum()), int(filled.isna().sum().sum())
        (40, 0)
    """
    return TableImputer(**settings).fit_draw(table, folder=folder, progress=progress).table

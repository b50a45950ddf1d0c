"""Fills the gaps of a table: the same table back, with what each filled cell is and how certain it is."""

from __future__ import annotations

import hashlib
import sys
import time
import warnings
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

import tsimpute
from tsimpute.core.limits import Limits
from tsimpute.core.panel import LEFT_EMPTY
from tsimpute.core.quantiles import few_draws_text
from tsimpute.errors import CheckpointError, ImputationWarning, NotFittedError
from tsimpute.filling.imputer.fitting import Fit, check_any_value
from tsimpute.filling.imputer.imputation import Imputation, needs_model
from tsimpute.filling.imputer.saved_tables import read_saved, write_saved
from tsimpute.filling.imputer.steps import ImputerSteps
from tsimpute.filling.measuring.calibration import uncalibrated_text
from tsimpute.filling.preparing.prepare import some_of
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.filling.preparing.table_settings import Settings
from tsimpute.imputers.base import TableModel
from tsimpute.system.run import Run, never, running
from tsimpute.system.terminal import Progress
from tsimpute.tables.clock.duplicates import Duplicates
from tsimpute.tables.clock.missing_times import MissingTimes
from tsimpute.tables.frames.frames import Records

_PACKAGE = str(Path(tsimpute.__file__).parent)
_SPARE = 0.25
"""Share of the time of the first fit that is reserved for drawing."""


def notices(prepared: Prepared, settings: Settings) -> list[str]:
    """What was done to a table or looks wrong in it, a sentence for each kind, unless a setting demands it."""
    findings = dict.fromkeys(finding.text for finding in prepared.findings if finding.text in prepared.warnings)
    texts = [text for text in prepared.warnings if text not in findings]
    if findings:
        texts.append("look at " + some_of(list(findings), "; "))
    table = prepared.table
    if table.n_added and settings.time_options.missing_times != "keep":
        rows = "1 row is" if table.n_added == 1 else f"{table.n_added:,} rows are"
        texts.append(f"{rows} added for times that the table does not have; to add none, set missing_times='keep'")
    if n_empty := left_empty(prepared, settings):
        cells = "1 gap stays" if n_empty == 1 else f"{n_empty:,} gaps stay"
        limiting = [f"max_gap={settings.max_gap}"] * (settings.max_gap is not None)
        limiting += ["no_information='empty'"] * (settings.no_information == "empty")
        texts.append(f"{cells} empty, as set by {' or '.join(limiting)}")
    names = [name for name in table.passed_through if name not in map(str, settings.spec.text or ())]
    if names and settings.spec.features is None:
        columns, one = ("column is", "it if it") if len(names) == 1 else ("columns are", "one that")
        texts.append(
            f"{len(names):,} {columns} passed through unchanged, not filled: {some_of(names, ', ')}; to fill {one} "
            "holds numbers, name all columns to fill (features)"
        )
    return texts


def left_empty(prepared: Prepared, settings: Settings) -> int:
    """How many gaps settings leave empty in the columns that are filled."""
    if settings.max_gap is None and settings.no_information == "fill":
        return 0
    filled = np.array([kind.predicted or kind.by_rule for kind in prepared.kinds])[:, None]
    pairs = zip(prepared.provenance, prepared.table.absent, strict=True)
    return sum(int(((codes == LEFT_EMPTY) & filled & ~absent).sum()) for codes, absent in pairs)


class Notices:
    """The warnings of each table, so that a second call with the same table does not repeat them."""

    def __init__(self) -> None:
        self._issued: dict[str, set[str]] = {}

    def forget(self) -> None:
        """Repeats all warnings from now on, as at a new fit."""
        self._issued.clear()

    def warn(self, prepared: Prepared, texts: Iterable[str]) -> None:
        """Issues each text that was not yet issued for a table of this content as an ``ImputationWarning``.

        Texts are compared by their first sentence: the advice after it differs before and after a fit.
        """
        digest, panel = hashlib.blake2b(digest_size=16), prepared.table.panel
        digest.update(repr([feature.name for feature in panel.features]).encode())
        for series in panel.series:
            digest.update(repr((series.name, *map(str, series.labels[:1]), *map(str, series.labels[-1:]))).encode())
            for array in (series.times, series.values):
                digest.update(array.tobytes())
        issued = self._issued.setdefault(digest.hexdigest(), set())
        new = {text.partition(". ")[0]: text for text in texts}
        frame, levels = sys._getframe(1), 2  # up to the line outside of this package that called it
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            frame, levels = frame.f_back, levels + 1
        for key, text in new.items():
            if key not in issued:
                warnings.warn(f"{text}.", ImputationWarning, stacklevel=levels)
        issued.update(new)


Bounds = Limits | tuple[float | None, float | None]
"""The lowest and the highest possible value; None = no bound on that side."""
OneCodes = float | Collection[float] | Literal["certain", "none"]
"""What means "missing": a number, several, those that are certain, or none."""


class TableImputer(ImputerSteps):
    """Fits a model to a table and fills the gaps of that table, or of later tables like it.

    Observed values are returned unchanged to the bit. Exceptions are codes for missing (``missing_codes``) and, with
    ``drop_invalid``, values outside the limits: they are filled, and an ``ImputationWarning`` counts them.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"a": [1.0, None, 3.0] * 20, "b": [2.0, 4.0, None] * 20})
        >>> imputer = TableImputer(effort="trial", n_samples=5, limits=(0, None), calibrate=False)
        >>> filled = imputer.fit(frame).impute(frame)
        >>> bool(filled.notna().all().all() and (filled["a"][0] == 1.0))
        True

    Args:
        model: a trained ``GenerativeImputer`` or ``GaussianImputer``, its file, or the name of a bundled model; or a
            file of ``save``, whose codes, limits, columns, clock and calibration then hold, and whose settings of how
            a table is read replace defaults. A model counts as fitted: ``fit`` only measures it. None: ``fit`` trains a
            model.
        time, group, features: columns of times, of names of series, and to fill: one name or a list of names. None:
            detected. ``time="none"``: rows are time steps; ``group="none"``: the table is one series.
        records: "rows": each row is a record by itself, as a person or a sample, and their order means nothing; there
            are no times and no groups. "series": rows follow each other in time.
        feature, value, unit: in a long table, the columns of feature names, values and units. None: detected.
        text: columns that are passed through unchanged, whatever they contain.
        categories: with ``records="rows"``, columns that are filled with one of their categories; each category is a
            feature ``column=category`` that is 1 or 0, and the one with the largest value is taken.
        rename: with a model, the model's names of the table's features, as {"HeartRate": "HR"}; the table keeps its
            own names.
        units: units by feature, "*" = all others, where the table does not give them; or one unit of all features.
            With a model whose steps are hours also the unit of a numeric time column, as {"offset": "min"}.
        timezone: time zone of the table's clock, such as "Europe/Rome"; needed where clocks change for daylight
            saving. None: no time zone; it is not detected.
        dayfirst: True: 03/04/2005 is 3 April; False: it is 4 March. None: detected, and refused where both fit.
        duplicates: what to do with several rows of one time: "refuse" them, take the "first" or the "last", or their
            "mean".
        missing_times: "insert" adds a row for every missing time, "keep" adds none, "auto" adds those that the
            table's own pattern of times lacks.
        irregular: True uses the times as they are; False expects one step. None: detected.
        limits: lowest and highest possible value by feature, "*" = all others; or one pair for all features; or text,
            as "PM2.5=0:,RH=0:100"; or the name of a data set whose card gives limits, as "physionet2012".
        missing_codes: a number or numbers that mean "missing"; "certain": numbers such as -999 that cannot be
            measurements in their column, as detected by ``fit``; "none": no number does; or these by feature, "*" =
            all others. Features that are not named have "certain".
        drop_invalid: True: values outside the limits are made missing and filled. False: they are kept, and hidden
            from the model.
        predict: columns that the model predicts although they look like constants, counters, codes, ids or events,
            which are otherwise filled by a rule or left empty; see ``filling.column_kinds``.
        no_information: what to do with features of which a series has no value: "fill" them or leave them "empty".
        calendar: True gives the model the hour of the day and the day of the week by the wall clock. A model that was
            trained with it needs it again.
        max_gap: longest gap to fill, in steps; longer gaps stay empty.
        n_samples: draws per cell; with ``model`` as many as it was calibrated with, unless another number is given.
            Quantiles at 0.05 and 0.95 need 19 draws or more.
        quantiles: a level or levels in (0, 1).
        seed: seed of training and draws.
        effort: how long to learn. "instant": a Gaussian process, in seconds. "auto": that answer first; then the
            errors of its posterior mean are learned by randomised trees, within some minutes, and the trees are used
            where hidden cells say that they help. "quick", "normal", "thorough": a network that starts from the
            process's posterior is trained for a number of steps, whatever the time. "trial": a small network alone.
        minutes: how long "auto" takes, about. None: 5. If the time ends the work, the result depends on the machine.
        calibrate: True: ``fit`` hides a share of the observed cells, measures the model on them and calibrates the
            quantiles. Fewer than 100 hidden cells calibrate nothing; then ``calibration_.n_cells`` is 0.
        recalibrate: True: with a file of ``save``, each table that is filled is measured and calibrated anew.
        keep_samples: True: ``Imputation.fillings`` contain all draws.

    Attributes:
        imputer_: the model; None where no cell had to be predicted.
        kinds_: the kind of column of each feature.
        calibration_: of the quantiles.
        codes_: codes for missing by feature, of the table that it was fitted to.
        scores_: errors on hidden cells, one row per imputer.
        delivered_: what fills the gaps and how good it is, in words; "" where a model was given.
        table_: what is known of the table that it was fitted to; absent where only a model was given.
    """

    def __init__(
        self,
        model: TableModel | str | Path | None = None,
        *,
        time: Hashable | Sequence[Hashable] | None = None,
        group: Hashable | Sequence[Hashable] | None = None,
        features: Hashable | Sequence[Hashable] | None = None,
        records: Records = "series",
        feature: Hashable | None = None,
        value: Hashable | None = None,
        unit: Hashable | None = None,
        text: Hashable | Sequence[Hashable] | None = None,
        categories: Hashable | Sequence[Hashable] | None = None,
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
        self.records: Records = records
        self.feature, self.value, self.unit, self.units = feature, value, unit, units
        self.text, self.categories, self.rename = text, categories, rename
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
            y: not used; as in scikit-learn.
            folder: where training keeps its state. After an interruption (Ctrl-C, or killed) the same call goes on from
                there, to the same result to the bit.
            progress: "auto" shows a bar in a terminal or a notebook, True always, False never; or a function that is
                called with the kind of work, how much of it is done, and the total.
            should_stop: called after each step of training; True ends it with the state in ``folder``.

        Raises:
            DataError: the table is not as expected, or has no value to learn from.
            KeyboardInterrupt: Ctrl-C came.
        """
        prepared = self._prepared_to_fit(table)
        began = time.monotonic()
        with running(progress, should_stop, folder) as run:
            self.fit_first(prepared, run)
            self._improve_since(began, run)
        self._warn_of_measures(prepared)
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
        self._warn(prepared)
        with running(progress) as run:
            return self._drawn(prepared, run)

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
        began = time.monotonic()
        with running(progress, should_stop, folder) as run:
            self.fit_to_fill(prepared, run)
            self._improve_since(began, run)
            if needs_model(prepared):
                self._warn_of_measures(prepared)
            return self._drawn(prepared, run)

    def save(self, path: Path | str) -> None:
        """Writes the model and all else that was learned or set to one safetensors file, whole or not at all.

        Raises:
            NotFittedError: before ``fit``.
            ConfigError: a column name or a setting is not text or a number; or the path is a folder.
        """
        self._check_fitted()
        if not hasattr(self, "table_"):
            raise NotFittedError("table imputer: expected fit before save; a model alone is saved by its own save.")
        settings = {name: value for name, value in self.effective_params().items() if name != "model"}
        write_saved(Path(path), self.imputer_, settings, self.table_, trained=self.model is None)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Reads what ``save`` wrote: it draws what the saved one drew, to the bit. Runs no code from the file.

        Raises:
            CheckpointError: the file is foreign, damaged or of another layout, or holds only a model.
        """
        saved = read_saved(Path(path))
        if saved.table is None:
            raise CheckpointError(
                f"{path}: expected a file of TableImputer.save, came a model alone. Use TableImputer(model=...)."
            )
        unknown = [name for name in saved.settings if name not in cls.defaults()]
        if unknown:
            raise CheckpointError(f"{path}: expected settings of this version, came {unknown[0]!r}. Update tsimpute.")
        settings: dict[str, Any] = dict(saved.settings)
        imputer = cls(None if saved.trained else saved.model, **settings)
        imputer._given_model = imputer.model, saved
        imputer.take(Fit(saved.model, saved.table))
        return imputer

    def _improve_since(self, began: float, run: Run) -> None:
        now = time.monotonic()
        self.improve(run, began + 60 * self.minutes_within - _SPARE * (now - began))

    def _prepared_to_fit(self, table: Any) -> Prepared:
        prepared = self.reader(fitting=True).prepared(table)
        if self.model is None:
            check_any_value(prepared)
        self._notices.forget()
        self._warn(prepared)
        return prepared

    def _drawn(self, prepared: Prepared, run: Run) -> Imputation:
        imputation = self.draw_prepared(prepared, run)
        note = few_draws_text(self.settings.levels, self.settings.n_samples)
        is_calibrated = needs_model(prepared) and self.calibration_.n_cells > 0  # of others is said that they are not
        self._notices.warn(prepared, [*imputation.hints(), *[note] * (is_calibrated and bool(note))])
        return imputation

    @property
    def _notices(self) -> Notices:
        """The warnings that were issued since the last fit."""
        return self.__dict__.setdefault("_issued", Notices())

    def _warn(self, prepared: Prepared) -> None:
        self._notices.warn(prepared, [*self.ignored(), *notices(prepared, self.settings)])

    def _warn_of_measures(self, prepared: Prepared) -> None:
        if self.calibrate and prepared.model_panel is not None and not self.calibration_.n_cells:
            n_cells = int(self.scores_[0]["cells"]) if self.scores_ else 0
            advice = "give a longer table, or do without calibration: set calibrate=False"
            self._notices.warn(prepared, [f"{uncalibrated_text(n_cells)}; {advice}"])
        self._notices.warn(prepared, self.known_cells())


def impute(table: Any, *, folder: Path | str | None = None, progress: Progress = "auto", **settings: Any) -> Any:
    """The table with its gaps filled; an object of the same kind.

    The model is fitted to the table itself, unless ``model`` names a trained one. Settings: see ``TableImputer``;
    ``folder`` and ``progress``: see ``TableImputer.fit``.

    Observed values are returned unchanged to the bit, with two exceptions: numbers that mean "missing", such as -999,
    are filled as gaps (``missing_codes="none"`` keeps them), and with ``drop_invalid`` so are values outside the
    limits. An ``ImputationWarning`` counts these cells, added rows, and columns that are passed through.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"a": [1.0, None, 3.0] * 20, "b": [2.0, 4.0, None] * 20})
        >>> filled = impute(frame, effort="trial", n_samples=3, calibrate=False, limits=(0, None))
        >>> int(frame.isna().sum().sum()), int(filled.isna().sum().sum())
        (40, 0)
    """
    return TableImputer().set_params(**settings).fit_draw(table, folder=folder, progress=progress).table

"""The first steps of every call: a table is read as the settings say, and prepared for a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from tsimpute.filling.imputer.saved_tables import FittedTable
from tsimpute.filling.learning.learning import EFFORTS
from tsimpute.filling.preparing.model_rules import ModelRules, limits_for, rules_of
from tsimpute.filling.preparing.prepare import check_features, prepare
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.filling.preparing.series import Policy
from tsimpute.filling.settings.table_settings import Settings
from tsimpute.imputers.base import TableModel
from tsimpute.tables.frames.frames import TimeOptions
from tsimpute.tables.frames.table import Table
from tsimpute.tables.roles.columns import ColumnSpec, check_units
from tsimpute.tables.sources.files import TextForm, read_file, read_table

_NO_CALENDAR = (
    "calendar: not used; the Gaussian process finds daily, weekly and yearly profiles in the times themselves"
)


@dataclass(frozen=True)
class TableReader:
    """Reads and prepares tables.

    Attributes:
        settings: of the imputer.
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

    def read_file(self, path: Path, form: TextForm | None, progress: Callable[[int, int], None]) -> Table:
        """The table of a file."""
        return read_file(path, self.spec, self.time_options, self.settings.units, form, progress)

    def prepared(self, table: Any) -> Prepared:
        """The table with its codes, invalid values and kinds of columns; of an object, or of a ``Table``."""
        settings, rules, fitted = self.settings, self.rules, self.fitted
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
        if prepared.calendar and self._finds_seasons:
            prepared = replace(prepared, calendar=(), warnings=(*prepared.warnings, _NO_CALENDAR))
        return prepared

    @property
    def _finds_seasons(self) -> bool:
        """Whether the model finds seasons in the times by itself, and needs no calendar."""
        if self.model is None:
            return EFFORTS[self.settings.effort].methods != "network"
        return self.model.whole_series and not any(feature.given for feature in self.model.features_)

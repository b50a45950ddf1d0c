"""The settings of a table imputer, what it has learnt, and the file that keeps both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from tsimpute.errors import CheckpointError, ConfigError, NotFittedError
from tsimpute.filling.imputer.checks import check_together
from tsimpute.filling.imputer.learnt_tables import (
    OF_CALLS,
    LearntTable,
    Saved,
    Taken,
    read_saved,
    saved_of,
    write_saved,
)
from tsimpute.filling.imputer.notices import Notices
from tsimpute.filling.measuring.calibration import Calibration
from tsimpute.filling.preparing.model_rules import ModelRules, rules_of
from tsimpute.filling.settings.parameters import Parameters
from tsimpute.filling.settings.table_settings import Settings, normalised
from tsimpute.filling.settings.values import is_same
from tsimpute.imputers.base import TableModel
from tsimpute.screening.column_kinds import ColumnKind
from tsimpute.tables.frames.frames import Clockwork
from tsimpute.tables.roles.columns import Told


class Persistent(Parameters):
    """Settings and what was learnt with them; see ``TableImputer``."""

    model: TableModel | str | Path | None
    calibrate: bool
    imputer_: TableModel | None
    calibration_: Calibration
    codes_: dict[str, tuple[float, ...]]
    kinds_: tuple[ColumnKind, ...]
    scores_: tuple[dict[str, str | float], ...]
    delivered_: str
    table_: LearntTable

    @property
    def settings(self) -> Settings:
        """The settings in one form each.

        Raises:
            ConfigError: one is of the wrong kind or out of range.
            CheckpointError: the model's file is foreign or damaged.
        """
        return normalised(self.effective_params())

    def effective_params(self) -> dict[str, Any]:
        """The settings as given; where left at their defaults, those that the model's file holds of its table."""
        given, taken = self.get_params(), self._taken()
        if taken is None or self.model is None:
            return given
        defaults = self.defaults()
        of_table = {name: value for name, value in taken.saved.settings.items() if name not in OF_CALLS}
        return given | {name: value for name, value in of_table.items() if is_same(given.get(name), defaults[name])}

    @property
    def told(self) -> Told:
        """What is said of the columns, and what was learnt of them."""
        return self._told(fitting=False)

    def _told(self, fitting: bool) -> Told:
        told, table, rules = self.settings.told, getattr(self, "table_", None), self.rules
        if rules is not None and rules.tables is not None:
            told = replace(told, known=rules.known)
        return told if table is None or (fitting and not self.is_known) else replace(told, learnt=table.roles)

    @property
    def clockwork(self) -> Clockwork:
        """How times are read; for a given model they are put into the steps of its data set."""
        clockwork, rules = self.settings.clockwork, self.rules
        if rules is None or rules.tables is None or clockwork.irregular:
            return clockwork
        return replace(clockwork, step=rules.tables.step)

    @property
    def rules(self) -> ModelRules | None:
        """How a table is brought to the model that was given; None where none was."""
        rename = self.settings.rename
        if self.model is None or self.imputer_ is None:
            return rules_of(None, rename)
        return rules_of(self.imputer_.features_, rename)

    @property
    def levels(self) -> tuple[float, ...]:
        """The quantiles' levels, increasing."""
        return self.settings.levels

    @property
    def _notices(self) -> Notices:
        """What was said of the tables since the last fit."""
        return self.__dict__.setdefault("_said", Notices())

    def check(self) -> None:
        """Refuses settings that are out of range, or of which one would be ignored.

        Raises:
            ConfigError: there are some.
        """
        check_together(self.settings)

    def ignored(self) -> list[str]:
        """What was set beside a given model and has no part in filling, a sentence each."""
        effort, minutes = (self.get_params()[name] for name in ("effort", "minutes"))
        if self.model is not None and minutes is not None:
            return [f"minutes={minutes!r} has no effect, since a trained model is given"]
        if self.model is None or is_same(effort, self.defaults()["effort"]):
            return []
        measures = self.calibrate and not self.keeps_calibration
        part = "; it only says how much is measured to calibrate" if measures else " and has no effect"
        return [
            f"effort={effort!r} trains nothing{part}, since a trained model is given. To learn from the table itself, "
            "give no model"
        ]

    @property
    def is_known(self) -> bool:
        """Whether a file of ``save`` was given as model, with what was learnt from its table."""
        taken = self._taken()
        return self.model is not None and taken is not None and taken.saved.table is not None

    @property
    def keeps_calibration(self) -> bool:
        """Whether the calibration of the model's file holds, and nothing is measured on the tables that are filled.

        A file that holds none, as of a small table, is calibrated on the table that is filled, as a model alone is.
        """
        taken = self._taken()
        if not self.is_known or taken is None or taken.saved.table is None or self.settings.recalibrate:
            return False
        return taken.saved.table.calibration.n_cells > 0 or not self.settings.calibrate

    def save(self, path: Path | str) -> None:
        """Writes the model and all else that was learnt or set to one safetensors file, whole or not at all.

        Raises:
            NotFittedError: before ``fit``.
            ConfigError: a name of a column or a setting is no plain text or number; or the path is a folder.
        """
        self._check_fitted()
        if not hasattr(self, "table_"):
            raise NotFittedError("table imputer: expected fit before save; a model alone is saved by its own save.")
        if Path(path).is_dir():
            raise ConfigError(f"path: expected the name of a file to write, came the folder {path}. Add a name to it.")
        table = replace(self.table_, calibration=self.calibration_, scores=self.scores_, codes=self.codes_)
        settings = self.effective_params()
        del settings["model"]
        write_saved(Path(path), Saved(self.imputer_, settings, table, trained=self.model is None))

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Reads what ``save`` wrote: it draws what the saved one drew, to the bit. Runs no code from the file.

        Raises:
            CheckpointError: the file is foreign, damaged or of another layout, or holds a model alone.
        """
        saved = read_saved(Path(path))
        if saved.table is None:
            raise CheckpointError(
                f"{path}: expected a file of TableImputer.save, came a model alone. Use TableImputer(model=...)."
            )
        unknown = [name for name in saved.settings if name not in cls.defaults()]
        if unknown:
            raise CheckpointError(f"{path}: expected settings of this version, came {unknown[0]!r}. Update tsimpute.")
        imputer = cls(**{"model": None if saved.trained else saved.model} | dict(saved.settings))
        imputer._take(Taken(imputer.model, saved), calibrated=True)
        return imputer

    def _taken(self) -> Taken | None:
        """What the model that is given holds, taken as learnt when it is first needed; None where none is given."""
        taken: Taken | None = getattr(self, "_from_file", None)
        if self.model is not None and (taken is None or taken.given is not self.model):
            taken = Taken(self.model, saved_of(normalised(self.get_params()).model))
            self._take(taken, calibrated=self.calibrate)
        return taken

    def _take(self, taken: Taken, calibrated: bool) -> None:
        saved, self._from_file = taken.saved, taken
        self.imputer_ = saved.model
        self._forget_table()
        if saved.table is not None:
            self.table_, self.codes_, self.kinds_ = saved.table, dict(saved.table.codes), saved.table.kinds
            if calibrated:
                self.calibration_, self.scores_ = saved.table.calibration, saved.table.scores

    def _forget_table(self) -> None:
        self.calibration_, self.scores_, self.delivered_ = Calibration(), (), ""
        for name in ("codes_", "kinds_", "table_"):
            self.__dict__.pop(name, None)

    def _check_fitted(self) -> None:
        self._taken()
        if not hasattr(self, "imputer_"):
            raise NotFittedError("table imputer: expected fit before impute.")

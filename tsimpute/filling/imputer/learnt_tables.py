"""What fitting to a table gives beside the model, and how it is kept in the model's file."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from tsimpute.core.limits import Limits
from tsimpute.core.panel import Clock
from tsimpute.errors import CheckpointError, ConfigError
from tsimpute.filling.blending.mixture import model_from_file
from tsimpute.filling.measuring.calibration import Calibration
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.filling.settings.values import is_list, listed
from tsimpute.imputers.base import TableModel
from tsimpute.models.checkpoints import read_model, write_model
from tsimpute.models.pretrained import model_path
from tsimpute.screening.column_kinds import ColumnKind
from tsimpute.tables.roles.columns import ColumnSpec

KEY = "table"
"""Of it in the description of a model file."""
OF_CALLS = {
    "model", "n_samples", "seed", "effort", "minutes", "calibrate", "recalibrate", "keep_samples", "max_gap",
    "no_information",
}  # fmt: skip
"""Settings that are of each call, and not of how a table is read."""


@dataclass(frozen=True)
class LearntTable:
    """What is known of the table that was fitted to.

    Attributes:
        name: of its file, or what kind of object it was.
        date: on which it was fitted to, as 2026-11-29.
        features: names of all its features.
        clock: of its times.
        limits: by feature.
        codes: for missing, by feature.
        roles: what its columns are; None where it has none.
        kinds: what kind of column each feature is.
        calibration: of the quantiles.
        scores: what was measured on hidden cells, one row per imputer.
    """

    name: str
    date: str
    features: tuple[str, ...]
    clock: Clock
    limits: Mapping[str, Limits]
    codes: Mapping[str, tuple[float, ...]]
    roles: ColumnSpec | None
    kinds: tuple[ColumnKind, ...] = ()
    calibration: Calibration = field(default_factory=Calibration)
    scores: tuple[dict[str, str | float], ...] = ()

    @classmethod
    def of(cls, prepared: Prepared, name: str) -> LearntTable:
        """Of a table that has been understood, on this day; without a name, its kind and size are its name."""
        layout = dict(prepared.table.understood).get("layout", "table")
        today = datetime.date.today().isoformat()
        roles = prepared.table.roles_by_name
        names, clock = tuple(feature.name for feature in prepared.visible.features), prepared.visible.clock
        about = (names, clock, dict(prepared.limits), dict(prepared.codes), roles, prepared.kinds)
        return cls(name or f"a table ({layout})", today, *about)


@dataclass(frozen=True)
class Saved:
    """What a file of a table imputer holds.

    Attributes:
        model: None where no feature is predicted by one.
        settings: of the imputer, but its model.
        table: None where the file holds a model alone.
        trained: whether the model was trained by the imputer, and not given.
    """

    model: TableModel | None
    settings: Mapping[str, Any]
    table: LearntTable | None
    trained: bool = False


@dataclass(frozen=True)
class Taken:
    """What was taken from the model that a table imputer was given.

    Attributes:
        given: the setting, as it was given.
    """

    given: Any
    saved: Saved


def saved_of(model: TableModel | str | Path | None) -> Saved:
    """What a model holds: one as it is, a file, or the name of a bundled one."""
    if isinstance(model, str | Path):
        return read_saved(model_path(model))
    return Saved(model, {}, None)


def write_saved(path: Path, saved: Saved) -> None:
    """Writes one file: a model file that holds the rest in its description.

    Raises:
        ConfigError: a name of a column or another setting is no plain text or number.
    """
    assert saved.table is not None
    table = saved.table
    about: dict[str, Any] = {
        "settings": _plain(dict(saved.settings)),
        "trained": saved.trained,
        "name": table.name,
        "date": table.date,
        "features": list(table.features),
        "clock": asdict(table.clock),
        "limits": _plain(dict(table.limits)),
        "codes": _plain(dict(table.codes)),
        "roles": None
        if table.roles is None
        else {f.name: _plain(getattr(table.roles, f.name)) for f in fields(ColumnSpec) if f.name != "known"},
        "kinds": [list(astuple(kind)) for kind in table.kinds],
        "calibration": [table.calibration.n_cells, _plain(dict(table.calibration.factors))],
        "scores": _plain([dict(row) for row in table.scores]),
    }
    if saved.model is None:
        write_model(path, {}, {KEY: about})
    else:
        saved.model.save(path, {KEY: about})


def read_saved(path: Path) -> Saved:
    """What ``write_saved`` wrote, or a model alone. Runs no code from the file.

    Raises:
        CheckpointError: the file is foreign, damaged or of another layout.
    """
    weights, about = read_model(path)
    model = model_from_file(path, weights, about) if weights else None
    kept = about.get(KEY)
    if kept is None:
        return Saved(model or model_from_file(path, weights, about), {}, None)
    try:
        roles = kept["roles"]
        n_cells, factors = kept["calibration"]
        table = LearntTable(
            kept["name"],
            kept["date"],
            tuple(kept["features"]),
            Clock(**kept["clock"]),
            _read(kept["limits"]),
            _read(kept["codes"]),
            None if roles is None else ColumnSpec(**{name: _read(of_one) for name, of_one in roles.items()}),
            tuple(ColumnKind(*kind) for kind in kept["kinds"]),
            Calibration(_read(factors), n_cells),
            tuple(_read(kept["scores"])),
        )
        return Saved(model, _read(kept["settings"]), table, kept["trained"])
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{path}: the file is damaged or of another layout ({reason}).") from error


def _plain(value: Any) -> Any:
    """Settings and names as JSON has them; what it has no form for is marked by its kind."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Limits):
        return {"limits": [value.low, value.high, value.integer]}
    if isinstance(value, Mapping):
        return {"by name": [[_plain(name), _plain(of_one)] for name, of_one in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_plain(of_one) for of_one in value]}
    if is_list(value):
        return [_plain(of_one) for of_one in listed(value)]
    if isinstance(value, datetime.tzinfo):
        return str(value)
    raise ConfigError(
        f"save: expected settings and names of columns that are texts or numbers, came {value!r}. Rename the column, "
        "or give the setting in another form."
    )


def _read(value: Any) -> Any:
    """What ``_plain`` made plain."""
    if isinstance(value, list):
        return [_read(of_one) for of_one in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "limits":
        return Limits(*content)
    if kind == "tuple":
        return tuple(_read(of_one) for of_one in content)
    return {_read(name): _read(of_one) for name, of_one in content}

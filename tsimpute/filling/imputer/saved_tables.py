"""What is known of a fitted table, and the file that keeps it with the model."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from tsimpute.core.limits import Limits
from tsimpute.core.panel import Clock, Panel
from tsimpute.errors import CheckpointError, ConfigError
from tsimpute.filling.blending.mixture import model_from_file
from tsimpute.filling.measuring.calibration import Calibration
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.filling.preparing.table_settings import is_list, listed
from tsimpute.imputers.base import TableModel
from tsimpute.models.checkpoints import read_model, write_model
from tsimpute.screening.column_kinds import ColumnKind
from tsimpute.tables.roles.columns import ColumnSpec

KEY = "table"
"""Its key in the description of a model file."""


@dataclass(frozen=True)
class FittedTable:
    """What is known of the table that an imputer was fitted to.

    Attributes:
        name: of its file, or its kind and size. date: of the fit, as 2026-11-29.
        features: names of all its features. limits, codes: by feature.
        roles: of its columns; None where it has no columns.
        kinds: what kind of column each feature is.
        scores: measured on hidden cells, one row per imputer.
        digest: identifies the values that a model may see, so that the same table is known again; "" = not known.
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
    digest: str = ""

    @classmethod
    def of(cls, prepared: Prepared, name: str) -> FittedTable:
        """Of a prepared table, today; without a name its kind and size are its name."""
        layout = dict(prepared.table.understood).get("layout", "table")
        return cls(
            name or f"a table ({layout})", datetime.date.today().isoformat(),
            tuple(feature.name for feature in prepared.visible.features), prepared.visible.clock, dict(prepared.limits),
            dict(prepared.codes), prepared.table.roles_by_name, prepared.kinds, digest=_digest(prepared.visible),
        )  # fmt: skip


def _digest(panel: Panel) -> str:
    """A short text that is the same for the same observed values of the same features."""
    digest = hashlib.blake2b("\n".join(feature.name for feature in panel.features).encode(), digest_size=8)
    for series in panel.series:
        digest.update(np.packbits(series.observed).tobytes() + series.values[series.observed].tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class SavedImputer:
    """The contents of a file of ``TableImputer.save``.

    Attributes:
        model: None where all features are filled by rules.
        settings: of the imputer, without its model.
        table: None where the file holds only a model.
        trained: whether the imputer trained the model; False where it was given.
    """

    model: TableModel | None
    settings: Mapping[str, Any]
    table: FittedTable | None
    trained: bool = False

    def is_of(self, table: FittedTable | None) -> bool:
        """Whether the model was trained on a table with the same values."""
        return self.trained and None not in (table, self.table) and self.table.digest == table.digest != ""  # type: ignore[union-attr]


def write_saved(
    path: Path, model: TableModel | None, settings: Mapping[str, Any], table: FittedTable, trained: bool
) -> None:
    """Writes one file: a model file with all else in its description.

    Raises:
        ConfigError: a column name or a setting is not text or a number, or the path is a folder.
    """
    if path.is_dir():
        raise ConfigError(f"path: expected the name of a file to write, came the folder {path}. Add a name to it.")
    roles = table.roles
    entry: dict[str, Any] = {
        "settings": _encoded(dict(settings)),
        "trained": trained,
        "name": table.name,
        "date": table.date,
        "features": list(table.features),
        "clock": asdict(table.clock),
        "limits": _encoded(dict(table.limits)),
        "codes": _encoded(dict(table.codes)),
        "roles": roles and {f.name: _encoded(getattr(roles, f.name)) for f in fields(roles) if f.name != "known"},
        "kinds": [list(astuple(kind)) for kind in table.kinds],
        "calibration": [table.calibration.n_cells, _encoded(dict(table.calibration.factors))],
        "scores": _encoded([dict(row) for row in table.scores]),
        "digest": table.digest,
    }
    if model is None:
        write_model(path, {}, {KEY: entry})
    else:
        model.save(path, {KEY: entry})


def read_saved(path: Path) -> SavedImputer:
    """Reads what ``write_saved`` wrote, or a file that holds only a model. Runs no code from the file.

    Raises:
        CheckpointError: the file is foreign, damaged or of another layout.
    """
    weights, description = read_model(path)
    model = model_from_file(path, weights, description) if weights else None
    entry = description.get(KEY)
    if entry is None:
        return SavedImputer(model or model_from_file(path, weights, description), {}, None)
    try:
        roles = entry["roles"]
        n_cells, factors = entry["calibration"]
        table = FittedTable(
            name=entry["name"],
            date=entry["date"],
            features=tuple(entry["features"]),
            clock=Clock(**entry["clock"]),
            limits=_decoded(entry["limits"]),
            codes=_decoded(entry["codes"]),
            roles=roles and ColumnSpec(**{name: _decoded(value) for name, value in roles.items()}),
            kinds=tuple(ColumnKind(*kind) for kind in entry["kinds"]),
            calibration=Calibration(_decoded(factors), n_cells),
            scores=tuple(_decoded(entry["scores"])),
            digest=entry.get("digest", ""),
        )
        return SavedImputer(model, _decoded(entry["settings"]), table, entry["trained"])
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{path}: the file is damaged or of another layout ({reason}).") from error


def _encoded(value: Any) -> Any:
    """Settings and names as JSON; a value that JSON does not have is marked by its kind."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Limits):
        return {"limits": [value.low, value.high, value.integer]}
    if isinstance(value, Mapping):
        return {"by name": [[_encoded(name), _encoded(of_name)] for name, of_name in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(item) for item in value]}
    if is_list(value):
        return [_encoded(item) for item in listed(value)]
    if isinstance(value, datetime.tzinfo):
        return str(value)
    raise ConfigError(
        f"save: expected settings and names of columns that are texts or numbers, came {value!r}. Rename the column, "
        "or give the setting in another form."
    )


def _decoded(value: Any) -> Any:
    """The inverse of ``_encoded``."""
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "limits":
        return Limits(*content)
    if kind == "tuple":
        return tuple(_decoded(item) for item in content)
    return {_decoded(name): _decoded(of_name) for name, of_name in content}

"""What a suite has found: one folder for each method, task, fold and seed, written whole, and all of them read back."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tsimpute.config_files import to_dict
from tsimpute.errors import DataError
from tsimpute.files import write_whole
from tsimpute.reporting import Report
from tsimpute.suites.breakdowns import Part
from tsimpute.suites.methods import named_files, training_config
from tsimpute.suites.settings import Entry, Suite, entries

ABOUT, PARTS = "entry.json", "breakdown.csv"


@dataclass(frozen=True)
class Scored:
    """One scored state of a method.

    Attributes:
        epoch: None for a method that is not trained in epochs.
        trained: seconds of training up to it; None = not known.
        filled: seconds that filling took.
    """

    epoch: int | None
    trained: float | None
    filled: float
    n_samples: int


@dataclass(frozen=True)
class Found:
    """All that is known of one entry.

    Attributes:
        key: of the settings that it was made with; other settings, another key.
        order: what the protocol did, in which order.
        n_cells, n_records: that were scored.
        sabotage: see ``tsimpute.suites.sabotage``; "" = not tested.
        protocol_leaks: the protocol's own scaler has seen held-out values.
        machine, versions, commit: where it was made.
        scored: by epoch.
    """

    key: str
    order: str
    n_cells: int
    n_records: int
    sabotage: str
    protocol_leaks: bool
    machine: str
    versions: Mapping[str, str]
    commit: str
    scored: tuple[Scored, ...]
    changes: Mapping[str, int] = field(default_factory=dict)


def key_of(suite: Suite, entry: Entry) -> str:
    """A short key of all that the numbers of an entry depend on, files that are named included; without epochs."""
    task, method = suite.tasks[entry.task], suite.methods[entry.method]
    asked = {
        "task": {k: v for k, v in to_dict(task).items() if k not in ("at_epochs", "n_cells")},
        "method": {k: v for k, v in to_dict(method).items() if k != "tasks"},
        "entry": dataclasses.asdict(entry),
        "draws": [suite.n_samples, suite.fill, suite.sabotage],
        "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in named_files(task, method)},
    }
    if method.config is not None:
        asked["training"] = to_dict(training_config(suite, task, method, entry.fold, entry.seed))
        asked["training"]["training"].pop("keep_epochs")
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def write_entry(folder: Path, found: Found, report: Report, parts: Iterable[tuple[int | None, Part]]) -> None:
    """Writes an entry; ``entry.json`` last, so that what has one is whole."""
    report.write(folder)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["epoch", *(f.name for f in dataclasses.fields(Part))])
    for epoch, part in parts:
        writer.writerow(["" if v is None else v for v in (epoch, *dataclasses.astuple(part))])
    _write(folder / PARTS, out.getvalue())
    _write(folder / ABOUT, json.dumps(dataclasses.asdict(found), indent=1, sort_keys=True) + "\n")


def read_entry(folder: Path) -> Found | None:
    """What ``write_entry`` wrote; None where there is nothing whole.

    Raises:
        DataError: the file is damaged.
    """
    path = folder / ABOUT
    if not path.is_file():
        return None
    try:
        stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        stored["scored"] = tuple(Scored(**one) for one in stored["scored"])
        return Found(**stored)
    except (ValueError, TypeError, LookupError) as error:
        raise DataError(f"{path}: expected what a suite writes, cannot be read: {error}. Remove it.") from error


def read_parts(folder: Path) -> list[tuple[int | None, Part]]:
    """The breakdown of an entry, with the epoch of each part."""
    with (folder / PARTS).open(newline="", encoding="utf-8") as file:
        return [(int(row["epoch"]) if row["epoch"] else None, _part(row)) for row in csv.DictReader(file)]


def all_found(suite: Suite, out: Path) -> Iterator[tuple[Entry, Found, Report, list[tuple[int | None, Part]]]]:
    """Every entry of the suite that is done, with its rows and its breakdown."""
    for entry in entries(suite):
        folder = out / entry.folder
        found = read_entry(folder)
        if found is not None and found.key == key_of(suite, entry):
            yield entry, found, Report.read(folder), read_parts(folder)


def _part(row: Mapping[str, str]) -> Part:
    value = float(row["value"]) if row["value"] else None
    return Part(row["kind"], row["key"], row["metric"], value, int(row["n_cells"]))


def _write(path: Path, text: str) -> None:
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8", newline=""))

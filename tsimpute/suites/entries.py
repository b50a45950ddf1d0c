"""What a suite has found: one folder for each method, task, fold and seed, written whole, and all of them read back."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tsimpute.config.yaml_files import to_dict
from tsimpute.errors import ConfigError, DataError
from tsimpute.evaluation.evaluate import rescore
from tsimpute.evaluation.reporting import Report, Row
from tsimpute.suites.breakdowns import Part
from tsimpute.suites.methods import named_files, settings_that_count, training_config
from tsimpute.suites.settings import Entry, Suite, entries
from tsimpute.system.files import atomic_write

ABOUT, PARTS, STEPS = "entry.json", "breakdown.csv", "steps.csv"
_WITHOUT_NUMBERS = ("at_epochs", "n_cells", "n_steps", "folds", "seeds")
"""Settings of a task that change which numbers there are, and none of them."""


@dataclass(frozen=True)
class CheckpointScore:
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
class EntryRecord:
    """All that is known of one entry.

    Attributes:
        key: of the settings that it was made with; other settings, another key.
        order: what the protocol did, in which order.
        n_cells, n_records: that were scored.
        sabotage: see ``tsimpute.experiments.leakage``; "" = not tested.
        protocol_leaks: the protocol's own scaler has seen held-out values.
        machine, versions, commit: where it was made.
        scored: by epoch.
        changes: see ``Task``.
        reached: share of the observed cells of the test records that is held out.
        n_cells_of_all: scored cells of all test records, those included that were left out to save time.
        records: digest of the test records and their holes.
        n_steps: numbers of solver steps that the last state was scored with, beside its own.
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
    scored: tuple[CheckpointScore, ...]
    changes: Mapping[str, int] = field(default_factory=dict)
    reached: float | None = None
    n_steps: tuple[int, ...] = ()
    n_cells_of_all: int | None = None
    records: str = ""


@dataclass(frozen=True)
class Result:
    """An entry that is done, with all that was found.

    Attributes:
        parts: the breakdown after each epoch.
        steps: the last state with other numbers of solver steps.
    """

    entry: Entry
    found: EntryRecord
    report: Report
    parts: Sequence[tuple[int | None, Part]]
    steps: Report


def key_of(suite: Suite, entry: Entry) -> str:
    """A short key of all that the numbers of an entry depend on, files that are named included; without epochs.

    Raises:
        ConfigError: a file that is named is not there, or a setting of a training is not as expected.
    """
    task, method = suite.tasks[entry.task], suite.methods[entry.method]
    # Of a training the content of its settings counts, and not what their file is called.
    elsewhere = ("tasks",) if method.config is None else ("tasks", "config", "settings")
    asked = {
        "task": {k: v for k, v in to_dict(task).items() if k not in _WITHOUT_NUMBERS},
        "method": {k: v for k, v in to_dict(method).items() if k not in elsewhere},
        "entry": dataclasses.asdict(entry),
        "draws": [suite.n_samples, suite.fill, suite.sabotage],
        "files": _digests(named_files(suite, task, method)),
    }
    if suite.device != "cpu" and not method.imputer:
        asked["device"] = suite.device
    if method.config is not None:
        asked["training"] = settings_that_count(training_config(suite, task, method, entry.fold, entry.seed))
    return hashlib.sha256(json.dumps(_by_text(asked), sort_keys=True, default=str).encode()).hexdigest()[:16]


def _digests(paths: Sequence[Path]) -> dict[str, str]:
    """By path from the folder of the first one, where it is in it; else by name."""
    names = [path.relative_to(paths[0].parent) if paths[0].parent in path.parents else path.name for path in paths]
    return {str(name): hashlib.sha256(path.read_bytes()).hexdigest() for name, path in zip(names, paths, strict=True)}


def write_entry(folder: Path, result: Result) -> None:
    """Writes an entry; ``entry.json`` last, so that what has one is whole."""
    result.report.write(folder)
    if result.steps.rows:
        _write(folder / STEPS, result.steps.csv())
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["epoch", *(f.name for f in dataclasses.fields(Part))])
    for epoch, part in result.parts:
        writer.writerow(["" if v is None else v for v in (epoch, *dataclasses.astuple(part))])
    _write(folder / PARTS, out.getvalue())
    _write(folder / ABOUT, json.dumps(dataclasses.asdict(result.found), indent=1, sort_keys=True) + "\n")


def read_entry(folder: Path) -> EntryRecord | None:
    """What ``write_entry`` wrote; None where there is nothing whole.

    Raises:
        DataError: the file is damaged.
    """
    path = folder / ABOUT
    if not path.is_file():
        return None
    try:
        stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        stored["scored"] = tuple(CheckpointScore(**one) for one in stored["scored"])
        stored["n_steps"] = tuple(stored.get("n_steps", ()))
        return EntryRecord(**stored)
    except (ValueError, TypeError, LookupError) as error:
        raise DataError(f"{path}: expected what a suite writes, cannot be read: {error}. Remove it.") from error


def kept(suite: Suite, out: Path, entry: Entry) -> EntryRecord | None:
    """What is known of an entry that was made with the settings of the suite; None where there is nothing whole.

    Raises:
        DataError: the file is damaged. ConfigError: see ``key_of``.
    """
    found = read_entry(out / entry.folder)
    return found if found is not None and found.key == key_of(suite, entry) else None


def read_result(suite: Suite, out: Path, entry: Entry) -> Result | None:
    """What is there of an entry, made with the settings of the suite; None where there is nothing whole.

    Raises:
        DataError: a file is damaged.
    """
    folder, found = out / entry.folder, kept(suite, out, entry)
    if found is None:
        return None
    try:
        steps = Report.read(folder / STEPS) if found.n_steps else Report(())
        result = Result(entry, found, Report.read(folder), _read_parts(folder), steps)
        for scored in found.scored:
            result.report.value("crps", epoch=scored.epoch)
        return result
    except (DataError, OSError, ValueError, LookupError, TypeError) as error:
        raise DataError(f"{folder}: what a suite has written is damaged: {error}. Remove the folder.") from error


def all_found(suite: Suite, out: Path) -> Iterator[Result]:
    """Every entry of the suite that is done; not those whose own files are gone."""
    for entry in entries(suite):
        with suppress(ConfigError):
            result = read_result(suite, out, entry)
            if result is not None:
                yield result


def not_shown(suite: Suite, out: Path) -> list[str]:
    """Sentences on what lies in ``out`` and cannot be shown, as a file that it depends on is not there now."""
    missing = []
    for entry in entries(suite):
        if (out / entry.folder / ABOUT).is_file():
            try:
                key_of(suite, entry)
            except ConfigError as error:
                missing.append(
                    f"Not shown: {entry.task}, {entry.method}, fold {entry.fold}, seed {entry.seed}: {error}"
                )
    return missing


def clear(folder: Path) -> None:
    """Takes away what was made with other settings, so that nothing of it stands beside other numbers."""
    (folder / ABOUT).unlink(missing_ok=True)  # first: what has one is whole
    for path in (*folder.glob("samples*.npz"), *folder.glob(".*.partial*"), folder / STEPS):
        path.unlink(missing_ok=True)


def samples_file(epoch: int | None, last: int | None) -> str:
    """Name of the file of the samples that a state was scored with."""
    return "samples.npz" if epoch == last else f"samples-{epoch:04d}.npz"


def samples_of(folder: Path, epoch: int | None) -> Path:
    """The file of the samples of a state, also where its training was stopped before the last one."""
    of_one = folder / samples_file(epoch, None)
    return of_one if of_one.is_file() else folder / samples_file(epoch, epoch)


def unequal(suite: Suite, out: Path, only: Sequence[Entry] | None = None) -> Iterator[tuple[Entry, int, list[str]]]:
    """Computes the metrics of every state once more from the samples that it kept.

    Yields:
        An entry, how many values were computed, and what is not in its table to the bit, or only there.
    """
    for result in all_found(suite, out):
        if only is not None and result.entry not in only:
            continue
        n, wrong = 0, []
        for scored in result.found.scored:
            path = samples_of(out / result.entry.folder, scored.epoch)
            if not path.is_file():
                wrong.append(f"{path.name} is not there")
                continue
            again = {_without_seconds(row) for row in rescore(path).rows}
            table = {_without_seconds(row) for row in result.report.where(epoch=scored.epoch).rows}
            n += len(again)
            wrong += sorted({f"{row.metric} of {row.feature}" for row in again ^ table})
        yield result.entry, n, wrong


def _without_seconds(row: Row) -> Row:
    return dataclasses.replace(row, seconds=0.0)


def _by_text(value: Any) -> Any:
    """With text as names throughout: YAML has numbers and dates as names too."""
    if isinstance(value, Mapping):
        return {str(key): _by_text(of_one) for key, of_one in value.items()}
    return [_by_text(one) for one in value] if isinstance(value, list | tuple) else value


def _read_parts(folder: Path) -> list[tuple[int | None, Part]]:
    """The breakdown of an entry, with the epoch of each part."""
    with (folder / PARTS).open(newline="", encoding="utf-8") as file:
        return [(int(row["epoch"]) if row["epoch"] else None, _part(row)) for row in csv.DictReader(file)]


def _part(row: Mapping[str, str]) -> Part:
    value = float(row["value"]) if row["value"] else None
    return Part(row["kind"], row["key"], row["metric"], value, int(row["n_cells"]))


def _write(path: Path, text: str) -> None:
    atomic_write(path, lambda partial: partial.write_text(text, encoding="utf-8", newline=""))

"""The stored results of a suite: one folder for each job, written whole, read back, and checked from its samples."""

from __future__ import annotations

import csv
import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tsimpute.errors import DataError
from tsimpute.evaluation.evaluate import rescore
from tsimpute.evaluation.reporting import Report, csv_text
from tsimpute.suites.jobs import Job
from tsimpute.system.files import atomic_write_text, package_digest

ABOUT, PARTS, STEPS = "entry.json", "breakdown.csv", "steps.csv"
METRICS = (
    ("crps", "CRPS"),
    ("crps_fair", "fair CRPS"),
    ("crps_mean_over_features", "CRPS over features"),
    ("ncrps", "nCRPS"),
    ("mae_median", "MAE of median"),
    ("rmse_mean", "RMSE of mean"),
    ("rmse_lower_median", "RMSE of lower median"),
    ("coverage_90", "90 % coverage"),
)
"""Metrics of the tables, with their titles; every checkpoint has them."""


@dataclass(frozen=True)
class CheckpointScore:
    """One scored checkpoint of a method.

    Attributes:
        epoch: None for a method that is not trained in epochs.
        seconds_training: up to this epoch; None = not known.
        seconds_sampling: of all records.
    """

    epoch: int | None
    seconds_training: float | None
    seconds_sampling: float
    n_samples: int


@dataclass(frozen=True)
class Part:
    """One number of a breakdown.

    Attributes:
        epoch: of the checkpoint.
        kind: "gap" (``key`` is one of ``scoring.BINS``), "interval" (``key`` is its width in percent), "table"
            or "density" (``key`` is the place of a conditional).
        metric: one of the metrics, "coverage" of an interval, or a metric of a whole table or a density.
        value: None where nothing was scored, or it is not defined.
        n_cells: scored; of a whole table its rows.
    """

    epoch: int | None
    kind: str
    key: str
    metric: str
    value: float | None
    n_cells: int


_PART_COLUMNS = [field.name for field in dataclasses.fields(Part)]


@dataclass(frozen=True)
class EntryRecord:
    """The stored description of a result.

    Attributes:
        key: of the job; other settings, another key.
        order: the steps of the protocol.
        n_cells, n_records: scored.
        leakage: see ``tsimpute.experiments.leakage``; "" = not tested.
        protocol_leaks: the protocol's own scaler has seen held-out values.
        machine, versions, commit: where it was made.
        code: digest of the package's source that made it; "" = not known.
        checkpoints: by epoch.
        changes: see ``Task``.
        achieved_rate: share of the observed cells of the test records that is held out.
        n_steps: further numbers of solver steps with which the last checkpoint was scored.
        n_cells_of_all: scored cells of all test records, including those that ``max_records`` leaves out.
        records: digest of the test records and their held-out cells.
    """

    key: str
    order: str
    n_cells: int
    n_records: int
    leakage: str
    protocol_leaks: bool
    machine: str
    versions: Mapping[str, str]
    commit: str
    checkpoints: tuple[CheckpointScore, ...]
    changes: Mapping[str, int] = field(default_factory=dict)
    achieved_rate: float | None = None
    n_steps: tuple[int, ...] = ()
    n_cells_of_all: int | None = None
    records: str = ""
    code: str = ""


@dataclass(frozen=True)
class Result:
    """The result of a job.

    Attributes:
        parts: the breakdown after each epoch.
        steps: the last checkpoint with other numbers of solver steps.
    """

    job: Job
    record: EntryRecord
    report: Report
    parts: Sequence[Part]
    steps: Report


def write_entry(folder: Path, result: Result) -> None:
    """Writes a result; ``entry.json`` last, so that a folder that has one is complete."""
    result.report.write(folder)
    if result.steps.rows:
        atomic_write_text(folder / STEPS, result.steps.csv())
    atomic_write_text(folder / PARTS, csv_text(_PART_COLUMNS, [dataclasses.astuple(part) for part in result.parts]))
    atomic_write_text(folder / ABOUT, json.dumps(dataclasses.asdict(result.record), indent=1, sort_keys=True) + "\n")


def stored(job: Job, out: Path) -> EntryRecord | None:
    """What is stored of a job, made with its settings; None where nothing complete is.

    Raises:
        DataError: the file is damaged.
    """
    path = out / job.folder / ABOUT
    if not path.is_file():
        return None
    try:
        fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        fields["checkpoints"] = tuple(CheckpointScore(**one) for one in fields["checkpoints"])
        fields["n_steps"] = tuple(fields.get("n_steps", ()))
        record = EntryRecord(**fields)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise damage(path.parent, f"{ABOUT}: {error}") from error
    return record if record.key == job.key else None


def read_result(job: Job, out: Path) -> Result | None:
    """The result of a job, made with its settings; None where nothing complete is stored.

    Raises:
        DataError: a file is damaged.
    """
    folder, record = out / job.folder, stored(job, out)
    if record is None:
        return None
    try:
        steps = Report.read(folder / STEPS) if record.n_steps else Report(())
        with (folder / PARTS).open(newline="", encoding="utf-8") as file:
            lines = csv.DictReader(file)
            if lines.fieldnames != _PART_COLUMNS:
                raise DataError(f"{PARTS}: expected the columns {', '.join(_PART_COLUMNS)}")
            parts = [
                Part(
                    int(row["epoch"]) if row["epoch"] else None, row["kind"], row["key"], row["metric"],
                    float(row["value"]) if row["value"] else None, int(row["n_cells"]),
                )
                for row in lines
            ]  # fmt: skip
        result = Result(job, record, Report.read(folder), parts, steps)
        for checkpoint in record.checkpoints:
            of_state = result.report.where(epoch=checkpoint.epoch, feature="all", n_samples=checkpoint.n_samples)
            lacks = [metric for metric, _ in METRICS if metric not in {row.metric for row in of_state.rows}]
            if lacks:
                raise DataError(f"metrics.csv: no {lacks[0]} after epoch {checkpoint.epoch}")
        return result
    except (DataError, OSError, ValueError, LookupError, TypeError, csv.Error) as error:
        raise damage(folder, error) from error


def damage(folder: Path, reason: object) -> DataError:
    """The error of a file of an entry that cannot be read."""
    text = str(reason).rstrip(".")
    return DataError(f"{folder}: what a suite has written is damaged: {text}. Remove the folder, run the suite again.")


def read_results(
    jobs: Iterable[Job], out: Path, damaged: Callable[[DataError], None] | None = None
) -> Iterator[Result]:
    """The results of all jobs that are done and can be shown.

    Args:
        damaged: called with the error of each entry that cannot be read, which is left out; None = it is raised.

    Raises:
        DataError: a file is damaged, where ``damaged`` is None.
    """
    for job in jobs:
        try:
            result = read_result(job, out) if job.problem is None else None
        except DataError as error:
            if damaged is None:
                raise
            damaged(error)
            continue
        if result is not None:
            yield result


def without_results(jobs: Iterable[Job], out: Path) -> list[Job]:
    """The jobs of which nothing complete, made with their settings, is stored; damaged entries are none of them."""

    def is_absent(job: Job) -> bool:
        with suppress(DataError):
            return job.problem is not None or stored(job, out) is None
        return False

    return [job for job in jobs if is_absent(job)]


def of_other_code(jobs: Iterable[Job], out: Path) -> list[Job]:
    """The jobs whose stored result was made by another state of this package's code; damaged entries are none."""

    def is_other(job: Job) -> bool:
        with suppress(DataError):
            record = None if job.problem is not None else stored(job, out)
            return record is not None and record.code != package_digest()
        return False

    return [job for job in jobs if is_other(job)]


def not_shown(jobs: Iterable[Job], out: Path) -> list[str]:
    """Sentences on results that are stored and cannot be shown, such as those of a file that no longer exists."""
    return [
        f"Not shown: {job}: {job.problem}"
        for job in jobs
        if job.problem is not None and (out / job.folder / ABOUT).is_file()
    ]


def clear(folder: Path) -> None:
    """Removes what was made with other settings."""
    (folder / ABOUT).unlink(missing_ok=True)  # first: a folder that has one is complete
    for path in (*folder.glob("samples*.npz"), *folder.glob(".*.partial*"), folder / STEPS):
        path.unlink(missing_ok=True)


def samples_file(epoch: int | None, last: int | None) -> str:
    """Name of the file of a checkpoint's samples."""
    return "samples.npz" if epoch == last else f"samples-{epoch:04d}.npz"


def samples_of(folder: Path, epoch: int | None) -> Path:
    """The file of a checkpoint's samples, also where its training was stopped before the last one."""
    path = folder / samples_file(epoch, None)
    return path if path.is_file() else folder / samples_file(epoch, epoch)


def unequal(
    jobs: Iterable[Job], out: Path, damaged: Callable[[DataError], None] | None = None
) -> Iterator[tuple[Job, int, list[str]]]:
    """Computes the metrics of every checkpoint again from its samples.

    Args:
        damaged: see ``read_results``.

    Yields:
        A job, how many values were computed, and which are not in its table to the bit, or only there.
    """
    for result in read_results(jobs, out, damaged):
        n, wrong = 0, []
        for checkpoint in result.record.checkpoints:
            path = samples_of(out / result.job.folder, checkpoint.epoch)
            if not path.is_file():
                wrong.append(f"{path.name} is not there")
                continue
            try:
                rescored = rescore(path)
            except DataError:
                wrong.append(f"{path.name} is damaged")
                continue
            of_table = result.report.where(epoch=checkpoint.epoch)
            again, table = (
                {dataclasses.replace(row, seconds=0.0) for row in report.rows} for report in (rescored, of_table)
            )
            n += len(again)
            wrong += sorted({f"{row.metric} of {row.feature}" for row in again ^ table})
        yield result.job, n, wrong

"""Runs the jobs of a suite that are not done yet, and continues those that were stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

from tsimpute.config.registry import IMPUTER_KINDS, available, is_import_path, is_known
from tsimpute.errors import BusyError, ConfigError, DataError, SourceError, TsimputeError
from tsimpute.evaluation.reporting import Report
from tsimpute.experiments.runs import task_of
from tsimpute.imputers.network.sampler import Sampler
from tsimpute.suites.checkpoints import Checkpoint, Progress, checkpoints, new_imputer, with_leakage_options
from tsimpute.suites.jobs import Job
from tsimpute.suites.results import CheckpointScore, Result, clear, read_result, samples_file, stored, write_entry
from tsimpute.suites.scoring import Prepared, leakage_result, new_record, prepare, score
from tsimpute.suites.user_defined import AbsentFileError, import_plugins, with_source
from tsimpute.system.files import exclusive_lock


class _StoppedError(Exception):
    """Asked to stop while a checkpoint was being scored: it is scored anew the next time."""


def run_suite(
    jobs: Sequence[Job],
    out: Path,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    out_of_time: Callable[[], bool] = lambda: False,
    progress: Progress = lambda what, done, total: None,
    failed: Callable[[Job, TsimputeError], None] | None = None,
) -> Iterator[Job]:
    """Trains and scores what is not done yet in ``out``, job by job; each checkpoint is written as it is scored.

    A job that another process is working on is tried once more at the end, and then left to it.

    Args:
        jobs: of one suite, see ``tsimpute.suites.jobs.plan``.
        should_stop: called between steps; True ends with everything on disk.
        out_of_time: the same, but what cannot be interrupted is finished first, once: each call makes progress.
        progress: called with what is being done, and how far it is.
        failed: called with a job that failed, and why; the others are run. None = the error is raised.

    Yields:
        Each job when it is done, also those that were done before.

    Raises:
        ConfigError, DataError: before any work: an unknown data set, imputer or setting, or a task has another number
            of scored cells than the suite expects.
        TsimputeError: of a job, where ``failed`` is None; errors of a user's code have its line.
        BusyError: of a job that is left to another process, where ``failed`` is None.
    """
    stopping = lambda: should_stop() or out_of_time()
    _check_settings(jobs)
    _check_numbers_of_cells(jobs, out)
    prepared: dict[tuple[str, int], Prepared] = {}
    busy: list[Job] = []
    worked = False
    for job in chain(jobs, busy):
        try:
            if job.problem is not None:
                raise job.problem
            if not _is_done(job, out):
                if should_stop() or (worked and out_of_time()):
                    return
                at = job.task, job.fold
                if at not in prepared:
                    prepared = {at: prepare(job)}  # one at a time: records may be large
                _run(job, out, prepared[at], should_stop, stopping, progress)
                worked = True
                if not _is_done(job, out):
                    return
        except (Exception, SystemExit) as error:
            if isinstance(error, BusyError) and job not in busy:
                busy.append(job)
                continue
            expected = _as_expected_error(job, error)
            if failed is None:
                raise expected from error
            failed(job, expected)
            continue
        yield job


def _as_expected_error(job: Job, error: BaseException) -> TsimputeError:
    """The error of a job. Any error may come from an imputer; elsewhere an unexpected one is a fault of this package.

    Raises:
        BaseException: that fault.
    """
    if isinstance(error, TsimputeError):
        return error
    if job.method_config.imputer and (job.files or isinstance(error, Exception)):
        return with_source(error, job.files, job.method_config.imputer)
    raise error


def _is_done(job: Job, out: Path) -> bool:
    record = stored(job, out)
    if record is None:
        return False
    return set(job.epochs) <= {one.epoch for one in record.checkpoints} and set(job.n_steps) <= set(record.n_steps)


def _check_settings(jobs: Sequence[Job]) -> None:
    """Refuses jobs whose settings are wrong, before any work; an absent file is the problem of its job alone.

    The modules of plug-ins are imported.
    """
    import_plugins(dict.fromkeys(one for job in jobs for one in job.plugins))
    for job in jobs:
        data = job.task_config.data.name
        if not is_known("datasets", data):
            known = ", ".join(available("datasets"))
            raise ConfigError(f"suite: task {job.task!r}: expected one of the data sets {known}; came {data!r}.")
        if isinstance(job.problem, ConfigError) and not isinstance(job.problem, AbsentFileError):
            raise job.problem
        if job.config is not None:
            Sampler(job.config.process, job.config.sampling).check()
        name = job.method_config.imputer
        if name and not any(is_known(kind, name) for kind in IMPUTER_KINDS):
            new_imputer(job)  # refuses it; an import path is not followed
        if name and not is_import_path(name) and job.method_config.leakage_options:
            new_imputer(with_leakage_options(job))


def _check_numbers_of_cells(jobs: Sequence[Job], out: Path) -> None:
    """Makes sure that each task has as many scored cells as expected, before any work.

    Stored results give the number; where one has none, the records are read.
    """
    for task, fold in dict.fromkeys((job.task, job.fold) for job in jobs):
        of_task = [job for job in jobs if (job.task, job.fold) == (task, fold)]
        expected = of_task[0].n_cells
        if expected is None:
            continue
        numbers = set()
        for job in of_task:
            record = None
            with suppress(DataError):  # reported where the job is run
                record = stored(job, out)
            numbers.add(None if record is None else record.n_cells_of_all)
        if None in numbers:
            with suppress(SourceError):  # reported where the job is run: other tasks may have their data
                numbers = {int(task_of(of_task[0].scoring).test.held_out_mask.sum())}
        wrong = [number for number in numbers if number not in (None, expected)]
        if wrong:
            raise DataError(
                f"suite: task {task!r}, fold {fold}: expected {expected:,} scored cells in the test records, came "
                f"{wrong[0]:,}. Other data, or another protocol?"
            )


def _run(
    job: Job,
    out: Path,
    prepared: Prepared,
    should_stop: Callable[[], bool],
    stopping: Callable[[], bool],
    progress: Progress,
) -> None:
    written = False

    def scored(what: str, done: int, total: int) -> None:
        progress(what, done, total)
        if done < total and (stopping() if written else should_stop()):
            raise _StoppedError

    with exclusive_lock(out / job.folder), suppress(_StoppedError):
        if _is_done(job, out):  # by another process, in the meantime
            return
        result = _so_far(job, out, prepared)
        if job.method_config.imputer:
            result = _with_leakage(result, prepared, None, progress)
        for model in checkpoints(job, out, prepared.task, stopping, progress):
            epochs = {checkpoint.epoch for checkpoint in result.record.checkpoints}
            if model.epoch in epochs if model.n_steps is None else model.n_steps in result.record.n_steps:
                continue
            if model.n_steps is None:
                tested = None if job.config is not None else model  # of what is trained here, a short training
                result = _with_leakage(result, prepared, tested, scored)
                result = _with_checkpoint(result, out, model, prepared, scored)
            else:
                result = _with_steps(result, model, prepared, scored)
            write_entry(out / job.folder, result)
            written = True
            if stopping():
                return


def _so_far(job: Job, out: Path, prepared: Prepared) -> Result:
    """What is stored of the job. Rows that were written before the job was stopped, and not recorded, are left out."""
    result = read_result(job, out)
    if result is None:
        return Result(job, new_record(job, prepared), Report(()), (), Report(()))
    complete = {checkpoint.epoch for checkpoint in result.record.checkpoints}
    return replace(
        result,
        report=Report(tuple(row for row in result.report.rows if row.epoch in complete)),
        parts=[part for part in result.parts if part.epoch in complete],
        steps=Report(tuple(row for row in result.steps.rows if row.n_steps in result.record.n_steps)),
    )


def _with_leakage(result: Result, prepared: Prepared, model: Checkpoint | None, progress: Progress) -> Result:
    """The result with that of the leakage test; itself where it has one, or none is wanted."""
    if not result.job.leakage_test or result.record.leakage:
        return result
    progress(f"{result.job.title}: changing hidden values", 0, 1)
    return replace(result, record=replace(result.record, leakage=leakage_result(result.job, prepared, model)))


def _with_checkpoint(result: Result, out: Path, model: Checkpoint, prepared: Prepared, progress: Progress) -> Result:
    """The result with one checkpoint more."""
    job = result.job
    if not result.record.checkpoints:
        clear(out / job.folder)
    what = job.title + ("" if model.epoch is None else f", epoch {model.epoch}")
    samples = out / job.folder / samples_file(model.epoch, job.epochs[-1])
    report, parts = score(job, model, prepared, lambda done, n: progress(f"{what}: scoring", done, n), samples)
    first = report.rows[0]
    done = CheckpointScore(model.epoch, model.seconds_training, first.seconds, first.n_samples)
    in_order = tuple(sorted((*result.record.checkpoints, done), key=lambda one: one.epoch or 0))
    return replace(
        result,
        record=replace(result.record, checkpoints=in_order),
        report=Report((*result.report.rows, *report.rows)),
        parts=[*result.parts, *parts],
    )


def _with_steps(result: Result, model: Checkpoint, prepared: Prepared, progress: Progress) -> Result:
    """The result with another number of solver steps of its last checkpoint."""
    job, n = result.job, model.n_steps
    assert n is not None
    rows = result.report.where(epoch=model.epoch, feature="all", n_steps=n).rows
    if not rows:
        what = f"{job.title}, {n} steps: scoring"
        report, _ = score(job, model, prepared, lambda done, total: progress(what, done, total), None)
        rows = report.where(feature="all").rows
    return replace(
        result,
        record=replace(result.record, n_steps=(*result.record.n_steps, n)),
        steps=Report((*result.steps.rows, *rows)),
    )

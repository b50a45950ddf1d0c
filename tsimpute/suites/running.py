"""Runs what of a suite is not done yet, and goes on where it was stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

from tsimpute.config.registry import available, is_known, plugin
from tsimpute.core.windows import Windows
from tsimpute.errors import BusyError, ConfigError, DataError, SourceError, TsimputeError
from tsimpute.evaluation.reporting import Report
from tsimpute.experiments import runs
from tsimpute.experiments.leakage import scaler_moves
from tsimpute.suites.entries import CheckpointScore, Result, clear, kept, key_of, read_result, samples_file, write_entry
from tsimpute.suites.methods import training_config, unknown_imputer
from tsimpute.suites.own import is_own, with_source
from tsimpute.suites.scoring import Prepared, blank, leakage_result, score
from tsimpute.suites.settings import Entry, Suite, TaskConfig, entries
from tsimpute.suites.states import Checkpoint, Progress, epochs_of, states, steps_of
from tsimpute.system.files import exclusive_lock
from tsimpute.tasks.task import Task


def run_suite(
    suite: Suite,
    out: Path,
    *,
    only: Sequence[Entry] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    out_of_time: Callable[[], bool] = lambda: False,
    progress: Progress = lambda what, done, total: None,
    failed: Callable[[Entry, TsimputeError], None] | None = None,
) -> Iterator[Entry]:
    """Trains and scores what is not done yet in ``out``, entry by entry; each state is written as it is scored.

    What another process is at work at is tried once more at the end, and left to it then.

    Args:
        only: entries of the suite to run; None = all.
        should_stop: asked between steps; True ends with everything on disk.
        out_of_time: the same, but what cannot be taken up in the middle is first finished once: each call gets on.
        progress: called with what is being done, and how far it is.
        failed: called with an entry that cannot be done, and why; the others are. None = the error is raised.

    Yields:
        Each entry when it is done, those too that were done before.

    Raises:
        ConfigError, DataError: before any work: there is no such data set, imputer or setting, or a task holds another
            number of scored cells than the suite expects.
        TsimputeError: of an entry, where ``failed`` is None; what a user's own code raises, with its line.
        BusyError: of an entry that is left to another process, where ``failed`` is None.
    """
    asked = entries(suite) if only is None else only
    _check_names(suite, asked)
    _check_numbers_of_cells(suite, out, asked)
    prepared: dict[tuple[str, int], Prepared] = {}
    busy: list[Entry] = []
    for entry in chain(asked, busy):
        try:
            if not _is_done(suite, out, entry):
                if should_stop() or out_of_time():
                    return
                at = entry.task, entry.fold
                if at not in prepared:
                    prepared = {at: _prepare(suite, entry)}  # one at a time: records may be large
                _run_entry(suite, out, entry, prepared[at], should_stop, out_of_time, progress)
                if not _is_done(suite, out, entry):
                    return
        except (Exception, SystemExit) as error:
            if isinstance(error, BusyError) and entry not in busy:
                busy.append(entry)
                continue
            sourced = _with_source(suite, entry, error)
            if failed is None:
                raise sourced from error
            failed(entry, sourced)
            continue
        yield entry


def _with_source(suite: Suite, entry: Entry, error: BaseException) -> TsimputeError:
    """The error of an entry; what a user's own code raises, with its line. Anything else is a fault of this package.

    Raises:
        BaseException: that fault.
    """
    if isinstance(error, TsimputeError):
        return error
    imputer = suite.methods[entry.method].imputer
    if is_own(imputer):
        return with_source(error, suite.path(imputer.partition(":")[0]))
    if imputer and isinstance(error, Exception):
        return TsimputeError(f"imputer {imputer!r}: {type(error).__name__}: {error}")
    raise error


def _is_done(suite: Suite, out: Path, entry: Entry) -> bool:
    found = kept(suite, out, entry)
    if found is None:
        return False
    done, method = {scored.epoch for scored in found.scored}, suite.methods[entry.method]
    epochs = epochs_of(suite, entry) if method.config is not None or method.run is not None else [None]
    return set(epochs) <= done and set(steps_of(suite, entry)) <= {*found.n_steps}


def _check_names(suite: Suite, asked: Sequence[Entry]) -> None:
    """Makes sure that there is what tasks and methods name, before any work."""
    for name in dict.fromkeys(entry.task for entry in asked):
        data = suite.tasks[name].data.name
        if not is_known("datasets", data):
            known = ", ".join(available("datasets"))
            raise ConfigError(f"suite: task {name!r}: expected one of the data sets {known}; came {data!r}.")
    for name in dict.fromkeys(entry.method for entry in asked):
        method = suite.methods[name]
        kinds = ("imputers", "peers")
        if method.imputer and not is_own(method.imputer) and not any(is_known(k, method.imputer) for k in kinds):
            raise unknown_imputer(method)
    for task, name in dict.fromkeys((entry.task, entry.method) for entry in asked):
        if suite.methods[name].config is not None:
            training_config(suite, suite.tasks[task], suite.methods[name], fold=0, seed=0)


def _check_numbers_of_cells(suite: Suite, out: Path, asked: Sequence[Entry]) -> None:
    """Makes sure that each task holds as many scored cells as expected, before any work.

    What is done tells it by itself; for the rest the records are read.
    """
    for task, fold in dict.fromkeys((entry.task, entry.fold) for entry in asked):
        expected = suite.n_cells(task, fold)
        if expected is None:
            continue
        numbers = {_number_kept(suite, out, entry) for entry in asked if (entry.task, entry.fold) == (task, fold)}
        if None in numbers:
            with suppress(SourceError):  # told where the entry is run: other tasks may have their data
                numbers = {int(_task(suite.tasks[task], fold).test.held_out_mask.sum())}
        wrong = [number for number in numbers if number not in (None, expected)]
        if wrong:
            raise DataError(
                f"suite: task {task!r}, fold {fold}: expected {expected:,} scored cells in the test records, came "
                f"{wrong[0]:,}. Other data, or another protocol?"
            )


def _number_kept(suite: Suite, out: Path, entry: Entry) -> int | None:
    """Scored cells of all test records as an entry tells it; None where it does not, or has other settings."""
    with suppress(ConfigError, DataError):  # told where the entry is run
        found = kept(suite, out, entry)
        return None if found is None else found.n_cells_of_all
    return None


def _task(of_task: TaskConfig, fold: int, windows: Windows | None = None) -> Task:
    windows = _windows(of_task) if windows is None else windows
    limits = plugin("datasets", of_task.data.name).card.limits
    return runs.make_task(windows, replace(of_task.protocol, fold=fold), limits)


def _windows(of_task: TaskConfig) -> Windows:
    return runs.load_windows(of_task.data.name, of_task.data.root, **of_task.data.options)


def _prepare(suite: Suite, entry: Entry) -> Prepared:
    of_task = suite.tasks[entry.task]
    windows = _windows(of_task)
    task = _task(of_task, entry.fold, windows)
    leaks = scaler_moves(task, lambda spoilt: _task(of_task, entry.fold, spoilt), windows)
    return Prepared(task, runs.scored_records(task, of_task.max_records), leaks)


class _StoppedError(Exception):
    """Asked to stop while a state was being scored: it is scored anew the next time."""


def _run_entry(
    suite: Suite,
    out: Path,
    entry: Entry,
    prepared: Prepared,
    should_stop: Callable[[], bool],
    out_of_time: Callable[[], bool],
    progress: Progress,
) -> None:
    name, written = f"{entry.task}, {entry.method}", False
    stopping = lambda: should_stop() or out_of_time()

    def heard(what: str, done: int, total: int) -> None:
        progress(what, done, total)
        if done < total and (stopping() if written else should_stop()):
            raise _StoppedError

    with exclusive_lock(out / entry.folder), suppress(_StoppedError):
        if _is_done(suite, out, entry):  # by another process, since it was asked
            return
        result = _so_far(suite, out, entry, prepared)
        if suite.sabotage and not result.found.sabotage and suite.methods[entry.method].imputer:
            progress(f"{name}: changing hidden values", 0, 1)
            result = replace(result, found=replace(result.found, sabotage=leakage_result(suite, entry, prepared)))
        for model in states(suite, out, entry, prepared.task, stopping, progress):
            before = result
            if model.n_steps is None:
                result = _with_state(suite, out, result, model, prepared, heard)
            else:
                result = _with_steps(suite, result, model, prepared, heard)
            if result is not before:
                write_entry(out / entry.folder, result)
                written = True
                if stopping():
                    return


def _so_far(suite: Suite, out: Path, entry: Entry, prepared: Prepared) -> Result:
    """What is there of the entry; what was stopped after its rows and before its entry is not counted."""
    found = read_result(suite, out, entry)
    if found is None:
        return Result(entry, blank(key_of(suite, entry), prepared), Report(()), (), Report(()))
    whole = {scored.epoch for scored in found.found.scored}
    return replace(
        found,
        report=Report(tuple(row for row in found.report.rows if row.epoch in whole)),
        parts=[(epoch, part) for epoch, part in found.parts if epoch in whole],
        steps=Report(tuple(row for row in found.steps.rows if row.n_steps in found.found.n_steps)),
    )


def _with_state(
    suite: Suite, out: Path, result: Result, model: Checkpoint, prepared: Prepared, progress: Progress
) -> Result:
    """The result with one state more; itself where it has that state."""
    entry, found = result.entry, result.found
    if model.epoch in {scored.epoch for scored in found.scored}:
        return result
    name = f"{entry.task}, {entry.method}" + ("" if model.epoch is None else f", epoch {model.epoch}")
    if suite.sabotage and not found.sabotage:
        progress(f"{name}: changing hidden values", 0, 1)
        trained_elsewhere = suite.methods[entry.method].config is None
        found = replace(found, sabotage=leakage_result(suite, entry, prepared, model if trained_elsewhere else None))
    if not found.scored:
        clear(out / entry.folder)
    last = None if model.epoch is None else epochs_of(suite, entry)[-1]
    samples = out / entry.folder / samples_file(model.epoch, last)
    said = lambda done, n: progress(f"{name}: scoring", done, n)
    report, parts = score(suite, entry, model, prepared, said, samples)
    scored = CheckpointScore(model.epoch, model.trained, report.rows[0].seconds, report.rows[0].n_samples)
    return replace(
        result,
        found=replace(found, scored=tuple(sorted((*found.scored, scored), key=lambda one: one.epoch or 0))),
        report=Report((*result.report.rows, *report.rows)),
        parts=[*result.parts, *((model.epoch, part) for part in parts)],
    )


def _with_steps(suite: Suite, result: Result, model: Checkpoint, prepared: Prepared, progress: Progress) -> Result:
    """The result with another number of solver steps of its last state; itself where it has that number."""
    entry, found, n = result.entry, result.found, model.n_steps
    if n is None or n in found.n_steps:
        return result
    own = result.report.where(epoch=model.epoch, feature="all", n_steps=n).rows
    if not own:
        said = lambda done, total: progress(f"{entry.task}, {entry.method}, {n} steps: scoring", done, total)
        own = score(suite, entry, model, prepared, said, None)[0].where(feature="all").rows
    steps = Report((*result.steps.rows, *own))
    return replace(result, found=replace(found, n_steps=(*found.n_steps, n)), steps=steps)

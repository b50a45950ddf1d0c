"""Runs what of a suite is not done yet, and goes on where it was stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tsimpute import runs
from tsimpute.errors import DataError, SourceError, TsimputeError
from tsimpute.evaluation import Report
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.pipeline.task import Task
from tsimpute.registry import plugin
from tsimpute.suites.entries import ABOUT, Result, Scored, key_of, read_entry, read_result, write_entry
from tsimpute.suites.sabotage import scaler_moves
from tsimpute.suites.scoring import Prepared, blank, score, verdict
from tsimpute.suites.settings import Entry, Suite, TaskConfig, entries
from tsimpute.suites.states import Progress, State, epochs_of, states


def run_suite(
    suite: Suite,
    out: Path,
    *,
    only: Sequence[Entry] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    progress: Progress = lambda what, done, total: None,
    failed: Callable[[Entry, TsimputeError], None] | None = None,
) -> Iterator[Entry]:
    """Trains and scores what is not done yet in ``out``, entry by entry; each state is written as it is scored.

    Args:
        only: entries of the suite to run; None = all.
        should_stop: asked between steps; True ends with everything on disk.
        progress: called with what is being done, and how far it is.
        failed: called with an entry that cannot be done, and why; the others are. None = the error is raised.

    Yields:
        Each entry when it is done, those too that were done before.

    Raises:
        ConfigError, SourceError, DataError, MissingExtraError: of a task or method, with its name. A task that holds
            another number of scored cells than the suite expects is refused before any work.
    """
    asked = entries(suite) if only is None else only
    _check_numbers_of_cells(suite, [entry for entry in asked if not _is_done(suite, out, entry)])
    prepared: dict[tuple[str, int], Prepared] = {}
    for entry in asked:
        if not _is_done(suite, out, entry):
            if should_stop():
                return
            at = entry.task, entry.fold
            try:
                if at not in prepared:
                    prepared = {at: _prepare(suite, entry)}  # one at a time: records may be large
                _run_entry(suite, out, entry, prepared[at], should_stop, progress)
            except TsimputeError as error:
                if failed is None:
                    raise
                failed(entry, error)
                continue
            if not _is_done(suite, out, entry):
                return
        yield entry


def _is_done(suite: Suite, out: Path, entry: Entry) -> bool:
    found = read_entry(out / entry.folder)
    if found is None or found.key != key_of(suite, entry):
        return False
    method = suite.methods[entry.method]
    if method.imputer:
        return True
    epochs = {None} if method.weights is not None else set(epochs_of(suite, entry))
    return epochs <= {scored.epoch for scored in found.scored} and set(suite.tasks[entry.task].n_steps) <= {
        *found.n_steps
    }


def _check_numbers_of_cells(suite: Suite, todo: Sequence[Entry]) -> None:
    """Makes sure that each task holds as many scored cells as expected, before any work."""
    for task, fold in dict.fromkeys((entry.task, entry.fold) for entry in todo):
        expected = suite.n_cells(task, fold)
        if expected is None:
            continue
        with suppress(SourceError):  # told where the entry is run: other tasks may have their data
            found = int(_task(suite.tasks[task], fold).test.scored.sum())
            if found != expected:
                raise DataError(
                    f"suite: task {task!r}, fold {fold}: expected {expected:,} scored cells in the test records, came "
                    f"{found:,}. Other data, or another protocol?"
                )


def _task(of_task: TaskConfig, fold: int) -> Task:
    windows = runs.load_windows(of_task.data.name, of_task.data.root, **of_task.data.options)
    limits = plugin("datasets", of_task.data.name).card.limits
    return runs.make_task(windows, replace(of_task.protocol, fold=fold), limits)


def _prepare(suite: Suite, entry: Entry) -> Prepared:
    of_task = suite.tasks[entry.task]
    windows = runs.load_windows(of_task.data.name, of_task.data.root, **of_task.data.options)
    protocol = replace(of_task.protocol, fold=entry.fold)
    limits = plugin("datasets", of_task.data.name).card.limits
    task = runs.make_task(windows, protocol, limits)
    leaks = scaler_moves(task, lambda spoilt: runs.make_task(spoilt, protocol, limits), windows)
    return Prepared(task, runs.scored_records(task, of_task.max_records), leaks)


def _run_entry(
    suite: Suite,
    out: Path,
    entry: Entry,
    prepared: Prepared,
    should_stop: Callable[[], bool],
    progress: Progress,
) -> None:
    result = _so_far(suite, out, entry, prepared)
    for model in states(suite, out, entry, prepared.task, should_stop, progress):
        before = result
        if model.n_steps is None:
            result = _with_state(suite, out, result, model, prepared, progress)
        else:
            result = _with_steps(suite, result, model, prepared, progress)
        if result is not before:
            write_entry(out / entry.folder, result)
            if should_stop():
                return


def _so_far(suite: Suite, out: Path, entry: Entry, prepared: Prepared) -> Result:
    """What is there of the entry; what was stopped after its rows and before its entry is not counted."""
    found = read_result(suite, out, entry)
    if found is None:
        (out / entry.folder / ABOUT).unlink(missing_ok=True)  # it would stand beside other numbers, were this stopped
        return Result(entry, blank(key_of(suite, entry), prepared), Report(()), (), Report(()))
    whole = {scored.epoch for scored in found.found.scored}
    return replace(
        found,
        report=Report(tuple(row for row in found.report.rows if row.epoch in whole)),
        parts=[(epoch, part) for epoch, part in found.parts if epoch in whole],
        steps=Report(tuple(row for row in found.steps.rows if row.n_steps in found.found.n_steps)),
    )


def _with_state(
    suite: Suite, out: Path, result: Result, model: State, prepared: Prepared, progress: Progress
) -> Result:
    """The result with one state more; itself where it has that state."""
    entry, found = result.entry, result.found
    if model.epoch in {scored.epoch for scored in found.scored}:
        return result
    name = f"{entry.task}, {entry.method}" + ("" if model.epoch is None else f", epoch {model.epoch}")
    if suite.sabotage and not found.sabotage:
        progress(f"{name}: changing hidden values", 0, 1)
        found = replace(found, sabotage=verdict(suite, entry, model, prepared))
    samples = out / entry.folder / _samples(suite, entry, model)
    said = lambda done, n: progress(f"{name}: scoring", done, n)
    report, parts = score(suite, entry, model, prepared, said, samples)
    scored = Scored(model.epoch, model.trained, report.rows[0].seconds, report.rows[0].n_samples)
    return replace(
        result,
        found=replace(found, scored=(*found.scored, scored)),
        report=Report((*result.report.rows, *report.rows)),
        parts=[*result.parts, *((model.epoch, part) for part in parts)],
    )


def _samples(suite: Suite, entry: Entry, model: State) -> str:
    last = model.epoch is None or model.epoch == epochs_of(suite, entry)[-1]
    return "samples.npz" if last else f"samples-{model.epoch:04d}.npz"


def _with_steps(suite: Suite, result: Result, model: State, prepared: Prepared, progress: Progress) -> Result:
    """The result with another number of solver steps of its last state; itself where it has that number."""
    entry, found, n = result.entry, result.found, model.n_steps
    if n is None or n in found.n_steps:
        return result
    own = result.report.where(epoch=model.epoch, feature="all", n_steps=n).rows
    if not own and isinstance(model.imputer, GenerativeImputer):
        said = lambda done, total: progress(f"{entry.task}, {entry.method}, {n} steps: scoring", done, total)
        own = score(suite, entry, model, prepared, said, None)[0].where(feature="all").rows
    steps = Report((*result.steps.rows, *own))
    return replace(result, found=replace(found, n_steps=(*found.n_steps, n)), steps=steps)

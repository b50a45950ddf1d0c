"""Runs what of a suite is not done yet, and goes on where it was stopped."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from tsimpute import runs
from tsimpute.containers import Windows
from tsimpute.errors import DataError, TsimputeError
from tsimpute.evaluation import EvaluationContext, Report, evaluate
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.kept_samples import Cells, Header, read_cells
from tsimpute.pipeline.task import Task
from tsimpute.registry import plugin
from tsimpute.suites.breakdowns import Breakdown, Part
from tsimpute.suites.entries import ABOUT, Found, Scored, key_of, read_entry, read_parts, write_entry
from tsimpute.suites.methods import new_imputer, short_training, training_config
from tsimpute.suites.sabotage import sabotage, sabotage_filling, scaler_moves
from tsimpute.suites.settings import Entry, Suite, TaskConfig, entries
from tsimpute.suites.states import Progress, State, epochs_of, states


@dataclass(frozen=True, eq=False)
class _Prepared:
    """The task of one name and fold: its records, and whether its protocol's scaler has seen what it hides."""

    task: Task
    test: Windows
    leaks: bool


def run_suite(
    suite: Suite,
    out: Path,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    progress: Progress = lambda what, done, total: None,
    failed: Callable[[Entry, TsimputeError], None] | None = None,
) -> Iterator[Entry]:
    """Trains and scores what is not done yet in ``out``, entry by entry; each state is written as it is scored.

    Args:
        should_stop: asked between steps; True ends with everything on disk.
        progress: called with what is being done, and how far it is.
        failed: called with an entry that cannot be done, and why; the others are. None = the error is raised.

    Yields:
        Each entry when it is done, those too that were done before.

    Raises:
        ConfigError, SourceError, DataError, MissingExtraError: of a task or method, with its name. A task that holds
            another number of scored cells than the suite expects is refused before any work.
    """
    prepared: dict[tuple[str, int], _Prepared] = {}
    for entry in entries(suite):
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
    if method.config is None and method.run is None:
        return True
    return set(epochs_of(suite, entry)) <= {scored.epoch for scored in found.scored}


def _prepare(suite: Suite, entry: Entry) -> _Prepared:
    of_task = suite.tasks[entry.task]
    windows = runs.load_windows(of_task.data.name, of_task.data.root, **of_task.data.options)
    protocol = replace(of_task.protocol, fold=entry.fold)
    limits = plugin("datasets", of_task.data.name).card.limits
    task = runs.make_task(windows, protocol, limits)
    found = int(task.test.scored.sum())
    if of_task.n_cells is not None and found != (expected := of_task.n_cells[suite.folds.index(entry.fold)]):
        raise DataError(
            f"suite: task {entry.task!r}, fold {entry.fold}: expected {expected:,} scored cells in the test records, "
            f"came {found:,}. Other data, or another protocol?"
        )
    leaks = scaler_moves(task, lambda spoilt: runs.make_task(spoilt, protocol, limits), windows)
    return _Prepared(task, runs.scored_records(task, of_task.max_records), leaks)


def _run_entry(
    suite: Suite,
    out: Path,
    entry: Entry,
    prepared: _Prepared,
    should_stop: Callable[[], bool],
    progress: Progress,
) -> None:
    folder, key = out / entry.folder, key_of(suite, entry)
    found = read_entry(folder)
    found = found if found is not None and found.key == key else None
    report, parts = (Report.read(folder), read_parts(folder)) if found else (Report(()), [])
    if found is None:
        (folder / ABOUT).unlink(missing_ok=True)  # it would stand beside other numbers, were this stopped midway
    else:  # what was stopped after its rows and before its entry is done anew
        whole = {scored.epoch for scored in found.scored}
        report = Report(tuple(row for row in report.rows if row.epoch in whole))
        parts = [(epoch, part) for epoch, part in parts if epoch in whole]
    name = f"{entry.task}, {entry.method}"
    verdict = found.sabotage if found else ""
    for model in states(suite, out, entry, prepared.task, should_stop, progress):
        if found and model.epoch in {scored.epoch for scored in found.scored}:
            continue
        if suite.sabotage and not verdict:
            progress(f"{name}: changing hidden values", 0, 1)
            verdict = _sabotage(suite, entry, model, prepared)
        said = lambda done, n: progress(f"{name}: scoring", done, n)
        new, of_parts = _score(suite, entry, model, prepared, folder, said)
        report, parts = Report((*report.rows, *new.rows)), [*parts, *((model.epoch, part) for part in of_parts)]
        before = found.scored if found else ()
        scored = Scored(model.epoch, model.trained, new.rows[0].seconds, new.rows[0].n_samples)
        found = _found(key, prepared, verdict, (*before, scored))
        write_entry(folder, found, report, parts)
        if should_stop():
            return


def _found(key: str, prepared: _Prepared, verdict: str, scored: Sequence[Scored]) -> Found:
    names = ("tsimpute-cfmi", "torch", "numpy")
    return Found(
        key=key,
        order=prepared.task.order,
        n_cells=int(prepared.test.scored.sum()),
        n_records=len(prepared.test),
        sabotage=verdict,
        protocol_leaks=prepared.leaks,
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        versions={"python": platform.python_version()} | {name: version(name) for name in names},
        commit=_commit(),
        scored=tuple(scored),
        changes=prepared.task.changes,
    )


def _sabotage(suite: Suite, entry: Entry, model: State, prepared: _Prepared) -> str:
    method, of_task = suite.methods[entry.method], suite.tasks[entry.task]
    if method.config is not None:
        config = short_training(training_config(suite, of_task, method, entry.fold, entry.seed))
        return sabotage(lambda: new_imputer(method, config), prepared.task, entry.seed)
    if method.imputer:
        return sabotage(lambda: new_imputer(method, None, entry.seed), prepared.task, entry.seed)
    return f"{sabotage_filling(model.imputer, prepared.test, entry.seed)} (filling only)"


def _score(
    suite: Suite, entry: Entry, model: State, prepared: _Prepared, folder: Path, progress: Callable[[int, int], None]
) -> tuple[Report, list[Part]]:
    method, of_task, task = suite.methods[entry.method], suite.tasks[entry.task], prepared.task
    n_samples = method.n_samples or of_task.n_samples or suite.n_samples
    samples = folder / "samples.npz"
    report = evaluate(
        model.imputer,
        prepared.test,
        n_samples=n_samples,
        seed=entry.seed,
        fill=method.fill or suite.fill,
        scaler=(task.units or task.scaler) if of_task.units == "standardised" else None,
        context=_context(entry, model, of_task, prepared),
        progress=progress,
        keep_samples=samples,
    )
    breakdown, header = Breakdown(prepared.test), None
    for content in read_cells(samples):
        if isinstance(content, Header):
            header = content
        elif isinstance(content, Cells) and header is not None:
            breakdown.add(content, header)
    return report, list(breakdown.parts())


def _context(entry: Entry, model: State, of_task: TaskConfig, prepared: _Prepared) -> EvaluationContext:
    task, n = prepared.task, len(prepared.test)
    whole = n == int(task.test.scored.any((1, 2)).sum())
    context = EvaluationContext(
        dataset=of_task.data.name,
        split="test" if whole else f"test[:{n}]",
        protocol=task.protocol,
        fold=task.fold,
        mechanism=task.mechanism,
        rate=task.rate,
        imputer=entry.method,
        run=f"seed {entry.seed}",
    )
    if isinstance(model.imputer, GenerativeImputer):
        context = replace(context, **{**runs.generative_context(model.imputer), "epoch": model.epoch})
    return context


def _commit() -> str:
    """The commit of the package's own checkout; "" where it is none."""
    root = Path(__file__).parents[2]
    command = ["git", "-C", str(root), "rev-parse", "--show-toplevel", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    top, _, commit = done.stdout.strip().partition("\n")
    return commit if done.returncode == 0 and Path(top) == root else ""

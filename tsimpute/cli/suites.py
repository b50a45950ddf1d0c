"""What ``tsimpute suite run``, ``check`` and ``report`` take, do and show."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jsonargparse import ArgumentParser, Namespace

from tsimpute.errors import BusyError, ConfigError, DataError, TsimputeError
from tsimpute.suites.settings import Suite, load_suite, shipped_suites
from tsimpute.system.files import atomic_write_text
from tsimpute.system.terminal import Bars, stop_on_interrupt

if TYPE_CHECKING:
    from tsimpute.suites.jobs import Job


def add_arguments(parser: ArgumentParser, part: bool = True) -> None:
    """What all commands of suites take; ``part``: whether they may take a part of it."""
    suites = ", ".join(shipped_suites())
    parser.add_argument("suite", type=str, help="a suite file, or one of the bundled ones: " + suites)
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    if part:
        parser.add_argument("--tasks", type=str, default="", help="only these tasks, comma-separated")
        parser.add_argument("--methods", type=str, default="", help="only these methods, comma-separated")


def add_run_arguments(parser: ArgumentParser) -> None:
    add_arguments(parser)
    parser.add_argument(
        "--minutes", type=float | None, default=None, help="stop after so many minutes; the same command continues"
    )
    parser.add_argument(
        "--device", type=Literal["cpu", "cuda", "mps"] | None, default=None,
        help="where networks run. Default: as in the suite",
    )  # fmt: skip


def run(options: Namespace) -> None:
    """Runs the part of a suite that is not done yet, then writes its tables, pictures and page."""
    from tsimpute.suites.jobs import in_order
    from tsimpute.suites.ranking import FAILURES
    from tsimpute.suites.results import of_other_code
    from tsimpute.suites.running import run_suite

    if options.minutes is not None and not options.minutes > 0:
        raise ConfigError(f"--minutes: expected more than 0, came {options.minutes:g}.")
    suite, jobs, chosen = _planned(options)
    chosen = in_order(suite, _with_files(chosen))
    out, total, done = options.out, len(chosen), 0
    if older := of_other_code(chosen, out):
        print(
            f"{len(older)} of {total} entries are kept as another state of this package's code made them. To make one "
            f"anew, remove its folder; the first: {out / older[0].folder}",
            flush=True,
        )
    errors, busy = [], []

    def failed(job: Job, error: TsimputeError) -> None:
        is_busy = isinstance(error, BusyError)
        text = f"{job}: " + ("another process is working on it" if is_busy else f"failed: {error}")
        (busy if is_busy else errors).append(text)
        print(text, flush=True)
        atomic_write_text(out / FAILURES, "".join(f"{line}\n" for line in errors))

    (out / FAILURES).unlink(missing_ok=True)
    started = time.monotonic()
    with stop_on_interrupt() as should_stop, Bars({}) as bars:
        out_of_time = lambda: options.minutes is not None and time.monotonic() - started > 60 * options.minutes
        for job in run_suite(
            chosen, out, should_stop=should_stop, out_of_time=out_of_time, progress=bars.update, failed=failed
        ):
            done += 1
            print(f"{done}/{total} {job}: done", flush=True)
    damaged = _render(suite, jobs, out) if done else []
    if errors:
        raise ConfigError(f"{len(errors)} of {total} entries failed; the first: {errors[0]}")
    _refuse_damaged(damaged, out)
    if busy:
        print(f"{len(busy)} of {total} left to another process; when it is done the same command shows them too")
    elif done < total:
        print(f"stopped after {done} of {total}; the same command goes on")


def check(options: Namespace) -> None:
    """Computes the numbers of a suite again from its stored samples."""
    from tsimpute.suites.results import unequal

    _, _, chosen = _planned(options)
    damaged: list[DataError] = []
    checked = list(unequal(chosen, options.out, damaged.append))
    if not (checked or damaged):
        raise DataError(f"{options.out}: expected results of the suite to check, there are none with its settings.")
    for job, n, wrong in checked:
        what = f"{len(wrong)} differ: {', '.join(wrong[:5])}" if wrong else "all as in the table, to the bit"
        print(f"{job}: {n} values computed anew, {what}")
    if absent := len(chosen) - len(checked) - len(damaged):
        print(f"{absent} of {len(chosen)} entries have no results with these settings, and were not checked")
    if differ := sum(len(wrong) for _, _, wrong in checked):
        raise DataError(f"{options.out}: {differ} values are not what the kept samples give. Run the entries anew.")
    _refuse_damaged(damaged, options.out)


def report(options: Namespace) -> None:
    """Writes tables, pictures and page of the results so far, without running anything."""
    suite, jobs, _ = _planned(options)
    _refuse_damaged(_render(suite, jobs, options.out), options.out)


def _planned(options: Namespace) -> tuple[Suite, list[Job], list[Job]]:
    """The suite, all of its jobs, and those that are meant."""
    from tsimpute.suites.jobs import plan, select

    if options.out.exists() and not options.out.is_dir():
        raise ConfigError(f"--out: expected a folder, {options.out} is a file.")
    suite = load_suite(options.suite)
    if device := options.get("device"):
        suite = replace(suite, device=device)
    jobs, chosen = plan(suite), []
    for option in ("tasks", "methods"):
        text = options.get(option, "")
        names = [name.strip() for name in text.split(",")] if text else []
        if not all(names):
            raise ConfigError(f"--{option}: expected names with commas between them, came {text!r}.")
        chosen.append(names)
    return suite, jobs, select(jobs, *chosen)


def _with_files(jobs: Sequence[Job]) -> list[Job]:
    """Without the jobs of optional methods whose files or modules do not exist; says which, and why."""
    from tsimpute.suites.user_defined import AbsentFileError

    absent = {
        job.method: job.problem
        for job in jobs
        if job.method_config.optional and isinstance(job.problem, AbsentFileError)
    }
    for method, problem in absent.items():
        print(f"{method}: left out: {problem}", flush=True)
    return [job for job in jobs if job.method not in absent]


def _render(suite: Suite, jobs: Sequence[Job], out: Path) -> list[DataError]:
    """Writes and prints the tables, and says what is not in them; returns the errors of damaged files."""
    from tsimpute.suites.page import render
    from tsimpute.suites.results import without_results

    damaged: list[DataError] = []
    paths = render(suite, jobs, out, damaged.append)
    print((out / "tables.md").read_text(encoding="utf-8"))
    print(f"wrote {', '.join(path.name for path in paths)} to {out}/")
    if absent := without_results(jobs, out):
        print(f"{len(absent)} of {len(jobs)} entries have no results with these settings; the first: {absent[0]}")
    return damaged


def _refuse_damaged(errors: Sequence[DataError], out: Path) -> None:
    if errors:
        raise DataError(f"{out}: {len(errors)} damaged files are left out; the first: {errors[0]}")

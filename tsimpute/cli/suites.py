"""What ``tsimpute suite run``, ``check`` and ``report`` take, do and show."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from jsonargparse import ArgumentParser, Namespace

from tsimpute.errors import BusyError, ConfigError, DataError, TsimputeError
from tsimpute.suites.settings import Entry, Suite, load_suite, part, shipped_suites
from tsimpute.system.terminal import Bars, stop_on_interrupt


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
        "--minutes", type=float | None, default=None, help="stop after so many minutes; the same command goes on"
    )
    parser.add_argument(
        "--device", type=Literal["cpu", "cuda", "mps"] | None, default=None,
        help="where networks run; by default where the suite says",
    )  # fmt: skip


def run(options: Namespace, say: Callable[[str], None]) -> None:
    """Runs what of a suite is not done yet in ``out``, then shows its tables and says what it wrote.

    Raises:
        ConfigError: entries failed; the others are done and shown then.
    """
    from tsimpute.suites.running import run_suite

    suite, out, only = _asked(options)
    if options.minutes is not None and not options.minutes > 0:
        raise ConfigError(f"--minutes: expected more than 0, came {options.minutes:g}.")
    suite = suite if options.device is None else replace(suite, device=options.device)
    total, done = len(only), 0
    wrong: list[str] = []
    left: list[str] = []

    def failed(entry: Entry, error: TsimputeError) -> None:
        text = f"{entry.task}, {entry.method}, fold {entry.fold}, seed {entry.seed}: "
        busy = isinstance(error, BusyError)
        text += "left to another process, which is at work at it" if busy else f"failed: {error}"
        (left if busy else wrong).append(text)
        say(text)

    started = time.monotonic()
    with stop_on_interrupt() as asked, Bars({}) as bars:
        out_of_time = lambda: options.minutes is not None and time.monotonic() - started > 60 * options.minutes
        for entry in run_suite(
            suite, out, only=only, should_stop=asked, out_of_time=out_of_time, progress=bars.update, failed=failed
        ):
            done += 1
            say(f"{done}/{total} {entry.task}, {entry.method}, fold {entry.fold}, seed {entry.seed}: done")
    if done:
        _render(suite, out, say)
    if wrong:
        raise ConfigError(f"{len(wrong)} of {total} entries failed; the first: {wrong[0]}")
    if left:
        say(f"{len(left)} of {total} left to another process; when it is done the same command shows them too")
    elif done < total:
        say(f"stopped after {done} of {total}; the same command goes on")


def report(options: Namespace, say: Callable[[str], None]) -> None:
    """Writes tables, pictures and page of what is done, without running anything.

    Raises:
        DataError: nothing is done yet, or a file is damaged.
    """
    suite, out, _ = _asked(options)
    _render(suite, out, say)


def _asked(options: Namespace) -> tuple[Suite, Path, Sequence[Entry]]:
    """The suite, the folder of its results, and the entries that are meant."""
    out: Path = options.out
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out: expected a folder, {out} is a file.")
    suite = load_suite(options.suite)
    tasks, methods = (_names(options.get(name, ""), f"--{name}") for name in ("tasks", "methods"))
    return suite, out, part(suite, tasks, methods)


def _render(suite: Suite, out: Path, say: Callable[[str], None]) -> None:
    from tsimpute.suites.page import render

    paths = render(suite, out)
    say((out / "tables.md").read_text(encoding="utf-8"))
    say(f"wrote {', '.join(path.name for path in paths)} to {out}/")


def _names(text: str, option: str) -> list[str]:
    names = [name.strip() for name in text.split(",")] if text else []
    if not all(names):
        raise ConfigError(f"{option}: expected names with commas between them, came {text!r}.")
    return names


def check(options: Namespace, say: Callable[[str], None]) -> None:
    """Computes the numbers of entries again from the samples that were kept.

    Raises:
        DataError: there are no results, or a number is not what its samples give.
    """
    from tsimpute.suites.entries import unequal

    suite, out, only = _asked(options)
    differ, found = 0, list(unequal(suite, out, only))
    if not found:
        raise DataError(f"{out}: expected results of the suite to check, there are none with its settings.")
    absent = len(only) - len({entry for entry, _, _ in found})
    for entry, n, wrong in found:
        differ += len(wrong)
        what = f"{len(wrong)} differ: {', '.join(wrong[:5])}" if wrong else "all as in the table, to the bit"
        say(f"{entry.task}, {entry.method}, fold {entry.fold}, seed {entry.seed}: {n} values computed anew, {what}")
    if absent:
        say(f"{absent} of {len(only)} entries are not there with these settings, and so not checked")
    if differ:
        raise DataError(f"{out}: {differ} values are not what the kept samples give. Run the entries anew.")

"""What ``tsimpute evaluate --suite`` does and shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from jsonargparse import ArgumentParser, Namespace

from tsimpute.errors import BusyError, ConfigError, DataError, TsimputeError
from tsimpute.suites.settings import Entry, Suite, load_suite, part, shipped_suites
from tsimpute.terminal import Bars, stop_on_interrupt


def add_suite_arguments(parser: ArgumentParser) -> None:
    suites = ", ".join(shipped_suites())
    parser.add_argument("--suite", type=str | None, default=None, help="instead of a run: a suite file, or " + suites)
    parser.add_argument("--tasks", type=str, default="", help="of a suite only these, comma-separated")
    parser.add_argument("--methods", type=str, default="", help="of a suite only these, comma-separated")
    parser.add_argument(
        "--minutes", type=float | None, default=None, help="of a suite: stop after so many; again = go on"
    )
    parser.add_argument(
        "--device", type=Literal["cpu", "cuda", "mps"] | None, default=None, help="of a suite: where networks run"
    )
    parser.add_argument(
        "--check", type=bool, default=False, help="true: compute a suite's numbers again from the samples that it kept"
    )


def refuse_without_suite(options: Namespace) -> None:
    """What is said of a suite needs one."""
    plain = {"tasks": "", "methods": "", "minutes": None, "device": None, "check": False}
    given = [f"--{name}" for name, default in plain.items() if options[name] != default]
    if given:
        raise ConfigError(f"{', '.join(given)}: expected --suite beside it; came none.")


def evaluate_suite(options: Namespace, say: Callable[[str], None]) -> None:
    """Runs what of a suite is not done yet in ``out``, then shows its tables and says what it wrote.

    Raises:
        ConfigError: no folder is named, or entries failed; the others are done and shown then.
        DataError: a number is not what its samples give.
    """
    from tsimpute.suites.page import render
    from tsimpute.suites.running import run_suite

    out: Path | None = options.out
    if out is None:
        raise ConfigError("--suite: expected a folder for the results; name it with --out.")
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out: expected a folder, {out} is a file.")
    if options.minutes is not None and not options.minutes > 0:
        raise ConfigError(f"--minutes: expected more than 0, came {options.minutes:g}.")
    suite = load_suite(options.suite)
    suite = suite if options.device is None else replace(suite, device=options.device)
    only = part(suite, _names(options.tasks, "--tasks"), _names(options.methods, "--methods"))
    if options.check:
        _check(suite, out, only, say)
        return
    total, done = len(only), 0
    wrong: list[str] = []
    left: list[str] = []

    def failed(entry: Entry, error: TsimputeError) -> None:
        told = f"{entry.task}, {entry.method}, fold {entry.fold}, seed {entry.seed}: "
        busy = isinstance(error, BusyError)
        told += "left to another process, which is at work at it" if busy else f"failed: {error}"
        (left if busy else wrong).append(told)
        say(told)

    started = time.monotonic()
    with stop_on_interrupt() as asked, Bars({}) as bars:
        out_of_time = lambda: options.minutes is not None and time.monotonic() - started > 60 * options.minutes
        for entry in run_suite(
            suite, out, only=only, should_stop=asked, out_of_time=out_of_time, progress=bars.update, failed=failed
        ):
            done += 1
            say(f"{done}/{total} {entry.task}, {entry.method}, fold {entry.fold}, seed {entry.seed}: done")
    if done:
        paths = render(suite, out)
        say((out / "tables.md").read_text(encoding="utf-8"))
        say(f"wrote {', '.join(path.name for path in paths)} to {out}/")
    if wrong:
        raise ConfigError(f"{len(wrong)} of {total} entries failed; the first: {wrong[0]}")
    if left:
        say(f"{len(left)} of {total} left to another process; when it is done the same command shows them too")
    elif done < total:
        say(f"stopped after {done} of {total}; the same command goes on")


def _names(text: str, option: str) -> list[str]:
    names = [name.strip() for name in text.split(",")] if text else []
    if not all(names):
        raise ConfigError(f"{option}: expected names with commas between them, came {text!r}.")
    return names


def _check(suite: Suite, out: Path, only: Sequence[Entry], say: Callable[[str], None]) -> None:
    from tsimpute.suites.entries import unequal

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

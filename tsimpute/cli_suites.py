"""What ``tsimpute evaluate --suite`` does and shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tsimpute.errors import ConfigError, TsimputeError
from tsimpute.terminal import Bars, stop_on_interrupt


def evaluate_suite(name: str, out: Path | None, say: Callable[[str], None]) -> None:
    """Runs what of a suite is not done yet in ``out``, then shows its tables and says what it wrote.

    Raises:
        ConfigError: no folder is named, or entries failed; the others are done and shown then.
    """
    from tsimpute.suites.page import render
    from tsimpute.suites.running import run_suite
    from tsimpute.suites.settings import Entry, entries, load_suite

    if out is None:
        raise ConfigError("--suite: expected a folder for the results; name it with --out.")
    suite = load_suite(name)
    total, done = len(entries(suite)), 0
    wrong: list[str] = []

    def failed(entry: Entry, error: TsimputeError) -> None:
        wrong.append(f"{entry.task}, {entry.method}, fold {entry.fold}, seed {entry.seed}: failed: {error}")
        say(wrong[-1])

    with stop_on_interrupt() as should_stop, Bars({}) as bars:
        for entry in run_suite(suite, out, should_stop=should_stop, progress=bars.update, failed=failed):
            done += 1
            say(f"{done}/{total} {entry.task}, {entry.method}, fold {entry.fold}, seed {entry.seed}: done")
    if done:
        paths = render(suite, out)
        say((out / "tables.md").read_text(encoding="utf-8"))
        say(f"wrote {', '.join(path.name for path in paths)} to {out}/")
    if wrong:
        raise ConfigError(f"{len(wrong)} of {total} entries failed; the first: {wrong[0]}")
    if done < total:
        say(f"stopped after {done} of {total}; the same command goes on")

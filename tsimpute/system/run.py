"""How a long call runs: who sees its progress, who may stop it, and where it keeps the state of unfinished work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tsimpute.errors import ConfigError
from tsimpute.system.terminal import Progress, Tell, progress_bars, silent, stop_on_interrupt

UNITS = {
    "fitting": "round", "learning": "step", "measuring": "window", "imputing": "time", "reading": "file",
    "writing": "file", "writing what each cell is": "file",
}  # fmt: skip
"""What is counted, by the kind of work."""
_SECONDS = 3.0


def never() -> bool:
    """Never stops."""
    return False


@dataclass(frozen=True)
class Run:
    """Options of one long call.

    Attributes:
        name: of the table; it is stored with the fitted model.
        folder: where an unfinished training keeps its state; None = nowhere.
        progress: called with the kind of work, how much of it is done, and the total.
        should_stop: called between steps; True ends the call.
    """

    name: str = ""
    folder: Path | None = None
    progress: Tell = silent
    should_stop: Callable[[], bool] = never


@contextmanager
def running(
    progress: Progress, should_stop: Callable[[], bool] = never, folder: Path | str | None = None
) -> Iterator[Run]:
    """Gives the options of a call from Python; ``progress`` as of ``progress_bars``.

    With a folder, Ctrl-C stops training after its current step, with the state on the disk; a second Ctrl-C stops at
    once.

    Raises:
        ConfigError: ``folder`` is not the name of a folder.
        KeyboardInterrupt: Ctrl-C came; the work is not done.
    """
    if folder is not None and (not isinstance(folder, Path | str) or Path(folder).is_file()):
        raise ConfigError(f"folder: expected the name of a folder for the state of training, came {folder!r}.")
    with progress_bars(progress, UNITS) as show:
        if folder is None:
            yield Run(progress=show, should_stop=should_stop)
            return
        with stop_on_interrupt() as interrupted:

            def show_or_stop(what: str, done: int, total: int) -> None:
                show(what, done, total)
                if what != "learning" and interrupted():
                    raise KeyboardInterrupt

            yield Run("", Path(folder), show_or_stop, lambda: interrupted() or should_stop())
            if interrupted():
                raise KeyboardInterrupt


def after_a_while(progress: Tell, what: str) -> Callable[[int, int], None]:
    """Reports progress only from a few seconds after this call on: short work needs no bar."""
    began = time.monotonic()

    def report(done: int, total: int) -> None:
        if time.monotonic() - began > _SECONDS:
            progress(what, done, total)

    return report

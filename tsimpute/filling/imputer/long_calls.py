"""Calls that take minutes: they show how far they are, and an interrupted one goes on when it is made again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tsimpute.errors import ConfigError
from tsimpute.system.terminal import Progress, Tell, shown, stop_on_interrupt

UNITS = {
    "fitting": "round", "learning": "step", "measuring": "window", "imputing": "time", "reading": "file",
    "writing": "file", "writing what each cell is": "file",
}  # fmt: skip
"""What is counted, by what is being done."""


_SECONDS = 3.0


def after_a_while(progress: Tell, what: str) -> Callable[[int, int], None]:
    """Tells how much of something is done, from a few seconds after this call on: short work is not worth a bar."""
    began = time.monotonic()

    def tell(done: int, total: int) -> None:
        if time.monotonic() - began > _SECONDS:
            progress(what, done, total)

    return tell


def never() -> bool:
    """Asks nobody to stop."""
    return False


@contextmanager
def long_call(
    progress: Progress, should_stop: Callable[[], bool] = never, resumable: bool = False
) -> Iterator[tuple[Tell, Callable[[], bool]]]:
    """Gives what to tell how far it is, and what to ask whether to stop.

    Args:
        progress: see ``shown``.
        should_stop: of the caller.
        resumable: whether learning leaves a state. Then Ctrl-C stops it after its step, with the state on the disk, and
            a second Ctrl-C at once.

    Raises:
        KeyboardInterrupt: Ctrl-C came; the work is not done.
    """
    with shown(progress, UNITS) as show:
        if not resumable:
            yield show, should_stop
            return
        with stop_on_interrupt() as asked:

            def tell(what: str, done: int, total: int) -> None:
                show(what, done, total)
                if what != "learning" and asked():
                    raise KeyboardInterrupt

            yield tell, lambda: asked() or should_stop()
            if asked():
                raise KeyboardInterrupt


def path_of(folder: Path | str | None) -> Path | None:
    """The folder for the state of training; refuses what cannot be one."""
    if folder is not None and (not isinstance(folder, Path | str) or Path(folder).is_file()):
        raise ConfigError(f"folder: expected the name of a folder for the state of training, came {folder!r}.")
    return None if folder is None else Path(folder)

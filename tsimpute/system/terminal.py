"""What a terminal or a notebook shows while work goes on, and how the work takes an interruption."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from types import FrameType
from typing import Any, Literal, TypeVar

from tsimpute.errors import ConfigError

T = TypeVar("T")
Tell = Callable[[str, int, int], None]
"""(what, done, total)."""
Progress = Tell | bool | Literal["auto"]
"""How a long call shows how far it is: "auto" = a bar where a person sees it, True or False, or called back."""

_PATIENCE = 1.0
"""Seconds of work before a bar appears by itself."""
_open = 0
"""Bars that are open: within one, others stay silent."""


def silent(what: str, done: int, total: int) -> None:
    """Reports nothing."""


class Bar:
    """A progress bar with rate and time left; where the output is no terminal, a plain line now and then.

    Args:
        what: shown before the bar.
        total: units of work.
        unit: what is counted.
        hidden: shows nothing, for all but one of several processes.
        transient: whether it vanishes at the end.
    """

    _PLAIN_SECONDS = 30.0

    def __init__(self, what: str, total: int, unit: str, hidden: bool = False, transient: bool = False) -> None:
        from rich import progress
        from rich.console import Console

        self.what, self.total, self.unit = what, total, unit
        self._hidden = hidden
        self._terminal = is_shown_live() and not hidden
        self._started = self._reported = time.monotonic()
        self._first: int | None = None
        self._last = 0
        self._progress = progress.Progress(
            progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[note]}"), progress.TimeElapsedColumn(), progress.TextColumn("left"),
            progress.TimeRemainingColumn(), disable=not self._terminal, transient=transient,
            console=None if _in_notebook() else Console(stderr=True),
        )  # fmt: skip
        self._task = self._progress.add_task(what, total=total, note="")

    def __enter__(self) -> Bar:
        global _open
        _open += 1
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        global _open
        _open -= 1
        self._progress.stop()

    def update(self, done: int, total: int | None = None, note: str = "") -> None:
        """Shows that ``done`` units of ``total`` are done; what the first call finds done is left out of the rate.

        With fewer done than before, something else of the same name has begun: its rate is counted anew.
        """
        self.total = total or self.total
        now = time.monotonic()
        if self._first is None and (done, self.total) == (0, 1) and not (self._terminal or self._hidden):
            print(f"{self.what} ...", file=sys.stderr, flush=True)  # one piece of work: nothing is heard until its end
        if self._first is None or done < self._last:
            self._first, self._started = done, now
        self._last = done
        rate = (done - self._first) / max(now - self._started, 1e-9)
        note = f"{rate:.2f} {self.unit}/s {note}".rstrip() if rate else note
        self._progress.update(self._task, completed=done, total=self.total, note=note)
        if (
            not self._terminal
            and not self._hidden
            and (now - self._reported > self._PLAIN_SECONDS or done == self.total)
        ):
            self._reported = now
            remaining = f", {(self.total - done) / rate / 60:.1f} min left" if rate else ""
            print(f"{self.what}: {done}/{self.total} {note}".rstrip() + remaining, file=sys.stderr, flush=True)

    def over(self, items: Iterable[T]) -> Iterator[T]:
        """``items``, each shown as a unit that is done when the next one is asked for."""
        for done, item in enumerate(items, 1):
            yield item
            self.update(done)


class Bars:
    """One bar after another, each for what is being done.

    Args:
        units: what is counted, by the name of the work.
        after: seconds of work before the first bar appears.
        transient: whether bars vanish at the end.
    """

    def __init__(self, units: Mapping[str, str], after: float = 0.0, transient: bool = False) -> None:
        self._units, self._open = units, ExitStack()
        self._begin, self._transient = time.monotonic() + after, transient
        self._last: tuple[str, int, int] | None = None
        self._bar: Bar | None = None

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def update(self, what: str, done: int, total: int) -> None:
        """Shows that ``done`` of ``total`` of ``what`` are done; the same report is not repeated."""
        if (what, done, total) == self._last or (self._bar is None and time.monotonic() < self._begin):
            return
        if self._bar is None or what != self._bar.what:
            self._open.close()
            self._bar = self._open.enter_context(
                Bar(what, total, self._units.get(what, "step"), transient=self._transient)
            )
        self._last = what, done, total
        self._bar.update(done, total)


@contextmanager
def progress_bars(progress: Progress, units: Mapping[str, str]) -> Iterator[Tell]:
    """A function that reports the progress of a long call, shown as ``progress`` says.

    Args:
        progress: "auto" shows a bar in a terminal and in a notebook, where the work takes longer than about a second
            and no other bar is open; True always shows one, as lines where the output is no terminal; False shows
            nothing; a function is called with what is done, how much of it, and how much there is.
        units: what is counted, by the name of the work.

    Raises:
        ConfigError: it is none of these.
    """
    if callable(progress):
        yield progress
    elif progress == "auto" or isinstance(progress, bool):
        is_seen = progress is True or (progress == "auto" and not _open and (is_shown_live() or _in_notebook()))
        if not is_seen:
            yield silent
            return
        with Bars(units, 0.0 if progress is True else _PATIENCE, transient=progress == "auto") as bars:
            yield bars.update
    else:
        raise ConfigError(f"progress: expected 'auto', True, False or a function, came {progress!r}.")


@contextmanager
def unseen() -> Iterator[None]:
    """No bar appears by itself meanwhile, as in calls that are steps of a longer work."""
    global _open
    _open += 1
    try:
        yield
    finally:
        _open -= 1


def is_shown_live() -> bool:
    """Whether a bar can move: in a terminal, or in a notebook with what it needs."""
    return sys.stderr.isatty() or (_in_notebook() and find_spec("ipywidgets") is not None)


def _in_notebook() -> bool:
    """Whether this process answers a notebook."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """A function that returns whether Ctrl-C came; a second Ctrl-C interrupts at once, as always.

    Only the main thread can take an interruption; in another one nothing changes.
    """
    requested = False
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def ask(signum: int, frame: FrameType | None) -> None:
        nonlocal requested
        requested = True
        signal.signal(signal.SIGINT, before)
        print("stopping after this step; Ctrl-C again to stop at once", file=sys.stderr)

    before: Any = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: requested
    finally:
        signal.signal(signal.SIGINT, before)

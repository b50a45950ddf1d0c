"""What the command line shows while it works, and how it takes an interruption."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class Bar:
    """A progress bar with rate and time left; where the output is no terminal, a plain line now and then.

    Args:
        what: shown before the bar.
        total: units of work.
        unit: what is counted.
        hidden: shows nothing, for all but one of several processes.
    """

    _PLAIN_SECONDS = 30.0

    def __init__(self, what: str, total: int, unit: str, hidden: bool = False) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self.what, self.total, self.unit = what, total, unit
        self._hidden = hidden
        self._terminal = sys.stderr.isatty() and not hidden
        self._started = self._said = time.monotonic()
        self._first: int | None = None
        self._last = 0
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), disable=not self._terminal,
        )  # fmt: skip
        self._task = self._progress.add_task(what, total=total, note="")

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
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
        if not self._terminal and not self._hidden and (now - self._said > self._PLAIN_SECONDS or done == self.total):
            self._said = now
            left = f", {(self.total - done) / rate / 60:.1f} min left" if rate else ""
            print(f"{self.what}: {done}/{self.total} {note}".rstrip() + left, file=sys.stderr, flush=True)

    def over(self, items: Iterable[T]) -> Iterator[T]:
        """``items``, each shown as a unit that is done when the next one is asked for."""
        for done, item in enumerate(items, 1):
            yield item
            self.update(done)


class Bars:
    """One bar after another, each for what is being done."""

    def __init__(self, units: Mapping[str, str]) -> None:
        self._units, self._open = units, ExitStack()
        self._said: tuple[str, int, int] | None = None
        self._bar: Bar | None = None

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def update(self, what: str, done: int, total: int) -> None:
        """Shows that ``done`` of ``total`` of ``what`` are done; what it said last is not said again."""
        if (what, done, total) == self._said:
            return
        if self._bar is None or what != self._bar.what:
            self._open.close()
            self._bar = self._open.enter_context(Bar(what, total, self._units.get(what, "step")))
        self._said = what, done, total
        self._bar.update(done, total)


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Gives a function that tells whether Ctrl-C came; a second Ctrl-C interrupts at once, as always."""
    asked = False

    def ask(signum: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, before)
        print("stopping after this step; Ctrl-C again to stop at once", file=sys.stderr)

    before: Any = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)

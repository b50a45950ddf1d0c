"""Rows computed side by side, each in a process of its own that has everything loaded and this one row to do."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

Key = tuple[str, str, str]
Row = dict[str, Any]
KEY = ("table", "holes", "method")


@dataclass(frozen=True)
class Limits:
    """Seconds: ``wall`` and ``cpu`` of one row, and ``time.monotonic()`` at which all ends."""

    wall: float = 3600.0
    cpu: int | None = None
    until: float = float("inf")


@dataclass(frozen=True)
class _Job:
    key: Key
    process: Any
    pipe: Connection
    until: float

    def end(self) -> None:
        """Ends the process and those that it has started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            self.process.kill()
        self.process.join()
        self.pipe.close()


def side_by_side(
    work: Callable[[Key], Row | None], keys: Sequence[Key], n_jobs: int, limits: Limits
) -> Iterator[Row | None]:
    """What ``work`` says of each key, in the order in which it is there; a note says why a row has no scores.

    Rows that are not finished when ``limits.until`` comes are ended, and nothing is said of them.
    """
    waiting, running = list(keys), list[_Job]()
    told: list[int] = []  # no error out of a handler: it could come between a row's beginning and its place in the list
    before = signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    try:
        while (waiting or running) and time.monotonic() < limits.until:
            if told:
                sys.exit(128 + told[0])
            while waiting and len(running) < n_jobs:
                running.append(_begun(work, waiting.pop(0), limits))
            next_end = min([limits.until, *(job.until for job in running)])
            ready = wait([job.pipe for job in running], max(0.0, min(next_end - time.monotonic(), 1.0)))
            for job in [job for job in running if job.pipe in ready or time.monotonic() > job.until]:
                row = _answer(job, job.pipe in ready, limits)
                job.end()
                running.remove(job)
                yield row
    finally:
        for job in running:
            job.end()
        signal.signal(signal.SIGTERM, before)


def _begun(work: Callable[[Key], Row | None], key: Key, limits: Limits) -> _Job:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def run() -> None:
        os.setpgrp()  # so that it is ended together with what it starts
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        if limits.cpu is not None:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu, limits.cpu + 10))  # programs that it starts, too
        try:
            theirs.send(work(key))
        except Exception as error:
            theirs.send(_without(key, _reason(error, limits)))

    process = context.Process(target=run, daemon=True)
    process.start()
    theirs.close()
    return _Job(key, process, ours, time.monotonic() + limits.wall)


def _answer(job: _Job, ready: bool, limits: Limits) -> Row | None:
    if not ready:
        return _without(job.key, f"more than {limits.wall:g} s")
    try:
        return job.pipe.recv()
    except EOFError:
        job.process.join(10)
        ended = job.process.exitcode
        too_long = ended in (-signal.SIGXCPU, -signal.SIGKILL) and limits.cpu is not None
        return _without(job.key, _too_long(limits) if too_long else f"the process ended with code {ended}")


def _reason(error: Exception, limits: Limits) -> str:
    """Of an error; a program that was stopped by the limit of CPU seconds has a code that says so."""
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return _too_long(limits) if f"code {-signal.SIGXCPU}" in said else said[:200]


def _too_long(limits: Limits) -> str:
    return f"more than {limits.cpu} CPU seconds"


def _without(key: Key, note: str) -> Row:
    return dict(zip(KEY, key, strict=True)) | {"note": note}

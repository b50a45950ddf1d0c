"""How a worker runs pieces of work, each in a process of its own, when it is told to by lines of JSON.

A worker imports its libraries once. Each (data, work) then gets a child of its own, forked from it, that waits between
its turns: so variants can alternate, and the memory of one piece of work is not that of another. A line
``{"data": ..., "work": ..., "folder": ..., "threads": ..., "options": {...}}`` runs that work once; the answer is
``{"seconds": ..., "fraction": ..., "peak_mib": ...}`` or ``{"error": ...}``. Linux only: memory is read from /proc.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

Run = Callable[[], object]
Build = Callable[[dict[str, Any]], tuple[Run, float]]
"""A request -> what to run, and which share of the whole work one run is."""


def memory_mib() -> tuple[float, float]:
    """What this process holds of its own now, and the most that it ever held; without the code of libraries."""
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    kib = {line[0].rstrip(":"): int(line[1]) for line in lines if line[0].startswith(("Rss", "VmHWM"))}
    # Pages of files are read in as code is first run, and stay: those of now were there at the peak, or it was before.
    return kib["RssAnon"] / 1024, (kib["VmHWM"] - kib["RssFile"]) / 1024


def serve(load: Callable[[], tuple[Build, dict[str, str]]]) -> None:
    """Answers the lines of standard input to their end; ``load`` imports what the work needs and names versions."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print must not come between the answers
    build, versions = load()
    print(json.dumps(versions), file=answers)
    children: dict[tuple[str, str], Connection] = {}
    for line in sys.stdin:
        request = json.loads(line)
        key = request["data"], request["work"]
        if key not in children:
            children[key] = start(build, request)
        print(json.dumps(ask(children[key])), file=answers)


def start(build: Build, request: dict[str, Any]) -> Connection:
    """A child that is ready to run ``request``."""
    # Fork: no import is paid again or counted as memory of the work. Nothing is computed here, so no thread is lost.
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    context.Process(target=_child, args=(there, build, request), daemon=True).start()
    there.close()
    return here


def ask(child: Connection) -> dict[str, Any]:
    """Lets ``child`` run once."""
    try:
        with contextlib.suppress(OSError):  # it has ended; its last words may still be there
            child.send(True)
        return child.recv()
    except (EOFError, OSError):
        return {"error": "the process of this work has ended; was it out of memory?"}


def _child(connection: Connection, build: Build, request: dict[str, Any]) -> None:
    import torch

    torch.set_num_threads(request["threads"])
    before, _ = memory_mib()
    try:
        run, fraction = build(request)
        while connection.recv():
            started = time.perf_counter()
            run()
            seconds = time.perf_counter() - started
            peak = memory_mib()[1] - before
            connection.send({"seconds": seconds, "fraction": fraction, "peak_mib": peak})
    except EOFError:  # the worker has ended
        return
    except Exception as error:  # told to the one who asked, whatever it is
        traceback.print_exc()
        connection.send({"error": f"{type(error).__name__}: {error}"})

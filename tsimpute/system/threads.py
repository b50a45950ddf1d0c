"""Independent pieces of work in several threads, each piece on its share of torch's threads.

The tensors of one record are too small to keep several cores busy inside one operation: two threads of torch
are hardly faster than one there, two pieces side by side nearly twice as fast. torch and the compiled attention
release Python's lock while they compute.

Threads of torch meet at the end of every small operation. Next to other busy processes one of them is often not
running then, and the others wait for it, in spin loops unless an environment variable says otherwise (see
``tsimpute/__init__.py``): so two or three of them are never taken together, and none where they spin.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import Any

import torch

_LEAST_TOGETHER = 4
_here = threading.local()


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it torch takes one thread: more are slower where operations are small, and round otherwise."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_threads(work: Callable[[Any], Any], pieces: Sequence[Any], at_most: int | None = None) -> Iterator[Any]:
    """``work`` of each piece, in order, computed by as many threads as torch may use, and ``at_most`` so many.

    What torch keeps for each thread (grad and inference mode, autocast) is for ``work`` to set. After an error, or
    where the rest is not asked for, no further piece is begun. Within a piece, pieces come one after the other.
    """
    n_threads = torch.get_num_threads()
    n_workers = min(n_threads, len(pieces), at_most or n_threads)
    if getattr(_here, "is_worker", False):
        yield from map(work, pieces)
        return

    def by_one_thread(piece: Any) -> Any:
        with one_thread():
            return work(piece)

    share = n_threads // max(n_workers, 1)
    if share < _LEAST_TOGETHER or spins():
        share = 1
    if n_workers <= 1:
        yield from map(work if share == n_threads else by_one_thread, pieces)
        return

    def on_its_share(piece: Any) -> Any:
        _here.is_worker = True
        if torch.get_num_threads() != share:
            torch.set_num_threads(share)
        return work(piece)

    waiting = enumerate(pieces)
    at_work: dict[Future[Any], int] = {}
    done: dict[int, Any] = {}

    def begin(n_pieces: int) -> None:
        for n, piece in islice(waiting, n_pieces):
            at_work[_pool().submit(on_its_share, piece)] = n

    try:
        begin(n_workers)
        for n in range(len(pieces)):
            while n not in done:
                finished, _ = wait(at_work, return_when=FIRST_COMPLETED)
                for future in finished:
                    done[at_work.pop(future)] = future.result()
                begin(len(finished))
            yield done.pop(n)
    finally:
        wait(at_work)
        torch.set_num_threads(n_threads)  # a worker's number is also what threads made later begin with


def spins() -> bool:
    """Whether threads of torch may wait for each other in spin loops."""
    chosen = os.environ.get("OMP_WAIT_POLICY", "").strip().upper()
    return chosen != "PASSIVE" and os.environ.get("GOMP_SPINCOUNT", "").strip() != "0"


@cache
def _pool() -> ThreadPoolExecutor:
    """Threads that stay: each new one would take memory from the allocator and never return it."""
    return ThreadPoolExecutor(max(4, os.cpu_count() or 1), "tsimpute")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork

"""Independent pieces of work in several threads, each piece on its share of torch's threads.

The tensors of one record are too small to keep several cores busy inside one operation: two threads of torch's own
are hardly faster than one there, two pieces side by side nearly twice as fast. torch and the compiled attention
release Python's lock while they compute.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import Any

import torch


def in_threads(work: Callable[[Any], Any], pieces: Sequence[Any], at_most: int | None = None) -> Iterator[Any]:
    """``work`` of each piece, in order, computed by as many threads as torch may use, and ``at_most`` so many.

    What torch keeps for each thread (grad and inference mode, autocast) is for ``work`` to set. After an error, or
    where the rest is not asked for, no further piece is begun.
    """
    n_threads = torch.get_num_threads()
    n_workers = min(n_threads, len(pieces), at_most or n_threads)
    if n_workers <= 1:
        yield from map(work, pieces)
        return
    pool = _pool(n_workers, n_threads // n_workers)
    futures = [pool.submit(work, piece) for piece in pieces]
    try:
        for n in range(len(futures)):
            yield futures[n].result()
            futures[n] = None  # type: ignore[call-overload]  # its result may be large
    finally:
        left = [future for future in futures if future is not None and not future.cancel()]
        wait(left)
        torch.set_num_threads(n_threads)  # it is also what threads made later begin with


@cache
def _pool(n_workers: int, share: int) -> ThreadPoolExecutor:
    """Threads that stay: each new one would get memory of its own from the allocator, and leave it behind."""
    return ThreadPoolExecutor(n_workers, "tsimpute", initializer=torch.set_num_threads, initargs=(share,))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork

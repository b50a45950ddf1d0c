"""Independent pieces of work in several threads, each piece on its share of torch's threads.

The tensors of one record are too small to keep several cores busy inside one operation: two threads of torch's own
are hardly faster than one there, two pieces side by side nearly twice as fast. torch and the compiled attention
release Python's lock while they compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    share = n_threads // n_workers
    pool = ThreadPoolExecutor(n_workers, "tsimpute", initializer=torch.set_num_threads, initargs=(share,))
    try:
        futures = [pool.submit(work, piece) for piece in pieces]
        for n in range(len(futures)):
            yield futures[n].result()
            futures[n] = None  # type: ignore[call-overload]  # its result may be large
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(n_threads)  # it is also what threads made later begin with

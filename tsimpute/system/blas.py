"""One thread for the linear algebra of NumPy and SciPy where matrices are small."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

_CHOICES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
_held = threading.Lock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within it linear algebra takes one thread, until the first thread of Python that came in leaves.

    Matrices of some hundred rows gain little from a second thread. Next to another busy process they lose much: threads
    of OpenBLAS wait for each other in spin loops at the end of every operation. A choice of the user by an
    environment variable of the library stays.
    """
    if any(name in os.environ for name in _CHOICES) or not _held.acquire(blocking=False):
        yield
        return
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _held.release()


@cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401 - loads another library, which the controller sees only then

    return ThreadpoolController()

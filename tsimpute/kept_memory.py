"""Memory of tensors kept for the next ones, compiled on first use.

Tensors of ragged records have other sizes in every step. After some thousand steps the C library's allocator (glibc)
spent more than a tenth of all time in sorting what they had left behind; with kept memory training took about four
fifths of its time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import RLock

import torch

from tsimpute.native import compiled

_lock = RLock()  # collecting garbage inside it may end a forgotten training
_n_inside = 0


@contextmanager
def kept_memory() -> Iterator[None]:
    """Within, memory of torch's tensors on the CPU is kept and handed out again; at the end it is given back.

    Any number of threads may be inside. Tensors may outlive it. Without a C++ compiler nothing changes.
    """
    global _n_inside
    library = _library()
    if library is None:
        yield
        return
    with _lock:
        if not _n_inside:
            library.begin()
        _n_inside += 1
    try:
        yield
    finally:
        with _lock:
            _n_inside -= 1
            if not _n_inside:
                library.end()


def bytes_kept() -> int:
    """Memory that no tensor uses at present."""
    library = _library()
    return 0 if library is None else library.n_kept()


def _library() -> ctypes.CDLL | None:
    with _lock:  # two threads would compile, and where nothing can be kept load, two of them
        return _compiled()


@cache
def _compiled() -> ctypes.CDLL | None:
    torch_at = Path(torch.__file__).parent
    links = (f"-I{torch_at / 'include'}", f"-L{torch_at / 'lib'}", "-lc10", f"-Wl,-rpath,{torch_at / 'lib'}")
    # The version is for the library's name alone: another torch needs another library.
    links = (*links, f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", f"-DTORCH={torch.__version__}")
    library = compiled(Path(__file__).with_suffix(".cpp"), *links)
    if library is not None:
        library.begin.restype = library.end.restype = None
        library.n_kept.restype = ctypes.c_int64
    return library

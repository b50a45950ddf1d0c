"""Self-attention within rows of tokens, compiled for this CPU: three to seven times as fast as torch's.

torch's kernel goes through general matrix products, whose fixed cost is many times the arithmetic of rows of 2 to 50
tokens and heads of 8 channels. Where there is no compiler, on a GPU, in other precisions and with wide heads,
it cannot be used, and callers take torch's.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tsimpute.native import compiled

_SOURCE = Path(__file__).with_suffix(".c")
_WIDEST_HEAD = 16  # wider ones leave the registers


@dataclass(frozen=True, eq=False)
class Rows:
    """Which tokens look at each other: those of a row, which stand side by side.

    Attributes:
        start, length: (R,) int64, of each row among the tokens; rows do not overlap.
    """

    start: np.ndarray
    length: np.ndarray

    @cached_property
    def longest(self) -> int:
        return int(self.length.max(initial=0))

    @staticmethod
    def equal(n_rows: int, length: int) -> Rows:
        """Rows of one length that follow one another."""
        return Rows(np.arange(n_rows) * length, np.full(n_rows, length))


def is_compiled(qkv: Tensor, n_heads: int) -> bool:
    """Whether ``row_attention`` can be used for such tokens, (..., 3 D)."""
    head = qkv.shape[-1] // (3 * n_heads)
    usable = qkv.device.type == "cpu" and qkv.dtype == torch.float32 and head <= _WIDEST_HEAD
    return usable and _library(head) is not None


def row_attention(qkv: Tensor, rows: Rows, n_heads: int) -> Tensor:
    """(S, T, 3 D) queries, keys and values of T tokens in S states -> (S, T, D), 0 at tokens of no row."""
    return _RowAttention.apply(qkv, rows, n_heads)  # type: ignore[return-value]


class _CRows(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("n_states", "n_positions", "n_rows", "n_heads")),
        *((name, ctypes.c_void_p) for name in ("start", "length")),
        ("scale", ctypes.c_float),
    )


@cache
def _library(head: int) -> ctypes.CDLL | None:
    library = compiled(_SOURCE, HEAD=head)
    if library is not None:
        library.forward.argtypes = [ctypes.POINTER(_CRows), *[ctypes.c_void_p] * 5]
        library.backward.argtypes = [ctypes.POINTER(_CRows), *[ctypes.c_void_p] * 7]
        library.forward.restype = library.backward.restype = None
        library.lanes.restype = ctypes.c_int64
    return library


class _RowAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, rows: Rows, n_heads: int) -> Tensor:
        qkv = qkv.contiguous()
        n_states, n_tokens, width = qkv.shape
        library, described = _described(qkv, rows, n_heads)
        out = qkv.new_zeros(n_states, n_tokens, width // 3)
        scores = qkv.new_empty(max(1, rows.longest), library.lanes())
        largest = inverse = None
        if ctx.needs_input_grad[0]:
            largest, inverse = qkv.new_empty(2, n_states, n_tokens, n_heads)
            ctx.save_for_backward(qkv, out, largest, inverse)
            ctx.rows, ctx.n_heads = rows, n_heads
        library.forward(described, *map(_pointer, (qkv, out, largest, inverse, scores)))
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, of_out: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        qkv, out, largest, inverse = ctx.saved_tensors
        library, described = _described(qkv, ctx.rows, ctx.n_heads)
        of_qkv = torch.zeros_like(qkv)
        weighted = qkv.new_empty(max(1, ctx.rows.longest))
        tensors = (qkv, out, largest, inverse, of_out.contiguous(), of_qkv, weighted)
        library.backward(described, *map(_pointer, tensors))
        return of_qkv, None, None


def _described(qkv: Tensor, rows: Rows, n_heads: int) -> tuple[ctypes.CDLL, _CRows]:
    n_states, n_tokens, width = qkv.shape
    head = width // (3 * n_heads)
    library = _library(head)
    assert library is not None
    start, length = rows.start.ctypes.data, rows.length.ctypes.data
    return library, _CRows(n_states, n_tokens, len(rows.start), n_heads, start, length, 1 / math.sqrt(head))


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()

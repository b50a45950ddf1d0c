"""Self-attention within rows of tokens, compiled for this CPU: three to seven times as fast as torch's.

torch's kernel goes through general matrix products, whose fixed cost is many times the arithmetic of rows of 2 to 50
tokens and heads of 8 channels. Where there is no compiler, on a GPU, in other precisions and with wide heads,
it cannot be used, and callers take torch's.
"""

from __future__ import annotations

import ctypes
import math
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tsimpute.system.files import packaged
from tsimpute.system.native import compiled

_WIDEST_HEAD = 16  # wider ones leave the registers


class Rows:
    """Which tokens look at each other: those of a row, which stand side by side.

    Args:
        start, length: (R,) int64, of each row among the tokens; rows do not overlap.
        start_shared, length_shared: the same of what each row sees beside its own, among the shared tokens, if any.
        bias: (R,) float32, added to the score of a row's token with another one of the row, not with itself or with a
            shared one; None = 0.

    Attributes:
        longest: most tokens that one sees.
        tensors: start, length, those of what is shared, and bias, (R,) each.
    """

    def __init__(
        self,
        start: np.ndarray,
        length: np.ndarray,
        start_shared: np.ndarray | None = None,
        length_shared: np.ndarray | None = None,
        bias: np.ndarray | None = None,
    ) -> None:
        none = np.zeros_like(start)
        shared = (none, none) if start_shared is None else (start_shared, length_shared)
        self.bias = np.ascontiguousarray(none if bias is None else bias, np.float32)
        self.start, self.length, self.start_shared, n_shared = (
            np.ascontiguousarray(x, np.int64) for x in (start, length, *shared)
        )
        if self.start.min(initial=0) < 0:
            raise IndexError(f"rows: expected starts from 0 on, came {self.start.min()}.")
        self.longest = int((self.length + n_shared).max(initial=0))
        arrays = self.start, self.length, self.start_shared, n_shared, self.bias
        self.tensors = tuple(torch.from_numpy(x) for x in arrays)
        # Rows that see nothing shared may begin anywhere.
        ends = (self.start + self.length, np.where(n_shared > 0, self.start_shared + n_shared, 0))
        self._n_named, self._n_shared_named = (int(end.max(initial=0)) for end in ends)

    def check(self, qkv: Tensor, shared: Tensor) -> None:
        """Raises IndexError where not all tokens that the rows name are there."""
        too_few = self._n_named > qkv.shape[1] or self._n_shared_named > len(shared)
        if too_few or shared.shape[1:] != qkv.shape[2:]:
            raise IndexError(f"rows: they name more tokens than there are in {qkv.shape} and {shared.shape}.")

    @staticmethod
    def equal(n_rows: int, length: int) -> Rows:
        """Rows of one length that follow one another."""
        return Rows(np.arange(n_rows) * length, np.full(n_rows, length))


def is_compiled(qkv: Tensor, n_heads: int) -> bool:
    """Whether ``row_attention`` can be used for such tokens, (..., 3 D)."""
    head = qkv.shape[-1] // (3 * n_heads)
    usable = qkv.device.type == "cpu" and qkv.dtype == torch.float32 and head <= _WIDEST_HEAD
    return usable and _library(head) is not None


def row_attention(qkv: Tensor, rows: Rows, n_heads: int, shared: Tensor | None = None) -> Tensor:
    """What tokens read from those of their row, (S, T, 3 D) queries, keys and values -> (S, T, D).

    Args:
        shared: (T', 3 D), of which keys and values are seen by the rows of every state.
    """
    shared = qkv.new_empty(0, qkv.shape[-1]) if shared is None else shared
    rows.check(qkv, shared)
    keeps = torch.is_grad_enabled() and (qkv.requires_grad or shared.requires_grad)
    return _forward(qkv, shared, *rows.tensors, n_heads, rows.longest, keeps)[0]


class _CRows(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("n_states", "n_positions", "n_rows", "n_heads")),
        *((name, ctypes.c_void_p) for name in ("start", "length", "start_shared", "length_shared", "bias")),
        ("scale", ctypes.c_float),
    )


@cache
def _library(head: int) -> ctypes.CDLL | None:
    library = compiled(packaged("backbones", "row_attention.c"), HEAD=head)
    if library is not None:
        library.forward.argtypes = [ctypes.POINTER(_CRows), *[ctypes.c_void_p] * 6]
        library.backward.argtypes = [ctypes.POINTER(_CRows), *[ctypes.c_void_p] * 9]
        library.forward.restype = library.backward.restype = None
        library.lanes.restype = ctypes.c_int64
    return library


# What torch has to know of compiled code: what it computes (custom_op), of which shapes (register_fake), and its
# gradient (register_autograd). So torch.compile, torch.export and fake tensors pass through it.


@torch.library.custom_op("tsimpute::row_attention", mutates_args=(), device_types="cpu")
def _forward(
    qkv: Tensor, shared: Tensor, start: Tensor, length: Tensor, start_shared: Tensor, length_shared: Tensor,
    bias: Tensor, n_heads: int, longest: int, keeps: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(S, T, D), and where a gradient needs them (S, T, heads): the largest score, the inverse of the weights' sum."""
    qkv, shared = qkv.contiguous(), shared.contiguous()
    n_states, n_tokens, width = qkv.shape
    library, described = _described(qkv, (start, length, start_shared, length_shared, bias), n_heads)
    out, scores = qkv.new_zeros(n_states, n_tokens, width // 3), qkv.new_empty(max(1, longest), library.lanes())
    of_scores = (n_states, n_tokens, n_heads) if keeps else (0,)
    largest, inverse = qkv.new_empty(of_scores), qkv.new_empty(of_scores)
    score_sums = (largest, inverse) if keeps else (None, None)
    library.forward(described, *map(_pointer, (qkv, shared, out, *score_sums, scores)))
    return out, largest, inverse


@_forward.register_fake
def _(
    qkv: Tensor, shared: Tensor, start: Tensor, length: Tensor, start_shared: Tensor, length_shared: Tensor,
    bias: Tensor, n_heads: int, longest: int, keeps: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    n_states, n_tokens, width = qkv.shape
    of_scores = (n_states, n_tokens, n_heads) if keeps else (0,)
    return qkv.new_empty(n_states, n_tokens, width // 3), qkv.new_empty(of_scores), qkv.new_empty(of_scores)


@torch.library.custom_op("tsimpute::row_attention_backward", mutates_args=(), device_types="cpu")
def _backward(
    of_out: Tensor, qkv: Tensor, shared: Tensor, out: Tensor, largest: Tensor, inverse: Tensor, start: Tensor,
    length: Tensor, start_shared: Tensor, length_shared: Tensor, bias: Tensor, n_heads: int, longest: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Gradients of ``qkv`` and ``shared``."""
    of_out, qkv, shared = of_out.contiguous(), qkv.contiguous(), shared.contiguous()
    library, described = _described(qkv, (start, length, start_shared, length_shared, bias), n_heads)
    of_qkv, of_shared, mean = torch.zeros_like(qkv), torch.zeros_like(shared), qkv.new_empty(max(1, longest))
    library.backward(described, *map(_pointer, (qkv, shared, out, largest, inverse, of_out, of_qkv, of_shared, mean)))
    return of_qkv, of_shared


@_backward.register_fake
def _(of_out: Tensor, qkv: Tensor, shared: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(qkv), torch.empty_like(shared)


def _keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    qkv, shared, *rows, n_heads, longest, keeps = inputs
    if not keeps:
        return
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(qkv, shared, *output, *rows)
    ctx.n_heads, ctx.longest = n_heads, longest


def _gradient(ctx: Any, of_out: Tensor, *of_kept: Tensor) -> tuple[Tensor | None, ...]:
    of_qkv, of_shared = _backward(of_out, *ctx.saved_tensors, ctx.n_heads, ctx.longest)
    return of_qkv, of_shared, *[None] * 8


_forward.register_autograd(_gradient, setup_context=_keep_for_backward)


def _described(qkv: Tensor, rows: tuple[Tensor, ...], n_heads: int) -> tuple[ctypes.CDLL, _CRows]:
    n_states, n_tokens, width = qkv.shape
    head = width // (3 * n_heads)
    library = _library(head)
    assert library is not None
    return library, _CRows(n_states, n_tokens, len(rows[0]), n_heads, *map(_pointer, rows), 1 / math.sqrt(head))


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()

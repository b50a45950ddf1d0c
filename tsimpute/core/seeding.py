"""Seeds that depend on the purpose of a draw only, not on batch, order, neighbours or process."""

from __future__ import annotations

import hashlib

import numpy as np

_STEP, _MIX = 0x9E3779B97F4A7C15, (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed from any number of integers and strings; the same on every machine and in every version."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def seeds_at(seeds: np.ndarray, at: int | np.ndarray) -> np.ndarray:
    """63-bit seeds at a position, or positions, of the sequences that begin at ``seeds``, all at once.

    SplitMix64 (Steele, Lea and Flood 2014): the ``at``-th number of each sequence, whose bits are as good as random.

    Args:
        seeds: integers from 0, such as those of ``derive_seed``.
        at: broadcast against ``seeds``; any integers.
    """
    z = seeds.astype(np.uint64) + np.asarray(at).astype(np.int64).astype(np.uint64) * np.uint64(_STEP)
    for shift, factor in zip((30, 27), _MIX, strict=True):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    return (z ^ (z >> np.uint64(31))) >> np.uint64(1)


def uniforms(seeds: np.ndarray, n: int, purpose: str) -> np.ndarray:
    """(B, n) numbers in (0, 1) from (B,) seeds, each row from its own seed and the purpose of the draw."""
    bits = seeds_at(seeds[:, None], np.arange(n) + derive_seed(purpose))
    return ((bits >> np.uint64(10)) + 0.5) * 2.0**-53

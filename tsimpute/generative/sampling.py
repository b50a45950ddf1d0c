"""The one sampling loop: Condition -> samples at the queried cells.

Every record is computed separately. Its samples are computed together in rows, whose number follows from the record and
the settings; each sample has its own generators. So a record's samples do not depend on its batch or order, bit for
bit, and no more than that many rows of one record are in the network's memory. Records of a backbone for one step share
blocks of rows, all of one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import torch
from torch import Tensor

from tsimpute.backbones.base import Backbone, VectorField
from tsimpute.core.containers import Condition, Prediction
from tsimpute.core.seeding import derive_seed
from tsimpute.errors import ConfigError, OutOfMemoryError
from tsimpute.processes.base import Process
from tsimpute.solvers.base import DrawNoise, Solver
from tsimpute.system.threads import in_threads

_FAST_ON_CPU = 64 * 2**20
"""Bytes of activations beyond which more rows at once are no faster (1 to 64 rows of 120 to 1680 cells measured)."""

_ROWS_OF_RECORDS = 128
"""Rows that are always computed together where records of one step share a block: an equal number gives equal bits."""

_BLOCK = 4096
"""Steps of noise from one generator: a part of a longer record draws its own blocks and no others."""

_OUT_OF_MEMORY = ("out of memory", "DefaultCPUAllocator", "bad_alloc", "could not create a primitive")
"""Texts of RuntimeErrors that mean it, the last one oneDNN's; torch has an error class for GPUs only."""

_TOO_LARGE = (
    "sampling: memory ran out at one draw of one record; cut the records into shorter ones, take a smaller network, or "
    "free memory."
)


@dataclass(frozen=True, eq=False)
class SamplingPath:
    """How noise becomes a sample: a solver of a process, and the times that it goes through."""

    process: Process
    solver: Solver
    grid: Tensor

    def end(self, field: VectorField, queried: Tensor, draw_noise: DrawNoise) -> Tensor:
        """(R, K, L) samples at the ``queried`` cells (R or 1, K, L), 0 elsewhere; they begin with a draw of noise."""

        def noise() -> Tensor:
            return draw_noise() * queried

        def predict(state: Tensor, tau: Tensor) -> Prediction:
            prediction = self.process.predict(field(state, tau), state, tau)
            # With noise and predictions 0 outside the queried cells, so is every state that a solver makes of them.
            return Prediction(prediction.clean * queried, prediction.noise * queried)

        return self.solver.solve(predict, self.process.scales, noise(), self.grid, noise)


@torch.inference_mode()
def sample(
    backbone: Backbone,
    process: Process,
    solver: Solver,
    condition: Condition,
    *,
    n_samples: int,
    n_steps: int,
    grid_power: float = 1.0,
    seeds: Sequence[int],
    antithetic: bool = False,
    rows_at_once: int | None = None,
    memory_mib: int = 1024,
    part_of: tuple[int, int] | None = None,
) -> Tensor:
    """Samples from the conditional distribution of the queried cells.

    Where memory runs out, the draws that did not fit are computed again, half as many at once.

    Args:
        condition: B records, on the backbone's device.
        n_samples: S draws of each.
        n_steps, grid_power: solver steps and how they are spaced; see ``Process.grid``.
        seeds: B integers; draw ``s`` of a record depends on its seed and on ``s``, not on S.
        antithetic: every other draw has the noise of the one before it with the other sign.
        rows_at_once: draws computed together; changes memory and speed, and results in the last bits only. None = as
            many as ``rows_within`` says.
        memory_mib: what the network may need, where ``rows_at_once`` is None.
        part_of: (first step, steps of the whole), where the condition is a part of longer records: then it gets its
            part of the noise of the whole.

    Returns:
        (S, B, K, L) standardised values at the queried cells, 0 elsewhere; on the device of ``condition``.

    Raises:
        ConfigError: a count below 1, more steps than the process has levels, not one seed per record, or one draw
            needs more than ``memory_mib``.
        OutOfMemoryError: not even one draw fits in the memory that there is.
    """
    for name, count in (("n_samples", n_samples), ("rows_at_once", rows_at_once)):
        if count is not None and count < 1:
            raise ConfigError(f"{name}: expected at least 1, came {count}.")
    if len(seeds) != len(condition):
        raise ConfigError(f"seeds: expected one for each of {len(condition)} records, came {len(seeds)}.")
    path = SamplingPath(process, solver, process.grid(n_steps, grid_power))
    plan = _SamplingPlan(path, part_of, antithetic)
    if getattr(backbone, "max_length", None) == 1:
        return _sample_one_step(backbone, plan, condition, n_samples, seeds, rows_at_once or _ROWS_OF_RECORDS)
    draws = condition.values.new_zeros(n_samples, *condition.values.shape)
    pieces = []
    needed = 1
    for b, seed in enumerate(seeds):
        record = condition.select(slice(b, b + 1))
        if not record.layout.queried.any():
            continue
        size = rows_at_once or rows_within(memory_mib, backbone, record)
        needed = max(needed, size * backbone.bytes_per_row(record) + backbone.bytes_once(record))
        parts = [range(first, min(first + size, n_samples)) for first in range(0, n_samples, size)]
        conditioned = _ConditionedRecord(backbone, record, len(parts))
        pieces += [(b, conditioned, seed, rows) for rows in parts]

    @torch.inference_mode()  # is set for each thread
    def work(piece: tuple[int, _ConditionedRecord, int, range]) -> tuple[int, range, Tensor]:
        b, conditioned, seed, rows = piece
        with conditioned as field:
            return b, rows, _draw(field, plan, conditioned.record, seed, rows)

    # Several pieces at once only as far as they fit into memory together, and on a GPU not at all.
    fit = max(1, memory_mib * 2**20 // needed) if condition.values.device.type == "cpu" else 1
    for b, rows, of_rows in in_threads(work, pieces, fit):
        draws[rows.start : rows.stop, b] = condition.select(slice(b, b + 1)).restored(of_rows)
    return draws


def rows_within(memory_mib: int, backbone: Backbone, record: Condition) -> int:
    """How many draws of one record to compute together: no more than fit in ``memory_mib``, nor than is fast.

    Not even one is a ConfigError.
    """
    per_row, once = backbone.bytes_per_row(record), backbone.bytes_once(record)
    allowed = memory_mib * 2**20 - once
    if per_row > allowed:
        _, k, length = record.values.shape
        raise ConfigError(
            f"memory_mib: one draw of a record of {k} features and {length} steps needs about "
            f"{-(-(per_row + once) // 2**20)} MiB, came {memory_mib}. Raise it, cut the records into shorter ones, or "
            "set rows_at_once to 1 to try nevertheless."
        )
    return max(1, (min(allowed, _FAST_ON_CPU) if record.values.device.type == "cpu" else allowed) // per_row)


@dataclass(frozen=True, eq=False)
class _SamplingPlan:
    """How the samples of all records are drawn."""

    path: SamplingPath
    part_of: tuple[int, int] | None
    antithetic: bool = False

    def noise_of(self, record: Condition, seed: int, row: int) -> _Noise:
        """The noise of one sample of a record, or its part of the noise of a longer record."""
        _, k, length = record.values.shape
        first, whole = self.part_of or (0, length)
        steps = slice(first, first + length)
        if not self.antithetic:
            return _Noise(seed, row, k, steps, whole)
        return _Noise(seed, row // 2, k, steps, whole, sign=-1.0 if row % 2 else 1.0)


class _Noise:
    """Standard normal numbers for one draw at some ``steps`` of a record of ``n_steps``, times ``sign``.

    They come from a generator for each block of steps: time and memory are those of the blocks that the steps lie in. A
    record of one block has the generator of the draw.
    """

    def __init__(self, seed: int, row: int, n_features: int, steps: slice, n_steps: int, sign: float = 1.0) -> None:
        self._n_features, self._sign = n_features, sign
        first = steps.start // _BLOCK
        self._wanted = slice(steps.start - first * _BLOCK, steps.stop - first * _BLOCK)
        self._blocks: list[tuple[torch.Generator, int]] = []
        for block in range(first, -(-steps.stop // _BLOCK)):
            block_seed = derive_seed(seed, row, block) if block else derive_seed(seed, row)
            n = min(_BLOCK, n_steps - block * _BLOCK)
            self._blocks.append((torch.Generator().manual_seed(block_seed), n))

    def draw(self) -> Tensor:
        """(K, L); each call gives new numbers."""
        blocks = [torch.randn(self._n_features, n, generator=generator) for generator, n in self._blocks]
        return self._sign * torch.cat(blocks, 1)[:, self._wanted]


class _ConditionedRecord:
    """One record and the network conditioned on it: made by the first piece of work, dropped by the last."""

    def __init__(self, backbone: Backbone, record: Condition, n_pieces: int) -> None:
        self.backbone, self.record = backbone, record
        self._lock, self._n_left = Lock(), n_pieces
        self._field: VectorField | None = None

    def __enter__(self) -> VectorField:
        with self._lock:
            if self._field is None:
                try:
                    self._field = self.backbone.condition_on(self.record)
                except (MemoryError, RuntimeError) as error:
                    if not _is_out_of_memory(error):
                        raise
                    raise OutOfMemoryError(_TOO_LARGE) from error
            return self._field

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_left -= 1
            if not self._n_left:
                self._field = None


def _sample_one_step(
    backbone: Backbone, plan: _SamplingPlan, condition: Condition, n_samples: int, seeds: Sequence[int], size: int
) -> Tensor:
    """``sample`` of records of one step: rows of different records are computed together, always ``size`` of them."""
    draws = condition.values.new_zeros(n_samples, *condition.values.shape)
    records = condition.query_mask.flatten(1).any(1).nonzero()[:, 0].tolist()
    rows = [(b, s) for b in records for s in range(n_samples)]

    @torch.inference_mode()
    def work(block: list[tuple[int, int]]) -> Tensor:
        padded = [*block, *block[-1:] * (size - len(block))]
        part = condition.select(torch.tensor([b for b, _ in padded], device=condition.values.device))
        noise = [plan.noise_of(part, seeds[b], s) for b, s in padded]
        return part.restored(_solved(backbone.condition_on(part), plan, part, noise))[: len(block)]

    blocks = [rows[n : n + size] for n in range(0, len(rows), size)]
    for block, of_rows in zip(blocks, in_threads(work, blocks), strict=True):
        b, s = torch.tensor(block, device=draws.device).T
        draws[s, b] = of_rows
    return draws


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or any(words in str(error) for words in _OUT_OF_MEMORY)


def _draw(field: VectorField, plan: _SamplingPlan, record: Condition, seed: int, rows: range) -> Tensor:
    """Draws ``rows`` of one record, (len(rows), K, L); half as many at once from where memory runs out."""
    draws, size = [], len(rows)
    while rows:
        try:
            draws.append(_solved(field, plan, record, [plan.noise_of(record, seed, row) for row in rows[:size]]))
        except (MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            size = min(size, len(rows))
            if size == 1:
                raise OutOfMemoryError(_TOO_LARGE) from error
            size //= 2  # tried when this block is left, and what the failed call held with it
        else:
            rows = rows[size:]
    return torch.cat(draws)


def _solved(field: VectorField, plan: _SamplingPlan, record: Condition, noise: Sequence[_Noise]) -> Tensor:
    def draw_noise() -> Tensor:
        return torch.stack([of_row.draw() for of_row in noise]).to(record.values)

    return plan.path.end(field, record.query_mask, draw_noise)

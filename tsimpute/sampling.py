"""The one sampling loop: Condition -> draws of the cells to fill.

Every record is computed by itself, its draws together in rows of a fixed number, each draw from its own generator. So
a record's draws are the same alone, in another batch or in another order, bit for bit, and memory is bounded by
``rows_at_once`` rows of one record.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from tsimpute.backbones.base import Backbone
from tsimpute.containers import Condition, Prediction
from tsimpute.errors import ConfigError
from tsimpute.processes.base import Process
from tsimpute.seeding import derive_seed
from tsimpute.solvers.base import Solver


@torch.inference_mode()
def sample(
    backbone: Backbone,
    process: Process,
    solver: Solver,
    condition: Condition,
    *,
    n_samples: int,
    n_steps: int,
    seeds: Sequence[int],
    rows_at_once: int = 8,
) -> Tensor:
    """Draws from the conditional distribution of the cells to fill.

    Args:
        condition: B records, on the backbone's device.
        n_samples: S draws of each.
        n_steps: solver steps.
        seeds: B integers; draw ``s`` of a record depends on its seed and on ``s``, not on S.
        rows_at_once: draws computed together; changes memory and speed, and results in the last bits only.

    Returns:
        (S, B, K, L) standardised values at the cells to fill, 0 elsewhere; on the device of ``condition``.

    Raises:
        ConfigError: a count below 1, more steps than the process has levels, or not one seed per record.
    """
    for name, count in (("n_samples", n_samples), ("rows_at_once", rows_at_once)):
        if count < 1:
            raise ConfigError(f"{name}: expected at least 1, came {count}.")
    if len(seeds) != len(condition):
        raise ConfigError(f"seeds: expected one for each of {len(condition)} records, came {len(seeds)}.")
    grid = process.grid(n_steps)
    draws = condition.values.new_zeros(n_samples, *condition.values.shape)
    for b, seed in enumerate(seeds):
        record = condition.select(slice(b, b + 1))
        if not bool(record.fill_mask.any()):
            continue
        for first in range(0, n_samples, rows_at_once):
            rows = range(first, min(first + rows_at_once, n_samples))
            draws[rows.start : rows.stop, b] = _sample_rows(backbone, process, solver, record, grid, seed, rows)
    return draws


def _sample_rows(
    backbone: Backbone, process: Process, solver: Solver, record: Condition, grid: Tensor, seed: int, rows: range
) -> Tensor:
    """Draws ``rows`` of one record, (len(rows), K, L)."""
    generators = [torch.Generator().manual_seed(derive_seed(seed, row)) for row in rows]
    condition = record.repeat(len(rows))

    def draw_noise() -> Tensor:
        shape = record.values.shape[1:]
        return torch.stack([torch.randn(shape, generator=g) for g in generators]).to(record.values)

    def predict(state: Tensor, tau: Tensor) -> Prediction:
        return process.predict(backbone(state, tau, condition), state, tau)

    state = draw_noise() * condition.fill_mask
    for tau, tau_next in pairwise(grid):
        moved = solver.step(
            predict, process.scales, state, tau.expand(len(rows)), tau_next.expand(len(rows)), draw_noise
        )
        state = moved * condition.fill_mask
    return state

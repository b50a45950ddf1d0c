"""The one loss of every process (Eq. 12, Simkus and Gutmann 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor, nn

from tsimpute.backbones.base import Backbone
from tsimpute.core.containers import Batch, CellLayout, Condition
from tsimpute.core.seeding import uniforms
from tsimpute.processes.base import Process


def squared_errors(backbone: Backbone, process: Process, batch: Batch, tau: Tensor, noise: Tensor) -> Tensor:
    """(B, K, L) squared regression error of each target cell, 0 elsewhere.

    Targets hold noisy states, unobserved cells that are queried the model's own states; all other cells that are not
    visible are blank (Appendix A.1).

    Args:
        batch: B records.
        tau: (B,) float64 process times on the CPU.
        noise: (B, K, L) standard normal.
    """
    state = process.corrupt(batch.values, noise, tau)
    if batch.unobserved_query is not None and batch.unobserved_layout is not None:
        rollout = _rollout_unobserved(backbone, process, batch, batch.unobserved_layout, tau, noise)
        state = torch.where(batch.unobserved_query, rollout, state)
    output = backbone(state, tau, batch.condition)
    return (output - process.target(batch.values, noise, tau)).square() * batch.target_mask


@torch.no_grad()
def _rollout_unobserved(
    backbone: Backbone, process: Process, batch: Batch, layout: CellLayout, tau: Tensor, noise: Tensor
) -> Tensor:
    """(B, K, L) states at ``tau`` of unobserved cells: where the model takes them in two steps from noise.

    Sampled given all observed cells, targets included, they vary with the targets as the parts of one sample do. With a
    baseline they are, like the targets' states, differences to the baseline that is made without the targets, in units
    of its spread.
    """
    rows = torch.from_numpy(np.flatnonzero(layout.queried.any((1, 2))))  # (R,) records with such a query
    values = torch.where(batch.target_mask, batch.condition.restored(batch.values), batch.values)

    def of_rows(x: Tensor | None) -> Any:
        return None if x is None else x[rows]

    known = Condition(
        values[rows],
        batch.observed[rows],
        of_rows(batch.unobserved_query),
        batch.times[rows],
        batch.usual_cells,
        of_rows(batch.base_given_all),
        of_rows(batch.spread_given_all),
    ).with_layout(layout.select(rows))
    field = backbone.condition_on(known)
    end, state = tau[rows], noise[rows]
    first = process.predict(field(state, 0 * end), state, 0 * end)
    state = process.scales(end / 2).mix(first.clean, first.noise)
    second = process.predict(field(state, end / 2), state, end / 2)
    clean = batch.condition.select(rows).residuals(known.restored(second.clean))
    states = process.scales(end).mix(clean, second.noise)
    return torch.zeros_like(noise).index_copy(0, rows.to(noise.device), states)


@dataclass(frozen=True, eq=False)
class Regression:
    """The loss of a process, at a process time and with noise of each record's own seed."""

    process: Process

    def __call__(self, network: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """(B, K, L) squared errors, and the cells that they are of: the targets."""
        tau, noise = draw(batch, self.process)
        return squared_errors(network, self.process, batch, tau, noise), batch.target_mask  # type: ignore[arg-type]


def loss_per_record(errors: Tensor, mask: Tensor) -> Tensor:
    """(B,) mean error over the cells of ``mask`` in each record; 0 for a record without any."""
    return errors.sum((1, 2)) / mask.sum((1, 2)).clamp(min=1)


def draw(batch: Batch, process: Process) -> tuple[Tensor, Tensor]:
    """The process time and the noise of each record, drawn from the record's own seed.

    Returns:
        tau (B,) float64 on the CPU, noise (B, K, L) like the batch's values.
    """
    if batch.values.shape[2] == 1:
        # Of records of one step there are so many that a generator for each takes too long.
        drawn = uniforms(np.array(batch.seeds, np.uint64), 1 + batch.values.shape[1], "tau and noise")
        at_once = torch.from_numpy(ndtri(drawn[:, 1:, None])).to(batch.values)
        return process.sample_tau(torch.from_numpy(drawn[:, 0])), at_once
    uniform, noise = [], []
    for seed in batch.seeds:
        generator = torch.Generator().manual_seed(seed)
        uniform.append(torch.rand(1, generator=generator, dtype=torch.float64))
        noise.append(torch.randn(batch.values.shape[1:], generator=generator))
    return process.sample_tau(torch.cat(uniform)), torch.stack(noise).to(batch.values)

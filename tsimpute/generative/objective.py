"""The one loss of every process (Eq. 12, Simkus and Gutmann 2025)."""

from __future__ import annotations

import torch
from torch import Tensor

from tsimpute.backbones.base import Backbone
from tsimpute.core.containers import Batch, Condition
from tsimpute.processes.base import Process


def squared_errors(backbone: Backbone, process: Process, batch: Batch, tau: Tensor, noise: Tensor) -> Tensor:
    """Squared regression error of each target cell, 0 elsewhere.

    Noise stands only where targets are, and the model's own states where other cells are asked for; the rest that is
    not shown is blank (Appendix A.1).

    Args:
        batch: B records.
        tau: (B,) float64 process times on the CPU.
        noise: (B, K, L) standard normal.

    Returns:
        (B, K, L).
    """
    state = process.corrupt(batch.values, noise, tau)
    if batch.asked is not None and bool(batch.asked.any()):
        state = torch.where(batch.asked, _rollout_unobserved(backbone, process, batch, batch.asked, tau, noise), state)
    output = backbone(state, tau, batch.condition)
    return (output - process.target(batch.values, noise, tau)).square() * batch.target_mask


@torch.no_grad()
def _rollout_unobserved(
    backbone: Backbone, process: Process, batch: Batch, asked: Tensor, tau: Tensor, noise: Tensor
) -> Tensor:
    """(B, K, L) states at ``tau`` of cells that nobody observed: where the model takes them, in two steps from noise.

    In use they stand where the model has taken them. Drawn given all that is observed, targets too, they go with the
    targets as the parts of one draw do. With a first guess they are, like the targets' states, those of the difference
    to the guess that is made without the targets, in units of its spread.
    """
    rows = asked.flatten(1).any(1).nonzero()[:, 0]
    condition = batch.condition
    values = torch.where(batch.target_mask, condition.restored(batch.values), batch.values)[rows]
    guess, spread = (None if x is None else x[rows] for x in (batch.guess_given_all, batch.spread_given_all))
    known = Condition(values, batch.observed[rows], asked[rows], batch.times[rows], batch.usual_cells, guess, spread)
    field = backbone.condition_on(known)
    end, state = tau[rows.cpu()], noise[rows]
    found = process.predict(field(state, 0 * end), state, 0 * end)
    state = process.scales(end / 2).mix(found.clean, found.noise)
    found = process.predict(field(state, end / 2), state, end / 2)
    clean = condition.select(rows).residuals(known.restored(found.clean))
    return torch.zeros_like(noise).index_copy(0, rows, process.scales(end).mix(clean, found.noise))


def loss_per_record(errors: Tensor, target_mask: Tensor) -> Tensor:
    """(B,) mean error over each record's own targets; 0 for a record without targets."""
    return errors.sum((1, 2)) / target_mask.sum((1, 2)).clamp(min=1)


def draw(batch: Batch, process: Process) -> tuple[Tensor, Tensor]:
    """The process time and the noise of each record, drawn from the record's own seed.

    Returns:
        tau (B,) float64 on the CPU, noise (B, K, L) like the batch's values.
    """
    uniform, noise = [], []
    for seed in batch.seeds:
        generator = torch.Generator().manual_seed(seed)
        uniform.append(torch.rand(1, generator=generator, dtype=torch.float64))
        noise.append(torch.randn(batch.values.shape[1:], generator=generator))
    return process.sample_tau(torch.cat(uniform)), torch.stack(noise).to(batch.values)

"""The one loss of every process (Eq. 12, Simkus and Gutmann 2025)."""

from __future__ import annotations

import torch
from torch import Tensor

from tsimpute.backbones.base import Backbone
from tsimpute.containers import Batch, Condition
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
        state = torch.where(batch.asked, _states_in_use(backbone, process, batch, batch.asked, tau, noise), state)
    output = backbone(state, tau, batch.condition)
    return (output - process.target(batch.values, noise, tau)).square() * batch.target_mask


@torch.no_grad()
def _states_in_use(
    backbone: Backbone, process: Process, batch: Batch, asked: Tensor, tau: Tensor, noise: Tensor
) -> Tensor:
    """(B, K, L) states at ``tau`` of cells that nobody observed: where the model takes them, in two steps from noise.

    In use they stand where the model has taken them. Drawn given all that is observed, targets too, they go with the
    targets as the parts of one draw do. With a first guess they are, like the targets' states, those of the difference
    to the guess that is made without the targets.
    """
    rows = asked.flatten(1).any(1).nonzero()[:, 0]
    values, guess, shift = batch.values, None, None
    if batch.guess is not None and batch.guess_given_all is not None:
        values = values + batch.guess * batch.target_mask
        guess, shift = batch.guess_given_all[rows], (batch.guess_given_all - batch.guess)[rows]
    known = Condition(values[rows], batch.observed[rows], asked[rows], batch.times[rows], batch.usual_cells, guess)
    field = backbone.bind(known)
    end, moved = tau[rows.cpu()], noise[rows]
    for now, then in ((torch.zeros_like(end), end / 2), (end / 2, end)):
        found = process.predict(field(moved, now), moved, now)
        moved = process.scales(then).mix(found.clean, found.noise)
    if shift is not None:
        moved = moved + process.scales(end).mix(shift, torch.zeros_like(shift))
    return torch.zeros_like(noise).index_copy(0, rows, moved)


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

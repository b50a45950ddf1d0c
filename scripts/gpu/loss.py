"""The loss of ``tsimpute.generative.objective`` without what waits for the device, so that a GPU can capture it."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch
from records import Resident
from torch import Tensor


class Levels:
    """What ``processes`` say of flow matching and diffusion, of process times on the device.

    Args:
        of: the process.
    """

    def __init__(self, of: Any, device: torch.device) -> None:
        self.of, self.is_flow = of, of.name == "flow_matching"
        if not self.is_flow:
            of._from_data = of._from_data.to(device)

    def corrupt(self, clean: Tensor, noise: Tensor, tau: Tensor) -> Tensor:
        return self.of.scales(tau).mix(clean, noise)

    def target(self, clean: Tensor, noise: Tensor, tau: Tensor) -> Tensor:
        if not self.is_flow:
            return noise
        if self.of.is_straight:
            return clean - noise
        scales = self.of.scales(tau)
        turned = type(scales)(math.pi / 2 * scales.sigma, -math.pi / 2 * scales.alpha)
        return turned.mix(clean, noise)


def seen_by(values: Tensor, cond: Tensor, fill: Tensor, times: Tensor, base: Any, spread: Any) -> Any:
    """What a network reads of a ``Condition``, without its checks, which wait for the device."""
    known = values if base is None else values + base
    return SimpleNamespace(
        values=values, cond_mask=cond, query_mask=fill, times=times, known=known, spread=spread, usual_cells=math.inf
    )


def batch_loss(
    network: Any,
    levels: Levels,
    records: Resident,
    index: Tensor,
    masks: Tensor,
    uniform: Tensor,
    noise: Tensor,
    ask: Tensor | None = None,
) -> Tensor:
    """Mean over records of the mean error over their targets; see ``objective``.

    Args:
        index: (B,) records. masks: (B,) their masks in the pool. uniform: (B,) float64. noise: (B, K, L).
        ask: (B,) bool, records all of whose unobserved cells are to be filled; None = there are none.
    """
    values, shown, times = records.values[index], records.visible[index], records.times[index]
    base = spread = None
    if records.pool is None:
        cond = records.mask(shown)
    else:
        cond, base, spread = (x[index * records.n_masks + masks] for x in records.pool)
        values = (values - base * shown) / torch.where(shown, spread, 1.0)
    targets = fill = shown & ~cond
    tau = levels.of.sample_tau(uniform)
    state = levels.corrupt(values, noise, tau)
    if ask is not None:
        asked = ~shown & ask[:, None, None]
        fill = targets | asked
        clean, left = states_in_use(network, levels, records, index, asked, tau, noise)
        if base is not None:
            clean = (clean - base) / spread
        state = torch.where(asked, levels.corrupt(clean, left, tau), state)
    if base is not None:  # as it is made in use: where cells are to be filled
        base, spread = base * fill, torch.where(fill, spread, 1.0)
    condition = seen_by(values * cond, cond, fill, times, base, spread)
    output = network.condition_on(condition)(state, tau)
    errors = (output - levels.target(values, noise, tau)).square() * targets
    return (errors.sum((1, 2)) / targets.sum((1, 2)).clamp(min=1)).mean()


@torch.no_grad()
def states_in_use(
    network: Any, levels: Levels, records: Resident, index: Tensor, asked: Tensor, tau: Tensor, noise: Tensor
) -> tuple[Tensor, Tensor]:
    """(B, K, L) standardised values at the asked cells, and what is left of the noise; see ``objective``."""
    values, shown, times = records.values[index], records.visible[index], records.times[index]
    base = spread = None
    if records.given_all is not None:
        base, spread = (x[index] for x in records.given_all)
        base, spread = base * asked, torch.where(asked, spread, 1.0)
    field = network.condition_on(seen_by(values, shown, asked, times, base, spread))
    found = levels.of.predict(field(noise, 0 * tau), noise, 0 * tau)
    state = levels.of.scales(tau / 2).mix(found.clean, found.noise)
    found = levels.of.predict(field(state, tau / 2), state, tau / 2)
    clean = found.clean * asked
    if base is not None and spread is not None:
        clean = clean * spread + base
    return clean, found.noise

"""Records of one data set on a device, the masks that training draws, and base estimates for a pool of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import torch
from posterior import Posterior
from torch import Tensor

from tsimpute.gaussian.process import GaussianModel

MOST_VALID = 240
"""Validation records looked at, about."""


class Resident:
    """Records of one data set on the device, and for each a pool of masks with their posteriors, if there is a process.

    Attributes:
        values: (N, K, L) standardised, 0 where unobserved. shown: (N, K, L) bool. times: (N, L).
        pool: cond_mask, base and spread, (N M, K, L) each; None = masks are drawn in each step.
        given_all: base and spread, (N, K, L) each, of unobserved cells given all that is observed; None = no process.
    """

    def __init__(
        self, arrays: dict[str, np.ndarray], part: str, mask_policy: str, n_masks: int, device: torch.device
    ) -> None:
        # Many validation windows overlap: some of them tell as much.
        thinned = slice(None, None, max(1, len(arrays["valid_values"]) // MOST_VALID) if part == "valid" else 1)
        there = lambda name: torch.from_numpy(arrays[f"{part}_{name}"][thinned]).to(device)
        self.values, self.visible, self.times = there("values"), there("shown"), there("times")
        self.patterns = torch.from_numpy(arrays["patterns"]).to(device)
        self.mask_policy, self.n_masks = mask_policy, n_masks
        self.generator = torch.Generator(device).manual_seed(int(part == "valid"))
        self.pool: tuple[Tensor, Tensor, Tensor] | None = None
        self.given_all: tuple[Tensor, Tensor] | None = None
        if has_base(arrays):
            self._posteriors(arrays, part)

    def mask(self, shown: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, K, L) bool, the cells that are shown; see ``masking.RandomTargets`` and ``masking.Mix``."""
        random = random_targets(shown, generator)
        if self.mask_policy == "random":
            return random
        donor = torch.randint(len(self.patterns), (len(shown),), device=shown.device, generator=generator)
        historical = shown & self.patterns[donor]
        none_left = (historical == shown).flatten(1).all(1)
        coin = torch.rand(len(shown), device=shown.device, generator=generator) > 0.5
        return torch.where((coin | none_left)[:, None, None], random, historical)

    def _posteriors(self, arrays: dict[str, np.ndarray], part: str) -> None:
        process = model_of(arrays, "base.")
        n, k, length = self.values.shape
        fold_of, aparts = np.zeros(n, np.int64), [None]
        if part == "train" and "fold_of" in arrays:
            fold_of = arrays["fold_of"]
            aparts = [model_of(arrays, f"apart{f}.") for f in range(int(fold_of.max()) + 1)]
        cond = torch.empty(n, self.n_masks, k, length, dtype=torch.bool, device=self.values.device)
        base, spread = (torch.empty(cond.shape, device=cond.device) for _ in range(2))
        given_all = torch.empty_like(self.values), torch.empty_like(self.values)
        for f, apart in enumerate(aparts):
            posterior = Posterior(process, apart, length, cond.device)
            for at in torch.from_numpy(np.flatnonzero(fold_of == f)).to(cond.device).split(64):
                shown = self.visible[at].repeat_interleave(self.n_masks, 0)
                masks = self.mask(shown, self.generator)
                found = posterior(self.values[at].repeat_interleave(self.n_masks, 0), masks)
                for kept, new in zip((cond, base, spread), (masks, *found), strict=True):
                    kept[at] = new.unflatten(0, (len(at), self.n_masks))
                for kept, new in zip(given_all, posterior(self.values[at], self.visible[at]), strict=True):
                    kept[at] = new
        self.pool, self.given_all = (cond.flatten(0, 1), base.flatten(0, 1), spread.flatten(0, 1)), given_all


@cache
def residents(path: Path, mask_policy: str, n_masks: int, device: torch.device) -> tuple[Resident, Resident, bool]:
    """Training and validation records, shared by jobs, and whether they have a Gaussian process."""
    with np.load(path) as file:
        arrays = dict(file)
    records, valid = (
        Resident(arrays, "train", mask_policy, n_masks, device),
        Resident(arrays, "valid", mask_policy, 4, device),
    )
    return records, valid, has_base(arrays)


def random_targets(shown: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """See ``masking.RandomTargets``, for many records at once."""
    flat = shown.flatten(1)
    count = flat.sum(1)
    share = torch.rand(len(flat), device=flat.device, generator=generator)
    n_targets = (share * count).round().clamp(min=1).minimum(count)
    order = torch.rand(flat.shape, device=flat.device, generator=generator).masked_fill(~flat, 2.0)
    rank = order.argsort(1).argsort(1)
    return (flat & (rank >= n_targets[:, None])).view_as(shown)


def has_base(arrays: dict[str, np.ndarray]) -> bool:
    return any(name.startswith("base.") for name in arrays)


def model_of(arrays: dict[str, np.ndarray], prefix: str) -> GaussianModel:
    return GaussianModel.from_arrays({n.removeprefix(prefix): x for n, x in arrays.items() if n.startswith(prefix)})

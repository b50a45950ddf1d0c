"""Training by the scores of samples: what samples are judged by is minimised, in the steps that they take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from tsimpute.core.containers import Batch
from tsimpute.core.seeding import derive_seed
from tsimpute.generative.objective import draw
from tsimpute.generative.sampling import SamplingPath


@dataclass(frozen=True, eq=False)
class SampleScore:
    """Fair CRPS of two samples of each record, the loss of the network that draws them.

    The samples are a function of noise and weights, and the loss goes back through all steps of the sampler. The score
    of two samples has the same expectation as that of any number (Ferro 2014), and is lowest for the true distribution.
    CRPS of single cells does not see whether cells that are sampled together fit together. So the differences of
    targets that follow each other, in time and over features, are scored as well, at half the weight (as the variogram
    score does, Scheuerer and Hamill 2015, with CRPS in place of squares). Errors are of standardised values.

    Attributes:
        path: how the samples are drawn.
    """

    path: SamplingPath

    def __call__(self, network: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """(B, K, L) errors, and the cells that they are of: the targets."""
        condition, targets = batch.condition, batch.target_mask
        again = replace(batch, seeds=tuple(derive_seed(seed, "second") for seed in batch.seeds))
        backbone: Any = network
        field = backbone.condition_on(condition)
        noises = [draw(b, self.path.process)[1] for b in (batch, again)]
        ends = [self.path.end(field, condition.query_mask, lambda noise=noise: noise) for noise in noises]
        # Not in units of the spread: where it is large, errors are.
        spread = 1.0 if batch.spread is None else batch.spread
        one, two, truth = (x * spread * targets for x in (*ends, batch.values))
        errors = crps_of_two(one, two, truth)
        for order in ((0, 1, 2), (0, 2, 1)):
            between = _differences(*(x.permute(order) for x in (one, two, truth, targets))).permute(order)
            errors = errors + between / 2
        return errors, targets


def crps_of_two(one: Tensor, two: Tensor, truth: Tensor) -> Tensor:
    """Fair CRPS of two samples, cell by cell."""
    return ((one - truth).abs() + (two - truth).abs() - (one - two).abs()) / 2


def _differences(one: Tensor, two: Tensor, truth: Tensor, targets: Tensor) -> Tensor:
    """The score of each target's difference to the next target of its record, in the order of cells; 0 elsewhere."""
    at = targets.nonzero()
    same = at[1:, 0] == at[:-1, 0]
    first, second = (tuple(cells[same].T) for cells in (at[:-1], at[1:]))
    return torch.zeros_like(truth).index_put(first, crps_of_two(*(x[second] - x[first] for x in (one, two, truth))))

"""A Gaussian process's posterior of many windows at once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tsimpute.gaussian.covariance import at_positions
from tsimpute.gaussian.process import FARTHEST, LEAST_SPREAD, GaussianModel


class Posterior:
    """``GaussianBase`` of records of one window of regular steps, many at once.

    Args:
        base: the process whose scores the values are.
        apart: a process of those scores, or None.
        length: steps of a record.
    """

    def __init__(self, base: GaussianModel, apart: GaussianModel | None, length: int, device: torch.device) -> None:
        if base.seasons.periods or (apart is not None and apart.seasons.periods):
            raise ValueError("expected a process without seasons: the times of these records start from 0.")
        self.model, self.apart = apart or base, apart
        covariance = at_positions(self.model.covariance, np.arange(float(length)))
        self.covariance = torch.from_numpy(covariance).to(device)

    def __call__(self, values: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """(B, K, L) means, 0 at known cells, and spreads, 1 there."""
        scores = values.clamp(-FARTHEST, FARTHEST).double()
        if self.apart is not None:
            scores = self._piecewise(scores, forward=True)
        mean, spread = zip(
            *(self._conditioned(*part) for part in zip(scores.split(128), known.split(128), strict=True)), strict=True
        )
        mean, spread = torch.cat(mean), torch.cat(spread)
        if self.apart is not None:
            above = self._piecewise(mean + spread, forward=False)
            mean = self._piecewise(mean, forward=False)
            spread = above - mean
        return (mean * ~known).float(), torch.where(known, 1.0, spread.clamp(min=LEAST_SPREAD)).float()

    def _conditioned(self, scores: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Means and standard deviations of all cells; a cell that is not known is as if independent of all others."""
        seen = known.mT.flatten(1).double()  # steps first, as in the covariance
        matrix = self.covariance * seen[:, :, None] * seen[:, None] + torch.diag_embed(1 - seen)
        right = torch.cat([seen[:, :, None] * self.covariance, (scores.mT.flatten(1) * seen)[..., None]], 2)
        white, of_values = solved_by_root(matrix, right).split([len(self.covariance), 1], 2)
        mean = (white * of_values).sum(1)
        variance = self.covariance.diagonal() - white.square().sum(1)
        shape = (len(scores), scores.shape[2], scores.shape[1])
        return mean.view(shape).mT, variance.clamp(min=0).sqrt().view(shape).mT

    def _piecewise(self, x: Tensor, forward: bool) -> Tensor:
        model = self.model
        out = torch.empty_like(x)
        for k, of_one in enumerate(model.maps):
            values, scores = (torch.from_numpy(a).to(x.device) for a in (of_one.values, of_one.scores))
            knots, at_knots = (values, scores) if forward else (scores, values)
            low, high = (1 / s if forward and s else s for s in of_one.slopes)
            of_k = x[:, k] if forward else x[:, k] * model.scale[k] + model.centre[k]
            if forward and of_one.values[0] == of_one.values[-1]:  # a constant feature
                found = torch.zeros_like(of_k)
            else:
                found = interpolated(of_k.contiguous(), knots, at_knots, low, high)
            out[:, k] = ((found - model.centre[k]) / model.scale[k]).clamp(-FARTHEST, FARTHEST) if forward else found
        return out


def solved_by_root(matrix: Tensor, right: Tensor, size: int = 128) -> Tensor:
    """(B, n, m) of ``right`` after the lower root of ``matrix`` is divided out; both are overwritten.

    Block by block, so that nearly all the work is in products of matrices, which batched solvers do not reach.
    """
    for first in range(0, matrix.shape[1], size):
        here, rest = slice(first, first + size), slice(first + size, None)
        root = torch.linalg.cholesky(matrix[:, here, here])
        inverse = torch.linalg.solve_triangular(root, torch.eye(root.shape[1]).to(root).expand_as(root), upper=False)
        right[:, here] = inverse @ right[:, here]
        if matrix[:, rest].shape[1]:
            rows = inverse @ matrix[:, here, rest]
            matrix[:, rest, rest] -= rows.mT @ rows
            right[:, rest] -= rows.mT @ right[:, here]
    return right


def interpolated(x: Tensor, knots: Tensor, at_knots: Tensor, low: float, high: float) -> Tensor:
    """Linear between increasing knots, with slopes beyond them; see ``maps.MonotoneMap``."""
    n = torch.searchsorted(knots, x).clamp(1, len(knots) - 1)
    share = ((x - knots[n - 1]) / (knots[n] - knots[n - 1])).clamp(0, 1)
    inside = at_knots[n - 1] + share * (at_knots[n] - at_knots[n - 1])
    return inside + low * (x - knots[0]).clamp(max=0) + high * (x - knots[-1]).clamp(min=0)

"""Imputation by optimal transport (Muzellec, Josse, Boyer and Cuturi 2020): batches of rows become alike."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError
from tsimpute.imputers.shared.standardised import StandardisedImputer, check_counts, rows_of

_MOST_ROWS = 2000
"""Rows whose distances the regularisation is taken from."""


class SinkhornImputer(StandardisedImputer):
    """Each missing cell of the training table is a free number; they lower the Sinkhorn divergence of random batches.

    A row is one step of a record, so a table is records of one step. The numbers start at the column's mean with noise
    of 0.1 standard deviations. The cost is half the squared distance, and the regularisation is the square of
    ``epsilon`` times its median, as in the authors' code. The method fills the table that it learns from: a record with
    the id and the visible cells of a training record gets the learnt numbers. Any other record gets the mean of the
    completed training rows with the weights that the regularised transport of its visible cells gives them. One answer
    is repeated.

    Args:
        n_steps: gradient steps of RMSprop.
        batch_size: rows of each of the two batches; a power of two that is at most half of the rows where that is less.
        learning_rate: of RMSprop.
        epsilon: see above.
        seed: of ``fit``.
    """

    name = "sinkhorn"
    _LEARNT: ClassVar = ("ids", "known", "completed", "regularisation")

    def __init__(
        self,
        n_steps: int = 3000,
        batch_size: int = 128,
        learning_rate: float = 0.01,
        epsilon: float = 0.05,
        seed: int = 0,
    ) -> None:
        check_counts(n_steps=n_steps, batch_size=batch_size)
        if not (learning_rate > 0 and epsilon > 0):
            came = f"{learning_rate!r}, {epsilon!r}"
            raise ConfigError(f"learning_rate, epsilon: expected positive numbers, came {came}.")
        self.n_steps, self.batch_size, self.seed = n_steps, batch_size, seed
        self.learning_rate, self.epsilon = float(learning_rate), float(epsilon)

    def _learn(self, known: np.ndarray, train: Windows) -> dict[str, np.ndarray]:
        rows, rng = rows_of(known), np.random.default_rng(self.seed)
        some = torch.tensor(np.nan_to_num(rows[rng.permutation(len(rows))[:_MOST_ROWS]]))
        costs = _costs(some, some)
        costs = costs[costs > 1e-12]
        regularisation = (self.epsilon * float(costs.median())) ** 2 if len(costs) else 0.0
        completed = self._completed(rows, regularisation, rng) if regularisation else np.nan_to_num(rows)
        n, k, length = known.shape
        return {
            "ids": np.array(train.record_ids),
            "known": known,
            "completed": completed.reshape(n, length, k).transpose(0, 2, 1).copy(),
            "regularisation": np.array(regularisation),
        }

    def _completed(self, rows: np.ndarray, regularisation: float, rng: np.random.Generator) -> np.ndarray:
        """(R, K) rows without gaps; a column of one value keeps it."""
        gaps = np.isnan(rows) & [len(np.unique(column[~np.isnan(column)])) > 1 for column in rows.T]
        size = self.batch_size if 2 * self.batch_size <= len(rows) else 2 ** int(math.log2(len(rows) // 2))
        free = torch.tensor(0.1 * rng.standard_normal(rows.shape) * gaps, requires_grad=True)
        fixed, optimizer = torch.tensor(np.nan_to_num(rows)), torch.optim.RMSprop([free], lr=self.learning_rate)
        mask = torch.tensor(gaps)
        for _ in range(self.n_steps if gaps.any() else 0):
            at, other = (rng.permutation(len(rows))[:size] for _ in range(2))
            x, y = (torch.where(mask[i], free[i], fixed[i]) for i in (at, other))
            loss = sinkhorn_divergence(x, y, regularisation)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return torch.where(mask, free, fixed).detach().numpy()

    def _draws(self, known: np.ndarray, windows: Windows, n_samples: int, seed: int) -> Iterator[np.ndarray]:
        learnt = self.learnt_
        places = {record_id: n for n, record_id in enumerate(learnt["ids"].tolist())}
        for record, record_id in zip(known, windows.record_ids, strict=True):
            n = places.get(record_id, -1)
            if n >= 0 and np.array_equal(learnt["known"][n], record, equal_nan=True):
                filled = learnt["completed"][n]
            else:  # not learnt from: the barycentric projection, step by step
                rows, filled = rows_of(learnt["completed"]), record.copy()
                for step in np.flatnonzero(np.isnan(record).any(0)):
                    gaps = np.isnan(record[:, step])
                    costs = 0.5 * np.square(rows[:, ~gaps] - record[~gaps, step]).sum(1)
                    weights = np.exp((costs.min() - costs) / max(float(learnt["regularisation"]), 1e-12))
                    filled[gaps, step] = (weights[:, None] * rows[:, gaps]).sum(0) / weights.sum()
            yield np.repeat(filled[None], n_samples, 0)


def sinkhorn_divergence(x: Tensor, y: Tensor, regularisation: float, scaling: float = 0.9) -> Tensor:
    """The debiased transport cost of two sets of R points (R, K) of equal weights, with gradients (Feydy et al. 2019).

    The cost is half the squared distance. The regularisation falls from the squared diameter by ``scaling`` squared at
    each iteration, as in the package geomloss.
    """
    costs = torch.stack([_costs(x, y), _costs(y, x), _costs(x, x), _costs(y, y)])
    swap = [1, 0, 2, 3]  # the potential of the other side: of the sets' own costs, the same one

    def softmin(costs: Tensor, potentials: Tensor, level: float) -> Tensor:
        return -level * ((potentials[swap, None] - costs) / level - math.log(len(x))).logsumexp(2)

    with torch.no_grad():
        potentials, level = torch.zeros(costs.shape[:2], dtype=x.dtype), 2 * float(costs.max()) + regularisation
        while True:
            new = softmin(costs, potentials, level)
            potentials = new if not potentials.any() else (potentials + new) / 2
            if level == regularisation:
                break
            level = max(level * scaling**2, regularisation)
    f, g, of_x, of_y = softmin(costs, potentials, regularisation)
    return (f - of_x).mean() + (g - of_y).mean()


def _costs(x: Tensor, y: Tensor) -> Tensor:
    """(R, R') half squared distances."""
    squares = x.square().sum(1)[:, None] + y.square().sum(1)
    return (squares / 2 - x @ y.T).clamp(min=0)


PLUGIN = SinkhornImputer

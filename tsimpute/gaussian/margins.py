"""Networks that correct the posterior of a Gaussian process cell by cell: where it lies, and its shape.

The process knows how cells depend on each other by lines. What it leaves is learnt from cells that are hidden for it,
by small networks that see the posterior around a cell (stacking, Wolpert 1992) and start from no change. Draws stay
joint: the process is the copula. Each cell's normal score under it is mapped by an increasing function that the
networks give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor, nn

from tsimpute.core.gaps import nearest_known
from tsimpute.core.seeding import derive_seed
from tsimpute.gaussian.conditioning import Piece
from tsimpute.system.threads import one_thread

KNOTS = (-1.5, -0.5, 0.5, 1.5)
"""Normal scores between which, and beyond which, the map of a score is a straight line."""
_LEVELS = np.linspace(-2.2, 2.2, 13)
"""Normal scores of the quantiles whose pinball losses are minimised."""
_NEAR, _AROUND = (-3, -2, -1, 1, 2, 3), (-2, -1, 0, 1, 2)
_MOST_OTHERS, _NEAREST_OTHERS, _NEAR_OTHERS = 12, 4, (-3, -1, 1, 3)
_FARTHEST = 5.0
_WIDTH, _EMBEDDING, _DROPOUT = 128, 8, 0.2
_BATCHES, _SMALLEST, _LARGEST = 64, 128, 2048
_LEARNING_RATE, _WEIGHT_DECAY = 5e-3, 1e-2
_CELLS_AT_ONCE = 50_000


@dataclass(frozen=True, eq=False)
class Cells:
    """What networks see of M cells.

    Attributes:
        inputs: (M, D) single precision.
        feature: (M,) index of the cell's feature.
        spread: (M,) posterior standard deviation, in scores.
    """

    inputs: np.ndarray
    feature: np.ndarray
    spread: np.ndarray

    def __getitem__(self, some: np.ndarray) -> Cells:
        return Cells(self.inputs[some], self.feature[some], self.spread[some])


class Posterior:
    """The posterior of one record, in scores.

    Args:
        mean: (K, L) posterior means; known cells hold their value.
        spread: (K, L) posterior standard deviations; 0 at known cells.
        known: (K, L) bool.
        others: see ``others_of``.
    """

    def __init__(self, mean: np.ndarray, spread: np.ndarray, known: np.ndarray, others: np.ndarray) -> None:
        self.mean, self.spread, self.others = mean, spread, others
        self.nearest = nearest_known(known)
        shown, n_at_step, n_of_feature = np.where(known, mean, 0.0), known.sum(0), known.sum(1)
        self.level = shown.sum(0) / np.maximum(n_at_step, 1)
        around = np.where(known, mean - self.level, 0.0)
        self.scatter = np.sqrt((around**2).sum(0) / np.maximum(n_at_step, 1))
        self.of_feature = shown.sum(1) / np.maximum(n_of_feature, 1)
        self.share_at_step, self.share_of_feature = known.mean(0), known.mean(1)
        steps = np.abs(np.diff(shown, axis=1))[known[:, 1:] & known[:, :-1]]
        values = mean[known]
        self.of_record = (values.mean(), values.std()) if len(values) else (0.0, 0.0)
        self.of_record += (steps.mean() if len(steps) else 0.0,)

    def cells(self, wanted: np.ndarray) -> Cells:
        """Of the missing cells ``wanted`` (K, L) bool, in the order of ``numpy.nonzero``.

        Means enter as differences from that of the cell itself, so that what is learnt holds at any level.
        """
        feature, step = np.nonzero(wanted)
        n_steps = self.mean.shape[1]
        middle = self.mean[feature, step]
        columns = [middle, self.spread[feature, step]]
        for lag in _NEAR:
            at = feature, np.clip(step + lag, 0, n_steps - 1)
            columns += [self.mean[at] - middle, self.spread[at]]
        for end in self.nearest:
            nearest = end[feature, step]
            is_there = (nearest >= 0) & (nearest < n_steps)
            value = self.mean[feature, np.clip(nearest, 0, n_steps - 1)]
            columns.append(np.log1p(np.where(is_there, np.abs(nearest - step), n_steps)))
            columns.append(np.where(is_there, value - middle, 0.0))
        for other in self.others[feature].T:
            columns += [self.mean[other, step] - middle, self.spread[other, step]]
        for other in self.others[feature, :_NEAREST_OTHERS].T:
            columns += [self.mean[other, np.clip(step + lag, 0, n_steps - 1)] - middle for lag in _NEAR_OTHERS]
        columns += [self.level[np.clip(step + lag, 0, n_steps - 1)] - middle for lag in _AROUND]
        columns += [self.scatter[step], self.share_at_step[step]]
        columns += [self.of_feature[feature] - middle, self.share_of_feature[feature]]
        columns += [np.full(len(middle), number) for number in self.of_record]
        return Cells(np.stack(columns, 1).astype(np.float32), feature, self.spread[feature, step])


def others_of(covariance: np.ndarray) -> np.ndarray:
    """(K, M) of each feature the others with the largest covariances (K, K), which its networks see."""
    order = np.argsort(-np.abs(covariance), axis=1, kind="stable")
    others = [row[row != k][:_MOST_OTHERS] for k, row in enumerate(order)]
    return np.stack(others)


def _n_inputs(covariance: np.ndarray) -> int:
    """Of networks for features with covariances (K, K)."""
    empty = np.zeros((len(covariance), 1))
    return Posterior(empty, empty, empty > 0, others_of(covariance)).cells(empty == 0).inputs.shape[1]


class _Network(nn.Module):
    """From what it sees of cells to increasing functions of a normal score."""

    centre: Tensor
    scale: Tensor

    def __init__(self, n_inputs: int, n_features: int) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(n_inputs))
        self.register_buffer("scale", torch.ones(n_inputs))
        self.embedding = nn.Embedding(n_features, _EMBEDDING)
        nn.init.zeros_(self.embedding.weight)
        layers: list[nn.Module] = []
        for n_in in (n_inputs + _EMBEDDING, _WIDTH):
            layers += [nn.Linear(n_in, _WIDTH), nn.GELU(), nn.Dropout(_DROPOUT)]
        last = nn.Linear(_WIDTH, 2 + len(KNOTS))
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.layers = nn.Sequential(*layers, last)

    def forward(self, inputs: Tensor, feature: Tensor) -> Tensor:
        """(M, 2 + knots): the map's value at 0, and the logarithms of its slopes."""
        standardised = ((inputs - self.centre) / self.scale).clamp(-_FARTHEST, _FARTHEST)
        return self.layers(torch.cat([standardised, self.embedding(feature)], 1))


@dataclass(frozen=True, eq=False)
class Margins:
    """Several networks, whose maps are averaged.

    Attributes:
        networks: see ``_Network``.
    """

    networks: tuple[_Network, ...]

    @torch.no_grad()
    @one_thread()
    def maps(self, cells: Cells) -> np.ndarray:
        """(M, 2 + knots), see ``mapped``."""
        parts = []
        for first in range(0, len(cells.feature), _CELLS_AT_ONCE):
            part = slice(first, first + _CELLS_AT_ONCE)
            inputs, feature = torch.from_numpy(cells.inputs[part]), torch.from_numpy(cells.feature[part])
            parts.append(torch.stack([network(inputs, feature) for network in self.networks]).double().mean(0))
        return torch.cat(parts).numpy() if parts else np.zeros((0, 2 + len(KNOTS)))

    def draws(self, posterior: Posterior, piece: Piece) -> np.ndarray:
        """(2 H, K, steps) in scores, from the (H, K, steps) deviations of a piece of the record and their opposites."""
        wanted = np.zeros(posterior.mean.shape, bool)
        wanted[:, piece.steps] = posterior.spread[:, piece.steps] > 0
        inside, cells = wanted[:, piece.steps], posterior.cells(wanted)
        normal = piece.deviations[:, inside] / cells.spread
        either = torch.from_numpy(np.concatenate([normal, -normal]))
        out = np.repeat(piece.mean[None], len(either), 0)
        out[:, inside] += mapped(torch.from_numpy(self.maps(cells)), either).numpy() * cells.spread
        return out

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All of them, for any file."""
        return {
            f"margins.{n}.{name}": tensor.numpy().copy()
            for n, network in enumerate(self.networks)
            for name, tensor in network.state_dict().items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self | None:
        """What ``to_arrays`` gave, to the bit, beside the arrays of the process; None where there are no networks.

        Raises:
            ValueError: they see other inputs than networks do now.
        """
        states: dict[int, dict[str, Tensor]] = {}
        for key, array in arrays.items():
            part, number, name = [*key.split(".", 2), "", ""][:3]
            if part == "margins":
                states.setdefault(int(number), {})[name] = torch.from_numpy(np.array(array))
        networks: list[_Network] = []
        n_inputs = _n_inputs(arrays["covariance"][0]) if states else 0
        for _, state in sorted(states.items()):
            if len(state["centre"]) != n_inputs:
                raise ValueError(f"expected networks of {n_inputs} inputs, came {len(state['centre'])}")
            network = _Network(n_inputs, len(state["embedding.weight"]))
            network.load_state_dict(state)
            networks.append(network.eval())
        return cls(tuple(networks)) if networks else None


def mapped(maps: Tensor, scores: Tensor) -> Tensor:
    """(..., M) of normal scores (..., M) and maps (M, 2 + knots): posterior standard deviations from the mean."""
    ends = [-np.inf, *KNOTS, np.inf]
    out = maps[:, 0].expand(scores.shape)
    for n, (low, high) in enumerate(pairwise(ends)):
        out = out + maps[:, 1 + n].exp() * (scores.clamp(low, high) - float(np.clip(0.0, low, high)))
    return out


@one_thread()
def fit_margins(
    cells: Cells, errors: np.ndarray, weight: np.ndarray, group: np.ndarray, n_features: int, n_steps: int, seed: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Margins | None:  # fmt: skip
    """Networks that minimise pinball losses, which is near to CRPS; each leaves one group of cells out.

    Args:
        errors: (M,) truth less posterior mean, in posterior standard deviations.
        weight: (M,) that multiply the losses of cells, which are in posterior standard deviations.
        group: (M,) that of each cell, from 0 on.
        n_steps: of training of each network, on batches of a 64th of the cells, at most 2,048.

    Returns:
        None where the cells that were left out are not predicted better than by the process with normal tails.
    """
    networks, gain, n_groups = [], 0.0, int(group.max()) + 1
    for left_out in range(n_groups):
        tell = lambda done, total, n=left_out: progress(n * total + done, n_groups * total)
        mine = group == left_out
        network = _trained(
            cells[~mine], errors[~mine], weight[~mine], n_features, n_steps, derive_seed(seed, left_out), tell
        )
        maps = Margins((network,)).maps(cells[mine])
        for sign, of_cells in ((1, np.zeros_like(maps)), (-1, maps)):
            tensors = (torch.from_numpy(x) for x in (of_cells, errors[mine], weight[mine]))
            gain += sign * float(_losses(*tensors).sum())
        networks.append(network)
    return Margins(tuple(networks)) if gain > 0 else None


def _losses(maps: Tensor, errors: Tensor, weight: Tensor) -> Tensor:
    """(M,) weighted mean pinball losses."""
    share = torch.from_numpy(ndtr(_LEVELS)).to(maps.dtype)[:, None]
    levels = torch.from_numpy(_LEVELS).to(maps.dtype)[:, None].expand(-1, len(errors))
    above = errors - mapped(maps, levels)
    return torch.maximum(share * above, (share - 1) * above).mean(0) * weight


def _trained(
    cells: Cells, errors: np.ndarray, weight: np.ndarray, n_features: int, n_steps: int, seed: int,
    progress: Callable[[int, int], None],
) -> _Network:  # fmt: skip
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.default_generator.manual_seed(seed)
        network = _Network(cells.inputs.shape[1], n_features)
        network.centre.copy_(torch.from_numpy(cells.inputs.mean(0)))
        network.scale.copy_(torch.from_numpy(cells.inputs.std(0) + 1e-6))
        inputs, feature = torch.from_numpy(cells.inputs), torch.from_numpy(cells.feature)
        target, weights = (torch.from_numpy(x.astype(np.float32)) for x in (errors, weight / weight.mean()))
        optimiser = torch.optim.AdamW(network.parameters(), lr=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _LEARNING_RATE, total_steps=n_steps)
        batch = min(max(len(target) // _BATCHES, _SMALLEST), _LARGEST)
        for step in range(n_steps):
            some = torch.randint(len(target), (batch,))
            loss = _losses(network(inputs[some], feature[some]), target[some], weights[some]).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            progress(step + 1, n_steps)
    return network.eval()

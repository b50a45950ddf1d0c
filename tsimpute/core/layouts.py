"""Positions of the cells of masks as tokens, computed in the CPU's memory from the masks that a loader makes.

A layout goes with a ``Batch`` or ``Condition`` to any device, so that nothing below the loader reads a mask back.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch


@dataclass(frozen=True, eq=False)
class CellIndex:
    """The T cells of a mask (B, K, L), in the order of record, feature and step.

    Attributes:
        record, feature, step: (T,) int64.
        n_features, n_steps: K and L.
    """

    record: np.ndarray
    feature: np.ndarray
    step: np.ndarray
    n_features: int
    n_steps: int

    @classmethod
    def of(cls, mask: np.ndarray, n_features: int) -> CellIndex:
        """The cells of the first ``n_features`` features of a mask (B, K, L)."""
        record, feature, step = np.nonzero(mask[:, :n_features])
        return cls(record, feature, step, mask.shape[1], mask.shape[2])

    @property
    def by_feature(self) -> np.ndarray:
        """(T,) a number for each pair of record and feature; it rises."""
        return self.record * self.n_features + self.feature

    @property
    def by_time(self) -> np.ndarray:
        """(T,) a number for each pair of record and step."""
        return self.record * self.n_steps + self.step

    @property
    def cell(self) -> np.ndarray:
        """(T,) the cells among all B * K * L."""
        return self.by_feature * self.n_steps + self.step


@dataclass(frozen=True, eq=False)
class CellLayout:
    """The masks and times of B records in the CPU's memory, and the order of their cells.

    Attributes:
        visible, queried: (B, K, L) bool.
        times: (B, L) in the dtype of the records' values.
    """

    visible: np.ndarray
    queried: np.ndarray
    times: np.ndarray

    @classmethod
    def of(cls, visible: torch.Tensor, queried: torch.Tensor, times: torch.Tensor) -> CellLayout:
        """A layout of tensors on any device; of those on the CPU it shares the memory."""
        return cls(*(x.detach().cpu().numpy() for x in (visible, queried, times)))

    def select(self, index: slice | torch.Tensor) -> CellLayout:
        """The records at ``index``."""
        at = index if isinstance(index, slice) else index.cpu().numpy()
        return CellLayout(self.visible[at], self.queried[at], self.times[at])

    @cached_property
    def clock(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct times, rising, and (B, L) which of them each step has."""
        distinct, which = np.unique(self.times, return_inverse=True)
        return distinct, which.reshape(self.times.shape)

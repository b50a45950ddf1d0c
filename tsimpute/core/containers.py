"""What passes between the parts of the package: frozen dataclasses that check themselves.

Letters: B batch, K features, L time steps; tensors are (B, K, L). Records at rest are in ``windows``, and can be
imported from here, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from tsimpute.core.shapes import ShortRepr, check_shape
from tsimpute.errors import DataError


@dataclass(frozen=True, eq=False)
class CellLayout:
    """The masks and times of B records in the CPU's memory, computed from the masks that a loader makes.

    It goes with a ``Batch`` or ``Condition`` to any device, so that nothing below the loader reads a mask back.

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


@dataclass(frozen=True, eq=False, repr=False)
class Condition(ShortRepr):
    """All that a model may use of B records.

    Attributes:
        values: (B, K, L) standardised values of the shown cells, 0 elsewhere.
        cond_mask: (B, K, L) bool, the shown cells.
        query_mask: (B, K, L) bool, the cells to impute; disjoint from cond_mask.
        times: (B, L) the series' own clock, in the dtype of the values; or in float64 and on the CPU, where a record is
            long and only windows of it, see ``steps``, reach a network.
        usual_cells: the 99th percentile of visible cells per training record; 0 = not known.
        base: (B, K, L) a baseline at cells that are not shown, 0 elsewhere; the model learns and samples the
            difference to it. None = no baseline.
        spread: (B, K, L) the baseline's standard deviation, positive, 1 where there is no baseline; the difference is
            in its units. None = not known.
    """

    values: Tensor
    cond_mask: Tensor
    query_mask: Tensor
    times: Tensor
    usual_cells: float = 0.0
    base: Tensor | None = None
    spread: Tensor | None = None

    def __post_init__(self) -> None:
        for name in ("cond_mask", "query_mask", "base", "spread"):
            check_shape(name, getattr(self, name), tuple(self.values.shape))
        check_shape("times", self.times, (self.values.shape[0], self.values.shape[2]))
        if bool((self.cond_mask & self.query_mask).any()):
            raise DataError(
                "query_mask: expected cells that are not shown; some cells are both shown and to be filled."
            )
        if bool(((self.values != 0) & ~self.cond_mask).any()):
            raise DataError("values: expected 0 at every cell that is not shown; hidden values must not reach a model.")
        if self.base is not None and bool(((self.base != 0) & self.cond_mask).any()):
            raise DataError("base: expected 0 at shown cells; some have a base estimate beside their value.")
        if self.spread is not None and (self.base is None or not bool((self.spread > 0).all())):
            raise DataError(
                "spread: expected positive numbers beside a base estimate; some are not, or there is no base estimate."
            )

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def layout(self) -> CellLayout:
        """Masks and times in the CPU's memory; it goes along with ``select``, ``steps`` and ``to``."""
        return CellLayout.of(self.cond_mask, self.query_mask, self.times)

    def with_layout(self, layout: CellLayout) -> Condition:
        """The same records with the layout of their masks and times, which the caller has."""
        vars(self)["layout"] = layout
        return self

    @property
    def known(self) -> Tensor:
        """(B, K, L) shown values, and the base estimate at other cells where there is one."""
        return self.values if self.base is None else self.values + self.base

    def restored(self, residuals: Tensor) -> Tensor:
        """(..., K, L) standardised values at the queried cells, from samples of the difference to the baseline."""
        if self.spread is not None:
            residuals = residuals * self.spread
        return residuals if self.base is None else residuals + self.base * self.query_mask

    def residuals(self, values: Tensor) -> Tensor:
        """The inverse of ``restored``."""
        if self.base is not None:
            values = values - self.base * self.query_mask
        return values if self.spread is None else values / self.spread

    def select(self, index: slice | Tensor) -> Condition:
        part = replace(self, **{n: x[index] for n, x in vars(self).items() if isinstance(x, Tensor)})
        return part.with_layout(self.layout.select(index))

    def steps(self, index: slice) -> Condition:
        """The same records at those steps only; times count from the first of them, in the values' dtype."""
        values, visible, queried = (x[..., index] for x in (self.values, self.cond_mask, self.query_mask))
        base, spread = (None if x is None else x[..., index] for x in (self.base, self.spread))
        times = torch.from_numpy(self.layout.times[:, index])
        times = (times - times[:, :1]).to(values.dtype)
        part = Condition(values, visible, queried, times.to(values.device), self.usual_cells, base, spread)
        masks = self.layout.visible[..., index], self.layout.queried[..., index]
        return part.with_layout(CellLayout(*masks, times.numpy()))

    def to(self, device: torch.device | str) -> Condition:
        """On another device; times in float64 stay on the CPU, as not every device has float64."""
        stay = () if self.times.dtype == self.values.dtype else ("times",)
        moving = {n: x for n, x in vars(self).items() if isinstance(x, Tensor) and n not in stay}
        return replace(self, **{n: x.to(device) for n, x in moving.items()}).with_layout(self.layout)


@dataclass(frozen=True, eq=False, repr=False)
class Batch(ShortRepr):
    """Data in motion: B training records, some of whose observed cells are visible and the others targets.

    Attributes:
        values: (B, K, L) standardised, 0 where unobserved, never NaN; at targets the residual of the base estimate,
            if there is one, in units of its spread.
        observed: (B, K, L) bool.
        cond_mask: (B, K, L) bool, shown cells; within observed.
        times: (B, L).
        record_ids: B names, for messages.
        seeds: B integers; process time and noise of a record in this pass come from its seed.
        unobserved_query: (B, K, L) bool, unobserved cells that are queried with the targets, as in use, or None; they
            have no truth and no loss.
        base, spread: as in ``Condition``, made of the shown cells.
        base_given_all, spread_given_all: the same, made of all observed cells; where unobserved cells are queried.
        usual_cells: as in ``Condition``; without bound where no record is to be taken for one of more.
    """

    values: Tensor
    observed: Tensor
    cond_mask: Tensor
    times: Tensor
    record_ids: tuple[str, ...]
    seeds: tuple[int, ...]
    unobserved_query: Tensor | None = None
    base: Tensor | None = None
    base_given_all: Tensor | None = None
    usual_cells: float = math.inf
    spread: Tensor | None = None
    spread_given_all: Tensor | None = None

    def __post_init__(self) -> None:
        shape = tuple(self.values.shape)
        masks = ("observed", "cond_mask", "unobserved_query")
        for name in (*masks, "base", "base_given_all", "spread", "spread_given_all"):
            check_shape(name, getattr(self, name), shape)
        check_shape("times", self.times, (shape[0], shape[2]))
        check_shape("record_ids", self.record_ids, (shape[0],))
        check_shape("seeds", self.seeds, (shape[0],))
        if bool((self.cond_mask & ~self.observed).any()):
            raise DataError("cond_mask: expected a subset of observed; it shows cells that hold no value.")
        if bool(((self.values != 0) & ~self.observed).any()):
            raise DataError("values: expected 0 at every cell that is not observed; some hold NaN or a number.")
        if self.unobserved_query is not None and bool((self.unobserved_query & self.observed).any()):
            raise DataError("unobserved_query: expected unobserved cells; some hold a value.")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def target_mask(self) -> Tensor:
        """(B, K, L) bool: observed and not shown."""
        return self.observed & ~self.cond_mask

    @property
    def query_mask(self) -> Tensor:
        """(B, K, L) bool: the targets, and the unobserved cells that are queried with them."""
        return self.target_mask if self.unobserved_query is None else self.target_mask | self.unobserved_query

    @cached_property
    def condition(self) -> Condition:
        """What the model uses: the visible cells, and where it is queried."""
        shown, spread = self.values * self.cond_mask, self.spread
        condition = Condition(shown, self.cond_mask, self.query_mask, self.times, self.usual_cells, self.base, spread)
        return condition.with_layout(self.layout)

    @cached_property
    def layout(self) -> CellLayout:
        """Masks and times of ``condition`` in the CPU's memory; it goes along with ``select`` and ``to``."""
        return CellLayout.of(self.cond_mask, self.query_mask, self.times)

    @cached_property
    def unobserved_layout(self) -> CellLayout | None:
        """The same with all observed cells visible and only unobserved ones queried; None where none is."""
        if self.unobserved_query is None:
            return None
        layout = CellLayout.of(self.observed, self.unobserved_query, self.times)
        return layout if layout.queried.any() else None

    def select(self, index: slice) -> Batch:
        by_record = {n: x[index] for n, x in vars(self).items() if isinstance(x, Tensor | tuple)}
        part, unobserved = replace(self, **by_record), self.unobserved_layout
        if unobserved is not None:
            unobserved = unobserved.select(index)
            unobserved = unobserved if unobserved.queried.any() else None
        vars(part).update(layout=self.layout.select(index), unobserved_layout=unobserved)
        return part

    def to(self, device: torch.device | str) -> Batch:
        moved = replace(self, **{n: x.to(device) for n, x in vars(self).items() if isinstance(x, Tensor)})
        vars(moved).update(layout=self.layout, unobserved_layout=self.unobserved_layout)
        return moved


@dataclass(frozen=True, eq=False)
class PathCoefficients:
    """Coefficients of ``state = alpha * clean + sigma * noise``, each (B,) float64."""

    alpha: Tensor
    sigma: Tensor

    def mix(self, clean: Tensor, noise: Tensor) -> Tensor:
        """(B, K, L) ``alpha * clean + sigma * noise``."""
        return expand_like(self.alpha, clean) * clean + expand_like(self.sigma, clean) * noise


@dataclass(frozen=True, eq=False)
class Prediction:
    """A network's output put into the one language of losses and solvers: clean data and noise, each (B, K, L)."""

    clean: Tensor
    noise: Tensor


def expand_like(per_record: Tensor, like: Tensor) -> Tensor:
    """(B,) numbers as (B, 1, 1) on the device and in the dtype of ``like``."""
    return per_record.to(like.device, like.dtype)[:, None, None]

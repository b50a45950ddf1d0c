"""The parts of a dual temporal/feature transformer, for any set of cells and any layout of them.

Residual blocks after DiffWave (Kong et al. 2021), attention along time, then along features, as in Section 5 and
Appendix E.1 of Tashiro et al. 2021. The parts see tensors (..., D); a ``Grid`` says which cells share a row.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional as F

from tsimpute.backbones.base import VectorField
from tsimpute.backbones.dropout import Dropout
from tsimpute.backbones.embeddings import ProcessTimeEmbedding, clock_embedding
from tsimpute.backbones.row_attention import Rows, is_compiled, row_attention
from tsimpute.core.containers import Condition
from tsimpute.errors import ConfigError
from tsimpute.system.threads import in_threads

_WIDTH_FEEDFORWARD = 64

Attend = Callable[[Tensor, int], Tensor]
"""(queries, keys and values (..., T, 3 D), number of heads) -> (..., T, D)."""

Axis = Callable[[Tensor, Attend], Tensor]
"""(cells in their rows (..., T, D), how they attend) -> (..., T, D)."""


def attention(qkv: Tensor, n_heads: int, mask: Tensor | None = None) -> Tensor:
    """Self-attention within each row, (N, T, 3 D) -> (N, T, D).

    Args:
        mask: (N, 1, T or 1, T), added to the scores: 0 where a cell may look, -inf where not.
    """
    if mask is None and is_compiled(qkv, n_heads):
        return row_attention(qkv, Rows.equal(1, qkv.shape[1]), n_heads)
    q, k, v = rearrange(qkv, "n t (three h d) -> three n h t d", three=3, h=n_heads)
    # Not left to the kernel: with a mask of another dtype it computes something else, silently (torch 2.13).
    mask = None if mask is None else mask.to(qkv.dtype)
    return rearrange(F.scaled_dot_product_attention(q, k, v, mask), "n h t d -> n t (h d)")


class AxisTransformer(nn.Module):
    """One post-norm transformer layer along one axis, (..., D) -> (..., D)."""

    def __init__(self, width: int, n_heads: int, width_feedforward: int, dropout: float) -> None:
        super().__init__()
        self.n_heads, self.dropout = n_heads, Dropout(dropout)
        self.qkv = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.norm_attention = nn.LayerNorm(width)
        self.expand = nn.Linear(width, width_feedforward)
        self.contract = nn.Linear(width_feedforward, width)
        self.norm_feedforward = nn.LayerNorm(width)

    def forward(self, cells: Tensor, attend: Attend) -> Tensor:
        """``attend`` maps queries, keys and values (..., 3 D) and the number of heads to (..., D)."""
        drop = self.dropout
        cells = self.norm_attention(cells + drop(self.merge(attend(self.qkv(cells), self.n_heads))))
        return self.norm_feedforward(cells + drop(self.contract(drop(F.gelu(self.expand(cells))))))


class Grid:
    """Every cell of (R, K, L, D): groups cells along time and along features, and adds side information to each.

    ``Tokens`` are some of the cells. Attention gets rows along time, (R K, L, 3 D), and along features, (R L, K, 3 D).

    Args:
        network: whose embeddings are used.
        condition: B records.
        marked: (B, K, L) bool, the cells that side information marks.

    Attributes:
        attend: the attention along time and along features.
    """

    attend: Sequence[Callable[..., Tensor]]

    def __init__(self, network: Trunk, condition: Condition, marked: Tensor) -> None:
        dtype, given = condition.values.dtype, slice(network.n_features - network.n_given, None)
        clock = clock_embedding(condition.times, network.width_time).to(dtype)
        self.clock = torch.cat([clock, condition.values[:, given].mT], -1)  # (B, L, T)
        self.feature, self.marked = network.feature.weight, marked[..., None].to(dtype)
        self.attend = (attention, attention)

    def attending(self, attend: Sequence[Attend]) -> Self:
        """The same cells with another attention along time and along features."""
        view = copy.copy(self)
        view.attend = attend
        return view

    def take(self, grid: Tensor) -> Tensor:
        """Numbers of all cells, (R, K, L) -> those of these cells."""
        return grid

    def put(self, of_cells: Tensor, like: Tensor) -> Tensor:
        """The inverse of ``take``, in the shape of ``like``; 0 at cells that are not among these."""
        return of_cells

    def along_time(self, axis: Axis, cells: Tensor) -> Tensor:
        """Applies ``axis`` to the cells of each feature."""
        if cells.shape[2] == 1:
            return cells
        rows = axis(rearrange(cells, "r k l d -> (r k) l d"), self.attend[0])
        return rearrange(rows, "(r k) l d -> r k l d", r=len(cells))

    def along_features(self, axis: Axis, cells: Tensor) -> Tensor:
        """Applies ``axis`` to the cells of each time."""
        if cells.shape[1] == 1:
            return cells
        rows = axis(rearrange(cells, "r k l d -> (r l) k d"), self.attend[1])
        return rearrange(rows, "(r l) k d -> r k l d", r=len(cells))

    def to_cells(self, of_record: Tensor) -> Tensor:
        """(R, D) of each row of states -> what can be added to cells."""
        return of_record[:, None, None]

    def side(
        self, of_time: Callable[[Tensor], Tensor], of_feature: Callable[[Tensor], Tensor], of_mask: Tensor
    ) -> Tensor:
        """The sum of projections of each cell's time, feature and mask, (..., E)."""
        known = of_time(self.clock)[:, None] + of_feature(self.feature)[:, None]
        return torch.addcmul(known, self.marked, of_mask)


class SideProjection(nn.Module):
    """A linear map of each cell's side information (time, feature, mask) to ``width_out``.

    The map of the concatenated time + feature + 1 channels is a sum of three small maps, so the concatenation is never
    formed, and a time or a feature is mapped once for all its cells.
    """

    def __init__(self, width_time: int, width_feature: int, width_out: int) -> None:
        super().__init__()
        self.of_time = nn.Linear(width_time, width_out)
        self.of_feature = nn.Linear(width_feature, width_out, bias=False)
        self.of_mask = nn.Parameter(torch.empty(width_out))
        bound = 1 / math.sqrt(width_time + width_feature + 1)
        for weight in self.parameters():
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, layout: Grid) -> Tensor:
        return layout.side(self.of_time, self.of_feature, self.of_mask)


class ResidualBlock(nn.Module):
    """Process time in, attention along time then features, a gate steered by the side information."""

    def __init__(self, width: int, n_heads: int, width_tau: int, side: SideProjection, dropout: float) -> None:
        super().__init__()
        self.of_tau = nn.Linear(width_tau, width)
        self.time_axis = AxisTransformer(width, n_heads, _WIDTH_FEEDFORWARD, dropout)
        self.feature_axis = AxisTransformer(width, n_heads, _WIDTH_FEEDFORWARD, dropout)
        self.side = side
        self.mid = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, 2 * width)

    def forward(self, cells: Tensor, tau: Tensor, side: Tensor, layout: Grid) -> tuple[Tensor, Tensor]:
        """(..., D), (R, T), (..., 2 D) -> the next block's cells and this block's share of the output."""
        return self.gated(cells, self.along_axes(cells, tau, layout), side)

    def along_axes(self, cells: Tensor, tau: Tensor, layout: Grid) -> Tensor:
        """The first half: attention along time, then along features, (..., D)."""
        return layout.along_features(self.feature_axis, self.along_time(cells, tau, layout))

    def along_time(self, cells: Tensor, tau: Tensor, layout: Grid) -> Tensor:
        """Attention along time."""
        return layout.along_time(self.time_axis, cells + layout.to_cells(self.of_tau(tau)))

    def gated(self, cells: Tensor, hidden: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
        """The second half: the gated unit of each cell."""
        gate, signal = (self.mid(hidden) + side).chunk(2, -1)
        residual, skip = self.out(gate.sigmoid() * signal.tanh()).chunk(2, -1)
        return (cells + residual) * math.sqrt(0.5), skip


class Trunk(nn.Module):
    """All weights of the network and its forward pass; a subclass decides which cells are computed.

    Args:
        n_features: K; the order of features is part of the model.
        width: channels of a cell.
        n_heads: attention heads; must divide ``width``.
        n_blocks: residual blocks.
        width_time, width_feature, width_tau: channels of the embeddings.
        max_frequency: see ``ProcessTimeEmbedding``; 1e4 for diffusion as CSDI, small for continuous tau.
        n_given: how many of the features, the last ones, are known covariates: their values are part of the side
            information of all cells of a step, with the clock. So they have no tokens.
        with_spread: conditions hold a spread; its logarithm is an input next to the base estimate.
        dropout: share of the outputs of attention and of both feedforward layers that is zeroed in training. CSDI has
            0.1, and drops weights of attention as well.

    Raises:
        ConfigError: sizes that do not fit each other.
    """

    def __init__(
        self,
        n_features: int,
        width: int = 64,
        n_heads: int = 8,
        n_blocks: int = 4,
        width_time: int = 128,
        width_feature: int = 16,
        width_tau: int = 128,
        max_frequency: float = 1e4,
        n_given: int = 0,
        with_spread: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0 <= n_given < n_features:
            raise ConfigError(f"network: expected 0 to {n_features - 1} of the features as given, came {n_given}.")
        if min(n_features, width, n_heads, n_blocks, width_feature) < 1:
            raise ConfigError(
                "network: expected n_features, width, n_heads, n_blocks and width_feature of at least 1; "
                f"came {n_features}, {width}, {n_heads}, {n_blocks}, {width_feature}."
            )
        if width % n_heads:
            raise ConfigError(f"n_heads: expected a divisor of width {width}, came {n_heads}.")
        if width_time % 2 or width_time < 2 or width_tau % 2 or width_tau < 4:
            raise ConfigError(
                "network: expected an even width_time of at least 2 and an even width_tau of at least 4; "
                f"came {width_time} and {width_tau}."
            )
        self.n_features, self.n_given = n_features, n_given
        self.width_time = width_time
        self.of_tau = ProcessTimeEmbedding(width_tau, max_frequency=max_frequency)
        self.feature = nn.Embedding(n_features, width_feature)
        self.with_spread = with_spread
        self.enter = nn.Linear(2 + with_spread, width)
        self.blocks = nn.ModuleList(
            ResidualBlock(
                width, n_heads, width_tau, SideProjection(width_time + n_given, width_feature, 2 * width), dropout
            )
            for _ in range(n_blocks)
        )
        self.gather = nn.Linear(width, width)
        self.leave = nn.Linear(width, 1)
        nn.init.zeros_(self.leave.weight)

    def forward(self, state: Tensor, tau: Tensor, condition: Condition) -> Tensor:
        """One state of each record; without gradients, on a CPU, parts of the records in parallel threads."""
        plain = state.device.type == "cpu" and not torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
        if not plain or not len(state) == len(condition) > 1:
            return self.condition_on(condition)(state, tau)
        inference = torch.is_inference_mode_enabled()

        def work(records: slice) -> Tensor:
            with torch.inference_mode() if inference else torch.no_grad():
                return self.condition_on(condition.select(records))(state[records], tau[records])

        size = -(-len(state) // torch.get_num_threads())
        return torch.cat(list(in_threads(work, [slice(n, n + size) for n in range(0, len(state), size)])))

    def condition_on(self, condition: Condition) -> VectorField:
        raise NotImplementedError

    @property
    def bytes_per_cell(self) -> int:
        """Peak memory of a cell in an evaluation without gradients: side information and outputs of all blocks, and the
        activations of one. Measured on a CPU, whole grids need 0.8 to 1.3 times that."""
        width, n_blocks = self.leave.in_features, len(self.blocks)
        return 4 * (width * (4 * n_blocks + 14) + 3 * _WIDTH_FEEDFORWARD)

    def bytes_once(self, condition: Condition) -> int:
        return 0

    def field_on(
        self, layout: Grid, condition: Condition, is_noisy: Tensor | None = None, context: Sequence[Tensor] = ()
    ) -> VectorField:
        """The vector field computed on the cells of ``layout``; what depends on the condition only is computed here.

        Args:
            is_noisy: 1 at cells whose state is an input, 0 at others; None = it is one at all cells of the layout.
            context: where given, what the layout's attention sees beside its own cells; see ``context_of``.
        """
        side_information = [block.side(layout) for block in self.blocks]  # type: ignore[operator]
        known = [condition.known]
        if self.with_spread:
            if condition.spread is None:
                raise ConfigError(
                    "network: expected a condition with a spread, as the network was made for; came none."
                )
            known.append(condition.spread.log())
        known_inputs = [layout.take(grid) for grid in known]

        def field(state: Tensor, tau: Tensor) -> Tensor:
            cells, noisy = layout, layout.take(state)
            if context:
                kv_cache = iter(context)
                cells = layout.attending(
                    [lambda qkv, n_heads, meet=meet: meet(qkv, n_heads, next(kv_cache)) for meet in layout.attend]
                )
            if is_noisy is not None:
                noisy = noisy * is_noisy
            inputs = torch.stack([*(of_cells.expand_as(noisy) for of_cells in known_inputs), noisy], -1)
            hidden, of_tau, skips = F.relu(self.enter(inputs)), self.of_tau(tau), []
            for block, side in zip(self.blocks, side_information, strict=True):
                hidden, skip = block(hidden, of_tau, side, cells)
                skips.append(skip)
            total = sum(skips[1:], skips[0]) / math.sqrt(len(skips))
            return layout.put(self.leave(F.relu(self.gather(total)))[..., 0], state)

        return field

    def context_of(self, layout: Grid, condition: Condition) -> list[Tensor]:
        """Queries, keys and values (..., 3 D) of the visible cells, in the order in which the blocks' axes use them.

        Visible cells stand at the time of data. The output of the last block is not used.
        """
        kv_cache: list[Tensor] = []

        def keeping(attend: Attend) -> Attend:
            def keep_and_attend(qkv: Tensor, n_heads: int) -> Tensor:
                kv_cache.append(qkv)
                return attend(qkv, n_heads)

            return keep_and_attend

        def append_kv(turned: Tensor, _: Attend) -> Tensor:
            kv_cache.append(last.feature_axis.qkv(turned))
            return turned

        layout = layout.attending([keeping(attend) for attend in layout.attend])
        values = layout.take(condition.values)
        blank = [torch.zeros_like(values)] * (self.enter.in_features - 1)
        cells = F.relu(self.enter(torch.stack([values, *blank], -1)))
        tau = self.of_tau(torch.ones(len(condition.values), dtype=torch.float64, device=values.device))
        *blocks, last = list[Any](self.blocks)
        for block in blocks:
            cells, _ = block.gated(cells, block.along_axes(cells, tau, layout), block.side(layout))
        layout.along_features(append_kv, last.along_time(cells, tau, layout))
        return kv_cache

"""A network of short records used on long ones: averaging over overlapping windows that share one state.

At every evaluation each window is computed separately, and the outputs at a cell are averaged, with weights that fall
towards a window's ends. The state is that of the whole record: a sample is one path from one noise, so it has no
discontinuity at window borders. This is MultiDiffusion (Bar-Tal et al. 2023, ICML) along time, with weights instead of
a plain mean.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tsimpute.backbones.base import Backbone, VectorField
from tsimpute.core.containers import Condition
from tsimpute.errors import ConfigError
from tsimpute.generative.sampling import rows_within
from tsimpute.system.threads import in_threads

_STATES = 6
"""States of a record that a solver and the averaging hold at once, at most."""


class WindowAveraging:
    """A backbone for records of any length, made of one for records of ``length`` steps.

    The averaging of MultiDiffusion (Bar-Tal et al. 2023), see above.

    Args:
        backbone: trained on records of about ``length`` steps whose times begin at 0.
        length: steps of a window.
        stride: steps from one window to the next, at most ``length``; the last window ends with the record.
        memory_mib: what one window's evaluation may need; more draws than that allows come one after the other.
        computed: called after each evaluation of a window, with the share of all windows of the record that it is.
    """

    def __init__(
        self,
        backbone: Backbone,
        length: int,
        stride: int,
        memory_mib: int = 1024,
        computed: Callable[[float], None] = lambda share: None,
    ) -> None:
        if not 1 <= stride <= length:
            raise ConfigError(f"stride: expected 1 to {length}, the steps of a window; came {stride}.")
        self.backbone, self.length, self.stride, self.memory_mib = backbone, length, stride, memory_mib
        self.computed = computed

    def __call__(self, state: Tensor, tau: Tensor, condition: Condition) -> Tensor:
        return self.condition_on(condition)(state, tau)

    def condition_on(self, condition: Condition) -> VectorField:
        """See ``Backbone``; windows beyond those that fit in half the budget are bound anew in every evaluation."""
        parts = self._parts(condition)
        n_steps, like = condition.values.shape[2], condition.values
        position = torch.arange(min(self.length, n_steps), dtype=torch.float64)
        taper = torch.minimum(
            position + 1, len(position) - position
        )  # rises from each end to the middle, and is never 0
        total = torch.zeros(n_steps, dtype=torch.float64)
        for a in window_starts(n_steps, self.length, self.stride):
            total[a : a + len(taper)] += taper
        weights = {at.start: (taper / total[at]).to(like) for at, _ in parts}  # over all windows they add up to 1
        stay_bound = self._kept(parts)
        bound: dict[int, VectorField] = {}

        def field(state: Tensor, tau: Tensor) -> Tensor:
            grads, inferring = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

            def work(place: tuple[slice, Condition]) -> tuple[slice, Tensor]:
                steps, part = place
                with torch.inference_mode(inferring), torch.set_grad_enabled(grads):
                    of_window = bound.get(steps.start) or self.backbone.condition_on(part)
                    if steps.start in stay_bound:
                        bound[steps.start] = of_window
                    rows = rows_within(self.memory_mib, self.backbone, part)
                    pieces = zip(state[..., steps].split(rows), tau.split(rows), strict=True)
                    return steps, torch.cat([of_window(*piece) for piece in pieces])

            out = torch.zeros_like(state)
            for steps, output in in_threads(work, parts):
                out[..., steps] += output * weights[steps.start]
                self.computed(len(state) / len(parts))
            return out

        return field

    def bytes_per_row(self, condition: Condition) -> int:
        return _STATES * condition.values[0].numel() * condition.values.element_size()

    def bytes_once(self, condition: Condition) -> int:
        parts = self._parts(condition)
        once = {at.start: self.backbone.bytes_once(part) for at, part in parts}
        one = max((once[at.start] + self.backbone.bytes_per_row(part) for at, part in parts), default=0)
        return one + sum(once[start] for start in self._kept(parts))

    def _kept(self, parts: list[tuple[slice, Condition]]) -> set[int]:
        """The windows, by their start, that stay conditioned from one evaluation to the next."""
        needed = np.cumsum([self.backbone.bytes_once(part) for _, part in parts])
        return {at.start for (at, _), so_far in zip(parts, needed, strict=True) if so_far <= self.memory_mib * 2**19}

    def _parts(self, condition: Condition) -> list[tuple[slice, Condition]]:
        """The windows with a queried cell; their times begin at 0."""
        places = [slice(a, a + self.length) for a in window_starts(condition.values.shape[2], self.length, self.stride)]
        return [(at, condition.steps(at)) for at in places if condition.layout.queried[..., at].any()]


def usual_stride(length: int) -> int:
    """Steps from one window to the next where each has a third of its steps in common with the next one."""
    return max(1, round(length * (1 - 1 / 3)))


def window_starts(n_steps: int, length: int, stride: int) -> list[int]:
    """Where windows of a record begin: every ``stride`` steps, and one that ends with the record."""
    if n_steps <= length:
        return [0]
    starts = list(range(0, n_steps - length, stride))
    return [*starts, n_steps - length]

"""How samples are made: the process, its solver and steps; and one long record in pieces that fit into memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view

from tsimpute.batches.loading import single_precision
from tsimpute.config.registry import make, options_of
from tsimpute.config.settings import ProcessConfig, SamplingConfig
from tsimpute.core.containers import Condition
from tsimpute.errors import ConfigError
from tsimpute.generative.sampling import SamplingPath, sample
from tsimpute.generative.window_averaging import window_starts
from tsimpute.processes.base import Process
from tsimpute.solvers.base import Solver

_AT_ONCE = 1024
"""Windows whose times are looked at together."""


class Sampler:
    """Samples from a network with the process that it was trained for, as set or by the process's own defaults.

    Attributes:
        process: that it was trained for.
        settings: as set; None in them = the process's own default.
        solver_name, n_steps, grid_power, eta: see ``SamplingConfig``. Another solver than the process's own has evenly
            spaced steps by default.
    """

    def __init__(self, config: ProcessConfig, settings: SamplingConfig) -> None:
        process: Process = make("processes", config.name, **config.options)
        self.process, self.settings = process, settings
        self.solver_name = settings.solver or process.default_solver
        self.n_steps = settings.n_steps or process.default_steps
        self.grid_power = settings.grid_power or (1.0 if settings.solver else process.default_power)
        self.eta = process.default_eta if settings.eta is None else settings.eta

    @property
    def solver(self) -> Solver:
        """The solver of that name; an ``eta`` that it does not take is a ConfigError."""
        if "eta" in options_of("solvers", self.solver_name):
            return make("solvers", self.solver_name, eta=self.eta)
        if self.settings.eta:
            raise ConfigError(
                f"sampling.eta: solver {self.solver_name} is deterministic, expected 0 or none, came {self.eta}."
            )
        return make("solvers", self.solver_name)

    def check(self) -> None:
        """Refuses what can be seen before any work.

        Raises:
            ConfigError: no such solver, an ``eta`` that it does not take, or torch does not have the device here.
        """
        _ = self.solver  # refuses an unknown one, and an eta
        device = self.settings.device
        try:
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            raise ConfigError(
                f"sampling.device: expected cpu, or cuda or mps where torch has it; came {device!r} ({reason})."
            ) from error

    @property
    def path(self) -> SamplingPath:
        """The way from noise to a sample, where noise alone decides where it ends.

        Raises:
            ConfigError: the sampler draws noise on the way.
        """
        if "eta" in options_of("solvers", self.solver_name) and self.eta:
            raise ConfigError(
                f"training.objective: expected deterministic samplers, came {self.solver_name} with eta {self.eta:g}. "
                "Set sampling.eta to 0."
            )
        return SamplingPath(self.process, self.solver, self.process.grid(self.n_steps, self.grid_power))

    def draw(
        self,
        network: Any,
        condition: Condition,
        n_samples: int,
        seeds: Sequence[int],
        part_of: tuple[int, int] | None = None,
    ) -> np.ndarray:
        """(S, B, K, L) float32; see ``tsimpute.generative.sampling.sample``."""
        draws = sample(
            network,
            self.process,
            self.solver,
            condition.to(self.settings.device),
            n_samples=n_samples,
            n_steps=self.n_steps,
            grid_power=self.grid_power,
            seeds=seeds,
            antithetic=self.settings.antithetic,
            rows_at_once=self.settings.rows_at_once,
            memory_mib=self.settings.memory_mib,
            part_of=part_of,
        )
        return draws.cpu().numpy()


@dataclass(frozen=True)
class Piece:
    """Steps of a record that are computed together.

    Attributes:
        computed: the steps that take part.
        delivered: those of them whose draws are as in the whole record; those of the pieces follow each other.
    """

    computed: slice
    delivered: slice

    @property
    def delivered_within(self) -> slice:
        """``delivered``, counted from the first computed step."""
        return slice(self.delivered.start - self.computed.start, self.delivered.stop - self.computed.start)


def pieces(n_steps: int, length: int, stride: int, n_evaluations: int, steps_per_piece: int) -> list[Piece]:
    """A record of ``n_steps`` cut into pieces of about ``steps_per_piece``.

    In one evaluation a window of ``length`` steps carries what is known by its length, so beyond ``n_evaluations``
    windows on either side nothing reaches a step; so far a piece is computed and thrown away.
    """
    margin = n_evaluations * length
    starts = window_starts(n_steps, length, stride)
    if n_steps <= steps_per_piece + margin:
        return [Piece(slice(0, n_steps), slice(0, n_steps))]
    n_pieces = -(-n_steps // steps_per_piece)
    bounds = [n_steps * i // n_pieces for i in range(n_pieces + 1)]
    pieces = []
    for first, last in pairwise(bounds):
        i, j = bisect_right(starts, first - margin - length), bisect_left(starts, last + margin)
        pieces.append(Piece(slice(starts[i], starts[j - 1] + length), slice(first, last)))
    return pieces


def check_times(times: np.ndarray, length: int, stride: int) -> None:
    """Refuses times (T,) of which those of a window, counted from its first, are not all different as float32."""
    windows = sliding_window_view(times, length)
    starts = np.array(window_starts(len(times), length, stride))
    for first in range(0, len(starts), _AT_ONCE):
        of_windows = windows[starts[first : first + _AT_ONCE]]
        single_precision(of_windows - of_windows[:, :1])


def steps_within(memory_mib: int, n_samples: int, n_features: int, least: int) -> int:
    """How many steps of all draws may be in memory at once: a quarter of the budget for each of a few copies."""
    return max(least, memory_mib * 2**20 // (32 * n_samples * n_features))


class WindowProgress:
    """Progress through a record, reported as its windows are computed.

    Args:
        per_piece: the sum of the shares of a piece's windows.
        report: called with the share of the whole record.
    """

    def __init__(self, per_piece: int, report: Callable[[float], None]) -> None:
        self._per_piece, self._report = per_piece, report
        self._from, self._to, self._sum = 0.0, 0.0, 0.0

    def begin(self, start: float, end: float) -> None:
        """A piece begins, from ``start`` to ``end`` as shares of the record."""
        self._from, self._to, self._sum = start, end, 0.0

    def add(self, share: float) -> None:
        """A share of the piece's windows is computed."""
        self._sum += share
        self._report(self._from + (self._to - self._from) * min(1.0, self._sum / self._per_piece))

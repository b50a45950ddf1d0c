"""How samples are made: the process, its solver and steps, as set or by the process's own defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tsimpute.backbones.base import Backbone
from tsimpute.config.registry import make, options_of
from tsimpute.config.settings import ProcessConfig, SamplingConfig
from tsimpute.core.containers import Condition
from tsimpute.errors import ConfigError
from tsimpute.generative.sampling import sample
from tsimpute.processes.base import Process
from tsimpute.solvers.base import Solver


@dataclass(frozen=True)
class Sampler:
    """Samples from a network with the process that it was trained for.

    Attributes:
        process_config, settings: as of a generative imputer.
    """

    process_config: ProcessConfig
    settings: SamplingConfig

    @cached_property
    def process(self) -> Process:
        return make("processes", self.process_config.name, **self.process_config.options)

    @property
    def solver_name(self) -> str:
        """As set, or the process's own default."""
        return self.settings.solver or self.process.default_solver

    @property
    def grid_power(self) -> float:
        """How the steps are spaced: as set, or the process's own default with its own solver, else evenly."""
        return self.settings.grid_power or (1.0 if self.settings.solver else self.process.default_power)

    @property
    def n_steps(self) -> int:
        """Solver steps: as set, or the process's own default."""
        return self.settings.n_steps or self.process.default_steps

    @property
    def eta(self) -> float:
        """Share of fresh noise in the first-order solver: as set, or the process's own default."""
        return self.process.default_eta if self.settings.eta is None else self.settings.eta

    @cached_property
    def solver(self) -> Solver:
        """See ``solver_name``.

        Raises:
            ConfigError: an ``eta`` is set for a solver that has none.
        """
        if "eta" in options_of("solvers", self.solver_name):
            return make("solvers", self.solver_name, eta=self.eta)
        if self.settings.eta:
            raise ConfigError(
                f"sampling.eta: solver {self.solver_name} is deterministic, expected 0 or none, came {self.eta}."
            )
        return make("solvers", self.solver_name)

    @property
    def n_evaluations(self) -> int:
        """Network evaluations (NFE) per sample."""
        return self.solver.n_evaluations(self.n_steps)

    def draw(
        self,
        network: Backbone | Any,
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

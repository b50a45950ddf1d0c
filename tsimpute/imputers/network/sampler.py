"""How samples are made: the process, its solver and steps, as set or by the process's own defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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
        process: that it was trained for.
        settings: as set; None in them = the process's own default.
        solver_name, n_steps, grid_power, eta: see ``SamplingConfig``. Another solver than the process's own has evenly
            spaced steps by default.
    """

    process: Process
    settings: SamplingConfig
    solver_name: str
    n_steps: int
    grid_power: float
    eta: float

    @classmethod
    def of(cls, config: ProcessConfig, settings: SamplingConfig) -> Sampler:
        process = make("processes", config.name, **config.options)
        return cls(
            process,
            settings,
            solver_name=settings.solver or process.default_solver,
            n_steps=settings.n_steps or process.default_steps,
            grid_power=settings.grid_power or (1.0 if settings.solver else process.default_power),
            eta=process.default_eta if settings.eta is None else settings.eta,
        )

    @property
    def solver(self) -> Solver:
        """The solver of that name.

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

"""How draws are made: the process, its solver and steps, as set or by the process's own defaults."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tsimpute.config.registry import make, options_of
from tsimpute.config.settings import ProcessConfig, SamplingConfig
from tsimpute.errors import ConfigError
from tsimpute.generative.sampling import sample
from tsimpute.solvers.base import Solver


class Sampling:
    """What a generative imputer knows of its sampler."""

    process: ProcessConfig
    sampling: SamplingConfig

    @property
    def name(self) -> str:
        """The name of the process."""
        return self.process.name

    @property
    def solver(self) -> str:
        """Name of the solver: as set, or the process's own default."""
        return self.sampling.solver or self._process_default("default_solver")

    @property
    def grid_power(self) -> float:
        """How the steps are spaced: as set, or the process's own default with its own solver, else evenly."""
        default = 1.0 if self.sampling.solver else self._process_default("default_power")
        return self.sampling.grid_power or default

    @property
    def n_steps(self) -> int:
        """Solver steps: as set, or the process's own default."""
        return self.sampling.n_steps or self._process_default("default_steps")

    @property
    def eta(self) -> float:
        """Share of fresh noise in the first-order solver: as set, or the process's own default."""
        return self._process_default("default_eta") if self.sampling.eta is None else self.sampling.eta

    def _sampler(self, backbone: Any, n_samples: int) -> Callable[..., torch.Tensor]:
        """``sample`` with all but the condition, its seeds and its place in a longer record."""
        return partial(
            sample,
            backbone,
            make("processes", self.process.name, **self.process.options),
            self._solver(),
            n_samples=n_samples,
            n_steps=self.n_steps,
            grid_power=self.grid_power,
            antithetic=self.sampling.antithetic,
            rows_at_once=self.sampling.rows_at_once,
            memory_mib=self.sampling.memory_mib,
        )

    def _solver(self) -> Solver:
        name = self.solver
        if "eta" in options_of("solvers", name):
            return make("solvers", name, eta=self.eta)
        if self.sampling.eta:
            raise ConfigError(f"sampling.eta: solver {name} is deterministic, expected 0 or none, came {self.eta}.")
        return make("solvers", name)

    def _process_default(self, name: str) -> Any:
        return getattr(make("processes", self.process.name, **self.process.options), name)

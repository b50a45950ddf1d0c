"""A fitted network with all that is needed to use it: scaler, features, clock, base estimate; and how files keep it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from tsimpute.batches.base_estimates import BaseMethod, Linear
from tsimpute.batches.loading import condition_of, conditions_of
from tsimpute.config.registry import make
from tsimpute.config.settings import NetworkConfig
from tsimpute.core.containers import Condition
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Feature, Windows
from tsimpute.gaussian.process import GaussianBase, GaussianModel, Scores
from tsimpute.imputers.shared.records import check_features, check_steps, usual_step
from tsimpute.models.checkpoints import part_of
from tsimpute.scaling.standardizer import Scale, Standardizer

_BASE = "base"
"""What the names of a model file's arrays begin with that belong to the Gaussian process."""


@dataclass(frozen=True)
class RecordClock:
    """How the times of training records count.

    Attributes:
        step: the usual distance between two steps of a record; 0 where there is none.
        regular: whether all training records keep to it; where not, records of any steps are taken.
        n_steps: steps of a training record; 0 = not known, as in older models.
        unit: see ``panel.Clock``; None = not known.
    """

    step: float = 0.0
    regular: bool = True
    n_steps: int = 0
    unit: str | None = None

    @classmethod
    def of(cls, train: Windows, unit: str | None = None) -> RecordClock:
        return cls(*usual_step(train), train.n_steps, unit)


@dataclass(eq=False)
class FittedModel:
    """The fitted state of a generative imputer.

    Attributes:
        network: the backbone.
        scaler: means and standard deviations of the training cells.
        features: names and units, in the network's order.
        clock: of the training records.
        base_name: see ``NetworkConfig.base``.
        base_process: the Gaussian process of standardised values whose posterior is the base; None = there is none.
        usual_cells: see ``usual_cells``; 0 = not known, as in older models.
        fitted: epoch, step and losses of the weights.
    """

    network: nn.Module
    scaler: Standardizer
    features: tuple[Feature, ...]
    clock: RecordClock
    base_name: Literal["none", "linear", "gaussian"] = "none"
    base_process: GaussianModel | None = None
    usual_cells: int = 0
    fitted: dict[str, Any] = field(default_factory=lambda: {"epoch": 0, "step": 0})

    @property
    def never_visible(self) -> tuple[str, ...]:
        """Names of features without a training value; they are imputed from the others, around 0."""
        return tuple(f.name for f, never in zip(self.features, self.scaler.never_shown, strict=True) if never)

    @property
    def base(self) -> BaseMethod | None:
        """The method of base estimates; None = there is none."""
        if self.base_name == "linear":
            return Linear(self.clock.step * self.clock.n_steps)
        return None if self.base_process is None else GaussianBase(self.base_process)

    @property
    def scale(self) -> Scale:
        """The scale in which the network learns: standardised values, or scores of the Gaussian process."""
        return self.scaler if self.base_process is None else Scores(self.scaler, self.base_process)

    def check(self, windows: Windows) -> None:
        """Refuses records of other features or steps than those learnt, with a DataError."""
        check_features(self.features, windows.features)
        if self.clock.regular:
            check_steps(windows, self.clock.step)

    def condition_of(self, windows: Windows, cells: np.ndarray) -> Condition:
        """The network's input for records; ``cells`` (N, K, L) bool are those to impute."""
        return condition_of(windows, self.scale, cells, self.base, self._usual_cells(windows.n_steps))

    def conditions_of(
        self, record: Windows, parts: Sequence[slice], cells: np.ndarray, length: int
    ) -> Iterator[Condition]:
        """The same for parts of one record that is computed in windows of ``length`` steps."""
        return conditions_of(record, self.scale, parts, cells, self.base, self._usual_cells(length))

    def _usual_cells(self, n_steps: int) -> float:
        """``usual_cells`` for records of ``n_steps``; unchanged for models without ``n_steps``."""
        return self.usual_cells * n_steps / (self.clock.n_steps or n_steps)

    # Files ------------------------------------------------------------------------------------------------------------

    def arrays(self, network: nn.Module | None = None) -> dict[str, torch.Tensor]:
        """The arrays of a model file: weights, and those of the Gaussian process."""
        base = {} if self.base_process is None else self.base_process.to_arrays()
        weights = (network or self.network).state_dict()
        return weights | {f"{_BASE}.{name}": torch.from_numpy(np.asarray(x)) for name, x in base.items()}

    def description(self) -> dict[str, Any]:
        """The plain values of a model file by name."""
        return {
            "features": [astuple(feature)[: 2 + feature.given] for feature in self.features],
            "scaler": self.scaler.to_dict(),
            "time_step": self.clock.step,
            "time_unit": self.clock.unit,
            "regular": self.clock.regular,
            "n_steps": self.clock.n_steps,
            "usual_cells": self.usual_cells,
            "fitted": self.fitted,
        }

    @classmethod
    def from_file(
        cls,
        arrays: Mapping[str, torch.Tensor],
        description: Mapping[str, Any],
        config: NetworkConfig,
        tau_frequency: float,
    ) -> FittedModel:
        """The model whose ``arrays`` and ``description`` these are, its network made as ``config`` says."""
        features = tuple(Feature(*feature) for feature in description["features"])
        network = new_network(config, features, tau_frequency)
        network.load_state_dict({name: x for name, x in arrays.items() if not name.startswith(f"{_BASE}.")})
        base = {name: x.numpy() for name, x in part_of(arrays, _BASE).items()}
        return cls(
            network,
            Standardizer.from_dict(description["scaler"]),
            features,
            RecordClock(
                description["time_step"],
                description.get("regular", True),
                description.get("n_steps", 0),
                description.get("time_unit"),
            ),
            config.base,
            GaussianModel.from_arrays(base) if base else None,
            description.get("usual_cells", 0),
            description["fitted"],
        )


def new_network(config: NetworkConfig, features: Sequence[Feature], tau_frequency: float, seed: int = 0) -> nn.Module:
    """A backbone with initial weights.

    Args:
        config: name and options.
        features: that it is for, known covariates last.
        tau_frequency: see ``Process``; an option of the same meaning goes before.
        seed: of the training that the weights are for.
    """
    options: dict[str, Any] = {"max_frequency": tau_frequency} | config.options
    if n_given := sum(feature.given for feature in features):
        options["n_given"] = n_given
    if config.base == "gaussian":
        options["with_spread"] = True
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed: that would reseed every other device, too.
        torch.default_generator.manual_seed(derive_seed(seed, "network"))
        return make("backbones", config.name, n_features=len(features), **options)

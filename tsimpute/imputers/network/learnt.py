"""What a generative imputer has learnt, and the model file that keeps it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import astuple
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from tsimpute.batches.guessing import Guess, Linear
from tsimpute.config.registry import check_imported, make
from tsimpute.config.settings import NetworkConfig, ProcessConfig, SamplingConfig, TrainingConfig, named_parts
from tsimpute.config.yaml_files import from_dict, to_dict
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Feature
from tsimpute.errors import CheckpointError, NotFittedError
from tsimpute.gaussian.guess import GaussianGuess, Scores
from tsimpute.gaussian.process import GaussianModel
from tsimpute.imputers.network.sampling_plan import Sampling
from tsimpute.models.checkpoints import part_of, read_model, write_model
from tsimpute.scaling.standardizer import Scale, Standardizer

_SETTINGS = {
    "process": ProcessConfig,
    "network": NetworkConfig,
    "training": TrainingConfig,
    "sampling": SamplingConfig,
}

_BASE = "base"
"""What the names of a model file's arrays begin with that belong to the Gaussian process."""


class FittedModel(Sampling):
    """Settings and what was learnt with them.

    Attributes:
        network_: the trained backbone.
        scaler_: means and standard deviations of the training cells.
        features_: names and units, in the model's order.
        time_step_: the usual distance between two steps of a record; 0 where there is none.
        regular_: whether all training records keep to it; where not, records of any steps are taken.
        time_unit_: of the times: see ``panel.Clock``; None = not known.
        n_steps_: steps of a training record; 0 = not known, as of models of before.
        usual_cells_: see ``usual_cells``; 0 = not known, as of models of before.
        base_: the Gaussian process of standardised values whose posterior is the first guess; None = there is none.
        fitted_: epoch, step and seconds of the weights.
    """

    network: NetworkConfig
    training: TrainingConfig
    usual_cells_: int = 0
    base_: GaussianModel | None = None

    @property
    def whole_series(self) -> bool:
        """See ``TableModel``: a process needs the clock for its seasons, and what stands beside a window."""
        return self.base_ is not None

    @property
    def method(self) -> str:
        """Process and network."""
        return f"{self.process.name} on {self.network.name}"

    @property
    def sampler(self) -> str:
        """Steps and solver."""
        return f"{self.n_steps} {self.solver} steps"

    @property
    def no_data_(self) -> tuple[str, ...]:
        """Features of which training had no value: they are filled with what the others tell, around 0."""
        return tuple(f.name for f, never in zip(self.features_, self.scaler_.never_shown, strict=True) if never)

    @property
    def guess_(self) -> Guess | None:
        """The first guess that what is learnt and drawn differs from; None = there is none."""
        if self.network.guess == "linear":
            return Linear(self.time_step_ * self.n_steps_)
        return None if self.base_ is None else GaussianGuess(self.base_)

    @property
    def scale_(self) -> Scale:
        """To what the network learns: standardised values, or the scores of the process that it starts from."""
        return self.scaler_ if self.base_ is None else Scores(self.scaler_, self.base_)

    def _usual_cells(self, n_steps: int) -> float:
        """What ``usual_cells_`` would be of records of so many steps; of models that do not know theirs, as it is."""
        return self.usual_cells_ * n_steps / (self.n_steps_ or n_steps)

    def save(self, path: Path, also: Mapping[str, Any] | None = None) -> None:
        """See ``Imputer``; ``also`` is kept beside, as plain values by names that models do not use."""
        weights, about = self.parts()
        write_model(Path(path), weights, {**(also or {}), **about})

    def parts(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """The weights and the description that a model file holds."""
        return self._weights(self._fitted()), self._about(self.fitted_)

    @classmethod
    def load(cls, path: Path, sampling: SamplingConfig | None = None) -> Self:
        """Reads what ``save`` wrote; ``sampling`` takes the place of the stored sampler settings."""
        path = Path(path)
        weights, about = read_model(path)
        return cls.from_file(path, weights, about, sampling)

    @classmethod
    def from_file(
        cls, path: Path, weights: dict[str, torch.Tensor], about: dict[str, Any], sampling: SamplingConfig | None = None
    ) -> Self:
        """What ``read_model`` read from ``path``."""
        if "settings" not in about and "table" in about:
            raise CheckpointError(
                f"{path}: expected a model, came a table imputer without one, whose columns are filled by rules. Use "
                "TableImputer.load, or name it as the model of a TableImputer."
            )
        try:
            settings = {name: from_dict(kind, about["settings"][name]) for name, kind in _SETTINGS.items()}
            settings |= {} if sampling is None else {"sampling": sampling}
            for name in named_parts(settings["process"], settings["network"], settings["sampling"]).values():
                check_imported(name, str(path))
            imputer = cls(**settings)
            imputer._take(weights, about)
        except CheckpointError:
            raise
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise CheckpointError(f"{path}: the model file is damaged or of another layout ({reason}).") from error
        return imputer

    def _fitted(self) -> nn.Module:
        if not hasattr(self, "network_"):
            raise NotFittedError("impute: expected a fitted imputer; call fit(...) or load(...) first.")
        return self.network_

    def _new_network(self, tau_frequency: float) -> nn.Module:
        options = {"max_frequency": tau_frequency} | self.network.options
        given = {"n_given": n} if (n := sum(feature.given for feature in self.features_)) else {}
        if self.network.guess == "gaussian":
            given["with_spread"] = True
        with torch.random.fork_rng(devices=[]):
            # Not torch.manual_seed: that would reseed every other device, too.
            torch.default_generator.manual_seed(derive_seed(self.training.seed, "network"))
            return make("backbones", self.network.name, n_features=len(self.features_), **given, **options)

    def _take(self, weights: dict[str, torch.Tensor], about: dict[str, Any]) -> None:
        self.features_ = tuple(Feature(*f) for f in about["features"])
        self.scaler_ = Standardizer.from_dict(about["scaler"])
        self.time_step_, self.n_steps_ = about["time_step"], about.get("n_steps", 0)
        self.regular_, self.time_unit_ = about.get("regular", True), about.get("time_unit")
        self.usual_cells_, self.fitted_ = about.get("usual_cells", 0), about["fitted"]
        of_base = {name: x.numpy() for name, x in part_of(weights, _BASE).items()}
        self.base_ = GaussianModel.from_arrays(of_base) if of_base else None
        self.network_ = self._new_network(self._process_default("tau_frequency"))
        self.network_.load_state_dict({name: x for name, x in weights.items() if not name.startswith(f"{_BASE}.")})

    def _weights(self, network: nn.Module) -> dict[str, torch.Tensor]:
        """All numbers that a model file keeps: the network's, and those of the process that it starts from."""
        base = {} if self.base_ is None else self.base_.to_arrays()
        return network.state_dict() | {f"{_BASE}.{name}": torch.from_numpy(np.asarray(x)) for name, x in base.items()}

    def _about(self, fitted: dict[str, Any]) -> dict[str, Any]:
        return {
            "settings": {name: to_dict(getattr(self, name)) for name in _SETTINGS},
            "features": [astuple(feature)[: 2 + feature.given] for feature in self.features_],
            "scaler": self.scaler_.to_dict(),
            "time_step": self.time_step_,
            "time_unit": self.time_unit_,
            "regular": self.regular_,
            "n_steps": self.n_steps_,
            "usual_cells": self.usual_cells_,
            "fitted": fitted,
            "versions": {"python": platform.python_version()} | {name: version(name) for name in ("torch", "numpy")},
        }

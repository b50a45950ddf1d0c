"""Models that are fitted to a table: a network on its windows, a Gaussian process on its series."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tsimpute.config.settings import NetworkConfig, SamplingConfig, TrainingConfig
from tsimpute.core.limits import Limits
from tsimpute.core.panel import Panel
from tsimpute.core.windows import Windows
from tsimpute.errors import DataError
from tsimpute.filling.panels.windows import clock_times, training_windows, window_steps
from tsimpute.gaussian.curves import Curves, fit_curves
from tsimpute.gaussian.maps import Records
from tsimpute.gaussian.model import fit
from tsimpute.gaussian.process import GaussianModel
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.system.run import Run
from tsimpute.system.terminal import Tell

_STEPS_FROM_POSTERIOR = 3
PERIODS = (24.0, 168.0, 8766.0)
"""Day, week and year in hours."""


@dataclass(frozen=True)
class Effort:
    """Sizes that cost time.

    Attributes:
        steps: optimiser steps of the network, about.
        width, n_blocks: of the network.
        hidden: share of the observed cells that is hidden to measure on.
        windows: windows of the network that are drawn to measure, at most.
        methods: what is learnt: a network alone, a Gaussian process alone, a process and randomised trees on its
            posterior, or a process and a network that starts from it.
        timed: whether it ends within a time, and does as much as fits in.
    """

    steps: int
    width: int
    n_blocks: int
    hidden: float
    windows: int
    methods: Literal["network", "gaussian", "forest", "both"] = "network"
    timed: bool = False

    @property
    def improves(self) -> bool:
        """Whether a first answer is improved while there is time."""
        return self.methods in ("forest", "both")

    @property
    def network(self) -> NetworkConfig:
        options = {
            "width": self.width, "n_heads": self.width // 8, "n_blocks": self.n_blocks, "width_time": 64,
            "width_feature": 16, "width_tau": 64,
        }  # fmt: skip
        return NetworkConfig("context_cells", options, base="linear" if self.methods == "network" else "gaussian")

    def training(self, n_windows: int, seed: int) -> TrainingConfig:
        """A cosine schedule over about ``steps`` steps."""
        batch = min(16, n_windows)
        batches = -(-n_windows // batch)
        return TrainingConfig(
            epochs=max(1, round(self.steps / batches)), batch_size=batch, micro_batch=max(1, batch // 4),
            learning_rate=1e-3, warmup_steps=min(50, self.steps // 10), schedule="cosine", clip_norm=2.0, ema=0.99,
            mask_policy="mix" if self.methods == "network" else "gaps", seed=seed,
        )  # fmt: skip


EFFORTS = {
    "auto": Effort(steps=0, width=0, n_blocks=0, hidden=0.1, windows=200, methods="forest", timed=True),
    "instant": Effort(steps=0, width=0, n_blocks=0, hidden=0.1, windows=200, methods="gaussian"),
    "trial": Effort(steps=20, width=16, n_blocks=1, hidden=0.1, windows=60),
    "quick": Effort(steps=500, width=16, n_blocks=2, hidden=0.1, windows=100, methods="both"),
    "normal": Effort(steps=2500, width=32, n_blocks=3, hidden=0.1, windows=200, methods="both"),
    "thorough": Effort(steps=8000, width=64, n_blocks=4, hidden=0.1, windows=400, methods="both"),
}


def learnt(panel: Panel, limits: Mapping[str, Limits], effort: Effort, seed: int, run: Run) -> GenerativeImputer:
    """A network trained on windows of a panel.

    Args:
        limits: by feature, "*" = all others but known covariates.
        run: an unfinished training in its folder is continued if its data and settings are the same.
    """
    windows = training_windows(panel, window_steps(panel))
    free = {feature.name: Limits() for feature in panel.features if feature.given}
    scaler = Standardizer.fit(windows, {**limits, **free})
    imputer = untrained(effort, len(windows), seed)
    state = None if run.folder is None else run.folder / fingerprint(windows, scaler, effort, seed)
    for step in imputer.fit_steps(
        windows, scaler=scaler, time_unit=panel.clock.unit, folder=state, should_stop=run.should_stop
    ):
        run.progress("learning", step.step, step.n_steps)
    return imputer


def untrained(effort: Effort, n_windows: int, seed: int) -> GenerativeImputer:
    """The network of an effort. One that starts from a posterior starts close to its target and needs few steps."""
    training, sampling = effort.training(n_windows, seed), SamplingConfig(memory_mib=512)
    if effort.methods == "both":
        sampling = replace(sampling, n_steps=_STEPS_FROM_POSTERIOR, antithetic=True)
    return GenerativeImputer("flow_matching", effort.network, training, sampling)


def gaussian(panel: Panel, limits: Mapping[str, Limits], seed: int, progress: Tell) -> GaussianImputer:
    """A Gaussian process fitted to the whole series of a panel without known covariates; see ``learnt``.

    Raises:
        DataError: no series has a value.
    """
    records, regular = _records(panel)
    pooled = np.concatenate(records.values, axis=1)
    together = Windows(pooled[None], np.arange(float(pooled.shape[1]))[None], panel.features, ("all",))
    has_dates = panel.clock.unit == "hours" and panel.series[0].labels.dtype.kind == "M"
    imputer = GaussianImputer(PERIODS if has_dates else (), seed=seed).fit_records(
        records, panel.features, Standardizer.fit(together, limits), regular=regular,
        time_unit=panel.clock.unit, progress=lambda done, total: progress("fitting", done, total),
    )  # fmt: skip
    return imputer.learn_curves(records)


def unseasonal(panel: Panel, base: GaussianImputer, n_rounds: int) -> tuple[GaussianModel, Curves | None]:
    """A process of the same settings and scale without seasonal means: its covariances contain the seasons.

    It has curves if the base process, fitted to the panel, has them, so that the two can be compared.
    """
    records, _ = _records(panel)
    scaled = replace(records, values=tuple(map(base.scaler_.transform, records.values)))
    model = fit(scaled, (), replace(base.chosen_, n_rounds=n_rounds), base.seed)
    return model, fit_curves(model, scaled, base.seed, base.model_.seasons.periods, base.curved)


def _records(panel: Panel) -> tuple[Records, bool]:
    """The series that have a value, and whether they keep to one step."""
    series = [s for s in panel.series if s.observed.any()]
    if not series:
        raise DataError("table: expected at least one value to learn from, all cells are missing.")
    times = tuple(clock_times(s, panel.clock) for s in series)
    step = panel.clock.step or _usual_step(panel)
    # A grid of which few steps have rows at all (2 of every 30) says nothing of the distance between rows.
    regular = panel.clock.step is not None and all(
        np.isclose(np.median(np.diff(of_series)), step, rtol=0.05) for of_series in times if len(of_series) > 1
    )
    usual = step if regular else _usual_step(panel)
    return Records(tuple(s.values for s in series), times, usual, panel.independent_rows), regular


def _usual_step(panel: Panel) -> float:
    """The median distance between two times of a series; 0 where no series has two."""
    steps = np.concatenate([np.diff(series.times) for series in panel.series])
    return float(np.median(steps)) if len(steps) else 0.0


def fingerprint(windows: Windows, scaler: Standardizer, effort: Effort, seed: int) -> str:
    """A digest of the data, scale and settings of a training: only the same training continues its state."""
    digest = hashlib.blake2b(digest_size=8)
    digest.update(repr((windows.features, windows.record_ids, scaler.to_dict(), effort, seed)).encode())
    digest.update(windows.values.tobytes())
    digest.update(windows.times.tobytes())
    return digest.hexdigest()

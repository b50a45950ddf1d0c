"""Models that are fitted to a table: a network on its windows, a Gaussian process on its series."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tsimpute.config.settings import SamplingConfig
from tsimpute.core.limits import Limits
from tsimpute.core.panel import Panel
from tsimpute.core.windows import Windows
from tsimpute.errors import DataError
from tsimpute.filling.learning.efforts import Effort
from tsimpute.filling.panels.windows import clock_times, training_windows, window_steps
from tsimpute.gaussian.curves import Curves, fit_curves
from tsimpute.gaussian.model import fit
from tsimpute.gaussian.process import GaussianModel
from tsimpute.gaussian.records import Records
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.system.run import Run
from tsimpute.system.terminal import Tell

_STEPS_FROM_POSTERIOR = 3
PERIODS = (24.0, 168.0, 8766.0)
"""Day, week and year in hours."""


def learnt(
    panel: Panel,
    limits: Mapping[str, Limits],
    effort: Effort,
    seed: int,
    run: Run,
) -> GenerativeImputer:
    """A network trained on windows of a panel.

    Args:
        panel: all that may be learned from.
        limits: by feature, "*" = all others but known covariates.
        effort: size of the network and of its training.
        seed: of training.
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
    """A Gaussian process fitted to whole series.

    Args:
        panel: all that may be learned from, without known covariates.
        limits, seed: see ``learnt``.
        progress: see ``Run``.

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

    It has curves if the base process has them, so that the two can be compared.

    Args:
        base: fitted to the panel.
        n_rounds: of EM.
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

"""A model for a table: learnt from it, or one that was learnt before."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

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
from tsimpute.system.terminal import Tell

_STEPS_FROM_POSTERIOR = 3
PERIODS = (24.0, 168.0, 8766.0)
"""Day, week and year in hours."""


def learnt(
    panel: Panel,
    limits: Mapping[str, Limits],
    effort: Effort,
    seed: int,
    folder: Path | None,
    progress: Tell,
    should_stop: Callable[[], bool],
) -> GenerativeImputer:
    """A model trained on windows of a panel.

    Args:
        panel: all that may be learnt from.
        limits: by feature, "*" = all others but given ones.
        effort: how long.
        seed: of everything that is drawn.
        folder: where a state is kept and taken up, for the same data and settings only.
        progress, should_stop: see ``TableImputer.fit``.
    """
    windows, scaler = _windows_and_scale(panel, limits)
    imputer = untrained(effort, len(windows), seed)
    state = None if folder is None else folder / fingerprint(windows, scaler, effort, seed)
    unit = panel.clock.unit
    for step in imputer.fit_steps(windows, scaler=scaler, time_unit=unit, folder=state, should_stop=should_stop):
        progress("learning", step.step, step.n_steps)
    return imputer


def _windows_and_scale(panel: Panel, limits: Mapping[str, Limits]) -> tuple[Windows, Standardizer]:
    windows = training_windows(panel, window_steps(panel))
    free = {feature.name: Limits() for feature in panel.features if feature.given}
    return windows, Standardizer.fit(windows, {**limits, **free})


def untrained(effort: Effort, n_windows: int, seed: int) -> GenerativeImputer:
    """The network of an effort; one that starts from a posterior, which is near to what it ends at, needs few steps."""
    training, sampling = effort.training(n_windows, seed), SamplingConfig(memory_mib=512)
    if effort.methods == "both":
        sampling = replace(sampling, n_steps=_STEPS_FROM_POSTERIOR, antithetic=True)
    return GenerativeImputer("flow_matching", effort.network, training, sampling)


def gaussian(panel: Panel, limits: Mapping[str, Limits], seed: int, progress: Tell) -> GaussianImputer:
    """A Gaussian process fitted to whole series.

    Args:
        panel: all that may be learnt from; of its own features alone.
        limits, seed, progress: see ``learnt``.

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
    """The process of the same settings and scale that takes what is seasonal for a part of its covariances.

    Where the process has curves, so has this one: without them it would be held against one that has some.

    Args:
        base: fitted to the panel.
        n_rounds: of EM.
    """
    records, _ = _records(panel)
    scaled = Records(tuple(map(base.scaler_.transform, records.values)), records.times, records.step)
    model = fit(scaled, (), replace(base.chosen_, n_rounds=n_rounds), base.seed)
    return model, fit_curves(model, scaled, base.seed, base.model_.seasons.periods, base.curved)


def _records(panel: Panel) -> tuple[Records, bool]:
    """The series that have a value, and whether they keep to one step."""
    series = [of_one for of_one in panel.series if of_one.observed.any()]
    if not series:
        raise DataError("table: expected at least one value to learn from, all cells are missing.")
    times = tuple(clock_times(of_one, panel.clock) for of_one in series)
    step = panel.clock.step or _usual_step(panel)
    # A grid of which few steps have rows at all (2 of every 30) says nothing of the distance between rows.
    regular = panel.clock.step is not None and all(
        np.isclose(np.median(np.diff(of_one)), step, rtol=0.05) for of_one in times if len(of_one) > 1
    )
    return Records(tuple(s.values for s in series), times, step if regular else _usual_step(panel)), regular


def _usual_step(panel: Panel) -> float:
    """The median distance between two times of a series; 0 where no series has two."""
    steps = np.concatenate([np.diff(series.times) for series in panel.series])
    return float(np.median(steps)) if len(steps) else 0.0


def fingerprint(windows: Windows, scaler: Standardizer, effort: Effort, seed: int) -> str:
    """What tells one training from others: a state is taken up with the same data, scale and settings only."""
    found = hashlib.blake2b(digest_size=8)
    found.update(repr((windows.features, windows.record_ids, scaler.to_dict(), effort, seed)).encode())
    found.update(windows.values.tobytes())
    found.update(windows.times.tobytes())
    return found.hexdigest()

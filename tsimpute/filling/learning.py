"""A model for a table: learnt from it, or one that was learnt before."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tsimpute.config import SamplingConfig
from tsimpute.errors import DataError
from tsimpute.filling.efforts import Effort
from tsimpute.filling.windows import clock_times, training_windows, window_steps
from tsimpute.gaussian.records import Records
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.limits import Limits
from tsimpute.panel import Panel
from tsimpute.pipeline.scaling import Standardizer
from tsimpute.terminal import Tell
from tsimpute.windows import Windows

FEWEST_STEPS, _TIMED_STEPS = 60, 6
"""Optimiser steps below which no network is trained, and those by which the time of one is told."""
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
    imputer = _untrained(effort, len(windows), seed)
    state = None if folder is None else folder / _fingerprint(windows, scaler, effort, seed)
    unit = panel.clock.unit
    for step in imputer.fit_steps(windows, scaler=scaler, time_unit=unit, folder=state, should_stop=should_stop):
        progress("learning", step.step, step.n_steps)
    return imputer


@dataclass(frozen=True)
class Training:
    """What a network learns from and how long; see ``learnt``."""

    panel: Panel
    limits: Mapping[str, Limits]
    effort: Effort
    seed: int
    folder: Path | None


def learnt_within(
    training: Training,
    until: float,
    progress: Tell,
    should_stop: Callable[[], bool],
    helps: Callable[[GenerativeImputer], bool],
) -> GenerativeImputer | None:
    """A network that is trained up to a time at most; None where that does not suffice.

    How many steps there is time for is found from the first ones and kept in the folder, so that an interrupted
    training goes on as it began.

    Args:
        until: ``time.monotonic()`` at which learning ends.
        helps: asked when half of the steps are done; False ends learning.
    """
    windows, scaler = _windows_and_scale(training.panel, training.limits)
    state = (
        None
        if training.folder is None
        else training.folder / _fingerprint(windows, scaler, training.effort, training.seed)
    )
    kept = None if state is None else state / "steps.txt"
    if kept is not None and kept.is_file():
        n_steps = int(kept.read_text())
    else:
        n_steps = min(training.effort.steps, _steps_within(windows, scaler, training, until))
    if n_steps < FEWEST_STEPS:
        return None
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(str(n_steps))
    effort = replace(training.effort, steps=n_steps)
    imputer, unit = _untrained(effort, len(windows), training.seed), training.panel.clock.unit
    asked = False
    for step in imputer.fit_steps(windows, scaler=scaler, time_unit=unit, folder=state, should_stop=should_stop):
        progress("learning", step.step, step.n_steps)
        if time.monotonic() > until:
            break
        if not asked and step.step >= step.n_steps // 2:
            asked = True
            if not helps(imputer):
                break
    return imputer


def _steps_within(windows: Windows, scaler: Standardizer, training: Training, until: float) -> int:
    """How many optimiser steps there is time for."""
    imputer = _untrained(training.effort, len(windows), training.seed)
    steps = imputer.fit_steps(windows, scaler=scaler)
    next(steps, None)  # the first one loads libraries
    started, n_timed = time.monotonic(), 0
    while n_timed < _TIMED_STEPS and next(steps, None) is not None:
        n_timed += 1
    each = (time.monotonic() - started) / max(1, n_timed)
    del steps  # ends it
    return int((until - time.monotonic()) / max(each, 1e-6)) if n_timed else training.effort.steps


def _windows_and_scale(panel: Panel, limits: Mapping[str, Limits]) -> tuple[Windows, Standardizer]:
    windows = training_windows(panel, window_steps(panel))
    free = {feature.name: Limits() for feature in panel.features if feature.given}
    return windows, Standardizer.fit(windows, {**limits, **free})


def _untrained(effort: Effort, n_windows: int, seed: int) -> GenerativeImputer:
    training = effort.training(n_windows, seed)
    return GenerativeImputer("flow_matching", effort.network, training, SamplingConfig(memory_mib=512))


def gaussian(panel: Panel, limits: Mapping[str, Limits], seed: int, progress: Tell) -> GaussianImputer:
    """A Gaussian process fitted to whole series.

    Args:
        panel: all that may be learnt from; of its own features alone.
        limits, seed, progress: see ``learnt``.

    Raises:
        DataError: no series has a value.
    """
    series = [of_one for of_one in panel.series if of_one.observed.any()]
    if not series:
        raise DataError("table: expected at least one value to learn from, all cells are missing.")
    pooled = np.concatenate([of_one.values for of_one in series], axis=1)
    together = Windows(pooled[None], np.arange(float(pooled.shape[1]))[None], panel.features, ("all",))
    times = tuple(clock_times(of_one, panel.clock) for of_one in series)
    step = panel.clock.step or _usual_step(panel)
    # A grid of which few steps have rows at all (2 of every 30) says nothing of the distance between rows.
    regular = panel.clock.step is not None and all(
        np.isclose(np.median(np.diff(of_one)), step, rtol=0.05) for of_one in times if len(of_one) > 1
    )
    records = Records(tuple(s.values for s in series), times, step if regular else _usual_step(panel))
    has_dates = panel.clock.unit == "hours" and series[0].labels.dtype.kind == "M"
    return GaussianImputer(PERIODS if has_dates else (), seed=seed).fit_records(
        records, panel.features, Standardizer.fit(together, limits), regular=regular,
        time_unit=panel.clock.unit, progress=lambda done, total: progress("fitting", done, total),
    )  # fmt: skip


def _usual_step(panel: Panel) -> float:
    """The median distance between two times of a series; 0 where no series has two."""
    steps = np.concatenate([np.diff(series.times) for series in panel.series])
    return float(np.median(steps)) if len(steps) else 0.0


def _fingerprint(windows: Windows, scaler: Standardizer, effort: Effort, seed: int) -> str:
    """What tells one training from others: a state is taken up with the same data, scale and settings only."""
    found = hashlib.blake2b(digest_size=8)
    found.update(repr((windows.features, windows.record_ids, scaler.to_dict(), effort, seed)).encode())
    found.update(windows.values.tobytes())
    found.update(windows.times.tobytes())
    return found.hexdigest()

"""A model learnt from the panel that it is to fill."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from tsimpute.config import SamplingConfig
from tsimpute.filling.efforts import Effort
from tsimpute.filling.windows import training_windows, window_steps
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.limits import Limits
from tsimpute.panel import Panel
from tsimpute.pipeline.scaling import Standardizer
from tsimpute.windows import Windows

Progress = Callable[[str, int, int], None]
"""(what, done, total)."""


def trained_on(
    panel: Panel,
    limits: Mapping[str, Limits],
    effort: Effort,
    seed: int,
    folder: Path | None,
    progress: Progress,
    should_stop: Callable[[], bool],
) -> GenerativeImputer:
    """Trains on windows of a panel; with a folder the same call goes on where it was stopped."""
    windows = training_windows(panel, window_steps(panel))
    imputer = GenerativeImputer(
        "flow_matching", effort.network, effort.training(len(windows), seed), SamplingConfig(memory_mib=512)
    )
    scaler = Standardizer.fit(windows, limits)
    state = None if folder is None else folder / _fingerprint(windows, scaler, effort, seed)
    unit = panel.clock.unit
    for step in imputer.fit_steps(windows, scaler=scaler, time_unit=unit, folder=state, should_stop=should_stop):
        progress("learning", step.step, step.n_steps)
    return imputer


def _fingerprint(windows: Windows, scaler: Standardizer, effort: Effort, seed: int) -> str:
    """What tells one training from others: a state is taken up with the same data, scale and settings only."""
    found = hashlib.blake2b(digest_size=8)
    found.update(repr((windows.features, windows.record_ids, scaler.to_dict(), effort, seed)).encode())
    found.update(windows.values.tobytes())
    found.update(windows.times.tobytes())
    return found.hexdigest()

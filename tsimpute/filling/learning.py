"""A model for a table: learnt from it, or one that was learnt before."""

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
from tsimpute.terminal import Tell
from tsimpute.windows import Windows


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
    windows = training_windows(panel, window_steps(panel))
    imputer = GenerativeImputer(
        "flow_matching", effort.network, effort.training(len(windows), seed), SamplingConfig(memory_mib=512)
    )
    free = {feature.name: Limits() for feature in panel.features if feature.given}
    scaler = Standardizer.fit(windows, {**limits, **free})
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

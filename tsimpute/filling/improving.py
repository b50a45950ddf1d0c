"""A network beside the first answer, within a time: it is delivered as far as hidden cells say that it helps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from tsimpute.filling.calendar import with_calendar
from tsimpute.filling.calibration import LEAST
from tsimpute.filling.delivering import Delivered, Material, common, masks_of, mixed
from tsimpute.filling.efforts import Effort
from tsimpute.filling.hidden_draws import Hidden
from tsimpute.filling.learning import Training, learnt_within
from tsimpute.filling.mixture import NETWORK
from tsimpute.filling.windows import window_steps
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.terminal import Tell, silent

_LEARNING = 0.6
"""Share of the time for learning; the rest is for measuring and drawing."""
_LEAST_GAIN = 0.01
"""Share of the score without the network by which it has to be lower with it: what is less may be chance."""
_FAR_BEHIND = 1.25
"""An error so many times that of the process, with half of the steps done, is not made good by the other half."""
_TRIAL_WINDOWS, _TRIAL_DRAWS = 24, 20
"""Of a look at the network when half of its steps are done."""


def improved(
    material: Material, first: Delivered, effort: Effort, until: float, folder: Path | None, progress: Tell,
    should_stop: Callable[[], bool],
) -> Delivered:  # fmt: skip
    """The first answer, or a mixture with a network's draws where that is better on hidden cells.

    Args:
        until: ``time.monotonic()`` at which what is filled should be written.
        folder, progress, should_stop: see ``TableImputer.fit``.
    """
    if first.at is None or len(first.at.truth) < LEAST:
        n_cells = 0 if first.at is None else len(first.at.truth)
        return replace(first, note=f"no network: {n_cells} hidden cells are too few to tell whether it helps")
    began = time.monotonic()
    shown, at = with_calendar(material.shown, material.given), first.at
    masks = masks_of(material.hidden, at)
    stopped_early = False

    def helps(network: GenerativeImputer) -> bool:
        nonlocal stopped_early
        n_samples = min(material.n_samples, _TRIAL_DRAWS)
        some = replace(material, n_samples=n_samples, windows=_TRIAL_WINDOWS)
        of_network = some.drawn(network, silent, masks)
        if len(of_network.truth) < LEAST:
            return True
        found = mixed(some, first.base, network, _first_draws(at, n_samples), of_network)
        errors = {str(row["imputer"]): float(row["MAE"]) for row in found.scores}
        far_behind = errors[network.name] > _FAR_BEHIND * errors[first.base.name]
        stopped_early = far_behind and found.shares is not None and not found.shares[NETWORK]
        return not stopped_early

    training = Training(shown, material.limits, effort, material.seed, folder)
    network = learnt_within(training, began + _LEARNING * (until - began), progress, should_stop, helps)
    if network is None or should_stop():
        return replace(first, note="no network: the time does not suffice to train one (minutes)")
    started = time.monotonic()
    of_network = material.drawn(network, progress, masks)
    most = _affordable(material, of_network, time.monotonic() - started, until)
    found = mixed(material, first.base, network, at, of_network, most)
    without = mixed(material, first.base, None, at.at(common(material.hidden, at, of_network)[0]), None)
    gained = found.shares is not None and found.shares[NETWORK] > 0
    if not gained or _score(found) > (1 - _LEAST_GAIN) * _score(without):
        note = "the network no longer helped and was stopped early" if stopped_early else "the network did not help"
        note = note if most > 0 else "the time does not suffice to draw from the network (minutes)"
        of_network_alone = [row for row in found.scores if row["imputer"] == network.name]
        scores = (*without.scores[:-1], *of_network_alone, without.scores[-1])
        return replace(first, scores=scores, note=note)
    return found


def _score(answer: Delivered) -> float:
    return float(answer.scores[-1]["CRPS"])


def _first_draws(at: Hidden, n_samples: int) -> Hidden:
    """As if only so many had been drawn: pairs of opposite draws stay pairs."""
    half = len(at.draws) - len(at.draws) // 2
    kept = -(-n_samples // 2)
    return replace(at, draws=at.draws[np.concatenate([np.arange(kept), half + np.arange(n_samples - kept)])])


def _affordable(material: Material, measured: Hidden, seconds: float, until: float) -> float:
    """Which share of all draws at gaps the network can make in time, in tenths; half of it is kept in reserve."""
    n_windows = max(1, len(np.unique(measured.block)))
    length = max(1, window_steps(material.panel) // 2)
    steps = sum(int(gaps.any(0).sum()) for gaps in material.gaps)
    needed = seconds / n_windows * steps / length
    return float(np.clip(np.floor(10 * 1.5 * (until - time.monotonic()) / max(needed, 1e-9)) / 10, 0, 1))

"""A network beside the first answer: it is delivered as far as hidden cells say that it helps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tsimpute.filling.blending.choosing import common_cells, masks_of, mixed
from tsimpute.filling.blending.delivered import DeliveredModel, FittingData, Scores
from tsimpute.filling.blending.mixture import NETWORK
from tsimpute.filling.improving.posterior_network import (
    Training,
    masks_of_panel,
    steps_of,
    windows_for,
    windows_with_any,
)
from tsimpute.filling.learning.efforts import Effort
from tsimpute.filling.learning.guessed_masks import GuessedMasks
from tsimpute.filling.learning.learning import untrained
from tsimpute.filling.measuring.calibration import LEAST
from tsimpute.filling.measuring.hidden_draws import HiddenDraws, TimeBudget, draws_at
from tsimpute.filling.panels.windows import window_steps
from tsimpute.filling.preparing.summary import FIRST
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.system.terminal import Tell

_LEAST_GAIN = 0.01
"""Share of the score without the network by which it has to be lower with it: what is less may be chance."""
_LOOKS = (0.25, 0.5, 0.75)
"""Shares of the steps after which it is looked whether the network helps."""
_TRIAL_WINDOWS, _TRIAL_DRAWS = 24, 20
"""Of a look at the network in training."""
_RISE = 0.02
"""Share by which a score is higher than at a look before where learning ends."""


@dataclass(frozen=True, eq=False)
class _Task:
    """What ``improved`` is given."""

    material: FittingData
    first: DeliveredModel
    training: Training
    at: HiddenDraws
    progress: Tell
    should_stop: Callable[[], bool]


def improved(
    material: FittingData, first: DeliveredModel, effort: Effort, folder: Path | None, progress: Tell,
    should_stop: Callable[[], bool],
) -> DeliveredModel:  # fmt: skip
    """The first answer, or a mixture with a network's draws where that is better on hidden cells.

    Args:
        folder, progress, should_stop: see ``TableImputer.fit``.
    """
    if first.at is None or len(first.at.truth) < LEAST:
        n_cells = 0 if first.at is None else len(first.at.truth)
        return replace(first, note=f"no network: {n_cells} hidden cells are too few to tell whether it helps")
    training = Training(material.visible, first.base.blind.base, effort, material.seed, folder)
    task = _Task(material, first, training, first.at, progress, should_stop)
    masks = masks_of_panel(training, progress, should_stop)
    stopped = replace(first, note="no network: it was stopped before one was trained")
    if should_stop():
        return stopped
    network, stopped_early = _trained(task, masks)
    if should_stop():
        return stopped
    of_network = _drawn(task, network, material.n_samples, effort.windows)
    if len(of_network.truth) < LEAST:
        return replace(first, note="no network: too few hidden cells were drawn to tell whether it helps")
    return _better(task, network, of_network, stopped_early)


def _trained(task: _Task, masks: GuessedMasks) -> tuple[GenerativeImputer, bool]:
    """A network as it was when it was best, and whether it was stopped before its end since it no longer helped."""
    training = task.training
    windows = windows_for(training, masks, training.effort.steps)
    imputer = untrained(training.effort, len(windows), training.seed)
    looks = _Looks(task)
    for step in steps_of(training, imputer, masks, windows, training.state(), task.should_stop):
        task.progress("learning", step.step, step.n_steps)
        if task.should_stop():
            return imputer, False
        if looks.are_due(step.step / step.n_steps) and not looks.helps(imputer):
            looks.restore(imputer)
            return imputer, True
    return imputer, False


class _Looks:
    """Looks at a network in training, at the same hidden cells each time.

    A network that sees the masks of a small table too often learns them by heart: its score rises again.
    """

    def __init__(self, task: _Task) -> None:
        self.task, self.due = task, list(_LOOKS)
        self.best = np.inf
        self.weights: dict[str, Any] = {}

    def are_due(self, share: float) -> bool:
        """Whether a look is due with such a share of the steps done; of looks that were missed one is enough."""
        passed = [look for look in self.due if share >= look]
        self.due = self.due[len(passed) :]
        return bool(passed)

    def helps(self, network: GenerativeImputer) -> bool:
        """False where the score has risen again, or the mixture has no use for it with half of the steps done.

        True where too little is seen to tell.
        """
        material = self.task.material
        n_samples = min(material.n_samples, _TRIAL_DRAWS)
        drawn = _drawn(self.task, network, n_samples, _TRIAL_WINDOWS)
        if len(drawn.truth) < LEAST:
            return True
        some = replace(material, n_samples=n_samples)
        base = replace(self.task.first.base, again=())  # they have as many draws as the answer, not as a look
        found = mixed(some, base, network, _first_draws(self.task.at, n_samples), drawn)
        score = next(float(row["CRPS"]) for row in found.scores if row["imputer"] == network.name)
        if score > (1 + _RISE) * self.best:
            return False
        if score < self.best:
            self.best = score
            self.weights = {name: of_one.clone() for name, of_one in network.network_.state_dict().items()}
        has_share = found.shares is not None and found.shares[NETWORK] > 0
        return has_share or 0.5 in self.due

    def restore(self, network: GenerativeImputer) -> None:
        """Gives a network the weights with which it was best."""
        if self.weights:
            network.network_.load_state_dict(self.weights)


def _drawn(task: _Task, network: GenerativeImputer, n_samples: int, n_windows: int) -> HiddenDraws:
    """The network's draws at hidden cells of about so many windows, those at which the process was measured."""
    material = task.material
    to_measure = max(1, windows_with_any(material.hidden, window_steps(task.training.panel)))
    cells = int(sum(of_one.size for of_one in material.hidden) * min(1.0, n_windows / to_measure))
    return draws_at(
        network, material.panel, material.hidden, n_samples=n_samples, seed=material.seed, gaps=material.gaps,
        budget=TimeBudget(cells=max(1, cells)), at=masks_of(material.hidden, task.at),
        progress=partial(task.progress, "measuring"),
    )  # fmt: skip


def _better(task: _Task, network: GenerativeImputer, of_network: HiddenDraws, stopped_early: bool) -> DeliveredModel:
    """What is delivered: nothing of the network where the score is not lower with it by more than chance."""
    material, first = task.material, task.first
    found = mixed(material, first.base, network, task.at, of_network)
    without = mixed(material, first.base, None, task.at.at(common_cells(material.hidden, task.at, of_network)[0]), None)
    gained = found.shares is not None and found.shares[NETWORK] > 0
    if gained and _score(found) <= (1 - _LEAST_GAIN) * _score(without):
        before = without.scores[-1] | {"imputer": FIRST}
        return replace(found, scores=(*found.scores[:-1], before, found.scores[-1]))
    of_network_alone = [row for row in found.scores if row["imputer"] == network.name]
    scores = (*without.scores[:-1], *of_network_alone, without.scores[-1])
    return replace(first, scores=scores, note=_not_taken(scores, stopped_early))


def _not_taken(scores: Scores, stopped_early: bool) -> str:
    """Why a network is not delivered; its row is the last but one."""
    alone, without = ({name: float(row[name]) for name in ("MAE", "CRPS")} for row in scores[-2:])
    what = "stopped before its end" if stopped_early else "not taken"
    return (
        f"a network was {what}, since it lowers the CRPS on hidden cells by less than {_LEAST_GAIN:.0%}: alone "
        f"{alone['CRPS']:.4g}, the first answer {without['CRPS']:.4g} {scores[-1]['units']} "
        f"(mean absolute error {alone['MAE']:.4g} and {without['MAE']:.4g})"
    )


def _score(answer: DeliveredModel) -> float:
    return float(answer.scores[-1]["CRPS"])


def _first_draws(at: HiddenDraws, n_samples: int) -> HiddenDraws:
    """As if only so many had been drawn: pairs of opposite draws stay pairs."""
    half = len(at.draws) - len(at.draws) // 2
    kept = -(-n_samples // 2)
    return replace(at, draws=at.draws[np.concatenate([np.arange(kept), half + np.arange(n_samples - kept)])])

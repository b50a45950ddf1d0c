"""A network beside the first answer, within a time: it is delivered as far as hidden cells say that it helps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tsimpute.filling.calibration import LEAST
from tsimpute.filling.delivering import Delivered, Material, Scores, common, masks_of, mixed
from tsimpute.filling.efforts import Effort
from tsimpute.filling.guessed_masks import GuessedMasks
from tsimpute.filling.hidden_draws import Budget, Hidden, drawn_at
from tsimpute.filling.learning import untrained
from tsimpute.filling.mixture import NETWORK
from tsimpute.filling.planning import LOOKS, Costs, Plan, TooDear, Work, plan
from tsimpute.filling.posterior_network import (
    Training,
    costs_of,
    keep_plan,
    kept_plan,
    masks_within,
    steps_of,
    windows_for,
    windows_with_any,
)  # fmt: skip
from tsimpute.filling.summary import FIRST
from tsimpute.filling.windows import window_steps
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.terminal import Tell

_LEAST_GAIN = 0.01
"""Share of the score without the network by which it has to be lower with it: what is less may be chance."""
_MASKS = 0.15
"""Share of the time for masks and what the process says of them."""
_GRACE = 0.05
"""Of the time, by how much a network that is nearly there may be late."""
_TIMING = 0.05
"""Of the time, for finding what steps and draws cost."""
_LEAST_SECONDS = 10.0
"""With less left nothing is begun."""
_MEASURING, _DRAWING = 0.45, 0.85
"""Of what is left after learning, the share of time after which measuring ends; of what is left then, for drawing."""
_TRIAL_WINDOWS, _TRIAL_DRAWS = 24, 20
"""Of a look at the network in training; the windows are those of efforts that are not timed."""
_RISE = 0.02
"""Share by which a score is higher than at a look before where learning ends."""


class _OutOfTimeError(Exception):
    """What was planned takes longer than it should."""


@dataclass(frozen=True, eq=False)
class _Task:
    """What ``improved`` is given, and how long it may take.

    Attributes:
        until: ``time.monotonic()`` at which it should end; None = it takes as long as the effort says.
        grace: seconds after that at which it ends without a network.
    """

    material: Material
    first: Delivered
    training: Training
    at: Hidden
    until: float | None
    grace: float
    progress: Tell
    should_stop: Callable[[], bool]

    @property
    def left(self) -> float:
        """Seconds."""
        return np.inf if self.until is None else self.until - time.monotonic()

    def told(self, what: str, done: int, total: int) -> None:
        """Progress; ends what takes too long."""
        self.progress(what, done, total)
        if self.left < -self.grace:
            raise _OutOfTimeError


def improved(
    material: Material, first: Delivered, effort: Effort, until: float, folder: Path | None, progress: Tell,
    should_stop: Callable[[], bool],
) -> Delivered:  # fmt: skip
    """The first answer, or a mixture with a network's draws where that is better on hidden cells.

    What learning, measuring and drawing will take is found before any of it is begun.

    Args:
        until: ``time.monotonic()`` at which drawing what is filled should be done; not looked at by efforts that are
            not timed.
        folder, progress, should_stop: see ``TableImputer.fit``.
    """
    if first.at is None or len(first.at.truth) < LEAST:
        n_cells = 0 if first.at is None else len(first.at.truth)
        return replace(first, note=f"no network: {n_cells} hidden cells are too few to tell whether it helps")
    training = Training(material.shown, first.base.blind.base, effort, material.seed, folder)
    ends, grace = until if effort.timed else None, max(0.0, _GRACE * (until - time.monotonic()))
    task = _Task(material, first, training, first.at, ends, grace, progress, should_stop)
    if task.left < _LEAST_SECONDS:
        return _without(task, f"{max(0, task.left):.0f} seconds are left", None)
    try:
        return _improved(task)
    except _OutOfTimeError:
        return replace(first, note="no network: it took longer than expected and the time is over")


def _improved(task: _Task) -> Delivered:
    training, state = task.training, task.training.state()
    began, kept = time.monotonic(), kept_plan(state)
    ends = None if task.until is None else began + _MASKS * task.left
    n_pieces = None if kept is None else int(kept["pieces"])
    masks, n_pieces = masks_within(training, ends, n_pieces, task.progress, task.should_stop)
    stopped = replace(task.first, note="no network: it was stopped before one was trained")
    if task.should_stop():
        return stopped
    if not masks.places:
        return _without(task, f"{task.left:.0f} seconds are left", None)
    work = _work(task)
    planned = Plan(training.effort.steps, _TRIAL_WINDOWS, training.effort.windows)
    if kept is not None:
        whole = {name: int(kept[name]) for name in ("steps", "trial", "measured")}
        planned = Plan(**whole, most=kept["most"], learning=kept["learning"])
    elif task.until is not None:
        planned = plan(task.left, _costs(task, masks), work)
    if isinstance(planned, TooDear):
        spent = time.monotonic() - began
        return _without(task, f"{task.left:.0f} seconds are left", spent + planned.needed)
    keep_plan(state, {**asdict(planned), "pieces": n_pieces})
    network, stopped_early = _trained(task, masks, planned, work, state)
    if task.should_stop():
        return stopped
    began, until = time.monotonic(), time.monotonic() + _MEASURING * task.left
    of_network = _drawn(task, network, task.material.n_samples, planned.measured, work, until)
    if len(of_network.truth) < LEAST:
        raise _OutOfTimeError
    each = (time.monotonic() - began) / max(1, _windows_at(task, of_network))
    most = min(1.0, np.floor(10 * _DRAWING * task.left / max(each * work.to_fill, 1e-9)) / 10)
    return _better(task, network, of_network, most, stopped_early)


def _windows_at(task: _Task, drawn: Hidden) -> int:
    """How many windows were drawn to measure."""
    return windows_with_any(masks_of(task.material.hidden, drawn), window_steps(task.training.panel))


def _costs(task: _Task, masks: GuessedMasks) -> Costs:
    material = task.material
    return costs_of(task.training, masks, material.gaps, material.n_samples, _TIMING * task.left)


def _without(task: _Task, why: str, needed: float | None) -> Delivered:
    """The first answer, with how many minutes would suffice."""
    minutes = "" if needed is None else f"; one would take about {-(-needed // 60):.0f} minutes more"
    return replace(task.first, note=f"no network: the time does not suffice, {why}{minutes}")


def _work(task: _Task) -> Work:
    """What is to be drawn and measured."""
    length, hidden = window_steps(task.training.panel), task.material.hidden
    to_measure = max(1, windows_with_any(hidden, length))
    n_hidden = max(1, sum(int(cells.sum()) for cells in hidden))
    least = int(np.ceil(min(1.0, 2 * LEAST / n_hidden) * to_measure))
    to_fill = windows_with_any(task.material.gaps, length)
    return Work(task.training.effort.steps, task.material.n_samples, to_fill, to_measure, least)


def _trained(
    task: _Task, masks: GuessedMasks, planned: Plan, work: Work, state: Path | None
) -> tuple[GenerativeImputer, bool]:
    """A network as it was when it was best, and whether it was stopped before its end since it no longer helped."""
    training = task.training
    windows = windows_for(training, masks, planned.steps)
    imputer = untrained(replace(training.effort, steps=planned.steps), len(windows), training.seed)
    looks = _Looks(task, planned, work)
    ends = time.monotonic() + planned.learning
    for step in steps_of(training, imputer, masks, windows, state, task.should_stop):
        task.told("learning", step.step, step.n_steps)
        if time.monotonic() > ends or task.should_stop():
            return imputer, False
        began = time.monotonic()
        if looks.are_due(step.step / step.n_steps) and not looks.helps(imputer):
            looks.restore(imputer)
            return imputer, True
        ends += time.monotonic() - began
    return imputer, False


class _Looks:
    """Looks at a network in training, at the same hidden cells each time.

    A network that sees the masks of a small table too often learns them by heart: its score rises again.
    """

    def __init__(self, task: _Task, planned: Plan, work: Work) -> None:
        self.task, self.planned, self.work = task, planned, work
        self.due = list(LOOKS) if planned.trial else []
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
        drawn = _drawn(self.task, network, n_samples, self.planned.trial, self.work, np.inf)
        if len(drawn.truth) < LEAST:
            return True
        some = replace(material, n_samples=n_samples)
        found = mixed(some, self.task.first.base, network, _first_draws(self.task.at, n_samples), drawn)
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


def _drawn(task: _Task, network: GenerativeImputer, n_samples: int, n_windows: int, work: Work, until: float) -> Hidden:
    """The network's draws at hidden cells of about so many windows, those at which the process was measured."""
    material = task.material
    cells = int(sum(of_one.size for of_one in material.hidden) * n_windows / work.to_measure)
    return drawn_at(
        network, material.panel, material.hidden, n_samples=n_samples, seed=material.seed, gaps=material.gaps,
        budget=Budget(cells=max(1, cells), until=until), at=masks_of(material.hidden, task.at),
        progress=partial(task.told, "measuring"),
    )  # fmt: skip


def _better(task: _Task, network: GenerativeImputer, of_network: Hidden, most: float, stopped_early: bool) -> Delivered:
    """What is delivered: nothing of the network where the score is not lower with it by more than chance."""
    material, first = task.material, task.first
    found = mixed(material, first.base, network, task.at, of_network, most)
    without = mixed(material, first.base, None, task.at.at(common(material.hidden, task.at, of_network)[0]), None)
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


def _score(answer: Delivered) -> float:
    return float(answer.scores[-1]["CRPS"])


def _first_draws(at: Hidden, n_samples: int) -> Hidden:
    """As if only so many had been drawn: pairs of opposite draws stay pairs."""
    half = len(at.draws) - len(at.draws) // 2
    kept = -(-n_samples // 2)
    return replace(at, draws=at.draws[np.concatenate([np.arange(kept), half + np.arange(n_samples - kept)])])

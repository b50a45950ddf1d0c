"""The first answer improved by a network that starts from the process's posterior, if it helps on hidden cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tsimpute.core.panel import Panel
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Windows
from tsimpute.filling.blending.choosing import common_cells, masks_of, mixed
from tsimpute.filling.blending.delivered import DeliveredModel, FittingData, Scores
from tsimpute.filling.blending.mixture import NETWORK
from tsimpute.filling.learning.learning import Effort, fingerprint, untrained
from tsimpute.filling.learning.posterior_masks import PosteriorMasks
from tsimpute.filling.measuring.calibration import LEAST
from tsimpute.filling.measuring.hidden_draws import HiddenDraws, TimeBudget, draws_at
from tsimpute.filling.panels.windows import training_hop, training_windows, window_places, window_steps, windows_at
from tsimpute.filling.preparing.summary import FIRST
from tsimpute.generative.window_averaging import usual_stride, window_starts
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.imputers.network.starting import digest_of
from tsimpute.system.run import Run
from tsimpute.training.progress import Step

_LEAST_GAIN = 0.01
"""Share of the score without the network by which it has to be lower with it: what is less may be chance."""
_LOOKS = (0.25, 0.5, 0.75)
"""Shares of the steps after which the network is validated."""
_TRIAL_WINDOWS, _TRIAL_DRAWS = 24, 20
"""Of a validation during training."""
_RISE = 0.02
"""Training ends if the score is higher by this share than at an earlier validation."""
_FOLDS, _FOLDS_OF_LARGE, _LARGE = 4, 2, 150_000
"""Processes of cross-fitting, and those of tables with more cells than that."""
_BATCH, _TIMES_SEEN, _MASKS = 16, 10, (4, 64)
"""Windows of an optimiser step; how often a window is seen with one mask, about; fewest and most masks."""


@dataclass(frozen=True, eq=False)
class _Task:
    """The arguments of ``with_network``, and its draws ``at`` hidden cells."""

    data: FittingData
    first: DeliveredModel
    training: Training
    at: HiddenDraws
    run: Run


def with_network(data: FittingData, first: DeliveredModel, effort: Effort, run: Run) -> DeliveredModel:
    """The first answer, or a mixture with a network's draws if that is better on hidden cells."""
    if first.at is None or len(first.at.truth) < LEAST:
        n_cells = 0 if first.at is None else len(first.at.truth)
        return replace(first, note=f"no network: {n_cells} hidden cells are too few to tell whether it helps")
    training = Training(data.visible, first.base.blind.base, effort, data.seed)
    task = _Task(data, first, training, first.at, run)
    masks = masks_of_panel(training, run)
    stopped = replace(first, note="no network: it was stopped before one was trained")
    if run.should_stop():
        return stopped
    network, stopped_early = _trained(task, masks)
    if run.should_stop():
        return stopped
    of_network = _drawn(task, network, data.n_samples, effort.windows)
    if len(of_network.truth) < LEAST:
        return replace(first, note="no network: too few hidden cells were drawn to tell whether it helps")
    return _better(task, network, of_network, stopped_early)


def _trained(task: _Task, masks: PosteriorMasks) -> tuple[GenerativeImputer, bool]:
    """The network at its best score, and whether training was stopped early."""
    training = task.training
    windows = windows_for(training, masks, training.effort.steps)
    imputer = untrained(training.effort, len(windows), training.seed)
    looks = _Looks(task)
    for step in steps_of(training, imputer, masks, windows, task.run):
        task.run.progress("learning", step.step, step.n_steps)
        if task.run.should_stop():
            return imputer, False
        if looks.are_due(step.step / step.n_steps) and not looks.helps(imputer):
            looks.restore(imputer)
            return imputer, True
    return imputer, False


class _Looks:
    """Validates a network during training, always at the same hidden cells.

    A network that sees the masks of a small table too often overfits: its score rises again.
    """

    def __init__(self, task: _Task) -> None:
        self.task, self.due = task, list(_LOOKS)
        self.best = np.inf
        self.weights: dict[str, Any] = {}

    def are_due(self, share: float) -> bool:
        """Whether a validation is due after this share of the steps; one makes up for several that were missed."""
        passed = [look for look in self.due if share >= look]
        self.due = self.due[len(passed) :]
        return bool(passed)

    def helps(self, network: GenerativeImputer) -> bool:
        """False if the score has risen again, or the mixture does not use the network after half of the steps.

        True if there are too few cells to tell.
        """
        data = self.task.data
        n_samples = min(data.n_samples, _TRIAL_DRAWS)
        drawn = _drawn(self.task, network, n_samples, _TRIAL_WINDOWS)
        if len(drawn.truth) < LEAST:
            return True
        some = replace(data, n_samples=n_samples)
        base = replace(self.task.first.base, again=())  # they have as many draws as the answer, not as a look
        mixture = mixed(some, base, network, _first_draws(self.task.at, n_samples), drawn)
        score = next(float(row["CRPS"]) for row in mixture.scores if row["imputer"] == network.name)
        if score > (1 + _RISE) * self.best:
            return False
        if score < self.best:
            self.best = score
            self.weights = {name: weight.clone() for name, weight in network.network_.state_dict().items()}
        is_used = mixture.shares is not None and mixture.shares[NETWORK] > 0
        return is_used or 0.5 in self.due

    def restore(self, network: GenerativeImputer) -> None:
        """Gives a network the weights with which it was best."""
        if self.weights:
            network.network_.load_state_dict(self.weights)


def _drawn(task: _Task, network: GenerativeImputer, n_samples: int, n_windows: int) -> HiddenDraws:
    """The network's draws at hidden cells of about so many windows, those at which the process was measured."""
    data = task.data
    to_measure = max(1, windows_with_any(data.hidden, window_steps(task.training.panel)))
    cells = int(sum(part.size for part in data.hidden) * min(1.0, n_windows / to_measure))
    return draws_at(
        network, data.panel, data.hidden, n_samples=n_samples, seed=data.seed, gaps=data.gaps,
        budget=TimeBudget(cells=max(1, cells)), at=masks_of(data.hidden, task.at),
        progress=partial(task.run.progress, "measuring"),
    )  # fmt: skip


def _better(task: _Task, network: GenerativeImputer, of_network: HiddenDraws, stopped_early: bool) -> DeliveredModel:
    """What is delivered: nothing of the network where the score is not lower with it by more than chance."""
    data, first = task.data, task.first
    mixture = mixed(data, first.base, network, task.at, of_network)
    without = mixed(data, first.base, None, task.at.at(common_cells(data.hidden, task.at, of_network)[0]), None)
    gained = mixture.shares is not None and mixture.shares[NETWORK] > 0
    if gained and _score(mixture) <= (1 - _LEAST_GAIN) * _score(without):
        before = without.scores[-1] | {"imputer": FIRST}
        return replace(mixture, scores=(*mixture.scores[:-1], before, mixture.scores[-1]))
    of_network_alone = [row for row in mixture.scores if row["imputer"] == network.name]
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
    n_first = -(-n_samples // 2)
    return replace(at, draws=at.draws[np.concatenate([np.arange(n_first), half + np.arange(n_samples - n_first)])])


@dataclass(frozen=True)
class Training:
    """The data and settings of a network's training.

    Attributes:
        panel: of visible values, without known covariates.
        base: the process, fitted to it.
        effort: size of the network.
        seed: of everything that is drawn.
    """

    panel: Panel
    base: GaussianImputer
    effort: Effort
    seed: int

    def state(self, folder: Path | None) -> Path | None:
        """The folder of the state of exactly this training."""
        if folder is None:
            return None
        windows = training_windows(self.panel, window_steps(self.panel))
        name = fingerprint(windows, self.base.scaler_, self.effort, self.seed)
        return folder / f"{name}-{digest_of(self.base.model_.to_arrays())}"


def masks_of_panel(training: Training, run: Run) -> PosteriorMasks:
    """Masks of the panel, with the posteriors of processes at the cells that they hide."""
    n_cells = sum(series.values.size for series in training.panel.series)
    n_folds = _FOLDS if n_cells <= _LARGE else _FOLDS_OF_LARGE
    masks = PosteriorMasks(training.panel, training.base, training.seed, n_folds, _n_masks(training), run.should_stop)
    for done, (number, n) in enumerate(masks.pieces, 1):
        masks.make(number, n)
        if run.should_stop():
            break
        run.progress("fitting", done, len(masks.pieces))
    length = window_steps(training.panel)
    masks.take(window_places(training.panel, length, training_hop(training.panel, length)), length)
    return masks


def _n_masks(training: Training) -> int:
    """So many that a training sees each mask of a window a few times."""
    length = window_steps(training.panel)
    n_steps = sum(len(series.times) for series in training.panel.series)
    n_windows = max(1, n_steps // training_hop(training.panel, length))
    return int(np.clip(_BATCH * training.effort.steps // (_TIMES_SEEN * n_windows), *_MASKS))


def steps_of(
    training: Training, imputer: GenerativeImputer, masks: PosteriorMasks, windows: Windows, run: Run
) -> Iterator[Step]:  # fmt: skip
    """The optimiser steps of a training."""
    base = training.base
    return imputer.fit_steps(
        windows, scaler=base.scaler_, base=base.model_, time_unit=training.panel.clock.unit,
        folder=training.state(run.folder), should_stop=run.should_stop, masks=masks,
    )  # fmt: skip


def windows_for(training: Training, masks: PosteriorMasks, n_steps: int) -> Windows:
    """Windows to learn from, no more than two epochs of them have steps for."""
    most = max(16, 8 * n_steps)
    if len(masks.places) > most:
        rng = np.random.default_rng(derive_seed(training.seed, "windows to learn from"))
        chosen = np.sort(rng.permutation(len(masks.places))[:most])
        masks.take([masks.places[n] for n in chosen], window_steps(training.panel))
    return windows_at(training.panel, masks.places, window_steps(training.panel))


def windows_with_any(cells: Sequence[np.ndarray], length: int) -> int:
    """The number of windows that contain any of the cells, per series (K, T) bool, where windows overlap by a third."""
    n_windows = 0
    for of_series in cells:
        n_steps, steps = of_series.shape[1], np.flatnonzero(of_series.any(0))
        starts = np.array(window_starts(n_steps, min(length, n_steps), usual_stride(length)))
        first, after = (np.searchsorted(steps, starts + more) for more in (0, length))
        n_windows += int((first < after).sum())
    return n_windows

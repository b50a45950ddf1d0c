"""The first answer improved by a network that starts from the process's posterior, if it helps on hidden cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tsimpute.core.panel import Panel
from tsimpute.core.seeding import derive_seed
from tsimpute.filling.blending.choosing import FIRST, DeliveredModel, FittingData, common_cells, mixed
from tsimpute.filling.blending.mixture import NETWORK
from tsimpute.filling.learning.learning import Effort, fingerprint, untrained
from tsimpute.filling.learning.posterior_masks import PosteriorMasks
from tsimpute.filling.measuring.calibration import LEAST
from tsimpute.filling.measuring.hidden_draws import HiddenDraws
from tsimpute.filling.panels.windows import training_hop, training_windows, window_places, window_steps, windows_at
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


def with_network(data: FittingData, first: DeliveredModel, effort: Effort, run: Run) -> DeliveredModel:
    """The first answer, or a mixture with a network's draws if that is better on hidden cells."""
    if first.at is None or len(first.at.truth) < LEAST:
        n_cells = 0 if first.at is None else len(first.at.truth)
        return replace(first, note=f"no network: {n_cells} hidden cells are too few to tell whether it helps")
    training = Training(data.visible, first.base.blind.base, effort, data.seed)
    stopped = replace(first, note="no network: it was stopped before one was trained")
    masks = training.masks(run)
    if run.should_stop():
        return stopped
    looks = _Looks(data, first, first.at, run)
    network, stopped_early = looks.trained(*training.started(masks, run))
    if run.should_stop():
        return stopped
    of_network = looks.drawn(network, data.n_samples, effort.windows)
    if len(of_network.truth) < LEAST:
        return replace(first, note="no network: too few hidden cells were drawn to tell whether it helps")
    mixture = mixed(data, first.base, network, first.at, of_network)
    without = mixed(data, first.base, None, first.at.at(common_cells(data.hidden, first.at, of_network)[0]), None)
    after, before = (float(answer.scores[-1]["CRPS"]) for answer in (mixture, without))
    if mixture.shares is not None and mixture.shares[NETWORK] > 0 and after <= (1 - _LEAST_GAIN) * before:
        of_first = without.scores[-1] | {"imputer": FIRST}
        return replace(mixture, scores=(*mixture.scores[:-1], of_first, mixture.scores[-1]))
    alone = [row for row in mixture.scores if row["imputer"] == network.name]
    what = "stopped before its end" if stopped_early else "not taken"
    row, of_first = alone[-1], without.scores[-1]
    note = (
        f"a network was {what}, since it lowers the CRPS on hidden cells by less than {_LEAST_GAIN:.0%}: alone "
        f"{row['CRPS']:.4g}, the first answer {of_first['CRPS']:.4g} {of_first['units']} "
        f"(mean absolute error {row['MAE']:.4g} and {of_first['MAE']:.4g})"
    )
    return replace(first, scores=(*without.scores[:-1], *alone, of_first), note=note)


class _Looks:
    """Validates a network during training, always at the same hidden cells.

    A network that sees the masks of a small table too often overfits: its score rises again.

    Args:
        at: draws of the first answer's process at hidden cells.
    """

    def __init__(self, data: FittingData, first: DeliveredModel, at: HiddenDraws, run: Run) -> None:
        self.data, self.first, self.at, self.run = data, first, at, run
        self.due, self.best = list(_LOOKS), np.inf
        self.weights: dict[str, Any] = {}

    def trained(self, network: GenerativeImputer, steps: Iterator[Step]) -> tuple[GenerativeImputer, bool]:
        """The network at its best score, and whether training was stopped early."""
        for step in steps:
            self.run.progress("learning", step.step, step.n_steps)
            if self.run.should_stop():
                break
            # One validation makes up for several that were missed.
            passed = [look for look in self.due if step.step / step.n_steps >= look]
            self.due = self.due[len(passed) :]
            if passed and not self.helps(network):
                if self.weights:
                    network.network_.load_state_dict(self.weights)
                return network, True
        return network, False

    def helps(self, network: GenerativeImputer) -> bool:
        """False if the score has risen again, or the mixture does not use the network after half of the steps.

        True if there are too few cells to tell.
        """
        n_samples = min(self.data.n_samples, _TRIAL_DRAWS)
        drawn = self.drawn(network, n_samples, _TRIAL_WINDOWS)
        if len(drawn.truth) < LEAST:
            return True
        # As if only so many had been drawn: pairs of opposite draws stay pairs.
        half, n_first = len(self.at.draws) - len(self.at.draws) // 2, -(-n_samples // 2)
        pairs = np.concatenate([np.arange(n_first), half + np.arange(n_samples - n_first)])
        base = replace(self.first.base, again=())  # they have as many draws as the answer, not as a look
        some, at = replace(self.data, n_samples=n_samples), replace(self.at, draws=self.at.draws[pairs])
        mixture = mixed(some, base, network, at, drawn)
        score = next(float(row["CRPS"]) for row in mixture.scores if row["imputer"] == network.name)
        if score > (1 + _RISE) * self.best:
            return False
        if score < self.best:
            self.best = score
            self.weights = {name: weight.clone() for name, weight in network.network_.state_dict().items()}
        is_used = mixture.shares is not None and mixture.shares[NETWORK] > 0
        return is_used or 0.5 in self.due

    def drawn(self, network: GenerativeImputer, n_samples: int, n_windows: int) -> HiddenDraws:
        """The network's draws at hidden cells of about so many windows, those at which the process was measured."""
        data = replace(self.data, n_samples=n_samples)
        to_measure = max(1, windows_with_any(data.hidden, window_steps(data.panel)))
        cells = int(sum(part.size for part in data.hidden) * min(1.0, n_windows / to_measure))
        return data.drawn(network, self.run.progress, self.at, max(1, cells))


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

    def masks(self, run: Run) -> PosteriorMasks:
        """Masks of the panel, with the posteriors of processes at the cells that they hide.

        There are so many that a training sees each mask of a window a few times.
        """
        length = window_steps(self.panel)
        stride = training_hop(self.panel, length)
        n_windows = max(1, sum(len(series.times) for series in self.panel.series) // stride)
        n_masks = int(np.clip(_BATCH * self.effort.steps // (_TIMES_SEEN * n_windows), *_MASKS))
        n_cells = sum(series.values.size for series in self.panel.series)
        n_folds = _FOLDS if n_cells <= _LARGE else _FOLDS_OF_LARGE
        masks = PosteriorMasks(self.panel, self.base, self.seed, n_folds, n_masks, run.should_stop)
        for done, (number, n) in enumerate(masks.pieces, 1):
            masks.make(number, n)
            if run.should_stop():
                break
            run.progress("fitting", done, len(masks.pieces))
        masks.take(window_places(self.panel, length, stride), length)
        return masks

    def started(self, masks: PosteriorMasks, run: Run) -> tuple[GenerativeImputer, Iterator[Step]]:
        """A new network, and the optimiser steps of its training; a state of exactly this one is taken up."""
        length, most = window_steps(self.panel), max(16, 8 * self.effort.steps)
        if len(masks.places) > most:  # no more windows than two epochs of them have steps for
            rng = np.random.default_rng(derive_seed(self.seed, "windows to learn from"))
            chosen = np.sort(rng.permutation(len(masks.places))[:most])
            masks.take([masks.places[n] for n in chosen], length)
        windows = windows_at(self.panel, masks.places, length)
        imputer, state = untrained(self.effort, len(windows), self.seed), run.folder
        if state is not None:
            every = training_windows(self.panel, length)
            name = fingerprint(every, self.base.scaler_, self.effort, self.seed)
            state = state / f"{name}-{digest_of(self.base.model_.to_arrays())}"
        return imputer, imputer.fit_steps(
            windows, scaler=self.base.scaler_, base=self.base.model_, time_unit=self.panel.clock.unit,
            folder=state, should_stop=run.should_stop, masks=masks,
        )  # fmt: skip


def windows_with_any(cells: Sequence[np.ndarray], length: int) -> int:
    """The number of windows that contain any of the cells, per series (K, T) bool, where windows overlap by a third."""
    n_windows = 0
    for of_series in cells:
        n_steps, steps = of_series.shape[1], np.flatnonzero(of_series.any(0))
        starts = np.array(window_starts(n_steps, min(length, n_steps), usual_stride(length)))
        first, after = (np.searchsorted(steps, starts + more) for more in (0, length))
        n_windows += int((first < after).sum())
    return n_windows

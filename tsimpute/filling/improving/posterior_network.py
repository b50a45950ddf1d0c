"""A network of a table that starts from the posterior of the table's process: its masks and its training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tsimpute.core.panel import Panel
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Windows
from tsimpute.filling.learning.efforts import Effort
from tsimpute.filling.learning.guessed_masks import GuessedMasks
from tsimpute.filling.learning.learning import fingerprint
from tsimpute.filling.panels.windows import training_hop, training_windows, window_places, window_steps, windows_at
from tsimpute.generative.joining import window_starts
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.imputers.network.start import digest_of
from tsimpute.system.terminal import Tell
from tsimpute.training.progress import Step

_FOLDS, _FOLDS_OF_LARGE, _LARGE = 4, 2, 150_000
"""Processes that guess for training, and those of tables with more cells than that."""
_OVERLAP = 1 / 3
_BATCH, _TIMES_SEEN, _MASKS = 16, 10, (4, 64)
"""Windows of an optimiser step; how often a window is seen with one mask, about; fewest and most masks."""


@dataclass(frozen=True)
class Training:
    """What a network learns from; its cells may be seen.

    Attributes:
        panel: of its own features alone.
        base: the process, fitted to it.
        effort: size of the network.
        seed: of everything that is drawn.
        folder: where a state is kept and taken up; None = nowhere.
    """

    panel: Panel
    base: GaussianImputer
    effort: Effort
    seed: int
    folder: Path | None

    def state(self) -> Path | None:
        """Folder of the state for this panel, process, effort and seed alone."""
        if self.folder is None:
            return None
        windows = training_windows(self.panel, window_steps(self.panel))
        own = fingerprint(windows, self.base.scaler_, self.effort, self.seed)
        return self.folder / f"{own}-{digest_of(self.base.model_)}"


def masks_of_panel(training: Training, progress: Tell, should_stop: Callable[[], bool]) -> GuessedMasks:
    """Masks of the panel, with what processes say of the cells that they hide."""
    n_cells = sum(series.values.size for series in training.panel.series)
    n_folds = _FOLDS if n_cells <= _LARGE else _FOLDS_OF_LARGE
    masks = GuessedMasks(training.panel, training.base, training.seed, n_folds, _n_masks(training), should_stop)
    for done, (number, n) in enumerate(masks.pieces, 1):
        masks.make(number, n)
        if should_stop():
            break
        progress("fitting", done, len(masks.pieces))
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
    training: Training, imputer: GenerativeImputer, masks: GuessedMasks, windows: Windows, state: Path | None,
    should_stop: Callable[[], bool],
) -> Iterator[Step]:  # fmt: skip
    """The optimiser steps of a training."""
    base = training.base
    return imputer.fit_steps(
        windows, scaler=base.scaler_, base=base.model_, time_unit=training.panel.clock.unit, folder=state,
        should_stop=should_stop, masks=masks,
    )  # fmt: skip


def windows_for(training: Training, masks: GuessedMasks, n_steps: int) -> Windows:
    """Windows to learn from, no more than two epochs of them have steps for."""
    most = max(16, 8 * n_steps)
    if len(masks.places) > most:
        rng = np.random.default_rng(derive_seed(training.seed, "windows to learn from"))
        chosen = np.sort(rng.permutation(len(masks.places))[:most])
        masks.take([masks.places[n] for n in chosen], window_steps(training.panel))
    return windows_at(training.panel, masks.places, window_steps(training.panel))


def windows_with_any(cells: Sequence[np.ndarray], length: int) -> int:
    """How many windows a network draws to fill cells, per series (K, T) bool."""
    return sum(len(_with_any(of_series, length)) for of_series in cells)


def _with_any(cells: np.ndarray, length: int) -> list[int]:
    n_steps, any_cell = cells.shape[1], np.flatnonzero(cells.any(0))
    starts = window_starts(n_steps, min(length, n_steps), max(1, round(length * (1 - _OVERLAP))))
    first, after = (np.searchsorted(any_cell, np.array(starts) + more) for more in (0, length))
    return [start for start, holds in zip(starts, (first < after).tolist(), strict=True) if holds]

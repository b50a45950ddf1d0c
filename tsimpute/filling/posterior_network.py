"""A network of a table that starts from the posterior of the table's process: its masks, its costs, its training."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tsimpute.filling.efforts import Effort
from tsimpute.filling.guessed_masks import GuessedMasks
from tsimpute.filling.learning import fingerprint, untrained
from tsimpute.filling.planning import Costs
from tsimpute.filling.windows import (
    clock_times,
    training_hop,
    training_windows,
    window_places,
    window_steps,
    windows_at,
)  # fmt: skip
from tsimpute.imputers._base import digest_of
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.joining import window_starts
from tsimpute.panel import Panel
from tsimpute.seeding import derive_seed
from tsimpute.terminal import Tell
from tsimpute.training import Step
from tsimpute.windows import Windows

_FOLDS, _FOLDS_OF_LARGE, _LARGE = 4, 2, 150_000
"""Processes that guess for training, and those of tables with more cells than that."""
_TIMED_STEPS, _TIMED_WINDOWS = 4, 3
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


def masks_within(
    training: Training, until: float | None, n_pieces: int | None, progress: Tell, should_stop: Callable[[], bool]
) -> tuple[GuessedMasks, int]:
    """Masks of the panel, and how many pieces of them were made.

    Args:
        until: ``time.monotonic()`` at which no further one is begun; None = all are made.
        n_pieces: so many are made, whatever the time; None = as ``until`` says.
    """
    late = lambda: n_pieces is None and until is not None and time.monotonic() > until
    n_cells = sum(series.values.size for series in training.panel.series)
    n_folds = _FOLDS if n_cells <= _LARGE else _FOLDS_OF_LARGE
    masks = GuessedMasks(
        training.panel, training.base, training.seed, n_folds, _n_masks(training), lambda: late() or should_stop()
    )
    pieces, done = masks.pieces[:n_pieces], 0
    for number, n in pieces:
        masks.make(number, n)
        if late() or should_stop():
            break  # the process that guessed this one may have been stopped half-way
        done += 1
        progress("fitting", done, len(pieces))
    length = window_steps(training.panel)
    masks.take(window_places(training.panel, length, training_hop(training.panel, length)), length)
    return masks, done


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


def costs_of(training: Training, masks: GuessedMasks, gaps: Sequence[np.ndarray], n_samples: int, most: float) -> Costs:
    """What a step and a draw of a window cost, by a few of each with a network that has learnt nothing.

    Args:
        most: seconds, about; where one of them takes longer, that one is all that is looked at.
    """
    started = time.monotonic()
    windows = windows_for(training, masks, 16)
    imputer = untrained(replace(training.effort, steps=100), len(windows), training.seed)
    steps = steps_of(training, imputer, masks, windows, None, lambda: False)
    next(steps)  # the first one loads libraries
    began, n_timed = time.monotonic(), 0
    while n_timed < _TIMED_STEPS and next(steps, None) is not None:
        n_timed += 1
        if time.monotonic() - started > most / 2:
            break
    step = (time.monotonic() - began) / max(1, n_timed)
    del steps  # ends it
    records = _records(training.panel, gaps, training.seed)
    drawn = []
    for n, (record, fill) in enumerate(records):
        began = time.monotonic()
        for _ in imputer.impute_long(record, n_samples, n, fill):
            pass
        drawn.append((time.monotonic() - began) / n_samples)
        if time.monotonic() - started > most:
            break
    # The first one loads libraries; of the others some are dearer than the mean says.
    return Costs(step, max(float(np.mean(drawn[1:])), float(np.median(drawn[1:]))) if len(drawn) > 1 else drawn[0])


def _records(panel: Panel, gaps: Sequence[np.ndarray], seed: int) -> list[tuple[Windows, np.ndarray]]:
    """A few windows with gaps, on the clock of their series, and what is to be filled in them."""
    length = window_steps(panel)
    places = [(s, start) for s, of_one in enumerate(gaps) for start in _with_any(of_one, length)]
    rng = np.random.default_rng(derive_seed(seed, "timed windows"))
    found = []
    for n in rng.permutation(len(places))[: 1 + _TIMED_WINDOWS].tolist():
        s, start = places[n]
        steps, series = slice(start, start + length), panel.series[s]
        times = clock_times(series, panel.clock)[steps]
        record = Windows(series.values[None, :, steps], times[None], panel.features, (f"{series.name}@{start}",))
        found.append((record, gaps[s][None, :, steps] & ~record.shown))
    return found


def windows_with_any(cells: Sequence[np.ndarray], length: int) -> int:
    """How many windows a network draws to fill cells, per series (K, T) bool."""
    return sum(len(_with_any(of_series, length)) for of_series in cells)


def _with_any(cells: np.ndarray, length: int) -> list[int]:
    n_steps, any_cell = cells.shape[1], np.flatnonzero(cells.any(0))
    starts = window_starts(n_steps, min(length, n_steps), max(1, round(length * (1 - _OVERLAP))))
    first, after = (np.searchsorted(any_cell, np.array(starts) + more) for more in (0, length))
    return [start for start, holds in zip(starts, (first < after).tolist(), strict=True) if holds]


def kept_plan(state: Path | None) -> dict[str, float] | None:
    """What an interrupted call had planned; None where there is nothing, or nothing that can be read."""
    path = None if state is None else state / "plan.json"
    if path is None or not path.is_file():
        return None
    try:
        found = json.loads(path.read_text())
        return {name: float(found[name]) for name in ("steps", "trial", "measured", "most", "learning", "pieces")}
    except (ValueError, LookupError, TypeError):
        return None


def keep_plan(state: Path | None, plan: dict[str, float]) -> None:
    """For a later call that goes on."""
    if state is not None:
        state.mkdir(parents=True, exist_ok=True)
        (state / "plan.json").write_text(json.dumps(plan))

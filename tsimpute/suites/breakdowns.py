"""Where a method is good and where not: scores by length of the gap, and how much its intervals of every width hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tsimpute.core.quantiles import fewest_draws
from tsimpute.core.windows import Windows
from tsimpute.evaluation.ensembles import interval_holds
from tsimpute.evaluation.kept_samples import read_cells
from tsimpute.evaluation.metrics import Scores
from tsimpute.suites.results import Part

BINS = ("1", "2-3", "4-6", "7-12", "13-24", "25+", "no value in the record")
"""Lengths of a gap in steps; the last: the record shows no value of that feature."""

_STARTS = np.array([1, 2, 4, 7, 13, 25])
LEVELS = (10, 20, 30, 40, 50, 60, 70, 80, 90, 95)
"""Central intervals, in percent."""

BY_GAP = ("crps", "crps_fair", "mae_median", "rmse_mean", "coverage_90")


def gap_lengths(shown: np.ndarray) -> np.ndarray:
    """(N, K, L) int: for each cell that is not shown the length in steps of the gap it lies in; 0 for shown cells.

    Args:
        shown: (N, K, L) bool. Gaps at the ends of a record count as far as the record goes; a feature of a record
            without any shown cell is one gap of -1.
    """
    steps = np.arange(shown.shape[-1])
    before = np.maximum.accumulate(np.where(shown, steps, -1), axis=-1)
    after = np.minimum.accumulate(np.where(shown, steps, len(steps))[..., ::-1], axis=-1)[..., ::-1]
    lengths = np.where(shown, 0, after - before - 1)
    return np.where(shown.any(-1, keepdims=True), lengths, -1)


def breakdown(windows: Windows, samples: Path) -> list[Part]:
    """The parts of an evaluation of these records, from the samples that it kept, in the units of its scores."""
    header, chunks = read_cells(samples)
    place = {record_id: n for n, record_id in enumerate(windows.record_ids)}
    lengths_of_gaps = gap_lengths(windows.without_held_out().visible)
    scores, holds, n_cells, epoch = Scores(BINS), np.zeros(len(LEVELS)), 0, header.context.epoch
    for cells in chunks:
        draws, truth = header.in_units(cells)
        records = np.array([place[str(record_id)] for record_id in cells.record_ids])
        lengths = lengths_of_gaps[records[cells.record], cells.feature, cells.step]
        bins = np.where(lengths < 0, len(BINS) - 1, np.searchsorted(_STARTS, lengths, side="right") - 1)
        scores.update_cells(draws, truth, cells.record, bins, cells.record_ids.tolist())
        holds += [interval_holds(draws, truth, level).sum() for level in LEVELS]
        n_cells += len(truth)
    gaps = [score for score in scores.values() if score.feature != "all" and score.metric in BY_GAP]
    parts = [Part(epoch, "gap", score.feature, score.metric, score.value, score.n_cells) for score in gaps]
    for level, n_held in zip(LEVELS, holds, strict=True):
        if (scores.n_samples or 0) >= fewest_draws(level):  # else the range of the draws says nothing of this level
            share = n_held / n_cells if n_cells else None
            parts.append(Part(epoch, "interval", str(level), "coverage", share, n_cells))
    return parts

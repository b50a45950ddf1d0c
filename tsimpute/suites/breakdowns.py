"""Where a method is good and where not: scores by length of the gap, and how much its intervals of every width hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tsimpute.core.quantiles import fewest_draws
from tsimpute.core.windows import Windows
from tsimpute.evaluation.ensembles import interval_holds
from tsimpute.evaluation.kept_samples import Cells, Header
from tsimpute.evaluation.metrics import Scores

BINS = ("1", "2-3", "4-6", "7-12", "13-24", "25+", "no value in the record")
"""Lengths of a gap in steps; the last: the record shows no value of that feature."""

_STARTS = np.array([1, 2, 4, 7, 13, 25])
LEVELS = (10, 20, 30, 40, 50, 60, 70, 80, 90, 95)
"""Central intervals, in percent."""

BY_GAP = ("crps", "crps_fair", "mae_median", "rmse_mean", "coverage_90")


@dataclass(frozen=True)
class Part:
    """One number of a breakdown.

    Attributes:
        kind: "gap" (``key`` is one of ``BINS``) or "interval" (``key`` is its width in percent).
        metric: of ``BY_GAP``, or "coverage".
        value: None where nothing was scored.
    """

    kind: str
    key: str
    metric: str
    value: float | None
    n_cells: int


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


class Breakdown:
    """Adds up the parts chunk by chunk, in the units of the scores.

    Args:
        windows: the records that are scored.
    """

    def __init__(self, windows: Windows) -> None:
        self._at = {record_id: n for n, record_id in enumerate(windows.record_ids)}
        self._lengths = gap_lengths(windows.without_held_out().shown)
        self._scores = Scores(BINS)
        self._holds, self._n = np.zeros(len(LEVELS)), 0

    def add(self, cells: Cells, header: Header) -> None:
        """Adds a chunk that an evaluation kept."""
        draws, truth = header.in_units(cells)
        records = np.array([self._at[str(record_id)] for record_id in cells.record_ids])
        lengths = self._lengths[records[cells.record], cells.feature, cells.step]
        bins = np.where(lengths < 0, len(BINS) - 1, np.searchsorted(_STARTS, lengths, side="right") - 1)
        self._scores.update_cells(draws, truth, cells.record, bins, cells.record_ids.tolist())
        self._holds += [interval_holds(draws, truth, level).sum() for level in LEVELS]
        self._n += len(truth)

    def parts(self) -> Iterator[Part]:
        for score in self._scores.values():
            if score.feature != "all" and score.metric in BY_GAP:
                yield Part("gap", score.feature, score.metric, score.value, score.n_cells)
        for level, holds in zip(LEVELS, self._holds, strict=True):
            if (self._scores.n_samples or 0) < fewest_draws(level):  # the range of the draws says nothing of this level
                continue
            yield Part("interval", str(level), "coverage", holds / self._n if self._n else None, self._n)

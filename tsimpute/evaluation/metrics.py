"""Scores of samples against the truth: per feature and over all, added up record by record in float64.

Memory does not grow with the number of records. Sums are carried in three words each, so that neither the order nor
the size of the chunks shows in a result. What cannot be computed is None with a note that says why, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tsimpute.core.quantiles import fewest_draws, most_coverage
from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.errors import DataError
from tsimpute.evaluation.ensembles import CELL_SCORES, INTERVALS, cell_scores

METRICS = (
    "crps",
    "crps_fair",
    "ncrps",
    "mae_median",
    "rmse_mean",
    "mae_lower_median",
    "rmse_lower_median",
    *(f"coverage_{percent}" for percent in INTERVALS),
)
"""Metrics given for every feature and for ``"all"``."""

OVER_FEATURES = ("crps_mean_over_features", "crps_fair_mean_over_features")
"""Metrics given for ``"all"`` only: the mean of the features' own values, each feature counting once."""

PURE_NUMBERS = frozenset({"ncrps", *(f"coverage_{percent}" for percent in INTERVALS)})
"""Metrics without a unit; all others have the unit of the data."""
SOURCE = {
    "mae_median": "abs_median",
    "rmse_mean": "sq_mean",
    "mae_lower_median": "abs_lower",
    "rmse_lower_median": "sq_lower",
}
"""Which of ``CELL_SCORES`` a metric is made of, where the name is another one."""


@dataclass(frozen=True)
class Score:
    """One value of one metric.

    Attributes:
        feature: a feature's name, or "all".
        value: None where the metric is undefined; the note says why.
        n_cells: scored cells that hold a truth.
        n_records: records with at least one such cell.
        note: what a reader must know of the value, "" if nothing.
    """

    metric: str
    feature: str
    value: float | None
    n_cells: int
    n_records: int
    note: str = ""


def check_records(samples: Samples, windows: Windows) -> None:
    """Refuses samples that do not complete these very windows.

    Raises:
        DataError: other features, units, order, records or shape; other shown cells; a shown value was changed (which
            is also how swapped axes of equal length come to light).
    """
    for name in ("features", "record_ids"):
        given, expected = getattr(samples, name), getattr(windows, name)
        if given != expected:
            pairs = [f"{a} for {b}" for a, b in zip(given, expected, strict=False) if a != b]
            what = pairs[0] if pairs else f"{len(given)} for {len(expected)}"
            raise DataError(f"samples: expected the {name} of the windows, in their order; came {what}.")
    if samples.values.shape[1:] != windows.values.shape:
        raise DataError(f"samples: expected windows of shape {windows.values.shape}, came {samples.values.shape[1:]}.")
    if not np.array_equal(samples.visible, windows.visible):
        raise DataError("samples: their shown cells are not those of the windows; are axes or records swapped?")
    observed = windows.values[windows.visible]
    if not all(np.array_equal(draw[windows.visible], observed) for draw in samples.values):
        raise DataError(
            "samples: expected every shown cell to hold the observed value; some hold others. "
            "Are axes swapped, records reordered, or values left in scaled units?"
        )


class Scores:
    """Adds up what the metrics need, chunk of records by chunk of records.

    Definitions, over the scored cells of a feature or of all features (y truth, x_i the S draws, q_p their quantile):

    - ``crps``, ``crps_fair``: mean over cells of the plain and the unbiased ensemble CRPS (see ``crps``);
      ``..._mean_over_features`` is the mean of the features' means.
    - ``ncrps``: magnitude-normalised CRPS of CSDI (Tashiro et al. 2021, Sec. 6.1):
      ``sum 2 |(q_p - y)(1[y <= q_p] - p)| / sum |y|``, averaged over the 19 levels p = 0.05 ... 0.95; q_p linearly
      interpolated between draws.
    - ``mae_median``: mean ``|median - y|``, the median of an even S being the mean of the middle two.
    - ``rmse_mean``: root of the mean ``(mean_i x_i - y)^2``.
    - ``mae_lower_median``, ``rmse_lower_median``: what CSDI prints as MAE and RMSE, both of the lower median.
    - ``coverage_c``: share of cells with y within the central c % interval. Its ends are ``quantiles`` of the draws,
      the same that tables and pictures show; they hold c % of the truths of a calibrated imputer. With fewer draws
      than ``fewest_draws`` (3, 19, 39) even their whole range is too narrow: it is used, and the note gives the most
      that can be expected of it.

    Args:
        features: K features or their names; "all" is taken.
    """

    def __init__(self, features: Sequence[Feature | str]) -> None:
        self.features = tuple(f if isinstance(f, str) else f.name for f in features)
        if "all" in self.features:
            raise DataError("features: the name 'all' stands for all features together; rename that feature.")
        self.n_samples: int | None = None
        self._sums = _CarrySum((len(CELL_SCORES), len(self.features)))
        self._cells = np.zeros(len(self.features), int)
        self._records = np.zeros(len(self.features), int)
        self._ignored = np.zeros(len(self.features), int)
        self._any_records = 0

    def update(
        self,
        draws: np.ndarray,
        truth: np.ndarray,
        records: np.ndarray,
        features: np.ndarray,
        record_ids: Sequence[str],
    ) -> None:
        """Adds M scored cells; all cells of a record come in one call.

        Args:
            draws: (M, S).
            truth: (M,), NaN = ignored and counted.
            records, features: (M,) ints, each cell's place in ``record_ids`` and in the features.
            record_ids: names for messages.

        Raises:
            DataError: another number of draws than before, or a draw is not finite at a cell with a truth.
        """
        n_samples = draws.shape[1]
        if n_samples < 1 or self.n_samples not in (None, n_samples):
            raise DataError(f"samples: expected {self.n_samples or 'at least 1'} draws as before, came {n_samples}.")
        known = ~np.isnan(truth)
        ignored = np.bincount(features[~known], minlength=len(self.features))
        draws = np.ascontiguousarray(draws[known], np.float64)
        truth, records, features = truth[known].astype(np.float64), records[known], features[known]
        for name, bad in (("sample", ~np.isfinite(draws)), ("truth", ~np.isfinite(truth)[:, None])):
            if bad.any():
                m = int(np.flatnonzero(bad.any(1))[0])
                raise DataError(
                    f"{name}: expected finite numbers at every scored cell; {int(bad.any(1).sum())} of {len(bad)} "
                    f"cells hold NaN or infinity, first in record {record_ids[records[m]]!r}, feature "
                    f"{self.features[features[m]]!r} ({int(bad[m].sum())} of {bad.shape[1]} values)."
                )
        self.n_samples = n_samples
        self._ignored += ignored
        shape = (len(record_ids), len(self.features))
        place, size = records * shape[1] + features, shape[0] * shape[1]
        counts = np.bincount(place, minlength=size).reshape(shape)
        self._cells += counts.sum(0)
        self._records += (counts > 0).sum(0)
        self._any_records += int((counts.sum(1) > 0).sum())
        cells = cell_scores(draws, truth)
        sums = np.stack([np.bincount(place, cells[name], minlength=size).reshape(shape) for name in CELL_SCORES])
        for i in np.flatnonzero(counts.any(1)):
            self._sums.add(sums[:, i])

    def values(self) -> tuple[Score, ...]:
        """Every metric over all features and for each; undefined ones are None with a note."""
        everything = np.ones(len(self.features), bool)
        out = list(self._of("all", everything, self._any_records))
        out += self._means_over_features()
        for k, name in enumerate(self.features):
            out += self._of(name, np.arange(len(self.features)) == k, int(self._records[k]))
        return tuple(out)

    def _of(self, feature: str, chosen: np.ndarray, n_records: int) -> Iterator[Score]:
        n_cells = int(self._cells[chosen].sum())
        ignored = int(self._ignored[chosen].sum())
        for metric in METRICS:
            value, note = self._value(metric, chosen, n_cells)
            if ignored:
                note = "; ".join(filter(None, (note, f"{ignored} scored cells without a truth were ignored")))
            yield Score(metric, feature, value, n_cells, n_records, note)

    def _value(self, metric: str, chosen: np.ndarray, n_cells: int) -> tuple[float | None, str]:
        s = self.n_samples or 0
        if n_cells == 0:
            return None, "undefined: no scored cell"
        if metric == "crps_fair" and s < 2:
            return None, "undefined: the fair estimator needs at least 2 samples"
        if metric.startswith("coverage") and s < 2:
            return None, "undefined: one sample has no interval"
        if metric == "ncrps":
            magnitude = self._sums.total(CELL_SCORES.index("magnitude"), chosen)
            if magnitude == 0:
                return None, "undefined: the sum of |truth| is 0"
            return self._sums.total(CELL_SCORES.index("pinball"), chosen) / magnitude, ""
        mean = self._sums.total(CELL_SCORES.index(SOURCE.get(metric, metric)), chosen) / n_cells
        note = "one sample: equals the mean absolute error" if metric == "crps" and s == 1 else ""
        if metric.startswith("coverage"):
            percent = int(metric.removeprefix("coverage_"))
            needed, most = fewest_draws(percent), most_coverage(s)
            if s < needed:
                note = f"range of {s} samples, expected {most:.3f} at best; {percent} % needs {needed} samples"
        return (math.sqrt(mean) if metric.startswith("rmse") else mean), note

    def _means_over_features(self) -> Iterator[Score]:
        one_each = np.eye(len(self.features), dtype=bool)
        scored = np.flatnonzero(self._cells)
        for metric in OVER_FEATURES:
            base = metric.removesuffix("_mean_over_features")
            pairs = [self._value(base, one_each[k], int(self._cells[k])) for k in scored]
            values = [value for value, _ in pairs if value is not None]
            if len(values) < max(len(pairs), 1):
                value, note = None, pairs[0][1] if pairs else "undefined: no scored cell"
            else:
                value, note = math.fsum(values) / len(values), pairs[0][1]
                if len(scored) < len(self.features):
                    over = f"over the {len(scored)} of {len(self.features)} features with scored cells"
                    note = "; ".join(filter(None, (note, over)))
            yield Score(metric, "all", value, int(self._cells.sum()), self._any_records, note)


class _CarrySum:
    """Sums of float64 arrays with three words of carry: about 150 bits, so the order of adding does not show."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.words = np.zeros((3, *shape))

    def add(self, x: np.ndarray) -> None:
        for word in self.words:  # Knuth's two-sum: word + x == total + error exactly
            total = word + x
            back = total - word
            x = (word - (total - back)) + (x - back)
            word[...] = total

    def total(self, row: int, chosen: np.ndarray) -> float:
        return math.fsum(self.words[:, row, chosen].ravel())

"""How sure the difference between two methods is: on the same cells, with the records drawn anew many times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tsimpute.core.seeding import derive_seed
from tsimpute.errors import DataError
from tsimpute.evaluation.ensembles import cell_scores
from tsimpute.evaluation.kept_samples import read_cells
from tsimpute.evaluation.metrics import SOURCE
from tsimpute.suites.results import METRICS, Result, samples_of
from tsimpute.suites.settings import Suite
from tsimpute.suites.tables import Table, value_text

FEWEST = 20
"""Records of a fold; with fewer, resamples of them are no measure of the difference."""

_N_RESAMPLES, _AT_ONCE = 2000, 100
_METRICS = ("crps", "crps_fair", "mae_median", "rmse_mean")
_TITLES = tuple(dict(METRICS)[metric] for metric in _METRICS)

Sums = Mapping[str, np.ndarray]
"""One run: record -> (1 + M,) its number of cells, and the sum over them for each of M metrics."""


@dataclass(frozen=True)
class Run:
    """Sums of a run, the records that it was made with, and its draws."""

    sums: Sums
    records: str
    n_samples: int

    @property
    def cells(self) -> tuple[object, ...]:
        """What is equal where two runs are scored on the same cells."""
        return self.records, frozenset((name, row[0]) for name, row in self.sums.items())


@dataclass(frozen=True)
class Difference:
    """A method's metrics less those of another, (M,) each: see ``_METRICS``.

    Attributes:
        values: the mean over folds, of the mean over the seeds of each, as in the tables.
        low, high: what the middle 95 % of resamples of each fold's records lie between.
        n_records: of all folds.
    """

    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n_records: int


Lost = Callable[[Result, DataError], None]


def difference_table(
    suite: Suite, task: str, results: Sequence[Result], out: Path, lost: Lost = lambda result, error: None
) -> Table:
    """The last state of each method against that of the suite's first one on a task, over the folds that both have.

    Args:
        lost: called with each run whose samples are not there or cannot be read, and why: its fold is left out.

    Returns:
        A head and rows; no rows while the first method is not done. Where a method cannot be compared, its row has the
        reason in place of the number of records.
    """
    methods = [name for name, method in suite.methods.items() if method.takes_part(task)]
    done = [result for result in results if result.job.task == task]
    first = _runs([result for result in done if result.job.method == methods[0]], out, lost) if methods else {}
    rows = []
    for method in methods[1:]:
        of_method = [result for result in done if result.job.method == method]
        runs = _runs(of_method, out, lost)
        if not (first and of_method):
            continue
        less = difference(runs, first)
        if isinstance(less, str):
            rows.append([method, less, *["-"] * len(_TITLES)])
            continue
        texts = [
            "-" if np.isnan(value) else f"{_signed(value)} [{_signed(low)}, {_signed(high)}]"
            for value, low, high in zip(less.values, less.low, less.high, strict=True)
        ]
        rows.append([method, f"{less.n_records:,}", *texts])
    return [f"difference to {methods[0] if methods else ''}", "records", *_TITLES], rows


def difference(method: Mapping[int, Sequence[Run]], other: Mapping[int, Sequence[Run]]) -> Difference | str:
    """The difference over the folds that can be compared; the reason where none can be.

    Args:
        method, other: fold -> runs, one for each seed.
    """
    both = [fold for fold in other if fold in method]
    alike = [fold for fold in both if len({run.cells for run in (*method[fold], *other[fold])}) == 1]
    folds = [fold for fold in alike if len(other[fold][0].sums) >= FEWEST]
    if not folds:
        few = f"{max((len(other[fold][0].sums) for fold in alike), default=0)}, fewer than {FEWEST}"
        return few if alike else "other records" if both else "no samples of the same fold"
    rng = np.random.default_rng(derive_seed(0, "resamples of records"))
    values, resampled, n_records = [], [], 0
    for fold in folds:
        runs = [np.stack([*run.sums.values()]) for run in (*method[fold], *other[fold])]
        split, n = len(method[fold]), len(runs[0])
        fair = min(run.n_samples for run in (*method[fold], *other[fold])) > 1
        values.append(_less([run.sum(0) for run in runs], split, fair))
        n_records += n
        drawn = []
        for _ in range(0, _N_RESAMPLES, _AT_ONCE):
            times = rng.multinomial(n, np.full(n, 1 / n), _AT_ONCE).astype(np.float64)
            drawn.append(_less([times @ run for run in runs], split, fair))
        resampled.append(np.concatenate(drawn))
    # Percentiles of 2,000 resamples: the definition of a quantile moves an end by a hundredth of the standard error.
    low, high = np.quantile(np.mean(resampled, axis=0), (0.025, 0.975), axis=0)
    return Difference(np.mean(values, axis=0), low, high, n_records)


def _less(sums: Sequence[np.ndarray], split: int, fair: bool) -> np.ndarray:
    """(..., M) the mean metrics of the first ``split`` runs less those of the others, of (..., 1 + M) sums."""
    metrics = [of_run[..., 1:] / of_run[..., :1] for of_run in sums]
    for of_run in metrics:
        of_run[..., _METRICS.index("rmse_mean")] = np.sqrt(of_run[..., _METRICS.index("rmse_mean")])
        if not fair:
            of_run[..., _METRICS.index("crps_fair")] = np.nan
    first, others = np.mean(metrics[:split], axis=0), np.mean(metrics[split:], axis=0)
    less = first - others
    return np.where(np.abs(less) < 1e-12 * np.abs(others), 0.0, less)


def _runs(results: Sequence[Result], out: Path, lost: Lost) -> dict[int, list[Run]]:
    """By fold; nothing of a fold in which the samples of a run are not there or cannot be read."""
    runs: dict[int, list[Run]] = {}
    left_out = set()
    for result in results:
        last, fold = result.record.checkpoints[-1], result.job.fold
        try:
            sums = _sums(samples_of(out / result.job.folder, last.epoch), last.epoch)
        except DataError as error:
            left_out.add(fold)
            lost(result, error)
            continue
        runs.setdefault(fold, []).append(Run(sums, result.record.records, last.n_samples))
    return {fold: of_fold for fold, of_fold in runs.items() if fold not in left_out}


def _sums(path: Path, epoch: int | None) -> dict[str, np.ndarray]:
    """Of what a file of samples holds, records in the order of their names.

    Raises:
        DataError: it cannot be read, or is of another epoch.
    """
    header, chunks = read_cells(path)
    if header.context.epoch != epoch:
        raise DataError(f"{path}: expected samples of epoch {epoch}, came {header.context.epoch}.")
    sums = {}
    for cells in chunks:
        draws, truth = header.in_units(cells)
        known = ~np.isnan(truth)
        of_cells, record = cell_scores(draws[known], truth[known]), cells.record[known]
        columns = [np.ones(len(record)), *(of_cells[SOURCE.get(metric, metric)] for metric in _METRICS)]
        added = np.stack([np.bincount(record, column, len(cells.record_ids)) for column in columns], 1)
        sums |= {str(name): row for name, row in zip(cells.record_ids, added, strict=True) if row[0]}
    return dict(sorted(sums.items()))


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'}{value_text(abs(value), None)}"

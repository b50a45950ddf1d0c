"""How sure the difference between two methods is: on the same cells, with the records drawn anew many times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tsimpute.ensembles import cell_scores
from tsimpute.kept_samples import Header, read_cells
from tsimpute.seeding import derive_seed
from tsimpute.suites.entries import Result, samples_file
from tsimpute.suites.tables import METRICS, Table, value_text

FEWEST = 10
"""Records; of fewer, none are drawn."""

_N_RESAMPLES = 2000
_OF_CELLS = {"crps": "crps", "mae_median": "abs_median", "rmse_mean": "sq_mean"}
_TITLES = tuple(dict(METRICS)[metric] for metric in _OF_CELLS)


@dataclass(frozen=True)
class Difference:
    """A method's metrics less those of another, three of each: see ``_OF_CELLS``.

    Attributes:
        values: of all records.
        low, high: what the middle 95 % of resamples of records lie between.
    """

    values: np.ndarray
    low: np.ndarray
    high: np.ndarray


def difference_table(out: Path, results: Sequence[Result]) -> Table:
    """The last state of each method against that of the first one of a task, on the cells that both have: head, rows.

    Methods whose samples are not there any more have no row.
    """
    methods = list(dict.fromkeys(result.entry.method for result in results)) or [""]
    sums = {method: _sums([r for r in results if r.entry.method == method], out) for method in methods}
    rows = []
    for method in methods[1:]:
        found = difference(sums[method], sums[methods[0]])
        if found is not None:
            cells = zip(found.values, found.low, found.high, strict=True)
            rows.append(
                [method, *(f"{_signed(value)} [{_signed(low)}, {_signed(high)}]" for value, low, high in cells)]
            )
    return [f"difference to {methods[0]}", *_TITLES], rows


def difference(method: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> Difference | None:
    """None with fewer than ``FEWEST`` records that both have, or where their cells are not the same.

    Args:
        method, other: for each record its number of cells and the sums over them, one for each metric.
    """
    names = [name for name in other if name in method]
    if len(names) < FEWEST:
        return None
    a, b = (np.stack([of_one[name] for name in names]) for of_one in (method, other))
    if not np.array_equal(a[:, 0], b[:, 0]):
        return None
    rng = np.random.default_rng(derive_seed(0, "resamples of records"))
    times = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), _N_RESAMPLES).astype(np.float64)
    resampled = _metrics(times @ a) - _metrics(times @ b)
    low, high = np.quantile(resampled, (0.025, 0.975), axis=0)
    return Difference(_metrics(a.sum(0)) - _metrics(b.sum(0)), low, high)


def _metrics(sums: np.ndarray) -> np.ndarray:
    """(..., 3) of (..., 1 + 3) cells and sums."""
    means = sums[..., 1:] / sums[..., :1]
    means[..., 2] = np.sqrt(means[..., 2])
    return means


def _sums(results: Sequence[Result], out: Path) -> dict[str, np.ndarray]:
    """For each fold and record (1 + 3,): cells, and the sums over them, the mean over seeds."""
    of_runs: dict[str, list[np.ndarray]] = {}
    for result in results:
        last = result.found.scored[-1].epoch
        path = out / result.entry.folder / samples_file(last, last)
        for name, sums in (_of_file(path) if path.is_file() else {}).items():
            of_runs.setdefault(f"{result.entry.fold} {name}", []).append(sums)
    return {name: np.mean(found, axis=0) for name, found in of_runs.items()}


def _of_file(path: Path) -> dict[str, np.ndarray]:
    sums, header = {}, None
    for content in read_cells(path):
        if isinstance(content, Header):
            header = content
            continue
        assert header is not None
        draws, truth = header.in_units(content)
        known = ~np.isnan(truth)
        of_cells, record = cell_scores(draws[known], truth[known]), content.record[known]
        columns = [np.ones(len(record)), *(of_cells[name] for name in _OF_CELLS.values())]
        added = np.stack([np.bincount(record, column, len(content.record_ids)) for column in columns], 1)
        sums |= {str(name): row for name, row in zip(content.record_ids, added, strict=True) if row[0]}
    return sums


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'}{value_text(abs(value), None)}"

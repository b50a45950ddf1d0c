"""Scores an imputer on the held-out cells of records, chunk by chunk, without ever showing it their values."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tsimpute.core.windows import Samples, Windows
from tsimpute.errors import ConfigError, DataError
from tsimpute.evaluation.kept_samples import CellFile, Cells, Header, read_cells
from tsimpute.evaluation.metrics import PURE_NUMBERS, Score, Scores, check_records
from tsimpute.evaluation.reporting import EvaluationContext, Report, Row
from tsimpute.imputers.base import Imputer
from tsimpute.system.terminal import unseen

FILLS = ("scored", "missing")

RECORDS_AT_ONCE = 16
_CHUNK_BYTES = 16 * 2**20
"""Of samples; a chunk is smaller than ``records_at_once`` where it would hold more, but for a single record."""


class Scaler(Protocol):
    """Mean and standard deviation per feature, each (K,), in the data's units."""

    @property
    def mean(self) -> np.ndarray: ...
    @property
    def std(self) -> np.ndarray: ...


def evaluate(
    imputer: Imputer,
    windows: Windows,
    *,
    n_samples: int,
    seed: int = 0,
    fill: str = "scored",
    scaler: Scaler | None = None,
    context: EvaluationContext | None = None,
    records_at_once: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    keep_samples: Path | None = None,
) -> Report:
    """The metrics of an imputer at the held-out cells of ``windows``, per feature and over all.

    The imputer gets the records without their held-out values; these are used for scoring only. One chunk of records
    is in memory at a time, 16 MiB of samples at most where they are more than one record; the size of the chunks does
    not change the result.

    Example:
        >>> import tsimpute as ti
        >>> task = ti.clean(ti.load_windows("synthetic", n_records=20), rate=0.2, seed=1)
        >>> imputer = ti.LinearImputer().fit(task.train)
        >>> report = evaluate(imputer, task.test, n_samples=1, scaler=task.scaler)
        >>> row = next(row for row in report.rows if row.metric == "mae_median" and row.feature == "all")
        >>> row.imputer, row.units, row.n_records
        ('linear', 'standardised', 4)

    Args:
        imputer: fitted.
        windows: records with ``held_out`` cells.
        n_samples: samples per record.
        seed: see ``Imputer.impute``.
        fill: "scored" asks the imputer for the held-out cells only, "missing" for every missing cell, as a user would.
        scaler: where given, truth and samples are standardised with it before scoring.
        context: what else each row states; None = process, solver, steps and epoch of an imputer that has them.
        records_at_once: records per chunk, at most; None = 16, or what an imputer that pays for each call asks for by
            an attribute of this name: then a chunk has up to 256 MiB.
        progress: called with (records done, records in all) after each chunk.
        keep_samples: a ``.npz`` file that gets the samples at the scored cells, for ``rescore``.

    Returns:
        One row per metric and feature. With a scaler the units are "standardised", else those of the features.

    Raises:
        ConfigError: ``fill``, ``n_samples``, ``records_at_once`` or the name of the file is not as said above.
        DataError: no cell is held out, the scaler has another number of features, or the imputer gave back other
            records, other shown values, another number of samples, or NaN at a cell that is scored.
    """
    for name, number in (("n_samples", n_samples), ("records_at_once", records_at_once)):
        if number is not None and number < 1:
            raise ConfigError(f"{name}: expected at least 1, came {number}.")
    if fill not in FILLS:
        raise ConfigError(f"fill: expected one of {', '.join(FILLS)}; came {fill!r}.")
    if not windows.held_out_mask.any():
        raise DataError("windows: expected held-out cells to score; none is marked. Choose some with held_out.")
    if scaler is not None and (len(scaler.mean), len(scaler.std)) != (windows.n_features,) * 2:
        raise DataError(f"scaler: expected {windows.n_features} features, came {len(scaler.mean)}.")
    if context is None:
        context = EvaluationContext(**getattr(imputer, "sampler_context", {}))
    header = Header(
        features=tuple(windows.features),
        context=context if context.imputer else replace(context, imputer=imputer.name),
        n_samples=n_samples,
        fill=fill,
        seed=seed,
        scaler=None if scaler is None else (tuple(map(float, scaler.mean)), tuple(map(float, scaler.std))),
        no_data=tuple(getattr(imputer, "no_data_", ())),
    )
    scores, seconds = Scores(windows.features), 0.0
    # For "scored" only records with something to score.
    index = np.flatnonzero(windows.held_out_mask.any((1, 2))) if fill == "scored" else np.arange(len(windows))
    preferred = getattr(imputer, "records_at_once", None) if records_at_once is None else None
    size, n_bytes = preferred or records_at_once or RECORDS_AT_ONCE, (16 if preferred else 1) * _CHUNK_BYTES
    size = min(size, windows.records_within(n_bytes, n_samples))
    with nullcontext() if keep_samples is None else CellFile(keep_samples) as file:
        for start in range(0, len(index), size):
            part = index[start : start + size]
            cells, took = _impute_cells(imputer, windows.select(part), header)
            seconds += took
            _add(scores, cells, header)
            if file is not None:
                file.add(cells)
            if progress is not None:
                progress(start + len(part), len(index))
        header = replace(header, seconds=seconds)
        if file is not None:
            file.close(header)
    return _report(scores, header)


def rescore(path: Path) -> Report:
    """The report of an evaluation once more, from the samples that it kept: equal to the last bit.

    Raises:
        DataError: the file is not one that ``evaluate`` kept, or is damaged.
    """
    header, chunks = read_cells(path)
    scores = Scores(header.features)
    for cells in chunks:
        _add(scores, cells, header)
    return _report(scores, header)


def _impute_cells(imputer: Imputer, chunk: Windows, header: Header) -> tuple[Cells, float]:
    """The samples of a chunk at its scored cells, and the seconds that the imputer took for them."""
    wanted = chunk.held_out_mask.copy() if header.fill == "scored" else None
    given = chunk.select(slice(None)).without_held_out()  # copies: one that changes them is compared with the records
    start = time.perf_counter()
    with unseen():
        samples = imputer.impute(given, header.n_samples, header.seed, fill=wanted)
    seconds = time.perf_counter() - start
    if not isinstance(samples, Samples):
        raise DataError(f"imputer {imputer.name!r}: expected Samples back, came {type(samples).__name__}.")
    if samples.n_samples != header.n_samples:
        raise DataError(f"imputer {imputer.name!r}: asked for {header.n_samples} samples, it gave {samples.n_samples}.")
    check_records(samples, chunk.without_held_out())
    # One contiguous row of draws per cell: the file and the scores see the same numbers in the same order.
    draws = np.ascontiguousarray(samples.values[:, chunk.held_out_mask].T)
    record, feature, step = np.nonzero(chunk.held_out_mask)
    ids = np.array(chunk.record_ids, dtype=str)
    return Cells(draws, chunk.values[chunk.held_out_mask], record, feature, step, ids), seconds


def _add(scores: Scores, cells: Cells, header: Header) -> None:
    draws, truth = header.in_units(cells)
    scores.update(draws, truth, cells.record, cells.feature, cells.record_ids.tolist())


def _report(scores: Scores, header: Header) -> Report:
    shared: dict[str, Any] = {name: getattr(header, name) for name in ("n_samples", "fill", "seed", "seconds")}
    shared |= asdict(header.context)
    rows = []
    for score in scores.values():
        units, warning = _units(score, header)
        no_data = f"the imputer had no training data for {score.feature}" if score.feature in header.no_data else ""
        note = "; ".join(filter(None, (score.note, warning, no_data)))
        of_score: dict[str, Any] = asdict(score) | {"units": units, "note": note}
        rows.append(Row(**shared | of_score))
    return Report(tuple(rows))


def _units(score: Score, header: Header) -> tuple[str, str]:
    """The unit of a score, and a warning where several units are averaged."""
    of = {f.name: f.unit for f in header.features}
    together = score.feature == "all" and len(of) > 1 and header.scaler is None
    differ = together and len(set(of.values())) > 1
    warning = "over features of different units: large ones dominate; give a scaler" if differ else ""
    if score.metric in PURE_NUMBERS:
        return "1", warning if score.metric == "ncrps" else ""
    if header.scaler is not None:
        return "standardised", ""
    if differ:
        return "mixed", warning
    unit = next(iter(of.values())) if score.feature == "all" else of[score.feature]
    return unit, "over features of unknown units" if together and unit == "" else ""

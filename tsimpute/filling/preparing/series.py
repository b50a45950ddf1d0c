"""Which cells of a series are filled, and their filling by a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tsimpute.core.panel import FILLED, IMPUTED, INVALID, LEFT_EMPTY, NO_INFORMATION, OBSERVED, Filling, Panel, Series
from tsimpute.core.windows import Windows
from tsimpute.filling.measuring.calibration import Calibration, summarised
from tsimpute.filling.panels.windows import clock_times
from tsimpute.filling.preparing.rules import by_rule, rule_bands
from tsimpute.imputers.base import TableModel
from tsimpute.screening.column_kinds import ColumnKind
from tsimpute.tables.frames.table import Table


@dataclass(frozen=True)
class Policy:
    """What is filled.

    Attributes:
        max_gap: longest run of missing cells of a feature, in steps, that is filled; longer ones stay wholly empty.
        fill_unseen: whether features are filled of which a series shows no value.
    """

    max_gap: int | None = None
    fill_unseen: bool = True


def provenance_of(series: Series, policy: Policy, invalid: np.ndarray, absent: np.ndarray) -> np.ndarray:
    """(K, T) uint8: what each cell is to be; see ``panel.PROVENANCE``.

    Args:
        series: with invalid values made missing.
        invalid: (K, T) bool, cells whose value was declared invalid.
        absent: (K, T) bool, cells that are no gap: the table has no place for them.
    """
    codes = np.where(series.observed, OBSERVED, IMPUTED).astype(np.uint8)
    missing = ~series.observed
    codes[missing & invalid] = INVALID
    unseen = missing.all(1)
    codes[unseen] = np.where(missing[unseen], NO_INFORMATION if policy.fill_unseen else LEFT_EMPTY, codes[unseen])
    if policy.max_gap is not None:
        codes[longer_gaps(missing, policy.max_gap)] = LEFT_EMPTY
    codes[absent] = np.where(missing[absent], LEFT_EMPTY, codes[absent])
    return codes


def provenance_of_table(
    table: Table,
    panel: Panel,
    visible: Panel,
    kinds: Sequence[ColumnKind],
    invalid: Sequence[np.ndarray] | None,
    policy: Policy,
) -> list[np.ndarray]:
    """Per series (K, T) uint8: what each cell of a table becomes.

    Args:
        panel: what is given back; visible: what a model may see.
        kinds: of the features; a rule fills those that no model predicts, as far as it does.
        invalid: per series (K, T) bool, cells whose value is dropped; None = no value is.
    """
    provenance, decimals = [], table.decimals
    for n, (series, absent) in enumerate(zip(panel.series, table.absent, strict=True)):
        dropped = np.zeros_like(absent) if invalid is None else invalid[n]
        codes = provenance_of(series, policy, dropped, absent)
        for k, kind in enumerate(kinds):
            if not kind.predicted:
                nothing = np.full((3, codes.shape[1]), np.nan)
                bands = rule_bands(kind, visible.series[n], k, decimals[k]) if kind.by_rule else nothing
                codes[k] = by_rule(codes[k], bands)
        provenance.append(codes)
    return provenance


def longer_gaps(missing: np.ndarray, limit: int) -> np.ndarray:
    """(K, T) bool: cells of runs of more than ``limit`` missing cells."""
    edges = np.diff(np.pad(missing, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    long = np.zeros(missing.shape, bool)
    rows, starts = np.nonzero(edges == 1)
    _, ends = np.nonzero(edges == -1)
    for k, a, b in zip(rows, starts, ends, strict=True):
        long[k, a:b] = b - a > limit
    return long


def fill_series(
    imputer: TableModel,
    panel: Panel,
    series: Series,
    record_values: np.ndarray,
    provenance: np.ndarray,
    *,
    levels: Sequence[float],
    n_samples: int,
    seed: int,
    calibration: Calibration,
    keep_samples: bool = False,
    progress: Callable[[float], None] = lambda share: None,
) -> Filling:
    """Fills the gaps of one series.

    Args:
        panel: whose series it is; gives the K' features.
        series: as it is given back: all observed values.
        record_values: (K', T) what the model sees: the K features, then the known covariates; hidden values are NaN.
        provenance: (K, T) uint8, see ``provenance_of``.
        levels: of the quantiles, in (0, 1), increasing.
        n_samples, seed: see ``Imputer.impute``.
        calibration: of the quantiles.
        keep_samples: whether the filling holds the draws.
        progress: called now and then with the share that is done.
    """
    levels = tuple(levels)
    fill = np.isin(provenance, FILLED)
    point = np.where(series.observed, series.values, np.nan)
    quantiles = np.repeat(point[None], len(levels), 0)
    samples = np.full((n_samples, *fill.shape), np.nan, np.float32) if keep_samples else None
    times = clock_times(series, panel.clock) if imputer.whole_series else series.times
    record = Windows(record_values[None], times[None], panel.features, (series.name or "series",))
    query_mask = np.pad(fill, ((0, len(record_values) - len(fill)), (0, 0)))
    drawing = imputer.impute_long(record, n_samples, seed, query_mask[None], progress=progress) if fill.any() else ()
    for steps, drawn in drawing:
        draws, here = drawn.values[:, 0, : len(fill)], fill[:, steps]
        cells = draws[:, here], np.nonzero(here)[0]
        median, point_quantiles = summarised(imputer.scaler_, calibration, levels, *cells)
        point[:, steps][here] = median
        quantiles[:, :, steps][:, here] = point_quantiles
        if samples is not None:
            samples[:, :, steps][:, here] = draws[:, here]
    return Filling(point, levels, quantiles, provenance, samples)

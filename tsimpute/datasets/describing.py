"""Summary of a data set before training: counts, ranges, gaps, and values that look like codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tsimpute.core.gaps import runs_of
from tsimpute.core.limits import Limits
from tsimpute.core.windows import Windows
from tsimpute.datasets.base import Card
from tsimpute.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

# Numbers that files write where they mean "no value".
NEGATIVE_CODES = (
    -1.0, -9.0, -88.8, -99.0, -99.9, -99.99, -200.0, -888.8, -999.0, -999.9, -999.99, -6999.0, -7999.0, -8888.0,
    -9999.0, -9999.9, -9999.99, -32767.0, -32768.0, -99999.0, -99999.9, -999999.0, -9999999.0, -2147483648.0, -1e20,
    -1e30,
)  # fmt: skip
POSITIVE_CODES = (
    77.7, 88.8, 88.88, 99.0, 99.9, 99.99, 888.0, 888.8, 999.0, 999.9, 999.99, 6999.0, 7999.0, 8888.0, 8888.8,
    9999.0, 9999.9, 9999.99, 32767.0, 65535.0, 99999.0, 99999.9, 999999.0, 9999999.0, 2147483647.0, 4294967295.0, 1e20,
    1e30,
)  # fmt: skip
SMALLEST_CODE = 900.0
"""Positive codes below it are often true values: suspicious only where other values are at most half as large."""
GAP_EDGES = (1, 2, 3, 5, 9, 17, 33)
STUCK_STEPS = 12
SPLIT_ORDER = ("train", "valid", "test")


@dataclass(frozen=True)
class PartSummary:
    """Numbers of records and cells of one split."""

    split: str
    n_records: int
    n_cells: int
    n_observed: int
    n_held_out: int

    @property
    def n_shown(self) -> int:
        return self.n_observed - self.n_held_out


@dataclass(frozen=True)
class FeatureSummary:
    """One feature over all records; statistics are NaN where it was never observed. sd divides by n."""

    name: str
    unit: str
    n_observed: int
    missing: float
    minimum: float
    median: float
    maximum: float
    mean: float
    sd: float
    n_records_without: int
    remarks: tuple[str, ...]

    def cells(self) -> tuple[object, ...]:
        """A row of the table of features."""
        numbers = (self.minimum, self.median, self.maximum, self.mean, self.sd)
        shown = ("-" if np.isnan(number) else f"{number:.4g}" for number in numbers)
        return self.name, self.unit, self.n_observed, f"{self.missing:.2%}", *shown, self.n_records_without


@dataclass(frozen=True)
class Description:
    """All of it; ``gaps`` maps a range of steps, such as "3-4", to the number of runs of missing cells that long."""

    title: str
    n_steps: int
    parts: tuple[PartSummary, ...]
    features: tuple[FeatureSummary, ...]
    gaps: Mapping[str, int]
    n_records_without_value: int
    n_steps_without_value: int
    changes: Mapping[str, int]

    def to_frame(self) -> pd.DataFrame:
        """One row per feature, one column per statistic; remarks joined by "; "."""
        import pandas as pd

        return pd.DataFrame([vars(feature) | {"remarks": "; ".join(feature.remarks)} for feature in self.features])

    def to_text(self) -> str:
        """Tables for a terminal, about 100 columns wide."""
        n_records, n_cells = (sum(getattr(part, name) for part in self.parts) for name in ("n_records", "n_cells"))
        missing = 1 - sum(part.n_observed for part in self.parts) / max(n_cells, 1)
        lines = [self.title] * bool(self.title) + [
            f"{n_records} records x {len(self.features)} features x {self.n_steps} steps, {missing:.2%} missing; "
            f"{self.n_records_without_value} records without any value, "
            f"{self.n_steps_without_value} steps at which nothing was observed",
            "",
            *_table(
                ("split", "records", "cells", "observed", "shown", "held out for scoring"),
                [(p.split, p.n_records, p.n_cells, p.n_observed, p.n_shown, p.n_held_out) for p in self.parts],
            ),
            "",
            *_table(
                ("feature", "unit", "observed", "missing", "min", "median", "max", "mean", "sd", "records without"),
                [feature.cells() for feature in self.features],
            ),
            "",
            "runs of missing cells by length in steps:",
            *_table(tuple(self.gaps), [tuple(self.gaps.values())]),
        ]
        remarks = [f"  {feature.name}: {remark}" for feature in self.features for remark in feature.remarks]
        changes = [f"  {count:>9} {what}" for what, count in self.changes.items()]
        lines += ["", "worth a look (nothing of this was changed):", *(remarks or ["  nothing found"])]
        lines += ["", "changed or dropped while reading:", *(changes or ["  nothing"])]
        return "\n".join(lines)


def describe(windows: Windows, card: Card | None = None) -> Description:
    """Summarises records in their own units; held-out cells count as observed.

    Where records overlap, as sliding windows do, a cell counts in each of them.

    Example:
        >>> import tsimpute as ti
        >>> found = describe(ti.load_windows("synthetic", n_records=3))
        >>> found.n_steps, found.features[0].name
        (24, 'Temp')
        >>> print(found.to_text().partition(";")[0])
        3 records x 8 features x 24 steps, 17.36% missing

    Args:
        windows: N records, none is fine.
        card: gives the title, and the limits outside of which values are named.

    Raises:
        DataError: something else is given, such as a table.
    """
    if not isinstance(windows, Windows):
        raise DataError(
            f"records: expected Windows, came {type(windows).__name__}. A table is described by "
            "table.tsimpute.describe(), after import tsimpute.accessors."
        )
    limits = card.limits if card else {}
    missing = np.isnan(windows.values)
    split = np.full(len(windows), "all") if windows.split is None else windows.split
    observed, held_out = (mask.sum((1, 2)) for mask in (windows.observed, windows.held_out_mask))
    parts = []
    for name in sorted(set(split.tolist()), key=lambda name: (*SPLIT_ORDER, name).index(name)):
        at = split == name
        n_cells = int(at.sum()) * windows.n_features * windows.n_steps
        parts.append(PartSummary(str(name), int(at.sum()), n_cells, int(observed[at].sum()), int(held_out[at].sum())))
    _, starts, stops = runs_of(missing.reshape(-1, missing.shape[-1]))
    lengths = (stops - starts)[stops - starts < missing.shape[-1]]
    gaps = {
        str(low) if high == low + 1 else f"{low}-{high - 1}": int(((lengths >= low) & (lengths < high)).sum())
        for low, high in pairwise(GAP_EDGES)
    }
    whole = int(missing.all(-1).sum())
    return Description(
        title="" if card is None else f"{card.title} [{'SYNTHETIC, ' * card.synthetic}licence: {card.licence}]",
        n_steps=windows.n_steps,
        parts=tuple(parts),
        features=tuple(_feature(windows, k, missing[:, k], limits) for k in range(windows.n_features)),
        gaps=gaps | {f"{GAP_EDGES[-1]}+": int((lengths >= GAP_EDGES[-1]).sum()), "whole record": whole},
        n_records_without_value=int(missing.all((1, 2)).sum()),
        n_steps_without_value=int(missing.all(1).sum()),
        changes=dict(windows.changes),
    )


def _feature(windows: Windows, k: int, missing: np.ndarray, limits: Mapping[str, Limits]) -> FeatureSummary:
    feature, table = windows.features[k], windows.values[:, k]
    values = np.sort(table[~missing])
    nan = float("nan")
    statistics = (values[0], np.median(values), values[-1], values.mean(), values.std()) if len(values) else (nan,) * 5
    low, high = limits.get(feature.name, limits.get("*", Limits())).bounds
    codes = [f"a code for unknown? {code:g}: {count}" for code, count in suspicious_codes(values).items()]
    remarks = [*_range_remarks(values, low, high), *codes, *_stuck_remarks(table, missing)]
    return FeatureSummary(
        feature.name, feature.unit, len(values), float(missing.mean()) if missing.size else nan,
        *map(float, statistics), n_records_without=int(missing.all(1).sum()), remarks=tuple(remarks),
    )  # fmt: skip


def _range_remarks(values: np.ndarray, low: float, high: float) -> list[str]:
    """Never observed, constant, outside the limits, or piled up at the largest value as if cut there."""
    if not len(values):
        return ["never observed"]
    below, above = (values < low), (values > high)
    remarks = [
        f"implausible, {word} {limit:g}: {side.sum()} ({examples(values[side])})"
        for side, word, limit in ((below, "below", low), (above, "above", high))
        if side.any()
    ]
    if values[0] == values[-1]:
        return remarks + [f"all {len(values)} values are {values[0]:g}"] * (len(values) > 1)
    if values[-1] != high and (at_top := piled_at_top(values)):
        remarks.append(f"cut off at the top? exactly {values[-1]:g}: {at_top}")
    return remarks


def piled_at_top(values: np.ndarray) -> int:
    """How many of the sorted values are the largest, where they are many beside the next smaller one; else 0."""
    lower = values[values < values[-1]]
    at_top = len(values) - len(lower)
    return at_top if len(lower) and at_top >= max(10, 5 * int((lower == lower[-1]).sum())) else 0


def suspicious_codes(values: np.ndarray) -> dict[float, int]:
    """Numbers that often mean "no value" and stand far from all other sorted values: each with its count."""
    others = without_codes(values)
    if not len(others):
        return {}
    eighths = others / 8  # sums of these do not overflow
    lower, upper = np.quantile(eighths, [0.25, 0.75])
    margin = 3 * (upper - lower)
    lowest, highest = min(lower - margin, eighths[0]), max(upper + margin, eighths[-1])
    suspicious = [c for c in NEGATIVE_CODES if others[0] >= 0 or c / 8 < lowest]
    half = 4 * max(abs(eighths[0]), abs(eighths[-1]))
    suspicious += [c for c in POSITIVE_CODES if c / 8 > highest and (c >= SMALLEST_CODE or half <= c / 4)]
    counts = {code: int((values == code).sum()) for code in suspicious}
    return {code: count for code, count in counts.items() if count}


def without_codes(values: np.ndarray) -> np.ndarray:
    """The values without the numbers that files write for "no value"."""
    return values[~np.isin(values, NEGATIVE_CODES + POSITIVE_CODES)]


def _stuck_remarks(table: np.ndarray, missing: np.ndarray) -> list[str]:
    """The same value many steps in a row; only for features that are mostly observed."""
    if not table.size or table.shape[1] < STUCK_STEPS or missing.mean() > 0.5:
        return []
    rows, starts, stops = runs_of(np.diff(table, axis=1) == 0)
    lengths = stops - starts
    long = lengths + 1 >= STUCK_STEPS
    if not long.any():
        return []
    return [
        f"stuck? records with one value for {STUCK_STEPS} steps or more: {len(np.unique(rows[long]))} "
        f"(longest {lengths.max() + 1} steps)"
    ]


def examples(values: np.ndarray) -> str:
    """The smallest distinct values and the largest, as text."""
    distinct = np.unique(values)
    return ", ".join(f"{v:g}" for v in distinct[:3]) + (f", ..., {distinct[-1]:g}" if len(distinct) > 3 else "")


def _table(header: tuple[object, ...], rows: list[tuple[object, ...]]) -> list[str]:
    """Lines with the first column to the left and the others to the right."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]).rstrip()
        for row in cells
    ]

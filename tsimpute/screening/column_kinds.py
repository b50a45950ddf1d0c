"""What kind of column each feature of a table is: measured, and predicted by a model, or not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from tsimpute.core.limits import Limits
from tsimpute.core.panel import Panel
from tsimpute.screening.kind_names import (
    named_code,
    named_counter,
    named_descriptor,
    named_dose,
    named_drug,
    named_id,
    named_outcome,
    named_sequence,
    named_state,
    named_temperature,
    scale_of_name,
)

Kind = Literal[
    "measurement", "count", "scale", "yes or no", "constant", "per series", "counter", "presence", "code", "id", "once",
    "empty",
]  # fmt: skip
PREDICTED = ("measurement", "count", "scale", "yes or no")
"""Kinds that a model learns and predicts."""
BY_RULE = ("constant", "per series", "counter")
"""Kinds that are filled by a rule; all others are left empty."""
LIMITS = {
    "count": Limits(0, integer=True), "scale": Limits(1, integer=True), "yes or no": Limits(0, 1, integer=True),
}  # fmt: skip
"""What the kind says of possible values."""

MOST_STATES = 12
SPARSE, RARE, OFTEN, FEW, MANY, SERIES = 0.1, 0.3, 0.9, 3, 20, 3
COUNTER_VALUES, COUNTER_RISES = 30, 10
NAMED_VALUES, NAMED_RISES = 12, 3
RISES_PER_RESET, RISES_PER_FALL, NEAR_ZERO = 8, 100, 0.1
REPEATS, REPEATS_PER_SERIES = 10, 4
COUNT_RATIO = 20
FEWEST_OF_FAR = 30
"""Values below which none is called far."""
RANGES = 20
"""How many ranges of the rest a value lies beyond it at least."""
POWER, MOST_RATIO = 8, 1e4
NARROW, PEAK, NARROW_PEAK = 3, 300, 10
"""Of features that never fall below 0, true peaks reach farther; see ``far_bounds``."""
FEW_DISTINCT = 10


@dataclass(frozen=True)
class ColumnKind:
    """How one feature is treated.

    Attributes:
        feature: its name.
        kind: see ``PREDICTED`` and ``BY_RULE``.
        reason: what of its name and values says so; "" for a measurement.
        low, high: a value beyond is far from all others and is hidden from the model; None = no bound.
    """

    feature: str
    kind: Kind = "measurement"
    reason: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def predicted(self) -> bool:
        return self.kind in PREDICTED

    @property
    def limits(self) -> Limits | None:
        """What the kind says of possible values, and of a scale its name; None = nothing."""
        grades = scale_of_name(self.feature) if self.kind == "scale" else None
        return Limits(*grades, integer=True) if grades else LIMITS.get(self.kind)

    @property
    def by_rule(self) -> bool:
        return self.kind in BY_RULE

    def far(self, values: np.ndarray) -> np.ndarray:
        """A bool mask of the values that are far from all others; NaN is not."""
        low, high = -np.inf if self.low is None else self.low, np.inf if self.high is None else self.high
        return (values < low) | (values > high)


@dataclass(frozen=True, eq=False)
class _Column:
    """One feature over all series.

    Attributes:
        values, series, steps: (n,) of its observed cells, series by series in the order of time.
        n_cells, n_series: of the panel.
        long: whether the table has a row for each value.
    """

    name: str
    unit: str
    values: np.ndarray
    series: np.ndarray
    steps: np.ndarray
    n_cells: int
    n_series: int
    long: bool

    @cached_property
    def distinct(self) -> np.ndarray:
        return np.unique(self.values)

    @cached_property
    def whole(self) -> bool:
        return bool(len(self.values)) and bool((self.values == np.rint(self.values)).all())

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Values that follow each other within a series: the earlier ones, and the later ones."""
        same = self.series[1:] == self.series[:-1]
        return self.values[:-1][same], self.values[1:][same]

    @cached_property
    def n_shown(self) -> int:
        """Series that show a value."""
        return len(np.unique(self.series))


def column_kinds(panel: Panel, *, measured: Collection[str] = (), long: bool = False) -> tuple[ColumnKind, ...]:
    """One for each feature.

    Args:
        panel: without codes for missing and values outside the limits.
        measured: names of features that are measurements whatever they hold.
        long: whether the table has a row for each value, and no place for others.
    """
    lengths = [len(series.times) for series in panel.series]
    of_cell, step = np.repeat(np.arange(len(lengths)), lengths), np.concatenate([np.arange(n) for n in lengths])
    kinds = []
    for k, feature in enumerate(panel.features):
        row = np.concatenate([series.values[k] for series in panel.series])
        observed = ~np.isnan(row)
        bounds = ColumnKind(feature.name, "measurement", "", *far_bounds(np.sort(row[observed])))
        observed &= ~bounds.far(row)
        if feature.name in measured:
            kinds.append(bounds)
            continue
        column = _Column(
            feature.name, feature.unit, row[observed], of_cell[observed], step[observed], len(row), len(lengths), long
        )
        for kind, rule in _RULES:
            reason = rule(column)
            if reason is not None:
                low, high = (None, None) if kind in ("id", "code") else (bounds.low, bounds.high)
                bounds = ColumnKind(column.name, kind, reason, low, high)
                break
        kinds.append(bounds)
    return tuple(kinds)


def _id(column: _Column) -> str | None:
    if not column.whole:
        return None
    if named_id(column.name):
        return "whole numbers that are named as an id"
    earlier, later = column.pairs
    rises = len(later) >= FEW and bool((later > earlier).all())
    return "numbers the rows" if rises and named_sequence(column.name) else None


def _code(column: _Column) -> str | None:
    if not column.whole:
        return None
    is_code = named_code(column.name)
    if len(column.distinct) <= MOST_STATES and not is_code:
        # An outcome that does not change in a series describes it, and is copied.
        is_code = named_state(column.name) or (named_outcome(column.name) and _per_series(column) is None)
    if not is_code:
        return None
    return f"{len(column.distinct)} whole number{'s' * (len(column.distinct) > 1)}, named as a code or state"


def _presence(column: _Column) -> str | None:
    """One value here and there, and nothing else, or a dose now and then: an empty cell may well mean "none"."""
    n, share = len(column.values), len(column.values) / column.n_cells
    most = OFTEN if named_drug(column.name) else RARE if named_dose(column.name) else 0
    if share < most and column.distinct[0] > 0:
        return f"doses or intakes, in {n:,} of {column.n_cells:,} cells, none of them 0"
    if len(column.distinct) > 1 or named_descriptor(column.name):
        return None
    sparse = share < 0.5 and (n < FEW or share < SPARSE or column.long)
    if column.distinct[0] != 1 and not sparse:
        return None
    return f"{column.distinct[0]:g} or nothing: the only value, in {n:,} of {column.n_cells:,} cells"


def _once(column: _Column) -> str | None:
    """Of a long table: what stands once in a series says nothing of other times, and no row has to be added for it."""
    once = len(column.values) == column.n_shown
    if column.long and once and (named_descriptor(column.name) or _describes(column)):
        return "stands once in each series"
    return None


def _constant(column: _Column) -> str | None:
    if len(column.distinct) > 1:
        return None
    number = f"{column.distinct[0]:.15g}"
    if len(column.values) == 1:
        return f"the only observed value is {number}"
    return f"all {len(column.values):,} observed values are {number}"


def _per_series(column: _Column) -> str | None:
    earlier, later = column.pairs
    if (earlier != later).any():
        return None
    many = len(later) >= max(REPEATS, (REPEATS_PER_SERIES - 1) * column.n_shown)
    if column.n_shown > 1 and (many or named_descriptor(column.name) or _describes(column)):
        return f"one value in each of {column.n_shown:,} series"
    return None


def _describes(column: _Column) -> bool:
    """Stands at the first time of most series, and nowhere else."""
    first = len(column.values) == column.n_shown and not column.steps.any()
    return first and column.n_shown >= max(SERIES, column.n_series / 2)


def _counter(column: _Column) -> str | None:
    earlier, later = column.pairs
    named = named_counter(column.name)
    n_values, n_rises = (NAMED_VALUES, NAMED_RISES) if named else (COUNTER_VALUES, COUNTER_RISES)
    rises, falls = int((later > earlier).sum()), later < earlier
    if len(column.values) < n_values or rises < n_rises:
        return None
    if not falls.any():
        return f"never falls within a series ({len(column.values):,} values)"
    resets = falls & (later >= 0) & (later <= NEAR_ZERO * earlier)
    n_resets, n_other = int(resets.sum()), int((falls & ~resets).sum())
    if n_other > rises // RISES_PER_FALL or n_resets * (1 if named else RISES_PER_RESET) > rises:
        return None
    n_falls = n_resets + n_other
    return (
        f"falls {n_falls:,} time{'s' * (n_falls > 1)} only, as where a counter starts anew, and rises {rises:,} times"
    )


def _yes_or_no(column: _Column) -> str | None:
    ones = int((column.values == 1).sum())
    both = np.array_equal(column.distinct, [0, 1]) and min(ones, len(column.values) - ones) >= 2
    return "0 or 1" if both and len(column.values) >= MANY else None


def _scale(column: _Column) -> str | None:
    """Grades: whole numbers within the limits in the name, or all from 1 to a few."""
    values, grades = column.distinct, scale_of_name(column.name)
    if not column.whole or len(values) < FEW:
        return None
    if grades and grades[0] <= values[0] and values[-1] <= grades[1]:
        return f"whole numbers, {grades[0]} to {grades[1]} by its name"
    all_from_one = len(values) <= MOST_STATES and np.array_equal(values, np.arange(1, len(values) + 1))
    return f"whole numbers from 1 to {len(values)}" if all_from_one and len(column.values) >= MANY else None


def _count(column: _Column) -> str | None:
    values = column.distinct
    if not column.whole or values[0] < 0 or len(values) < FEW or len(column.values) < MANY:
        return None
    if (values[0] > 0 and values[-1] < COUNT_RATIO * values[0]) or named_temperature(column.name, column.unit):
        return None
    return f"whole numbers from {values[0]:g}, never below 0"


_RULES: Sequence[tuple[Kind, Callable[[_Column], str | None]]] = (
    ("empty", lambda column: None if len(column.values) else "no series shows a value"),
    ("id", _id), ("code", _code), ("once", _once), ("presence", _presence), ("constant", _constant),
    ("per series", _per_series), ("counter", _counter), ("yes or no", _yes_or_no), ("scale", _scale), ("count", _count),
)  # fmt: skip
"""In this order: the first that gives a reason decides."""


def far_bounds(values: np.ndarray) -> tuple[float | None, float | None]:
    """Lowest and highest value that is not far from all others; None = there are too few to say.

    The rest is all but two values, or half a percent, on each side. A value is far where it lies more than 20 ranges of
    the rest beyond it. Rain, concentrations and laboratory values have peaks that are true: of what never falls below
    0, a value is far only if it is 300 times the largest of the rest, too, or 10 times where that is less than 3 times
    the smallest; and more where the rest itself has a heavy tail: the eighth power of the ratio of the largest to the
    median of the positive values, up to 10,000 times. Of a rest of fewer than ten distinct values 10,000 times it is.

    Args:
        values: sorted, without NaN.
    """
    n = len(values)
    if n < FEWEST_OF_FAR:
        return None, None
    most = max(2, n // 200)
    rest = values[most : n - most]
    first, last = float(rest[0]), float(rest[-1])
    with np.errstate(over="ignore"):
        spread = max(last - first, 0.1 * max(abs(first), abs(last)))
    if spread == 0 or not np.isfinite(spread):
        return None, None
    if len(np.unique(rest)) < FEW_DISTINCT and last > first:
        reach = MOST_RATIO * max(abs(first), abs(last), spread)
        return _finite(first - reach), _finite(last + reach)
    low, high = first - RANGES * spread, last + RANGES * spread
    if first >= 0:
        ratio = min(last / float(np.median(rest[rest > 0])), MOST_RATIO ** (1 / POWER))
        high = max(high, last * max(ratio**POWER, NARROW_PEAK if last < NARROW * first else PEAK))
    return _finite(low), _finite(high)


def _finite(bound: float) -> float | None:
    return bound if np.isfinite(bound) else None

"""Values of a table that look wrong: codes for missing, impossible values, dead and stuck sensors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tsimpute.core.limits import Limits, limits_of
from tsimpute.core.panel import Panel
from tsimpute.datasets.describing import STUCK_STEPS, examples, piled_at_top, suspicious_codes, without_codes
from tsimpute.tables.frames.table import Entries

# Numbers that are often true values too: reported where they look like codes, taken for codes only if the user says so.
UNCERTAIN_CODES = (
    -1.0, -9.0, 77.7, 88.8, 88.88, 99.0, 99.9, 99.99, 888.0, 888.8, 999.0, 6999.0, 7999.0, 8888.0, 8888.8, 32767.0,
    65535.0,
)  # fmt: skip
STUCK_FACTOR = 5
MOST_EXTREME = 0.001
NAMED = 5
MOST_ZEROS = 0.1
FEW_TIMES, FEWEST_OTHERS = 3, 30
"""How often a number stands that is taken for a code by its place alone, and how many others there are."""
FULL, FEWEST = 100.0, 10
"""Percent of a whole, and the fewest values for which it is reported."""


MOSTLY, FEWEST_SHARE, LEAST_PERCENT = 0.5, 0.02, 15.0

Kind = Literal[
    "outside limits", "code", "stuck", "never observed", "constant", "cut off", "percent", "isolated extreme",
    "mixed units",
]  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One thing in one feature that is worth a look.

    Attributes:
        kind: of thing.
        feature: its name.
        text: one line for people; begins with the feature's name.
        n_cells: cells it concerns, over all series.
        value: the code, the stuck value, or the most extreme one; None where no value is concerned.
    """

    kind: Kind
    feature: str
    text: str
    n_cells: int
    value: float | None = None


def screen(
    panel: Panel, limits: Mapping[str, Limits], absent: Sequence[np.ndarray] | None = None
) -> tuple[Finding, ...]:
    """What looks wrong, by feature; nothing is changed.

    Args:
        panel: K features of one or more series.
        limits: of features by name, "*" for all that are not named; values outside are listed with the rest.
        absent: per series (K, T) bool, cells that the table has no place for; they are not filled.

    Raises:
        ConfigError: limits name a feature that the table lacks.
    """
    names = [feature.name for feature in panel.features]
    findings = []
    for k, bounds in enumerate(limits_of(names, limits)):
        rows = [series.values[k] for series in panel.series]
        values = _sorted(np.concatenate(rows))
        codes = suspicious_codes(values)
        codes |= _repeated_far(values[~np.isin(values, list(codes))])
        true = values[~np.isin(values, list(codes))]
        findings += _never_observed(panel, k, absent)
        findings += _outside(names[k], values, bounds)
        findings += _codes(names[k], codes)
        findings += _small_codes(names[k], values)
        findings += _fractions(names[k], true)
        findings += _far_lowest(names[k], true, bounds)
        if len(true) > 1 and true[0] == true[-1]:
            text = f"{names[k]}: all {len(true):,} values are {true[0]:g}"
            findings.append(Finding("constant", names[k], text, len(true), true[0]))
        findings += _percent(names[k], true, bounds) or _cut_off(names[k], true, bounds)
        findings += _extremes(names[k], true)
        findings += _stuck(panel, k, true, tuple(codes))
    return tuple(findings)


@dataclass(frozen=True, eq=False)
class ScreenedEntries:
    """What of the entries of a table is no value, each (E,) bool.

    Attributes:
        coded: codes for missing.
        outside: values outside the limits, no codes.
        unused: of both, what does not count in the panel: all codes, and outside values of cells with valid ones. Where
            a cell has no valid value, its first outside value stands for it.
    """

    coded: np.ndarray
    outside: np.ndarray
    unused: np.ndarray


def values_by_feature(entries: Entries) -> list[np.ndarray]:
    """Per feature its values, in the order of the table."""
    order = np.argsort(entries.feature, kind="stable")
    counts = np.bincount(entries.feature, minlength=entries.n_features)
    return np.split(entries.values[order], np.cumsum(counts)[:-1])


def screen_entries(entries: Entries, codes: Sequence[Collection[float]], limits: Sequence[Limits]) -> ScreenedEntries:
    """The codes and the values outside the limits.

    Args:
        codes, limits: one per feature.
    """
    feature = entries.feature
    coded = np.zeros(len(feature), bool)
    for code in {code for feature_codes in codes for code in feature_codes}:
        coded |= (entries.values == code) & np.array([code in feature_codes for feature_codes in codes])[feature]
    low, high = (np.array(side)[feature] for side in zip(*(limit.bounds for limit in limits), strict=True))
    outside = ((entries.values < low) | (entries.values > high)) & ~coded
    valid = ~np.isnan(entries.values) & ~coded & ~outside
    taken = np.bincount(entries.cell[valid], minlength=entries.n_cells) > 0
    first = np.zeros(len(coded), bool)
    at = np.flatnonzero(outside)
    first[at[np.unique(entries.cell[at], return_index=True)[1]]] = True
    return ScreenedEntries(coded, outside, coded | (outside & (taken[entries.cell] | ~first)))


def certain_codes(values: Mapping[str, np.ndarray]) -> dict[str, tuple[float, ...]]:
    """The codes of each feature that may be taken for "missing" without asking; features without one are left out.

    Such a code is a number that files often write for it, but not -1, -9, 99 or 999; it stands on the far side of zero
    from all other values, or further from them than half their range; and it does so twice or more, or in several
    features. Where it does, a feature that holds nothing but codes is taken for one without values.

    Args:
        values: by feature, in any order; NaN = nothing.
    """
    pooled = {name: _sorted(numbers) for name, numbers in values.items()}
    far = {name: _far_codes(numbers) for name, numbers in pooled.items()}
    several = {code for code in _flat(far) if sum(code in codes for codes in far.values()) > 1}
    certain = {
        name: [code for code, count in counts.items() if count > 1 or code in several] for name, counts in far.items()
    }
    known = sorted(set(_flat(certain)))
    for name, numbers in pooled.items():
        if len(numbers) and np.isin(numbers, known).all():
            certain[name] = [code for code in known if (numbers == code).any()]
    return {name: tuple(codes) for name, codes in certain.items() if codes}


def _sorted(values: np.ndarray) -> np.ndarray:
    """The values without NaN, sorted."""
    return np.sort(values[~np.isnan(values)])


def _flat(codes: Mapping[str, Collection[float]]) -> list[float]:
    return [code for feature_codes in codes.values() for code in feature_codes]


def _far_codes(values: np.ndarray) -> dict[float, int]:
    """Suspicious codes with a wide gap to all other values, each with its count."""
    others = without_codes(values)
    suspicious = suspicious_codes(values)
    if not len(others):
        return {}
    low, high = others[0], others[-1]
    return {
        code: count
        for code, count in suspicious.items()
        if code not in UNCERTAIN_CODES and (code < 0 <= low or max(low - code, code - high) > (high - low) / 2)
    }


def _repeated_far(values: np.ndarray) -> dict[float, int]:
    """The smallest or largest value where it is whole, stands several times and is further from all others than these
    are from each other: a code that nobody has listed, such as -777 of a water gauge; for zero see ``_far_lowest``.
    """
    codes: dict[float, int] = {}
    for end in (0, -1) if len(values) else ():
        code, others = float(values[end]), values[values != values[end]]
        if code == 0 or code % 1 or len(values) - len(others) < FEW_TIMES or len(others) < FEWEST_OTHERS:
            continue
        lowest, highest = float(others[0]), float(others[-1])
        gap = max(lowest - code, code - highest)
        if np.isfinite(gap) and gap > highest - lowest and len(np.unique(others)) >= FEWEST:
            codes[code] = len(values) - len(others)
    return codes


def _never_observed(panel: Panel, k: int, absent: Sequence[np.ndarray] | None) -> Iterator[Finding]:
    name = panel.features[k].name
    places = [n for n, series in enumerate(panel.series) if np.isnan(series.values[k]).all()]
    without = [panel.series[n] for n in places]
    n_cells = sum(len(series.times) for series in without)
    if without and len(without) == len(panel.series):
        yield Finding("never observed", name, f"{name}: never observed", n_cells)
    elif without:
        which = ", ".join(series.name for series in without[:NAMED]) + ", ..." * (len(without) > NAMED)
        text = f"{name}: never observed in {len(without):,} of {len(panel.series):,} series ({which})"
        if absent is not None and all(absent[n][k].all() for n in places):
            text += ", which hold no row of it: none is added"
        else:
            text += "; to leave such series empty, set no_information='empty'"
        yield Finding("never observed", name, text, n_cells)


def _outside(name: str, values: np.ndarray, limits: Limits) -> Iterator[Finding]:
    for bound, word, sign in ((limits.low, "below", -1), (limits.high, "above", 1)):
        beyond = values[sign * values > sign * bound] if bound is not None else values[:0]
        if len(beyond):
            text = f"{name}: {_lie(len(beyond))} {word} the limit {bound:g} ({examples(beyond)})"
            yield Finding("outside limits", name, text, len(beyond), float(beyond[0 if sign < 0 else -1]))


def _codes(name: str, codes: Mapping[float, int]) -> Iterator[Finding]:
    for code, n in codes.items():
        times = "once" if n == 1 else f"{n:,} times"
        text = f"{name}: {code:.10g} stands {times} and far from all other values: a code for missing?"
        text += f" If so, set missing_codes={{{name!r}: {code:.10g}}}"
        yield Finding("code", name, text, n, code)


def _far_lowest(name: str, values: np.ndarray, limits: Limits) -> Iterator[Finding]:
    """0, or one number below, farther below all others than these are apart: a pulse or a pressure without contact."""
    if not len(values) or values[0] > 0 or limits.outside(values).any():
        return
    lowest, above = float(values[0]), values[values != values[0]]
    n = len(values) - len(above)
    if n > MOST_ZEROS * len(values) or len(above) < FEWEST or above[0] <= 0:
        return
    spread = float(above[-1] - above[0])
    if above[0] > spread > 0:
        times = "once" if n == 1 else f"{n:,} times"
        bounds = f"{name}={above[0] / 2:.3g}:"
        text = (
            f"{name}: {lowest:g} stands {times} and far below all other values ({above[0]:g} to {above[-1]:g}): not "
            f"measured? If so, set limits={bounds!r} and drop_invalid=True"
        )
        yield Finding("code", name, text, n, lowest)


def _percent(name: str, values: np.ndarray, limits: Limits) -> list[Finding]:
    """Touches 100 and no more, as shares in percent do."""
    if len(values) < FEWEST or values[-1] != FULL or values[0] < 0 or values[0] == FULL or limits.high is not None:
        return []
    n = int((values == FULL).sum())
    text = f"{name}: its largest value is {FULL:g}. If it is a percentage, set limits='{name}=0:100'"
    return [Finding("percent", name, text, n, FULL)]


def _cut_off(name: str, values: np.ndarray, limits: Limits) -> Iterator[Finding]:
    """Of features with many different values: of few, some are always piled up."""
    at_top = piled_at_top(values) if len(values) else 0
    if at_top and values[-1] != limits.high and len(np.unique(values)) > 10:
        text = f"{name}: {at_top:,} values are exactly {values[-1]:g}, the largest: cut off there?"
        yield Finding("cut off", name, text, at_top, float(values[-1]))


def _extremes(name: str, values: np.ndarray) -> Iterator[Finding]:
    """Up to one in a thousand values, further from the rest than twice the range of the rest."""
    n_most = max(1, int(MOST_EXTREME * len(values)))
    if len(values) < 30:
        return
    for sign, word in ((-1, "below"), (1, "above")):
        x = np.sort(sign * values)
        with np.errstate(over="ignore"):  # an infinite range leaves no gap that is wider
            gaps, ranges = np.diff(x), x[:-1] - x[0]
            split = np.flatnonzero((gaps > 2 * ranges) & (ranges > 0))
        split = split[split >= len(x) - 1 - n_most]
        if len(split):
            n = len(x) - 1 - int(split[0])
            text = f"{name}: {_lie(n)} far {word} all others ({examples(sign * x[-n:])})"
            yield Finding("isolated extreme", name, text, n, float(sign * x[-1]))


def _stuck(panel: Panel, k: int, values: np.ndarray, codes: tuple[float, ...]) -> Iterator[Finding]:
    """One value many steps in a row, in a feature that is mostly observed and else varies."""
    sizes = [len(series.times) for series in panel.series]
    if not len(values) or len(values) < sum(sizes) / 2 or values[0] == values[-1]:
        return
    # NaN parts the series, and no NaN equals the next.
    row = np.concatenate([np.append(series.values[k], np.nan) for series in panel.series])
    starts = np.flatnonzero(np.append(True, row[1:] != row[:-1]))
    lengths, held = np.diff(np.append(starts, len(row))), row[starts]
    true = ~np.isnan(held) & ~np.isin(held, codes)
    starts, lengths, held = starts[true], lengths[true], held[true]
    long = lengths >= max(STUCK_STEPS, STUCK_FACTOR * lengths.mean())
    long &= ~np.isin(held, _usual(np.unique(held[long]), values, held, lengths))
    if not long.any():
        return
    at = int(np.argmax(np.where(long, lengths, 0)))
    offsets = np.cumsum([0, *(size + 1 for size in sizes)])
    owner = int(np.searchsorted(offsets, starts[at], side="right")) - 1
    series = panel.series[owner]
    name, n = panel.features[k].name, int(long.sum())
    since: Any = series.labels[int(starts[at] - offsets[owner])]
    is_time = isinstance(since, np.datetime64)  # to the minute, as people read it
    since = str(since.astype("datetime64[m]")).replace("T", " ") if is_time else f"{since:g}"
    text = f"{name}: stays at {held[at]:g} for {lengths[at]:,} steps from {since}"
    text += f" in {series.name}" * bool(series.name)
    text += f", and {n - 1:,} more such stretches" * (n > 2) + ", and 1 more such stretch" * (n == 2)
    yield Finding("stuck", name, text + ": a stuck sensor?", int(lengths[long].sum()), float(held[at]))


def _usual(candidates: np.ndarray, values: np.ndarray, held: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Candidates that a feature often has, as rain is often 0: over a quarter of its values, most not in one stretch.

    Zero in one stretch is usual too, as snow is in summer. ``held`` are the values of stretches, of these ``lengths``.
    """
    count = np.searchsorted(values, candidates, side="right") - np.searchsorted(values, candidates, side="left")
    longest = np.array([lengths[held == candidate].max() for candidate in candidates])
    return candidates[(count > len(values) / 4) & ((longest <= count / 2) | (candidates == 0))]


def _lie(n: int) -> str:
    return "1 value lies" if n == 1 else f"{n:,} values lie"


def _small_codes(name: str, values: np.ndarray) -> Iterator[Finding]:
    """-9 to -1 beside whole numbers from 1 on, and never 0: refused, not asked, does not apply, as in surveys."""
    codes, others = values[values < 0], values[values > 0]
    if len(codes) < FEW_TIMES or len(others) < MOSTLY * len(values) or len(codes) + len(others) < len(values):
        return
    if (values % 1).any() or codes[0] < -9:
        return
    listed = ", ".join(f"{code:g}" for code in np.unique(codes))
    text = (
        f"{name}: {listed} stand {len(codes):,} times, 0 never, and all others are "
        f"{others[0]:g} to {others[-1]:g}: codes for missing? If so, set missing_codes={{{name!r}: [{listed}]}}"
    )
    yield Finding("code", name, text, len(codes), float(codes[0]))


def _fractions(name: str, values: np.ndarray) -> Iterator[Finding]:
    """Shares of 1 beside percentages, as 0.4 and 40 of inspired oxygen."""
    low, high = values[values <= 1], values[values >= LEAST_PERCENT]
    fewest = max(FEW_TIMES, FEWEST_SHARE * len(values))
    if min(len(low), len(high)) < fewest or len(low) + len(high) < len(values):
        return
    if low[0] < LEAST_PERCENT / FULL or high[-1] > FULL or not (low % 1).any():
        return
    text = (
        f"{name}: {len(low):,} values are {low[0]:g} to {low[-1]:g}, {len(high):,} are {high[0]:g} to {high[-1]:g} and "
        "none lies between: fractions beside percentages? If so, convert one of both before"
    )
    yield Finding("mixed units", name, text, len(low), float(low[0]))

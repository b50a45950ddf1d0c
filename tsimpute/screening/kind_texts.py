"""Texts on columns that are not predicted, on values that are hidden from the model, and on series in another unit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from tsimpute.core.panel import Panel
from tsimpute.screening.column_kinds import ColumnKind, Kind
from tsimpute.screening.kind_names import named_direction, named_tens_of_direction
from tsimpute.screening.screening import Finding
from tsimpute.tables.columns.time_names import words_of
from tsimpute.tables.time.stamps import label_text

NAMED = 5
_DONE: dict[Kind, str] = {
    "empty": "nobody measured it, so it stays empty",
    "id": "an id; it is passed through unchanged and empty in added rows",
    "code": "a code; it is passed through unchanged, its gaps and added rows stay empty",
    "presence": "an event; an empty cell may mean none, so its gaps stay empty",
    "once": "a descriptor of the series; it is passed through unchanged and no rows are added for it",
    "constant": "a constant; gaps are filled with the one value of their series",
    "per series": "a descriptor of the series; gaps are filled with its value, a series without one stays empty",
    "counter": "a counter; gaps are filled between their neighbours in time. Before the first and after the last "
    "value, and where it starts anew, they stay empty",
    "count": "filled with whole numbers from 0 on",
    "scale": "a scale; filled with whole numbers from its lowest grade on, and up to the highest that its name gives",
    "yes or no": "filled with 0 or 1",
}
_CIRCLES = (36, 360)
_DAYS, _OFTEN = 5, 0.5
"""Days with an hour before its lack of values is reported, and the share of values at the other hours."""
_ONLY = ("code",)
"""What is still worth a look in a column that is not predicted."""
FEWEST_VALUES = 5
"""Values from which the median of a series says something of its unit."""
_NAMED = 3
_TEMPERATURE = frozenset({"temp", "temperature", "tmp", "t", "ta", "tair", "bt", "tmean", "tavg", "tmax", "tmin"})
_PRESSURE = frozenset({"pressure", "press", "pres", "p", "slp", "mslp", "baro", "barometer", "barometric", "patm"})
_BLOOD_GAS = frozenset({"pco2", "paco2", "po2", "pao2", "pvco2"})
_BLOOD = frozenset({"bp", "sbp", "dbp", "map", "nibp", "abp", "sysabp", "diasabp", "systolic", "diastolic", "mbp"})
_GLUCOSE = frozenset({"glucose", "glu", "bg", "sgv", "cgm", "sugar", "glc"})
_ATMOSPHERE = {"kPa": (80, 110), "hPa": (800, 1100), "mmHg": (600, 825)}
_IN_HPA = {"kPa": 10.0, "hPa": 1.0, "mmHg": 1.333224}


def kinds_text(kinds: Sequence[ColumnKind]) -> str:
    """The columns that are not predicted, each with its kind; "" where there are none."""
    return ", ".join(f"{kind.feature} ({kind.kind})" for kind in kinds if not kind.predicted)


def kind_warnings(panel: Panel, kinds: Sequence[ColumnKind], limits: Collection[str]) -> Iterable[str]:
    """One line for each kind that decides what is filled: names, reasons, what is done, and how to change it.

    Args:
        panel: what may be seen.
        limits: names of features whose limits were given.
    """
    missing = {
        feature.name: sum(int((~series.observed[k]).sum()) for series in panel.series)
        for k, feature in enumerate(panel.features)
    }
    reported = [kind for kind in kinds if kind.kind in _DONE and missing[kind.feature]]
    if "*" in limits:
        reported = [kind for kind in reported if not kind.predicted]
    reported = [kind for kind in reported if not (kind.predicted and kind.feature in limits)]
    order = list(_DONE)
    for _, group in groupby(sorted(reported, key=lambda kind: order.index(kind.kind)), key=lambda kind: kind.kind):
        members = list(group)
        named = ", ".join(f"{kind.feature} ({kind.reason})" for kind in members[:NAMED])
        named += f" and {len(members) - NAMED} more" * (len(members) > NAMED)
        change = (
            f". To have a model predict it all the same, set predict={[kind.feature for kind in members[:NAMED]]!r}"
        )
        if members[0].predicted:
            change = f". To have it otherwise, set limits='{members[0].feature}=:'"
        if members[0].kind == "empty":  # features without a value cannot be predicted
            change = ""
        yield f"{named}: {_DONE[members[0].kind]}{change}"
    n_cells = sum(len(series.times) for series in panel.series)
    unseen = [kind.feature for kind in kinds if kind.predicted and missing[kind.feature] == n_cells]
    if unseen:
        yield f"{', '.join(unseen)}: no value in this table; filled all the same, since the model has learnt it"
    filled = [kind for kind in kinds if kind.predicted and missing[kind.feature]]
    yield from _directions(panel, filled, limits)
    yield from _silent_hours(panel, filled)
    yield from _contradicted(panel, kinds)


def _directions(panel: Panel, kinds: Sequence[ColumnKind], limits: Collection[str]) -> Iterable[str]:
    """Directions are learnt as plain numbers, which do not know that 350 degrees are next to 10."""
    at = {feature.name: k for k, feature in enumerate(panel.features)}
    bounds = {}
    for kind in (kind for kind in kinds if kind.feature not in limits):
        values = np.concatenate([series.values[at[kind.feature]] for series in panel.series])
        values = values[~np.isnan(values)]
        tens = named_tens_of_direction(kind.feature) and not (values % 10).any()
        if not len(values) or values.min() < 0 or not (tens or named_direction(kind.feature)):
            continue
        circle = next((one for one in _CIRCLES if one / 2 < values.max() <= one), None)
        if circle is not None:
            bounds[kind.feature] = f"{kind.feature}=0:{circle}"
    if bounds:
        yield (
            f"{', '.join(bounds)}: a direction, by name and values. It is filled as a plain number, so between two "
            "directions near north a filled value may point south. To fill it as a direction, replace it by its sine "
            f"and cosine; to keep it within the circle, set limits='{','.join(bounds.values())}'"
        )


def _silent_hours(panel: Panel, kinds: Sequence[ColumnKind]) -> Iterable[str]:
    """Hours of the day at which a feature never has a value, as light has none at night."""
    labels = [np.asarray(series.labels) for series in panel.series]
    if not labels or not all(np.issubdtype(times.dtype, np.datetime64) for times in labels):
        return
    days = np.concatenate([times.astype("datetime64[D]") for times in labels])
    hours = np.concatenate([times.astype("datetime64[h]") for times in labels]).astype(int) % 24
    n_days = np.array([len(np.unique(days[hours == hour])) for hour in range(24)])
    for kind in kinds:
        k = next(k for k, feature in enumerate(panel.features) if feature.name == kind.feature)
        observed = np.concatenate([series.observed[k] for series in panel.series])
        counts = np.bincount(hours[observed], minlength=24)
        silent = (n_days >= _DAYS) & (counts == 0)
        other = observed[~np.isin(hours, np.flatnonzero(silent))]
        if silent.any() and len(other) and other.mean() > _OFTEN:
            named = ", ".join(f"{hour:02d}" for hour in np.flatnonzero(silent))
            yield (
                f"{kind.feature}: has no value on any day at these hours: {named}. If it is not measured then, as at "
                "night, what is filled there is no measurement that is lost: write the values that are known, such as "
                "0, before, or leave it out of the columns to fill (features)"
            )


def _contradicted(panel: Panel, kinds: Sequence[ColumnKind]) -> Iterable[str]:
    """Columns of a later table that do not look as the one that was learnt from."""
    for k, kind in enumerate(kinds):
        rows = [row[~np.isnan(row)] for row in (series.values[k] for series in panel.series)]
        if kind.kind == "empty" and any(len(row) for row in rows):
            yield f"{kind.feature}: has values here and had none in the table that was learnt from; its gaps stay empty"
        if kind.kind in ("constant", "per series") and any((row != row[:1]).any() for row in rows):
            yield (
                f"{kind.feature}: had one value in each series of the table that was learnt from and has several here; "
                "gaps of such series stay empty. Fit on this table"
            )


def told_by_kind(findings: Sequence[Finding], kinds: Sequence[ColumnKind], far: Sequence[np.ndarray]) -> list[str]:
    """Findings that no other text reports: neither on the kind of a column nor on hidden values."""
    by_name = {kind.feature: kind for kind in kinds}
    hidden = {kind.feature for k, kind in enumerate(kinds) if any(cells[k].any() for cells in far)}
    texts = []
    for finding in findings:
        kind = by_name[finding.feature]
        if finding.kind in ("percent", "outside limits"):
            continue
        if finding.kind == "isolated extreme" and kind.feature in hidden:
            continue
        if kind.predicted or finding.kind in _ONLY:
            texts.append(finding.text)
        elif finding.kind == "never observed" and kind.kind in ("counter", "per series"):
            texts.append(f"{finding.text}: it stays empty there")
    full = [f.feature for f in findings if f.kind == "percent" and by_name[f.feature].predicted]
    if full:
        bounds = ",".join(f"{name}=0:100" for name in full)
        texts.append(
            f"{', '.join(full)}: the largest value is 100. If that is a percentage, bound what is filled: set "
            f"limits='{bounds}'"
        )
    return texts


def far_warnings(panel: Panel, far: Sequence[np.ndarray], fitted: bool = False) -> Iterable[str]:
    """One line for each feature with values that are hidden from the model since they are far from all others.

    Args:
        panel: what the table holds.
        far: per series a (K, T) bool mask of these values.
        fitted: whether the model has learnt already: its limits cannot be changed then, codes for missing can.
    """
    for k, feature in enumerate(panel.features):
        places = [(n, int(t)) for n, cells in enumerate(far) for t in np.flatnonzero(cells[k])]
        if not places:
            continue
        pooled = np.concatenate([series.values[k][~cells[k]] for series, cells in zip(panel.series, far, strict=True)])
        low, high = float(np.nanmin(pooled)), float(np.nanmax(pooled))
        some = [(panel.series[n], t) for n, t in places[:NAMED]]
        named = "; ".join(
            f"{series.values[k, t]:.10g} at {label_text(series.labels[t])}{f' of {series.name}' if series.name else ''}"
            for series, t in some
        )
        named += f"; and {len(places) - NAMED:,} more" * (len(places) > NAMED)
        spread = (high - low) or abs(high) or 1.0
        bounds = f"{feature.name}={max(low - spread, 0.0 if low >= 0 else -np.inf):.6g}:{high + spread:.6g}"
        lies = "lies" if len(places) == 1 else "lie"
        change = f"set limits={bounds!r} and drop_invalid=True"
        if fitted:
            n, t = places[0]
            change = f"set missing_codes={{{feature.name!r}: {panel.series[n].values[k, t]:.10g}}}"
        yield (
            f"{feature.name}: {named} {lies} far from all other values ({low:g} to {high:g}); kept in the table and "
            f"hidden from the model. To fill such values instead, {change}; if they are true, "
            f"set limits='{feature.name}=:'"
        )


@dataclass(frozen=True)
class Conversion:
    """Two units of one quantity: a value in the second is ``factor * value + offset`` in the first, ``factor`` below 1.

    Attributes:
        units: their names.
        first, second: medians of series in them lie between these.
        words: of names of features of this quantity.
    """

    units: tuple[str, str]
    first: tuple[float, float]
    second: tuple[float, float]
    factor: float
    offset: float
    words: frozenset[str]


CONVERSIONS = (
    Conversion(("degC", "degF"), (-30, 45), (-22, 113), 5 / 9, -160 / 9, _TEMPERATURE),
    *(
        Conversion((one, two), _ATMOSPHERE[one], _ATMOSPHERE[two], _IN_HPA[two] / _IN_HPA[one], 0.0, _PRESSURE)
        for one, two in (("kPa", "hPa"), ("kPa", "mmHg"), ("mmHg", "hPa"))
    ),
    Conversion(("kPa", "mmHg"), (1, 30), (15, 250), 0.133322, 0.0, _BLOOD | _BLOOD_GAS),
    Conversion(("mmol/L", "mg/dL"), (2, 30), (36, 540), 1 / 18.016, 0.0, _GLUCOSE),
)


def mixed_units(panel: Panel) -> Iterable[str]:
    """A sentence for each feature whose series look as if they were in two units of one quantity."""
    for k, feature in enumerate(panel.features):
        words = {*words_of(feature.name), "".join(words_of(feature.name))}
        known = [conversion for conversion in CONVERSIONS if conversion.words & words]
        if not known:
            continue
        rows = [(s.name, s.values[k][~np.isnan(s.values[k])]) for s in panel.series]
        middles = {name: float(np.median(values)) for name, values in rows if len(values) >= FEWEST_VALUES}
        for conversion in known:
            values = np.array(list(middles.values()))
            other = _in_second_unit(values, conversion)
            if other.any():
                names = [series for series, is_other in zip(middles, other, strict=True) if is_other]
                named = ", ".join(names[:_NAMED]) + f" and {len(names) - _NAMED} more" * (len(names) > _NAMED)
                one, two = conversion.units
                usual, unusual = (f"{np.median(values[cells]):.4g}" for cells in (~other, other))
                yield (
                    f"{feature.name}: {len(names)} of {len(values)} series ({named}) look as if they were in {two} and "
                    f"the others in {one}: their median is {unusual}, that of the others {usual}. If so, convert them "
                    "before"
                )
                break


def _in_second_unit(middles: np.ndarray, conversion: Conversion) -> np.ndarray:
    """(N,) bool: series that lie apart from the others as they are, and among them once they are converted."""
    nothing = np.zeros(len(middles), bool)
    if len(middles) < 2 or np.ptp(middles) == 0:
        return nothing
    ordered = np.sort(middles)
    cut = int(np.diff(ordered).argmax())
    second = middles > ordered[cut]
    first = ~second
    low_end, high_end = conversion.first
    other_low, other_high = conversion.second
    inside = ((middles >= low_end) & (middles <= high_end))[first].all()
    inside &= ((middles >= other_low) & (middles <= other_high))[second].all()
    converted = conversion.factor * middles[second] + conversion.offset
    distance = np.diff(ordered)[cut]
    spread = max(np.ptp(middles[first]), np.ptp(middles[second]))
    usual = np.median(middles[first])
    near = abs(np.median(converted) - usual) < abs(np.median(middles[second]) - usual) / 3
    return second if inside and near and distance > spread else nothing

"""Series of one feature that fall into two groups, of which one is the other in another unit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tsimpute.core.panel import Panel
from tsimpute.tables.columns.time_names import words_of

FEWEST_VALUES = 5
"""Values from which the median of a series says something of its unit."""
_NAMED = 3


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


_TEMPERATURE = frozenset({"temp", "temperature", "tmp", "t", "ta", "tair", "bt", "tmean", "tavg", "tmax", "tmin"})
_PRESSURE = frozenset({"pressure", "press", "pres", "p", "slp", "mslp", "baro", "barometer", "barometric", "patm"})
_BLOOD_GAS = frozenset({"pco2", "paco2", "po2", "pao2", "pvco2"})
_BLOOD = frozenset({"bp", "sbp", "dbp", "map", "nibp", "abp", "sysabp", "diasabp", "systolic", "diastolic", "mbp"})
_GLUCOSE = frozenset({"glucose", "glu", "bg", "sgv", "cgm", "sugar", "glc"})
_ATMOSPHERE = {"kPa": (80, 110), "hPa": (800, 1100), "mmHg": (600, 825)}
_IN_HPA = {"kPa": 10.0, "hPa": 1.0, "mmHg": 1.333224}
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
            other = _in_second_unit(np.array(list(middles.values())), conversion)
            if other.any():
                yield _text(feature.name, conversion, middles, other)
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


def _text(name: str, conversion: Conversion, middles: dict[str, float], other: np.ndarray) -> str:
    names = [series for series, is_other in zip(middles, other, strict=True) if is_other]
    named = ", ".join(names[:_NAMED]) + f" and {len(names) - _NAMED} more" * (len(names) > _NAMED)
    values = np.array(list(middles.values()))
    one, two = conversion.units
    usual, unusual = (f"{np.median(values[cells]):.4g}" for cells in (~other, other))
    return (
        f"{name}: {len(names)} of {len(values)} series ({named}) look as if they were in {two} and the others in "
        f"{one}: their median is {unusual}, that of the others {usual}. If so, convert them before"
    )

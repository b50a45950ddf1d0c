"""Rules of a model's data set for tables that the model fills: steps, names, units, limits."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tsimpute.config import registry
from tsimpute.core.limits import Limits
from tsimpute.core.panel import Panel
from tsimpute.core.windows import Feature
from tsimpute.datasets.base import OtherUnit, TableRules
from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.panels.calendar import with_calendar
from tsimpute.tables.roles.columns import KnownFeatures

FEWEST_VALUES = 5
"""Values of a feature from which a median says something of their unit."""
FEWEST_SERIES, LEAST_SHARE = 2, 0.05
"""Series in another unit that are refused: of the data set's own records at most 1.4 % have such a median."""


@dataclass(frozen=True)
class ModelRules:
    """How a table is brought to a model.

    Attributes:
        known: its features, and names of the table for them.
        tables: of the data set that it learnt from; None = a table has to have its very features.
        limits: of the data set, by feature of the model.
    """

    known: KnownFeatures
    tables: TableRules | None
    limits: Mapping[str, Limits] = field(default_factory=dict)


def rules_of(features: Sequence[Feature] | None, rename: Mapping[str, str]) -> ModelRules | None:
    """How a table is brought to a model of such features; None where there is none, and nothing to be renamed."""
    if features is None:
        if rename:
            raise ConfigError("rename: expected a model whose names the table's are brought to, came none. Give model.")
        return None
    names = tuple(feature.name for feature in features if not feature.given)
    for name in registry.available("datasets"):
        card = registry.plugin("datasets", name).card
        if card.tables is not None and tuple(feature.name for feature in card.tables.features) == names:
            known = KnownFeatures(names, rename, card.tables.descriptors, card.tables.step)
            return ModelRules(known, card.tables, card.limits)
    return ModelRules(KnownFeatures(names, rename), None)


@dataclass(frozen=True, eq=False)
class Match:
    """Where a model's features stand in a panel.

    Attributes:
        place: by feature of the model, its place in the panel, -1 = the table lacks it.
    """

    place: np.ndarray

    def to_model(self, cells: np.ndarray, empty: Any) -> np.ndarray:
        """Cells (K, T) of the panel in the order of the model; ``empty`` where the table lacks a feature."""
        out = np.full((len(self.place), cells.shape[1]), empty, cells.dtype)
        out[self.place >= 0] = cells[self.place[self.place >= 0]]
        return out

    @property
    def back(self) -> np.ndarray:
        """By feature of the panel, its place in the model."""
        features = np.flatnonzero(self.place >= 0)
        return features[np.argsort(self.place[features])]


def matched(panel: Panel, features: Sequence[Feature], rules: ModelRules | None = None) -> tuple[Panel, Match]:
    """The panel with a model's features, in the model's order, and where each stands in the given one.

    A feature without a unit in the table has the model's. What the model is given of the calendar comes after them and
    has no place in the panel.

    Args:
        rules: None = the names have to be the model's.

    Raises:
        DataError: features differ in name, unless the rules of a data set let some be absent, or in unit; or there is
            no calendar.
    """
    predicted = tuple(feature for feature in features if not feature.given)
    names, wanted = [feature.name for feature in panel.features], [feature.name for feature in predicted]
    known, tables = {name: name for name in names if name in wanted}, None if rules is None else rules.tables
    if rules is not None and (tables is not None or rules.known.rename):
        known = rules.known.of(names)
    place = {name: names.index(text) for text, name in known.items()}
    absent, new = [n for n in wanted if n not in place], [n for n in names if n not in known]
    if new or (absent and tables is None):
        raise _other_features(wanted, absent, new, "Rename columns (rename, --rename)")
    for feature in predicted:
        if feature.name not in place:
            continue
        of_table, unit = panel.features[place[feature.name]], feature.unit
        same = [unit, *(() if tables is None else tables.same_units.get(unit, ()))]
        if of_table.unit and unit and _spelt(of_table.unit) not in map(_spelt, same):
            raise DataError(
                f"units: expected {of_table.name} in {_unit_text(unit)}, came {of_table.unit!r}. Convert the "
                f'values, or say that the unit is the model\'s: --units "{of_table.name}={unit}" (units).'
            )
    places = Match(np.array([place.get(name, -1) for name in wanted]))
    series = tuple(replace(s, values=places.to_model(s.values, np.nan)) for s in panel.series)
    calendar = [feature for feature in features if feature.given]
    return with_calendar(replace(panel, features=predicted, series=series), calendar), places


def check_features(names: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuses (DataError) features of other names than those learnt."""
    absent, new = [n for n in wanted if n not in names], [n for n in names if n not in wanted]
    if absent or new:
        raise _other_features(wanted, absent, new, "Rename columns")


def _other_features(wanted: Sequence[str], absent: Sequence[str], new: Sequence[str], advice: str) -> DataError:
    return DataError(
        f"features: expected the model's {len(wanted)}; absent from the table: {', '.join(absent) or 'none'}; not "
        f"known to the model: {', '.join(new) or 'none'}. {advice}, add a column without values, choose features, or "
        "fit on the table itself."
    )


def check_medians(panel: Panel, units: Mapping[str, str], rules: ModelRules) -> None:
    """Refuses (DataError) features whose values are in another unit than the data set's.

    Args:
        panel: with all values, also those that lie outside the limits.
        units: that were given; what has one is not looked at.
    """
    if rules.tables is None:
        return
    known = rules.known.of([feature.name for feature in panel.features])
    wanted = {feature.name: feature.unit for feature in rules.tables.features}
    wrong = []
    for k, feature in enumerate(panel.features):
        name = known.get(feature.name, "")
        others = rules.tables.other_units.get(name, ())
        if not others or feature.name in units:
            continue
        rows = {series.name: series.values[k][~np.isnan(series.values[k])] for series in panel.series}
        values = np.concatenate(list(rows.values()))
        if other := _shown(values, others):
            shows = f"its median of {np.median(values):.4g} shows {other.unit}"
            wrong.append((feature.name, wanted[name], shows))
        elif shows := _shown_by_some(rows, others):
            wrong.append((feature.name, wanted[name], shows))
    if wrong:
        texts = [f"{name} in {_unit_text(unit)}, {shows}" for name, unit, shows in wrong]
        first, unit = wrong[0][:2]
        raise DataError(
            f"units: expected {'; '.join(texts)}. Convert the values, or, if they are right as they are, say so: "
            f'--units "{first}={unit}" (units).'
        )


def _shown_by_some(rows: Mapping[str, np.ndarray], others: Sequence[OtherUnit]) -> str:
    """Which series show another unit than the rest, as patients of another ward; "" where hardly any does."""
    filled = {name: values for name, values in rows.items() if len(values)}
    for other in others:
        named = [name for name, values in filled.items() if _shown(values, (other,), fewest=1)]
        if len(named) < max(FEWEST_SERIES, LEAST_SHARE * len(filled)):
            continue
        some = ", ".join(named[:3]) + f" and {len(named) - 3:,} more" * (len(named) > 3)
        middle = float(np.median(np.concatenate([filled[name] for name in named])))
        return f"{len(named):,} of {len(filled):,} series ({some}; their median is {middle:.4g}) show {other.unit}"
    return ""


def _shown(values: np.ndarray, others: Sequence[OtherUnit], fewest: int = FEWEST_VALUES) -> OtherUnit | None:
    if len(values) < fewest:
        return None
    middle, whole = float(np.median(values)), float((values == np.rint(values)).mean()) > 0.5
    fits = (o for o in others if o.low <= middle <= o.high and o.whole in (None, whole))
    return next(fits, None)


def _spelt(unit: str) -> str:
    return "".join(unit.split()).casefold().replace("\N{MICRO SIGN}", "u").replace("\N{GREEK SMALL LETTER MU}", "u")


def _unit_text(unit: str) -> str:
    return "numbers without a unit (a fraction or a score)" if unit == "1" else repr(unit)


def limits_for(
    limits: Mapping[str, Limits] | str, names: Sequence[str], rules: ModelRules | None
) -> Mapping[str, Limits]:
    """The limits of a table's features: those given, else those of the data set of a given model.

    Args:
        limits: by feature; or a text as of ``parse_limits``, or the name of a data set, such as physionet2012. What its
            card says of features that are not here is left out; its "*" holds for all others.
        names: of the table's features.

    Raises:
        ConfigError: a text is neither, or the card says nothing of any of the features.
    """
    if isinstance(limits, str):
        name = limits.strip()
        limits = parse_limits(limits) if not name or "=" in name else _limits_of_data_set(name, names)
    if rules is None or not rules.limits:
        return limits
    model_names = rules.known.of(names)
    return {name: rules.limits[model_names[name]] for name in names if model_names.get(name) in rules.limits} | dict(
        limits
    )


def parse_limits(text: str) -> dict[str, Limits]:
    """Limits from ``NAME=LOW:HIGH`` or ``NAME=LOW:HIGH:int``, parted by commas; a bound that is left out is none.

    "PM2.5=0:,RH=0:100,steps=0::int,*=:" bounds PM2.5 from below, RH on both sides, makes steps whole numbers from 0
    on, and leaves all others free. Blank text gives none.

    Raises:
        ConfigError: a part is none of these, names a feature twice, or gives no possible limits.
    """
    limits: dict[str, Limits] = {}
    for part in text.split(",") if text.strip() else ():
        fit = re.fullmatch(r"(?P<name>.+)=(?P<low>[^:=]*):(?P<high>[^:=]*)(?P<integer>:\s*int\s*)?", part.strip())
        if not fit or not (name := fit["name"].strip()):
            raise ConfigError(_expected(part))
        if name in limits:
            raise ConfigError(f"limits: expected each feature once, {name!r} comes twice.")
        try:
            low, high = (float(side) if side.strip() else None for side in (fit["low"], fit["high"]))
            limits[name] = Limits(low, high, integer=fit["integer"] is not None)
        except ValueError as error:  # a ConfigError is one too
            raise ConfigError(_expected(part) + f" ({error})") from error
    return limits


def _limits_of_data_set(name: str, features: Collection[str]) -> dict[str, Limits]:
    cards = {data_set: registry.plugin("datasets", data_set).card.limits for data_set in registry.available("datasets")}
    known = [data_set for data_set, limits in cards.items() if limits]
    if name not in known:
        raise ConfigError(_expected(name)[:-1] + f". A data set's name stands for its limits: {', '.join(known)}.")
    known_here = {feature: limits for feature, limits in cards[name].items() if feature in features or feature == "*"}
    if not known_here:
        raise ConfigError(
            f"limits: expected features that {name} has limits for ({', '.join(cards[name])}), came "
            f"{', '.join(map(str, features))}. Rename them, or give limits as NAME=LOW:HIGH."
        )
    return known_here


def _expected(part: str) -> str:
    return f"limits: expected NAME=LOW:HIGH or NAME=LOW:HIGH:int, such as PM2.5=0: or RH=0:100; came {part.strip()!r}."

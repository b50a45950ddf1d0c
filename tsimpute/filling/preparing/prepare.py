"""A table made ready for a model: codes that mean "missing", impossible values, features by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tsimpute.core.limits import Limits, limits_of
from tsimpute.core.panel import Panel
from tsimpute.core.windows import Feature
from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.panels.calendar import calendar_features, calendar_text, with_calendar
from tsimpute.filling.panels.windows import without
from tsimpute.filling.preparing.model_rules import Match, ModelRules, match
from tsimpute.filling.preparing.rules import by_rule, rule_bands
from tsimpute.filling.preparing.series import Policy, provenance_of
from tsimpute.filling.settings.table_settings import Codes, codes_by_name, limits_by_name
from tsimpute.screening.column_kinds import ColumnKind, column_kinds
from tsimpute.screening.findings import Finding
from tsimpute.screening.kind_texts import far_warnings, kind_warnings, kinds_text, told_by_kind
from tsimpute.screening.mixed_units import mixed_units
from tsimpute.screening.row_kinds import row_kind_warnings
from tsimpute.screening.rows import screen_entries, values_by_feature
from tsimpute.screening.screening import certain_codes, read_limits, screen
from tsimpute.tables.frames.table import Edits, Table, features_text
from tsimpute.tables.roles.known_features import KnownFeatures
from tsimpute.tables.time.stamps import label_text

LARGEST = 1e37
"""Beyond it numbers of single precision end."""
FEW = 10
_SHOWN = 5
FARTHEST = 1e15
"""How much farther from the middle a value may lie than most: the squares of standardised values have to be finite."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table, and what of it is a value.

    Attributes:
        table: as it was understood.
        kept: its panel without codes, and without invalid values where they are dropped: what is given back.
        seen: the same without any value outside the limits or far from all others.
        coded, invalid: per series (K, T) bool, cells with codes, and cells that were declared invalid.
        limits: by feature.
        given: what of the calendar a model is given beside.
        codes: that mean "missing", by feature.
        kinds: of each feature, what kind of column it is; one that is no measurement is not predicted.
        findings: what looks wrong.
        warnings: what a reader should look at, a sentence each; what is only worth knowing is in ``table.notes``.
        rules: how the table is brought to a given model.
    """

    table: Table
    kept: Panel
    seen: Panel
    coded: list[np.ndarray]
    invalid: list[np.ndarray]
    limits: Mapping[str, Limits]
    given: tuple[Feature, ...]
    codes: Mapping[str, tuple[float, ...]]
    kinds: tuple[ColumnKind, ...]
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]
    rules: ModelRules | None = None

    @property
    def unfillable(self) -> tuple[tuple[str, str], ...]:
        """Columns with gaps that look like numbers and cannot be filled, each with the reason; see ``Table``."""
        return self.table.unfillable

    @property
    def predicted(self) -> np.ndarray:
        """(K',) places of the features that a model predicts."""
        return np.array([k for k, kind in enumerate(self.kinds) if kind.predicted], int)

    @property
    def model_panel(self) -> Panel | None:
        """What a model sees: ``seen`` with the features that it predicts; None = there is none."""
        if all(kind.predicted for kind in self.kinds):
            return self.seen
        at = self.predicted
        if not len(at):
            return None
        series = tuple(replace(series, values=series.values[at]) for series in self.seen.series)
        return replace(self.seen, features=tuple(self.seen.features[k] for k in at), series=series)

    @property
    def model_limits(self) -> dict[str, Limits]:
        """Of the features that a model predicts, and "*"."""
        others = {kind.feature for kind in self.kinds if not kind.predicted}
        return {name: of_one for name, of_one in self.limits.items() if name not in others}

    def bands(self, n: int) -> dict[int, np.ndarray]:
        """Of the n-th series, for each feature that is filled by a rule, (3, T); see ``rule_bands``."""
        decimals = self.table.decimals
        ruled = [(k, kind) for k, kind in enumerate(self.kinds) if kind.by_rule]
        return {k: rule_bands(kind, self.seen.series[n], k, decimals[k]) for k, kind in ruled}

    @property
    def about(self) -> list[tuple[str, str]]:
        """What the table was understood to be, its features without what means missing, and what was noted."""
        calendar = [("calendar", calendar_text(self.given))] if self.given else []
        bounds = ", ".join(f"{name} {of_one}" for name, of_one in self.limits.items())
        limits = [("limits", bounds)] * bool(bounds)
        notes = [("note", note) for note in dict.fromkeys(self.table.notes)]
        unpredicted = kinds_text(self.kinds)
        kinds = [("not predicted", unpredicted)] if unpredicted else []
        understood = self.table.understood + calendar + kinds + notes + limits
        return [(name, features_text(self.kept) if name == "features" else value) for name, value in understood]

    @property
    def text(self) -> str:
        """``about`` and ``warnings``, a line each."""
        return "\n".join(f"  {name}: {value}" for name, value in [*self.about, *(("look", w) for w in self.warnings)])

    def provenance(self, policy: Policy) -> list[np.ndarray]:
        """Per series (K, T) uint8: what each cell is to be."""
        parts = zip(self.kept.series, self.invalid, self.table.absent, strict=True)
        found = [provenance_of(series, policy, invalid, absent) for series, invalid, absent in parts]
        for n, codes in enumerate(found):
            bands = self.bands(n)
            for k, kind in enumerate(self.kinds):
                if not kind.predicted:
                    codes[k] = by_rule(codes[k], bands.get(k, np.full((3, codes.shape[1]), np.nan)))
        return found

    def edits(self, cells: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> Edits:
        """Edits of the table; values that the table rounds are moved so that they stay within the limits."""
        limits = limits_of([feature.name for feature in self.table.panel.features], self.limits)
        inside = [of_series.copy() for of_series in values]
        for k, (of_one, decimals) in enumerate(zip(limits, self.table.decimals, strict=True)):
            for of_series in inside if decimals is not None else ():
                of_series[k] = of_one.clipped(of_series[k], decimals)
        return Edits(cells, inside)


def prepare(
    table: Table,
    *,
    limits: Mapping[str, Limits | tuple[float | None, float | None]] | str,
    missing_codes: Codes | Collection[float] | float | str,
    drop_invalid: bool,
    calendar: bool = False,
    learnt_codes: Mapping[str, tuple[float, ...]] | None = None,
    predict: Collection[str] = (),
    learnt: Collection[str] = (),
    kinds: Sequence[ColumnKind] | None = None,
) -> Prepared:
    """Finds codes, impossible values and columns that are no measurements; nothing is changed silently.

    Args:
        limits: by feature, or a text; see ``read_limits``.
        missing_codes: see ``TableImputer``.
        learnt_codes: by feature; they stand in for those that are certain here.
        predict: names of features that are predicted whatever their columns look like.
        learnt: names of features that a given model has learnt: it predicts them.
        kinds: of the table that was learnt from; None = they are decided here. A feature that is none of them is a
            measurement.

    Raises:
        ConfigError: limits of a feature that is not there or that are no pair, codes that are no numbers, invalid
            values are to be dropped and there are no limits, or a feature is to be predicted that is not there or has
            no value.
        DataError: a calendar is asked for and the times have none.
        DataError: a value that is to be learnt from is too large to compute with, by itself or beside the others.
    """
    beside = calendar_features(table.panel) if calendar else ()
    names = [feature.name for feature in table.panel.features]
    bounds = read_limits(limits, names) if isinstance(limits, str) else limits_by_name(limits)
    if drop_invalid and not bounds:
        raise ConfigError("drop_invalid: expected limits that tell what is invalid, came none. Give limits.")
    entries = table.entries
    if learnt_codes is None:
        learnt_codes = certain_codes(dict(zip(names, values_by_feature(entries), strict=True)))
    codes = _codes_of(names, codes_by_name(missing_codes), learnt_codes)
    screened = screen_entries(entries, [codes.get(name, ()) for name in names], limits_of(names, bounds))
    emptied = screened.coded | screened.outside if drop_invalid else screened.coded
    if screened.unused.any() or emptied.any():
        table = table.screened(screened.unused, emptied)
    panel = table.panel
    observed = [series.observed for series in panel.series]
    n_beside = int((screened.unused & entries.flat(observed)).sum())
    coded = [cells & ~known for cells, known in zip(entries.holding(screened.coded), observed, strict=True)]
    outside = entries.holding(screened.outside & ~screened.unused)
    seen = without(panel, outside)
    fitted = kinds is not None or bool(learnt)
    if kinds is None:
        _check_predict(seen, predict)
        kinds = column_kinds(seen, measured=predict, learnt=learnt, long=_has_a_row_for_each_value(table))
    else:
        _check_learnt(names, kinds, predict)
    kinds = _kinds_of(names, kinds)
    far = far_cells(seen, kinds, bounds)
    seen = without(seen, far)
    filled = [k for k, kind in enumerate(kinds) if kind.predicted or kind.by_rule]
    given, bounds = bounds, _with_limits_of_kinds(bounds, () if learnt else kinds)
    kept = without(panel, outside) if drop_invalid else panel
    invalid = outside if drop_invalid else [np.zeros_like(cells) for cells in outside]
    findings = screen(panel, bounds, table.absent)
    prepared = Prepared(table, kept, seen, coded, invalid, bounds, beside, codes, kinds, findings, ())
    if prepared.model_panel is not None:
        _check_sizes(prepared.model_panel)
    warnings = [
        *table.warnings, *_code_warning(codes, entries.feature[screened.coded]),
        *told_by_kind(prepared.findings, kinds, far),
        *_outside_warnings(int(screened.outside.sum()), prepared.findings, n_beside, drop_invalid),
        *far_warnings(panel, far, fitted), *kind_warnings(seen, kinds, given), *mixed_units(seen),
        *row_kind_warnings(table, observed, filled),
    ]  # fmt: skip
    return replace(prepared, warnings=tuple(dict.fromkeys(warnings)))


def far_cells(panel: Panel, kinds: Sequence[ColumnKind], limits: Mapping[str, Limits]) -> list[np.ndarray]:
    """Per series a (K, T) bool mask of the values that are far from all others, but of features with limits."""
    free = [ColumnKind(kind.feature) if kind.feature in limits else kind for kind in kinds]
    return [np.stack([kind.far(row) for kind, row in zip(free, series.values, strict=True)]) for series in panel.series]


def _has_a_row_for_each_value(table: Table) -> bool:
    return ("layout", "long") in [(name, value[:4]) for name, value in table.understood]


def _check_predict(panel: Panel, predict: Collection[str]) -> None:
    names = [feature.name for feature in panel.features]
    for name in predict:
        if name not in names:
            raise ConfigError(
                f"predict: expected features of the table ({', '.join(names[:20])}), came {name!r}. Correct the name; "
                "a column that is passed through when the table is read has to be named among the features, too."
            )
        if not any(series.observed[names.index(name)].any() for series in panel.series):
            raise ConfigError(f"predict: expected a column with values, {name!r} has none. Leave it out.")


def _check_learnt(names: Sequence[str], kinds: Sequence[ColumnKind], predict: Collection[str]) -> None:
    """Refuses to have a model predict what it has not learnt; kinds are those of the table that it learnt from."""
    known = {kind.feature: kind for kind in kinds}
    for name in predict:
        if name not in names and name not in known:
            raise ConfigError(f"predict: expected features of the table ({', '.join(names[:20])}), came {name!r}.")
        if name in known and not known[name].predicted:
            raise ConfigError(
                f"predict: expected features that the model has learnt to predict, came {name!r}, which it knows as "
                f"{known[name].kind!r}. Fit on the table itself (no model), or leave it out."
            )


def _kinds_of(names: Sequence[str], kinds: Sequence[ColumnKind]) -> tuple[ColumnKind, ...]:
    by_name = {kind.feature: kind for kind in kinds}
    return tuple(by_name.get(name, ColumnKind(name)) for name in names)


def _with_limits_of_kinds(given: Mapping[str, Limits], kinds: Sequence[ColumnKind]) -> dict[str, Limits]:
    """The limits that are given, and those that the kind of a feature says where none are."""
    found = {kind.feature: kind.limits for kind in kinds if kind.limits is not None and "*" not in given}
    return {**found, **given}


def _code_warning(codes: Mapping[str, tuple[float, ...]], coded: np.ndarray) -> list[str]:
    """How many cells hold codes; ``coded``: the feature of each such cell."""
    n_features = len(np.unique(coded))
    if not n_features:
        return []
    named = ", ".join(sorted({f"{code:g}" for of_one in codes.values() for code in of_one}))
    n, of_features = len(coded), f"of {n_features} feature{'s' * (n_features > 1)}"
    hold, filled = ("holds", "is filled as a gap") if n == 1 else ("hold", "are filled as gaps")
    return [
        f"{named}: {n:,} cell{'s' * (n > 1)} {of_features} {hold} a code for missing and {filled}; if these are true "
        "values, set missing_codes='none'"
    ]


def some_of(texts: Sequence[str], between: str) -> str:
    """The first few texts, and how many more there are."""
    return between.join(texts[:_SHOWN]) + f" and {len(texts) - _SHOWN:,} more" * (len(texts) > _SHOWN)


def _outside_warnings(n_outside: int, findings: Sequence[Finding], n_beside: int, drop_invalid: bool) -> list[str]:
    values, are = ("value", "is") if n_outside == 1 else ("values", "are")
    what = (
        "made missing and filled; to keep such values, leave drop_invalid out or widen the limits"
        if drop_invalid
        else "kept unchanged and hidden from the model; to fill such values, set drop_invalid=True"
    )
    which = some_of([finding.text for finding in findings if finding.kind == "outside limits"], "; ")
    warnings = [f"{n_outside:,} {values} outside the limits {are} {what}" + f" ({which})" * bool(which)]
    warnings = warnings * bool(n_outside)
    if n_beside:
        warnings.append(
            f"{n_beside:,} of the codes and values outside the limits stand beside others of the same time: they are "
            "left out of the mean, and nothing is filled in for them"
        )
    return warnings


def _check_sizes(panel: Panel) -> None:
    """Refuses, before any work, values from which no network in single precision can learn or draw."""
    for k, feature in enumerate(panel.features):
        values = np.concatenate([series.values[k][series.observed[k]] for series in panel.series])
        if not len(values) or _are_of_one_order(values):
            continue
        largest = values[np.abs(values).argmax()]
        which = next(series for series in panel.series if (series.values[k] == largest).any())
        label = label_text(which.labels[int(np.argmax(which.values[k] == largest))])
        raise DataError(
            f"{feature.name}: expected values that a model can learn from, came {largest:g} at {label}"
            f"{f' of {which.name!r}' if which.name else ''}. Is it a code for missing? Name it (missing_codes), give "
            "limits that it lies outside of, or convert the unit."
        )


def _are_of_one_order(values: np.ndarray) -> bool:
    if np.abs(values).max() > LARGEST:
        return False
    far = np.abs(values - np.median(values))
    # Of few values any may be hidden to measure on: then nothing of their spread is known.
    others = np.quantile(far[far > 0], 0.9, method="lower") if (far > 0).sum() >= FEW else 1.0
    return bool(far.max() / FARTHEST <= others)


def _codes_of(
    names: Sequence[str], given: Codes, certain: Mapping[str, tuple[float, ...]]
) -> dict[str, tuple[float, ...]]:
    """The codes of each feature that has some: its own, else those of "*", else those that are certain."""
    unknown = [name for name in given if name != "*" and name not in names]
    if unknown:
        raise ConfigError(
            f"missing_codes: expected features of the table ({', '.join(names[:20])}) or '*' for all others; came "
            f"{unknown[0]!r}. Correct the name or leave it out."
        )
    rules = {name: given.get(name, given.get("*", "certain")) for name in names}
    codes = {name: certain.get(name, ()) if isinstance(rule, str) else rule for name, rule in rules.items()}
    return {name: of_one for name, of_one in codes.items() if of_one}


def check_features(names: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuses features of other names than those learnt.

    Raises:
        DataError: one is absent, or new.
    """
    absent, new = [n for n in wanted if n not in names], [n for n in names if n not in wanted]
    if absent or new:
        raise DataError(
            f"features: expected the model's {len(wanted)}; absent from the table: {', '.join(absent) or 'none'}; not "
            f"known to the model: {', '.join(new) or 'none'}. Rename columns, add a column without values, choose "
            "features, or fit on the table itself."
        )


def matched(panel: Panel, features: Sequence[Feature], rules: ModelRules | None = None) -> tuple[Panel, Match]:
    """The panel with a model's features, in the model's order, and where each stands in the given one.

    What the model is given of the calendar comes after them and has no place in the panel.

    Args:
        rules: see ``match``; None = the names have to be the model's.

    Raises:
        DataError: see ``match``, or there is no calendar.
    """
    given = [f for f in features if f.given]
    known = KnownFeatures(tuple(f.name for f in features if not f.given))
    found, own = match(panel, features, rules or ModelRules(known, None))
    series = [replace(s, values=found.to_model(s.values, np.nan)) for s in panel.series]
    return with_calendar(replace(panel, features=own, series=tuple(series)), given), found

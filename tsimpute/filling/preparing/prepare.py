"""Makes a table ready for a model: codes for missing, impossible values, kinds of columns, features by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from tsimpute.core.limits import Limits, limits_of
from tsimpute.core.panel import FILLED, Panel
from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.panels.calendar import calendar_features
from tsimpute.filling.panels.windows import without
from tsimpute.filling.preparing.model_rules import ModelRules, check_medians
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.filling.preparing.series import Policy, provenance_of_table
from tsimpute.filling.preparing.table_settings import Codes, codes_by_name
from tsimpute.screening.column_kinds import ColumnKind, column_kinds
from tsimpute.screening.kind_texts import far_warnings, kind_warnings, mixed_units, told_by_kind
from tsimpute.screening.row_kinds import row_kind_warnings
from tsimpute.screening.screening import (
    Finding,
    certain_codes,
    screen,
    screen_entries,
    values_by_feature,
)
from tsimpute.tables.frames.table import Table
from tsimpute.tables.time.stamps import label_text

LARGEST = 1e37
"""Beyond it numbers of single precision end."""
FEW = 10
_SHOWN = 5
FARTHEST = 1e15
"""How much farther from the middle a value may lie than most: the squares of standardised values have to be finite."""


def prepare(
    table: Table,
    *,
    limits: Mapping[str, Limits],
    missing_codes: Codes | Collection[float] | float | str,
    drop_invalid: bool,
    calendar: bool = False,
    learnt_codes: Mapping[str, tuple[float, ...]] | None = None,
    predict: Collection[str] = (),
    learnt: Collection[str] = (),
    kinds: Sequence[ColumnKind] | None = None,
    policy: Policy | None = None,
    rules: ModelRules | None = None,
    units: Mapping[str, str] | None = None,
) -> Prepared:
    """Finds codes, impossible values and columns that are no measurements; nothing is changed silently.

    Args:
        limits: by feature, "*" for all others.
        missing_codes: see ``TableImputer``.
        learnt_codes: by feature; they stand in for those that are certain here.
        predict: names of features that are predicted whatever their columns look like.
        learnt: names of features that a given model has learnt: it predicts them.
        kinds: of the table that was learnt from; None = they are decided here. A feature that is none of them is a
            measurement.
        policy: which gaps are filled; None = all.
        rules: how the table is brought to a given model.
        units: that the caller gave, by feature.

    Raises:
        ConfigError: limits of a feature that the table lacks, codes that are no numbers, invalid values are to be
            dropped and there are no limits, or a feature is to be predicted that the table lacks or that has no value.
        DataError: a calendar is wanted and the times have none; a value is too large to compute with, by itself or
            next to the others; or a feature is in another unit than the model's, see ``check_medians``.
    """
    calendar_parts = calendar_features(table.panel) if calendar else ()
    names = [feature.name for feature in table.panel.features]
    if drop_invalid and not limits:
        raise ConfigError("drop_invalid: expected limits that tell what is invalid, came none. Give limits.")
    entries = table.entries
    if learnt_codes is None:
        learnt_codes = certain_codes(dict(zip(names, values_by_feature(entries), strict=True)))
    codes = _codes_of(names, codes_by_name(missing_codes), learnt_codes)
    screened = screen_entries(entries, [codes.get(name, ()) for name in names], limits_of(names, limits))
    table = table.with_values(entries.means(without=screened.unused)) if screened.unused.any() else table
    if rules is not None:
        check_medians(table.panel, units or {}, rules)
    outside = entries.holding(screened.outside & ~screened.unused)
    visible = without(table.panel, outside)
    is_fitted = kinds is not None or bool(learnt)
    kinds = _kinds_of(visible, kinds, predict, learnt, table)
    filled = [k for k, kind in enumerate(kinds) if kind.predicted or kind.by_rule]
    is_written = np.isin(entries.feature, filled)  # other columns are passed through unchanged
    emptied = is_written & (screened.coded | screened.outside if drop_invalid else screened.coded)
    table = table.with_emptied(emptied) if emptied.any() else table
    far = far_cells(visible, kinds, limits)
    visible = without(visible, far)
    of_kinds = () if learnt or "*" in limits else kinds
    bounds = {kind.feature: of_kind for kind in of_kinds if (of_kind := kind.limits) is not None} | dict(limits)
    panel = without(table.panel, outside) if drop_invalid else table.panel
    dropped = outside if drop_invalid else None
    provenance = provenance_of_table(table, panel, visible, kinds, dropped, policy or Policy())
    observed = [series.observed for series in table.panel.series]
    coded = [cells & ~known for cells, known in zip(entries.holding(screened.coded), observed, strict=True)]
    findings = screen(table.panel, bounds, table.absent)
    prepared = Prepared(
        table, panel, visible, coded, provenance, bounds, calendar_parts, codes, kinds, findings, (), rules
    )
    if prepared.model_panel is not None:
        _check_sizes(prepared.model_panel)
    is_filled = entries.flat([np.isin(cells, FILLED) for cells in provenance])
    n_repeated = int((screened.unused & entries.flat(observed)).sum())
    warnings = [
        *table.warnings, *_code_warning(codes, entries.feature, screened.coded, is_filled, is_written),
        *told_by_kind(findings, kinds, far),
        *_outside_warnings(is_filled[screened.outside], findings, n_repeated, drop_invalid),
        *far_warnings(table.panel, far, is_fitted), *kind_warnings(visible, kinds, limits), *mixed_units(visible),
        *row_kind_warnings(table, observed, filled),
    ]  # fmt: skip
    return replace(prepared, warnings=tuple(dict.fromkeys(warnings)))


def far_cells(panel: Panel, kinds: Sequence[ColumnKind], limits: Mapping[str, Limits]) -> list[np.ndarray]:
    """Per series a (K, T) bool mask of the values that are far from all others, but of features with limits."""
    free = [ColumnKind(kind.feature) if kind.feature in limits else kind for kind in kinds]
    return [np.stack([kind.far(row) for kind, row in zip(free, series.values, strict=True)]) for series in panel.series]


def _kinds_of(
    panel: Panel, known: Sequence[ColumnKind] | None, predict: Collection[str], learnt: Collection[str], table: Table
) -> tuple[ColumnKind, ...]:
    """The kind of each feature: the known one, else as its values show; see ``prepare``."""
    names = [feature.name for feature in panel.features]
    by_name = {kind.feature: kind for kind in known or ()}
    for name in predict:
        if name not in names and name not in by_name:
            advice = (
                " Correct the name; a column that is passed through when the table is read has to be named among the "
                "features, too." * (known is None)
            )
            raise ConfigError(
                f"predict: expected features of the table ({', '.join(names[:20])}), came {name!r}.{advice}"
            )
        if known is None and not any(series.observed[names.index(name)].any() for series in panel.series):
            raise ConfigError(f"predict: expected a column with values, {name!r} has none. Leave it out.")
        if name in by_name and not by_name[name].predicted:  # a model does not predict what it has not learnt
            raise ConfigError(
                f"predict: expected features that the model has learnt to predict, came {name!r}, which it knows as "
                f"{by_name[name].kind!r}. Fit on the table itself (no model), or leave it out."
            )
    if known is not None:
        return tuple(by_name.get(name, ColumnKind(name)) for name in names)
    kinds = column_kinds(panel, measured=[*predict, *learnt], long=table.is_long)
    indicators = set(chain(*table.category_features))  # a rare category is no outlier
    return tuple(ColumnKind(kind.feature) if kind.feature in indicators else kind for kind in kinds)


def _code_warning(
    codes: Mapping[str, tuple[float, ...]], feature: np.ndarray, coded: np.ndarray, is_filled: np.ndarray,
    is_written: np.ndarray,
) -> list[str]:  # fmt: skip
    """How many cells hold codes and what becomes of them; arrays (E,) are of the entries."""
    n, n_features = int(coded.sum()), len(np.unique(feature[coded]))
    if not n:
        return []
    named = ", ".join(sorted({f"{code:g}" for feature_codes in codes.values() for code in feature_codes}))
    cells = (
        "1 cell of 1 feature holds" if n == 1 else f"{n:,} cells of {n_features} feature{'s' * (n_features > 1)} hold"
    )
    counts = {
        "filled": int((coded & is_filled).sum()),
        "written as empty": int((coded & ~is_filled & is_written).sum()),
        "passed through unchanged": int((coded & ~is_filled & ~is_written).sum()),
    }
    outcomes = [(f"{'is' if count == 1 else 'are'} {what}", count) for what, count in counts.items() if count]
    if len(outcomes) > 1:
        outcome = "; " + ", ".join(f"{count:,} {what}" for what, count in outcomes)
    else:
        gaps = (" as a gap" if n == 1 else " as gaps") if counts["filled"] else ""
        outcome = f" and {outcomes[0][0]}{gaps}"
    return [f"{named}: {cells} a code for missing{outcome}; if these are true values, set missing_codes='none'"]


def some_of(texts: Sequence[str], between: str) -> str:
    """The first few texts, and how many more there are."""
    return between.join(texts[:_SHOWN]) + f" and {len(texts) - _SHOWN:,} more" * (len(texts) > _SHOWN)


def _outside_warnings(
    is_filled: np.ndarray, findings: Sequence[Finding], n_repeated: int, drop_invalid: bool
) -> list[str]:
    """How many values lie outside the limits and what becomes of them.

    Args:
        is_filled: of each such value, whether its cell is filled.
        n_repeated: codes and values outside whose cell has a valid value from another row.
    """
    n, warnings = len(is_filled), list[str]()
    if n:
        values, are = ("value", "is") if n == 1 else ("values", "are")
        what = "kept unchanged and hidden from the model; to fill such values, set drop_invalid=True"
        if drop_invalid:
            filled = " and filled" if is_filled.all() else f"; {int(is_filled.sum()):,} of them {are} filled"
            what = f"made missing{filled}; to keep such values, leave drop_invalid out or widen the limits"
        examples = some_of([finding.text for finding in findings if finding.kind == "outside limits"], "; ")
        warnings.append(f"{n:,} {values} outside the limits {are} {what}" + (f" ({examples})" if examples else ""))
    if n_repeated:
        warnings.append(
            f"{n_repeated:,} of the codes and values outside the limits stand beside others of the same time: they are "
            "left out of the mean, and those that are emptied get the value of that time"
        )
    return warnings


def _check_sizes(panel: Panel) -> None:
    """Refuses, before any work, values from which no network in single precision can learn or draw."""
    for k, feature in enumerate(panel.features):
        values = np.concatenate([series.values[k][series.observed[k]] for series in panel.series])
        if not len(values):
            continue
        largest = values[np.abs(values).argmax()]
        if abs(largest) <= LARGEST:
            far = np.abs(values - np.median(values))
            # Of few values any may be hidden to measure on: then nothing of their spread is known.
            others = np.quantile(far[far > 0], 0.9, method="lower") if (far > 0).sum() >= FEW else 1.0
            if far.max() / FARTHEST <= others:
                continue
        series = next(series for series in panel.series if (series.values[k] == largest).any())
        label = label_text(series.labels[int(np.argmax(series.values[k] == largest))])
        raise DataError(
            f"{feature.name}: expected values that a model can learn from, came {largest:g} at {label}"
            f"{f' of {series.name!r}' if series.name else ''}. Is it a code for missing? Name it (missing_codes), give "
            "limits that it lies outside of, or convert the unit."
        )


def _codes_of(
    names: Sequence[str], codes: Codes, certain: Mapping[str, tuple[float, ...]]
) -> dict[str, tuple[float, ...]]:
    """The codes of each feature that has some: its own, else those of "*", else those that are certain."""
    unknown = [name for name in codes if name != "*" and name not in names]
    if unknown:
        raise ConfigError(
            f"missing_codes: expected features of the table ({', '.join(names[:20])}) or '*' for all others; came "
            f"{unknown[0]!r}. Correct the name or leave it out."
        )
    rules = {name: codes.get(name, codes.get("*", "certain")) for name in names}
    by_name = {name: certain.get(name, ()) if isinstance(rule, str) else rule for name, rule in rules.items()}
    return {name: feature_codes for name, feature_codes in by_name.items() if feature_codes}

"""A table made ready for a model: codes that mean "missing", impossible values, features by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.series import Policy, provenance_of
from tsimpute.filling.windows import without
from tsimpute.limits import Limits, limits_of
from tsimpute.panel import Panel
from tsimpute.tables.reading import Table
from tsimpute.tables.screening import Finding, certain_codes, code_cells, invalid_cells, screen
from tsimpute.tables.stamps import label_text
from tsimpute.windows import Feature

LARGEST = 1e37
"""Beyond it numbers of single precision end."""
FEW = 10
FARTHEST = 1e15
"""How much farther from the middle a value may lie than most: the squares of standardised values have to be finite."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table, and what of it is a value.

    Attributes:
        table: as it was understood.
        kept: its panel without codes, and without invalid values where they are dropped: what is given back.
        seen: the same without any value outside the limits: what a model sees.
        coded, invalid: per series (K, T) bool, cells with codes, and cells that were declared invalid.
        limits: by feature.
        findings: what looks wrong.
        warnings: what a reader should look at, a sentence each; what is only worth knowing is in ``table.notes``.
    """

    table: Table
    kept: Panel
    seen: Panel
    coded: list[np.ndarray]
    invalid: list[np.ndarray]
    limits: Mapping[str, Limits]
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]

    def provenance(self, policy: Policy) -> list[np.ndarray]:
        """Per series (K, T) uint8: what each cell is to be."""
        parts = zip(self.kept.series, self.invalid, self.table.absent, strict=True)
        return [provenance_of(series, policy, invalid, absent) for series, invalid, absent in parts]

    def changed(self, filled: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Per series (K, T) bool: cells of the table that are written: filled ones, and invalid values that are not.

        A code for missing in a cell that is left empty stays: it says what the table says elsewhere.
        """
        return [of_series | invalid for of_series, invalid in zip(filled, self.invalid, strict=True)]


def prepare(
    table: Table,
    *,
    limits: Mapping[str, Limits | tuple[float | None, float | None]],
    missing_codes: Collection[float] | Literal["certain"],
    drop_invalid: bool,
) -> Prepared:
    """Finds codes and impossible values; nothing is changed silently.

    Raises:
        ConfigError: limits of a feature that is not there or that are no pair, codes that are no numbers, or invalid
            values are to be dropped and there are no limits.
        DataError: a value that is to be learnt from is too large to compute with, by itself or beside the others.
    """
    raw = table.panel
    bounds = {name: _limits(name, value) for name, value in limits.items()}
    limits_of([f.name for f in raw.features], bounds)
    if drop_invalid and not bounds:
        raise ConfigError("drop_invalid: expected limits that tell what is invalid, came none. Give limits.")
    codes = certain_codes(raw) if missing_codes == "certain" else _given_codes(raw, missing_codes)
    coded = code_cells(raw, codes)
    panel = without(raw, coded)
    outside = invalid_cells(panel, bounds)
    seen = without(panel, outside)
    _check_sizes(seen)
    findings = screen(panel, bounds)
    n_coded, n_outside = (sum(int(c.sum()) for c in cells) for cells in (coded, outside))
    warnings: list[str] = []
    if n_coded:
        named = ", ".join(sorted({f"{code:g}" for of_one in codes.values() for code in of_one}))
        features = sum(bool(np.concatenate([c[k] for c in coded]).any()) for k in range(len(raw.features)))
        warnings.append(
            f"{named}: {n_coded:,} cells of {features} feature{'s' * (features > 1)} hold a code for missing and are "
            "filled as gaps"
        )
    warnings += [finding.text for finding in findings]
    if n_outside:
        what = "are made missing and filled" if drop_invalid else "are kept as they are and hidden from the model"
        warnings.append(f"{n_outside:,} values outside the limits {what}")
    nothing = [np.zeros_like(cells) for cells in outside]
    kept = without(panel, outside) if drop_invalid else panel
    return Prepared(
        table, kept, seen, coded, outside if drop_invalid else nothing, bounds, findings,
        tuple(dict.fromkeys(warnings)),
    )  # fmt: skip


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


def _limits(name: str, given: Limits | tuple[float | None, float | None]) -> Limits:
    if isinstance(given, Limits):
        return given
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise ConfigError(f"limits of {name!r}: expected a lowest and a highest value (or None), came {given!r}.")
    return Limits(*given)


def _given_codes(panel: Panel, codes: Collection[float] | str) -> dict[str, tuple[float, ...]]:
    if isinstance(codes, str) or not all(isinstance(code, int | float | np.number) for code in codes):
        raise ConfigError(
            f"missing_codes: expected 'certain' or a list of numbers such as [-200, -999], came {codes!r}."
        )
    return {feature.name: tuple(map(float, codes)) for feature in panel.features}


def matched(panel: Panel, features: Sequence[Feature]) -> tuple[Panel, np.ndarray]:
    """The panel with a model's features, found by name, in the model's order; and where each stands in the panel.

    A unit that the table does not tell is taken to be the model's.

    Raises:
        DataError: features differ in name, or in unit.
    """
    names, wanted = [f.name for f in panel.features], [f.name for f in features]
    absent, new = [n for n in wanted if n not in names], [n for n in names if n not in wanted]
    if absent or new:
        raise DataError(
            f"features: expected the model's {len(wanted)}; absent from the table: {', '.join(absent) or 'none'}; not "
            f"known to the model: {', '.join(new) or 'none'}. Rename columns, add a column without values, choose "
            "features, or fit on the table itself."
        )
    order = np.array([names.index(name) for name in wanted])
    for at, feature in zip(order, features, strict=True):
        unit = panel.features[at].unit
        if unit and feature.unit and unit != feature.unit:
            raise DataError(
                f"units: expected {feature.name} in {feature.unit!r}, came {unit!r}. Convert the values, or say that "
                "the unit is the model's (units)."
            )
    series = [replace(s, values=s.values[order]) for s in panel.series]
    return replace(panel, features=tuple(features), series=tuple(series)), order

"""A table made ready for a model: codes that mean "missing", impossible values, features by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.calendar import calendar_features, calendar_text, with_calendar
from tsimpute.filling.series import Policy, provenance_of
from tsimpute.filling.windows import without
from tsimpute.limits import Limits, limits_of
from tsimpute.panel import Panel
from tsimpute.tables.reading import Table, features_text
from tsimpute.tables.screening import Finding, certain_codes, code_cells, invalid_cells, screen
from tsimpute.windows import Feature


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table, and what of it is a value.

    Attributes:
        table: as it was understood.
        kept: its panel without codes, and without invalid values where they are dropped: what is given back.
        seen: the same without any value outside the limits: what a model sees.
        coded, invalid: per series (K, T) bool, cells with codes, and cells that were declared invalid.
        limits: by feature.
        given: what of the calendar a model is given beside.
        findings: what looks wrong.
        warnings: what a reader should look at, a sentence each; what is only worth knowing is in ``table.notes``.
    """

    table: Table
    kept: Panel
    seen: Panel
    coded: list[np.ndarray]
    invalid: list[np.ndarray]
    limits: Mapping[str, Limits]
    given: tuple[Feature, ...]
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]

    @property
    def about(self) -> list[tuple[str, str]]:
        """What the table was understood to be, its features without what means missing, and what was noted."""
        calendar = [("calendar", calendar_text(self.given))] if self.given else []
        understood = self.table.understood + calendar + [("note", note) for note in dict.fromkeys(self.table.notes)]
        return [(name, features_text(self.kept) if name == "features" else value) for name, value in understood]

    @property
    def text(self) -> str:
        """``about`` and ``warnings``, a line each."""
        return "\n".join(f"  {name}: {value}" for name, value in [*self.about, *(("look", w) for w in self.warnings)])

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
    calendar: bool = False,
) -> Prepared:
    """Finds codes and impossible values; nothing is changed silently.

    Raises:
        ConfigError: limits of a feature that is not there or that are no pair, codes that are no numbers, or invalid
            values are to be dropped and there are no limits.
        DataError: a calendar is asked for and the times have none.
    """
    raw = table.panel
    given = calendar_features(raw) if calendar else ()
    bounds = {name: _limits(name, value) for name, value in limits.items()}
    limits_of([f.name for f in raw.features], bounds)
    if drop_invalid and not bounds:
        raise ConfigError("drop_invalid: expected limits that tell what is invalid, came none. Give limits.")
    codes = certain_codes(raw) if missing_codes == "certain" else _given_codes(raw, missing_codes)
    coded = code_cells(raw, codes)
    panel = without(raw, coded)
    findings = screen(panel, bounds)
    outside = invalid_cells(panel, bounds)
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
        table, kept, without(panel, outside), coded, outside if drop_invalid else nothing, bounds, given, findings,
        tuple(dict.fromkeys(warnings)),
    )  # fmt: skip


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

    What the model is given of the calendar comes after them and has no place in the panel. A unit that the table does
    not tell is taken to be the model's.

    Raises:
        DataError: features differ in name, or in unit, or there is no calendar.
    """
    own, given = [f for f in features if not f.given], [f for f in features if f.given]
    names, wanted = [f.name for f in panel.features], [f.name for f in own]
    absent, new = [n for n in wanted if n not in names], [n for n in names if n not in wanted]
    if absent or new:
        raise DataError(
            f"features: expected the model's {len(wanted)}; absent from the table: {', '.join(absent) or 'none'}; not "
            f"known to the model: {', '.join(new) or 'none'}. Rename columns, add a column without values, choose "
            "features, or fit on the table itself."
        )
    order = np.array([names.index(name) for name in wanted])
    for at, feature in zip(order, own, strict=True):
        unit = panel.features[at].unit
        if unit and feature.unit and unit != feature.unit:
            raise DataError(
                f"units: expected {feature.name} in {feature.unit!r}, came {unit!r}. Convert the values, or say that "
                "the unit is the model's (units)."
            )
    series = [replace(s, values=s.values[order]) for s in panel.series]
    return with_calendar(replace(panel, features=tuple(own), series=tuple(series)), given), order

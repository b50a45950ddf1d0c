"""A table made ready for a model, what of it is a value, what becomes of each cell, and texts on it for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from tsimpute.core.limits import Limits, limits_of
from tsimpute.core.panel import FILLED, LEFT_EMPTY, Panel
from tsimpute.core.windows import Feature
from tsimpute.filling.blending.choosing import FIRST
from tsimpute.filling.panels.calendar import calendar_text
from tsimpute.filling.preparing.model_rules import ModelRules
from tsimpute.filling.preparing.series import rule_bands
from tsimpute.screening.column_kinds import ColumnKind
from tsimpute.screening.kind_texts import kinds_text
from tsimpute.screening.screening import Finding
from tsimpute.tables.frames.table import Edits, Table, features_text

MOST = 10
"""So many lines of a kind are shown; the others are counted."""
NOTHING = "bought nothing"
CLEARLY = 0.05
"""A share by which an error must be lower to be clearly so; at M hidden cells at least 1 / sqrt(M)."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table, what of it is a value, and what becomes of each cell.

    Attributes:
        table: as it was read, without codes for missing.
        panel: what is given back: without codes, and without values outside the limits where these are dropped.
        visible: what a model may see: also without values outside the limits, and without those far from all others.
        coded: per series (K, T) bool, cells with codes.
        provenance: per series (K, T) uint8, what each cell becomes: see ``core.panel.PROVENANCE``.
        limits: by feature.
        calendar: parts of the calendar that a model gets as further features.
        codes: for missing, by feature.
        kinds: of each feature, what kind of column it is; one that is no measurement is not predicted.
        findings: what looks wrong.
        warnings: what a reader should look at, a sentence each; what is only worth knowing is in ``table.notes``.
        rules: how the table is brought to a given model.
    """

    table: Table
    panel: Panel
    visible: Panel
    coded: list[np.ndarray]
    provenance: list[np.ndarray]
    limits: Mapping[str, Limits]
    calendar: tuple[Feature, ...]
    codes: Mapping[str, tuple[float, ...]]
    kinds: tuple[ColumnKind, ...]
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]
    rules: ModelRules | None = None

    @property
    def predicted(self) -> np.ndarray:
        """(K',) places of the features that a model predicts."""
        return np.array([k for k, kind in enumerate(self.kinds) if kind.predicted], int)

    @cached_property
    def model_panel(self) -> Panel | None:
        """What a model sees: ``visible`` with the features that it predicts; None = there is none."""
        if all(kind.predicted for kind in self.kinds):
            return self.visible
        at = self.predicted
        if not len(at):
            return None
        series = tuple(replace(series, values=series.values[at]) for series in self.visible.series)
        return replace(self.visible, features=tuple(self.visible.features[k] for k in at), series=series)

    @property
    def model_limits(self) -> dict[str, Limits]:
        """Of the features that a model predicts, and "*"."""
        others = {kind.feature for kind in self.kinds if not kind.predicted}
        return {name: bounds for name, bounds in self.limits.items() if name not in others}

    def bands(self, n: int) -> dict[int, np.ndarray]:
        """Of the n-th series, for each feature that is filled by a rule, (3, T); see ``rule_bands``."""
        decimals = self.table.decimals
        ruled = [(k, kind) for k, kind in enumerate(self.kinds) if kind.by_rule]
        return {k: rule_bands(kind, self.visible.series[n], k, decimals[k]) for k, kind in ruled}

    @property
    def description(self) -> list[tuple[str, str]]:
        """What the table was understood to be, its features without what means missing, and what was noted."""
        lines = [
            (name, features_text(self.panel) if name == "features" else text) for name, text in self.table.understood
        ]
        if self.calendar:
            lines.append(("calendar", calendar_text(self.calendar)))
        if unpredicted := kinds_text(self.kinds):
            lines.append(("not predicted", unpredicted))
        notes = [*self.table.notes, *_beside_notes(self.table.n_beside)]
        lines += [("note", note) for note in dict.fromkeys(notes)]
        if self.limits:
            lines.append(("limits", ", ".join(f"{name} {bounds}" for name, bounds in self.limits.items())))
        return lines

    @property
    def text(self) -> str:
        """``description`` and ``warnings``, a line each."""
        return "\n".join(
            f"  {name}: {value}" for name, value in [*self.description, *(("look", w) for w in self.warnings)]
        )

    def cells_of_table(self, codes: Sequence[np.ndarray]) -> np.ndarray:
        """(M,) the codes, per series (K, T), of all cells that the table has; a category is one cell, not one each."""
        others = set(chain(*(features[1:] for features in self.table.category_features)))
        counted = np.array([feature.name not in others for feature in self.panel.features])[:, None]
        pairs = zip(codes, self.table.absent, strict=True)
        return np.concatenate([of_series[counted & ~absent] for of_series, absent in pairs])

    def edits(self, cells: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> Edits:
        """Edits of the table; values that the table rounds are moved so that they stay within the limits."""
        limits = limits_of([feature.name for feature in self.table.panel.features], self.limits)
        inside = [of_series.copy() for of_series in values]
        for k, (bounds, decimals) in enumerate(zip(limits, self.table.decimals, strict=True)):
            if decimals is None:
                continue
            for of_series in inside:
                of_series[k] = bounds.clipped(of_series[k], decimals)
        return Edits(cells, inside)


def _beside_notes(count: int) -> tuple[str, ...]:
    """Says what becomes of cells without a number of their own where a row of the same time has one."""
    cells, get = ("cell stands", "it gets") if count == 1 else ("cells stand", "they get")
    note = f"{count:,} empty {cells} beside a value of another row of the same time: {get} that of the time, by rule"
    return (note,) * bool(count)


def understood(prepared: Prepared, most: int | None = MOST, where: str = "") -> str:
    """What the table was taken to be, what is to be filled, and what deserves a look, a line each."""
    description = [(name, value) for name, value in prepared.description if name != "note"]
    notes = [value for name, value in prepared.description if name == "note"]
    cells = prepared.cells_of_table(prepared.provenance)
    n_empty, n_filled = int((cells == LEFT_EMPTY).sum()), int(np.isin(cells, FILLED).sum())
    to_fill = f"{n_filled:,} of {len(cells):,} cells ({n_filled / max(1, len(cells)):.1%})"
    to_fill += f"; {n_empty:,} stay empty" if n_empty else ""
    return "\n".join([
        *(f"  {name}: {value}" for name, value in [*description, ("to fill", to_fill)]),
        *shortened("note", notes, most, where), *shortened("look", prepared.warnings, most, where),
    ])  # fmt: skip


def shortened(name: str, texts: Sequence[str], most: int | None = MOST, where: str = "") -> list[str]:
    """A line for each text, and one that counts those beyond ``most``; ``where`` says where they stand."""
    rest = len(texts) - len(texts[:most])
    lines = [f"  {name}: {text}" for text in texts[:most]]
    return [*lines, f"  {name}: and {rest:,} more{f', {where}' * bool(where)}"] if rest else lines


def is_complete(prepared: Prepared) -> bool:
    """Whether the filled table would be the given one, to the last cell."""
    table = prepared.table
    is_filled = any(np.isin(codes, FILLED).any() for codes in prepared.provenance)
    return not (table.n_added or table.n_beside or is_filled or (table.emptied is not None and table.emptied.any()))


def behind(scores: Sequence[Mapping[str, str | float]], effort: str | None, categories: bool = False) -> str | None:
    """A sentence where a method of the scores was clearly nearer to the hidden values than what was delivered.

    Args:
        scores: see ``scores_of``; the last row is that of what was delivered.
        effort: how long the model learnt from the table; None = the model was given, and no effort changes it.
        categories: there are features that are 1 or 0, of which a median that is always 0 has a small absolute error;
            squared errors are compared then.
    """
    if not scores:
        return None
    name, words = ("RMSE", "root mean square error") if categories else ("MAE", "mean absolute error")
    delivered = scores[-1]
    others = [row for row in scores[:-1] if row["cells"] == delivered["cells"]]
    best = min(others, key=lambda row: float(row[name]), default=delivered)
    margin = max(CLEARLY, 1 / np.sqrt(float(delivered["cells"])))
    if not float(best[name]) < (1 - margin) * float(delivered[name]):
        return None
    longer = f" Learning longer may help: effort='{'auto' if effort == 'instant' else 'thorough'}'."
    longer *= effort != "thorough"
    if effort is None:
        longer = " Learning from the table itself (no model) may help."
    return (
        f"{best['imputer']} is nearer to the hidden values than what was delivered: {words} {float(best[name]):.4g} "
        f"against {float(delivered[name]):.4g} ({delivered['units']}).{longer}"
    )


def waited(scores: Sequence[Mapping[str, str | float]]) -> str:
    """What the time after the first answer has bought, of scores as ``scores_of`` gives them."""
    rows = {str(row["imputer"]): row for row in scores}
    if FIRST not in rows:
        return f"{NOTHING}: the first answer is delivered"
    before, last = rows[FIRST], scores[-1]
    old, new = float(before["MAE"]), float(last["MAE"])
    change = f"{abs(old - new) / old:.1%} {'less' if new <= old else 'more'}" if old > 0 else "as before"
    crps = [float(row["CRPS"]) for row in (before, last)]
    return (
        f"mean absolute error on hidden cells {new:.4g}, {change} than the first answer's {old:.4g} "
        f"({last['units']}); CRPS {crps[1]:.4g} after {crps[0]:.4g}"
    )


def unfilled(prepared: Prepared) -> str | None:
    """A line that names columns which look like numbers and were not filled, each with the reason."""
    columns = prepared.table.unfillable
    if not columns:
        return None
    named = "; ".join(f"{name}: {reason.rstrip('.')}" for name, reason in columns[:3])
    more = f"; and {len(columns) - 3} more" * (len(columns) > 3)
    return f"{len(columns)} column{'s' * (len(columns) > 1)} with gaps not filled: {named}{more}."

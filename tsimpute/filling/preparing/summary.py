"""Texts on a table before it is filled and after, in lines that a person reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tsimpute.core.panel import FILLED, LEFT_EMPTY
from tsimpute.filling.preparing.prepared import Prepared

MOST = 10
"""So many lines of a kind are shown; the others are counted."""

NOTHING = "bought nothing"
FIRST = "first answer"
"""Name of its row among the scores of a better one, at the same cells."""


def understood(prepared: Prepared, most: int | None = MOST, where: str = "") -> str:
    """What the table was taken to be, what is to be filled, and what deserves a look, a line each."""
    description = [(name, value) for name, value in prepared.description if name != "note"]
    notes = [value for name, value in prepared.description if name == "note"]
    return "\n".join([
        *(f"  {name}: {value}" for name, value in [*description, ("to fill", _to_fill(prepared))]),
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
    return not (table.n_added or is_filled or (table.emptied is not None and table.emptied.any()))


def _to_fill(prepared: Prepared) -> str:
    """How many cells are filled, and how many stay empty; what the table has no place for is not counted."""
    parts = zip(prepared.provenance, prepared.table.absent, strict=True)
    cells = np.concatenate([codes[~absent].ravel() for codes, absent in parts])
    n_empty, n_filled = int((cells == LEFT_EMPTY).sum()), int(np.isin(cells, FILLED).sum())
    empty = f"; {n_empty:,} stay empty" if n_empty else ""
    return f"{n_filled:,} of {len(cells):,} cells ({n_filled / max(1, len(cells)):.1%}){empty}"


def behind(scores: Sequence[Mapping[str, str | float]], effort: str | None) -> str | None:
    """A sentence where linear interpolation was nearer to the hidden values than the model; see ``scores_of``.

    Args:
        effort: how long the model learnt from the table; None = the model was given, and no effort changes it.
    """
    rows = {str(row["imputer"]): row for row in scores}
    line = rows.pop("linear interpolation", None)
    if line is None or not rows:
        return None
    model = list(rows.values())[-1]
    of_model, of_line = float(model["MAE"]), float(line["MAE"])
    if not of_model > of_line:
        return None
    longer = f"Learning longer may help: effort='{'auto' if effort == 'instant' else 'thorough'}'. "
    longer *= effort != "thorough"
    if effort is None:
        longer = "Learning from the table itself (no model) may help. "
    return (
        f"on hidden cells the model's error is {of_model:.4g}, linear interpolation's {of_line:.4g} (mean absolute "
        f"error, {model['units']}): here a straight line between neighbours is nearer to the truth. {longer}"
        "The intervals still say how far a value may be off."
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

"""What is delivered for a table, in words."""

from __future__ import annotations

import numpy as np

from tsimpute.filling.blending.mixture import GAUSSIAN, METHODS, NETWORK
from tsimpute.filling.measuring.simple_guesses import LINEAR

Scores = tuple[dict[str, str | float], ...]
"""One row per imputer, see ``measuring.scores_of``."""


def shares_text(shares: np.ndarray | None) -> str:
    """The methods and their shares; None = nothing was measured."""
    if shares is None:
        return f"the {METHODS[GAUSSIAN]}"
    if shares.max() > 0.995:
        method = METHODS[int(shares.argmax())]
        return f"the {method}" if method in METHODS[: NETWORK + 1] else f"{method} with the spread of the process"
    parts = [f"{share:.0%} {name}" for share, name in zip(shares, METHODS, strict=True) if share >= 0.005]
    return f"a mixture: {', '.join(parts)}"


def gain_text(scores: Scores) -> str:
    """How much nearer to hidden cells the last row is than straight lines."""
    rows = {str(row["imputer"]): row for row in scores}
    line = rows.get(LINEAR)
    if line is None:
        return ""
    own, other, units = float(scores[-1]["MAE"]), float(line["MAE"]), scores[-1]["units"]
    change = (other - own) / other if other > 0 else 0.0
    than = f"{abs(change):.0%} {'less' if change >= 0 else 'more'} than that of {LINEAR} ({other:.4g})"
    than = f"as that of {LINEAR} ({other:.4g})" if abs(change) < 0.005 else than
    return f"; mean absolute error on hidden cells {own:.4g} {units}, {than}"

"""What the rows of ``tables.py`` say: a page and a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from attainable_coverage import FILE
from table_data import ALL_HOLES
from table_methods import EFFORTS, METHODS, PEERS, SHORT, SIMPLE
from table_picture import picture

HEAD = """# Real tables filled by many methods

Made by `benchmarks/tables.py` from `metrics.csv`. Each table is filled with its holes in it, and the hidden cells are
scored, in standard deviations of each feature. *Best simple*: the lowest MAE of the first nine methods in each row,
known only afterwards; no one method is that good everywhere. No setting was chosen on the hidden cells. One thread;
seconds were taken beside other work, CPU seconds say more.

Holes: *random* 10 % of the cells; *block* runs of 5 to 50 steps in single features, 10 %; *blackout* all features out
for 24 steps, 10 %; *sensors* a third of the features out for a third of the time; *own* the table's own gaps, moved;
*published* the cells that the data set holds out.

## Over all rows
"""
LEGEND = """
MAE and RMSE: geometric mean of the ratio to the best simple method's in each row (1 = as good). Within 3 %: share of
rows in which the MAE is at most 1.03 times the best simple one's. CRPS: of the draws, geometric mean of the ratio to
the best simple MAE, which is the CRPS of a single answer. Coverage: of the 90 % interval as delivered, mean over rows;
87 to 93 %: share of rows in which it lies there. Seconds and CPU seconds: geometric mean over rows. MiB: added to a
process that has everything loaded, the largest of all rows; empty for other programs. A method that lacks rows is
compared over those it has.

![Error against time](tables.png)
"""
PEER_NOTES = """
*CDRec* is that of ImputeGAP 1.1.2 with its default parameters (rank 3), on features scaled by their known cells.
*SAITS* is that of PyPOTS 1.5 in the size of its paper, 100 epochs on windows of 48 steps, 24 apart, one thread; its CPU
seconds hold two starts of the library, about 15. Both run in environments of their own. *Kalman*: a local linear trend
of each feature by itself, at most 50 iterations of its likelihood. *missForest*: 30 trees a feature, 3 rounds, 5,000
rows to learn from at most.
"""
KINDS = """
## By kind of hole

Geometric mean of the MAE's ratio to the best simple method's, over the rows of each kind; in brackets how many, where
the method lacks some.
"""
AGAINST = """
## Other libraries and efforts against instant

Ratio of the MAE to that of `--effort instant` in the same row: geometric mean, lowest, highest, and the share of rows
in which it is at most 1.01.
"""
BY_ROW = """
## MAE by row

"-": no scores, for the reason given below. Empty: not run.
"""
ROW = ["table", "holes"]
CLOSE = 1.03
INSTANT = SHORT["instant"]


def write_report(rows: pd.DataFrame, out: Path) -> None:
    """Writes ``tables.md`` and ``tables.png`` beside the rows."""
    scored = rows[rows["mae"].notna()].copy()
    table = scored.pivot_table(index=ROW, columns="method", values="mae", sort=False)
    table = table[[name for name in METHODS if name in table]]
    best = table[[name for name in table if name in SIMPLE]].min(axis=1)
    summary = _summary(scored, table, best)
    notes = rows[rows["note"].notna()]
    parts = [HEAD, _markdown(summary), LEGEND, _attainable(out), PEER_NOTES, KINDS, _by_kind(table, best)]
    against = _against_instant(table)
    parts += [AGAINST, _markdown(against)] if len(against) else []
    parts += [BY_ROW, _by_row(table, notes), ""]
    if len(notes):
        parts += [
            "## Without scores",
            "",
            *(f"- {n.table}, {n.holes}, {n.method}: {n.note}" for n in notes.itertuples()),
        ]
        parts += [""]
    (out / "tables.md").write_text("\n".join(parts), encoding="utf-8")
    picture(summary, out / "tables.png")


def _attainable(out: Path) -> str:
    """How often intervals can hold 87 to 93 %, where that was computed."""
    if not (out / FILE).is_file():
        return ""
    found = pd.read_csv(out / FILE)
    low, high = (found[name].mean() for name in ("attainable", "attainable_gaps_alone"))
    return (
        f"The hidden cells of a row lie in few gaps, so even right intervals hold 87 to 93 % on {low:.0%} of "
        f"{len(found)} rows only,\nas far as the draws of `instant` say how cells go together;\nwere different gaps "
        f"independent, on {high:.0%} (`benchmarks/attainable_coverage.py`; each draw is the truth once).\n"
    )


def _summary(scored: pd.DataFrame, table: pd.DataFrame, best: pd.Series) -> pd.DataFrame:
    """One line a method."""
    rmse = scored.pivot_table(index=ROW, columns="method", values="rmse", sort=False)
    best_rmse = rmse[[name for name in rmse if name in SIMPLE]].min(axis=1)
    lines = {}
    for name in table:
        ratio = (table[name] / best).dropna()
        of_one = scored[scored["method"] == name].set_index(ROW)
        crps = (of_one["crps"] / best).dropna()
        coverage = of_one["coverage_90"].dropna()
        lines[name] = {
            "rows": len(ratio),
            "MAE": _geometric(ratio),
            "worst": ratio.max(),
            "within 3 %": (ratio <= CLOSE).mean(),
            "RMSE": _geometric((rmse[name] / best_rmse).dropna()),
            "CRPS": _geometric(crps),
            "coverage": coverage.mean(),
            "87 to 93 %": coverage.between(0.87, 0.93).mean() if len(coverage) else np.nan,
            "seconds": _geometric(of_one["wall_s"].clip(lower=1e-3)),
            "CPU seconds": _geometric(of_one["cpu_s"].clip(lower=1e-3)),
            "MiB": np.nan if name in PEERS else of_one["peak_mib"].max(),
        }
    return pd.DataFrame(lines).T


def _against_instant(table: pd.DataFrame) -> pd.DataFrame:
    """One line for each other effort and each method of another library; none without rows of instant."""
    lines = {}
    compared = [name for name in (*PEERS, *EFFORTS) if name in table and name != INSTANT]
    for name in compared if INSTANT in table else []:
        ratio = (table[name] / table[INSTANT]).dropna()
        lines[name] = {"rows": len(ratio), "MAE": _geometric(ratio), "lowest": ratio.min(), "highest": ratio.max(),
                       "at most 1.01": (ratio <= 1.01).mean()}  # fmt: skip
    return pd.DataFrame(lines).T


def _geometric(ratios: pd.Series) -> float:
    return float(np.exp(np.log(ratios).mean())) if len(ratios) else np.nan


_FORMS = {
    "rows": "{:.0f}", "within 3 %": "{:.0%}", "coverage": "{:.1%}", "87 to 93 %": "{:.0%}", "MiB": "{:.0f}",
    "worst": "{:.2f}", "at most 1.01": "{:.0%}", "lowest": "{:.2f}", "highest": "{:.2f}",
}  # fmt: skip


def _cell(column: str, x: float) -> str:
    if np.isnan(x):
        return ""
    if column.endswith("seconds"):
        return f"{x:.2g}" if x < 100 else f"{x:.0f}"
    return _FORMS.get(column, "{:.3f}").format(x)


def _markdown(summary: pd.DataFrame) -> str:
    lines = ["| method | " + " | ".join(summary.columns) + " |", "|---|" + "---:|" * len(summary.columns)]
    for name, line in summary.iterrows():
        lines.append(f"| {name} | " + " | ".join(_cell(str(c), x) for c, x in line.items()) + " |")
    return "\n".join(lines)


def _by_kind(table: pd.DataFrame, best: pd.Series) -> str:
    """One line a method, one column a kind of hole; the lowest of the methods that have all rows in bold."""
    kinds = table.index.get_level_values("holes")
    ratio = table.div(best, axis=0)
    n_rows = {holes: int((kinds == holes).sum()) for holes in ALL_HOLES if (kinds == holes).any()}
    lines = ["| method | " + " | ".join(f"{holes} ({n})" for holes, n in n_rows.items()) + " |"]
    lines.append("|---|" + "---:|" * len(n_rows))
    means = {holes: np.exp(np.log(ratio[kinds == holes]).mean()) for holes in n_rows}
    counts = {holes: ratio[kinds == holes].notna().sum() for holes in n_rows}
    for name in table:
        cells = []
        for holes, n in n_rows.items():
            mean, count = means[holes][name], int(counts[holes][name])
            whole = means[holes][counts[holes] == n]
            said = "" if not count else f"**{mean:.3f}**" if count == n and mean == whole.min() else f"{mean:.3f}"
            cells.append(said if count in (0, n) else f"{said} ({count})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _by_row(table: pd.DataFrame, notes: pd.DataFrame) -> str:
    without = set(zip(notes["table"], notes["holes"], notes["method"], strict=True))
    lines = ["| table | holes | " + " | ".join(table.columns) + " |", "|---|---|" + "---:|" * len(table.columns)]
    for (name, holes), line in table.iterrows():  # type: ignore[misc]
        low = line.min()
        cells = [
            ("-" if (name, holes, method) in without else "")
            if np.isnan(x)
            else f"**{x:.3f}**"
            if x == low
            else f"{x:.3f}"
            for method, x in line.items()
        ]
        lines.append(f"| {name} | {holes} | " + " | ".join(cells) + " |")
    return "\n".join(lines)

"""What the rows of ``tables.py`` say: a page and a picture."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from table_methods import METHODS, SIMPLE

HEAD = """# Real tables filled by many methods

Made by `benchmarks/tables.py` from `metrics.csv`. Each table is filled with its holes in it, and the hidden cells are
scored, in standard deviations of each feature. *Best simple*: the lowest MAE of the simple methods in each row, known
only afterwards; no one method is that good everywhere. No setting was chosen on the hidden cells. One thread; seconds
were taken beside other work.

Holes: *random* 10 % of the cells; *block* runs of 5 to 50 steps in single features, 10 %; *blackout* all features out
for 24 steps, 10 %; *sensors* a third of the features out for a third of the time; *own* the table's own gaps, moved;
*published* the cells that the data set holds out.

## Over all rows
"""
LEGEND = """
MAE and RMSE: geometric mean of the ratio to the best simple method's in each row (1 = as good). Within 3 %: share of
rows in which the MAE is at most 1.03 times the best simple one's. CRPS: geometric mean of the ratio to the best simple
MAE, which is the CRPS of a single answer. Coverage: of the 90 % interval as delivered, mean over rows. Seconds and CPU
seconds: geometric mean over rows. MiB: added to a process that has everything loaded, the largest of all rows.
A method that lacks rows is compared over those it has.

![Error against time](tables.png)

## MAE by row
"""
ROW = ["table", "holes"]
CLOSE = 1.03
COLOURS = {"simple": "#6b7280", "gaussian": "#c2410c", "TableImputer": "#1d4ed8"}


def write_report(rows: pd.DataFrame, out: Path) -> None:
    """Writes ``tables.md`` and ``tables.png`` beside the rows."""
    scored = rows[rows["mae"].notna()].copy()
    table = scored.pivot_table(index=ROW, columns="method", values="mae", sort=False)
    methods = [name for name in METHODS if name in table]
    table = table[methods]
    best = table[[name for name in methods if name in SIMPLE]].min(axis=1)
    summary = _summary(scored, table, best)
    text = [HEAD, _markdown(summary), LEGEND, _by_row(table), ""]
    notes = rows[rows["note"].notna()] if "note" in rows else rows.iloc[:0]
    if len(notes):
        text += (
            ["## Without scores", ""]
            + [f"- {n.table}, {n.holes}, {n.method}: {n.note}" for n in notes.itertuples()]
            + [""]
        )
    (out / "tables.md").write_text("\n".join(text), encoding="utf-8")
    _picture(summary, out / "tables.png")


def _summary(scored: pd.DataFrame, table: pd.DataFrame, best: pd.Series) -> pd.DataFrame:
    """One line a method."""
    rmse = scored.pivot_table(index=ROW, columns="method", values="rmse", sort=False)
    best_rmse = rmse[[name for name in rmse if name in SIMPLE]].min(axis=1)
    lines = {}
    for name in table:
        ratio = (table[name] / best).dropna()
        of_one = scored[scored["method"] == name].set_index(ROW)
        crps = (of_one["crps"] / best).dropna()
        lines[name] = {
            "rows": len(ratio),
            "MAE": _geometric(ratio),
            "worst": ratio.max(),
            "within 3 %": (ratio <= CLOSE).mean(),
            "RMSE": _geometric((rmse[name] / best_rmse).dropna()),
            "CRPS": _geometric(crps) if len(crps) else np.nan,
            "coverage": of_one["coverage_90"].mean(),
            "seconds": _geometric(of_one["wall_s"].clip(lower=1e-3)),
            "CPU seconds": _geometric(of_one["cpu_s"].clip(lower=1e-3)),
            "MiB": of_one["peak_mib"].max(),
        }
    return pd.DataFrame(lines).T


def _geometric(ratios: pd.Series) -> float:
    return float(np.exp(np.log(ratios).mean()))


def _markdown(summary: pd.DataFrame) -> str:
    forms = {
        "rows": "{:.0f}",
        "within 3 %": "{:.0%}",
        "coverage": "{:.1%}",
        "seconds": "{:.2g}",
        "CPU seconds": "{:.2g}",
    }
    forms |= {"MiB": "{:.0f}", "worst": "{:.2f}"}
    lines = ["| method | " + " | ".join(summary.columns) + " |", "|---|" + "---:|" * len(summary.columns)]
    for name, line in summary.iterrows():
        cells = ["" if np.isnan(x) else forms.get(c, "{:.3f}").format(x) for c, x in line.items()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _by_row(table: pd.DataFrame) -> str:
    lines = ["| table | holes | " + " | ".join(table.columns) + " |", "|---|---|" + "---:|" * len(table.columns)]
    for (name, holes), line in table.iterrows():  # type: ignore[misc]
        low = line.min()
        cells = ["" if np.isnan(x) else f"**{x:.3f}**" if x == low else f"{x:.3f}" for x in line]
        lines.append(f"| {name} | {holes} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _picture(summary: pd.DataFrame, path: Path) -> None:
    """Error relative to the best simple method against CPU seconds, each method labelled where it lies."""
    figure, axes = plt.subplots(figsize=(8, 5), constrained_layout=True)
    below: set[str] = set()
    for name, line in summary.sort_values("MAE").iterrows():
        near = summary[(np.abs(np.log(summary["MAE"] / line["MAE"])) < 0.06) & (summary["MAE"] > line["MAE"])]
        crowded = (np.abs(np.log10(near["CPU seconds"] / line["CPU seconds"])) < 0.5).any()
        below |= {str(name)} if crowded else set()
        kind = "simple" if name in SIMPLE else str(name).split()[0]
        at = line["CPU seconds"], line["MAE"]
        axes.plot(*at, "o", color=COLOURS[kind], ms=7)
        place = {"xytext": (6, -4), "va": "top"} if str(name) in below else {"xytext": (6, 2), "va": "bottom"}
        axes.annotate(str(name), at, textcoords="offset points", color=COLOURS[kind], **place)
    axes.axhline(1, color="#9ca3af", lw=1, ls=":")
    axes.annotate("best simple method of each row", (0, 1), (4, 3), xycoords=("axes fraction", "data"),
                  textcoords="offset points", color="#6b7280", fontsize=8)  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = [t for t in (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 4) if t / summary["MAE"].min() > 0.85]
    ticks = [t for t in ticks if t < 1.1 * summary["MAE"].max()]
    axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.margins(x=0.22, y=0.08)
    axes.set_xlabel("CPU seconds for one table (geometric mean)")
    axes.set_ylabel("MAE relative to the best simple method (geometric mean)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
    plt.close(figure)

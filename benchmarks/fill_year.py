"""How good a year of PM2.5 is that `tsimpute impute` filled, at the cells that the data set holds out.

tsimpute impute DATA/pm25/pm25_missing.txt -o year.txt --limits "*=0:"
.venv/bin/python benchmarks/fill_year.py DATA/pm25 year.txt scores.csv
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

TEST_MONTHS = (3, 6, 9, 12)


def scores(root: Path, filled: Path) -> pd.DataFrame:
    """MAE and RMSE of the filling and of simple imputers, and the share inside the 90 % intervals; one row each."""
    truth, given, table = (_read(path) for path in (root / "pm25_ground.txt", root / "pm25_missing.txt", filled))
    there = given.notna().to_numpy()
    assert (table.to_numpy()[there] == given.to_numpy()[there]).all(), "an observed value was changed"
    held = truth.notna().to_numpy() & ~there
    cells = pd.read_csv(
        filled.with_name(f"{filled.stem}.cells.csv"), parse_dates=["time"], dtype={"feature": str}
    ).set_index(["time", "feature"])
    low, high = (cells[name].unstack().reindex(truth.index)[truth.columns].to_numpy() for name in ("q0.05", "q0.95"))
    inside = (low <= truth.to_numpy()) & (truth.to_numpy() <= high)
    rows = []
    for part, where in (("test months", held & np.isin(truth.index.month, TEST_MONTHS)[:, None]), ("all", held)):
        for name, guess in {
            "tsimpute impute": table, "linear": given.interpolate("time", limit_direction="both"),
            "locf": given.ffill().bfill(), "mean": given.fillna(given.mean()),
        }.items():  # fmt: skip
            error = (guess - truth).to_numpy()[where]
            row = {"part": part, "imputer": name, "cells": int(where.sum())}
            row |= {"mae": float(np.abs(error).mean()), "rmse": float(np.sqrt((error**2).mean()))}
            rows.append(row | ({"inside_90": float(inside[where].mean())} if name == "tsimpute impute" else {}))
    return pd.DataFrame(rows)


def _read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, index_col=0, parse_dates=True)


if __name__ == "__main__":
    found = scores(Path(sys.argv[1]), Path(sys.argv[2]))
    found.to_csv(sys.argv[3], index=False, float_format="%.4f")
    print(found.to_string(index=False))

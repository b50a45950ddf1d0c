"""How often 90 % intervals can hold 87 to 93 % of a row's hidden cells, were the model right: what chance leaves.

export TSIMPUTE_DATA=DATA
.venv/bin/python benchmarks/attainable_coverage.py --out results/tables

The cells of a row lie in a few gaps and go together, so even a perfect interval holds more or fewer than 90 % of them.
Here each joint draw of ``TableImputer(effort="instant")`` is the truth once, and the intervals are those of the other
draws: these are right by construction. No hidden value is looked at. Rows that are there are not computed again.

How far cells of different gaps go together is what the model says of it, and its draws may go together too much: they
share how wide they are over stretches of time. So the same is computed with draws of each gap by themselves, too.
"""

from __future__ import annotations

import argparse
import os
from itertools import product
from pathlib import Path

if __name__ == "__main__":  # before NumPy is loaded
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = os.environ.get(name, "1")

import numpy as np
import pandas as pd
from table_data import ALL_HOLES, TABLES, task
from table_methods import by_table_imputer

from tsimpute.core.quantiles import central_levels, quantiles_of_sorted
from tsimpute.filling.panels.windows import gap_numbers

WITHIN = (0.87, 0.93)
FILE = "attainable_coverage.csv"
_TIMES = 1000


def held(draws: np.ndarray) -> np.ndarray:
    """(S, M) bool: whether the 90 % interval of each cell, of the other draws, holds each of S draws (S, M)."""
    ordered, found = np.sort(draws, 0), np.empty(draws.shape, bool)
    others = np.arange(len(draws) - 1)[:, None]
    for own, out in zip(draws, found, strict=True):
        place = (ordered < own).sum(0)
        low, high = quantiles_of_sorted(np.take_along_axis(ordered, others + (others >= place), 0), central_levels(90))
        out[:] = (low <= own) & (own <= high)
    return found


def attainable(draws: np.ndarray, run: np.ndarray) -> dict[str, float]:
    """How often the coverage of M cells by right intervals is within bounds, and its spread.

    Args:
        draws: (S, M) joint ones.
        run: (M,) the gap of each cell.

    Returns:
        As the draws go together, and were different gaps independent of each other.
    """
    found = held(draws)
    together = found.mean(1)
    _, of_run = np.unique(run, return_inverse=True)
    sums = np.stack([np.bincount(of_run, row) for row in found.astype(float)])
    rng, some = np.random.default_rng(0), np.arange(sums.shape[1])
    alone = np.array([sums[rng.integers(len(sums), size=len(some)), some].sum() for _ in range(_TIMES)]) / len(run)
    return {
        "attainable": _within(together), "spread": float(together.std()), "attainable_gaps_alone": _within(alone),
        "spread_gaps_alone": float(alone.std()),
    }  # fmt: skip


def _within(coverages: np.ndarray) -> float:
    low, high = WITHIN
    return float(((coverages >= low) & (coverages <= high)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("TSIMPUTE_DATA"), dest="root")
    parser.add_argument("--out", type=Path, required=True, help=f"folder of {FILE}")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--holes", nargs="+", choices=ALL_HOLES, default=ALL_HOLES)
    parser.add_argument("--seed", type=int, default=0, help="of the holes")
    given = parser.parse_args()
    if given.root is None:
        parser.error("name the folder of the data by --data or TSIMPUTE_DATA")
    path = given.out / FILE
    rows = pd.read_csv(path).to_dict("records") if path.is_file() else []
    done = {(row["table"], row["holes"], row["seed"]) for row in rows}
    given.out.mkdir(parents=True, exist_ok=True)
    for table, holes in product(given.tables, given.holes):
        of_task = task(Path(given.root), table, holes, given.seed)
        if of_task is None or (table, holes, given.seed) in done:
            continue
        answer = by_table_imputer("instant", of_task.frame)
        assert answer.draws is not None
        about = {"table": table, "holes": holes, "seed": given.seed, "n_cells": int(of_task.hidden.sum())}
        run = gap_numbers(of_task.frame.isna().to_numpy().T).T[of_task.hidden]
        rows.append(about | attainable(answer.draws[:, of_task.hidden], run))
        pd.DataFrame(rows).to_csv(path, index=False, float_format="%.5g")
        print(f"{table}, {holes}: {rows[-1]['attainable']:.0%}", flush=True)
    found = pd.DataFrame(rows)[["attainable", "attainable_gaps_alone"]].mean()
    print(
        f"{len(rows)} rows: right 90 % intervals hold 87 to 93 % on {found.iloc[0]:.0%}, were gaps independent on "
        f"{found.iloc[1]:.0%}"
    )


if __name__ == "__main__":
    main()

"""Fills real tables with holes by many methods, scores the hidden cells, and sums up.

export TSIMPUTE_DATA=DATA
.venv/bin/python benchmarks/tables.py --out results/tables
.venv/bin/python benchmarks/tables.py --out results/tables --methods "TableImputer quick" --tables airq

Each row is computed in a process of its own, with one thread, and is written as soon as it is there; what is there is
not computed again. Without --methods: those that take seconds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # before NumPy and torch are loaded
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = os.environ.get(name, "1")

import numpy as np
import pandas as pd
from filelock import FileLock
from table_data import ALL_HOLES, TABLES, Task, task
from table_methods import METHODS, QUICK, Answer, load_all
from table_report import write_report

from tsimpute.ensembles import crps

KEY = ("table", "holes", "method")
COLUMNS = (
    *KEY, "n_cells", "mae", "rmse", "crps", "coverage_90", "wall_s", "cpu_s", "peak_mib", "n_steps", "n_features",
    "note",
)  # fmt: skip


def scores(of_task: Task, answer: Answer) -> dict[str, float]:
    """Over the hidden cells, in standard deviations of each feature; coverage as a share."""
    at = of_task.hidden
    truth, scale = of_task.truth[at], np.broadcast_to(of_task.scale, at.shape)[at]
    if not (np.isfinite(answer.point[at]).all() and np.isfinite(answer.mean[at]).all()):
        raise ValueError(f"{int((~np.isfinite(answer.point[at])).sum())} hidden cells are left empty")
    there = ~np.isnan(of_task.frame.to_numpy(float))
    if not np.array_equal(answer.point[there], of_task.truth[there]) and answer.low is None:
        raise ValueError("observed values came back changed")
    out = {
        "mae": float((np.abs(answer.point[at] - truth) / scale).mean()),
        "rmse": float(np.sqrt((((answer.mean[at] - truth) / scale) ** 2).mean())),
    }
    if answer.draws is not None:
        out["crps"] = float((crps(answer.draws[:, at], truth) / scale).mean())
    if answer.low is not None and answer.high is not None:
        out["coverage_90"] = float(((answer.low[at] <= truth) & (truth <= answer.high[at])).mean())
    return out


def row(root: Path, key: tuple[str, str, str], seed: int) -> dict[str, Any] | None:
    """One row of the table, computed here; None where the holes make no sense in the table."""
    of_task = task(root, key[0], key[1], seed)
    if of_task is None:
        return None
    n_steps, n_features = of_task.truth.shape
    about = dict(zip(KEY, key, strict=True)) | {"n_steps": n_steps, "n_features": n_features}
    before, wall, cpu = _peak_mib(), time.perf_counter(), _cpu_seconds()
    answer = METHODS[key[2]](of_task.frame.copy())
    spent = {"wall_s": time.perf_counter() - wall, "cpu_s": _cpu_seconds() - cpu, "peak_mib": _peak_mib() - before}
    return about | {"n_cells": int(of_task.hidden.sum())} | scores(of_task, answer) | spent


def in_a_process(root: Path, key: tuple[str, str, str], seed: int, limit: float) -> dict[str, Any] | None:
    """``row`` in a process that has everything loaded and this one row to do; a note says why there are no scores."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def work() -> None:
        try:
            theirs.send(row(root, key, seed))
        except Exception as error:
            theirs.send(dict(zip(KEY, key, strict=True)) | {"note": f"{type(error).__name__}: {error}"[:200]})

    process = context.Process(target=work, daemon=True)
    process.start()
    theirs.close()
    found: dict[str, Any] | None = dict(zip(KEY, key, strict=True))
    try:
        found = ours.recv() if ours.poll(limit) else {**(found or {}), "note": f"more than {limit:g} s"}
    except EOFError:
        found = {**(found or {}), "note": "the process ended without an answer"}
    process.kill()
    process.join()
    return found


def rows(out: Path) -> pd.DataFrame:
    """What is there."""
    path = out / "metrics.csv"
    return pd.read_csv(path) if path.is_file() else pd.DataFrame(columns=list(COLUMNS))


def keep(out: Path, new: Mapping[str, Any]) -> None:
    """Adds a row in its place; others may be at work in the same folder."""
    out.mkdir(parents=True, exist_ok=True)
    with FileLock(out / ".lock"):
        there = rows(out)
        same = (there[list(KEY)] == [new[name] for name in KEY]).all(axis=1)
        added = pd.DataFrame([new], columns=list(COLUMNS))
        frame = added if there[~same].empty else pd.concat([there[~same], added])
        ranks = [frame[name].map(order.index) for name, order in zip(KEY, ORDERS, strict=True)]
        frame = frame.iloc[np.lexsort(ranks[::-1])]
        frame.to_csv(out / ".metrics.csv", index=False, float_format="%.5g")
        (out / ".metrics.csv").replace(out / "metrics.csv")


ORDERS = (list(TABLES), list(ALL_HOLES), list(METHODS))


def to_do(out: Path, chosen: Sequence[Sequence[str]], again: bool) -> Iterator[tuple[str, str, str]]:
    done = set() if again else {tuple(key) for key in rows(out)[list(KEY)].to_numpy().tolist()}
    yield from (key for key in product(*chosen) if key not in done)  # type: ignore[misc]


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of metrics.csv, tables.md and tables.png")
    parser.add_argument("--root", type=Path, default=os.environ.get("TSIMPUTE_DATA"), help="folder of the data")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--holes", nargs="+", choices=ALL_HOLES, default=ALL_HOLES)
    parser.add_argument("--methods", nargs="+", choices=[*METHODS, "all"], default=QUICK)
    parser.add_argument("--seed", type=int, default=0, help="of the holes")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds that one row may take")
    parser.add_argument("--again", action="store_true", help="compute rows anew that are there")
    parser.add_argument("--report", action="store_true", help="only sum up what is there")
    given = parser.parse_args()
    if not given.report:
        if given.root is None:
            parser.error("name the folder of the data by --root or TSIMPUTE_DATA")
        load_all()
        methods = list(METHODS) if "all" in given.methods else given.methods
        for key in to_do(given.out, (given.tables, given.holes, methods), given.again):
            found = in_a_process(Path(given.root), key, given.seed, given.limit)
            if found is not None:
                keep(given.out, found)
                told = found.get("note") or f"MAE {found['mae']:.3f}  {found['wall_s']:.1f} s"
                print(*key, told, sep="  ", flush=True)
    if rows(given.out).empty:
        sys.exit(f"{given.out}: nothing to sum up yet")
    write_report(rows(given.out), given.out)


if __name__ == "__main__":
    main()

"""Fills real tables with holes by many methods, scores the hidden cells, and sums up.

export TSIMPUTE_DATA=DATA
.venv/bin/python benchmarks/tables.py --out results/tables
.venv/bin/python benchmarks/tables.py --out results/tables --methods quick --tables airq
.venv/bin/python benchmarks/tables.py --data DATA --out OUT --methods quick normal auto --jobs 16 --seconds 270

Each row is computed in a process of its own, with one thread, and is written as soon as it is there; what is there is
not computed again. Without --methods: those that take seconds. An effort stands for ``TableImputer`` at that effort.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # before NumPy and torch are loaded
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = os.environ.get(name, "1")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # seconds are those of a processor

import numpy as np
import pandas as pd
from filelock import FileLock
from table_answers import Answer
from table_data import ALL_HOLES, TABLES, Task, load, task
from table_jobs import KEY, Key, Limits, Row, side_by_side
from table_methods import METHODS, QUICK, SHORT, load_all
from table_peers import PEER_PYTHONS

from tsimpute.evaluation.ensembles import crps

COLUMNS = (
    *KEY, "n_cells", "mae", "rmse", "crps", "coverage_90", "wall_s", "cpu_s", "peak_mib", "n_steps", "n_features",
    "note", "delivered",
)  # fmt: skip


def scores(of_task: Task, answer: Answer) -> dict[str, float]:
    """Over the hidden cells, in standard deviations of each feature; coverage as a share."""
    at = of_task.hidden
    truth, scale = of_task.truth[at], np.broadcast_to(of_task.scale, at.shape)[at]
    if not (np.isfinite(answer.point[at]).all() and np.isfinite(answer.mean[at]).all()):
        raise ValueError(f"{int((~np.isfinite(answer.point[at])).sum())} hidden cells are left empty")
    there = ~np.isnan(of_task.frame.to_numpy(float))
    if not np.array_equal(answer.point[there], of_task.truth[there]):
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


def row(root: Path, key: Key, seed: int) -> Row | None:
    """One row of the table, computed here; None where the holes make no sense in the table."""
    of_task = task(root, key[0], key[1], seed)
    if of_task is None:
        return None
    n_steps, n_features = of_task.truth.shape
    about = dict(zip(KEY, key, strict=True)) | {"n_steps": n_steps, "n_features": n_features}
    before, wall, cpu = _peak_mib(), time.perf_counter(), _cpu_seconds()
    answer = METHODS[key[2]](of_task.frame.copy())
    of_call = time.perf_counter() - wall, _cpu_seconds() - cpu
    spent = dict(zip(("wall_s", "cpu_s"), answer.seconds or of_call, strict=True)) | {"peak_mib": _peak_mib() - before}
    return (
        about
        | {"n_cells": int(of_task.hidden.sum())}
        | scores(of_task, answer)
        | spent
        | {"delivered": answer.delivered}
    )


def in_a_process(root: Path, key: Key, seed: int, limit: float) -> Row | None:
    """``row`` in a process of its own; a note says why there are no scores."""
    return next(side_by_side(partial(row, root, seed=seed), [key], 1, Limits(limit)))


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
        frame = added if there[~same].empty else pd.concat([there[~same], added])[list(COLUMNS)]
        ranks = [frame[name].map(order.index) for name, order in zip(KEY, ORDERS, strict=True)]
        frame = frame.iloc[np.lexsort(ranks[::-1])]
        frame.to_csv(out / ".metrics.csv", index=False, float_format="%.5g")
        (out / ".metrics.csv").replace(out / "metrics.csv")


ORDERS = (list(TABLES), list(ALL_HOLES), list(METHODS))


def to_do(out: Path, chosen: Sequence[Sequence[str]], again: bool) -> list[Key]:
    """The rows that are not there, or all of them; those without scores count as there."""
    done = set() if again else {tuple(key) for key in rows(out)[list(KEY)].to_numpy().tolist()}
    return [key for key in product(*chosen) if key not in done]  # type: ignore[misc]


def longest_first(root: Path, keys: Sequence[Key]) -> list[Key]:
    """Methods that cost more first, and of one method the larger tables, so that no long row begins last."""
    sizes = {table: load(root, table).size for table in {key[0] for key in keys}}
    methods = list(METHODS)
    return sorted(keys, key=lambda key: (-methods.index(key[2]), -sizes[key[0]]))


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    given = _parsed()
    for of_peer in given.peer_python:
        name, _, python = of_peer.partition("=")
        os.environ[f"TSIMPUTE_{name.upper()}_PYTHON"] = python
    for path in given.merge:
        for new in pd.read_csv(path).to_dict("records"):
            keep(given.out, new)
    if not given.report and not given.merge:
        compute(given)
    if given.without_page:
        return
    if rows(given.out).empty:
        sys.exit(f"{given.out}: nothing to sum up yet")
    from table_report import write_report

    write_report(rows(given.out), given.out)


def compute(given: argparse.Namespace) -> None:
    """Adds the rows that are asked for and not there."""
    until = time.monotonic() + given.seconds
    methods = list(METHODS) if "all" in given.methods else given.methods
    load_all(methods)
    keys = to_do(given.out, (given.tables, given.holes, methods), given.again)
    if given.jobs > 1:
        keys = longest_first(given.root, keys)[:: 1 if given.first == "longest" else -1]
    work = partial(row, given.root, seed=given.seed)
    n_found = 0
    for found in side_by_side(work, keys, given.jobs, Limits(given.limit, given.cpu_limit, until)):
        n_found += 1
        if found is not None:
            keep(given.out, found)
            told = found.get("note") or f"MAE {found['mae']:.3f}  {found['wall_s']:.1f} s  {found['cpu_s']:.1f} CPU s"
            print(*(found[name] for name in KEY), told, sep="  ", flush=True)
    if n_found < len(keys):
        print(
            f"{len(keys) - n_found} rows were not finished in {given.seconds:g} s; the same command goes on", flush=True
        )


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--out", type=Path, required=True, help="folder of metrics.csv, tables.md and tables.png")
    add("--data", "--root", dest="root", type=Path, default=os.environ.get("TSIMPUTE_DATA"), help="folder of the data")
    add("--tables", nargs="+", choices=TABLES, default=TABLES)
    add("--holes", nargs="+", choices=ALL_HOLES, default=ALL_HOLES)
    add("--methods", nargs="+", choices=[*METHODS, *SHORT, "all"], default=QUICK)
    add("--seed", type=int, default=0, help="of the holes")
    add("--jobs", type=int, default=1, help="rows that are computed side by side")
    add("--first", choices=("longest", "shortest"), default="longest",
        help="with several jobs: the longest rows, or the shortest where time will not suffice for all")  # fmt: skip
    add("--seconds", type=float, default=float("inf"), help="after which no more is computed; what is finished is kept")
    add("--limit", type=float, default=3600.0, help="seconds that one row may take")
    add("--cpu-limit", type=int, help="CPU seconds that one row may take, and each program that it starts")
    add("--again", action="store_true", help="compute rows anew that are there")
    add("--report", action="store_true", help="only sum up what is there")
    add("--merge", nargs="+", type=Path, default=[], metavar="CSV", help="only add the rows of other metrics.csv")
    add("--without-page", action="store_true", help="write metrics.csv alone, which needs no matplotlib")
    add("--peer-python", nargs="+", default=[], metavar="NAME=PYTHON",
        help="interpreters of the environments of pypots and imputegap, if not those in benchmarks/peers")  # fmt: skip
    given = parser.parse_args()
    if given.root is None and not given.report and not given.merge:
        parser.error("name the folder of the data by --data or TSIMPUTE_DATA")
    if given.jobs < 1:
        parser.error(f"--jobs: expected at least 1, came {given.jobs}")
    wrong = [text for text in given.peer_python if text.partition("=")[0] not in PEER_PYTHONS or "=" not in text]
    if wrong:
        parser.error(f"--peer-python: expected {' or '.join(PEER_PYTHONS)}, = and a path; came {wrong[0]!r}")
    given.methods = [SHORT.get(name, name) for name in given.methods]
    given.root = given.root and Path(given.root)
    return given


if __name__ == "__main__":
    main()

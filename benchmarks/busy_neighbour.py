"""What filling costs beside another busy process: the default number of threads against one.

.venv/bin/python benchmarks/busy_neighbour.py --out benchmarks/busy_neighbour.csv

A neighbour keeps one core busy while a table of 600 x 10 is learnt from and filled, by a Gaussian process ("instant")
and by a short training ("network"). The two numbers of threads take turns, in another order each round, and what is
kept are medians of each round's ratio: other work on the machine changes from minute to minute, and does less harm so.
Nothing is written where the machine is busy at the start, unless that is forced. Aim: ratios of at most 1.3.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

NEIGHBOUR = "while True: pass"
WORK = """
import resource, sys, time, warnings
from dataclasses import replace
import numpy as np, pandas as pd
import tsimpute as ti
from tsimpute.filling.learning import learning as efforts
warnings.simplefilter("ignore")
efforts.EFFORTS["quick"] = replace(efforts.EFFORTS["quick"], steps=int(sys.argv[2]), windows=4)
rng = np.random.default_rng(0)
values = np.sin(np.arange(600)[:, None] / 10 + np.arange(10)) + 0.3 * rng.normal(size=(600, 10))
values[rng.random(values.shape) < 0.15] = np.nan
frame = pd.DataFrame(values, pd.date_range("2020", periods=600, freq="h"), [f"s{k}" for k in range(10)])
start = time.perf_counter()
ti.TableImputer(effort={"network": "quick"}.get(sys.argv[1], sys.argv[1]), n_samples=4).fit_draw(frame, progress=False)
used = resource.getrusage(resource.RUSAGE_SELF)
print(time.perf_counter() - start, used.ru_utime + used.ru_stime)
"""
WORKS = ("instant", "network")
THREADS = {"default": None, "one": "1"}
MOST_LOAD = 0.5
"""Of the last minute: what else runs then would be measured, too."""
_THREAD_VARIABLES = ("OMP_", "GOMP_", "MKL_", "OPENBLAS_")
Seconds = tuple[float, float]


def seconds(work: str, threads: str | None, steps: int) -> Seconds:
    """Wall seconds of the work, and CPU seconds of its process; threads None = the default."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(_THREAD_VARIABLES)}
    env |= {} if threads is None else {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    neighbour = subprocess.Popen([sys.executable, "-c", NEIGHBOUR])
    try:
        command = [sys.executable, "-c", WORK, work, str(steps)]
        done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    finally:
        neighbour.kill()
        neighbour.wait()
    wall, cpu = map(float, done.stdout.split())
    return wall, cpu


def rounds_of(steps: int, most: int, until: float) -> list[dict[tuple[str, str], Seconds]]:
    """Rounds of all works with each number of threads, as many as there is time for, but one."""
    found: list[dict[tuple[str, str], Seconds]] = []
    longest = 0.0
    while len(found) < most and (not found or time.monotonic() + longest < until):
        began = time.monotonic()
        order = list(THREADS) if len(found) % 2 == 0 else list(THREADS)[::-1]
        found.append({(work, name): seconds(work, THREADS[name], steps) for work in WORKS for name in order})
        longest = max(longest, time.monotonic() - began)
    return found


def rows_of(rounds: Sequence[dict[tuple[str, str], Seconds]], about: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each work: medians of seconds, and of the rounds' ratios of the default to one thread."""
    out = []
    for work in WORKS:
        row: dict[str, Any] = {"work": work}
        for which, unit in enumerate(("wall", "cpu")):
            of_rounds = [[of_round[work, name][which] for name in THREADS] for of_round in rounds]
            for name, of_one in zip(THREADS, zip(*of_rounds, strict=True), strict=True):
                row[f"{name}_{unit}_s"] = round(statistics.median(of_one), 2)
            ratios = [default / one for default, one in of_rounds]
            for name, ratio in (("", statistics.median(ratios)), ("_lowest", min(ratios)), ("_highest", max(ratios))):
                row[f"{unit}_ratio{name}"] = round(ratio, 2)
        out.append(row | {"rounds": len(rounds)} | about)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="file that the rows are added to; they are printed, too")
    parser.add_argument("--rounds", type=int, default=5, help="at most")
    parser.add_argument("--seconds", type=float, default=110.0, help="after which no round begins; one is always run")
    parser.add_argument("--steps", type=int, default=30, help="of the short training")
    parser.add_argument("--force", action="store_true", help="write rows of a busy machine, too")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    if load > MOST_LOAD and given.out is not None and not given.force:
        sys.exit(
            f"{given.out}: nothing is measured: expected a load of at most {MOST_LOAD} in the last minute, came "
            f"{load:.2f}. Wait until other work has ended, leave --out away, or give --force."
        )
    about = {"steps": given.steps, "load_at_start": round(load, 2), "cores": os.cpu_count(),
             "python": platform.python_version(), "day": date.today().isoformat()}  # fmt: skip
    rows = rows_of(rounds_of(given.steps, given.rounds, time.monotonic() + given.seconds), about)
    _write(sys.stdout, rows, True)
    if given.out is not None:
        begins = not given.out.is_file()
        with given.out.open("a", encoding="utf-8", newline="") as file:
            _write(file, rows, begins)


def _write(file: Any, rows: Sequence[dict[str, Any]], with_header: bool) -> None:
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    if with_header:
        writer.writeheader()
    writer.writerows(rows)


if __name__ == "__main__":
    main()

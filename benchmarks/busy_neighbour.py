"""What filling costs beside another busy process: the default number of threads against one.

.venv/bin/python benchmarks/busy_neighbour.py [rounds] [steps] > busy_neighbour.csv

A neighbour keeps one core busy while a table of 600 x 10 is learnt from and filled. The two ways take turns, since
other work on the machine changes from minute to minute; ``ratio`` is of the medians. Aim: at most 1.3.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

NEIGHBOUR = "while True: pass"
WORK = """
import resource, sys, time, warnings
from dataclasses import replace
import numpy as np, pandas as pd
import tsimpute as ti
from tsimpute.filling import efforts
warnings.simplefilter("ignore")
efforts.EFFORTS["quick"] = replace(efforts.EFFORTS["quick"], steps=int(sys.argv[1]), windows=4)
rng = np.random.default_rng(0)
values = np.sin(np.arange(600)[:, None] / 10 + np.arange(10)) + 0.3 * rng.normal(size=(600, 10))
values[rng.random(values.shape) < 0.15] = np.nan
frame = pd.DataFrame(values, pd.date_range("2020", periods=600, freq="h"), [f"s{k}" for k in range(10)])
start = time.perf_counter()
ti.TableImputer(effort="quick", n_samples=4).fit_draw(frame, progress=False)
used = resource.getrusage(resource.RUSAGE_SELF)
print(time.perf_counter() - start, used.ru_utime + used.ru_stime)
"""


def seconds(threads: int | None, steps: int) -> tuple[float, float]:
    """Wall and CPU seconds of the work; threads None = the default."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "MKL_"))}
    env |= {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    neighbour = subprocess.Popen([sys.executable, "-c", NEIGHBOUR])
    try:
        done = subprocess.run(
            [sys.executable, "-c", WORK, str(steps)], env=env, check=True, capture_output=True, text=True
        )
    finally:
        neighbour.kill()
        neighbour.wait()
    wall, cpu = map(float, done.stdout.split())
    return wall, cpu


def main(rounds: int = 3, steps: int = 30) -> None:
    found: dict[int | None, list[tuple[float, float]]] = {None: [], 1: []}
    for _ in range(rounds):
        for threads, of_one in found.items():
            of_one.append(seconds(threads, steps))
    medians = {threads: [statistics.median(x) for x in zip(*of_one, strict=True)] for threads, of_one in found.items()}
    print("threads,wall_s,cpu_s,ratio,rounds,steps,cores")
    for threads, (wall, cpu) in medians.items():
        ratio = wall / medians[1][0]
        print(f"{threads or 'default'},{wall:.1f},{cpu:.1f},{ratio:.2f},{rounds},{steps},{os.cpu_count()}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

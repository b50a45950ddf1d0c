"""What a network learns in equal time from three starts: nothing, linear interpolation, a Gaussian process's posterior.

export TSIMPUTE_DATA=DATA
.venv/bin/python benchmarks/base_estimates.py --out benchmarks/base_estimates.csv

The same network (width 32, 3 blocks) learns the residual of each base estimate by flow matching with the csdi protocol.
Time is CPU seconds of one thread from the call on, so that fitting a process and computing its posteriors count;
scoring does not. Scores are those of validation records, at the cells that the protocol holds out. Each row is written
when it is computed, and is not computed again.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # before NumPy and torch are loaded
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"

import numpy as np
import pandas as pd

import tsimpute as ti
from tsimpute.config.settings import DataConfig, EvaluationConfig, ProcessConfig, ProtocolConfig
from tsimpute.experiments.runs import task_of
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.tasks.task import Task

BASES = ("none", "linear", "gaussian")
METRICS = ("crps", "crps_fair", "mae_median", "rmse_mean", "coverage_90")
NETWORK = {"width": 32, "n_heads": 4, "n_blocks": 3, "width_time": 128, "width_feature": 16, "width_tau": 128}
TASKS: dict[str, dict[str, Any]] = {
    "physionet2012": {"rate": 0.1, "mask_policy": "random", "base_folds": 3, "units": "standardised"},
    "pm25": {"rate": None, "mask_policy": "mix", "base_folds": 7, "units": "data"},
}


def config_of(data: str, base: Any) -> ti.RunConfig:
    """The run of one row; the learning rate stays as it is, since the number of steps is not known before."""
    about = TASKS[data]
    path = {"path": "trigonometric"} if base == "gaussian" else {}  # keeps the variance of a posterior
    return ti.RunConfig(
        data=DataConfig(data),
        protocol=ProtocolConfig("csdi", rate=about["rate"]),
        process=ProcessConfig("flow_matching", path),
        network=ti.NetworkConfig("context_cells", NETWORK, base=base),
        training=ti.TrainingConfig(
            epochs=1000, batch_size=16, micro_batch=8, warmup_steps=100, milestones=(), ema=0.99,
            mask_policy=about["mask_policy"], base_folds=about["base_folds"],
        ),
        evaluation=EvaluationConfig(n_samples=20, units=about["units"]),
    )  # fmt: skip


def rows_of(config: ti.RunConfig, task: Task, budgets: list[float], n_records: int) -> Iterator[dict[str, Any]]:
    """Scores after each of the budgets, in CPU seconds."""
    imputer = GenerativeImputer(config.process, config.network, config.training, config.sampling)
    with_cells = np.flatnonzero(task.valid.held_out_mask.any((1, 2)))
    at = np.unique(np.linspace(0, len(with_cells) - 1, n_records).round().astype(int))
    records = task.valid.select(with_cells[at])
    scaler = None if config.evaluation.units == "data" else task.scaler
    left, began = sorted(budgets), time.process_time()
    for step in imputer.fit_steps(task.train):
        spent = time.process_time() - began
        if spent < left[0]:
            continue
        paused = time.process_time()
        report = ti.evaluate(imputer, records, n_samples=20, scaler=scaler)
        of_all = {row.metric: row.value for row in report.rows if row.feature == "all" and row.metric in METRICS}
        yield {"cpu_s": round(spent, 1), "budget": left[0], "steps": step.step, "n_records": len(records)} | of_all
        began += time.process_time() - paused
        left = left[1:]
        if not left:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--base estimates", nargs="+", choices=BASES, default=BASES)
    parser.add_argument("--budgets", nargs="+", type=float, default=[100.0, 300.0], help="CPU seconds")
    parser.add_argument("--records", type=int, default=100, help="of validation, at most")
    given = parser.parse_args()
    there = pd.read_csv(given.out) if given.out.is_file() else pd.DataFrame({"data": [], "base": []})
    for data in given.data:
        for base in given.estimates:
            if ((there.data == data) & (there.base == base)).any():
                continue
            config = config_of(data, base)
            for row in rows_of(config, task_of(config), given.budgets, given.records):
                new = pd.DataFrame([{"data": data, "base": base} | row]).round(4)
                there = new if there.empty else pd.concat([there, new])
                there.to_csv(given.out, index=False)
                print(new.to_string(header=False), flush=True)


if __name__ == "__main__":
    main()

"""Scores of whole samples, beside those of single cells: do cells that are drawn together fit together?

    python benchmarks/joint_scores.py CONFIG MODEL:STEPS ... [--split valid] [--records 160] [--pool]

CONFIG is that of a run, MODEL a model file of the same data, STEPS its evaluations per sample (0 = the default).
Of the held-out cells, fair CRPS of each, of the differences of those that follow each other in a record, and of the sum
in a record over the root of their number; the fair energy score of a record, likewise; MAE of the median, RMSE of the
mean and what 90 % intervals hold. --pool scores the samples of all models together as well.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from tsimpute.config.settings import SamplingConfig
from tsimpute.config.yaml_files import load_config
from tsimpute.evaluation.ensembles import crps, interval_holds
from tsimpute.experiments import runs
from tsimpute.imputers.generative import GenerativeImputer


def fair_energy(draws: np.ndarray, truth: np.ndarray) -> float:
    """Of (S, N) draws as S points, over the root of N."""
    n = len(draws)
    between = np.sqrt(((draws[:, None] - draws[None]) ** 2).sum(-1)).sum() / (2 * n * (n - 1))
    return float((np.sqrt(((draws - truth) ** 2).sum(-1)).mean() - between) / np.sqrt(len(truth)))


def scores(draws: np.ndarray, truth: np.ndarray, record: np.ndarray) -> dict[str, float]:
    """Of (S, N) draws of cells in the order of their records, ``record`` (N,)."""
    together = record[1:] == record[:-1]
    number = np.unique(record, return_inverse=True)[1]
    root = np.sqrt(np.bincount(number))
    sums = np.stack([np.bincount(number, of_one) / root for of_one in draws])
    fair_crps = lambda of_draws, of_truth: float(crps(of_draws, of_truth, fair=True).mean())
    return {
        "fair_crps": fair_crps(draws, truth),
        "of_differences": fair_crps(np.diff(draws, axis=1)[:, together], np.diff(truth)[together]),
        "of_sums": fair_crps(sums, np.bincount(number, truth) / root),
        "energy": float(np.mean([fair_energy(draws[:, number == n], truth[number == n]) for n in range(len(root))])),
        "mae": float(np.abs(np.median(draws, 0) - truth).mean()),
        "rmse": float(np.sqrt(((draws.mean(0) - truth) ** 2).mean())),
        "inside_90": float(interval_holds(draws.T, truth, 90).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--split", default="valid", choices=["valid", "test"])
    parser.add_argument("--records", type=int, default=160)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--pool", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = load_config(options.config)
    task = runs.task_of(config)
    windows = getattr(task, options.split)
    chosen = np.linspace(0, len(windows) - 1, min(options.records, len(windows))).astype(int)
    windows = windows.select(chosen)
    held_out, standardised = windows.held_out, config.evaluation.units == "standardised"
    in_units = task.scaler.transform if standardised else np.asarray
    truth, record = in_units(windows.values)[held_out], np.nonzero(held_out)[0]
    every = []
    for number, text in enumerate(options.models):
        seed = number if options.pool else 0  # samples of equal noise compare well, and pool badly
        path, _, steps = text.rpartition(":")
        imputer = GenerativeImputer.load(Path(path), SamplingConfig(n_steps=int(steps) or None))
        draws = imputer.impute(windows.without_held_out(), options.samples, seed, fill=held_out).values
        every.append(in_units(draws)[:, held_out])
        print(text, {name: round(value, 4) for name, value in scores(every[-1], truth, record).items()}, flush=True)
    if options.pool:
        print("all", {name: round(x, 4) for name, x in scores(np.concatenate(every), truth, record).items()})


if __name__ == "__main__":
    main()

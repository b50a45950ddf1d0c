"""After how much training a run scores as well as a published result, beside CSDI's code on this machine.

    python benchmarks/time_to_level.py RUN [RUN ...] --out benchmarks/time_to_level.csv

A run has scores of the epochs that it kept (`tsimpute evaluate RUN --evaluation.at_epochs`). The seconds of CSDI's code
are those of a training step in `results.json` times the steps of its published training; it is not trained here.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

METRIC = "crps_mean_over_features"
LEVELS = {"physionet2012": (0.220, 35_000), "pm25": (6.726, 60_600)}
"""CRPS over features of CFMI (Simkus and Gutmann 2025; PhysioNet: 10 % held out), and the steps of 200 epochs."""


def of_run(run: Path, speed: Path) -> dict[str, object]:
    """One row: the first scored epoch that reaches the level; where none does, the best one, without seconds."""
    scores = pd.read_csv(run / "metrics.csv")
    scores = scores[(scores.metric == METRIC) & (scores.feature == "all") & (scores.split == "test")]
    (data,) = scores.dataset.unique()
    level, n_steps = LEVELS[data]
    reached = scores[scores.value <= level].sort_values("epoch")
    first = reached.iloc[0] if len(reached) else scores.sort_values("value").iloc[0]
    at = pd.read_csv(run / "epochs.csv").set_index("epoch").loc[int(first.epoch)]
    csdi = n_steps * _step_seconds(speed, data)
    row = {"data": data, "run": run.name, "level": level, "score": first.value, "samples": first.n_samples}
    row |= {"steps": int(at.step), "minutes": at.seconds / 60, "csdi_steps": n_steps, "csdi_hours": csdi / 3600}
    return row | {"reached": bool(len(reached)), "times_less": csdi / at.seconds if len(reached) else None}


def _step_seconds(path: Path, data: str) -> float:
    """Seconds of a training step of CSDI's code."""
    wanted = {"data": data, "work": "train_step", "variant": "reference"}
    (row,) = (row for row in json.loads(path.read_text()) if wanted.items() <= row.items())
    return float(row["seconds"])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, help="folders of finished runs with their scores")
    parser.add_argument("--speed", type=Path, default=Path(__file__).parent / "results.json")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args(arguments)
    rows = pd.DataFrame([of_run(run, asked.speed) for run in asked.runs])
    rows.to_csv(asked.out, index=False, float_format="%.4g")
    print(rows.to_string(index=False))


if __name__ == "__main__":
    main()

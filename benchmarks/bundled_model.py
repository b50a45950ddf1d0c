"""Fits the bundled model of ICU stays, a Gaussian process that networks correct, and scores it and the network of CFMI.

    python benchmarks/bundled_model.py fit --out runs/bundled_process
    python benchmarks/bundled_model.py score --out runs/bundled_process

``fit`` writes model.safetensors. ``score`` adds the mechanisms of the protocol to metrics.csv and tables.md. Stays are
those of protocol ``clean``, fold 0, as of the network's training. TSIMPUTE_DATA names the folder of the data.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tsimpute.config.settings import DataConfig, EvaluationConfig, ProtocolConfig, RunConfig
from tsimpute.experiments.runs import add_results, load_windows, score, score_baselines, task_of
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.models.pretrained import model_path

MECHANISMS = ("random", "blocks", "dead_sensor", "mar", "mnar")
FEW, FEWEST = 200, 20
"""Stays that all mechanisms are scored on (at random also all), and those that a test scores the process on again."""


def config(mechanism: str = "random", fill: str = "scored", max_records: int | None = None) -> RunConfig:
    protocol = ProtocolConfig(name="clean", rate=0.1, mechanism=mechanism, limits="card")
    evaluation = EvaluationConfig(20, max_records, fill=fill)  # type: ignore[arg-type]
    return RunConfig(DataConfig("physionet2012"), protocol, evaluation=evaluation)


def fit(out: Path) -> None:
    task = task_of(config())
    # Without seasons: the hours of a stay count from its admission, those of a table perhaps from midnight.
    imputer = GaussianImputer(periods=(), networks={"mask_policy": "varied"})
    imputer.fit(task.train, scaler=task.scaler).save(out / "model.safetensors")


def scored(out: Path) -> None:
    models = GaussianImputer.load(out / "model.safetensors"), GenerativeImputer.load(model_path("physionet2012_cfmi"))
    windows = load_windows("physionet2012")
    of_a_test = config("random", "scored", FEWEST)
    add_results(score(of_a_test, task_of(of_a_test, windows), models[0]), out)
    runs = [config(), *(config(mechanism, "scored", FEW) for mechanism in MECHANISMS)]
    runs += [config(mechanism, "missing", FEW) for mechanism in ("random", "blocks")]
    for run in runs:
        task = task_of(run, windows)
        for model in models:
            report = score(run, task, model)
            add_results(report, out)
            print(run.protocol.mechanism, run.evaluation, model.name, report.value("crps"), flush=True)
        if run.evaluation.fill == "scored":
            add_results(score_baselines(run, task), out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", choices=["fit", "score"])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    {"fit": fit, "score": scored}[options.work](options.out)


if __name__ == "__main__":
    main()

"""The demonstration on generated data: a table filled in seconds, then both processes trained in minutes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from tsimpute.config import settings
from tsimpute.datasets.synthetic import DEAD_SENSOR, FEATURES, SyntheticAirQuality
from tsimpute.evaluation.reporting import Report
from tsimpute.experiments import runs
from tsimpute.filling.files.fill_file import fill_file
from tsimpute.plots.fillings import filled_feature, stretches
from tsimpute.reports.pages import png
from tsimpute.system.files import atomic_write
from tsimpute.system.terminal import Bar

PROCESSES = ("flow_matching", "diffusion")


def demo_config(process: str, epochs: int) -> settings.RunConfig:
    """Settings that reach a useful model of the generated data in about a minute."""
    at = tuple(sorted({max(epochs * share // 6, 1) for share in (1, 3, 6)}))
    steps, eta = (8, 0.0) if process == "flow_matching" else (25, 1.0)
    return settings.RunConfig(
        data=settings.DataConfig("synthetic"),
        protocol=settings.ProtocolConfig("clean", rate=0.2, mechanism="random"),
        process=settings.ProcessConfig(process),
        network=settings.NetworkConfig(options={"width": 32, "n_heads": 4, "n_blocks": 2}),
        training=settings.TrainingConfig(
            epochs=epochs, micro_batch=16, learning_rate=2e-3, ema=0.99, mask_policy="mix"
        ),
        sampling=settings.SamplingConfig("one_step", n_steps=steps, eta=eta),
        evaluation=settings.EvaluationConfig(n_samples=20, max_records=20, at_epochs=at),
    )


def run_demo(out: Path, epochs: int) -> Report:
    """Trains both processes, scores them and the simple imputers, and draws curves and records into ``out``.

    Runs that an interrupted call left in ``out`` go on.

    Args:
        epochs: of each process.
    """
    config = demo_config(PROCESSES[0], epochs)
    task = runs.task_of(config)
    report = runs.score_baselines(config, task)
    for process in PROCESSES:
        config = demo_config(process, epochs)
        imputer, folder = runs.new_imputer(config), out / process
        with Bar(f"training {process}", epochs, "step") as bar:
            for step in runs.train(config, task, imputer, folder):
                if step.stop is None:
                    bar.update(step.step, step.n_steps, f"epoch {step.epoch} loss {step.loss:.3f}")
        report = Report.concat([report, Report.read(folder / "metrics.csv")])
        if process == PROCESSES[0]:
            runs.draw_records(config, task, imputer, out / "records.png")
    return runs.add_results(report, out)


def fill_demo_table(out: Path, say: Callable[[str], None], n_days: int = 90) -> pd.DataFrame:
    """Writes a generated table of 8 sensors with gaps, fills it, and compares what was filled with the truth.

    Args:
        out: folder of ``sensors.csv``, ``filled.csv`` with what goes beside it, and ``filled.png``.
        say: see ``fill_file``.
        n_days: length of the table.

    Returns:
        One row for each feature: gaps, errors of linear interpolation and of the filled table, and the
        share of true values inside the 90 % interval.
    """
    out.mkdir(parents=True, exist_ok=True)
    truth, given = tables(n_days)
    source, target = out / "sensors.csv", out / "filled.csv"
    atomic_write(source, lambda partial: given.to_csv(partial))
    limits = {feature.name: (0.0, None) for feature in FEATURES[1:]}
    chosen = {"effort": "instant", "limits": limits, "units": {f.name: f.unit for f in FEATURES}}
    result = fill_file(source, target, chosen, force=True, say=say)
    assert result is not None
    figure = filled_feature(
        result.prepared.panel, result.fillings, DEAD_SENSOR, stretches(result.fillings, DEAD_SENSOR)
    )
    atomic_write(out / "filled.png", lambda partial: partial.write_bytes(png(figure)))
    filled = pd.read_csv(target, index_col="time", parse_dates=True)
    low, high = (result.cells.pivot(index="time", columns="feature", values=name) for name in ("q0.05", "q0.95"))
    straight = given.interpolate("time", limit_direction="both")
    rows = {}
    for feature in FEATURES:
        at = given[feature.name].isna().to_numpy()
        of_feature = (frame[feature.name].reindex(truth.index) for frame in (truth, straight, filled, low, high))
        right, line, middle, least, most = (column.to_numpy()[at] for column in of_feature)
        rows[f"{feature.name}, {feature.unit}"] = {
            "gaps": int(at.sum()),
            "MAE, linear interpolation": float(np.abs(line - right).mean()),
            "MAE, filled": float(np.abs(middle - right).mean()),
            "inside 90 % interval": float(((least <= right) & (right <= most)).mean()),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def tables(n_days: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(T, 8) the generated table, whole and with its gaps; rows are hours."""
    generator = SyntheticAirQuality(n_records=n_days)
    hours = pd.date_range("2024-01-01", periods=n_days * generator.n_steps, freq="h", name="time")
    names = [feature.name for feature in FEATURES]
    truth = pd.DataFrame(generator.complete().T.round(2), hours, names)
    values = np.concatenate(list(generator.load().values), axis=1).T  # (N, K, L) -> (T, K)
    return truth, truth.where(~np.isnan(values))

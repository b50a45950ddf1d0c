"""Both processes on generated data, against simple imputers, in a few minutes on two cores."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tsimpute.config.settings import (
    DataConfig,
    EvaluationConfig,
    NetworkConfig,
    ProcessConfig,
    ProtocolConfig,
    RunConfig,
    SamplingConfig,
    TrainingConfig,
)
from tsimpute.evaluation.reporting import Report
from tsimpute.experiments import runs

PROCESSES = ("flow_matching", "diffusion")


class _Bar(Protocol):
    def update(self, done: int, total: int | None = None, note: str = "") -> None: ...


def demo_config(process: str, epochs: int) -> RunConfig:
    """Settings that reach a useful model of the generated data in about a minute."""
    at = tuple(sorted({max(epochs * share // 6, 1) for share in (1, 3, 6)}))
    steps, eta = (8, 0.0) if process == "flow_matching" else (25, 1.0)
    return RunConfig(
        data=DataConfig("synthetic"),
        protocol=ProtocolConfig("clean", rate=0.2, mechanism="random"),
        process=ProcessConfig(process),
        network=NetworkConfig(options={"width": 32, "n_heads": 4, "n_blocks": 2}),
        training=TrainingConfig(epochs=epochs, micro_batch=16, learning_rate=2e-3, ema=0.99, mask_policy="mix"),
        sampling=SamplingConfig("one_step", n_steps=steps, eta=eta),
        evaluation=EvaluationConfig(n_samples=20, max_records=20, at_epochs=at),
    )


def run_demo(out: Path, epochs: int, bar: Callable[[str, int], AbstractContextManager[_Bar]]) -> Report:
    """Trains both processes, scores them and the simple imputers, and draws curves and records into ``out``.

    Runs that an interrupted call left in ``out`` go on.

    Args:
        epochs: of each process.
        bar: (what, total) -> a context that shows progress.
    """
    config = demo_config(PROCESSES[0], epochs)
    task = runs.task_of(config)
    report = runs.score_baselines(config, task)
    for process in PROCESSES:
        config = demo_config(process, epochs)
        imputer, folder = runs.new_imputer(config), out / process
        with bar(f"training {process}", epochs) as shown:
            for step in runs.train(config, task, imputer, folder):
                if step.stop is None:
                    shown.update(step.step, step.n_steps, f"epoch {step.epoch} loss {step.loss:.3f}")
        report = Report.concat([report, Report.read(folder / "metrics.csv")])
        if process == PROCESSES[0]:
            runs.draw_records(config, task, imputer, out / "records.png")
    return runs.add_results(report, out)

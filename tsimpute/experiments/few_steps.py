"""One trained run scored with every solver at few to many network evaluations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from tsimpute.config.registry import available, make, options_of
from tsimpute.config.settings import RunConfig, SamplingConfig
from tsimpute.config.yaml_files import load_config, with_settings
from tsimpute.errors import ConfigError
from tsimpute.evaluation.reporting import Report, Row
from tsimpute.experiments import runs
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.plots import steps
from tsimpute.processes.base import takes

EVALUATIONS = (1, 2, 4, 8, 16, 32, 100)


def few_steps(
    run: Path,
    out: Path,
    *,
    model: str = "last",
    evaluations: Sequence[int] = EVALUATIONS,
    solvers: Sequence[str] = (),
    grid_powers: Sequence[float] = (),
    n_samples: int | None = None,
    max_records: int | None = None,
    root: str | None = None,
    device: str | None = None,
) -> Iterator[Row]:
    """Scores a model on its test records with every sampler, fewest evaluations first.

    Each result is added at once to ``metrics.csv`` and ``tables.md`` in ``out``, which runs of several processes may
    share; what stands there already is not computed again. ``steps.png`` is drawn at the end.

    Args:
        run: folder of a run, or of its results: a ``config.yaml`` and a model.
        out: folder of the results.
        model: name of the model file.
        evaluations: network evaluations per draw; each solver takes as many steps as they allow.
        solvers: names; none = all.
        grid_powers: how the steps are spaced; none = evenly, and as the process has it by default.
        n_samples, max_records, root, device: None = as in the run's config.

    Yields:
        The row of each sampler's fair CRPS once it has been scored.

    Raises:
        ConfigError: no such solver or grid, or a number of evaluations below 1.
        CheckpointError, SourceError, DataError: no model, no data, or results in ``out`` that cannot be read.
    """
    given = {
        "evaluation.n_samples": n_samples,
        "evaluation.max_records": max_records,
        "data.root": root,
        "sampling.device": device,
    }
    config = load_config(run / "config.yaml")
    config = with_settings(config, {path: value for path, value in given.items() if value is not None})
    task, settings = runs.task_of(config), config.evaluation
    shared = {  # by all rows of this study, whatever the sampler
        "dataset": config.data.name, "protocol": task.protocol, "fold": task.fold, "rate": task.rate,
        "n_samples": settings.n_samples, "n_records": len(runs.scored_records(task, settings.max_records)),
        "fill": settings.fill, "seed": settings.seed,
    }  # fmt: skip
    for sampling in _samplers(config, evaluations, solvers, grid_powers):
        imputer = GenerativeImputer.load(run / f"{model}.safetensors", sampling)
        wanted = shared | imputer.sampler_context
        if not Report.kept_in(out).where(**wanted).rows:
            scores = runs.score(config, task, imputer).where(feature="all")
            Report.kept_in(out).updated(scores).write(out)  # read once more: others may have written meanwhile
        report = Report.kept_in(out)
        (row,) = report.where(**wanted, metric="crps_fair", feature="all").rows
        yield row
    # What was scored in the same way as the last row, of its process at its epoch only.
    alike = report.alike(row).where(n_samples=row.n_samples)
    alike = Report(tuple(r for r in alike.rows if r.process != row.process or r.epoch == row.epoch))
    steps(alike, path=out / "steps.png")


def _samplers(
    config: RunConfig, evaluations: Sequence[int], solvers: Sequence[str], grid_powers: Sequence[float]
) -> Iterator[SamplingConfig]:
    """Settings of every sampler, none twice, fewest evaluations first."""
    if not evaluations or min(evaluations) < 1:
        raise ConfigError(f"evaluations: expected numbers from 1, came {list(evaluations)}.")
    process = make("processes", config.process.name, **config.process.options)
    scored: set[SamplingConfig] = set()
    for n, name in product(sorted(evaluations), solvers or available("solvers")):
        n_steps, solver = n, make("solvers", name)  # the most steps within so many evaluations that the process has
        while solver.n_evaluations(n_steps) > n or not takes(process, n_steps):
            n_steps -= 1
        etas = sorted({0.0, process.default_eta}) if "eta" in options_of("solvers", name) else [None]
        # A single step has no spacing.
        powers = sorted(grid_powers or {1.0, process.default_power}) if n_steps > 1 else [1.0]
        for power, eta in product(powers, etas):
            sampling = dataclasses.replace(config.sampling, solver=name, eta=eta, n_steps=n_steps, grid_power=power)
            if sampling not in scored:
                scored.add(sampling)
                yield sampling

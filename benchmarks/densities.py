"""The study of five densities in two dimensions: what both processes learn from half-missing points, by training steps.

    python benchmarks/densities.py run OUT [--last STEPS]   what is not done yet; the same command goes on
    python benchmarks/densities.py report OUT DIR           metrics.csv, tables.md and pictures of what is done

After Simkus and Gutmann 2025. What the paper leaves open is chosen here: exactly half of all cells are hidden at random
(protocol ``transductive``: points left empty are not trained on, but imputed), values are standardised, and a batch has
64 points. There is no schedule, so the budgets are checkpoints of one training. Measures, all in the data's own units:

- ``w1_x2_given_x1``, ``w1_x1_given_x2``: the 1-Wasserstein distance between draws and the exact conditional, at five
  places: the quantiles 0.1, 0.3, 0.5, 0.7, 0.9 of the given feature in 20,000 other points.
- ``mmd_gaussian``: half the squared MMD with biased sums (see ``table_metrics.mmds``) between imputed points, full ones
  among them, and as many other points of the density. The bandwidth is the median distance of the latter.

``exact`` stands for draws of the density itself, scored in the same way: no method can be better but by chance.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.stats import wasserstein_distance

from tsimpute.config.settings import NetworkConfig, SamplingConfig, TrainingConfig
from tsimpute.core.windows import Windows
from tsimpute.datasets.densities import DENSITIES, Densities, conditional
from tsimpute.errors import CheckpointError
from tsimpute.evaluation.table_metrics import median_distance, mmds
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.plots.densities import Drawn, density_grid, learnt_density
from tsimpute.system.files import atomic_write, atomic_write_text
from tsimpute.tasks.protocols import transductive
from tsimpute.tasks.task import Task

BUDGETS = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
SAMPLERS = {
    "flow_matching": (SamplingConfig("one_step", 100), SamplingConfig()),
    "diffusion": (SamplingConfig(),),
}
"""By process: 100 Euler steps, as the paper has them, and the package's default; 50 ancestral steps."""
PICTURES = {
    "steps": "imputed points by training steps", "differences": "imputed points less truth by training steps",
    "flow_matching": "what flow matching learns", "diffusion": "what diffusion learns",
}  # fmt: skip
"""By the end of their names."""
QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
MEASURES = ("w1_x2_given_x1", "w1_x1_given_x2", "mmd_gaussian")
TRAINING = TrainingConfig(
    batch_size=64, micro_batch=64, learning_rate=1e-3, weight_decay=0.0, milestones=(), clip_norm=2.0, seed=1
)


@dataclass(frozen=True)
class Study:
    """How large the study is.

    Attributes:
        densities: names.
        budgets: optimiser steps after which a training is scored, rising.
        n_records: points that are trained on.
        n_imputed: of these, the first so many are imputed once.
        n_draws: of each conditional.
        network: the backbone.
        max_steps: of a training; a budget up to it may be added later.
    """

    densities: tuple[str, ...] = tuple(DENSITIES)
    budgets: tuple[int, ...] = BUDGETS
    n_records: int = 20_000
    n_imputed: int = 4_000
    n_draws: int = 500
    network: NetworkConfig = field(default_factory=lambda: NetworkConfig("residual_mlp"))
    max_steps: int = BUDGETS[-1]


STUDY = Study()


@dataclass(frozen=True)
class Row:
    """One measure of one sampler; ``given`` is the place of a conditional, and NaN for other measures."""

    density: str
    process: str
    steps: int
    sampler: str
    measure: str
    given: float
    value: float


def run_study(out: Path, study: Study = STUDY) -> Iterator[Row]:
    """Trains and scores what is not in ``out`` yet, all of a budget before any of the next.

    ``metrics.csv`` has what was scored, the folder ``draws`` what it was made of, and ``models`` trainings and their
    checkpoints. The same call goes on where it was stopped.

    Yields:
        Rows as they are made.
    """
    rows = read_rows(out)
    done = {(row.density, row.process, row.steps, row.sampler) for row in rows}
    for density, imputer, steps in _entries(study):
        names = (density, "exact", 0, "") if imputer is None else (density, imputer.name, steps, imputer.sampler)
        if names in done:
            continue
        if imputer is None:
            drawn = exact(study, density)
        else:
            model = _trained(out, study, density, imputer.name, steps)
            drawn = draw(GenerativeImputer.load(model, imputer.sampling), study, density)
        atomic_write(draws_file(out, *names), lambda partial, of=drawn: _save(partial, of))
        new = [Row(*names, *measured) for measured in measures(density, drawn)]
        rows += new
        atomic_write(out / "metrics.csv", lambda partial, of=tuple(rows): _write(partial, of))
        yield from new


def read_rows(out: Path) -> list[Row]:
    """What was scored, from ``metrics.csv``; nothing where there is no such file."""
    path = out / "metrics.csv"
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        next(lines := csv.reader(file))
        return [
            Row(d, p, int(n), s, measure, float(given), float(value)) for d, p, n, s, measure, given, value in lines
        ]


def draws_file(out: Path, density: str, process: str, steps: int, sampler: str) -> Path:
    """Where the draws of an entry are kept; see ``read_draws``."""
    return out / "draws" / f"{density}-{process}-{steps}-{sampler.replace(' ', '_')}.npz"


def read_draws(path: Path) -> Drawn:
    """Draws as ``run_study`` keeps them."""
    with np.load(path) as arrays:
        return Drawn(**arrays)


def task_of(study: Study, density: str) -> Task:
    """The points of a density with half of their cells hidden."""
    return transductive(Densities(density, study.n_records).load(), rate=0.5, seed=1)


def draw(imputer: GenerativeImputer, study: Study, density: str) -> Drawn:
    """Imputes points once, and draws from both conditionals at the places where they are scored."""
    test = task_of(study, density).test.select(range(min(study.n_imputed, study.n_records)))
    points = imputer.impute(test.without_held_out(), 1, seed=0, progress=False).values[0, ..., 0]
    places = _places(density)
    given_only = np.full((2, len(QUANTILES), 2, 1), np.nan)
    given_only[0, :, 0, 0], given_only[1, :, 1, 0] = places
    records = tuple(f"place-{n}" for n in range(given_only.shape[0] * given_only.shape[1]))
    windows = Windows(given_only.reshape(-1, 2, 1), np.zeros((len(records), 1)), test.features, records)
    values = imputer.impute(windows, study.n_draws, seed=0, progress=False).values[..., 0]
    draws = np.stack([values[:, : len(QUANTILES), 1].T, values[:, len(QUANTILES) :, 0].T])
    return Drawn(points, test.held_out_mask[..., 0], places, draws)


def measures(density: str, drawn: Drawn) -> Iterator[tuple[str, float, float]]:
    """(measure, given, value) of each measure at each place; a place of NaN where there is none."""
    for name, unknown, places, draws in zip(MEASURES, (1, 0), drawn.places, drawn.draws, strict=False):
        for given, values in zip(places, draws, strict=True):
            grid, weights = conditional(density, unknown, given)
            yield name, float(given), float(wasserstein_distance(values, grid, None, weights))
    truth = other_points(density, len(drawn.points), seed=2)
    bandwidth = median_distance(truth[:2_000])
    yield MEASURES[2], np.nan, mmds(truth, drawn.points, bandwidth)["mmd_gaussian"]


def other_points(density: str, n: int, seed: int) -> np.ndarray:
    """(N, 2) points of a density that no training has, with a seed from 1 on."""
    return Densities(density, n, seed).load().values[..., 0]


def write_tables(out: Path, folder: Path) -> None:
    """Writes ``metrics.csv`` and ``tables.md``: a line for each entry, with means of measures over places."""
    means: dict[tuple[str, str, int, str], dict[str, list[float]]] = {}
    for row in read_rows(out):
        names = row.density, row.process, row.steps, row.sampler
        means.setdefault(names, {}).setdefault(row.measure, []).append(row.value)
    text = "# Five densities in two dimensions\n"
    for density in dict.fromkeys(names[0] for names in means):
        text += (
            f"\n## {density}\n\n| process | training steps | sampler | W1 x2 given x1 | W1 x1 given x2 | 1000 MMD |\n"
        )
        text += "|---|---:|---|---:|---:|---:|\n"
        for names in sorted((n for n in means if n[0] == density), key=lambda n: (n[2], n[1] != "flow_matching")):
            first, second, mmd = (float(np.mean(means[names][measure])) for measure in MEASURES)
            steps = f"{names[2]:,}" if names[2] else "-"
            label = f"| {names[1].replace('_', ' ')} | {steps} | {names[3] or '-'} | "
            text += f"{label}{first:.3f} | {second:.3f} | {1000 * mmd:.2f} |\n"
        text += "".join(f"\n![{density}: {title}]({density}_{name}.png)\n" for name, title in PICTURES.items())
    atomic_write_text(folder / "tables.md", text)
    shutil.copy(out / "metrics.csv", folder / "metrics.csv")


def write_pictures(out: Path, folder: Path) -> None:
    """Draws for each density what was learnt in the longest training, and contours and differences by training steps.

    Flow matching is shown with 100 Euler steps.
    """
    shown = {process: GenerativeImputer(process, sampling=of[0]).sampler for process, of in SAMPLERS.items()}
    entries = dict.fromkeys((row.density, row.process, row.steps, row.sampler) for row in read_rows(out))
    for density in dict.fromkeys(names[0] for names in entries):
        mine = [names for names in entries if names[0] == density and shown.get(names[1]) == names[3]]
        drawn = {
            (process, steps): read_draws(draws_file(out, *names)) for names in mine for _, process, steps, _ in [names]
        }
        truth = other_points(density, 20_000, seed=2)
        for process, steps in dict(sorted(drawn)).items():
            title = f"{density}: {process.replace('_', ' ')}, {steps:,} training steps, {shown[process]}"
            learnt_density(density, truth, drawn[process, steps], title, folder / f"{density}_{process}.png")
        points = {key: of.points for key, of in drawn.items()}
        if points:
            title = f"{density}: imputed points (blue) and truth (grey), by training steps"
            density_grid(density, truth, points, title, folder / f"{density}_steps.png")
            title = f"{density}: imputed points less truth (blue = too many, red = too few), by training steps"
            density_grid(density, truth, points, title, folder / f"{density}_differences.png", differences=True)


def _entries(study: Study) -> Iterator[tuple[str, GenerativeImputer | None, int]]:
    for density in study.densities:
        yield density, None, 0
    for steps in study.budgets:
        for density in study.densities:
            for process, samplers in SAMPLERS.items():
                for sampling in samplers:
                    yield density, GenerativeImputer(process, sampling=sampling), steps


def _trained(out: Path, study: Study, density: str, process: str, steps: int) -> Path:
    """The model file of a training after so many steps, trained up to there if it is not there yet."""
    folder = out / "models" / f"{density}-{process}"
    path = folder / f"step-{steps:07d}.safetensors"
    if path.is_file():
        return path
    training = replace(TRAINING, max_steps=study.max_steps)
    imputer, task = GenerativeImputer(process, study.network, training), task_of(study, density)
    for step in imputer.fit_steps(task.train, scaler=task.scaler, folder=folder, should_stop=path.is_file):
        if step.stop is None and step.step == steps:
            imputer.save(path)
    if not path.is_file():
        raise CheckpointError(
            f"{folder}: training is past step {steps}, and its model is not there. Remove the folder."
        )
    return path


def _places(density: str) -> np.ndarray:
    return np.quantile(other_points(density, 20_000, seed=1), QUANTILES, axis=0).T


def exact(study: Study, density: str) -> Drawn:
    """Points and conditional draws of the density itself."""
    rng = np.random.default_rng(3)
    points, places = other_points(density, min(study.n_imputed, study.n_records), seed=3), _places(density)
    draws = np.empty((*places.shape, study.n_draws))
    for at_places, unknown, known in zip(draws, (1, 0), places, strict=True):
        for n, given in enumerate(known):
            grid, weights = conditional(density, unknown, given)
            at_places[n] = np.interp(rng.random(study.n_draws), np.cumsum(weights) * (grid[1] - grid[0]), grid)
    return Drawn(points, np.ones(points.shape, bool), places, draws)


def _save(path: Path, drawn: Drawn) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, **{k: v.astype(v.dtype if v.dtype == bool else "f4") for k, v in vars(drawn).items()})


def _write(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow([field.name for field in fields(Row)])
        lines.writerows(map(astuple, rows))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=("run", "report"))
    parser.add_argument("out", type=Path)
    parser.add_argument("folder", type=Path, nargs="?", help="of the report")
    parser.add_argument("--last", type=int, default=BUDGETS[-1], help="the largest budget of training steps")
    given = parser.parse_args()
    if given.what == "run":
        for row in run_study(given.out, replace(STUDY, budgets=tuple(n for n in BUDGETS if n <= given.last))):
            if row.measure == MEASURES[-1]:
                print(f"{time.process_time():8.0f} s CPU", row.density, row.process, row.steps, row.sampler, flush=True)
        return
    if given.folder is None:
        parser.error("report: expected OUT and the folder of the report")
    given.folder.mkdir(parents=True, exist_ok=True)
    write_tables(given.out, given.folder)
    write_pictures(given.out, given.folder)


if __name__ == "__main__":
    main()

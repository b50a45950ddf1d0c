"""What methods learn of known densities in two dimensions, beside the truth, and the report of a suite of these.

Measures, all in the units of the data:

- ``w1_x2_given_x1``, ``w1_x1_given_x2``: the 1-Wasserstein distance between draws and the exact conditional, at five
  places: the quantiles 0.1, 0.3, 0.5, 0.7, 0.9 of the given feature in 20,000 other points.
- ``mmd_gaussian``: half the squared MMD with biased sums (see ``table_metrics.mmds``) between imputed points, full ones
  among them, and as many other points of the density. The bandwidth is the median distance of the latter.

``exact`` stands for draws of the density itself, scored in the same way: no method can be better but by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np
from scipy.stats import wasserstein_distance

from tsimpute.config.registry import make
from tsimpute.core.windows import Windows
from tsimpute.datasets.densities import Densities, conditional
from tsimpute.errors import ConfigError
from tsimpute.evaluation.kept_samples import filled_table, read_cells
from tsimpute.evaluation.reporting import csv_text
from tsimpute.evaluation.table_metrics import median_distance, mmds
from tsimpute.experiments.runs import new_imputer, task_of
from tsimpute.imputers.base import Imputer
from tsimpute.plots.densities import Drawn, density_grid, learnt_density
from tsimpute.suites.jobs import Job
from tsimpute.suites.results import Part, Result, samples_of
from tsimpute.suites.settings import Suite
from tsimpute.suites.tables import grid
from tsimpute.system.files import atomic_write, atomic_write_text

QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
MEASURES = ("w1_x2_given_x1", "w1_x1_given_x2", "mmd_gaussian")
DENSITY = "density"
"""The kind of parts of this module; their key is the place of a conditional."""
PICTURES = {
    "steps": "imputed points by training steps", "differences": "imputed points less truth by training steps",
    "flow_matching": "what flow matching learns", "diffusion": "what diffusion learns",
}  # fmt: skip
"""By the end of their names."""


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


def density_parts(job: Job, imputer: Imputer, windows: Windows, samples: Path) -> list[Part]:
    """The measures of an imputer, of its samples and of draws at the places, which are stored beside these.

    Raises:
        ConfigError: the data set is another one.
    """
    density, seed = density_of(job), job.scoring.evaluation.seed
    places = places_of(density)
    given_only = np.full((2, len(QUANTILES), 2, 1), np.nan)
    given_only[0, :, 0, 0], given_only[1, :, 1, 0] = places
    records = tuple(f"place-{n}" for n in range(given_only.shape[0] * given_only.shape[1]))
    at_places = Windows(given_only.reshape(-1, 2, 1), np.zeros((len(records), 1)), windows.features, records)
    values = imputer.impute(at_places, job.conditionals, seed).values[..., 0]
    draws = np.stack([values[:, : len(QUANTILES), 1].T, values[:, len(QUANTILES) :, 0].T])
    atomic_write(_conditionals(samples), lambda partial: _save(partial, draws))
    epoch = read_cells(samples)[0].context.epoch
    drawn = Drawn(*_points(windows, samples), places, draws)
    counts = dict.fromkeys(MEASURES[:2], job.conditionals) | {MEASURES[2]: len(drawn.points)}
    measured = measures(density, drawn)
    return [Part(epoch, DENSITY, repr(given), name, value, counts[name]) for name, given, value in measured]


def density_of(job: Job) -> str:
    adapter = make("datasets", job.scoring.data.name, **job.scoring.data.options)
    if not isinstance(adapter, Densities):
        raise ConfigError(f"suite: conditionals: expected the data set densities, came {job.scoring.data.name!r}.")
    return adapter.density


def measures(density: str, drawn: Drawn) -> Iterator[tuple[str, float, float]]:
    """(measure, given, value) of each measure at each place; a place of NaN where there is none."""
    for name, unknown, places, draws in zip(MEASURES, (1, 0), drawn.places, drawn.draws, strict=False):
        for given, values in zip(places, draws, strict=True):
            at, weights = conditional(density, unknown, given)
            yield name, float(given), float(wasserstein_distance(values, at, None, weights))
    truth = other_points(density, len(drawn.points), seed=2)
    bandwidth = median_distance(truth[:2_000])
    yield MEASURES[2], np.nan, mmds(truth, drawn.points, bandwidth)["mmd_gaussian"]


def other_points(density: str, n: int, seed: int) -> np.ndarray:
    """(N, 2) points of a density that no training has, with a seed from 1 on."""
    return Densities(density, n, seed).load().values[..., 0]


def places_of(density: str) -> np.ndarray:
    """(2, Q) given values of x1, and of x2."""
    return np.quantile(other_points(density, 20_000, seed=1), QUANTILES, axis=0).T


def exact(density: str, n_points: int, n_draws: int) -> Drawn:
    """Points and conditional draws of the density itself."""
    rng = np.random.default_rng(3)
    points, places = other_points(density, n_points, seed=3), places_of(density)
    draws = np.empty((*places.shape, n_draws))
    for row, unknown in enumerate((1, 0)):
        for n, given in enumerate(places[row]):
            at, weights = conditional(density, unknown, given)
            draws[row, n] = np.interp(rng.random(n_draws), np.cumsum(weights) * (at[1] - at[0]), at)
    return Drawn(points, np.ones(points.shape, bool), places, draws)


def read_drawn(result: Result, out: Path) -> Drawn:
    """What an entry has drawn."""
    samples = samples_of(out / result.job.folder, result.record.checkpoints[-1].epoch)
    with np.load(_conditionals(samples)) as arrays:
        draws = arrays["draws"]
    return Drawn(*_points(task_of(result.job.scoring).test, samples), places_of(density_of(result.job)), draws)


def render(suite: Suite, results: Sequence[Result], out: Path, hidden: Sequence[str]) -> list[Path]:
    """Writes metrics.csv, tables.md and pictures of what is done into ``out``; returns their paths.

    Args:
        hidden: sentences on what is not shown.

    Raises:
        DataError: samples are damaged.
    """
    results = sorted(results, key=lambda result: result.job.method_config.at_step or 0)
    names = {result.job: _names(result.job) for result in results}
    rows, parts = [], {r.job: [part for part in r.parts if part.kind == DENSITY] for r in results}
    for density in dict.fromkeys(density for density, *_ in names.values()):
        n_points = next(parts[job][-1].n_cells for job in parts if names[job][0] == density)
        drawn = exact(density, n_points, suite.conditionals)
        rows += [Row(density, "exact", 0, "", *measured) for measured in measures(density, drawn)]
    rows += [Row(*names[job], p.metric, float(p.key), p.value or 0.0) for job, of_job in parts.items() for p in of_job]
    pictures: list[Path] = []
    for density in dict.fromkeys(row.density for row in rows):
        pictures += _pictures(density, [result for result in results if names[result.job][0] == density], out)
    atomic_write_text(out / "metrics.csv", csv_text([field.name for field in fields(Row)], map(astuple, rows)))
    text = _tables(suite, rows, [path.name for path in pictures]) + "".join(f"\n{sentence}\n" for sentence in hidden)
    atomic_write_text(out / "tables.md", text)
    return [out / "metrics.csv", out / "tables.md", *pictures]


def _names(job: Job) -> tuple[str, str, int, str]:
    """Density, process, training steps and sampler."""
    assert job.config is not None
    steps = job.method_config.at_step or job.config.training.max_steps or 0
    return density_of(job), job.config.process.name, steps, new_imputer(job.config).sampler


def _tables(suite: Suite, rows: Sequence[Row], pictures: Sequence[str]) -> str:
    """A line for each entry, with means of measures over places."""
    means: dict[tuple[str, str, int, str], dict[str, list[float]]] = {}
    for row in rows:
        means.setdefault(astuple(row)[:4], {}).setdefault(row.measure, []).append(row.value)
    head = ["process", "training steps", "sampler", "W1 x2 given x1", "W1 x1 given x2", "1000 MMD"]
    text = f"# {suite.title}\n"
    for density in dict.fromkeys(names[0] for names in means):
        lines = []
        for names in sorted((n for n in means if n[0] == density), key=lambda n: (n[2], n[1] != "flow_matching")):
            first, second, mmd = (float(np.mean(means[names][measure])) for measure in MEASURES)
            label = [names[1].replace("_", " "), f"{names[2]:,}" if names[2] else "-", names[3] or "-"]
            lines.append([*label, f"{first:.3f}", f"{second:.3f}", f"{1000 * mmd:.2f}"])
        text += f"\n## {density}\n\n{grid(head, lines)}\n"
        of_density = {title: f"{density}_{name}.png" for name, title in PICTURES.items()}
        text += "".join(f"\n![{density}: {title}]({name})\n" for title, name in of_density.items() if name in pictures)
    return text


def _pictures(density: str, results: Sequence[Result], out: Path) -> list[Path]:
    """What was learnt in the longest training, and contours and differences by training steps.

    Of the samplers of a process the first is shown.
    """
    names = {result.job: _names(result.job) for result in results}
    shown = {process: sampler for _, process, _, sampler in reversed(names.values())}
    mine = {names[r.job][1:3]: read_drawn(r, out) for r in results if names[r.job][3] == shown[names[r.job][1]]}
    truth, paths = other_points(density, 20_000, seed=2), {}
    for process, steps in dict(sorted(mine)).items():
        paths[process] = out / f"{density}_{process}.png"
        title = f"{density}: {process.replace('_', ' ')}, {steps:,} training steps, {shown[process]}"
        learnt_density(density, truth, mine[process, steps], title, paths[process])
    points = {key: drawn.points for key, drawn in mine.items()}
    paths |= {name: out / f"{density}_{name}.png" for name in ("steps", "differences")}
    title = f"{density}: imputed points (blue) and truth (grey), by training steps"
    density_grid(density, truth, points, title, paths["steps"])
    title = f"{density}: imputed points less truth (blue = too many, red = too few), by training steps"
    density_grid(density, truth, points, title, paths["differences"], differences=True)
    return list(paths.values())


def _points(windows: Windows, samples: Path) -> tuple[np.ndarray, np.ndarray]:
    """(N, 2) points with one draw of their hidden cells, and which these are, up to the last point that was scored."""
    hidden, filled = filled_table(samples, windows)
    n_points = np.flatnonzero(hidden.any(1))[-1] + 1
    return filled[0, :n_points], hidden[:n_points]


def _conditionals(samples: Path) -> Path:
    return samples.with_name(f"{samples.stem}_conditionals.npz")


def _save(path: Path, draws: np.ndarray) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, draws=draws.astype("f4"))

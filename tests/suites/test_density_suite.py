"""The suite of five densities in small: its measures and pictures are right, and a training goes on to later steps."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tsimpute.datasets.densities import DENSITIES
from tsimpute.errors import CheckpointError, ConfigError
from tsimpute.experiments.runs import task_of
from tsimpute.plots.densities import VIEWS, Drawn, kernel_density
from tsimpute.suites.checkpoints import training_key
from tsimpute.suites.densities import MEASURES, QUANTILES, exact, measures, other_points, read_drawn
from tsimpute.suites.jobs import Job, in_order, plan
from tsimpute.suites.page import render
from tsimpute.suites.results import read_results, unequal
from tsimpute.suites.running import run_suite
from tsimpute.suites.settings import MethodConfig, Suite, load_suite

SMALL = {"network.options": {"width": 48, "n_blocks": 1}, "training.max_steps": 1000}
STEPS = (10, 1000)
SAMPLERS = [
    ("flow_matching", "100 one_step steps"), ("flow_matching", "6 multistep steps"), ("diffusion", "50 one_step steps"),
]  # fmt: skip


def small(steps: tuple[int, ...] = STEPS) -> Suite:
    suite = load_suite("densities")
    chosen = {name: method for name, method in suite.methods.items() if method.at_step in STEPS}
    methods = {
        name.replace(str(of.at_step), str(n)): replace(of, settings=of.settings | SMALL, at_step=n)
        for name, of in chosen.items()
        for n in steps
    }
    banana = suite.tasks["banana"]
    data = replace(banana.data, options={"density": "banana", "n_records": 600})
    tasks = {"banana": replace(banana, data=data, max_records=100)}
    return replace(suite, tasks=tasks, methods=methods, conditionals=12)


def run(suite: Suite, out: Path, **more: Any) -> list[Job]:
    done = list(run_suite(in_order(suite, plan(suite)), out, **more))
    render(suite, plan(suite), out)
    return done


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study")
    run(small(), out)
    return out


def rows_of(out: Path) -> pd.DataFrame:
    return pd.read_csv(out / "metrics.csv", keep_default_na=False)


def means(out: Path, *of: str) -> Mapping[tuple[str, int, str], float]:
    rows = rows_of(out)
    return rows[rows.measure.isin(of)].groupby(["process", "steps", "sampler"]).value.mean().to_dict()


def test_all_entries_have_all_measures_and_small_budgets_come_first(finished: Path) -> None:
    rows = rows_of(finished)
    groups = {names: list(of.measure) for names, of in rows.groupby(["process", "steps", "sampler"], sort=False)}
    assert list(groups) == [("exact", 0, ""), *((p, n, s) for n in STEPS for p, s in SAMPLERS)]
    expected = [MEASURES[0]] * len(QUANTILES) + [MEASURES[1]] * len(QUANTILES) + [MEASURES[2]]
    assert all(of == expected for of in groups.values())


def test_nothing_is_nearer_than_exact_draws_and_more_steps_are_nearer(finished: Path) -> None:
    scored = means(finished, *MEASURES[:2])
    assert min(scored, key=lambda key: scored[key]) == ("exact", 0, "")
    for process, sampler in SAMPLERS:
        assert scored[process, 1000, sampler] < 0.8 * scored[process, 10, sampler]


def test_measures_are_those_of_what_is_stored(finished: Path) -> None:
    suite = small()
    rows = rows_of(finished)
    for result in read_results(plan(suite), finished):
        drawn = read_drawn(result, finished)
        assert len(drawn.points) == np.flatnonzero(drawn.hidden.any(1))[-1] + 1
        assert drawn.hidden.any(1).sum() == 100
        truth = other_points("banana", 600, seed=0)[: len(drawn.points)]
        np.testing.assert_array_equal(drawn.points[~drawn.hidden], truth[~drawn.hidden])
        steps = result.job.method_config.at_step
        solver = result.report.rows[0].n_steps
        own = rows[(rows.steps == steps) & rows.sampler.str.startswith(f"{solver} ")]
        np.testing.assert_allclose(own.value, [value for *_, value in measures("banana", drawn)], rtol=1e-4)
    assert [wrong for _, _, wrong in unequal(plan(suite), finished)] == [[]] * 6


def test_samplers_of_a_process_share_a_training(finished: Path) -> None:
    folders = list((finished / "models").iterdir())
    assert len(folders) == 2  # processes
    for folder in folders:
        assert {path.name for path in folder.glob("step-*")} == {"step-0000010.safetensors", "step-0001000.safetensors"}


def test_a_training_goes_on_where_it_was_stopped_to_the_same_numbers(tmp_path: Path) -> None:
    suite, seen = small((4, 30)), list[object]()
    stop: dict[str, Any] = {"should_stop": lambda: len(seen) > 14, "progress": lambda *what: seen.append(what)}
    assert len(run(suite, tmp_path / "stopped", **stop)) < 6
    run(suite, tmp_path / "stopped")
    run(suite, tmp_path / "whole")
    whole = (tmp_path / "whole" / "metrics.csv").read_text()
    assert (tmp_path / "stopped" / "metrics.csv").read_text() == whole
    last = small((30,))
    run(replace(last, methods=dict([*last.methods.items()][:1])), tmp_path / "direct")
    assert set((tmp_path / "direct" / "metrics.csv").read_text().splitlines()) <= set(whole.splitlines())


def test_trainings_of_hours_count_as_done() -> None:
    """Those of the committed results: an entry takes up a folder whose name ends with its key."""
    jobs = {job.method: job for job in plan(load_suite("densities")) if job.task == "cosine"}
    for method, key in (("flow_matching 10", "bb771d923e92"), ("diffusion 1000000", "5e826b544fb6")):
        config = jobs[method].config
        assert config is not None
        assert training_key(config, task_of(jobs[method].scoring)) == key


def test_a_training_past_a_step_without_its_model_is_refused(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "copy")
    with pytest.raises(CheckpointError, match="training is past step 20"):
        run(small((20,)), tmp_path / "copy")


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at_step: only for a method with config; this one has imputer"):
        MethodConfig("mean", at_step=3)
    with pytest.raises(ConfigError, match=r"at_step: expected at most training\.max_steps, which is 1000; came 1001"):
        run(small((1001,)), tmp_path)
    suite = small()
    other = replace(suite.tasks["banana"], data=replace(suite.tasks["banana"].data, name="synthetic", options={}))
    mean = {"mean": MethodConfig("mean", n_samples=1)}
    with pytest.raises(ConfigError, match="conditionals: expected the data set densities, came 'synthetic'"):
        run(replace(suite, tasks={"t": other}, methods=mean), tmp_path)


@pytest.mark.parametrize("density", list(DENSITIES))
def test_measures_are_those_of_known_draws(density: str) -> None:
    """Draws that are shifted by one are one away from the exact conditional, and points far away have the MMD of 1."""
    drawn = exact(density, 500, 1_000)
    near = list(measures(density, drawn))
    away = list(measures(density, Drawn(drawn.points + 1e3, drawn.hidden, drawn.places, drawn.draws + 100)))
    for (name, _, value), (_, _, far) in zip(near, away, strict=True):
        if name == "mmd_gaussian":
            assert 0 <= value < 0.003
            assert 0.1 < far < 1  # half of the mean similarity within each of both
        else:
            assert value < 0.35
            assert far == pytest.approx(100, abs=0.35)


def test_the_kernel_density_integrates_to_one_and_is_that_of_the_truth() -> None:
    points = other_points("banana", 50_000, seed=1)
    density, bounds = kernel_density("banana", points), VIEWS["banana"]
    assert density.sum() * np.prod([high - low for low, high in bounds]) / density.size == pytest.approx(1, abs=2e-3)
    x1, x2 = ((np.arange(200) + 0.5) / 200 * (high - low) + low for low, high in bounds)
    assert abs(density - np.exp(DENSITIES["banana"].log(x1[:, None], x2))).max() < 0.01


def test_tables_and_pictures_show_every_entry(finished: Path) -> None:
    text = (finished / "tables.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## banana"]
    lines = [line for line in text.splitlines() if line.startswith("| ") and line[2:5] not in ("pro", "---")]
    assert len(lines) == 7
    for cells in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines):
        steps = 0 if cells[1] == "-" else int(cells[1].replace(",", ""))
        key = cells[0].replace(" ", "_"), steps, cells[2].strip("-")
        assert cells[3:5] == [f"{means(finished, measure)[key]:.3f}" for measure in MEASURES[:2]]
    pictures = {"banana_diffusion.png", "banana_differences.png", "banana_flow_matching.png", "banana_steps.png"}
    assert {path.name for path in finished.glob("*.png")} == pictures
    assert all(f"]({name})" in text for name in pictures)

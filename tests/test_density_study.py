"""The study of five densities in small: it goes on where it was stopped, and its measures and pictures are right."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tsimpute.config.settings import NetworkConfig
from tsimpute.datasets.densities import DENSITIES
from tsimpute.errors import CheckpointError
from tsimpute.plots.densities import VIEWS, Drawn, kernel_density

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
import densities
from densities import MEASURES, QUANTILES, Row, Study

SMALL = NetworkConfig("residual_mlp", {"width": 32, "n_blocks": 1})
STUDY = Study(("cosine",), (10, 200), 300, 100, 12, SMALL, max_steps=200)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study")
    list(densities.run_study(out, STUDY))
    return out


def means(out: Path) -> dict[tuple[str, int, str], float]:
    rows = [row for row in densities.read_rows(out) if row.measure == MEASURES[0]]
    keys = {(row.process, row.steps, row.sampler) for row in rows}
    return {key: float(np.mean([r.value for r in rows if (r.process, r.steps, r.sampler) == key])) for key in keys}


def test_all_entries_have_all_measures_and_small_budgets_come_first(finished: Path) -> None:
    rows = densities.read_rows(finished)
    entries = list(dict.fromkeys((row.process, row.steps, row.sampler) for row in rows))
    samplers = [
        ("flow_matching", "100 one_step steps"), ("flow_matching", "6 multistep steps"),
        ("diffusion", "50 one_step steps"),
    ]  # fmt: skip
    assert entries == [("exact", 0, ""), *((p, n, s) for n in (10, 200) for p, s in samplers)]
    for entry in entries:
        measures = [row.measure for row in rows if (row.process, row.steps, row.sampler) == entry]
        assert measures == [MEASURES[0]] * len(QUANTILES) + [MEASURES[1]] * len(QUANTILES) + [MEASURES[2]]


def test_nothing_is_better_than_exact_draws_and_more_steps_are_better(finished: Path) -> None:
    scored = means(finished)
    assert min(scored, key=lambda key: scored[key]) == ("exact", 0, "")
    assert scored["diffusion", 200, "50 one_step steps"] < scored["diffusion", 10, "50 one_step steps"] / 2


def test_a_study_goes_on_where_it_was_stopped_to_the_same_numbers(finished: Path, tmp_path: Path) -> None:
    for stop in (11, 40):  # within an entry: its other rows are there already
        for n, _ in enumerate(densities.run_study(tmp_path, STUDY)):
            if n == stop:
                break
    list(densities.run_study(tmp_path, STUDY))
    again, whole = densities.read_rows(tmp_path), densities.read_rows(finished)
    assert [str(row) for row in again] == [str(row) for row in whole]  # as text, NaN is equal to itself
    assert list(densities.run_study(tmp_path, STUDY)) == []


def test_a_later_budget_is_the_same_training(finished: Path, tmp_path: Path) -> None:
    once = replace(STUDY, budgets=(200,))
    direct = {str(row) for row in densities.run_study(tmp_path, once)}
    assert direct <= {str(row) for row in densities.read_rows(finished)}


def test_a_training_past_a_budget_without_its_model_is_refused(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "copy")
    earlier = replace(STUDY, budgets=(20,))
    with pytest.raises(CheckpointError, match="training is past step 20"):
        list(densities.run_study(tmp_path / "copy", earlier))


@pytest.mark.parametrize("density", list(DENSITIES))
def test_measures_are_those_of_known_draws(density: str) -> None:
    """Draws that are shifted by one are one away from the exact conditional, and points far away have the MMD of 1."""
    drawn = densities.exact(Study(n_imputed=500, n_draws=1_000), density)
    near = list(densities.measures(density, drawn))
    away = list(densities.measures(density, Drawn(drawn.points + 1e3, drawn.hidden, drawn.places, drawn.draws + 100)))
    for (name, _, value), (_, _, far) in zip(near, away, strict=True):
        if name == "mmd_gaussian":
            assert 0 <= value < 0.003
            assert 0.1 < far < 1  # half of the mean similarity within each of both
        else:
            assert value < 0.35
            assert far == pytest.approx(100, abs=0.35)


def test_the_kernel_density_integrates_to_one_and_is_that_of_the_truth() -> None:
    points = densities.other_points("banana", 50_000, seed=1)
    density, bounds = kernel_density("banana", points), VIEWS["banana"]
    assert density.sum() * np.prod([high - low for low, high in bounds]) / density.size == pytest.approx(1, abs=2e-3)
    x1, x2 = ((np.arange(200) + 0.5) / 200 * (high - low) + low for low, high in bounds)
    assert abs(density - np.exp(DENSITIES["banana"].log(x1[:, None], x2))).max() < 0.01


def test_tables_and_pictures_show_every_entry(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["densities.py", "report", str(finished), str(tmp_path / "report")])
    densities.main()
    finished = tmp_path / "report"
    assert [str(row) for row in densities.read_rows(finished)] != []
    lines = (finished / "tables.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("## ")] == ["## cosine"]
    assert len([line for line in lines if line.startswith("| ") and "process" not in line]) == 7
    pictures = ["cosine_diffusion.png", "cosine_differences.png", "cosine_flow_matching.png", "cosine_steps.png"]
    assert sorted(path.name for path in finished.glob("*.png")) == sorted(pictures)


def test_rows_are_read_as_they_were_written(finished: Path, tmp_path: Path) -> None:
    assert densities.read_rows(tmp_path) == []
    assert all(isinstance(row, Row) for row in densities.read_rows(finished))

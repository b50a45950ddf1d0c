"""The picture of metrics versus network evaluations: what is drawn is what was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.axes import Axes

from tsimpute import plots
from tsimpute.errors import DataError
from tsimpute.evaluation.reporting import Report, Row
from tsimpute.plots._curves import evaluations, fewest, reference

METRICS = ("crps_fair", "mae_median", "rmse_mean")


def row(**changes: object) -> Row:
    made = Row(
        dataset="physionet2012", split="test", protocol="csdi", fold=0, mechanism="random", rate=0.1,
        imputer="flow_matching", process="flow_matching", solver="heun", n_steps=8, n_samples=20, fill="scored",
        epoch=8, run="", metric="crps_fair", feature="all", units="standardised", value=0.5, n_cells=13_824,
        n_records=799, seed=0, seconds=1.0,
    )  # fmt: skip
    return replace(made, **changes)


def crps(process: str, solver: str, values: dict[int, float | None]) -> list[Row]:
    return [row(process=process, solver=solver, n_steps=n, value=value) for n, value in values.items()]


EULER = crps("flow_matching", "one_step, eta 0", {1: 0.4, 4: 0.25, 16: 0.205, 100: 0.2})
HEUN = crps("flow_matching", "heun", {1: 0.4, 2: 0.21, 4: 0.2019, 8: 0.1999})
ANCESTRAL = crps("diffusion", "one_step, eta 1", {4: 0.9, 50: 0.24})
WARPED = crps("flow_matching", "heun, grid 1.5", {2: 0.205})
DDIM = crps("diffusion", "one_step, eta 0", {4: 0.8, 50: 0.25})


@pytest.fixture
def report() -> Report:
    return Report(tuple(replace(r, metric=m) for m in METRICS for r in (*EULER, *HEUN, *WARPED, *ANCESTRAL, *DDIM)))


def drawn(axis: Axes) -> dict[str, list[tuple[float, float]]]:
    return {str(line.get_label()): [(float(x), float(y)) for x, y in line.get_xydata()] for line in axis.lines}


def test_evaluations_are_the_solvers_own():
    assert [evaluations(r) for r in (*HEUN, *EULER, *ANCESTRAL)] == [1, 3, 7, 15, 1, 4, 16, 100, 4, 50]


def test_reference_is_the_first_order_solver_with_most_evaluations():
    assert reference([*HEUN, *EULER]) == EULER[-1]
    assert reference([*ANCESTRAL, *DDIM]) == ANCESTRAL[-1]
    assert reference([*EULER, *crps("flow_matching", "one_step, eta 0, grid 1.5", {200: 0.1})]) == EULER[-1]
    assert reference(HEUN) is None


def test_fewest_is_the_cheapest_within_one_percent():
    assert fewest([*EULER, *HEUN]) == HEUN[2]
    assert fewest([*EULER, *crps("flow_matching", "heun", {4: 0.2021})]) == EULER[-1]
    of_another_package = crps("flow_matching", "midpoint", {2: 0.1, 3: None})  # taken for one evaluation a step
    assert fewest([*EULER, *of_another_package]) == row(solver="midpoint", n_steps=2, value=0.1)
    assert fewest(HEUN) is None


def test_lines_bands_and_rings_are_the_values(report: Report, tmp_path: Path):
    figure = plots.steps(report, path=tmp_path / "steps.png")
    assert (tmp_path / "steps.png").read_bytes().startswith(b"\x89PNG")
    assert len(figure.axes) == 3
    for axis in figure.axes:
        lines = drawn(axis)
        assert lines["flow matching, Euler"] == [(1, 0.4), (4, 0.25), (16, 0.205), (100, 0.2)]
        assert lines["flow matching, heun"] == [(1, 0.4), (3, 0.21), (7, 0.2019), (15, 0.1999)]
        assert lines["flow matching, heun, grid 1.5"] == [(3, 0.205)]
        assert lines["diffusion, ancestral"] == [(4, 0.9), (50, 0.24)]
        rings = [line.get_xydata().tolist()[0] for line in axis.lines if line.get_markersize() == 12]
        assert rings == [[7, 0.2019], [50, 0.24]]
        bands = [patch.get_bbox().get_points()[:, 1].tolist() for patch in axis.patches]
        assert bands == [pytest.approx([0.198, 0.202]), pytest.approx([0.2376, 0.2424])]
        assert [t.get_text() for t in axis.get_xticklabels()] == ["1", "4", "7", "16", "50", "100"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ([row(n_samples=100, n_steps=2)], "one n_samples in a picture, came 100, 20"),
        ([row(fill="missing", n_steps=2)], "one fill in a picture, came missing, scored"),
        ([row(epoch=20)], "one value of .crps_fair. per process, solver, n_steps"),
        ([row(dataset="pm25", n_steps=2)], "one dataset in a picture"),
    ],
)
def test_what_cannot_be_compared_is_refused(more: list[Row], says: str):
    with pytest.raises(DataError, match=says):
        plots.steps(Report((*HEUN, *more)), metrics=("crps_fair",))


def test_nothing_to_draw_is_refused():
    with pytest.raises(DataError, match="no value of metric 'crps_fair'"):
        plots.steps(Report((row(n_steps=None, solver=""),)), metrics=("crps_fair",))

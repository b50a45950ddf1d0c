"""Differences between methods on the same cells, and how far they would be others with other records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tsimpute.config.settings import DataConfig, ProtocolConfig, RunConfig
from tsimpute.experiments.runs import task_of
from tsimpute.suites.jobs import plan
from tsimpute.suites.page import render
from tsimpute.suites.paired import FEWEST, Difference, Run, difference, difference_table
from tsimpute.suites.results import Result, read_results, samples_of
from tsimpute.suites.running import run_suite
from tsimpute.suites.settings import MethodConfig, Suite, TaskConfig, load_suite

RNG = np.random.default_rng(0)
LOST = "no samples of the same fold"
METRICS = ("crps", "crps_fair", "mae_median", "rmse_mean")


def run_of(of_records: np.ndarray, records: str = "", n_samples: int = 2) -> Run:
    """One cell a record; CRPS, fair CRPS, absolute error and squared error are what is given, (N, 4)."""
    return Run({f"r{n}": np.array([1.0, *row]) for n, row in enumerate(of_records)}, records, n_samples)


def test_the_interval_is_that_of_the_difference_record_by_record_and_not_of_each_method_alone() -> None:
    """Both methods are good and bad at the same records: all that they share cancels."""
    shared, apart = RNG.gamma(1.0, 1.0, (400, 4)), RNG.normal(0.1, 0.05, (400, 4))
    found = difference({0: [run_of(shared + apart)]}, {0: [run_of(shared)]})
    assert isinstance(found, Difference)
    np.testing.assert_allclose(found.values[:3], apart[:, :3].mean(0))
    expected = np.sqrt((shared + apart)[:, 3].mean()) - np.sqrt(shared[:, 3].mean())
    assert found.values[3] == pytest.approx(expected)
    half = 1.96 * apart[:, :3].std(0) / 20
    np.testing.assert_allclose((found.high - found.low)[:3] / 2, half, rtol=0.1)
    np.testing.assert_allclose((found.high + found.low)[:3] / 2, found.values[:3], atol=0.1 * half.max())


def test_it_holds_the_true_difference_in_about_95_of_100_sets_of_records() -> None:
    held = 0
    for _ in range(200):
        n_cells = RNG.integers(1, 30, 100)
        rows = np.stack([n_cells, *(RNG.gamma(2.0, 0.5, 100) * n_cells for _ in range(4))], 1)
        other = rows + n_cells[:, None] * [0, 1, 1, 1, 1] * RNG.exponential(0.2, (100, 1))
        runs = [Run({str(n): row for n, row in enumerate(one)}, "", 2) for one in (other, rows)]
        found = difference({0: runs[:1]}, {0: runs[1:]})
        assert isinstance(found, Difference)
        held += found.low[0] <= 0.2 <= found.high[0]
    assert 178 <= held <= 199


def test_runs_count_as_in_the_tables_each_by_its_own_root_and_folds_alike() -> None:
    """One seed of three is bad: the mean of three roots, not the root of the mean."""
    good, bad = np.ones((30, 4)), np.full((30, 4), 9.0)
    found = difference({0: [run_of(good), run_of(good), run_of(bad)]}, {0: [run_of(good)]})
    assert isinstance(found, Difference)
    np.testing.assert_allclose(found.values, [8 / 3, 8 / 3, 8 / 3, (1 + 1 + 3) / 3 - 1])
    few = np.full((20, 4), 4.0)
    folds = difference({0: [run_of(bad)], 1: [run_of(few)], 2: [run_of(bad)]}, {0: [run_of(good)], 1: [run_of(few)]})
    assert isinstance(folds, Difference)
    assert folds.n_records == 50
    np.testing.assert_allclose(folds.values, [4, 4, 4, 1])
    same = difference({0: [run_of(few)] * 3}, {0: [run_of(few)]})
    assert isinstance(same, Difference)
    assert (same.values == 0).all()
    assert (same.high == 0).all()


def test_too_few_records_other_records_and_other_cells_have_a_reason_in_place_of_a_difference() -> None:
    rows = np.ones((FEWEST, 4))
    one = {0: [run_of(rows)]}
    assert isinstance(difference(one, one), Difference)
    assert difference(one, {1: [run_of(rows)]}) == LOST
    assert difference({0: [run_of(rows[1:])]}, {0: [run_of(rows[1:])]}) == "19, fewer than 20"
    assert difference({0: [run_of(rows, "other")]}, one) == "other records"
    other = run_of(rows)
    more_cells = replace(other, sums={**other.sums, "r3": np.array([2.0, 1, 1, 1, 1])})
    assert difference({0: [more_cells]}, one) == "other records"
    alone = difference(one, {0: [run_of(rows, n_samples=1)]})
    assert isinstance(alone, Difference)
    assert np.isnan(alone.values).tolist() == [False, True, False, False]


@pytest.fixture
def suite() -> Suite:
    data = DataConfig("synthetic", options={"n_records": 120, "n_steps": 12})
    methods = {name: MethodConfig(name, n_samples=1) for name in ("linear", "locf", "mean")}
    return Suite(
        "Three", {"few": TaskConfig(data, ProtocolConfig("clean", rate=0.3))}, methods, n_samples=1, leakage_test=False
    )


def numbers(cell: str) -> list[float]:
    return [float(text) for text in cell.replace("[", "").replace("]", "").replace(",", "").split()]


def values(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    return {r.job.method: {m: r.report.value(m) or 0.0 for m in METRICS} for r in results}


def test_a_suite_shows_each_method_against_its_first_on_what_both_have(suite: Suite, tmp_path: Path) -> None:
    list(run_suite(plan(suite), tmp_path))
    results = list(read_results(plan(suite), tmp_path))
    head, rows = difference_table(suite, "few", results, tmp_path)
    assert head == ["difference to linear", "records", "CRPS", "fair CRPS", "MAE of median", "RMSE of mean"]
    assert [row[0] for row in rows] == ["locf", "mean"]
    of_methods = values(results)
    for name, n_records, *cells in rows:
        assert n_records == str(results[0].record.n_records)
        assert cells[1] == "-"  # one draw
        for metric, cell in zip(METRICS, cells, strict=True):
            if cell != "-":
                shown, low, high = numbers(cell)
                assert shown == pytest.approx(of_methods[name][metric] - of_methods["linear"][metric], abs=6e-4)
                assert low < shown < high
    render(suite, plan(suite), tmp_path)
    assert "| " + " | ".join(rows[0]) + " |" in (tmp_path / "tables.md").read_text()
    assert rows[0][2] in (tmp_path / "index.html").read_text()


def test_the_first_method_stays_the_reference_and_lost_samples_are_a_dash(suite: Suite, tmp_path: Path) -> None:
    list(run_suite(plan(suite), tmp_path))
    results = list(read_results(plan(suite), tmp_path))
    assert difference_table(suite, "few", results[1:], tmp_path)[1] == []
    path = {r.job.method: samples_of(tmp_path / r.job.folder, None) for r in results}
    whole = path["locf"].read_bytes()
    for damaged in (whole[:3000], whole.replace(b"{'descr'", b"('descr'", 1)):
        path["locf"].write_bytes(damaged)
        (locf, mean) = difference_table(suite, "few", results, tmp_path)[1]
        assert locf == ["locf", LOST, *"----"]
        assert mean[2] != "-"
        assert f"| locf | {LOST} | - |" in (render(suite, plan(suite), tmp_path)[-1].parent / "tables.md").read_text()
    path["locf"].unlink()
    assert difference_table(suite, "few", results, tmp_path)[1] == [locf, mean]
    # What a kill has left of another epoch is not taken for this one's.
    checkpoint = replace(results[2].record.checkpoints[0], epoch=3)
    other = replace(results[2], record=replace(results[2].record, checkpoints=(checkpoint,)))
    assert difference_table(suite, "few", [*results[:2], other], tmp_path)[1][1] == [
        "mean",
        "no samples of the same fold",
        *"----",
    ]


def test_a_suite_of_few_records_says_why_it_shows_no_differences(suite: Suite, tmp_path: Path) -> None:
    data = DataConfig("synthetic", options={"n_records": 40, "n_steps": 12})
    few = replace(suite, tasks={"few": replace(suite.tasks["few"], data=data)})
    list(run_suite(plan(few), tmp_path))
    (result, *_) = read_results(plan(few), tmp_path)
    reason = f"{result.record.n_records}, fewer than 20"
    written = render(few, plan(few), tmp_path)
    assert f"| locf | {reason} | - | - | - | - |" in (tmp_path / "tables.md").read_text()
    assert reason in (tmp_path / "index.html").read_text()
    assert not {path.name for path in tmp_path.glob("*.md")} - {path.name for path in written}


def test_the_smallest_suite_that_is_shipped_has_records_enough_for_differences() -> None:
    task = next(iter(load_suite("tiny").tasks.values()))
    made = task_of(RunConfig(data=task.data, protocol=task.protocol))
    assert len(made.test) >= FEWEST

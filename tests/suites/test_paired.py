"""Differences between methods on the same cells, and how far they would be others with other records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tsimpute.config import DataConfig, ProtocolConfig
from tsimpute.suites.entries import all_found
from tsimpute.suites.page import render
from tsimpute.suites.paired import FEWEST, difference, difference_table
from tsimpute.suites.running import run_suite
from tsimpute.suites.settings import MethodConfig, Suite, TaskConfig

RNG = np.random.default_rng(0)


def sums(of_records: np.ndarray) -> dict[str, np.ndarray]:
    """One cell a record; CRPS, absolute error and squared error are what is given, (N, 3)."""
    return {f"r{n}": np.array([1.0, *row]) for n, row in enumerate(of_records)}


def test_the_interval_is_that_of_the_difference_record_by_record_and_not_of_each_method_alone() -> None:
    """Both methods are good and bad at the same records: all that they share cancels."""
    shared, apart = RNG.gamma(1.0, 1.0, (400, 3)), RNG.normal(0.1, 0.05, (400, 3))
    found = difference(sums(shared + apart), sums(shared))
    assert found is not None
    np.testing.assert_allclose(found.values[:2], apart[:, :2].mean(0))
    expected = np.sqrt((shared + apart)[:, 2].mean()) - np.sqrt(shared[:, 2].mean())
    assert found.values[2] == pytest.approx(expected)
    half = 1.96 * apart[:, :2].std(0) / 20
    np.testing.assert_allclose((found.high - found.low)[:2] / 2, half, rtol=0.1)
    np.testing.assert_allclose((found.high + found.low)[:2] / 2, found.values[:2], atol=0.1 * half.max())


def test_it_holds_the_true_difference_in_about_95_of_100_sets_of_records() -> None:
    held = 0
    for _ in range(200):
        n_cells = RNG.integers(1, 30, 100)
        rows = np.stack([n_cells, *(RNG.gamma(2.0, 0.5, 100) * n_cells for _ in range(3))], 1)
        other = rows + n_cells[:, None] * [0, 1, 1, 1] * RNG.exponential(0.2, (100, 1))
        found = difference({str(n): row for n, row in enumerate(other)}, {str(n): row for n, row in enumerate(rows)})
        assert found is not None
        held += found.low[0] <= 0.2 <= found.high[0]
    assert 178 <= held <= 199


def test_too_few_records_and_other_cells_have_no_difference() -> None:
    rows = np.ones((FEWEST, 3))
    assert difference(sums(rows), sums(rows)) is not None
    assert difference(sums(rows[1:]), sums(rows)) is None
    other = sums(rows)
    other["r3"] = 2 * other["r3"]
    assert difference(other, sums(rows)) is None


def test_a_suite_shows_each_method_against_its_first_on_what_both_have(tmp_path: Path) -> None:
    data = DataConfig("synthetic", options={"n_records": 60, "n_steps": 12})
    task = TaskConfig(data, ProtocolConfig("clean", rate=0.3))
    methods = {name: MethodConfig(name, n_samples=1) for name in ("linear", "locf", "mean")}
    suite = Suite("Three", {"few": task, "one fold": task}, methods, n_samples=1, sabotage=False)
    list(run_suite(suite, tmp_path))
    results = [result for result in all_found(suite, tmp_path) if result.entry.task == "few"]
    head, rows = difference_table(tmp_path, results)
    assert head == ["difference to linear", "CRPS", "MAE of median", "RMSE of mean"]
    assert [row[0] for row in rows] == ["locf", "mean"]
    values = {
        result.entry.method: [result.report.value(m) or 0.0 for m in ("crps", "mae_median", "rmse_mean")]
        for result in results
    }
    for name, *cells in rows:
        for cell, value, of_linear in zip(cells, values[name], values["linear"], strict=True):
            shown, low, high = (float(text) for text in cell.replace("[", "").replace("]", "").replace(",", "").split())
            assert shown == pytest.approx(value - of_linear, abs=6e-4)
            assert low < shown < high
    render(suite, tmp_path)
    line = "| " + " | ".join(rows[0]) + " |"
    assert line in (tmp_path / "tables.md").read_text()
    assert rows[0][1] in (tmp_path / "index.html").read_text()
    # Of seeds, the mean of a record counts; without samples there is nothing to compare.
    twice = difference_table(tmp_path, [*results, *(replace(result) for result in results)])
    assert twice[1] == rows
    (tmp_path / results[1].entry.folder / "samples.npz").unlink()
    assert [row[0] for row in difference_table(tmp_path, results)[1]] == ["mean"]

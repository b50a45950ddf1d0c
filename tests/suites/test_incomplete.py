"""Results that are not there or cannot be read are named, and the others are shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tsimpute.cli.commands import main
from tsimpute.suites.jobs import plan, select
from tsimpute.suites.page import render
from tsimpute.suites.results import read_results
from tsimpute.suites.running import run_suite
from tsimpute.suites.settings import load_suite
from tsimpute.suites.tables import feature_table

SUITE = """
tasks:
  a: {data: {name: synthetic, options: {n_records: 150, n_steps: 12}}, protocol: {name: clean, rate: 0.3}}
  b: {data: {name: synthetic, options: {n_records: 150, n_steps: 12}}, protocol: {name: clean, rate: 0.5}}
methods: {linear: {imputer: linear}, mean: {imputer: mean}}
folds: [0, 1]
seeds: [0, 1]
n_samples: 1
leakage_test: false
"""


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    """A suite of 16 entries that is done, and its folder of results, as they are given to a command."""
    (tmp_path / "suite.yaml").write_text(SUITE)
    list(run_suite(plan(load_suite(tmp_path / "suite.yaml")), tmp_path / "out"))
    return [str(tmp_path / "suite.yaml"), "--out", str(tmp_path / "out")]


def row_of(text: str, method: str, task: str = "a") -> str:
    (section,) = [part for part in text.split("\n## ") if part.startswith(f"{task}\n")]
    return next(line for line in section.splitlines() if line.startswith(f"| {method} | -"))


def entry(tmp_path: Path, method: str, run: str) -> Path:
    return tmp_path / "out" / "entries" / "a" / method / run


def test_a_row_of_some_runs_only_says_which_and_the_command_how_many_are_absent(
    given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["suite", "report", *given])
    whole, printed = (tmp_path / "out" / "tables.md").read_text(), capsys.readouterr().out
    assert "have no results" not in printed
    assert row_of(whole, "mean").endswith(" | 4 | not tested |")
    for run in ("fold1-seed0", "fold1-seed1", "fold0-seed1"):
        (entry(tmp_path, "mean", run) / "entry.json").unlink()
        main(["suite", "report", *given])
    text, printed = (tmp_path / "out" / "tables.md").read_text(), capsys.readouterr().out
    assert row_of(text, "mean").endswith(" | 1 of 4 [1] | not tested |")
    assert row_of(text, "linear") == row_of(whole, "linear")
    note = (
        "[1] mean: only fold 0, seed 0; without results: fold 0, seed 1; fold 1, seeds 0, 1. Its numbers are of the "
        "former alone, and cannot be set beside the others."
    )
    assert note in text.splitlines()
    assert note in (tmp_path / "out" / "index.html").read_text()
    (side,) = [line for line in text.split("\n## ")[1].splitlines() if line.startswith("| mean ")]
    assert side.split(" | ")[1].endswith(" (1 of 4 runs)")
    assert not side.split(" | ")[2].endswith(" runs) |")
    assert "3 of 16 entries have no results with these settings; the first: a, mean, fold 0, seed 1" in printed


def test_a_suite_that_is_run_in_part_says_what_is_absent(
    given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["suite", "run", *given[:2], str(tmp_path / "part"), "--methods", "mean"])
    assert (
        "8 of 16 entries have no results with these settings; the first: a, linear, fold 0" in capsys.readouterr().out
    )


def test_features_are_compared_on_one_fold(given: list[str], tmp_path: Path) -> None:
    jobs = [job for job in select(plan(load_suite(given[0])), ["a"]) if (job.method, job.fold) != ("mean", 0)]
    head, rows = feature_table(list(read_results(jobs, tmp_path / "out")))
    assert head == ["feature", "cells", "linear", "mean"]
    assert {row[3] for row in rows} == {"-"}


def test_damaged_samples_are_named_and_the_command_fails(
    given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = entry(tmp_path, "mean", "fold1-seed0")
    (folder / "samples.npz").write_bytes((folder / "samples.npz").read_bytes()[:2000])
    for command in ("report", "run"):
        with pytest.raises(SystemExit, match=r"1 damaged files are left out.*fold1-seed0.*Remove the folder"):
            main(["suite", command, *given])
        text = capsys.readouterr().out
        assert f"Not among the differences: a, mean, fold 1, as seed 0 cannot be read: {folder}: " in text
    with pytest.raises(SystemExit, match="1 values are not what the kept samples give"):
        main(["suite", "check", *given])
    text = capsys.readouterr().out
    assert "a, mean, fold 1, seed 0: 0 values computed anew, 1 differ: samples.npz is damaged" in text
    assert "b, mean, fold 1, seed 1: " in text
    (folder / "samples.npz").unlink()
    main(["suite", "report", *given])  # not kept: said, and no damage
    assert "Not among the differences: a, mean, fold 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("entry.json", lambda text: text[: len(text) // 2]),
        ("metrics.csv", lambda text: "".join(text.splitlines(keepends=True)[:4])),
        ("metrics.csv", lambda text: "[1]\n"),
        ("breakdown.csv", lambda text: "[1]\n"),
    ],
)
def test_a_damaged_entry_is_left_out_and_named(
    name: str,
    spoil: Callable[[str], str],
    given: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = entry(tmp_path, "mean", "fold1-seed0")
    (folder / name).write_text(spoil((folder / name).read_text()))
    for command in ("report", "run")[name == "breakdown.csv" :]:
        with pytest.raises(SystemExit) as end:
            main(["suite", command, *given])
        assert end.value.code
        text = capsys.readouterr().out
        (line,) = [line for line in text.splitlines() if line.startswith("Left out: ")]
        assert line.startswith(f"Left out: {folder}: what a suite has written is damaged: ")
        assert line.endswith(". Remove the folder, run the suite again.")
        assert ".." not in line.replace("...", "")
        assert len(line) < len(str(folder)) * 2 + 250
        assert row_of(text, "mean").endswith(" | 3 of 4 [1] | not tested |")
        assert "have no results" not in text


def test_a_check_goes_on_past_a_damaged_entry(
    given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (entry(tmp_path, "linear", "fold0-seed0") / "entry.json").write_text("{")
    with pytest.raises(SystemExit, match=r"1 damaged files are left out; the first: .*fold0-seed0.* Remove the folder"):
        main(["suite", "check", *given])
    text = capsys.readouterr().out
    assert text.count("all as in the table, to the bit") == 15
    assert "were not checked" not in text


def test_where_all_is_damaged_the_first_is_named(given: list[str], tmp_path: Path) -> None:
    suite = replace(load_suite(given[0]), folds=(0,), seeds=(0,))
    jobs = select(plan(suite), ["a"], ["mean"])
    entry(tmp_path, "mean", "fold0-seed0").joinpath("entry.json").write_text("{")
    with pytest.raises(ValueError, match=r"there are none yet\. 1 entries are damaged; the first: .*fold0-seed0"):
        render(suite, jobs, tmp_path / "out")

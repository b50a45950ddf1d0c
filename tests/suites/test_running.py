"""A suite runs what is not done, goes on where it was stopped, and its numbers can be computed again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tsimpute.cli import main
from tsimpute.config import DataConfig, ProtocolConfig
from tsimpute.errors import CheckpointError, ConfigError, DataError
from tsimpute.evaluation import rescore
from tsimpute.reporting import Report
from tsimpute.suites.entries import all_found
from tsimpute.suites.page import render
from tsimpute.suites.running import run_suite
from tsimpute.suites.sabotage import PASSES
from tsimpute.suites.settings import MethodConfig, Published, Suite, TaskConfig, entries, load_suite, shipped_suites

SETTINGS = {
    "training": {"epochs": 2, "batch_size": 8},
    "network.options": {"width": 8, "n_heads": 1, "n_blocks": 1, "width_time": 8, "width_feature": 4, "width_tau": 8},
    "sampling.n_steps": 2,
}
TRAINED = MethodConfig(config="default", settings=SETTINGS)


def task_of(rate: float, name: str = "csdi", **more: object) -> TaskConfig:
    data = DataConfig("synthetic", options={"n_records": 20, "n_steps": 12})
    return TaskConfig(data, ProtocolConfig(name, rate=rate), **more)  # type: ignore[arg-type]


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    own = tmp_path / "own.py"
    own.write_text(
        "from tsimpute.imputers.linear import LinearImputer\n"
        "class Mine(LinearImputer):\n"
        "    name = 'mine'\n"
        "    def __init__(self, add=0.0): self.add = add\n"
        "    def _fill(self, known, times): return super()._fill(known, times) + self.add\n"
    )
    methods = {
        "CFMI": TRAINED,
        "linear": MethodConfig("linear", n_samples=1, seeds=False),
        "mine": MethodConfig(f"{own}:Mine", {"add": 3.0}, n_samples=1, seeds=False, tasks=("few",)),
    }
    return Suite("A test", {"few": task_of(0.1), "half": task_of(0.5)}, methods, n_samples=3, at_epochs=(1,))


def run(suite: Suite, out: Path, **more: object) -> list[str]:
    return [entry.folder for entry in run_suite(suite, out, **more)]  # type: ignore[arg-type]


def stop_after(n: int) -> Callable[[], bool]:
    asked = iter(range(10_000))
    return lambda: next(asked) >= n


def test_all_is_run_once_and_tasks_that_train_on_the_same_cells_share_a_training(suite: Suite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said: list[str] = []
    assert run(suite, out, progress=lambda what, done, total: said.append(what)) == [e.folder for e in entries(suite)]
    assert len(entries(suite)) == 5
    assert len(list((out / "models").iterdir())) == 1
    assert {what.split(", ")[0] for what in said if what.endswith("CFMI: training")} == {"few"}
    said.clear()
    assert len(run(suite, out, progress=lambda what, done, total: said.append(what))) == 5
    assert said == []
    report = Report.read(out / "entries/half/CFMI/fold0-seed0")
    assert [row.epoch for row in report.where(metric="crps", feature="all").rows] == [1, 2]
    assert {row.imputer for row in report.rows} == {"CFMI"}
    about = json.loads((out / "entries/half/CFMI/fold0-seed0/entry.json").read_text())
    assert about["sabotage"] == PASSES
    assert about["protocol_leaks"] is True
    assert "held-out cells included" in about["order"]


def test_kept_samples_give_the_same_numbers_again_to_the_bit(suite: Suite, tmp_path: Path) -> None:
    run(suite, tmp_path / "out")
    for entry in entries(suite):
        folder = tmp_path / "out" / entry.folder
        again = rescore(folder / "samples.npz")
        last = Report.read(folder).where(epoch=again.rows[0].epoch)
        assert again.rows == last.rows


def test_a_suite_that_is_stopped_anywhere_goes_on_to_the_same_numbers(suite: Suite, tmp_path: Path) -> None:
    suite = replace(suite, sabotage=False)
    run(suite, tmp_path / "whole")
    out, rounds = tmp_path / "parts", 0
    while len(run(suite, out, should_stop=stop_after(3))) < 5:
        rounds += 1
        assert rounds < 40
    assert rounds > 2
    for entry in entries(suite):
        rows = [Report.read(folder / entry.folder).rows for folder in (out, tmp_path / "whole")]
        assert [replace(row, seconds=0.0) for row in rows[0]] == [replace(row, seconds=0.0) for row in rows[1]]
    assert not list(out.rglob(".*partial*"))


def test_other_settings_are_run_anew_and_epochs_that_were_not_kept_are_named(suite: Suite, tmp_path: Path) -> None:
    suite = replace(suite, sabotage=False, tasks={"few": suite.tasks["few"]}, at_epochs=())
    run(suite, tmp_path)
    folder = tmp_path / "entries/few/mine/fold0-seed0"
    before = Report.read(folder).value("crps")
    other = replace(suite.methods["mine"], options={"add": 0.0})
    run(replace(suite, methods=suite.methods | {"mine": other}), tmp_path)
    assert Report.read(folder).value("crps") < before  # type: ignore[operator]
    linear = Report.read(tmp_path / "entries/few/linear/fold0-seed0")
    assert Report.read(folder).value("crps") == linear.value("crps")
    with pytest.raises(CheckpointError, match="epoch 1 was not kept"):
        run(replace(suite, at_epochs=(1,)), tmp_path)


def test_another_number_of_cells_than_expected_is_refused_before_any_work(suite: Suite, tmp_path: Path) -> None:
    wrong = replace(suite, tasks={"few": replace(suite.tasks["few"], n_cells=(7,))})
    wrong = replace(wrong, methods={"linear": suite.methods["linear"]})
    with pytest.raises(DataError, match=r"'few', fold 0: expected 7 scored cells .* came \d+"):
        run(wrong, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_entry_that_fails_is_told_and_the_others_are_done(suite: Suite, tmp_path: Path) -> None:
    methods = {"wrong": MethodConfig("linaer"), "linear": suite.methods["linear"]}
    told: list[str] = []
    done = run(
        replace(suite, methods=methods), tmp_path, failed=lambda entry, error: told.append(f"{entry.task} {error}")
    )
    assert [folder.split("/")[2] for folder in done] == ["linear", "linear"]
    assert [text.split(" suite: ")[0] for text in told] == ["few", "half"]
    assert {result[0].method for result in all_found(suite, tmp_path)} == {"linear"}


def test_a_file_that_a_method_names_is_part_of_what_was_run(suite: Suite, tmp_path: Path) -> None:
    suite = replace(suite, sabotage=False, methods={"mine": suite.methods["mine"]}, tasks={"few": suite.tasks["few"]})
    own = Path(suite.methods["mine"].imputer.partition(":")[0])
    own.write_text("from __future__ import annotations\nfrom dataclasses import dataclass\n" + own.read_text())
    run(suite, tmp_path)
    assert len(list(all_found(suite, tmp_path))) == 1
    own.write_text(own.read_text() + "\n# changed\n")
    assert not list(all_found(suite, tmp_path))


def test_what_was_stopped_between_its_rows_and_its_entry_is_not_counted_twice(suite: Suite, tmp_path: Path) -> None:
    suite = replace(suite, sabotage=False, methods={"CFMI": TRAINED}, tasks={"few": suite.tasks["few"]})
    run(suite, tmp_path)
    folder = tmp_path / "entries/few/CFMI/fold0-seed0"
    about = json.loads((folder / "entry.json").read_text())
    before = Report.read(folder).rows
    (folder / "entry.json").write_text(json.dumps(about | {"scored": about["scored"][:1]}))
    run(suite, tmp_path)
    assert [replace(row, seconds=0.0) for row in Report.read(folder).rows] == [replace(r, seconds=0.0) for r in before]


def test_tables_and_page_show_every_method_with_mean_and_error_over_seeds(suite: Suite, tmp_path: Path) -> None:
    published = (Published("few", "Theirs", "a paper", crps=0.5, differs="other cells"),)
    suite = replace(suite, seeds=(0, 1), published=published, sabotage=False, tasks={"few": suite.tasks["few"]})
    run(suite, tmp_path)
    written = render(suite, tmp_path)
    assert {"metrics.csv", "breakdowns.csv", "tables.md", "entries.json", "index.html"} <= {p.name for p in written}
    assert all(path.stat().st_size > 0 for path in written)
    text = (tmp_path / "tables.md").read_text()
    values = [
        Report.read(tmp_path / f"entries/few/CFMI/fold0-seed{seed}").where(epoch=2).value("crps") for seed in (0, 1)
    ]
    mean, error = sum(values) / 2, abs(values[0] - values[1]) / 2  # type: ignore[operator, arg-type]
    (line,) = [line for line in text.splitlines() if line.startswith("| CFMI")]
    assert f" {mean:.3f} ± {error:.2g} " in line
    assert "| Theirs | 0.5 | - | - | - | a paper | other cells |" in text
    page = (tmp_path / "index.html").read_text()
    for word in ("CFMI", "linear", "mine", "Theirs", "data:image/png;base64,"):
        assert word in page
    rows = Report.read(tmp_path)
    assert {row.run for row in rows.where(imputer="CFMI").rows} == {"seed 0", "seed 1"}


def test_a_run_that_is_done_is_scored_on_tasks_of_its_split_only(suite: Suite, tmp_path: Path) -> None:
    suite = replace(suite, sabotage=False)
    run(replace(suite, methods={"CFMI": TRAINED}, tasks={"few": suite.tasks["few"]}), tmp_path / "a")
    (folder,) = (tmp_path / "a" / "models").iterdir()
    done = replace(suite, methods={"done": MethodConfig(run=str(folder))})
    run(done, tmp_path / "b")
    for epoch in (1, 2):
        first = Report.read(tmp_path / "a/entries/few/CFMI/fold0-seed0").where(epoch=epoch).value("crps")
        assert Report.read(tmp_path / "b/entries/few/done/fold0-seed0").where(epoch=epoch).value("crps") == first
    with pytest.raises(ConfigError, match="Records that it has seen would be scored"):
        run(replace(done, tasks={"other": task_of(0.1, "clean")}), tmp_path / "c")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("tasks: {a: {}}\nmethods: {m: {imputer: linear, speed: 3}}", r"unknown key methods.m.speed"),
        ("tasks: {a: {data: {name: 3}}}\nmethods: {m: {imputer: linear}}", r"tasks.a.data.name: expected str, came 3"),
        ("tasks: {a: {}}\nmethods: {m: {}}", "needs one of imputer, config, run or weights; came none"),
        ("tasks: {a: {}}\nmethods: {m: {imputer: linear, tasks: [b]}}", "no task 'b'; tasks are a"),
        ("tasks: {a/b: {}}\nmethods: {m: {imputer: linear}}", "letters, digits, spaces"),
        ("methods: {m: {imputer: linear}}", "tasks: expected settings by name"),
        ("- a", "expected settings by name, came list"),
        ("tasks: {a: {}}\nmethods: {m: {imputer: linear}}\nfoldz: [1]", "unknown key foldz"),
        ("tasks: {a: {n_cells: [1, 2]}}\nmethods: {m: {imputer: linear}}", "one n_cells for each of 1 folds, came 2"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(text: str, match: str, tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=match):
        load_suite(path)


@pytest.mark.parametrize("name", shipped_suites())
def test_suites_that_come_along_can_be_read(name: str) -> None:
    suite = load_suite(name)
    assert entries(suite)


def test_an_imputer_that_is_not_there_is_named(suite: Suite, tmp_path: Path) -> None:
    for imputer, match in (
        ("linaer", "expected one of .*linear.*, or file.py:name; came 'linaer'"),
        ("x.py:A", "no file"),
    ):
        with pytest.raises(ConfigError, match=match):
            run(replace(suite, methods={"m": MethodConfig(imputer)}), tmp_path)


def test_one_command_runs_a_suite_and_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(
        "tasks: {t: {data: {name: synthetic, options: {n_records: 20}}}}\n"
        "methods: {linear: {imputer: linear, n_samples: 1}, mean: {imputer: mean, n_samples: 1}}\n"
    )
    main(["evaluate", "--suite", str(path), "--out", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert "2/2 t, mean, fold 0, seed 0: done" in printed
    assert "| linear | - | 1 |" in printed
    assert (tmp_path / "out" / "index.html").is_file()
    with pytest.raises(SystemExit, match="name it with --out"):
        main(["evaluate", "--suite", str(path)])
    with pytest.raises(SystemExit, match="expected the folder of a run, or --suite FILE"):
        main(["evaluate"])

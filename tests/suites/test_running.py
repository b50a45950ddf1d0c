"""A suite runs what is not done, goes on where it was stopped, and its numbers can be computed again."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tsimpute.cli.commands import main
from tsimpute.config.settings import DataConfig, ProtocolConfig, SamplingConfig
from tsimpute.errors import BusyError, CheckpointError, ConfigError, DataError, TsimputeError
from tsimpute.evaluation.evaluate import evaluate, rescore
from tsimpute.evaluation.reporting import Report
from tsimpute.experiments.leakage import NO_LEAK
from tsimpute.experiments.runs import load_windows, make_task
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.suites import page, results, running
from tsimpute.suites.jobs import Job, plan, select
from tsimpute.suites.results import Result
from tsimpute.suites.settings import MethodConfig, Published, Suite, TaskConfig, load_suite, shipped_suites
from tsimpute.suites.tables import feature_table, lines, markdown, side_by_side, value_text
from tsimpute.system.files import exclusive_lock

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
    (tmp_path / "my_imputers.py").write_text(
        "from tsimpute.imputers.simple import LinearImputer\n"
        "class Mine(LinearImputer):\n"
        "    name = 'mine'\n"
        "    def __init__(self, add=0.0): self.add = add\n"
        "    def _fill(self, known, times): return super()._fill(known, times) + self.add\n"
    )
    methods = {
        "CFMI": TRAINED,
        "linear": MethodConfig("linear", n_samples=1, seeds=False),
        "mine": MethodConfig("my_imputers:Mine", {"add": 3.0}, n_samples=1, seeds=False, tasks=("few",)),
    }
    return Suite(
        "A test",
        {"few": task_of(0.1), "half": task_of(0.5)},
        methods,
        n_samples=3,
        at_epochs=(1,),
        folder=str(tmp_path),
    )


def run(suite: Suite, out: Path, **more: object) -> list[str]:
    return [job.folder.as_posix() for job in running.run_suite(plan(suite), out, **more)]  # type: ignore[arg-type]


def folders(suite: Suite) -> list[str]:
    return [job.folder.as_posix() for job in plan(suite)]


def results_of(suite: Suite, out: Path) -> list[Result]:
    return list(results.read_results(plan(suite), out))


def differences(suite: Suite, out: Path) -> dict[str, tuple[int, list[str]]]:
    return {job.method: (n, wrong) for job, n, wrong in results.unequal(plan(suite), out)}


def job_of(suite: Suite, method: str) -> Job:
    (job,) = [job for job in plan(suite) if job.method == method]
    return job


def stop_after(n: int) -> Callable[[], bool]:
    asked = iter(range(10_000))
    return lambda: next(asked) >= n


def test_all_is_run_once_and_tasks_that_train_on_the_same_cells_share_a_training(suite: Suite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said: list[str] = []
    assert run(suite, out, progress=lambda what, done, total: said.append(what)) == folders(suite)
    assert len(plan(suite)) == 5
    assert len(list((out / "models").iterdir())) == 1
    assert {what.split(", ")[0] for what in said if what.endswith("CFMI: training")} == {"few"}
    said.clear()
    assert len(run(suite, out, progress=lambda what, done, total: said.append(what))) == 5
    assert said == []
    report = Report.read(out / "entries/half/CFMI/fold0-seed0")
    assert [row.epoch for row in report.where(metric="crps", feature="all").rows] == [1, 2]
    assert {row.imputer for row in report.rows} == {"CFMI"}
    about = json.loads((out / "entries/half/CFMI/fold0-seed0/entry.json").read_text())
    assert about["leakage"] == NO_LEAK
    assert about["protocol_leaks"] is True
    assert "held-out cells included" in about["order"]


def test_a_start_file_of_another_network_is_refused_before_any_work(suite: Suite, tmp_path: Path) -> None:
    wide = {"network.options": {**SETTINGS["network.options"], "width": 16}}
    run(replace(suite, methods={"CFMI": TRAINED}, tasks={"few": task_of(0.1)}), tmp_path / "first")
    (model,) = (tmp_path / "first" / "models").glob("*/last.safetensors")
    later = MethodConfig(config="default", settings=SETTINGS | wide | {"training.start_from": str(model)})
    with pytest.raises(ConfigError, match=r"training\.start_from: expected a model of the network.*width is 16 here"):
        run(replace(suite, methods={"linear": MethodConfig("linear"), "later": later}), tmp_path / "out")
    assert not (tmp_path / "out" / "entries").exists()


def test_kept_samples_give_the_same_numbers_again_to_the_bit(suite: Suite, tmp_path: Path) -> None:
    run(suite, tmp_path / "out")
    for folder in (tmp_path / "out" / name for name in folders(suite)):
        again = rescore(folder / "samples.npz")
        last = Report.read(folder).where(epoch=again.rows[0].epoch)
        assert again.rows == last.rows


def test_a_suite_that_is_stopped_anywhere_goes_on_to_the_same_numbers(suite: Suite, tmp_path: Path) -> None:
    suite = replace(suite, leakage_test=False)
    run(suite, tmp_path / "whole")
    out, rounds = tmp_path / "parts", 0
    while len(run(suite, out, should_stop=stop_after(3))) < 5:
        rounds += 1
        assert rounds < 40
    assert rounds > 2
    for name in folders(suite):
        rows = [Report.read(folder / name).rows for folder in (out, tmp_path / "whole")]
        assert [replace(row, seconds=0.0) for row in rows[0]] == [replace(row, seconds=0.0) for row in rows[1]]
    assert not list(out.rglob(".*partial*"))


def test_an_entry_that_another_process_works_at_is_left_to_it(suite: Suite, tmp_path: Path) -> None:
    suite = replace(suite, leakage_test=False, methods={name: suite.methods[name] for name in ("linear", "mine")})
    busy, failed = tmp_path / "entries/few/linear/fold0-seed0", []
    with exclusive_lock(busy):  # for a lock, another handle is another process
        done = run(suite, tmp_path, failed=lambda job, error: failed.append((job.folder.as_posix(), type(error))))
    assert failed == [("entries/few/linear/fold0-seed0", BusyError)]
    assert len(done) == len(plan(suite)) - 1
    assert len(run(suite, tmp_path)) == len(plan(suite))


@pytest.mark.parametrize("length", [{"epochs": 2}, {"max_steps": 4}], ids=str)
def test_out_of_time_from_the_first_moment_each_call_still_gets_on(
    suite: Suite, tmp_path: Path, length: dict[str, int]
) -> None:
    trained = replace(TRAINED, settings=SETTINGS | {"training": {"batch_size": 8} | length})
    suite = replace(suite, tasks={"few": suite.tasks["few"]}, methods={**suite.methods, "CFMI": trained}, at_epochs=())
    calls = 0
    while len(run(suite, tmp_path, out_of_time=lambda: True)) < len(plan(suite)):
        calls += 1
        assert calls < 20
    assert calls > len(plan(suite))


def test_all_files_of_a_users_package_are_part_of_the_key(suite: Suite, tmp_path: Path) -> None:
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "imputers.py").write_text("from .helper import X\ndef draw(*args): return X\n")
    keys = []
    for text in ("X = 1\n", "X = 2\n", "X = 2\n"):
        (package / "helper.py").write_text(text)
        mine = MethodConfig("my_package.imputers:draw", tasks=("few",))
        keys.append(job_of(replace(suite, methods={"mine": mine}), "mine").key)
    assert keys[0] != keys[1] == keys[2]


def test_other_settings_are_run_anew_and_epochs_that_were_not_kept_are_named(suite: Suite, tmp_path: Path) -> None:
    suite = replace(suite, leakage_test=False, tasks={"few": suite.tasks["few"]}, at_epochs=())
    run(suite, tmp_path)
    folder = tmp_path / "entries/few/mine/fold0-seed0"
    before = Report.read(folder).value("crps")
    other = replace(suite.methods["mine"], options={"add": 0.0})
    run(replace(suite, methods=suite.methods | {"mine": other}), tmp_path)
    assert Report.read(folder).value("crps") < before  # type: ignore[operator]
    linear = Report.read(tmp_path / "entries/few/linear/fold0-seed0")
    assert Report.read(folder).value("crps") == linear.value("crps")
    with pytest.raises(CheckpointError, match="epoch-0001 was not kept"):
        run(replace(suite, at_epochs=(1,)), tmp_path)


def test_another_number_of_cells_than_expected_is_refused_before_any_work(suite: Suite, tmp_path: Path) -> None:
    wrong = replace(suite, tasks=suite.tasks | {"half": replace(suite.tasks["half"], n_cells=(7,))})
    wrong = replace(wrong, methods={"linear": suite.methods["linear"]})
    with pytest.raises(DataError, match=r"'half', fold 0: expected 7 scored cells .* came \d+"):
        run(wrong, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_was_made_with_other_settings_tells_nothing_of_the_number_of_cells(suite: Suite, tmp_path: Path) -> None:
    suite = replace(suite, leakage_test=False, methods={"linear": suite.methods["linear"]})
    run(replace(suite, tasks={"few": task_of(0.1)}), tmp_path)
    half = make_task(load_windows("synthetic", n_records=20, n_steps=12), task_of(0.5).protocol)
    expected = task_of(0.5, n_cells=(int(half.test.held_out_mask.sum()),))
    assert len(run(replace(suite, tasks={"few": expected}), tmp_path)) == 1


def test_only_what_is_named_is_run_and_trainings_keep_the_epochs_of_all_tasks(suite: Suite, tmp_path: Path) -> None:
    suite = replace(suite, leakage_test=False, at_epochs=())
    suite = replace(suite, tasks=suite.tasks | {"half": replace(suite.tasks["half"], at_epochs=(1,))})
    chosen = select(plan(suite), ["few"], ["CFMI"])
    assert [job.folder.as_posix() for job in chosen] == ["entries/few/CFMI/fold0-seed0"]
    assert list(running.run_suite(chosen, tmp_path)) == chosen
    assert len(run(suite, tmp_path)) == 5
    with pytest.raises(ConfigError, match="no task 'all'; tasks are few, half"):
        select(plan(suite), ["all"])
    with pytest.raises(ConfigError, match="nothing to do: methods mine with tasks half"):
        select(plan(suite), ["half"], ["mine"])


def test_of_many_names_the_nearest_are_named() -> None:
    jobs = plan(load_suite("tables24"))
    n_tasks, n_methods = (len({getattr(job, kind) for job in jobs}) for kind in ("task", "method"))
    for kind, n, wrong, right in (
        ("task", n_tasks, "iris", "iris mcar25"),
        ("method", n_methods, "missforst", "missforest"),
    ):
        with pytest.raises(ConfigError, match=rf"no {kind} '{wrong}'; of the {n} {kind}s the nearest .* {right}") as no:
            select(jobs, **{f"{kind}s": [wrong]})
        assert len(str(no.value)) < 200


def test_a_training_keeps_the_epochs_of_tasks_in_which_a_method_that_is_trained_so_takes_part(suite: Suite) -> None:
    task = replace(suite.tasks["few"], at_epochs=())
    other = replace(TRAINED, settings=SETTINGS | {"process.name": "diffusion"}, tasks=("half",))
    for more, kept in (({"other": other}, (2,)), ({"alike": replace(TRAINED, tasks=("half",))}, (1, 2))):
        methods = {"CFMI": replace(TRAINED, tasks=("few",))} | more
        both = replace(suite, tasks=suite.tasks | {"few": task}, methods=methods)
        assert job_of(both, "CFMI").config.training.keep_epochs == kept  # type: ignore[union-attr]


def test_an_epoch_that_a_training_has_gone_past_is_refused_before_it_goes_on(suite: Suite, tmp_path: Path) -> None:
    method = replace(TRAINED, settings=SETTINGS | {"training.epochs": 4})
    suite = replace(
        suite, leakage_test=False, methods={"CFMI": method}, tasks={"few": suite.tasks["few"]}, at_epochs=()
    )
    run(suite, tmp_path, should_stop=stop_after(6))
    (folder,) = (tmp_path / "models").iterdir()
    done = len((folder / "epochs.csv").read_text().splitlines()) - 1
    assert 2 <= done < 4
    with pytest.raises(CheckpointError, match="epoch-0001 was not kept"):
        run(replace(suite, at_epochs=(1,)), tmp_path)
    assert len((folder / "epochs.csv").read_text().splitlines()) - 1 == done
    assert len(run(suite, tmp_path)) == 1


def test_the_last_state_is_scored_with_other_numbers_of_steps_too(suite: Suite, tmp_path: Path) -> None:
    few = replace(suite.tasks["few"], n_steps=(1, 2, 4))
    suite = replace(suite, leakage_test=False, tasks={"few": few})
    run(replace(suite, tasks={"few": replace(few, n_steps=(4,))}), tmp_path)
    run(suite, tmp_path)
    by_method = {result.job.method: result for result in results_of(suite, tmp_path)}
    trained = by_method["CFMI"]
    assert sorted({row.n_steps for row in trained.steps.rows}) == [1, 2, 4]
    assert {row.feature for row in trained.steps.rows} == {"all"}
    own = trained.report.value("crps", epoch=2)  # two steps are its own
    assert trained.steps.value("crps", n_steps=2) == own
    (folder,) = (tmp_path / "models").iterdir()
    imputer = GenerativeImputer.load(folder / "epoch-0002.safetensors", SamplingConfig(n_steps=4))
    task = make_task(load_windows("synthetic", n_records=20, n_steps=12), few.protocol)
    direct = evaluate(imputer, task.test, n_samples=3, scaler=task.scaler)
    assert trained.steps.value("crps", n_steps=4) == direct.value("crps")
    assert by_method["linear"].steps.rows == ()
    assert "few_steps.png" in {path.name for path in page.render(suite, plan(suite), tmp_path)}
    assert Report.read(tmp_path / "steps.csv").rows == trained.steps.rows


def test_numbers_are_computed_anew_from_the_samples_of_every_state(suite: Suite, tmp_path: Path) -> None:
    suite = replace(suite, leakage_test=False, tasks={"few": suite.tasks["few"]})
    run(suite, tmp_path)
    found = differences(suite, tmp_path)
    for result in results_of(suite, tmp_path):
        assert found[result.job.method] == (len(result.report.rows), [])
    path = tmp_path / "entries/few/CFMI/fold0-seed0/metrics.csv"
    report = Report.read(path)
    changed = replace(report.rows[0], value=report.rows[0].value + 1e-12)  # type: ignore[operator]
    path.write_text(Report((changed, *report.rows[1:])).csv())
    found = differences(suite, tmp_path)
    assert found["CFMI"][1] == [f"{changed.metric} of {changed.feature}"]
    assert found["linear"][1] == []
    (path.parent / "samples.npz").unlink()
    more = Report((*report.rows, replace(report.rows[0], feature="forged")))
    linear = tmp_path / "entries/few/linear/fold0-seed0/metrics.csv"
    linear.write_text(Report((*Report.read(linear).rows, replace(more.rows[-1], epoch=None))).csv())
    found = differences(suite, tmp_path)
    assert "samples.npz is not there" in found["CFMI"][1]
    assert found["linear"][1] == [f"{changed.metric} of forged"]


def test_a_task_may_have_folds_of_its_own_and_the_error_is_that_over_folds(suite: Suite, tmp_path: Path) -> None:
    methods = {"CFMI": TRAINED}
    suite = replace(suite, leakage_test=False, methods=methods, at_epochs=(), tasks={"few": suite.tasks["few"]})
    suite = replace(suite, folds=(0, 1), seeds=(0, 1), tasks={**suite.tasks, "one": replace(task_of(0.5), folds=(0,))})
    assert [(job.task, job.fold, job.seed) for job in plan(suite)] == [
        ("few", 0, 0), ("few", 0, 1), ("few", 1, 0), ("few", 1, 1), ("one", 0, 0), ("one", 0, 1),
    ]  # fmt: skip
    run(suite, tmp_path)
    of_all = results_of(suite, tmp_path)
    values = {(r.job.task, r.job.fold, r.job.seed): r.report.value("crps") for r in of_all}
    few, one = lines(of_all)
    of_fold = [(values["few", fold, 0] + values["few", fold, 1]) / 2 for fold in (0, 1)]  # type: ignore[operator]
    assert few.values["crps"] == pytest.approx((sum(of_fold) / 2, abs(of_fold[0] - of_fold[1]) / 2))
    of_seed = [values["one", 0, seed] for seed in (0, 1)]
    assert one.values["crps"][1] == pytest.approx(abs(of_seed[0] - of_seed[1]) / 2)  # type: ignore[operator]


def test_tasks_are_shown_side_by_side_with_their_holes(suite: Suite, tmp_path: Path) -> None:
    blocks = replace(task_of(0.3, "clean"), protocol=ProtocolConfig("clean", rate=0.3, mechanism="blocks"))
    suite = replace(
        suite, tasks={"few": suite.tasks["few"], "blocks": blocks}, methods={"linear": suite.methods["linear"]}
    )
    run(suite, tmp_path)
    of_all = results_of(suite, tmp_path)
    title, head, rows = side_by_side(suite, of_all)[0]
    assert (title, head) == ("CRPS, all tasks", ["", "few", "blocks"])
    by_name = {row[0]: row[1:] for row in rows}
    assert by_name["protocol"] == ["csdi", "clean"]
    assert by_name["mechanism"] == ["random", "blocks"]
    for result, share in zip(of_all, by_name["share of cells hidden"], strict=True):
        task = make_task(load_windows("synthetic", n_records=20, n_steps=12), suite.tasks[result.job.task].protocol)
        assert share == f"{task.test.held_out_mask.sum() / task.test.observed.sum():.4f}"
    assert by_name["linear"] == [value_text(r.report.value("crps"), None) for r in of_all]
    none = {task: ([""], []) for task in suite.tasks}
    assert "## CRPS, all tasks" in markdown(suite, of_all, none)


def test_an_entry_that_fails_is_told_and_the_others_are_done(suite: Suite, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def draw(known, times, n_samples, rng, learnt):\n    return 1 / 0\n")
    methods = {"wrong": MethodConfig("bad:draw"), "linear": suite.methods["linear"]}
    told: list[str] = []
    done = run(replace(suite, methods=methods), tmp_path, failed=lambda job, error: told.append(f"{job.task} {error}"))
    assert [folder.split("/")[2] for folder in done] == ["linear", "linear"]
    line = f"{tmp_path / 'bad.py'}, line 2: ZeroDivisionError: division by zero"
    assert told == [f"few {line}", f"half {line}"]
    assert {result.job.method for result in results_of(suite, tmp_path)} == {"linear"}
    (tmp_path / "worse.py").write_text("raise SystemExit(0)\n")
    told.clear()
    methods = {"wrong": MethodConfig("worse:draw")}
    run(replace(suite, methods=methods), tmp_path, failed=lambda entry, error: told.append(str(error)))
    assert [text.split(": ", 1)[1] for text in told] == ["SystemExit: 0"] * 2


def test_a_file_that_a_method_names_is_part_of_what_was_run(suite: Suite, tmp_path: Path) -> None:
    suite = replace(
        suite, leakage_test=False, methods={"mine": suite.methods["mine"]}, tasks={"few": suite.tasks["few"]}
    )
    path = tmp_path / "my_imputers.py"
    run(suite, tmp_path)
    assert len(results_of(suite, tmp_path)) == 1
    path.write_text(path.read_text() + "\n# changed\n")
    assert not results_of(suite, tmp_path)
    with pytest.raises(ConfigError, match=r"my_imputers\.py has changed since it was imported. Start Python anew"):
        run(suite, tmp_path)


def test_what_was_stopped_between_its_rows_and_its_entry_is_not_counted_twice(suite: Suite, tmp_path: Path) -> None:
    suite = replace(suite, leakage_test=False, methods={"CFMI": TRAINED}, tasks={"few": suite.tasks["few"]})
    run(suite, tmp_path)
    folder = tmp_path / "entries/few/CFMI/fold0-seed0"
    about = json.loads((folder / "entry.json").read_text())
    before = Report.read(folder).rows
    (folder / "entry.json").write_text(json.dumps(about | {"checkpoints": about["checkpoints"][:1]}))
    run(suite, tmp_path)
    assert [replace(row, seconds=0.0) for row in Report.read(folder).rows] == [replace(r, seconds=0.0) for r in before]


def test_tables_and_page_show_every_method_with_mean_and_error_over_seeds(suite: Suite, tmp_path: Path) -> None:
    published = (Published("few", "Theirs", "a paper", crps=0.5, differs="other cells"),)
    suite = replace(suite, seeds=(0, 1), published=published, leakage_test=False, tasks={"few": suite.tasks["few"]})
    run(suite, tmp_path)
    written = page.render(suite, plan(suite), tmp_path)
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
    html = (tmp_path / "index.html").read_text()
    for word in ("CFMI", "linear", "mine", "Theirs", "data:image/png;base64,"):
        assert word in html
    head, by_feature = feature_table(results_of(suite, tmp_path))
    assert head == ["feature", "cells", "CFMI", "linear", "mine"]
    linear = Report.read(tmp_path / "entries/few/linear/fold0-seed0").where(metric="crps")
    for name, n_cells, *values in by_feature:
        (row,) = linear.where(feature=name).rows
        assert (n_cells, values[1]) == (f"{row.n_cells:,}", value_text(row.value, None))
        assert f'<th scope="row">{name}</th><td class="n">{n_cells}</td>' in html
    assert sum(int(row[1]) for row in by_feature) == linear.where(feature="all").rows[0].n_cells
    rows = Report.read(tmp_path)
    assert {row.run for row in rows.where(imputer="CFMI").rows} == {"seed 0", "seed 1"}


def test_a_run_that_is_done_is_scored_on_tasks_of_its_split_only(suite: Suite, tmp_path: Path) -> None:
    suite = replace(suite, leakage_test=False)
    run(replace(suite, methods={"CFMI": TRAINED}, tasks={"few": suite.tasks["few"]}), tmp_path / "a")
    (folder,) = (tmp_path / "a" / "models").iterdir()
    done = replace(suite, methods={"done": MethodConfig(run=str(folder))})
    run(done, tmp_path / "b")
    for epoch in (1, 2):
        first = Report.read(tmp_path / "a/entries/few/CFMI/fold0-seed0").where(epoch=epoch).value("crps")
        assert Report.read(tmp_path / "b/entries/few/done/fold0-seed0").where(epoch=epoch).value("crps") == first
    # The name of the file is no proof of its epoch: the model itself says it.
    (folder / "last.safetensors").write_bytes((folder / "epoch-0001.safetensors").read_bytes())
    stopped = run(replace(done, at_epochs=()), tmp_path / "d")
    assert {row.epoch for row in Report.read(tmp_path / "d" / stopped[0]).rows} == {1}
    with pytest.raises(ConfigError, match="Records that the model has seen would be scored"):
        run(replace(done, tasks={"other": task_of(0.1, "clean")}), tmp_path / "c")


@pytest.mark.parametrize("numbers", ["folds", "seeds"])
def test_runs_that_are_done_are_one_for_each_fold_or_seed(suite: Suite, tmp_path: Path, numbers: str) -> None:
    suite = replace(suite, leakage_test=False, at_epochs=(), tasks={"few": suite.tasks["few"]}, folds=(0,), seeds=(0,))
    suite = replace(suite, **{numbers: (0, 1)})
    trained_in = []
    for number in (0, 1):
        one = tmp_path / str(number)
        run(replace(suite, methods={"CFMI": TRAINED}, **{numbers: (number,)}), one)
        trained_in.append(*(str(path) for path in (one / "models").iterdir()))
    done = lambda *runs: replace(suite, methods={"done": MethodConfig(run=runs)})
    run(done(*trained_in), tmp_path / "both")
    for number in (0, 1):
        name = f"fold{number}-seed0" if numbers == "folds" else f"fold0-seed{number}"
        trained, scored = (
            Report.read(path / name)
            for path in (tmp_path / f"{number}/entries/few/CFMI", tmp_path / "both/entries/few/done")
        )
        assert trained.value("crps") == scored.value("crps")
    for runs in (trained_in[:1], [*trained_in, trained_in[0]]):
        with pytest.raises(ConfigError, match=f"one for each of the 2 {numbers} of task 'few'; came {len(runs)}"):
            run(done(*runs), tmp_path / "wrong")
    if numbers == "folds":
        with pytest.raises(ConfigError, match="Records that the model has seen would be scored"):
            run(done(*reversed(trained_in)), tmp_path / "swapped")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("tasks: {a: {}}\nmethods: {m: {imputer: linear, speed: 3}}", r"unknown key methods.m.speed"),
        ("tasks: {a: {data: {name: 3}}}\nmethods: {m: {imputer: linear}}", r"tasks.a.data.name: expected str, came 3"),
        ("tasks: {a: {}}\nmethods: {m: {imputer: my.py}}", "a name or an import path, as .*; came the file 'my"),
        ("tasks: {a: {}}\nmethods: {m: {}}", "needs one of imputer, config, run, weights or members; came none"),
        ("tasks: {a: {}}\nmethods: {m: {imputer: linear, tasks: [b]}}", "no task 'b'; tasks are a"),
        (
            "tasks: {a/b: {}}\nmethods: {m: {imputer: linear}}",
            "names as text, up to 80 letters, digits, spaces, - . _, came 'a/b'",
        ),
        ("methods: {m: {imputer: linear}}", "tasks: expected settings by name"),
        ("- a", "expected settings by name, came list"),
        ("tasks: {a: {}}\nmethods: {m: {imputer: linear}}\nfoldz: [1]", "unknown key foldz"),
        (
            "tasks: {a: {n_cells: [1], folds: [0, 1]}}\nmethods: {m: {imputer: linear}}",
            "one n_cells for each of 2 folds",
        ),
        ("tasks: {a: {folds: []}}\nmethods: {m: {imputer: linear}}", "folds of a task: expected at least one"),
        (
            "tasks: {a: {n_steps: [0]}}\nmethods: {m: {imputer: linear}}",
            "n_steps: expected numbers of at least 1 and below 2\\^63, each once; came \\[0\\]",
        ),
        (
            "tasks: {a: {}}\nmethods: {m: {imputer: mean}}\nseeds: [0, 0]",
            "seeds: expected numbers of at least 0 and below 2\\^63, each once",
        ),
        ("tasks: {a: {max_records: -1}}\nmethods: {m: {imputer: mean}}", "max_records: expected numbers of at least 1"),
        ("tasks: {a: {}}\nmethods: {m: {imputer: mean, n_samples: 0}}", "n_samples: expected numbers of at least 1"),
        ("tasks: {a: {}}\nmethods: {m: {imputer: mean, options: {1: 2}}}", "options: expected values by name"),
        ("tasks: {a: {}}\nmethods: {m: {config: default, settings: {training.seed: 1}}}", "training.seed is set by"),
        ("tasks: {a: {}}\nmethods: {m: {imputer: mean}}\npublished: [{task: b, method: c, source: d}]", "no task 'b'"),
        ("tasks: {a: {}}\nmethods: {m: {imputer: mean}}\nfolder: x", "unknown key folder"),
        ("tasks: {a: {}}\nmethods: {m: {imputer: mean}, m: {imputer: linear}}", "'m' is given twice"),
        ("tasks: {a: {}}\nmethods: {m: {config: default, options: {x: 1}}}", "options: only for a method with imputer"),
        ("tasks: {a: {}}\nmethods: {m: {run: r, settings: {x: 1}}}", "settings: only for a method with config"),
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
    assert plan(suite)


def test_what_a_suite_cannot_score_fairly_is_refused(suite: Suite, tmp_path: Path) -> None:
    patient = replace(TRAINED, settings=SETTINGS | {"training.patience": 3})
    with pytest.raises(ConfigError, match="expected none, as a suite scores fixed epochs"):
        run(replace(suite, methods={"CFMI": patient}), tmp_path)
    weights = tmp_path / "csdi.pth"
    weights.write_bytes(b"")
    with pytest.raises(ConfigError, match="Records that they have seen would be scored"):
        run(replace(suite, methods={"CSDI": MethodConfig(weights=str(weights))}), tmp_path)


def test_what_is_finished_outlives_a_try_that_fails(suite: Suite, tmp_path: Path) -> None:
    few = replace(suite, leakage_test=False, methods={"mine": suite.methods["mine"]}, tasks={"few": suite.tasks["few"]})
    run(few, tmp_path)
    folder = tmp_path / "entries/few/mine/fold0-seed0"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    wrong = replace(few, methods={"mine": replace(few.methods["mine"], options={"sub": 1.0})})
    with pytest.raises(TsimputeError, match=r"my_imputers:Mine': TypeError: .*unexpected keyword argument 'sub'"):
        run(wrong, tmp_path)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert len(run(few, tmp_path)) == 1


def test_one_method_cannot_change_the_records_of_the_next(suite: Suite, tmp_path: Path) -> None:
    rude = tmp_path / "rude.py"
    rude.write_text(
        "import numpy as np\nfrom tsimpute.imputers.simple import MeanImputer\n"
        "class Rude(MeanImputer):\n"
        "    def fit(self, train, valid=None):\n"
        "        super().fit(train, valid)\n        train.values[:] = 7.0\n        return self\n"
        "    def impute(self, windows, n_samples, seed=0, fill=None):\n"
        "        windows.values[windows.visible] -= 100.0\n"
        "        return super().impute(windows, n_samples, seed, fill)\n"
    )
    assert rude.stem == "rude"
    methods = {"rude": MethodConfig("rude:Rude", n_samples=1), "mean": MethodConfig("mean", n_samples=1)}
    both = replace(suite, methods=methods, tasks={"few": suite.tasks["few"]}, leakage_test=False)
    told: list[str] = []
    run(both, tmp_path / "both", failed=lambda entry, error: told.append(str(error)))
    assert len(told) == 1
    assert "expected every shown cell to hold the observed value" in told[0]
    run(replace(both, methods={"mean": methods["mean"]}), tmp_path / "alone")
    values = [Report.read(tmp_path / name / "entries/few/mean/fold0-seed0").value("crps") for name in ("both", "alone")]
    assert values[0] == values[1]


def test_methods_that_are_trained_alike_share_a_training(suite: Suite, tmp_path: Path) -> None:
    methods = {"CFMI": TRAINED, "asked for all": replace(TRAINED, fill="missing")}
    suite = replace(suite, leakage_test=False, methods=methods, tasks={"few": suite.tasks["few"]})
    said: list[str] = []
    run(suite, tmp_path, progress=lambda what, done, total: said.append(what))
    assert len(list((tmp_path / "models").iterdir())) == 1
    assert {what for what in said if what.endswith("training")} == {"few, CFMI: training"}
    fills = {result.job.method: result.report.rows[0].fill for result in results_of(suite, tmp_path)}
    assert fills == {"CFMI": "scored", "asked for all": "missing"}


def test_numbers_of_steps_that_a_process_cannot_take_are_left_out(suite: Suite, tmp_path: Path) -> None:
    diffusion = replace(TRAINED, settings=SETTINGS | {"process.name": "diffusion"})
    task = replace(suite.tasks["few"], n_steps=(4, 60))
    suite = replace(suite, leakage_test=False, methods={"CFMI": TRAINED, "CSDI": diffusion}, tasks={"few": task})
    assert len(run(suite, tmp_path)) == 2
    assert [result.record.n_steps for result in results_of(suite, tmp_path)] == [(4, 60), (4,)]


def test_a_training_of_a_number_of_steps_has_one_state_and_goes_on(suite: Suite, tmp_path: Path) -> None:
    steps = replace(TRAINED, settings=SETTINGS | {"training.max_steps": 3})
    task = replace(suite.tasks["few"], n_steps=(4,))
    suite = replace(suite, leakage_test=True, methods={"CFMI": steps}, tasks={"few": task})
    for n in (2, 5):
        run(suite, tmp_path, should_stop=stop_after(n))
    assert len(run(suite, tmp_path)) == len(run(suite, tmp_path)) == 1
    (result,) = results_of(suite, tmp_path)
    assert [one.epoch for one in result.record.checkpoints] == [None]
    assert result.record.n_steps == (4,)
    assert differences(suite, tmp_path)["CFMI"][1] == []


@pytest.mark.parametrize("name", shipped_suites())
def test_numbers_of_steps_of_suites_that_come_along_can_be_taken(name: str) -> None:
    suite = load_suite(name)
    for job in plan(suite):
        if job.task_config.n_steps and job.config is not None:
            assert job.n_steps


def test_states_are_in_the_order_of_their_epochs_whenever_they_were_scored(suite: Suite, tmp_path: Path) -> None:
    few = {"few": suite.tasks["few"]}
    suite = replace(suite, leakage_test=False, methods={"CFMI": TRAINED}, tasks=few | {"half": suite.tasks["half"]})
    later = replace(suite, tasks={"few": replace(few["few"], at_epochs=()), "half": suite.tasks["half"]})
    run(later, tmp_path)
    run(suite, tmp_path)
    epochs = [[one.epoch for one in result.record.checkpoints] for result in results_of(suite, tmp_path)]
    assert epochs == [[1, 2], [1, 2]]


def test_files_are_looked_for_beside_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "zero.py").write_text("def draw(known, times, n_samples, rng, learnt):\n    return 0 * known\n")
    text = "tasks: {t: {data: {name: synthetic, options: {n_records: 20}}}}\nmethods: {zero: {imputer: zero:draw}}\n"
    (tmp_path / "lab" / "suite.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    suite = load_suite("lab/suite.yaml")
    assert plan(suite)[0].files == (Path("lab/zero.py"),)
    told: list[str] = []
    run(suite, tmp_path / "out", failed=lambda entry, error: told.append(str(error)))
    assert "expected a number at every cell" in told[0]
    (tmp_path / "lab" / "zeros.py").write_text(
        "import numpy as np\ndef draw(known, times, n_samples, rng, learnt):\n    return np.zeros_like(known)\n"
    )
    text = text.replace("zero:draw", "zeros:draw").rstrip("}\n") + "}, mean: {imputer: mean, n_samples: 1}}\n"
    (tmp_path / "lab" / "suite.yaml").write_text(text)
    suite = load_suite("lab/suite.yaml")
    run(suite, tmp_path / "out")
    (tmp_path / "lab" / "zeros.py").unlink()
    del sys.modules["zeros"]
    page.render(suite, plan(suite), tmp_path / "out")
    for name in ("tables.md", "index.html"):
        text = (tmp_path / "out" / name).read_text()
        assert "Not shown: t, zero, fold 0, seed 0: suite: imputer: expected a file zeros.py" in text
    with pytest.raises(ConfigError, match=r"expected a file zeros\.py next to the suite, or an installed package"):
        run(suite, tmp_path / "out")


def test_networks_run_on_the_device_of_the_suite(suite: Suite) -> None:
    task = suite.tasks["few"]
    suite = replace(suite, tasks={"few": task}, methods={"CFMI": TRAINED})
    config = job_of(replace(suite, device="cuda"), "CFMI").config
    assert config is not None
    assert (config.training.accelerator, config.sampling.device) == ("gpu", "cuda")
    same = job_of(suite, "CFMI").config
    assert same is not None
    assert (same.training.accelerator, same.sampling.device) == ("cpu", "cpu")
    assert job_of(suite, "CFMI").key != job_of(replace(suite, device="cuda"), "CFMI").key


def test_an_imputer_that_is_not_there_is_named(suite: Suite, tmp_path: Path) -> None:
    for settings, match in (
        ({"training.epochs.x": 1}, "training.epochs.x: epochs is one value"),
        ({"sampling.solver": {"name": "heun"}}, "sampling.solver: expected"),
    ):
        with pytest.raises(ConfigError, match=match):
            run(replace(suite, methods={"m": replace(TRAINED, settings=settings)}), tmp_path)
    for imputer, match in (
        (
            "linaer",
            "expected one of .*linear.*, or an import path as my_module:MyImputer or my_module:draw; came 'linaer'",
        ),
        ("absent_module:A", r"expected a file absent_module\.py next to the suite, or an installed package"),
    ):
        with pytest.raises(ConfigError, match=match):
            run(replace(suite, methods={"m": MethodConfig(imputer)}), tmp_path)


def test_one_command_runs_a_suite_and_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(
        "tasks: {t: {data: {name: synthetic, options: {n_records: 20}}}}\n"
        "methods: {linear: {imputer: linear, n_samples: 1}, mean: {imputer: mean, n_samples: 1}}\n"
    )
    given = [str(path), "--out", str(tmp_path / "out")]
    main(["suite", "run", *given])
    printed = capsys.readouterr().out
    assert "2/2 t, mean, fold 0, seed 0: done" in printed
    assert "| linear | - | 1 |" in printed
    page = tmp_path / "out" / "index.html"
    assert page.is_file()
    main(["suite", "check", *given])
    assert "all as in the table, to the bit" in capsys.readouterr().out
    page.unlink()
    main(["suite", "report", *given])
    assert "| linear | - | 1 |" in capsys.readouterr().out
    assert page.is_file()
    main(["suite", "run", str(path), "--out", str(tmp_path / "b"), "--methods", "mean"])
    assert "1/1 t, mean" in capsys.readouterr().out
    main(["suite", "run", str(path), "--out", str(tmp_path / "c"), "--minutes", "1e-9"])
    assert "stopped after 1 of 2; the same command goes on" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["suite", "run", "SUITE", "--out", "out", "--minutes", "0"], "--minutes: expected more than 0"),
        (
            ["suite", "run", "SUITE", "--out", "out", "--tasks", "t,"],
            "--tasks: expected names with commas between them",
        ),
        (["suite", "run", "SUITE", "--out", "SUITE"], r"expected a folder, .* is a file"),
        (["suite", "check", "SUITE", "--out", "none"], "to check, there are none"),
        (["suite", "report", "SUITE", "--out", "none"], "there are none yet"),
        (["suite", "report", "absent", "--out", "none"], "suite: expected a file or one of"),
        (["evaluate", "--suite", "SUITE", "--out", "out"], "Use .tsimpute suite run SUITE --out FOLDER"),
        (["evaluate", "--suite=SUITE", "--check", "true"], r"suite check"),
    ],
)
def test_what_a_suite_cannot_do_is_said(
    words: list[str], match: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("SUITE").write_text("tasks: {t: {data: {name: synthetic}}}\nmethods: {mean: {imputer: mean, n_samples: 1}}\n")
    with pytest.raises(SystemExit, match=match):
        main(words)
    assert [path.name for path in tmp_path.iterdir()] == ["SUITE"]

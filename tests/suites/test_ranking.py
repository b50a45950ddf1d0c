"""A small edition of the suite of 24 tables: two made-up tables, a few steps; and how methods are ranked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from tsimpute.cli.commands import main
from tsimpute.errors import ConfigError
from tsimpute.evaluation.table_metrics import TABLE_METRICS
from tsimpute.suites.jobs import in_order, plan
from tsimpute.suites.page import render
from tsimpute.suites.ranking import average_ranks, by_steps, compared
from tsimpute.suites.running import run_suite
from tsimpute.suites.settings import Suite, load_suite

METHODS = ("mean", "gaussian", "flow_matching", "flow_matching_default", "diffusion", "flow_matching_75k")
STEPS = {"flow_matching": 3, "flow_matching_75k": 300}
"""The others that are trained: 3."""


KEYS = {
    "iris mcar25, mean, fold 0, seed 0": "14997c6d3d1a60fe",
    "iris mcar25, missforest, fold 0, seed 0": "d2814fe141f49ba6",
    "iris mcar25, flow_matching, fold 0, seed 0": "b288bbe39c5ddc70",
    "iris mcar25, diffusion, fold 0, seed 0": "52e3f530380c49f7",
    "seeds mcar50, flow_matching, fold 0, seed 0": "7b0b806bb77b3648",
}
"""Of entries that were made before this was a suite."""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, rng = tmp_path / "uci", np.random.default_rng(0)
    folder.mkdir()
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"]).assign(c=1.0)
    frame["d"] = frame["a"] - frame["b"] + 0.1 * rng.normal(size=40)
    frame.assign(target=np.where(frame["a"] > 0, "x", "y")).to_csv(folder / "iris.csv", index=False)
    frame.assign(target=frame["a"] + 0.3).to_csv(folder / "yacht_hydrodynamics.csv", index=False)
    monkeypatch.setenv("TSIMPUTE_DATA", str(tmp_path))


def small() -> Suite:
    suite = load_suite("tables24")
    methods = {name: suite.methods[name] for name in METHODS}
    methods = {
        name: replace(method, settings=method.settings | {"training.max_steps": STEPS.get(name, 3)})
        if method.settings
        else method
        for name, method in methods.items()
    }
    tasks = {name: suite.tasks[name] for name in ("iris mar25", "yacht_hydrodynamics mar25")}
    claims = [
        replace(claim, others=tuple(name for name in claim.others if name in METHODS))
        for claim in suite.ranking.claims
        if claim.method in METHODS and set(claim.others) & set(METHODS)
    ]
    ranking = replace(suite.ranking, claims=tuple(claims))
    return replace(suite, tasks=tasks, methods=methods, folds=(0,), run_last=(), ranking=ranking)


def section(text: str, title: str) -> list[list[str]]:
    """The cells of the lines of the table below a heading."""
    part = text.split(f"## {title}\n")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|"]


def ranks_by_hand(rows: pd.DataFrame, metric: str) -> dict[str, list[float]]:
    """Ranks of each method in the tables that have a metric."""
    of: dict[str, list[float]] = {name: [] for name in METHODS}
    for table in sorted(set(rows.table)):
        chosen = rows.loc[(rows.table == table) & (rows.metric == metric)]
        values = dict(zip(chosen.method, chosen.value, strict=True))
        for name, rank in zip(values, rankdata(list(values.values())), strict=True):
            of[name].append(rank)
    return of


@pytest.mark.threads(1)
@pytest.mark.slow
@pytest.mark.usefixtures("data")
def test_small_edition(tmp_path: Path):
    pytest.importorskip("ot")
    suite, out = small(), tmp_path / "out"
    list(run_suite([job for job in plan(suite) if job.method in ("mean", "flow_matching")], out))
    render(suite, plan(suite), out)
    first = pd.read_csv(out / "metrics.csv")
    list(run_suite(plan(suite), out))
    render(suite, plan(suite), out)
    rows = pd.read_csv(out / "metrics.csv")
    merged = first.merge(rows, how="left", indicator=True)
    assert set(merged["_merge"]) == {"both"}  # what is done is not done again
    assert set(rows.groupby(["table", "mechanism", "mask"]).method.nunique()) == {len(METHODS)}
    assert set(rows[rows.table == "iris"].metric) == set(TABLE_METRICS)
    assert set(rows[rows.table != "iris"].metric) == set(TABLE_METRICS) - {"auroc_loss"}
    assert np.isfinite(rows.value).all()
    value = rows.set_index(["table", "method", "metric"]).value
    for table in set(rows.table):
        assert 0.6 < value[table, "mean", "rmse"] < 1.5
        for metric in ("rmse", "crps", "w2", "mmd_energy"):
            assert value[table, "flow_matching_75k", metric] < value[table, "flow_matching", metric]
    text = (out / "tables.md").read_text(encoding="utf-8")
    assert text.count("Ranked on 2 pairs of table and mask, 2 of 2 tables: iris, yacht_hydrodynamics.") == 1
    assert "Done, of 2 a method: diffusion 2, " in text
    assert text.count("Nothing is done yet.") == 3
    head, _, *lines = section(text, "MAR 25 % (logistic)")
    for metric in TABLE_METRICS:
        by_hand = ranks_by_hand(rows, metric)
        for line in lines:
            mean, *error = line[head.index(metric)].split(" ± ")
            own = by_hand[line[0]]
            assert mean == f"{np.mean(own):.2f}"
            assert error == ([f"{np.std(own, ddof=1) / np.sqrt(len(own)):.2f}"] if len(own) > 1 else [])
    answers = dict(section(text, "Sentences of the paper")[2:])
    assert set(answers.values()) == {"not measured yet"}  # two tables are too few to judge a sentence
    render(replace(suite, ranking=replace(suite.ranking, fewest=2)), plan(suite), out)
    judged = dict(section((out / "tables.md").read_text(encoding="utf-8"), "Sentences of the paper")[2:])
    (measured,) = [sentence for sentence, answer in judged.items() if answer != "not measured yet"]
    means = {name: np.mean([np.mean(ranks_by_hand(rows, m)[name]) for m in TABLE_METRICS]) for name in METHODS}
    ahead = means["flow_matching"] < means["diffusion"]
    assert measured.startswith("MAR 25 % (logistic): flow matching is ahead of diffusion")
    assert judged[measured] == ("confirmed so far" if ahead else "contradicted so far")
    assert (out / "ranks.png").stat().st_size > 5000
    assert (out / "mar25_steps.png").stat().st_size > 5000


@pytest.mark.threads(1)
@pytest.mark.usefixtures("data")
def test_an_entry_of_an_earlier_version_gets_its_metrics_from_its_samples(tmp_path: Path):
    pytest.importorskip("ot")
    suite, out = small(), tmp_path / "out"
    jobs = [job for job in plan(suite) if job.method in ("mean", "gaussian")]
    list(run_suite(jobs, out))
    render(suite, jobs, out)
    before = (out / "metrics.csv").read_text()
    assert before.count("\n") == 2 * (2 * len(TABLE_METRICS) - 1) + 1
    for path in out.glob("entries/*/*/*/breakdown.csv"):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if ",table," not in line))
    (out / "metrics.csv").unlink()
    render(suite, jobs, out)
    assert (out / "metrics.csv").read_text() == before
    assert all(",table,,w2," in path.read_text() for path in out.glob("entries/*/*/*/breakdown.csv"))


@pytest.mark.threads(1)
@pytest.mark.usefixtures("data")
def test_the_command_runs_a_part_and_names_what_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("ot")
    command = ["suite", "run", "tables24", "--out", str(tmp_path / "out"), "--methods", "mean,hyperimpute"]
    main([*command, "--tasks", "iris mcar25"])
    said = capsys.readouterr().out
    assert "hyperimpute: left out: suite: imputer: expected a file table_imputers.py" in said
    assert "3/3 iris mcar25, mean, fold 2, seed 0: done" in said
    assert "## Failures\n\nNone.\n" in said
    with pytest.raises(SystemExit):
        main([*command, "--tasks", "wine mcar25"])
    assert capsys.readouterr().out.count("wine mcar25, mean, fold 0, seed 0: failed") == 1
    assert (tmp_path / "out" / "failures.txt").read_text().count("there is none") == 3
    main(["suite", "report", "tables24", "--out", str(tmp_path / "out")])
    assert "- wine mcar25, mean, fold 2, seed 0: failed: uci: expected " in capsys.readouterr().out


def test_entries_of_hours_count_as_done():
    keys = {str(job): job.key for job in plan(load_suite("tables24"))}
    assert {name: keys[name] for name in KEYS} == KEYS


def test_quick_methods_of_a_mask_are_run_first():
    suite = load_suite("tables24")
    chosen = [job for job in plan(suite) if job.task in ("iris mcar25", "wine mar25") and job.fold < 2]
    order = [(job.fold, job.method in suite.run_last) for job in in_order(suite, chosen)]
    assert order == sorted(order)
    first = [job.task for job in in_order(suite, chosen)][:9]
    assert first == ["iris mcar25"] * 8 + ["wine mar25"]
    assert in_order(replace(suite, run_last=()), chosen) == chosen


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("{n} t", "t", "two have the name 't'"),
        ("each: {n: [4, 5]}", "each: {n: 4}", "tasks.{n} t: each: expected lists of values by name"),
        ("each: {n: [4, 5]}, ", "", "expected names as text"),
        ("ranking: {}", "ranking: {reference: CSDI}", "suite: no method 'CSDI'; methods are mean"),
        ("ranking: {}", "ranking: {claims: 3}", "ranking.claims: expected a list, came int"),
        ("ranking: {}", "ranking: {claims: [{text: a}]}", "ranking.claims.groups: expected a value, came none"),
        ("ranking: {}", "ranking: 3", "ranking: expected settings by name, came 3"),
        ("ranking: {}", "run_last: [CSDI]", "suite: no method 'CSDI'"),
    ],
)
def test_wrong_settings_are_refused(old: str, new: str, match: str, tmp_path: Path):
    text = (
        'tasks: {"{n} t": {each: {n: [4, 5]}, data: {name: synthetic, options: {n_records: "{n}"}}}}\n'
        "methods: {mean: {imputer: mean}}\nranking: {}\n"
    )
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    assert {name: task.data.options["n_records"] for name, task in load_suite(path).tasks.items()} == {
        "4 t": 4,
        "5 t": 5,
    }
    path.write_text(text.replace(old, new))
    assert old in text
    with pytest.raises(ConfigError, match=match):
        load_suite(path)


def rows_of(values: dict[str, list[float]], metric: str = "rmse", mask: int = 0) -> pd.DataFrame:
    return pd.DataFrame(
        [(f"t{n}", mask, name, metric, x) for name, of_tables in values.items() for n, x in enumerate(of_tables)],
        columns=["table", "mask", "method", "metric", "value"],
    )


def test_ranks():
    nan = np.nan
    rows = rows_of({"a": [1, 1, nan, 1], "b": [2, 1, nan, nan], "c": [3, 0, nan, nan]})
    ranks = average_ranks(rows)
    np.testing.assert_allclose(ranks["mean"], [(1 + 2.5 + 1) / 3, (2 + 2.5 + 2.5) / 3, (3 + 1 + 2.5) / 3])
    assert set(ranks["n"]) == {3}
    assert ranks.loc[("c", "rmse"), "se"] == pytest.approx(np.std([3, 1, 2.5], ddof=1) / np.sqrt(3))
    masks = pd.concat([rows_of({"a": [1], "b": [2]}), rows_of({"a": [4], "b": [2]}, mask=1)])
    assert average_ranks(masks)["mean"].tolist() == [2, 1]  # of the means 2.5 and 2


def test_only_tables_that_all_ranked_methods_have_done():
    rows = rows_of({"flow_matching": [1, 1, 1, 1], "mean": [2, 2, 2], "slow": [3]})
    chosen = compared(rows, "flow_matching")
    assert (set(chosen.method), set(chosen.table)) == ({"flow_matching", "mean"}, {"t0", "t1", "t2"})
    assert set(compared(rows.loc[rows.method != "flow_matching"], "flow_matching").method) == {"mean"}
    assert compared(rows.loc[:-1], "flow_matching").empty


def test_metrics_by_steps_are_means_over_tables_that_all_have_done():
    suite = load_suite("tables24")
    values: dict[str, list[Any]] = {"flow_matching": [4.0, 6.0, 9.0], "flow_matching_75k": [1.0, 2.0], "mean": [7.0]}
    assert by_steps(suite, rows_of(values)) == {"rmse": {"flow_matching": [(5000, 5.0), (75000, 1.5)]}}
    assert by_steps(suite, rows_of({"flow_matching": [1.0], "diffusion": [1.0]})) == {}

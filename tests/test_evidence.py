"""What the documents say of the evidence is in the results, line by line and number by number."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tsimpute.config.settings import ProtocolConfig
from tsimpute.config.yaml_files import load_config
from tsimpute.evaluation.evaluate import evaluate
from tsimpute.evaluation.reporting import Report
from tsimpute.experiments.runs import load_windows, make_task
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.suites.jobs import plan
from tsimpute.suites.settings import load_suite
from tsimpute.suites.tables import value_text

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "evidence"


def tables() -> dict[str, dict[str, dict[str, str]]]:
    """task -> method -> column -> cell, of our own lines in tables.md."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for section in re.split(r"(?m)^## ", (RESULTS / "tables.md").read_text(encoding="utf-8"))[1:]:
        task, _, body = section.partition("\n")
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines() if line[:1] == "|"]
        if lines and lines[0][0] == "method":
            others = ("difference to", "printed by others")
            end = next((i for i, line in enumerate(lines) if line[0].startswith(others)), len(lines))
            found[task] = {line[0]: dict(zip(lines[0], line, strict=True)) for line in lines[2:end]}
    return found


def test_committed_trainings_count_as_done() -> None:
    """A new setting must not change the key of what was trained before it came."""
    keys = {entry["key"] for entry in json.loads((RESULTS / "entries.json").read_text(encoding="utf-8"))}
    trained = [job for job in plan(load_suite("evidence")) if job.config is not None]
    assert len(trained) == 20
    assert [str(job) for job in trained if job.key not in keys] == []


@pytest.mark.parametrize(
    ("name", "needs_files"),
    [("evidence", ["CSDI released weights"]), ("every_missing_cell", ["CSDI released weights"]), ("gaussian", [])],
)
def test_committed_entries_count_as_done(name: str, needs_files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TSIMPUTE_CSDI_WEIGHTS", raising=False)
    text = (RESULTS.parent / name / "entries.json").read_text(encoding="utf-8")
    committed = {tuple(entry["entry"].values()): entry["key"] for entry in json.loads(text)}
    jobs = {tuple(job.names.values()): job for job in plan(load_suite(name))}
    changed = [jobs[names].method for names, key in committed.items() if jobs[names].key != key]
    assert changed == needs_files  # the weights are not in the repository


@pytest.mark.parametrize("task", ["physionet_10", "pm25"])
def test_tables_are_those_of_the_metrics_beside_them(task: str) -> None:
    report = Report.read(RESULTS)
    asked = {"physionet_10": {"dataset": "physionet2012", "rate": 0.1, "split": "test"}, "pm25": {"dataset": "pm25"}}
    for method, line in tables()[task].items():
        epoch = None if line["epochs"] == "-" else int(line["epochs"])
        rows = report.where(
            feature="all", imputer=method, epoch=epoch, n_samples=int(line["samples"]), protocol="csdi", **asked[task]
        )
        for metric, column in (
            ("crps", "CRPS"),
            ("ncrps", "nCRPS"),
            ("mae_median", "MAE of median"),
            ("rmse_mean", "RMSE of mean"),
        ):
            assert value_text(rows.value(metric), None) == line[column]


def test_the_committed_weights_give_the_numbers_of_the_results(data_root: Path) -> None:
    """Where most is held out, so that much is asked for at once: the first 50 stays at 90 %, 12 draws."""
    run = RESULTS.parent / "physionet2012" / "laptop"
    of_run = load_config(run / "config.yaml").protocol
    task = make_task(load_windows("physionet2012", root=data_root), ProtocolConfig("csdi", rate=0.9, seed=of_run.seed))
    imputer = GenerativeImputer.load(run / "model.safetensors")
    report = evaluate(imputer, task.test.select(range(50)), n_samples=12, seed=0, scaler=task.scaler)
    results = Report.read(RESULTS).where(
        imputer="CFMI", epoch=84, split="test[:50]", rate=0.9, feature="all", n_samples=12
    )
    for metric in ("crps", "mae_median", "rmse_mean", "coverage_90"):
        assert report.value(metric) == pytest.approx(results.value(metric), rel=1e-3)

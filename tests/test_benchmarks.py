"""The baseline of the benchmarks computes what the package computes, and a benchmark's rows say all they promise."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import binom

from tsimpute.backbones.dual_transformer import DualTransformer
from tsimpute.core.containers import Condition, Prediction
from tsimpute.core.quantiles import quantiles
from tsimpute.models.csdi_weights import load_csdi_weights
from tsimpute.processes.diffusion import Diffusion
from tsimpute.solvers.one_step import OneStep
from tsimpute.testing._records import random_condition

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
KEYS = {
    "work", "variant", "data", "seconds", "ratio_to_reference", "peak_mib", "spread", "measured_fraction", "rounds",
    "records", "machine", "threads", "versions",
}  # fmt: skip


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a file of the folder, which is no package."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))

    def imported(name: str) -> Any:
        return __import__(name)

    yield imported
    for name in [name for name, m in sys.modules.items() if str(BENCHMARKS) in str(getattr(m, "__file__", ""))]:
        del sys.modules[name]


def all_hidden_to_fill(condition: Condition) -> Condition:
    """The reference puts noise into every cell that is not shown."""
    return replace(condition, query_mask=~condition.cond_mask)


@pytest.fixture
def pair(benchmarks: Any, tmp_path: Path) -> tuple[Any, DualTransformer]:
    """A small reference, and the dense network with its weights."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        reference = benchmarks("reference").ReferenceNetwork(3, width=16, n_heads=2, n_blocks=3, width_feature=4).eval()
        for weights in reference.parameters():  # large enough that every part is seen in what comes out
            weights.data += 0.3 * torch.randn_like(weights) if weights.ndim == 1 else 2 * weights.data
    torch.save(reference.state_dict(), tmp_path / "weights.pth")
    return reference, load_csdi_weights(tmp_path / "weights.pth")


def test_reference_equals_the_dense_network(pair: tuple[Any, DualTransformer]):
    reference, network = pair
    condition = all_hidden_to_fill(random_condition(5))
    state, level = torch.randn(5, 3, 8, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 7, 12, 30, 49])
    with torch.no_grad():
        expected = network(state, 1 - (level.double() + 1) / 50, condition)
        side = reference.side_information(condition.times, condition.cond_mask)
        output = reference(state, level, condition.values, condition.cond_mask, side)
    assert expected.std() > 0.1
    torch.testing.assert_close(output, expected, atol=1e-4, rtol=1e-4)


def test_reference_has_the_sizes_the_weights_and_the_schedule_of_the_original(benchmarks: Any, reference_root: Path):
    network = benchmarks("reference").ReferenceNetwork(35).eval()
    network.load_state_dict(torch.load(reference_root / "csdi_physionet2012.pth", map_location="cpu"))
    stored = {name: torch.from_numpy(array) for name, array in np.load(reference_root / "csdi_parity.npz").items()}
    torch.testing.assert_close(network.alpha_bar, Diffusion().alpha_bar.float())
    values, cond_mask, level = stored["values"], stored["cond_mask"].bool(), stored["steps"][2].expand(4).long()
    alpha_bar = network.alpha_bar[level][:, None, None]
    noisy = alpha_bar.sqrt() * values + (1 - alpha_bar).sqrt() * stored["noise"]
    with torch.inference_mode():
        side = network.side_information(torch.arange(48.0).expand(4, 48), cond_mask)
        output = network(noisy, level, values, cond_mask, side)
    expected = stored["predicted_noise"][2]
    assert (output - expected).abs().max() < 1e-4 * expected.abs().max()


def test_reference_sampler_equals_the_ancestral_solver(
    pair: tuple[Any, DualTransformer], monkeypatch: pytest.MonkeyPatch
):
    reference, network = pair
    condition = all_hidden_to_fill(random_condition(5))
    noise = torch.randn(50, 5, 3, 8, generator=torch.Generator().manual_seed(1))
    process, draws = Diffusion(), iter(noise)

    def predict(state: torch.Tensor, tau: torch.Tensor) -> Prediction:
        return process.predict(network(state, tau, condition), state, tau)

    with torch.no_grad():
        start, grid = next(draws), process.grid(50)
        expected = OneStep(eta=1.0).solve(predict, process.scales, start, grid, lambda: next(draws))
    again = iter(noise)
    monkeypatch.setattr(torch, "randn_like", lambda like: next(again))
    output = reference.draw(condition.values, condition.cond_mask, condition.times)
    assert next(draws, None) is None
    assert next(again, None) is None
    hidden = condition.query_mask
    assert (output - expected)[hidden].abs().max() < 1e-4 * expected[hidden].abs().max()
    assert torch.equal(output[~hidden], condition.values[~hidden])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc, which Linux has")
def test_rows_are_complete(benchmarks: Any, tmp_path: Path):
    speed = benchmarks("speed")
    assert speed.main(["--quick", "--threads", "1", "--variants", "reference", "--out", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "results.json").read_text())
    assert [row["work"] for row in rows] == ["impute_2_missing", "impute_2", "train_step", "forward"]
    for row in rows:
        assert set(row) == KEYS
        assert row["ratio_to_reference"] == 1
        assert row["spread"][0] <= row["seconds"] <= row["spread"][1]
        assert row["peak_mib"] > 1
    assert [row["measured_fraction"] for row in rows] == [2 / (50 * 2), 2 / (50 * 2), 1, 1]
    assert (tmp_path / "results.md").read_text().count("| reference |") == 4


def test_the_package_is_measured_by_its_own_loop_and_imputer(benchmarks: Any, tmp_path: Path):
    prepared = benchmarks("preparing").prepare("synthetic", 2, tmp_path / "synthetic")
    build, versions = benchmarks("worker_package").load()
    assert set(versions) == {"python", "torch", "tsimpute"}
    request = {"folder": str(tmp_path / "synthetic"), "samples": 2, "options": {"network": "dual_transformer"}}
    step = build(request | {"work": "train_step"})[0]
    assert [(step().step, step().step)] == [(1, 2)]
    output = build(request | {"work": "forward"})[0]()
    assert output.shape == prepared.batches[0].values.shape
    record = prepared.test.select([prepared.typical])
    for work, empty in (("impute_2", ~record.observed), ("impute_2_missing", np.zeros_like(record.observed))):
        run, fraction = build(request | {"work": work})
        samples = run()
        assert (samples.n_samples, fraction) == (2, 0.5)
        assert np.array_equal(np.isnan(samples.values[0]), empty)


def test_the_first_epoch_that_reaches_a_level_and_no_seconds_where_none_does(benchmarks: Any, tmp_path: Path) -> None:
    module = benchmarks("time_to_level")
    (tmp_path / "epochs.csv").write_text("epoch,step,seconds\n1,175,60\n2,350,120\n3,525,180\n")
    speed = tmp_path / "results.json"
    speed.write_text(
        json.dumps([{"data": "physionet2012", "work": "train_step", "variant": "reference", "seconds": 2.0}])
    )

    def row(*values: float, metric: str = "crps_mean_over_features", split: str = "test") -> Any:
        lines = [f"physionet2012,{split},{epoch},20,{metric},all,{value}" for epoch, value in enumerate(values, 1)]
        text = "\n".join(["dataset,split,epoch,n_samples,metric,feature,value", *lines])
        (tmp_path / "metrics.csv").write_text(text + "\nphysionet2012,test,1,20,crps_mean_over_features,Albumin,0.1\n")
        return module.of_run(tmp_path, speed)

    reached = row(0.3, 0.22, 0.1)
    assert (reached["steps"], reached["minutes"], reached["score"], reached["reached"]) == (350, 2.0, 0.22, True)
    assert reached["times_less"] == pytest.approx(35_000 * 2 / 120)
    missed = row(0.3, 0.24, 0.25)
    assert (missed["steps"], missed["score"], missed["reached"], missed["times_less"]) == (350, 0.24, False, None)
    with pytest.raises(ValueError, match="unpack"):
        row(0.1, split="valid")


def test_ratios_medians_and_scaling_to_the_whole_work(benchmarks: Any):
    speed = benchmarks("speed")
    answers = {
        ("d", "impute_4", "reference"): [{"seconds": s, "fraction": 0.1, "peak_mib": 5.0} for s in (3.0, 1.0, 2.0)],
        ("d", "impute_4", "ours"): [{"seconds": 4.0, "fraction": 1.0, "peak_mib": 7.0}],
    }
    asked = speed.parse(["--records", "4"])
    ours = speed.as_rows(answers, {"reference": {}, "ours": {}}, asked)[1]
    assert (ours["seconds"], ours["ratio_to_reference"], ours["rounds"]) == (4.0, 20.0 / 4.0, 1)


def test_absent_data_and_peers_are_said_and_left_out(
    benchmarks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    speed = benchmarks("speed")
    monkeypatch.setenv("TSIMPUTE_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setattr(speed, "variants", lambda: [speed.Variant("peer", python=tmp_path / "no_python")])
    assert speed.main(["--data", "pm25", "--out", str(tmp_path / "out")]) == 1
    printed = capfd.readouterr().err
    assert "pm25 is left out" in printed
    assert "peer is left out" in printed
    assert not (tmp_path / "out").exists()


# -- tables ------------------------------------------------------------------------------------------------------------


def test_holes_are_the_same_for_every_method_and_as_they_are_called(benchmarks: Any, tmp_path: Path) -> None:
    data = benchmarks("table_data")
    there = np.ones((2000, 6), bool)
    there[500:520, 1] = there[800:1000, 2] = False
    holes = {name: draw(there, np.random.default_rng(3)) for name, draw in data.HOLES.items()}
    for name, hidden in holes.items():
        assert not (hidden & ~there).any()
        assert 0.01 < hidden.sum() / there.sum() < 0.15
        assert np.array_equal(hidden, data.HOLES[name](there, np.random.default_rng(3)))
    out = holes["blackout"]
    assert (out.any(1) == (out | ~there).all(1)).all()  # all features at once
    assert sorted((holes["sensors"] | ~there).sum(0))[-2] >= 2000 // 3  # two of six sensors for a third of the time
    assert holes["own"].sum(0).tolist() == [0, 20, 200, 0, 0, 0]


def write_table(root: Path, name: str = "airq", n_steps: int = 300) -> None:
    rng = np.random.default_rng(0)
    folder = root / "tables"
    folder.mkdir(exist_ok=True)
    values = rng.normal(size=(n_steps, 3)).cumsum(0)
    stamps = np.datetime64("2020-01-01") + np.arange(n_steps) * np.timedelta64(1, "h")
    lines = [f"{stamp},{','.join(map(repr, row))}" for stamp, row in zip(stamps, values.tolist(), strict=True)]
    (folder / f"{name}.csv").write_text("time,a,b,c\n" + "\n".join(lines))


def test_a_table_is_filled_in_a_process_of_its_own_and_kept_once(benchmarks: Any, tmp_path: Path) -> None:
    write_table(tmp_path)
    tables, out = benchmarks("tables"), tmp_path / "out"
    for method in ("linear", "seasonal", "linear"):
        row = tables.in_a_process(tmp_path, ("airq", "random", method), 0, 60)
        assert row["mae"] > 0, row
        tables.keep(out, row)
    found = tables.rows(out)
    assert found["method"].tolist() == ["linear", "seasonal"]
    of_task = benchmarks("table_data").task(tmp_path, "airq", "random")
    lines = of_task.frame.interpolate("time", limit_direction="both").to_numpy()
    error = (np.abs(lines - of_task.truth) / of_task.scale)[of_task.hidden]
    np.testing.assert_allclose(found["mae"][0], error.mean(), rtol=1e-4)
    np.testing.assert_allclose(found["rmse"][0], np.sqrt((error**2).mean()), rtol=1e-4)
    assert (tables.to_do(out, (["airq"], ["random", "block"], ["linear"]), False)) == [("airq", "block", "linear")]
    tables.keep(out, tables.in_a_process(tmp_path, ("meteo", "random", "linear"), 0, 60))
    assert "FileNotFoundError" in tables.rows(out)["note"].iloc[-1]
    benchmarks("table_report").write_report(tables.rows(out), out)
    assert "**" in (out / "tables.md").read_text()
    assert (out / "tables.png").stat().st_size > 1000


def test_rows_side_by_side_say_why_one_has_no_scores(benchmarks: Any) -> None:
    jobs = benchmarks("table_jobs")

    def work(key: tuple[str, str, str]) -> dict[str, Any] | None:
        if key[0] == "busy":
            while True:
                pass
        if key[0] == "slow":
            time.sleep(60)
        if key[0] == "wrong":
            raise ValueError("no such thing")
        return None if key[0] == "none" else dict(zip(jobs.KEY, key, strict=True)) | {"mae": 1.0}

    keys = [(name, "random", "linear") for name in ("slow", "busy", "wrong", "none", "right")]
    outcomes = list(jobs.side_by_side(work, keys[1:], 2, jobs.Limits(wall=120, cpu=1)))
    outcomes += jobs.side_by_side(work, keys[:1], 2, jobs.Limits(wall=1))
    notes = {row["table"]: row.get("note") for row in outcomes if row is not None}
    assert notes == {
        "slow": "more than 1 s", "busy": "more than 1 CPU seconds", "wrong": "ValueError: no such thing", "right": None,
    }  # fmt: skip
    assert outcomes.count(None) == 1
    began = time.monotonic()
    assert list(jobs.side_by_side(work, keys[:1], 2, jobs.Limits(until=began + 0.5))) == []
    assert time.monotonic() - began < 30


def test_a_command_that_is_ended_ends_its_rows(benchmarks: Any, tmp_path: Path) -> None:
    def work(key: tuple[str, str, str]) -> None:
        if key[0] == "ends":
            while not (tmp_path / "pid").exists():
                time.sleep(0.01)
            os.kill(os.getppid(), signal.SIGTERM)
        (tmp_path / "new").write_text(str(os.getpid()))
        (tmp_path / "new").rename(tmp_path / "pid")
        time.sleep(120)

    jobs, before = benchmarks("table_jobs"), signal.getsignal(signal.SIGTERM)
    keys = [(name, "random", "linear") for name in ("slow", "ends")]
    with pytest.raises(SystemExit):
        list(jobs.side_by_side(work, keys, 2, jobs.Limits(wall=120)))
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_command_goes_on_where_it_was_stopped_and_merges(
    benchmarks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(tmp_path)
    write_table(tmp_path, "meteo", 400)
    tables, out = benchmarks("tables"), tmp_path / "out"

    def call(*options: str) -> list[str]:
        given = ["tables.py", "--data", str(tmp_path), "--tables", "airq", "meteo", "--holes", "random", *options]
        monkeypatch.setattr(sys, "argv", [*given, "--without-page"])
        tables.main()
        return capsys.readouterr().out.splitlines()

    first = call("--out", str(out), "--methods", "linear")
    assert [line.split("  ")[:3] for line in first] == [[name, "random", "linear"] for name in ("airq", "meteo")]
    printed = call("--out", str(out), "--methods", "linear", "LOCF", "--seconds", "0")
    assert printed == ["2 rows were not finished in 0 s; the same command goes on"]
    side_by_side = call("--out", str(out), "--methods", "linear", "LOCF", "--jobs", "2")
    assert {line.split("  ")[0] for line in side_by_side} == {"airq", "meteo"}
    both = tables.rows(out)
    assert both["method"].tolist() == ["linear", "LOCF"] * 2
    call("--out", str(tmp_path / "other"), "--methods", "linear", "--merge", str(out / "metrics.csv"))
    pd.testing.assert_frame_equal(tables.rows(tmp_path / "other"), both)
    keys = [("airq", "random", "linear"), ("meteo", "random", "linear"), ("airq", "random", "TableImputer auto")]
    assert tables.longest_first(tmp_path, keys) == [keys[2], keys[1], keys[0]]


def test_a_method_of_another_library_says_what_it_lacks(benchmarks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    peers = benchmarks("table_peers")
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": [2.0, 3.0, np.nan]})
    monkeypatch.setenv("TSIMPUTE_IMPUTEGAP_PYTHON", "nowhere")
    with pytest.raises(FileNotFoundError, match="install_imputegap"):
        peers.cdrec(frame)
    with pytest.raises(ValueError, match="two features"):
        peers.cdrec(frame[["a"]])


def test_an_answer_of_another_interpreter_is_in_the_units_of_the_table(
    benchmarks: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A stand-in for ImputeGAP under this interpreter fills with 0, which is the mean of what is known."""
    library = tmp_path / "imputegap/recovery"
    library.mkdir(parents=True)
    (tmp_path / "imputegap/__init__.py").touch()
    (library / "__init__.py").touch()
    (library / "imputation.py").write_text(
        "import numpy as np\n"
        "class Imputation:\n"
        "    class MatrixCompletion:\n"
        "        class CDRec:\n"
        "            def __init__(self, matrix): self.matrix = matrix\n"
        "            def impute(self): self.recov_data = np.nan_to_num(self.matrix)\n"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("TSIMPUTE_IMPUTEGAP_PYTHON", str(python))
    frame = pd.DataFrame({"a": [10.0, np.nan, 30.0], "b": [2.0, 3.0, np.nan]})
    filled = benchmarks("table_peers").cdrec(frame)
    np.testing.assert_allclose(filled.point, [[10, 2], [20, 3], [30, 2.5]])
    assert filled.seconds[1] >= 0


def test_the_page_compares_by_kind_of_hole_and_says_what_is_missing(benchmarks: Any, tmp_path: Path) -> None:
    tables = benchmarks("tables")
    errors = {
        ("airq", "random"): {"linear": 0.2, "LOCF": 0.4, "gaussian": 0.1},
        ("airq", "block"): {"linear": 0.2, "LOCF": 0.1, "gaussian": 0.2},
        ("meteo", "random"): {"linear": 0.3, "LOCF": 0.6},
    }
    for (table, holes), of_one in errors.items():
        for method, mae in of_one.items():
            key = {"table": table, "holes": holes, "method": method}
            tables.keep(tmp_path, key | {"mae": mae, "rmse": mae, "cpu_s": 1.0, "wall_s": 1.0, "peak_mib": 1.0})
    tables.keep(
        tmp_path, {"table": "meteo", "holes": "random", "method": "gaussian", "note": "more than 9 CPU seconds"}
    )
    benchmarks("table_report").write_report(tables.rows(tmp_path), tmp_path)
    page = (tmp_path / "tables.md").read_text()
    assert "| method | random (2) | block (1) |" in page
    assert "| linear | **1.000** | 2.000 |" in page  # of the methods with all rows the lowest
    assert "| gaussian | 0.500 (1) | 2.000 |" in page
    assert "| meteo | random | **0.300** | 0.600 | - |" in page
    assert "- meteo, random, gaussian: more than 9 CPU seconds" in page
    assert "right intervals" not in page
    (tmp_path / "attainable_coverage.csv").write_text("attainable,attainable_gaps_alone\n0.4,0.8\n0.6,1.0\n")
    benchmarks("table_report").write_report(tables.rows(tmp_path), tmp_path)
    assert "even right intervals hold 87 to 93 % on 50% of 2 rows" in (tmp_path / "tables.md").read_text()


def test_attainable_coverage_of_independent_cells_is_binomial_and_of_one_gap_rare(benchmarks: Any) -> None:
    attainable = benchmarks("attainable_coverage").attainable
    rng = np.random.default_rng(0)
    n_cells = 200
    shares = attainable(rng.normal(size=(1000, n_cells)), np.arange(n_cells))
    law = binom(n_cells, 0.9)
    exact = law.cdf(np.floor(0.93 * n_cells)) - law.cdf(np.ceil(0.87 * n_cells) - 1)
    for kind in ("", "_gaps_alone"):
        assert shares[f"attainable{kind}"] == pytest.approx(exact, abs=0.05)
        assert shares[f"spread{kind}"] == pytest.approx(law.std() / n_cells, rel=0.1)
    alike = attainable(np.repeat(rng.normal(size=(100, 1)), n_cells, 1), np.arange(n_cells))
    assert alike["attainable"] == 0, "the cells go together"
    assert alike["attainable_gaps_alone"] == pytest.approx(exact, abs=0.05)
    gap = np.arange(n_cells) // 20
    gaps = attainable(np.repeat(rng.normal(size=(100, 10)), 20, 1), gap)
    assert gaps["attainable_gaps_alone"] == pytest.approx(10 * 0.9**9 * 0.1, abs=0.05)


def test_coverage_of_a_draw_is_by_intervals_of_the_others_alone(benchmarks: Any) -> None:
    draws = np.random.default_rng(1).normal(size=(40, 7)).round(1)  # with ties
    inside = benchmarks("attainable_coverage").held(draws)
    for n, draw in enumerate(draws):
        low, high = quantiles(np.delete(draws, n, 0), [0.05, 0.95])
        assert (inside[n] == ((low <= draw) & (draw <= high))).all()
    right = benchmarks("attainable_coverage").held(np.random.default_rng(2).normal(size=(1000, 5)))
    assert (right.mean(0) == 0.9).all(), "the ends are ranks 50 and 950 of the 999 other draws"


def test_attainable_coverage_goes_on_where_it_was_stopped(
    benchmarks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(tmp_path)
    module, out = benchmarks("attainable_coverage"), tmp_path / "out"
    given = ["attainable_coverage.py", "--data", str(tmp_path), "--out", str(out), "--tables", "airq", "--holes"]
    monkeypatch.setattr(sys, "argv", [*given, "random"])
    module.main()
    (row,) = pd.read_csv(out / module.FILE).to_dict("records")
    assert row["n_cells"] == benchmarks("table_data").task(tmp_path, "airq", "random").hidden.sum()
    assert 0 <= row["attainable"] <= 1
    monkeypatch.setattr(module, "by_table_imputer", None)  # what is there is not computed again
    module.main()
    assert capsys.readouterr().out.endswith(f"on {row['attainable_gaps_alone']:.0%}\n")


def test_the_files_of_the_tables_are_copied_alone(benchmarks: Any, tmp_path: Path) -> None:
    data = benchmarks("table_data")
    for name in (*data.FILES, "tables/other.csv"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text("x")
    data.copy_files(tmp_path / "data", tmp_path / "copy")
    names = [
        path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*") if path.is_file()
    ]
    assert sorted(names) == sorted(data.FILES)


# -- a busy neighbour --------------------------------------------------------------------------------------------------


def test_a_busy_machine_is_not_measured_unless_forced(
    benchmarks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    busy, out = benchmarks("busy_neighbour"), tmp_path / "busy.csv"
    order: list[tuple[str, str | None]] = []

    def seconds(work: str, threads: str | None, steps: int) -> tuple[float, float]:
        order.append((work, threads))
        slow = 1.0 + len(order)  # the machine gets slower and slower
        return (2 * slow, 3 * slow) if threads is None else (slow, slow)

    monkeypatch.setattr(busy, "seconds", seconds)
    monkeypatch.setattr(busy.os, "getloadavg", lambda: (0.7, 0.1, 0.1))
    monkeypatch.setattr(sys, "argv", ["busy_neighbour.py", "--out", str(out), "--rounds", "2"])
    with pytest.raises(SystemExit, match=r"load of at most 0\.5 in the last minute, came 0\.70"):
        busy.main()
    assert not out.exists()
    assert not order
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--force"])
    busy.main()
    busy.main()
    assert order[:4] == [("instant", None), ("instant", "1"), ("network", None), ("network", "1")]
    assert order[4:8] == [(work, threads) for work in ("instant", "network") for threads in ("1", None)]
    rows = pd.read_csv(out)
    assert rows["work"].tolist() == ["instant", "network"] * 2
    assert rows["load_at_start"].tolist() == [0.7] * 4
    first = rows.iloc[0]
    assert first["wall_ratio"] == round((2 * 2 / 3 + 2 * 7 / 6) / 2, 2)  # of each round's ratio, not of all seconds
    assert (first["wall_ratio_lowest"], first["wall_ratio_highest"]) == (1.33, 2.33)
    assert first["default_cpu_s"] == (3 * 2 + 3 * 7) / 2


def test_no_round_begins_that_would_not_end_in_time(benchmarks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = benchmarks("busy_neighbour")
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr(busy.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(busy, "seconds", lambda work, threads, steps: (1.0, 1.0))
    assert len(busy.rounds_of(30, 5, -1.0)) == 1
    assert 1 < len(busy.rounds_of(30, 50, 100_000.0)) <= 50

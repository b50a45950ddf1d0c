"""The baseline of the benchmarks computes what the package computes, and a benchmark's rows say all they promise."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import random_condition

from tsimpute.backbones.csdi_weights import load_csdi_weights
from tsimpute.backbones.dual_transformer import DualTransformer
from tsimpute.containers import Condition, Prediction
from tsimpute.processes.diffusion import Diffusion
from tsimpute.solvers.one_step import OneStep

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
    return replace(condition, fill_mask=~condition.cond_mask)


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
        found = reference(state, level, condition.values, condition.cond_mask, side)
    assert expected.std() > 0.1
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


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
        found = network(noisy, level, values, cond_mask, side)
    expected = stored["predicted_noise"][2]
    assert (found - expected).abs().max() < 1e-4 * expected.abs().max()


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
    found = reference.draw(condition.values, condition.cond_mask, condition.times)
    assert next(draws, None) is None
    assert next(again, None) is None
    hidden = condition.fill_mask
    assert (found - expected)[hidden].abs().max() < 1e-4 * expected[hidden].abs().max()
    assert torch.equal(found[~hidden], condition.values[~hidden])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc, which Linux has")
def test_rows_are_complete(benchmarks: Any, tmp_path: Path):
    speed = benchmarks("speed")
    assert speed.main(["--quick", "--threads", "1", "--variants", "reference", "--out", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "results.json").read_text())
    assert [row["work"] for row in rows] == ["train_step", "forward", "impute_2"]
    for row in rows:
        assert set(row) == KEYS
        assert row["ratio_to_reference"] == 1
        assert row["spread"][0] <= row["seconds"] <= row["spread"][1]
        assert row["peak_mib"] > 1
    assert rows[2]["measured_fraction"] == 2 / (50 * 2)
    assert (tmp_path / "results.md").read_text().count("| reference |") == 3


def test_the_package_is_measured_by_its_own_loop_and_imputer(benchmarks: Any, tmp_path: Path):
    prepared = benchmarks("preparing").prepare("synthetic", 2, tmp_path / "synthetic")
    build, versions = benchmarks("worker_package").load()
    assert set(versions) == {"python", "torch", "tsimpute"}
    request = {"folder": str(tmp_path / "synthetic"), "samples": 2, "options": {"network": "dual_transformer"}}
    step = build(request | {"work": "train_step"})[0]
    assert [(step().step, step().step)] == [(1, 2)]
    output = build(request | {"work": "forward"})[0]()
    assert output.shape == prepared.batches[0].values.shape
    run, fraction = build(request | {"work": "impute_2"})
    samples = run()
    assert (samples.n_samples, fraction) == (2, 0.5)
    record = prepared.test.select([prepared.typical])
    assert np.array_equal(np.isnan(samples.values[0]), ~record.observed)


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
    said = capfd.readouterr().err
    assert "pm25 is left out" in said
    assert "peer is left out" in said
    assert not (tmp_path / "out").exists()


# -- tables ------------------------------------------------------------------------------------------------------------


def test_holes_are_the_same_for_every_method_and_as_they_are_called(benchmarks: Any, tmp_path: Path) -> None:
    data = benchmarks("table_data")
    there = np.ones((2000, 6), bool)
    there[500:520, 1] = there[800:1000, 2] = False
    found = {name: draw(there, np.random.default_rng(3)) for name, draw in data.HOLES.items()}
    for name, hidden in found.items():
        assert not (hidden & ~there).any()
        assert 0.01 < hidden.sum() / there.sum() < 0.15
        assert np.array_equal(hidden, data.HOLES[name](there, np.random.default_rng(3)))
    out = found["blackout"]
    assert (out.any(1) == (out | ~there).all(1)).all()  # all features at once
    assert sorted((found["sensors"] | ~there).sum(0))[-2] >= 2000 // 3  # two of six sensors for a third of the time
    assert found["own"].sum(0).tolist() == [0, 20, 200, 0, 0, 0]


def test_a_table_is_filled_in_a_process_of_its_own_and_kept_once(benchmarks: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    folder = tmp_path / "tables"
    folder.mkdir()
    values = rng.normal(size=(300, 3)).cumsum(0)
    stamps = np.datetime64("2020-01-01") + np.arange(300) * np.timedelta64(1, "h")
    lines = [f"{stamp},{','.join(map(repr, row))}" for stamp, row in zip(stamps, values.tolist(), strict=True)]
    (folder / "airq.csv").write_text("time,a,b,c\n" + "\n".join(lines))
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
    assert list(tables.to_do(out, (["airq"], ["random", "block"], ["linear"]), False)) == [("airq", "block", "linear")]
    tables.keep(out, tables.in_a_process(tmp_path, ("meteo", "random", "linear"), 0, 60))
    assert "FileNotFoundError" in tables.rows(out)["note"].iloc[-1]
    benchmarks("table_report").write_report(tables.rows(out), out)
    assert "**" in (out / "tables.md").read_text()
    assert (out / "tables.png").stat().st_size > 1000

"""A small edition of the study of 24 tables: two made-up tables, a few steps; and how methods are ranked."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("ot")
BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
METHODS = ["mean", "gaussian", "flow_matching", "flow_matching_default", "diffusion"]


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("tables24")


@pytest.mark.threads(1)
@pytest.mark.slow
def test_small_edition(study: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "uci").mkdir()
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"]).assign(c=1.0)
    frame["d"] = frame["a"] - frame["b"] + 0.1 * rng.normal(size=40)
    frame.assign(target=np.where(frame["a"] > 0, "x", "y")).to_csv(tmp_path / "uci" / "iris.csv", index=False)
    frame.assign(target=frame["a"] + 0.3).to_csv(tmp_path / "uci" / "yacht_hydrodynamics.csv", index=False)
    monkeypatch.setenv("TSIMPUTE_DATA", str(tmp_path))
    tables, out = ["--tables", "iris", "yacht_hydrodynamics"], tmp_path / "out"
    few = [*tables, "--mechanisms", "mar25", "--masks", "0", "--steps", "3"]
    study.main(["run", str(out), *few, "--methods", "mean", "flow_matching"])
    first = (out / "metrics.csv").read_text()
    study.main(["run", str(out), *few, "--methods", *METHODS])
    rows = study.read_metrics(out / "metrics.csv")
    assert (out / "metrics.csv").read_text().startswith(first)  # what is done is not done again
    assert not (out / "failures.txt").exists()
    assert not rows.duplicated(["table", "mechanism", "mask", "method", "metric"]).any()
    assert set(rows.groupby(["table", "mechanism", "mask"]).method.nunique()) == {len(METHODS)}
    assert set(rows[rows.table == "iris"].metric) == set(study.METRICS)
    assert set(rows[rows.table != "iris"].metric) == set(study.METRICS) - {"auroc_loss"}
    assert np.isfinite(rows.value).all()
    mean = rows[(rows.method == "mean") & (rows.metric == "rmse")]
    assert mean.value.between(0.6, 1.5).all()
    study.main(["run", str(out), *few, "--methods", "mean", "diffusion", "--steps", "4"])  # other settings: done again
    again = study.read_metrics(out / "metrics.csv")
    assert len(again) == len(rows)
    assert set(again.merge(rows, how="outer", indicator=True).query("_merge != 'both'").method) == {"diffusion"}
    study.main(["report", str(out), str(tmp_path / "results")])
    text = (tmp_path / "results" / "tables.md").read_text(encoding="utf-8")
    assert text.count("Ranked on 2 pairs of table and mask, 2 of 24 tables: iris, yacht_hydrodynamics.") == 1
    assert text.count("Nothing is done yet.") == 3
    assert text.count("not measured yet") == 13  # two tables are too few to judge a sentence
    monkeypatch.setattr(study, "FEWEST", 2)
    study.main(["report", str(out), str(tmp_path / "results")])
    text = (tmp_path / "results" / "tables.md").read_text(encoding="utf-8")
    assert text.count("not measured yet") == 12  # one of 13 sentences is on flow matching and diffusion alone
    assert (tmp_path / "results" / "ranks.png").stat().st_size > 5000


def rows_of(values: dict[str, list[float]], metric: str = "rmse", mask: int = 0) -> pd.DataFrame:
    return pd.DataFrame(
        [(f"t{n}", mask, name, metric, x) for name, of_tables in values.items() for n, x in enumerate(of_tables)],
        columns=["table", "mask", "method", "metric", "value"],
    )


def test_ranks(study: Any):
    nan = np.nan
    rows = rows_of({"a": [1, 1, nan, 1], "b": [2, 1, nan, nan], "c": [3, 0, nan, nan]})
    ranks = study.average_ranks(rows)
    np.testing.assert_allclose(ranks["mean"], [(1 + 2.5 + 1) / 3, (2 + 2.5 + 2.5) / 3, (3 + 1 + 2.5) / 3])
    assert set(ranks["n"]) == {3}
    assert ranks.loc[("c", "rmse"), "se"] == pytest.approx(np.std([3, 1, 2.5], ddof=1) / np.sqrt(3))
    masks = pd.concat([rows_of({"a": [1], "b": [2]}), rows_of({"a": [4], "b": [2]}, mask=1)])
    assert study.average_ranks(masks)["mean"].tolist() == [2, 1]  # of the means 2.5 and 2


def test_only_tables_that_all_ranked_methods_have_done(study: Any):
    rows = rows_of({"flow_matching": [1, 1, 1, 1], "mean": [2, 2, 2], "slow": [3]})
    chosen = study.compared(rows)
    assert (set(chosen.method), set(chosen.table)) == ({"flow_matching", "mean"}, {"t0", "t1", "t2"})
    assert set(study.compared(rows[rows.method != "flow_matching"]).method) == {"mean"}
    assert study.compared(rows[:0]).empty

"""The benchmark's imputers of other packages, with an interpreter and packages that stand in for theirs."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import DataError, MissingExtraError, TsimputeError

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
STAND_IN = """
import sys
from pathlib import Path
import numpy as np
package, folder, m = sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
assert sys.argv[5:] == ["n_t=3", "duplicate_K=100"], sys.argv
table = np.load(folder / "table.npy")
np.save(folder / "imputed.npy", np.stack([np.where(np.isnan(table), draw, table) for draw in range(m)]))
"""


def table() -> Windows:
    values = np.arange(12.0).reshape(6, 2, 1)
    values[1, 0] = values[4, 1] = np.nan
    return Windows(values, np.zeros((6, 1)), (Feature("a"), Feature("b")), tuple("uvwxyz"))


@pytest.fixture
def imputers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path}/stand_in.py" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("TSIMPUTE_FORESTDIFFUSION_PYTHON", str(python))
    return import_module("table_imputers")


def test_the_draws_of_the_worker_come_back_in_the_units_of_the_table(imputers: Any, tmp_path: Path) -> None:
    imputer = imputers.ForestDiffusion(n_imputations=2, n_t=3).fit(table())
    values = imputer.impute(table(), 3).values[..., 0]
    visible = ~np.isnan(table().values[..., 0])
    assert all((draw[visible] == table().values[..., 0][visible]).all() for draw in values)
    mean, std = imputer.scaler_.mean, imputer.scaler_.std
    np.testing.assert_allclose(values[:, 1, 0], [mean[0], mean[0] + std[0], mean[0]])  # two imputations, in turn
    imputer.save(tmp_path / "model")
    again = imputers.ForestDiffusion.load(tmp_path / "model")
    assert (again.impute(table(), 3).values[..., 0] == values).all()
    with pytest.raises(DataError, match=r"'new 0'.*training table"):
        again.impute(replace(table(), record_ids=tuple(f"new {n}" for n in range(6))), 1)


def test_what_is_not_there_and_what_fails_is_named(imputers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TsimputeError, match=r"forestdiffusion: the worker ended with code 1"):
        imputers.ForestDiffusion(n_t=4).fit(table())
    monkeypatch.setenv("TSIMPUTE_HYPERIMPUTE_PYTHON", "/nowhere/python")
    with pytest.raises(MissingExtraError, match=r"/nowhere/python is not there.*install_hyperimpute"):
        imputers.HyperImpute().fit(table())


def test_the_worker_puts_back_rows_and_columns_without_values(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS / "peers"))
    worker = import_module("worker_tables")

    class Model:
        def __init__(self, rows: np.ndarray, **settings: Any) -> None:
            assert not np.isnan(rows).all(1).any()
            assert settings["n_t"] == 7
            self.rows = rows

        def impute(self, k: int, repaint: bool) -> np.ndarray:
            return np.stack([np.where(np.isnan(self.rows), 9.0, self.rows)] * k)

    monkeypatch.setitem(sys.modules, "ForestDiffusion", SimpleNamespace(ForestDiffusionModel=Model))
    rows = np.array([[1.0, np.nan, 4.0], [np.nan] * 3, [3.0, np.nan, np.nan]])
    np.save(tmp_path / "table.npy", rows)
    worker.main("forestdiffusion", tmp_path, 2, {"n_t": 7})
    expected = [[1.0, 0.0, 4.0], [2.0, 0.0, 4.0], [3.0, 0.0, 9.0]]
    assert (np.load(tmp_path / "imputed.npy") == [expected] * 2).all()
    assert set(json.loads((tmp_path / "seconds.json").read_text())) == {"wall_s", "cpu_s"}

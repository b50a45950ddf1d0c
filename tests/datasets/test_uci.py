"""The 24 tables: as published where they are there; what is broken is named by file, line and column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tsimpute.datasets.uci import NUMERIC_TARGETS, TABLES, UCI
from tsimpute.errors import ConfigError, DataError, SourceError
from tsimpute.experiments.runs import load_windows


@pytest.fixture(scope="module")
def root(data_root: Path) -> Path:
    if not (data_root / "uci").is_dir():
        pytest.skip("REAL DATA ABSENT: expected a folder uci/ in TSIMPUTE_DATA")
    return data_root


@pytest.mark.parametrize("table", TABLES)
def test_published_tables(table: str, root: Path):
    adapter = UCI(table)
    windows, target = load_windows("uci", root, table=table), adapter.target(root)
    card = (Path(__file__).parents[2] / "datasets" / "uci.md").read_text(encoding="utf-8").split("## Shape")[1]
    row = next(line.split(" | ") for line in card.splitlines() if line.startswith(f"| {table} |"))
    assert windows.values.shape == (int(row[1]), int(row[2]), 1)
    assert windows.observed.all()
    assert adapter.is_numeric == (table in NUMERIC_TARGETS) == (target.dtype == np.float64)
    if not adapter.is_numeric:
        assert len(set(target)) == int(row[4].rstrip(" |"))
    lines = (root / "uci" / f"{table}.csv").read_text(encoding="utf-8").splitlines()
    assert [",".join(f.name for f in windows.features), "target"] == lines[0].rsplit(",", 1)
    np.testing.assert_array_equal([float(x) for x in lines[-1].split(",")[:-1]], windows.values[-1, :, 0])
    assert str(target[0]) in (
        lines[1].split(",")[-1],
        str(float(lines[1].split(",")[-1]) if adapter.is_numeric else ""),
    )
    assert windows.record_ids == tuple(sorted(windows.record_ids))


def test_published_files_are_verified_and_rows_that_bite_are_there(root: Path):
    UCI().verify(root)
    assert np.ptp(load_windows("uci", root, table="ionosphere").values[:, 1]) == 0
    blood = load_windows("uci", root, table="blood_transfusion").values[:, :, 0]
    np.testing.assert_array_equal(blood[:, 2], 250 * blood[:, 1])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "a,b,target\n1,2,x\n3,oak,y\n",
            r"iris.csv, line 3, column 'b': expected a finite number or nothing, came 'oak'",
        ),
        ("a,b,target\n1,2,x\n3,inf,y\n", r"line 3, column 'b': expected a finite number"),
        ("a,b,target\n1,2,x\n3,y\n", r"line 3: expected 3 cells, came 2"),
        ("a,b,target\n", r"expected a header that ends with 'target' and rows below it"),
        ("", r"expected a header that ends with 'target'"),
        ("a,b,c\n1,2,3\n", r"expected a header that ends with 'target'.*came \['a', 'b', 'c'\]"),
        ("target\n1\n", r"expected a header"),
    ],
)
def test_broken_files(tmp_path: Path, text: str, says: str):
    (tmp_path / "iris.csv").write_text(text)
    with pytest.raises(DataError, match=says):
        UCI().load(tmp_path)


def test_small_tables(tmp_path: Path):
    (tmp_path / "iris.csv").write_text("a,target\n,x\n")
    windows = UCI().load(tmp_path)
    assert (windows.values.shape, windows.observed.any()) == ((1, 1, 1), False)
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "yacht_hydrodynamics.csv").write_text("a,target\n1,oak\n")
    with pytest.raises(DataError, match="line 2, column 'target': expected a finite number, came 'oak'"):
        UCI("yacht_hydrodynamics").load(tmp_path / "uci")
    with pytest.raises(SourceError, match=r"expected .*glass.csv; there is none"):
        UCI("glass").load(tmp_path)
    with pytest.raises(DataError, match="sha256"):
        UCI().verify(tmp_path)
    with pytest.raises(ConfigError, match="expected one of airfoil_self_noise, banknote"):
        UCI("boston")
